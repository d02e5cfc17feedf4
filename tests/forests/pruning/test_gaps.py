"""Prunings between two that are best for some trade-off."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from anytime.forests.pruning.gaps import fill_gap, first_uses, spend
from anytime.forests.pruning.solvers import BudgetPruner
from tests.forests.pruning.cases import random_problem


def ends(problem):
    """The pruning that keeps least and the one that keeps all that lowers the error."""
    path = BudgetPruner(problem).path()
    return path[0], path[-1]


@pytest.mark.parametrize("requires", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_they_are_nested_and_their_costs_and_errors_lie_between(seed, requires):
    problem = random_problem(seed, n_trees=4, depth=5, n_rows=40, n_groups=7, requires=requires)
    path = BudgetPruner(problem).path()
    for small, large in pairwise(path):
        found = [small, *fill_gap(problem, small, large), large]
        for less, more in pairwise(found):
            problem.check(less.internal)
            assert (less.internal <= more.internal).all()
            assert less.spent < more.spent
            assert less.error >= more.error - 1e-12


@pytest.mark.parametrize("seed", range(5))
def test_no_pruning_on_the_edge_lies_below_the_hull(seed):
    problem = random_problem(seed, n_trees=3, depth=4, n_rows=20, n_groups=6)
    for small, large in pairwise(BudgetPruner(problem).path()):
        for between in fill_gap(problem, small, large):
            share = (between.spent - small.spent) / (large.spent - small.spent)
            assert between.error >= small.error + share * (large.error - small.error) - 1e-12


def test_an_edge_without_vertices_is_filled_group_by_group():
    problem = random_problem(3, n_trees=6, depth=5, n_rows=60, n_groups=8)
    small, large = ends(problem)
    found = fill_gap(problem, small, large)
    assert len(found) >= 3
    for pruning in found:  # a group is gone altogether, or only where rows have paid for it by then
        node, group = first_uses(problem)
        out = large.internal[node] & ~pruning.internal[node] & ~small.internal[node]
        kept = pruning.internal[node] & ~small.internal[node]
        assert set(group[out]) - set(group[kept]), "something was removed, but no group"


def test_first_uses_are_those_of_the_paths():
    problem = random_problem(1, n_trees=3, depth=4, n_groups=11, requires=True)
    expected = set()
    for node in range(problem.n_nodes):
        own = set(problem.node_groups[problem.group_start[node] : problem.group_start[node + 1]].tolist())
        above = problem.parent[node]
        while above >= 0:
            own -= set(
                problem.node_groups[problem.group_start[above] : problem.group_start[above + 1]].tolist()
            )
            above = problem.parent[above]
        expected |= {(node, group) for group in own}
    node, group = first_uses(problem)
    assert set(zip(node.tolist(), group.tolist(), strict=True)) == expected


def test_nothing_lies_between_a_pruning_and_itself():
    problem = random_problem(0)
    _, large = ends(problem)
    assert fill_gap(problem, large, large) == []


def test_the_first_group_to_go_is_that_of_least_error_per_price_paid():
    """By hand, for one tree: what becomes leaves, the error that adds, and the rows that no longer pay."""
    problem = random_problem(11, n_trees=1, depth=3, n_rows=30, n_groups=3, prices=(1.0, 2.0, 5.0))
    small, large = ends(problem)
    node, group = first_uses(problem)
    ratios = {}
    for g in np.unique(group[large.internal[node] & ~small.internal[node]]).tolist():
        top = [h for h in node[group == g].tolist() if large.internal[h] and not small.internal[h]]
        without = large.internal.copy()
        for h in range(problem.n_nodes):
            above = [h]
            while problem.parent[above[-1]] >= 0:
                above.append(int(problem.parent[above[-1]]))
            without[h] &= not set(above) & set(top)
        added = problem.evaluate(without)[0] - large.error
        paying = sum(problem.reach[h] for h in top) / problem.n_cost
        ratios[added / (problem.prices[g] * paying)] = without
    assert len(ratios) > 1
    assert_array_equal(fill_gap(problem, small, large)[-1].internal, ratios[min(ratios)])


# ---------------------------------------------------------------------- nodes instead of groups


def needs(problem, internal):
    """Every pair (group, cost row) with the nodes of ``internal`` that are the first on the row's way to need the group."""
    node, group = first_uses(problem)
    out = {}
    for row, leaves in enumerate(problem.leaf):
        ways = set()
        for leaf in leaves.tolist():
            while leaf >= 0:
                ways.add(leaf)
                leaf = int(problem.parent[leaf])
        for h, g in zip(node.tolist(), group.tolist(), strict=True):
            if h in ways and internal[h]:
                out.setdefault((g, row), set()).add(h)
    return out


