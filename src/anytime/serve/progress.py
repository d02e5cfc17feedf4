"""How far some rows have come in a plan: what the engine of the library does, with a short way for plain forests."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from anytime._native import CostTable
from anytime.blocks import Block
from anytime.costs import UNLIMITED, BoundCosts, FeatureCosts
from anytime.engine import Run
from anytime.estimator import AnytimeModel
from anytime.plan import Array, Plan

__all__ = ["Progress", "Reach", "begin", "keeps_ledger"]

_FEW = 6  # rows that are quicker taken one by one than together


class Progress(Protocol):
    """Rows on their way through a plan.

    Attributes
    ----------
    done : (n,) int32
        Stages behind each row.
    finished : (n,) bool
        Rows that a stopping rule has released.
    steady : bool
        Whether every row always comes as far as it is told to.
    """

    done: NDArray[np.int32]
    finished: NDArray[np.bool_]
    steady: bool

    def advance(self, limit: NDArray[np.int32]) -> None:
        """Take each row to its ``limit``; who is behind it afterwards can go no further."""

    def scores(self) -> Array:
        """(n, K) the answers so far."""

    def paid(self) -> NDArray[np.int64] | None:
        """(n,) ticks that rows have paid; None where no ledger is kept."""


class Reach:
    """How far rows of a plan can go that lack some groups: each as far as its own path reads only what it has.

    What a group requires is left out: who holds it has no need to compute it.

    Parameters
    ----------
    plan : Plan
    """

    def __init__(self, plan: Plan) -> None:
        costs, evaluation = plan.costs.costs, plan.evaluation_costs
        self._costs = BoundCosts(
            FeatureCosts(costs.prices, groups=costs.groups, unit=costs.unit), plan.costs.column_group
        )
        self._plan = replace(plan, costs=self._costs, expected_costs=None)
        self._most = 1.0 + costs.total + float(np.sum(evaluation if evaluation is not None else 0.0))
        self._beyond = max(2 * self._costs.costs.budget_ticks(self._most), 1)  # more than anybody has
        self._needs = _needs(plan)

    def of(self, held: NDArray[np.bool_]) -> tuple[Plan, float, int]:
        """A plan in which groups that are not held cannot be paid for, a budget for all others, and the last stage in reach.

        It is made for every question anew, in some microseconds: sets of groups are too many to remember.
        """
        plan, bound = copy.copy(self._plan), object.__new__(BoundCosts)
        bound.__dict__.update(self._costs.__dict__)
        bound.prices = np.where(held, bound.prices, self._beyond)
        nothing = np.zeros(0, dtype=np.int32)
        start = np.zeros(held.size + 1, dtype=np.int64)
        bound.table = CostTable(bound.prices, start, nothing, bound.column_group)
        object.__setattr__(plan, "costs", bound)
        out = (self._needs & ~held).any(axis=1)
        return plan, self._most, int(out.argmax()) if out.any() else plan.n_stages


def _needs(plan: Plan) -> NDArray[np.bool_]:
    """(S, G) groups without which no row gets through a stage: of trees those at the roots."""
    needs = np.zeros((plan.n_stages, plan.costs.n_groups), dtype=bool)
    if plan.stops:  # rows may end before, and for another reason
        return needs
    for b, block in enumerate(plan.blocks):
        arrays = None if block.forest is None else block.forest.arrays()
        for within in range(block.n_stages):
            s = plan.block_start[b] + within
            if s in plan.passes or (arrays is None and type(block).reads is not Block.reads):
                continue
            if arrays is None:
                columns = block.columns(within)
            else:
                trees = slice(*arrays["stage_start"][within : within + 2].tolist())
                columns = arrays["feature"][arrays["tree_start"][:-1][trees]]
            needs[s, plan.costs.column_group[columns[columns >= 0]]] = True
    return needs


def keeps_ledger(model: AnytimeModel) -> bool:
    """Whether it is counted what each row pays."""
    return model.meter == "realised"


def begin(plan: Plan, X: Array, metered: bool, caps: NDArray[np.int64] | None = None) -> Progress:
    """Rows of a matrix before the first stage.

    Parameters
    ----------
    plan : Plan
    X : (n, d) float64, C order
    metered : bool
        Keep a ledger of what each row pays.
    caps : (n,) int64, default=None
        Ticks that each row may spend; only with a ledger.
    """
    plain = len(plan.blocks) == 1 and plan.blocks[0].forest is not None and plan.weights is None
    if not metered and plain and not plan.passes and not plan.stops and plan.replaces is None:
        return _Trees(plan, X)
    return _Stages(plan, X, metered, caps)


class _Stages:
    """Any plan, by a ``Run``."""

    def __init__(self, plan: Plan, X: Array, metered: bool, caps: NDArray[np.int64] | None) -> None:
        self.run = Run(plan, X, metered=metered)
        self.done, self.finished = self.run.done, self.run.finished
        self.caps = UNLIMITED if caps is None else caps
        self.steady = caps is None and not plan.stops

    def advance(self, limit: NDArray[np.int32]) -> None:
        self.run.advance(limit, budget=self.caps)

    def scores(self) -> Array:
        return self.run.scores()

    def paid(self) -> NDArray[np.int64] | None:
        return None if self.run.ledger is None else self.run.ledger.paid


class _Trees:
    """One forest without rules and without a ledger: nothing but native calls."""

    __slots__ = ("X", "done", "finished", "forest", "plan", "sums")
    steady = True

    def __init__(self, plan: Plan, X: Array) -> None:
        forest = plan.blocks[0].forest
        assert forest is not None
        self.plan, self.forest, self.X = plan, forest, X
        self.done, self.finished = np.zeros(len(X), dtype=np.int32), np.zeros(len(X), dtype=bool)
        self.sums = np.zeros((len(X), plan.n_outputs), dtype=np.int64)

    def advance(self, limit: NDArray[np.int32]) -> None:
        if len(self.X) > _FEW or self.done.any():
            self.forest.run(self.X, self.sums, self.done, limit, np.inf, None, 1)
            return
        for i, until in enumerate(limit.tolist()):
            self.done[i] = self.forest.run_one(self.X[i], until, np.inf, self.sums[i])

    def scores(self) -> Array:
        total = self.sums * self.forest.unit
        if self.plan.combine == "sum":
            return np.asarray(self.plan.base + total)
        count = self.done[:, None]
        return np.where(count > 0, total / np.maximum(count, 1), self.plan.base)

    def paid(self) -> None:
        return None
