"""Trees cut where paths become dear, what that costs, and trees put in the order of most gain per cost."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from anytime.costs import FeatureCosts
from anytime.forests.growing import ClassTreeGrower
from anytime.forests.impurity import Entropy, SquaredError
from anytime.forests.levels import cost_levels, cut, groups_before, max_cost
from anytime.forests.pruning.problem import leaves_of
from anytime.forests.sequence import levels_within, order_trees, sequence_plan
from anytime.forests.within_budget import JudgingRows
from anytime.trees.arrays import LEAF
from anytime.trees.binning import BinnedData
from anytime.trees.growing import join

COSTS = FeatureCosts(
    {"step": 1.0, "a": 2.0, "b": 3.0, "c": 5.0, "free": 0.0},
    groups={"step": [], "a": [0, 1], "b": [2], "c": [3, 4], "free": [5]},
    requires={"b": ["step"], "c": ["step", "a"]},
).bind(6)


def grown(n_trees=4, seed=0, n=300, regression=False, **settings):
    """Trees on numbers, a column of categories, and gaps; with the rows they were grown on."""
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, 6))
    X[:, 4] = random.integers(0, 6, n)
    X[random.random(X.shape) < 0.05] = np.nan
    signal = np.nan_to_num(X[:, 0] + X[:, 2] * X[:, 3] + (X[:, 4] % 2))
    y = signal if regression else np.searchsorted(np.quantile(signal, [0.4, 0.7]), signal)
    grower = ClassTreeGrower(SquaredError() if regression else Entropy(), split="expected", **settings)
    trees = grower.grow_forest(
        BinnedData.fit(X, categorical=[4]),
        y,
        n_classes=None if regression else 3,
        n_trees=n_trees,
        random_state=seed,
    )
    return X, y, trees


def path_to(tree, leaf):
    """Nodes from the root to a leaf."""
    arrays, path = tree.arrays, [leaf]
    while path[0]:
        node = path[0]
        path.insert(0, int(np.flatnonzero((arrays.left == node) | (arrays.right == node))[0]))
    return path


def bill(tree, nodes):
    """What testing at some nodes costs, from the definition."""
    names, requires = COSTS.costs.names, COSTS.costs.requires
    needed = {names[COSTS.column_group[tree.arrays.feature[node]]] for node in nodes}
    while more := {r for name in needed for r in requires.get(name, ())} - needed:
        needed |= more
    return sum(COSTS.costs.prices[name] for name in needed)


def test_groups_before_a_node_are_those_of_the_tests_above_it():
    _, _, trees = grown()
    paid = COSTS.costs.amounts(groups_before(join([t.arrays for t in trees]), COSTS) @ COSTS.prices)
    start = 0
    for tree in trees:
        for node in range(tree.arrays.feature.size):
            assert paid[start + node] == bill(tree, path_to(tree, node)[:-1])
        here = paid[start : start + tree.arrays.feature.size]
        assert max_cost(tree.arrays, COSTS) == here.max()
        start += tree.arrays.feature.size


def test_groups_of_some_nodes_take_no_memory_for_all():
    random = np.random.default_rng(0)
    X, y = random.standard_normal((8000, 5)), random.integers(2, size=8000)
    tree = ClassTreeGrower().grow(BinnedData.fit(X), y, n_classes=2).arrays
    groups = {str(g): [g] if g < 5 else [] for g in range(400)}
    costs = FeatureCosts(dict.fromkeys(groups, 1.0), groups=groups).bind(5)
    nodes = np.arange(tree.feature.size)[-100:]
    tracemalloc.start()
    some = groups_before(tree, costs, nodes)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    every = groups_before(tree, costs)
    assert_array_equal(some, every[nodes])
    assert most < every.nbytes / 2


@pytest.mark.parametrize("seed", range(3))
def test_a_cut_tree_answers_with_the_first_node_that_is_not_internal(seed):
    X, _, trees = grown(seed=seed)
    forest = join([tree.arrays for tree in trees])
    internal = np.random.default_rng(seed).random(forest.feature.size) < 0.85
    smaller = cut(forest, internal)
    leaves, cut_leaves = leaves_of(forest, X), leaves_of(smaller, X)
    for t, tree in enumerate(trees):
        start = forest.tree_start[t]
        for row in range(0, len(X), 7):
            path = path_to(tree, int(leaves[row, t] - start))
            end = next((node for node in path if not internal[start + node]), path[-1])
            assert_array_equal(smaller.value[cut_leaves[row, t]], tree.arrays.value[end])
    assert (smaller.feature == LEAF).sum() == (smaller.feature != LEAF).sum() + len(trees)
    assert (
        smaller.category_start.size - 1 == (smaller.category_set >= 0).sum() <= forest.category_start.size - 1
    )


def test_a_tree_cut_nowhere_stays_as_it_is_and_cut_at_its_root_is_a_leaf():
    _, _, trees = grown(1)
    arrays = trees[0].arrays
    whole = cut(arrays, np.ones(arrays.feature.size, dtype=bool))
    for name, value in arrays.asdict().items():
        assert_array_equal(getattr(whole, name), value)
    root = cut(arrays, np.zeros(arrays.feature.size, dtype=bool))
    assert root.feature.tolist() == [LEAF]
    assert_array_equal(root.value, arrays.value[:1])


def test_levels_cost_what_they_say_and_rise_to_the_whole_tree():
    X, _, trees = grown(1)
    tree = trees[0].arrays
    leaf = leaves_of(tree, X)[:, 0]
    weight = np.random.default_rng(0).random(len(X))
    levels = cost_levels(tree, COSTS, leaf, weight)
    assert len(levels) > 2
    for level in levels:
        paid = (groups_before(level.arrays, COSTS) @ COSTS.prices)[leaves_of(level.arrays, X)[:, 0]]
        assert np.isclose(np.average(paid, weights=weight), level.cost)
        assert paid.max() <= level.most
    costs = [level.cost for level in levels]
    assert costs == sorted(costs)
    assert_array_equal(levels[-1].arrays.feature, tree.feature)
    assert len({level.arrays.feature.size for level in levels}) == len(levels), "each has more nodes"
    # within a budget, the last is the largest that is
    budget = 0.8 * costs[-1]
    within = cost_levels(tree, COSTS, leaf, weight, budget=budget)
    every = np.unique(groups_before(tree, COSTS) @ COSTS.prices)
    inner = tree.feature != LEAF
    after = np.where(inner, (groups_before(tree, COSTS) @ COSTS.prices)[tree.left], 0)
    means = []
    for most in every[every >= after[0]]:
        smaller = cut(tree, after <= most)
        paid = (groups_before(smaller, COSTS) @ COSTS.prices)[leaves_of(smaller, X)[:, 0]]
        means.append(np.average(paid, weights=weight))
    assert np.isclose(within[-1].cost, max(mean for mean in means if mean <= budget))


def test_a_tree_without_a_test_is_a_level():
    X, y, _ = grown(1)
    leaf = ClassTreeGrower(Entropy()).grow(BinnedData.fit(X), np.zeros(len(y), int), n_classes=3, costs=COSTS)
    levels = cost_levels(leaf.arrays, COSTS, np.zeros(len(X), np.int32))
    assert [(level.most, level.cost) for level in levels] == [(0, 0.0)]


# ---------------------------------------------------------------------- plans and orders


def bench_of(n_trees=5, seed=0, regression=False, **settings):
    X, y, trees = grown(n_trees, seed, 400, regression, **settings)
    half = len(X) // 2  # some of them were learned from: good enough to compare orders on
    weight = np.random.default_rng(1).random(half)
    link = "identity" if regression else "probability"
    bench = JudgingRows(X[:half], y[:half], weight, COSTS, link)
    base = np.array([y.mean()]) if regression else np.bincount(y) / len(y)
    return bench, [bench.visit(tree) for tree in trees], base


@pytest.mark.parametrize("regression", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_each_tree_is_the_one_of_most_gain_per_cost(seed, regression):
    bench, trees, base = bench_of(6, seed, regression, max_depth=3)
    order = order_trees(trees, bench, base)
    assert sorted(order) == list(range(6))
    paid = np.zeros((len(bench.X), COSTS.n_groups), dtype=bool)
    done = []
    scores = np.tile(base, (len(bench.X), 1))
    truth = bench.truth(base.size)
    loss = np.average(((scores - truth) ** 2).sum(axis=1), weights=bench.weight)
    for chosen in order:
        offers = []
        for t in set(range(6)) - set(done):
            mean = np.mean([trees[u].outputs for u in [*done, t]], axis=0)
            after = np.average(((mean - truth) ** 2).sum(axis=1), weights=bench.weight)
            added = (bench.groups(trees[t]) & ~paid) @ COSTS.prices
            gain = loss - after
            cost = np.average(added, weights=bench.weight)
            offers.append((gain / max(cost, 1e-9) if gain > 0 else gain, t, after))
        best = max(offers)
        rate = next(rate for rate, t, _ in offers if t == chosen)
        assert np.isclose(rate, best[0], rtol=1e-6), "another tree gains more per cost"
        loss = next(after for _, t, after in offers if t == chosen)
        paid |= bench.groups(trees[chosen])
        done.append(chosen)


def test_a_plan_ends_with_the_mean_of_the_trees_and_knows_what_it_costs():
    bench, trees, base = bench_of()
    plan = sequence_plan(trees, bench, base)
    paid = np.any([bench.groups(tree) for tree in trees], axis=0) @ COSTS.prices
    total = COSTS.costs.amount(1) * np.average(paid, weights=bench.weight)
    assert np.isclose(plan.expected_costs[-1], total)
    assert np.isclose(-plan.quality[-1], bench.loss(np.mean([t.outputs for t in trees], axis=0)))
    assert np.isclose(-plan.quality[0], bench.loss(np.tile(base, (len(bench.X), 1))))
    best = np.maximum.accumulate(plan.quality[: plan.replaces.sum()])
    assert_array_equal(
        best, plan.quality[: plan.replaces.sum()], "a level was kept that answers worse than a cheaper one"
    )


def test_levels_within_a_budget_stay_within():
    bench, trees, base = bench_of(1)
    whole = sequence_plan(trees, bench, base).expected_costs[-1]
    ticks = COSTS.costs.ticks(0.6 * whole)
    plan = levels_within(trees[0], bench, base, ticks)
    assert 0 < plan.expected_costs[-1] <= 0.6 * whole
    assert levels_within(trees[0], bench, base, -1.0).n_stages == 0


def test_rows_without_a_truth_say_what_trees_cost_and_nothing_else():
    bench, trees, base = bench_of(2)
    silent = JudgingRows(bench.X, None, bench.weight, COSTS, "probability")
    plan = sequence_plan(trees, silent, base)
    assert plan.quality is None
    assert np.isnan(silent.error(trees[0].outputs))
    assert plan.n_stages >= sequence_plan(trees, bench, base).n_stages, "all levels are kept"
