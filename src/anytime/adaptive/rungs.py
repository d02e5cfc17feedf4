"""Models on ever more columns: which columns come first, and a blend of boosted and random trees on each set of them.

Boosting at falling prices of first use, what was bought at a higher price being free at the next, says in which order groups of
columns are worth buying. Each rung of the ladder has a beginning of that order to itself, and may use all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from anytime.blocks import Block
from anytime.boosting.learners import Table
from anytime.boosting.objective import Objective
from anytime.boosting.rounds import Boosting
from anytime.costs import BoundCosts
from anytime.forests.growing import ClassTreeGrower
from anytime.forests.impurity import Entropy
from anytime.losses import Loss
from anytime.plan import Array
from anytime.trees.arrays import TreeArrays
from anytime.trees.block import TreeBlock
from anytime.trees.growing import TreeGrower, join
from anytime.trees.ladder import add_base

__all__ = ["LEAST_ROWS", "Rung", "RungLearner", "column_sets", "purchases"]

_PRICES = np.geomspace(3.0, 1e-3, 14)  # in units of the entropy of the classes per price of everything
_ROUNDS, _RATE = 30, 0.2  # at each price
LEAST_ROWS = 20  # in a leaf of the trees that buy: with fewer than twice as many rows nothing is bought


def purchases(
    table: Table, objective: Objective, base: Array, costs: BoundCosts, n_threads: int = 1
) -> list[NDArray[np.intp]]:
    """Groups in the order in which they are worth buying, those bought at one time together; some may never be."""
    total = costs.costs.total
    unit = objective.value(np.tile(base, (len(objective), 1))) / total if total > 0 else 0.0
    bought, order = np.zeros(costs.n_groups, dtype=bool), []
    for price in _PRICES:
        grower = TreeGrower(
            max_leaves=None,
            max_depth=4,
            min_rows=LEAST_ROWS,
            penalty=price * unit * objective.total,
            n_threads=n_threads,
        )
        boosting = Boosting(
            table.binned, objective, grower, base, learning_rate=_RATE, costs=costs, bought=bought
        )
        for _ in range(_ROUNDS):
            if not boosting.round():
                break
            assert boosting.bought is not None
            if (new := np.flatnonzero(boosting.bought & ~bought)).size:
                order.append(new)
                bought = boosting.bought.copy()
        if bought.all():
            break
    return order


def column_sets(
    order: Sequence[NDArray[np.intp]], costs: BoundCosts, most: float, n_sets: int
) -> list[NDArray[np.bool_]]:
    """Up to so many beginnings of the order, as masks of columns, cheaper than ``most`` and each dearer by about one factor."""
    if not order:
        return []
    bought = np.zeros((len(order), costs.n_groups), dtype=bool)
    for k, new in enumerate(order):
        bought[k:, new] = True
    prices = np.array([costs.costs.amount(int(costs.prices[mask].sum())) for mask in bought])
    start = int(np.flatnonzero(prices > 0)[0]) if (prices > 0).any() else len(order) - 1
    wanted = np.geomspace(max(prices[start], 1e-12), max(prices[-1], 1e-12), n_sets + 1)
    chosen = {int(np.abs(np.log(np.maximum(prices, 1e-300)) - np.log(price)).argmin()) for price in wanted}
    return [bought[k][costs.column_group] for k in sorted(chosen) if prices[k] < most * (1 - 1e-9)][-n_sets:]


@dataclass(frozen=True, eq=False)
class Rung:
    """A model on some of the columns.

    Attributes
    ----------
    block : Block
        One stage that gives the whole score.
    scores : (n, K)
        Of the training rows, as if it had not learned from them.
    """

    block: Block
    scores: Array


class RungLearner:
    """Learns blends of boosted and random trees.

    Parameters
    ----------
    table : Table
    objective : Objective
    base : (K,)
    n_classes : int
    n_trees : int
        Rounds of boosting, and random trees.
    learning_rate, max_leaves, min_rows
        Of boosting. With several classes a tree answers for all.
    folds : sequence of (m,) int
        Rows that are left out in turn, so that boosted trees judge rows that they have not learned from.
    seed : int
    n_threads : int
    """

    def __init__(
        self,
        table: Table,
        objective: Objective,
        base: Array,
        n_classes: int,
        *,
        n_trees: int,
        learning_rate: float,
        max_leaves: int,
        min_rows: int,
        folds: Sequence[NDArray[np.intp]],
        seed: int,
        n_threads: int = 1,
    ) -> None:
        self.table, self.objective, self.base, self.n_classes = table, objective, base, n_classes
        self.n_trees, self.learning_rate, self.folds, self.seed = n_trees, learning_rate, folds, seed
        self.grower = TreeGrower(
            max_leaves=max_leaves, max_depth=None, min_rows=min_rows, n_threads=n_threads
        )

    def learn(self, columns: NDArray[np.bool_]) -> Rung:
        """A rung on these columns."""
        boosted, boosted_scores = self._boosted(columns)
        random, random_scores = self._random(columns)
        parts = (
            [(random, random_scores)]
            if boosted is None
            else [(boosted, boosted_scores), (random, random_scores)]
        )
        loss, y, weight = self.objective.loss, self.objective.y, self.objective.weight
        shares = _blend(loss, [scores for _, scores in parts], y, weight)
        scaled = [
            replace(trees, value=share * trees.value) for share, (trees, _) in zip(shares, parts, strict=True)
        ]
        whole = join(scaled, [sum(trees.n_trees for trees in scaled)])
        scores = sum(share * scores for share, (_, scores) in zip(shares, parts, strict=True))
        return Rung(TreeBlock(whole), np.asarray(scores))

    def _boosted(self, columns: NDArray[np.bool_]) -> tuple[TreeArrays | None, Array]:
        """The base and boosted trees, None where they find no split, and the scores of rows by folds."""

        def boosting(rows: NDArray[np.intp] | None) -> Boosting:
            found = Boosting(
                self.table.binned, self.objective, self.grower, self.base, learning_rate=self.learning_rate,
                rows=rows, columns=columns, shared=True,
            )  # fmt: skip
            found.run(self.n_trees)
            return found

        scores = np.empty((len(self.objective), self.base.size))
        for fold in self.folds:
            others = np.setdiff1d(np.arange(len(scores)), fold)
            scores[fold] = boosting(others).scores[fold]
        whole = boosting(None)
        if not whole.rounds:
            return None, scores
        trees = whole.trees(one_stage=True)
        add_base(trees, trees.value, self.base)
        return trees, scores

    def _random(self, columns: NDArray[np.bool_]) -> tuple[TreeArrays, Array]:
        """Random trees, their votes as scores; those of a row by trees that have not seen it."""
        n = self.n_trees
        grower = ClassTreeGrower(
            Entropy(), split="expected", search="random", max_features=max(int(np.sqrt(columns.sum())), 1),
            n_threads=self.grower.n_threads,
        )  # fmt: skip
        grown = grower.grow_forest(
            self.table.binned, self.objective.y, self.objective.weight * len(self.objective),
            n_classes=self.n_classes, n_trees=n, columns=columns, random_state=self.seed,
        )  # fmt: skip
        trees = join([tree.arrays for tree in grown])
        value = trees.value[:, 1:] - trees.value[:, :1] if self.base.size == 1 else trees.value
        trees = replace(trees, value=np.ascontiguousarray(value / n), n_outputs=self.base.size)
        block, total = TreeBlock(trees), np.zeros((len(self.objective), self.base.size))
        unseen = np.zeros(len(total), dtype=np.intp)
        for t, tree in enumerate(grown):
            out = np.ones(len(total), dtype=bool) if tree.in_bag is None else tree.in_bag == 0
            total[out] += block.outputs(t, self.table.X[out])
            unseen += out
        return trees, total * (n / np.maximum(unseen, 1))[:, None]


def _blend(loss: Loss, scores: Sequence[Array], y: NDArray[np.intp], weight: Array) -> Array:
    """Shares of the parts with the least loss, none negative."""

    def value(shares: Array) -> float:
        return loss(np.einsum("p,pnk->nk", shares, np.stack(scores)), y, weight)

    start = np.full(len(scores), 1.0)
    return np.asarray(minimize(value, start, bounds=[(1e-6, 100.0)] * len(scores), method="L-BFGS-B").x)
