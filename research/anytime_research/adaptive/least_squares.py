"""A gate that is a least-squares fit: ADAPT-LSTSQ.

The distance between probabilities and gate is the squared difference of log-odds, ``(logit(q) - g)²``. The gate's part of
the problem is then an ordinary least-squares one, better conditioned than a logistic regression on soft labels; the
probabilities have no closed form. For a price ``beta`` of being sent each row has a problem of its own in its log-odds ``s``,

    min_s  (1 - sigma(s)) A' + (s - g)²,    A' = l1 - l0 - beta,

whose solution lies within ``|A'| / 8`` of ``g`` and is the only minimum when ``|A'| < 36 / sqrt(3)``. Nan, *Learning to predict
under a budget*, 2018, Algorithm 7.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import expit, logit

from anytime.adaptive import AdaptiveClassifier
from anytime.losses import training_loss
from anytime.plan import Array

__all__ = ["CONVEX_BELOW", "LeastSquaresGateClassifier", "LogOdds", "log_odds_step"]

CONVEX_BELOW = 36.0 / np.sqrt(3.0)  # 2 / max |sigma (1 - sigma) (1 - 2 sigma)|
_EDGE = 1e-6  # probabilities are kept so far from 0 and 1 before their log-odds are taken
_GRID = 33  # points tried where there may be several minima
_NEWTON = 60


def log_odds_step(excess: ArrayLike, gate: ArrayLike) -> Array:
    """(n,) The log-odds ``s`` that minimise ``(1 - sigma(s)) excess + (s - gate)²``.

    Examples
    --------
    >>> log_odds_step([1.5, -2.0], 0.3).round(6)
    array([0.477217, 0.050157])
    """
    A, g = np.broadcast_arrays(np.asarray(excess, dtype=np.float64), np.asarray(gate, dtype=np.float64))
    # 2 (s - g) = A sigma (1 - sigma) <= A / 4
    low, high = (g - np.maximum(-A, 0.0) / 8, g + np.maximum(A, 0.0) / 8)
    several = np.abs(A) >= CONVEX_BELOW
    if several.any():
        low, high = low.copy(), high.copy()
        low[several], high[several] = _best_cell(A[several], g[several], low[several], high[several])
    return _root(A, g, low, high)


def _value(s: Array, A: Array, g: Array) -> Array:
    return expit(-s) * A + (s - g) ** 2


def _best_cell(A: Array, g: Array, low: Array, high: Array) -> tuple[Array, Array]:
    """The neighbourhood of the best point of a grid."""
    grid = low + (high - low) * np.linspace(0, 1, _GRID)[:, None]
    best = _value(grid, A, g).argmin(axis=0)
    columns = np.arange(A.size)
    return grid[np.maximum(best - 1, 0), columns], grid[np.minimum(best + 1, _GRID - 1), columns]


def _root(A: Array, g: Array, low: Array, high: Array) -> Array:
    """Where the derivative ``2 (s - g) - A sigma (1 - sigma)`` changes sign, by Newton's method kept within the bracket."""
    s = 0.5 * (low + high)
    for _ in range(_NEWTON):
        p = expit(s)
        slope = 2.0 * (s - g) - A * p * (1 - p)
        low, high = np.where(slope <= 0, s, low), np.where(slope > 0, s, high)
        bend = 2.0 - A * p * (1 - p) * (1 - 2 * p)
        newton = s - np.divide(slope, bend, out=np.full_like(s, np.inf), where=bend > 0)
        following = np.where((newton >= low) & (newton <= high), newton, 0.5 * (low + high))
        done = np.abs(following - s).max(initial=0.0) <= 1e-14 * (1.0 + np.abs(s).max(initial=0.0))
        s = following
        if done:
            break
    return s


class LogOdds:
    """``(logit(q) - g)²``: the gate is a least-squares fit to the log-odds of the probabilities."""

    loss = training_loss("squared")
    scale = 2.0  # the loss is half the square
    smoothness = 2.0

    def target(self, probabilities: Array) -> Array:
        """(n,) Their log-odds."""
        return np.asarray(logit(np.clip(probabilities, _EDGE, 1.0 - _EDGE)))

    def per_row(self, probabilities: Array, gate: Array) -> Array:
        """(n,) The squared difference of log-odds."""
        return self.gate_loss(gate, self.target(probabilities))

    def gate_loss(self, gate: Array, target: Array) -> Array:
        """(n,) The same, for given log-odds."""
        return np.asarray((target - gate) ** 2)

    def gate_slope(self, gate: Array, target: Array) -> Array:
        """(n,) Its derivative in the gate."""
        return np.asarray(2.0 * (gate - target))

    def probabilities(
        self, excess: Array, gate: Array, fraction: float, weight: Array | None = None
    ) -> tuple[Array, float]:
        """The best probabilities, by bisection on the price of being sent."""
        if fraction <= 0:
            raise ValueError(
                "with squared log-odds some rows must be allowed to the costly model: give a costly_fraction above 0"
            )

        def of(price: float) -> Array:
            return np.clip(expit(log_odds_step(excess - price, gate)), _EDGE, 1.0 - _EDGE)

        def sent(price: float) -> float:
            return float(np.average(of(price), weights=weight))

        fraction = max(fraction, 2.0 * _EDGE)
        if fraction >= 1 or sent(0.0) <= fraction:
            return of(0.0), 0.0
        high = 1.0
        while sent(high) > fraction:
            high *= 2.0
        beta = float(brentq(lambda price: sent(price) - fraction, 0.0, high, xtol=1e-12))
        slack = 1e-12
        while sent(beta) > fraction:  # to the feasible side
            beta, slack = beta + slack, 2.0 * slack
        return of(beta), beta


class LeastSquaresGateClassifier(AdaptiveClassifier):
    """An adaptive classifier of linear models whose gate is a least-squares fit; takes ``cheap="linear"``."""

    def _divergence(self) -> LogOdds:
        return LogOdds()
