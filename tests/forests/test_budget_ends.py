"""How training of trees and forests for a budget ends: time, interrupts, files, going on."""

import pickle
import time

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import anytime as at
from anytime.forests import budgeted
from anytime.forests.growing import ClassTreeGrower
from anytime.forests.guarantee import TreeGuarantee
from anytime.forests.impurity import (
    ClassPairs,
    CustomImpurity,
    Entropy,
    Gini,
    Powers,
    SquaredError,
    SquaredPairs,
)
from anytime.forests.within_budget import JudgingRows
from tests.forests.cases import SMALL, UNIT, forest, problem


def test_training_ends_with_what_the_time_allowed():
    X, y = problem(500)
    model = at.BudgetForestClassifier(n_estimators=100_000, alphas=[0, 4], random_state=0, time_budget=0.3)
    with pytest.warns(UserWarning, match="time_budget=0.3 is over: .* of 100000 trees are grown"):
        model.fit(X, y)
    assert 1 <= len(model.trees_) < 100_000
    assert model.score(X, y) > 0.5


@pytest.mark.realtime
def test_where_a_tree_of_all_rows_would_take_too_long_it_has_fewer(monkeypatch):
    grow = ClassTreeGrower.grow_forest

    def slowly(self, data, *args, rows=None, **settings):
        time.sleep(3e-4 * (data.n_rows if rows is None else len(rows)))
        return grow(self, data, *args, rows=rows, **settings)

    monkeypatch.setattr(ClassTreeGrower, "grow_forest", slowly)
    X, y = problem(12_500)
    for model in (at.BudgetTreeClassifier(), forest(n_estimators=3)):
        began = time.monotonic()
        with pytest.warns(UserWarning, match=r"allows trees of 2000 of the 1000\d training rows"):
            model.set_params(time_budget=1.0, random_state=0).fit(X, y)
        assert time.monotonic() - began <= 1.0 * 1.1 + 1.0
        assert model.score(X, y) > 0.5


def test_an_interrupt_leaves_the_trees_grown_so_far(monkeypatch):
    X, y = problem()
    grow, calls = ClassTreeGrower.grow_forest, []

    def interrupted(self, *args, **settings):
        calls.append(settings["first_tree"])
        if len(calls) > 2:
            raise KeyboardInterrupt
        return grow(self, *args, **settings)

    monkeypatch.setattr(ClassTreeGrower, "grow_forest", interrupted)
    with pytest.warns(UserWarning, match="interrupted: 3 of 50 trees"):
        model = forest(n_estimators=50).fit(X, y)
    assert len(model.trees_) == 3
    calls[:] = [0, 0]
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert len(model.trees_) == 3, "a fit that fails leaves the model as it was"


def test_an_interrupt_between_settings_takes_the_best_so_far(monkeypatch):
    X, y = problem()
    grow, thresholds = ClassTreeGrower.grow_forest, set()

    def interrupted(self, *args, **settings):
        thresholds.add(self.impurity.alpha)
        if len(thresholds) > 2:
            raise KeyboardInterrupt
        return grow(self, *args, **settings)

    monkeypatch.setattr(ClassTreeGrower, "grow_forest", interrupted)
    with pytest.warns(UserWarning, match="interrupted: 2 of at most 3 settings"):
        model = at.BudgetForestClassifier(**SMALL, alphas=[0, 5, 9]).fit(X, y)
    assert len(model.trials_) == 2
    assert len(model.trees_) == 6


def test_a_loaded_model_knows_what_was_chosen(tmp_path):
    X, y = problem()
    path = tmp_path / "model.anytime"
    for model in (forest(4.0), at.BudgetTreeClassifier(costs=UNIT, random_state=0)):
        model.fit(X, y).save(path)
        loaded = at.load(path)
        assert loaded.setting_ == model.setting_
        assert loaded.expected_cost_ == model.expected_cost_
        assert_array_equal(loaded.predict_proba(X, mean_budget=1.0), model.predict_proba(X, mean_budget=1.0))
    assert loaded.guarantee_ == model.guarantee_
    assert loaded.max_cost_ == model.max_cost_


