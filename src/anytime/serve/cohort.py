"""Rows of several questions that are evaluated together, stage by stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from anytime.answer import Answer
from anytime.costs import UNLIMITED
from anytime.engine import Run
from anytime.estimator import AnytimeModel
from anytime.forest_run import ForestRun, start
from anytime.losses import LINKS
from anytime.runtime.bounds import Bounds

if TYPE_CHECKING:
    from anytime.serve.engine import Ticket

_LOOK_AHEAD = 64  # stages whose confidence is worked out at once


class Piece:
    """Some rows of a question: all of them, unless they are many. What the engine plans with."""

    def __init__(self, ticket: Ticket, start: int, stop: int) -> None:
        self.ticket, self.start, self.stop = ticket, start, stop
        # when the answer is due, how many seconds of that are not for stages, and so when these have to be done
        self.due, self.reserve, self.finish = ticket.due, ticket.reserve, ticket.due - ticket.reserve
        # rows that are not yet at their end, stages that those have done, and the last that one of them wants
        self.rows, self.stage, self.until = stop - start, 0, ticket.until
        self.cohort: Cohort | None = None  # None: not taken up yet
        self.offset = 0
        self.part: Answer | None = None  # the final answers, once there are any


class Cohort:
    """Pieces of one plan that have been taken up together.

    What each row pays is counted where budgets are counted by it (``meter="realised"``). Else an answer has the cost of its
    stages, fixed at training, which is what a budget is compared with.
    """

    def __init__(self, model: AnytimeModel, pieces: list[Piece]) -> None:
        self.pieces, self._answer = pieces, model._answer
        plan, self._metered = model.plan_, model.meter == "realised"
        parts = [piece.ticket.question.X[piece.start : piece.stop] for piece in pieces]
        X = parts[0] if len(parts) == 1 else np.concatenate(parts)
        sizes, wanted = [piece.rows for piece in pieces], [piece.until for piece in pieces]
        alike = len(pieces) == 1 or min(wanted) == max(wanted)
        if alike:
            self.until = np.empty(len(X), dtype=np.int32)
            self.until.fill(wanted[0])
        else:
            self.until = np.repeat(np.array(wanted, dtype=np.int32), sizes)
        held, caps = pieces[0].ticket.held, [piece.ticket.cap for piece in pieces]
        capped = self._metered and min(caps) < UNLIMITED
        self.progress = start(plan, X, metered=self._metered, held=held)
        self._caps = np.repeat(np.array(caps, dtype=np.int64), sizes) if capped else UNLIMITED
        offset = 0
        for piece in pieces:
            piece.cohort, piece.offset = self, offset
            offset += piece.rows
        self.stepwise = any(piece.ticket.stepwise for piece in pieces)
        self.asks_every_stage = any(piece.ticket.bounds.stepwise for piece in pieces)
        self.stage, self.rows = 0, len(X)
        # every row reaches its own last stage
        steady = not capped and held is None and not plan.stops
        self._common = wanted[0] if alike and steady and not self.stepwise else None
        self._reading: Answer | None = None
        # (n,): the stage after which each row should be sure enough, as far as was looked ahead
        self._sure_after, self._looked_to = np.zeros(len(X), dtype=np.int64), 0
        if self.asks_every_stage:  # also before the first, as sessions do
            self._let_sure_rows_leave()
            self._count_rows_that_go_on()

    def next_question(self) -> int:
        """The next stage after which a row may be sure enough to leave: where stages of trees can be looked ahead, not each."""
        if not isinstance(self.progress, ForestRun) or any(
            p.ticket.bounds.margins is not None for p in self.pieces
        ):
            return self.stage + 1
        if self.stage >= self._looked_to:
            self._look_ahead(self.progress)
        waiting = self._sure_after[(self.until > self.progress.done) & (self._sure_after > self.stage)]
        return int(waiting.min(initial=self._looked_to))

    def _look_ahead(self, progress: ForestRun) -> None:
        end = min(int(self.until.max()), self.stage + _LOOK_AHEAD)
        enough = np.full(len(self.until), np.inf)
        for piece in self.pieces:
            if piece.ticket.bounds.confidence is not None and piece.part is None:
                enough[piece.offset : piece.offset + piece.stop - piece.start] = (
                    piece.ticket.bounds.confidence
                )
        rows = np.flatnonzero((enough < np.inf) & (self.until > progress.done))
        scores, stages = progress.scores_ahead(rows, self.stage, end), np.arange(self.stage + 1, end + 1)
        likely = progress.plan.probabilities(
            scores.reshape(-1, scores.shape[2]), np.repeat(stages, rows.size)
        )
        sure = likely.max(axis=1).reshape(stages.size, rows.size) >= enough[rows]
        self._sure_after[rows] = np.where(sure.any(axis=0), stages[sure.argmax(axis=0)], end)
        self._looked_to = end

    def advance(self, stage: int) -> None:
        """Take all rows that want it to ``stage``."""
        self._reading = None
        if self._common is not None:
            self._advance_alike(min(stage, self._common), self._common)
            return
        done, limit = self.progress.done, np.minimum(self.until, np.int32(stage))
        self.progress.advance(np.maximum(limit, done), budget=self._caps)
        behind = done < limit
        if behind.any():  # a gate has released them, or they have no money left
            self.until[behind] = done[behind]
            # rows at the plan's own limit are complete
            short = self._caps < self.progress.plan.limit_ticks
            self._note(behind & ~self.progress.finished & short, "budget")
        if self.stepwise:
            self._let_sure_rows_leave()
        if isinstance(self.progress, Run):
            self._note(self.progress.incomplete, "groups")
        self.stage = stage
        self._count_rows_that_go_on()

    def _count_rows_that_go_on(self) -> None:
        done = self.progress.done
        active = self.until > done
        self.rows = int(np.count_nonzero(active))
        if self.rows:
            self.stage = int(done[active].min())
        # all are equally far, as they are mostly
        if self.rows == len(done) and int(done.max()) == self.stage:
            for piece in self.pieces:
                piece.stage = self.stage
            return
        for piece in self.pieces:
            rows = slice(piece.offset, piece.offset + piece.stop - piece.start)
            here = active[rows]
            piece.rows = int(np.count_nonzero(here)) if self.rows else 0
            if piece.rows:
                piece.stage, piece.until = int(done[rows][here].min()), int(self.until[rows][here].max())
            else:
                piece.stage = piece.until

    def _advance_alike(self, stage: int, last: int) -> None:
        """The same for rows that stay together up to their ``last`` stage."""
        if stage > self.stage:
            limit = np.empty(len(self.until), dtype=np.int32)
            limit.fill(stage)
            self.progress.advance(limit, budget=self._caps)
            self.stage = stage
        if self.stage >= last:
            self.rows = 0
        for piece in self.pieces:
            piece.stage = self.stage
            if not self.rows:
                piece.rows = 0

    def _let_sure_rows_leave(self) -> None:
        """Rows whose leading class is as likely as was asked for, or far enough ahead for the mean budget, go no further."""
        done = self.progress.done
        for piece in self.pieces:
            bounds = piece.ticket.bounds
            if not bounds.stepwise or piece.part is not None:
                continue
            rows = slice(piece.offset, piece.offset + piece.stop - piece.start)
            for reason, sure in (
                ("budget", self._have_margin(bounds, rows)),
                ("confidence", self._are_likely(piece)),
            ):
                sure &= done[rows] < self.until[rows]
                if sure.any():
                    piece.ticket.reason = reason
                    self.until[rows][sure] = done[rows][sure]
                    self._reading = None

    def _are_likely(self, piece: Piece) -> NDArray[np.bool_]:
        confidence, probabilities = piece.ticket.bounds.confidence, self.read(piece).probabilities
        if confidence is None or probabilities is None:
            return np.zeros(piece.stop - piece.start, dtype=bool)
        return np.asarray(probabilities.max(axis=1) >= confidence)

    def _have_margin(self, bounds: Bounds, rows: slice) -> NDArray[np.bool_]:
        if bounds.margins is None:
            return np.zeros(rows.stop - rows.start, dtype=bool)
        progress = self.progress
        answered = progress.answered if isinstance(progress, Run) else progress.done
        return bounds.has_margin(progress.scores()[rows], answered[rows], LINKS[self.progress.plan.link])

    def _note(self, rows: NDArray[np.bool_], reason: str) -> None:
        """Why some rows have come to their end."""
        for piece in self.pieces if rows.any() else ():
            confident = piece.ticket.reason == "confidence"
            if not confident and rows[piece.offset : piece.offset + piece.stop - piece.start].any():
                piece.ticket.reason = reason

    def release(self, pieces: set[Piece]) -> None:
        """No more work for some pieces."""
        if len(pieces) >= len(self.pieces) and pieces.issuperset(self.pieces):
            self.pieces = []
            return
        self._common = None
        released = [piece for piece in self.pieces if piece in pieces]
        self.pieces = [piece for piece in self.pieces if piece not in pieces]
        for piece in released:
            rows = slice(piece.offset, piece.offset + piece.stop - piece.start)
            self.until[rows] = np.minimum(self.until[rows], self.progress.done[rows])
        active = self.until > self.progress.done
        self.rows = int(np.count_nonzero(active))
        self.stage = int(self.progress.done[active].min(initial=self.stage if not self.rows else 1 << 30))

    def read(self, piece: Piece) -> Answer:
        """The answers of a piece now."""
        if self._reading is None:
            progress = self.progress
            stage = progress.answered if isinstance(progress, Run) else progress.done.copy()
            partial = self.until > progress.done
            paid = bought = None
            if self._metered and progress.ledger is not None:
                paid, bought = progress.ledger.paid, progress.ledger.bought
            self._reading = self._answer(progress.scores(), stage, paid, bought, partial=partial)
            if len(self.until) > piece.stop - piece.start:
                self._reading.work_out()
        if len(self.until) == piece.stop - piece.start:
            return self._reading
        return self._reading.rows(slice(piece.offset, piece.offset + piece.stop - piece.start))
