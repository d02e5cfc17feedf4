"""Trees of least risk: chance and threads, impurities of one's own, and what cannot be used."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from anytime.costs import FeatureCosts
from anytime.forests.growing import ClassTreeGrower
from anytime.forests.impurity import (
    ClassPairs,
    CustomImpurity,
    Gini,
    Powers,
    SquaredPairs,
)
from anytime.trees.arrays import LEAF
from anytime.trees.binning import BinnedData
from anytime.trees.growing import join
from anytime_research.forests.impurities import Polynomial
from tests.forests.cases import same

# ---------------------------------------------------------------------- chance


def noisy(n: int, d: int, seed: int = 0) -> tuple[BinnedData, np.ndarray]:
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d))
    return BinnedData.fit(X), ((X[:, 0] + X[:, 1] + random.normal(size=n)) > 0).astype(int)


@pytest.mark.parametrize(
    "options", [{}, {"search": "random"}, {"max_features": 2}, {"impurity": SquaredPairs()}]
)
def test_any_number_of_threads_gives_the_same_bits(options: dict[str, Any]) -> None:
    data, y = noisy(6000, 6)
    grower = ClassTreeGrower(**options)
    given: Any = {"n_classes": None if grower.impurity.regression else 2, "n_trees": 5, "random_state": 7}
    one = grower.grow_forest(data, y, **given)
    three = replace(grower, n_threads=3).grow_forest(data, y, **given)
    assert all(same(a, b) for a, b in zip(one, three, strict=True))
    assert not same(one[0], one[1])


def test_a_forest_can_be_grown_in_parts() -> None:
    data, y = noisy(300, 4)
    grower = ClassTreeGrower(search="random", max_features=2)
    whole = grower.grow_forest(data, y, n_classes=2, n_trees=5, random_state=3)
    parts = grower.grow_forest(data, y, n_classes=2, n_trees=2, random_state=3)
    parts += grower.grow_forest(data, y, n_classes=2, n_trees=3, first_tree=2, random_state=3)
    for a, b in zip(whole, parts, strict=True):
        assert same(a, b)
        np.testing.assert_array_equal(a.in_bag, b.in_bag)
    joined = join([tree.arrays for tree in whole])
    assert joined.n_trees == 5
    other = grower.grow_forest(data, y, n_classes=2, n_trees=1, random_state=4)[0]
    assert not same(whole[0], other)


def test_a_bootstrap_is_a_draw_of_as_many_rows_and_known_afterwards() -> None:
    data, y = noisy(500, 3)
    weight = np.ones(500)
    weight[:50] = 0
    trees = ClassTreeGrower().grow_forest(data, y, weight, n_classes=2, n_trees=3, rows=np.arange(400))
    for tree in trees:
        counts = tree.in_bag
        assert counts is not None
        assert counts.sum() == 350
        assert counts[:50].sum() == counts[400:].sum() == 0
        assert 0.55 < np.mean(counts[50:400] > 0) < 0.72  # 1 - 1/e
        np.testing.assert_array_equal(tree.statistics[0], np.bincount(y, counts))
    assert (trees[0].in_bag != trees[1].in_bag).any()


def test_random_stumps_are_some_of_all_and_no_better_than_the_best() -> None:
    random = np.random.default_rng(0)
    x = random.permutation(600.0 * np.arange(600)).reshape(-1, 1)
    y = random.integers(2, size=600)
    data = BinnedData.fit(x, exact=True)
    best = ClassTreeGrower(max_depth=1).grow(data, y, n_classes=2).risk[0]
    drawn = [
        ClassTreeGrower(search="random", max_depth=1).grow(data, y, n_classes=2, random_state=s)
        for s in range(60)
    ]
    thresholds = {float(tree.arrays.threshold[0]) for tree in drawn}
    assert len(thresholds) > 20
    assert thresholds <= set(data.thresholds(0).tolist())
    assert all(tree.risk[0] >= best for tree in drawn)
    assert np.mean([tree.risk[0] > best for tree in drawn]) > 0.5


@pytest.mark.parametrize(("n", "stumps"), [(500, 20), (501, 40), (2000, 40), (2001, 80)])
def test_how_many_stumps_are_drawn_follows_the_size_of_the_node(n: int, stumps: int) -> None:
    """budgeted_trees 3.4: 80 stumps per column if more than 2000 examples, 40 if more than 500, else 20."""
    seen: list[int] = []

    def counting(sets: np.ndarray) -> np.ndarray:
        seen.append(len(sets))
        return ClassPairs()(sets)

    x = np.arange(float(n)).reshape(-1, 1)
    y = np.arange(n) % 2
    grower = ClassTreeGrower(CustomImpurity(counting), search="random", max_depth=1)
    grower.grow(BinnedData.fit(np.hstack([x, -x]), exact=True), y, n_classes=2)
    assert seen == [1, 2 * 2 * stumps]  # the root; two sides of each stump of two columns
    seen.clear()
    grower.grow(BinnedData.fit(x % 30), y, n_classes=2)  # 29 thresholds
    assert seen == [1, 2 * min(stumps, 29)]


def test_random_columns_are_drawn_among_those_that_vary() -> None:
    random = np.random.default_rng(0)
    X = np.zeros((100, 6))
    X[:, [1, 3, 4]] = random.normal(size=(100, 3))
    y = random.integers(2, size=100)
    roots = [
        int(
            ClassTreeGrower(max_features=1)
            .grow(BinnedData.fit(X), y, n_classes=2, random_state=s)
            .arrays.feature[0]
        )
        for s in range(40)
    ]
    assert set(roots) == {1, 3, 4}
    everything = ClassTreeGrower(max_features=6).grow(BinnedData.fit(X), y, n_classes=2)
    assert same(everything, ClassTreeGrower().grow(BinnedData.fit(X), y, n_classes=2))


def test_more_random_columns_are_tried_where_none_helps() -> None:
    X = np.column_stack([np.tile([0.0, 1], 4), np.repeat([0.0, 1], 4)])
    y = np.repeat([0, 1], 4)  # the first column tells nothing: both of its outcomes are as mixed as all
    grower = ClassTreeGrower(Gini(), split="expected", max_features=1)
    trees = [grower.grow(BinnedData.fit(X), y, n_classes=2, random_state=s) for s in range(8)]
    assert [tree.arrays.feature[0] for tree in trees] == [1] * 8


# ---------------------------------------------------------------------- an impurity of one's own


def test_an_impurity_of_ones_own_is_called_once_for_each_node() -> None:
    calls: list[int] = []

    def pairs(sets: np.ndarray) -> np.ndarray:
        calls.append(len(sets))
        return ClassPairs()(sets)

    data, y = noisy(200, 5)
    tree = ClassTreeGrower(CustomImpurity(pairs)).grow(data, y, n_classes=2)
    assert same(tree, ClassTreeGrower(ClassPairs()).grow(data, y, n_classes=2))
    inner = int((tree.arrays.feature != LEAF).sum())
    assert len(calls) == 1 + inner
    forest = ClassTreeGrower(CustomImpurity(pairs), n_threads=3).grow_forest(data, y, n_classes=2, n_trees=4)
    plain = ClassTreeGrower(ClassPairs()).grow_forest(data, y, n_classes=2, n_trees=4)
    assert all(same(a, b) for a, b in zip(forest, plain, strict=True))


@pytest.mark.parametrize("n_threads", [1, 2])
def test_its_errors_reach_the_caller(n_threads: int) -> None:
    data, y = noisy(100, 2)

    def broken(sets: np.ndarray) -> np.ndarray:
        if len(sets) > 1:
            raise ZeroDivisionError("no such impurity")
        return ClassPairs()(sets)

    for function, kind, message in (
        (broken, ZeroDivisionError, "no such impurity"),
        (lambda n: n, ValueError, "has the shape"),
        (lambda n: ClassPairs()(n) - 1, ValueError, "must be finite and not negative"),
        (lambda n: ClassPairs()(n) * np.nan, ValueError, "must be finite and not negative"),
    ):
        grower = ClassTreeGrower(CustomImpurity(function), n_threads=n_threads)
        with pytest.raises(kind, match=message):
            grower.grow_forest(data, y, n_classes=2, n_trees=4)


# ---------------------------------------------------------------------- doors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "mean"}, "split is 'mean'"),
        ({"tests": "ternary"}, "tests is 'ternary'"),
        ({"search": "some"}, "search is 'some'"),
        ({"max_features": 0}, "max_features is 0"),
        ({"max_depth": -1}, "max_depth is -1"),
        ({"min_samples_leaf": 0}, "min_samples_leaf is 0"),
        ({"min_impurity": -1.0}, "min_impurity is -1"),
        ({"n_threads": 0}, "n_threads is 0"),
    ],
)
def test_rules_that_are_none_are_told(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ClassTreeGrower(**options)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"y": [0, 1, 2, 5]}, "y of row 3 is 5.* from 0 to 2"),
        ({"y": [0, 0.5, 2, 1]}, "y of row 1 is 0.5"),
        ({"y": [0, -1, 2, 1]}, "y of row 1 is -1"),
        ({"y": [0, np.nan, 2, 1]}, "y of row 1 is nan"),
        ({"y": [0, np.inf, 2, 1], "n_classes": None}, "y of row 1 is not finite"),
        ({"y": [0, 1, 2]}, "y has 3 entries, expected 4"),
        ({"weight": [1, 1, -1, 1]}, "weight of row 2 is -1"),
        ({"weight": [1, np.nan, 1, 1]}, "weight of row 1 is nan"),
        ({"weight": [0, 0, 0, 0]}, "nothing to learn from"),
        ({"weight": [1, 1]}, "weight has 2 entries"),
        ({"weight": [1, 1, 1e305, 1]}, r"largest weight is 1e\+305.*scale the weights"),
        ({"weight": [1e-310, 0, 0, 1e-310]}, "largest weight is 1e-310.*scale the weights"),
        ({"y": [0, 1e160, 2, 1], "n_classes": None}, r"y goes from 0 to 1e\+160.*scale y"),
        ({"y": [0, -1e160, 2, 1], "n_classes": None}, r"y goes from -1e\+160 to 2.*scale y"),
        ({"y": [0, 1e-170, 0, 0], "n_classes": None}, "y goes from 0 to 1e-170.*scale y"),
        ({"impurity": Powers(600)}, "impurity of all rows is beyond what a number can hold"),
        ({"impurity": CustomImpurity(lambda n: np.full(len(n), np.inf))}, "is inf; it must be finite"),
        ({"rows": [0, 4]}, "rows names row 4; the data have 4"),
        ({"rows": [True, False, True, True]}, "np.flatnonzero"),
        ({"rows": np.zeros(0, int)}, "no rows"),
        ({"columns": np.ones(3, bool)}, "columns has 3 entries, expected 2"),
        ({"columns": [0, 1]}, "mask of booleans"),
        ({"costs": FeatureCosts([1.0])}, "costs has 1 entries, expected 2"),
        ({"impurity": SquaredPairs()}, "classes need an impurity of classes"),
        ({"n_classes": None, "impurity": ClassPairs()}, "numbers need an impurity of numbers"),
        ({"impurity": Polynomial([(1, (1, 1))])}, "exponents for 2 classes, there are 3"),
    ],
)
def test_what_cannot_be_used_is_told(given: dict[str, Any], message: str) -> None:
    data = BinnedData.fit(np.arange(8.0).reshape(4, 2))
    regression = "n_classes" in given and given["n_classes"] is None
    given = {
        "y": [0, 1, 2, 1],
        "n_classes": 3,
        "impurity": SquaredPairs() if regression else ClassPairs(),
    } | given
    if "costs" in given:
        given["costs"] = given["costs"].bind(1)
    with pytest.raises(ValueError, match=message):
        ClassTreeGrower(given.pop("impurity")).grow(data, **given)
