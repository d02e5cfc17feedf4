"""Data on which trees can be perfect: few values per column, no two rows alike, and an example of what the last rows cost."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.costs import FeatureCosts
from anytime_research.datasets.dataset import PublicDataset as Dataset

Array = NDArray[np.float64]

__all__ = ["make_four_quarters", "merge_duplicates", "quantise"]


def quantise(X: ArrayLike, levels: int = 10) -> Array:
    """Numbers as levels 0, 1, ... of equal width between the least and the greatest of their column; NaN stays.

    A column with no more than ``levels`` different values is left as it is.

    Examples
    --------
    >>> quantise([[0.0], [0.1], [0.35], [1.0]], levels=3).ravel()
    array([0., 0., 1., 2.])
    """
    if levels < 1:
        raise ValueError(f"levels must be at least 1, not {levels}")
    out = np.array(X, dtype=np.float64)
    if out.ndim != 2:
        raise ValueError(f"X must have two dimensions, not the shape {out.shape}")
    for column in out.T:
        known = column[~np.isnan(column)]
        if np.unique(known).size > levels:
            low, width = known.min(), np.ptp(known) / levels
            column[:] = np.minimum(np.floor((column - low) / width), levels - 1)
    return out


def merge_duplicates(X: ArrayLike, y: ArrayLike) -> tuple[Array, NDArray[Any]]:
    """One row for all that are alike in every column, with the label that is most frequent among them.

    Rows stay in the order of first appearance; of labels that are equally frequent the first by value is taken.

    Examples
    --------
    >>> X, y = merge_duplicates([[1, 2], [0, 0], [1, 2], [1, 2]], [7, 5, 3, 3])
    >>> X.tolist(), y.tolist()
    ([[1.0, 2.0], [0.0, 0.0]], [3, 5])
    """
    rows, labels = np.asarray(X, dtype=np.float64), np.asarray(y)
    if rows.ndim != 2 or labels.shape != rows.shape[:1]:
        raise ValueError(
            f"X and y must have one row and one label each, not the shapes {rows.shape} and {labels.shape}"
        )
    _, first, which = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    classes, label = np.unique(labels, return_inverse=True)
    counts = np.zeros((first.size, classes.size), dtype=np.int64)
    np.add.at(counts, (which.ravel(), label), 1)
    order = np.argsort(first)
    return rows[first[order]], classes[counts.argmax(axis=1)[order]]


def make_four_quarters() -> Dataset:
    """1024 examples, the bits of their numbers as columns, four classes: all but 4 are told apart by two bits, the rest by ten.

    The synthetic set of Nan's thesis (section 3.4.3). Quarters of the numbers have labels 1, 2, 3 and 4, but the first of each
    has the label of the next. Columns are bits, the most significant first; each costs 1.

    Examples
    --------
    >>> data = make_four_quarters()
    >>> data.X.shape, data.y[:3].tolist(), data.y[256:259].tolist()
    ((1024, 10), [2, 1, 1], [3, 2, 2])
    """
    number = np.arange(1024)
    quarter = number // 256
    y = np.where(number % 256 == 0, (quarter + 1) % 4, quarter) + 1
    X = (number[:, None] >> np.arange(9, -1, -1)) & 1
    return Dataset(
        X.astype(np.float64),
        y,
        FeatureCosts(np.ones(10), unit="columns"),
        name="four quarters",
        description="bits of a number, and the quarter it lies in; four exceptions",
        feature_names=tuple(f"bit {j}" for j in range(9, -1, -1)),
    )
