"""Runs a plan over the rows of a matrix, as far as a budget, a deadline or an interrupt allows.

A ``Run`` remembers how far each row has come and can be continued at any time: interrupt-then-resume gives the same bits as
an uninterrupted run. Work is done stage by stage over all rows (stage-major), so that whenever it stops every row has
the answer of a complete prefix. Forest blocks run natively, without the GIL; other blocks run in chunks of about a millisecond.
"""

import time
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray

from anytime._native import row_products
from anytime.blocks import Block, Memory
from anytime.costs import UNLIMITED, Ledger
from anytime.losses import LINKS
from anytime.mixed_ledger import MixedLedger
from anytime.plan import Array, Plan
from anytime.ragged import Ragged, zeros_for

# what a run knows of each row, besides what its blocks do
_PER_ROW = ("done", "finished", "_applied", "_rebased", "_sum", "unasked", "_jumped_from")
_SLICE = 1e-3  # seconds of work of a stage in Python between two looks at the clock or the stop flag
_PATIENCE = 0.02  # share of the time that is left which a slice may take, where no stop flag is listened to
_SURE = 4  # times as long as is likely: a stage that has so much time needs no answer before it
_SHORTEST = 1e-9  # seconds: what took less than the clock can tell
_TELLING = 1e-4  # seconds from the last stage to the answer: scores are written down, read and decided on


class Stop(Protocol):
    """What may interrupt a run: ``threading.Event``, ``anytime.StopFlag``, or anything with ``is_set``."""

    def is_set(self) -> bool:
        """Whether the run shall stop."""


def combined(total: Any, count: Any, base: Any, mean: bool) -> Any:
    """Scores that follow from the sum of what stages have added: the one place where stages are combined.

    ``total`` is the sum of the ``count`` stages since the last that replaced the answer, of (n, K) rows or of one, and ``base``
    the scores to which they add: zero where a stage has replaced the answer.
    """
    if not mean:
        return base + total
    if isinstance(count, int):
        return total / count if count else base
    return np.where(count > 0, total / np.maximum(count, 1), base)


