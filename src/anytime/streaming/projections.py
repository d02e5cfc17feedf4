"""Convex sets that partial sums are kept in: boxes and balls (Hu 2019, Algorithm 7, the set Y)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Box:
    """All scores between ``low`` and ``high``, numbers or one per output.

    Examples
    --------
    >>> Box(-1.0, 1.0)(np.array([[0.5, 3.0]])).tolist()
    [[0.5, 1.0]]
    """

    low: float | tuple[float, ...]
    high: float | tuple[float, ...]

    def __post_init__(self) -> None:
        if not (np.asarray(self.low) < np.asarray(self.high)).all():
            raise ValueError(f"a box needs low below high; got {self.low} and {self.high}")

    def __call__(self, Y: Array) -> Array:
        """The nearest point of the set."""
        return np.clip(Y, np.asarray(self.low), np.asarray(self.high))

    def contains(self, Y: ArrayLike, slack: float = 1e-12) -> NDArray[np.bool_]:
        """(...) Whether rows of scores (..., m) lie in it."""
        Y = np.asarray(Y, dtype=np.float64)
        return np.asarray(
            ((np.asarray(self.low) - slack <= Y) & (np.asarray(self.high) + slack >= Y)).all(axis=-1)
        )

    def radius(self, n_outputs: int) -> float:
        """The length of its longest point."""
        far = np.maximum(np.abs(self.low), np.abs(self.high))
        return float(np.linalg.norm(np.broadcast_to(far, n_outputs)))


@dataclass(frozen=True)
class Ball:
    """All scores no longer than ``size``.

    Examples
    --------
    >>> Ball(1.0)(np.array([[3.0, 4.0]])).round(6).tolist()
    [[0.6, 0.8]]
    """

    size: float

    def __post_init__(self) -> None:
        if not self.size > 0:
            raise ValueError(f"the size of a ball is above 0; got {self.size}")

    def __call__(self, Y: Array) -> Array:
        """The nearest point of the set."""
        length = np.sqrt(np.einsum("...m,...m->...", Y, Y))[..., None]
        return np.where(length > self.size, Y * (self.size / np.where(length > 0, length, 1.0)), Y)

    def contains(self, Y: ArrayLike, slack: float = 1e-12) -> NDArray[np.bool_]:
        """(...) Whether rows of scores (..., m) lie in it."""
        return np.asarray(np.linalg.norm(np.asarray(Y, dtype=np.float64), axis=-1) <= self.size + slack)

    def radius(self, n_outputs: int) -> float:
        """The length of its longest point."""
        return self.size


Projection = Box | Ball
