import re
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics
from sklearn.base import is_classifier, is_regressor
from sklearn.dummy import DummyRegressor
from sklearn.linear_model import LogisticRegression

import anytime as at
from anytime.curves import NDCG, curve, ndcg
from anytime.curves.frozen import FrozenAnswer
from anytime.curves.metrics import EvaluationData, resolve_metric
from anytime.curves.resampling import Bootstrap, _score_draw


@pytest.mark.parametrize("budget", [0, 0.5, 3, 7, 9.5, 1e9])
def test_curve_equals_predict_at_that_budget(classifier, budget):
    model, X, y = classifier()
    expected = metrics.accuracy_score(y, model.predict(X, budget=budget))
    assert curve(model, X, y).at(budget) == expected
    loss = metrics.log_loss(y, model.predict_proba(X, budget=budget))
    assert curve(model, X, y, metric="neg_log_loss").at(budget) == pytest.approx(-loss)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 999), budget=st.floats(0, 40))
def test_curve_equals_predict_at_any_budget(seed, budget):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=20)
    answers = [y * s / 5 for s in range(6)]
    costs = np.concatenate([[0], np.cumsum(rng.integers(0, 9, 5))])
    model = _Fake(answers, costs)
    expected = metrics.r2_score(y, model.predict(None, budget))
    assert curve(model, np.zeros((20, 1)), y).at(budget) == pytest.approx(expected, abs=1e-12)


class _Fake:
    def __init__(self, answers, costs):
        self.answers, self._costs = answers, costs

    def stages(self, X):
        from types import SimpleNamespace

        for s, c in enumerate(self._costs):
            yield SimpleNamespace(
                stage=s, prediction=self.answers[s], scores=None, probabilities=None, cost=c, model_cost=c
            )

    def predict(self, X, budget):
        return self.answers[int(np.searchsorted(self._costs, budget, side="right")) - 1]


@pytest.mark.parametrize(
    "name",
    [
        "accuracy",
        "balanced_accuracy",
        "neg_log_loss",
        "neg_brier_score",
        "roc_auc",
        "average_precision",
        "f1_macro",
    ],
)
def test_named_scorers_judge_what_the_model_said(classifier, name):
    model, X, y = classifier()
    if name in ("average_precision", "neg_brier_score"):  # these want 0 and 1
        y, model.classes_ = (y == "yes").astype(int), np.array([0, 1])
    result = curve(model, X, y, metric=name)
    last = FrozenAnswer.of_stage(list(model.stages(X))[-1], model.classes_)
    assert result.final == pytest.approx(metrics.get_scorer(name)(last, X, y))
    assert result.metric == name
    assert result.greater_is_better


def test_error_is_one_minus_accuracy_and_smaller_is_better(classifier):
    model, X, y = classifier()
    error, accuracy = curve(model, X, y, metric="error"), curve(model, X, y)
    np.testing.assert_allclose(error.values, 1 - accuracy.values)
    assert not error.greater_is_better
    assert error.timeliness() == pytest.approx(accuracy.timeliness())


def test_a_model_is_run_once_and_unchanged_stages_are_not_judged_again(fake):
    y = np.arange(10.0)
    model = fake([y * 0, y, y, y, y * 0], [0, 1, 2, 3, 4])
    calls = []

    def count(truth, prediction):
        calls.append(1)
        return -float(np.abs(truth - prediction).sum())

    result = curve(model, np.zeros((10, 1)), y, metric=count)
    assert result.values.tolist() == [-45, 0, 0, 0, -45]
    assert len(calls) == 3
    assert model.stages_run == 5


def test_callables(regressor):
    model, X, y = regressor()
    loss = curve(model, X, y, metric=metrics.mean_squared_error)
    assert not loss.greater_is_better
    score = curve(model, X, y, metric=metrics.explained_variance_score)
    assert score.greater_is_better
    made = curve(model, X, y, metric=metrics.make_scorer(metrics.mean_squared_error, greater_is_better=False))
    np.testing.assert_allclose(made.values, -loss.values)

    def scorer(estimator, X, y):
        assert is_regressor(estimator)
        return float(np.mean(estimator.predict(X) - y))

    assert curve(model, X, y, metric=scorer, greater_is_better=False).greater_is_better is False


