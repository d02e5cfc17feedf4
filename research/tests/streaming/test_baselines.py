"""Baselines and their units (growth_and_streaming A.8, A.10)."""

import numpy as np
import pytest

from anytime.streaming.banks import SmallNet
from anytime.streaming.boosted_bank import BoostedBank
from anytime.streaming.losses import Absolute, Squared
from anytime_research.streaming.baselines import (
    BlockBoosting,
    ConvergenceRule,
    FrankWolfeBoosting,
    block_units,
    break_even_rows,
    one_learner,
    streaming_units,
)
from anytime_research.streaming.loss_bounds import gradient_bound
from tests.reference.plain_banks import PlainRidge


def _stream(n=2000, seed=0):
    """A.10: d = 6, the target a sum of tanh features."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, size=(n, 6))
    y = np.tanh(2 * X @ rng.normal(size=(6, 6))) @ rng.normal(size=6)
    return X, y + 0.05 * rng.normal(size=n)


def test_units_of_the_table():
    """A.8: 3 T N; T_B (N (N + 1) / 2 + 2 N); sum_b T_b ((b - 1) k + 3 k)."""
    assert streaming_units(1000, 8) == 24_000
    assert streaming_units(1000, 1) == 3000  # Base
    assert block_units([500] * 8) == 500 * (8 * 9 / 2 + 2 * 8)
    assert block_units([100, 200, 300], 4) == 100 * 12 + 200 * (4 + 12) + 300 * (8 + 12)


@pytest.mark.parametrize("n", [3, 8, 50])
def test_break_even_is_where_both_cost_the_same(n):
    """A.8: exact 6 T / (N + 5); the thesis' 6 T / N is near it for many learners."""
    T = 10_000
    assert block_units([break_even_rows(T, n)] * n) == pytest.approx(streaming_units(T, n))
    assert break_even_rows(T, n, exact=False) == pytest.approx(6 * T / n)


def test_units_are_counted_as_they_are_spent():
    X, y = _stream(300)
    model = BlockBoosting(PlainRidge(), Squared(), 6, n_estimators=4, rows=60, step=0.5)
    model.learn(X[:240], y[:240], batch_size=4)
    assert model.rows_of_block == [60] * 4
    assert model.units == block_units([60] * 4)
    assert model.done
    blocks = BlockBoosting(PlainRidge(), Squared(), 6, n_estimators=5, block=2, rows=60, step=0.5)
    blocks.learn(X[:120], y[:120], batch_size=4)
    assert [part.n_estimators for part in blocks.blocks] == [2, 2, 1]
    assert blocks.units == block_units([60, 60], 2)
    frozen = model.predict(X)
    model.learn(X[240:], y[240:], batch_size=4)
    np.testing.assert_array_equal(model.predict(X), frozen)  # all have converged
    assert model.units == block_units([60] * 4) + 60 * 4  # and predict at one unit each


def test_earlier_blocks_are_frozen_and_later_ones_descend_from_them():
    X, y = _stream(300)
    model = BlockBoosting(PlainRidge(), Squared(), 6, n_estimators=2, rows=100, step=0.5, start=0.7)
    model.learn(X[:100], y[:100], batch_size=4)
    first = model.blocks[0].bank.weights.copy()
    model.learn(X[100:200], y[100:200], batch_size=4)
    np.testing.assert_array_equal(model.blocks[0].bank.weights, first)
    by_hand = 0.7 - 0.5 * sum(block.bank.predict(X)[0] for block in model.blocks)
    np.testing.assert_allclose(model.predict(X), by_hand)


def test_one_block_of_all_is_streaming_boosting():
    X, y = _stream(120)
    whole = BlockBoosting(PlainRidge(), Squared(), 6, n_estimators=4, block=4, rows=1000, step=0.5)
    model = BoostedBank(PlainRidge().make(4, 6, 1), Squared(), step=0.5)
    np.testing.assert_array_equal(whole.learn(X, y, batch_size=2), model.learn(X, y, batch_size=2))


def test_plateau_waits_for_convergence():
    """A.8: relative improvement below 1e-3 over 1000 samples, patience 3; T_B is recorded for each learner."""
    X, y = _stream(2000)
    model = BlockBoosting(
        PlainRidge(), Squared(), 6, n_estimators=3, step=1.0, plateau=ConvergenceRule(every=100, patience=3)
    )
    model.learn(X, y, batch_size=10)
    assert len(model.rows_of_block) >= 2
    assert min(model.rows_of_block[:-1]) >= 400  # a first look, and three without improvement
    assert (ConvergenceRule().least, ConvergenceRule().every, ConvergenceRule().patience) == (1e-3, 1000, 3)


