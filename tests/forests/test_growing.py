"""Trees of least risk against the obvious ones, the numbers that papers state, and what must never change."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anytime._native import Forest
from anytime.costs import BoundCosts, FeatureCosts
from anytime.forests.growing import ClassTree, ClassTreeGrower
from anytime.forests.impurity import (
    ClassPairs,
    CustomImpurity,
    Entropy,
    Gini,
    Impurity,
    Powers,
    SquaredError,
    SquaredPairs,
)
from anytime.trees.arrays import LEAF
from anytime.trees.binning import BinnedData
from anytime_research.forests.impurities import Polynomial
from tests.forests.cases import same
from tests.reference import class_tree as reference
from tests.reference.trees import leaf_of

SEEDS = st.integers(0, 2**32 - 1)


def leaves(tree: ClassTree, X: np.ndarray) -> np.ndarray:
    return np.array([leaf_of(tree.arrays, 0, row) for row in X])


def error(tree: ClassTree, X: np.ndarray, y: np.ndarray) -> float:
    return float(np.mean(tree.arrays.value[leaves(tree, X)].argmax(axis=1) != y))


def mean_and_most_columns(tree: ClassTree, X: np.ndarray) -> tuple[float, int]:
    """Different columns that a row's path tests: the mean over rows, and the most."""
    seen = []
    for row in X:
        columns: set[int] = set()
        leaf_of(tree.arrays, 0, row, lambda c, columns=columns: columns.add(c) is None)
        seen.append(len(columns))
    return float(np.mean(seen)), max(seen)


# ---------------------------------------------------------------------- the obvious tree


