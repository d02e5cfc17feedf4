"""Conditional means by forests: what rows that end in the same leaves had, of themselves or of others.

A forest is grown once for a target; any number of other quantities can then be averaged over its leaves (Meinshausen, *Quantile
regression forests*, 2006). Of a training row only trees that were grown without it are asked, so that what is decided with
these means can be judged on the same rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.sparse import csr_array
from sklearn.tree import ExtraTreeRegressor

from anytime.plan import Array
from anytime.trees.arrays import LEAF, TreeArrays
from anytime.trees.growing import join
from anytime.trees.importers import import_trees

__all__ = ["LeafMeans"]

_MOST_DRAWN = 20_000  # rows that a tree is grown on


class LeafMeans:
    """Trees grown on bootstrap samples of rows, and which rows are in which leaves.

    Parameters
    ----------
    Z : (n, m)
        What trees may ask; NaN where a value is missing. With no column at all every tree is one leaf.
    target : (n, k)
        What rows in a leaf should have in common.
    n_trees, min_samples_leaf : int
    max_features : float
        Share of the columns that are tried at a split.
    random : RandomState
    time_is_up : callable
        Asked after each tree; no tree follows once it says so.
    """

    def __init__(
        self,
        Z: Array,
        target: Array,
        *,
        n_trees: int,
        min_samples_leaf: int,
        random: np.random.RandomState,
        max_features: float = 0.5,
        time_is_up: Callable[[], bool] = lambda: False,
    ) -> None:
        n, knows_nothing = len(Z), not Z.shape[1]
        Z = np.ascontiguousarray(Z if Z.shape[1] else np.zeros((n, 1)), dtype=np.float32)
        grown, nodes, rows, counts, unseen = [], [], [], [], []
        start = 0
        for _ in range(n_trees):
            drawn = np.bincount(random.randint(n, size=min(n, _MOST_DRAWN)), minlength=n)
            if knows_nothing:  # rows that are all alike are told the same: the mean of all
                drawn = np.ones(n, dtype=np.int64)
            tree = ExtraTreeRegressor(
                min_samples_leaf=min_samples_leaf,
                max_features=max_features,
                random_state=random.randint(2**31 - 1),
            ).fit(Z, target, sample_weight=drawn.astype(np.float64))
            grown.append(import_trees(tree).trees)
            leaf = start + tree.apply(Z)
            start += tree.tree_.node_count
            nodes.append(leaf)
            rows.append(np.arange(n))
            counts.append(drawn)
            unseen.append(drawn == 0)
            if time_is_up():
                break
        self.trees = join(grown)
        leaf, row = np.concatenate(nodes), np.concatenate(rows)
        count, left_out = np.concatenate(counts).astype(np.float64), np.concatenate(unseen)
        inside = csr_array((count, (leaf, row)), shape=(start, n))
        inside.eliminate_zeros()
        total = np.maximum(inside.sum(axis=1), 1.0)
        self._inside: csr_array = csr_array(inside.multiply(1.0 / total[:, None]))
        of_row = np.bincount(row[left_out], minlength=n)
        share = 1.0 / np.maximum(of_row, 1)
        self._outside = csr_array((share[row[left_out]], (row[left_out], leaf[left_out])), shape=(n, start))
        self._never_left_out = of_row == 0

    def values(self, what: Array) -> Array:
        """(nodes, k) the mean of ``what``, (n, k), over the rows of each leaf."""
        return np.asarray(self._inside @ what)

    def honest(self, what: Array, values: Array | None = None) -> Array:
        """(n, k) what trees that have not seen a row expect of it."""
        means = np.asarray(self._outside @ (self.values(what) if values is None else values))
        means[self._never_left_out] = what.mean(axis=0)
        return means

    def table(self, what: Array) -> tuple[TreeArrays, Array]:
        """Trees that give the number of a leaf, counted through all of them, and (leaves, k) the mean of ``what`` in each."""
        leaves = np.flatnonzero(self.trees.feature == LEAF)
        number = np.zeros((self.trees.feature.size, 1))
        number[leaves, 0] = np.arange(leaves.size)
        trees = replace(self.trees, value=number, n_outputs=1)
        return trees, self.values(what)[leaves]
