"""The estimator that buys by margins: conventions, budgets, sessions, files, estimates."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.ensemble import AdaBoostClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import anytime as at
from anytime.acquisition import FunctionTerms, LinearTerms, MarginAcquisitionClassifier
from anytime.runtime import BatchSession, Session
from anytime.testing import check_anytime_estimator
from tests.runtime.bench import features_of

X, Y, COSTS = at.datasets.load("breast_cancer")
X, Y = np.asarray(X, dtype=float), np.asarray(Y)
TRAIN, TEST = np.arange(len(Y)) % 3 > 0, np.arange(len(Y)) % 3 == 0
PLAIN = at.FeatureCosts(
    {"a": 1.0, "b": 3.0, "c": 2.0, "step": 0.5, "d": 1.5},
    groups={"a": [0, 1], "b": [2], "c": [3, 4], "step": [], "d": [5]},
    requires={"c": ["step"], "d": ["a"]},
)


def small(rows=120, seed=0):
    """Six columns, two classes."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(rows, 6))
    y = np.where(X @ [1.0, 0.5, -1.0, 0.7, 0.0, 0.4] + 0.5 * random.normal(size=rows) > 0, "yes", "no")
    return X, y


def fitted(**settings):
    settings = {"costs": PLAIN, "n_neighbors": 15, "random_state": 0, **settings}
    return MarginAcquisitionClassifier(**settings).fit(*small())


@pytest.mark.parametrize(
    "settings",
    [
        {"confidence": 0.9},
        {"classifier": "stumps", "meter": "model"},
        {"meter": "model", "cost_penalty": 0.02, "refresh": False},
        {"acquisition": "random", "neighbourhood": "radius", "radius": 0.5, "costs": PLAIN},
    ],
    ids=str,
)
def test_anytime_conventions(settings):
    check_anytime_estimator(MarginAcquisitionClassifier(random_state=0, **settings), *small(60))


@pytest.mark.parametrize(
    "classifier",
    [
        None,
        "stumps",
        LogisticRegression(max_iter=5000),
        make_pipeline(StandardScaler(), LogisticRegression()),
        AdaBoostClassifier(DecisionTreeClassifier(max_depth=1), n_estimators=30),
    ],
    ids=lambda c: str(c)[:20],
)
def test_without_a_budget_the_answer_is_the_classifiers(classifier):
    model = MarginAcquisitionClassifier(classifier, random_state=0).fit(X[TRAIN], Y[TRAIN])
    full = model.classifier_.decision_function(X[TEST])
    assert_array_equal(model.decision_function(X[TEST]), full)
    assert_array_equal(model.predict(X[TEST]), (full > 0).astype(int))
    if hasattr(classifier, "fit"):
        alone = classifier.fit(X[TRAIN], Y[TRAIN])
        assert_array_equal(model.predict(X[TEST]), alone.predict(X[TEST]))


def test_a_fitted_classifier_is_used_as_it_is_and_all_rows_are_neighbours():
    given = LogisticRegression(max_iter=5000).fit(X[TRAIN], Y[TRAIN])
    model = MarginAcquisitionClassifier(given, reference=0.3, random_state=0).fit(X[TEST], Y[TEST])
    assert_array_equal(model.predict(X), given.predict(X))
    assert len(model.plan_.blocks[0].reference) == TEST.sum()
    with pytest.raises(ValueError, match=r"trained on the classes \[0, 1\], but y has \['a', 'b'\]"):
        MarginAcquisitionClassifier(given).fit(X, np.where(Y == 1, "a", "b"))
    with pytest.raises(ValueError, match="is for 30 columns, but X has 4"):
        MarginAcquisitionClassifier(given).fit(X[:, :4], Y)


def test_a_trace_tells_order_cost_estimate_and_label_after_each_purchase():
    model, (rows, _) = fitted(), small(20, seed=1)
    trace = model.trace(rows)
    for t, answer in enumerate(list(model.stages(rows))[1:]):
        assert_array_equal(trace.labels[:, t], answer.prediction)
        assert_allclose(trace.cost[:, t], answer.cost)
    assert trace.order(3) == [PLAIN.names[g] for g in trace.groups[3] if g >= 0]
    assert all(PLAIN.price(trace.order(i)) == PLAIN.total for i in range(len(rows)))
    assert ((trace.estimate >= 0) & (trace.estimate <= 1)).all()


def test_rows_that_are_sure_enough_stop_and_pay_no_more():
    rows, _ = small(60, seed=1)
    sure, patient = fitted(confidence=0.8), fitted()
    trace, full = sure.trace(rows), patient.trace(rows)
    for i in range(len(rows)):
        stop = int(trace.purchases[i])
        assert trace.order(i) == full.order(i)[:stop]
        assert (full.estimate[i, : stop - 1] <= 0.8).all()
        assert stop == len(full.order(i)) or full.estimate[i, stop - 1] > 0.8
    assert 1 < trace.purchases.mean() < full.purchases.mean()
    assert_allclose(sure.cost(rows), trace.cost[:, -1])
    assert_array_equal(sure.predict(rows), trace.labels[:, -1])
    assert_allclose(sure.plan_.expected_costs[-1], sure.trace(small()[0]).cost[:, -1].mean())


