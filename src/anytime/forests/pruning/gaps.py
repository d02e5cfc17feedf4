"""Prunings between two that are best for some trade-off.

What is best for some ``lam`` lies on the lower hull of error against cost, and a hull has long edges: with many trees that each
read a little of everything there may be nothing between no feature and most of them. Budgets on such an edge get what is left
of the larger pruning when one group after the other is taken out of it, the one first whose loss adds least error per cost.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anytime.forests.pruning.problem import Pruning, PruningProblem
from anytime.plan import Array

__all__ = ["fill_gap"]

_STEPS = 60  # about so many prunings in a gap: with more groups than that, several are taken out at a time


def fill_gap(problem: PruningProblem, small: Pruning, large: Pruning) -> list[Pruning]:
    """Nested prunings strictly between two nested ones, from cheap to costly.

    A node is taken out where a row that gets there would pay for the group for the first time; what ``small`` keeps stays.
    Nothing is proved of them. Each takes time linear in nodes and rows.

    Parameters
    ----------
    problem : PruningProblem
    small, large : Pruning
    """
    node, group = first_uses(problem)
    removable = large.internal[node] & ~small.internal[node]
    node, group = node[removable], group[removable]
    shares = np.minimum(problem.reach / problem.n_cost, 1 - 1e-12)
    tree = np.searchsorted(problem.tree_start, node, side="right") - 1
    n_groups = problem.prices.size
    lam = (small.error - large.error) / max(large.spent - small.spent, np.finfo(float).tiny)
    internal, found = large.internal, list[Pruning]()
    at_once = max(1, np.unique(group).size // _STEPS)
    while True:
        here = internal[node]
        node, group, tree = node[here], group[here], tree[here]
        left = np.unique(group)
        if left.size <= 1:  # without the last there is nothing beyond ``small``
            return found[::-1]
        added = np.bincount(group, _saved(problem, internal)[node], n_groups)
        saved = problem.prices * _readers(shares[node], tree, group, problem.n_trees, n_groups)
        worth = np.divide(added, saved, out=np.full(n_groups, np.inf), where=saved > 0)[left]
        worst = left[np.lexsort((-problem.prices[left], worth))[: min(at_once, left.size - 1)]]
        internal = internal.copy()
        internal[node[np.isin(group, worst)]] = False
        for level in problem.levels[1:]:
            internal[level] &= internal[problem.parent[level]]
        error, cost, computation = problem.evaluate(internal)
        value = error + lam * (cost + computation)
        pruning = Pruning(internal, lam, error, cost, computation, value, -np.inf, method="between")
        if pruning.spent <= small.spent:
            return found[::-1]
        if pruning.spent < (found[-1] if found else large).spent:
            found.append(pruning)


def first_uses(problem: PruningProblem) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
    """Nodes, and groups that they need but no node above them does."""
    node = np.repeat(np.arange(problem.n_nodes), np.diff(problem.group_start))
    group = problem.node_groups
    bit, byte = np.uint8(1) << (group & 7).astype(np.uint8), group >> 3
    own = np.zeros((problem.n_nodes, -(-problem.prices.size // 8)), dtype=np.uint8)
    np.bitwise_or.at(own, (node, byte), bit)
    above = np.zeros_like(own)
    for level in problem.levels[1:]:
        parent = problem.parent[level]
        above[level] = above[parent] | own[parent]
    first = above[node, byte] & bit == 0
    return node[first], group[first]


def _saved(problem: PruningProblem, internal: NDArray[np.bool_]) -> Array:
    """(M,) how much less error the pruning makes below each node than the node would as a leaf."""
    below = np.where(internal, 0.0, problem.error)
    for level in problem.levels[:0:-1]:
        kept = level[internal[problem.parent[level]]]
        np.add.at(below, problem.parent[kept], below[kept])
    return problem.error - below


def _readers(
    share: Array, tree: NDArray[np.intp], group: NDArray[np.int32], n_trees: int, n_groups: int
) -> Array:
    """(G,) about which part of the rows reads each group, if trees were independent of each other."""
    in_tree = np.bincount(tree * n_groups + group, share, n_trees * n_groups).reshape(n_trees, n_groups)
    return np.asarray(1 - np.exp(np.log1p(-np.minimum(in_tree, 1 - 1e-12)).sum(axis=0)))
