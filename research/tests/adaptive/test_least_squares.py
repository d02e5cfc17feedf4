"""ADAPT-LSTSQ (adaptive_approximation 8)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar
from scipy.special import expit

from anytime_research.adaptive.duality import probabilities_by_admm
from anytime_research.adaptive.least_squares import (
    CONVEX_BELOW,
    LeastSquaresGateClassifier,
    LogOdds,
    log_odds_step,
)


def value(s, A, g):
    return (1 - expit(s)) * A + (s - g) ** 2


def test_fixture():
    s = log_odds_step([1.5, -2.0], 0.3)
    assert_allclose(s, [0.4772174, 0.0501572], atol=1e-7)
    assert_allclose(expit(s), [0.6170906, 0.5125367], atol=1e-7)


def test_convexity_constant():
    p = expit(np.linspace(-20, 20, 400_001))
    steepest = np.abs(p * (1 - p) * (1 - 2 * p)).max()
    assert steepest == pytest.approx(np.sqrt(3) / 18, abs=1e-9)
    assert pytest.approx(2 / steepest, abs=1e-6) == CONVEX_BELOW == pytest.approx(20.7846, abs=1e-4)


def test_beyond_the_constant_there_can_be_two_minima():
    """Negative control for the bound: at A = 40 the grid is needed."""
    s = np.linspace(-8, 8, 20_001)
    minima = [np.sum(np.diff(np.sign(np.diff(value(s, A, g)))) > 0) for A, g in ((20.0, -2.4), (40.0, -4.0))]
    assert minima == [1, 2]


@given(st.floats(-80, 80), st.floats(-10, 10))
@settings(max_examples=200, deadline=None)
def test_the_step_is_a_global_minimum_within_its_bracket(A, g):
    s = float(log_odds_step([A], [g])[0])
    assert abs(s - g) <= abs(A) / 8 + 1e-12
    grid = np.linspace(g - abs(A) / 8 - 1, g + abs(A) / 8 + 1, 4001)
    nearby = grid[value(grid, A, g).argmin()]
    least = minimize_scalar(lambda v: value(v, A, g), bracket=(nearby - 0.02, nearby + 0.02)).fun
    assert value(s, A, g) <= min(least, value(grid, A, g).min()) + 1e-9


@pytest.mark.parametrize("fraction", [0.2, 0.4, 0.7])
def test_admm_and_the_price_agree(fraction):
    """N = 40, three fractions, rho = 5, 400 rounds."""
    random = np.random.default_rng(0)
    excess, gate = 2 * random.normal(size=40), random.normal(size=40)
    divergence = LogOdds()

    def objective(q):
        return np.mean((1 - q) * excess + divergence.per_row(q, gate))

    q, beta = divergence.probabilities(excess, gate, fraction)
    split = probabilities_by_admm(excess, gate, fraction)
    assert q.mean() <= fraction
    assert split.mean() <= fraction + 1e-12
    assert beta >= 0
    assert objective(q) == pytest.approx(objective(split), abs=3e-5)
    assert objective(q) < objective(np.full(40, fraction)) - 0.1


def test_chances_fall_as_the_price_rises():
    random = np.random.default_rng(1)
    excess, gate = 3 * random.normal(size=50), random.normal(size=50)
    betas = [LogOdds().probabilities(excess, gate, p)[1] for p in (0.1, 0.3, 0.5, 0.9, 1.0)]
    assert (np.diff(betas) <= 0).all()
    assert betas[-1] == 0


def test_nobody_sent_on_is_refused():
    with pytest.raises(ValueError, match="give a costly_fraction above 0"):
        LogOdds().probabilities(np.zeros(3), np.zeros(3), 0.0)


def test_a_gate_by_least_squares_sends_hard_rows_on():
    random = np.random.default_rng(0)
    X = random.uniform(-1, 1, (1500, 2))
    easy = X[:, 0] > 0
    y = np.where(easy, X[:, 1] > 0, random.random(1500) > 0.5).astype(int)
    told = np.where(y[:, None] == [0, 1], 0.98, 0.02)  # the costly model knows the noise
    model = LeastSquaresGateClassifier(
        told,
        cheap="linear",
        cost_penalty=0.0,
        costly_fraction=0.6,
        max_iter=10,
        n_init=1,
        gate="learned",
        random_state=0,
    ).fit(X, y)
    score, sent = model.gate_score(X), model.sent(X)
    assert score[~easy].mean() > score[easy].mean()
    assert sent[~easy].mean() > sent[easy].mean() + 0.2
