"""Budgets that are spent, searches that are interrupted, and what a pruned forest knows of itself."""

import signal

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

import anytime
from anytime.forests.budget import BudgetForestClassifier, BudgetForestRegressor
from anytime.forests.growing import ClassTreeGrower
from anytime.forests.nodes import grown_from, node_statistics, with_unseen
from anytime.forests.pruning.pruned_forests import PrunedForestClassifier, prune_forest
from anytime.forests.pruning.solvers import BudgetPruner
from anytime.trees.importers import import_trees
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


def test_a_budget_just_below_a_vertex_is_spent(data, forest):
    _, _, held, truth = data
    path = prune_forest(forest, held, truth).pruner_.path(n=40)
    for vertex in path[2:]:
        model = prune_forest(forest, held, truth, mean_budget=vertex.spent - 1e-6)
        assert model.path_.cost[-1] > 0.9 * vertex.spent
        assert model.gap_ >= 0


# ---------------------------------------------------------------------- interrupts and progress


@pytest.fixture
def interrupt(monkeypatch):
    """Let Ctrl-C come when so many prunings have been found."""

    def after(n):
        solve, done = BudgetPruner._solve, []

        def interrupted(self, cost_penalty):
            if len(done) == n:
                done.append(cost_penalty)
                raise KeyboardInterrupt
            done.append(cost_penalty)
            return solve(self, cost_penalty)

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
    cost_penalties = [pruning.cost_penalty for pruning in path]
    assert cost_penalties == sorted(cost_penalties, reverse=True)


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
    with pytest.raises(KeyboardInterrupt):  # cost_penalty = 0 has been found, but nothing that is so cheap
        pruner.to_budget(0.0)
    interrupt(0)
    with pytest.raises(KeyboardInterrupt):
        BudgetPruner(problem).path()


@pytest.mark.parametrize("n", [0, 1, 3, 6])
@pytest.mark.parametrize("goal", [{}, {"mean_budget": 2.5}, {"cost_penalty": 0.01}, {"tolerance": 1.0}])
def test_an_interrupt_leaves_a_model_that_keeps_to_its_goal(data, forest, interrupt, n, goal):
    _, _, held, truth = data
    interrupt(n)
    with pytest.warns(UserWarning, match="interrupted"):
        model = prune_forest(forest, held, truth, **goal)
    assert model.cost(held).mean() <= goal.get("mean_budget", np.inf)
    assert model.predict(held).shape == truth.shape
    if not goal:
        np.testing.assert_allclose(model.predict_proba(held), forest.predict_proba(held))


@pytest.mark.parametrize("at", ["fill_gap", "spent_on_budget", "CostOnNewRows.of", "Answering.judge"])
@pytest.mark.parametrize("goal", [{"mean_budget": 2.5}, {"tolerance": 1.0}])
def test_an_interrupt_of_what_comes_after_the_search_leaves_a_model(data, forest, monkeypatch, at, goal):
    if at == "spent_on_budget" and "mean_budget" not in goal:
        return

    def interrupted(*arguments, **options):
        raise KeyboardInterrupt

    _, _, held, truth = data
    monkeypatch.setattr(f"anytime.forests.pruning.pruned.{at}", interrupted)
    with pytest.warns(UserWarning, match="interrupted") as told:
        model = prune_forest(forest, held, truth, **goal)
    assert not any("raise mean_budget" in str(w.message) for w in told)  # more money would not have helped
    assert model.cost(held).mean() <= goal.get("mean_budget", np.inf)
    assert model.predict(held).shape == truth.shape


def test_an_interrupt_of_the_forest_ends_the_whole_fit(data, monkeypatch):
    """BudgetForest would keep its trees and return: the fit that it is a part of has no model yet."""
    X, y, _, _ = data
    grow, calls = ClassTreeGrower.grow_forest, []

    def interrupted(self, *args, **settings):
        calls.append(settings)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)
        return grow(self, *args, **settings)

    monkeypatch.setattr(ClassTreeGrower, "grow_forest", interrupted)
    model = PrunedForestClassifier(BudgetForestClassifier(n_estimators=50, alpha=0, cost_weighted=True))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background ignore it
    try:
        with pytest.warns(UserWarning, match="interrupted"), pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
    finally:
        signal.signal(signal.SIGINT, before)
    assert not hasattr(model, "plan_")
    assert len(calls) == 3


def test_progress_is_told_where_wanted(data, forest, capsys):
    _, _, held, truth = data
    prune_forest(forest, held, truth, mean_budget=3)
    assert capsys.readouterr().err == ""
    prune_forest(forest, held, truth, mean_budget=3, verbose=1)
    told = capsys.readouterr().err
    assert "pruning 1: cost_penalty 0" in told
    assert "judged on 200 rows" in told
    PrunedForestClassifier(RandomForestClassifier(3), verbose=1).fit(held, truth)
    assert "pruning 2: cost_penalty" in capsys.readouterr().err


# ---------------------------------------------------------------------- forests that were grown here


def grown(X, y, **options):
    return BudgetForestClassifier(n_estimators=9, alpha=8.0, random_state=0, **options).fit(X, y)


