"""How far some rows have come in a plan: what the engine of the library does, with a short way for plain forests."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from anytime.costs import UNLIMITED, BoundCosts, FeatureCosts
from anytime.engine import Run
from anytime.plan import Array, Plan

__all__ = ["Progress", "begin", "within_reach"]

_FEW = 6  # rows that are quicker taken one by one than together


class Progress(Protocol):
    """Rows on their way through a plan.

    Attributes
    ----------
    done : (n,) int32
        Stages behind each row.
    finished : (n,) bool
        Rows that a stopping rule has released.
    """

    done: NDArray[np.int32]
    finished: NDArray[np.bool_]

    def advance(self, limit: NDArray[np.int32]) -> None:
        """Take each row to its ``limit``; who is behind it afterwards can go no further."""

    def scores(self) -> Array:
        """(n, K) the answers so far."""

    def paid(self) -> NDArray[np.int64] | None:
        """(n,) ticks that rows have paid; None where no ledger is kept."""


def within_reach(plan: Plan, held: NDArray[np.bool_]) -> tuple[Plan, float]:
    """A plan for rows that lack some groups, and a budget that buys all but these.

    Each row goes as far as its own path reads only what it has. What a group requires is left out: who holds it has no need to
    compute it.
    """
    costs = plan.costs.costs
    most = (
        1.0 + costs.total + float(np.sum(plan.evaluation_costs if plan.evaluation_costs is not None else 0.0))
    )
    prices = {
        name: costs.prices[name] if there else 2 * most for name, there in zip(costs.names, held, strict=True)
    }
    bound = BoundCosts(FeatureCosts(prices, groups=costs.groups, unit=costs.unit), plan.costs.column_group)
    return replace(plan, costs=bound, expected_costs=None), most


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

    def advance(self, limit: NDArray[np.int32]) -> None:
        self.run.advance(limit, budget=self.caps)

    def scores(self) -> Array:
        return self.run.scores()

    def paid(self) -> NDArray[np.int64] | None:
        return None if self.run.ledger is None else self.run.ledger.paid


class _Trees:
    """One forest without rules and without a ledger: nothing but native calls."""

    __slots__ = ("X", "done", "finished", "forest", "plan", "sums")

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