def test_the_facade_is_a_classifier_to_scikit_learn(classifier):
    model, X, _ = classifier()
    frozen = FrozenAnswer.of_stage(next(model.stages(X)), model.classes_)
    assert is_classifier(frozen)
    assert frozen.decision_function(X).ndim == 1
    with pytest.raises(AttributeError, match="no transform"):
        frozen.transform(X)


def test_meters(classifier):
    n = 60
    paid = [np.full(n, s) * (np.arange(n) < 30) for s in range(6)]
    model, X, y = classifier(n=n, paid=paid, unit="USD")
    by_model, realised = curve(model, X, y), curve(model, X, y, meter="realised")
    assert by_model.costs.tolist() == [0, *model.stage_costs_]
    assert realised.costs == pytest.approx(np.arange(6) / 2)
    assert by_model.realised_costs.tolist() == realised.costs.tolist()
    assert (by_model.unit, realised.unit) == ("USD", "USD")
    weighted = curve(model, X, y, meter="realised", sample_weight=(np.arange(n) < 30).astype(float))
    assert weighted.costs == pytest.approx(np.arange(6))


def test_time_does_not_include_judging(regressor):
    model, X, y = regressor()

    def slow(truth, prediction):
        time.sleep(0.02)
        return 0.0

    timed = curve(model, X, y, metric=slow, meter="time")
    assert timed.unit == "s"
    assert (np.diff(timed.costs) >= 0).all()
    assert timed.total_cost < 0.02


def test_sample_weight_reaches_the_scorer(regressor):
    model, X, y = regressor()
    weight = np.arange(1.0, y.size + 1)
    expected = metrics.r2_score(y, model.predict(X), sample_weight=weight)
    assert curve(model, X, y, sample_weight=weight).final == pytest.approx(expected)


def test_purchases_from_prices_and_order(classifier):
    prices = {"a": 1.0, "b": 2.0, "c": 50.0}
    model, X, y = classifier(order=["b", "a", "c"], prices=prices)
    bought = curve(model, X, y).purchases
    assert [p.group for p in bought] == ["b", "a"]  # c was never reached
    for p, spent in zip(bought, (2.0, 3.0), strict=True):
        assert np.concatenate([[0], model.stage_costs_])[p.stage] >= spent


def test_an_estimator_without_stages_is_one_point(classifier):
    _, X, y = classifier()
    X = np.random.default_rng(0).normal(size=X.shape)
    plain = LogisticRegression().fit(X, y)
    result = curve(plain, X, y, full_cost=12.0, metric="roc_auc")
    assert result.costs.tolist() == [12.0]
    assert result.final == pytest.approx(metrics.get_scorer("roc_auc")(plain, X, y))
    with pytest.raises(ValueError, match="full_cost="):
        curve(plain, X, y)


# ---------------------------------------------------------------------- ranking


def test_ndcg_by_hand_and_against_scikit_learn():
    rng = np.random.default_rng(1)
    y, scores = rng.integers(0, 4, 40), rng.integers(0, 6, 40) / 3  # with ties
    qid = np.repeat(np.arange(5), 8)
    for k in (1, 3, 5, None):
        expected = np.mean(
            [metrics.ndcg_score([2.0 ** y[q] - 1], [scores[q]], k=k) for q in np.split(np.arange(40), 5)]
        )
        assert ndcg(y, scores, qid, k) == pytest.approx(expected)
    shuffled = rng.permutation(40)
    assert ndcg(y[shuffled], scores[shuffled], qid[shuffled], 3) == pytest.approx(ndcg(y, scores, qid, 3))


def test_queries_without_relevant_rows_count_zero_or_are_skipped():
    y, scores, qid = [2, 0, 0, 0], [1, 0, 1, 0], [1, 1, 2, 2]
    assert ndcg(y, scores, qid, 5) == pytest.approx(0.5)
    assert ndcg(y, scores, qid, 5, zero_ideal="skip") == pytest.approx(1.0)
    with pytest.raises(ValueError, match="no query has a relevant row"):
        ndcg([0, 0], [1, 2], [1, 1], zero_ideal="skip")


