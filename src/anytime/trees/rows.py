"""Rows to train and to judge on: their weights, and which of them are kept from training."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_consistent_length, column_or_1d

from anytime.plan import Array
from anytime.spreading import SpreadRows

_CHUNK = 2**16  # numbers that are mixed at a time, so that they stay in the cache


def checked_weights(sample_weight: ArrayLike, X: Any) -> Array:
    """(n,) weights: one per row of ``X``, finite, none negative, not all zero."""
    weight = np.asarray(column_or_1d(sample_weight, dtype=np.float64))
    check_consistent_length(X, weight)
    if not np.isfinite(weight).all():
        raise ValueError("sample_weight holds NaN or infinity")
    if (weight < 0).any():
        raise ValueError(f"sample_weight must not be negative; got {weight.min():g}")
    if not weight.any():
        raise ValueError("all sample weights are zero")
    return weight


def split_rows(
    X: Any, strata: NDArray[np.intp], fraction: float | None, random: np.random.RandomState
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows to fit on, and rows to order on.

    Equal rows of ``X`` stay together whatever their labels, so that none is both trained and judged on, and a row of weight 2
    is the same as two rows. Of the different rows of each stratum, a class or all rows, ``fraction`` is held out, or none; it
    keeps a row to fit on.
    """
    everything = np.arange(len(strata))
    if fraction is None:
        return everything, everything[:0]
    lots = np.unique(drawn_lots(X, random), return_inverse=True)[1]
    held = np.zeros(int(lots.max()) + 1, dtype=bool)
    drawn = [np.unique(lots[strata == stratum]) for stratum in np.unique(strata)]
    for theirs in drawn:
        held[theirs[: int(fraction * theirs.size)]] = True
    for theirs in drawn:  # rows shared with other strata may all have been drawn there
        if held[theirs].all():
            held[theirs[-1]] = False
    return everything[~held[lots]], everything[held[lots]]


def fold_rows(
    X: Any, strata: NDArray[np.intp], n_folds: int, random: np.random.RandomState
) -> NDArray[np.intp]:
    """(n,) The fold of each row: equal rows of ``X`` are in the same one, and every stratum is spread over all.

    Where rows are so alike that without some fold there would be nothing to learn from, no rows or one stratum of several, each
    row is dealt by itself.
    """
    together = _dealt(np.unique(drawn_lots(X, random), return_inverse=True)[1], strata, n_folds)
    needed = min(2, np.unique(strata).size)
    if all(np.unique(strata[together != k]).size >= needed for k in np.unique(together)):
        return together
    return _dealt(random.permutation(len(strata)), strata, n_folds)


def _dealt(lots: NDArray[np.intp], strata: NDArray[np.intp], n_folds: int) -> NDArray[np.intp]:
    """(n,) Folds by lots (n,), which are numbered from 0 on, one stratum after the other."""
    fold = np.full(int(lots.max()) + 1, -1, dtype=np.intp)
    dealt = 0  # from where the last stratum ended, so that small ones do not all fall into the first folds
    for stratum in np.unique(strata):
        theirs = np.unique(lots[strata == stratum])
        theirs = theirs[fold[theirs] < 0]
        fold[theirs] = (dealt + np.arange(theirs.size)) % n_folds
        dealt += theirs.size
    return fold[lots]


def has_categories(X: Any) -> bool:
    """Whether X is a table with a column that is not a number."""
    if not hasattr(X, "dtypes"):
        return False
    return any(
        not isinstance(dtype, np.dtype) or dtype.kind not in "biuf" for dtype in np.atleast_1d(X.dtypes)
    )


def drawn_lots(X: Any, random: np.random.RandomState) -> NDArray[np.uint64]:
    """(n,) random numbers that depend on what a row holds, not on where it stands."""
    if isinstance(X, SpreadRows):
        return X.lots(random)
    if has_categories(X):
        import pandas as pd

        columns = np.asarray(pd.util.hash_pandas_object(X, index=False), dtype=np.uint64)[:, None]
    else:
        columns = np.ascontiguousarray(X, dtype=np.float64)
    odd = random.randint(0, 2**63, size=columns.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    mixed = np.empty(len(columns), dtype=np.uint64)
    step = max(_CHUNK // max(columns.shape[1], 1), 1)
    for first in range(0, len(columns), step):
        some = columns[first : first + step]
        if some.dtype != np.uint64:
            some = (some + 0.0).view(np.uint64)  # minus zero is zero
        mixed[first : first + step] = np.einsum("nd,d->n", some ^ (some >> np.uint64(29)), odd)
    return np.asarray((mixed ^ (mixed >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15))
