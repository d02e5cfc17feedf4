"""Prunings to compare with: cost complexity against scikit-learn's, and GreedyPrune against its definition."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeRegressor

from anytime.costs import FeatureCosts
from anytime.forests import BudgetPruner, prune_forest
from anytime.forests.nodes import node_statistics, with_unseen
from anytime.forests.pruning.problem import PruningProblem
from anytime_research.forests.baselines import cost_complexity, greedy_prune
from tests.forests.pruning.cases import all_prunings, random_problem


def assert_nested(problem, prunings):
    """From the whole forest to its roots, each inside the one before, and rows never pay more."""
    assert_array_equal(prunings[0].internal, problem.splits)
    assert not prunings[-1].internal.any()
    for larger, smaller in pairwise(prunings):
        assert (larger.internal >= problem.check(smaller.internal)).all()
        assert larger.internal.sum() > smaller.internal.sum()
        assert larger.cost >= smaller.cost - 1e-12


@pytest.fixture(scope="module")
def forest():
    X, y = load_wine(return_X_y=True)
    model = RandomForestClassifier(6, max_depth=5, random_state=0).fit(X[::2], y[::2])
    nodes = node_statistics(model)
    costs = FeatureCosts(np.arange(1.0, 14.0)).bind(13)
    return PruningProblem.of(nodes.trees, nodes.error, nodes.n_error, X[1::2], costs)


def test_weakest_links_of_a_tree_are_those_of_scikit_learn():
    """Its squared errors, unlike its classes, are pruned by the same risk: every level and every number of leaves."""
    X, y = load_wine(return_X_y=True)
    grow = {"max_depth": 4, "random_state": 0}
    tree = DecisionTreeRegressor(**grow).fit(X, y)
    nodes = node_statistics(tree)
    problem = PruningProblem.of(
        nodes.trees, nodes.error, nodes.n_error, X, FeatureCosts(np.ones(13)).bind(13)
    )
    path = tree.cost_complexity_pruning_path(X, y)
    prunings = cost_complexity(problem)
    assert_allclose([pruning.cost_penalty for pruning in prunings], path.ccp_alphas, atol=1e-12)
    assert_allclose([pruning.error for pruning in prunings], path.impurities, atol=1e-12)
    for alpha, pruning in zip(path.ccp_alphas, prunings, strict=True):
        pruned = DecisionTreeRegressor(**grow, ccp_alpha=alpha * (1 + 1e-9)).fit(X, y)
        assert pruned.get_n_leaves() == pruning.internal.sum() + 1


@pytest.mark.parametrize("arity", [2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_a_level_is_the_best_of_all_prunings_of_each_tree(seed, arity):
    """budgeted_trees 5.7: the smallest tree with the least ``R(T) + level * leaves``."""
    problem = random_problem(seed, n_trees=1, depth=3, arity=arity)
    for pruning in cost_complexity(problem)[1:]:
        level = pruning.cost_penalty
        best = min(_penalised(problem, other, level) for other in all_prunings(problem))
        assert _penalised(problem, pruning.internal, level) == pytest.approx(best, abs=1e-9)


def _penalised(problem, internal, level):
    leaves = ~internal & np.concatenate([[True], internal])[problem.parent + 1]
    return problem.error[leaves].sum() / problem.n_error + level * leaves.sum()


def test_one_level_for_all_trees(forest):
    """budgeted_trees 5.7 and C14: no tree keeps a link that is weaker than the level."""
    for pruning in cost_complexity(forest)[1:]:
        for t in range(forest.n_trees):
            nodes = np.arange(*forest.tree_start[t : t + 2])
            for node in nodes[pruning.internal[nodes]]:
                leaves = _leaves_below(forest, pruning.internal, node)
                saved = (forest.error[node] - forest.error[leaves].sum()) / forest.n_error
                assert saved / (len(leaves) - 1) > pruning.cost_penalty * (1 - 1e-9)


def _leaves_below(problem, internal, node):
    if not internal[node]:
        return [node]
    children = np.flatnonzero(problem.parent == node)
    return [leaf for child in children for leaf in _leaves_below(problem, internal, child)]


def test_prices_do_not_matter_to_cost_complexity(forest):
    from dataclasses import replace

    dear = replace(forest, prices=forest.prices[::-1] ** 2)
    for one, other in zip(cost_complexity(forest), cost_complexity(dear), strict=True):
        assert_array_equal(one.internal, other.internal)


def test_cost_complexity_is_nested(forest):
    prunings = cost_complexity(forest)
    assert_nested(forest, prunings)
    assert (np.diff([pruning.cost_penalty for pruning in prunings]) >= 0).all()
    few = cost_complexity(forest, n_levels=5)
    assert_nested(forest, few)
    assert 3 <= len(few) <= 8 < len(prunings)
    every = {pruning.internal.tobytes() for pruning in prunings}
    assert all(pruning.internal.tobytes() in every for pruning in few)


@pytest.mark.parametrize("score", ["lagrangian", "ratio"])
def test_greedy_prune_is_nested(forest, score):
    """budgeted_trees 5.8: at most one step for each group."""
    prunings = greedy_prune(forest, 0.002, score=score)
    assert_nested(forest, prunings)
    assert len(prunings) <= forest.prices.size + 1


@pytest.mark.parametrize("requires", [False, True])
@pytest.mark.parametrize("score", ["lagrangian", "ratio"])
@pytest.mark.parametrize("seed", range(4))
def test_greedy_prune_takes_the_best_group_out(seed, score, requires):
    problem = random_problem(seed, n_trees=3, prices=(1.0, 4.0), requires=requires, evaluation_cost=0.01)
    prunings = greedy_prune(problem, 0.03, score=score)
    groups = [
        set(problem.node_groups[a:b])
        for a, b in zip(problem.group_start, problem.group_start[1:], strict=False)
    ]
    for before, after in pairwise(prunings):
        marks = {}
        for g in range(4):
            internal = before.internal & np.array([g not in needed for needed in groups])
            for node in range(problem.n_nodes):  # a collapsed node takes what is below it along
                if problem.parent[node] >= 0 and not internal[problem.parent[node]]:
                    internal[node] = False
            if internal.sum() == before.internal.sum():
                continue
            error, cost, evaluation_cost = problem.evaluate(internal)
            saved, added = before.spent - cost - evaluation_cost, error - before.error
            worth = np.inf if added < 1e-12 else saved / added
            marks[internal.tobytes()] = (
                -(error + 0.03 * (cost + evaluation_cost)) if score == "lagrangian" else worth
            )
        assert marks[after.internal.tobytes()] == pytest.approx(max(marks.values()), rel=1e-9)


def test_a_price_moves_the_greedy_order():
    """The negative control: with a high weight of cost another group goes first than with none."""
    moved = 0
    for seed in range(6):
        problem = random_problem(seed, n_trees=3, prices=(1.0, 30.0))
        by_error, by_cost = greedy_prune(problem, 0.0)[1], greedy_prune(problem, 1.0)[1]
        moved += not np.array_equal(by_error.internal, by_cost.internal)
        assert by_cost.cost <= by_error.cost
    assert moved >= 2


def test_wrong_arguments():
    problem = random_problem(0)
    with pytest.raises(ValueError, match="'lagrangian' or 'ratio'"):
        greedy_prune(problem, score="best")
    with pytest.raises(ValueError, match="negative"):
        greedy_prune(problem, -1.0)


def test_roots_alone_are_left_as_they_are():
    problem = random_problem(0, depth=0)
    assert [pruning.internal.any() for pruning in cost_complexity(problem)] == [False]
    assert [pruning.internal.any() for pruning in greedy_prune(problem)] == [False]


def test_an_exact_pruning_is_at_least_as_good_as_the_baselines(forest):
    """At the cost of each baseline's pruning none has less training error than the lower hull of the exact ones."""
    exact = BudgetPruner(forest).path(n=100)
    cost, error = [p.cost for p in exact], [p.error for p in exact]
    for other in (*cost_complexity(forest), *greedy_prune(forest)):
        if cost[0] <= other.cost <= cost[-1]:
            assert other.error >= np.interp(other.cost, cost, error) - 1e-9


@pytest.mark.parametrize("seed", range(3))
def test_with_a_budget_it_is_hardly_ever_worse_than_taking_out_groups(seed):
    X, y = load_wine(return_X_y=True)
    forest = RandomForestClassifier(10, random_state=seed).fit(X[::2], y[::2])
    held, truth = X[1::2], y[1::2]
    statistics = with_unseen(node_statistics(forest), held, truth, share=0.632)
    unit = FeatureCosts(np.ones(13)).bind(13)
    problem = PruningProblem.of(statistics.trees, statistics.error, statistics.n_error, held, unit)
    theirs = greedy_prune(problem)
    for budget in (1.5, 2, 2.5, 3, 3.5, 4, 4.5):
        ours = prune_forest(forest, held, truth, mean_budget=budget).path_
        assert ours.cost[-1] <= budget
        assert ours.error[-1] <= min(p.error for p in theirs if p.cost <= ours.cost[-1]) + 0.003
