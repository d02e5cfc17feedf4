"""Mean budgets on rows that nothing was chosen on: they hold, and are spent where there is something to spend them on."""

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_friedman1
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import anytime as at
from anytime.forests.pruning.new_rows import CostOnNewRows
from anytime.forests.pruning.solvers import BudgetPruner
from tests.forests.pruning.cases import random_problem

SEEDS = range(4)


def bundled(name):
    X, y, costs = at.datasets.load(name)
    return np.asarray(X, dtype=float), np.asarray(y), costs


DATA = {
    "friedman": (*make_friedman1(500, 10, random_state=0), at.FeatureCosts(np.arange(1.0, 11.0))),
    "blobs": (*make_classification(400, 15, n_informative=6, random_state=0), np.linspace(1, 5, 15)),
    "diabetes": bundled("diabetes"),
    "breast_cancer": bundled("breast_cancer"),
}


def parts(name, seed, *shares):
    """Rows of a set in a random order, cut at shares of their number."""
    X, y, costs = DATA[name]
    rows = np.random.default_rng(seed).permutation(len(y))
    cuts = np.split(rows, [int(share * len(rows)) for share in shares])
    return [(X[part], y[part]) for part in cuts], costs


def forest(name, seed):
    kind = RandomForestRegressor if name in ("friedman", "diabetes") else RandomForestClassifier
    return kind(15, random_state=seed)


def face(name):
    return at.PrunedForestRegressor if name in ("friedman", "diabetes") else at.PrunedForestClassifier


@pytest.mark.parametrize("name", DATA)
def test_a_mean_budget_holds_on_new_rows(name):
    over = []
    for seed in SEEDS:
        (given, new), costs = parts(name, seed, 0.5)
        whole = face(name)(forest(name, seed), costs=costs, random_state=seed).fit(*given)
        budget = 0.5 * whole.path_.cost[-1]
        model = whole.set_params(mean_budget=budget).fit(*given)
        assert model.cost(given[0]).mean() <= 1.03 * budget
        over.append(model.cost(new[0]).mean() / budget - 1)
    assert -0.05 < np.mean(over) <= 0.03
    assert max(over) <= 0.1


@pytest.mark.parametrize("name", DATA)
def test_a_mean_budget_holds_without_the_training_rows(name):
    """A hundred held-out rows choose the pruning: what they pay is up to a fifth too little."""
    over, chosen_by = [], []
    for seed in SEEDS:
        (given, held, new), costs = parts(name, seed, 0.3, 0.5)
        grown = forest(name, seed).fit(*given)
        budget = 0.5 * at.prune_forest(grown, *held, costs=costs).path_.cost[-1]
        model = at.prune_forest(grown, *held, costs=costs, mean_budget=budget)
        assert model.path_.expected_cost[-1] <= budget
        over.append(model.cost(new[0]).mean() / budget - 1)
        chosen_by.append(model.cost(held[0]).mean() / budget - 1)
    assert -0.05 < np.mean(over) <= 0.03
    if name == "friedman":
        assert np.mean(chosen_by) < -0.08, "rows that chose pay less: that is what is corrected"


@pytest.mark.parametrize("name", ["diabetes", "breast_cancer"])
def test_a_budget_is_spent_where_prices_jump(name):
    """At most 5 % is left, or there is no node that lowers the error and that the rest pays for."""
    (given, held), costs = parts(name, 0, 0.6)
    grown = forest(name, 0).fit(*given)
    rows = {"X_train": given[0], "y_train": given[1]}
    whole = at.prune_forest(grown, *held, costs=costs, **rows)
    for share in (0.15, 0.3, 0.45, 0.6):
        budget = share * whole.path_.cost[-1]
        model = at.prune_forest(grown, *held, costs=costs, mean_budget=budget, **rows)
        assert model.path_.cost[-1] <= budget * (1 + 1e-12)
        left = 1 - model.path_.cost[-1] / budget
        assert left <= 0.05 or not affordable_nodes(model.pruner_.problem, model.pruning_, budget), share


def affordable_nodes(problem, pruning, budget):
    """Nodes that, with all above them, lower the error of a pruning within a budget."""
    found = []
    for node in np.flatnonzero(problem.splits & ~pruning.internal):
        internal = pruning.internal.copy()
        above = node
        while above >= 0 and not internal[above]:
            internal[above], above = True, problem.parent[above]
        error, cost, evaluation_cost = problem.evaluate(internal)
        if cost + evaluation_cost <= budget and error < pruning.error * (1 - 1e-9):
            found.append(node)
    return found


def test_costs_on_new_rows_rise_and_go_both_ways():
    problem = random_problem(3, n_trees=6, depth=5, n_rows=60, n_groups=8)
    pruner = BudgetPruner(problem)
    path = pruner.path()
    curve = CostOnNewRows.of(problem, path, method="min_cut")
    amounts = np.linspace(0, path[-1].spent, 30)
    expected = curve.of_new_rows(amounts)
    assert (np.diff(expected) >= 0).all()
    assert (expected >= amounts - 1e-12).all()
    assert expected[0] == 0
    assert expected[-1] == path[-1].spent
    inside = amounts[(amounts > 0) & (expected < path[-1].spent)]
    np.testing.assert_allclose([curve.to_aim_at(curve.of_new_rows(a)) for a in inside], inside)


def test_many_rows_are_not_cross_fitted():
    problem = random_problem(0, n_trees=2, depth=2, n_rows=2001)
    path = BudgetPruner(problem).path()
    curve = CostOnNewRows.of(problem, path, method="min_cut")
    np.testing.assert_array_equal(curve.measured, curve.expected)
