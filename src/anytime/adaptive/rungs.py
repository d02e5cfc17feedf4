"""Models on ever more columns: which columns come first, and a blend of boosted and random trees on each set of them.

Boosting at falling prices of first use, what was bought at a higher price being free at the next, says in which order groups of
columns are worth buying. Each rung of the ladder has a beginning of that order to itself, and may use all of it. Rows are judged
by folds, each with an order of its own: columns that were chosen by the labels of a row would seem to know them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from anytime.blocks import Block
from anytime.boosting.learners import TrainingRows
from anytime.boosting.objective import MeanLoss
from anytime.boosting.rounds import GradientRounds
from anytime.costs import BoundCosts
from anytime.forests.growing import ClassTree, ClassTreeGrower
from anytime.forests.impurity import Entropy
from anytime.losses import Loss
from anytime.plan import Array
from anytime.spreading import one_after_the_other, side_by_side
from anytime.trees.arrays import TreeArrays
from anytime.trees.block import TreeBlock
from anytime.trees.growing import TreeGrower, join
from anytime.trees.ladder import add_base

__all__ = ["LEAST_ROWS", "Rung", "RungLearner", "column_sets", "purchases", "sets_as_dear"]

_PRICES = np.geomspace(3.0, 1e-3, 14)  # in units of the entropy of the classes per price of everything
_ROUNDS, _RATE = 30, 0.2  # at each price
_RIDGE = 1.0  # without it scores run away in leaves that have no row of some class
_FEW_TREES = 20  # grown between two looks at the clock
LEAST_ROWS = 20  # in a leaf of the trees that buy: with fewer than twice as many rows nothing is bought


def purchases(
    table: TrainingRows,
    objective: MeanLoss,
    base: Array,
    costs: BoundCosts,
    rows: NDArray[np.intp] | None = None,
    n_threads: int = 1,
    mean_budget: float | None = None,
    time_used: Callable[[], float] = lambda: 0.0,
) -> list[NDArray[np.intp]]:
    """Groups in the order in which they are worth buying, those bought at one time together; some may never be.

    What is free comes first. Where nothing else that comes early is within the budget, groups that are come before the others.

    Parameters
    ----------
    table, objective, base, costs
    rows : (m,) int, default=None
        Rows that decide. None: all.
    n_threads : int, default=1
    mean_budget : float, default=None
    time_used : callable, default=none
        Share of its time that has passed: each price gets as much of it, and at 1 the order ends with what is bought.
    """
    price = np.array(
        [_price(costs, costs.closure(np.array([g], dtype=np.int32))) for g in range(costs.n_groups)]
    )
    free = price == 0
    start = [np.flatnonzero(free)] if free.any() else []
    learned_from = table, objective, base, costs, rows, n_threads
    order = start + _bought_by_boosting(*learned_from, free, np.ones_like(free), time_used)
    within = price <= (np.inf if mean_budget is None else mean_budget)
    if mean_budget is None or not (within & ~free).any() or _dearest(order, costs, mean_budget) > 0:
        return order
    cheap = start + _bought_by_boosting(*learned_from, free, within, time_used)
    cheap = [new for k, new in enumerate(cheap) if _beginnings(cheap, costs)[1][k] <= mean_budget]
    taken = np.concatenate([np.empty(0, dtype=np.intp), *cheap])
    return cheap + [left for new in order if (left := np.setdiff1d(new, taken)).size]


def _dearest(order: Sequence[NDArray[np.intp]], costs: BoundCosts, budget: float) -> float:
    """The cost of the longest prefix of the order within the budget."""
    prices = _beginnings(order, costs)[1]
    return float(max((price for price in prices if price <= budget), default=0.0))


def _bought_by_boosting(
    table: TrainingRows,
    objective: MeanLoss,
    base: Array,
    costs: BoundCosts,
    rows: NDArray[np.intp] | None,
    n_threads: int,
    bought: NDArray[np.bool_],
    allowed: NDArray[np.bool_],
    time_used: Callable[[], float],
) -> list[NDArray[np.intp]]:
    """Groups among those ``allowed`` as boosting buys them at falling prices, beside those ``bought`` already."""
    order: list[NDArray[np.intp]] = []
    for number, price in enumerate(_PRICES, start=1):
        boosting = penalised_boosting(
            table, objective, base, costs, price, rows, max_depth=4, min_samples_leaf=LEAST_ROWS,
            learning_rate=_RATE, columns=allowed[costs.column_group], bought=bought, n_threads=n_threads,
        )  # fmt: skip
        for _ in range(_ROUNDS):
            if (order and time_used() >= 1) or not boosting.round():
                break
            assert boosting.bought is not None
            if (new := np.flatnonzero(boosting.bought & ~bought)).size:
                order.append(new)
                bought = boosting.bought.copy()
            if time_used() >= number / len(_PRICES):
                break
        if bought[allowed].all() or (order and time_used() >= 1):
            break
    return order


def penalised_boosting(
    table: TrainingRows,
    objective: MeanLoss,
    base: Array,
    costs: BoundCosts,
    price: float,
    rows: NDArray[np.intp] | None,
    *,
    min_samples_leaf: int,
    learning_rate: float,
    max_leaf_nodes: int | None = None,
    max_depth: int | None = None,
    columns: NDArray[np.bool_] | None = None,
    bought: NDArray[np.bool_] | None = None,
    shared: bool = False,
    n_threads: int = 1,
) -> GradientRounds:
    """Boosting that pays for the first use of a group; ``price`` is in units of the entropy of the classes per price of all."""
    total = costs.costs.total
    share = 1.0 if rows is None else float(objective.weight[rows].sum())
    unit = objective.value(np.tile(base, (len(objective), 1))) / total if total > 0 else 0.0
    grower = TreeGrower(
        max_leaf_nodes=max_leaf_nodes,
        max_depth=max_depth,
        min_samples_leaf=min_samples_leaf,
        l2_regularization=_RIDGE,
        cost_penalty=price * unit * objective.total * share,
        n_threads=n_threads,
    )
    return GradientRounds(
        table.binned, objective, grower, base, learning_rate=learning_rate, rows=rows, columns=columns, costs=costs,
        bought=bought, shared=shared,
    )  # fmt: skip


def column_sets(
    order: Sequence[NDArray[np.intp]], costs: BoundCosts, most: float, n_sets: int
) -> list[NDArray[np.bool_]]:
    """Up to so many beginnings of the order, as masks of columns: what is free, then each more expensive by about one factor.

    All are cheaper than ``most``.
    """
    if not order:
        return []
    bought, prices = _beginnings(order, costs)
    priced = np.flatnonzero(prices > 0)
    chosen = {int(np.flatnonzero(prices == 0)[-1])} if (prices == 0).any() else set()
    if priced.size:
        wanted = np.geomspace(max(prices[priced[0]], 1e-12), max(prices[-1], 1e-12), n_sets + 1)
        chosen |= {_nearest(prices, price) for price in wanted}
    kept = [k for k in sorted(chosen) if prices[k] < most * (1 - 1e-9)]
    free = kept[:1] if kept and prices[kept[0]] == 0 else []
    kept = free + kept[len(free) :][len(free) - n_sets :]
    return [bought[k][costs.column_group] for k in kept]


def sets_as_dear(
    order: Sequence[NDArray[np.intp]], costs: BoundCosts, sets: Sequence[NDArray[np.bool_]]
) -> list[NDArray[np.bool_]]:
    """Beginnings of another order, one for each of the sets and about as expensive; without columns where there is no order."""
    if not order:
        return [np.zeros_like(columns) for columns in sets]
    bought, prices = _beginnings(order, costs)
    wanted = [_price(costs, costs.closure(costs.groups_of(np.flatnonzero(columns)))) for columns in sets]
    return [bought[_nearest(prices, price)][costs.column_group] for price in wanted]


def _beginnings(order: Sequence[NDArray[np.intp]], costs: BoundCosts) -> tuple[NDArray[np.bool_], Array]:
    """Groups bought so far (k, G), and what they cost."""
    bought = np.zeros((len(order), costs.n_groups), dtype=bool)
    for k, new in enumerate(order):
        bought[k:, new] = True
    return bought, np.array([_price(costs, mask) for mask in bought])


def _price(costs: BoundCosts, groups: NDArray[np.bool_]) -> float:
    return costs.costs.amount(int(costs.prices[groups].sum()))


def _nearest(prices: Array, price: float) -> int:
    """The number of the price that is nearest by its factor."""
    return int(np.abs(np.log(np.maximum(prices, 1e-300)) - np.log(max(price, 1e-300))).argmin())


@dataclass(frozen=True, eq=False)
class Rung:
    """A model on some of the columns.

    Attributes
    ----------
    block : Block
        One stage that gives the whole score.
    scores : (n, K)
        Of the training rows, by trees that have learned from other rows, on columns that other rows have chosen.
    """

    block: Block
    scores: Array


class RungLearner:
    """Learns blends of boosted and random trees.

    Parameters
    ----------
    table : TrainingRows
    objective : MeanLoss
    base : (K,)
    n_classes : int
    n_estimators : int
        Rounds of boosting, and random trees.
    learning_rate, max_leaf_nodes, min_samples_leaf
        Of boosting. With several classes a tree answers for all.
    folds : sequence of (m,) int
        Rows that are left out in turn, so that trees judge rows that they have not learned from.
    seed : int
    n_threads : int
    over : callable, default=None
        Whether time is up: then boosting ends with the trees it has. None: never.
    """

    def __init__(
        self,
        table: TrainingRows,
        objective: MeanLoss,
        base: Array,
        n_classes: int,
        *,
        n_estimators: int,
        learning_rate: float,
        max_leaf_nodes: int,
        min_samples_leaf: int,
        folds: Sequence[NDArray[np.intp]],
        seed: int,
        n_threads: int = 1,
        over: Callable[[], bool] | None = None,
    ) -> None:
        self.over = over or _never
        # a clock is this process'
        self.side_by_side = side_by_side if over is None else one_after_the_other
        self.table, self.objective, self.base, self.n_classes = table, objective, base, n_classes
        self.n_estimators, self.learning_rate, self.folds, self.seed = (
            n_estimators,
            learning_rate,
            folds,
            seed,
        )
        self.grower = TreeGrower(
            max_leaf_nodes=max_leaf_nodes,
            max_depth=None,
            min_samples_leaf=min_samples_leaf,
            l2_regularization=_RIDGE,
            n_threads=n_threads,
        )

    def learn(self, columns: NDArray[np.bool_], by_fold: Sequence[NDArray[np.bool_]]) -> Rung:
        """A rung on these columns; rows of each fold get scores from a rung fitted without them, on its own columns."""
        jobs = [*zip(by_fold, self.folds, strict=True), (columns, None)]
        *by_others, parts = self.side_by_side(RungLearner._part, (self,), jobs)
        scores = np.empty((2, len(self.objective), self.base.size))
        for fold, scores_of_fold in zip(self.folds, by_others, strict=True):
            scores[:, fold] = scores_of_fold
        judged = scores[-len(parts) :]
        shares = _blend(self.objective.loss, judged, self.objective.y, self.objective.weight)
        scaled = [
            replace(trees, value=share * trees.value) for share, trees in zip(shares, parts, strict=True)
        ]
        whole = join(scaled, [sum(trees.n_trees for trees in scaled)])
        return Rung(TreeBlock(whole), np.einsum("p,pnk->nk", shares, judged))

    def _part(self, job: tuple[NDArray[np.bool_], NDArray[np.intp] | None]) -> Any:
        """(2, m, K) scores for a fold, of boosted and random trees fitted without it; without a fold, trees of all rows."""
        columns, fold = job
        if fold is not None:
            others = np.setdiff1d(np.arange(len(self.objective)), fold)
            boosted, random = self._boosted(columns, others), self._random(columns, others)
            return np.stack([boosted.scores[fold], TreeBlock(random).outputs(0, self.table.X[fold])])
        parts, boosting = [self._random(columns)], self._boosted(columns)
        if boosting.rounds:
            trees = boosting.trees(one_stage=True)
            add_base(trees, trees.value, self.base)
            parts.insert(0, trees)
        return parts

    def _boosted(self, columns: NDArray[np.bool_], rows: NDArray[np.intp] | None = None) -> GradientRounds:
        """Boosted trees of some rows, and their scores of all."""
        boosting = GradientRounds(
            self.table.binned, self.objective, self.grower, self.base, learning_rate=self.learning_rate,
            rows=rows, columns=columns, shared=True,
        )  # fmt: skip
        while len(boosting.rounds) < self.n_estimators and not self.over() and boosting.round():
            pass
        return boosting

    def _random(self, columns: NDArray[np.bool_], rows: NDArray[np.intp] | None = None) -> TreeArrays:
        """Random trees of some rows as one stage, their votes as scores."""
        grower = ClassTreeGrower(
            Entropy(), split="expected", search="random", max_features=max(int(np.sqrt(columns.sum())), 1),
            n_threads=self.grower.n_threads,
        )  # fmt: skip
        grown: list[ClassTree] = []
        while len(grown) < self.n_estimators and not (grown and self.over()):
            grown += grower.grow_forest(
                self.table.binned, self.objective.y, self.objective.weight * len(self.objective),
                n_classes=self.n_classes, n_trees=min(_FEW_TREES, self.n_estimators - len(grown)),
                first_tree=len(grown), rows=rows, columns=columns, random_state=self.seed,
            )  # fmt: skip
        trees = join([tree.arrays for tree in grown], [len(grown)])
        value = trees.value[:, 1:] - trees.value[:, :1] if self.base.size == 1 else trees.value
        return replace(trees, value=np.ascontiguousarray(value / len(grown)), n_outputs=self.base.size)


def _never() -> bool:
    return False


def _blend(loss: Loss, scores: Array, y: NDArray[np.intp], weight: Array) -> Array:
    """Shares of the parts with the least loss, none negative."""

    def value(shares: Array) -> float:
        return loss(np.einsum("p,pnk->nk", shares, scores), y, weight)

    start = np.full(len(scores), 1.0)
    return np.asarray(minimize(value, start, bounds=[(1e-6, 100.0)] * len(scores), method="L-BFGS-B").x)
