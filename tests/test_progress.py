"""Callbacks of fits: progress, logging, and an end."""

import warnings

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import anytime as at

COSTS = {f"x{k}": float(k + 1) for k in range(6)}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6))
    return X, (X[:, 0] + X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=400) > 0).astype(int)


def every_fit():
    costs = at.FeatureCosts(list(COSTS.values()))
    yield at.SpeedBoostClassifier(costs=costs, n_estimators=40, random_state=0)
    yield at.AdditiveSpeedBoostClassifier(costs=costs, n_estimators=30, random_state=0)
    yield at.GradientBoostingClassifier(n_estimators=60, random_state=0)
    yield at.CascadeClassifier(costs=costs, n_estimators=20, max_stages=4, random_state=0)
    yield at.BudgetForestClassifier(costs=costs, mean_budget=9, n_estimators=40, random_state=0)
    yield at.GroupPursuitClassifier(costs=costs, random_state=0)
    yield at.AdaptiveClassifier(SVC(), costs=costs, mean_budget=9, random_state=0)
    yield at.LadderClassifier(SVC(), costs=costs, mean_budget=9, random_state=0)
    yield at.StreamingBoostClassifier(epochs=5, random_state=0)
    yield at.AutoClassifier(costs=costs, time_budget=5, random_state=0)


@pytest.mark.parametrize("model", list(every_fit()), ids=lambda model: type(model).__name__)
def test_every_long_fit_reports_and_a_callback_ends_it_with_a_usable_model(model, rows):
    X, y = rows
    told = []

    def enough(progress):
        told.append(progress)
        return len(told) >= 3

    with at.callbacks(enough), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model.fit(X, y)
    assert [progress.step for progress in told] == list(range(1, len(told) + 1))
    assert 3 <= len(told) <= 4  # what is left to do for a usable model may be told
    assert np.isin(model.predict(X), [0, 1]).all()


def test_callbacks_of_a_search_follow_its_pipelines_and_its_pruned_forest(rows):
    X, y = rows
    told = []
    search = GridSearchCV(
        make_pipeline(StandardScaler(), at.GroupPursuitClassifier(random_state=0)),
        {"grouppursuitclassifier__selection": ["omp", "forward"]},
        cv=2,
    )
    with at.callbacks(told.append):
        search.fit(X, y)
        n_of_search = len(told)
        forest = RandomForestClassifier(10, random_state=0).fit(X, y)
        at.prune_forest(forest, X, y, costs=list(COSTS.values()))
    assert n_of_search == 5 * 6  # two settings on two halves, and the best on all rows: each of six groups
    assert any("prunings" in progress.message for progress in told[n_of_search:])


def test_a_callback_that_ends_a_pruning_leaves_a_usable_forest(rows):
    X, y = rows
    forest = RandomForestClassifier(10, random_state=0).fit(X, y)
    with at.callbacks(lambda progress: True), pytest.warns(UserWarning, match="prunings found so far"):
        pruned = at.prune_forest(forest, X, y, costs=list(COSTS.values()))
    assert pruned.score(X, y) > 0.7


@pytest.mark.parametrize("answer", [None, False, 1, "kept", np.False_])
def test_a_fit_that_is_only_followed_is_the_same_fit(answer, rows):
    X, y = rows
    model = at.GradientBoostingClassifier(n_estimators=30, random_state=0)
    alone = model.fit(X, y).predict_proba(X)
    with at.callbacks(lambda progress: answer):
        np.testing.assert_array_equal(model.fit(X, y).predict_proba(X), alone)
    with at.callbacks(lambda progress: np.True_), pytest.warns(UserWarning, match="interrupted"):
        assert model.fit(X, y).n_stages_ < 30


def test_one_block_ends_one_fit_and_nothing_outside_is_followed(rows):
    X, y = rows
    told = []

    def enough(progress):
        told.append(progress)
        return True

    model = at.GradientBoostingClassifier(n_estimators=30, random_state=0)
    with at.callbacks(enough):
        with pytest.warns(UserWarning, match="interrupted"):
            model.fit(X, y)
        assert model.fit(X, y).n_stages_ == 30
    assert len(told) == 1 + 2
    model.fit(X, y)
    assert len(told) == 1 + 2


def test_a_fit_that_has_learned_nothing_yet_ends_as_ctrl_c_would_end_it(rows):
    X, y = rows
    with at.callbacks(lambda progress: True), pytest.raises(KeyboardInterrupt):
        at.AcquisitionClassifier(random_state=0).fit(X, y)
