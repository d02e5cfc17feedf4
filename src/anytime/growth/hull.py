"""The lower convex hull of error against cost: models that no mixture of others beats, and how good such a family is.

Petridish, section 6.3.4. A mixture answers some requests with one model and the others with another; its cost and its error
are the weighted means. Models are points (cost, error) in arrays, and a hull is a list of their indices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["error_at", "hull_area", "hull_band", "hull_values", "lower_hull"]

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]


def lower_hull(costs: ArrayLike, errors: ArrayLike) -> Indices:
    """Models on the hull, from the cheapest to the most accurate: error falls along it, ever more slowly.

    Of equal models the first is on the hull; a model on the line between two others is not.

    Parameters
    ----------
    costs, errors : (n,)

    Returns
    -------
    (h,) int
        Indices in order of cost.

    Examples
    --------
    >>> lower_hull([1, 2, 3, 4, 5], [0.5, 0.2, 0.3, 0.1, 0.4])
    array([0, 1, 3])
    """
    c, e = _points(costs, errors)
    order = np.lexsort((np.arange(c.size), e, c))  # by cost, then error, then index
    best_before = np.append(np.inf, np.minimum.accumulate(e[order])[:-1])
    hull: list[int] = []
    for i in order[e[order] < best_before].tolist():  # monotone chain over models that no cheaper one equals
        while len(hull) > 1 and not _turns_left(c, e, hull[-2], hull[-1], i):
            hull.pop()
        hull.append(i)
    return np.array(hull, dtype=np.intp)


def hull_values(costs: ArrayLike, errors: ArrayLike, at: ArrayLike) -> Any:
    """Lowest error of a mixture of models at each cost in ``at``; infinite below the cheapest model.

    Examples
    --------
    >>> hull_values([1, 3], [0.5, 0.1], [0.5, 2.0, 9.0])
    array([inf, 0.3, 0.1])
    """
    c, e = _points(costs, errors)
    hull = lower_hull(c, e)
    return np.interp(np.asarray(at, dtype=np.float64), c[hull], e[hull], left=np.inf)


def hull_band(costs: ArrayLike, errors: ArrayLike, tolerance: float = 0.0) -> Indices:
    """Models on the hull or hardly above it, from the most accurate to the least.

    The band holds the hull and each model with ``error <= (1 + tolerance) * hull value at its cost``; of equal models the
    first. A tolerance of 0 gives the hull alone.
    """
    if not tolerance >= 0:
        raise ValueError(f"tolerance must be at least 0, not {tolerance}")
    c, e = _points(costs, errors)
    hull = lower_hull(c, e)
    if tolerance == 0:
        return hull[::-1]
    members = np.flatnonzero(e <= (1 + tolerance) * np.interp(c, c[hull], e[hull]))
    members = np.union1d(members, hull)  # where rounding has left one out
    order: Indices = members[np.lexsort((members, c[members], e[members]))]
    equal = (np.diff(c[order]) == 0) & (np.diff(e[order]) == 0)
    first: Indices = order[np.append(True, ~equal)]
    return first


def error_at(costs: ArrayLike, errors: ArrayLike, at: ArrayLike) -> Any:
    """Error of the best single model that costs at most ``at``; infinite where there is none.

    Examples
    --------
    >>> error_at([1, 3], [0.5, 0.1], [0.5, 2.0, 9.0])
    array([inf, 0.5, 0.1])
    """
    c, e = _points(costs, errors)
    order = np.argsort(c, kind="stable")
    best = np.append(np.inf, np.minimum.accumulate(e[order]))
    return best[np.searchsorted(c[order], np.asarray(at, dtype=np.float64), side="right")]


def hull_area(costs: ArrayLike, errors: ArrayLike, reference: tuple[float, float]) -> float:
    """Area between the hull and a reference point (cost, error) that is worse in both: the larger, the better the family.

    Parameters
    ----------
    reference : (cost, error)
        Only what is cheaper and more accurate counts.

    Examples
    --------
    >>> hull_area([1, 3], [0.5, 0.25], reference=(5, 0.5))  # a triangle and a rectangle
    0.75
    """
    c, e = _points(costs, errors)
    most, worst = reference
    hull = lower_hull(c, e)
    inner = c[hull[c[hull] < most]]
    if not inner.size:
        return 0.0
    corners = np.append(inner, most)
    heights = worst - hull_values(c, e, corners)
    return float(_area_above_zero(np.diff(corners), heights))


def _points(costs: ArrayLike, errors: ArrayLike) -> tuple[Floats, Floats]:
    c, e = np.asarray(costs, dtype=np.float64), np.asarray(errors, dtype=np.float64)
    if c.ndim != 1 or c.shape != e.shape or not c.size:
        raise ValueError(
            f"costs and errors must have the same length, at least 1; their shapes are {c.shape} and {e.shape}"
        )
    if not (np.isfinite(c).all() and np.isfinite(e).all()):
        raise ValueError("costs and errors must be finite")
    return c, e


def _turns_left(c: Floats, e: Floats, a: int, b: int, d: int) -> bool:
    """Whether the way a, b, d bends upwards at b: then b is below the line from a to d."""
    return bool((c[b] - c[a]) * (e[d] - e[a]) > (e[b] - e[a]) * (c[d] - c[a]))


def _area_above_zero(widths: Floats, heights: Floats) -> float:
    """Area under a piecewise linear function where that is above zero; ``heights`` rise."""
    left, right = heights[:-1], heights[1:]
    rise = np.where(right > left, right - left, 1.0)
    share = np.where(left < 0, np.clip(right, 0, None) / rise, 1.0)  # of the width on which it is above zero
    return float(np.sum(widths * share * (np.maximum(left, 0) + np.maximum(right, 0)) / 2))
