"""A forest as a block of a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime._native import Forest
from anytime.blocks import Block, State
from anytime.plan import Array
from anytime.trees.arrays import TreeArrays

_SCALARS = ("n_outputs", "n_features", "float32_input", "shift")
# Seconds per row of one tree and of one of its outputs, for the first rows and for those that go through it together: two to
# four times what cores of today take
_FEW_ROWS = 16
_FEW_TREE, _FEW_OUTPUT = 4e-8, 4e-9
_MANY_TREE, _MANY_OUTPUT = 1e-8, 1e-9


class TreeBlock(Block):
    """Stages made of trees, evaluated natively."""

    kind = "trees"
    forest: Forest

    def __init__(self, trees: TreeArrays | Forest) -> None:
        self.forest = trees if isinstance(trees, Forest) else Forest(**trees.asdict())
        self.n_stages = self.forest.n_stages
        self.width = self.forest.n_outputs

    def columns(self, stage: int) -> NDArray[np.int32]:
        return self.forest.stage_columns(stage)

    def outputs(self, stage: int, X: Array) -> Array:
        return np.asarray(self.forest.stage_outputs(X, np.array([stage]))[0])

    def seconds(self, stage: int, n_rows: int) -> float:
        few = min(n_rows, _FEW_ROWS)
        per_tree = few * (_FEW_TREE + _FEW_OUTPUT * self.width)
        per_tree += (n_rows - few) * (_MANY_TREE + _MANY_OUTPUT * self.width)
        return per_tree * self.forest.n_trees / max(self.n_stages, 1)

    def head(self, n_stages: int) -> TreeBlock:
        return self if n_stages == self.n_stages else self.select(np.arange(n_stages))

    def select(self, stages: ArrayLike) -> TreeBlock:
        """The given stages in the given order."""
        return TreeBlock(self.forest.select(np.asarray(stages, dtype=np.int64)))

    def state(self) -> State:
        arrays: dict[str, Any] = dict(self.forest.arrays())
        description = {name: arrays.pop(name) for name in _SCALARS}
        return description, arrays

    @classmethod
    def from_state(cls, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> TreeBlock:
        """Read what ``state`` gave; the native constructor checks every link and index."""
        fields: dict[str, Any] = {**arrays, **{name: description[name] for name in _SCALARS}}
        return cls(Forest(**fields))
