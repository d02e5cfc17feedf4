"""The public sets that can be read from the user's data folder: one entry each, most of them a table description."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anytime.datasets.dataset import Dataset, Listing
from anytime_research.datasets import columns as c
from anytime_research.datasets.aslib import Scenario
from anytime_research.datasets.special import (
    Folded,
    Musk,
    read_abalone,
    read_lgb_rank,
    read_mfeat,
    read_mq2008,
)
from anytime_research.datasets.tables import ArffTable, DelimitedTable, ImageFiles, SparseTable

__all__ = ["ENTRIES"]


UCI = {"licence": "CC BY 4.0", "source": "UCI Machine Learning Repository"}


def _entry(
    name: str,
    shape: tuple[int, int, int],
    task: str,
    summary: str,
    read: Callable[..., Dataset],
    **facts: Any,
) -> Listing:
    unit = "columns" if shape[1] == shape[2] else "groups"
    return Listing.of(name, shape, task, summary, read, **{"unit": unit, **UCI, **facts})


# ---------------------------------------------------------------------- really priced


def _scenario(
    name: str, shape: tuple[int, int, int], solvers: int, summary: str, seconds: float = 1.0
) -> Listing:
    return _entry(
        name, shape, f"{solvers} solvers", summary, Scenario(folder=f"aslib/{name}", seconds=seconds), unit="s",
        prices="measured: mean seconds of each feature step; per instance in row_costs", split="official 10 folds",
        licence="none stated", source="ASlib (Bischl et al. 2016), github.com/coseal/aslib_data",
        options={"unsolved": "keep", "fold": None},
    )  # fmt: skip


_SCENARIOS = [
    _scenario("ASP-POTASSCO", (1294, 138, 5), 11, "Answer-set programming: the fastest clasp configuration"),
    _scenario("GRAPHS-2015", (5725, 35, 5), 7, "Subgraph isomorphism: the fastest solver", seconds=1e-3),
    _scenario("SAT11-HAND", (296, 115, 10), 15, "Crafted SAT instances: the fastest solver"),
    _scenario("SAT11-INDU", (300, 115, 10), 18, "Industrial SAT instances of 2011: the fastest solver"),
    _scenario("SAT11-RAND", (600, 115, 10), 9, "Random SAT instances: the fastest solver"),
    _scenario("SAT12-INDU", (1167, 115, 10), 31, "Industrial SAT instances of 2012: the fastest solver"),
]

# ---------------------------------------------------------------------- classification

_CLASSIFICATION = [
    _entry(
        "a9a", (48842, 123, 14), "binary", "Income above 50,000 dollars, adult in 0/1 columns",
        SparseTable(files={"train": "a9a/a9a", "test": "a9a/a9a.t"}, columns=123, names=c.A9A, groups=c.A9A_GROUPS,
                    classes={"-1": "<=50K", "1": ">50K"}),
        split="official train / test", source="LIBSVM data collection",
    ),
    _entry(
        "a1a", (32561, 123, 14), "binary", "The small training set of a9a's series",
        SparseTable(files={"train": "a9a/a1a", "test": "a9a/a1a.t"}, columns=123, names=c.A9A, groups=c.A9A_GROUPS,
                    classes={"-1": "<=50K", "1": ">50K"}),
        split="official train / test", source="LIBSVM data collection",
    ),
    _entry(
        "adult", (48842, 14, 14), "binary", "Income above 50,000 dollars, from the census of 1994",
        DelimitedTable(files={"train": "adult/adult.data", "test": "adult/adult.test"}, names=c.ADULT, words=c.ADULT_WORDS,
              missing="?",
              classes={"<=50K": "<=50K", "<=50K.": "<=50K", ">50K": ">50K", ">50K.": ">50K"}),
        split="official train / test", notes="words are codes in alphabetical order, see categories",
    ),
    _entry(
        "connect-4", (67557, 42, 7), "3 classes", "Outcome of Connect Four positions after eight moves",
        DelimitedTable(files={"": "connect-4/connect-4.tsv"}, header=True, sep="\t", groups=c.CONNECT4_COLUMNS,
              classes={"0": "draw", "1": "loss", "2": "win"}),
        notes="squares as PMLB codes them: 0 empty, 1 and 2 the two players",
    ),
    _entry(
        "covtype", (581012, 54, 12), "7 classes", "Forest cover from maps",
        DelimitedTable(files={"": "covtype/covtype.data"}, names=c.COVTYPE, groups=c.COVTYPE_GROUPS, classes=c.COVTYPE_CLASSES,
              cuts=(11340, 15120), read_as="int16"),
        split="official train / valid / test", notes="X is float32",
    ),
    _entry(
        "letter", (20000, 16, 16), "26 classes", "Printed capital letters from 16 statistics",
        DelimitedTable(files={"": "letter/letter-recognition.data"}, names=c.LETTER, target=0, cuts=(16000,),
              classes={letter: letter for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"}),
        split="customary: first 16,000 train, last 4,000 test",
    ),
    _entry(
        "magic", (19020, 10, 10), "binary", "Gamma rays or hadrons in a Cherenkov telescope",
        DelimitedTable(files={"": "magic/magic04.data"}, names=c.MAGIC, classes={"h": "hadron", "g": "gamma"}),
    ),
    _entry(
        "mfeat", (2000, 649, 6), "10 classes", "Handwritten digits in six families of descriptors", read_mfeat,
        notes="the families are real computations, but their times were not published",
    ),
    _entry(
        "miniboone-small", (5000, 50, 50), "binary", "Electron neutrinos among muon neutrinos, a subset",
        SparseTable(files={part: f"miniboone-small/{part}.svm" for part in ("train", "valid", "test")}, columns=50,
                    classes={"0": "0", "1": "1"}),
        split="train / valid / test", licence="MIT", source="github.com/fnan/FeatureBudgetedRandomForest",
    ),
    _entry(
        "mushroom", (8124, 22, 22), "binary", "Edible or poisonous mushrooms",
        DelimitedTable(files={"": "mushroom/agaricus-lepiota.data"}, names=c.MUSHROOM, words=range(22), target=0, missing="?",
              classes={"e": "edible", "p": "poisonous"}),
        notes="letters are codes in alphabetical order, see categories; stalk-root has 2480 missing values",
    ),
    _entry(
        "mushroom-onehot", (8124, 126, 22), "binary", "Edible or poisonous mushrooms, in 0/1 columns",
        SparseTable(files={part: f"mushroom/agaricus.txt.{part}" for part in ("train", "test")}, columns=126,
                    names=c.MUSHROOM_ONEHOT, groups=c.MUSHROOM_GROUPS, classes={"0": "edible", "1": "poisonous"}),
        split="train / test of the XGBoost demo", licence="Apache-2.0", source="github.com/dmlc/xgboost",
    ),
    _entry("musk1", (476, 166, 166), "binary", "Which shapes of molecules smell of musk", Musk("musk/clean1.tsv"),
           notes="split by molecule (blocks), not by row"),
    _entry("musk2", (6598, 166, 166), "binary", "Which shapes of molecules smell of musk", Musk("musk/clean2.tsv"),
           notes="split by molecule (blocks), not by row"),
    _entry(
        "pendigits", (10992, 16, 16), "10 classes", "Digits written on a tablet, as eight pen positions",
        DelimitedTable(files={"train": "pendigits/pendigits.tra", "test": "pendigits/pendigits.tes"}, classes=c.DIGITS,
              names=[f"{axis}{k}" for k in range(1, 9) for axis in "xy"]),
        split="official train / test",
    ),
    _entry(
        "poker", (25010, 10, 5), "10 classes", "Poker hands from five cards",
        DelimitedTable(files={"": "poker/poker-hand-training-true.data"}, names=c.POKER, groups=c.POKER_CARDS,
              classes=c.POKER_CLASSES),
        notes="the official training file only",
    ),
    _entry(
        "higgs-sample", (7500, 28, 7), "binary", "Higgs bosons in simulated collisions, a sample",
        DelimitedTable(files={part: f"higgs-sample/binary.{part}" for part in ("train", "test")}, sep="\t", target=0,
              names=c.HIGGS, groups=c.HIGGS_GROUPS, requires=c.HIGGS_REQUIRES,
              classes={"0": "background", "1": "signal"}),
        split="train / test of the LightGBM example", notes="the seven masses are computed from all other columns",
    ),
    _entry(
        "satimage", (6435, 36, 4), "6 classes", "Ground seen by Landsat: four bands of nine pixels",
        DelimitedTable(files={"train": "satimage/sat.trn", "test": "satimage/sat.tst"}, sep=" ", names=c.SATIMAGE,
              groups=c.SATIMAGE_BANDS, classes=c.SATIMAGE_CLASSES),
        split="official train / test",
    ),
    _entry(
        "segment", (2310, 19, 5), "7 classes", "What a patch of an outdoor image shows",
        ArffTable(files={"train": "segment/segment-challenge.arff", "test": "segment/segment-test.arff"},
                  groups=c.SEGMENT_GROUPS),
        split="Weka's train / test",
    ),
    _entry(
        "spambase", (4601, 57, 57), "binary", "Spam from word frequencies",
        DelimitedTable(files={"": "spambase/spambase.data"}, names=c.SPAMBASE, classes={"0": "mail", "1": "spam"}),
    ),
    _entry(
        "mnist", (70000, 784, 49), "10 classes", "Handwritten digits of 28 x 28 pixels",
        ImageFiles(folder="mnist", target_names=tuple(c.DIGITS)),
        split="official train / test", licence="CC BY-SA 3.0", source="LeCun, Cortes and Burges",
        notes="groups are patches of 4 x 4 pixels; X is float32, 0 to 255",
    ),
    _entry(
        "fashion-mnist", (70000, 784, 49), "10 classes", "Clothes of 28 x 28 pixels",
        ImageFiles(folder="fashion-mnist", target_names=c.CLOTHES),
        split="official train / test", licence="MIT", source="github.com/zalandoresearch/fashion-mnist",
        notes="groups are patches of 4 x 4 pixels; X is float32, 0 to 255",
    ),
]  # fmt: skip

# The small sets of Nan's thesis (2018), section 3.
_SMALL = [
    _entry(
        "sonar", (208, 60, 60), "binary", "Rocks or metal cylinders from sonar returns",
        DelimitedTable(files={"": "nan9/sonar.all-data"}, names=[f"band {k}" for k in range(1, 61)],
              classes={"R": "rock", "M": "mine"}),
    ),
    _entry(
        "ionosphere", (351, 34, 34), "binary", "Good or bad radar returns from the ionosphere",
        DelimitedTable(files={"": "nan9/ionosphere.data"}, classes={"b": "bad", "g": "good"},
              names=[f"{part} {k}" for k in range(1, 18) for part in ("real", "imaginary")]),
    ),
    _entry("vote", (435, 16, 16), "binary", "Party from 16 votes in the US Congress of 1984",
           ArffTable(files={"": "nan9/vote.arff"}), notes="missing where no vote is known"),
    _entry("soybean", (683, 35, 35), "19 classes", "Diseases of soybean plants",
           ArffTable(files={"": "nan9/soybean.arff"}), notes="words are codes in declared order, see categories"),
    _entry(
        "dna", (3186, 180, 60), "3 classes", "Splice junctions in primate DNA",
        DelimitedTable(files={"": "nan9/dna.csv"}, header=True, groups=c.DNA_POSITIONS,
              classes={"n": "neither", "ei": "exon-intron", "ie": "intron-exon"}),
    ),
    _entry(
        "mammographic", (830, 5, 5), "binary", "Malignant or benign masses in mammograms",
        DelimitedTable(files={"": "nan9/mammographic.dat"}, names=c.MAMMOGRAPHIC, classes={"0": "benign", "1": "malignant"}),
        notes="complete cases only",
    ),
    _entry(
        "wdbc", (569, 30, 30), "binary", "Breast masses; as breast_cancer, but every column costs 1",
        DelimitedTable(files={"": "nan9/wdbc.csv"}, header=True, classes={"0": "malignant", "1": "benign"}),
    ),
    _entry(
        "breast-cancer-wisconsin", (699, 9, 9), "binary", "Breast masses from cytology scores of 1 to 10",
        DelimitedTable(files={"": "nan9/breast-cancer-wisconsin.data"}, names=c.CYTOLOGY, drop=(0,), missing="?",
              classes={"2": "benign", "4": "malignant"}),
        notes="16 missing values",
    ),
]  # fmt: skip

# ---------------------------------------------------------------------- regression and ranking


def _wine(name: str, rows: int, *colours: str) -> Listing:
    files = {colour: f"wine-quality/winequality-{colour}.csv" for colour in colours}
    summary = f"Taste of {' and '.join(colours)} wines from chemistry"
    return _entry(
        name, (rows, 11, 11), "regression", summary, DelimitedTable(files=files, names=c.WINE_QUALITY)
    )


def _folded(name: str, rows: int, columns: int, summary: str) -> Listing:
    return _entry(
        name, (rows, columns, columns), "regression", summary, Folded(name, columns), split="10 fixed folds",
        options={"fold": 1}, licence="MIT (collection)", source="github.com/treforevans/uci_datasets",
    )  # fmt: skip


_CPU = {"licence": "MIT (PMLB)", "source": "Delve, by PMLB"}

_NUMBERS = [
    _entry("abalone", (4177, 10, 8), "regression", "Rings of abalone shells", read_abalone,
           split="customary: first 3,133 train, last 1,044 test", notes="sex is a group of three 0/1 columns"),
    _entry("cpu-act", (8192, 21, 21), "regression", "Share of time a computer spends in user mode",
           DelimitedTable(files={"": "cpu/cpu-act.tsv"}, header=True, sep="\t"), **_CPU),
    _entry("cpu-small", (8192, 12, 12), "regression", "Share of time in user mode, from fewer counters",
           DelimitedTable(files={"": "cpu/cpu-small.tsv"}, header=True, sep="\t"), **_CPU),
    _entry("housing", (506, 13, 13), "regression", "House prices around Boston in the 1970s",
           DelimitedTable(files={"": "housing/housing.data"}, sep=r"\s+", names=c.HOUSING),
           notes="column B encodes race: for comparison with papers, not for use"),
    _wine("wine-quality", 6497, "red", "white"),
    _wine("wine-quality-red", 1599, "red"),
    _wine("wine-quality-white", 4898, "white"),
    _folded("pol", 15000, 26, "Telecommunication, from the Pole data"),
    _folded("kin40k", 40000, 8, "Forward kinematics of a robot arm"),
    _folded("pumadyn32nm", 8192, 32, "Dynamics of a Puma robot arm"),
    _entry("mq2008", (15211, 46, 6), "ranking", "Web pages for 784 queries, relevance 0 to 2", read_mq2008,
           split="official 5 folds", options={"fold": 1}, licence="public for research",
           source="LETOR 4.0, Microsoft Research",
           notes="groups are the parts of a page that a feature reads; values are scaled within each query"),
    _entry("lgb-rank", (3773, 300, 300), "ranking", "Documents for 251 queries, relevance 0 to 4", read_lgb_rank,
           split="train / test of the LightGBM example", licence="MIT", source="github.com/microsoft/LightGBM"),
]  # fmt: skip

ENTRIES = [*_SCENARIOS, *_CLASSIFICATION, *_SMALL, *_NUMBERS]
