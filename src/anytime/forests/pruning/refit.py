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

from anytime._native import refit_leaves
from anytime.forests.nodes import NodeStatistics, read_rows
from anytime.forests.pruning.problem import PruningProblem, leaves_of
from anytime.plan import Array

_CAUTION = 2.0  # rows that say a leaf of every tree is right as it is
_SWEEPS = 6  # over all trees; more change little


@dataclass(frozen=True, eq=False)
class Lessons:
    """Training rows as pruned forests learn from them."""

    leaf: NDArray[np.int32]  # (T, n): the leaf of the whole forest that each row reaches in each tree
    target: Array  # (n, K): what the forest should answer
    weight: Array  # (n,)
    # (T, n): whether a tree counts in what the forest makes of a row: it was not grown from it
    unseen: NDArray[np.uint8]

    @classmethod
    def of(cls, statistics: NodeStatistics, X: Any, y: Any, sample_weight: Any = None) -> Lessons | None:
        """The rows that the trees were grown from; None where trees do not average answers, so that none can be corrected.

        Where ``statistics.seen`` does not tell which tree has seen which of them, every tree counts.
        """
        trees = statistics.trees
        if statistics.link not in ("identity", "probability") or trees.value.shape[1] != trees.n_outputs:
            return None
        rows, truth, weight = read_rows(statistics, X, y, sample_weight)
        leaf = np.ascontiguousarray(leaves_of(trees, rows).T)
        seen = np.zeros(leaf.shape, dtype=bool) if statistics.seen is None else np.asarray(statistics.seen)
        weight = np.where(seen.all(axis=0), 0.0, weight)
        if not weight.any():
            return None
        target = truth if statistics.classes is None else np.eye(len(statistics.classes))[truth]
        return cls(leaf, np.ascontiguousarray(target), weight, np.ascontiguousarray(~seen).view(np.uint8))

    def fitted(self, problem: PruningProblem, value: Array, internal: NDArray[np.bool_]) -> Array:
        """(M, K) answers of the nodes of a pruning, from what they would answer alone.

        Minimises, over corrections ``b`` of the leaves, ``sum_i w_i |r_i - sum_t b_t(i)|^2 + caution T sum_h |b_h|^2``, ``r_i``
        what is missing at row ``i``: a tree at a time, each in turn taking up what all others leave over. O(n T K) a sweep.
        """
        ends = problem.ends(internal).astype(np.int32)
        arrays = ends, problem.tree_start, np.ascontiguousarray(value), self.target, self.weight, self.unseen
        return np.asarray(refit_leaves(self.leaf, *arrays, _CAUTION, _SWEEPS))
