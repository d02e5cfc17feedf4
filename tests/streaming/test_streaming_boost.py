"""The estimators: chunks leave no trace, prefixes are models, readings are snapshots, prices are real."""

from __future__ import annotations

import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import anytime as at
from anytime.streaming import (
    Ball,
    Drift,
    HoeffdingTree,
    OwnLearner,
    StreamAlgorithm,
    StreamingBoostClassifier,
    StreamingBoostRegressor,
)
from anytime.streaming.partial_sums import averaged
from anytime.streaming.stream_state import StreamState
from anytime.testing import check_anytime_estimator
from tests.streaming.streams import LEARNERS, labels, numbers

SMALL = {"n_estimators": 6, "random_state": 0}

# ---------------------------------------------------------------------- conventions


@pytest.mark.parametrize("learner", LEARNERS)
def test_all_invariants_of_anytime_prediction_hold_for_numbers(learner):
    X, y = numbers(300)
    check_anytime_estimator(StreamingBoostRegressor(learner=learner, **SMALL).fit(X, y), X[:40])


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"n_classes": 3},
        {"loss": "hinge", "algorithm": StreamAlgorithm(projection=Ball(3.0))},
        {"algorithm": StreamAlgorithm(averaging="theory"), "learning_rate": 0.1, "class_weight": "balanced"},
        {"algorithm": StreamAlgorithm(averaging="all"), "learner": "ridge", "drift": "adwin"},
        {
            "learner": HoeffdingTree(grace=20, max_features=2),
            "prefix": "best",
            "algorithm": StreamAlgorithm(gate="skip"),
        },
    ],
)
def test_all_invariants_of_anytime_prediction_hold_for_classes(settings):
    X, y = labels(400, settings.pop("n_classes", 2))
    check_anytime_estimator(StreamingBoostClassifier(**SMALL, **settings).fit(X, y), X[:40])


# ---------------------------------------------------------------------- learning


@pytest.mark.parametrize("learner", LEARNERS)
def test_chunks_leave_no_trace(learner):
    X, y = numbers(300)
    X[::7, 3] = np.nan
    at_once = StreamingBoostRegressor(learner=learner, **SMALL)
    said_at_once = at_once.predict_then_fit(X, y)
    in_chunks, one_by_one = clone(at_once), clone(at_once)
    cuts = [0, 1, 2, 50, 51, 130, 300]
    said = [in_chunks.predict_then_fit(X[a:b], y[a:b]) for a, b in pairwise(cuts)]
    for x, target in zip(X, y, strict=True):
        one_by_one.learn_one(x, target)
    assert_array_equal(np.concatenate(said), said_at_once)
    for other in (in_chunks, one_by_one):
        assert_array_equal(other.predict(X), at_once.predict(X))
        assert other.progressive_error_ == at_once.progressive_error_
        assert other.rows_seen_ == 300


@pytest.mark.parametrize(
    "settings",
    [
        {"drift": "adwin"},
        {"drift": Drift("windows", action="restart", size=50), "algorithm": StreamAlgorithm(gate="skip")},
        {"algorithm": StreamAlgorithm(warm_up=5, gate=None)},
        {"loss": "absolute", "learner": "ridge", "drift": "adwin"},
    ],
)
def test_chunks_leave_no_trace_where_rounds_are_watched(settings):
    X, y = numbers(1500)
    y[700:] = -3.0 * y[700:]
    at_once, in_chunks = (StreamingBoostRegressor(**SMALL, **settings) for _ in range(2))
    said = at_once.predict_then_fit(X, y)
    cuts = [0, 1, 77, 300, 701, 1024, 1025, 1500]
    assert_array_equal(
        np.concatenate([in_chunks.predict_then_fit(X[a:b], y[a:b]) for a, b in pairwise(cuts)]), said
    )
    assert_array_equal(in_chunks.predict(X), at_once.predict(X))
    assert in_chunks.n_alarms_ == at_once.n_alarms_ >= bool(at_once.drift)
    assert_array_equal(in_chunks.prefix_losses_, at_once.prefix_losses_)


