"""Choosing between local models and a remote one on the fly (adaptive_approximation 14)."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from anytime.online import Expert, Experts, OnlineSelector, regret_upper_bound
from anytime_research.online import ExpertRegret


class Remote:
    """Right about everything, and counts what it is asked."""

    def __init__(self):
        self.asked = 0

    def predict(self, X):
        self.asked += len(X)
        return _truth(np.asarray(X))


def _truth(X):
    return np.where(X[:, 0] > 0, "yes", "no")


def _local(X):
    """Wrong about half of the rows with X[:, 1] > 0, and only about those."""
    return np.where((np.asarray(X)[:, 0] > 0) & (np.asarray(X)[:, 1] <= 0), "yes", "no")


def _hard(X):
    return np.asarray(X)[:, 1]


EXPERTS = [
    Expert(_hard, _local),
    Expert(lambda X: -_hard(X), _local),
    Expert(None, _local),
    Expert(_hard, _local, -1.0),
]


@pytest.fixture
def rows():
    return np.random.default_rng(0).normal(size=(4000, 2))


@pytest.mark.parametrize("horizon", [4000, None, "doubling"])
def test_it_finds_the_gate_that_asks_about_hard_rows(rows, horizon):
    selector = OnlineSelector(
        EXPERTS, remote=Remote(), evaluation_cost=0.2, horizon=horizon, random_state=0
    ).partial_fit(rows)
    assert selector.best_expert_ == 0
    np.testing.assert_array_equal(selector.predict(rows), _truth(rows))
    np.testing.assert_array_equal(selector.route(rows), rows[:, 1] > 0)


def test_an_obviously_hard_row_goes_to_the_remote_model(rows):
    """One convention of signs: a gate's score above 0 asks."""
    selector = OnlineSelector(EXPERTS, evaluation_cost=0.2, random_state=0).partial_fit(rows, _truth(rows))
    assert selector.route(np.array([[1.0, 5.0], [1.0, -5.0]])).tolist() == [True, False]


def test_only_what_is_asked_is_paid_and_read(rows):
    remote = Remote()
    live = OnlineSelector(EXPERTS, remote=remote, evaluation_cost=0.2, random_state=1)
    asked = answers = np.zeros(0)
    for part in np.array_split(rows, 7):
        live.partial_fit(part)
        asked, answers = np.append(asked, live.asked_), np.append(answers, live.answers_)
    asked = asked.astype(bool)
    assert remote.asked == asked.sum() == live.n_asked_
    assert 0.3 < asked.mean() < 0.8
    assert live.n_rounds_ == len(rows)

    for unknown in (None, np.nan, pd.NA):
        labels = np.where(asked, _truth(rows).astype(object), unknown)
        replay = OnlineSelector(EXPERTS, evaluation_cost=0.2, random_state=1).partial_fit(rows, labels)
        np.testing.assert_array_equal(replay.asked_, asked)
        np.testing.assert_array_equal(replay.answers_[asked], answers[asked])
        np.testing.assert_array_equal(replay.answers_[~asked], answers[~asked])
        np.testing.assert_allclose(replay.learner_.totals, live.learner_.totals)


@pytest.mark.parametrize("unknown", [None, pd.NA])
def test_a_missing_answer_is_noticed_where_it_is_needed(rows, unknown):
    labels = _truth(rows).astype(object)
    labels[:] = unknown
    with pytest.raises(ValueError, match="shows a loss of nan"):
        OnlineSelector(EXPERTS, evaluation_cost=0.2, random_state=1).partial_fit(rows, labels)


def test_answers_may_come_later(rows):
    selector = OnlineSelector(EXPERTS, evaluation_cost=0.2, random_state=2)
    waiting = [selector.decide(part) for part in np.array_split(rows[:400], 40)]
    assert not selector.learner_.totals.any()
    for part, verdicts in zip(np.array_split(rows[:400], 40), waiting, strict=True):
        np.testing.assert_array_equal(verdicts.answers[~verdicts.asked], _local(part)[~verdicts.asked])
        selector.learn(verdicts, _truth(part)[verdicts.asked])
    assert selector.learner_.totals.all()
    assert selector.best_expert_ in (0, 3)
    with pytest.raises(ValueError, match="a label for each row"):
        selector.learn(waiting[0], _truth(rows[:11]))


