"""Theorems 5.5.1 and 5.5.2 on learners whose edge is known exactly (growth_and_streaming A.2, A.4, A.5)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from anytime.streaming.losses import Absolute, StreamLoss
from anytime.streaming.partial_sums import averaged
from anytime.streaming.projections import Ball, Box
from anytime_research.streaming.bounds import (
    output_bound,
    residual_bound,
    residual_root,
    smooth_base,
    smooth_step,
)
from anytime_research.streaming.descent import descend_one_by_one
from anytime_research.streaming.loss_bounds import gradient_bound
from anytime_research.streaming.oracles import EdgeOracle, axis_oracle


@dataclass(frozen=True)
class Quadratic(StreamLoss):
    """``1/2 sum_k a_k (y_k - z_k)^2``: strong convexity min a, smoothness max a; least at the target."""

    rho: float = 0.0
    curvature: tuple[float, ...] = (1.0, 2.0, 7.5)
    name: ClassVar[str] = "quadratic"

    def strong_convexity(self, radius=np.inf):
        return min(self.curvature)

    def smoothness(self):
        return max(self.curvature)

    def _plain(self, Y, y):
        return 0.5 * ((Y - y) ** 2 * np.array(self.curvature)).sum(axis=-1)

    def _slope(self, Y, y):
        return (Y - y) * np.array(self.curvature)


LOSS, LAM, BETA = Quadratic(), 1.0, 7.5


def _smooth_run(gamma, n_estimators, step, n_rows=40, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n_rows, 3))
    oracle = EdgeOracle(gamma, seed)
    start = np.zeros((n_rows, 3))
    went = descend_one_by_one(oracle, n_estimators, z, LOSS, np.full(n_estimators, step), start)
    return went, LOSS.value(went.sums, z).sum(axis=1)  # the competitor is the minimiser, which pays nothing


@pytest.mark.parametrize("m", [1, 2, 5])
@pytest.mark.parametrize("gamma", [0.0, 0.3, 1.0])
def test_edge_oracle_has_exactly_its_edge(gamma, m):
    g = np.random.default_rng(0).normal(size=(50, m))
    h = EdgeOracle(gamma)(0, g)
    np.testing.assert_allclose(((g - h) ** 2).sum(axis=1), (1 - gamma) * (g**2).sum(axis=1), atol=1e-12)


@pytest.mark.parametrize("m", [1, 2, 5])
def test_axis_oracle_has_an_edge_of_at_least_one_over_m(m):
    g = np.random.default_rng(0).normal(size=(50, m))
    h = axis_oracle(0, g)
    assert (((g - h) ** 2).sum(axis=1) <= (1 - 1 / m) * (g**2).sum(axis=1) + 1e-12).all()


@pytest.mark.parametrize("gamma", [0.05, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("m", [1, 3])
def test_lemma_5_4_2_and_5_8_1_a_p1_a_p2(gamma, m):
    """A-P1, A-P1', A-P2, A-P2' with R(T) = 0."""
    g = np.random.default_rng(1).normal(size=(500, m))
    h = EdgeOracle(gamma, 1)(0, g)
    S, P, Q = (g**2).sum(), (g * h).sum(), (h**2).sum()
    assert gamma * S - 1e-9 <= 2 * P
    assert pytest.approx(gamma * S + Q) == 2 * P  # R is the exact slack
    assert output_bound(gamma, S) + 1e-9 >= Q
    assert output_bound(gamma, S) <= output_bound(gamma, S, form="printed") + 1e-9


def test_lemmas_hold_of_any_outputs_with_the_excess_that_is_left():
    """A-P1' and A-P2: any learner has any edge, with R(T) as large as it takes."""
    rng = np.random.default_rng(2)
    for _ in range(50):
        g, h = rng.normal(size=(20, 2)), 3 * rng.normal(size=(20, 2))
        gamma = rng.random()
        S, P, Q = (g**2).sum(), (g * h).sum(), (h**2).sum()
        excess = ((g - h) ** 2).sum() - (1 - gamma) * S
        assert pytest.approx(gamma * S + Q - excess) == 2 * P
        assert (4 - 2 * gamma) * S + 2 * excess >= Q - 1e-9


def test_gradients_are_long_where_the_loss_is_large_a_p3():
    """A-P3: |grad|^2 >= 2 lambda (l - min l); of the quadratic, and not with its smoothness in lambda's place."""
    rng = np.random.default_rng(3)
    Y, z = rng.normal(size=(200, 3)), rng.normal(size=(200, 3))
    squares, above = (LOSS.gradient(Y, z) ** 2).sum(axis=1), LOSS.value(Y, z)
    assert (squares >= 2 * LAM * above - 1e-9).all()
    assert (squares < 2 * BETA * above).any()


