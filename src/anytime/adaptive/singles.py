"""Models that answer alone: pruned forests and penalised boosting, each at several mean costs.

The rungs of a ladder read the same columns of every row. A pruned forest or trees boosted at a price of first use choose columns
row by row, and are cheaper where rows need different ones. They end a ladder in place of the costly model, or answer by
themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from anytime.adaptive.embedding import best_slope, tree_arrays
from anytime.adaptive.rungs import Rung, penalised_boosting
from anytime.boosting.learners import TrainingRows
from anytime.boosting.objective import MeanLoss
from anytime.boosting.rounds import GradientRounds
from anytime.costs import BoundCosts, FeatureCosts
from anytime.forests.growing import ClassTreeGrower
from anytime.forests.impurity import Entropy
from anytime.forests.nodes import NodeStatistics
from anytime.forests.pruning.pruned_forests import prune_forest
from anytime.plan import Array, Plan
from anytime.trees.block import TreeBlock
from anytime.trees.ladder import add_base

__all__ = ["SingleLearner"]

_TREES = 40  # of a forest that is pruned
_PRUNING_ROWS = 1000  # rows whose cost pruning lowers: more take longer and find nearly the same
# of boosting, in units of the entropy of the classes per price of everything
_PRICES = np.geomspace(1.0, 0.01, 5)


class SingleLearner:
    """Learns models that answer alone, each with honest scores of the training rows.

    Parameters
    ----------
    table : TrainingRows
    objective : MeanLoss
    base : (K,)
    n_classes : int
    costs : BoundCosts
    n_estimators : int
        Rounds of boosting.
    learning_rate, max_leaf_nodes, min_samples_leaf
        Of boosting.
    folds : sequence of (m,) int
        Rows that are left out in turn.
    seed : int
    n_threads : int
    over : callable
        Whether time is up: no further model is begun then.
    """

    def __init__(
        self,
        table: TrainingRows,
        objective: MeanLoss,
        base: Array,
        n_classes: int,
        costs: BoundCosts,
        *,
        n_estimators: int,
        learning_rate: float,
        max_leaf_nodes: int,
        min_samples_leaf: int,
        folds: Sequence[NDArray[np.intp]],
        seed: int,
        n_threads: int = 1,
        over: Callable[[], bool] = lambda: False,
    ) -> None:
        self.table, self.objective, self.base, self.n_classes, self.costs = (
            table,
            objective,
            base,
            n_classes,
            costs,
        )
        self.n_estimators, self.learning_rate = n_estimators, learning_rate
        self.max_leaf_nodes, self.min_samples_leaf = max_leaf_nodes, min_samples_leaf
        self.folds, self.seed, self.n_threads, self.over = folds, seed, n_threads, over
        self._others = [np.setdiff1d(np.arange(len(objective)), fold) for fold in folds]

    def boosted(self, most: float = np.inf) -> Iterator[Rung]:
        """Trees boosted at falling prices of first use, up to the first whose groups cost more than ``most`` together."""
        spent = 0.0
        for price in _PRICES:
            if self.over() or spent > most:
                return
            whole = self._boosting(price, None)
            if not whole.rounds:
                continue
            assert whole.bought is not None
            spent = self.costs.costs.amount(int(self.costs.prices[whole.bought].sum()))
            scores = np.empty((len(self.objective), self.base.size))
            for fold, others in zip(self.folds, self._others, strict=True):
                scores[fold] = self._boosting(price, others).scores[fold]
            trees = whole.trees(one_stage=True)
            add_base(trees, trees.value, self.base)
            yield Rung(TreeBlock(trees), scores)

    def _boosting(self, price: float, rows: NDArray[np.intp] | None) -> GradientRounds:
        boosting = penalised_boosting(
            self.table, self.objective, self.base, self.costs, price, rows,
            max_leaf_nodes=self.max_leaf_nodes, min_samples_leaf=self.min_samples_leaf,
            learning_rate=self.learning_rate, shared=True, n_threads=self.n_threads,
        )  # fmt: skip
        boosting.run(self.n_estimators, time_is_up=self.over)
        return boosting

    def pruned(self) -> list[Rung]:
        """One forest, pruned to several mean costs."""
        plan = self._pruned(None)
        by_fold = [self._pruned(others) for others in self._others]
        rungs = []
        assert plan.expected_costs is not None
        for cost, block in zip(plan.expected_costs, plan.blocks, strict=True):
            votes = np.empty((len(self.objective), self.base.size))
            for fold, other in zip(self.folds, by_fold, strict=True):
                near = _as_dear(other, float(cost))
                votes[fold] = self._votes(other.blocks[near].outputs(0, self.table.X[fold]))
            slope = best_slope(votes, self.objective.y, self.objective.weight)
            trees = tree_arrays(block)
            value = np.ascontiguousarray(slope * self._votes(trees.value))
            rungs.append(
                Rung(TreeBlock(replace(trees, value=value, n_outputs=self.base.size)), slope * votes)
            )
        return rungs

    def _pruned(self, rows: NDArray[np.intp] | None) -> Plan:
        """A forest of some rows, pruned on them: errors are those of trees that have not drawn the row."""
        table = self.table if rows is None else self.table.rows(rows)
        part = slice(None) if rows is None else rows
        y, weight = self.objective.y[part], self.objective.weight[part]
        grown = ClassTreeGrower(Entropy(), split="expected", n_threads=self.n_threads).grow_forest(
            table.binned, y, weight / weight.mean(), n_classes=self.n_classes, n_trees=_TREES,
            random_state=self.seed,
        )  # fmt: skip
        nodes = NodeStatistics.of_trees(grown, classes=np.arange(self.n_classes))
        some = np.random.default_rng(self.seed).permutation(len(y))[:_PRUNING_ROWS]
        model = prune_forest(
            nodes, table.X[some], y[some], X_train=table.X, y_train=y, costs=_by_position(self.costs),
            sample_weight=weight[some] / weight[some].mean(), n_jobs=self.n_threads,
            refit=False,  # no rows are held out that could say whether it helps
        )  # fmt: skip
        return model.plan_

    def _votes(self, value: Array) -> Array:
        """(n, K) Votes as scores."""
        return value[:, 1:] - value[:, :1] if self.base.size == 1 else value


def _as_dear(plan: Plan, cost: float) -> int:
    """The stage whose mean cost is nearest."""
    assert plan.expected_costs is not None
    return int(np.abs(plan.expected_costs - cost).argmin())


def _by_position(costs: BoundCosts) -> FeatureCosts:
    """The same prices with columns named by their place."""
    given = costs.costs
    groups = {name: np.flatnonzero(costs.column_group == g).tolist() for g, name in enumerate(given.names)}
    return FeatureCosts(prices=given.prices, groups=groups, requires=given.requires, unit=given.unit)
