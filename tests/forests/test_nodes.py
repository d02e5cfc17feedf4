"""Answers and errors at every node of a forest, whoever grew it."""

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_diabetes, load_wine
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from anytime.forests.growing import ClassTreeGrower
from anytime.forests.impurity import Gini, SquaredError
from anytime.forests.nodes import (
    NodeStatistics,
    grown_from,
    keeps_errors,
    node_statistics,
    parents,
    usage,
    with_unseen,
)
from anytime.trees.arrays import LEAF
from anytime.trees.binning import BinnedData
from tests.forests.pruning.cases import random_problem

WINE, DIABETES = load_wine(return_X_y=True), load_diabetes(return_X_y=True)
LIGHTGBM = {
    "boosting_type": "rf",
    "n_estimators": 4,
    "bagging_freq": 1,
    "bagging_fraction": 0.7,
    "n_jobs": 1,
    "verbose": -1,
}


def rows_at_nodes(tree, X):
    """For every node of a scikit-learn tree, which rows pass through it."""
    return tree.decision_path(X.astype(np.float32)).toarray().astype(bool).T


def in_bag(forest, n):
    """How often each tree of a random forest has drawn each row."""
    return [np.bincount(drawn, minlength=n) for drawn in forest.estimators_samples_]


def test_in_bag_counts_of_a_random_forest():
    """budgeted_trees 4.4: errors are in-bag rows, with repeats, that are not of the node's majority class."""
    X, y = WINE
    forest = RandomForestClassifier(3, max_depth=3, random_state=0).fit(X, y)
    nodes = node_statistics(forest)
    assert nodes.n_error == len(X)
    for t, (tree, drawn) in enumerate(zip(forest.estimators_, in_bag(forest, len(X)), strict=True)):
        own = slice(*nodes.trees.tree_start[t : t + 2])
        counts = rows_at_nodes(tree.tree_, X) @ (drawn[:, None] * (y[:, None] == np.arange(3)))
        assert_allclose(nodes.error[own], counts.sum(axis=1) - counts.max(axis=1), atol=1e-9)
        assert_allclose(nodes.trees.value[own], counts / counts.sum(axis=1, keepdims=True))
    assert_allclose(nodes.base, nodes.trees.value[nodes.trees.tree_start[:-1]].mean(axis=0))


def test_squares_about_the_mean_of_a_random_forest():
    X, y = DIABETES
    forest = RandomForestRegressor(3, max_depth=3, random_state=0).fit(X, y)
    nodes = node_statistics(forest)
    for t, (tree, drawn) in enumerate(zip(forest.estimators_, in_bag(forest, len(X)), strict=True)):
        own = slice(*nodes.trees.tree_start[t : t + 2])
        for error, value, here in zip(
            nodes.error[own], nodes.trees.value[own, 0], rows_at_nodes(tree.tree_, X), strict=True
        ):
            weight = drawn * here
            assert value == pytest.approx(np.average(y, weights=weight))
            assert error == pytest.approx(weight @ (y - value) ** 2, abs=1e-6)


def test_class_weights_count():
    X, y = WINE
    heavy = ExtraTreesClassifier(2, max_depth=2, class_weight={0: 5.0, 1: 1.0, 2: 1.0}, random_state=0).fit(
        X, y
    )
    nodes = node_statistics(heavy)
    assert nodes.n_error == pytest.approx(len(y) + 4 * (y == 0).sum())
    assert nodes.error[0] == pytest.approx((y != 0).sum())


def test_several_targets_at_once():
    X, y = DIABETES
    both = np.column_stack([y, -2 * y])
    forest = RandomForestRegressor(2, max_depth=2, bootstrap=False, random_state=0).fit(X, both)
    nodes = node_statistics(forest)
    assert nodes.error[0] == pytest.approx(((both - both.mean(axis=0)) ** 2).sum())
    assert_allclose(node_statistics(forest, X, both).error, nodes.error)


@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeClassifier(max_depth=4, random_state=0),
        ExtraTreesClassifier(3, max_depth=4, random_state=0),
        RandomForestClassifier(3, max_depth=4, bootstrap=False, random_state=0),
    ],
)
def test_rows_sent_through_give_what_the_forest_remembers(model):
    X, y = WINE
    model.fit(X, y)
    remembered, counted = node_statistics(model), node_statistics(model, X, y)
    assert_allclose(counted.error, remembered.error, atol=1e-9)
    assert_array_equal(counted.trees.value, remembered.trees.value)
    assert counted.n_error == remembered.n_error


def test_weights_are_repeats():
    X, y = WINE
    model = RandomForestClassifier(3, max_depth=4, random_state=0).fit(X, y)
    weight = np.random.default_rng(0).integers(0, 3, len(X))
    repeated = np.repeat(np.arange(len(X)), weight)
    weighted = node_statistics(model, X, y, weight)
    assert_allclose(weighted.error, node_statistics(model, X[repeated], y[repeated]).error)
    assert weighted.n_error == weight.sum()


