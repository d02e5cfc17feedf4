"""Areas under a curve given by points, read either as held steps or as straight lines between the points.

An anytime predictor holds its last answer until the next one is ready, so its true curve is a right-continuous step function. The
papers' timeliness joins the points by straight lines instead (Hu et al., *Anytime Linear Prediction*, the interpolation rule);
both readings are kept here, side by side.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Rule = Literal["trapezoid", "step"]


def area_between(costs: Array, values: Array, low: float, high: float, rule: Rule) -> float:
    """Area under the points from ``low`` to ``high``; beyond the last point the last value is held.

    Examples
    --------
    >>> costs, values = np.array([0.0, 1.0, 3.0]), np.array([0.0, 0.6, 0.8])
    >>> round(area_between(costs, values, 0, 3, "trapezoid"), 6), round(area_between(costs, values, 0, 3, "step"), 6)
    (1.7, 1.2)
    """
    if rule not in ("trapezoid", "step"):
        raise ValueError(f"rule must be 'trapezoid' or 'step', not {rule!r}")
    area = linear_area if rule == "trapezoid" else held_area
    return area(costs, values, low, high)


def held_area(costs: Array, values: Array, low: float, high: float) -> float:
    """``∫ v(c) dc`` where ``v(c)`` is the value of the last point with cost ≤ c."""
    until = np.append(costs[1:], np.inf)
    width = np.minimum(until, high) - np.maximum(costs, low)
    return float(np.sum(values * np.maximum(width, 0.0)))


def linear_area(costs: Array, values: Array, low: float, high: float) -> float:
    """``∫ v(c) dc`` along the straight lines between points; points of equal cost are a jump of no area."""
    left, right = np.clip(costs[:-1], low, high), np.clip(costs[1:], low, high)
    width = np.diff(costs)
    slope = np.divide(np.diff(values), width, out=np.zeros_like(width), where=width > 0)
    middle = values[:-1] + slope * ((left + right) / 2 - costs[:-1])
    tail = max(high - max(low, float(costs[-1])), 0.0)
    return float(np.sum((right - left) * middle) + tail * values[-1])
