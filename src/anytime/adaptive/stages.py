"""From cheap to costly as a plan: each cheap model answers, its gate keeps rows or sends them on.

A composite can be the costly model of another one, and so on: the gate learned last is asked first. A row pays for what the gates
on its way and its models read, each group once (Nan, *Learning to predict under a budget*, 2018, chapter 5, remark 2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from anytime.adaptive.blocks import CostlyBlock
from anytime.blocks import Block, LinearBlock
from anytime.costs import BoundCosts
from anytime.engine import Run
from anytime.losses import LINKS
from anytime.plan import Array, Plan
from anytime.rules import ScoreRule

__all__ = ["Chain", "Exit", "bills", "constant_block"]


@dataclass(frozen=True, eq=False)
class Exit:
    """A cheap model, and the gate that decides which rows leave with its answer.

    Attributes
    ----------
    cheap : Block
        One stage that gives the whole score.
    gate : Block
        One stage of one output.
    threshold : float
        Rows whose gate is above it go on.
    doubt : float
        Times this, the margin of the cheap answer is taken off the gate's score first: who is undecided goes on more easily.
    cost : float
        Of evaluating the cheap model and the gate, features apart.
    """

    cheap: Block
    gate: Block
    threshold: float = 0.0
    doubt: float = 0.0
    cost: float = 0.0

    def score(self, X: Array, link: str) -> Array:
        """(n,) Above 0: the row continues."""
        score = self.gate.outputs(0, X)[:, 0] - self.threshold
        if self.doubt:
            score = score - self.doubt * LINKS[link].margin(self.cheap.outputs(0, X))
        return np.asarray(score)

    def rule(self, *, leave: bool) -> ScoreRule:
        """Which rows leave, or which continue."""
        return ScoreRule(self.gate, self.threshold, below=leave, doubt=self.doubt)


@dataclass(frozen=True, eq=False)
class Chain:
    """Exits from the cheapest to the most expensive, and the model that answers what is left.

    Attributes
    ----------
    exits : sequence of Exit
    last : Block
        One stage that gives the whole score.
    last_cost : float
        Of evaluating it, features apart.
    answer_first : bool
        Whether every row has the cheap answer before its gate is asked: then there is an answer early, for all. Otherwise the
        gate is asked first, and rows that it sends on do not pay for the cheap model.
    """

    exits: Sequence[Exit]
    last: Block
    last_cost: float = 0.0
    answer_first: bool = True

    def plan(self, costs: BoundCosts, base: Array, link: str) -> Plan:
        """One stage per model, each of which replaces the answer.

        The last gate is asked before the last stage, so that rows that stop earlier do not pay for it. The gates before it end a
        row's way after their stage, for otherwise rows would have to be asked again at each further one.
        """
        n = len(self.exits)
        passes = {} if self.answer_first else {s: exit.rule(leave=True) for s, exit in enumerate(self.exits)}
        if self.exits:
            passes[n] = self.exits[-1].rule(leave=False)
        evaluation = np.array([*(exit.cost for exit in self.exits), self.last_cost])
        return Plan(
            blocks=[*(exit.cheap for exit in self.exits), self.last],
            costs=costs,
            base=base,
            link=link,
            replaces=np.ones(n + 1, dtype=bool),
            passes=passes,
            stops={s: exit.rule(leave=True) for s, exit in enumerate(self.exits[:-1])},
            evaluation_costs=evaluation if evaluation.any() else None,
        )

    @classmethod
    def of(cls, plan: Plan) -> Chain | None:
        """The chain that a plan was made of; None where it is no such plan."""
        n = plan.n_stages - 1
        single = all(block.n_stages == 1 for block in plan.blocks)
        if n < 0 or not single or plan.replaces is None or not plan.replaces.all():
            return None
        cost = np.zeros(n + 1) if plan.evaluation_costs is None else plan.evaluation_costs
        exits = []
        for s in range(n):
            rule = plan.stops.get(s) if s < n - 1 else plan.passes.get(n)
            if not isinstance(rule, ScoreRule):
                return None
            exits.append(Exit(plan.blocks[s], rule.block, rule.threshold, rule.doubt, float(cost[s])))
        return cls(exits, plan.blocks[-1], float(cost[-1]), n == 0 or 0 not in plan.passes)

    def at(self, threshold: float, doubt: float = 0.0) -> Chain:
        """The chain with another threshold of its first gate, and the doubt of it; infinite doubt: it goes by doubt alone."""
        first, *others = self.exits
        if doubt == np.inf:
            first, doubt = replace(first, gate=constant_block(np.zeros(1))), 1.0
        return replace(self, exits=[replace(first, threshold=threshold, doubt=doubt), *others])

    @property
    def cheap_alone(self) -> Chain:
        """The first cheap model, for all rows."""
        return Chain([], self.exits[0].cheap, self.exits[0].cost)

    @property
    def costly_alone(self) -> Chain:
        """The stages behind the first gate, for all rows."""
        return replace(self, exits=self.exits[1:])

    @property
    def without_asking(self) -> Chain:
        """Stages that read what an outside model reads and do not ask it: enough to know what rows pay."""
        return replace(self, last=self.last.silent) if isinstance(self.last, CostlyBlock) else self


def constant_block(scores: Array) -> LinearBlock:
    """A stage that reads nothing and always gives the same scores."""
    return LinearBlock(np.empty(0, dtype=np.int32), np.empty((0, scores.size)), intercepts=scores[None, :])


def bills(plan: Plan, X: Array) -> Array:
    """(S, n) what each row has really paid after each stage."""
    run = Run(plan, X, metered=True)
    assert run.ledger is not None
    paid = np.empty((plan.n_stages, len(X)))
    for s in range(plan.n_stages):
        run.advance(s + 1)
        paid[s] = plan.costs.costs.amounts(run.ledger.paid)
    return paid
