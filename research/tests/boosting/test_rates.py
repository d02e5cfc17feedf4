"""Rates as numbers: forms that have to agree, limits, refusals. That runs keep them is in test_descent."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anytime_research.boosting.rates import (
    best_scale,
    inner_error,
    inner_steps,
    repeated_bound,
    repeated_strong_bound,
    residual_bound,
    residual_norm_bound,
    residual_strong_bound,
    smooth_bound,
    smooth_decrease,
    smooth_steps,
)

GAMMA = st.floats(0.05, 0.99)


@given(gamma=GAMMA, T=st.integers(1, 1000))
def test_five_quarters_is_theorem_251_as_stated(gamma: float, T: int):
    G, m = 1.7, 0.3
    stated = 5 * G**2 / (2 * m * T) * (1 + np.log(T) + (1 - gamma**2) / gamma**2)
    assert repeated_strong_bound(T, gamma, G, m) == pytest.approx(stated)


@given(gamma=GAMMA, T=st.integers(1, 1000), other=st.floats(1.001, 50.0))
def test_no_other_scale_promises_more(gamma: float, T: int, other: float):
    best = repeated_strong_bound(T, gamma, 1.0, 1.0, scale=best_scale(T, gamma))
    assert best <= repeated_strong_bound(T, gamma, 1.0, 1.0, scale=other) * (1 + 1e-12)
    assert best <= repeated_strong_bound(T, gamma, 1.0, 1.0) * (1 + 1e-12)


@given(gamma=GAMMA, gap=st.floats(1e-3, 1e3), share=st.floats(1e-6, 0.9))
def test_steps_needed_are_enough(gamma: float, gap: float, share: float):
    T = smooth_steps(gap, share * gap, gamma, m=0.5, M=2.0)
    assert smooth_bound(gap, np.ceil(T), gamma, m=0.5, M=2.0) <= share * gap * (1 + 1e-9)
    assert smooth_steps(gap, gap, gamma, m=0.5, M=2.0) == 0


@given(gamma=GAMMA, missed=st.floats(1e-9, 0.99))
def test_inner_steps_needed_are_enough_and_no_fewer(gamma: float, missed: float):
    k = inner_steps(missed, gamma)
    assert inner_error(k, gamma) <= missed * (1 + 1e-9)
    assert inner_error(k - 1, gamma) > missed * (1 - 1e-9)


def test_inner_steps_at_the_ends():
    assert inner_steps(1.0, 0.5) == 0
    assert inner_steps(0.1, 1.0) == 1
    assert inner_steps(0.1, 0.0) == np.inf
    assert inner_steps(0.0, 0.5) == np.inf


@given(gamma=GAMMA, T=st.integers(1, 10_000))
def test_tight_forms_never_promise_less(gamma: float, T: int):
    """functional_gradient_and_greedy 3.4: ``s / (1 - s) < 2 / gamma²``, and the tight form of 2.5.3 is below the printed one."""
    assert residual_norm_bound(gamma, 1.3) < residual_norm_bound(gamma, 1.3, form="printed")
    assert residual_strong_bound(T, gamma, 1.3, 0.7) < residual_strong_bound(
        T, gamma, 1.3, 0.7, form="printed"
    )


def test_values_by_hand():
    """gamma² = 3/4, so s = 1/2 and c = 8/3."""
    gamma = np.sqrt(0.75)
    assert residual_norm_bound(gamma, 3.0) == pytest.approx(3.0)
    assert residual_bound(4, gamma, G=3.0, D=2.0) == pytest.approx(1.0 + 64.0 / 2 + 64.0 / 16)
    assert repeated_bound(4, gamma, G=3.0, D=2.0) == pytest.approx(1.0 + 18.0 + 1.5)
    assert repeated_bound(4, gamma, G=3.0, D=2.0, form="printed") == pytest.approx(2.0 + 9.0 + 1.0)
    assert residual_strong_bound(1, gamma, G=3.0, m=0.5) == pytest.approx(36.0 + 9.0)
    assert residual_strong_bound(1, gamma, G=3.0, m=0.5, form="printed") == pytest.approx(4 * 64.0 * 3)
    assert smooth_decrease(0.5, 4.0, 2.0) == 1.0


def test_no_edge_promises_nothing():
    assert smooth_bound(1.0, 100, 0.0, 1.0, 2.0) == 1.0
    assert smooth_steps(1.0, 0.1, 0.0, 1.0, 2.0) == np.inf
    assert repeated_strong_bound(10, 0.0, 1.0, 1.0) == np.inf
    assert repeated_bound(10, 0.0, 1.0, 1.0) == repeated_bound(10, 0.0, 1.0, 1.0, form="printed") == np.inf
    assert residual_bound(10, 0.0, 1.0, 1.0) == residual_strong_bound(10, 0.0, 1.0, 1.0) == np.inf
    assert residual_norm_bound(0.0, 1.0) == np.inf


def test_curvature_that_no_objective_has_is_refused():
    with pytest.raises(ValueError, match=r"needs 0 < m, and m ≤ M; got m = 2.0, M = 1.0"):
        smooth_bound(1.0, 1, 0.5, 2.0, 1.0)
    with pytest.raises(ValueError, match=r"got m = 0.0$"):
        residual_strong_bound(1, 0.5, 1.0, 0.0)
    with pytest.raises(ValueError, match="scale of steps must be above 1"):
        repeated_strong_bound(1, 0.5, 1.0, 1.0, scale=1.0)
    for bound in (repeated_bound, residual_strong_bound):
        with pytest.raises(ValueError, match="form is 'loose'"):
            bound(1, 0.5, 1.0, 1.0, form="loose")
