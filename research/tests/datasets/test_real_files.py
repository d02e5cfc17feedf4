"""The real files against what is published about them. Collected only where ANYTIME_DATA names a folder."""

from __future__ import annotations

import os
from itertools import permutations
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from anytime.datasets.bundled import BUNDLED
from anytime.datasets.heart import HEART
from anytime_research.datasets import (
    describe,
    load,
    load_nasbench201,
    load_ptb,
    load_yahoo_costs,
    names,
)
from anytime_research.datasets.registry import FROM_FILES

pytestmark = pytest.mark.slow

FOLDER = Path(os.environ.get("ANYTIME_DATA", "."))
PUBLIC = [entry.about.name for entry in FROM_FILES]

# Rows of each official part (or of the whole), features, classes. Features count a one-hot attribute once where the
# documentation of the set does (abalone).
PUBLISHED = {
    "pima": ([768], 8, 2),
    "hepatitis": ([155], 19, 2),
    "bupa": ([345], 5, 2),
    "thyroid": ([3772, 3428], 21, 3),
    "ASP-POTASSCO": ([1294], 138, 11),
    "GRAPHS-2015": ([5725], 35, 7),
    "SAT11-HAND": ([296], 115, 15),
    "SAT11-INDU": ([300], 115, 18),
    "SAT11-RAND": ([600], 115, 9),
    "SAT12-INDU": ([1167], 115, 31),
    "mq2008": ([15211], 46, None),
    "lgb-rank": ([3005, 768], 300, None),
    "pendigits": ([7494, 3498], 16, 10),
    "letter": ([16000, 4000], 16, 26),
    "satimage": ([4435, 2000], 36, 6),
    "covtype": ([11340, 3780, 565892], 54, 7),
    "connect-4": ([67557], 42, 3),
    "segment": ([1500, 810], 19, 7),
    "mfeat": ([2000], 649, 10),
    "musk1": ([476], 166, 2),
    "musk2": ([6598], 166, 2),
    "spambase": ([4601], 57, 2),
    "magic": ([19020], 10, 2),
    "mushroom": ([8124], 22, 2),
    "mushroom-onehot": ([6513, 1611], 126, 2),
    "adult": ([32561, 16281], 14, 2),
    "a9a": ([32561, 16281], 123, 2),
    "a1a": ([1605, 30956], 123, 2),
    "poker": ([25010], 10, 10),
    "higgs-sample": ([7000, 500], 28, 2),
    "sonar": ([208], 60, 2),
    "ionosphere": ([351], 34, 2),
    "vote": ([435], 16, 2),
    "soybean": ([683], 35, 19),
    "dna": ([3186], 180, 3),
    "mammographic": ([830], 5, 2),
    "wdbc": ([569], 30, 2),
    "breast-cancer-wisconsin": ([699], 9, 2),
    "housing": ([506], 13, None),
    "wine-quality": ([6497], 11, None),
    "wine-quality-red": ([1599], 11, None),
    "wine-quality-white": ([4898], 11, None),
    "abalone": ([3133, 1044], 8, None),
    "cpu-act": ([8192], 21, None),
    "cpu-small": ([8192], 12, None),
    "pol": ([15000], 26, None),
    "kin40k": ([40000], 8, None),
    "pumadyn32nm": ([8192], 32, None),
    "mnist": ([60000, 10000], 784, 10),
    "fashion-mnist": ([60000, 10000], 784, 10),
    "miniboone-small": ([2000, 1000, 2000], 50, 2),
}
SCENARIOS = [name for name in PUBLIC if describe(name).unit == "s"]
TESTED = ["pima", "hepatitis", "bupa", "thyroid"]


def test_every_set_that_load_knows_is_checked_here():
    assert set(PUBLISHED) == set(PUBLIC) == set(names()) - {entry.about.name for entry in [*BUNDLED, HEART]}


@pytest.mark.parametrize("name", PUBLIC)
def test_counts_are_the_published_ones(name):
    sizes, features, classes = PUBLISHED[name]
    about, data = describe(name), load(name)
    assert len(data.y) == len(data.X) == sum(sizes) == about.rows
    assert (len(data.costs.groups) if name == "abalone" else data.X.shape[1]) == features
    assert data.X.shape[1] == about.columns == len(data.feature_names)
    assert len(data.costs.names) == about.groups
    assert data.costs.unit == about.unit
    if len(sizes) > 1:
        parts = [part for part in (data.train, data.valid, data.test) if part is not None]
        assert [len(part) for part in parts] == sizes
    if classes is None:
        assert data.target_names is None
    else:
        assert len(data.target_names) == classes
        assert set(np.unique(data.y)) <= set(range(classes))
        # In a scenario a solver may be the fastest nowhere; everywhere else every class occurs.
        assert name in SCENARIOS or len(np.unique(data.y)) == classes
    data.costs.bind(data.X.shape[1], data.feature_names)
    data.costs.bind(data.X.shape[1])


