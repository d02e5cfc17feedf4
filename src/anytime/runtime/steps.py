"""The writer's side of a session: one unit of work after the other, each followed by a snapshot for the readers."""

import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from anytime.blocks import Block
from anytime.costs import UNLIMITED
from anytime.runtime.bounds import Bounds
from anytime.runtime.example import Arrival
from anytime.runtime.layout import Layout
from anytime.runtime.timing import Pace, Timings
from anytime.runtime.trace import Event, Trace
from anytime.runtime.walk import PARTIAL, Walk

_BESIDES = (
    1e-4  # seconds that a stage takes besides its block: its scores are written down and shown to readers
)


class Steps:
    """Takes one example through a plan, within bounds, as often as asked.

    With ``skip``, a stage that does not fit is left out instead of ending the run.
    """

    def __init__(
        self, layout: Layout, walk: Walk, timings: Timings, skip: bool, clock: Callable[[], float]
    ) -> None:
        self.layout, self.walk, self._timings = layout, walk, timings
        self.skip = skip and layout.plan.weights is None
        self.clock = clock
        self.trace = Trace()
        if layout.features is None:
            self.trace.held = layout.names if walk.example.is_whole else [*walk.example.values()]
        self.seconds = 0.0  # spent in earlier runs
        self.blocked = False  # whether a refitted model lacks a group that it needs, and cannot continue
        self._late: dict[str, str] = {}
        self._began, self._cap = clock(), int(UNLIMITED)
        n_stages, self.skipped = layout.n_stages, walk.skipped
        # the last complete state; replaced, never changed
        self.snapshot = layout.answer(layout.plan.base, 0, 0, (), n_stages == 0, n_stages > 0)
        if walk.example.failures:
            self.snapshot = self.snapshot.changed(failures=dict(walk.example.failures))
        self._published = True  # whether the snapshot shows the present state
        self._unfinished = False  # whether groups may have been paid for a stage that could then not be done

    @property
    def timings(self) -> Timings:
        """How long stages of this plan, and groups of all, take."""
        return self._timings.of_way(self.layout.branch, self.layout.plan)

    def run(self, bounds: Bounds) -> str:
        """Work until a bound is met; return which."""
        self._began, self._cap = self.clock(), bounds.cap
        self._published = self._published and not self._late
        self._late = {}
        self.walk.bound(bounds.cap)
        reason = ""
        while not reason:
            reason = self._unit(bounds)
        if reason in ("complete", "budget") and self.walk.run.incomplete[0]:
            reason = self._reason_of_lack
        if reason == "complete" and not self.layout.is_final:
            reason = "budget"
        self._record("end", note=reason)
        self.seconds = self._elapsed()
        self._began = self.clock()
        if self._published:
            partial = reason == "failed" or (self.snapshot.partial and reason in PARTIAL)
            self.snapshot = self.snapshot.changed(
                elapsed=self.seconds,
                reason=reason,
                partial=partial,
                finished=self.walk.complete and self.layout.is_final,
            )
        else:
            self._publish(reason)
        return reason

    def continue_from(self, trace: Trace, seconds: float, blocked: bool) -> None:
        """Take over what an earlier session had done with the example."""
        self.trace, self.seconds, self.blocked = trace, seconds, blocked
        self._publish()

    def give(self, outcomes: Mapping[int, Any]) -> None:
        """Take features that are there already, by group; readers keep the answer so far until there is a new one."""
        if not outcomes:
            return
        names = [self.layout.names[group] for group in outcomes]
        before = self.walk.example.values()
        self.walk.give(outcomes)
        self.blocked = False
        self._late = {name: why for name, why in self._late.items() if name not in names}
        self.snapshot = self.snapshot.changed(failures={**self.walk.example.failures, **self._late})
        replaced = {name: before[name].tolist() for name in names if name in before}
        self._record("given", groups=tuple(names), replaced=replaced)

    def turn_to(self, branch: int) -> None:
        """Go on by way of the chain to a branch, or (-1) along the chain; readers keep the answer so far."""
        self.layout, self.blocked = self.layout.chain.way(branch), False
        self.walk.turn_to(self.layout)
        self._record("turn", branch=branch)

    def _publish(self, reason: str = "") -> None:
        """Let readers see the present state, and why the run ended if it has."""
        self.skipped = self.walk.skipped
        failures = {**self.walk.example.failures, **self._late}
        self.snapshot = self.walk.answer(self._elapsed(), failures, reason)
        self._published = True

    # ------------------------------------------------------------------ stages

    def _unit(self, bounds: Bounds) -> str:
        """The next piece of work: a run of forest stages, one other stage, or the features for one. A reason ends the run."""
        walk = self.walk
        if walk.ended:
            return "complete"
        if self.blocked:
            return self._reason_of_lack
        s = walk.done
        if s >= bounds.until:
            return bounds.reason
        if reason := bounds.interrupted(self.clock()):
            return reason
        if bounds.confidence is not None and walk.confidence() >= bounds.confidence:
            return "confidence"
        if bounds.margins is not None and walk.has_margin(bounds):
            return "budget"
        if walk.unasked:
            return self._ask_again(s - 1, bounds)
        if self.layout.features is None and not walk.example.is_whole:
            return self._incomplete_unit(s, bounds)
        if self.layout.native[self.layout.block_of[s]]:
            return self._forest_unit(s, bounds)
        return self._stage_unit(s, bounds)

    @property
    def _reason_of_lack(self) -> str:
        """Why a stage was left out for lack of a group: the row lacks it, or its extractor failed."""
        return "groups" if self.layout.features is None else "failed"

    def _ask_again(self, s: int, bounds: Bounds) -> str:
        """The gate of stage ``s``, which could not be paid when the stage was done."""
        walk = self.walk
        lacking = walk.lacks_for(self.layout.plan.stops[s])
        if lacking and not walk.example.has_lost(lacking):
            if walk.paid + walk.price(lacking) > bounds.cap:
                return self._out_of_money(bounds)
            return self._acquire(s, lacking, bounds, 0, for_gate=True)
        self._published = False
        walk.ask_again(bounds.cap)
        if walk.unasked:
            return self._out_of_money(bounds)
        self._record("asked")
        return ""

    def _incomplete_unit(self, s: int, bounds: Bounds) -> str:
        """Stages of a row that lacks groups, one by one where somebody looks after each of them."""
        walk, last = self.walk, self.layout.plan.block_start[self.layout.block_of[s] + 1]
        to = s + 1 if self.skip or bounds.stepwise else min(last, bounds.until)
        began = self.clock()
        due = bounds.due if self.clock is time.monotonic else np.inf
        self._published = False  # a row may buy groups for a stage that it then cannot pay
        able = walk.advance(to, bounds.cap, due, bounds.stop)
        self._unfinished = walk.done < to and not walk.ended
        if walk.done > s:
            self._advanced(self.clock() - began)
        if walk.done >= to or walk.ended:
            return ""
        if not able:
            self.blocked = True
            return self._reason_of_lack
        return bounds.interrupted(self.clock()) or self._decline(walk.done, "budget", bounds)

    def _forest_unit(self, s: int, bounds: Bounds) -> str:
        """As many stages of a plain forest as the features at hand allow, or the next group it needs."""
        walk, plan, b = self.walk, self.layout.plan, self.layout.block_of[s]
        first, last = plan.block_start[b : b + 2]
        to, lacking = walk.clear_until(min(last, bounds.until))
        if to == s:
            return self._acquire(s, lacking, bounds, int(plan.evaluation_ticks[s]))
        if bounds.confidence is not None:
            to = walk.confident_by(to, bounds.confidence)
        if bounds.margins is not None:
            to = s + 1
        began = self.clock()
        due = bounds.due if self.clock is time.monotonic else np.inf  # the native clock is that one
        self._published = False
        walk.forward(to, bounds.cap, due, bounds.stop)
        done = walk.done
        self._unfinished = done < to
        if done > s:
            seconds = self.clock() - began
            self.timings.observe(self.timings.stage(first, last), seconds, done - s)
            self._advanced(seconds)
        if done == to:
            return ""
        return bounds.interrupted(self.clock()) or self._decline(done, "budget", bounds)

    def _stage_unit(self, s: int, bounds: Bounds) -> str:
        """One stage with its rules, or the features that its filter, the stage itself or its gate still needs."""
        walk, plan = self.walk, self.layout.plan
        entry, gate = plan.passes.get(s), plan.stops.get(s)
        evaluation = int(plan.evaluation_ticks[s])
        if entry is not None:
            if lacking := walk.lacks_for(entry):
                return self._acquire(s, lacking, bounds, 0)
            unpaid = walk.unpaid(entry)
            if self.layout.rule_groups(entry).size and walk.paid + walk.price(unpaid) > bounds.cap:
                return self._decline(s, "budget", bounds)
            for group in unpaid:
                walk.buy(group)
                self._record("paid", group=self.layout.names[group])
            if not walk.passes(entry):
                return self._pass_over(s, bounds.until)
        if lacking := walk.lacks(s):
            return self._acquire(s, lacking, bounds, evaluation)
        if gate is not None and (lacking := walk.lacks_for(gate)):
            affordable = walk.paid + evaluation + walk.price(lacking) <= bounds.cap
            if affordable and not walk.example.has_lost(lacking):
                return self._acquire(s, lacking, bounds, evaluation, for_gate=True)
        # A gate that cannot be paid ends the run, but not before its stage, which can.
        return self._do_stage(s, bounds) or (self._out_of_money(bounds) if walk.unasked else "")

    def _do_stage(self, s: int, bounds: Bounds) -> str:
        pace, began = self.timings.stage(s, s + 1), self.clock()
        if bounds.due < np.inf and not self._has_time(s, bounds.due - began):
            return self._decline(s, "deadline", bounds)
        self._published = False
        self.walk.do_stage(s, bounds.cap)
        if self.walk.done == s:
            self._unfinished = True
            return self._decline(s, "budget", bounds)
        seconds = self.clock() - began
        self.timings.observe(pace, seconds)
        self._advanced(seconds)
        return ""

    def _pass_over(self, s: int, until: int) -> str:
        """Go to the next stage whose filter may let the example in."""
        to, skips = s + 1, self.layout.skips
        if skips is not None:
            to = min(int(skips.next_stage(self.walk.scores(), [to])[0]), until)
        self.walk.pass_over(to)
        self._advanced(0.0)
        return ""

    def _out_of_money(self, bounds: Bounds) -> str:
        """Why a run ends whose next purchase does not fit: more money helps, unless the plan itself has a limit."""
        return "complete" if self.walk.end_at(bounds.cap) else "budget"

    def _decline(self, s: int, reason: str, bounds: Bounds) -> str:
        """A stage does not fit: end the run, or leave the stage out where that was asked for."""
        if not self.skip:
            return self._out_of_money(bounds) if reason == "budget" else reason
        self.walk.skip(s)
        self._record("skip", note=reason)
        return ""

    # ------------------------------------------------------------------ features

    def _acquire(
        self, s: int, groups: Sequence[int], bounds: Bounds, evaluation: int, for_gate: bool = False
    ) -> str:
        """Buy and compute what stage ``s`` lacks, if all of it fits; a failure leaves the stage, or its gate, out."""
        layout, walk = self.layout, self.walk
        lacking = layout.missing(groups, walk.example.available)
        if walk.paid + walk.price(groups) + evaluation > bounds.cap:
            return self._decline(s, "budget", bounds)
        if failed := [g for g in lacking if layout.names[g] in walk.example.failures]:
            return self._give_up(s, failed[0], groups)
        if bounds.due < np.inf and self._expected(lacking) + self._stage_time(s) > bounds.due:
            self.timings.decline(*(self.timings.groups[g] for g in lacking))
            # features without the stage they are for would be money lost
            return self._decline(s, "deadline", bounds)
        for g in lacking:
            arrival = self._fetch(g, bounds)
            if arrival is Arrival.FAILED:
                return "" if for_gate else self._give_up(s, g, groups)
            if reason := bounds.interrupted(self.clock()):
                return reason
        return ""

    def _has_time(self, s: int, seconds: float) -> bool:
        """Whether stage ``s`` itself is expected to be done within so many seconds."""
        block, within = self._place(s)
        if block.times_itself:
            return block.rows_in_time(within, 1, seconds - _BESIDES) > 0
        return self._stage_time(s) <= seconds

    def _stage_time(self, s: int) -> float:
        """Seconds that stage ``s`` itself will take, by what is known."""
        block, within = self._place(s)
        if block.times_itself:
            return block.seconds(within, 1) + _BESIDES
        b = self.layout.block_of[s]
        whole = self.layout.plan.block_start[b : b + 2] if self.layout.native[b] else (s, s + 1)
        pace = self.timings.stage(*whole)
        return pace.expect() if pace.count else max(pace.expect(), block.seconds(within, 1))

    def _place(self, s: int) -> tuple[Block, int]:
        """The block of stage ``s``, and the stage's number within it."""
        b = self.layout.block_of[s]
        return self.layout.plan.blocks[b], s - self.layout.plan.block_start[b]

    def _expected(self, groups: Sequence[int]) -> float:
        """When groups will be there, by what is known of their times."""
        now, example = self.clock(), self.walk.example
        return now + sum(example.time_left(g, self.timings.groups[g].expect(), now) for g in groups)

    def _fetch(self, g: int, bounds: Bounds) -> Arrival:
        name, pace, began = self.layout.names[g], self.timings.groups[g], self.clock()
        self.walk.buy(g)  # before it is computed: what is started is paid for, whether it arrives or not
        arrival = self.walk.example.fetch(g, self.clock, bounds.due, bounds.stop)
        seconds = self.clock() - began
        if arrival is Arrival.LATE:
            self._late[name] = "had not arrived when the answer was due"
            self.walk.example.when_done(g, _observer(self.timings, pace, self.clock, began))
            self._record("late", group=name, seconds=seconds)
            return arrival
        self.timings.observe(pace, seconds)
        note = self.walk.example.failures.get(name, "")
        self._record("failure" if note else "group", group=name, seconds=seconds, note=note)
        return arrival

    def _give_up(self, s: int, failed: int, groups: Sequence[int]) -> str:
        """A stage cannot have its features: leave it out, or stop where a refitted row needs all stages before it."""
        layout, failures = self.layout, self.walk.example.failures
        name = layout.names[next(g for g in groups if failed in layout.closures[g])]
        failures.setdefault(name, f"requires {layout.names[failed]!r}, which could not be had")
        to = layout.plan.stage_after_leaving_out(s)
        for left_out in range(s, to):
            self.walk.skip(left_out, failed=True)
        self.walk.bound(self._cap)
        self._record("skip", group=name, note=failures[name])
        self._publish()
        self.blocked = to == s
        return "failed" if self.blocked else ""

    # ------------------------------------------------------------------ recording

    def _elapsed(self) -> float:
        return self.seconds + self.clock() - self._began

    def _advanced(self, seconds: float) -> None:
        self._publish()
        self._record("stages", seconds=seconds, scores=tuple(self.snapshot.scores.tolist()))
        self.walk.example.release(self.snapshot.stage)

    def _record(self, kind: str, **details: Any) -> None:
        self._published = self._published and kind in ("stages", "end")
        costs = self.walk.costs
        cap = None if self._cap == UNLIMITED else costs.amount(self._cap)
        if self._unfinished:
            details["groups"] = tuple(self.layout.names[g] for g in self.walk.paid_for())
            self._unfinished = False
        event = Event(kind, self._elapsed(), self.walk.done, costs.amount(self.walk.paid), cap=cap, **details)
        self.trace.events.append(event)


def _observer(timings: Timings, pace: Pace, clock: Callable[[], float], began: float) -> Callable[[], None]:
    """Takes the time of a call that was not waited for. It keeps nothing alive: the call may hang for ever."""
    listener = weakref.ref(timings)

    def observe() -> None:
        if (there := listener()) is not None:
            there.observe(pace, clock() - began)

    return observe
