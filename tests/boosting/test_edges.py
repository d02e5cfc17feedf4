"""Boosted estimators at the edges: classes and queries that are missing, scales, settings that contradict each other."""

import pickle
import time

import numpy as np
import pytest

import anytime as at
from anytime.boosting.objective import MeanLoss
from anytime.losses import Loss, huber, quantile, training_loss

ADDING = {"method": "proj", "n_estimators": 4, "random_state": 0, "min_samples_leaf": 5}
RENEWING = {"n_estimators": 10, "random_state": 0, "min_samples_leaf": 5}
WAYS = [RENEWING, ADDING, ADDING | {"holdout": 0.2}, ADDING | {"method": "omp"}]


def boosted(kind, way, **more):
    """A SpeedBoost of some kind: by the papers' rules where the settings name one."""
    family = "AdditiveSpeedBoost" if "method" in way else "SpeedBoost"
    return getattr(at, family + kind)(**way, **more)


def rows(n=120, d=5, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, d))
    return X, X[:, 0] + 0.5 * X[:, 1]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("absent", [0, 1, 2])
def test_a_class_whose_rows_all_have_weight_0_is_absent(way, absent):
    X, y = rows()
    classes = np.digitize(y, [-0.5, 0.5])
    weight = (classes != absent).astype(float)
    model = boosted("Classifier", way).fit(X, classes, weight)
    assert absent not in model.classes_
    assert model.predict_proba(X).shape == (120, 2)
    without = boosted("Classifier", way).fit(X[weight > 0], classes[weight > 0])
    np.testing.assert_array_equal(model.predict_proba(X), without.predict_proba(X))


def test_one_row_is_not_enough_to_learn_from():
    X, y = rows()
    with pytest.raises(ValueError, match="only one row has a weight above 0"):
        at.SpeedBoostRegressor(**RENEWING).fit(X, y, np.eye(120)[3])


@pytest.mark.parametrize("loss", ["exponential", "hinge", "logistic"])
def test_losses_of_two_classes_refuse_three(loss):
    X, y = rows()
    with pytest.raises(ValueError, match=f"the loss '{loss}' is for 2 classes, but y has 3"):
        at.SpeedBoostClassifier(loss=loss, **RENEWING).fit(X, np.digitize(y, [-0.5, 0.5]))


@pytest.mark.parametrize("way", WAYS)
def test_nothing_is_bought_where_held_out_rows_gain_nothing_by_it(way):
    X, _ = rows()
    assert boosted("Regressor", way).fit(X, np.ones(120)).n_stages_ == 0


@pytest.mark.parametrize("way", WAYS)
def test_columns_that_say_nothing_are_never_bought(way):
    X, y = rows()
    X[:, 2], X[:, 3] = 3.0, np.nan
    model = boosted("Classifier", way).fit(X, y > 0)
    assert not {"x2", "x3"} & set(model.order_)
    X[:] = 1.0
    constant = boosted("Classifier", way).fit(X, y > 0)
    assert constant.n_stages_ == 0
    np.testing.assert_allclose(constant.predict_proba(X)[:, 1], np.mean(y > 0))


LARGE = [
    at.SpeedBoostRegressor(**RENEWING | {"n_estimators": 30}),
    at.GradientBoostingRegressor(n_estimators=60),
]


