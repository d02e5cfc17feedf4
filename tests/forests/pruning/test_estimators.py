"""Pruned forests as estimators: fitting, conventions, files, and what they refuse."""

import copy
import pickle

import lightgbm as lgb
import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.ensemble import (
    GradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeRegressor

import anytime as at
from anytime.forests.pruning.pruned_forests import PrunedForestClassifier, PrunedForestRegressor, prune_forest
from anytime.testing import check_anytime_estimator
from tests.forests.pruning.forests import CANCER, FORESTS, LIGHTGBM, WINE, answers, halves

# ---------------------------------------------------------------------- estimators


@pytest.mark.parametrize("regression", [False, True])
def test_fit_prunes_on_rows_that_the_forest_has_not_seen(regression):
    X, y, costs = at.datasets.load("diabetes" if regression else "breast_cancer")
    face = PrunedForestRegressor if regression else PrunedForestClassifier
    seen = []

    class Spy(RandomForestRegressor if regression else RandomForestClassifier):
        def fit(self, X, y, sample_weight=None):
            seen.append(np.array(X))
            return super().fit(X, y, sample_weight)

    budget = 5.0 if regression else 40.0
    model = face(
        Spy(10, random_state=0), costs=costs, mean_budget=budget, validation_fraction=0.3, random_state=0
    )
    model.fit(X, y)
    assert len(seen[0]) == pytest.approx(0.7 * len(X), abs=3)
    assert model.path_.cost[-1] <= budget
    assert model.cost(X).mean() == pytest.approx(model.plan_.expected_costs[-1]), "all rows pay"


def test_the_number_of_threads_changes_nothing():
    X, y = CANCER
    one, two = (
        PrunedForestClassifier(RandomForestClassifier(8), mean_budget=5.0, random_state=0, n_jobs=n).fit(X, y)
        for n in (1, 2)
    )
    assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    assert_array_equal(one.path_.cost, two.path_.cost)


def test_without_held_out_rows_the_training_rows_pay():
    X, y = WINE
    model = PrunedForestClassifier(
        RandomForestClassifier(5, random_state=0), mean_budget=3.0, validation_fraction=None, random_state=0
    ).fit(X, y)
    assert model.cost(X).mean() == pytest.approx(model.plan_.expected_costs[-1])
    assert model.cost(X).mean() <= 3.0


@pytest.mark.parametrize(
    "model",
    [
        PrunedForestClassifier(RandomForestClassifier(5), random_state=0),
        PrunedForestClassifier(RandomForestClassifier(5), mean_budget=2.0, vote="majority", random_state=0),
        PrunedForestClassifier(lgb.LGBMClassifier(**LIGHTGBM), tolerance=1.0, random_state=0),
        PrunedForestRegressor(RandomForestRegressor(5, max_depth=4), cost_penalty=0.01, random_state=0),
    ],
)
def test_the_invariants_of_anytime_prediction(model):
    check_anytime_estimator(model)


def test_other_meters_count_as_they_say(forest):
    _, held, _ = forest
    model = prune_forest(*forest)
    for meter in ("model", "realised"):
        other = copy.copy(model).set_params(meter=meter)
        for budget in (0.0, 3.0, 7.0):
            assert (other.cost(held, budget=budget) <= budget).all()
    budget = float(model.plan_.expected_costs[-2])
    by_mean = model.cost(held, mean_budget=budget)
    assert by_mean.mean() == pytest.approx(model.path_.cost[model.path_.stages[-2]])
    assert by_mean.mean() <= budget < by_mean.max()


def test_a_truncated_model_forgets_the_forest(pruned, forest):
    _, held, _ = forest
    small = pruned.truncate(4.0)
    assert small.cost(held).mean() <= 4.0
    assert small.pruner_ is None
    assert len(pickle.dumps(small)) < len(pickle.dumps(pruned))


# ---------------------------------------------------------------------- files


@pytest.mark.parametrize("name", ["random forest", "random forest, numbers", "lightgbm, three classes"])
def test_a_saved_model_is_the_same_model(name, tmp_path):
    estimator, data = FORESTS[name]
    X, y, held, truth = halves(data)
    made = prune_forest(clone(estimator).fit(X, y), held, truth, mean_budget=4.0)
    made.save(tmp_path / "pruned.anytime")
    read = at.load(tmp_path / "pruned.anytime")
    assert_array_equal(answers(read, held), answers(made, held))
    assert_array_equal(read.cost(held), made.cost(held))
    assert_array_equal(read.plan_.expected_costs, made.plan_.expected_costs)
    assert_array_equal(read.path_.to_frame(), made.path_.to_frame())
    assert_array_equal(read.usage_.after, made.usage_.after)
    assert (read.gap_, read.n_nodes_, read.source_) == (made.gap_, made.n_nodes_, made.source_)
    assert read.pruner_ is None


@pytest.mark.parametrize(
    "spoil",
    [
        {"path": {}},
        {"path": None},
        {"usage": [np.zeros((5, 3))]},
        {"usage": [np.zeros((5, 3)), np.zeros((4, 3))]},
        {"gap": "none"},
        {"stages": np.array([7000])},
        {"stages": np.array([], dtype=int)},
        {"stages": np.array([1.0])},
        {"cost": np.zeros(2)},
    ],
)
def test_a_spoiled_file_is_refused(pruned, spoil, tmp_path, monkeypatch):
    state = pruned._file_state()
    inner = {name: value for name, value in spoil.items() if name in state["path"]}
    spoiled = {**state, "path": {**state["path"], **inner}} if inner else {**state, **spoil}
    monkeypatch.setattr(type(pruned), "_file_state", lambda model: spoiled)
    with pytest.raises(ValueError, match="cannot be saved"):  # because the reader refuses it
        pruned.save(tmp_path / "spoiled.anytime")


# ---------------------------------------------------------------------- wrong input


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mean_budget": 1.0, "cost_penalty": 1.0}, "budget and cost_penalty each set"),
        ({"cost_penalty": 1.0, "tolerance": 1.0}, "cost_penalty and tolerance each set"),
        ({"mean_budget": -1.0}, "budget"),
        ({"cost_penalty": -1.0}, "cost_penalty"),
        ({"cost_penalty": np.inf}, "cost_penalty"),
        ({"cost_penalty": np.nan}, "cost_penalty"),
        ({"method": "guess"}, "method"),
        ({"vote": "loud"}, "vote"),
        ({"meter": "time"}, "meter"),
        ({"max_stages": 0}, "max_stages"),
        ({"evaluation_cost": -0.1}, "evaluation_cost"),
        ({"out_of_bag": 1.5}, "out_of_bag"),
        ({"costs": [1.0, 2.0]}, "2 prices for 13 columns"),
        ({"X_train": np.zeros((1, 13))}, "X_train and y_train together"),
        ({"sample_weight": [1.0]}, "inconsistent"),
    ],
)
def test_wrong_options_are_refused(forest, options, words):
    with pytest.raises(ValueError, match=words):
        prune_forest(*forest, **options)