def test_streaming_beats_batch_at_equal_data_and_one_learner_by_far():
    """A.10, table 5.1: SGB <= 1.1 GB at equal data, and < 0.5 Base, on the non-linear synthetic task, by small nets."""
    learner, loss, n = SmallNet(hidden=3, learning_rate=0.01), Squared(), 8
    paid = []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        W, b, a = 1.5 * rng.normal(size=(6, 6)), rng.normal(size=6), np.tile([1.0, -1.0], 3)
        X = rng.uniform(-2, 2, size=(16_000, 6))
        y = np.tanh(X @ W + b) @ a + 0.05 * rng.normal(size=16_000)
        base = one_learner(learner, loss, 6, start=y[:100].mean())
        batch = BlockBoosting(learner, loss, 6, n_estimators=n, rows=15_000 // n, step=0.5)
        streaming = BoostedBank(learner.make(n, 6, 1), loss, step=0.5)
        for model in (base, batch, streaming):
            model.learn(X[:15_000], y[:15_000], batch_size=4)
            paid.append(loss.value(model.predict(X[15_000:]), y[15_000:]).mean())
    base, batch, streaming = np.reshape(paid, (2, 3)).mean(axis=0)
    assert streaming <= 1.1 * batch
    assert streaming < 0.5 * base


def test_base_as_printed_leaves_half_of_an_uncentred_target():
    """A.9 (ii): 1/2 (1998.4 / 2)^2 = 4.99e5 is one learner with half a step from 0; the fair one starts at the mean."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 2))
    y = 1998.4 + X @ [3.0, -2.0]
    printed = one_learner(PlainRidge(1e-6), Squared(), 2, fair=False)
    fair = one_learner(PlainRidge(1e-6), Squared(), 2, start=1998.4)
    for model in (printed, fair):
        model.learn(X, y)
    assert Squared().value(printed.predict(X), y).mean() == pytest.approx(4.99e5, rel=1e-3)
    assert Squared().value(fair.predict(X), y).mean() < 1e-6
    assert one_learner(PlainRidge(), Absolute(), 2).steps == pytest.approx([1.0])


def test_frank_wolfe_is_the_printed_recursion():
    """Beygelzimer et al. (2015), Algorithm 1: linear losses, shrinkage by on-line gradient descent, a ball."""
    X, y = _stream(50)
    loss, eta, D, N = Squared(), 0.4, 1.5, 5
    model = FrankWolfeBoosting(PlainRidge().make(N, 6, 1), loss, step=eta, size=D)
    bank, sigma = PlainRidge().make(N, 6, 1), np.zeros(N)
    B = eta * N * D
    L = gradient_bound(loss, B)
    for t in range(1, 51):
        x, z = X[t - 1 : t], y[t - 1]
        prediction, sums, targets = 0.0, [], np.zeros((N, 1, 1))
        for i in range(N):
            sums.append(prediction)
            h = np.clip(bank.predict(x)[i, 0, 0], -D, D)
            prediction = np.clip((1 - sigma[i] * eta) * prediction + eta * h, -B, B)
        for i in range(N):
            slope = sums[i] - z
            targets[i] = -D * slope / L
            sigma[i] = min(max(sigma[i] + slope * sums[i] / (L * B * np.sqrt(t)), 0.0), 1.0)
        assert model.round(x, y[t - 1 : t])[0, 0] == pytest.approx(prediction, abs=1e-12)
        np.testing.assert_allclose(model.shrinkage, sigma)
        bank.update(x, targets)
    assert model.units == 3 * 50 * N


@pytest.mark.parametrize(("target", "n", "eta"), [(0.6, 12, 0.25), (-0.8, 6, 1.0)])
def test_frank_wolfe_of_a_constant_target_has_a_known_end(target, n, eta):
    """Every learner ends at ``-gain g_i``, nothing is shrunk on the way up: ``y^N = z (1 - (1 - eta gain)^N)``."""
    X, y = np.zeros((4000, 1)), np.full(4000, target)
    model = FrankWolfeBoosting(PlainRidge(1e-6).make(n, 1, 1), Squared(), step=eta, radius=1.0, gain=0.5)
    answers = model.learn(X, y)
    known = target * (1.0 - (1.0 - 0.5 * eta) ** n)
    assert answers[-1, 0] == pytest.approx(known, abs=2e-3)
    assert not model.shrinkage.any()
    assert abs(answers).max() <= 1.0


def test_frank_wolfe_shrinks_sums_that_went_too_far():
    """Learners that can only say 1 overshoot a target of 0.5. Beyond it gradient and sum agree, so that ``s_i`` rises to 1.

    Two learners take ``y`` to 0.5; from there on ``y^i = (1 - eta) y^(i-1) + eta``, which never passes 1.
    """

    class Ones(type(PlainRidge().make(1, 1, 1))):
        def predict(self, X):
            return np.ones((self.n_estimators, len(X), self.n_outputs))

    X, y = np.zeros((2000, 1)), np.full(2000, 0.5)
    model = FrankWolfeBoosting(Ones(PlainRidge(), 8, 1, 1, 0), Squared(), step=0.25)
    model.learn(X, y)
    sums = model.predict_rounds(X[:1])[:, 0, 0]
    np.testing.assert_array_equal(model.shrinkage, [0, 0, 0, 1, 1, 1, 1, 1])
    known = [0.0, 0.25, 0.5, 0.75]
    known += [1 - 0.25 * 0.75**i for i in range(1, 6)]
    np.testing.assert_allclose(sums, known)


def test_frank_wolfe_learns_a_linear_target():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(1500, 3))
    y = X @ [0.5, -0.5, 0.25]
    model = FrankWolfeBoosting(PlainRidge().make(8, 3, 1), Squared(), step=0.5, size=1.0, gain=1.0)
    paid = Squared().value(model.learn(X, y, batch_size=5), y)
    assert paid[-300:].mean() < 0.1 * (0.5 * y**2).mean()
    with pytest.raises(ValueError, match=r"between 1 / N = 0.125 and 1"):
        FrankWolfeBoosting(PlainRidge().make(8, 3, 1), Squared(), step=0.1)
