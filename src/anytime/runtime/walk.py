"""One example on its way through a plan: the engine's run on a row whose columns are filled as they are needed.

All rules of combination (sums, means, replacing stages, refitted tables, filters, gates) stay in ``anytime.engine``. This
module is the one place in the runtime that touches the inside of a ``Run``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.answer import Answer
from anytime.costs import Ledger
from anytime.engine import Run, Stop
from anytime.plan import Array
from anytime.rules import Rule
from anytime.runtime.bounds import Bounds
from anytime.runtime.example import Arrival, Example
from anytime.runtime.layout import Groups, Layout

_ROW = np.zeros(1, dtype=np.intp)
_LOOK_AHEAD = 64  # stages whose confidence is worked out at once
PARTIAL = ("", "deadline", "stop")  # reasons to end while there is more to do within the budget
_GIVEN = ("plan", "X", "threads")  # what a run is started with; all else is its state


class Walk:
    """Progress of one example."""

    def __init__(self, layout: Layout, example: Example) -> None:
        self.layout, self.example, self.plan = layout, example, layout.plan
        self.costs = layout.plan.costs.costs
        self.run = self._fresh_run()
        self.bought: tuple[int, ...] = ()  # groups in the order of purchase
        # stages that were left out because they did not fit, or because an extractor failed
        self.skipped: tuple[int, ...] = ()

    def _fresh_run(self) -> Run:
        held = self.example.available if self.layout.features is None else None
        return Run(self.plan, self.example.X, metered=True, held=held)

    @property
    def _ledger(self) -> Ledger:
        assert self.run.ledger is not None
        return self.run.ledger

    # ------------------------------------------------------------------ where it is

    @property
    def done(self) -> int:
        """Stages behind it."""
        return int(self.run.done[0])

    @property
    def stage(self) -> int:
        """The last stage that is part of the answer: stages left out at the end are not."""
        return int(self.run.answered[0])

    @property
    def ended(self) -> bool:
        """Whether nothing is left to do."""
        return self.done == self.layout.n_stages or bool(self.run.finished[0] or self.run.at_limit[0])

    @property
    def complete(self) -> bool:
        """Whether it has ended and no stage was left out for lack of a group."""
        return self.ended and not self.run.incomplete[0]

    @property
    def paid(self) -> int:
        """Realised cost so far, in ticks."""
        return int(self._ledger.paid[0])

    @property
    def unasked(self) -> bool:
        """Whether the gate of the last stage could not be paid."""
        return bool(self.run.unasked[0])

    def scores(self) -> Array:
        """(1, K) the answer so far."""
        return np.asarray(self.run.scores())

    def confidence(self) -> float:
        """The probability of the leading class."""
        return float(self.plan.probabilities(self.scores(), self.stage).max())

    def has_margin(self, bounds: Bounds) -> bool:
        """Whether the margin is enough for the mean budget."""
        return bool(bounds.has_margin(self.scores(), self.run.answered, self.layout.link)[0])

    def paid_for(self) -> list[int]:
        """Groups that are paid, in no particular order."""
        return np.flatnonzero(self._ledger.bought[0]).tolist()

    def purchases(self) -> tuple[int, ...] | NDArray[np.bool_]:
        """Groups in the order of purchase, those that were given last; or which ones, when there are no extractors."""
        bought = np.asarray(self._ledger.bought[0])
        if self.layout.features is None:
            return bought
        free = [g for g in self.plan.purchases.order if bought[g] and g not in self.bought]
        return (*self.bought, *free) if free else self.bought

    def answer(self, elapsed: float, failures: Mapping[str, str], reason: str = "") -> Answer:
        """The answer now; ``reason``: why the run ended, empty while it continues."""
        return self.layout.answer(
            self.scores()[0],
            self.stage,
            self.paid,
            self.purchases(),
            self.complete and self.layout.is_final,
            reason == "failed" or (not self.ended and reason in PARTIAL),
            elapsed,
            reason,
            dict(failures),
        )

    # ------------------------------------------------------------------ what comes next

    def clear_until(self, end: int) -> tuple[int, Sequence[int]]:
        """How far a plain forest can run with the groups that are there, and what the next stage lacks."""
        x, available, layout = self.example.x, self.example.available, self.layout
        lacking = () if self.example.is_whole else np.flatnonzero(~available)
        if len(lacking) == 0:
            return end, ()
        b = layout.block_of[self.done]
        forest, first, table = self.plan.blocks[b].forest, self.plan.block_start[b], self.plan.costs.table
        assert forest is not None
        clear = min(int(layout.next_use[self.done, lacking].min()), end)  # no path of theirs needs more
        for stage in range(clear, end):
            if forest.need(x, stage - first, available, table) >= 0:
                return stage, layout.known_path(stage, x, available, self.example.lost())
        return end, ()

    def bound(self, cap: int) -> None:
        """Let stages that depend on it know what may be spent in all, and what cannot be had."""
        if self.plan.bounded_blocks:
            lost = self.run.absent if self.layout.features is None else self.example.lost()
            wasted = 0 if lost is None else int(self.plan.costs.prices[lost & self._ledger.bought[0]].sum())
            self.run.bound(np.array([min(cap, self.plan.limit_ticks) - wasted], dtype=np.int64), lost)

    def lacks(self, s: int) -> Sequence[int]:
        """Groups that stage ``s`` itself, rules apart, still needs: those known to be on this row's path, or all of them."""
        available = self.example.available
        if self.example.is_whole:
            return ()
        if self.plan.blocks[self.layout.block_of[s]].forest is not None:
            return self.layout.known_path(s, self.example.x, available, self.example.lost())
        wanted = self.run.wanted(s, _ROW)
        groups = self.plan.block_groups[s] if wanted is None else np.flatnonzero(wanted[0])
        return () if available[groups].all() else groups.tolist()

    def lacks_for(self, rule: Rule) -> Sequence[int]:
        """Groups that a rule still needs."""
        groups = self.layout.rule_groups(rule)
        return () if self.example.available[groups].all() else groups.tolist()

    def unpaid(self, rule: Rule) -> list[int]:
        """Groups that a rule reads and that are there, with what they require, but are not paid for."""
        groups = self.layout.rule_groups(rule)
        return self.layout.missing(groups.tolist(), self._ledger.bought[0]) if groups.size else []

    def passes(self, rule: Rule) -> bool:
        """Whether a filter, whose features are there, lets the example in."""
        return bool(rule.holds(self.example.X, self.scores(), self.layout.link)[0])

    def price(self, groups: Sequence[int] | Groups) -> int:
        """What buying ``groups`` would cost now, in ticks."""
        return int(self._ledger.quote(np.asarray(groups, dtype=np.int32))[0])

    def confident_by(self, end: int, confidence: float) -> int:
        """The first stage of a plain forest, up to ``end``, after which the leading class is likely enough.

        Sums are those of the engine up to rounding: a row that stops there is checked again by the real scores.
        """
        s = self.done
        end = min(end, s + _LOOK_AHEAD)
        steps = self.run.scores_ahead(self.layout.block_of[s], end)
        likely = self.plan.probabilities(steps, np.arange(s + 1, end + 1)).max(axis=1) >= confidence
        return s + int(likely.argmax()) + 1 if likely.any() else end

    # ------------------------------------------------------------------ going on

    def pay(self, groups: Sequence[int]) -> None:
        """Pay for ``groups`` with what they require."""
        self._ledger.buy(np.array(groups, dtype=np.int32))

    def buy(self, group: int) -> None:
        """Pay for a group whose requirements are paid, and which is then computed."""
        self.pay([group])
        if group not in self.bought:
            self.bought = (*self.bought, group)

    def forward(self, to: int, cap: int, due: float = np.inf, stop: Stop | None = None) -> None:
        """Stages of a plain forest up to ``to``, in one native call, as far as the bounds allow."""
        b = self.layout.block_of[self.done]
        limit = np.array([to], dtype=np.int32)
        self.run.run_natively(b, limit, np.array([cap], dtype=np.int64), due, stop)

    def advance(self, to: int, cap: int, due: float = np.inf, stop: Stop | None = None) -> bool:
        """A row that lacks groups up to stage ``to``: the engine leaves out what would read them. Whether it can continue."""
        self.run.advance(to, budget=cap, deadline=due, stop=stop)
        return not self.run.stuck[0]

    def do_stage(self, s: int, cap: int) -> None:
        """Stage ``s`` with its rules, if it can be paid. A stopping rule that needs what cannot be had is not asked."""
        if s in self.plan.stops:
            self._note_lost()
        self.run.do_stage(s, _ROW, np.array([s + 1], dtype=np.int32), np.array([cap], dtype=np.int64))

    def ask_again(self, cap: int) -> None:
        """The gate of the last stage, if it can be paid now."""
        self._note_lost()
        self.run.ask_again(np.array([self.done + 1], dtype=np.int32), np.array([cap], dtype=np.int64))

    def _note_lost(self) -> None:
        """Let the run know which groups extractors could not give."""
        if self.layout.features is not None:
            self.run.absent = self.example.lost()

    def end_at(self, cap: int) -> bool:
        """The next thing costs more than ``cap``; whether that is the plan's own limit, and so the end for good."""
        self.run.at_limit[0] = cap == self.plan.limit_ticks
        return bool(self.run.at_limit[0])

    def pass_over(self, to: int) -> None:
        """Go past stages whose filter keeps the example out."""
        self.run.done[0] = to

    def skip(self, s: int, *, failed: bool = False) -> None:
        """Leave stage ``s`` out, for which a group has ``failed`` or which does not fit: the answer stays what it is."""
        self.skipped = (*self.skipped, s)
        self.run.pass_by(_ROW, s, s + 1)
        self.run.at_limit[0] = False  # a later stage may fit
        if failed:
            self.run.incomplete |= True
            self._open_ledger(self._ledger.bought[0], self.paid)

    def give(self, outcomes: Mapping[int, Any]) -> None:
        """Take features by group. The walk begins again, so that stages left out for lack of them come back.

        What was bought stays bought, and costs no more than it did. ``ValueError``: some do not fit their group; nothing changes.
        """
        example, layout = self.example, self.layout
        before = example.state()
        for group, outcome in outcomes.items():
            if example.accept(group, outcome) is Arrival.FAILED:
                reason = example.failures[layout.names[group]]
                example.take_back(before)
                raise ValueError(f"group {layout.names[group]!r}: {reason}")
        example.failures = {
            name: why
            for name, why in before["failures"].items()
            if outcomes.keys().isdisjoint(layout.closures[layout.number[name]])
        }
        bought = self._ledger.bought[0]
        self.run, self.skipped = self._fresh_run(), ()
        self._open_ledger(bought)

    def turn_to(self, layout: Layout) -> None:
        """Go on by another plan of the same model, from its beginning; what was bought and computed stays."""
        bought, paid = self._ledger.bought[0], self.paid
        self.layout = self.example.layout = layout
        self.plan, self.skipped = layout.plan, ()
        self.run = self._fresh_run()
        self._open_ledger(bought, paid)

    def _open_ledger(self, bought: NDArray[np.bool_], paid: int = 0) -> None:
        """A ledger in which groups are bought and at least ``paid`` ticks were paid; what cannot be had is never charged."""
        lost = self.run.absent if self.layout.features is None else self.example.lost()
        self.run.ledger = self.plan.costs.ledger(1, lost, bought)
        self._ledger.charge(max(paid - self.paid, 0), _ROW)  # evaluating stages

    # ------------------------------------------------------------------ prefixes and state

    def prefix_scores(self, stage: int, skipped: Sequence[int]) -> Array:
        """(1, K) the answer after an earlier stage, worked out again from the features that are there.

        No gate is asked: none has released the example, and some read what could not be had.
        """
        held = self.example.available if self.layout.features is None else None
        run = Run(self.layout.ungated, self.example.X.copy(), held=held)
        for s in skipped:
            if s < stage:
                run.advance(s)
                run.pass_by(_ROW, s, s + 1)
        run.advance(stage)
        return np.asarray(run.scores())

    def state(self) -> dict[str, Any]:
        """What continues this walk elsewhere, to the same bits."""
        run = {name: _copied(value) for name, value in vars(self.run).items() if name not in _GIVEN}
        return {"run": run, "example": self.example.state(), "bought": self.bought, "skipped": self.skipped}

    @classmethod
    def from_state(cls, layout: Layout, state: dict[str, Any]) -> Walk:
        """Read what ``state`` gave."""
        walk = cls(layout, Example.from_state(layout, state["example"]))
        for name, value in state["run"].items():
            setattr(walk.run, name, _copied(value))
        walk.bought, walk.skipped = state["bought"], state["skipped"]
        return walk


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(inner) for key, inner in value.items()}
    return value.copy() if hasattr(value, "copy") else value
