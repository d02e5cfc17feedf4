"""The vote of all sensors, to compare gated networks with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from anytime.validation import validated
from anytime_research.sensing.generators import device_columns

__all__ = ["SensorVote"]


class SensorVote(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The baseline: nearest neighbours on each device by itself, and a vote of all. Every device always speaks.

    Parameters
    ----------
    devices : int or sequence of lists of int, default=1
    n_neighbors : int, default=1
    """

    def __init__(self, devices: int | Sequence[ArrayLike] = 1, *, n_neighbors: int = 1) -> None:
        self.devices = devices
        self.n_neighbors = n_neighbors

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Keep the rows of each device."""
        table, y = validated(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.columns_ = device_columns(self.devices, table.shape[1])
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.models_ = [
            KNeighborsClassifier(self.n_neighbors).fit(table[:, part], codes) for part in self.columns_
        ]
        return self

    def device_predictions(self, X: ArrayLike) -> NDArray[Any]:
        """(n, K) what each device would answer alone."""
        codes = self._codes(X)
        return np.asarray(self.classes_[codes])

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """(n,) the class most devices name; of equals the first."""
        codes = self._codes(X)
        counts = np.eye(self.classes_.size)[codes].sum(axis=1)
        return np.asarray(self.classes_[counts.argmax(axis=1)])

    def _codes(self, X: ArrayLike) -> NDArray[np.intp]:
        check_is_fitted(self, "models_")
        table = validated(self, X, reset=False, dtype=np.float64)
        return np.column_stack(
            [m.predict(table[:, part]) for m, part in zip(self.models_, self.columns_, strict=True)]
        )
