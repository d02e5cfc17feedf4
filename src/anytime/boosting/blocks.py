"""Stages that only boosting makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from anytime.blocks import Block, State
from anytime.plan import Array


class KernelBlock(Block):
    """One stage: weighted Gaussian bumps around centres, ``weights' exp(-|z - centre|² / spread)``."""

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
        return self.weighed(self.bumps(X))

    def head(self, n_stages: int) -> KernelBlock:
        return self

    def with_weights(self, weights: Array) -> KernelBlock:
        """The same bumps, weighted otherwise."""
        return KernelBlock(self._columns, self.mean, self.deviation, self.centres, weights, self.spread)

    def with_spread(self, spread: float) -> KernelBlock:
        """Wider or narrower bumps."""
        return KernelBlock(self._columns, self.mean, self.deviation, self.centres, self.weights, spread)

    def scaled(self, by: float) -> KernelBlock:
        return self.with_weights(self.weights * by)

    def state(self) -> State:
        arrays: dict[str, NDArray[Any]] = {
            "columns": self._columns,
            "mean": self.mean,
            "deviation": self.deviation,
            "centres": self.centres,
            "weights": self.weights,
        }
        return {"spread": self.spread}, arrays

    @classmethod
    def from_state(cls, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> KernelBlock:
        """Read what ``state`` gave."""
        return cls(**arrays, spread=float(description["spread"]))