@pytest.mark.parametrize("learner", LEARNERS)
def test_the_first_learners_do_not_know_of_later_ones(learner):
    """growth_and_streaming A-P8: prefix consistency, through the estimator."""
    X, y = labels(300, 3)
    many = StreamingBoostClassifier(learner=learner, n_estimators=6, random_state=1).fit(X, y)
    few = StreamingBoostClassifier(learner=learner, n_estimators=4, random_state=1).fit(X, y)
    fourth = list(many.stages(X))[4]
    assert_allclose(few.answer(X).scores, fourth.scores, rtol=0, atol=1e-12)
    assert_array_equal(few.edges_, many.edges_[:4])


def test_the_number_of_threads_does_not_matter_for_learning():
    X, y = labels(300, 3)
    one, two = (StreamingBoostClassifier(n_jobs=n, batch_size=4, **SMALL).fit(X, y) for n in (1, 2))
    assert_array_equal(one.predict_proba(X), two.predict_proba(X))


def test_what_is_said_before_learning_does_not_know_the_target():
    X, y = numbers(200)
    other = y.copy()
    other[150:] = 1e3
    first, second = (
        StreamingBoostRegressor(learner="ridge", **SMALL).predict_then_fit(X, t) for t in (y, other)
    )
    assert_array_equal(first[:151], second[:151])
    assert (first[152:] != second[152:]).all()


def test_progressive_error_is_that_of_what_was_said():
    X, y = numbers(300)
    model = StreamingBoostRegressor(**SMALL)
    said = model.predict_then_fit(X, y)
    assert_allclose(model.progressive_error_, np.sqrt(np.mean((said - y) ** 2)))
    X, c = labels(300, 3)
    classifier = StreamingBoostClassifier(**SMALL)
    said = classifier.predict_then_fit(X, c, classes=np.unique(c))
    assert classifier.progressive_error_ == np.mean(said != c)


def test_several_passes_are_so_many_streams():
    X, y = numbers(150)
    passes = StreamingBoostRegressor(epochs=3, **SMALL).fit(X, y)
    streams = StreamingBoostRegressor(**SMALL)
    for _ in range(3):
        streams.partial_fit(X, y)
    assert_array_equal(passes.predict(X), streams.predict(X))
    assert passes.rows_seen_ == 450


def test_a_row_of_weight_0_is_as_good_as_absent_but_answered():
    X, y = numbers(200)
    weight = (np.arange(200) % 3 > 0).astype(float)
    kept = weight > 0
    model, without = (StreamingBoostRegressor(learner="ridge", **SMALL) for _ in range(2))
    said = model.predict_then_fit(X, y, sample_weight=weight)
    expected = without.predict_then_fit(X[kept], y[kept])
    assert_array_equal(said[kept], expected)
    assert np.isfinite(said).all()
    assert_array_equal(model.predict(X), without.predict(X))


def test_weights_count():
    X, y = numbers(300)
    wrong = y.copy()
    wrong[::2] += 50.0
    weight = np.where(np.arange(300) % 2, 1.0, 1e-6)
    model = StreamingBoostRegressor(learner="ridge", **SMALL).fit(X, wrong, sample_weight=weight)
    blind = StreamingBoostRegressor(learner="ridge", **SMALL).fit(X, wrong)
    assert np.abs(model.predict(X) - y).mean() < 0.5 * np.abs(blind.predict(X) - y).mean()


def test_balanced_classes_weigh_by_how_often_they_have_come():
    """A row of class c weighs n / (C n_c), counts up to it and begun with one row of each class."""
    X, y = numbers(240)
    rare = (y > np.quantile(y, 0.9)).astype(int)
    balanced, given = (StreamingBoostClassifier(**SMALL) for _ in range(2))
    balanced.set_params(class_weight="balanced")
    counts = 1.0 + np.cumsum(np.eye(2)[rare], axis=0)
    weight = counts.sum(axis=1) / (2 * counts[np.arange(240), rare])
    for part in (slice(0, 70), slice(70, 240)):
        balanced.partial_fit(X[part], rare[part], classes=[0, 1])
        given.partial_fit(X[part], rare[part], classes=[0, 1], sample_weight=weight[part])
    assert_array_equal(balanced.predict_proba(X), given.predict_proba(X))
    plain = StreamingBoostClassifier(**SMALL).fit(X, rare)
    assert balanced.predict(X)[rare == 1].mean() > plain.predict(X)[rare == 1].mean()


