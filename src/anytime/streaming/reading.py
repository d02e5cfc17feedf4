"""How a model on a stream reads rows: arrays, tables and dictionaries, whose categories may still be new."""

import warnings
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.plan import Array
from anytime.rows import Rows, reader_of, spellings
from anytime.streaming.categories import MOST_CATEGORIES, CategoryNumbers, grow_categories
from anytime.trees.importers.columns import Columns
from anytime.trees.reading import ColumnModel
from anytime.trees.rows import has_categories
from anytime.validation import as_table, check_columns, check_rows, validated

_FLOAT = np.dtype(np.float64)


class StreamReader(ColumnModel):
    """A model whose columns are known from its first rows on, and whose categories grow.

    ``codes`` are what an array holds: numbers, and 0, 1, ... for the categories of a column in the order in which they came.
    ``numbers`` are what learners read: codes with a number for each category.
    """

    _numbers: CategoryNumbers
    _places: dict[Any, int]  # where values stand that come by name

    # ------------------------------------------------------------------ the first rows, and further ones

    def _first_codes(self, X: Any) -> Array:
        """(n, d) codes of the first rows, which say what columns there are."""
        X = as_table(X)
        if has_categories(X):
            self._read_rows(X, np.zeros(len(X)))  # finds the columns of categories
            self.columns_ = Columns(self.n_features_in_, categories={c: [] for c in self.columns_.categories})
            codes = self._table_codes(X, grow=True)
        else:
            codes = validated(
                self, X, dtype=np.float64, order="C", ensure_all_finite="allow-nan", ensure_min_samples=1
            )
            self.columns_ = Columns(codes.shape[1])
            codes = self._array_codes(codes, grow=True)
        names = getattr(self, "feature_names_in_", None)
        self._places = {} if names is None else {str(name): j for j, name in enumerate(names)}
        return codes

    def _codes(self, X: Any, *, grow: bool) -> Array:
        """(n, d) codes of further rows; ``grow``: categories that are new are taken up."""
        if self._is_ready(X):
            return self._array_codes(X, grow)
        X = as_table(X)
        check_rows(self, X, predicting=not grow)
        names = getattr(self, "feature_names_in_", ())
        if hasattr(X, "columns") and len(here := spellings(names, map(str, X.columns))) == len(names) > 0:
            X = X[list(here.values())].set_axis(list(names), axis=1)
        if has_categories(X):
            check_columns(self, X, reset=False)
            return self._table_codes(X, grow)
        X = validated(
            self,
            X,
            reset=False,
            dtype=np.float64,
            order="C",
            ensure_all_finite="allow-nan",
            ensure_min_samples=1,
        )
        return self._array_codes(np.asarray(X), grow)

    def _is_ready(self, X: Any) -> bool:
        """Whether rows can be read as they are: scikit-learn's checks take longer than learning from a row."""
        return (
            type(X) is np.ndarray
            and X.dtype is _FLOAT
            and X.ndim == 2
            and X.shape[1] == self.n_features_in_
            and X.shape[0] > 0
            and X.flags.c_contiguous
            and "feature_names_in_" not in self.__dict__
            and not _holds_infinity(X)
        )

    def _array_codes(self, X: Array, grow: bool) -> Array:
        if not self.columns_.categories and self.categorical_features in (None, "from_dtype"):
            return X
        if grow:
            X = np.ascontiguousarray(self._with_codes(X))  # refuses what is no code
        for column, categories in self.columns_.categories.items():
            most = min(int(np.nanmax(X[:, column], initial=-1.0)) + 1, MOST_CATEGORIES)
            if grow and all(isinstance(value, int) for value in categories):
                categories.extend(range(len(categories), most))
            beyond = X[:, column] >= len(categories)
            if beyond.any():
                X = X.copy()
                X[beyond, column] = np.nan
        return X

    def _table_codes(self, X: Any, grow: bool) -> Array:
        for column, categories in self.columns_.categories.items() if grow else ():
            values = X.iloc[:, column] if hasattr(X, "iloc") else X[X.columns[column]]
            there = values[values.notna()] if hasattr(values, "notna") else values.drop_nulls()
            grow_categories(categories, there.tolist() if hasattr(there, "tolist") else there.to_list())
        try:
            codes = self.columns_.encode(X)
        except (TypeError, ValueError) as error:
            if "categorical" in str(error):
                raise
            raise ValueError(
                f"a column that held numbers in the first rows does not now: {error}, or say so from the start with the "
                "type of the column"
            ) from None
        self.columns_.check_finite(codes, getattr(self, "feature_names_in_", None))
        return codes

    # ------------------------------------------------------------------ rows by name

    def _named_codes(self, row: Mapping[Any, Any], *, grow: bool) -> Array:
        """(1, d) codes of a row that comes by name. A name that is not there is a missing value."""
        if not self.columns_.categories and (not grow or row.keys() <= self._places.keys()):
            try:  # None becomes NaN
                codes = np.array([list(map(row.get, self._places))], dtype=np.float64)
            except (TypeError, ValueError):
                pass  # value by value, to say which it is
            else:
                if codes.shape[1] == self.n_features_in_ and not _holds_infinity(codes):
                    return codes
        codes = np.full((1, self.n_features_in_), np.nan)
        places, categories = self._places, self.columns_.categories
        unknown = []
        for name, value in row.items():
            column = places.get(name)
            if column is None:
                unknown.append(name)
            elif column in categories:
                codes[0, column] = self._code_of(column, value, grow)
            elif value is not None:
                codes[0, column] = self._number_of(name, value)
        if unknown and grow:
            self._ignore(unknown)
        return codes

    def _code_of(self, column: int, value: Any, grow: bool) -> float:
        words = self.columns_.categories[column]
        if grow:
            grow_categories(words, [value])
        return float(words.index(value)) if value in words else np.nan

    @staticmethod
    def _number_of(name: Any, value: Any) -> float:
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise ValueError(f"feature {name!r} is a number, but here it is {value!r}") from None
        if number in (np.inf, -np.inf):
            raise ValueError(f"feature {name!r} is infinite; leave it out where it is missing")
        return number

    def _ignore(self, unknown: list[Any]) -> None:
        if not self.__dict__.get("_ignores", False):
            self._ignores = True
            warnings.warn(
                f"the feature {unknown[0]!r} is new after the columns were settled, and is ignored, as are all others that come "
                "from now on: let the first rows have every feature, if only as None",
                stacklevel=4,
            )

    # ------------------------------------------------------------------ predictions

    @property
    def _reads_rows_as_they_are(self) -> bool:
        return self.columns_.are_plain and not self._numbers.columns

    def _matrix(self, X: Any) -> Array:
        return self._numbers.apply(super()._matrix(X))

    @property
    def _compared(self) -> Callable[[Array], Array] | None:
        return self._numbers.apply if self._numbers.columns else None

    def _as_numbers(self, X: Any) -> Array:
        return self._numbers.apply(self._codes(X, grow=False))

    def _one_row_of(self, x: Any) -> Rows:
        """One row, in whatever form it comes, as the plan reads it."""
        if type(x) is np.ndarray and x.ndim == 1 and self._is_ready(x[None]):
            return Rows(self._numbers.apply(x[None]))
        x = as_table(x)
        if hasattr(x, "to_dict") and np.ndim(x) == 1:  # a row of a table
            x = x.to_dict()
        elif np.ndim(x) == 1 and self._places and len(x) == self.n_features_in_:
            x = dict(zip(self._places, x, strict=True))
        if isinstance(x, Mapping) and self._places:
            X = self._numbers.apply(self._named_codes(x, grow=False))
            if self._places.keys() <= x.keys():
                return Rows(X)
            there = np.array([name in x for name in self._places])
            return reader_of(self).incomplete(X, there, [str(name) for name in x if name not in self._places])
        if isinstance(x, Mapping):
            raise ValueError("the row has column names, but the model has none: give values in column order")
        if np.ndim(x) == 0:
            raise TypeError(f"predict_one takes the values of one row, not {x!r}")
        x = np.atleast_2d(x) if not hasattr(x, "columns") else x
        if len(x) != 1:
            raise ValueError(f"predict_one takes one row, not {len(x)}: use predict")
        return Rows(self._as_numbers(x))


def _holds_infinity(X: NDArray[np.float64]) -> bool:
    flat = X.ravel()
    square = float(flat @ flat)  # finite where nothing is infinite or missing
    return not isfinite(square) and bool(np.isinf(X).any())