@pytest.mark.parametrize("criterion", ["absolute_error", "poisson"])
def test_errors_are_squares_whatever_the_criterion(criterion):
    X, y = DIABETES
    model = RandomForestRegressor(2, max_depth=3, criterion=criterion, bootstrap=False, random_state=0).fit(
        X, y
    )
    assert not keeps_errors(model)
    with pytest.raises(ValueError, match="stores no training errors"):
        node_statistics(model)
    nodes = node_statistics(model, X, y)
    root = nodes.trees.value[0, 0]
    assert root == pytest.approx(np.median(y) if criterion == "absolute_error" else y.mean())
    assert nodes.error[0] == pytest.approx(((y - root) ** 2).sum())


# ---------------------------------------------------------------------- rows that a tree has not seen


@pytest.mark.parametrize("regression", [False, True])
def test_rows_out_of_the_bag_count_for_their_share(regression):
    X, y = DIABETES if regression else WINE
    face = RandomForestRegressor if regression else RandomForestClassifier
    forest = face(3, max_depth=4, random_state=0).fit(X, y)
    seen = grown_from(forest)
    kept = node_statistics(forest)
    mixed = with_unseen(kept, X, y, seen=seen, share=0.632)
    assert mixed.n_error == 1
    for t, (tree, drawn) in enumerate(zip(forest.estimators_, in_bag(forest, len(X)), strict=True)):
        assert_array_equal(seen[t], drawn > 0)
        outside = drawn == 0
        for node, here in enumerate(rows_at_nodes(tree.tree_, X), start=kept.trees.tree_start[t]):
            value = kept.trees.value[node]
            wrong = (y - value[0]) ** 2 if regression else y != value.argmax()
            unseen = wrong[here & outside].sum() / outside.sum()
            expected = 0.368 * kept.error[node] / len(X) + 0.632 * unseen
            assert mixed.error[node] == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_held_out_rows_are_unseen_by_all_trees():
    X, y = WINE
    model = ExtraTreesClassifier(3, random_state=0).fit(X[::2], y[::2])
    assert grown_from(model) is None
    alone = with_unseen(node_statistics(model), X[1::2], y[1::2], share=1.0)
    routed = node_statistics(model, X[1::2], y[1::2])
    assert_allclose(alone.error, routed.error / routed.n_error, atol=1e-12)
    none = with_unseen(node_statistics(model), X[1::2], y[1::2], share=0.0)
    assert_allclose(none.error, node_statistics(model).error / 89)


def test_a_tree_that_has_seen_all_rows_keeps_its_error():
    X, y = WINE
    model = RandomForestClassifier(2, random_state=0).fit(X, y)
    kept = node_statistics(model)
    all_rows = [np.ones(len(X), dtype=bool)] * 2
    assert_allclose(with_unseen(kept, X, y, seen=all_rows, share=0.9).error, kept.error / len(X))
    assert kept.error[0] > 1  # nothing was changed in place


FORESTS = {
    "lightgbm": lambda: lgb.LGBMClassifier(**LIGHTGBM),
    "xgboost": lambda: xgb.XGBRFClassifier(n_estimators=4, max_depth=4),
}


