"""Settings of trees and forests for a budget: which are chosen, which are refused."""

from itertools import permutations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import anytime as at
from anytime.forests.choosing import Attempt, Setting, SettingTrial, best_trial, choose
from anytime.forests.impurity import ClassPairs, CustomImpurity, Gini, SquaredPairs
from anytime.forests.within_budget import Growth, Rival
from anytime.trees.clock import Clock
from tests.forests.cases import COSTS, SMALL, UNIT, forest, problem


def test_more_threads_grow_the_same_forest():
    X, y = problem()
    one, two = (forest(n_jobs=n).fit(X, y) for n in (1, 2))
    assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    assert_array_equal(one.plan_.expected_costs, two.plan_.expected_costs)


def test_validation_chooses_the_best_of_the_settings():
    X, y = problem(600)
    model = at.BudgetForestClassifier(
        costs=COSTS, mean_budget=6, n_estimators=10, alphas=[0, 3, 40], random_state=0
    )
    model.fit(X, y)
    best = best_trial(model.trials_)
    assert model.setting_ == best.setting
    assert model.alpha_ == best.setting.size
    assert {trial.setting.size for trial in model.trials_} == {0, 3, 40}
    assert {trial.setting.weighting for trial in model.trials_} == {1, 0.2, 0.1, 0.05, 0}
    assert np.isclose(model.expected_cost_, best.cost)
    same = at.BudgetForestClassifier(
        costs=COSTS,
        mean_budget=6,
        n_estimators=10,
        alpha=model.alpha_,
        cost_weighted=best.setting.weighting,
        random_state=0,
    ).fit(X, y)
    assert_array_equal(same.predict_proba(X), model.predict_proba(X))


def test_the_best_setting_is_the_one_of_least_loss_among_those_near_the_least_error():
    """Stated anew with arrays; of 2000 draws, and whatever the order in which trials come."""
    random = np.random.default_rng(0)
    for _ in range(2000):
        n = random.integers(1, 7)
        error, loss, cost = random.integers(0, 10, (3, n)) / 10
        spread = random.integers(0, 4, n) / 20 + 0.01
        trials = [
            SettingTrial(Setting(float(i), 1.0), 5, cost[i], error[i], loss[i], spread[i]) for i in range(n)
        ]
        chosen = best_trial(trials)
        i = int(chosen.setting.size)
        least = spread[error == error.min()]
        assert error[i] <= error.min() + least.max()
        near = error <= error.min() + spread[np.lexsort((cost, loss, error))[0]]
        assert loss[i] == loss[near].min()
        assert cost[i] == cost[near & (loss == loss[i])].min()
        turned = best_trial(trials[::-1])
        if len(set(error)) == n:
            assert (turned.loss, turned.cost) == (chosen.loss, chosen.cost)


def test_three_settings_do_not_beat_each_other_in_a_circle():
    worse = SettingTrial(Setting(0.0, 1.0), 5, cost=1, error=0.14, loss=0.01, spread=0.03)
    middle = SettingTrial(Setting(1.0, 1.0), 5, cost=1, error=0.12, loss=0.05, spread=0.03)
    least = SettingTrial(Setting(2.0, 1.0), 5, cost=1, error=0.10, loss=0.09, spread=0.03)
    for order in permutations([worse, middle, least]):
        assert best_trial(order) is middle
        attempts = {trial.setting: Attempt(trial, None, Growth(None)) for trial in order}
        sizes = [trial.setting.size for trial in order]
        best, _ = choose(sizes, [1.0], lambda setting, *_: attempts[setting], Clock(None, 0), [])  # noqa: B023
        assert best.trial is middle


def test_a_setting_that_is_clearly_worse_is_given_up_early():
    X, y = problem(4000)
    settings = {"n_estimators": 40, "random_state": 0, "cost_weighted": True}
    model = at.BudgetForestClassifier(costs=UNIT, alphas=[0, 5000, 0.5], **settings).fit(X, y)
    n_trees = {trial.setting.size: trial.n_trees for trial in model.trials_}
    assert n_trees == {0: 40, 5000: 5, 0.5: 40}
    assert len(model.trees_) == 40


