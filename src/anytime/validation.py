"""scikit-learn's checks of rows, with one thing more: in which column a word stands where a number is expected."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

__all__ = ["naming_words", "validated"]


def validated(model: Any, X: Any, *y: Any, **how: Any) -> Any:
    """What ``sklearn.utils.validation.validate_data`` gives."""
    with naming_words(X):
        return validate_data(model, X, *y, **how)


@contextmanager
def naming_words(X: Any, but: Any = ()) -> Iterator[None]:
    """Say where the word stands that could not be made a number.

    Parameters
    ----------
    X : (n, d) table or array
    but : container of int, default=()
        Columns that may hold words.
    """
    try:
        yield
    except ValueError as error:
        found = _first_word(X, but) if "could not convert string to float" in str(error) else None
        if found is None:
            raise
        row, column, word = found
        shown = repr(word if len(word) <= 40 else word[:40] + "...")
        hint = "make numbers of its words first"
        if not hasattr(X, "columns"):
            hint += ", or give X as a table, of which many models take categories"
        raise ValueError(
            f"column {column!r} should hold numbers, but row {row} has {shown}; {hint}"
        ) from None


def _first_word(X: Any, but: Any) -> tuple[int, Any, str] | None:
    """Row, column and text of the first word in the first column that has any."""
    if hasattr(X, "columns"):
        named = [(name, X.iloc[:, j] if hasattr(X, "iloc") else X[name]) for j, name in enumerate(X.columns)]
    else:
        rows = np.asarray(X, dtype=object)
        named = list(zip(count(), rows.T)) if rows.ndim == 2 else []
    for j, (name, values) in enumerate(named):
        for i, value in enumerate(() if j in but else values):
            if isinstance(value, (str, bytes)):
                try:
                    float(value)
                except ValueError:
                    return i, name, value if isinstance(value, str) else value.decode("latin-1")
    return None
