"""An ensemble of trees as flat arrays: what every grower and importer produces and the native evaluator runs.

One layout serves all libraries. A numeric node sends ``x <= threshold`` to the left (a library that
tests ``x < t`` stores the next smaller float); a categorical node looks its value up in a set. Where a missing
value goes is said per node, because the libraries differ in it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEAF = -1
NUMERIC = -1

# What counts as missing at a node. A NaN that does not count as missing is read as 0.0, as LightGBM does.
MISSING_NEVER, MISSING_NAN, MISSING_NAN_OR_ZERO = 0, 1, 2


@dataclass(frozen=True, eq=False)
class TreeArrays:
    """``T`` trees with ``M`` nodes in all, in the order in which they are evaluated.

    Nodes of tree ``t`` are rows ``tree_start[t]:tree_start[t + 1]`` of the node arrays; the first is the root, and a
    child stands after its parent. Stage ``s`` is made of trees ``stage_start[s]:stage_start[s + 1]``.

    Attributes
    ----------
    tree_start : (T + 1,) int64
    stage_start : (S + 1,) int64
    feature : (M,) int32
        Column tested, ``LEAF`` at a leaf.
    threshold : (M,) float64
        Numeric node: left when ``x <= threshold``. Finite or +-inf, never NaN.
    left, right : (M,) int32
        Child's number within its tree, ``LEAF`` at a leaf.
    default_left : (M,) uint8
        1: a missing value goes left.
    missing : (M,) uint8
        ``MISSING_NEVER``, ``MISSING_NAN`` or ``MISSING_NAN_OR_ZERO`` (zero means
        ``|x| <= float32(1e-35)``). At a categorical
        node only NaN is missing, whatever this says.
    category_set : (M,) int32
        ``NUMERIC``, or the node's set: members ``categories[category_start[c]:category_start[c + 1]]``.
    members_left : (M,) uint8
        Categorical node: 1 if members of the set go left and all other values right, 0 the other way round. The value
        is cut to a whole number towards zero first; a negative one is a member of no set.
    category_start : (C + 1,) int64
    categories : (sum,) int32
        Members, increasing within a set, each in ``[0, 2**24]``.
    value : (M, W) float64
        What a leaf adds; ``W`` is 1, or ``n_outputs`` when every tree answers for all outputs.
    tree_output : (T,) int32
        The output a tree adds to when ``W == 1``; all zero otherwise.
    n_outputs : int
    n_features : int
    float32_input : bool
        The trees were grown on float32: a value is rounded to float32 before it is compared.
    """

    tree_start: NDArray[np.int64]
    stage_start: NDArray[np.int64]
    feature: NDArray[np.int32]
    threshold: NDArray[np.float64]
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    default_left: NDArray[np.uint8]
    missing: NDArray[np.uint8]
    category_set: NDArray[np.int32]
    members_left: NDArray[np.uint8]
    category_start: NDArray[np.int64]
    categories: NDArray[np.int32]
    value: NDArray[np.float64]
    tree_output: NDArray[np.int32]
    n_outputs: int
    n_features: int
    float32_input: bool = False

    def asdict(self) -> dict[str, Any]:
        """Fields by name, arrays not copied."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.tree_start.size - 1

    @property
    def n_stages(self) -> int:
        """Number of stages."""
        return self.stage_start.size - 1
