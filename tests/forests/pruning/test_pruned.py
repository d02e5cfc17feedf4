"""Budgets that are spent, searches that are interrupted, and what a pruned forest knows of itself."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from anytime.forests.pruning import pruned
from anytime.forests.pruning.models import PrunedForestClassifier, prune_forest
from anytime.forests.pruning.solvers import BudgetPruner
from tests.forests.pruning.cases import random_problem


@pytest.fixture(scope="module")
def data():
    """Two columns of five matter."""
    random = np.random.default_rng(0)
    X = random.normal(size=(400, 5))
    y = (X[:, 0] + X[:, 1] + 0.5 * random.normal(size=400) > 0).astype(int)
    return X[:200], y[:200], X[200:], y[200:]


@pytest.fixture(scope="module")
def forest(data):
    X, y, *_ = data
    return RandomForestClassifier(10, random_state=0).fit(X, y)


# ---------------------------------------------------------------------- a budget is spent


@pytest.mark.parametrize("seed", range(3))
def test_with_a_budget_it_is_hardly_ever_worse_than_taking_out_groups(data, seed):
    X, y, held, truth = data
    forest = RandomForestClassifier(10, random_state=seed).fit(X, y)
    for budget in (1.5, 2, 2.5, 3, 3.5, 4, 4.5):
        ours = prune_forest(forest, held, truth, budget=budget).path_
        theirs = prune_forest(forest, held, truth, budget=budget, method="greedy_prune").path_
        assert ours.cost[-1] <= budget
        assert ours.error[-1] <= theirs.error[-1] + 0.003


def test_a_budget_just_below_a_vertex_is_spent(data, forest):
    _, _, held, truth = data
    path = prune_forest(forest, held, truth).pruner_.path(n=40)
    for vertex in path[2:]:
        model = prune_forest(forest, held, truth, budget=vertex.spent - 1e-6)
        assert model.path_.cost[-1] > 0.9 * vertex.spent
        assert model.gap_ >= 0


# ---------------------------------------------------------------------- interrupts and progress


@pytest.fixture
def interrupt(monkeypatch):
    """Let Ctrl-C come when so many prunings have been found."""

    def after(n):
        solve, done = BudgetPruner._solve, []

        def interrupted(self, lam):
            if len(done) == n:
                done.append(lam)
                raise KeyboardInterrupt
            done.append(lam)
            return solve(self, lam)

        monkeypatch.setattr(BudgetPruner, "_solve", interrupted)

    return after


def test_an_interrupted_path_has_what_was_found(interrupt):
    problem = random_problem(3, n_trees=6, depth=5, n_rows=60, n_groups=8)
    interrupt(3)
    pruner = BudgetPruner(problem)
    with pytest.warns(UserWarning, match="interrupted: the best of the 3 prunings"):
        path = pruner.path()
    assert pruner.interrupted
    assert len(path) == 3
    lams = [pruning.lam for pruning in path]
    assert lams == sorted(lams, reverse=True)


def test_an_interrupted_search_for_a_budget_has_the_best_within_it(interrupt):
    problem = random_problem(3, n_trees=6, depth=5, n_rows=60, n_groups=8)
    interrupt(2)
    with pytest.warns(UserWarning, match="interrupted"):
        found = BudgetPruner(problem).to_budget(0.5)
    assert found.spent <= 0.5


def test_an_interrupt_before_anything_is_found_goes_on(interrupt):
    problem = random_problem(3)
    interrupt(1)
    pruner = BudgetPruner(problem)
    with pytest.raises(KeyboardInterrupt):  # lam = 0 has been found, but nothing that is so cheap
        pruner.to_budget(0.0)
    interrupt(0)
    with pytest.raises(KeyboardInterrupt):
        BudgetPruner(problem).path()


@pytest.mark.parametrize("n", [0, 1, 3, 6])
@pytest.mark.parametrize("goal", [{}, {"budget": 2.5}, {"lam": 0.01}, {"tolerance": 1.0}])
def test_an_interrupt_leaves_a_model_that_keeps_to_its_goal(data, forest, interrupt, n, goal):
    _, _, held, truth = data
    interrupt(n)
    with pytest.warns(UserWarning, match="interrupted"):
        model = prune_forest(forest, held, truth, **goal)
    assert model.cost(held).mean() <= goal.get("budget", np.inf)
    assert model.predict(held).shape == truth.shape
    if not goal:
        np.testing.assert_allclose(model.predict_proba(held), forest.predict_proba(held))


@pytest.mark.parametrize("name", ["fill_gap", "spend", "judged"])
@pytest.mark.parametrize("goal", [{"budget": 2.5}, {"tolerance": 1.0}])
def test_an_interrupt_of_what_comes_after_the_search_leaves_a_model(data, forest, monkeypatch, name, goal):
    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    _, _, held, truth = data
    monkeypatch.setattr(pruned, name, interrupted)
    if name == "spend" and "budget" not in goal:
        return
    with pytest.warns(UserWarning, match="interrupted"):
        model = prune_forest(forest, held, truth, **goal)
    assert model.cost(held).mean() <= goal.get("budget", np.inf)
    assert model.predict(held).shape == truth.shape


def test_progress_is_told_where_wanted(data, forest, capsys):
    _, _, held, truth = data
    prune_forest(forest, held, truth, budget=3)
    assert capsys.readouterr().err == ""
    prune_forest(forest, held, truth, budget=3, verbose=1)
    told = capsys.readouterr().err
    assert "pruning 1: lam 0" in told
    assert "judged on 200 rows" in told
    PrunedForestClassifier(RandomForestClassifier(3), verbose=1).fit(held, truth)
    assert "pruning 2: lam" in capsys.readouterr().err
