"""The q-step, the objective and its alternating minimisation (adaptive_approximation 3, 4)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime
from scipy.special import expit

from anytime.adaptive.routing import KullbackLeibler, routing_probabilities
from anytime_research.adaptive.duality import composite_loss, dual_value
from tests.reference.routing import chances_by_solver, smooth_part

A = np.array([1.0, 2.0, 0.5, 3.0])  # cost of staying: l1 + softplus(g)
B = np.array([0.2, 0.1, 0.3, 0.4])  # cost of going: l0 + softplus(-g)


def objective(q, stay, go):
    divergence = KullbackLeibler()
    # with g = 0 the divergence is log 2 less the entropy
    return np.mean((1 - q) * stay + q * go + divergence.per_row(q, np.zeros(q.size)) - np.log(2))


@pytest.mark.parametrize(
    ("fraction", "beta", "q", "value"),
    [
        (1.00, 0.0, (0.689974, 0.869892, 0.549834, 0.930862), -0.045068),
        (0.50, 1.371700, (0.360845, 0.629087, 0.236548, 0.773521), 0.140550),
        (0.25, 2.686136, (0.131686, 0.312999, 0.076836, 0.478479), 0.641572),
    ],
)
def test_i_projection_fixture(fraction, beta, q, value):
    """Section 4's table."""
    found, price = routing_probabilities(A - B, 0.0, fraction)
    assert_allclose(found, q, atol=6e-7)
    assert price == pytest.approx(beta, abs=6e-7)
    assert objective(found, A, B) == pytest.approx(value, abs=6e-7)


def instance(seed, n=12):
    random = np.random.default_rng(seed)
    return random.exponential(size=n), random.exponential(size=n), 2 * random.standard_normal(n)


@given(st.integers(0, 10**6), st.floats(0.05, 0.95))
@settings(max_examples=40, deadline=None)
def test_chances_are_optimal(seed, fraction):
    """KKT, strong duality, and agreement with a generic solver."""
    l0, l1, gate = instance(seed)
    q, beta = routing_probabilities(l1 - l0, gate, fraction)
    assert beta >= 0
    assert q.mean() <= fraction
    assert beta * (q.mean() - fraction) == pytest.approx(0, abs=1e-9)
    stay, go = l1 + np.logaddexp(0, gate), l0 + np.logaddexp(0, -gate)
    assert_allclose(stay - go, l1 - l0 + gate, atol=1e-12)
    assert (np.diff(q[np.argsort(stay - go, kind="stable")]) >= 0).all()
    value = np.mean((1 - q) * l1 + q * l0 + KullbackLeibler().per_row(q, gate))
    assert value == pytest.approx(dual_value(l1, l0, gate, beta, fraction), abs=1e-8)
    by_solver, least = chances_by_solver(l1, l0, gate, fraction)
    assert value == pytest.approx(least, abs=1e-6)
    assert_allclose(q, by_solver, atol=2e-3)


@given(st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_a_larger_fraction_has_a_lower_price_and_value(seed):
    l0, l1, gate = instance(seed)
    found = [routing_probabilities(l1 - l0, gate, p) for p in (0.1, 0.3, 0.5, 0.9, 1.0)]
    values = [np.mean((1 - q) * l1 + q * l0 + KullbackLeibler().per_row(q, gate)) for q, _ in found]
    assert (np.diff([beta for _, beta in found]) <= 1e-12).all()
    assert (np.diff(values) <= 1e-12).all()


def test_nobody_goes_at_fraction_0_and_nothing_binds_at_1():
    q, beta = routing_probabilities([5.0, -5.0], 0.0, 0.0)
    assert (q == 0).all()
    assert beta == np.inf
    q, beta = routing_probabilities([50.0, 60.0], 0.0, 1.0)
    assert beta == 0
    assert_allclose(q, expit([50.0, 60.0]))


def test_extreme_losses_stay_finite():
    q, beta = routing_probabilities([1e6, -1e6, 700.0], [1e3, -1e3, 0.0], 0.4)
    assert np.isfinite(beta)
    assert np.isfinite(q).all()
    assert q.mean() <= 0.4


def test_weights_are_rows_that_repeat():
    l0, l1, gate = instance(1, 6)
    times = np.array([1, 2, 3, 1, 2, 1])
    q, beta = routing_probabilities(l1 - l0, gate, 0.3, times)
    repeated, again = routing_probabilities(np.repeat(l1 - l0, times), np.repeat(gate, times), 0.3)
    assert beta == pytest.approx(again, abs=1e-9)
    assert_allclose(np.repeat(q, times), repeated, atol=1e-9)


@given(st.floats(1e-6, 1 - 1e-6), st.floats(-30, 30), st.floats(1e-6, 1.0), st.floats(1e-6, 1.0))
@settings(max_examples=200, deadline=None)
def test_jensen_bound_holds_and_is_tight_at_the_best_probabilities(q, g, p0, p1):
    """Section 3, properties 1 and 2."""
    gate, l0, l1 = np.array([g]), -np.log([p0]), -np.log([p1])

    def bound(probability):
        return (probability * l0 + (1 - probability) * l1 + KullbackLeibler().per_row(probability, gate))[0]

    mixture = composite_loss(l0, l1, gate)[0]
    assert mixture == pytest.approx(-np.log(expit(g) * p0 + expit(-g) * p1), rel=1e-9, abs=1e-9)
    assert bound(np.array([q])) >= mixture - 1e-9
    best, _ = routing_probabilities(l1 - l0, gate, 1.0)
    assert best[0] == pytest.approx(expit(g) * p0 / (expit(g) * p0 + expit(-g) * p1), abs=1e-9)
    assert bound(best) == pytest.approx(mixture, abs=1e-8)


def test_gradients_by_finite_differences():
    """(5.1) and (5.2): the residuals of cheap model and gate, without the factor 1/N."""
    random = np.random.default_rng(0)
    f, g, q, y = random.normal(size=5), random.normal(size=5), random.random(5), random.choice([-1, 1], 5)
    _, in_cheap, in_gate = smooth_part(f, g, q, y)
    assert_allclose(in_cheap, approx_fprime(f, lambda v: smooth_part(v, g, q, y)[0]), atol=1e-6)
    assert_allclose(in_gate, approx_fprime(g, lambda v: smooth_part(f, v, q, y)[0]), atol=1e-6)
