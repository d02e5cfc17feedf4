"""Rows of several questions that are evaluated together, stage by stage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from anytime.costs import UNLIMITED
from anytime.engine import Run
from anytime.estimator import AnytimeModel
from anytime.forest_run import start
from anytime.losses import LINKS
from anytime.plan import Array
from anytime.runtime.bounds import Bounds
from anytime.serve.questions import Served

if TYPE_CHECKING:
    from anytime.serve.engine import Ticket

__all__ = ["Cohort", "Piece", "Reader"]


class Reader:
    """Turns scores into answers.

    Parameters
    ----------
    model : fitted AnytimeModel

    Notes
    -----
    The cost of a row is what it has paid where budgets are counted by that (``meter="realised"``); else
    the cost of its stages, fixed at training, which is what a budget is compared with.
    """

    def __init__(self, model: AnytimeModel) -> None:
        self.model, self.plan = model, model.plan_
        self.metered = model.meter == "realised"  # it is counted what each row pays
        self._stage_costs = model._model_costs()
        self._first: Served | None = None

    def read(
        self,
        scores: Array,
        stage: NDArray[np.int32],
        paid: Array | None,
        partial: NDArray[np.bool_],
    ) -> Served:
        """The answers that ``scores`` are."""
        cost = paid if paid is not None and self.metered else self._stage_costs[stage]
        return Served(*self.model._told(scores), cost, stage, partial)

    def before_the_first_stage(self, n: int, until: int) -> Served:
        """What is known of any row."""
        if self._first is None:
            nothing = np.zeros(1, dtype=np.int32)
            self._first = self.read(self.plan.base[None, :], nothing, None, nothing > 0)
        columns = (None if column is None else np.repeat(column, n, axis=0) for column in self._first[:5])
        return Served(*columns)._replace(partial=np.full(n, until > 0))  # type: ignore[arg-type]


class Piece:
    """Some rows of a question: all of them, unless they are many. What the engine plans with.

    Attributes
    ----------
    due, reserve, finish : float
        When the answer is due, how many seconds of that are not for stages, and so when these have to be done.
    rows : int
        Rows that are not yet at their end.
    stage, until : int
        Stages that those have done, and the last that one of them wants.
    cohort : Cohort or None
        None: not taken up yet.
    part : Served or None
        The final answers, once there are any.
    """

    def __init__(self, ticket: Ticket, start: int, stop: int) -> None:
        self.ticket, self.start, self.stop = ticket, start, stop
        self.due, self.reserve, self.finish = ticket.due, ticket.reserve, ticket.due - ticket.reserve
        self.rows, self.stage, self.until = stop - start, 0, ticket.until
        self.cohort: Cohort | None = None
        self.offset = 0
        self.part: Served | None = None


class Cohort:
    """Pieces that have been taken up together.

    Parameters
    ----------
    reader : Reader
    pieces : list of Piece
        All of one plan.
    """

    def __init__(self, reader: Reader, pieces: list[Piece]) -> None:
        self.reader, self.pieces = reader, pieces
        parts = [piece.ticket.question.X[piece.start : piece.stop] for piece in pieces]
        X = parts[0] if len(parts) == 1 else np.concatenate(parts)
        sizes, wanted = [piece.rows for piece in pieces], [piece.until for piece in pieces]
        alike = len(pieces) == 1 or min(wanted) == max(wanted)
        if alike:
            self.until = np.empty(len(X), dtype=np.int32)
            self.until.fill(wanted[0])
        else:
            self.until = np.repeat(np.array(wanted, dtype=np.int32), sizes)
        held, caps = pieces[0].ticket.held, None
        if reader.metered:
            caps = np.repeat(np.array([piece.ticket.cap for piece in pieces], dtype=np.int64), sizes)
            caps = None if caps.min() >= UNLIMITED else caps
        self.progress = start(reader.plan, X, metered=reader.metered, held=held)
        self._caps = UNLIMITED if caps is None else caps
        offset = 0
        for piece in pieces:
            piece.cohort, piece.offset = self, offset
            offset += piece.rows
        self.stepwise = any(piece.ticket.stepwise for piece in pieces)
        self.asks_every_stage = any(piece.ticket.bounds.margins is not None for piece in pieces)
        self.stage, self.rows = 0, len(X)
        # every row comes as far as it is told to
        steady = caps is None and held is None and not reader.plan.stops
        self._common = wanted[0] if alike and steady and not self.stepwise else None
        self._reading: Served | None = None

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
            self._note(behind & ~self.progress.finished, "budget")
        if isinstance(self.progress, Run):
            self._note(self.progress.incomplete & ~self.progress.finished, "groups")
        if self.stepwise:
            self._let_sure_rows_leave()
        active = self.until > done
        self.rows = int(np.count_nonzero(active))
        self.stage = int(done[active].min()) if self.rows else stage
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
        return bounds.has_margin(progress.scores()[rows], answered[rows], LINKS[self.reader.plan.link])

    def _note(self, rows: NDArray[np.bool_], reason: str) -> None:
        """Why some rows have come to their end."""
        for piece in self.pieces if rows.any() else ():
            if rows[piece.offset : piece.offset + piece.stop - piece.start].any():
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

    def read(self, piece: Piece) -> Served:
        """The answers of a piece now."""
        if self._reading is None:
            progress = self.progress
            done = progress.done.copy()
            ticks = progress.paid
            paid = None if ticks is None else self.reader.plan.costs.costs.amounts(ticks)
            stage = progress.answered if isinstance(progress, Run) else done
            self._reading = self.reader.read(progress.scores(), stage, paid, self.until > done)
        if len(self._reading.stage) == piece.stop - piece.start:
            return self._reading
        return self._reading.rows(piece.offset, piece.offset + piece.stop - piece.start)