@pytest.mark.parametrize(
    "impurity",
    [ClassPairs(2.5), Powers(3), Entropy(), Gini()],
    ids=repr,
)
def test_an_impurity_comes_back_from_a_file(tmp_path, impurity):
    X, y = problem()
    forest(impurity=impurity).fit(X, y).save(tmp_path / "model.anytime")
    loaded = at.load(tmp_path / "model.anytime")
    assert loaded.impurity == impurity
    loaded.fit(X, y)


def test_an_impurity_of_numbers_comes_back_from_a_file(tmp_path):
    X, y = problem()
    for impurity in (SquaredPairs(), SquaredError()):
        at.BudgetForestRegressor(**SMALL, impurity=impurity).fit(X, y).save(tmp_path / "model.anytime")
        assert at.load(tmp_path / "model.anytime").impurity == impurity


@pytest.mark.parametrize(
    "written", [("os.system", None), ("pairs", -1.0), ("powers", "many"), ("gini", 1), 7]
)
def test_a_file_with_an_impurity_that_is_none_is_refused(tmp_path, monkeypatch, written):
    X, y = problem()
    model = forest(impurity=Gini()).fit(X, y)
    state = {**model._file_state(), "impurity": written}
    monkeypatch.setattr(type(model), "_file_state", lambda self: state)
    with pytest.raises(ValueError, match="cannot be saved"):
        model.save(tmp_path / "model.anytime")


def test_an_impurity_of_ones_own_is_no_part_of_a_file(tmp_path):
    X, y = problem()
    model = forest(impurity=CustomImpurity(Gini())).fit(X, y)
    with pytest.warns(UserWarning, match="files cannot hold"):
        model.save(tmp_path / "model.anytime")
    with pytest.warns(UserWarning, match="files cannot hold"):
        loaded = at.load(tmp_path / "model.anytime")
    assert loaded.impurity == "pairs"
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    loaded.fit(X, y)


# ---------------------------------------------------------------------- interrupts at any place


def interrupt(monkeypatch, owner, name, at_call):
    """Make the call with this number an interrupt."""
    real, calls = getattr(owner, name), []

    def called(*args, **settings):
        calls.append(1)
        if len(calls) == at_call:
            raise KeyboardInterrupt
        return real(*args, **settings)

    monkeypatch.setattr(owner, name, called)


@pytest.mark.parametrize(
    ("name", "at_call"), [("visit", 2), ("visit", 5), ("groups", 3), ("groups", 6), ("mean_cost", 2)]
)
def test_an_interrupt_in_the_middle_of_a_batch_counts_whole_trees_only(monkeypatch, name, at_call):
    """The trial says of the trees that are there what a forest of so many says."""
    X, y = problem()
    with monkeypatch.context() as patch:
        interrupt(patch, JudgingRows, name, at_call)
        with pytest.warns(UserWarning, match="interrupted: . of 20 trees"):
            model = forest(n_estimators=20).fit(X, y)
    (trial,) = model.trials_
    assert trial.n_trees == len(model.trees_) == at_call - 1
    whole = forest(n_estimators=at_call - 1).fit(X, y)
    assert model.trials_ == whole.trials_
    assert_array_equal(model.predict_proba(X), whole.predict_proba(X))


@pytest.mark.parametrize("name", ["error", "loss", "spread"])
def test_an_interrupt_while_the_trees_are_judged_keeps_them(monkeypatch, name):
    X, y = problem()
    whole = forest().fit(X, y)
    interrupt(monkeypatch, JudgingRows, name, 1 if name == "spread" else 2)
    with pytest.warns(UserWarning, match="interrupted"):
        model = forest().fit(X, y)
    assert len(model.trees_) >= 3
    assert model.trials_[0].n_trees == len(model.trees_)
    if len(model.trees_) == 6:
        assert model.trials_ == whole.trials_


@pytest.mark.parametrize("name", ["order_trees", "sequence_plan"])
def test_an_interrupt_after_growing_keeps_the_trees_in_the_order_of_growth(monkeypatch, name):
    X, y = problem()
    whole = forest().fit(X, y)
    interrupt(monkeypatch, budgeted, name, 1)
    with pytest.warns(UserWarning, match="trees stand in the order in which they were grown") as told:
        model = forest().fit(X, y)
    assert [tree._bag.draw[1] for tree in model.trees_] == list(range(6))
    assert np.allclose(model.predict_proba(X), whole.predict_proba(X))
    assert told[0].filename == __file__, "warnings point at the call of fit"