def test_every_class_label_is_numbered_as_in_the_file():
    for name, positive in {
        "magic": 12332,
        "spambase": 1813,
        "mushroom": 3916,
        "sonar": 111,
        "ionosphere": 225,
    }.items():
        assert load(name).y.sum() == positive
    assert np.bincount(load("breast-cancer-wisconsin").y).tolist() == [458, 241]
    assert np.bincount(load("hepatitis").y).tolist() == [123, 32]
    assert np.bincount(load("pima").y).tolist() == [500, 268]
    assert np.bincount(load("thyroid").y).tolist() == [166, 368, 6666]
    assert np.bincount(load("connect-4").y).tolist() == [6449, 16635, 44473]
    assert np.bincount(load("covtype").y).tolist() == [211840, 283301, 35754, 2747, 9493, 17367, 20510]


def test_missing_values_are_counted():
    missing = {
        "heart": 6,
        "hepatitis": 167,
        "pima": 652,
        "breast-cancer-wisconsin": 16,
        "vote": 392,
        "adult": 6465,
    }
    for name, count in {**missing, "mushroom": 2480, "soybean": 2337}.items():
        assert np.isnan(load(name).X).sum() == count


# ---------------------------------------------------------------------- groups


def test_a9a_groups_are_those_on_file_and_at_most_one_column_is_active():
    data = load("a9a")
    listed = pd.read_csv(FOLDER / "a9a/groups.csv")
    expected = {
        row.attribute: tuple(range(row.first_index - 1, row.last_index)) for row in listed.itertuples()
    }
    assert data.costs.groups == expected
    for columns in expected.values():
        assert (data.X[:, list(columns)].sum(axis=1) <= 1).all()


def test_each_mushroom_attribute_has_exactly_one_active_column():
    data = load("mushroom-onehot")
    for columns in data.costs.groups.values():
        assert (data.X[:, list(columns)].sum(axis=1) == 1).all()


def test_mq2008_streams_are_those_on_file():
    data = load("mq2008")
    listed = pd.read_csv(FOLDER / "mq2008/features.csv")
    assert list(data.feature_names) == listed["feature"].tolist()
    for stream, rows in listed.groupby("stream"):
        assert data.costs.groups[str(stream)] == tuple(rows["index"] - 1)
    assert len(np.unique(data.qid)) == 784


def test_one_hot_groups_of_covtype_and_dna():
    covtype, dna = load("covtype"), load("dna")
    for group in ("wilderness area", "soil type"):
        assert (covtype.X[:, list(covtype.costs.groups[group])].sum(axis=1) == 1).all()
    for columns in dna.costs.groups.values():
        assert (dna.X[:, list(columns)].sum(axis=1) <= 1).all()


def test_mq2008_and_lgb_rank_queries_stay_on_one_side():
    for name in ("mq2008", "lgb-rank"):
        data = load(name)
        assert not set(data.qid[data.train]) & set(data.qid[data.test])
    assert len(np.unique(load("lgb-rank").qid)) == 251


# ---------------------------------------------------------------------- Turney


@pytest.mark.parametrize("name", TESTED)
def test_graph_charges_what_the_price_list_says_in_every_order(name):
    """All orders of the tests of each discount group, against full and discount prices on file."""
    costs = load(name).costs
    listed = pd.read_csv(FOLDER / name / "costs.csv").set_index("feature")
    computed = ["FTI"] if name == "thyroid" else []
    for _, grouped in listed.groupby("group"):
        for order in permutations(grouped.index):
            charges = [costs.price([test], bought=order[:k]) for k, test in enumerate(order)]
            bill = [grouped.cost_full[order[0]], *grouped.cost_discount[list(order[1:])]]
            assert charges == pytest.approx(bill, abs=1e-9)
    alone = listed[listed["group"].isna()].drop(index=computed)
    assert {test: costs.price([test]) for test in alone.index} == alone["cost_full"].to_dict()
    assert costs.price(listed.index) == pytest.approx(
        alone["cost_full"].sum() + sum(g.cost_discount.sum() + _shared(g) for _, g in listed.groupby("group"))
    )


