"""Jumps over stages that a filter closes to a row.

A row's scores change only when a stage works on it, so for filters that look at nothing else the next stage that lets it pass is
fixed in advance: ``next(x, s) = min{s' >= s : |f(x)| < theta_s'}`` for filters on the margin. A table of the widest thresholds of
runs of 1, 2, 4, ... stages finds it in ``O(log S)``, so that a batch costs ``O(updates log S)`` and not ``O(rows S)`` (Grubb,
*Anytime Prediction*, section 6.4.2).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.losses import LINKS, Link
from anytime.plan import Array, Plan
from anytime.rules import Rule, ThresholdRule

_FEW = 2  # a single filter is met in passing; there is nothing to jump over

Stages = NDArray[np.int64]


class Jumps:
    """The next stage that is open to a number: one below the stage's threshold (or, not ``below``, one that is not).

    A stage that is not concerned has the threshold NaN, and is never open.
    """

    def __init__(self, thresholds: ArrayLike, below: bool = True) -> None:
        self.below = below
        wider = np.fmax if below else np.fmin
        # levels[k][s]: the threshold that lets most pass among stages s .. s + 2**k - 1
        self.levels: list[Array] = [np.asarray(thresholds, dtype=np.float64)]
        self.n_stages = self.levels[0].size
        while 2 ** len(self.levels) <= self.n_stages:
            last = self.levels[-1]
            half = 2 ** (len(self.levels) - 1)
            self.levels.append(wider(last[:-half], last[half:]))

    def next_stage(self, numbers: Array, stages: Stages) -> Stages:
        """(n,) the first open stage from ``stages`` on; S when there is none."""
        at = stages.copy()
        if not self.below:
            numbers = np.where(np.isnan(numbers), np.inf, numbers)  # what is not below anything
        for k in range(len(self.levels) - 1, -1, -1):
            table = self.levels[k]
            inside = at < table.size  # beyond, fewer than 2**k stages are left: a smaller jump does it
            widest = table[np.minimum(at, table.size - 1)]
            opens = numbers < widest if self.below else numbers >= widest
            at = np.where(inside & ~opens, at + 2**k, at)
        return at


class _Family(NamedTuple):
    """Filters that measure the same and differ in their thresholds."""

    measure: Callable[[Array, Link], Array]
    jumps: Jumps


class Skips:
    """The next stage that may work on a row, given its scores."""

    def __init__(self, plan: Plan) -> None:
        self.link, self.n_stages = LINKS[plan.link], plan.n_stages
        members: dict[Hashable, dict[int, Rule]] = {}
        for s, rule in sorted(plan.passes.items()):
            if not rule.columns().size:
                members.setdefault(rule.family if isinstance(rule, ThresholdRule) else rule, {})[s] = rule
        self.families: list[_Family] = []
        # stages that have to be looked at, whatever the scores are
        visited = np.ones(self.n_stages, dtype=bool)
        for rules in members.values():
            if len(rules) >= _FEW:
                visited[list(rules)] = False
                self.families.append(_family(rules, self.n_stages))
        self.next_visit = _next_true(visited)

    @classmethod
    def of(cls, plan: Plan) -> Skips | None:
        """The jumps of a plan; None when it has too few filters on scores to be worth them."""
        skips = cls(plan)
        return skips if skips.families else None

    def next_stage(self, scores: Array, stages: ArrayLike) -> Stages:
        """(n,) the first stage from ``stages`` (n,) on that may work on rows with ``scores`` (n, K); S when none does."""
        begin = np.asarray(stages, dtype=np.int64)
        at = self.next_visit[begin]
        for measure, jumps in self.families:
            at = np.minimum(at, jumps.next_stage(measure(scores, self.link), begin))
        return at


def _family(rules: dict[int, Rule], n_stages: int) -> _Family:
    thresholds = np.full(n_stages, np.nan)
    one = next(iter(rules.values()))
    if isinstance(one, ThresholdRule):
        for s, rule in rules.items():
            thresholds[s] = rule.threshold  # type: ignore[attr-defined]
        return _Family(one.measure, Jumps(thresholds, one.below))
    thresholds[list(rules)] = 0.5  # the same question at several stages: 1 for yes, 0 for no
    return _Family(
        lambda scores, link: one.holds(np.empty((len(scores), 0)), scores, link).astype(np.float64),
        Jumps(thresholds, below=False),
    )


def _next_true(mask: NDArray[np.bool_]) -> Stages:
    """(S + 1,) the first position from each on where ``mask`` holds; S when there is none."""
    where = np.where(mask, np.arange(mask.size), mask.size)
    return np.append(np.minimum.accumulate(where[::-1])[::-1], mask.size).astype(np.int64)
