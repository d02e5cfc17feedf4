"""Trees grown on bins against the obvious greedy tree, other libraries, and what must never change."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeRegressor

from anytime._native import Forest
from anytime.costs import BoundCosts, FeatureCosts
from anytime.trees.arrays import LEAF
from anytime.trees.binning import BinnedData
from anytime.trees.growing import GrownTree, TreeGrower, loss_derivatives
from tests.reference import tree_growing as reference
from tests.reference.trees import leaf_of

SEEDS = st.integers(0, 2**32 - 1)


def bound(prices: Any, **options: Any) -> BoundCosts:
    costs = FeatureCosts(prices, **options)
    groups = {c: g for g, name in enumerate(costs.names) for c in costs.groups[name]}
    return BoundCosts(costs, np.array([groups[c] for c in sorted(groups)], dtype=np.int32))


def table(random: np.random.Generator, n: int, d: int, *, grid: int = 0) -> np.ndarray:
    """Columns of several kinds: continuous, few values, sparse, with missing values."""
    X = random.normal(size=(n, d))
    for j in range(d):
        kind = random.integers(4)
        if kind == 1 or grid:
            X[:, j] = random.integers(grid or 4, size=n)
        elif kind == 2:
            X[random.random(n) < 0.9, j] = 0.0
        if random.random() < 0.4:
            X[random.random(n) < random.choice([0.05, 0.5]), j] = np.nan
    return X


def leaf_numbers(tree: GrownTree, X: np.ndarray) -> np.ndarray:
    """By the plain walk over real thresholds."""
    numbers = np.cumsum(tree.arrays.feature == LEAF) - 1
    return np.array([numbers[leaf_of(tree.arrays, 0, row)] for row in X])


# ---------------------------------------------------------------------- the greedy tree


@dataclass
class Case:
    """A random task: what the grower and the reference are told."""

    grower: TreeGrower
    data: BinnedData
    rows: reference.Data
    rules: reference.Rules
    options: dict[str, Any]

    @property
    def weight(self) -> np.ndarray:
        """One per row where outputs share theirs."""
        w = self.rows.weight
        return w[:, 0] if (w == w[:, :1]).all() else w


def random_prices(random: np.random.Generator, d: int, rules: reference.Rules) -> dict[str, Any]:
    """Puts prices, requirements and what is bought into the rules; the same for the grower."""
    prices = np.round(random.uniform(0, 2, d) * random.integers(0, 2, d), 2).tolist()
    requires = [[i for i in range(j) if random.random() < 0.3] for j in range(d)]
    have: set[int] = set()
    for j in np.flatnonzero(random.random(d) < 0.3):
        have |= reference.closure(requires, int(j))
    rules.cost_penalty = float(random.choice([0.0, 0.1, 2.0, 1e6]))
    rules.prices, rules.requires, rules.column_group, rules.bought = prices, requires, range(d), have
    costs = bound(
        {f"x{j}": price for j, price in enumerate(prices)},
        groups={f"x{j}": [j] for j in range(d)},
        requires={f"x{j}": [f"x{i}" for i in needed] for j, needed in enumerate(requires) if needed},
    )
    return {"costs": costs, "bought": np.isin(np.arange(d), list(have))}


def random_case(seed: int) -> Case:
    random = np.random.default_rng(seed)
    n, d = int(random.integers(1, 50)), int(random.integers(1, 5))
    n_outputs = int(random.choice([1, 1, 2, 4]))
    X = table(random, n, d)
    categorical = [j for j in range(d) if random.random() < 0.25]
    categories = random.integers(6, size=(n, len(categorical)))
    X[:, categorical] = np.where(np.isnan(X[:, categorical]), np.nan, categories)
    target = random.normal(size=(n, n_outputs)) + random.choice([0.0, 100.0])
    weight = random.uniform(0.1, 3, size=(n, n_outputs))
    if random.random() < 0.5:
        weight[:] = weight[:, :1]
    rules = reference.Rules(
        max_leaf_nodes=random.choice([1, 2, 5, 12, None]),
        max_depth=random.choice([None, 1, 3]),
        min_samples_leaf=int(random.choice([1, 3])),
        l2_regularization=0.0 if categorical else float(random.choice([0.0, 0.7])),
        scale=str(random.choice(["half_sum", "mean"])),
    )
    allowed = random.random(d) < 0.8
    options = {"columns": allowed}
    if random.random() < 0.6:
        options |= random_prices(random, d, rules)
    max_bins = 255 if categorical else int(random.choice([3, 255]))
    data = BinnedData.fit(X, max_bins=max_bins, categorical=categorical, exact=bool(random.random() < 0.5))
    names = ("max_leaf_nodes", "max_depth", "min_samples_leaf", "l2_regularization", "scale", "cost_penalty")
    grower = TreeGrower(**{name: getattr(rules, name) for name in names})
    cuts = [None if j in categorical else data.thresholds(j) for j in range(d)]
    rows = reference.Data(X, target, weight, cuts, np.flatnonzero(allowed).tolist())
    return Case(grower, data, rows, rules, options)


@given(seed=SEEDS)
def test_every_split_is_the_best_one(seed: int) -> None:
    case = random_case(seed)
    tree = case.grower.grow(case.data, case.rows.target, case.weight, **case.options)
    tolerance = 1e-6 * (1 + abs(case.rows.target).max())
    total, bought = reference.replay(tree.arrays, case.rows, case.rules, tolerance)
    assert tree.gain == pytest.approx(total, rel=1e-5, abs=1e-6)
    assert tree.cost == pytest.approx(sum(case.rules.prices[g] for g in bought - case.rules.bought))


@given(seed=SEEDS)
def test_training_rows_reach_the_same_leaf_everywhere(seed: int) -> None:
    case = random_case(seed)
    tree = case.grower.grow(case.data, case.rows.target, case.weight, **case.options)
    X = case.rows.X
    np.testing.assert_array_equal(tree.leaf, leaf_numbers(tree, X))
    forest = Forest(**tree.arrays.asdict())  # its sums are whole units
    outputs = forest.stage_outputs(X, np.array([0]))[0]
    np.testing.assert_allclose(outputs, tree.outputs(), rtol=0, atol=forest.unit)
    np.testing.assert_array_equal(tree.leaf_of(case.data), tree.leaf)


@given(seed=SEEDS)
def test_new_rows_go_by_the_thresholds(seed: int) -> None:
    case = random_case(seed)
    tree = case.grower.grow(case.data, case.rows.target, case.weight, **case.options)
    random = np.random.default_rng(seed)
    X = table(random, 30, case.rows.X.shape[1], grid=int(random.choice([0, 9])))
    X[random.random(X.shape) < 0.1] = np.inf
    X[random.random(X.shape) < 0.1] = -1.0
    np.testing.assert_array_equal(tree.leaf_of(case.data.transform(X)), leaf_numbers(tree, X))


@given(seed=SEEDS)
def test_a_newton_step_is_a_weighted_mean(seed: int) -> None:
    case = random_case(seed)
    target, weight = case.rows.target, case.rows.weight
    mean = case.grower.grow(case.data, target, weight, **case.options)
    step = case.grower.grow_newton(case.data, -target * weight, weight, **case.options)
    assert step.gain == pytest.approx(mean.gain, rel=1e-4, abs=1e-5)


def test_the_price_of_a_tree_is_its_conditional_cost() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(500, 6))
    y = X @ np.arange(6.0)
    costs = bound(
        {"a": 1.5, "b": 2.0, "c": 0.25},
        groups={"a": [0, 1], "b": [2, 3], "c": [4, 5]},
        requires={"c": ["a"]},
    )
    data = BinnedData.fit(X)
    for cost_penalty, have in ((0.0, []), (10.0, []), (10.0, ["a"]), (1e4, ["b"])):
        bought = costs.closure(np.array([costs.costs.names.index(g) for g in have], np.int32))
        tree = TreeGrower(cost_penalty=cost_penalty).grow(data, y, costs=costs, bought=bought)
        used = [costs.costs.names[g] for g in costs.groups_of(tree.columns)]
        assert tree.cost == pytest.approx(costs.costs.price(used, bought=have))
        ledger = costs.ledger(1)
        ledger.buy(np.flatnonzero(bought).astype(np.int32))
        quoted = ledger.quote(costs.groups_of(tree.columns))[0]
        assert tree.cost == pytest.approx(costs.costs.amount(int(quoted)))


def test_prices_zero_or_penalty_zero_give_the_free_tree() -> None:
    random = np.random.default_rng(1)
    X = random.normal(size=(400, 5))
    y = X[:, 0] * X[:, 1] + X[:, 2]
    data = BinnedData.fit(X)
    free = TreeGrower().grow(data, y)
    for cost_penalty, prices in ((1e9, np.zeros(5)), (np.inf, np.zeros(5)), (0.0, np.full(5, 7.0))):
        tree = TreeGrower(cost_penalty=cost_penalty).grow(data, y, costs=bound(prices))
        np.testing.assert_array_equal(tree.leaf, free.leaf)
        np.testing.assert_array_equal(tree.arrays.threshold, free.arrays.threshold)


@pytest.mark.parametrize("cost_penalty", [1e12, np.inf])
def test_an_unbounded_penalty_leaves_free_columns(cost_penalty: float) -> None:
    random = np.random.default_rng(2)
    X = random.normal(size=(400, 4))
    y = X.sum(1)
    data = BinnedData.fit(X)
    grower = TreeGrower(cost_penalty=cost_penalty)
    assert grower.grow(data, y, costs=bound([1.0, 1.0, 1.0, 1.0])).n_leaves == 1
    assert grower.grow(data, y, costs=bound([1.0, 0.0, 1.0, 1.0])).columns.tolist() == [1]
    bought = np.array([False, False, True, False])
    assert grower.grow(data, y, costs=bound(np.ones(4)), bought=bought).columns.tolist() == [2]


def test_a_penalty_on_the_mean_is_half_a_row_of_one_on_the_sum() -> None:
    random = np.random.default_rng(3)
    X, n = random.normal(size=(300, 4)), 300
    y, costs = X[:, 0] + 0.5 * X[:, 1] + 0.2 * X[:, 2], bound([1.0, 2.0, 3.0, 4.0])
    data = BinnedData.fit(X)
    for cost_penalty in (0.001, 0.01, 0.1):
        mean = TreeGrower(cost_penalty=cost_penalty, scale="mean").grow(data, y, costs=costs)
        half = TreeGrower(cost_penalty=cost_penalty * n / 2).grow(data, y, costs=costs)
        np.testing.assert_array_equal(mean.leaf, half.leaf)
        assert half.gain == pytest.approx(mean.gain * n / 2)


def test_what_a_tree_bought_it_uses_again_for_nothing() -> None:
    random = np.random.default_rng(4)
    X = random.normal(size=(2000, 2))
    y = np.round(2 * X[:, 0]) + 0.3 * (
        X[:, 1] > 0
    )  # the second column gains more than later steps of the first
    data = BinnedData.fit(X)
    grower = TreeGrower(max_leaf_nodes=8)
    free = grower.grow(data, y)
    price = 0.9 * TreeGrower(max_leaf_nodes=2).grow(data, y).gain
    tree = replace(grower, cost_penalty=price).grow(data, y, costs=bound([1.0, 1.0]))
    assert tree.columns.tolist() == [0]
    assert tree.n_leaves == 8
    assert free.gain - 2 * price < tree.gain - price


# ---------------------------------------------------------------------- other libraries


@pytest.mark.parametrize("max_leaf_nodes", [2, 8, 40])
def test_exact_bins_give_the_tree_of_scikit_learn(max_leaf_nodes: int) -> None:
    random = np.random.default_rng(max_leaf_nodes)
    X = random.normal(size=(1500, 5))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * random.normal(size=1500)
    weight = random.uniform(0.5, 2, 1500)
    tree = TreeGrower(max_leaf_nodes=max_leaf_nodes, min_samples_leaf=7).grow(
        BinnedData.fit(X, exact=True), y, weight
    )
    theirs = DecisionTreeRegressor(max_leaf_nodes=max_leaf_nodes, min_samples_leaf=7, random_state=0)
    theirs.fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(tree.outputs()[:, 0], theirs.predict(X), atol=1e-8)


def test_thresholds_of_exact_bins_are_those_of_scikit_learn() -> None:
    random = np.random.default_rng(5)
    X = random.normal(size=(300, 2))
    y = np.sin(3 * X[:, 0]) + X[:, 1]
    tree = TreeGrower(max_leaf_nodes=6, min_samples_leaf=1).grow(BinnedData.fit(X, exact=True), y)
    theirs = DecisionTreeRegressor(max_leaf_nodes=6, random_state=0).fit(X, y).tree_
    # theirs are in the middle of the rows of the node, ours of all: both send the rows the same way
    for node in np.flatnonzero(tree.arrays.feature >= 0):
        near = np.abs(theirs.threshold - tree.arrays.threshold[node]).min()
        assert near < 0.2


def test_several_outputs_share_a_tree_as_in_scikit_learn() -> None:
    random = np.random.default_rng(6)
    X = random.normal(size=(800, 4))
    Y = np.c_[X[:, 0] > 0, np.sin(X[:, 1]), X[:, 2] * X[:, 3]].astype(float)
    tree = TreeGrower(max_leaf_nodes=20, min_samples_leaf=5).grow(BinnedData.fit(X, exact=True), Y)
    theirs = DecisionTreeRegressor(max_leaf_nodes=20, min_samples_leaf=5, random_state=0).fit(X, Y)
    np.testing.assert_allclose(tree.outputs(), theirs.predict(X), atol=1e-8)


# ---------------------------------------------------------------------- what must not matter


def assert_same(one: GrownTree, other: GrownTree) -> None:
    np.testing.assert_array_equal(one.leaf, other.leaf)
    for name, array in one.arrays.asdict().items():
        np.testing.assert_array_equal(array, getattr(other.arrays, name), err_msg=name)
    assert one.gain == other.gain


@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("exact", [False, True])
def test_the_same_bits_for_any_number_of_threads(n_outputs: int, exact: bool) -> None:
    random = np.random.default_rng(7)
    X = table(random, 40_000, 8)
    X = np.round(X, 2) if exact else X
    Y = np.nan_to_num(X[:, :n_outputs] * X[:, 3:4]) + random.normal(size=(40_000, n_outputs))
    weight = random.uniform(0, 1, 40_000)
    trees = []
    for threads in (1, 2, 4):
        data = BinnedData.fit(X, exact=exact, n_threads=threads)
        trees.append(TreeGrower(n_threads=threads).grow(data, Y, weight))
    assert_same(trees[0], trees[1])
    assert_same(trees[0], trees[2])


def test_rows_may_be_named_in_any_order_and_count_as_often_as_named() -> None:
    random = np.random.default_rng(8)
    X = table(random, 500, 4)
    y = np.nan_to_num(X).sum(1)
    data = BinnedData.fit(X)
    rows = random.integers(500, size=300)
    one = TreeGrower().grow(data, y, rows=rows)
    assert_same(one, TreeGrower().grow(data, y, rows=np.sort(rows)))
    weighted = TreeGrower(min_samples_leaf=1).grow(data, y, np.bincount(rows, minlength=500).astype(float))
    repeated = TreeGrower(min_samples_leaf=1).grow(data, y, rows=rows)
    assert weighted.gain == pytest.approx(repeated.gain)
    np.testing.assert_array_equal(one.leaf, leaf_numbers(one, X))


def test_columns_that_exclude_each_other_share_a_slot_and_nothing_changes() -> None:
    random = np.random.default_rng(9)
    kind = random.integers(12, size=3000)
    X = np.c_[random.normal(size=3000), np.eye(12)[kind] * random.integers(1, 5, size=(3000, 1))]
    y = X[:, 0] * (kind == 3) + (kind > 8) + 0.1 * random.normal(size=3000)
    data = BinnedData.fit(X)
    assert data.native.n_slots == 2
    clash = np.r_[X, np.ones((1, 13))]  # one row where they do not
    plain = data.transform(clash)
    assert plain.native.n_slots > 10
    rows = np.arange(3000)
    grower = TreeGrower(max_leaf_nodes=20)
    one, other = grower.grow(data, y), grower.grow(plain, np.r_[y, 0.0], rows=rows)
    np.testing.assert_array_equal(one.leaf, other.leaf[:3000])
    np.testing.assert_array_equal(one.leaf_of(plain), other.leaf)
    np.testing.assert_array_equal(plain.bins()[:3000], data.bins())


# ---------------------------------------------------------------------- leaves, categories, missing values


def test_a_vote_is_for_the_largest_sum() -> None:
    random = np.random.default_rng(10)
    X, Y = random.normal(size=(200, 2)), random.normal(size=(200, 3)) + 50.0
    tree = TreeGrower(max_leaf_nodes=5, leaf="vote").grow(BinnedData.fit(X), Y)
    for leaf in range(tree.n_leaves):
        sums = Y[tree.leaf == leaf].sum(0)
        np.testing.assert_array_equal(tree.values[leaf], np.eye(3)[sums.argmax()])


def test_a_pure_node_is_not_split() -> None:
    random = np.random.default_rng(11)
    X = random.normal(size=(1000, 3))
    weight = random.uniform(0.1, 1, 1000)
    for target in (0.1, 1e9, -1e-9):
        assert (
            TreeGrower(min_samples_leaf=1).grow(BinnedData.fit(X), np.full(1000, target), weight).n_leaves
            == 1
        )


def test_targets_far_from_zero_keep_their_digits() -> None:
    X = np.arange(64.0)[:, None]
    y = 1e9 + np.where(X[:, 0] > 20, 1e-3, 0.0)
    tree = TreeGrower(max_leaf_nodes=2, min_samples_leaf=1).grow(BinnedData.fit(X), y)
    assert tree.arrays.threshold[0] == 20.5
    np.testing.assert_array_equal(tree.outputs()[:, 0], y)


def test_other_categories_go_where_most_rows_go() -> None:
    X = np.repeat([3.0, 5.0, 7.0], [10, 10, 40])[:, None]
    y = np.repeat([0.0, 1.0, 5.0], [10, 10, 40])
    data = BinnedData.fit(X, categorical=[0])
    tree = TreeGrower(max_leaf_nodes=2, min_samples_leaf=1).grow(data, y)
    new = np.array([[3.0], [5.0], [7.0], [4.0], [-2.0], [1e9], [np.nan]])
    big = tree.leaf[-1]
    np.testing.assert_array_equal(tree.leaf_of(data.transform(new)) == big, [False, False, *[True] * 5])
    np.testing.assert_array_equal(leaf_numbers(tree, new), tree.leaf_of(data.transform(new)))


def test_rare_categories_are_one_bin() -> None:
    random = np.random.default_rng(12)
    X = np.r_[np.repeat(np.arange(254.0), 3), np.arange(254.0, 400.0)][:, None]
    y = np.where(X[:, 0] >= 254, 10.0, random.normal(size=X.size))
    data = BinnedData.fit(X, categorical=[0])
    assert data.bins().max() == 254
    tree = TreeGrower(max_leaf_nodes=2).grow(data, y)
    np.testing.assert_array_equal(tree.leaf == tree.leaf[-1], X[:, 0] >= 254)
    np.testing.assert_array_equal(tree.leaf, leaf_numbers(tree, X))


def test_missing_values_alone_can_be_split_off() -> None:
    X = np.array([[1.0], [2.0], [3.0], [np.nan], [np.nan]])
    tree = TreeGrower(max_leaf_nodes=2, min_samples_leaf=1).grow(BinnedData.fit(X), [0.0, 0.0, 0.0, 9.0, 9.0])
    np.testing.assert_array_equal(tree.leaf, [0, 0, 0, 1, 1])
    np.testing.assert_array_equal(leaf_numbers(tree, np.array([[np.inf], [-np.inf], [np.nan]])), [0, 0, 1])


def test_a_threshold_is_in_the_middle_of_what_the_node_leaves_open() -> None:
    X = np.array([0.0, 1.0, 4.0, 7.0, 10.0, 11.0])[:, None]
    data = BinnedData.fit(X, exact=True)
    np.testing.assert_array_equal(data.thresholds(0), [0.5, 2.5, 5.5, 8.5, 10.5])
    tree = TreeGrower(max_leaf_nodes=2, min_samples_leaf=1).grow(data, [0, 0, 9, 9, 1, 1], rows=[0, 1, 4, 5])
    assert tree.arrays.threshold[0] == 5.5


# ---------------------------------------------------------------------- the door


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g, d, y: g.grow(d, np.where(y > 1, np.nan, y)), "target of row"),
        (lambda g, d, y: g.grow(d, y * np.inf), "target of row 0"),
        (lambda g, d, y: g.grow(d, y, np.full(60, -1.0)), "weight of row 0 is -1"),
        (lambda g, d, y: g.grow(d, y, np.full(60, np.nan)), "weight of row 0"),
        (lambda g, d, y: g.grow_newton(d, y, -np.ones(60)), "hessian of row 0"),
        (lambda g, d, y: g.grow(d, y * 1e300, np.full(60, 1e300)), "too large once weighted"),
        (lambda g, d, y: g.grow(d, y[:-1]), "target has 59 entries, expected 60"),
        (lambda g, d, y: g.grow(d, y, np.ones(3)), "weight has 3 entries"),
        (lambda g, d, y: g.grow(d, np.c_[y, y], np.ones((60, 3))), "a row of weights has 3 entries"),
        (lambda g, d, y: g.grow(d, y, rows=[]), "no rows"),
        (lambda g, d, y: g.grow(d, y, rows=[60]), "row 60"),
        (lambda g, d, y: g.grow(d, y, rows=[-1]), "row -1"),
        (lambda g, d, y: g.grow(d, y, rows=y > 0), "flatnonzero"),
        (lambda g, d, y: g.grow(d, y, columns=np.ones(2, bool)), "columns has 2 entries"),
        (lambda g, d, y: g.grow(d, y, columns=[0, 1]), "mask of booleans"),
        (lambda g, d, y: g.grow(d, y, bought=np.ones(3, bool)), "needs costs"),
        (lambda g, d, y: g.grow(d, y, costs=bound(np.ones(2))), "costs has 2 entries"),
        (lambda g, d, y: g.grow(d, y, costs=bound(np.ones(3)), bought=np.ones(1, bool)), "bought has 1"),
        (lambda g, d, y: g.grow(d, y).leaf_of(BinnedData.fit(np.ones((2, 3)))), "not binned by"),
        (lambda g, d, y: d.transform(np.ones((2, 2))), "a row of X has 2 entries"),
        (lambda g, d, y: BinnedData.fit(np.ones((0, 3))), "no rows"),
        (lambda g, d, y: BinnedData.fit(y), "two dimensions"),
        (lambda g, d, y: BinnedData.fit(np.ones((2, 3)), categorical=[3]), "outside of 0..2"),
        (lambda g, d, y: BinnedData.fit(np.ones((2, 3)), max_bins=256), "max_bins"),
        (lambda g, d, y: BinnedData.fit(np.arange(70_000.0)[:, None], exact=True), "70000 distinct"),
        (lambda g, d, y: TreeGrower(max_leaf_nodes=0), "max_leaf_nodes is 0"),
        (lambda g, d, y: TreeGrower(cost_penalty=np.nan), "cost_penalty is nan"),
        (lambda g, d, y: TreeGrower(scale="sum"), "scale is 'sum'"),
        (
            lambda g, d, y: loss_derivatives("softmax", np.zeros((60, 2)), np.full(60, 2.0)),
            "class that has no",
        ),
    ],
)
def test_what_cannot_be_used_is_named(call: Any, message: str) -> None:
    random = np.random.default_rng(16)
    data = BinnedData.fit(random.normal(size=(60, 3)))
    with pytest.raises(ValueError, match=message):
        call(TreeGrower(), data, random.normal(size=60) + 2.0)


def test_rows_left_out_may_hold_anything() -> None:
    X, y = np.arange(40.0)[:, None], np.arange(40.0)
    y[30:] = np.nan
    tree = TreeGrower(min_samples_leaf=5).grow(BinnedData.fit(X), y, rows=np.arange(30))
    assert np.isfinite(tree.outputs()).all()


def test_rows_that_are_filled_in_later_have_the_same_bins():
    rng = np.random.default_rng(0)
    X = np.round(rng.normal(size=(300, 5)), 2)
    X[rng.random(X.shape) < 0.1] = np.nan
    X[:, 3], X[:, 4] = rng.integers(0, 6, 300), rng.random(300) > 0.95
    whole = BinnedData.fit(X, categorical=[3])
    parts = whole.empty(300)
    for first in (200, 0, 100):
        parts.fill_rows(first, X[first : first + 100], n_threads=2)
    np.testing.assert_array_equal(parts.bins(), whole.bins())
    with pytest.raises(ValueError, match="no such rows"):
        parts.fill_rows(250, X[:100])
    target = rng.normal(size=300)
    trees = [TreeGrower(min_samples_leaf=5).grow(data, target) for data in (whole, parts)]
    np.testing.assert_array_equal(trees[0].leaf, trees[1].leaf)
