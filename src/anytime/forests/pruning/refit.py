"""Answers of a pruned forest that fit each other.

A node answers with what it knows of its own rows, as if its tree were alone. Where trees are small that is too cautious: all of
them lean to the mean in the same places, and so does their average. Here the leaves of all trees are corrected together, so that
the average of the forest comes near the truth of training rows (after Ren, Cao, Wei and Sun, *Global Refinement of Random
Forest*, 2015). What is left to correct is counted with the trees that a row was not drawn for: others know it by heart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from anytime.forests.nodes import NodeStatistics, read_rows
from anytime.forests.pruning.problem import PruningProblem, leaves_of
from anytime.plan import Array

__all__ = ["Lessons"]

_CAUTION = 2.0  # rows that say a leaf of every tree is right as it is
_SWEEPS = 6  # over all trees; more change little


@dataclass(frozen=True, eq=False)
class Lessons:
    """Training rows as pruned forests learn from them.

    Attributes
    ----------
    leaf : (n, T) int32
        The leaf of the whole forest that each row reaches in each tree.
    target : (n, K)
        What the forest should answer.
    weight : (n,)
    unseen : (n, T) bool
        Whether a tree counts in what the forest makes of a row: it was not grown from it.
    """

    leaf: NDArray[np.int32]
    target: Array
    weight: Array
    unseen: NDArray[np.bool_]

    @classmethod
    def of(
        cls,
        statistics: NodeStatistics,
        X: Any,
        y: Any,
        sample_weight: Any = None,
    ) -> Lessons | None:
        """The rows that the trees were grown from; None where trees do not average answers, so that none can be corrected.

        Where ``statistics.seen`` does not tell which tree has seen which of them, every tree counts.
        """
        trees = statistics.trees
        if statistics.link not in ("identity", "probability") or trees.value.shape[1] != trees.n_outputs:
            return None
        rows, truth, weight = read_rows(statistics, X, y, sample_weight)
        leaf = leaves_of(trees, rows)
        unseen = (
            np.ones(leaf.shape, dtype=bool) if statistics.seen is None else ~np.transpose(statistics.seen)
        )
        weight = np.where(unseen.any(axis=1), weight, 0.0)
        if not weight.any():
            return None
        target = truth if statistics.classes is None else np.eye(len(statistics.classes))[truth]
        return cls(leaf, target, weight, unseen)

    def fitted(self, problem: PruningProblem, value: Array, internal: NDArray[np.bool_]) -> Array:
        """(M, K) answers of the nodes of a pruning, from what they would answer alone.

        Minimises, over corrections ``b`` of the leaves, ``sum_i w_i |r_i - sum_t b_t(i)|^2 + caution T sum_h |b_h|^2``, ``r_i``
        what is missing at row ``i``: a tree at a time, each in turn taking up what all others leave over.
        """
        ends, n_trees = problem.ends(internal), problem.n_trees
        missing = self.target - self._answers(value, ends)
        at, size = [], []
        for t in range(n_trees):
            first, stop = problem.tree_start[t : t + 2]
            node = ends[self.leaf[:, t]] - first
            shape = stop - first, node.size
            at.append(csr_array((self.weight, (node, np.arange(node.size))), shape=shape))
            size.append(at[t].sum(axis=1)[:, None])
        change = np.zeros_like(value)
        for sweep in range(_SWEEPS):
            for t in range(n_trees)[:: -1 if sweep % 2 else 1]:
                own = change[slice(*problem.tree_start[t : t + 2])]
                new = (at[t] @ missing + size[t] * own) / (size[t] + _CAUTION * n_trees)
                missing -= (new - own)[ends[self.leaf[:, t]] - problem.tree_start[t]]
                own[:] = new
        return np.asarray(value + n_trees * change)

    def _answers(self, value: Array, ends: NDArray[np.intp]) -> Array:
        """(n, K) the mean over the trees that count."""
        total = np.zeros(self.target.shape)
        for counts, leaf in zip(self.unseen.T, self.leaf.T, strict=True):
            total += np.where(counts[:, None], value[ends[leaf]], 0.0)
        return np.asarray(total / np.maximum(self.unseen.sum(axis=1), 1)[:, None])
