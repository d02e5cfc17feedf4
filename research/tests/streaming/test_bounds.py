"""Bounds as numbers against the tables of growth_and_streaming A.2, A.4 and A.5."""

import numpy as np
import pytest

from anytime_research.streaming.bounds import (
    excess_of_edge,
    output_bound,
    product_bound,
    residual_bound,
    residual_bound_finite,
    residual_root,
    smooth_base,
    smooth_bound,
    smooth_bound_finite,
    smooth_floor,
    smooth_step,
)


@pytest.mark.parametrize(
    ("gamma", "step", "printed", "tight", "sharp", "root", "c"),
    [
        (0.1, 0.0131579, 0.999375, 0.9993421, 0.9, 18.486833, 19),
        (0.5, 0.0833333, 0.984375, 0.9791667, 0.5, 2.4142136, 3),
        (1.0, 0.25, 0.9375, 0.875, 0.0, 0.0, 1),
    ],
)
def test_table_of_constants(gamma, step, printed, tight, sharp, root, c):
    """A.4: constants for lambda = beta = 1 and R = 0."""
    assert smooth_step(gamma, 1.0) == pytest.approx(step, abs=5e-8)
    assert smooth_base(gamma, 1.0, 1.0, form="printed") == pytest.approx(printed, abs=5e-8)
    assert smooth_base(gamma, 1.0, 1.0) == pytest.approx(tight, abs=5e-8)
    assert smooth_base(gamma, 1.0, 1.0, form="sharp") == pytest.approx(sharp, abs=5e-8)
    assert residual_root(gamma) == pytest.approx(root, abs=5e-7)
    assert residual_root(gamma, form="printed") == pytest.approx(c)


def test_check_value_2_0183():
    """A.5: gamma = 0.5, G = lambda = 1, N = 100."""
    assert residual_bound(100, 0.5, 1.0, 1.0) == pytest.approx(2.0183, abs=5e-5)


@pytest.mark.parametrize(("gamma", "factor"), [(1.0, 4), (0.5, 36), (0.1, 1444)])
def test_factor_of_theorem_5_5_2(gamma, factor):
    N = 7.0
    assert residual_bound(N, gamma, 1.0, 1.0) == pytest.approx(factor / N * (1 + np.log(N) + 1 / (8 * N)))


def test_practical_finding_of_loose_bounds():
    """A.4: at gamma = 0.3, lambda/beta = 0.133, N = 100 the bound is 0.916, and 0.017 at steps 1/beta."""
    assert smooth_bound(1.0, 100, 0.3, 0.133, 1.0) == pytest.approx(0.916, abs=1e-3)
    assert smooth_bound(1.0, 100, 0.3, 0.133, 1.0, form="sharp") == pytest.approx(0.017, abs=1e-3)


def test_tight_base_is_at_least_seven_eighths():
    gamma = np.linspace(0, 1, 101)
    assert smooth_base(gamma, 1.0, 1.0).min() == pytest.approx(7 / 8)
    assert (smooth_base(gamma, 1.0, 1.0) <= smooth_base(gamma, 1.0, 1.0, form="printed")).all()


@pytest.mark.parametrize("gamma", [0.05, 0.3, 1.0])
def test_finite_bound_is_the_recursion_and_ends_at_its_floor(gamma):
    lam, beta, excess, gap = 0.4, 2.0, 0.7, 5.0
    eta = gamma / (beta * (8 - 4 * gamma))
    regret = gap
    for _ in range(60):  # equation 5.26
        regret = regret * (1 - (eta * gamma * lam - beta * eta**2 * lam * (4 - 2 * gamma)))
        regret += (eta / 2 + beta * eta**2) * excess
    assert regret <= smooth_bound_finite(gap, 60, gamma, lam, beta, excess=excess) + 1e-12
    assert smooth_bound_finite(gap, 60, gamma, lam, beta) == pytest.approx(
        smooth_bound(gap, 60, gamma, lam, beta)
    )
    far = smooth_bound_finite(gap, 1e9, gamma, lam, beta, excess=excess)
    assert far == pytest.approx(smooth_floor(gamma, lam, excess))
    sharp = smooth_bound_finite(gap, 1e9, gamma, lam, beta, excess=excess, form="sharp")
    assert sharp == pytest.approx(smooth_floor(gamma, lam, excess, form="sharp"))