def test_weights_of_classes_by_label():
    X, y = labels(200)
    one_by_one, given = (StreamingBoostClassifier(**SMALL) for _ in range(2))
    one_by_one.set_params(class_weight={"middle": 3.0})
    one_by_one.partial_fit(X, y, classes=["low", "middle"])
    given.partial_fit(X, y, classes=["low", "middle"], sample_weight=np.where(y == "middle", 3.0, 1.0))
    assert_array_equal(one_by_one.predict_proba(X), given.predict_proba(X))
    with pytest.raises(ValueError, match="names 'high', which is not among classes"):
        StreamingBoostClassifier(class_weight={"high": 2.0}, **SMALL).fit(X, y)
    with pytest.raises(ValueError, match=r"class_weight of 'low' is .*; it must be positive"):
        StreamingBoostClassifier(class_weight={"low": 0.0}, **SMALL).fit(X, y)


def test_details_of_the_algorithm_are_checked_when_they_are_given():
    for settings, match in (
        ({"name": "seven"}, "name is 'seven'"),
        ({"averaging": "first"}, "averaging is 'first'"),
        ({"hypotheses": "mean"}, "hypotheses is 'mean'"),
        ({"gate": "open"}, "gate is 'open'"),
        ({"projection": 3.0}, "must be a Box, a Ball"),
        ({"max_step": 0.0}, "must be positive"),
        ({"warm_up": -1}, "must not be negative"),
    ):
        with pytest.raises(ValueError, match=match):
            StreamAlgorithm(**settings)


def test_a_fit_that_fails_leaves_the_model_as_it_was():
    X, y = numbers(100)
    model = StreamingBoostRegressor(**SMALL).fit(X, y)
    before = model.predict(X)
    for call in (model.fit, model.partial_fit, model.predict_then_fit):
        with pytest.raises(ValueError, match="NaN"):
            call(X, np.full(100, np.nan))
    with pytest.raises(ValueError, match="is infinite"):
        model.partial_fit(np.full((3, 5), np.inf), y[:3])
    with pytest.raises(ValueError, match="3 features"):
        model.partial_fit(X[:, :3], y)
    assert_array_equal(model.predict(X), before)
    assert model.rows_seen_ == 100


def test_classes_are_named_in_the_first_call_and_kept_to():
    X, y = labels(100)
    model = StreamingBoostClassifier(**SMALL)
    with pytest.raises(ValueError, match="first call"):
        model.partial_fit(X, y)
    model.partial_fit(X[:10], y[:10], classes=["low", "middle", "never"])
    assert model.predict_proba(X).shape == (100, 3)
    with pytest.raises(ValueError, match="'top', which is not among"):
        model.partial_fit(X[:1], ["top"])
    with pytest.raises(ValueError, match="were"):
        model.partial_fit(X[:1], ["low"], classes=["low", "middle"])


def test_losses_go_with_the_kind_of_target():
    X, y = labels(50, 3)
    with pytest.raises(ValueError, match="cannot be used by a classifier"):
        StreamingBoostClassifier(loss="squared").fit(X, y)
    with pytest.raises(ValueError, match="for 2 classes"):
        StreamingBoostClassifier(loss="hinge").fit(X, y)
    with pytest.raises(ValueError, match="cannot be used by a regressor"):
        StreamingBoostRegressor(loss="logistic").fit(X, np.arange(50.0))