@pytest.mark.parametrize(
    ("errors", "leads"),
    [({5: 0.3}, {0.29: False, 0.4: True}), ({}, {0.29: True, 0.4: True, 0.22: False})],
    ids=["beside the rival after as many trees", "the rival has fewer trees"],
)
def test_clearly_worse_is_three_standard_errors_then_and_in_the_end(errors, leads):
    rival = Rival(errors, error=0.2, spread=0.02)
    assert {error: rival.leads(5, error) for error in leads} == leads


def test_where_all_columns_cost_the_same_their_weight_is_not_searched():
    X, y = problem()
    model = at.BudgetForestClassifier(**SMALL, alphas=[0, 5]).fit(X, y)
    assert [trial.setting for trial in model.trials_] == [Setting(0, 1), Setting(5, 1)]


def test_larger_thresholds_make_shallower_and_cheaper_trees():
    """budgeted_trees 3.8."""
    X, y = problem(600)
    depths, costs = [], []
    for alpha in (0, 2, 10, 40):
        model = forest(alpha=alpha).fit(X, y)
        depths.append(np.mean([tree.depth for tree in model.trees_]))
        costs.append(model.plan_.expected_costs[-1])
    assert depths == sorted(depths, reverse=True)
    assert depths[0] > depths[-1]
    assert costs[0] > costs[-1]


def test_prices_make_trees_prefer_what_is_cheap():
    random = np.random.default_rng(0)
    X = random.standard_normal((500, 2))
    y = (X.sum(axis=1) > 0).astype(int)
    bills = [
        at.BudgetForestClassifier(costs=[1, 5], **SMALL, alpha=10, cost_weighted=w).fit(X, y).cost(X).mean()
        for w in (True, False)
    ]
    assert bills[0] < bills[1]


def test_wrong_settings_are_refused():
    X, y = problem()
    for settings in (
        {"alpha": -1},
        {"cost_weighted": 2},
        {"vote": "loud"},
        {"n_estimators": 0},
        {"split": "best"},
    ):
        with pytest.raises(ValueError, match=next(iter(settings))):
            forest(**settings).fit(X, y)
    with pytest.raises(ValueError, match="impurity for regression"):
        forest(impurity=SquaredPairs()).fit(X, y)
    for alpha in (2.0, 0.5):
        for impurity in ("gini", Gini(), ClassPairs(3)):
            with pytest.raises(ValueError, match=r"alpha is .*, the threshold of impurity='pairs', but"):
                forest(alpha=alpha, impurity=impurity).fit(X, y)
    with pytest.raises(ValueError, match="impurity for classification"):
        at.BudgetForestRegressor(impurity=ClassPairs()).fit(X, y)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (at.BudgetForestClassifier(alphas=[]), "alphas is empty"),
        (at.BudgetForestClassifier(alphas=[0, 1, -2]), r"alphas\[2\] is -2"),
        (at.BudgetForestClassifier(alphas=[0, np.nan]), r"alphas\[1\] is nan"),
        (at.BudgetForestClassifier(alphas=[np.inf]), r"alphas\[0\] is inf"),
        (at.BudgetForestClassifier(alphas=["a"]), r"alphas\[0\] is 'a'"),
        (at.BudgetForestRegressor(leaf_sizes=[1, 2.5]), r"leaf_sizes\[1\] is 2.5|leaf_sizes\[0\] is 1.0"),
        (at.BudgetForestRegressor(leaf_sizes=[5, 0]), r"leaf_sizes\[1\] is 0"),
    ],
)
def test_sizes_are_checked_before_anything_is_grown(model, message, monkeypatch):
    monkeypatch.setattr("anytime.forests.budgeted.grow_within", lambda *args, **kw: pytest.fail("grown"))
    X, y = problem()
    with pytest.raises(ValueError, match=message):
        model.fit(X, y)


def test_an_impurity_of_ones_own_grows_the_same_trees():
    X, y = problem()
    named, own = (
        forest(impurity=impurity, split="expected", search="exhaustive").fit(X, y)
        for impurity in ("gini", CustomImpurity(Gini()))
    )
    assert_array_equal(named.predict_proba(X), own.predict_proba(X))
    assert named.alpha_ is None
