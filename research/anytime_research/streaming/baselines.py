"""What streaming boosting is measured against, at equal cost: one learner, learners one after another, blocks, Frank-Wolfe.

Costs are in units of one prediction of one learner on one row; an update is two (Hu 2019, chapter 5, experiments). All of these
see each row once and may not keep it, so a learner that is trained after others pays for their predictions again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.streaming.banks.bank import Bank, StreamLearner
from anytime.streaming.boosted_bank import BoostedBank
from anytime.streaming.losses import StreamLoss, Target
from anytime.streaming.projections import Ball
from anytime_research.streaming.loss_bounds import gradient_bound

Array = NDArray[np.float64]

_PREDICT, _UPDATE = 1.0, 2.0  # units of one learner on one row

__all__ = [
    "BlockBoosting",
    "ConvergenceRule",
    "FrankWolfeBoosting",
    "block_units",
    "break_even_rows",
    "one_learner",
    "streaming_units",
]


# ---------------------------------------------------------------------- units


def streaming_units(
    n_rows: float, n_estimators: float, *, predict: float = _PREDICT, update: float = _UPDATE
) -> float:
    """Of streaming boosting: every learner predicts and learns every row, ``3 T N``."""
    return n_rows * n_estimators * (predict + update)


def block_units(
    n_rows: ArrayLike, size: int = 1, *, predict: float = _PREDICT, update: float = _UPDATE
) -> float:
    """Of blocks trained one after another, the b-th on ``n_rows[b]`` rows: ``sum_b T_b ((b - 1) k + 3 k)``.

    Blocks of one learner are batch gradient boosting: ``T_B (N (N + 1) / 2 + 2 N)`` where all see ``T_B`` rows.

    Examples
    --------
    >>> block_units([100] * 8), 100 * (8 * 9 / 2 + 2 * 8)
    (5200.0, 5200.0)
    """
    rows = np.atleast_1d(np.asarray(n_rows, dtype=np.float64))
    frozen = np.arange(rows.size) * size
    return float(rows @ (frozen * predict + size * (predict + update)))


def break_even_rows(n_rows: float, n_estimators: float, *, exact: bool = True) -> float:
    """Rows per learner at which learners one after another cost what streaming boosting does on ``n_rows``.

    ``6 T / (N + 5)``; the thesis' approximation is ``6 T / N``.
    """
    return 6.0 * n_rows / (n_estimators + 5 if exact else n_estimators)


# ---------------------------------------------------------------------- one learner


def one_learner(
    learner: StreamLearner,
    loss: StreamLoss,
    n_features: int,
    n_outputs: int = 1,
    *,
    fair: bool = True,
    start: ArrayLike = 0.0,
    random_state: int = 0,
) -> BoostedBank:
    """Base: a single weak learner.

    ``fair``: it takes a whole step, ``1 / smoothness`` (1 for a loss without), from a ``start`` that should be the mean.
    Otherwise as the thesis' table seems to have it: half a step from 0, which leaves half of an uncentred target unexplained.
    """
    whole = 1.0 / (loss.smoothness() or 1.0)
    bank = learner.make(1, n_features, n_outputs, random_state)
    return BoostedBank(bank, loss, step=whole if fair else 0.5 * whole, start=start if fair else 0.0)


# ---------------------------------------------------------------------- one after another


@dataclass(frozen=True)
class ConvergenceRule:
    """When a learner has converged: its faded mean square has not fallen by ``least`` of itself ``patience`` times in a row.

    Parameters
    ----------
    least : float, default=1e-3
    every : int, default=1000
        Rows between two looks, and over which old rows fade.
    patience : int, default=3
    """

    least: float = 1e-3
    every: int = 1000
    patience: int = 3


class _Convergence:
    """A plateau being looked for."""

    def __init__(self, rule: ConvergenceRule) -> None:
        self.rule, self.best, self.misses, self.n_rows = rule, np.inf, 0, 0
        self._mean = self._weight = 0.0

    def add(self, squares: float, n_rows: int) -> bool:
        """The sum of squares of some rows; True: converged."""
        looks = self.n_rows // self.rule.every
        self.n_rows += n_rows
        fading = (1.0 - 1.0 / self.rule.every) ** n_rows
        self._mean, self._weight = fading * self._mean + squares, fading * self._weight + n_rows
        if self.n_rows // self.rule.every > looks:
            now = self._mean / self._weight
            self.misses = self.misses + 1 if now > self.best * (1.0 - self.rule.least) else 0
            self.best = min(self.best, now)
        return self.misses >= self.rule.patience


class BlockBoosting:
    """Learners added some at a time, each block trained by streaming boosting on top of those before it, which are frozen.

    With blocks of one learner this is batch gradient boosting on a stream, "GB" of the thesis; larger blocks are its proposal
    for when the number of learners is not known.

    Parameters
    ----------
    learner : StreamLearner
    loss : StreamLoss
    n_features, n_outputs : int
    n_estimators : int
        At which no more are added; the last block is frozen when it has converged too.
    block : int, default=1
    rows : int, default=None
        Rows for every block; by default until the mean square of its learners is on a plateau.
    plateau : ConvergenceRule
    start : (m,) float, default=0
    random_state : int, default=0
    **settings
        Of every block's ``BoostedBank``.

    Attributes
    ----------
    blocks : list of BoostedBank
    rows_of_block : list of int
        ``T_B`` of each block.
    units : float
    """

    def __init__(
        self,
        learner: StreamLearner,
        loss: StreamLoss,
        n_features: int,
        n_outputs: int = 1,
        *,
        n_estimators: int,
        block: int = 1,
        rows: int | None = None,
        plateau: ConvergenceRule | None = None,
        start: ArrayLike = 0.0,
        random_state: int = 0,
        **settings: Any,
    ) -> None:
        self.learner, self.loss = learner, loss
        self.n_features, self.n_outputs, self.n_estimators, self.block = (
            n_features,
            n_outputs,
            n_estimators,
            block,
        )
        self.rows, self.plateau = rows, plateau or ConvergenceRule()
        self.start = np.broadcast_to(np.asarray(start, dtype=np.float64), (n_outputs,)).copy()
        self.random_state, self.settings = random_state, settings
        self.blocks: list[BoostedBank] = []
        self.rows_of_block: list[int] = []
        self.units, self.done = 0.0, False
        self._begin_block()

    def predict(self, X: Array) -> Array:
        """(b, m) The answer of all blocks."""
        return self._after(X, len(self.blocks))

    def round(self, X: Array, y: Target) -> Array:
        """Predict, pay, and let the last block learn; (b, m) the answers before learning."""
        if self.done:
            self.units += len(X) * sum(block.n_estimators for block in self.blocks)
            return self.predict(X)
        start, current = self._after(X, len(self.blocks) - 1), self.blocks[-1]
        squares = current.monitor.sums[0].sum()
        answers = current.round(X, y, start=start)
        self.units += len(X) * sum(block.n_estimators * _PREDICT for block in self.blocks)
        self.units += len(X) * current.n_estimators * _UPDATE
        self.rows_of_block[-1] += len(X)
        converged = self._convergence.add(float(current.monitor.sums[0].sum() - squares), len(X))
        if converged if self.rows is None else self.rows_of_block[-1] >= self.rows:
            self._begin_block()
        return answers

    def learn(self, X: Array, y: Target, *, batch_size: int = 1) -> Array:
        """Rounds of ``batch_size`` rows; (n, m) what was answered to each row before it was learned."""
        at = range(0, len(X), batch_size)
        return np.concatenate([self.round(X[a : a + batch_size], y[a : a + batch_size]) for a in at])

    def _after(self, X: Array, n_blocks: int) -> Array:
        answer = np.tile(self.start, (len(X), 1))
        for block in self.blocks[:n_blocks]:
            answer = answer + (block.predict(X) - block.start)
        return answer

    def _begin_block(self) -> None:
        there = sum(block.n_estimators for block in self.blocks)
        self.done = there >= self.n_estimators
        if self.done:
            return
        size = min(self.block, self.n_estimators - there)
        bank = self.learner.make(size, self.n_features, self.n_outputs, self.random_state + len(self.blocks))
        self.blocks.append(BoostedBank(bank, self.loss, **self.settings))
        self.rows_of_block.append(0)
        self._convergence = _Convergence(self.plateau)


# ---------------------------------------------------------------------- Frank-Wolfe


class FrankWolfeBoosting:
    """Online gradient boosting for the span of a class of Beygelzimer, Hazan, Kale and Luo (2015), their Algorithm 1.

    ``y^i = project((1 - s_i eta) y^(i-1) + eta h_i)``, where learner i minimises the linear loss ``<g_i, h> / L`` over
    outputs no longer than D, and ``s_i`` between 0 and 1 follows on-line gradient descent, ``s_i += <g_i, y^(i-1)> / (L B
    sqrt(t))``. Partial sums are kept in a ball of radius B, in which no gradient is longer than L. For smooth losses; needs no
    edge. With ``eta = 1 / N`` it is the form that the thesis discusses.

    The paper's learners minimise linear losses, banks learn by square loss. The target ``-D g / L`` is the linear loss with
    ``|h|^2 / (2 D)`` added, as follow-the-regularised-leader has it; ``gain`` takes the place of ``D / L``. With it, a learner
    that knows its target gives ``-gain g``, so that for a squared loss the remaining error shrinks by ``1 - eta gain`` per
    learner, and not to the paper's rate for best responses of full length.

    Parameters
    ----------
    bank : Bank
    loss : StreamLoss
    step : float, default=None
        ``eta``, between ``1 / N`` and 1; ``ln(N) / N`` by default, at least ``1 / N``.
    size : float, default=1
        D.
    radius : float, default=None
        B; ``eta N D`` by default, which no partial sum can leave. The paper takes a smaller ball where the losses allow it: for
        the squared loss, one in which all targets lie.
    gain : float, default=None

    Attributes
    ----------
    shrinkage : (N,) float
        ``s_i``.
    units : float
    """

    def __init__(
        self,
        bank: Bank,
        loss: StreamLoss,
        *,
        step: float | None = None,
        size: float = 1.0,
        radius: float | None = None,
        gain: float | None = None,
    ) -> None:
        n = bank.n_estimators
        self.bank, self.loss = bank, loss
        self.step = max(np.log(n), 1.0) / n if step is None else step
        if not 1.0 / n <= self.step <= 1.0:
            raise ValueError(f"step is between 1 / N = {1.0 / n:g} and 1; got {self.step}")
        self.outputs, self.ball = Ball(size), Ball(self.step * n * size if radius is None else radius)
        self.longest = gradient_bound(loss, self.ball.size, bank.n_outputs)
        self.gain = size / self.longest if gain is None else gain
        self.shrinkage = np.zeros(n)
        self.n_rounds, self.units = 0, 0.0

    def predict_rounds(self, X: Array) -> Array:
        """(N + 1, b, m) All partial sums."""
        given = self.outputs(self.bank.predict(X))
        sums = [np.zeros(given.shape[1:])]
        for s, h in zip(self.shrinkage, given, strict=True):
            sums.append(self.ball((1.0 - s * self.step) * sums[-1] + self.step * h))
        return np.stack(sums)

    def predict(self, X: Array) -> Array:
        """(b, m) The answer of all learners."""
        return np.asarray(self.predict_rounds(X)[-1])

    def round(self, X: Array, y: Target) -> Array:
        """Predict, pay, and learn; (b, m) the answers before learning."""
        sums = self.predict_rounds(X)
        gradients = self.loss.gradient(sums[:-1], y)
        self.n_rounds += 1
        rate = 1.0 / (self.longest * self.ball.size * np.sqrt(self.n_rounds))
        along = np.einsum("ibm,ibm->i", gradients, sums[:-1]) / len(X)
        self.shrinkage = np.clip(self.shrinkage + rate * along, 0.0, 1.0)
        self.bank.update(X, -self.gain * gradients)
        self.units += streaming_units(len(X), self.bank.n_estimators)
        return np.asarray(sums[-1])

    def learn(self, X: Array, y: Target, *, batch_size: int = 1) -> Array:
        """Rounds of ``batch_size`` rows; (n, m) what was answered to each row before it was learned."""
        at = range(0, len(X), batch_size)
        return np.concatenate([self.round(X[a : a + batch_size], y[a : a + batch_size]) for a in at])
