"""The best step along a direction."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from anytime.losses.loss import Loss
from anytime.losses.targets import Array, Target

_FLAT = 1e-10  # slope at which a search ends, relative to 1 + the objective: steps are then right to about eight digits
_CERTAIN = 1e-13  # how much more could be gained where a search with kinks ends, relative to the same


def line_search(
    loss: Loss,
    scores: Array,
    direction: Array,
    y: Target,
    weight: ArrayLike | None = None,
    *,
    largest: float = 10.0,
    at_start: float | None = None,
) -> tuple[float, float]:
    """The step ``a`` that minimises the mean loss of ``scores + a direction``, and the reduction of the loss.

    In closed form if the loss has one for this direction; otherwise by bracketed secants, until the slope is below
    ``1e-10 (1 + R)``, R the mean loss, times the length of the direction if that is below 1; and for losses with kinks by
    tangents from both sides, until the remaining gain is negligible.

    Parameters
    ----------
    loss : Loss
        Convex.
    scores, direction : (n, K) arrays
    y : array
    weight : (n,), default=None
    largest : float, default=10
        Maximum length of the step: perfectly separable classes would need an infinite one. The gain is that of the limited step.
    at_start : float, default=None
        The mean loss of ``scores``, if known.

    Examples
    --------
    >>> from anytime.losses import training_loss
    >>> line_search(training_loss("squared"), np.zeros((2, 1)), np.ones((2, 1)), np.array([1.0, 2.0]))
    (1.5, 1.125)
    """
    share = (
        np.full(len(scores), 1.0 / len(scores)) if weight is None else np.asarray(weight, dtype=np.float64)
    )
    share = share / share.sum()
    slope_of = loss.required_gradient()

    def value(step: float) -> float:
        with np.errstate(over="ignore", invalid="ignore"):  # too far is found out by infinity as well
            return _or_if_nan(float(share @ loss.per_row(scores + step * direction, y)))

    def slope(step: float) -> float:
        with np.errstate(over="ignore", invalid="ignore"):
            pull = slope_of(scores + step * direction, y) * direction
            return _or_if_nan(float((share @ pull).sum()), far=np.sign(step) * np.inf)

    here = value(0.0) if at_start is None else at_start
    step = None if loss.step is None else loss.step(scores, direction, y, share)
    if step is None and loss.kinked:
        step = _least(value, slope, here, largest)
    elif step is None:
        square = float((share @ direction**2).sum())
        # a short direction is no reason to stand still
        flat = _FLAT * (1.0 + abs(here)) * min(1.0, square**0.5)
        step = _crossing(slope, flat, largest, (loss.smoothness or 1.0) * square)
    step = float(np.clip(step, -largest, largest))
    gain = here - value(step)
    return (step, gain) if gain > 0 else (0.0, 0.0)


def _or_if_nan(number: float, far: float = np.inf) -> float:
    return number if number == number else far


def _crossing(slope: Callable[[float], float], flat: float, largest: float, bend: float) -> float:
    """Where a rising function crosses 0, if within ``largest`` of 0; ``bend`` says how fast it rises, roughly."""
    start = slope(0.0)
    if abs(start) <= flat:
        return 0.0
    side = -np.sign(start)
    low, low_slope, high = 0.0, -abs(start), min(abs(start) / bend, largest)
    while (high_slope := side * slope(side * high)) < 0:  # not yet far enough
        if high == largest or -high_slope <= flat:
            return float(side * high)
        rise = high_slope - low_slope
        ahead = high - high_slope * (high - low) / rise if rise > 0 else np.inf
        low, low_slope, high = high, high_slope, min(np.clip(ahead, 2.0 * high, 16.0 * high), largest)
    for turn in range(200):
        if high_slope <= flat or high - low <= 4e-16 * high:
            break
        middle = 0.5 * (low + high)
        # a secant; every third time a half, lest one end stay for ever
        if turn % 3 < 2 and np.isfinite(high_slope):
            middle = low - low_slope * (high - low) / (high_slope - low_slope)
        value = side * slope(side * middle)
        if abs(value) <= flat:
            return float(side * middle)
        if value < 0:
            low, low_slope = middle, value
        else:
            high, high_slope = middle, value
    return float(side * high)


def _least(
    value: Callable[[float], float], slope: Callable[[float], float], here: float, largest: float
) -> float:
    """Where a convex function is least: it lies above its tangents, and where two of them meet is the place to look next."""
    start = slope(0.0)
    if start == 0:
        return 0.0
    side = -np.sign(start)
    low, low_value, low_slope = 0.0, here, -abs(start)
    high, high_value, high_slope = largest, value(side * largest), side * slope(side * largest)
    if high_slope <= 0:
        return float(side * largest)
    for turn in range(200):
        rise = high_slope - low_slope
        meet = (low_value - high_value + high_slope * high - low_slope * low) / rise
        floor = low_value + low_slope * (meet - low)
        if min(low_value, high_value) - floor <= _CERTAIN * (1.0 + abs(here)) or not low < meet < high:
            break
        middle = meet if turn % 3 < 2 else 0.5 * (low + high)
        middle_value, middle_slope = value(side * middle), side * slope(side * middle)
        if middle_slope == 0:
            return float(side * middle)
        if middle_slope < 0:
            low, low_value, low_slope = middle, middle_value, middle_slope
        else:
            high, high_value, high_slope = middle, middle_value, middle_slope
    return float(side * (low if low_value < high_value else high))
