"""How fast descent by weak learners must converge: the right-hand sides of the theorems, as numbers.

Theorems 2.4.1 to 2.5.4 of Grubb, *Anytime Prediction*, 2014, chapter 2. ``gamma`` is the least edge of all projections of a
run, ``G`` its longest gradient, ``D`` the greatest distance of its points from the optimum, m and M the convexity and smoothness
of the objective. "Gap" is how far the objective is above its least value over all functions, not only sums of weak
predictors. Bounds for losses with kinks are on the mean gap over the points at which gradients were taken (``mean_objective``
of a ``Descent``). Where a printed statement does not follow from its proof, the corrected one is the default. Without an
edge nothing is promised: infinity.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

__all__ = [
    "best_scale",
    "inner_error",
    "inner_steps",
    "repeated_bound",
    "repeated_strong_bound",
    "residual_bound",
    "residual_norm_bound",
    "residual_strong_bound",
    "smooth_bound",
    "smooth_decrease",
    "smooth_steps",
]


# ---------------------------------------------------------------------- smooth losses, basic projection


def smooth_bound(gap: ArrayLike, n_steps: ArrayLike, gamma: ArrayLike, m: float, M: float) -> Array:
    """Theorem 2.4.1: the gap after steps of ``1 / M`` or line searches, ``(1 - gamma² m / M)^T gap``.

    With one step and that step's own edge, the form that holds step by step.

    Examples
    --------
    >>> smooth_bound(1.0, [1, 10], gamma=0.5, m=1.0, M=2.0).round(4)
    array([0.875 , 0.2631])
    """
    _check_curvature(m, M)
    return np.asarray((1.0 - np.square(gamma) * m / M) ** np.asarray(n_steps) * np.asarray(gap))


def smooth_decrease(edge: ArrayLike, gradient: ArrayLike, M: float) -> Array:
    """By how much such a step lowers the objective at least: ``<g, h>² / (2 M |h|²)``, which is ``(edge |g|)² / (2 M)``."""
    return np.asarray((np.asarray(edge) * np.asarray(gradient)) ** 2 / (2.0 * M))


def smooth_steps(gap: float, accuracy: float, gamma: float, m: float, M: float) -> float:
    """Steps after which Theorem 2.4.1 promises a gap of at most ``accuracy``: ``M / (gamma² m) ln(gap / accuracy)``."""
    _check_curvature(m, M)
    if gap <= accuracy:
        return 0.0
    return math.log(gap / accuracy) * M / (gamma**2 * m) if gamma * m > 0 else math.inf


# ---------------------------------------------------------------------- losses with kinks, repeated projection


def inner_error(n_learners: ArrayLike, gamma: float) -> Array:
    """Share of a gradient's squared length that projections in a row miss at most, ``(1 - gamma²)^k``."""
    return np.asarray((1.0 - gamma**2) ** np.asarray(n_learners, dtype=np.float64))


def inner_steps(missed: float, gamma: float) -> float:
    """Projections in a row after which at most the share ``missed`` of the squared length is missed."""
    if missed >= 1 or gamma >= 1:
        return 0.0 if missed >= 1 else 1.0
    return float(math.ceil(math.log(missed) / math.log1p(-(gamma**2)))) if gamma * missed > 0 else math.inf


def best_scale(n_steps: ArrayLike, gamma: float) -> Array:
    """The scale L of steps ``L / (m t)`` for which the bound of Theorem 2.5.1 is least."""
    return np.asarray(1.0 + np.sqrt(_odds(gamma) / (4.0 * (1.0 + _log(n_steps)))))


def repeated_strong_bound(
    n_steps: ArrayLike, gamma: float, G: float, m: float, *, scale: ArrayLike = 1.25
) -> Array:
    """Theorem 2.5.1: mean gap of repeated projection for m > 0, with steps ``scale / (m t)``.

    ``1/T (2 G² L / m (1 + ln T) + G² / (2 m) L / (L - 1) (1 - gamma²) / gamma²)``; L = 5/4 is the theorem as stated.
    """
    _check_curvature(m)
    T, L = np.asarray(n_steps, dtype=np.float64), np.asarray(scale, dtype=np.float64)
    if (L <= 1).any():
        raise ValueError(f"the scale of steps must be above 1; got {L.tolist()}")
    return np.asarray(
        (2.0 * G**2 * L / m * (1.0 + _log(T)) + G**2 / (2.0 * m) * L / (L - 1.0) * _odds(gamma)) / T
    )


