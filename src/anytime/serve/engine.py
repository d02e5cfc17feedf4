"""Answers questions in time: all that wait share what time there is, and every one gets the best answer that fits.

The engine computes on the event loop itself, in slices of about a millisecond: handing a model that answers within microseconds
to a thread would take longer than asking it. Between two slices the loop reads sockets, and new questions join. Questions
that are taken up in the same slice are evaluated together, and its policy says, again for every slice, how far
there is time to go.
"""

from __future__ import annotations

import asyncio
import time
from bisect import insort
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from anytime.estimator import AnytimeModel
from anytime.plan import Array, Plan
from anytime.runtime.bounds import Bounds
from anytime.serve.cohort import Cohort, Piece, Reader, Reading
from anytime.serve.pace import StagePace
from anytime.serve.policy import Policy, Waiting
from anytime.serve.progress import within_reach

if TYPE_CHECKING:
    from anytime.serve.extraction import Extraction

__all__ = ["Engine", "Observer", "Question", "Served"]

_SLICE = 1e-3  # seconds of work between two looks at the sockets
_LOOK = 5e-3  # seconds between two looks at what sessions have come to
_FEW = 16  # rows of a piece, if a stage of so many takes no longer than a slice
_BY_DUE = attrgetter("due")


@dataclass(slots=True, eq=False)
class Question:
    """Rows to be answered, and within which bounds.

    Attributes
    ----------
    X : (n, d) float64, C order
        As the model's plan reads them. Columns of groups that are not held may be anything.
    budget : float or None
        Units of cost that each row may spend. None: the model's own budget.
    deadline : float or None
        Seconds from the arrival.
    confidence : float or None
        The probability of the leading class that is enough.
    held : (G,) bool or None
        Groups of columns that are there. None: all.
    raws : sequence or None
        Raw examples, whose features are computed on demand.
    arrived : float
        On the engine's clock.
    """

    X: Array
    budget: float | None = None
    deadline: float | None = None
    confidence: float | None = None
    held: NDArray[np.bool_] | None = None
    raws: Sequence[Any] | None = None
    arrived: float = field(default_factory=time.monotonic)


@dataclass(slots=True, eq=False)
class Served:
    """The answers to a question.

    Attributes
    ----------
    prediction : (n,) or (n, K)
    probabilities : (n, C) or None
        For classifiers.
    cost : (n,) float
        What rows have paid where the model's meter is "realised", and for raw examples; else what their stages cost by training.
    stage : (n,) int
        Stages done.
    elapsed : float
        Seconds since the arrival.
    partial : (n,) bool
        Rows that stopped for time, before their own last stage.
    reason : str
        Why it ended: "complete", "budget", "confidence", "groups" (those held allow no more), "failed" (an extractor has) or
        "deadline"; empty while a stream goes on.
    version : str
        Of the model.
    failures : dict from str to str
        Groups whose features could not be had, and why.
    """

    prediction: NDArray[Any]
    probabilities: Array | None
    cost: Array
    stage: NDArray[np.int32]
    elapsed: float
    partial: NDArray[np.bool_]
    reason: str
    version: str
    failures: dict[str, str] = field(default_factory=dict)


class Observer(Protocol):
    """Who wants to know what is going on."""

    def evaluated(self, rows: int) -> None:
        """So many rows have been taken up together."""

    def answered(self, served: Served, queue_length: int) -> None:
        """An answer goes out, and ``queue_length`` questions still wait."""


