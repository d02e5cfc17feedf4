"""budgeted_trees 3.7: greedy trees beside the cheapest possible, found by trying all."""

import numpy as np
import pytest

from anytime.forests.guarantee import TreeGuarantee, cost_bound
from anytime.forests.impurity import ClassPairs, Gini, Powers
from anytime_research.forests.exact_trees import (
    DiscreteProblem,
    printed_cost_bound,
    size_bound,
    slack_cost_bound,
)
from tests.forests.test_guarantee import IMPURITIES, NEARLY, grown, instances


def problems(n, seed=0):
    for X, y, prices in instances(n, seed):
        for impurity in IMPURITIES:
            problem = DiscreteProblem(X, y, prices, impurity)
            if problem.total_impurity > 0:
                yield problem


def check_sweep(n, seed=0):
    """Violations of the bound, and how many instances there were."""
    count = 0
    for problem in problems(n, seed):
        optimum, greedy = problem.optimum(), problem.greedy()
        bound = cost_bound(problem.total_impurity, problem.least_impurity)
        assert np.isfinite(optimum), "distinct rows can always be told apart"
        assert np.isfinite(greedy), "greedy got stuck although a tree exists"
        assert optimum <= greedy * NEARLY
        assert greedy <= bound * optimum * NEARLY
        count += 1
    return count


def test_greedy_keeps_its_bound_on_random_instances():
    assert check_sweep(300) > 1000


@pytest.mark.slow
def test_greedy_keeps_its_bound_on_7661_instances():
    """budgeted_trees 3.7 [V]: 7,661 instances, 0 violations."""
    assert check_sweep(1750, seed=1) >= 7661


def test_slack_greedy_keeps_the_corrected_bound_but_not_the_printed_one():
    """budgeted_trees 3.7, B3: lambda (1 + ln F), not lambda ln F + 1."""
    broken = 0
    for problem in problems(60, seed=2):
        optimum, impurity, least = problem.optimum(), problem.total_impurity, problem.least_impurity
        for slack in (1.3, 2.0, 4.0):
            greedy = problem.greedy(slack)
            assert greedy <= slack_cost_bound(impurity, least, slack) * optimum * NEARLY
            broken += greedy > printed_cost_bound(impurity, least, slack) * optimum * NEARLY
    assert broken


def test_two_rows_and_two_prices_break_the_printed_bound():
    """budgeted_trees 3.7: costs 1 and 1.9, lambda = 2: F = 1, printed bound 1, actual ratio 1.9."""
    problem = DiscreteProblem([[0, 0], [1, 1]], [0, 1], [1.0, 1.9], ClassPairs())
    assert (problem.total_impurity, problem.optimum(), problem.greedy(slack=2)) == (1, 1, 1.9)
    assert printed_cost_bound(1.0, slack=2) == 1
    assert slack_cost_bound(1.0, slack=2) == 2
    assert cost_bound(5.0) == printed_cost_bound(5.0)


def test_rows_that_differ_in_their_class_only_have_no_tree():
    problem = DiscreteProblem([[0, 1], [0, 1], [1, 1]], [0, 1, 1], [1, 1], ClassPairs())
    assert problem.optimum() == np.inf
    assert problem.greedy() == np.inf
    assert DiscreteProblem([[0, 1], [0, 1], [1, 1]], [0, 1, 1], [1, 1], ClassPairs(1)).optimum() == 0


def test_optimum_needs_all_columns_of_a_parity():
    X = np.array(np.meshgrid(*[[0, 1]] * 3)).reshape(3, -1).T
    assert DiscreteProblem(X, X.sum(axis=1) % 2, [1, 2, 4], ClassPairs()).optimum() == 7
    assert DiscreteProblem(X, X[:, 1], [1, 2, 4], ClassPairs()).optimum() == 2


def test_a_value_looked_up_costs_less_than_one_searched_for():
    X, y = np.arange(4)[:, None], np.array([0, 1, 0, 1])
    assert DiscreteProblem(X, y, [1], ClassPairs()).optimum() == 1
    assert DiscreteProblem(X, y, [1], ClassPairs(), tests="stumps").optimum() == 2


def test_explicit_forms_are_the_bound_at_its_worst():
    """budgeted_trees 3.7, table of explicit forms."""
    for n_classes in (2, 3, 4):
        even = np.full((1, n_classes), 12.0)
        n = int(even.sum())
        assert np.isclose(size_bound(ClassPairs(), n, n_classes), cost_bound(ClassPairs()(even)[0]))
        for degree in (2, 3, 4, 5):
            powers = Powers(degree)
            assert cost_bound(powers(even)[0], 2**degree - 2) <= size_bound(powers, n, n_classes)
    assert np.isclose(size_bound(ClassPairs(), 24), 1 + 2 * np.log(24 / 2))
    with pytest.raises(ValueError, match="no closed form"):
        size_bound(Gini(), 10)


@pytest.mark.parametrize("tests", ["multiway", "stumps"])
def test_what_a_run_says_of_the_optimum_is_true(tests):
    for X, y, prices in instances(15, seed=3):
        for impurity in (ClassPairs(), ClassPairs(1), Powers(3)):
            guarantee = TreeGuarantee.of(*grown(X, y, prices, impurity, tests=tests))
            problem = DiscreteProblem(X, y, prices, impurity, tests)
            assert guarantee.optimum_at_least <= problem.optimum() * NEARLY
            assert problem.optimum() <= guarantee.charged * NEARLY <= problem.greedy() * NEARLY**2