def test_product_of_equal_edges_is_the_power():
    np.testing.assert_allclose(
        product_bound(2.0, [0.3] * 4, 0.5, 1.0, step=1.0),
        smooth_bound(2.0, np.arange(1, 5), 0.3, 0.5, 1.0, form="sharp"),
    )
    assert product_bound(2.0, [0.3, -0.1, 0.3], 0.5, 1.0, step=1.0)[1:].tolist() == [np.inf, np.inf]
    with pytest.raises(ValueError, match="up to 1 / beta"):
        product_bound(1.0, [0.3], 1.0, 2.0, step=1.0)


@pytest.mark.parametrize("ratio", [0.0, 0.1, 0.9])
def test_root_identity_a_p15(ratio):
    """A-P15: c^2 = (1 - gamma)(1 + c)^2 + ratio, and c <= 2 / gamma - 1 for ratios below 1."""
    gamma = np.linspace(0.01, 1.0, 100)
    c = residual_root(gamma, ratio)
    np.testing.assert_allclose(c**2, (1 - gamma) * (1 + c) ** 2 + ratio, rtol=1e-9, atol=1e-12)
    assert (c <= residual_root(gamma, form="printed") + 1e-12).all()


@pytest.mark.parametrize("gamma", [0.01, 0.1, 0.5, 0.9, 1.0])
def test_middle_link_of_equation_5_34_is_false(gamma):
    """Negative control: (4 - 2 gamma)(1 + c)^2 <= 4 c^2 holds for no edge; (1 + 2c)^2 <= 4 (2/gamma - 1)^2 does."""
    root, printed = residual_root(gamma), residual_root(gamma, form="printed")
    for c in (root, printed):
        assert (4 - 2 * gamma) * (1 + c) ** 2 > 4 * c**2
    assert (1 + 2 * root) ** 2 <= 4 * printed**2 + 1e-9


def test_finite_residual_bound_is_below_the_printed_one_without_excess():
    N = np.array([1.0, 2, 10, 100, 1000])
    for gamma in (0.1, 0.5, 1.0):
        assert (residual_bound_finite(N, gamma, 1.0, 1.0) <= residual_bound(N, gamma, 1.0, 1.0)).all()
    assert (
        residual_bound_finite(N, 0.5, 1.0, 1.0, ratio=0.5) > residual_bound_finite(N, 0.5, 1.0, 1.0)
    ).all()


def test_output_bounds():
    gamma = np.linspace(0, 1, 11)
    tight, printed = output_bound(gamma, 2.0), output_bound(gamma, 2.0, form="printed")
    np.testing.assert_allclose(tight, (1 + np.sqrt(1 - gamma)) ** 2 * 2.0)
    assert (tight <= printed + 1e-12).all()


def test_excess_of_an_edge_grows_like_the_root_of_rows():
    """A.2.1: R(T) = R_A(T) + O(sqrt(T ln(1/delta))), with the deviations of squares."""
    one, four = excess_of_edge(0.0, 100, 0.5, 2.0, 1.0, 0.05), excess_of_edge(0.0, 400, 0.5, 2.0, 1.0, 0.05)
    assert four == pytest.approx(2 * one)
    assert one == pytest.approx((1 + 0.5 * 4) * np.sqrt(50 * np.log(80)))


def test_nothing_is_promised_without_an_edge():
    assert np.isinf(residual_bound(10, 0.0, 1.0, 1.0))
    assert np.isinf(smooth_floor(0.0, 1.0, 1.0))
    assert np.isinf(smooth_bound_finite(1.0, 10, 0.0, 1.0, 1.0))
    with pytest.raises(ValueError, match="between 0 and 1"):
        smooth_base(-0.1, 1.0, 1.0)
