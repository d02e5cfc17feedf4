"""Rows waiting, by the stage they wait for: the next stage's rows are found without looking at the others."""

from __future__ import annotations

import heapq

import numpy as np
from numpy.typing import NDArray

__all__ = ["StageQueue"]

Rows = NDArray[np.intp]


class StageQueue:
    """Buckets of rows, one per stage, lowest stage first."""

    def __init__(self) -> None:
        self._buckets: dict[int, list[Rows]] = {}
        self._stages: list[int] = []  # a heap of the buckets' stages

    def put(self, rows: Rows, stages: NDArray[np.integer]) -> None:
        """Let each row wait for its stage."""
        if rows.size == 0:
            return
        first = int(stages[0])
        if (stages == first).all():  # the usual case: they go on together
            self._put(first, rows)
            return
        order = np.argsort(stages, kind="stable")
        cuts = np.flatnonzero(np.diff(stages[order])) + 1
        for part in np.split(order, cuts):
            self._put(int(stages[part[0]]), rows[part])

    def _put(self, stage: int, rows: Rows) -> None:
        if stage not in self._buckets:
            self._buckets[stage] = []
            heapq.heappush(self._stages, stage)
        self._buckets[stage].append(rows)

    @property
    def stage(self) -> int:
        """The lowest stage that a row waits for, -1 when none waits."""
        return self._stages[0] if self._stages else -1

    def take(self) -> tuple[int, Rows]:
        """The rows that wait for the lowest stage, in increasing order; they wait no longer."""
        stage = heapq.heappop(self._stages)
        rows = self._buckets.pop(stage)
        return stage, rows[0] if len(rows) == 1 else np.sort(np.concatenate(rows))
