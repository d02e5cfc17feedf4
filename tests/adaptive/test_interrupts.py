"""Ctrl-C in a fit that has others inside."""

import contextlib
import signal

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

import anytime as at
from anytime.adaptive.rungs import RungLearner

BOTH = pytest.mark.parametrize("kind", [at.AdaptiveClassifier, at.LadderClassifier])


class Swallowing(ClassifierMixin, BaseEstimator):
    """A model that Ctrl-C leaves usable, as those of this library are."""

    fits = 0

    def fit(self, X, y):
        Swallowing.fits += 1
        self.inner_ = LogisticRegression().fit(X, y)
        self.classes_ = self.inner_.classes_
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return self

    def predict_proba(self, X):
        return self.inner_.predict_proba(X)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    return X, (X.sum(axis=1) + 0.3 * rng.normal(size=300) > 0).astype(int)


@BOTH
def test_an_interrupt_in_the_costly_models_fit_ends_the_whole_fit(rows, kind):
    model, Swallowing.fits = kind(Swallowing(), n_estimators=3), 0
    with pytest.raises(KeyboardInterrupt):
        model.fit(*rows)
    assert Swallowing.fits == 1  # no fold is begun
    assert not hasattr(model, "plan_")


def test_a_ladder_keeps_the_exits_that_it_has(rows, monkeypatch):
    X, y = rows
    costly = FrozenEstimator(LogisticRegression().fit(X, y))
    learn, calls = RungLearner.learn, []

    def interrupted(self, *arguments):
        calls.append(0)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGINT)
        return learn(self, *arguments)

    monkeypatch.setattr(RungLearner, "learn", interrupted)
    with pytest.warns(UserWarning, match="interrupted: the ladder has 2 of up to 12"):
        model = at.LadderClassifier(costly, tolerance=0.1, n_estimators=5, random_state=0).fit(X, y)
    assert len(calls) == 3
    assert model.score(X, y) > 0.7


def test_without_an_exit_there_is_no_ladder(rows, monkeypatch):
    monkeypatch.setattr(RungLearner, "learn", lambda *_: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        at.LadderClassifier(FrozenEstimator(LogisticRegression().fit(*rows)), n_estimators=5).fit(*rows)


def test_a_ladder_out_of_time_says_how_many_exits_it_has(rows):
    X, y = rows
    costly = FrozenEstimator(LogisticRegression().fit(X, y))
    with pytest.warns(UserWarning, match=r"time is up: the ladder has 1 of up to 12 exits"):
        model = at.LadderClassifier(costly, time_budget=1e-9, tolerance=0.2, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.6


def test_a_ladder_out_of_time_uses_the_exit_that_it_has(rows):
    X, y = rows
    costly = FrozenEstimator(LogisticRegression().fit(X, y))
    with pytest.warns(UserWarning, match="time is up"):
        model = at.LadderClassifier(costly, time_budget=1e-9, mean_budget=2, random_state=0).fit(X, y)
    assert model.n_stages_ >= 1
    assert model.cost(X).mean() <= 2
    assert model.score(X, y) > 0.6
