"""Some rows of a batch on their way through a plan: small enough that one stage over all of them is quickly done.

Each row waits for its next stage. For filters on scores that stage is known in advance
(``anytime.runtime.skipping``), so that rows are touched only when a stage works on them.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anytime.engine import Run
from anytime.plan import Array
from anytime.runtime.bounds import Bounds
from anytime.runtime.example import Arrival, Example
from anytime.runtime.layout import Groups, Layout
from anytime.runtime.timing import Timings

Rows = NDArray[np.intp]

_FIRST_CHUNK = 16  # rows of a block whose pace is not known yet


class Work(NamedTuple):
    """What a unit of work may take."""

    seconds: float  # about how long it may last
    allowance: int | None  # ticks that all rows together may still spend
    bounds: Bounds  # where to stop, and when to give up waiting for features


class Tile:
    """Rows that joined a batch together. Readers see the ``snapshot`` between two units of work: replaced, never changed."""

    def __init__(
        self,
        layout: Layout,
        X: Array,  # (n, d): all NaN where ``raws`` fill it
        raws: Sequence[object] | None,  # n raw examples
        bounds: Bounds,  # how far, and for how much, each row may go
        timings: Timings,
        clock: Callable[[], float],
        held: NDArray[np.bool_]
        | None = None,  # (G,): groups that rows have, where there are no ``raws``; None: all
    ) -> None:
        self.layout, self.plan, self.timings, self.clock = layout, layout.plan, timings, clock
        n = len(X)
        self.run = Run(layout.plan, X, metered=True, held=held)
        self.available = np.full((n, len(layout.names)), raws is None)
        self.examples = None
        if raws is not None:
            rows = [(X[i : i + 1], self.available[i]) for i in range(n)]
            self.examples = [Example(layout, raw, *row) for raw, row in zip(raws, rows, strict=True)]
        self.until, self.bounds = bounds.until, bounds
        self.sure = np.zeros(n, dtype=bool)
        self.cap = np.full(n, min(bounds.cap, layout.plan.limit_ticks), dtype=np.int64)
        self._lost = np.zeros_like(self.available)  # groups whose extractors have failed
        self.run.bound(self.cap, self.run.absent)
        self.gone = np.zeros(n, dtype=bool)  # rows that have left
        absent = () if held is None else np.flatnonzero(~held).tolist()
        # reasons by group, one per row
        self.failures: dict[str, list[str]] = {layout.names[g]: n * ["not available"] for g in absent}
        self.bought = np.zeros(len(layout.names), dtype=bool)  # by any row
        self._waiting = np.zeros(n, dtype=bool)
        self._wait(np.arange(n))
        self.stage = self._lowest_stage()  # that a row waits for; -1 when none waits
        self.publish()

    @property
    def updates(self) -> NDArray[np.int64]:
        """(S,) rows that each stage has worked on."""
        return self.run.updates

    def publish(self) -> None:
        """Let readers see the present state."""
        run = self.run
        assert run.ledger is not None
        if not self.bought[self.layout.used].all():
            self.bought = np.asarray(run.ledger.bought.any(axis=0))
        finished, partial = run.complete | self.sure, self._waiting.copy()
        if self.examples is not None:
            partial |= run.incomplete  # an extractor failed
        self.snapshot = self.layout.answer(
            run.scores(), run.answered, run.ledger.paid, self.bought, finished, partial
        )
        self.spent = int(self.snapshot.paid.sum())

    @property
    def reason(self) -> str:
        """Why its rows go no further, once none of them waits."""
        here = ~self.gone
        if self.run.incomplete[here].any():
            return "groups" if self.examples is None else "failed"
        if self.run.complete[here].all():
            return "complete"
        return "confidence" if self.sure[here].any() else "budget"

    def leave(self, rows: Rows) -> None:
        """Stop working on rows."""
        self.gone[rows] = True

    # ------------------------------------------------------------------ one unit of work

    def unit(self, work: Work) -> str:
        """Take some of the rows that wait longest through their next stage; a reason to stop, or an empty string."""
        try:
            return self._unit(self.stage, work)
        finally:
            self.stage = self._lowest_stage()

    def _lowest_stage(self) -> int:
        return int(self.run.done[self._waiting].min()) if self._waiting.any() else -1

    def _unit(self, s: int, work: Work) -> str:
        self._waiting &= ~self.gone
        rows = np.flatnonzero(self._waiting & (self.run.done == s))
        if rows.size == 0:
            return ""
        most = self._most_in_time(s, rows.size, work)
        if not most:
            return "deadline"
        chunk = self._chunk(s, rows, work, most)
        if chunk.size == 0:
            return "budget"
        self._waiting[chunk] = False
        try:
            end = self._stride(s, chunk, work)
            ready, reason = self._prepared(s, chunk, work)
            if ready.size:
                self._advance(s, end, ready)
        except BaseException:  # a stage or an extractor raised: the rows can be taken up again
            self._waiting[chunk[self.run.done[chunk] == s]] = True
            raise
        self._wait(ready[self.run.done[ready] > s])  # a row that did not move cannot pay, and waits no more
        self.publish()
        return reason

    def _most_in_time(self, s: int, n_rows: int, work: Work) -> int:
        """Rows that a block takes together, or that fit into a slice of time; 0: the deadline leaves no time for one."""
        b, pace = self.layout.block_of[s], self._pace(s)
        block = self.plan.blocks[b]
        if block.batch_rows is not None:
            left = work.bounds.due - self.clock()
            return block.rows_in_time(s - self.plan.block_start[b], n_rows, left)
        return min(n_rows, _FIRST_CHUNK if pace is None else max(1, int(work.seconds / pace)))

    def _chunk(self, s: int, rows: Rows, work: Work, size: int) -> Rows:
        """As many rows as time and money allow, the least certain first: they gain most if there is no time for all."""
        if work.allowance is not None or size < rows.size:
            margin = self.layout.link.margin(self.run.scores(rows))
            rows = rows[np.argsort(margin, kind="stable")]
        if work.allowance is not None:
            price = np.cumsum(self.run.quote(s, rows))
            size = min(size, int(np.searchsorted(price, work.allowance, side="right")))
        return rows[:size]

    def _pace(self, s: int) -> float | None:
        """Measured seconds per row and stage."""
        b = self.layout.block_of[s]
        pace = self.timings.stage(*self.plan.block_start[b : b + 2])
        return max(pace.total / pace.units, 1e-9) if pace.units else None

    def _stride(self, s: int, rows: Rows, work: Work) -> int:
        """The stage to go to: many at once where a forest has all its features and is quick."""
        b = self.layout.block_of[s]
        if not self.layout.strides[b] or work.allowance is not None or self.bounds.stepwise:
            return s + 1
        end = min(self.plan.block_start[b + 1], self.until, work.bounds.until)
        if self.examples is not None:
            lacking = np.flatnonzero(~self.available[rows].all(axis=0))
            uses = self.layout.next_use[s, lacking]
            end = min(end, max(int(uses.min(initial=end)), s + 1))
        pace = self._pace(s)
        return s + 1 if pace is None else min(end, s + max(1, int(work.seconds / (pace * rows.size))))

    def _advance(self, s: int, end: int, rows: Rows) -> None:
        run, b, began = self.run, self.layout.block_of[s], self.clock()
        limit = run.done.copy()
        limit[rows] = end
        if self.layout.strides[b]:
            run.run_natively(b, limit, self.cap, np.inf, None)
        else:
            self._do_stage(s, rows, limit)
        pace = self.timings.stage(*self.plan.block_start[b : b + 2])
        self.timings.observe(pace, self.clock() - began, rows.size * (end - s))
        if self.examples is not None:
            for i in rows.tolist():
                self.examples[i].release(end)

    def _do_stage(self, s: int, rows: Rows, limit: NDArray[np.int32]) -> None:
        """One stage; rows for which its gate reads what cannot be had do it without being asked."""
        gate = self.plan.stops.get(s)
        unaskable = np.zeros(rows.size, dtype=bool)
        if self.examples is not None and gate is not None:
            groups = self.layout.rule_groups(gate)
            unaskable[:] = [self.examples[i].has_lost(groups) for i in rows.tolist()]
            for i in rows[unaskable].tolist():
                self.run.absent = self.examples[i].lost()
                self.run.do_stage(s, np.array([i]), limit, self.cap)
                self.run.absent = None
        self.run.do_stage(s, rows[~unaskable], limit, self.cap)

    def _wait(self, rows: Rows) -> None:
        """Let rows wait for the next stage that may work on them."""
        run, skips = self.run, self.layout.skips
        rows = rows[~(run.finished[rows] | run.unasked[rows])]
        if self.bounds.stepwise and rows.size:
            link, scores = self.layout.link, run.scores(rows)
            likely = self.plan.probabilities(scores, run.answered[rows]).max(axis=1)
            sure = likely >= (self.bounds.confidence or np.inf)
            self.sure[rows[sure]] = True
            sure |= self.bounds.has_margin(scores, run.answered[rows], link)
            rows = rows[~sure]
        if skips is not None and rows.size:
            # What a filter is known to say no to is done: the row's scores cannot change before it gets there.
            run.done[rows] = np.minimum(skips.next_stage(run.scores(rows), run.done[rows]), self.until)
        self._waiting[rows[run.done[rows] < self.until]] = True

    # ------------------------------------------------------------------ rules and features

    def _prepared(self, s: int, rows: Rows, work: Work) -> tuple[Rows, str]:
        """Rows that have all that stage ``s`` needs and that its filter lets in; the others are sent on or wait again."""
        if self.examples is None:
            return rows, ""  # the engine asks the rules
        plan, reason = self.plan, ""
        entry, gate = plan.passes.get(s), plan.stops.get(s)
        if entry is not None:
            rows, reason = self._gather(s, rows, self.layout.rule_groups(entry), 0, work)
            if rows.size:
                held = entry.holds(self.run.X[rows], self.run.scores(rows), self.layout.link)
                self._send_on(s, rows[~held])
                rows = rows[held]
        evaluation = int(plan.evaluation_ticks[s])
        if not reason:
            rows, reason = self._gather(s, rows, None, evaluation, work)
        if gate is not None and not reason:
            assert self.run.ledger is not None
            groups = self.layout.rule_groups(gate)
            price = self.run.ledger.quote(groups, rows) + evaluation
            able = self.run.ledger.paid[rows] + price <= self.cap[rows]
            # Rows that cannot pay for the gate still do the stage: the engine ends them after it.
            _, reason = self._gather(s, rows[able], groups, evaluation, work, for_gate=True)
        if reason:
            self._waiting[rows] = True
            return rows[:0], reason
        return rows, ""

    def _send_on(self, s: int, rows: Rows) -> None:
        self.run.done[rows] = s + 1
        self._wait(rows)

    def _gather(
        self,
        s: int,
        rows: Rows,
        groups: Groups | None,
        evaluation: int,
        work: Work,
        for_gate: bool = False,
    ) -> tuple[Rows, str]:
        """Compute ``groups`` (None: what the stage itself needs) for rows; those that have them, and why it was cut short."""
        assert self.examples is not None
        by_path = groups is None and self.plan.blocks[self.layout.block_of[s]].forest is not None
        wanted = np.zeros_like(self.available)
        own = self.run.wanted(s, rows) if groups is None and not by_path else None
        if own is not None:
            wanted[rows] = own
        else:
            wanted[np.ix_(rows, self.plan.block_groups[s] if groups is None else groups)] = True
        while True:
            short = rows[(wanted[rows] & ~self.available[rows]).any(axis=1)]
            asked: dict[int, list[int]] = {}
            left_out = []
            for i in short.tolist():
                lacking = self._lacking(s, i, wanted[i], by_path)
                if lacking and not self._can_pay(i, lacking, evaluation):
                    left_out.append(i)  # it stays where it is, and waits no more
                    self.run.at_limit[i] = self.cap[i] == self.plan.limit_ticks
                elif any(self.layout.names[g] in self.examples[i].failures for g in lacking):
                    left_out.append(i)
                    if not for_gate:
                        self._fail(s, i)
                elif lacking:
                    asked.setdefault(lacking[0], []).append(i)
            if left_out:
                rows = np.setdiff1d(rows, left_out)
            if not asked:
                return rows, ""
            for g, members in asked.items():
                if reason := self._compute(g, members, work.bounds):
                    self._waiting[rows] = True
                    return rows[:0], reason

    def _lacking(self, s: int, i: int, wanted: NDArray[np.bool_], by_path: bool) -> list[int]:
        """What row ``i`` still has to get, requirements first: of ``wanted`` groups, or of those known to be on its path."""
        assert self.examples is not None
        x, available = self.run.X[i], self.available[i]
        if by_path:
            return self.layout.missing(
                self.layout.known_path(s, x, available, self.examples[i].lost()), available
            )
        return self.layout.missing(np.flatnonzero(wanted).tolist(), available)

    def _can_pay(self, i: int, groups: list[int], evaluation: int) -> bool:
        assert self.run.ledger is not None
        row = np.array([i])
        price = self.run.ledger.quote(np.array(groups, dtype=np.int32), row)[0] + evaluation
        return bool(self.run.ledger.paid[i] + price <= self.cap[i])

    def _compute(self, g: int, members: list[int], bounds: Bounds) -> str:
        """One group for some rows: together if its extractor is made for that, else one by one."""
        assert self.examples is not None
        assert self.run.ledger is not None
        assert self.layout.features is not None
        name, began, group = self.layout.names[g], self.clock(), np.array([g], dtype=np.int32)
        extractor = self.layout.features.extractors.get(name)
        if extractor is not None and (extractor.batch or extractor.is_async):
            self.run.ledger.buy(group, np.array(members))
            fresh = [self.examples[i] for i in members if not self.examples[i].is_pending(g)]
            if fresh:
                future = self.layout.features.submit(name, [e.raw for e in fresh], [e.results for e in fresh])
            for place, example in enumerate(fresh):
                example.expect(g, future, began, place)
        reason = ""
        for i in members:
            self.run.ledger.buy(group, np.array([i]))
            if self.examples[i].fetch(g, self.clock, bounds.due, bounds.stop) is Arrival.FAILED:
                self.failures.setdefault(name, []).append(self.examples[i].failures[name])
            reason = bounds.interrupted(self.clock())
            if reason:
                break
        self.timings.observe(self.timings.groups[g], self.clock() - began, len(members))
        return reason

    def _fail(self, s: int, i: int) -> None:
        """A row cannot have its features: it leaves the stage out, or stops where a refitted row needs all stages."""
        row = np.array([i])
        self.run.leave_out(s, row, self.run.done)
        if self.plan.bounded_blocks and self.examples is not None:
            assert self.run.ledger is not None
            self._lost[i] = self.examples[i].lost()
            wasted = (self._lost & self.run.ledger.bought) @ self.plan.costs.prices
            self.run.bound(self.cap - wasted, self._lost)
        if not self.run.stuck[i]:
            self._wait(row)
