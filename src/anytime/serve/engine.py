"""Answers questions in time: all that wait share what time there is, and every one gets the best answer that fits.

The engine computes on the event loop itself, in slices of about a millisecond: handing a model that answers within microseconds
to a thread would take longer than asking it. Between two slices the loop reads sockets, and new questions join. Questions
that are taken up in the same slice are evaluated together, and its policy says, again for every slice, how far
there is time to go. A quick question that comes while nobody waits is answered at once.
"""

from __future__ import annotations

import asyncio
import copy
import logging
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anytime.answer import Answer
from anytime.costs import UNLIMITED
from anytime.estimator import AnytimeModel
from anytime.runtime.account import Account
from anytime.runtime.bounds import Bounds
from anytime.serve.cohort import Cohort, Piece
from anytime.serve.pace import StagePace
from anytime.serve.policy import Adaptive
from anytime.serve.questions import Question
from anytime.serve.scheduler import SLICE, Queue, Scheduler, slice_of

if TYPE_CHECKING:
    from anytime.serve.board import ModelBoard
    from anytime.serve.sessions import SessionsBeside

_LOOK = 5e-3  # seconds between two looks at what sessions have come to
_FEW = 16  # rows of a piece, if a stage of so many takes no longer than a slice
_AT_ONCE = 2e-4  # seconds of work that wait for nothing: planning them would take as long
_MOST_ACCOUNTS = 64  # mean budgets of which an account is kept

logger = logging.getLogger("anytime.serve")


class Way(NamedTuple):
    """How a branch answers a budget that is known in advance."""

    branch: int
    before: int  # stages of the chain that are done first
    model: AnytimeModel  # whose chain is these stages and then the branch
    queue: Queue  # of the questions that the branch answers


class Ticket:
    """A question under way."""

    def __init__(self, question: Question, due: float, reserve: float, queue: Queue, bounds: Bounds) -> None:
        self.question, self.due, self.reserve, self.queue = question, due, reserve, queue
        self.held: NDArray[np.bool_] | None = None  # groups that the rows have; None: all
        self.until, self.cap, self.reason = bounds.until, bounds.cap, bounds.reason
        self.bounds = bounds
        self.way: Way | None = None  # to a branch; None: along the chain
        self.account: Account | None = None  # which the rows' mean budget goes by
        self.pieces: list[Piece] = []
        self.open = 0  # pieces that have no final answer yet
        self.stepwise = bounds.stepwise
        self.future: asyncio.Future[Answer] | None = None
        self.news: asyncio.Event | None = None  # instead of a future: there is something to read
        self.steps = 0  # of pieces, since the last news
        self.outcome: Answer | BaseException | None = None

    def improved(self) -> None:
        """A piece has come to another checkpoint. That is news once there are as many as pieces: a few for each question."""
        self.steps += 1
        if self.news is not None and self.steps >= len(self.pieces):
            self.steps = 0
            self.news.set()

    def reply(self, outcome: Answer | BaseException) -> None:
        """Hand the answer to the handler that waits for it."""
        if self.news is not None:
            self.outcome = outcome
            self.news.set()
        elif self.future is not None and not self.future.done():
            if isinstance(outcome, BaseException):
                self.future.set_exception(outcome)
            else:
                self.future.set_result(outcome)