class Run:
    """Progress of one plan over the rows of one matrix."""

    def __init__(
        self,
        plan: Plan,
        # (n, d), C order: only columns of groups that a stage may use are read. Or examples of many elements
        # each, which have ``offsets`` and are taken by their numbers: scores are then ``Ragged``
        X: Array,
        *,
        # keep a ledger of what each row pays. Needed for budgets by realised cost; a little slower
        metered: bool = False,
        threads: int = 1,
        # (G,): groups that the rows have; None: all, or those that examples of many elements have. A stage that
        # would read another of a row is left out for it, and nothing of it is paid (see ``anytime.rows``). Keeps a ledger
        held: NDArray[np.bool_] | None = None,
    ) -> None:
        n = len(X)
        self.plan, self.X, self.threads = plan, X, threads
        self.done = np.zeros(n, dtype=np.int32)  # (n,): stages behind each row: completed, or left out
        # (n,): rows that a stopping rule has released: they need no further stage
        self.finished = np.zeros(n, dtype=bool)
        # (G,): groups that the rows lack; (n, G): those that each of them lacks
        self.absent = _lacked(plan, X) if held is None else None if held.all() else ~held
        self.ledger: Ledger | None = None
        if self.absent is not None and self.absent.ndim == 2:
            # rows of forests, whose native code wants a plain ledger, lack the same groups
            self.ledger = cast(Ledger, MixedLedger(plan.costs, self.absent))
        elif metered or self.absent is not None:
            self.ledger = plan.costs.ledger(n, self.absent)
        # (n,) each: rows for which a stage was left out, or which had to end before one, for lack of a group, and
        # those of them that cannot continue without it
        self.incomplete, self.stuck = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
        # (n,): rows that the last call of ``advance`` was interrupted in taking further
        self.partial = np.zeros(n, dtype=bool)
        # the last stages left out: from where, to where
        self._went_around = np.full((2, n), -1, dtype=np.int32)
        # stages in the answer: done, less skipped and replaced ones
        self._applied = np.zeros(n, dtype=np.int32)
        self._rebased = np.zeros(n, dtype=bool)  # rows whose answer a stage has replaced, base included
        self._sum: Any = zeros_for(X, plan.n_outputs)
        self._trees: dict[int, NDArray[np.int64]] = {}  # fixed-point sums of the forest blocks
        self._history = None if plan.weights is None else np.zeros((n, int(plan.output_start[-1])))
        self.at_limit = np.zeros(n, dtype=bool)  # rows that the plan's own limit has stopped
        # (n,): rows that could not pay for the stopping rule of their last stage: they go on when it was asked
        self.unasked = np.zeros(n, dtype=bool)
        self._memory: dict[int, Memory] = {}  # what the blocks that remember know of each row
        self._jumped_from = np.full(n, -1, dtype=np.int32)  # where rows were before they jumped over stages
        # seconds per row that each stage just took, for so many rows
        self._pace: dict[int, tuple[float, int]] = {}
        self.updates = np.zeros(plan.n_stages, dtype=np.int64)  # (S,): rows that each stage has worked on

    # ------------------------------------------------------------------ a run within a run

    def memory(self) -> Memory:
        """All that is known of each row of a run without a ledger, by name; it changes as the run goes on."""
        own: Memory = {name: getattr(self, name) for name in _PER_ROW}
        if self._history is not None:
            own["_history"] = self._history
        for b, block in enumerate(self.plan.blocks):
            if block.forest is not None:
                own[f"trees {b}"] = self._tree_sums(b)
            own |= {f"block {b} {name}": array for name, array in self.memory_of(b).items()}
        return own

    def recall(self, memory: Memory) -> None:
        """Go on from what another run of the same plan knew of the same rows, and change it in place."""
        for name, array in memory.items():
            kind, _, rest = name.partition(" ")
            if kind == "trees":
                self._trees[int(rest)] = array
            elif kind == "block":
                b, _, inner = rest.partition(" ")
                self._memory.setdefault(int(b), {})[inner] = array
            else:
                setattr(self, name, array)

    # ------------------------------------------------------------------ going on

    def advance(
        self,
        # the stage to stop after, for all rows or for each. None: the last
        until: NDArray[np.integer[Any]] | int | None = None,
        *,
        # realised cost, in ticks, that a row may reach. Needs ``metered=True``
        budget: NDArray[np.int64] | int = UNLIMITED,
        deadline: float = np.inf,  # on the clock of ``time.monotonic()``
        stop: Stop | None = None,
    ) -> bool:
        """Continue; return whether every row got as far as it may."""
        if self.ledger is None and np.min(budget, initial=UNLIMITED) < UNLIMITED:
            raise ValueError("a budget by realised cost needs a ledger: Run(..., metered=True)")
        n = len(self.X)
        # np.full: np.broadcast_to takes several times as long on one row
        goals = np.full(n, self.plan.n_stages if until is None else until, dtype=np.int64)
        limit = np.minimum(goals, self.plan.n_stages).astype(np.int32)
        limit = np.where(self.finished, self.done, limit)
        cap = np.minimum(np.full(n, budget, dtype=np.int64), self.plan.limit_ticks)
        if self.ledger is None and np.isinf(deadline) and stop is None:
            self._jump(self.plan.fresh_start[limit])
        self.stuck, self.partial = np.zeros(n, dtype=bool), np.zeros(n, dtype=bool)
        if (limit > self.done).any() and interrupted(deadline, stop):
            self.partial = limit > self.done
            return False
        if deadline < np.inf and self._may_leave_out_stages(limit, stop):
            return self._run_in_time(int(limit[0]), cap, deadline)
        self.bound(cap, self.absent)
        self.ask_again(limit, cap)
        for b, first in enumerate(self.plan.block_start[:-1]):
            if not (limit > first).any():
                break
            run_block = self.run_natively if self.is_native(b) else self._run_staged
            if not run_block(b, limit, cap, deadline, stop):
                self.partial = limit > self.done
                return False
        return True

    def bound(self, cap: NDArray[np.int64], absent: NDArray[np.bool_] | None) -> None:
        """Tell blocks whose stages depend on it what rows may have paid in all, (n,) ticks, and what they lack."""
        for b in self.plan.bounded_blocks:
            self.plan.blocks[b].bound(self.memory_of(b), cap, absent)

    def leave_out(self, s: int, rows: NDArray[np.intp], limit: NDArray[np.int32]) -> None:
        """Rows lack a group that stage ``s`` would read: they go on behind it, or end there where nothing after it can be had."""
        if not rows.size:
            return
        to = self.plan.stage_after_leaving_out(s)
        self.incomplete[rows], self.stuck[rows] = True, to == s
        self.pass_by(rows, s, to)
        limit[rows] = to if to == s else np.maximum(limit[rows], to)

    def pass_by(self, rows: NDArray[np.intp], start: NDArray[np.int32] | int, to: Any) -> None:
        """Take rows past stages from ``start`` to ``to``, which do not become part of their answers."""
        self.done[rows] = to
        fresh = self._went_around[1, rows] != start
        self._went_around[0, rows] = np.where(fresh, start, self._went_around[0, rows])
        self._went_around[1, rows] = to

    def _jump(self, to: NDArray[np.int32]) -> None:
        """Nobody reads or pays on the way, so what a later stage would replace need not be computed."""
        ahead = to > self.done
        started = ahead & (self._jumped_from < 0)
        self._jumped_from[started] = self.done[started]
        self.done[ahead] = to[ahead]

    def _may_leave_out_stages(self, limit: NDArray[np.int32], stop: Stop | None) -> bool:
        """Whether a run that knows its end may choose among the stages ahead: nobody pays, and all rows stand together."""
        return (
            self.ledger is None
            and stop is None
            and self.plan.stages_stand_alone
            and limit.size > 0
            and bool((limit == limit[0]).all() and (self.done == self.done[0]).all())
        )

    def _run_in_time(self, goal: int, cap: NDArray[np.int64], deadline: float) -> bool:
        """Straight to the last stage that surely ends in time, and on from there; the first before it, unless time is plenty.

        Stages replace each other, so that those on the way would be lost work. How long they take, the plan has learned from
        earlier runs, or expects; what takes longer now makes all that follow seem as much slower.
        """
        plan, n, slower = self.plan, len(self.X), 1.0
        while (done := int(self.done[0])) < goal:
            left = (deadline - _TELLING - time.monotonic()) / slower
            s = plan.last_in_time(done, goal, n, left)
            if done == 0 and plan.likely_seconds(s, n) * _SURE > left:
                s = 0
            self._jump(np.full(n, s, dtype=np.int32))
            likely, began = plan.likely_seconds(s, n), time.monotonic()
            if not self._run_staged(
                plan.locate(s)[0], np.full(n, s + 1, dtype=np.int32), cap, deadline, None
            ):
                # else the next call would believe in the same jump
                if reached := np.count_nonzero(self.done > s):
                    plan.note_pace(s, n, (time.monotonic() - began) * n / reached)
                waiting = np.flatnonzero(self._jumped_from >= 0)
                self.done[waiting] = self._jumped_from[waiting]
                self._jumped_from[waiting] = -1
                self.partial = self.done < goal
                return False
            taken = max(time.monotonic() - began, _SHORTEST)
            plan.note_pace(s, n, taken)
            slower = max(1.0, taken / likely) if likely else 1.0
        return True

    def is_native(self, b: int) -> bool:
        """Whether block ``b`` is a forest, without rules but filters on margins, to be run in one native call."""
        plan, first, last = self.plan, *self.plan.block_start[b : b + 2]
        if plan.blocks[b].forest is None or plan.weights is not None:
            return False
        if plan.replaces is not None and np.any(plan.replaces[first:last]):
            return False
        return not plan.has_rules(b) or (plan.combine == "sum" and plan.margin_filters[b] is not None)

    def run_natively(
        self, b: int, limit: NDArray[np.int32], cap: NDArray[np.int64], deadline: float, stop: Stop | None
    ) -> bool:
        """Take the rows that have reached block ``b`` through it, each to its ``limit``; ``limit`` falls where money ends."""
        first, last = self.plan.block_start[b : b + 2]
        # minimum and maximum: np.clip takes several times as long on the one row of a session
        reached = np.minimum(np.maximum(self.done - first, 0), last - first)
        may = np.where(
            self.done >= first, np.minimum(np.maximum(limit - first, reached), last - first), reached
        )
        before, answered, sums = reached.copy(), reached, self._tree_sums(b)
        if self.plan.has_rules(b) or self.absent is not None:
            answered = reached.copy()
            over = self._run_filtered(b, sums, self._applied, answered, reached, may, cap, deadline, stop)
        else:
            over = self._run_forest(b, sums, reached, may, cap, deadline, stop)
            self._applied += reached - before
            # a stage has worked on all rows that were not beyond it and now are
            size = last - first + 1
            entered = np.bincount(before, minlength=size) - np.bincount(reached, minlength=size)
            self.updates[first:last] += np.cumsum(entered)[:-1]
        self.done += reached - before
        if self.absent is not None:
            rows = np.flatnonzero(reached > answered)
            self.pass_by(rows, answered[rows] + first, reached[rows] + first)
        if over and self.ledger is not None:  # not interrupted, so whoever is behind ran out of money
            self._halt(np.flatnonzero(reached < may), limit, cap)
        return over

    def _run_forest(
        self,
        b: int,
        sums: NDArray[np.int64],
        reached: NDArray[np.int32],
        may: NDArray[np.int32],
        cap: NDArray[np.int64],
        deadline: float,
        stop: Stop | None,
    ) -> bool:
        forest = self.plan.blocks[b].forest
        assert forest is not None
        if self.ledger is None:
            return forest.run(self.X, sums, reached, may, deadline, stop, self.threads)
        first, last = self.plan.block_start[b : b + 2]
        price = self.plan.evaluation_ticks[first:last]
        return forest.run_metered(self.X, sums, reached, may, self.ledger, price, cap, deadline, stop)

    def _run_filtered(
        self,
        b: int,
        sums: NDArray[np.int64],
        worked: NDArray[np.int32],
        answered: NDArray[np.int32],
        reached: NDArray[np.int32],
        may: NDArray[np.int32],
        cap: NDArray[np.int64],
        deadline: float,
        stop: Stop | None,
    ) -> bool:
        """Stages of a forest whose filters look at margins, or of rows that lack groups: what those would read is left out."""
        plan, block = self.plan, self.plan.blocks[b]
        assert block.forest is not None
        first, last = plan.block_start[b : b + 2]
        unfiltered = np.full(last - first, np.nan), np.ones(last - first, dtype=bool)
        thresholds, below = (plan.margin_filters[b] if self.is_native(b) else None) or unfiltered
        left_out = np.zeros(len(self.X), dtype=np.int32)
        over = block.forest.run_filtered(
            *(self.X, sums, reached, may),
            *(thresholds, below, self._base(slice(None)), self._total(slice(None), before=b)),
            *(worked, self.updates[first:last], left_out, answered),
            ledger=self.ledger,
            evaluation=plan.evaluation_ticks[first:last],
            budget=cap,
            absent=self.absent,
            deadline=deadline,
            stop=stop,
        )
        self.incomplete |= left_out > 0
        return over

    def _tree_sums(self, b: int) -> NDArray[np.int64]:
        if b not in self._trees:
            self._trees[b] = np.zeros((len(self.X), self.plan.blocks[b].width), dtype=np.int64)
        return self._trees[b]

    def _run_staged(
        self, b: int, limit: NDArray[np.int32], cap: NDArray[np.int64], deadline: float, stop: Stop | None
    ) -> bool:
        hurried = np.isfinite(deadline) or stop is not None
        first, last = self.plan.block_start[b : b + 2]
        block = self.plan.blocks[b]
        begin, end = max(first, int(self.done.min())), min(last, int(limit.max()))
        if self._goes_together(b, begin, end, limit, cap):
            return self._run_together(b, begin, end, deadline, stop)
        for s in range(begin, end):
            rows = np.flatnonzero((self.done == s) & (limit > s))
            size = self._rows_in_slice(s, deadline, stop) if hurried else rows.size
            if hurried and self._history is None and rows.size > size:
                # the least certain rows first: they gain most
                margin = self._margins(rows)
                rows = rows[np.argsort(margin, kind="stable")]
            at = 0
            while at < rows.size:
                if hurried:
                    size = min(self._rows_in_slice(s, deadline, stop), rows.size - at)
                    size = block.rows_in_time(s - first, size, deadline - time.monotonic())
                    if not size or interrupted(deadline, stop):
                        return False
                began = time.perf_counter()
                self.do_stage(s, rows[at : at + size], limit, cap)
                taken = max(time.perf_counter() - began, _SHORTEST)
                self._pace[s] = taken / max(size, 1), size
                if size == len(self.X) > 1 and not hurried and self.plan.stages_stand_alone:
                    self.plan.note_pace(s, size, taken)
                at += size
        return True

    def _rows_in_slice(self, s: int, deadline: float, stop: Stop | None) -> int:
        """Rows that stage ``s`` takes together, or in about a slice of time, by what its block expects or was just measured.

        A stage of which nothing is known begins with one row: how quick others of its block were says nothing of it.
        """
        b, within = self.plan.locate(s)
        block = self.plan.blocks[b]
        if block.batch_rows is not None:
            return block.batch_rows
        seconds = _SLICE
        if stop is None:
            seconds = max(seconds, _PATIENCE * (deadline - time.monotonic()))
        if s not in self._pace:
            expected = block.seconds(within, 1)
            return max(1, int(seconds / expected)) if expected else 1
        pace, size = self._pace[s]
        return max(1, min(int(seconds / pace), 2 * size))

    def _goes_together(
        self, b: int, begin: int, end: int, limit: NDArray[np.int32], cap: NDArray[np.int64]
    ) -> bool:
        """Whether all rows go from ``begin`` to ``end`` in one batch, each stage replacing the answer of the one before.

        With a ledger that is so where every row can pay for all of it, and all pay for the same.
        """
        block = self.plan.blocks[b]
        if block.batch_rows is None or len(self.X) > block.batch_rows or begin >= end:
            return False
        if self.ledger is not None and (
            self.absent is not None
            or type(block).reads is not Block.reads
            or bool((cap < self.plan.stage_ticks[end - 1]).any())
        ):
            return False
        return self.plan.always_replaces and bool(
            (self.done == begin).all() and (limit >= end).all() and (self._jumped_from < 0).all()
        )

    def _run_together(self, b: int, begin: int, end: int, deadline: float, stop: Stop | None) -> bool:
        """Only the last answer of those replaced is written down: a stage of a small network takes hardly longer than that."""
        first, n = self.plan.block_start[b], len(self.X)
        reached, outputs = self.plan.blocks[b].proceed_while(
            begin - first,
            end - first,
            self.X,
            self.memory_of(b),
            lambda seconds: not interrupted(deadline - _TELLING - seconds, stop),
        )
        if outputs is not None:
            last, rows = first + reached - 1, np.arange(n)
            if self.ledger is not None:
                self.ledger.buy(np.unique(np.concatenate(self.plan.block_groups[begin : last + 1])), rows)
                self.ledger.charge(int(self.plan.evaluation_ticks[begin : last + 1].sum()), rows)
            self.updates[begin:last] += n
            self._commit(last, rows, outputs)
        return first + reached == end

    def do_stage(
        self, s: int, rows: NDArray[np.intp], limit: NDArray[np.int32], cap: NDArray[np.int64]
    ) -> None:
        """Stage ``s`` for ``rows``, all or nothing for each row; ``limit`` falls where money ends or a gate releases."""
        plan = self.plan
        if s in plan.passes:
            gates = plan.costs.groups_of(plan.passes[s].columns())
            if gates.size:  # what reads nothing is free, also for who has spent more than is allowed now
                rows, lacking = self._buy(gates, 0, rows, limit, cap)
                self.leave_out(s, lacking, limit)
            held = plan.passes[s].holds(self._matrix_of(rows), self.scores(rows), LINKS[plan.link])
            self.done[rows[~held]] = s + 1
            rows = rows[held]
        b, within = plan.locate(s)
        block = plan.blocks[b]
        if block.forest is not None:
            rows = self._forest_stage(s, b, within, rows, limit, cap)
        else:
            rows = self._buy_for_stage(s, rows, limit, cap)
            if rows.size:
                self._commit(s, rows, self._outputs(s, rows))
        if s in plan.stops and rows.size:
            self._ask_to_stop(s, rows, limit, cap)

    def _outputs(self, s: int, rows: NDArray[np.intp]) -> Array:
        """What stage ``s``, not of trees, gives for rows that have all they need."""
        b, within = self.plan.locate(s)
        block, memory = self.plan.blocks[b], self.memory_of(b)
        if block.uses_answer:
            return block.proceed(within, within, self._matrix_of(rows), {"answer": self.scores(rows)})
        if not memory:
            return block.outputs(within, self._matrix_of(rows))
        came_from = np.where(self._jumped_from[rows] < 0, s, self._jumped_from[rows])
        first, n = self.plan.block_start[b], rows.size
        if n == len(self.X) and (
            n == 1 or bool((rows == np.arange(n)).all() and (came_from == came_from[0]).all())
        ):
            return block.proceed(max(int(came_from[0]) - first, 0), within, self.X, memory)
        outputs = np.empty((n, block.width))
        for start in np.unique(came_from):
            together = np.flatnonzero(came_from == start)
            some = rows[together]
            part = {name: self._taken(array, some) for name, array in memory.items()}
            outputs[together] = block.proceed(max(int(start) - first, 0), within, self._matrix_of(some), part)
            self._keep(memory, part, some)
        return outputs

    def memory_of(self, b: int) -> Memory:
        """What a block remembers of the rows; it changes as the run goes on."""
        if b not in self._memory:
            self._memory[b] = self.plan.blocks[b].remember(len(self.X)) or {}
        return self._memory[b]

    @staticmethod
    def _keep(memory: Memory, kept: Memory, rows: NDArray[np.intp]) -> None:
        for name, array in kept.items():
            if array is not memory[name]:
                memory[name][rows] = array

    def _matrix_of(self, rows: NDArray[np.intp]) -> Array:
        return self._taken(self.X, rows)

    def _taken(self, array: NDArray[Any], rows: NDArray[np.intp]) -> NDArray[Any]:
        """Rows of an array; the array itself where these are all."""
        everything = rows.size == len(self.X) and (rows.size == 1 or bool((rows[1:] > rows[:-1]).all()))
        return array if everything else array[rows]

    def _forest_stage(
        self,
        s: int,
        b: int,
        within: int,
        rows: NDArray[np.intp],
        limit: NDArray[np.int32],
        cap: NDArray[np.int64],
    ) -> NDArray[np.intp]:
        """A stage of trees by itself: each row pays for its own path. Returns the rows that could."""
        reached = np.full(len(self.X), within, dtype=np.int32)
        may, worked = reached.copy(), np.zeros_like(reached)
        may[rows] += 1
        sums = np.zeros((len(self.X), self.plan.blocks[b].width), dtype=np.int64)
        if self.absent is None:
            self._run_forest(b, sums, reached, may, cap, np.inf, None)
            worked = reached - within
        else:
            self._run_filtered(b, sums, worked, reached.copy(), reached, may, cap, np.inf, None)
            self.updates[s] -= worked.sum()  # the commit counts them
            self.leave_out(s, rows[(worked[rows] == 0) & (reached[rows] > within)], limit)
        self._halt(rows[reached[rows] == within], limit, cap)
        rows = rows[worked[rows] > 0]
        self._commit(s, rows, sums[rows], b)
        return rows

    def _commit(
        self, s: int, rows: NDArray[np.intp], outputs: NDArray[Any], forest: int | None = None
    ) -> None:
        """Make ``outputs`` part of the answer; those of block ``forest`` are in its fixed-point units."""
        plan = self.plan
        if self._history is not None:
            unit = 1.0 if forest is None else self._unit(forest)
            self._history[rows, plan.output_start[s] : plan.output_start[s + 1]] = outputs * unit
        else:
            if plan.replaces is not None and plan.replaces[s]:
                self._rebased[rows] = True
                self._applied[rows] = 0
                self._sum[rows] = 0.0
                for sums in self._trees.values():
                    sums[rows] = 0
            total = self._sum if forest is None else self._tree_sums(forest)
            total[rows] += outputs
        self._applied[rows] += 1
        self._jumped_from[rows] = -1
        self.updates[s] += rows.size
        self.done[rows] = s + 1

    # ------------------------------------------------------------------ money and gates

    def wanted(self, s: int, rows: NDArray[np.intp]) -> NDArray[np.bool_] | None:
        """(n, G) groups that stage ``s``, not of trees, reads of rows that stand before it; None: the same of all."""
        b, within = self.plan.locate(s)
        block, memory = self.plan.blocks[b], self.memory_of(b)
        if type(block).reads is Block.reads:
            return None
        part = {name: self._taken(array, rows) for name, array in memory.items()}
        if block.uses_answer:
            part = {"answer": self.scores(rows)}
        columns = block.reads(within, self._matrix_of(rows), part)
        if columns is None:
            return None
        if not block.uses_answer:
            self._keep(memory, part, rows)
        groups = np.zeros((rows.size, self.plan.costs.n_groups), dtype=bool)
        row, column = np.nonzero(columns)
        groups[row, self.plan.costs.column_group[column]] = True
        return groups

    def quote(self, s: int, rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """(n,) ticks that stage ``s``, with its rules, may cost rows that stand before it."""
        assert self.ledger is not None
        b, _ = self.plan.locate(s)
        evaluation = int(self.plan.evaluation_ticks[s])
        wanted = None if self.plan.blocks[b].forest is not None else self.wanted(s, rows)
        if wanted is None:
            return np.asarray(self.ledger.quote(self.plan.stage_groups[s], rows) + evaluation)
        for rules in (self.plan.passes, self.plan.stops):
            if s in rules:
                wanted[:, self.plan.costs.groups_of(rules[s].columns())] = True
        price = np.full(rows.size, evaluation, dtype=np.int64)
        for groups, members in _alike(wanted):
            price[members] += self.ledger.quote(groups, rows[members])
        return price

    def _buy_for_stage(
        self, s: int, rows: NDArray[np.intp], limit: NDArray[np.int32], cap: NDArray[np.int64]
    ) -> NDArray[np.intp]:
        """Pay for what stage ``s``, not of trees, reads of each row; return the rows that could."""
        if self.ledger is None or not rows.size:
            return rows
        evaluation, wanted = int(self.plan.evaluation_ticks[s]), self.wanted(s, rows)
        if wanted is None:
            able, lacking = self._buy(self.plan.block_groups[s], evaluation, rows, limit, cap)
        else:
            parts = [self._buy(groups, evaluation, rows[m], limit, cap) for groups, m in _alike(wanted)]
            able, lacking = (np.sort(np.concatenate(part)) for part in zip(*parts, strict=True))
        self.leave_out(s, lacking, limit)
        return able

    def _buy(
        self,
        groups: NDArray[np.int32],
        evaluation: int,
        rows: NDArray[np.intp],
        limit: NDArray[np.int32],
        cap: NDArray[np.int64],
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Pay for ``groups``; return the rows that could, and those that could but lack one. The others end in this call."""
        if self.ledger is None:
            return rows, rows[:0]
        price = self.ledger.quote(groups, rows) + evaluation
        able = self.ledger.paid[rows] + price <= cap[rows]
        self._halt(rows[~able], limit, cap)
        rows = rows[able]
        lacking = rows[:0]
        if self.absent is not None:
            lacks = self.absent[groups] if self.absent.ndim == 1 else self.absent[np.ix_(rows, groups)]
            without = np.broadcast_to(lacks.any(axis=-1), rows.shape)
            rows, lacking = rows[~without], rows[without]
        self.ledger.buy(groups, rows)
        self.ledger.charge(evaluation, rows)
        return rows, lacking

    def _halt(self, rows: NDArray[np.intp], limit: NDArray[np.int32], cap: NDArray[np.int64]) -> None:
        """Rows that cannot pay for what comes next stay where they are; for good where the plan's own limit says so."""
        if rows.size:
            limit[rows] = self.done[rows]
            self.at_limit[rows] = cap[rows] == self.plan.limit_ticks

    def _ask_to_stop(
        self, s: int, rows: NDArray[np.intp], limit: NDArray[np.int32], cap: NDArray[np.int64]
    ) -> None:
        """Release the rows for which the stopping rule of stage ``s`` holds; who cannot pay for it is asked later."""
        rule = self.plan.stops[s]
        self.unasked[rows] = True
        rows, lacking = self._buy(self.plan.costs.groups_of(rule.columns()), 0, rows, limit, cap)
        self.unasked[rows] = self.unasked[lacking] = False
        self.incomplete[lacking] = True  # they go on without having been asked
        satisfied = rows[rule.holds(self._matrix_of(rows), self.scores(rows), LINKS[self.plan.link])]
        self.finished[satisfied] = True
        limit[satisfied] = s + 1

    def ask_again(self, limit: NDArray[np.int32], cap: NDArray[np.int64]) -> None:
        """Ask the stopping rules that rows could not pay for before."""
        if not self.plan.stops:
            return
        waiting = np.flatnonzero(self.unasked & (limit > self.done))
        for done in np.unique(self.done[waiting]):
            self._ask_to_stop(int(done) - 1, waiting[self.done[waiting] == done], limit, cap)

    # ------------------------------------------------------------------ reading

    def scores(self, rows: NDArray[np.intp] | slice = slice(None)) -> Any:
        """The answer so far, (n, K) raw scores; those of all elements of each example, where it has many."""
        if self._history is not None:
            return self._weighted(rows)
        mean = self.plan.combine == "mean"
        scores = combined(self._total(rows), self._applied[rows, None], self._base(rows), mean)
        return scores if isinstance(scores, Ragged) else np.asarray(scores)

    def _margins(self, rows: NDArray[np.intp]) -> Array:
        """(n,) how far the leading class of each row is ahead; the mean over its elements, where it has any."""
        link, scores = LINKS[self.plan.link], self.scores(rows)
        return scores.mean(link.margin(scores.values)) if isinstance(scores, Ragged) else link.margin(scores)

    def scores_ahead(self, b: int, end: int) -> Array:
        """(m, K) the answers of the first row after each of its next stages up to ``end``, all in the forest ``b``."""
        forest, first, done = self.plan.blocks[b].forest, self.plan.block_start[b], int(self.done[0])
        assert forest is not None
        steps = forest.stage_outputs(self.X[:1], np.arange(done - first, end - first))[:, 0]
        one, mean = slice(0, 1), self.plan.combine == "mean"
        count = self._applied[0] + np.arange(1, len(steps) + 1)[:, None]
        return np.asarray(combined(self._total(one) + np.cumsum(steps, axis=0), count, self._base(one), mean))

    @property
    def paid(self) -> NDArray[np.int64] | None:
        """(n,) ticks that rows have paid; None where no ledger is kept."""
        return None if self.ledger is None else self.ledger.paid

    def _total(self, rows: NDArray[np.intp] | slice, before: int | None = None) -> Any:
        """(n, K) what stages, of blocks before ``before`` only, have added, in the order of blocks: the same bits for all."""
        total = self._sum[rows].copy()
        for b in sorted(self._trees):
            if before is None or b < before:
                total += self._trees[b][rows] * self._unit(b)
        return total

    def _base(self, rows: NDArray[np.intp] | slice) -> Array:
        """(n, K) the scores to which stages add: none where one has replaced them."""
        return np.where(self._rebased[rows, None], 0.0, self.plan.base)

    def _unit(self, b: int) -> float:
        forest = self.plan.blocks[b].forest
        assert forest is not None
        return forest.unit

    def _weighted(self, rows: NDArray[np.intp] | slice) -> Array:
        plan = self.plan
        assert plan.weights is not None
        assert self._history is not None
        done, history = self.done[rows], self._history[rows]
        out = np.tile(plan.base, (done.size, 1))
        for t in np.unique(done[done > 0]):
            here = np.flatnonzero(done == t)
            table = plan.weights[t - 1]
            kept = history[here, : plan.output_start[t]]
            intercept = plan.base if plan.intercepts is None else plan.intercepts[t - 1]
            if table.ndim == 1:  # one number per stage
                by_output = kept.reshape(len(here), t, -1).swapaxes(1, 2).reshape(-1, t)
                out[here] = intercept + row_products(by_output, table[:, None]).reshape(len(here), -1)
            else:
                out[here] = intercept + row_products(kept, table)
        return out

    @property
    def answered(self) -> NDArray[np.int32]:
        """(n,) the last stage of each row that was done and not left out."""
        before, after = self._went_around
        return np.where(self.done == after, before, self.done)

    @property
    def complete(self) -> NDArray[np.bool_]:
        """(n,) rows that have nothing left to do: all stages done, released by a gate, or at the plan's own limit."""
        over = self.finished | (self.done == self.plan.n_stages) | self.at_limit
        return np.asarray(over & ~self.incomplete)


def _lacked(plan: Plan, X: Any) -> NDArray[np.bool_] | None:
    """(n, G) groups that examples of many elements lack; None: they say nothing of it, or lack none."""
    held: NDArray[np.bool_] | None = getattr(X, "held", None)
    if held is None or held.all():
        return None
    absent = np.zeros((len(held), plan.costs.n_groups), dtype=bool)
    row, column = np.nonzero(~held)
    absent[row, plan.costs.column_group[column]] = True
    return absent


def _alike(wanted: NDArray[np.bool_]) -> list[tuple[NDArray[np.int32], NDArray[np.intp]]]:
    """Sets of groups that rows want, each with the rows that want it."""
    if len(wanted) == 1:
        return [(np.flatnonzero(wanted[0]).astype(np.int32), np.zeros(1, dtype=np.intp))]
    sets, which = np.unique(np.packbits(wanted, axis=1), axis=0, return_inverse=True)
    members = [np.flatnonzero(which.reshape(-1) == i) for i in range(len(sets))]
    return [(np.flatnonzero(wanted[m[0]]).astype(np.int32), m) for m in members]


def interrupted(deadline: float, stop: Stop | None) -> bool:
    """Whether time is up, or the stop flag is set."""
    return time.monotonic() >= deadline or (stop is not None and stop.is_set())
