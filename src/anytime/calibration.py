"""Probabilities that are right as often as they say, thresholds that keep a promise, and quantiles for conformal sets.

All of it is learned from held-out rows, once per stage, and kept in the plan. A stage's probabilities are raised to a power and
divided by their sum (temperature scaling, Guo et al. 2017), after a small number was added to each, so that no class is ruled
out. The power may differ with the leading class. The order of the classes does not change, so no prediction does.

Stopping by confidence selects rows. A threshold for it is therefore chosen by running the rule itself: rows stop at the first
stage whose leading class is likely enough, and of those that stop the share asked for has to be right.

Conformal sets and intervals (Vovk et al. 2005; Sadinle et al. 2019) need one quantile per stage of how badly held-out rows fit.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

Array = NDArray[np.float64]

__all__ = ["LEVELS", "Calibration", "fitted_power", "ranked_quantiles", "stopping_thresholds"]

LEVELS: Array = np.concatenate([np.arange(1, 400) / 400, [0.998, 0.999, 0.9995]])
"""Coverages and confidences for which quantiles and thresholds are kept; others are answered by the next level above."""

_FLOORS = (1e-9, 1e-4, 1e-3, 1e-2, 5e-2)  # tried as what is added to probabilities
_POWERS = (0.05, 20.0)  # of probabilities: from nearly even to nearly certain
_PRIOR_ROWS = 5.0  # held-out rows that a power of 1 is worth
_PRIOR_ROWS_OF_CLASS = 20.0  # those that the power of all classes is worth for one of them
_THRESHOLDS = 200  # tried for stopping, spaced evenly, and as many among the highest


@dataclass(frozen=True, eq=False)
class Calibration:
    """Calibration of the answers of a plan of S stages, from held-out rows.

    Parameters
    ----------
    power : (S + 1, C)
        Before the first stage and after each, for every class that may lead: what probabilities are raised to. (S + 1, 0) of a
        regressor.
    floor : (S + 1,)
        What is added to them before.
    stop_thresholds : (k, L)
        For each of ``levels`` the calibrated probability of the leading class at which a row may stop, so that this share of the
        rows that stop is right; ``inf`` where no rule reaches it. A row each for runs of at most ``stop_stages`` stages.
    reach : (m,) int
        Increasing: stages or, where ``by_budget``, ticks that rows may spend.
    quantiles : (m, L)
        For each ``reach``, and all before the next, and each of ``levels``: the nonconformity of held-out rows is at most this in
        that share. It is the error of a regressor, and for a classifier the negative of the label's probability, not calibrated.
    by_budget : bool, default=False
        Whether rows of one budget end after different stages, so that quantiles belong to budgets instead of stages.
    stop_stages : (k,) int, default=(0,)
        Increasing from 0: with a smaller budget, or in a truncated plan, other rows stop, and the promise has its own threshold.
    levels : (L,), default=LEVELS
        Increasing: coverages and confidences for which quantiles and thresholds are kept.
    """

    power: Array
    floor: Array
    stop_thresholds: Array
    reach: NDArray[np.int64]
    quantiles: Array
    by_budget: bool = False
    stop_stages: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    levels: Array = field(default_factory=lambda: LEVELS)

    def __post_init__(self) -> None:
        for name in ("power", "floor", "stop_thresholds", "quantiles", "levels"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.float64))
        for name in ("reach", "stop_stages"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.int64))
        if self.power.ndim != 2 or not len(self.power) or self.floor.shape != self.power.shape[:1]:
            raise ValueError("a calibration has powers and a floor before the first stage and after each")
        if not (np.isfinite(self.power).all() and (self.power > 0).all()):
            raise ValueError("powers of probabilities must be finite and positive")
        if not (np.isfinite(self.floor).all() and (self.floor >= 0).all()):
            raise ValueError("what is added to probabilities must be finite and not negative")
        bounds = np.concatenate([[0.0], np.ravel(self.levels), [1.0]])
        if self.levels.ndim != 1 or not self.levels.size or not (np.diff(bounds) > 0).all():
            raise ValueError("levels of coverage must increase between 0 and 1")
        for places, name in ((self.reach, "reach"), (self.stop_stages, "stop_stages")):
            if places.ndim != 1 or not places.size or places[0] != 0 or (np.diff(places) <= 0).any():
                raise ValueError(f"`{name}` must start at 0 and increase")
        shape = (self.stop_stages.size, self.levels.size)
        if self.stop_thresholds.shape != shape or not (self.stop_thresholds >= 0).all():
            raise ValueError(f"a calibration has {shape} thresholds for stopping, none negative or NaN")
        if self.quantiles.shape != (self.reach.size, self.levels.size) or np.isnan(self.quantiles).any():
            raise ValueError(f"quantiles must be numbers of shape {(self.reach.size, self.levels.size)}")

    @property
    def n_stages(self) -> int:
        """Stages of the plan that it is for."""
        return len(self.power) - 1

    def probabilities(self, raw: Array, stages: Any) -> Array:
        """(n, C) calibrated probabilities of rows whose answers are of these stages, one number or (n,)."""
        return self.scaled(raw, self.power[stages], self.floor[stages])

    @staticmethod
    def scaled(raw: Array, power: Array, floor: Any) -> Array:
        """(n, C) probabilities plus ``floor``, (n,) or one number, raised to the power of the leading class, which sum to 1.

        ``power`` is (C,) for all rows, or (n, C).
        """
        leading = raw.argmax(axis=1)
        own = power[leading] if power.ndim == 1 else power[np.arange(len(raw)), leading]
        raised = raw + np.reshape(floor, (-1, 1))
        raised = (raised / raised.max(axis=1, keepdims=True)) ** own[:, None]
        return np.asarray(raised / raised.sum(axis=1, keepdims=True))

    def threshold(self, confidence: float, n_stages: int) -> float:
        """The probability of the leading class from which on rows may stop that go through at most ``n_stages`` stages."""
        if confidence > self.levels[-1]:
            return np.inf
        place = np.searchsorted(self.stop_stages, n_stages, side="right") - 1
        return float(self.stop_thresholds[place, self._level(confidence)])

    def quantile(self, reach: Any, coverage: float) -> Any:
        """The nonconformity that is allowed, for each ``reach``: an array, or one number."""
        place = np.searchsorted(self.reach, reach, side="right") - 1
        if coverage > self.levels[-1]:
            return np.full(np.shape(place), np.inf)
        return self.quantiles[place, self._level(coverage)]

    def _level(self, share: float) -> int:
        """The first of ``levels`` that is not below a share."""
        return int(np.searchsorted(self.levels, share - 1e-12))

    def head(self, n_stages: int) -> Calibration:
        """The calibration of a plan that ends after ``n_stages`` stages."""
        kept = slice(None) if self.by_budget else self.reach <= n_stages
        n_stops = int(np.searchsorted(self.stop_stages, n_stages, side="right"))
        return replace(
            self,
            stop_stages=self.stop_stages[:n_stops],
            stop_thresholds=self.stop_thresholds[:n_stops],
            power=self.power[: n_stages + 1],
            floor=self.floor[: n_stages + 1],
            reach=self.reach[kept],
            quantiles=self.quantiles[kept],
        )

    def without_sets(self) -> Calibration:
        """The calibration of a plan in which other rows stop: its sets hold all labels until it is calibrated anew."""
        return replace(self, quantiles=np.full_like(self.quantiles, np.inf))


def fitted_power(raw: ArrayLike, codes: ArrayLike) -> tuple[Array, float]:
    """The powers, (C,) by the leading class, and the floor that make held-out labels most likely.

    Parameters
    ----------
    raw : (n, C)
        Probabilities.
    codes : (n,) int
        Classes of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> from anytime.calibration import Calibration, fitted_power
    >>> claims = np.tile([[0.99, 0.01]], (1000, 1))  # of which 90 % are right
    >>> power, floor = fitted_power(claims, np.arange(1000) % 10 == 0)
    >>> Calibration.scaled(claims[:1], power, floor).round(2)
    array([[0.9, 0.1]])
    """
    raw, codes = np.asarray(raw, dtype=np.float64), np.asarray(codes, dtype=np.intp)
    leading, best = raw.argmax(axis=1), np.inf
    for tried in _FLOORS:
        logs = np.log(raw + tried)
        logs -= logs.max(axis=1, keepdims=True)
        common, loss = _best_power(logs, codes, 1.0, _PRIOR_ROWS)
        if loss < best - 1e-9:
            best, floor, power, kept = loss, tried, common, logs
    powers = np.full(raw.shape[1], power)
    for code in np.unique(leading):
        own = leading == code
        powers[code] = _best_power(kept[own], codes[own], power, _PRIOR_ROWS_OF_CLASS)[0]
    return powers, floor


def _best_power(logs: Array, codes: NDArray[np.intp], usual: float, prior_rows: float) -> tuple[float, float]:
    """The power of least log-loss, and that loss, by Newton's method. ``prior_rows`` count for the usual power."""
    own, power, prior = logs[np.arange(len(logs)), codes], usual, prior_rows / len(logs)
    for _ in range(30):
        likely = np.exp(power * logs)
        likely /= likely.sum(axis=1, keepdims=True)
        mean = (likely * logs).sum(axis=1)
        slope = np.mean(mean - own) + prior * (power - usual)
        bend = np.mean((likely * logs**2).sum(axis=1) - mean**2) + prior
        step = np.clip(slope / bend, -power, power / 2)  # at most twice, at least half
        power = float(np.clip(power - step, *_POWERS))
        if abs(step) < 1e-6 * power:
            break
    loss = np.mean(logsumexp(power * logs, axis=1) - power * own) + prior / 2 * (power - usual) ** 2
    return power, float(loss)


