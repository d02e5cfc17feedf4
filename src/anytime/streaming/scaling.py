"""Running means and deviations: what puts columns and targets on one scale while rows still come.

Sums are accumulated row after row, whatever the chunks that rows come in, so that chunks leave no trace in any bit.
"""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from anytime.plan import Array

_FLAT = 1e-9  # of a column's size: a smaller deviation is rounding, and the column is constant


class RunningScale:
    """Mean and standard deviation of columns over the rows seen so far; missing values do not count.

    A column that has not varied yet has scale 1.
    """

    def __init__(self, n_columns: int, frozen_after: int | None = None) -> None:
        self.frozen_after = frozen_after  # rows after which nothing changes any more
        self.n_rows = 0
        # the first value of each column, from which all others are counted: squares of large numbers would drown deviations
        self._origin = np.zeros(n_columns)
        self._sums = np.zeros((3, n_columns))  # how many, their sum, their sum of squares
        self.mean, self.scale = np.zeros(n_columns), np.ones(n_columns)

    def follow(self, X: Array) -> tuple[Array, Array]:
        """Take note of rows (b, d): (b + 1, d) mean and scale before the first row and after each."""
        n, d = X.shape
        free = n if self.frozen_after is None else min(max(self.frozen_after - self.n_rows, 0), n)
        means, scales = np.empty((n + 1, d)), np.empty((n + 1, d))
        means[0], scales[0] = self.mean, self.scale
        if free:
            means[1 : free + 1], scales[1 : free + 1] = self._follow(X[:free])
        means[free + 1 :], scales[free + 1 :] = self.mean, self.scale
        return means, scales

    def advance(self, X: Array) -> Array:
        """Take note of rows (b, d) and give them standardised, each by what is known up to and including itself."""
        means, scales = self.follow(X)
        return standardised(X, means[1:], scales[1:])

    @property
    def frozen(self) -> bool:
        """Whether nothing changes any more."""
        return self.frozen_after is not None and self.n_rows >= self.frozen_after

    def apply(self, X: Array) -> Array:
        """Rows (b, d) standardised by what is known now; a missing value is 0."""
        return standardised(X, self.mean, self.scale)

    def _follow(self, X: Array) -> tuple[Array, Array]:
        """(b, d) mean and scale after each row; the last is kept."""
        there = ~np.isnan(X)
        if not self._sums[0].all():
            new = (self._sums[0] == 0) & there.any(axis=0)
            self._origin[new] = X[there.argmax(axis=0)[new], new]
        off = np.where(there, X - self._origin, 0.0)
        steps = np.stack([there, off, off * off], axis=1)  # (b, 3, d)
        steps[0] += self._sums
        sums = np.add.accumulate(steps, axis=0)  # in order, one after the other
        self._sums = sums[-1].copy()
        self.n_rows += len(X)
        count = np.maximum(sums[:, 0], 1.0)
        shift = sums[:, 1] / count
        means = self._origin + shift
        variance = np.maximum(sums[:, 2] / count - shift * shift, 0.0)
        scales = np.sqrt(variance)
        scales[scales <= _FLAT * np.maximum(np.abs(shift), 1e-300)] = 1.0
        self.mean, self.scale = means[-1], scales[-1]
        return means, scales

    def state(self) -> dict[str, Any]:
        """What a file keeps."""
        return {
            "frozen_after": self.frozen_after,
            "n_rows": self.n_rows,
            "origin": self._origin,
            "sums": self._sums,
            "mean": self.mean,
            "scale": self.scale,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], n_columns: int) -> Self:
        """Read what ``state`` gave."""
        frozen = state["frozen_after"]
        scale = cls(n_columns, None if frozen is None else int(frozen))
        scale.n_rows = int(state["n_rows"])
        scale._origin, scale.mean, scale.scale = (
            _numbers(state[name], (n_columns,)) for name in ("origin", "mean", "scale")
        )
        scale._sums = _numbers(state["sums"], (3, n_columns))
        if not (scale.scale > 0).all():
            raise ValueError("scales must be positive")
        return scale


def standardised(X: Array, means: Array, scales: Array) -> Array:
    """``(X - means) / scales``, with 0 where a value is missing."""
    rows = (X - means) / scales
    rows[np.isnan(rows)] = 0.0
    return np.asarray(rows)


def _numbers(array: NDArray[Any], shape: tuple[int, ...]) -> Array:
    if not isinstance(array, np.ndarray) or array.shape != shape or array.dtype != np.float64:
        raise ValueError(f"expected {shape} floats")
    if not np.isfinite(array).all():
        raise ValueError("means and scales must be finite")
    return array.copy()