@pytest.mark.parametrize("power", [0.0, 1.0, 1.5])
def test_nodes_are_charged_for_the_pairs_that_nobody_has_paid(power):
    problem = random_problem(
        2, n_trees=4, depth=4, n_rows=30, n_groups=5, prices=(1.0, 2.0, 5.0), requires=True
    )
    small, large = BudgetPruner(problem).path()[1], ends(problem)[1]
    paid = needs(problem, small.internal)
    expected = np.zeros(problem.n_nodes)
    for pair, nodes in needs(problem, large.internal).items():
        for h in nodes if pair not in paid else ():
            expected[h] += problem.prices[pair[0]] / len(nodes) ** power / problem.n_cost
    nodes = problem.graph.nodes
    masks = [pruning.internal[nodes].astype(np.uint8) for pruning in (large, small)]
    assert expected.any()
    for threads in (1, 2):
        assert_allclose(problem.graph.charges(*masks, power, threads), expected[nodes], rtol=1e-12)
    if power == 1:
        assert expected.sum() == pytest.approx(large.cost - small.cost)


@pytest.mark.parametrize("evaluation_cost", [0.0, 0.05])
@pytest.mark.parametrize("seed", range(6))
def test_what_is_spent_lies_between_and_within_the_budget(seed, evaluation_cost):
    problem = random_problem(seed, n_trees=5, depth=5, n_rows=50, n_groups=6, evaluation_cost=evaluation_cost)
    small, large = ends(problem)
    spent = []
    for share in (0.2, 0.5, 0.9):
        budget = small.spent + share * (large.spent - small.spent)
        found = spend(problem, small, large, budget)
        problem.check(found.internal)
        assert (small.internal <= found.internal).all()
        assert (found.internal <= large.internal).all()
        assert found.spent <= budget
        assert found.error <= small.error
        assert found.error == problem.evaluate(found.internal)[0]
        spent.append((found.spent - small.spent) / (budget - small.spent))
    assert spent[-1] > 0.8
    assert found.error < small.error


def test_where_little_is_too_much_nodes_lose_less_than_a_group():
    by_nodes, by_group = [], []
    for seed in range(10):
        problem = random_problem(seed, n_trees=6, depth=5, n_rows=60, n_groups=8)
        small, large = ends(problem)
        by_nodes.append(spend(problem, small, large, large.spent - 1e-9).error - large.error)
        by_group.append(fill_gap(problem, small, large)[-1].error - large.error)
    assert min(by_nodes) > 0
    assert np.mean(by_nodes) < 0.6 * np.mean(by_group)


def test_nothing_is_spent_where_nothing_lies_between():
    problem = random_problem(0)
    small, large = ends(problem)
    assert spend(problem, small, large, small.spent).spent == small.spent
    for vertex in BudgetPruner(random_problem(3, n_trees=6, depth=5, n_rows=60, n_groups=8)).path():
        assert spend(problem, small, small, vertex.spent) is small


def test_an_excess_of_a_rounding_error_ends_too():
    problem = random_problem(3, n_trees=6, depth=5, n_rows=60, n_groups=8, prices=(0.1, 0.3, 0.7))
    small, large = ends(problem)
    for budget in (np.nextafter(large.spent, 0), np.nextafter(small.spent, 1)):
        assert spend(problem, small, large, budget).spent <= budget
    assert spend(problem, small, large, large.spent).error == large.error