@pytest.mark.parametrize("loss", ["absolute", quantile(0.5), training_loss("squared")])
@pytest.mark.parametrize("model", LARGE)
def test_targets_may_come_in_any_unit(model, loss):
    X, y = rows(300, 3)
    model.set_params(loss=loss, learning_rate=0.3)
    answers = [model.fit(X, unit * y).predict(X) / unit for unit in (2.0**-10, 1.0, 2.0**20)]
    np.testing.assert_allclose(answers[0], answers[1], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(answers[2], answers[1], rtol=1e-9, atol=1e-9)
    assert np.abs(answers[1] - y).mean() < 0.15


@pytest.mark.parametrize("model", LARGE)
def test_where_all_rows_are_outliers_hubers_loss_is_learned_by_as_well(model):
    X, y = rows(300, 3)
    model.set_params(loss=huber(), learning_rate=0.3)
    assert np.abs(model.fit(X, 1e5 * y).predict(X) / 1e5 - y).mean() < 0.15


def test_steps_that_add_go_with_the_unit_of_the_targets():
    X, y = rows(400)
    settings = {"method": "proj", "n_estimators": 60, "learning_rate": 0.5, "random_state": 0}
    for unit in (1.0, 1e4):
        fitted = at.AdditiveSpeedBoostRegressor(loss="absolute", **settings).fit(X, unit * y)
        assert fitted.score(X, unit * y) > 0.9


def test_the_curvature_of_a_loss_that_does_not_say_is_that_of_a_parabola_to_0():
    y = np.array([3.0, -1.0, 0.5])
    scores = np.zeros((3, 1))
    assert MeanLoss(training_loss("squared"), y).curvature(scores) == pytest.approx(1.0)
    assert MeanLoss(training_loss("absolute"), y).curvature(scores) == pytest.approx(1 / (2 * 1.5))
    below = Loss("below 0", lambda s, y: s[:, 0] - 5.0, gradient=lambda s, y: np.ones_like(s), smoothness=3.0)
    assert MeanLoss(below, y).curvature(scores) == 3.0


def test_a_loss_below_0_does_not_make_good_stages_look_harmful():
    X, _ = rows(400)
    random = np.random.default_rng(1)
    y = random.poisson(np.exp(3 + X[:, 0] + 0.3 * X[:, 1] + 0.3 * X[:, 2]))
    model = at.SpeedBoostRegressor(loss="poisson", **RENEWING | {"n_estimators": 60}).fit(X, y)
    assert model.plan_.quality[0] > 0  # minus a loss that is negative
    assert {"x0", "x1", "x2"} <= set(model.order_)


# ---------------------------------------------------------------------- queries


@pytest.mark.parametrize("way", [RENEWING, ADDING])
def test_a_single_query_can_be_learned_from(way):
    X, y = rows(120, 2)
    grades = np.digitize(y, [-1, 0, 1])
    named, unnamed = (boosted("Ranker", way).fit(X, grades, qid=qid) for qid in (np.full(120, 7), None))
    np.testing.assert_array_equal(named.predict(X), unnamed.predict(X))
    assert named.score(X, grades) > 0.95


def test_a_single_query_cannot_be_held_out():
    X, y = rows()
    with pytest.raises(ValueError, match="one query, for ranking\\), so none can be held out"):
        at.AdditiveSpeedBoostRanker(**ADDING, holdout=0.2).fit(X, y > 0)


def test_grades_are_not_negative_and_losses_of_rankings_are_for_rankers():
    X, y = rows()
    with pytest.raises(ValueError, match="grades must be numbers from 0 to 60"):
        at.SpeedBoostRanker().fit(X, y)
    with pytest.raises(ValueError, match="'lambdarank' cannot be used by a regressor"):
        at.SpeedBoostRegressor(loss="lambdarank").fit(X, y)
    with pytest.raises(ValueError, match="'logistic' cannot be used by a ranker"):
        at.SpeedBoostRanker(loss="logistic").fit(X, y > 0)


# ---------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"method": "mp", "weight_regularization": 0.1},
            "weight_regularization has no effect with method='mp'; it is for 'omp' and 'omp_gain'",
        ),
        ({"method": "proj", "c_min": 3.0}, "c_min is for schedule='doubling'"),
        ({"method": "proj", "learners": []}, "at least one learner"),
    ],
)
def test_a_setting_that_would_not_be_looked_at_is_refused(settings, message):
    X, y = rows()
    with pytest.raises(ValueError, match=message):
        at.AdditiveSpeedBoostClassifier(**settings).fit(X, y > 0)


def test_what_cannot_fit_is_no_learner():
    X, y = rows()
    with pytest.raises(TypeError, match="'tree' is not a learner"):
        at.AdditiveSpeedBoostClassifier(method="proj", learners=["tree"]).fit(X, y > 0)


# ---------------------------------------------------------------------- going on


def test_going_on_takes_the_same_rows_and_rules():
    X, y = rows()
    model = at.AdditiveSpeedBoostRegressor(**ADDING, warm_start=True).fit(X, y)
    other_X, other_y = X.copy(), y.copy()
    other_X[0, 0] = other_y[0] = 9.0
    for given in ((other_X, y), (X, other_y), (X, y, np.arange(1.0, 121.0))):
        with pytest.raises(ValueError, match="warm_start=True continues on the same rows"):
            model.fit(*given)
    with pytest.raises(ValueError, match="warm_start=True continues on the same rows"):
        model.set_params(method="mp").fit(X, y)


def test_going_on_has_time_of_its_own():
    X, y = rows()
    model = at.AdditiveSpeedBoostRegressor(
        **ADDING, warm_start=True, time_budget=5.0, validation_fraction=None
    ).fit(X, y)
    model._run.training.clock.began -= 10.0
    assert model._run.training.clock.over
    assert model.set_params(n_estimators=6).fit(X, y).n_stages_ == 6


def test_a_model_that_could_go_on_can_be_pickled_and_begins_anew():
    X, y = rows()
    model = at.AdditiveSpeedBoostRegressor(**ADDING, warm_start=True).fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    with pytest.warns(UserWarning, match="training starts over"):
        assert again.fit(X, y).n_stages_ == model.n_stages_


def test_thousands_of_groups_are_ordered_in_time():
    X = np.random.default_rng(0).standard_normal((100, 3000))
    began = time.process_time()
    model = at.SpeedBoostClassifier(time_budget=3.0, n_estimators=3, random_state=0).fit(
        X, X[:, :3].sum(axis=1) > 0
    )
    assert time.process_time() - began < 30
    assert model.n_stages_ >= 1


def test_few_rows_are_enough_for_a_model():
    random = np.random.default_rng(0)
    X = random.standard_normal((40, 3))
    model = at.SpeedBoostClassifier(costs=[1.0, 2.0, 3.0], random_state=0).fit(X, X[:, 1] > 0)
    assert "x1" in model.order_
    assert model.score(X, X[:, 1] > 0) > 0.8


def test_a_label_that_is_missing_is_named_by_its_row():
    X = np.arange(20.0).reshape(10, 2)
    y = np.array(["a", "b"] * 5, dtype=object)
    y[3] = None
    with pytest.raises(ValueError, match="y is missing in 1 rows, first in row 3"):
        at.GradientBoostingClassifier().fit(X, y)
