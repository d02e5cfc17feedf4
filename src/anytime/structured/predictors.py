"""What a stage adds to the scores of the regions it works on: linear in numbers and categories, or a tree."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime._native import coded_scores
from anytime.blocks import State
from anytime.trees.arrays import LEAF, TreeArrays
from anytime.trees.block import TreeBlock

__all__ = ["LinearPredictor", "RegionPredictor", "TreePredictor", "coded_starts"]

Array = NDArray[np.float64]


class RegionPredictor(ABC):
    """From features and context of regions to what is added to their scores.

    Attributes
    ----------
    columns : (c,) int32
        Columns of the price list that it reads, increasing.
    context : (q,) int32
        Columns of the context that it reads, increasing.
    width : int
        Number of outputs.
    """

    kind: ClassVar[str]
    columns: NDArray[np.int32]
    context: NDArray[np.int32]
    width: int

    @abstractmethod
    def outputs(self, features: Array) -> Array:
        """(m, width) of (m, c + q): its columns, then its columns of the context."""

    @abstractmethod
    def state(self) -> State:
        """What a file keeps."""


def coded_starts(categories: NDArray[np.int32]) -> tuple[NDArray[np.int64], int]:
    """The first row of weights of each column, and how many rows there are."""
    rows = np.maximum(categories, 1).astype(np.int64)
    return np.cumsum(rows) - rows, int(rows.sum())


class LinearPredictor(RegionPredictor):
    """Weights for numbers, and weights for each code of a category; what is missing or unknown adds nothing.

    Parameters
    ----------
    columns, context : (c,) and (q,) int
    categories : (c + q,) int
        How many categories each of them has; 0: numbers.
    weights : (rows, width) float32
        Of all columns, one after the other: a row for numbers, a row per category.
    bias : (width,) float32
    """

    kind = "linear"

    def __init__(
        self,
        columns: ArrayLike,
        context: ArrayLike,
        categories: ArrayLike,
        weights: ArrayLike,
        bias: ArrayLike,
    ) -> None:
        self.columns, self.context = np.asarray(columns, np.int32), np.asarray(context, np.int32)
        self.categories = np.asarray(categories, np.int32)
        self.weights = np.ascontiguousarray(weights, np.float32)
        self.bias = np.asarray(bias, np.float32)
        self.width = self.bias.size
        self._starts, n_rows = coded_starts(self.categories)
        if self.categories.size != self.columns.size + self.context.size or (self.categories < 0).any():
            raise ValueError("a linear predictor has one number of categories per column, not negative")
        if self.weights.shape != (n_rows, self.width):
            raise ValueError(f"weights have shape {self.weights.shape}, expected {(n_rows, self.width)}")
        if not (np.isfinite(self.weights).all() and np.isfinite(self.bias).all()):
            raise ValueError("weights must be finite")

    def outputs(self, features: Array) -> Array:
        """(m, width) the sum of the weights of what each row holds."""
        features = np.ascontiguousarray(features)
        return coded_scores(features, self.categories, self._starts, self.weights, self.bias, 1)

    def state(self) -> State:
        """What a file keeps."""
        names = ("columns", "context", "categories", "weights", "bias")
        return {}, {name: getattr(self, name) for name in names}

    @classmethod
    def from_state(
        cls, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> LinearPredictor:
        """Read what ``state`` gave."""
        return cls(**arrays)


class TreePredictor(RegionPredictor):
    """One tree with ``width`` outputs, over the columns that it tests.

    Parameters
    ----------
    columns, context : (c,) and (q,) int
    tree : TreeBlock
        Of one stage; its feature ``j`` is the ``j``-th of all these columns.
    """

    kind = "tree"

    def __init__(self, columns: ArrayLike, context: ArrayLike, tree: TreeBlock) -> None:
        self.columns, self.context = np.asarray(columns, np.int32), np.asarray(context, np.int32)
        self.tree, self.width = tree, tree.width
        if tree.n_stages != 1 or tree.forest.n_features != max(self.columns.size + self.context.size, 1):
            raise ValueError("the tree of a stage is one, over the columns that it names")

    @classmethod
    def of(cls, tree: TreeArrays, n_columns: int) -> TreePredictor:
        """A grown tree over ``n_columns`` columns and, behind them, those of the context: only what it tests is kept."""
        used = np.unique(tree.feature[tree.feature != LEAF])
        place = np.full(max(tree.n_features, 1), LEAF, dtype=np.int32)
        place[used] = np.arange(used.size)
        feature = np.where(tree.feature == LEAF, LEAF, place[np.maximum(tree.feature, 0)]).astype(np.int32)
        fields = {**tree.asdict(), "feature": feature, "n_features": max(used.size, 1)}
        return cls(
            used[used < n_columns], used[used >= n_columns] - n_columns, TreeBlock(TreeArrays(**fields))
        )

    def outputs(self, features: Array) -> Array:
        """(m, width) the leaves that rows come to."""
        if not features.shape[1]:  # a single leaf
            features = np.zeros((len(features), 1))
        return self.tree.outputs(0, np.ascontiguousarray(features))

    def state(self) -> State:
        """What a file keeps."""
        description, arrays = self.tree.state()
        places = {"columns": self.columns, "context": self.context}
        return description, {**places, **{f"tree.{name}": array for name, array in arrays.items()}}

    @classmethod
    def from_state(cls, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> TreePredictor:
        """Read what ``state`` gave."""
        own = {
            name.removeprefix("tree."): array for name, array in arrays.items() if name.startswith("tree.")
        }
        return cls(arrays["columns"], arrays["context"], TreeBlock.from_state(description, own))
