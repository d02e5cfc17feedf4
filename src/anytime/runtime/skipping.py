"""Jumps over stages that a margin filter closes to a row.

A row's score changes only when a stage works on it, so the next stage whose filter ``|f(x)| < theta`` lets it pass is fixed in
advance: ``next(x, s) = min{s' >= s : |f(x)| < theta_s'}``. A table of maxima over runs of 1, 2, 4, ... thresholds finds it in
``O(log S)``, so that a batch costs ``O(updates log S)`` and not ``O(rows S)`` (Grubb, *Anytime Prediction*, section 6.4.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.plan import Array, Plan
from anytime.rules import MarginRule

_FEW = 2  # a single filter is met in passing; there is nothing to jump over


class MarginSkips:
    """The next stage that may work on a row, given its margin.

    Parameters
    ----------
    thresholds : (S,) float
        The filter of each stage; NaN for a stage that has to be visited whatever the margin is.
    """

    def __init__(self, thresholds: ArrayLike) -> None:
        theta = np.asarray(thresholds, dtype=np.float64)
        self.n_stages = theta.size
        filtered = ~np.isnan(theta)
        self.next_visit = _next_true(~filtered)
        # levels[k][s]: the largest threshold among stages s .. s + 2**k - 1
        self.levels: list[Array] = [np.where(filtered, theta, -np.inf)]
        while 2 ** len(self.levels) <= self.n_stages:
            below = self.levels[-1]
            half = 2 ** (len(self.levels) - 1)
            self.levels.append(np.maximum(below[:-half], below[half:]))

    @classmethod
    def of(cls, plan: Plan) -> MarginSkips | None:
        """The jumps of a plan; None when it has too few margin filters to be worth them."""
        thresholds = np.full(plan.n_stages, np.nan)
        for s, rule in plan.passes.items():
            if isinstance(rule, MarginRule) and rule.below:
                thresholds[s] = rule.threshold
        return cls(thresholds) if np.count_nonzero(~np.isnan(thresholds)) >= _FEW else None

    def next_stage(self, margins: Array, stages: Sequence[int] | NDArray[np.integer]) -> NDArray[np.int64]:
        """(n,) the first stage from ``stages`` on that may work on each row; S when none does.

        Parameters
        ----------
        margins : (n,) float
        stages : (n,) int
        """
        at = np.array(stages, dtype=np.int64)
        visit = self.next_visit[at]
        for k in range(len(self.levels) - 1, -1, -1):
            table = self.levels[k]
            inside = at < table.size  # beyond, fewer than 2**k stages are left: a smaller jump does it
            opens = margins < table[np.minimum(at, table.size - 1)]
            at = np.where(inside & ~opens, at + 2**k, at)
        return np.minimum(at, visit)

    def next_for(self, margin: float, stage: int) -> int:
        """``next_stage`` of a single row, without the price of arrays."""
        if stage >= self.n_stages:
            return self.n_stages
        at, visit = stage, self._lists[0][stage]
        for k in range(len(self.levels), 0, -1):
            table = self._lists[k]
            if at < len(table) and not margin < table[at]:
                at += 1 << (k - 1)
        return int(min(at, visit))

    @cached_property
    def _lists(self) -> list[list[float]]:
        return [self.next_visit.tolist(), *(level.tolist() for level in self.levels)]


def _next_true(mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """(S + 1,) the first position from each on where ``mask`` holds; S when there is none."""
    where = np.where(mask, np.arange(mask.size), mask.size)
    return np.append(np.minimum.accumulate(where[::-1])[::-1], mask.size).astype(np.int64)
