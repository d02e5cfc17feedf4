"""Each parser on tiny files in the layout of the real ones."""

from __future__ import annotations

import numpy as np
import pytest

from anytime.datasets.bundled import patches, runs
from anytime_research.datasets import DataFormatError, load
from anytime_research.datasets.public import ENTRIES


def test_names_are_unique_and_groups_never_outnumber_columns_without_steps():
    found = [entry.about.name for entry in ENTRIES]
    assert len(set(found)) == len(found)
    for entry in ENTRIES:
        if entry.about.unit in ("columns", "groups"):
            assert entry.about.groups <= entry.about.columns


def test_adult_words_become_codes_over_both_files(put, sized):
    row = "{}, {}, 77516, Bachelors, 13, Single, {}, Own, White, Male, 2174, 0, 40, {}, {}\n"
    put(
        "adult/adult.data",
        row.format(39, "State", "Clerk", "Peru", "<=50K") + row.format(50, "?", "?", "Chad", ">50K"),
    )
    put("adult/adult.test", row.format(25, "Private", "Guard", "Oman", ">50K."))
    sized("adult", rows=3)
    data = load("adult")
    assert data.y.tolist() == [0, 1, 1]
    assert data.target_names == ("<=50K", ">50K")
    assert data.train.tolist() == [0, 1]
    assert data.test.tolist() == [2]
    assert data.categories["native-country"] == ("Chad", "Oman", "Peru")
    assert data.X[:, 13].tolist() == [2, 0, 1]
    assert np.isnan(data.X[1, [1, 6]]).all()
    assert data.X[0, [0, 2]].tolist() == [39, 77516]


def test_a9a_groups_are_the_attributes(put, sized):
    put("a9a/a9a", "-1 3:1 11:1 \n+1 5:1 123:1\n")
    put("a9a/a9a.t", "-1 1:1 123:0 \n")
    sized("a9a", rows=3)
    data = load("a9a")
    assert data.y.tolist() == [0, 1, 0]
    assert list(data.costs.groups["age"]) == [0, 1, 2, 3, 4]
    assert data.feature_names[10] == "workclass 6"
    assert data.X.sum() == 5
    assert data.test.tolist() == [2]


def test_vote_is_coded_in_declared_order(put, sized):
    attributes = "".join(f"@attribute 'v{k}' {{ 'n', 'y'}}\n" for k in range(16))
    row = ",".join(["'n'", "'y'", "?"] + ["'y'"] * 13)
    put("nan9/vote.arff", f"{attributes}@attribute Class {{'dem', 'rep'}}\n@data\n{row},'rep'\n{row},'dem'\n")
    sized("vote", rows=2)
    data = load("vote")
    assert data.y.tolist() == [1, 0]
    assert data.X[0, :2].tolist() == [0, 1]
    assert np.isnan(data.X[:, 2]).all()
    assert data.categories["v0"] == ("n", "y")


def test_a_word_outside_its_declaration_is_an_error(put):
    put("nan9/vote.arff", "@attribute a {x,y}\n@attribute c {0,1}\n@data\nz,0\n")
    with pytest.raises(DataFormatError, match="column 'a' holds 'z'"):
        load("vote")


def idx(array):
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">i4").tobytes()
    return head + array.astype(np.uint8).tobytes()


def test_mnist_pixels_in_patches(put, sized):
    rng = np.random.default_rng(0)
    images = {"train": rng.integers(256, size=(3, 28, 28)), "t10k": rng.integers(256, size=(2, 28, 28))}
    for part, pixels in images.items():
        put(f"mnist/{part}-images-idx3-ubyte", idx(pixels))
        put(f"mnist/{part}-labels-idx1-ubyte", idx(np.arange(len(pixels))))
    sized("mnist", rows=5)
    data = load("mnist")
    assert data.X.dtype == np.float32
    assert (data.X[3:].reshape(2, 28, 28) == images["t10k"]).all()
    assert data.y.tolist() == [0, 1, 2, 0, 1]
    patch = data.X[0, list(data.costs.groups["patch 2,6"])].reshape(4, 4)
    assert (patch == images["train"][0, 8:12, 24:28]).all()


def test_mnist_with_too_few_labels(put):
    put("mnist/train-images-idx3-ubyte", idx(np.zeros((3, 28, 28))))
    put("mnist/train-labels-idx1-ubyte", idx(np.zeros(2)))
    with pytest.raises(DataFormatError, match=r"train-labels.*2 labels for 3 images"):
        load("mnist")


def test_satimage_bands_hold_nine_pixels_each(put, sized):
    for part, label in (("trn", 1), ("tst", 7)):
        put(f"satimage/sat.{part}", " ".join(map(str, [*range(36), label])) + "\n")
    sized("satimage", rows=2)
    data = load("satimage")
    assert data.X[0, list(data.costs.groups["band 2"])].tolist() == [1, 5, 9, 13, 17, 21, 25, 29, 33]
    assert data.y.tolist() == [0, 5]
    assert data.target_names[5] == "very damp grey soil"


def test_covtype_is_cut_at_the_official_rows(put, sized):
    row = ",".join(["-5"] * 10 + ["0"] * 44)
    put("covtype/covtype.data", "".join(f"{row},{k % 7 + 1}\n" for k in range(15130)))
    sized("covtype", rows=15130)
    data = load("covtype")
    assert [len(part) for part in (data.train, data.valid, data.test)] == [11340, 3780, 10]
    assert data.X.dtype == np.float32
    assert data.X[0, 0] == -5
    assert data.costs.names[-2:] == ("wilderness area", "soil type")