def test_wrong_data_is_refused(forest):
    model, held, truth = forest
    with pytest.raises(ValueError, match="13 columns"):
        prune_forest(model, held[:, :12], truth)
    with pytest.raises(ValueError, match="shape"):
        prune_forest(model, held[0], truth)
    with pytest.raises(ValueError, match="inconsistent"):
        prune_forest(model, held, truth[1:])
    with pytest.raises(ValueError, match="label 9"):
        prune_forest(model, held, np.full(len(held), 9))
    with pytest.raises(ValueError, match="tolerance compares"):
        prune_forest(model, held, tolerance=1.0)
    with pytest.raises(ValueError, match="is infinite"):
        prune_forest(model, np.full_like(held, np.inf), truth)
    with pytest.raises(ValueError, match="0 sample"):
        prune_forest(model, held[:0], truth[:0])
    with pytest.raises(ValueError, match="adds up its trees"):
        prune_forest(GradientBoostingClassifier(n_estimators=2).fit(held, truth), held, truth)
    light = lgb.LGBMClassifier(**LIGHTGBM).fit(held, truth)
    with pytest.raises(ValueError, match="stores no training errors"):
        prune_forest(light, held)
    with pytest.raises(ValueError, match="a tree for each class"):
        prune_forest(light, held, truth, vote="majority")
    with pytest.raises(ValueError, match="vote is for classification"):
        prune_forest(DecisionTreeRegressor().fit(held, truth), held, truth, vote="majority")
    with pytest.raises(ValueError, match="not fitted"):
        prune_forest(RandomForestClassifier(), held, truth)


def test_one_class_is_refused(forest):
    _, held, _ = forest
    with pytest.raises(ValueError, match="only one class"):
        PrunedForestClassifier().fit(held, np.zeros(len(held)))
    with pytest.raises(ValueError, match="only one class"):
        prune_forest(RandomForestClassifier(2).fit(held, np.zeros(len(held))), held, np.zeros(len(held)))


def test_a_boosted_estimator_is_refused_and_the_old_fit_stays(forest):
    _, held, truth = forest
    model = PrunedForestClassifier(RandomForestClassifier(3), random_state=0).fit(held, truth)
    before = model.predict(held)
    with pytest.raises(ValueError, match="adds up its trees"):
        model.set_params(estimator=GradientBoostingClassifier(n_estimators=2)).fit(held, truth)
    with pytest.raises(ValueError, match="each set"):
        model.set_params(estimator=None, mean_budget=1.0, cost_penalty=1.0).fit(held, truth)
    model.set_params(mean_budget=None)
    assert_array_equal(model.predict(held), before)
