"""What work takes on this machine: estimates for deadlines, corrected by every measurement, and statistics for people.

Estimates start from the price list, where its unit is a time, and follow what is measured. They never change the order of stages.
"""

from __future__ import annotations

import threading
from bisect import bisect_left, insort
from collections import deque
from typing import Any

import numpy as np

from anytime.features import seconds_per_unit
from anytime.plan import Plan

_WINDOW = 128  # measurements remembered: enough for a 99th percentile, few enough to follow a machine that slows down
_TRUSTED = 32  # measurements after which the price list is no longer asked
_DECLINES = (
    16  # pieces of work that are not begun for lack of time, after which the longest measurement is forgotten
)


class Pace:
    """What one kind of work takes: a prior at first, then the 99th percentile of what was measured lately."""

    def __init__(self, prior: float = 0.0) -> None:
        self.prior = prior  # seconds that are rarely exceeded, as far as known beforehand
        self.count = 0
        self.units = 0
        self.total = 0.0
        self.largest = 0.0
        self.error = 0.0  # sum of |measured - expected|
        self.histogram: dict[int, int] = {}  # by the number of bits of whole microseconds
        self._declined = 0
        self._recent: deque[float] = deque()
        self._sorted: list[float] = []

    def expect(self) -> float:
        """Seconds that the next piece of work will rarely exceed."""
        if not self._sorted:
            return self.prior
        if len(self._sorted) < _TRUSTED:
            return max(self.prior, self._sorted[-1])
        return self._quantile(0.99)

    def decline(self) -> None:
        """Note that this work was not begun because it would take too long.

        Work that is never begun is never measured again, so that one pause of the machine could keep it away for good: now and
        then the longest measurement is forgotten.
        """
        self._declined += 1
        if self._declined % _DECLINES == 0 and len(self._sorted) > 1:
            self._recent.remove(self._sorted.pop())

    def observe(self, seconds: float, units: int = 1) -> None:
        """Take into account that ``units`` pieces of work took ``seconds`` together."""
        self.total += seconds
        self.units += units
        self.count += 1
        seconds /= units
        self.error += abs(seconds - self.expect())
        self.largest = max(self.largest, seconds)
        bucket = int(max(seconds, 0.0) * 1e6).bit_length()
        self.histogram[bucket] = self.histogram.get(bucket, 0) + 1
        if len(self._recent) == _WINDOW:
            del self._sorted[bisect_left(self._sorted, self._recent.popleft())]
        self._recent.append(seconds)
        insort(self._sorted, seconds)

    def _quantile(self, share: float) -> float:
        return self._sorted[min(int(share * len(self._sorted)), len(self._sorted) - 1)]

    def summary(self) -> dict[str, Any]:
        """Counts and seconds, with a histogram by upper bound in microseconds (powers of two)."""
        if not self.count:
            return {"count": 0, "expected": self.prior}
        return {
            "count": self.count,
            "mean": self.total / self.units,
            "median": self._quantile(0.5),
            "p99": self._quantile(0.99),
            "max": self.largest,
            "expected": self.expect(),
            "estimate_error": self.error / self.count,
            "histogram_us": {1 << bucket: self.histogram[bucket] for bucket in sorted(self.histogram)},
        }


class Timings:
    """Paces of all groups and stages of a plan, shared by the sessions that run it."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._lock = threading.Lock()
        costs = plan.costs.costs
        unit = seconds_per_unit(costs.unit)
        tails = costs.tails or costs.prices
        self.groups = [Pace(0.0 if unit is None else tails[name] * unit) for name in costs.names]
        timed = unit is not None and plan.evaluation_costs is not None
        self._evaluation = (np.asarray(plan.evaluation_costs) * unit).tolist() if timed else []
        # by the first and the last stage of what is run in one go
        self.stages: dict[tuple[int, int], Pace] = {}
        self._ways: dict[int, Timings] = {}
        self.runs = 0
        self.overruns = 0
        self.worst_overrun = 0.0

    def of_way(self, branch: int, plan: Plan) -> Timings:
        """Those of the way to a branch, whose stages are others and whose groups are the same; -1: of the chain, these."""
        if branch < 0:
            return self
        if branch not in self._ways:
            way = Timings(plan)
            way.groups = self.groups
            self._ways[branch] = way
        return self._ways[branch]

    def stage(self, first: int, last: int) -> Pace:
        """The pace of the stages ``first`` up to, not including, ``last``, per stage."""
        pace = self.stages.get((first, last))
        if pace is None:
            prior = max(self._evaluation[first:last], default=0.0)
            pace = self.stages.setdefault((first, last), Pace(prior))
        return pace

    def observe(self, pace: Pace, seconds: float, units: int = 1) -> None:
        """``pace.observe``, safe from several threads."""
        with self._lock:
            pace.observe(seconds, units)

    def decline(self, *paces: Pace) -> None:
        """``pace.decline`` of each, safe from several threads."""
        with self._lock:
            for pace in paces:
                pace.decline()

    def finish(self, late: float) -> None:
        """Count a run that had a deadline and ended ``late`` seconds after it, or before it."""
        with self._lock:
            self.runs += 1
            if late > 0:
                self.overruns += 1
                self.worst_overrun = max(self.worst_overrun, late)

    def summary(self) -> dict[str, Any]:
        """Everything measured, as plain numbers; times are in seconds."""
        with self._lock:
            names = self._plan.costs.costs.names
            features = sum(pace.total for pace in self.groups)
            stages = sum(pace.total for pace in self.stages.values())
            return {
                "runs": self.runs,
                "overruns": self.overruns,
                "worst_overrun": self.worst_overrun,
                "seconds": {"features": features, "stages": stages},
                "groups": {n: p.summary() for n, p in zip(names, self.groups, strict=True) if p.count},
                "stages": {
                    _span(*key): pace.summary() for key, pace in sorted(self.stages.items()) if pace.count
                },
            }


def _span(first: int, last: int) -> str:
    return str(first + 1) if last == first + 1 else f"{first + 1}-{last}"
