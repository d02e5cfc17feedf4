"""Single trees, as the importers read them, put together into one checked :class:`TreeArrays`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.trees.arrays import LEAF, NUMERIC, TreeArrays

LARGEST_CATEGORY = 2**24


@dataclass(frozen=True, eq=False)
class Tree:
    """One tree of ``m`` nodes, the root first and every child after its parent; fields as in `TreeArrays`."""

    # (m,) each, up to ``missing``
    feature: ArrayLike
    threshold: ArrayLike
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    default_left: ArrayLike
    missing: ArrayLike
    value: NDArray[np.float64]  # (m, W): only the rows of leaves are kept
    sets: Mapping[int, NDArray[np.int64]] = field(default_factory=dict)  # the categorical nodes
    members_left: ArrayLike = False  # (m,): which way members go; at numeric nodes it does not matter


def stack_trees(
    trees: Sequence[Tree],
    *,
    stage_sizes: Sequence[int],  # trees in each stage
    tree_output: ArrayLike,  # (T,), or one number for all
    # these three as in `TreeArrays`
    n_outputs: int,
    n_features: int,
    float32_input: bool = False,
) -> TreeArrays:
    """Concatenate trees; ``ValueError`` where there are none, or one is not a tree (a damaged file)."""
    if not trees:
        raise ValueError("the model has no trees: it was trained for zero rounds")
    sizes = np.array([tree.left.size for tree in trees])
    leaf = np.concatenate([tree.left for tree in trees]) == LEAF
    set_starts, members, category_set = _stack_sets(trees, int(leaf.size))

    def joined(name: str, dtype: type, at_leaf: float) -> NDArray[Any]:
        parts = [np.broadcast_to(getattr(tree, name), tree.left.shape) for tree in trees]
        return np.where(leaf, at_leaf, np.concatenate(parts)).astype(dtype)

    value = np.concatenate([tree.value for tree in trees]).astype(np.float64)
    arrays = TreeArrays(
        tree_start=_starts(sizes),
        stage_start=_starts(np.asarray(stage_sizes, dtype=np.int64)),
        feature=joined("feature", np.int32, LEAF),
        threshold=np.where(category_set == NUMERIC, joined("threshold", np.float64, 0.0), 0.0),
        left=joined("left", np.int32, LEAF),
        right=joined("right", np.int32, LEAF),
        default_left=joined("default_left", np.uint8, 0),
        missing=joined("missing", np.uint8, 0),
        category_set=category_set,
        members_left=joined("members_left", np.uint8, 0) * (category_set != NUMERIC),
        category_start=set_starts,
        categories=members,
        # Inner values are statistics of the training data that no evaluation reads.
        value=np.where(leaf[:, None], value, 0.0),
        tree_output=np.broadcast_to(tree_output, sizes.shape).astype(np.int32),
        n_outputs=n_outputs,
        n_features=n_features,
        float32_input=float32_input,
    )
    _check(arrays)
    return arrays


def root_mean(trees: Sequence[Tree], leaf_weights: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """(T, W) Mean answer of each tree over its training rows.

    ``leaf_weights``, (m,) of each tree, count the training rows at its leaves, and are ignored at inner nodes. All zero: leaves
    count alike.
    """
    means = []
    for tree, rows in zip(trees, leaf_weights, strict=True):
        at_leaf = tree.left == LEAF
        weights = np.where(at_leaf, rows, 0.0)
        weights = weights if weights.sum() > 0 else at_leaf.astype(np.float64)
        means.append(weights @ tree.value / weights.sum())
    return np.array(means)


def reachable_order(left: NDArray[np.int32], right: NDArray[np.int32]) -> NDArray[np.int64]:
    """Nodes that can be reached from the root, level by level; in a damaged tree, with a cycle, up to ``m + 1`` that repeat."""
    order = [0]
    for node in order:  # grows while it is read
        if left[node] != LEAF and len(order) <= left.size:
            order += [int(left[node]), int(right[node])]
    return np.array(order)


def _starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """(n + 1,) offsets of ``n`` consecutive pieces."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _stack_sets(
    trees: Sequence[Tree], n_nodes: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.int32]]:
    """Offsets, members and the set of each node, over all trees."""
    category_set = np.full(n_nodes, NUMERIC, dtype=np.int32)
    pieces: list[NDArray[np.int64]] = []
    first = 0
    for tree in trees:
        for node, members in tree.sets.items():
            category_set[first + node] = len(pieces)
            pieces.append(np.unique(members))
        first += tree.left.size
    members = np.concatenate(pieces) if pieces else np.empty(0, dtype=np.int64)
    if members.size and (members.min() < 0 or members.max() > LARGEST_CATEGORY):
        raise ValueError(
            f"a split names category {members.max()}, but categories above {LARGEST_CATEGORY} are not supported: "
            "number the categories from 0 and train again"
        )
    sizes = np.array([piece.size for piece in pieces], dtype=np.int64)
    return _starts(sizes), members.astype(np.int32), category_set


def _check(arrays: TreeArrays) -> None:
    """Raise unless every path from a root ends at a leaf, inside its tree and inside the columns."""
    sizes = np.diff(arrays.tree_start)
    node = np.arange(arrays.left.size) - np.repeat(arrays.tree_start[:-1], sizes)
    size = np.repeat(sizes, sizes)
    inner = arrays.left != LEAF
    complaints = {
        "a child stands outside its tree or before its parent": inner
        & ((np.minimum(arrays.left, arrays.right) <= node) | (np.maximum(arrays.left, arrays.right) >= size)),
        "a split tests a column that the model does not have": inner
        & ((arrays.feature < 0) | (arrays.feature >= arrays.n_features)),
        "a threshold is NaN": np.isnan(arrays.threshold),
        "a leaf is not finite": ~np.isfinite(arrays.value).all(axis=1),
    }
    for what, wrong in complaints.items():
        if wrong.any():
            tree = int(np.searchsorted(arrays.tree_start, int(np.argmax(wrong)), side="right")) - 1
            raise ValueError(f"the model is damaged: {what} (tree {tree})")
    if arrays.stage_start[-1] != arrays.n_trees or any(b <= a for a, b in pairwise(arrays.stage_start)):
        raise ValueError("the model is damaged: its rounds do not add up to its trees")
    if not ((arrays.tree_output >= 0) & (arrays.tree_output < arrays.n_outputs)).all():
        raise ValueError("the model is damaged: a tree adds to an output that the model does not have")
