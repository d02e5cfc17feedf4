"""An ensemble of trees as flat arrays: what every grower and importer produces and the native evaluator runs.

One layout serves all libraries. A numeric node sends ``x <= threshold`` to the left (a library that
tests ``x < t`` stores the next smaller float); a categorical node looks its value up in a set. Where a missing
value goes is said per node, because the libraries differ in it.
"""

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
    """

    tree_start: NDArray[np.int64]  # (T + 1,)
    stage_start: NDArray[np.int64]  # (S + 1,)
    feature: NDArray[np.int32]  # (M,): column tested, ``LEAF`` at a leaf
    # (M,): numeric node: left when ``x <= threshold``. Finite or +-inf, never NaN
    threshold: NDArray[np.float64]
    # (M,): child's number within its tree, ``LEAF`` at a leaf
    left: NDArray[np.int32]
    right: NDArray[np.int32]
    default_left: NDArray[np.uint8]  # (M,): 1: a missing value goes left
    # (M,): ``MISSING_NEVER``, ``MISSING_NAN`` or ``MISSING_NAN_OR_ZERO`` (zero means ``|x| <=
    # float32(1e-35)``). At a categorical node only NaN is missing, whatever this says
    missing: NDArray[np.uint8]
    # (M,): ``NUMERIC``, or the node's set: members ``categories[category_start[c]:category_start[c + 1]]``
    category_set: NDArray[np.int32]
    # (M,): categorical node: 1 if members of the set go left and all other values right, 0 the other way round.
    # The value is cut to a whole number towards zero first; a negative one is a member of no set
    members_left: NDArray[np.uint8]
    category_start: NDArray[np.int64]  # (C + 1,)
    categories: NDArray[np.int32]  # (sum,): members, increasing within a set, each in ``[0, 2**24]``
    # (M, W): what a leaf adds; ``W`` is 1, or ``n_outputs`` when every tree answers for all outputs
    value: NDArray[np.float64]
    tree_output: NDArray[np.int32]  # (T,): the output a tree adds to when ``W == 1``; all zero otherwise
    n_outputs: int
    n_features: int
    # the trees were grown on float32: a value is rounded to float32 before it is compared
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
