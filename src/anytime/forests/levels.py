"""A tree as an answer at every cost: cut where a path becomes too expensive, it still has an answer at every node.

A *level* of a tree is the tree cut so that no row pays more than some amount on its way down: every test that would exceed it
becomes a leaf. Tests of groups that are already paid for cost nothing, so they stay. Levels are nested, and the last is the whole
tree. As stages that replace each other, they make a tree that can be stopped at any cost.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.costs import BoundCosts
from anytime.plan import Array
from anytime.trees.arrays import LEAF, NUMERIC, TreeArrays

__all__ = ["ROUNDING", "Level", "cost_levels", "cut", "groups_before", "max_cost", "ticks_of"]

_MOST_LEVELS = 12
ROUNDING = 1 - 1e-12  # of what rows pay on average
_SPACING = 1.15  # each level costs at least so many times the one before


@dataclass(frozen=True, eq=False)
class Level:
    """A tree cut where paths become more expensive than some amount.

    Attributes
    ----------
    arrays : TreeArrays
    most : int
        Maximum ticks of any path.
    cost : float
        Ticks that rows pay on average.
    """

    arrays: TreeArrays
    most: int
    cost: float


def cost_levels(
    tree: TreeArrays,
    costs: BoundCosts,
    leaf: NDArray[np.int32],
    weight: Array | None = None,
    *,
    budget: float = np.inf,
) -> list[Level]:
    """Levels of one tree from cheap to whole, about a dozen at most, each with a test unless the tree has none.

    Parameters
    ----------
    tree : TreeArrays
        With ``value`` at every node.
    costs : BoundCosts
    leaf : (n,) int
        The leaf that each of some rows reaches; their costs determine the spacing of levels.
    weight : (n,), default=None
    budget : float, default=inf
        Ticks that rows may pay on average: the last level is the largest within.
    """
    paid = ticks_of(groups_before(tree, costs), costs)
    inner = np.flatnonzero(tree.feature != LEAF)
    if not inner.size:
        return [Level(tree, 0, 0.0)]
    after = paid.copy()  # what a row has paid when it leaves a node
    after[inner] = paid[tree.left[inner]]
    share = _shares(tree, leaf, weight)
    amounts = np.unique(after[inner])
    if amounts.size > 8 * _MOST_LEVELS:
        amounts = amounts[np.unique(np.linspace(0, amounts.size - 1, 8 * _MOST_LEVELS).astype(int))]
    # rows end where they cannot or need not pay for the next test
    ends = [(paid <= most) & ((after > most) | (tree.feature == LEAF)) for most in amounts]
    means = np.array([float(share[end] @ paid[end]) for end in ends])
    means = means[means * ROUNDING <= budget]
    return [
        Level(cut(tree, after <= amounts[k]), int(amounts[k]), means[k]) for k in _spaced(means, _MOST_LEVELS)
    ]


def _shares(tree: TreeArrays, leaf: NDArray[np.int32], weight: Array | None) -> Array:
    """(M,) the share of the rows that comes to each node."""
    share = np.bincount(leaf, weights=weight, minlength=tree.feature.size).astype(np.float64)
    share /= share.sum()
    for node in np.flatnonzero(tree.feature != LEAF)[::-1]:
        share[node] = share[tree.left[node]] + share[tree.right[node]]
    return share


def _spaced(costs: Array, most: int) -> list[int]:
    """Positions in ``costs``, which rise: the first, the last, and between them such as are some way apart."""
    if not costs.size:
        return []
    positive = costs[costs > 0]
    span = positive[-1] / positive[0] if positive.size else 1.0
    spacing = max(_SPACING, span ** (1 / max(most - 2, 1)))
    kept = [0]
    for k in range(1, costs.size - 1):
        if costs[k] >= spacing * costs[kept[-1]] and costs[-1] >= _SPACING * costs[k] and costs[k] > 0:
            kept.append(k)
    last = costs.size - 1
    if kept[-1] == last or costs[kept[-1]] == costs[last]:
        kept.pop()
    return [*kept, last]


# ---------------------------------------------------------------------- what paths cost


def groups_before(
    trees: TreeArrays, costs: BoundCosts, nodes: NDArray[np.integer[Any]] | None = None
) -> NDArray[np.bool_]:
    """(M, G) groups, requirements included, that a row has paid for before each node, or some nodes."""
    closures = [costs.closure(np.array([g], dtype=np.int32)) for g in range(costs.n_groups)]
    needs = np.packbits(closures, axis=1)  # bits: there may be more nodes than rows
    first = _first_nodes(trees)
    paid = np.zeros((trees.feature.size, needs.shape[1]), dtype=np.uint8)
    open_nodes = trees.tree_start[:-1]
    while (open_nodes := open_nodes[trees.feature[open_nodes] != LEAF]).size:
        after = paid[open_nodes] | needs[costs.column_group[trees.feature[open_nodes]]]
        left = first[open_nodes] + trees.left[open_nodes]
        right = first[open_nodes] + trees.right[open_nodes]
        paid[left] = paid[right] = after
        open_nodes = np.concatenate([left, right])
    wanted = paid if nodes is None else paid[nodes]
    return np.unpackbits(wanted, axis=1, count=costs.n_groups).view(np.bool_)


def ticks_of(groups: NDArray[np.bool_], costs: BoundCosts) -> NDArray[np.int64]:
    """(n,) cost of the groups of each row."""
    return np.asarray(np.einsum("ng,g->n", groups, costs.prices))  # @ would widen all truth values at once


def max_cost(trees: TreeArrays, costs: BoundCosts) -> float:
    """The cost of the most expensive path of a single tree."""
    return costs.costs.amount(int(ticks_of(groups_before(trees, costs), costs).max()))


# ---------------------------------------------------------------------- cutting


def cut(trees: TreeArrays, internal: NDArray[np.bool_]) -> TreeArrays:
    """The trees without the subtrees of nodes that are not ``internal``; these answer with their own ``value``.

    Parameters
    ----------
    trees : TreeArrays
        With ``value`` at every node.
    internal : (M,) bool
        Nodes that keep their test. Entries of leaves, and of nodes below a cut, are ignored.
    """
    first = _first_nodes(trees)
    tests = np.asarray(internal, dtype=bool) & (trees.feature != LEAF)
    kept = np.zeros(trees.feature.size, dtype=bool)
    nodes = trees.tree_start[:-1]
    while nodes.size:
        kept[nodes] = True
        nodes = nodes[tests[nodes]]
        nodes = np.concatenate([first[nodes] + trees.left[nodes], first[nodes] + trees.right[nodes]])
    number = np.cumsum(kept) - 1
    start = np.concatenate([[0], number[trees.tree_start[1:] - 1] + 1])
    begins = np.repeat(start[:-1], np.diff(trees.tree_start))  # of its tree, for each old node
    tests &= kept

    def moved(child: NDArray[np.int32]) -> NDArray[np.int32]:
        placed = np.full(child.size, LEAF, dtype=np.int32)
        placed[tests] = number[first[tests] + child[tests]] - begins[tests]
        return placed[kept]

    cut_fields: dict[str, Any] = {
        "tree_start": start,
        "feature": np.where(tests, trees.feature, LEAF).astype(np.int32)[kept],
        "left": moved(trees.left),
        "right": moved(trees.right),
        "category_set": np.where(tests, trees.category_set, NUMERIC).astype(np.int32)[kept],
    }
    for name in ("threshold", "default_left", "missing", "members_left", "value"):
        cut_fields[name] = getattr(trees, name)[kept]
    return _without_unused_sets(replace(trees, **cut_fields))


def _without_unused_sets(trees: TreeArrays) -> TreeArrays:
    used = np.unique(trees.category_set)
    used = used[used != NUMERIC]
    if used.size == trees.category_start.size - 1:
        return trees
    sizes = np.diff(trees.category_start)
    keep = np.repeat(np.isin(np.arange(sizes.size), used), sizes)
    place = np.full(sizes.size + 1, NUMERIC, dtype=np.int32)
    place[used] = np.arange(used.size)
    return replace(
        trees,
        category_set=place[trees.category_set],  # NUMERIC is -1, the last entry, and stays what it is
        category_start=np.concatenate([[0], np.cumsum(sizes[used])]).astype(np.int64),
        categories=trees.categories[keep],
    )


def _first_nodes(trees: TreeArrays) -> NDArray[np.int64]:
    """(M,) where the tree of each node begins."""
    return np.repeat(trees.tree_start[:-1], np.diff(trees.tree_start))