def test_regret_is_below_the_bound(rows):
    labels = _truth(rows)
    for seed in range(20):
        selector = OnlineSelector(EXPERTS, evaluation_cost=0.2, horizon=4000, random_state=seed).partial_fit(
            rows, labels
        )
        tracker = ExpertRegret().add(selector.expert_losses(rows, labels), selector.played_)
        assert selector.regret_bound_ == regret_upper_bound(5, 4000, 0.2)
        assert tracker.regret < selector.regret_bound_


def test_fitted_classifiers_become_experts_that_ask_where_they_doubt():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(3000, 3))
    y = (X[:, 0] + 0.8 * X[:, 1] > 0).astype(int)
    cheap = LogisticRegression().fit(X[:300, :1], y[:300])

    class First:  # sees one column only
        def predict(self, X):
            return cheap.predict(X[:, :1])

        def predict_proba(self, X):
            return cheap.predict_proba(X[:, :1])

    selector = OnlineSelector(
        [First()],
        remote=lambda X: (X[:, 0] + 0.8 * X[:, 1] > 0).astype(int),
        evaluation_cost=0.1,
        random_state=0,
    )
    selector.fit(X)
    assert len(selector.experts_) == 8
    assert 0 <= selector.best_expert_ < 6  # neither always local nor always remote
    asked = selector.route(X)
    assert 0.2 < asked.mean() < 0.95
    assert np.abs(X[asked, 0]).max() < np.abs(X[~asked, 0]).min() + 0.5
    alone = np.mean(First().predict(X) != y)
    assert np.mean(selector.predict(X) != y) + 0.1 * asked.mean() < min(alone, 0.1)


def test_models_and_gates_are_evaluated_once():
    calls = []

    def gate(X):
        calls.append("gate")
        return X[:, 0]

    def model(X):
        calls.append("model")
        return X[:, 0] > 0

    experts = Experts.gated([gate], [model], shifts=[-1.0, 0.0, 1.0])
    opinions = experts.consult(np.array([[0.5], [-2.0]]))
    assert sorted(calls) == ["gate", "model"]
    assert opinions.asks.astype(int).tolist() == [[1, 1, 0, 0, 1], [0, 0, 0, 0, 1]]
    losses = opinions.losses(0.3, [[1.0], [0.0]])
    assert losses.tolist() == [[0.3, 0.3, 1.0, 1.0, 0.3], [0.0, 0.0, 0.0, 0.0, 0.3]]


def test_one_that_always_asks_is_added_once():
    assert len(Experts([(None, _local)])) == 2
    assert len(Experts([(None, _local), (None, None, -1.0)])) == 2
    with pytest.raises(ValueError, match="expert 0 has no local model"):
        Experts([(_hard, None)])
    with pytest.raises(ValueError, match="no expert has a local model"):
        Experts([])
    with pytest.raises(TypeError, match="no predict_proba"):
        Experts.confident([_local])
    with pytest.raises(TypeError, match="not some of each"):
        OnlineSelector([Expert(None, _local), Remote()], evaluation_cost=1.0).decide(np.zeros((1, 2)))


def test_other_losses_and_prices_above_one(rows):
    """Numbers instead of classes: the loss is a distance, and asking costs twice the worst error."""
    truth, far = np.clip(np.abs(rows[:, 0]), 0, 1), np.full
    experts = [
        Expert(None, lambda X: np.clip(np.abs(X[:, 0]), 0, 1)),
        Expert(None, lambda X: far(len(X), 0.5)),
    ]
    selector = OnlineSelector(experts, evaluation_cost=2.0, loss=lambda a, b: np.abs(a - b), random_state=0)
    selector.partial_fit(rows, truth)
    assert selector.best_expert_ == 0
    losses = selector.expert_losses(rows, truth)
    np.testing.assert_allclose(losses[:, 1], np.abs(0.5 - truth))
    assert (losses[:, 2] == 2.0).all()
    assert selector.asked_[-1000:].mean() < selector.asked_[:1000].mean()


def test_it_is_a_scikit_learn_estimator(rows):
    selector = OnlineSelector(EXPERTS, evaluation_cost=0.2, random_state=0)
    assert selector.get_params()["evaluation_cost"] == 0.2
    first = clone(selector).partial_fit(rows, _truth(rows))
    again = first.fit(rows, _truth(rows)).learner_.totals
    np.testing.assert_array_equal(again, selector.partial_fit(rows, _truth(rows)).learner_.totals)
    frozen = FrozenEstimator(LogisticRegression().fit(rows, _truth(rows)))
    assert clone(OnlineSelector([frozen])).partial_fit(rows, _truth(rows)).n_rounds_ == 4000
    with pytest.raises(Exception, match="not fitted yet"):
        OnlineSelector(EXPERTS).predict(rows)


