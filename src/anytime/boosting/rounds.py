"""Plain gradient boosting on bins: Newton steps, one tree per output and round.

What a model of full strength is made of and, with a price on first use, cost-regularised boosting: Greedy Miser (Xu, Weinberger
and Chapelle) is boosting at a fixed lambda (Grubb, *Anytime Prediction*, 2014, section 6.5.3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.boosting.objective import MeanLoss, derivatives
from anytime.costs import BoundCosts
from anytime.plan import Array
from anytime.trees.arrays import LEAF, TreeArrays
from anytime.trees.binning import BinnedData
from anytime.trees.growing import GrownTree, TreeGrower, join, update_scores


class GradientRounds:
    """Boosting, one round at a time."""

    def __init__(
        self,
        data: BinnedData,
        objective: MeanLoss,  # of all rows of ``data``
        grower: TreeGrower,  # its ``cost_penalty`` is lambda
        start: Array,  # (K,) or (n, K): scores before the first round
        *,
        learning_rate: float = 0.1,
        rows: NDArray[np.intp] | None = None,  # (m,): rows to learn from. None: all. Scores are kept for all
        judge: NDArray[np.intp] | None = None,  # (h,): rows on which the loss is followed
        columns: NDArray[np.bool_] | None = None,  # (d,): columns that trees may use
        costs: BoundCosts | None = None,  # for the penalty on first use
        bought: NDArray[np.bool_] | None = None,  # (G,): groups that cost nothing any more
        # one tree per round for all outputs: weaker with several, and that many times faster
        shared: bool = False,
        keep_gains: bool = False,  # note how much splits on each column have gained
        by_loss: bool = False,  # follow the loss itself rather than what ``MeanLoss.judged`` says
    ) -> None:
        self.data, self.objective, self.grower, self.learning_rate = data, objective, grower, learning_rate
        self.rows, self.judge, self.columns, self.costs = rows, judge, columns, costs
        self.shared = shared
        self._judged = objective.value if by_loss and not objective.loss.ranks else objective.judged
        self.scores = np.empty((len(objective.y), np.shape(start)[-1]))  # (n, K)
        self.scores[:] = start
        self.bought = None
        if costs is not None:
            self.bought = np.zeros(costs.n_groups, dtype=bool) if bought is None else bought.copy()
        # (d,): impurity that splits on each column took off
        self.column_gains = np.zeros(data.n_features) if keep_gains else None
        self.cut_short = False  # whether ``run`` ended because time was up
        self.rounds: list[list[TreeArrays]] = []
        # on ``judge``, before the first round and after each
        self.losses = [] if judge is None else [self._judged(self.scores, judge)]
        self._least = 0  # where the losses are least, found once and not in every round

    @property
    def n_outputs(self) -> int:
        """Number of scores per row."""
        return int(self.scores.shape[1])

    def round(self) -> bool:
        """Add a round; False, and nothing added, where no tree finds a split."""
        gradient, hessian = derivatives(self.objective, self.scores, self.grower.n_threads)
        outputs = [None] if self.shared or self.n_outputs == 1 else range(self.n_outputs)
        grown = [self._grow(gradient, hessian, k) for k in outputs]
        if not any(tree.n_leaves > 1 for tree in grown):
            return False
        stage = []
        for k, tree in zip(outputs, grown, strict=True):
            rate, threads = self.learning_rate, self.grower.n_threads
            update_scores(self.scores, tree.leaf, tree.values, rate, k, n_threads=threads)
            answering = {} if k is None else _answering(k, self.n_outputs)
            stage.append(replace(tree.arrays, value=rate * tree.arrays.value, **answering))
        self.rounds.append(stage)
        if self.judge is not None:
            self.losses.append(self._judged(self.scores, self.judge))
            if self.losses[-1] < self.losses[self._least]:
                self._least = len(self.losses) - 1
        return True

    def _grow(self, gradient: NDArray[Any], hessian: NDArray[Any], output: int | None) -> GrownTree:
        """The tree of one output, or of all."""
        part = slice(None) if output is None else slice(output, output + 1)
        first, second = gradient[:, part], hessian[:, part]
        tree = self.grower.grow_newton(
            self.data,
            first,
            second,
            rows=self.rows,
            columns=self.columns,
            costs=self.costs,
            bought=self.bought,
        )
        if self.bought is not None and self.costs is not None and tree.columns.size:
            self.bought |= self.costs.closure(self.costs.groups_of(tree.columns))
        if self.column_gains is not None:
            _add_gains(self.column_gains, tree, first, second)
        return tree

    def run(
        self,
        n_estimators: int,
        n_iter_no_change: int | None = None,
        time_is_up: Callable[[], bool] | None = None,
    ) -> None:
        """Up to so many further rounds, until so many have brought no gain, or, after the first, until time is up."""
        for _ in range(n_estimators):
            if not self.round():
                return
            if n_iter_no_change is not None and len(self.rounds) - self.best >= n_iter_no_change:
                return
            if time_is_up is not None and len(self.rounds) < n_estimators and time_is_up():
                self.cut_short = True
                return

    @property
    def best(self) -> int:
        """The number of rounds with the least loss on ``judge``; all of them where none is followed."""
        return self._least if self.losses else len(self.rounds)

    def trees(self, n_estimators: int | None = None, *, one_stage: bool = False) -> TreeArrays:
        """The first rounds, one stage each, or all of them one stage."""
        rounds = self.rounds[:n_estimators]
        sizes = [len(trees) for trees in rounds]
        return join([tree for trees in rounds for tree in trees], [sum(sizes)] if one_stage else sizes)


def _answering(output: int, n_outputs: int) -> dict[str, Any]:
    return {"tree_output": np.array([output], dtype=np.int32), "n_outputs": n_outputs}


def _add_gains(gains: Array, tree: GrownTree, gradient: NDArray[Any], hessian: NDArray[Any]) -> None:
    """Add what each split has gained to its column, from the sums of the leaves up."""
    arrays = tree.arrays
    leaves = np.flatnonzero(arrays.feature == LEAF)
    sums = np.zeros((2, arrays.feature.size, gradient.shape[1]))
    for of, part in zip(sums, (gradient, hessian), strict=True):
        of[leaves] = np.stack([np.bincount(tree.leaf, column, leaves.size) for column in part.T], axis=1)
    for node in np.flatnonzero(arrays.feature != LEAF)[::-1]:  # a child stands after its parent
        left, right = arrays.left[node], arrays.right[node]
        sums[:, node] = sums[:, left] + sums[:, right]
        first, second = sums[:, [left, right, node]]
        squares = (first**2 / np.maximum(second, 1e-12)).sum(axis=1)
        gains[arrays.feature[node]] += max(squares[0] + squares[1] - squares[2], 0.0)