def test_higgs_masses_require_all_particles(put, sized):
    for part in ("train", "test"):
        put(f"higgs-sample/binary.{part}", "\t".join(["1"] + ["0.5"] * 28) + "\n")
    sized("higgs-sample", rows=2)
    costs = load("higgs-sample").costs
    assert costs.price(["masses"]) == costs.total == 7


@pytest.mark.parametrize(
    ("fold", "train", "valid", "test"),
    [
        (1, [1, 2, 3], 4, 5),
        (2, [2, 3, 4], 5, 1),
        (3, [3, 4, 5], 1, 2),
        (4, [4, 5, 1], 2, 3),
        (5, [5, 1, 2], 3, 4),
    ],
)
def test_mq2008_folds_go_round(put, sized, fold, train, valid, test):
    for k in range(1, 6):
        put(f"mq2008/S{k}.txt", f"1 qid:{k} 1:0.5 44:1 #docid\n" * k)
    sized("mq2008", rows=15)
    data = load("mq2008", fold=fold)
    assert set(data.folds[data.train]) == set(train)
    assert set(data.folds[data.valid]) == {valid}
    assert set(data.folds[data.test]) == {test}
    assert len(data.train) + len(data.valid) + len(data.test) == 15
    assert (data.qid == data.folds).all()
    assert [data.feature_names[j] for j in data.costs.groups["url"]][-2:] == ["url slashes", "url length"]


def test_a_fold_that_does_not_exist(put):
    with pytest.raises(ValueError, match="fold must be from 1 to 5, not 6"):
        load("mq2008", fold=6)


def test_regression_folds_are_the_columns_of_the_mask(put, sized):
    put("regression/kin40k.data.csv", "".join(",".join(map(str, range(9))) + "\n" for _ in range(20)))
    put(
        "regression/kin40k.test_mask.csv",
        "".join(",".join("01"[j == k % 10] for j in range(10)) + "\n" for k in range(20)),
    )
    sized("kin40k", rows=20)
    data = load("kin40k", fold=3)
    assert data.test.tolist() == [2, 12]
    assert len(data.train) == 18
    assert (data.y == 8).all()
    put("regression/kin40k.test_mask.csv", "0,1\n" * 19)
    with pytest.raises(DataFormatError, match="exactly one fold"):
        load("kin40k")


def test_lgb_rank_takes_queries_from_their_sizes(put, sized):
    for part, sizes in (("train", "1\n2\n"), ("test", "2\n")):
        put(f"lgb-rank/rank.{part}", "3 1:0.7 300:0.1\n" * sum(map(int, sizes.split())))
        put(f"lgb-rank/rank.{part}.query", sizes)
    sized("lgb-rank", rows=5)
    data = load("lgb-rank")
    assert data.qid.tolist() == [0, 1, 1, 2, 2]
    assert data.test.tolist() == [3, 4]
    put("lgb-rank/rank.test.query", "3\n")
    with pytest.raises(DataFormatError, match="the queries have 6 documents, but there are 5"):
        load("lgb-rank")


def test_musk_keeps_molecules_as_blocks(put, sized):
    head = "\t".join(["molecule_name", "conformation_name", *(f"f{k}" for k in range(1, 167)), "target"])
    rows = ["\t".join(map(str, [molecule, k, *range(166), k % 2])) for k, molecule in enumerate((4, 4, 9))]
    put("musk/clean1.tsv", "\n".join([head, *rows]) + "\n")
    sized("musk1", rows=3)
    data = load("musk1")
    assert data.blocks.tolist() == [4, 4, 9]
    assert data.feature_names[0] == "f1"
    assert data.X[0].tolist() == list(range(166))


def test_abalone_sex_is_one_group_of_three_columns(put, sized):
    put("abalone/abalone.data", "M,1,2,3,4,5,6,7,15\nI,1,2,3,4,5,6,7,9\n")
    sized("abalone", rows=2)
    data = load("abalone")
    assert data.X[:, :4].tolist() == [[1, 0, 0, 1], [0, 0, 1, 1]]
    assert data.costs.groups["sex"] == (0, 1, 2)
    assert data.y.tolist() == [15, 9]


def test_mushroom_letters_and_the_missing_root(put, sized):
    put(
        "mushroom/agaricus-lepiota.data",
        "p,x,s,n,t,p,f,c,n,k,e,?,s,s,w,w,p,w,o,p,k,s,u\ne,b,s,y,t,a,f,c,b,k,e,c,s,s,w,w,p,w,o,p,n,n,g\n",
    )
    sized("mushroom", rows=2)
    data = load("mushroom")
    assert data.y.tolist() == [1, 0]
    assert data.categories["cap-shape"] == ("b", "x")
    assert data.X[:, 0].tolist() == [1, 0]
    assert np.isnan(data.X[0, 10])


def test_runs_and_patches_cover_every_column_once():
    assert sorted(j for columns in runs({"a": 2, "b": 0, "c": 3}).values() for j in columns) == list(range(5))
    assert sorted(j for columns in patches(28, 4).values() for j in columns) == list(range(784))