def test_time_and_patience_end_a_fit_with_what_was_learned(monkeypatch, capsys):
    X, y = numbers(5000)
    short = StreamingBoostRegressor(time_budget=1e-9, **SMALL).fit(X, y)
    assert short.rows_seen_ == 1024
    StreamingBoostRegressor(verbose=1, epochs=2, **SMALL).fit(X, y)
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 10
    assert "10000 rows" in told[-1]
    learn = StreamState.learn

    def interrupted(self, X, y, weight):
        if self.n_rows >= 2048:
            raise KeyboardInterrupt
        return learn(self, X, y, weight)

    monkeypatch.setattr(StreamState, "learn", interrupted)
    with pytest.warns(UserWarning, match="interrupted: the model has learned from 2048 rows"):
        model = StreamingBoostRegressor(**SMALL).fit(X, y)
    assert model.rows_seen_ == 2048
    monkeypatch.undo()
    assert_array_equal(model.predict(X), StreamingBoostRegressor(**SMALL).fit(X[:2048], y[:2048]).predict(X))


# ---------------------------------------------------------------------- reading


@pytest.mark.parametrize("averaging", ["last", "theory", "post", "all"])
@pytest.mark.parametrize("learner", ["hoeffding_tree", "ridge"])
def test_stages_are_the_answers_of_prefixes(averaging, learner):
    X, y = numbers(250)
    model = StreamingBoostRegressor(
        learner=learner,
        learning_rate=0.2,
        algorithm=StreamAlgorithm(averaging=averaging, projection=Ball(0.7)),
        **SMALL,
    ).fit(X, y)
    learning = model._learning
    rows = X if learning.columns is None else learning.columns.apply(X)
    prefixes = averaged(learning.boosting.predict_rounds(rows), averaging)
    expected = learning.target.mean + learning.target.scale * prefixes[:, :, 0]
    found = np.array([answer.prediction for answer in model.stages(X)])
    assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
    by_budget = np.array([model.predict(X, budget=cost) for cost in model.stage_costs_])
    last = [np.flatnonzero(model.stage_costs_ == cost)[-1] + 1 for cost in model.stage_costs_]
    assert_array_equal(by_budget, found[last])


def test_a_reading_is_a_snapshot_and_is_made_when_asked_for():
    X, y = numbers(400)
    model = StreamingBoostRegressor(**SMALL).fit(X[:200], y[:200])
    plan, before = model.plan_, model.predict(X)
    assert model.plan_ is plan
    small = model.truncate(budget=3.0)
    answers_of_small = small.predict(X)
    model.partial_fit(X[200:], y[200:])
    assert model.plan_ is not plan
    assert (model.predict(X) != before).any()
    assert_array_equal(small.predict(X), answers_of_small)
    with pytest.raises(ValueError, match="it can predict, but not learn"):
        small.partial_fit(X, y)
    with pytest.raises(ValueError, match="it can predict, but not learn"):
        small.learn_one(X[0], y[0])


@pytest.mark.parametrize("face", [StreamingBoostRegressor, StreamingBoostClassifier])
@pytest.mark.parametrize("learner", ["hoeffding_tree", "ridge"])
def test_few_rows_are_answered_by_the_learners_and_no_plan_is_made(face, learner):
    X, y = numbers(300) if face is StreamingBoostRegressor else labels(300)
    y = y if face is StreamingBoostRegressor else (y == "low").astype(int)
    model = face(learner=learner, **SMALL).fit(X, y)
    methods = (
        ["predict"] if face is StreamingBoostRegressor else ["decision_function", "predict_proba", "predict"]
    )
    live = [getattr(model, method)(X[:20]) for method in methods]
    assert model._reading.plan is None
    assert model.plan_.n_stages == 6
    for method, answers in zip(methods, live, strict=True):
        assert_allclose(answers, getattr(model, method)(X[:20]), rtol=1e-12, atol=1e-12)
    model.partial_fit(X[:1], y[:1])
    within = model.predict(X[:20], budget=0.0)
    assert_array_equal(within, np.repeat(within[:1], 20))  # a budget asks the plan of now


