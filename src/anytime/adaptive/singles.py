"""Models that answer alone: pruned forests and penalised boosting, each at several mean costs.

The rungs of a ladder read the same columns of every row. A pruned forest or trees boosted at a price of first use choose columns
row by row, and are cheaper where rows need different ones. They end a ladder in place of the costly model, or answer by
themselves.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from anytime.adaptive.embedding import best_slope, tree_arrays
from anytime.adaptive.rungs import Rung, RungLearner, penalised_boosting
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
_PRICES = np.geomspace(1.0, 0.01, 4)


class SingleLearner:
    """Learns models that answer alone, each with honest scores of the training rows.

    Parameters
    ----------
    rungs : RungLearner
        Its rows, objective, folds, trees and clock are used.
    costs : BoundCosts
    """

    def __init__(self, rungs: RungLearner, costs: BoundCosts) -> None:
        self.rungs, self.costs = rungs, costs
        self.table, self.objective, self.base = rungs.table, rungs.objective, rungs.base
        self._others = [np.setdiff1d(np.arange(len(rungs.objective)), fold) for fold in rungs.folds]

    def boosted(self, most: float = np.inf) -> Iterator[Rung]:
        """Trees boosted at falling prices of first use, until they buy everything or groups that cost more than ``most``."""
        spent, total = 0.0, self.costs.costs.total
        for price in _PRICES:
            if self.rungs.over() or spent > most or (spent and spent >= total):
                return
            whole = self._boosting(price, None)
            if not whole.rounds:
                continue
            assert whole.bought is not None
            spent = self.costs.costs.amount(int(self.costs.prices[whole.bought].sum()))
            scores = np.empty((len(self.objective), self.base.size))
            for fold, others in zip(self.rungs.folds, self._others, strict=True):
                scores[fold] = self._boosting(price, others).scores[fold]
            trees = whole.trees(one_stage=True)
            add_base(trees, trees.value, self.base)
            yield Rung(TreeBlock(trees), scores)

    def _boosting(self, price: float, rows: NDArray[np.intp] | None) -> GradientRounds:
        boosting = penalised_boosting(
            self.table, self.objective, self.base, self.costs, price, rows,
            max_leaf_nodes=self.rungs.grower.max_leaf_nodes, min_samples_leaf=self.rungs.grower.min_samples_leaf,
            learning_rate=self.rungs.learning_rate, shared=True, n_threads=self.rungs.grower.n_threads,
        )  # fmt: skip
        boosting.run(self.rungs.n_estimators, time_is_up=self.rungs.over)
        return boosting

    def pruned(self) -> list[Rung]:
        """One forest, pruned to several mean costs."""
        plan, *by_fold = self.rungs.side_by_side(SingleLearner._pruned, (self,), [None, *self._others])
        rungs = []
        assert plan.expected_costs is not None
        for cost, block in zip(plan.expected_costs, plan.blocks, strict=True):
            votes = np.empty((len(self.objective), self.base.size))
            for fold, other in zip(self.rungs.folds, by_fold, strict=True):
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
        grown = ClassTreeGrower(Entropy(), split="expected", n_threads=self.rungs.grower.n_threads).grow_forest(
            table.binned, y, weight / weight.mean(), n_classes=self.rungs.n_classes, n_trees=_TREES,
            random_state=self.rungs.seed,
        )  # fmt: skip
        nodes = NodeStatistics.of_trees(grown, classes=np.arange(self.rungs.n_classes))
        some = np.random.default_rng(self.rungs.seed).permutation(len(y))[:_PRUNING_ROWS]
        model = prune_forest(
            nodes, table.X[some], y[some], X_train=table.X, y_train=y, costs=_by_position(self.costs),
            sample_weight=weight[some] / weight[some].mean(), n_jobs=self.rungs.grower.n_threads,
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
    prices = costs.costs
    groups = {name: np.flatnonzero(costs.column_group == g).tolist() for g, name in enumerate(prices.names)}
    return FeatureCosts(prices=prices.prices, groups=groups, requires=prices.requires, unit=prices.unit)
