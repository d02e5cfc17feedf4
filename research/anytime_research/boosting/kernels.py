"""Radial basis functions as weak learners: what the papers' speedups of sparse regressors were shown on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from anytime.blocks import Block, State
from anytime.boosting.learners import GradientTask, Weak
from anytime.plan import Array


class KernelBlock(Block):
    """One stage, which no file knows: weighted Gaussian bumps around centres, ``weights' exp(-|z - centre|² / spread)``."""

    kind = "kernel"
    n_stages = 1

    def __init__(
        self,
        columns: ArrayLike,  # (m,)
        # (m,): ``z = (x - mean) / deviation``; a missing or infinite value counts as the mean
        mean: ArrayLike,
        deviation: ArrayLike,
        centres: ArrayLike,  # (c, m): in units of ``z``
        weights: ArrayLike,  # (c, K)
        spread: float = 1.0,
    ) -> None:
        self._columns = np.asarray(columns, dtype=np.int32)
        self.mean, self.deviation, self.centres, self.weights = (
            np.ascontiguousarray(numbers, dtype=np.float64) for numbers in (mean, deviation, centres, weights)
        )
        self.spread = float(spread)
        self._check()
        self.width = self.weights.shape[1]

    def _check(self) -> None:
        m = self._columns.size
        if self.mean.shape != (m,) or self.deviation.shape != (m,) or self.centres.shape[1:] != (m,):
            raise ValueError(f"mean, deviation and centres of a kernel block must have {m} columns")
        if self.weights.ndim != 2 or len(self.weights) != len(self.centres):
            raise ValueError("a kernel block needs one row of weights per centre")
        numbers = (self.mean, self.deviation, self.centres, self.weights)
        if not all(np.isfinite(array).all() for array in numbers) or not (self.deviation > 0).all():
            raise ValueError("the numbers of a kernel block must be finite, and deviations positive")
        if not 0 < self.spread < np.inf:
            raise ValueError(f"the spread of a kernel block must be positive and finite, not {self.spread}")
        if m and self._columns.min() < 0:
            raise ValueError("a column's position is not negative")

    def columns(self, stage: int) -> NDArray[np.int32]:
        """Columns that the bumps lie in."""
        return np.unique(self._columns)

    def squared_distances(self, X: Array) -> Array:
        """(n, c) from each row to each centre."""
        with np.errstate(over="ignore", invalid="ignore"):
            z = (X[:, self._columns] - self.mean) / self.deviation
        z = np.where(np.isfinite(z), z, 0.0)
        return np.asarray(cdist(z, self.centres, "sqeuclidean"))

    def bumps(self, X: Array) -> Array:
        """(n, c) height of each bump at each row."""
        return np.asarray(np.exp(-self.squared_distances(X) / self.spread))

    def weighed(self, bumps: Array) -> Array:
        """(n, K) sums of bumps."""
        # row by row, so that a row's bits do not depend on its company
        return np.asarray(np.einsum("nc,ck->nk", bumps, self.weights))

    def outputs(self, stage: int, X: Array) -> Array:
        """(n, K) sums of bumps at rows."""
        return self.weighed(self.bumps(X))

    def head(self, n_stages: int) -> KernelBlock:
        """There is one stage."""
        return self

    def with_weights(self, weights: Array) -> KernelBlock:
        """The same bumps, weighted otherwise."""
        return KernelBlock(self._columns, self.mean, self.deviation, self.centres, weights, self.spread)

    def with_spread(self, spread: float) -> KernelBlock:
        """Wider or narrower bumps."""
        return KernelBlock(self._columns, self.mean, self.deviation, self.centres, self.weights, spread)

    def scaled(self, by: float) -> KernelBlock:
        """All outputs multiplied."""
        return self.with_weights(self.weights * by)

    def state(self) -> State:
        """Nothing: no file knows bumps."""
        return {}, {}


@dataclass(frozen=True)
class KernelLearner:
    """Gaussian bumps around training rows with least-squares weights: the more centres, the finer and the dearer.

    Parameters
    ----------
    n_centres : int, default=10
    columns : sequence of int, default=None
        None: all.
    width : float, default=1
        Of a bump, in units of the median distance between a row and a centre.
    l2_regularization : float, default=1e-6
    evaluation_cost : float, default=0
        Price of evaluating it.
    """

    n_centres: int = 10
    columns: Sequence[int] | None = None
    width: float = 1.0
    l2_regularization: float = 1e-6
    evaluation_cost: float = 0.0

    def fit(self, task: GradientTask) -> Weak | None:
        """Draw centres, and solve for their weights."""
        X, rows, share = task.table.X, task.learned_from, task.shares
        columns = np.arange(X.shape[1]) if self.columns is None else np.asarray(self.columns)
        mean, deviation = _location(X[np.ix_(rows, columns)], share)
        drawn = task.random.permutation(rows)
        centres = (X[np.ix_(drawn[: self.n_centres], columns)] - mean) / deviation
        np.copyto(centres, 0.0, where=~np.isfinite(centres))
        block = KernelBlock(columns, mean, deviation, centres, np.zeros((len(centres), task.target.shape[1])))
        typical = float(np.median(block.squared_distances(X[drawn[-200:]])))
        block = block.with_spread(self.width**2 * max(typical, 1e-12))
        bumps = block.bumps(X)
        inside = bumps[rows]
        weighted = inside.T * share
        gram = weighted @ inside + self.l2_regularization * np.eye(len(centres))
        block = block.with_weights(
            np.asarray(np.linalg.solve(gram, weighted @ task.target[rows]), dtype=np.float64)
        )
        return Weak(block.weighed(bumps), block, self.evaluation_cost)


def _location(X: Array, share: Array) -> tuple[Array, Array]:
    """Weighted mean and deviation of the values that are there; deviation 1 for a constant."""
    seen = np.isfinite(X)
    total = share @ seen
    mean = np.divide(share @ np.where(seen, X, 0.0), total, out=np.zeros(X.shape[1]), where=total > 0)
    square = share @ np.where(seen, X - mean, 0.0) ** 2
    return mean, np.where(square > 0, np.sqrt(square), 1.0)