class Engine:
    """One model and the questions that wait for it. All calls come from one event loop.

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
    >>> answer = asyncio.run(ask())
    >>> answer.prediction.tolist(), answer.stage.tolist(), answer.reason
    ([0, 0, 1, 1], [5, 5, 5, 5], 'complete')
    """

    def __init__(
        self,
        model: AnytimeModel,
        pace: StagePace,
        policy: Adaptive,
        *,
        # seconds within which every question is to be answered. None: only questions with a deadline are in a
        # hurry
        slo: float | None = None,
        # what answers raw examples: extractors that compute features, or the stages of a structured model
        extraction: SessionsBeside | None = None,
        clock: Callable[[], float] = time.monotonic,
        version: str = "1",
        observer: ModelBoard | None = None,  # records the size of each micro-batch, and every answer
        # what shares the time between the engines of a loop. None: this is the only one
        scheduler: Scheduler | None = None,
    ) -> None:
        if slo is not None and not slo > 0:
            raise ValueError(f"slo must be a positive number of seconds, not {slo}")
        self.model, self.pace, self.policy = model, pace, policy
        self.slo, self.extraction, self.clock, self.version = slo, extraction, clock, version
        self.observer = observer
        self.scheduler = Scheduler() if scheduler is None else scheduler
        self.queue = 0
        self._allowed = np.inf if slo is None else slo
        self._reserve = policy.reserve_of(self._allowed)
        self.slice = slice_of(pace, self._allowed)
        self._small, self._large = Queue(self, pace), Queue(self, pace, large=True)
        self._ways: dict[int, Way] = {}
        # of the model, not of self: no circle
        self._accounts: dict[float, Account] = {}  # of streams of questions, by their mean budget
        self._bounds_of = lru_cache(maxsize=1024)(partial(_bounds, model))
        # Many rows are cut into pieces, so that one stage, better all stages, of a piece fit into a slice.
        stage = float(np.diff(pace.per_row).max(initial=1e-9))
        fit = int(self.slice / max(float(pace.per_row[-1]), 1e-9))
        self._piece_rows = max(1, min(int(self.slice / stage), max(fit, _FEW)))

    @cached_property
    def _lacking(self) -> Queue:
        """Where questions that lack groups wait, at a pace of their own."""
        return Queue(self, copy.deepcopy(self.pace))

    # ------------------------------------------------------------------ asking

    async def answer(self, question: Question) -> Answer:
        """The best answer that there is time for; at once, if no question is waiting and it is quick."""
        if question.raws is not None:
            return [answer async for answer in self._extracted(question)][-1]
        ticket = self._admit(question)
        if self._is_done_at_once(ticket):
            return self._answer_at_once(ticket)
        ticket.future = asyncio.get_running_loop().create_future()
        self._join(ticket)
        try:
            return await ticket.future
        finally:
            self.forget(ticket)

    async def stream(self, question: Question) -> AsyncIterator[Answer]:
        """Improved answers, the newest whenever one is asked for; the last one has a reason."""
        if question.raws is not None:
            async for answer in self._extracted(question, _LOOK):
                yield answer
            return
        ticket = self._admit(question)
        ticket.news, ticket.stepwise = asyncio.Event(), True
        self._join(ticket)
        try:
            while ticket.outcome is None:
                await ticket.news.wait()
                ticket.news.clear()
                if ticket.outcome is None:
                    yield self._read(ticket, "")  # made only now: what has come too quickly is left out
            if isinstance(ticket.outcome, BaseException):
                raise ticket.outcome
            yield ticket.outcome
        finally:
            self.forget(ticket)

    async def drain(self) -> None:
        """Wait until no question is open."""
        while self.queue:
            await asyncio.sleep(SLICE)

    async def _extracted(self, question: Question, look: float | None = None) -> AsyncIterator[Answer]:
        if self.extraction is None:
            raise ValueError(
                "this server has no extractors, so raw examples cannot be answered; send columns"
            )
        account, mean = self._account_of(question)
        self._bounds_of(question.budget, mean, question.confidence)  # says what is wrong with them
        due, reserve = self._due(question)
        bounded = replace(question, mean_budget=mean)
        self.queue += 1
        try:
            async for answer in self.extraction.stream(bounded, due - reserve, look):
                if answer.reason:
                    if account is not None:
                        account.note(float(np.sum(answer.cost)), len(answer.cost))
                    self._tell("answered", answer, self.queue - 1)
                yield answer
        finally:
            self.queue -= 1

    # ------------------------------------------------------------------ joining and leaving

    def _due(self, question: Question) -> tuple[float, float]:
        """When the answer is due, and how many seconds before that there is no more time for stages."""
        came, caution = self.scheduler.came(question.arrived), self.scheduler.caution
        if question.deadline is None:
            return came + self._allowed, caution.of(self._reserve, self._allowed)
        if not question.deadline >= 0:
            raise ValueError(f"deadline must be a non-negative number of seconds, not {question.deadline}")
        allowed = min(self._allowed, question.deadline)
        return came + allowed, caution.of(self.policy.reserve_of(allowed), allowed)

    def _admit(self, question: Question) -> Ticket:
        """Check a question, and say how far it may go."""
        X = question.X
        if X.ndim != 2 or X.shape[1] != self.model.plan_.n_features or not len(X):
            raise ValueError(
                f"a question is a matrix with {self.model.plan_.n_features} columns and at least one row; "
                f"this one has shape {X.shape}"
            )
        account, mean = self._account_of(question)
        bounds = self._bounds_of(question.budget, mean, question.confidence)
        queue = self._small if len(X) <= self._piece_rows else self._large
        ticket = Ticket(question, *self._due(question), queue, bounds)
        ticket.account = account
        if question.held is not None and not question.held.all():
            ticket.queue, ticket.held = self._lacking, question.held
        if (way := self._way(question, mean)) is not None:
            ticket.way, ticket.queue, ticket.until = way, way.queue, way.model.plan_.n_stages
            best = self.model.plan_.choice(UNLIMITED).branch
            ticket.reason = "complete" if way.branch == best else "budget"
        return ticket

    def _account_of(self, question: Question) -> tuple[Account | None, float | None]:
        """The account of all questions with this mean budget, and what it allows this one; None: no bound, or no sense in one."""
        mean = question.mean_budget
        if mean is None or not 0.0 <= mean < np.inf:
            return None, mean
        if mean not in self._accounts and len(self._accounts) >= _MOST_ACCOUNTS:
            self._accounts.pop(next(iter(self._accounts)))
        account = self._accounts.setdefault(mean, Account(mean))
        return account, account.allowance(self.model.plan_.least_mean_cost)

    def _way(self, question: Question, mean: float | None) -> Way | None:
        """The way to the branch that answers a budget or a ``mean`` one, where nothing else is asked; None: along the chain."""
        if question.deadline is not None or question.confidence is not None:
            return None
        choice = self.model._known_choice(question.held, question.budget, mean, np.inf, None)
        if choice is None or choice.branch < 0:
            return None
        plan, branch = self.model.plan_, int(choice.branch)
        before = plan.stages_before(branch)
        if branch not in self._ways:
            model = copy.copy(self.model)
            model.plan_ = plan.by_way_of(branch, before)
            queue = Queue(self, self.pace.by_way_of(before, plan.branches[branch].n_stages))
            self._ways[branch] = Way(branch, before, model, queue)
        return self._ways[branch]

    def _join(self, ticket: Ticket) -> None:
        n, size = len(ticket.question.X), self._piece_rows
        ticket.pieces = [Piece(ticket, start, min(start + size, n)) for start in range(0, n, size)]
        ticket.open = len(ticket.pieces)
        self.queue += 1
        self.scheduler.join(ticket.queue, ticket.pieces)

    def forget(self, ticket: Ticket) -> None:
        """The question is closed: it has its answer, or its client has left."""
        if ticket.open:
            pieces = [piece for piece in ticket.pieces if piece.part is None]
            ticket.open, ticket.pieces = 0, []
            self.queue -= 1
            self.scheduler.leave(ticket.queue, pieces)

    # ------------------------------------------------------------------ without waiting

    def _is_done_at_once(self, ticket: Ticket) -> bool:
        """Whether a question comes alone and needs so little that there is nothing to plan."""
        if not self.scheduler.rests or ticket.stepwise or ticket.queue is not self._small or not ticket.until:
            return False
        work = self.pace.seconds(0, ticket.until, len(ticket.question.X))
        done = self.clock() + work + self.pace.per_question
        return work <= _AT_ONCE and self.policy.needs_no_plan(done, ticket.due - ticket.reserve)

    def _answer_at_once(self, ticket: Ticket) -> Answer:
        piece = Piece(ticket, 0, len(ticket.question.X))
        ticket.pieces = [piece]
        try:
            cohort = self.begin(ticket.pieces)
            self.scheduler.at_once(ticket.queue, cohort, ticket.until)
            piece.part = cohort.read(piece)
            answer = self._read(ticket, self._reason(ticket))
        finally:  # they hold each other: none is left for the garbage collector
            piece.cohort, ticket.pieces = None, []
        self._tell("answered", answer, self.queue)
        return answer

    # ------------------------------------------------------------------ working: for the scheduler

    def begin(self, pieces: list[Piece]) -> Cohort:
        """Take pieces up together."""
        way = pieces[0].ticket.way
        cohort = Cohort(self.model if way is None else way.model, pieces)
        self._tell("evaluated", cohort.rows)
        return cohort

    def _compute(self, cohort: Cohort, stage: int) -> None:
        """Work; all that takes time."""
        cohort.advance(stage)

    def settle(self, queue: Queue, pieces: list[Piece]) -> None:
        """What these pieces have now is their answer."""
        if not pieces:
            return
        parts = [self._reading(piece) for piece in pieces]
        for piece, part in zip(pieces, parts, strict=True):
            piece.part = part
        self.scheduler.leave(queue, pieces)
        for piece in pieces:
            ticket = piece.ticket
            ticket.open -= 1
            if not ticket.open:
                self.queue -= 1
                self.scheduler.answered += 1
                self._answer(ticket)

    def _answer(self, ticket: Ticket) -> None:
        try:
            answer = self._read(ticket, self._reason(ticket))
        except Exception as error:
            ticket.reply(error)
            return
        finally:
            ticket.pieces = []  # they hold each other: none is left for the garbage collector to find
        ticket.reply(answer)
        self._tell("answered", answer, self.queue)

    def _tell(self, what: str, *of: Any) -> None:
        """Let the observer know; an error of its own is no error of an answer."""
        if self.observer is not None:
            try:
                getattr(self.observer, what)(*of)
            except Exception:
                logger.exception(
                    "the observer of a model has failed", extra={"fields": {"version": self.version}}
                )

    # ------------------------------------------------------------------ answering

    def _reading(self, piece: Piece) -> Answer:
        if piece.part is not None:
            return piece.part
        if piece.cohort is not None:
            return piece.cohort.read(piece)
        nothing = np.zeros(piece.stop - piece.start, dtype=np.int32)
        paid = nothing if self.model.meter == "realised" else None
        scores = np.repeat(self.model.plan_.base[None], nothing.size, axis=0)
        way = piece.ticket.way
        model = self.model if way is None else way.model
        return model._answer(scores, nothing, paid, partial=nothing < piece.until)

    def _read(self, ticket: Ticket, reason: str) -> Answer:
        """The answer to a question now; the reason is empty while work continues."""
        answer = Answer.joined(
            [self._reading(piece) for piece in ticket.pieces],
            elapsed=self.clock() - ticket.question.arrived,
            reason=reason,
            finished=reason == "complete",
        )
        if reason and ticket.account is not None:
            ticket.account.note(float(np.sum(answer.cost)), len(ticket.question.X))
        way = ticket.way
        return answer if way is None else answer.on_the_way(self.model.plan_, way.branch, way.before)

    def _reason(self, ticket: Ticket) -> str:
        parts = [piece.part for piece in ticket.pieces if piece.part is not None]
        if any(np.count_nonzero(part.partial) for part in parts):
            return "deadline"
        return ticket.reason


def _bounds(
    model: AnytimeModel, budget: float | None, mean_budget: float | None, confidence: float | None
) -> Bounds:
    return Bounds.of(model, 0.0, budget=budget, mean_budget=mean_budget, confidence=confidence)
