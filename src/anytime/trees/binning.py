"""Matrices as bins: what trees are grown on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime._native import Bins

_ROWS_AT_A_TIME = 2**16


class BinnedData:
    """Rows whose values are numbers of bins. Immutable; any number of trees may be grown on it at the same time.

    Make one with ``fit``, and others with the same bins with ``transform``. NaN is a missing value and has a bin of its own;
    infinities are numbers like others. A value of a categorical column is cut to a whole number, its category; categories
    beyond the 254 most frequent, and values below 0 or above ``2**24``, are one bin together.
    """

    def __init__(self, native: Bins) -> None:
        self.native = native
        self.n_rows = native.n_rows
        self.n_features = native.n_columns

    @classmethod
    def fit(
        cls,
        X: Any,  # (n, d): NaN is missing
        *,
        max_bins: int = 255,  # of a column, that of missing values not counted. They hold about equally many rows
        categorical: Sequence[int]
        | NDArray[np.bool_] = (),  # positions or a mask: columns whose numbers are names
        exact: bool = False,  # a bin for every distinct number, so that every split is considered: for small data
        sample: int = 200_000,  # rows from which bins are found, unless ``exact``
        n_threads: int = 1,
    ) -> BinnedData:
        """Find bins for the columns of ``X`` and put its rows into them."""
        X = _matrix(X)
        mask = np.asarray(categorical)
        if mask.dtype != np.bool_:
            positions = mask.astype(np.intp)
            if positions.size and not (positions.min() >= 0 and positions.max() < X.shape[1]):
                raise ValueError(f"categorical names a column outside of 0..{X.shape[1] - 1}")
            mask = np.zeros(X.shape[1], dtype=bool)
            mask[positions] = True
        mask = np.ascontiguousarray(mask)
        return cls(Bins.fit(X, mask, int(max_bins), bool(exact), int(sample), _threads(n_threads)))

    def empty(self, n_rows: int) -> BinnedData:
        """``n_rows`` rows with the same bins, to be filled in by ``fill_rows``: for data that are never in memory at once."""
        return BinnedData(self.native.empty(int(n_rows)))

    def fill_rows(self, first: int, X: Any, *, n_threads: int = 1) -> None:
        """Put ``X`` into the rows from ``first`` on, of data made by ``empty``, before trees are grown on them."""
        self.native.fill_rows(int(first), _matrix(X), _threads(n_threads))

    def transform(self, X: Any, *, n_threads: int = 1) -> BinnedData:
        """Put the rows of another matrix into the same bins."""
        return BinnedData(self.native.transform(_matrix(X), _threads(n_threads)))

    def thresholds(self, column: int) -> NDArray[np.float64]:
        """Where a numeric column is cut: bin ``b`` holds what is above threshold ``b - 1`` and at most threshold ``b``."""
        return self.native.thresholds(column)

    def bins(self) -> NDArray[np.int32]:
        """(n, d) the bins, a copy. A missing value has the last bin of its column."""
        return self.native.bins()

    def __reduce__(self) -> Any:
        numbers = self.bins()
        return _of_bins, (self.native.columns(), numbers.astype(np.min_scalar_type(numbers.max(initial=0))))

    def __len__(self) -> int:
        return self.n_rows

    def __repr__(self) -> str:
        return f"BinnedData({self.n_rows} rows, {self.n_features} columns)"


def _of_bins(columns: list[Any], numbers: NDArray[np.unsignedinteger[Any]]) -> BinnedData:
    """Data with these bins, from the number of the bin of each value, (n, d): by values that fall into them."""
    data, values = BinnedData(Bins.of_cuts(columns, len(numbers))), []
    for categorical, _, _, cuts in columns:
        last = -1.0 if categorical else np.inf  # a category of no bin of its own; above every cut
        values.append(np.concatenate([cuts, [last, np.nan]]))
    for first in range(0, len(numbers), _ROWS_AT_A_TIME):
        some = numbers[first : first + _ROWS_AT_A_TIME]
        data.fill_rows(first, np.column_stack([own[of] for own, of in zip(values, some.T, strict=True)]))
    return data


def _matrix(X: Any) -> NDArray[np.float64]:
    matrix = np.ascontiguousarray(X, dtype=np.float64)
    if matrix.ndim != 2:
        raise ValueError(f"X must have two dimensions, not the shape {matrix.shape}")
    return matrix


def _threads(n_threads: int) -> int:
    if n_threads < 1:
        raise ValueError(f"n_threads is {n_threads}; it must be at least 1")
    return int(n_threads)