def test_tables_are_taken_row_by_row(rows):
    table = pd.DataFrame(rows[:200], columns=["a", "b"])
    by_table = OnlineSelector(EXPERTS, remote=Remote(), evaluation_cost=0.2, random_state=0).partial_fit(
        table
    )
    by_array = OnlineSelector(EXPERTS, remote=Remote(), evaluation_cost=0.2, random_state=0).partial_fit(
        rows[:200]
    )
    np.testing.assert_array_equal(by_table.answers_, by_array.answers_)
    np.testing.assert_array_equal(by_table.predict(table), by_array.predict(rows[:200]))


def test_without_a_remote_model_it_says_what_is_missing(rows):
    selector = OnlineSelector(EXPERTS, evaluation_cost=0.2, random_state=0)
    with pytest.raises(ValueError, match="give remote= or the labels y"):
        selector.partial_fit(rows)
    selector.partial_fit(rows, _truth(rows))
    with pytest.raises(ValueError, match="rows go to the remote model"):
        selector.predict(rows)
    with pytest.raises(ValueError, match="y has shape"):
        selector.partial_fit(rows, _truth(rows)[:5])
    with pytest.raises(ValueError, match="gave values of shape"):
        OnlineSelector([Expert(None, lambda X: X)], evaluation_cost=0.2).decide(rows)


@pytest.mark.parametrize("name", ["best_expert_", "weights_", "n_rounds_"])
def test_what_was_learned_is_asked_for_too_early(name):
    with pytest.raises(NotFittedError, match="not fitted yet"):
        getattr(OnlineSelector(EXPERTS), name)


def test_verdicts_print_what_was_decided_only():
    verdicts = OnlineSelector(EXPERTS, random_state=0).decide(np.zeros((2, 2)))
    assert repr(verdicts).startswith("Verdicts(asked=array([")
    assert "Decisions" not in repr(verdicts)


def test_verdicts_are_learned_from_once(rows):
    selector = OnlineSelector(EXPERTS, evaluation_cost=0.2, random_state=0)
    verdicts = selector.decide(rows[:100])
    truth = _truth(rows[:100])[verdicts.asked]
    with pytest.raises(ValueError, match="y has shape"):
        selector.learn(verdicts, truth[1:])
    before = selector.learn(verdicts, truth).learner_.totals.copy()
    with pytest.raises(ValueError, match="learned from already"):
        selector.learn(verdicts, truth)
    np.testing.assert_array_equal(selector.learner_.totals, before)


def test_labels_that_no_model_knows_are_refused(rows):
    local = LogisticRegression().fit(rows[:200], _truth(rows[:200]))
    selector = OnlineSelector([local], evaluation_cost=0.2, random_state=0)
    verdicts = selector.decide(rows)
    assert verdicts.asked.any()
    with pytest.raises(
        ValueError, match=r"no model was trained on the labels \[0, 1\]; their classes are \['no', 'yes'\]"
    ):
        selector.learn(verdicts, (rows[verdicts.asked, 0] > 0).astype(int))
    selector.learn(verdicts, _truth(rows[verdicts.asked]))
    with pytest.raises(ValueError, match=r"no model was trained on the labels \['maybe'\]"):
        selector.partial_fit(rows, np.where(rows[:, 1] > 0, "maybe", _truth(rows)))
    own = OnlineSelector([local], evaluation_cost=0.2, loss=lambda a, b: a != b, random_state=0)
    own.partial_fit(rows, np.where(rows[:, 1] > 0, "maybe", _truth(rows)))
    assert own.n_asked_ > 0


def test_weights_are_refused_and_classes_make_no_difference(rows):
    """Refused before anything is learned: the selector is as it was."""
    selector = OnlineSelector(EXPERTS, evaluation_cost=0.2, random_state=0)
    with pytest.raises(ValueError, match="takes no sample_weight: its bound on the regret"):
        selector.partial_fit(rows, _truth(rows), sample_weight=np.ones(len(rows)))
    assert not hasattr(selector, "learner_")
    selector.partial_fit(rows, _truth(rows), classes=[0, 1])
    plain = OnlineSelector(EXPERTS, evaluation_cost=0.2, random_state=0).partial_fit(rows, _truth(rows))
    assert np.array_equal(selector.answers_, plain.answers_)