@pytest.mark.parametrize("library", FORESTS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_leaves_stay_and_inner_nodes_are_means_of_them(library, n_classes):
    X, y = WINE
    y = np.minimum(y, n_classes - 1)
    model = FORESTS[library]().fit(X, y)
    assert not keeps_errors(model)
    nodes = node_statistics(model, X, y)
    from anytime.trees.importers import import_trees

    original = import_trees(model).trees
    leaf = original.feature == LEAF
    assert_array_equal(nodes.trees.value[leaf], original.value[leaf])
    from anytime.forests.pruning.problem import leaves_of

    reached, above = leaves_of(nodes.trees, X), parents(nodes.trees)
    for t in range(nodes.trees.n_trees):
        total, count = np.zeros(above.size), np.zeros(above.size)
        for node in reached[:, t]:
            answer = original.value[node, 0]
            while node >= 0:
                total[node] += answer
                count[node] += 1
                node = above[node]
        seen = np.flatnonzero(count)
        assert_allclose(nodes.trees.value[seen, 0], total[seen] / count[seen])
    if n_classes == 2:  # each tree decides by the sign of its answer
        for t in range(nodes.trees.n_trees):
            root = nodes.trees.tree_start[t]
            assert nodes.error[root] == ((nodes.trees.value[root, 0] > 0) != y).sum()
    else:  # each tree speaks for one class: squares about its share
        for t in range(nodes.trees.n_trees):
            share = np.mean(y == nodes.trees.tree_output[t])
            assert nodes.error[nodes.trees.tree_start[t]] == pytest.approx(len(y) * share * (1 - share))


def test_squares_about_the_answer_of_other_regressors():
    X, y = DIABETES
    model = xgb.XGBRFRegressor(n_estimators=3, max_depth=3).fit(X, y)
    nodes = node_statistics(model, X, y)
    for t in range(3):
        root = nodes.trees.tree_start[t]
        assert nodes.error[root] == pytest.approx(((y - nodes.trees.value[root, 0]) ** 2).sum())


def test_a_leaf_that_no_row_reaches_counts_like_any_other():
    X, y = WINE
    model = xgb.XGBRFClassifier(n_estimators=2, max_depth=4).fit(X, y == 0)
    nodes = node_statistics(model, X[:1], (y == 0)[:1])
    assert np.isfinite(nodes.trees.value).all()
    inner = np.flatnonzero(nodes.trees.feature != LEAF)
    above = parents(nodes.trees)
    for node in inner:
        children = nodes.trees.value[above == node, 0]
        assert children.min() - 1e-12 <= nodes.trees.value[node, 0] <= children.max() + 1e-12


@pytest.mark.parametrize("regression", [False, True])
def test_trees_grown_here(regression):
    X, y = DIABETES if regression else WINE
    grower = ClassTreeGrower(SquaredError() if regression else Gini(), split="expected", max_depth=3)
    trees = grower.grow_forest(
        BinnedData.fit(X[:150]), y[:150], n_classes=None if regression else 3, n_trees=2, random_state=1
    )
    nodes = NodeStatistics.of_trees(trees, classes=None if regression else np.arange(3))
    assert keeps_errors(nodes)
    assert nodes.n_error == 150
    weight = trees[0].in_bag
    counted = node_statistics(nodes, X[:150], y[:150], weight)
    first = slice(0, nodes.trees.tree_start[1])
    assert_allclose(counted.error[first], nodes.error[first], rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize(
    "model",
    [
        GradientBoostingClassifier(n_estimators=2),
        lgb.LGBMClassifier(n_estimators=2, verbose=-1),
        xgb.XGBClassifier(n_estimators=2),
        xgb.XGBClassifier(n_estimators=2, num_parallel_tree=3),
    ],
)
def test_boosted_trees_are_refused(model):
    X, y = WINE
    with pytest.raises(ValueError, match="adds up its trees"):
        node_statistics(model.fit(X, y), X, y)


def test_wrong_models_and_rows_are_refused():
    X, y = WINE
    with pytest.raises(TypeError, match="cannot import trees"):
        node_statistics(object())
    with pytest.raises(ValueError, match="not fitted"):
        node_statistics(RandomForestClassifier())
    with pytest.raises(ValueError, match="adds up"):
        node_statistics(HistGradientBoostingRegressor(max_iter=2).fit(X, y))
    light = lgb.LGBMClassifier(**LIGHTGBM).fit(X, y)
    with pytest.raises(ValueError, match="stores no training errors"):
        node_statistics(light)
    with pytest.raises(ValueError, match="together"):
        node_statistics(light, X)
    with pytest.raises(ValueError, match="label 7"):
        node_statistics(light, X, np.full(len(X), 7))
    with pytest.raises(ValueError, match="inconsistent"):
        node_statistics(light, X, y[:-1])
    with pytest.raises(ValueError, match="predicts 1 numbers"):
        node_statistics(DecisionTreeRegressor(max_depth=2).fit(X, y), X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="no trees"):
        NodeStatistics.of_trees([])


def test_extra_trees_for_numbers_remember():
    X, y = DIABETES
    model = ExtraTreesRegressor(2, max_depth=3, random_state=0).fit(X, y)
    assert_allclose(node_statistics(model).error, node_statistics(model, X, y).error, rtol=1e-8, atol=1e-5)


# ---------------------------------------------------------------------- usage


def test_usage_counts_tests_on_the_way_over_all_trees():
    """budgeted_trees 4.12: shares of rows that use a group never, 1 to 7 times, and more often."""
    problem = random_problem(0, n_trees=12, depth=4, n_rows=20, n_groups=3, weight=np.linspace(0.5, 1.5, 20))
    for internal in (problem.splits, problem.splits & (problem.parent < 0)):
        times = np.zeros((20, 3), dtype=int)
        for i, t in np.ndindex(problem.leaf.shape):
            node = problem.leaf[i, t]
            while node >= 0:
                if internal[node]:
                    times[i, problem.node_groups[problem.group_start[node]]] += 1
                node = problem.parent[node]
        parts = [times == 0, (times >= 1) & (times <= 7), times > 7]
        expected = np.array(
            [[np.average(part[:, g], weights=problem.weight) for part in parts] for g in range(3)]
        )
        assert_allclose(usage(problem, internal), expected)
        assert_allclose(usage(problem, internal).sum(axis=1), 1)
    assert (usage(problem)[:, 2] > 0).any()
    assert_allclose(usage(problem, np.zeros(problem.n_nodes, dtype=bool)), [[1, 0, 0]] * 3)
