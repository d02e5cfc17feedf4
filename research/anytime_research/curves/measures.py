"""What the papers' tables read off a curve: quality at shares of the cost, plateaus, errors against another curve."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.curves import AnytimeCurve

__all__ = [
    "at_fraction",
    "diminishing_returns_violations",
    "error_at_fraction",
    "monotonicity_violations",
    "plateau_alpha",
    "relative_increase",
    "stalled_stages",
    "value_of_computation",
]

Array = NDArray[np.float64]
_SLACK = 1e-12  # relative: a share such as 0.3 of the total cost is reached in spite of rounding


def at_fraction(curve: AnytimeCurve, fraction: float) -> float:
    """The value of the last stage with cost ≤ ``fraction`` × total cost (AnytimeLinear tables use 1/4, 1/2, 3/4, 1)."""
    return curve.at(fraction * curve.total_cost * (1 + _SLACK))


def plateau_alpha(curve: AnytimeCurve, total_cost: float | None = None) -> float:
    """The α at which the final plateau begins: 95 % is achieved and the next 1 % takes over 20 % of the cost.

    Smallest α in {0.95, …, 0.99} with ``stopping_cost(α + 0.01) − stopping_cost(α) > 0.2 · total_cost``, else 1
    (AnytimeLinear, section 3.5.2). ``total_cost`` is the price of all features; the curve's own when not given.
    """
    total = curve.total_cost if total_cost is None else total_cost
    for percent in range(95, 100):
        step = curve.stopping_cost((percent + 1) / 100) - curve.stopping_cost(percent / 100)
        if step > 0.2 * total:
            return percent / 100
    return 1.0


def monotonicity_violations(curve: AnytimeCurve, tolerance: float = 0.0) -> int:
    """Number of stages that make the value worse by more than ``tolerance``."""
    return int(np.sum(np.diff(curve.improvement()) < -tolerance))


def value_of_computation(curve: AnytimeCurve) -> Array:
    """(m,) improvement of the next stage per unit of its cost; 0 after the last, ±inf for a free stage with an effect."""
    gain, price = np.diff(curve.improvement(), append=0.0), np.diff(curve.costs, append=np.inf)
    gain[-1] = 0.0
    free = np.where(gain == 0, 0.0, np.copysign(np.inf, gain))
    return np.divide(gain, price, out=free, where=price > 0)


def diminishing_returns_violations(curve: AnytimeCurve, tolerance: float = 0.0) -> int:
    """Number of stages that improve more per cost than the stage before them."""
    rate = value_of_computation(curve)[:-1]
    return int(np.sum(rate[1:] > rate[:-1] + tolerance))


def stalled_stages(curve: AnytimeCurve, factor: float = 0.1) -> NDArray[np.int64]:
    """Stages whose gain per cost is below ``factor`` × the least before them: usually paid-for features used again."""
    rate = value_of_computation(curve)[:-1]
    least = np.minimum.accumulate(np.where(rate > 0, rate, np.inf))
    before = np.concatenate([[np.inf], least[:-1]])
    assert curve.stages is not None
    return np.asarray(curve.stages[1:][np.isfinite(before) & (rate < factor * before)])


def errors(curve: AnytimeCurve) -> Array:
    """(m,) distance from perfection; the value itself for a loss whose perfect value is not known."""
    if curve.perfect is not None:
        return np.asarray(np.abs(curve.perfect - curve.values))
    if curve.greater_is_better:
        raise ValueError(
            f"the error of {curve.metric!r} needs the value of a perfect predictor: build the curve with perfect="
        )
    return curve.values


def error_at_fraction(curve: AnytimeCurve, fraction: float) -> float:
    """Error of the last answer with cost ≤ ``fraction`` × total cost; NaN before the first."""
    return float(_held(errors(curve), curve.position(fraction * curve.total_cost * (1 + _SLACK))))


def relative_increase(curve: AnytimeCurve, other: AnytimeCurve, budgets: ArrayLike | None = None) -> Array:
    """Percentage by which the curve's error exceeds that of ``other``, ``100 (e − e_other) / e_other``, at each budget.

    Hu, *Anytime Prediction and Learning*, table 4.1, where ``other`` is OPT, trained for one budget. Budgets are the first
    curve's costs when not given; NaN where either has no answer, inf where only ``other`` is without error.
    """
    asked = curve.costs if budgets is None else np.atleast_1d(np.asarray(budgets, dtype=np.float64))
    mine, theirs = _held(errors(curve), curve.position(asked)), _held(errors(other), other.position(asked))
    perfect = np.where(mine == 0, 0.0, np.where(np.isnan(mine), np.nan, np.inf))
    return 100 * np.divide(mine - theirs, theirs, out=perfect, where=theirs != 0)


def _held(values: Array, where: NDArray[np.intp]) -> Array:
    return np.where(where >= 0, values[where], np.nan)
