"""Calls of a costly model, and what is made of its predictions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.adaptive.blocks import scores_of_probabilities
from anytime.adaptive.stages import Exit
from anytime.blocks import Block
from anytime.plan import Array
from anytime.trees.importers import Columns


@dataclass(frozen=True, eq=False)
class CostlyQuestion:
    """The rows for which a costly model is called."""

    costly: Any  # an estimator, a callable from rows to probabilities, or (n, C) probabilities
    X: Any  # array or table, as the user gave it
    numbers: Array  # (n, d): as a plan reads it
    y: NDArray[Any]  # (n,): labels
    classes: NDArray[Any]  # (C,)
    weight: Array | None  # (n,)
    columns: Columns
    names: list[str] | None
    read: NDArray[np.int32] | None  # (m,): columns that the model was trained on; None: all
    folds: int
    random: np.random.RandomState
    n_jobs: int | None

    @property
    def rows(self) -> Any:
        """The columns that the model reads."""
        if self.read is None:
            return self.X
        return self.X.iloc[:, self.read] if hasattr(self.X, "iloc") else self.X[:, self.read]

    @property
    def read_columns(self) -> NDArray[np.int32]:
        """Of the plan."""
        return np.arange(self.numbers.shape[1], dtype=np.int32) if self.read is None else self.read

    @property
    def words(self) -> dict[int, list[Any]]:
        """Categories of the columns of a table that hold them; codes, which are called categories by the user, stay numbers."""
        if not hasattr(self.X, "iloc"):
            return {}
        held = [isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in self.X.dtypes]
        return {j: words for j, words in self.columns.categories.items() if not held[j]}

    @property
    def class_numbers(self) -> NDArray[np.intp]:
        """(n,) of the labels."""
        return np.searchsorted(self.classes, self.y)


@dataclass(frozen=True, eq=False)
class Costly:
    """A costly model that is ready."""

    block: Block  # one stage that gives its scores
    scores: Array  # (n, K): of the rows, as if it had not learned from them
    model: Any  # fitted; None where only its probabilities are known
    exits: Sequence[Exit] = ()  # of a composite, before its costly model
    cost: float = 0.0  # of evaluating ``block``, where a composite says so

    def ask(self, X: Array) -> Array:
        """(m, K) scores of other rows."""
        if self.model is None:
            raise ValueError(
                "X_val needs a costly model that can predict, but costly holds only probabilities for the rows of X; pass the "
                "model as costly, with its probabilities as costly_proba, or leave X_val out"
            )
        if not self.exits:
            return self.block.outputs(0, X)
        return scores_of_probabilities(self.model.predict_proba(X))
