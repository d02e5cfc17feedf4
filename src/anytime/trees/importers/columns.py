"""From the columns a user has to the numbers that trees compare: categories become codes, everything else a float."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def encode_columns(
    X: Any, n_features: int, categories: Mapping[int, Sequence[Any]] | None, arrays_hold_codes: bool
) -> NDArray[np.float64]:
    """Encode a table or an array.

    Parameters
    ----------
    X : (n, d) pandas or polars table, or array
    n_features : int
        ``d``, as the model has it.
    categories : mapping of column to its values, or None
        Value ``i`` of a list gets code ``i``; a value that is not listed becomes NaN.
    arrays_hold_codes : bool
        Leave the categorical columns of a plain array as they are. A table always holds values.

    Returns
    -------
    (n, d) float64
        A new array.
    """
    if hasattr(X, "tocsr"):
        raise TypeError(
            "X is sparse: the libraries disagree on whether an absent entry is zero or missing. "
            "Pass a dense array (X.toarray()), with NaN where a value is missing."
        )
    is_table = hasattr(X, "columns") and hasattr(X, "dtypes")
    X = X if is_table else np.asarray(X)
    if len(X.shape) != 2 or X.shape[1] != n_features:
        raise ValueError(f"X has shape {tuple(X.shape)}, but the model was trained on {n_features} columns")
    if is_table:
        return _encode_table(X, categories or {})
    if arrays_hold_codes or not categories:
        return np.array(X, dtype=np.float64)
    encoded = np.empty(X.shape, dtype=np.float64)
    for column in range(n_features):
        values = X[:, column]
        encoded[:, column] = codes_of(values, categories[column]) if column in categories else values
    return encoded


def codes_of(values: Any, categories: Sequence[Any]) -> NDArray[np.float64]:
    """Position of each value in ``categories``, NaN for one that is not there.

    Parameters
    ----------
    values : (n,) array or column
    categories : sequence of C values

    Returns
    -------
    (n,) float64
    """
    code_of = {category: float(code) for code, category in enumerate(categories)}
    if hasattr(values, "cat") and hasattr(values.cat, "codes"):
        # A pandas categorical knows its own few values: look those up, not every row.
        own = np.array([code_of.get(value, np.nan) for value in values.cat.categories] + [np.nan])
        return np.asarray(own[values.cat.codes.to_numpy()], dtype=np.float64)  # code -1 is the NaN at the end
    items = values.tolist() if isinstance(values, np.ndarray) else list(values)
    return np.array([code_of.get(item, np.nan) for item in items], dtype=np.float64)


def _encode_table(table: Any, categories: Mapping[int, Sequence[Any]]) -> NDArray[np.float64]:
    """(n, d) float64 from a table, column by column: each may have a type of its own."""
    encoded = np.empty(table.shape, dtype=np.float64)
    for column, name in enumerate(table.columns):
        values = table.iloc[:, column] if hasattr(table, "iloc") else table[name]
        if column in categories:
            encoded[:, column] = codes_of(values, categories[column])
        elif _is_categorical(values):
            raise ValueError(
                f"column {name!r} is categorical, but the model keeps no list of categories for it. "
                "Pass the codes it was trained on, as numbers."
            )
        else:
            encoded[:, column] = _numbers(values)
    return encoded


def _is_categorical(values: Any) -> bool:
    """Whether a table's column has a categorical type (pandas, polars)."""
    return str(values.dtype).lower().startswith(("category", "categorical", "enum"))


def _numbers(values: Any) -> NDArray[np.float64]:
    """(n,) float64; the null of a nullable type becomes NaN."""
    try:
        numbers: NDArray[np.float64] = values.to_numpy(dtype=np.float64, na_value=np.nan)
    except TypeError:  # polars knows neither word, and its nulls become NaN unasked
        numbers = np.asarray(values.to_numpy(), dtype=np.float64)
    return numbers