def table(random: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of few or many values, one-hot columns, categories, missing values; and which are categories."""
    d = int(random.integers(1, 5))
    X = np.round(random.normal(size=(n, d)), 1)
    for j in range(d):
        if random.random() < 0.5:
            X[:, j] = random.integers(2, 5, size=n) * random.choice([0, 1, 1, 1])
        if random.random() < 0.4:
            X[random.random(n) < 0.3, j] = np.nan
    categorical = random.random(d) < 0.3
    X[:, categorical] = np.where(
        np.isnan(X[:, categorical]), np.nan, random.integers(0, 5, (n, categorical.sum()))
    )
    if random.random() < 0.5:  # columns that share a slot
        hot = np.zeros((n, 4))
        hot[np.arange(n), random.integers(4, size=n)] = random.integers(1, 4, size=n)
        hot[random.random(n) < 0.05] = np.nan
        X, categorical = np.hstack([X, hot]), np.append(categorical, [False] * 4)
    return X, categorical


def random_prices(random: np.random.Generator, d: int, rules: dict[str, Any]) -> BoundCosts:
    """Groups, prices and requirements, also for the reference."""
    n_groups = int(random.integers(1, d + 1))
    group = random.integers(n_groups, size=d)
    prices = random.choice([0, 0, 1, 2, 3.5], size=n_groups)
    requires = [[i for i in range(g) if random.random() < 0.3] for g in range(n_groups)]
    costs = FeatureCosts(
        {f"g{g}": p for g, p in enumerate(prices)},
        groups={f"g{g}": np.flatnonzero(group == g).tolist() for g in range(n_groups)},
        requires={f"g{g}": [f"g{i}" for i in r] for g, r in enumerate(requires)},
    )
    bound = costs.bind(d)
    rules |= {"prices": bound.prices.tolist(), "requires": requires, "column_group": group.tolist()}
    return bound


EXACT = [ClassPairs(), ClassPairs(1), ClassPairs(2.5), Powers(2), Powers(3)]
ROUNDED = [ClassPairs(1.7), Entropy(), Gini()]
NUMBERS = [SquaredPairs(), SquaredError()]


def replayed(seed: int, impurity: Impurity, n: int, tests: str, exact: bool, **options: Any) -> None:
    """Grow a tree of random data by random rules, and check all of its nodes."""
    random = np.random.default_rng(seed)
    n_classes = None if impurity.regression else int(random.integers(2, 5))
    if isinstance(impurity, Polynomial):
        n_classes = 3
    X, categorical = table(random, n)
    n, d = X.shape
    y = random.normal(size=n) if n_classes is None else random.integers(n_classes, size=n)
    rules: dict[str, Any] = {
        "split": str(random.choice(["minimax", "expected"])),
        "max_depth": random.choice([None, None, 0, 1, 2]),
        "min_samples_leaf": int(random.choice([1, 1, 2, 5])),
        "min_impurity": float(random.choice([0, 0, 0.2, 3])),
        "discount_reused": bool(random.integers(2)),
    }
    grower = ClassTreeGrower(impurity, tests=tests, **rules, **options)
    given: dict[str, Any] = {"n_classes": n_classes}
    tick = 1.0
    if random.random() < 0.7:
        given["costs"] = random_prices(random, d, rules)
        tick = given["costs"].costs.amount(1)
    weight, repeats = np.ones(n), np.ones(n, int)
    if random.random() < 0.5:
        weight = random.choice([0, 0.25, 1, 3], size=n)
        weight[0] = 1
        given["weight"] = weight
    if random.random() < 0.5:
        given["rows"] = np.append(random.integers(n, size=n), 0)
        repeats = np.bincount(given["rows"], minlength=n)
    columns = np.arange(d)
    if random.random() < 0.3:
        columns = np.flatnonzero(random.random(d) < 0.7)
        given["columns"] = np.isin(np.arange(d), columns)
    data = BinnedData.fit(X, categorical=categorical, exact=bool(random.integers(2)))
    missing = [
        len(np.unique(X[~np.isnan(X[:, j]), j])) + 1 if categorical[j] else data.thresholds(j).size + 1
        for j in range(d)
    ]
    problem = reference.Problem(
        X,
        data.bins(),
        missing,
        categorical.tolist(),
        y,
        weight,
        repeats,
        n_classes,
        impurity,
        multiway=tests == "multiway",
        columns=columns.tolist(),
        exact=exact and rules["split"] == "minimax",
        **rules,
    )
    tree = grower.grow(data, y, given.pop("weight", None), **given)
    assert tree.depth == reference.replay(tree, problem, tick)
    counted = tree.in_bag if tree.in_bag is not None else np.ones(n)
    assert (counted == repeats * (weight > 0)).all()
    Forest(**tree.arrays.asdict())  # a forest like any other


@given(SEEDS, st.sampled_from([*EXACT, Polynomial([(1, (1, 1, 0)), (2, (0, 1, 2))])]), st.integers(1, 24))
@pytest.mark.parametrize("tests", ["stumps", "multiway"])
def test_every_test_is_the_one_of_least_risk(tests: str, seed: int, impurity: Impurity, n: int) -> None:
    replayed(seed, impurity, n, tests, exact=True)


@given(SEEDS, st.sampled_from([*ROUNDED, *NUMBERS]), st.integers(1, 24))
@pytest.mark.parametrize("tests", ["stumps", "multiway"])
def test_where_sums_are_rounded_no_test_has_less_risk(
    tests: str, seed: int, impurity: Impurity, n: int
) -> None:
    replayed(seed, impurity, n, tests, exact=False)


@given(SEEDS, st.sampled_from([ClassPairs(1), Entropy()]))
def test_twenty_stumps_are_all_where_there_are_no_more(seed: int, impurity: Impurity) -> None:
    replayed(seed, impurity, 10, "stumps", exact=impurity == ClassPairs(1), search="random")


@given(SEEDS, st.sampled_from([ClassPairs(), ClassPairs(2), Powers(3)]))
def test_an_impurity_of_ones_own_is_like_any_other(seed: int, impurity: Impurity) -> None:
    own = CustomImpurity(lambda counts: impurity(counts))
    replayed(seed, own, 20, "stumps", exact=True)


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("impurity", [ClassPairs(3), SquaredPairs()])
def test_nodes_too_large_to_be_copied_are_searched_the_same(impurity: Impurity, exact: bool) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(9000, 3))
    X[:, 1:] = np.round(X[:, 1:])
    X[:, 0] = np.round(X[:, 0] * 2)
    y = (X[:, 0] + X[:, 1] * X[:, 2] + random.normal(size=9000) > 0).astype(int)
    data = BinnedData.fit(np.column_stack([X, np.arange(9000) // 3]), exact=exact)
    tree = ClassTreeGrower(impurity, max_depth=3).grow(
        data, y, n_classes=None if impurity.regression else 2, columns=np.array([True] * 3 + [False])
    )
    n_classes = None if impurity.regression else 2
    missing = [data.thresholds(j).size + 1 for j in range(3)]
    ones = np.ones(9000, int)
    problem = reference.Problem(
        X,
        data.bins(),
        missing,
        [False] * 3,
        y,
        ones,
        ones,
        n_classes,
        impurity,
        max_depth=3,
        columns=range(3),
    )
    problem.exact = not impurity.regression
    assert reference.replay(tree, problem) == 3


# ---------------------------------------------------------------------- stated numbers


def bits_of_the_index() -> tuple[np.ndarray, np.ndarray]:
    """1024 examples of ten bits; four classes by the first two bits, but for the first example of each quarter."""
    index = np.arange(1024)
    X = (index[:, None] >> np.arange(9, -1, -1) & 1).astype(float)
    y = index // 256
    y[[0, 256, 512, 768]] = [1, 2, 3, 0]
    return X, y


BITS, LABELS = bits_of_the_index()


def grown_on_bits(impurity: Impurity, **options: Any) -> ClassTree:
    return ClassTreeGrower(impurity, **options).grow(BinnedData.fit(BITS), LABELS, n_classes=4)


@pytest.mark.parametrize("tests", ["stumps", "multiway"])
def test_table_of_the_1024_examples(tests: str) -> None:
    """budgeted_trees 3.8: errors and mean costs of the tree with alpha = 0, capped at each depth."""
    wanted = {0: 0.75, 1: 0.5, **dict.fromkeys(range(2, 10), 0.00390625), 10: 0.0}
    for depth, miss in wanted.items():
        tree = grown_on_bits(ClassPairs(), max_depth=depth, tests=tests)
        mean, most = mean_and_most_columns(tree, BITS)
        assert error(tree, BITS, LABELS) == miss
        assert most == depth == tree.depth
        # Beyond depth 2 only the path of the odd example of each quarter goes on, halving at every test.
        assert mean == depth if depth < 3 else mean == 4 - 2.0 ** (3 - depth)
    assert mean == 3.9921875
    assert mean_and_most_columns(grown_on_bits(ClassPairs(), max_depth=9), BITS)[0] == 3.984375


@pytest.mark.parametrize("alpha", [1, 2, 10])
def test_a_little_alpha_makes_max_cost_two_at_the_price_of_four_errors(alpha: float) -> None:
    """budgeted_trees 3.8."""
    tree = grown_on_bits(ClassPairs(alpha))
    assert mean_and_most_columns(tree, BITS) == (2, 2)
    assert error(tree, BITS, LABELS) == 4 / 1024


def test_too_large_an_alpha_misleads_and_a_larger_one_splits_nothing() -> None:
    """budgeted_trees 3.8: alpha = 63 has max-cost 2 and error 0.75, from 128 on there is no test."""
    tree = grown_on_bits(ClassPairs(63))
    assert mean_and_most_columns(tree, BITS)[1] == 2
    assert error(tree, BITS, LABELS) == 0.75
    assert grown_on_bits(ClassPairs(128)).n_leaves == grown_on_bits(ClassPairs(200)).n_leaves == 1


def test_alpha_zero_takes_the_first_bit_first_and_alpha_one_the_second() -> None:
    """budgeted_trees 3.8."""
    assert grown_on_bits(ClassPairs()).arrays.feature[0] == 0
    assert grown_on_bits(ClassPairs(1)).arrays.feature[0] == 1
    assert error(grown_on_bits(ClassPairs(1), max_depth=1), BITS, LABELS) == pytest.approx(0.50195, abs=5e-6)


@given(SEEDS)
@pytest.mark.parametrize("search", ["exhaustive", "random"])
def test_powers_of_degree_two_and_pairs_grow_the_same_trees(search: str, seed: int) -> None:
    """budgeted_trees 8.2."""
    random = np.random.default_rng(seed)
    X, categorical = table(random, 60)
    data = BinnedData.fit(X, categorical=categorical)
    y = random.integers(3, size=60)
    pairs, powers = (
        ClassTreeGrower(impurity, search=search, max_features=2).grow_forest(
            data, y, n_classes=3, n_trees=2, random_state=seed
        )
        for impurity in (ClassPairs(), Powers(2))
    )
    for one, other in zip(pairs, powers, strict=True):
        np.testing.assert_allclose(one.risk, 2 * other.risk)
        assert same(replace(one, risk=other.risk), other)


# ---------------------------------------------------------------------- edges


def test_what_no_test_can_tell_apart_is_a_leaf() -> None:
    """budgeted_trees 3.4: duplicate inputs with different labels."""
    X = np.array([[0.0, 1], [0, 1], [0, 1]])
    tree = ClassTreeGrower().grow(BinnedData.fit(X), [0, 1, 1], n_classes=2)
    assert (tree.n_leaves, tree.depth) == (1, 0)
    np.testing.assert_allclose(tree.arrays.value, [[1 / 3, 2 / 3]])


def test_a_test_needs_all_of_its_outcomes_to_be_purer_by_minimax() -> None:
    """budgeted_trees 3.4: the risk is infinite when some outcome does not lower the impurity."""
    X = np.array([[0.0], [0], [1]])
    y = [0, 1, 0]  # the first two are more mixed than all three
    data = BinnedData.fit(X)
    assert ClassTreeGrower(Entropy(), max_depth=1).grow(data, y, n_classes=2).n_leaves == 1
    assert ClassTreeGrower(Entropy(), split="expected", max_depth=1).grow(data, y, n_classes=2).n_leaves == 2
    assert ClassTreeGrower(ClassPairs(), max_depth=1).grow(data, y, n_classes=2).n_leaves == 2


def test_a_free_test_comes_first_and_the_most_helpful_of_them() -> None:
    """budgeted_trees 3.4: price 0 gives risk 0; ties by the largest fall, then by the lowest column."""
    y = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    perfect, good, poor = y * 1.0, np.array([0, 0, 0, 0, 0, 1, 1, 1.0]), np.array([0, 0, 0, 1, 1, 1, 1, 1.0])
    X = np.column_stack([poor, good, good, perfect])
    data = BinnedData.fit(X)
    bound = FeatureCosts([0, 0, 0, 1]).bind(4)
    tree = ClassTreeGrower().grow(data, y, n_classes=2, costs=bound)
    drops = [16 - max(a * b for a, b in sides) for sides in ([(3, 0), (1, 4)], [(4, 1), (0, 3)])]
    assert drops == [12, 12]  # so that the lowest column wins
    assert (tree.arrays.feature[0], tree.risk[0]) == (0, 0.0)
    harmful = np.column_stack([np.array([0, 1, 1, 1, 1, 1, 1, 1.0]), good, perfect])
    tree = ClassTreeGrower().grow(
        BinnedData.fit(harmful), y, n_classes=2, costs=FeatureCosts([0, 0, 1]).bind(3)
    )
    assert tree.arrays.feature[0] == 1
    tree = ClassTreeGrower().grow(
        BinnedData.fit(harmful), y, n_classes=2, costs=FeatureCosts([1, 1, 1]).bind(3)
    )
    assert (tree.arrays.feature[0], tree.risk[0]) == (2, 1 / 16)


@pytest.mark.parametrize("split", ["minimax", "expected"])
@pytest.mark.parametrize("impurity", [ClassPairs(1.7), Gini(), Entropy(), SquaredPairs(), SquaredError()])
def test_of_equal_columns_the_first_is_tested_whatever_the_rounding(impurity: Impurity, split: str) -> None:
    random = np.random.default_rng(0)
    x = random.normal(size=400)
    y = np.round(x + random.normal(size=400)).astype(int) % 3
    X = np.column_stack([x, -x, 3 * x, -np.exp(x)])  # bins are summed up in either order
    data = BinnedData.fit(X, exact=True)
    target, n_classes = (random.normal(size=400), None) if impurity.regression else (y, 3)
    weight = random.uniform(0.1, 1, size=400)
    tree = ClassTreeGrower(impurity, split=split).grow(data, target, weight, n_classes=n_classes)
    assert set(tree.arrays.feature.tolist()) == {LEAF, 0}
    assert tree.n_leaves > 8


@given(SEEDS, st.sampled_from([*EXACT, *ROUNDED, *NUMBERS]))
@pytest.mark.parametrize("split", ["minimax", "expected"])
def test_a_row_of_weight_w_is_like_w_rows(split: str, seed: int, impurity: Impurity) -> None:
    random = np.random.default_rng(seed)
    X, y, weight = random.random((15, 30)), random.integers(3, size=15), random.integers(1, 5, size=15)
    grower = ClassTreeGrower(impurity, split=split)
    n_classes = None if impurity.regression else 3
    weighted = grower.grow(BinnedData.fit(X), y, weight, n_classes=n_classes)
    again = np.repeat(np.arange(15), weight)
    repeated = grower.grow(BinnedData.fit(X[again]), y[again], n_classes=n_classes)
    named = grower.grow(BinnedData.fit(X), y, n_classes=n_classes, rows=again)
    for other in (repeated, named):
        np.testing.assert_array_equal(weighted.arrays.feature, other.arrays.feature)
        np.testing.assert_array_equal(weighted.arrays.threshold, other.arrays.threshold)
        np.testing.assert_allclose(weighted.statistics, other.statistics, rtol=1e-14)


def test_what_the_path_has_paid_is_free_when_discounted() -> None:
    """budgeted_trees B9."""
    x = np.repeat([0.0, 1, 2, 3], 4)
    y = np.repeat([0, 1, 0, 1], 4)
    other = np.where(x < 2, 0.0, 1.0) + (np.arange(16) % 2) * (x >= 2)
    data = BinnedData.fit(np.column_stack([x, other]))
    bound = FeatureCosts([3.0, 0.5]).bind(2)
    columns = {}
    for discount in (False, True):
        tree = ClassTreeGrower(discount_reused=discount).grow(data, y, n_classes=2, costs=bound)
        at = tree.arrays
        columns[discount] = at.feature[at.feature != LEAF].tolist(), tree.risk
    assert columns[True][0][0] == columns[False][0][0]
    assert 0.0 in columns[True][1]
    assert 0.0 not in columns[False][1]


def test_limits_hold() -> None:
    random = np.random.default_rng(1)
    X, y = random.normal(size=(300, 4)), random.integers(3, size=300)
    data = BinnedData.fit(X)
    small = ClassTreeGrower(min_samples_leaf=20).grow(data, y, n_classes=3)
    assert small.n_leaves > 4
    assert small.statistics[small.arrays.feature == LEAF].sum(axis=1).min() >= 20
    assert ClassTreeGrower(max_depth=0).grow(data, y, n_classes=3).n_leaves == 1
    assert ClassTreeGrower(max_depth=4).grow(data, y, n_classes=3).depth == 4
    early = ClassTreeGrower(Gini(), split="expected", min_impurity=0.6).grow(data, y, n_classes=3)
    inner = early.arrays.feature != LEAF
    assert (Gini()(early.statistics[inner]) > 0.6).all()
    assert 1 < early.n_leaves < ClassTreeGrower(Gini(), split="expected").grow(data, y, n_classes=3).n_leaves


def test_values_and_sums_are_known_at_every_node() -> None:
    random = np.random.default_rng(2)
    X, y, w = random.normal(size=(200, 3)), random.integers(3, size=200), random.uniform(0.1, 2, 200)
    tree = ClassTreeGrower(ClassPairs(1)).grow(BinnedData.fit(X), y, w, n_classes=3)
    at, sums = tree.arrays, tree.statistics
    np.testing.assert_allclose(sums[0], np.bincount(y, w), rtol=1e-9)
    inner = at.feature != LEAF
    np.testing.assert_array_equal(sums[inner], sums[at.left[inner]] + sums[at.right[inner]])
    np.testing.assert_allclose(at.value, sums / sums.sum(axis=1, keepdims=True), rtol=1e-15)


def test_numbers_far_from_zero_are_split_like_those_about_it() -> None:
    random = np.random.default_rng(3)
    X, y = random.normal(size=(200, 3)), np.round(random.normal(size=200) * 2**20) / 2**20
    data = BinnedData.fit(X)
    near, far = (
        ClassTreeGrower(SquaredPairs(), max_depth=3).grow(data, y + shift, n_classes=None)
        for shift in (0, 2.0**30)
    )
    np.testing.assert_array_equal(near.arrays.feature, far.arrays.feature)
    np.testing.assert_array_equal(near.arrays.threshold, far.arrays.threshold)
    np.testing.assert_allclose(near.arrays.value + 2.0**30, far.arrays.value, rtol=1e-15)
    assert ClassTreeGrower(SquaredPairs()).grow(data, np.full(200, 0.1), n_classes=None).n_leaves == 1
