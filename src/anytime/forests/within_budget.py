"""Growing a forest until the average row would pay more than the budget (BudgetRF).

Trees are grown and added one by one. Held-out rows pay for what they meet, each group once however many trees ask for it; the
tree with which their average bill exceeds the budget is dropped, and the forest ends (Nan, Wang and Saligrama,
*Feature-Budgeted Random Forest*, Algorithm 2).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from anytime.costs import BoundCosts
from anytime.forests.growing import ClassTree
from anytime.forests.levels import ROUNDING, groups_before, ticks_of
from anytime.forests.pruning.problem import leaves_of
from anytime.losses import loss_for
from anytime.plan import Array
from anytime.trees.arrays import TreeArrays
from anytime.trees.clock import Clock

Vote = Literal["probability", "majority", "counts"]

_SECONDS = 1.0  # of a batch of trees: how long an interrupt may have to wait
_CHECKS = (8, 4, 2)  # a rival is looked at after these parts of the trees
_CLEARLY = 3.0  # standard errors


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
    """A tree, and where the rows of a bench end in it."""

    tree: ClassTree
    arrays: TreeArrays  # with the values that it votes with
    leaf: NDArray[np.int32]  # (n,)

    @property
    def outputs(self) -> Array:
        """(n, K) what it answers."""
        return self.arrays.value[self.leaf]


@dataclass(frozen=True, eq=False)
class JudgingRows:
    """Rows on which trees are paid for and judged."""

    X: Array  # (n, d)
    # (n,) class numbers or numbers; None: rows that trees were learned from, which say what they cost and nothing else
    target: NDArray[Any] | None
    weight: Array | None  # (n,): how often each row counts in means of costs
    costs: BoundCosts
    link: str
    vote: Vote = "probability"
    # (n,): how much each row counts in errors, where classes have weights. None: as in ``weight``
    error_weight: Array | None = None

    def __post_init__(self) -> None:
        if self.error_weight is None:
            object.__setattr__(self, "error_weight", self.weight)

    def visit(self, tree: ClassTree) -> Visited:
        """Send the rows down a tree."""
        arrays = voting(tree, self.vote)
        return Visited(tree, arrays, leaves_of(arrays, self.X)[:, 0])

    def groups(self, visited: Visited, rows: NDArray[np.intp] | None = None) -> NDArray[np.bool_]:
        """(n, G) the groups that each row, or each of some, has to pay for in a tree."""
        return groups_before(visited.arrays, self.costs, visited.leaf if rows is None else visited.leaf[rows])

    def mean_cost(self, paid: NDArray[np.bool_]) -> float:
        """Ticks that rows pay on average for the (n, G) groups ``paid``."""
        return float(np.average(ticks_of(paid, self.costs), weights=self.weight))

    def loss(self, scores: Array) -> float:
        """Of scores (n, K); NaN where the rows cannot judge."""
        if self.target is None:
            return float("nan")
        return float(loss_for(self.link)(scores, self.target, self.error_weight))

    def error(self, scores: Array) -> float:
        """Share of the rows whose leading class is wrong; of numbers, the squared error; NaN where the rows cannot judge."""
        if self.target is None:
            return float("nan")
        return float(np.average(self._errors(scores), weights=self.error_weight))

    def spread(self, scores: Array) -> float:
        """A standard error of the error; NaN where the rows cannot judge."""
        if self.target is None:
            return float("nan")
        errors = self._errors(scores)
        weight = np.ones(len(self.X)) if self.error_weight is None else self.error_weight
        variance = np.average((errors - np.average(errors, weights=weight)) ** 2, weights=weight)
        return float(np.sqrt(variance * (weight**2).sum()) / weight.sum())

    def _errors(self, scores: Array) -> Array:
        assert self.target is not None
        if self.link == "identity":
            return np.asarray((scores[:, 0] - self.target) ** 2)
        return np.asarray(scores.argmax(axis=1) != self.target, dtype=np.float64)

    def truth(self, n_outputs: int) -> Array:
        """(n, K) what a perfect model would answer: indicators of the classes, or the numbers."""
        assert self.target is not None
        numbers = np.asarray(self.target, dtype=np.float64)[:, None]
        return numbers if self.link == "identity" else (numbers == np.arange(n_outputs)).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Growth:
    """A forest within a budget, and how it came about. It is replaced as a whole, so that an interrupt finds none half made."""

    paid: NDArray[np.bool_]  # (n, G): what each row has paid for
    trees: tuple[Visited, ...] = ()  # those within the budget, as grown
    cost: float = 0.0  # ticks that rows pay on average
    total: Array | None = None  # (n, K): the sum of what trees answer
    # the held-out error when there were so many trees, where they were judged against a rival
    errors: Mapping[int, float] = field(default_factory=dict)
    dropped: Visited | None = None  # the tree that broke the budget
    dropped_cost: float = float("nan")  # ticks on average with it
    interrupted: bool = False

    @property
    def first(self) -> Visited:
        """The first tree, within the budget or not."""
        if self.trees:
            return self.trees[0]
        assert self.dropped is not None
        return self.dropped

    @property
    def scores(self) -> Array:
        """(n, K) what the forest answers."""
        assert self.total is not None
        return self.total / len(self.trees)

    def joined_by(self, tree: Visited, bench: JudgingRows, budget: float) -> Growth:
        """With one tree more, or with the one that breaks the budget."""
        paid = self.paid | bench.groups(tree)
        cost = bench.mean_cost(paid)
        if cost * ROUNDING > budget:
            return replace(self, dropped=tree, dropped_cost=cost)
        total = tree.outputs if self.total is None else self.total + tree.outputs
        return replace(self, trees=(*self.trees, tree), cost=cost, paid=paid, total=total)


@dataclass(frozen=True)
class Rival:
    """The forest to beat: a forest that is clearly behind it is given up."""

    errors: Mapping[int, float]  # its held-out error after some numbers of trees
    error: float  # and in the end
    spread: float  # a standard error of it

    def leads(self, n_trees: int, error: float) -> bool:
        """Whether ``error``, after so many trees, is clearly worse than that of the rival then and in the end."""
        return error > max(self.error, self.errors.get(n_trees, self.error)) + _CLEARLY * self.spread


def grow_within(
    budget: float,  # ticks that the average row may pay
    # ``grow(first, n)`` gives the trees numbered from ``first`` on. They are asked for in batches of about a
    # second, and those of a batch that come after the end are lost
    grow: Callable[[int, int], list[ClassTree]],
    bench: JudgingRows,
    *,
    n_estimators: int,  # the most
    clock: Clock,
    seconds: float = np.inf,  # on the clock when the last batch may begin; there is at least one
    rival: Rival | None = None,  # errors are compared after an eighth, a quarter and a half of the trees
) -> Growth:
    """Grow trees until there are enough, the budget is broken, a rival is clearly better, time is up, or the user interrupts."""
    growth = Growth(np.zeros((len(bench.X), bench.costs.n_groups), dtype=bool))
    checks = {n for part in _CHECKS if (n := n_estimators // part)}
    size, per_tree = 1, 0.0
    try:
        while (done := len(growth.trees)) < n_estimators and growth.dropped is None:
            left = seconds - clock.elapsed
            if done and left <= per_tree:
                break
            began = time.monotonic()
            next_check = min((n for n in checks if n > done), default=n_estimators)
            in_time = size if not per_tree or left >= size * per_tree else max(int(left / per_tree), 1)
            n_next = min(in_time, next_check - done)
            for tree in grow(done, n_next):
                growth = growth.joined_by(bench.visit(tree), bench, budget)
                if growth.dropped is not None:
                    break
            per_tree = (time.monotonic() - began) / n_next
            if time.monotonic() - began < _SECONDS / 2:
                size *= 2
            if clock.is_followed:
                details, metrics = _so_far(growth, bench)
                clock.tell(f"{len(growth.trees)} of {n_estimators} trees{details}", **metrics)
            if len(growth.trees) in checks and growth.dropped is None and bench.target is not None:
                error = bench.error(growth.scores)
                growth = replace(growth, errors={**growth.errors, len(growth.trees): error})
                if rival is not None and rival.leads(len(growth.trees), error):
                    clock.tell("given up: another setting is clearly better")
                    break
    except KeyboardInterrupt:
        if not growth.trees:
            raise
        growth = replace(growth, interrupted=True)
    return growth


def _so_far(growth: Growth, bench: JudgingRows) -> tuple[str, dict[str, float]]:
    if not growth.trees:
        return ": the first is beyond the budget", {"n_trees": 0}
    cost, error = bench.costs.costs.amount(1) * growth.cost, bench.error(growth.scores)
    reached = " (budget reached)" if growth.dropped is not None else ""
    metrics = {"n_trees": len(growth.trees), "mean_cost": cost, "held_out_error": error}
    return f", mean cost {cost:.4g}, held-out error {error:.4g}{reached}", metrics