def test_a_constant_answer_gets_no_credit_for_the_order_of_the_rows():
    y = np.array([3, 2, 1, 0])
    up, down = ndcg(y, np.zeros(4), np.zeros(4), 2), ndcg(y[::-1], np.zeros(4), np.zeros(4), 2)
    assert up == pytest.approx(down)
    assert up < 1


def test_ranking_curve(fake):
    y, qid = np.array([2, 0, 1, 0, 3, 0]), np.array([1, 1, 1, 2, 2, 2])
    model = fake([y * 0.0, y * 1.0], [0, 1])
    result = curve(model, np.zeros((6, 1)), y, qid=qid, bootstrap=20, random_state=0)
    assert result.metric == "ndcg@5"
    assert result.final == 1.0
    assert curve(model, np.zeros((6, 1)), y, metric=NDCG(1), qid=qid).metric == "ndcg@1"


# ---------------------------------------------------------------------- bands


@pytest.mark.parametrize("metric", ["accuracy", "error", "neg_log_loss", "roc_auc", "f1_macro"])
def test_bootstrap_is_deterministic_and_holds_the_value(classifier, metric):
    model, X, y = classifier(n=80)
    first = curve(model, X, y, metric=metric, bootstrap=30, random_state=3)
    again = curve(model, X, y, metric=metric, bootstrap=30, random_state=3)
    other = curve(model, X, y, metric=metric, bootstrap=30, random_state=4)
    np.testing.assert_array_equal(first.band, again.band)
    assert not np.array_equal(first.band, other.band)
    assert (first.band[0] <= first.values + 1e-12).all()
    assert (first.values <= first.band[1] + 1e-12).all()
    assert first.confidence == 0.95


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("metric", ["accuracy", "error", "neg_log_loss", "roc_auc"])
def test_fast_draws_equal_repeating_the_rows(classifier, metric, weighted):
    model, X, y = classifier(n=40)
    _compare_paths(model, X, y, metric, weighted, classes=model.classes_)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("metric", ["r2", "neg_mean_squared_error", "neg_mean_absolute_error"])
def test_fast_draws_equal_repeating_the_rows_for_regressors(regressor, metric, weighted):
    model, X, y = regressor(n=40)
    _compare_paths(model, X, y, metric, weighted, classes=None)


def _compare_paths(model, X, y, metric, weighted, classes):
    weight = np.random.default_rng(0).random(y.size) if weighted else None
    data = EvaluationData.checked(X, y, weight, None)
    judge = resolve_metric(metric, classifier=classes is not None, data=data)
    draws = Bootstrap.drawn(data, None, 15, 0.9, 0)
    for answer in model.stages(X):
        frozen = FrozenAnswer.of_stage(answer, classes)
        slow = [_score_draw(judge, frozen, data, count) for count in draws.counts]
        np.testing.assert_allclose(draws.values(judge, frozen, data), slow, atol=1e-12)


def test_draws_keep_groups_and_queries_whole():
    unit = np.repeat(np.arange(6), 4)
    for data in (EvaluationData.checked(np.zeros((24, 1)), unit, None, unit),):
        counts = Bootstrap.drawn(data, None, 10, 0.9, 0).counts
        assert (counts.reshape(10, 6, 4) == counts.reshape(10, 6, 4)[:, :, :1]).all()
    with pytest.raises(ValueError, match="keep queries whole"):
        Bootstrap.drawn(data, np.arange(24), 10, 0.9, 0)


def test_wider_groups_give_wider_bands(classifier):
    """Rows that repeat each other are no new evidence: a negative control for drawing rows one by one."""
    model, X, y = classifier(n=60)
    tens = np.repeat(np.arange(60), 10)
    wide = type(model)([a[tens] for a in model.answers], [0, *model.stage_costs_], classes=model.classes_)
    rows = curve(wide, X[tens], y[tens], bootstrap=200, random_state=0)
    grouped = curve(wide, X[tens], y[tens], bootstrap=200, random_state=0, groups=tens)
    assert (np.diff(grouped.band, axis=0)[0, 1:] > 2 * np.diff(rows.band, axis=0)[0, 1:]).all()


