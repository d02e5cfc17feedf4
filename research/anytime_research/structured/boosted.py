"""Plain boosting of class distributions: Newton steps of trees with one output per class, no prices, no context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.losses import LINKS
from anytime.trees.binning import BinnedData
from anytime.trees.block import TreeBlock
from anytime.trees.growing import TreeGrower, join

__all__ = ["BoostedDistribution", "BoostingRules"]

Array = NDArray[np.float64]
_LEAST_CURVATURE = 1e-3


@dataclass(frozen=True)
class BoostingRules:
    """How a distribution is boosted.

    Parameters
    ----------
    n_rounds : int, default=80
        Trees.
    learning_rate : float, default=0.1
    max_leaf_nodes : int, default=31
    min_samples_leaf : int, default=20
    l2_regularization : float, default=1
    max_samples : int, default=20000
        The most rows that a tree is grown on, drawn anew for each.
    max_features : float, default=0.3
        Share of the columns that a tree may test, drawn anew for each.
    max_bins : int, default=48
        Of a column. With eleven outputs most of a tree's time is spent over bins, not over rows.
    n_threads : int, default=1
    """

    n_rounds: int = 80
    learning_rate: float = 0.1
    max_leaf_nodes: int = 31
    min_samples_leaf: int = 20
    l2_regularization: float = 1.0
    max_samples: int = 20_000
    max_features: float = 0.3
    max_bins: int = 48
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
        cls,
        data: BinnedData,
        target: Array,
        weight: Array,
        rules: BoostingRules,
        random: np.random.RandomState,
        *,
        learns: NDArray[np.bool_] | None = None,
        n_drawn: int | None = None,
    ) -> tuple[BoostedDistribution, Array]:
        """Minimise the weighted cross-entropy.

        Parameters
        ----------
        data : BinnedData of n rows
        target : (n, K) distributions
        weight : (n,) how much each row counts; rows of weight 0 are not learned from
        rules : BoostingRules
        random : RandomState
        learns : (n,) bool, default=None
            Rows to learn from; None: all.
        n_drawn : int, default=None
            Columns of which a share is drawn for each tree: the first ones. Those behind them every tree may test. None: all.

        Returns
        -------
        BoostedDistribution, and the (n, K) distributions that it gives all rows.
        """
        eligible = weight > 0 if learns is None else learns & (weight > 0)
        rows = np.flatnonzero(eligible)
        n_classes = target.shape[1]
        base = np.log((weight[rows] @ target[rows] + 1.0) / (weight[rows].sum() + n_classes))
        scores = np.tile(base, (len(target), 1))
        scale = weight / weight[rows].mean()
        gradient, curvature = np.zeros(target.shape), np.zeros(target.shape)
        grower = TreeGrower(
            max_leaf_nodes=rules.max_leaf_nodes,
            min_samples_leaf=rules.min_samples_leaf,
            min_weight=0.0,
            l2_regularization=rules.l2_regularization,
            n_threads=rules.n_threads,
        )
        trees = []
        for _ in range(rules.n_rounds):
            some = _drawn(rows, rules.max_samples, random)
            allowed = np.ones(data.n_features, dtype=bool)
            drawn = allowed[:n_drawn]
            drawn[:] = random.random_sample(drawn.size) < rules.max_features
            said = LINKS["softmax"].transform(scores[some])
            gradient[some] = scale[some, None] * (said - target[some])
            curvature[some] = scale[some, None] * np.maximum(said * (1.0 - said), _LEAST_CURVATURE)
            grown = grower.grow_newton(data, gradient, curvature, rows=some, columns=allowed)
            scores += rules.learning_rate * grown.values[grown.leaf]
            trees.append(grown.arrays)
        fitted = cls(base, TreeBlock(join(trees, [len(trees)])), rules.learning_rate)
        return fitted, LINKS["softmax"].transform(scores)


def _drawn(rows: NDArray[np.intp], most: int, random: Any) -> NDArray[np.intp]:
    return rows if rows.size <= most else np.sort(random.choice(rows, most, replace=False))