def test_one_row_is_answered_alike_by_learners_and_by_the_plan():
    X, y = labels(300, 3)
    model = StreamingBoostClassifier(**SMALL).fit(X, y)
    model.learn_one(X[0], y[0])
    live = [model.predict_proba_one(x) for x in X[:20]]
    assert model._reading.plan is None  # no plan was made
    assert_allclose([list(p.values()) for p in live], model.predict_proba(X[:20]), atol=1e-12)
    assert [model.predict_one(x) for x in X[:20]] == model.predict(X[:20]).tolist()
    assert model.predict_one(X[0], budget=0.0) == model.predict(X[:1], budget=0.0)[0]


def test_single_rows_of_a_calibrated_stream_model_have_the_calibrated_probabilities(tmp_path):
    X, y = labels(600, 3)
    StreamingBoostClassifier(**SMALL).fit(X[:300], y[:300]).save(tmp_path / "m.anytime", learning=False)
    model = at.load(tmp_path / "m.anytime")
    raw = model.predict_proba(X[:20])
    model.calibrate(X[300:], np.random.default_rng(0).permutation(y[300:]))
    one = [list(model.predict_proba_one(x).values()) for x in X[:20]]
    assert_allclose(one, model.predict_proba(X[:20]), atol=1e-12)
    assert np.abs(np.array(one) - raw).max() > 0.01


def test_learners_that_read_few_columns_make_prefixes_cheap():
    X, y = numbers(3000, d=12)
    prices = list(range(1, 13))
    narrow, wide = (
        StreamingBoostRegressor(
            costs=prices, learner=HoeffdingTree(max_features=width), n_estimators=8, random_state=0
        ).fit(X, y)
        for width in (1, None)
    )
    for i in range(8):
        assert set(narrow.plan_.blocks[0].columns(i)) <= set(narrow._learning.boosting.bank.columns(i))
    assert narrow.stage_costs_[0] < wide.stage_costs_[0]
    assert (np.diff(narrow.stage_costs_) >= 0).all()
    assert (narrow.cost(X, budget=10.0) <= 10.0).all()
    assert wide.stage_costs_[-1] <= sum(prices)


def test_evaluation_cost_is_paid_per_learner():
    X, y = numbers(50)
    model = StreamingBoostRegressor(costs=np.zeros(5), learner="ridge", evaluation_cost=2.0, **SMALL).fit(
        X, y
    )
    assert_allclose(model.stage_costs_, 2.0 * np.arange(1, 7))


def test_quality_is_the_recent_loss_of_prefixes_and_the_best_one_can_be_had():
    X, y = numbers(300)
    model = StreamingBoostRegressor(
        learner="ridge", learning_rate=1.8, algorithm=StreamAlgorithm(gate=None), **SMALL
    ).fit(X, y)
    assert_array_equal(model.plan_.quality, -model.prefix_losses_)
    best = model.best_prefix_
    assert best == int(np.argmin(model.prefix_losses_))
    model.set_params(prefix="best")
    assert model.n_stages_ == max(best, 1) < 6


def test_averaged_learners_are_read_where_they_can_be():
    X, y = numbers(300)
    last, mean = (
        StreamingBoostRegressor(learner="ridge", algorithm=StreamAlgorithm(hypotheses=h), **SMALL)
        for h in ("last", "params")
    )
    last.fit(X, y)
    mean.fit(X, y)
    assert (last.predict(X) != mean.predict(X)).any()
    assert_allclose(mean.predict(X), last.predict(X), atol=2.0)
    with pytest.raises(ValueError, match="cannot be read by 'params'"):
        StreamingBoostRegressor(algorithm=StreamAlgorithm(hypotheses="params"), **SMALL).fit(X, y)


# ---------------------------------------------------------------------- learners come and are watched


