"""The costly model as a stage: an estimator of another library, of which a file holds only the name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime._native import row_products
from anytime.blocks import Block, DetachedModelError, FunctionBlock, State
from anytime.losses import LINKS
from anytime.plan import Array

__all__ = ["METHODS", "CostlyBlock", "DetachedModelError", "TableReader", "scores_of_probabilities"]

METHODS = ("predict_proba", "decision_function", "predict")  # by which a model can be asked, the best first
_LEAST_PROBABILITY = 1e-12
_ROUNDING = 1e-6  # by which probabilities may leave the interval from 0 to 1
_TOLERANCE = 1e-6  # on the probe rows, relative above 1: another BLAS, another number of threads


def scores_of_probabilities(probabilities: ArrayLike) -> Array:
    """(n, K) Scores whose link gives ``probabilities`` (n, C): log-odds of the second of two classes, logarithms of several.

    Probabilities are kept at least 1e-12, since forests give exact zeros.
    """
    shares = np.asarray(probabilities, dtype=np.float64)
    logs = np.log(np.clip(shares, _LEAST_PROBABILITY, 1.0))
    return np.asarray(logs[:, 1:] - logs[:, :1] if shares.shape[1] == 2 else logs)


class CostlyBlock(Block):
    """One stage: the predictions of a model given as a function, as scores.

    A file keeps the model's name, some probe rows and what the model said of them. A block that was read from a file has no
    function until ``attached`` gives it one that says the same of those rows. Where nothing is known of what the model says,
    the first that is attached is taken, and remembered.

    Parameters
    ----------
    name : str
        Of the model, for messages and files.
    columns : (m,) int
        Columns that it reads, in the order in which it takes them.
    function : callable or None
        From (n, d), all columns, to (n, v): probabilities of the classes in their order, or with a ``calibration`` numbers
        from which that makes probabilities. Row by row.
    n_classes : int
    method : {"predict_proba", "decision_function", "predict"}, default="predict_proba"
        Of the model, by which ``function`` asks.
    calibration : (v + 1, K), default=None
        Scores are ``values @ calibration[:-1] + calibration[-1]``. None: values are probabilities.
    probe : (p, d), default=None
        Rows by which the model is recognised.
    said : (p, v), default=None
        What it says of them. None: it is asked, as soon as it is there.
    """

    kind = "costly"
    n_stages = 1
    enough: float | None = (
        None  # what the average row pays for the stages before, to be told where the model is missing
    )

    def __init__(
        self,
        name: str,
        columns: ArrayLike,
        function: Callable[[Array], ArrayLike] | None,
        n_classes: int,
        *,
        method: str = "predict_proba",
        calibration: ArrayLike | None = None,
        probe: ArrayLike | None = None,
        probe_answers: ArrayLike | None = None,
    ) -> None:
        self.name, self.function, self.n_classes, self.method = name, function, int(n_classes), method
        self.reads_in_order = np.asarray(columns, dtype=np.int32)
        self.width = 1 if self.n_classes == 2 else self.n_classes
        self.calibration, self.probe, self.probe_answers = (
            None if values is None else np.array(values, dtype=np.float64, ndmin=2)
            for values in (calibration, probe, probe_answers)
        )
        self._check()
        if self.probe is not None and self.probe_answers is None and function is not None:
            self.probe_answers = self._ask(function, self.probe)

    def _check(self) -> None:
        if self.n_classes < 2 or self.reads_in_order.min(initial=0) < 0:
            raise ValueError("a costly model has at least 2 classes and reads columns from 0 on")
        if self.method not in METHODS or (self.method != "predict_proba") != (self.calibration is not None):
            raise ValueError(
                f"a costly model answers by one of {', '.join(METHODS)}; all but the first need a calibration"
            )
        if self.calibration is not None and (
            self.calibration.shape[1] != self.width or not np.isfinite(self.calibration).all()
        ):
            raise ValueError(f"the calibration of a costly model has {self.width} columns of finite numbers")
        if self.probe_answers is None:
            return
        if self.probe is None or self.probe_answers.shape != (len(self.probe), self._n_values):
            raise ValueError("the probe rows and the costly model's predictions for them do not match")
        if not np.isfinite(self.probe_answers).all():
            raise ValueError("the costly model's predictions for probe rows must be finite")

    @property
    def _n_values(self) -> int:
        return self.n_classes if self.calibration is None else len(self.calibration) - 1

    @property
    def detached(self) -> DetachedModelError | None:
        """The error to raise while the model is not attached."""
        return DetachedModelError(self.name, self.enough) if self.function is None else None

    def columns(self, stage: int) -> NDArray[np.int32]:
        """Columns that the model reads."""
        return np.unique(self.reads_in_order)

    def outputs(self, stage: int, X: Array) -> Array:
        """(n, K) its scores; ``DetachedModelError`` where it is not there."""
        if self.function is None:
            raise DetachedModelError(self.name, self.enough)
        return self.scores(self._ask(self.function, X))

    def scores(self, values: Array) -> Array:
        """(n, K) scores from the predictions of the model."""
        if self.calibration is None:
            return scores_of_probabilities(values)
        scores = row_products(values, self.calibration[:-1]) + self.calibration[-1]
        return scores_of_probabilities(LINKS["logistic" if self.width == 1 else "softmax"].transform(scores))

    def _ask(self, function: Callable[[Array], ArrayLike], X: Array) -> Array:
        if not len(X):
            return np.empty((0, self._n_values))
        values = np.ascontiguousarray(function(X), dtype=np.float64)
        if self.calibration is None and self.n_classes == 2 and values.ndim == 1:
            values = np.column_stack([1.0 - values, values])  # probabilities of the second class
        what = "probabilities" if self.calibration is None else "numbers"
        if values.shape != (len(X), self._n_values):
            raise ValueError(
                f"the costly model {self.name!r} returned an array of shape {values.shape} instead of {what} of shape "
                f"({len(X)}, {self._n_values})"
            )
        wrong = ~np.isfinite(values).all(axis=1)
        if self.calibration is None:
            wrong |= ((values < -_ROUNDING) | (values > 1 + _ROUNDING)).any(axis=1)
        if wrong.any():
            raise ValueError(
                f"the costly model {self.name!r} returned invalid {what} for {wrong.sum()} of {len(X)} rows, such as "
                f"{values[wrong][0].tolist()}"
            )
        return values

    def attached(self, function: Callable[[Array], ArrayLike], name: str | None = None) -> CostlyBlock:
        """The block with a model, which has to say of the probe rows what is remembered; if nothing is, it gets this name."""
        if self.probe is not None and self.probe_answers is not None:
            answers = self._ask(function, self.probe)
            off = np.abs(answers - self.probe_answers) / np.maximum(1.0, np.abs(self.probe_answers))
            wrong = int((off > _TOLERANCE).any(axis=1).sum())
            if wrong:
                raise ValueError(
                    f"this is not the costly model {self.name!r} that the gate was trained for: on {wrong} of {len(off)} probe "
                    f"rows its predictions differ by up to {off.max():.3g}; pass that model, or fit the gate again"
                )
        return CostlyBlock(
            self.name if name is None or self.probe_answers is not None else name,
            self.reads_in_order,
            function,
            self.n_classes,
            method=self.method,
            calibration=self.calibration,
            probe=self.probe,
            probe_answers=self.probe_answers,
        )

    @property
    def silent(self) -> FunctionBlock:
        """A stage that reads the same columns and predicts nothing: enough to compute what rows pay."""
        width = self.width
        return FunctionBlock(self.reads_in_order, lambda X: np.zeros((len(X), width)), width)

    def head(self, n_stages: int) -> CostlyBlock:
        """The block itself: it is one stage."""
        return self

    def state(self) -> State:
        """Name, columns, calibration and probe rows: all that a file keeps."""
        arrays: dict[str, NDArray[Any]] = {"columns": self.reads_in_order}
        optional = {"calibration": self.calibration, "probe": self.probe, "said": self.probe_answers}
        arrays |= {name: array for name, array in optional.items() if array is not None}
        return {"name": self.name, "n_classes": self.n_classes, "method": self.method}, arrays

    @classmethod
    def from_state(cls, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> CostlyBlock:
        """Read what ``state`` gave: a block without its model."""
        return cls(
            description["name"],
            arrays["columns"],
            None,
            description["n_classes"],
            method=description["method"],
            calibration=arrays.get("calibration"),
            probe=arrays.get("probe"),
            probe_answers=arrays.get("said"),
        )


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
        """Predictions of the estimator for rows in the form that a plan reads."""
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
