"""The target stage of waiting questions: the largest stage that all of them reach in time.

A policy has no clock and no state. The server and the simulator use the same one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from anytime.serve.pace import StagePace

Array = NDArray[np.float64]

_PART, _LEAST = 0.2, 1e-3  # of the time for an answer, and seconds: what is kept in reserve


@dataclass(frozen=True, eq=False)
class Waiting:
    """Waiting questions, sorted by the time at which their stages have to be done: due less reserve."""

    due: Array  # (n,): on the clock that ``now`` is read from
    rows: NDArray[np.int64]  # (n,)
    stage: NDArray[np.int64]  # (n,): stages done
    until: NDArray[np.int64]  # (n,): the last stage that a question needs, because of its budget or otherwise
    # (n,): seconds reserved for what comes after the stages. None: the policy's
    reserve: Array | None = None

    def within(self, share: float, now: float) -> Waiting:
        """The same with only a share of the time that is left."""
        if share >= 1.0:
            return self
        reserve = 0.0 if self.reserve is None else self.reserve
        slack = self.due - reserve - now
        return replace(self, due=now + reserve + np.where(slack > 0, share * slack, slack))


class Outlook(NamedTuple):
    """A plan for waiting questions."""

    stage: int  # the target stage; questions beyond it stay where they are
    first: int  # so many questions, by due time, end there; the others may have more time later
    # positions of questions for which there is no time left: they get the answer that they have
    lost: tuple[int, ...] = ()


class Adaptive:
    """The largest common stage that all questions reach ``reserve`` seconds before the answer is due.

    Work is done in the order of due times. A stage is in time when for every k, by the measured pace, the first k questions have
    reached it before the k-th is due. Every question gets its first stage, even at the expense of others, and that stage may
    use half of the reserve (all that is left of it, if the first stages take less): an answer without any stage is worth little.

    Parameters
    ----------
    reserve : float
        Seconds for what comes after the last stage (rendering, the way back) and for the unforeseen; the most that any
        question keeps while none is late.

    Examples
    --------
    >>> pace = StagePace([1, 2, 3, 4], [0.1, 0.2, 0.3, 0.4])
    >>> waiting = Waiting(*(np.array(a) for a in ([1.0, 1.2], [1, 2], [0, 0], [4, 4])))
    >>> Adaptive(reserve=0.1).outlook(waiting, pace, now=0.0)
    Outlook(stage=3, first=2, lost=())
    """

    def __init__(self, reserve: float) -> None:
        if not reserve >= 0:
            raise ValueError(f"reserve must be a non-negative number of seconds, not {reserve}")
        self.reserve = reserve

    @classmethod
    def for_slo(cls, slo: float | None) -> Self:
        """A fifth of the promised seconds in reserve, and at least one millisecond."""
        return cls(max(_LEAST, 0.0 if slo is None else _PART * slo))

    def reserve_of(self, allowed: float) -> float:
        """A fifth of so many seconds for an answer, at least one millisecond; never more than ``reserve``."""
        return min(self.reserve, max(_LEAST, _PART * allowed))

    def needs_no_plan(self, done: float, finish: float) -> bool:
        """Whether a question alone just goes to its end: there is time for it."""
        return done <= finish

    def outlook(self, waiting: Waiting, pace: StagePace, now: float) -> Outlook:
        """The plan, for at least one question."""
        if waiting.due.size == 1 and self._has_time_for_all(waiting, pace, now):
            return Outlook(int(pace.checkpoints[-1]), 1)
        reserve = self.reserve if waiting.reserve is None else waiting.reserve
        slack = waiting.due - (now + reserve)
        checkpoints, ahead, rows = pace.checkpoints, pace.per_row, waiting.rows
        last, n = int(checkpoints[-1]), slack.size
        behind = ahead[waiting.stage]
        room = slack - pace.call - pace.per_question * np.arange(1, n + 1)

        def late(stage: int) -> NDArray[np.bool_]:
            need = ahead[np.minimum(waiting.until, stage)] - behind
            return np.asarray(np.cumsum(rows * np.maximum(need, 0.0)) > room)

        # all stages are tried first: without load they fit, and there is nothing to search
        missed = late(last)
        if not missed.any():
            return Outlook(last, n)
        lost = self._lost(waiting, pace, slack)
        if lost.any():
            rows, room = np.where(lost, 0, rows), np.where(lost, np.inf, room)
            missed = late(last)
        places = tuple(np.flatnonzero(lost).tolist())
        if not missed.any():
            return Outlook(last, n, places)
        if waiting.stage.any() or (waiting.until < last).any():
            at, missed = self._search(late, checkpoints, missed)
        else:  # all are at the start and need all stages: each can afford some time per row, and the least decides
            pace_allowed = room / np.maximum(np.cumsum(rows), 1)
            reached = np.searchsorted(ahead[checkpoints], pace_allowed.min(), side="right")
            at = min(int(reached), checkpoints.size - 1)
            missed = pace_allowed < ahead[checkpoints[at]]
        return Outlook(int(checkpoints[max(at - 1, 0)]), int(missed.argmax()) + 1, places)

    @staticmethod
    def _search(
        late: Callable[[int], NDArray[np.bool_]], checkpoints: NDArray[np.int64], missed: NDArray[np.bool_]
    ) -> tuple[int, NDArray[np.bool_]]:
        """The position of the first checkpoint that a question misses, and which do; ``missed``: those that miss the last."""
        low, high = 0, checkpoints.size - 1
        while low < high:
            middle = (low + high) // 2
            tried = late(int(checkpoints[middle]))
            if tried.any():
                high, missed = middle, tried
            else:
                low = middle + 1
        return low, missed

    def _has_time_for_all(self, waiting: Waiting, pace: StagePace, now: float) -> bool:
        """A shortcut for a single question, the usual case without load."""
        work = max(
            pace.call, pace.seconds(waiting.stage.item(0), waiting.until.item(0), waiting.rows.item(0))
        )
        reserve = self.reserve if waiting.reserve is None else waiting.reserve.item(0)
        return self.needs_no_plan(now + work + pace.per_question, waiting.due.item(0) - reserve)

    def _lost(self, waiting: Waiting, pace: StagePace, slack: Array) -> NDArray[np.bool_]:
        """(n,) questions that have no time for anything more, not even alone.

        If the first stages of all questions without one take less than half of the reserve together, they are computed however
        late it is: nothing gets much later, and after a stall the server would otherwise give all of them the constant answer.
        """
        begins = (waiting.stage == 0) & (waiting.until > 0)
        stages = waiting.rows * pace.per_row[np.minimum(waiting.until, pace.checkpoints[0])]
        half = 0.5 * (np.full(slack.size, self.reserve) if waiting.reserve is None else waiting.reserve)
        if pace.call + stages[begins].sum() <= half.min():
            return np.asarray((slack < 0) & ~begins)
        return np.asarray(np.where(begins, slack + half < pace.call + stages, slack < 0))


def demand(waiting: Waiting, pace: StagePace, now: float, stage: int | None = None) -> float:
    """The part of all time, at most 1, that these questions need to reach ``stage``, or as far as they want, in time.

    Examples
    --------
    >>> pace = StagePace([1, 2], [0.1, 0.2])
    >>> waiting = Waiting(*(np.array(a) for a in ([1.0, 2.0], [1, 4], [0, 0], [2, 2])))
    >>> demand(waiting, pace, now=0.0), demand(waiting, pace, now=0.0, stage=1)
    (0.5, 0.25)
    """
    until = waiting.until if stage is None else np.minimum(waiting.until, stage)
    need = waiting.rows * np.maximum(pace.per_row[until] - pace.per_row[waiting.stage], 0.0)
    work = np.cumsum(need + pace.per_question) + pace.call
    slack = waiting.due - now - (0.0 if waiting.reserve is None else waiting.reserve)
    return float((work / np.maximum(slack, 1e-9)).clip(max=1.0).max(initial=0.0))