def _shared(grouped):
    saved = (grouped.cost_full - grouped.cost_discount).round(2).unique()
    assert len(saved) == 1
    return saved[0]


def test_full_prices_are_those_of_the_original_files():
    for name, file in (("heart", "heart-disease.cost"), ("thyroid", "ann-thyroid.cost")):
        costs = load(name).costs
        for line in (FOLDER / name / file).read_text().split("\n"):
            if ":" in line:
                test, price = (word.strip() for word in line.split(":"))
                assert test == "FTI" or costs.price([test]) == pytest.approx(float(price))


# ---------------------------------------------------------------------- algorithm selection


@pytest.mark.parametrize("name", SCENARIOS)
def test_steps_are_those_on_file(name):
    data = load(name)
    steps = pd.read_csv(FOLDER / "aslib" / name / "steps.csv", keep_default_na=False)
    for step, rows in steps.groupby("step"):
        assert set(data.costs.requires.get(step, ())) == set(rows["requires"].iloc[0].split(";")) - {""}
        listed, held = set(rows["feature"]), {data.feature_names[j] for j in data.costs.groups[step]}
        assert listed - held == ({"Choices-4"} if step == "Dynamic-3" else set())
        assert held <= listed


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_step_without_a_time_has_no_values_either(name):
    data = load(name)
    for g, columns in enumerate(data.costs.groups.values()):
        assert np.isnan(data.X[np.isnan(data.row_costs[:, g])][:, list(columns)]).all()
    assert np.nanmin(data.row_costs) >= 0
    np.testing.assert_allclose(np.nanmean(data.row_costs, axis=0), list(data.costs.prices.values()))


def test_choices_4_is_missing_exactly_where_dynamic_4_was_not_run():
    data = load("ASP-POTASSCO")
    j = data.feature_names.index("Choices-4")
    assert (np.isnan(data.X[:, j]) == np.isnan(data.row_costs[:, data.costs.names.index("Dynamic-4")])).all()
    assert not (
        np.isnan(data.X[:, j]) == np.isnan(data.row_costs[:, data.costs.names.index("Dynamic-3")])
    ).all()


@pytest.mark.parametrize(
    ("name", "unsolved", "cutoff"),
    [
        ("ASP-POTASSCO", 82, 600),
        ("GRAPHS-2015", 117, 1e5),
        ("SAT11-HAND", 77, 5000),
        ("SAT11-INDU", 47, 5000),
        ("SAT11-RAND", 108, 5000),
        ("SAT12-INDU", 209, 1200),
    ],
)
def test_labels_and_time_outs(name, unsolved, cutoff):
    data = load(name)
    some = data.solved.any(axis=1)
    assert (~some).sum() == unsolved
    assert len(load(name, unsolved="drop").y) == len(data.y) - unsolved
    assert (data.runtimes[~data.solved] == cutoff).all()
    assert (data.runtimes[data.solved] < cutoff).all()
    seconds = np.where(data.solved, data.runtimes, np.inf)
    assert (seconds[np.arange(len(data.y)), data.y][some] == seconds.min(axis=1)[some]).all()
    assert len(np.unique(data.y[~some])) == 1
    assert set(data.folds) == set(range(1, 11))
    fold = load(name, fold=10)
    assert (data.folds[fold.test] == 10).all()


# ---------------------------------------------------------------------- no tables of examples


def test_ptb_counts():
    text = load_ptb()
    assert (len(text.train), len(text.valid), len(text.test)) == (929589, 73760, 82430)
    assert len(text.vocabulary) == 10000


@pytest.mark.parametrize("images", ["cifar10", "cifar100"])
def test_nasbench_lists_every_architecture(images):
    table = load_nasbench201(images)
    assert len(table) == 15625 == table.index.nunique()
    assert set("".join(table.index)) == set("01234")
    assert (table[["latency_s", "train_time_s"]] > 0).all().all()


def test_yahoo_price_counts():
    prices = list(load_yahoo_costs().prices.values())
    counts = {price: prices.count(price) for price in sorted(set(prices))}
    assert counts == {1: 123, 5: 31, 20: 191, 50: 125, 100: 16, 150: 32, 200: 1}