def ranked_quantiles(nonconformity: ArrayLike) -> Array:
    """(L,) split conformal quantiles: of n numbers the ``ceil((n + 1) * level)``-th smallest, ``inf`` where there is none.

    Examples
    --------
    >>> import numpy as np
    >>> from anytime.calibration import LEVELS, ranked_quantiles
    >>> quantiles = ranked_quantiles(np.arange(1, 10) / 10)
    >>> [float(quantiles[LEVELS == level][0]) for level in (0.8, 0.9, 0.95)]
    [0.8, 0.9, inf]
    """
    ordered = np.concatenate([np.sort(np.asarray(nonconformity, dtype=np.float64)), [np.inf]])
    n = ordered.size - 1
    rank = np.ceil((n + 1) * LEVELS - 1e-9).astype(np.intp)
    return np.asarray(ordered[np.minimum(np.maximum(rank, 1), n + 1) - 1])


def stopping_thresholds(confidence: ArrayLike, right: ArrayLike, n_looks: ArrayLike) -> Array:
    """(k, L) for each number of looks and each of ``LEVELS`` the lowest threshold that keeps the promise on held-out rows.

    A row stops at the first stage at which its confidence reaches the threshold. Of the rows that stop, and one more that is
    taken to be wrong, so that few rows promise little, the level has to be right.

    Parameters
    ----------
    confidence : (S, n)
        Calibrated probability of the leading class after every stage that can be followed by another.
    right : (S, n) bool
        Whether that class is the row's.
    n_looks : (k,) int
        After how many of these stages, the first ones, rows are looked at.

    Examples
    --------
    >>> import numpy as np
    >>> from anytime.calibration import LEVELS, stopping_thresholds
    >>> claims = np.repeat([[0.9, 0.6]], 50, axis=1)
    >>> right = np.repeat([[True, False]], 50, axis=1)
    >>> thresholds = stopping_thresholds(claims, right, [1])
    >>> [float(thresholds[0, LEVELS == level][0]) for level in (0.4, 0.9, 0.99)]
    [0.3, 0.75, inf]
    """
    confidence, right = np.asarray(confidence, dtype=np.float64), np.asarray(right, dtype=bool)
    n_looks = np.asarray(n_looks, dtype=np.intp)
    thresholds = np.full((n_looks.size, LEVELS.size), np.inf)
    if not confidence.size:
        return thresholds
    values = np.unique(confidence)
    between = (values + np.concatenate([[0.0], values[:-1]])) / 2  # so that rounding decides nothing
    columns = np.arange(confidence.shape[1])
    top = values.size - np.geomspace(1, values.size, _THRESHOLDS)  # finely where few rows stop
    for place in np.unique([*top, *np.linspace(0, values.size - 1, _THRESHOLDS)]).astype(np.intp)[::-1]:
        sure = confidence >= between[place]
        stage, stopped = sure.argmax(axis=0), sure.any(axis=0)
        by_then = [
            np.concatenate([[0], np.cumsum(np.bincount(stage, which, minlength=len(sure)))])[n_looks]
            for which in (stopped, stopped & right[stage, columns])
        ]
        kept = by_then[1][:, None] >= LEVELS * (by_then[0][:, None] + 1) - 1e-9
        thresholds[kept] = between[place]
    return thresholds
