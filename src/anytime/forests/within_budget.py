"""Growing a forest until the average row would pay more than the budget (BudgetRF).

Trees are grown and added one by one. Held-out rows pay for what they meet, each group once however many trees ask for it; the
tree with which their average bill exceeds the budget is dropped, and the forest ends (Nan, Wang and Saligrama,
*Feature-Budgeted Random Forest*, Algorithm 2).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from anytime.costs import BoundCosts
from anytime.forests.growing import ClassTree
from anytime.forests.levels import groups_before
from anytime.forests.pruning.problem import leaves_of
from anytime.losses import loss_for
from anytime.plan import Array
from anytime.trees.arrays import TreeArrays
from anytime.trees.clock import Clock

__all__ = ["Bench", "Growth", "Visited", "grow_within", "voting"]

Vote = Literal["probability", "majority", "counts"]

_SECONDS = 1.0  # of a batch of trees: how long an interrupt may have to wait
_ROUNDING = 1 - 1e-12


def voting(tree: ClassTree, vote: Vote) -> TreeArrays:
    """The tree with what every node answers: shares of the classes, 1 for the largest and 0 for the others, or counts."""
    if vote == "probability":
        return tree.arrays
    if vote == "counts":
        return replace(tree.arrays, value=np.ascontiguousarray(tree.statistics))
    leading = tree.arrays.value.argmax(axis=1)
    return replace(tree.arrays, value=np.eye(tree.arrays.n_outputs)[leading])


@dataclass(frozen=True, eq=False)
class Visited:
    """A tree, and where the rows of a bench end in it.

    Attributes
    ----------
    tree : ClassTree
    arrays : TreeArrays
        With the values that it votes with.
    leaf : (n,) int
    """

    tree: ClassTree
    arrays: TreeArrays
    leaf: NDArray[np.int32]

    @property
    def outputs(self) -> Array:
        """(n, K) what it answers."""
        return self.arrays.value[self.leaf]


@dataclass(frozen=True, eq=False)
class Bench:
    """Rows on which trees are paid for and judged.

    Attributes
    ----------
    X : (n, d)
    target : (n,) class numbers or numbers, or None
        None: rows that trees were learned from, which say what they cost and nothing else.
    weight : (n,) or None
    costs : BoundCosts
    link : str
    vote : {"probability", "majority", "counts"}
    """

    X: Array
    target: NDArray[Any] | None
    weight: Array | None
    costs: BoundCosts
    link: str
    vote: Vote = "probability"

    def visit(self, tree: ClassTree) -> Visited:
        """Send the rows down a tree."""
        arrays = voting(tree, self.vote)
        return Visited(tree, arrays, leaves_of(arrays, self.X)[:, 0])

    def groups(self, visited: Visited) -> NDArray[np.bool_]:
        """(n, G) the groups that each row has to pay for in a tree."""
        return groups_before(visited.arrays, self.costs)[visited.leaf]

    def mean(self, amounts: Array | NDArray[np.int64]) -> float:
        """Of one number per row."""
        return float(np.average(amounts, weights=self.weight))

    def loss(self, scores: Array) -> float:
        """Of scores (n, K); NaN where the rows cannot judge."""
        if self.target is None:
            return float("nan")
        return float(loss_for(self.link)(scores, self.target, self.weight))

    def error(self, scores: Array) -> float:
        """Share of the rows whose leading class is wrong; of numbers, and where the rows cannot judge, the loss."""
        if self.target is None or self.link == "identity":
            return self.loss(scores)
        return self.mean(scores.argmax(axis=1) != self.target)

    def spread(self, error: float) -> float:
        """A standard error of a share of wrong rows; 0 for numbers."""
        if self.target is None or self.link == "identity":
            return 0.0
        weight = np.ones(len(self.X)) if self.weight is None else self.weight
        return float(np.sqrt(error * (1 - error) * (weight**2).sum()) / weight.sum())

    def truth(self, n_outputs: int) -> Array:
        """(n, K) what a perfect model would answer: indicators of the classes, or the numbers."""
        assert self.target is not None
        numbers = np.asarray(self.target, dtype=np.float64)[:, None]
        return numbers if self.link == "identity" else (numbers == np.arange(n_outputs)).astype(np.float64)


@dataclass(eq=False)
class Growth:
    """A forest within a budget, and how it came about.

    Attributes
    ----------
    trees : list of Visited
        Those within the budget, as grown.
    costs : list of float
        Ticks that rows pay on average, after each of them.
    loss, error : float
        Held-out loss and error of all of them; NaN where there are no held-out rows.
    dropped : Visited or None
        The tree that broke the budget.
    dropped_cost : float
        Ticks on average with it.
    interrupted : bool
    """

    trees: list[Visited] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    loss: float = float("nan")
    error: float = float("nan")
    dropped: Visited | None = None
    dropped_cost: float = float("nan")
    interrupted: bool = False

    @property
    def first(self) -> Visited:
        """The first tree, within the budget or not."""
        if self.trees:
            return self.trees[0]
        assert self.dropped is not None
        return self.dropped


def grow_within(
    budget: float,
    grow: Callable[[int, int], list[ClassTree]],
    bench: Bench,
    *,
    n_trees: int,
    clock: Clock,
    seconds: float = np.inf,
) -> Growth:
    """Grow trees until there are enough, the budget is broken, time is up, or the user interrupts.

    Parameters
    ----------
    budget : float
        Ticks that the average row may pay.
    grow : callable
        ``grow(first, n)`` gives the trees numbered from ``first`` on. They are asked for in batches of about a second, and
        those of a batch that come after the end are lost.
    bench : Bench
    n_trees : int
        The most.
    clock : Clock
    seconds : float, default=inf
        On the clock when the last batch may begin; there is at least one.
    """
    growth = Growth()
    paid = np.zeros((len(bench.X), bench.costs.n_groups), dtype=bool)
    total: Array | None = None
    size = 1
    try:
        while len(growth.trees) < n_trees and growth.dropped is None:
            done = len(growth.trees)
            if done and (clock.over or time.monotonic() - clock.began >= seconds):
                break
            began = time.monotonic()
            for tree in grow(done, min(size, n_trees - done)):
                visited = bench.visit(tree)
                after = paid | bench.groups(visited)
                cost = bench.mean(after @ bench.costs.prices)
                if cost * _ROUNDING > budget:
                    growth.dropped, growth.dropped_cost = visited, cost
                    break
                total = visited.outputs.copy() if total is None else total + visited.outputs
                paid = after
                growth.trees.append(visited)
                growth.costs.append(cost)
            if total is not None:
                mean = total / len(growth.trees)
                growth.loss, growth.error = bench.loss(mean), bench.error(mean)
            if time.monotonic() - began < _SECONDS / 2:
                size *= 2
            clock.tell(f"{len(growth.trees)} of {n_trees} trees" + _so_far(growth, bench))
    except KeyboardInterrupt:
        if not growth.trees:
            raise
        growth.interrupted = True
    return growth


def _so_far(growth: Growth, bench: Bench) -> str:
    if not growth.trees:
        return ": the first is beyond the budget"
    cost = bench.costs.costs.amount(1) * growth.costs[-1]
    told = f", mean cost {cost:.4g}, held-out error {growth.error:.4g}"
    return told + (" (budget reached)" if growth.dropped is not None else "")