@pytest.mark.parametrize("gamma", [0.05, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("n_estimators", [1, 5, 30, 100])
def test_theorem_5_5_1_holds_exactly_a_p5(gamma, n_estimators):
    """A-P5: Reg_N / Reg_0 <= (1 - gamma^2 lambda / (beta (16 - 8 gamma)))^N, any T."""
    _, regret = _smooth_run(gamma, n_estimators, float(smooth_step(gamma, BETA)))
    base = smooth_base(gamma, LAM, BETA)
    assert (regret / regret[0] <= base ** np.arange(n_estimators + 1) * (1 + 1e-12)).all()


@pytest.mark.parametrize("gamma", [0.05, 0.3, 0.7, 1.0])
def test_sharper_rate_at_whole_steps_a_p7(gamma):
    """A-P7: at eta = 1/beta the regret shrinks by 1 - gamma lambda / beta, linear in the edge."""
    _, regret = _smooth_run(gamma, 100, 1 / BETA)
    assert (regret[1:] <= regret[:-1] * smooth_base(gamma, LAM, BETA, form="sharp") + 1e-12).all()


def test_sharper_rate_is_not_reached_by_the_theorems_step():
    """Negative control, and A.4 finding 1: at gamma = 0.3, lambda/beta = 0.133 the small step is far from its possibilities."""
    _, small = _smooth_run(0.3, 100, float(smooth_step(0.3, BETA)))
    _, whole = _smooth_run(0.3, 100, 1 / BETA)
    sharp = smooth_base(0.3, LAM, BETA, form="sharp") ** 100
    assert small[-1] / small[0] == pytest.approx(0.19, abs=0.05)
    assert small[-1] / small[0] > sharp
    assert whole[-1] / whole[0] < 1e-3 < sharp


# ---------------------------------------------------------------------- Algorithm 7

RHO = 0.25
KINKED = Absolute(RHO)


def _residual_run(oracle, n_estimators, n_rows=20, projection=None, seed=0):
    """Absolute deviations from targets in two dimensions, in a ball of radius 2, with steps 1 / (lambda i)."""
    rng = np.random.default_rng(seed)
    z = rng.uniform(-1, 1, size=(n_rows, 2))
    steps = 1 / (2 * RHO * np.arange(1, n_estimators + 1))
    went = descend_one_by_one(
        oracle,
        n_estimators,
        z,
        KINKED,
        steps,
        np.zeros((n_rows, 2)),
        algorithm="residual",
        projection=projection,
    )
    # the minimiser of |y - z| + rho y^2, coordinate by coordinate
    best = np.sign(z) * np.minimum(np.abs(z), 1 / (2 * RHO))
    return went, z, KINKED.value(best, z).mean()


@pytest.mark.parametrize("gamma", [0.1, 0.5, 1.0])
@pytest.mark.parametrize("projection", [Ball(2.0), Box(-1.4, 1.4)], ids=str)
def test_theorem_5_5_2_holds_exactly_a_p13(gamma, projection):
    """A-P13: average regret of the mean of y^0 .. y^(N-1), for N in 1, 2, 10, 100, 1000."""
    went, z, least = _residual_run(EdgeOracle(gamma, 4), 1000, projection=projection)
    paid = KINKED.value(averaged(went.sums, "theory"), z).mean(axis=1)
    G = gradient_bound(KINKED, projection.radius(2), 2)
    for n in (1, 2, 10, 100, 1000):
        assert paid[n] - least <= residual_bound(n, gamma, G, 2 * RHO)


def test_theorem_5_5_2_holds_of_axis_oracles_a_p13():
    went, z, least = _residual_run(axis_oracle, 1000, projection=Ball(2.0))
    paid = KINKED.value(averaged(went.sums, "theory"), z).mean(axis=1)
    n = np.array([1, 2, 10, 100, 1000])
    assert (paid[n] - least <= residual_bound(n, 0.5, gradient_bound(KINKED, 2.0, 2), 2 * RHO)).all()


@pytest.mark.parametrize("gamma", [0.1, 0.5, 1.0])
def test_remainders_stay_bounded_a_p14(gamma):
    """A-P14: the mean of |r_i|^2 is at most c^2 G^2 for every i, and outputs (1 + 2 c)^2 G^2."""
    went, _, _ = _residual_run(EdgeOracle(gamma, 5), 300, projection=Ball(2.0))
    G, c = gradient_bound(KINKED, 2.0, 2), residual_root(gamma)
    left = ((went.targets - went.outputs) ** 2).sum(axis=2).mean(axis=1)
    assert (left <= (c * G) ** 2 + 1e-12).all()
    assert ((went.outputs**2).sum(axis=2).mean(axis=1) <= ((1 + 2 * c) * G) ** 2 + 1e-12).all()


@pytest.mark.parametrize("gamma", [0.3, 1.0])
def test_regret_falls_like_log_n_over_n_a_p16(gamma):
    """A-P16: regret N / (1 + ln N) stays bounded for N from 10 to 10^4."""
    went, z, least = _residual_run(EdgeOracle(gamma, 6), 10_000, n_rows=5, projection=Ball(2.0))
    regret = KINKED.value(averaged(went.sums, "theory"), z).mean(axis=1) - least
    n = np.array([10, 30, 100, 300, 1000, 3000, 10_000])
    scaled = regret[n] * n / (1 + np.log(n))
    assert scaled[-3:].max() <= 2 * scaled[:3].max()


def test_perfect_learners_make_projected_subgradient_descent_a_p17():
    """A-P17: with h = q the recursion is y - grad / (lambda i), projected."""
    went, z, _ = _residual_run(lambda i, target: target, 50, projection=Ball(0.7))
    y = np.zeros_like(z)
    for i in range(1, 51):
        np.testing.assert_array_equal(went.sums[i - 1], y)
        y = Ball(0.7)(y - 1 / (2 * RHO * i) * KINKED.gradient(y, z))