def test_estimates_are_optimistic_on_rows_learned_from_and_come_true_on_held_out_ones():
    """budgeted_trees 2.7 and A7: unbiased with all columns, if the reference points were not learned from."""
    random = np.random.default_rng(3)
    X = random.normal(size=(2400, 20))
    y = (X[:, 0] + random.normal(size=2400) > 0).astype(int)
    learned, others, test = slice(0, 150), slice(150, 1500), slice(1500, 2400)
    seen = MarginAcquisitionClassifier(n_neighbors=50, random_state=0).fit(X[learned], y[learned])
    unseen = MarginAcquisitionClassifier(seen.classifier_, n_neighbors=50).fit(X[others], y[others])
    optimistic, honest = (model.trace(X[test]) for model in (seen, unseen))
    assert_array_equal(optimistic.cost.mean(axis=0), np.arange(1, 21))

    def above_the_truth(trace):  # after each number of purchases
        return (trace.estimate - (trace.labels == y[test, None])).mean(axis=0)

    assert above_the_truth(optimistic)[-1] > 0.1
    assert abs(above_the_truth(honest)[-1]) < 0.02
    assert abs(above_the_truth(optimistic)).max() > abs(above_the_truth(honest)).max()


def test_a_share_of_the_rows_can_be_held_out_as_neighbours():
    rows, labels = small()
    model = MarginAcquisitionClassifier(reference=0.25, random_state=0).fit(rows, labels)
    kept = model.plan_.blocks[0].reference
    held = (rows[:, None] == kept).all(axis=2).any(axis=1)
    assert held.sum() == len(kept) == 30
    alone = MarginAcquisitionClassifier(random_state=0).fit(rows[~held], labels[~held])
    assert_allclose(model.classifier_.slopes, alone.classifier_.slopes)


@pytest.mark.parametrize("budget", [None, 0.0, 1.0, 3.5, 6.0])
def test_a_session_fetches_what_the_row_asks_for_and_agrees_with_the_batch(budget):
    model = fitted(confidence=0.9)
    rows, _ = small(12, seed=2)
    answer = model.answer(rows, budget)
    orders = set()
    for i, row in enumerate(rows):
        log = []
        alone = Session(model, features_of(model.plan_, log)).predict(row, budget=budget)
        assert alone.scores.tolist() == answer.scores[i].tolist()
        assert alone.cost == answer.cost[i]
        assert PLAIN.price(log) == alone.cost
        orders.add(tuple(log))
    batch = BatchSession(model, list(rows), features_of(model.plan_), budget=budget, tile_rows=5)
    assert_array_equal(batch.advance().scores, answer.scores)
    assert len(orders) > 1 or budget in (0.0, 1.0)


def test_threads_and_files_change_no_bit(tmp_path):
    rows, _ = small(50, seed=3)
    one = fitted(confidence=0.9)
    two = fitted(confidence=0.9, n_jobs=2)
    one.save(tmp_path / "model.anytime")
    loaded = at.load(tmp_path / "model.anytime")
    assert isinstance(loaded.classifier_, LinearTerms)
    for other in (two, loaded):
        for budget in (None, 2.0, 5.0):
            assert_array_equal(other.decision_function(rows, budget), one.decision_function(rows, budget))
        assert_array_equal(other.trace(rows).estimate, one.trace(rows).estimate)


def test_a_classifier_of_functions_works_but_cannot_be_saved(tmp_path):
    rows, labels = small()
    terms = FunctionTerms(6, 0.1, {0: np.tanh, 2: lambda x: -np.tanh(x)})
    model = MarginAcquisitionClassifier(terms, n_neighbors=9).fit(rows, labels)
    assert model.n_stages_ == 2
    assert_array_equal(model.decision_function(rows), terms.decision_function(rows))
    with pytest.raises(TypeError, match="cannot be saved"):
        model.save(tmp_path / "model.anytime")


def test_missing_values_count_nothing_in_training_and_answers():
    rows, labels = small()
    rows[::7, 2] = np.nan
    rows[3] = np.nan
    model = MarginAcquisitionClassifier(n_neighbors=15, random_state=0).fit(rows, labels)
    assert model.score(rows, labels) > 0.8
    assert model.decision_function(rows[3:4])[0] == model.classifier_.offset
    with pytest.raises(ValueError, match="is infinite"):
        model.predict(np.full((1, 6), np.inf))


def test_a_score_of_zero_speaks_for_the_larger_class():
    rows = np.array([[-1.0], [1.0], [2.0], [3.0]])
    for labels, larger in (([0, 1, 1, 1], 1), ([0, 0, 0, 1], 0)):
        model = MarginAcquisitionClassifier(LinearTerms(0.0, [1.0])).fit(rows, labels)
        assert model.predict([[0.0]], budget=0).tolist() == [larger]
        assert model.predict([[0.0]]).tolist() == [larger]
        assert model.predict_proba([[0.0]]).argmax() == larger


def test_a_classifier_that_looks_at_nothing_has_no_stages():
    rows, labels = small()
    model = MarginAcquisitionClassifier(LinearTerms(0.7, np.zeros(6))).fit(rows, labels)
    assert model.n_stages_ == 0
    assert set(model.predict(rows)) == {"yes"}
    with pytest.raises(ValueError, match="buys nothing"):
        model.trace(rows)


@pytest.mark.parametrize(
    ("settings", "labels", "message"),
    [
        ({}, np.arange(120) % 3, "Only binary classification is supported. y has 3 classes"),
        ({}, np.zeros(120), "only one class"),
        ({"classifier": "trees"}, None, "must be None, 'stumps' or an estimator, not 'trees'"),
        ({"confidence": 1.5}, None, "confidence"),
        ({"reference": "test"}, None, "reference"),
        ({"reference": 0.001}, None, "reference=0.001 of 120 rows"),
        ({"acquisition": "best"}, None, "acquisition"),
    ],
)
def test_what_cannot_be_done_is_said(settings, labels, message):
    rows, known = small()
    with pytest.raises(ValueError, match=message):
        MarginAcquisitionClassifier(**settings).fit(rows, known if labels is None else labels)