@pytest.mark.parametrize("vote", ["probability", "majority", "counts"])
def test_a_forest_that_was_grown_here_keeps_its_vote(data, vote):
    X, y, held, truth = data
    forest = grown(X, y, vote=vote)
    same = prune_forest(forest, held, truth)
    assert_allclose(same.predict_proba(held), forest.predict_proba(held), atol=1e-12)
    assert_array_equal(same.predict(held), forest.predict(held))
    votes = prune_forest(forest, held, truth, vote="majority").predict_proba(held) * len(forest.trees_)
    assert_allclose(votes, np.rint(votes), atol=1e-9)


def test_rows_out_of_the_bag_of_own_trees_count(data):
    X, y, held, truth = data
    forest = grown(X, y, validation_fraction=None)
    seen = grown_from(forest)
    assert all(bag.shape == (len(X),) and 0.5 < bag.mean() < 0.75 for bag in seen)
    expected = with_unseen(node_statistics(forest), X, y, seen=seen, share=0.632)
    model = prune_forest(forest, held, truth, X_train=X, y_train=y)
    assert_allclose(model.pruner_.problem.error, expected.error)
    assert not np.allclose(prune_forest(forest, held, truth).pruner_.problem.error, expected.error)


def test_other_rows_than_those_of_the_trees_are_refused(data):
    X, y, held, truth = data
    with pytest.raises(ValueError, match=r"X_train has 200 rows, but the trees were grown from 161"):
        prune_forest(grown(X, y, validation_fraction=0.2), held, truth, X_train=X, y_train=y)


def test_what_holds_no_trees_is_refused_with_the_reason(data, tmp_path):
    X, y, held, truth = data
    forest = grown(X, y)
    forest.save(tmp_path / "forest.anytime")
    loaded = anytime.load(tmp_path / "forest.anytime")
    pruned_already = prune_forest(forest, held, truth, mean_budget=2)
    for model in (loaded, forest.truncate(2), pruned_already):
        with pytest.raises(ValueError, match=f"this {type(model).__name__} does not hold what pruning needs"):
            prune_forest(model, held, truth)
    with pytest.warns(UserWarning, match="beyond the mean_budget"):
        too_dear = grown(X, y, mean_budget=0.5)
    with pytest.raises(ValueError, match="no whole tree of this BudgetForestClassifier is within its budget"):
        prune_forest(too_dear, held, truth)


# ---------------------------------------------------------------------- truth


@pytest.mark.parametrize("out_of_bag", [0.0, 0.632])
def test_a_missing_number_in_the_truth_is_named(data, out_of_bag):
    X, _, held, _ = data
    truth = held[:, 0].copy()
    truth[[3, 7]] = np.nan, np.inf
    for forest in (RandomForestRegressor(3), BudgetForestRegressor(n_estimators=3)):
        with pytest.raises(ValueError, match="y is missing or infinite in 2 rows, first in row 3"):
            prune_forest(forest.fit(X, X[:, 0]), held, truth, out_of_bag=out_of_bag)


def test_rows_that_judge_prunings_do_not_choose_them(data, forest):
    X, y, held, truth = data
    in_bag = node_statistics(forest).error
    assert_array_equal(prune_forest(forest, held, truth, tolerance=1.0).pruner_.problem.error, in_bag)
    drawn = prune_forest(forest, held, truth, tolerance=1.0, X_train=X, y_train=y).pruner_.problem.error
    without = prune_forest(forest, held, truth, X_train=X, y_train=y).pruner_.problem.error
    assert_array_equal(drawn, without)
    read = import_trees(forest)
    with pytest.raises(ValueError, match="besides the rows that tolerance compares prunings on X_train"):
        prune_forest(read, held, truth, tolerance=1.0)


# ---------------------------------------------------------------------- truncated models


def test_a_truncated_model_knows_itself(data, forest, tmp_path):
    _, _, held, truth = data
    model = prune_forest(forest, held, truth, mean_budget=4.5)
    smaller = model.truncate(mean_budget=2.2)
    n_stages = smaller.plan_.n_stages
    assert 0 < n_stages < model.plan_.n_stages
    last = model.path_.stages[n_stages - 1]
    assert len(smaller.path_) == last + 1
    assert_array_equal(smaller.path_.stages, model.path_.stages[:n_stages])
    assert smaller.n_nodes_ == model.path_.n_nodes[last] < model.n_nodes_
    assert smaller.path_.cost[-1] == pytest.approx(smaller.cost(held).mean())
    assert smaller.usage_ is None
    assert np.isnan(smaller.gap_)
    smaller.save(tmp_path / "smaller.anytime")
    loaded = anytime.load(tmp_path / "smaller.anytime")
    assert loaded.usage_ is None
    assert np.isnan(loaded.gap_)
    assert loaded.n_nodes_ == smaller.n_nodes_
    nothing = model.truncate(mean_budget=0)
    assert nothing.n_nodes_ == 10
    assert len(nothing.path_) == 1
    assert model.truncate(mean_budget=1e9).usage_ is model.usage_