def repeated_bound(
    n_steps: ArrayLike,
    gamma: float,
    G: float,
    D: float,
    *,
    form: Literal["corrected", "printed"] = "corrected",
) -> Array:
    """Theorem 2.5.2: mean gap of repeated projection, with steps ``1 / sqrt(t)``.

    "corrected": ``D² / (2 sqrt T) + 4 G² / sqrt T + D G s / ((1 - s) T)``, with ``s = sqrt(1 - gamma²)``; "printed":
    ``D² / sqrt T + 2 G² / sqrt T + 2 D G (1 - gamma²) / (gamma² T)``, where D is a bound on the length of functions.
    """
    T = np.asarray(n_steps, dtype=np.float64)
    if form == "corrected":
        return np.asarray((0.5 * D**2 + 4.0 * G**2) / np.sqrt(T) + D * G * _series(gamma) / T)
    if form == "printed":
        return np.asarray((D**2 + 2.0 * G**2) / np.sqrt(T) + 2.0 * D * G * _odds(gamma) / T)
    raise ValueError(f"form is {form!r}; it is 'corrected' or 'printed'")


# ---------------------------------------------------------------------- losses with kinks, residual projection


def residual_norm_bound(gamma: float, G: float, *, form: Literal["tight", "printed"] = "tight") -> float:
    """The residual never becomes longer than ``G s / (1 - s)``, with ``s = sqrt(1 - gamma²)``; "printed": ``2 G / gamma²``."""
    if form not in ("tight", "printed"):
        raise ValueError(f"form is {form!r}; it is 'tight' or 'printed'")
    return G * (_series(gamma) if form == "tight" else _twice(gamma))


def residual_strong_bound(
    n_steps: ArrayLike, gamma: float, G: float, m: float, *, form: Literal["tight", "printed"] = "tight"
) -> Array:
    """Theorem 2.5.3: mean gap of residual projection for m > 0, with steps ``1 / (m t)``.

    "printed": ``2 c² G² / (m T) (1 + ln T + 2 / T)`` with ``c = 2 / gamma²``; "tight", from the same proof:
    ``(G / (1 - s))² (1 + ln T) / (2 m T) + (G s / (1 - s))² / (2 m T²)`` with ``s = sqrt(1 - gamma²)``.
    """
    _check_curvature(m)
    T = np.asarray(n_steps, dtype=np.float64)
    if form == "printed":
        return np.asarray(2.0 * (_twice(gamma) * G) ** 2 / (m * T) * (1.0 + _log(T) + 2.0 / T))
    if form != "tight":
        raise ValueError(f"form is {form!r}; it is 'tight' or 'printed'")
    carried = _series(gamma)  # s / (1 - s), and 1 / (1 - s) is one more
    return np.asarray(
        ((G * (1.0 + carried)) ** 2 * (1.0 + _log(T)) / T + (G * carried) ** 2 / T**2) / (2.0 * m)
    )


def residual_bound(n_steps: ArrayLike, gamma: float, G: float, D: float) -> Array:
    """Theorem 2.5.4: mean gap of residual projection, with steps ``1 / sqrt(t)``.

    ``D² / (2 sqrt T) + c² G² / sqrt T + c² G² / (2 T^(3/2))`` with ``c = 2 / gamma²``.
    """
    T, c = np.asarray(n_steps, dtype=np.float64), _twice(gamma)
    return np.asarray(0.5 * D**2 / np.sqrt(T) + (c * G) ** 2 * (1.0 / np.sqrt(T) + 0.5 / T**1.5))


# ---------------------------------------------------------------------- parts


def _log(n_steps: ArrayLike) -> Array:
    return np.asarray(np.log(np.asarray(n_steps, dtype=np.float64)))


def _odds(gamma: float) -> float:
    return (1.0 - gamma**2) / gamma**2 if gamma > 0 else math.inf


def _twice(gamma: float) -> float:
    return 2.0 / gamma**2 if gamma > 0 else math.inf


def _series(gamma: float) -> float:
    """``s + s² + ...`` with ``s = sqrt(1 - gamma²)``."""
    s = math.sqrt(1.0 - gamma**2)
    return s / (1.0 - s) if s < 1 else math.inf


def _check_curvature(m: float, M: float = math.inf) -> None:
    if not 0 < m <= M:
        raise ValueError(f"needs 0 < m, and m ≤ M; got m = {m}" + (f", M = {M}" if math.isfinite(M) else ""))
