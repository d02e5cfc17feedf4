"""The costly model as a stage: somebody else's estimator, which a file knows by name only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.blocks import Block, State
from anytime.plan import Array

__all__ = ["CostlyBlock", "DetachedModelError", "scores_of_chances"]

_LEAST_CHANCE = 1e-12
_TOLERANCE = 1e-6  # of a chance on the probe rows: another BLAS, another number of threads


class DetachedModelError(RuntimeError):
    """The costly model is needed and not there: a file holds its name, not its code."""


def scores_of_chances(chances: ArrayLike) -> Array:
    """(n, K) Scores whose link gives ``chances`` (n, C): log-odds of the second of two classes, logarithms of several.

    Chances are kept at least 1e-12, since forests give exact zeros.
    """
    given = np.asarray(chances, dtype=np.float64)
    logs = np.log(np.clip(given, _LEAST_CHANCE, 1.0))
    return np.asarray(logs[:, 1:] - logs[:, :1] if given.shape[1] == 2 else logs)


class CostlyBlock(Block):
    """One stage: the class chances of a model given as a function, as scores.

    A file keeps the model's name, some probe rows and what the model said of them. A block that was read from a file has no
    function until ``attach`` gives it one that says the same of those rows.

    Parameters
    ----------
    name : str
        Of the model, for messages and files.
    columns : (m,) int
        Columns that it reads.
    function : callable or None
        From (n, d), all columns, to chances (n, C) in the order of the classes. Row by row.
    n_classes : int
    probe : (p, d), default=None
        Rows whose chances are kept to recognise the model by.
    chances : (p, C), default=None
        What it says of them. None: it is asked.
    """

    kind = "costly"
    n_stages = 1

    def __init__(
        self,
        name: str,
        columns: ArrayLike,
        function: Callable[[Array], ArrayLike] | None,
        n_classes: int,
        *,
        probe: ArrayLike | None = None,
        chances: ArrayLike | None = None,
    ) -> None:
        self.name, self.function, self.n_classes = name, function, int(n_classes)
        self._columns = np.unique(np.asarray(columns, dtype=np.int32))
        self.width = 1 if self.n_classes == 2 else self.n_classes
        self.probe = None if probe is None else np.array(probe, dtype=np.float64, ndmin=2)
        self.chances = None if chances is None else np.array(chances, dtype=np.float64, ndmin=2)
        if self.probe is not None and self.chances is None and function is not None:
            self.chances = self._ask(function, self.probe)

    def columns(self, stage: int) -> NDArray[np.int32]:
        """Columns that the model reads."""
        return self._columns

    def outputs(self, stage: int, X: Array) -> Array:
        """(n, K) its scores; ``DetachedModelError`` where it is not there."""
        if self.function is None:
            raise DetachedModelError(
                f"the costly model {self.name!r} is not attached: give it with attach(model), or stay within a budget "
                "that does not reach it"
            )
        return scores_of_chances(self._ask(self.function, X))

    def _ask(self, function: Callable[[Array], ArrayLike], X: Array) -> Array:
        if not len(X):
            return np.empty((0, self.n_classes))
        chances = np.asarray(function(X), dtype=np.float64)
        if chances.shape != (len(X), self.n_classes) or not np.isfinite(chances).all():
            raise ValueError(
                f"the costly model {self.name!r} gave an array of shape {chances.shape}, but needs finite chances of shape "
                f"({len(X)}, {self.n_classes})"
            )
        return chances

    def attached(self, function: Callable[[Array], ArrayLike]) -> CostlyBlock:
        """The block with a model, which has to say of the probe rows what the model said that is remembered."""
        if self.probe is not None and self.chances is not None:
            found = self._ask(function, self.probe)
            off = np.abs(found - self.chances).max(axis=1)
            if (off > _TOLERANCE).any():
                raise ValueError(
                    f"this is not the costly model {self.name!r} that the gate was trained for: on {(off > _TOLERANCE).sum()} "
                    f"of {len(off)} probe rows its chances differ by up to {off.max():.3g}; fit the gate again"
                )
        return CostlyBlock(
            self.name, self._columns, function, self.n_classes, probe=self.probe, chances=self.chances
        )

    def head(self, n_stages: int) -> CostlyBlock:
        """The block itself: it is one stage."""
        return self

    def state(self) -> State:
        """Name, columns and probe rows: all that a file keeps."""
        arrays: dict[str, NDArray[Any]] = {"columns": self._columns}
        if self.probe is not None and self.chances is not None:
            arrays |= {"probe": self.probe, "chances": self.chances}
        return {"name": self.name, "n_classes": self.n_classes}, arrays

    @classmethod
    def from_state(cls, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> CostlyBlock:
        """Read what ``state`` gave: a block without its model."""
        probe, chances = arrays.get("probe"), arrays.get("chances")
        block = cls(
            str(description["name"]),
            arrays["columns"],
            None,
            int(description["n_classes"]),
            probe=probe,
            chances=chances,
        )
        if (probe is None) != (chances is None):
            raise ValueError("probe rows and what the model said of them go together")
        if probe is not None and chances is not None and chances.shape != (len(probe), block.n_classes):
            raise ValueError("the chances of a costly model do not fit its probe rows")
        if block.n_classes < 2 or (block._columns.size and block._columns[0] < 0):
            raise ValueError("a costly model has at least 2 classes and reads columns from 0 on")
        return block


class TableReader:
    """Calls an estimator with rows as it knows them: a table with names, and categories instead of their codes.

    Parameters
    ----------
    ask : callable
        From rows to numbers, such as an estimator's ``predict_proba``.
    names : sequence of str or None
        Of the columns; None: the estimator takes plain arrays.
    categories : mapping from int to list
        Columns whose numbers are codes.
    """

    def __init__(
        self,
        ask: Callable[[Any], ArrayLike],
        names: Sequence[str] | None,
        categories: Mapping[int, Sequence[Any]],
    ) -> None:
        self.ask, self.names, self.categories = ask, names, dict(categories)

    def __call__(self, X: Array) -> Array:
        return np.asarray(self.ask(self.table(X)), dtype=np.float64)

    def table(self, X: Array) -> Any:
        """The rows as the estimator reads them."""
        if self.names is None:
            return X
        import pandas as pd

        table = pd.DataFrame(X, columns=list(self.names))
        for column, values in self.categories.items():
            codes = np.where(np.isnan(X[:, column]), -1, X[:, column]).astype(np.intp)
            table.isetitem(column, pd.Categorical.from_codes(codes, categories=pd.Index(list(values))))
        return table