def test_an_interrupt_while_the_guarantee_is_worked_out_keeps_the_tree(monkeypatch):
    X, y = problem()
    whole = at.BudgetTreeClassifier(costs=UNIT, random_state=0).fit(X, y)
    interrupt(monkeypatch, TreeGuarantee, "of", 1)
    with pytest.warns(UserWarning, match="no guarantee_"):
        tree = at.BudgetTreeClassifier(costs=UNIT, random_state=0).fit(X, y)
    assert tree.guarantee_ is None
    assert_array_equal(tree.predict_proba(X), whole.predict_proba(X))


# ---------------------------------------------------------------------- going on


def numbers_of(model):
    return sorted(tree._bag.draw[1] for tree in model.trees_)


@pytest.mark.parametrize("random_state", [0, None])
def test_another_fit_goes_on_from_the_trees_there_are(monkeypatch, random_state):
    X, y = problem()
    model = forest(n_estimators=4, warm_start=True, random_state=random_state).fit(X, y)
    first = {id(tree) for tree in model.trees_}
    grow, asked = ClassTreeGrower.grow_forest, []

    def counted(self, *args, **settings):
        asked.append((settings["first_tree"], settings["n_trees"]))
        return grow(self, *args, **settings)

    monkeypatch.setattr(ClassTreeGrower, "grow_forest", counted)
    model.set_params(n_estimators=9).fit(X, y)
    assert min(asked)[0] == 4, "nothing is grown twice"
    assert sum(n for _, n in asked) == 5
    assert first <= {id(tree) for tree in model.trees_}
    assert numbers_of(model) == list(range(9))
    if random_state is not None:
        anew = forest(n_estimators=9).fit(X, y)
        assert_array_equal(model.predict_proba(X), anew.predict_proba(X))
        assert_array_equal(model.plan_.expected_costs, anew.plan_.expected_costs)


def test_a_larger_budget_goes_on_with_the_setting_that_was_chosen():
    X, y = problem(600)
    cheap = at.BudgetForestClassifier(
        costs=UNIT, mean_budget=5, n_estimators=8, alphas=[0, 4], random_state=0, warm_start=True
    )
    cheap.fit(X, y)
    setting, n = cheap.setting_, len(cheap.trees_)
    assert 0 < n < 8
    cheap.set_params(mean_budget=6.5).fit(X, y)
    assert cheap.setting_ == setting
    assert len(cheap.trees_) > n
    assert 5 < cheap.expected_cost_ <= 6.5
    anew = forest(6.5, n_estimators=8, alpha=setting.size).fit(X, y)
    assert_array_equal(cheap.predict_proba(X), anew.predict_proba(X))


def test_a_model_from_a_file_goes_on_with_the_setting_that_was_chosen(tmp_path):
    """Files hold no trees that could be added to: they are grown again, the same ones, without another search."""
    X, y = problem()
    model = at.BudgetForestClassifier(n_estimators=4, alphas=[0, 4], random_state=0, warm_start=True)
    model.fit(X, y).save(tmp_path / "forest.anytime")
    loaded = at.load(tmp_path / "forest.anytime").set_params(n_estimators=9).fit(X, y)
    assert len(loaded.trials_) == 1
    assert loaded.setting_ == model.setting_
    assert_array_equal(loaded.predict_proba(X), model.set_params(n_estimators=9).fit(X, y).predict_proba(X))


def test_going_on_with_other_rows_or_rules_is_refused():
    X, y = problem()
    model = forest(warm_start=True).fit(X, y)
    for rows, truth in ((X + 1, y), (X, y[::-1]), (X[:-1], y[:-1])):
        with pytest.raises(ValueError, match="warm_start=True continues on the same rows"):
            model.fit(rows, truth)
    with pytest.raises(ValueError, match="same rows, targets, weights, prices and rules"):
        model.set_params(max_depth=2).fit(X, y)
    model.set_params(max_depth=None, n_jobs=2).fit(X, y)
    assert pickle.loads(pickle.dumps(model)).fit(X, y).n_stages_ == model.n_stages_
    assert not hasattr(model.truncate(2.0), "_grown")