class Ticket:
    """A question under way."""

    __slots__ = (
        "cap",
        "due",
        "events",
        "future",
        "open",
        "pieces",
        "plan",
        "question",
        "reason",
        "stepwise",
        "until",
    )

    def __init__(self, question: Question, plan: Plan, due: float, until: int, cap: int, reason: str) -> None:
        self.question, self.plan, self.due = question, plan, due
        self.until, self.cap, self.reason = until, cap, reason
        self.pieces: list[Piece] = []
        self.open = 0  # pieces that have no final answer yet
        self.stepwise = question.confidence is not None
        self.future: asyncio.Future[Served] | None = None
        self.events: asyncio.Queue[Served | BaseException] | None = None  # instead of a future: every step

    @property
    def gone(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self.future is not None and self.future.done()

    def reply(self, outcome: Served | BaseException) -> None:
        """Hand over what the one who asked waits for."""
        if self.events is not None:
            self.events.put_nowait(outcome)
        elif self.future is not None and not self.future.done():
            if isinstance(outcome, BaseException):
                self.future.set_exception(outcome)
            else:
                self.future.set_result(outcome)


class Engine:
    """One model and the questions that wait for it. All calls come from one event loop.

    Parameters
    ----------
    model : fitted AnytimeModel
    pace : StagePace
    policy : Policy
    slo : float, default=None
        Seconds within which every question is to be answered. None: only questions with a deadline are in a hurry.
    extraction : Extraction, default=None
        What computes features of raw examples.
    clock : callable, default=time.monotonic
    version : str, default="1"
    observer : Observer, default=None

    Examples
    --------
    >>> import anytime as at
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from anytime.serve.policy import Adaptive
    >>> X, y = np.array([[0.0, 1], [1, 0], [2, 5], [3, 3]]), [0, 0, 1, 1]
    >>> model = at.make_anytime(RandomForestClassifier(n_estimators=5, random_state=0).fit(X, y))
    >>> async def ask():
    ...     engine = Engine(model, StagePace.measure(model, seconds=0.01), Adaptive(reserve=0.001), slo=10.0)
    ...     return await engine.answer(Question(X))
    >>> served = asyncio.run(ask())
    >>> served.prediction.tolist(), served.stage.tolist(), served.reason
    ([0, 0, 1, 1], [5, 5, 5, 5], 'complete')
    """

    def __init__(
        self,
        model: AnytimeModel,
        pace: StagePace,
        policy: Policy,
        *,
        slo: float | None = None,
        extraction: Extraction | None = None,
        clock: Callable[[], float] = time.monotonic,
        version: str = "1",
        observer: Observer | None = None,
    ) -> None:
        if slo is not None and not slo > 0:
            raise ValueError(f"slo must be a positive number of seconds, not {slo}")
        self.model, self.pace, self.policy = model, pace, policy
        self.slo, self.extraction, self.clock, self.version = slo, extraction, clock, version
        self.observer = observer
        self.queue = 0
        self._reader = Reader(model)
        self._pieces: list[Piece] = []  # sorted by due
        self._scheduled = False
        self._joined = self._answered = 0  # since the last work
        self._left: float | None = None  # when that ended, if somebody has been waiting ever since
        self._bounds_of = lru_cache(maxsize=1024)(
            partial(_bounds, model)
        )  # of the model, not of self: no circle
        self._within_reach = lru_cache(maxsize=64)(partial(_within_reach, model))
        # Many rows are cut into pieces, so that one stage, better all stages, of a piece fit into a slice.
        stage = float(np.diff(pace.per_row).max(initial=1e-9))
        fit = int(_SLICE / max(float(pace.per_row[-1]), 1e-9))
        self._piece_rows = max(1, min(int(_SLICE / stage), max(fit, _FEW)))

    # ------------------------------------------------------------------ asking

    async def answer(self, question: Question) -> Served:
        """The best answer that there is time for."""
        if question.raws is not None:
            return [served async for served in self._extracted(question)][-1]
        ticket = self._admit(question)
        ticket.future = asyncio.get_running_loop().create_future()
        self._join(ticket)
        try:
            return await ticket.future
        finally:
            self._forget(ticket)

    async def stream(self, question: Question) -> AsyncIterator[Served]:
        """Every improved answer; the last one has a reason."""
        if question.raws is not None:
            async for served in self._extracted(question, _LOOK):
                yield served
            return
        ticket = self._admit(question)
        ticket.events, ticket.stepwise = asyncio.Queue(), True
        self._join(ticket)
        try:
            while True:
                event = await ticket.events.get()
                if isinstance(event, BaseException):
                    raise event
                yield event
                if event.reason:
                    return
        finally:
            self._forget(ticket)

    async def drain(self) -> None:
        """Wait until nobody waits for an answer."""
        while self.queue:
            await asyncio.sleep(_SLICE)

    async def _extracted(self, question: Question, look: float | None = None) -> AsyncIterator[Served]:
        if self.extraction is None:
            raise ValueError(
                "this server has no extractors, so raw examples cannot be answered; send columns"
            )
        self._bounds_of(question.budget, question.confidence)  # says what is wrong with them
        due = self._due(question) - self.policy.reserve
        self.queue += 1
        try:
            async for served in self.extraction.stream(question, due, self.version, look):
                if served.reason and self.observer is not None:
                    self.observer.answered(served, self.queue - 1)
                yield served
        finally:
            self.queue -= 1

    # ------------------------------------------------------------------ joining and leaving

    def _due(self, question: Question) -> float:
        allowed = np.inf if self.slo is None else self.slo
        if question.deadline is not None:
            if not question.deadline >= 0:
                raise ValueError(
                    f"deadline must be a number of seconds that is not negative, not {question.deadline}"
                )
            allowed = min(allowed, question.deadline)
        return question.arrived + allowed

    def _admit(self, question: Question) -> Ticket:
        """Check a question, and say how far it may go."""
        X = question.X
        if X.ndim != 2 or X.shape[1] != self.model.plan_.n_features or not len(X):
            raise ValueError(
                f"a question is a matrix with {self.model.plan_.n_features} columns and at least one row; "
                f"this one has shape {X.shape}"
            )
        bounds = self._bounds_of(question.budget, question.confidence)
        plan, cap = self.model.plan_, bounds.cap
        if question.held is not None and not question.held.all():
            plan, most = self._within_reach(question.held.tobytes())
            if self._reader.metered:
                most = min(most, self.model.costs_.amount(cap))
            cap = plan.costs.costs.budget_ticks(most)
        return Ticket(question, plan, self._due(question), bounds.until, cap, bounds.reason)

    def _join(self, ticket: Ticket) -> None:
        n, size = len(ticket.question.X), self._piece_rows
        ticket.pieces = [Piece(ticket, start, min(start + size, n)) for start in range(0, n, size)]
        ticket.open = len(ticket.pieces)
        for piece in ticket.pieces:
            insort(self._pieces, piece, key=_BY_DUE)
        self.queue += 1
        self._joined += 1
        self._schedule()

    def _forget(self, ticket: Ticket) -> None:
        """Nobody waits any more: with an answer, or because the one who asked has gone."""
        if ticket.open:
            self._leave([piece for piece in ticket.pieces if piece.part is None])
            ticket.open, ticket.pieces = 0, []
            self.queue -= 1

    def _leave(self, pieces: list[Piece]) -> None:
        gone = set(pieces)
        for cohort in {piece.cohort for piece in pieces if piece.cohort is not None}:
            cohort.release(gone)
        if len(gone) == len(self._pieces):
            self._pieces = []
        else:
            self._pieces = [piece for piece in self._pieces if piece not in gone]

    def _schedule(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    # ------------------------------------------------------------------ working

    def _turn(self) -> None:
        """What the engine does in one turn of the loop: a slice of work, and the answers that are ready."""
        self._scheduled = False
        while self._pieces and not self._slice():
            pass
        if self._pieces:
            self._schedule()
        else:
            self._left = None

    def _slice(self) -> bool:
        """Answer who has come as far as the plan goes; then work for the first who has not. Whether there was work."""
        pieces = self._pieces
        stage, first, lost = self.policy.outlook(self._waiting(), self.pace, self.clock())
        horizon = pieces[first - 1].due
        there = [piece for piece in pieces[:first] if piece.stage >= min(stage, piece.until)]
        if lost:
            there = list(dict.fromkeys([*there, *(pieces[i] for i in lost)]))
        self._settle(there)
        lead = next((piece for piece in self._pieces if piece.stage < min(stage, piece.until)), None)
        if lead is None:
            return False
        cohort = lead.cohort or self._take_up(lead, stage)
        try:
            self._advance(cohort, stage)
        except Exception as error:
            self._fail(cohort, error)
            return True
        ready = [
            piece
            for piece in cohort.pieces
            if piece.stage >= piece.until or (piece.due <= horizon and piece.stage >= stage)
        ]
        self._settle(ready)
        return True

    def _waiting(self) -> Waiting:
        pieces = self._pieces
        return Waiting(
            np.array([piece.due for piece in pieces]),
            np.array([piece.rows for piece in pieces]),
            np.array([piece.stage for piece in pieces]),
            np.array([piece.until for piece in pieces]),
        )

    def _take_up(self, lead: Piece, stage: int) -> Cohort:
        """The first piece and as many after it as fit into a slice."""
        room = self.pace.rows_within(_SLICE, 0, min(stage, lead.until)) - lead.rows
        together = [lead]
        for piece in self._pieces:
            if piece.cohort is None and piece is not lead and piece.until:
                room -= piece.rows
                if room < 0:
                    break
                if piece.ticket.stepwise == lead.ticket.stepwise and piece.ticket.plan is lead.ticket.plan:
                    together.append(piece)
        cohort = Cohort(self._reader, together)
        if self.observer is not None:
            self.observer.evaluated(cohort.rows)
        return cohort

    def _advance(self, cohort: Cohort, stage: int) -> None:
        first, rows = cohort.stage, cohort.rows
        last = self.pace.stage_within(_SLICE, first, stage, rows)
        if cohort.stepwise:
            last = min(last, self.pace.next_checkpoint(first))
        began = self.clock()
        if self._left is not None:  # all that was done since then is what questions take besides their stages
            self.pace.observe_questions((self._joined + self._answered) / 2, began - self._left)
        self._joined = self._answered = 0
        self._compute(cohort, last)
        self._left = self.clock()
        self.pace.observe(first, last, rows, self._left - began)
        if cohort.stepwise:
            for piece in cohort.pieces:
                if piece.ticket.events is not None and piece.stage < piece.until:
                    piece.ticket.reply(self._served(piece.ticket, ""))

    def _compute(self, cohort: Cohort, stage: int) -> None:
        """Work; all that takes time."""
        cohort.advance(stage)

    # ------------------------------------------------------------------ answering

    def _settle(self, pieces: list[Piece]) -> None:
        """What these pieces have now is their answer."""
        if not pieces:
            return
        for piece in pieces:
            piece.part = self._reading(piece)
        self._leave(pieces)
        for piece in pieces:
            ticket = piece.ticket
            ticket.open -= 1
            if not ticket.open:
                self.queue -= 1
                self._answered += 1
                served = self._served(ticket, self._reason(ticket))
                ticket.reply(served)
                ticket.pieces = []  # they hold each other: none is left for the garbage collector to find
                if self.observer is not None:
                    self.observer.answered(served, self.queue)

    def _reading(self, piece: Piece) -> Reading:
        if piece.part is not None:
            return piece.part
        if piece.cohort is not None:
            return piece.cohort.read(piece)
        return self._reader.before_the_first_stage(piece.stop - piece.start, piece.until)

    def _served(self, ticket: Ticket, reason: str) -> Served:
        reading = Reading.joined([self._reading(piece) for piece in ticket.pieces])
        elapsed = self.clock() - ticket.question.arrived
        return Served(
            reading.prediction,
            reading.probabilities,
            reading.cost,
            reading.stage,
            elapsed,
            reading.partial,
            reason,
            self.version,
        )

    def _reason(self, ticket: Ticket) -> str:
        parts = [piece.part for piece in ticket.pieces if piece.part is not None]
        if any(part.partial.any() for part in parts):
            return "deadline"
        return ticket.reason

    def _fail(self, cohort: Cohort, error: Exception) -> None:
        """A stage has raised: that is what all hear who wait for it."""
        for ticket in {piece.ticket for piece in cohort.pieces}:
            ticket.reply(error)
            self._forget(ticket)


def _bounds(model: AnytimeModel, budget: float | None, confidence: float | None) -> Bounds:
    return Bounds.of(model, 0.0, budget=budget, confidence=confidence)


def _within_reach(model: AnytimeModel, held: bytes) -> tuple[Plan, float]:
    return within_reach(model.plan_, np.frombuffer(held, dtype=bool))
