"""Learners that see their target: for checking theorems, not for learning (Hu 2019, definition 5.4.1 and section 5.8.4).

An oracle is a function of learner number and target, (b, m) to (b, m), as ``descend_one_by_one`` asks for it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

__all__ = ["AxisLeaders", "EdgeOracle", "axis_oracle"]


class EdgeOracle:
    """A learner that has an edge of exactly ``gamma`` on every row: ``|g - h|^2 = (1 - gamma) |g|^2``.

    For several outputs ``h = gamma g + sqrt(gamma (1 - gamma)) |g| u``, where u is a random unit vector orthogonal to g; for
    one, ``(1 + sqrt(1 - gamma)) g`` or ``(1 - sqrt(1 - gamma)) g`` by the toss of a coin.

    Parameters
    ----------
    gamma : float
    random_state : int, default=0
    """

    def __init__(self, gamma: float, random_state: int = 0) -> None:
        if not 0 <= gamma <= 1:
            raise ValueError(f"an edge is between 0 and 1; got {gamma}")
        self.gamma = gamma
        self._rng = np.random.default_rng(
            [random_state, 0xED6E]
        )  # not the stream that the caller's data came from

    def __call__(self, i: int, target: Array) -> Array:
        """An output for a target (b, m)."""
        if target.shape[1] == 1:
            sign = self._rng.choice([-1.0, 1.0], size=target.shape)
            return np.asarray((1.0 + sign * np.sqrt(1.0 - self.gamma)) * target)
        length = np.linalg.norm(target, axis=1, keepdims=True)
        along = np.divide(target, length, out=np.zeros_like(target), where=length > 0)
        across = self._rng.normal(size=target.shape)
        across -= (across * along).sum(axis=1, keepdims=True) * along
        across /= np.linalg.norm(across, axis=1, keepdims=True)
        return np.asarray(self.gamma * target + np.sqrt(self.gamma * (1.0 - self.gamma)) * length * across)


def axis_oracle(i: int, target: Array) -> Array:
    """The largest coordinate of each row's target, and 0 elsewhere: an edge of at least ``1 / m``.

    >>> axis_oracle(0, np.array([[2.0, -3.0]])).tolist()
    [[0.0, -3.0]]
    """
    rows, largest = np.arange(len(target)), np.abs(target).argmax(axis=1)
    output = np.zeros_like(target)
    output[rows, largest] = target[rows, largest]
    return output


class AxisLeaders:
    """N learners that follow the leader among constants along one axis, ``|a| <= limit``: a bank without features.

    The constant with the least sum of squares to all targets so far is the one of least distance to their mean.

    Parameters
    ----------
    n_estimators, n_outputs : int
    limit : float, default=2
    """

    def __init__(self, n_estimators: int, n_outputs: int, *, limit: float = 2.0) -> None:
        self.limit = limit
        self._sums = np.zeros((n_estimators, n_outputs))
        self._seen = 0

    @property
    def axes(self) -> NDArray[np.intp]:
        """(N,) Along which axis each learner points."""
        clipped = np.clip(self._means, -self.limit, self.limit)
        return np.asarray(
            (2.0 * clipped * self._means - clipped**2).argmax(axis=1)
        )  # squares that it takes away

    def predict(self, X: Array) -> Array:
        """(N, b, m) The constants, for any rows (b, d)."""
        learners, axes = np.arange(len(self._sums)), self.axes
        output = np.zeros_like(self._sums)
        output[learners, axes] = np.clip(self._means[learners, axes], -self.limit, self.limit)
        return np.repeat(output[:, None, :], len(X), axis=1)

    def update(self, X: Array, targets: Array, weight: Array | None = None) -> None:
        """Targets (N, b, m) to come nearer to."""
        self._sums += targets.sum(axis=1) if weight is None else np.einsum("ibm,b->im", targets, weight)
        self._seen += targets.shape[1]

    @property
    def _means(self) -> Array:
        return self._sums / max(self._seen, 1)