@pytest.mark.realtime
def test_500_stages_of_5000_rows_with_bands_take_seconds():
    rng = np.random.default_rng(0)
    n, stages = 5000, 500
    y = rng.integers(0, 2, n)
    right = np.sort(rng.random(stages))
    noise = rng.random(n)
    model = _Fake([np.where(noise < r, y, 1 - y) for r in right], np.arange(stages, dtype=float))
    model.classes_ = np.array([0, 1])
    began = time.perf_counter()
    result = curve(model, np.zeros((n, 1)), y, bootstrap=20, random_state=0)
    assert len(result) == stages
    assert time.perf_counter() - began < 20  # about half a second; generous for a busy machine


# ---------------------------------------------------------------------- malformed input


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"metric": "acuracy"}, "did you mean 'accuracy'"),
        ({"metric": "log_loss"}, "did you mean 'neg_log_loss'"),
        ({"metric": "mse"}, "did you mean 'neg_mean_squared_error'"),
        ({"metric": "ndcg@5"}, "needs qid"),
        ({"metric": "ndcg@0", "qid": np.zeros(60)}, "k ≥ 1"),
        ({"meter": "money"}, "meter must be"),
        ({"sample_weight": np.ones(3)}, "X has 60 rows but sample_weight has 3"),
        ({"sample_weight": -np.ones(60)}, "not negative"),
        ({"qid": np.ones(3)}, "X has 60 rows but qid has 3"),
        ({"groups": np.ones(3), "bootstrap": 5}, "X has 60 rows but groups"),
        ({"bootstrap": -1}, "number of draws"),
        ({"bootstrap": 5, "confidence": 95}, "confidence must lie"),
        ({"metric": lambda y, p: float("nan")}, "is nan at stage 0"),
    ],
)
def test_malformed_input_says_what_is_wrong(classifier, kwargs, message):
    model, X, y = classifier()
    with pytest.raises(ValueError, match=message):
        curve(model, X, y, **kwargs)


@pytest.mark.parametrize("metric", ["f1", "average_precision", "neg_brier_score"])
def test_a_metric_of_one_class_says_how_to_name_it_where_labels_are_words(metric):
    X = np.arange(40.0)[:, None]
    y = np.where(X[:, 0] < 20, "ill", "well")
    model = at.GradientBoostingClassifier(n_estimators=3).fit(X, y)
    with pytest.raises(ValueError, match="the labels do not say which") as caught:
        curve(model, X, y, metric=metric)
    advised = re.search(r"metric=(.*) of sklearn", str(caught.value))[1]
    named = eval(advised, {**vars(metrics)})  # what the message says is what works
    numbers = at.GradientBoostingClassifier(n_estimators=3).fit(X, y == "well")
    expected = curve(numbers, X, y == "well", metric=metric)
    np.testing.assert_allclose(curve(model, X, y, metric=named).values, expected.values)


def test_mismatched_rows_raise_before_the_model_is_run(classifier):
    model, X, y = classifier()
    with pytest.raises(ValueError, match="X has 60 rows but y has 59"):
        curve(model, X, y[:-1])
    with pytest.raises(ValueError, match="X has no rows"):
        curve(model, X[:0], y[:0])
    with pytest.raises(TypeError, match="a name, a callable or NDCG"):
        curve(model, X, y, metric=3)
    assert model.stages_run == 0
    with pytest.raises(ValueError, match="answers for 60 rows, but y has 5"):
        curve(model, X[:5], y[:5])


def test_models_without_answers(classifier):
    _, X, y = classifier()
    with pytest.raises(TypeError, match="neither stages nor predict"):
        curve(object(), X, y)
    with pytest.raises(ValueError, match="returned no answer"):
        curve(type("Empty", (), {"stages": lambda self, X: iter(())})(), X, np.zeros(60))


def test_nan_predictions_raise(fake):
    y = np.arange(4.0)
    with pytest.raises(ValueError, match="NaN"):
        curve(fake([y * np.nan], [0]), np.zeros((4, 1)), y)


def test_random_state_may_be_a_generator_or_random_state():
    X, y = np.zeros((30, 1)), np.arange(30.0)
    plain = DummyRegressor().fit(X, y)
    for make in (np.random.default_rng, np.random.RandomState):
        bands = [curve(plain, X, y, full_cost=1, bootstrap=10, random_state=make(5)).band for _ in range(2)]
        np.testing.assert_array_equal(*bands)