@pytest.mark.parametrize("learner", ["hoeffding_tree", "ridge", "small_net"])
def test_appended_learners_change_nothing_before_them(learner):
    """C.1: learners can be appended during the stream without changing earlier ones."""
    X, y = numbers(400)
    grown, alone = (
        StreamingBoostRegressor(learner=learner, n_estimators=4, random_state=0) for _ in range(2)
    )
    grown.partial_fit(X[:200], y[:200]).append(3)
    before = grown.predict(X)
    assert grown.n_estimators_ == grown.n_stages_ == 7
    alone.partial_fit(X[:200], y[:200])
    assert_allclose(before, alone.predict(X), atol=1e-12)  # newcomers have learned nothing yet
    for model in (grown, alone):
        model.partial_fit(X[200:], y[200:])
    fourth = list(grown.stages(X))[4]
    assert_allclose(fourth.prediction, alone.predict(X), rtol=0, atol=1e-12)
    assert_array_equal(grown.edges_[:4], alone.edges_)


def test_edges_and_alarms_can_be_asked_for():
    X, y = numbers(300)
    model = StreamingBoostRegressor(learner="ridge", **SMALL).fit(X, y)
    assert (model.edges_ <= 1).all()
    assert model.edges_[0] > 0.5
    assert_array_equal(model.edges("running"), model.edges_)
    assert model.n_alarms_ == 0


def test_drift_is_met():
    X, y = numbers(2400, seed=3)
    y[1200:] = -3.0 * y[1200:]
    blind, watching = (
        StreamingBoostRegressor(learner="ridge", learning_rate=0.3, drift=drift, **SMALL)
        for drift in (None, "adwin")
    )
    for model in (blind, watching):
        model.fit(X, y)
    assert watching.n_alarms_ >= 1
    assert blind.n_alarms_ == 0


class LastMean:
    """A learner of one's own."""

    def __init__(self):
        self.value = 0.0

    def predict(self, x):
        return np.array([self.value])

    def learn(self, x, target):
        self.value += 0.1 * (float(np.ravel(target)[0]) - self.value)


def test_own_learners_are_boosted_too():
    X, y = numbers(200)
    model = StreamingBoostRegressor(learner=OwnLearner(LastMean), n_estimators=3).fit(X, y)
    assert model.predict(X).shape == (200,)
    for learning in (True, False):
        with pytest.raises(TypeError, match="the model cannot be saved, only pickled"):
            model.save("nowhere.anytime", learning=learning)
    copied = copy.deepcopy(model)
    for each in (model, copied):
        each.partial_fit(X, -y)
    assert_array_equal(copied.predict(X), model.predict(X))


# ---------------------------------------------------------------------- states


def test_a_model_that_has_seen_nothing_says_so():
    model = StreamingBoostClassifier()
    with pytest.raises(NotFittedError):
        model.predict([[0.0]])
    with pytest.raises(NotFittedError):
        model.predict_proba_one([0.0])
    assert not hasattr(model, "plan_")
    assert not hasattr(model, "edges_")
    with pytest.raises(AttributeError):
        StreamingBoostRegressor().fit([[0.0], [1.0]], [0.0, 1.0]).predict_proba_one([0.0])


def test_a_pickled_model_goes_on_where_it_was():
    X, y = labels(400)
    model = StreamingBoostClassifier(**SMALL).fit(X[:200], y[:200])
    copied = pickle.loads(pickle.dumps(model))
    for each in (model, copied):
        each.partial_fit(X[200:], y[200:])
    assert_array_equal(copied.predict_proba(X), model.predict_proba(X))


def test_curves_and_sessions_take_it_for_any_model():
    X, y = numbers(600)
    model = StreamingBoostRegressor(
        costs=[5, 4, 3, 2, 1], learner=HoeffdingTree(max_features=1, grace=20), **SMALL
    )
    model.fit(X, y)
    curve = at.curve(model, X, y)
    assert len(curve.costs) >= 2
    session = at.Session(model)
    assert_allclose(session.predict(X[0]).prediction, model.predict(X[:1])[0])
    averaged_model = StreamingBoostRegressor(
        algorithm=StreamAlgorithm(averaging="post", projection=Ball(1.0)), **SMALL
    ).fit(X, y)
    for budget in (0.0, 2.0, None):
        answer = at.Session(averaged_model).predict(X[3], budget=budget)
        assert_allclose(answer.prediction, averaged_model.predict(X[3:4], budget=budget)[0])
