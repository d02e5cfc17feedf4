"""Plain boosting of class distributions: Newton steps of trees with one output per class, no prices, no context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anytime.losses import LINKS
from anytime.trees.arrays import TreeArrays
from anytime.trees.binning import BinnedData
from anytime.trees.block import TreeBlock
from anytime.trees.growing import TreeGrower, join

__all__ = ["BoostedDistribution", "DistributionRules", "LabelledRows", "cross_entropy"]

Array = NDArray[np.float64]
_LEAST_CURVATURE = 1e-3
_JUDGED_EVERY = 5  # trees after which held-out rows are looked at


@dataclass(frozen=True)
class DistributionRules:
    """How a distribution is boosted.

    Parameters
    ----------
    n_estimators : int, default=80
        The most trees.
    learning_rate : float, default=0.2
    max_leaf_nodes : int, default=31
    min_samples_leaf : int, default=50
    l2_regularization : float, default=1
    max_samples : int, default=8000
        The most rows that a tree is grown on, drawn anew for each.
    max_features : float, default=0.15
        Share of the columns that a tree may test, drawn anew for each.
    n_iter_no_change : int, default=10
        Trees after which growing ends that have not lowered the loss of held-out rows, where there are any.
    max_bins : int, default=32
        Of a column. With eleven outputs most of a tree's time is spent over bins, not over rows.
    n_threads : int, default=1
    """

    n_estimators: int = 80
    learning_rate: float = 0.2
    max_leaf_nodes: int = 31
    min_samples_leaf: int = 50
    l2_regularization: float = 1.0
    max_samples: int = 8_000
    max_features: float = 0.15
    n_iter_no_change: int = 10
    max_bins: int = 32
    n_threads: int = 1


@dataclass(eq=False)
class BoostedDistribution:
    """Boosted trees that give a class distribution.

    Attributes
    ----------
    base : (K,) scores before the first tree
    trees : TreeBlock
        All trees are one stage.
    rate : float
    """

    base: Array
    trees: TreeBlock
    rate: float

    def predict_proba(self, table: Array) -> Array:
        """(n, K) distributions of (n, d) rows."""
        scores = self.base + self.rate * self.trees.outputs(0, np.ascontiguousarray(table))
        return LINKS["softmax"].transform(scores)

    @classmethod
    def fit(
        cls, rows: LabelledRows, rules: DistributionRules, random: np.random.RandomState
    ) -> tuple[BoostedDistribution, Array]:
        """Minimise the weighted cross-entropy of all rows; what is learned, and the (n, K) distributions that it gives them."""
        state = _Boosting(rows, rows.weight > 0, rules)
        for _ in range(rules.n_estimators):
            state.grow(random)
        return state.fitted(rules.n_estimators), LINKS["softmax"].transform(state.scores)

    @classmethod
    def fit_stacked(
        cls,
        rows: LabelledRows,
        fold: NDArray[np.intp],
        rules: DistributionRules,
        random: np.random.RandomState,
    ) -> tuple[BoostedDistribution, Array]:
        """Minimise it as long as copies which do not see a part of the rows come closer to that part.

        Parameters
        ----------
        rows : LabelledRows
        fold : (n,) int
            The part of each row; for each there is a copy that learns from the others.
        rules : DistributionRules
        random : RandomState

        Returns
        -------
        What is learned from all rows, with as many trees as serve the copies best, and the (n, K) distributions that each
        copy gives the rows of its part.
        """
        parts = np.unique(fold)
        main = _Boosting(rows, rows.weight > 0, rules)
        copies = [_Boosting(rows, (rows.weight > 0) & (fold != part), rules) for part in parts]
        best, n_best, said = np.inf, 0, np.empty_like(rows.target)
        for n_trees in range(1, rules.n_estimators + 1):
            for state in (main, *copies):
                state.grow(random)
            if n_trees % _JUDGED_EVERY and n_trees < rules.n_estimators:
                continue
            held_out = np.empty_like(rows.target)
            for part, copy in zip(parts, copies, strict=True):
                held_out[fold == part] = LINKS["softmax"].transform(copy.scores[fold == part])
            loss = cross_entropy(rows.target, held_out, rows.weight)
            if loss < best:
                best, n_best, said = loss, n_trees, held_out
            elif n_trees - n_best >= rules.n_iter_no_change:
                break
        return main.fitted(n_best), said


class LabelledRows(NamedTuple):
    """What a distribution is learned from.

    Attributes
    ----------
    data : BinnedData of n rows
    target : (n, K) distributions
    weight : (n,) how much each row counts; rows of weight 0 are not learned from
    n_drawn : int or None
        Columns of which a share is drawn for each tree: the first ones. Those behind them every tree may test. None: all.
    """

    data: BinnedData
    target: Array
    weight: Array
    n_drawn: int | None = None


def cross_entropy(target: Array, said: Array, weight: Array) -> float:
    """The weighted mean of ``-sum_k target_k log said_k``."""
    loss = -(target * np.log(np.maximum(said, 1e-12))).sum(axis=1)
    return float(weight @ loss / weight.sum())


class _Boosting:
    """Boosting on some of the rows, tree by tree; scores are kept of all."""

    def __init__(self, task: LabelledRows, learns: NDArray[np.bool_], rules: DistributionRules) -> None:
        self.task, self.rules, self.rows = task, rules, np.flatnonzero(learns)
        rows, weight, n_classes = self.rows, task.weight, task.target.shape[1]
        self.base = np.log((weight[rows] @ task.target[rows] + 1.0) / (weight[rows].sum() + n_classes))
        self.scores = np.tile(self.base, (len(task.target), 1))
        self._scale = weight / weight[rows].mean()
        self._gradient, self._curvature = np.zeros(task.target.shape), np.zeros(task.target.shape)
        self._grower = TreeGrower(
            max_leaf_nodes=rules.max_leaf_nodes,
            min_samples_leaf=rules.min_samples_leaf,
            min_weight=0.0,
            l2_regularization=rules.l2_regularization,
            n_threads=rules.n_threads,
        )
        self._trees: list[TreeArrays] = []

    def grow(self, random: np.random.RandomState) -> None:
        """Add a tree."""
        task, rules, some = self.task, self.rules, self.rows
        if some.size > rules.max_samples:
            some = np.sort(random.choice(some, rules.max_samples, replace=False))
        allowed = np.ones(task.data.n_features, dtype=bool)
        drawn = allowed[: task.n_drawn]
        drawn[:] = random.random_sample(drawn.size) < rules.max_features
        said, scale = LINKS["softmax"].transform(self.scores[some]), self._scale[some, None]
        self._gradient[some] = scale * (said - task.target[some])
        self._curvature[some] = scale * np.maximum(said * (1.0 - said), _LEAST_CURVATURE)
        grown = self._grower.grow_newton(
            task.data, self._gradient, self._curvature, rows=some, columns=allowed
        )
        self.scores += rules.learning_rate * grown.values[grown.leaf]
        self._trees.append(grown.arrays)

    def fitted(self, n_trees: int) -> BoostedDistribution:
        """What the first trees make."""
        trees = self._trees[:n_trees]
        return BoostedDistribution(self.base, TreeBlock(join(trees, [n_trees])), self.rules.learning_rate)
