"""Shares the time of one event loop among all waiting questions, for whichever model they are.

Pieces of questions wait in queues. All pieces of a queue have the same pace and get a common target stage. A queue that needs
little time gets all of it, and the others share the rest equally. A busy model thus takes no time that another needs to meet
its deadlines, and a question of many rows takes none from single rows.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from bisect import insort
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from anytime.serve.caution import Caution
from anytime.serve.cohort import Cohort, Piece
from anytime.serve.pace import StagePace
from anytime.serve.policy import Outlook, Waiting, demand

if TYPE_CHECKING:
    from anytime.serve.engine import Engine

SLICE = 1e-3  # seconds of work between two looks at the sockets
_CALLS, _PART = (
    8.0,
    0.1,
)  # a longer slice lasts 8 times the fixed time of a call, but at most 0.1 of the time for an answer
_PATIENCE = 20 * SLICE  # a piece without a deadline gets a slice at least this often
_BY_FINISH = attrgetter("finish")

logger = logging.getLogger("anytime.serve")


def slice_of(pace: StagePace, allowed: float) -> float:
    """Seconds of work between two looks at the sockets, for a model whose answers have ``allowed`` seconds.

    Each call takes some fixed time besides that of its rows. For trees it is short. A network needs several rows in a batch until
    it is short compared with theirs, and gets a longer slice, if that is short compared with the time for an answer.

    Examples
    --------
    >>> slice_of(StagePace([1], [1e-5], call=2e-5), allowed=0.01)
    0.001
    >>> slice_of(StagePace([1], [4e-4], call=5e-4), allowed=0.05)
    0.004
    """
    return max(SLICE, min(_CALLS * pace.call, _PART * allowed))


class Queue:
    """Pieces of one engine's questions, sorted by the time at which their stages have to be done.

    A queue has its own pace, because questions that lack groups are evaluated in another, slower way. ``large`` questions have
    many rows, and wait for the others if there is no time even for their first stage.
    """

    __slots__ = ("_engine", "large", "pace", "pieces")

    def __init__(self, engine: Engine, pace: StagePace, large: bool = False) -> None:
        self._engine = weakref.ref(engine)  # no reference cycle: a replaced model is freed at once
        self.pace, self.large = pace, large
        self.pieces: list[Piece] = []

    @property
    def engine(self) -> Engine:
        """The engine of these questions; their handlers keep it alive."""
        engine = self._engine()
        assert engine is not None
        return engine

    def waiting(self) -> Waiting:
        """The pieces as arrays, for a policy."""
        pieces = self.pieces
        return Waiting(
            np.array([piece.due for piece in pieces]),
            np.array([piece.rows for piece in pieces]),
            np.array([piece.stage for piece in pieces]),
            np.array([piece.until for piece in pieces]),
            np.array([piece.reserve for piece in pieces]),
        )

    def unhurried(self) -> Piece | None:
        """The first piece without a deadline."""
        if self.pieces[-1].finish < np.inf:
            return None
        return next(piece for piece in self.pieces if piece.finish == np.inf)

    def take_up(self, lead: Piece, stage: int) -> Cohort:
        """A micro-batch: a piece, and as many others as fit into a slice."""
        room = self.pace.rows_within(self.engine.slice, 0, min(stage, lead.until)) - lead.rows
        together = [lead]
        for piece in self.pieces:
            if piece.cohort is None and piece is not lead and piece.until:
                room -= piece.rows
                if room < 0:
                    break
                if piece.ticket.stepwise == lead.ticket.stepwise and piece.ticket.held is lead.ticket.held:
                    together.append(piece)
        return self.engine.begin(together)


class _Planned(NamedTuple):
    """The outlook of a queue, and its priority.

    ``gives_way`` is 0 if the share of the time is enough for all stages, 1 if it is not, and 2 if it is too short even for the
    first stage.
    """

    queue: Queue
    outlook: Outlook
    gives_way: int = 0


class Scheduler:
    """All work of one event loop. Engines that run there have to share one scheduler, else each plans as if it were alone.

    ``after_reading`` schedules a function to be called once all requests that have arrived are read. None: the running event
    loop does.
    """

    def __init__(self, after_reading: Callable[[Callable[[], None]], None] | None = None) -> None:
        self._after_reading = after_reading or _after_reading
        self.caution = Caution()
        self.busy: list[Queue] = []  # queues that have pieces
        self.joined = self.answered = 0  # questions since the last work
        self._scheduled = False
        self._looked: float | None = (
            None  # when the last turn began, until all requests that arrived during it have been read
        )
        self._left: float | None = None  # when the last work ended, if a piece has been waiting ever since
        self._patient_since = 0.0  # when a piece without a deadline last had a slice
        self._at_work: Sequence[Piece] = ()  # pieces that get the error if this work fails

    # ------------------------------------------------------------------ joining and leaving

    def join(self, queue: Queue, pieces: Iterable[Piece]) -> None:
        """Add pieces to a queue."""
        if not queue.pieces:
            self.busy.append(queue)
        for piece in pieces:
            insort(queue.pieces, piece, key=_BY_FINISH)
        self.joined += 1
        self._schedule()

    def leave(self, queue: Queue, pieces: Sequence[Piece]) -> None:
        """Remove pieces from a queue."""
        gone = set(pieces)
        if len(gone) < len(queue.pieces):
            queue.pieces = [piece for piece in queue.pieces if piece not in gone]
        else:
            queue.pieces = []
            self.busy.remove(queue)
        for cohort in {piece.cohort for piece in pieces if piece.cohort is not None}:
            cohort.release(gone)

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            # requests that arrived during the last slice are read, and join, before the next
            self._after_reading(self.turn)

    def came(self, read: float) -> float:
        """The earliest possible arrival time of a question read at ``read``: what arrives during a turn is read after it."""
        return read if self._looked is None else min(read, self._looked)

    @property
    def rests(self) -> bool:
        """Whether no question is waiting, nor may have arrived during the last work."""
        return not self.busy and self._looked is None

    # ------------------------------------------------------------------ working

    def turn(self) -> None:
        """One turn of the loop: a slice of work, or answers that need none; then the sockets are read."""
        try:
            if self.busy:
                self._looked = self.busy[0].engine.clock()
                self._slice(self._looked)
        except Exception as error:
            self._fail(error)
        self._at_work = ()
        self._scheduled = False  # only now: finished answers are sent before the next turn
        if self.busy:
            self._schedule()
        else:
            self._left = None
            self._after_reading(self._rest)

    def at_once(self, queue: Queue, cohort: Cohort, stage: int) -> None:
        """Work at once for a question that arrives while none is waiting; others that arrive meanwhile wait for a turn."""
        self._looked = queue.engine.clock()
        self._after_reading(self._rest)
        self._timed(queue, cohort, stage)

    def _rest(self) -> None:
        """No request has arrived during the last work."""
        if not self._scheduled:
            self._looked = None

    def _slice(self, now: float) -> None:
        """Send the answers of pieces that have reached their target stage; if there are none, work for the most urgent piece."""
        plans = self._plans(now)
        if self._settle(plans):
            return  # these answers are sent before there is more work
        work = self._next_work(plans, now)
        if work is None:
            return
        queue, lead, stage, horizon = work
        self._at_work = [lead]
        cohort = lead.cohort or queue.take_up(lead, stage)
        self._at_work = list(cohort.pieces)
        if cohort.rows:  # some rows still need work: not all were certain before the first stage
            self._advance(queue, cohort, stage)
        ready = [
            piece
            for piece in cohort.pieces
            if piece.stage >= piece.until or (piece.finish <= horizon and piece.stage >= stage)
        ]
        queue.engine.settle(queue, ready)

    def _plans(self, now: float) -> list[_Planned]:
        """One plan per queue, such that all plans together can be kept."""
        if len(self.busy) == 1:
            queue = self.busy[0]
            self._at_work = queue.pieces
            return [_Planned(queue, queue.engine.policy.outlook(queue.waiting(), queue.pace, now))]
        waiting, rates = [], []
        for queue in self.busy:
            self._at_work = queue.pieces
            waiting.append(queue.waiting())
            rates.append(demand(waiting[-1], queue.pace, now))
        plans = []
        for queue, some, rate, share in zip(self.busy, waiting, rates, _shares(rates), strict=True):
            self._at_work = queue.pieces
            first, gives_way = int(queue.pace.checkpoints[0]), int(share < rate)
            outlook = queue.engine.policy.outlook(some.within(share, now), queue.pace, now)
            if gives_way and outlook.stage <= first and demand(some, queue.pace, now, first) > share:
                gives_way = 2
            plans.append(_Planned(queue, outlook, gives_way))
        return plans

    def _settle(self, plans: list[_Planned]) -> bool:
        """Send the answers of pieces at their target stage; whether there were any."""
        settled = False
        for queue, (stage, first, lost), _ in plans:
            pieces = queue.pieces
            there = [piece for piece in pieces[:first] if piece.stage >= min(stage, piece.until)]
            if lost:
                there = list(dict.fromkeys([*there, *(pieces[i] for i in lost)]))
            if there:
                self._at_work, settled = there, True
                queue.engine.settle(queue, there)
        return settled

    def _next_work(self, plans: list[_Planned], now: float) -> tuple[Queue, Piece, int, float] | None:
        """The next piece of work: (queue, piece, target stage, horizon). Pieces due by the horizon end at the target stage."""
        patient = [(piece, queue) for queue, *_ in plans if (piece := queue.unhurried()) is not None]
        if not patient:
            self._patient_since = now
        elif now - self._patient_since > _PATIENCE:
            self._patient_since = now
            lead, queue = min(patient, key=lambda one: one[0].ticket.question.arrived)
            if lead.stage < lead.until:
                return queue, lead, lead.until, -np.inf
        due = []
        for queue, (stage, first, _), gives_way in plans:
            for piece in queue.pieces:
                if piece.stage < min(stage, piece.until):
                    late = (
                        piece.finish <= now and not queue.large
                    )  # late, but not given up: its first stage is quick
                    rank = min(gives_way, 1) if late else gives_way
                    order = (rank, rank > 1 and queue.large, piece.finish)
                    due.append((order, queue, piece, stage, queue.pieces[first - 1].finish))
                    break
        if not due:
            return None
        _, queue, lead, stage, horizon = due[0] if len(due) == 1 else min(due, key=lambda one: one[0])
        if lead.finish == np.inf:
            self._patient_since = now
        return queue, lead, stage, horizon

    def _advance(self, queue: Queue, cohort: Cohort, stage: int) -> None:
        engine, pace = queue.engine, queue.pace
        began = engine.clock()  # before looking ahead, which is not work on questions
        first, rows = cohort.stage, cohort.rows
        stage = min(stage, max([piece.until for piece in cohort.pieces]))
        last = pace.stage_within(engine.slice, first, stage, rows)
        if cohort.stepwise:
            last = min(
                last, cohort.next_question() if cohort.asks_every_stage else pace.next_checkpoint(first)
            )
        if self._left is not None:  # the time since then is what questions take besides their stages
            pace.observe_questions((self.joined + self.answered) / 2, began - self._left)
        self.joined = self.answered = 0
        self._left = self._timed(queue, cohort, last)
        if cohort.stepwise:
            for piece in cohort.pieces:
                piece.ticket.improved()

    @staticmethod
    def _timed(queue: Queue, cohort: Cohort, stage: int) -> float:
        """Compute stages and record how long they take; returns the time at which they are done."""
        engine, first, rows = queue.engine, cohort.stage, cohort.rows
        began = engine.clock()
        engine._compute(cohort, stage)
        done = engine.clock()
        queue.pace.observe(first, stage, rows, done - began)
        return done

    def _fail(self, error: Exception) -> None:
        """Reply with an error to all questions whose work has raised it."""
        pieces = self._at_work or [piece for queue in self.busy for piece in queue.pieces]
        for ticket in {piece.ticket: None for piece in pieces}:
            ticket.reply(error)
            try:
                ticket.queue.engine.forget(ticket)
            except Exception:  # this one has its reply; the others need theirs
                logger.exception("a failed question could not be removed")


def _after_reading(work: Callable[[], None]) -> None:
    """Call ``work`` once the handlers of all requests that have arrived have begun.

    In uvloop they begin one turn of the loop later.
    """
    loop = asyncio.get_running_loop()
    loop.call_soon(loop.call_soon, work)


def _shares(rates: list[float]) -> list[float]:
    """The share of the time that each queue may plan with: what it needs, if that is little; the others get equal shares.

    With these shares all plans can be kept together: the work of each queue before any moment fits into its share of the time
    until then. If all get what they need, each plans with the whole time.

    Examples
    --------
    >>> _shares([0.2, 0.7])
    [1.0, 1.0]
    >>> _shares([0.25, 0.9, 1.0])
    [0.25, 0.375, 0.375]
    """
    if sum(rates) <= 1.0:
        return [1.0] * len(rates)
    shares, left = [0.0] * len(rates), 1.0
    for place, i in enumerate(sorted(range(len(rates)), key=rates.__getitem__)):
        shares[i] = min(rates[i], left / (len(rates) - place))
        left -= shares[i]
    return shares
