"""A mean budget over a stream of single examples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anytime as at
from anytime.runtime import Account
from anytime.serve.pace import StagePace, checkpoints_of
from anytime.serve.policy import Adaptive
from tests.runtime.bench import linear_plan, model_of
from tests.serve.virtual import VirtualEngine, replay
from tests.test_calibration import boasting, drawn


@given(
    steps=st.lists(st.floats(0.05, 2.0), min_size=1, max_size=6),
    bias=st.floats(0.5, 2.0),
    mean=st.floats(0.05, 3.0),
    seed=st.integers(0, 99),
)
def test_the_mean_is_kept_whatever_budgets_really_cost(steps, bias, mean, seed):
    """Budgets buy the last step below them, at a cost that is wrong by a factor: the account makes up for both."""
    costs = np.cumsum([0.0, *steps])
    account = after_a_stream(Account(mean), costs, bias, seed)
    assert account.mean <= 1.02 * mean
    assert account.mean >= 0.98 * min(mean, bias * costs[-1])


def after_a_stream(account, costs, bias, seed, allowance=None):
    """The account after 3000 examples that are allowed what it says, or always the same ``allowance``."""
    random = np.random.default_rng(seed)
    for _ in range(3000):
        allowed = account.allowance(costs[1]) if allowance is None else allowance
        account.note(bias * costs[costs <= allowed].max() * random.uniform(0.5, 1.5))
    return account


@pytest.mark.parametrize(("bias", "mean"), [(2.0, 2.0), (0.5, 0.5)])
def test_examples_that_are_always_allowed_the_same_drift_from_the_mean(bias, mean):
    """Negative control of the above."""
    drifted = after_a_stream(Account(1.0), np.array([0.0, 1.0, 2.0]), bias, seed=0, allowance=1.0)
    assert drifted.mean == pytest.approx(mean, rel=0.02)
    assert after_a_stream(Account(1.0), np.array([0.0, 1.0, 2.0]), bias, seed=0).mean == pytest.approx(
        1.0, rel=0.02
    )


@pytest.mark.parametrize("mean", [2.0, 4.5])
def test_a_session_keeps_the_mean_over_a_stream(mean):
    X, y = drawn(1500, seed=7)
    model = boasting().calibrate(*drawn(400, seed=8))
    session = at.Session(model, mean_budget=mean)
    answers = [session.predict(x) for x in X]
    assert session.account.count == 1500
    assert session.account.mean == pytest.approx(np.mean([a.cost for a in answers]))
    assert session.account.mean == pytest.approx(mean, rel=0.02)
    assert len({a.stage for a in answers}) > 1
    right = np.mean([a.prediction for a in answers] == y)
    assert right > np.mean(boasting().predict(X, budget=mean) == y)


def test_a_mean_below_the_first_price_is_saved_up_for():
    session = at.Session(model_of(linear_plan()), mean_budget=0.25)
    costs = [session.predict(np.zeros(3)).cost for _ in range(400)]
    assert np.mean(costs) == pytest.approx(0.25, rel=0.02)
    assert max(costs) >= 1.0


def test_siblings_share_the_account_and_named_bounds_do_not_count():
    session = at.Session(boasting(), mean_budget=3.0)
    X = drawn(4, seed=9)[0]
    session.sibling().predict(X[0])
    session.predict(X[1], budget=1)
    session.predict(X[2], mean_budget=1)
    assert session.account.count == 1
    assert at.Session(boasting()).account is None


def test_the_server_keeps_the_mean_over_its_questions():
    X, _ = drawn(1200, seed=10)
    model = boasting().calibrate(*drawn(300, seed=11))
    stops = checkpoints_of(model.n_stages_)
    engine = VirtualEngine(model, StagePace(stops, stops * 1e-5), Adaptive(0.002), slo=10.0)
    answers = replay(engine, [(0.001 * i, X[3 * i : 3 * i + 3], {"mean_budget": 2.5}) for i in range(400)])
    assert np.mean([a.cost for a in answers]) == pytest.approx(2.5, rel=0.02)


@pytest.mark.parametrize("mean", [-1.0, np.nan, np.inf, "3", True])
def test_a_mean_that_is_no_amount_is_refused(mean):
    with pytest.raises(ValueError, match="mean_budget must be a non-negative number"):
        at.Session(boasting(), mean_budget=mean)
