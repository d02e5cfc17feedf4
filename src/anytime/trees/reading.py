"""How a model of trees reads a row: categories become the codes that its trees compare, everything else stays a number."""

from collections import Counter
from collections.abc import Callable, Mapping
from numbers import Real
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array, check_consistent_length

from anytime.estimator import AnytimeModel
from anytime.plan import Array
from anytime.trees.importers.columns import Columns
from anytime.trees.rows import has_categories
from anytime.validation import as_table, check_columns, is_word, naming_words, validated, warn_caller


class ColumnModel(AnytimeModel):
    """A model that knows how its columns are read (``columns_``)."""

    columns_: Columns
    categorical_features: Any

    @property
    def categories_(self) -> dict[int, list[Any]]:
        """Columns whose values are categories, each with its categories."""
        return self.columns_.categories

    @property
    def _reads_rows_as_they_are(self) -> bool:
        return self.columns_.are_plain

    def _matrix(self, X: Any) -> Array:
        """(n, d) numbers as the trees compare them."""
        if self.columns_.are_plain and not has_categories(X):
            with naming_words(X):
                return np.asarray(check_array(X, dtype=np.float64, order="C", ensure_all_finite=False))
        return self.columns_.encode(X)

    @property
    def _compared(self) -> Callable[[Array], Array] | None:
        return None if self.columns_.are_plain else self.columns_.compared

    @property
    def _takes_missing(self) -> bool:
        return self.columns_.ensure_all_finite is not True

    @property
    def _largest_number(self) -> float:
        return self.columns_.largest

    def _as_numbers(self, X: Any) -> Array:
        if self.columns_.are_plain and not has_categories(X):
            finite, largest = self.columns_.ensure_all_finite, self.columns_.largest
            X = validated(
                self, X, reset=False, dtype=np.float64, order="C", ensure_all_finite=finite, largest=largest
            )
            return np.asarray(X)
        check_columns(self, X, reset=False)
        numbers = self._matrix(X)
        self.columns_.check_finite(numbers, getattr(self, "feature_names_in_", None))
        return numbers

    def _read_rows(self, X: Any, y: Any) -> tuple[Array, Any]:
        """Numbers as trees compare them; sets what is known of the columns."""
        X, y = as_table(X), as_table(y)
        if has_categories(X):
            check_columns(self, X)
            check_consistent_length(X, y)
            self.columns_ = Columns(self.n_features_in_, categories=_categories_of(X))
            codes = self.columns_.encode(X)
            numbers = check_array(codes, ensure_all_finite=False, ensure_min_samples=2, estimator=self)
            self.columns_.check_finite(numbers, getattr(self, "feature_names_in_", None))
        else:
            numbers, y = validated(
                self,
                X,
                y,
                dtype=np.float64,
                order="C",
                ensure_all_finite=False,
                multi_output=True,
                ensure_min_samples=2,
            )
            self.columns_ = Columns(numbers.shape[1])
        return np.ascontiguousarray(self._with_codes(numbers)), y

    def _with_codes(self, numbers: Array) -> Array:
        """Take note of columns that the user calls categorical."""
        named = self.categorical_features
        if named is None or (isinstance(named, str) and named == "from_dtype"):
            return numbers
        names = list(getattr(self, "feature_names_in_", []))
        for entry in np.asarray(named).tolist():
            if isinstance(entry, str) and entry not in names:
                raise ValueError(f"categorical_features names {entry!r}, which X does not have")
            column = names.index(entry) if isinstance(entry, str) else int(entry)
            if not 0 <= column < numbers.shape[1]:
                raise ValueError(
                    f"categorical_features names column {column}, but X has {numbers.shape[1]} columns"
                )
            values = numbers[:, column]
            whole = np.isnan(values) | ((values >= 0) & (values <= 2**24) & (values == np.floor(values)))
            if not whole.all():
                raise ValueError(
                    f"column {entry!r} is called categorical but holds {values[~whole][0]:g}; categories in an array are "
                    "whole numbers from 0 on"
                )
            self.columns_.categories.setdefault(column, list(range(int(np.nanmax(values, initial=0.0)) + 1)))
        return numbers

    def _file_state(self) -> dict[str, Any]:
        return {"columns": self.columns_.state()}

    def _restore_file_state(self, state: Mapping[str, Any]) -> None:
        self.columns_ = Columns.from_state(state["columns"])
        if self.columns_.n_features != self.n_features_in_:
            raise ValueError(
                f"{self.columns_.n_features} columns are described, but the model has {self.n_features_in_}"
            )


def _categories_of(table: Any) -> dict[int, list[Any]]:
    """The categories of the columns of a table that are not numbers."""
    by_column: dict[int, list[Any]] = {}
    for column, name in enumerate(table.columns):
        values = table.iloc[:, column] if hasattr(table, "iloc") else table[name]
        if hasattr(values, "cat") and hasattr(values.cat, "categories"):
            by_column[column] = list(values.cat.categories)
        elif str(values.dtype).lower().startswith(("date", "time", "duration", "period")):
            raise ValueError(
                f"column {name!r} holds dates or times; convert them to numbers first, such as days since a date"
            )
        elif not _is_numeric(values):
            present = values[values.notna()] if hasattr(values, "notna") else values
            counts = Counter(np.asarray(present).tolist())
            by_column[column] = sorted(counts, key=lambda v: (str(type(v)), v))
            if (message := odd_words(name, values, counts)) is not None:
                warn_caller(message)  # whoever called fit
    return by_column


def odd_words(name: Any, values: Any, counts: Counter[Any]) -> str | None:
    """What to say of a column that was perhaps not meant to hold categories; ``counts``: how often it has which value."""
    rows = counts.total()
    words = {value for value in counts if is_word(value)}
    n_words, n_numbers = (sum(counts[v] for v in group) for group in (words, filter(_is_number, counts)))
    if 0 < n_words < n_numbers:
        row, word = next((i, value) for i, value in enumerate(values) if value in words)
        if n_words == 1:
            oddity, advice = f"1 string ({word!r} in row {row})", "make it a missing value"
        else:
            oddity, advice = f"{n_words} strings (first {word!r} in row {row})", "make them missing values"
        message = f"column {name!r} holds numbers and {oddity}, so it is read as categories; {advice}, or give the column "
        message += "the type 'category'"
    elif len(counts) > max(_LEAST_IDS, 0.9 * rows):
        message = f"column {name!r} has {len(counts)} different strings in {rows} rows, like an id: there is little to learn "
        message += "from it"
        if len(counts) > _TOLD_APART:
            message += f", and all strings but the {_TOLD_APART} most frequent count as one"
        message += "; leave it out, or encode it as numbers or fewer strings"
    else:
        return None
    return message


def _is_number(value: Any) -> bool:
    """Whether a value is a number, or text that is one."""
    if isinstance(value, (str, bytes)):
        return not is_word(value)
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_numeric(values: Any) -> bool:
    """Whether a column of a table holds numbers, in whatever type: NumPy's, nullable ones, Arrow's, polars', or mere objects."""
    dtype = values.dtype
    if hasattr(dtype, "is_numeric"):  # polars
        return bool(dtype.is_numeric()) or str(dtype) == "Boolean"
    from pandas.api.types import infer_dtype, is_bool_dtype, is_numeric_dtype

    if is_numeric_dtype(dtype) or is_bool_dtype(dtype):
        return True
    return getattr(dtype, "kind", "") == "O" and infer_dtype(values, skipna=True) in _NUMBERS


_TOLD_APART = 254  # categories with a bin of their own
_LEAST_IDS = 20  # of fewer rows nobody can tell
_NUMBERS = ("floating", "integer", "mixed-integer-float", "decimal", "boolean")
