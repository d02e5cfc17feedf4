"""From the columns a user has to the numbers that trees compare: categories become codes, everything else a float."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from anytime.validation import check_finite, naming_words, warn_caller

Finite = bool | Literal["allow-nan"]


@dataclass(frozen=True, eq=False)
class Columns:
    """How a library reads a row before its trees compare anything."""

    n_features: int
    # columns whose values are categories: value ``i`` of the list has code ``i``, which is what the trees compare
    categories: dict[int, list[Any]] = field(default_factory=dict)
    # what a plain array contains in such a column: codes for LightGBM and XGBoost, the values themselves for
    # scikit-learn. A table always holds values
    arrays_hold_codes: bool = True
    # what stands for a missing number: ``missing=`` of the XGBoost estimators
    missing_value: float = float("nan")
    # categorical columns in which -0.5 is a wrong value and not category 0 (XGBoost; LightGBM cuts it to 0)
    rounded_down: tuple[int, ...] = ()
    # what the original takes, in scikit-learn's words. We refuse infinity always, and NaN with True. Unless it is
    # False, what is infinite in float32 is infinite: so such models read numbers
    ensure_all_finite: Finite = False

    def __post_init__(self) -> None:
        for column in (*self.categories, *self.rounded_down):
            if not 0 <= column < self.n_features:
                raise ValueError(f"column {column} is not among the {self.n_features} columns")
        if self.ensure_all_finite not in (False, "allow-nan", True):
            raise ValueError(
                f"ensure_all_finite is {self.ensure_all_finite!r}, not False, 'allow-nan' or True"
            )

    @property
    def are_plain(self) -> bool:
        """Whether a float array can go to the trees as it is."""
        reads_codes = self.arrays_hold_codes or not self.categories
        return reads_codes and math.isnan(self.missing_value) and not self.rounded_down

    def encode(self, X: Any) -> NDArray[np.float64]:
        """(n, d) A table or an array as the numbers that the trees compare, as the original library reads it; a new array.

        A value that is in no list of ``categories`` becomes NaN. The libraries do the same, except that
        XGBoost 3 refuses a table with one.
        """
        words = () if self.arrays_hold_codes and not hasattr(X, "columns") else self.categories
        with naming_words(X, but=words):
            return self.compared(self._codes(X))

    def compared(self, encoded: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n, d) numbers and codes as the trees compare them, in place."""
        if not math.isnan(self.missing_value):
            encoded[_narrow(encoded) == np.float32(self.missing_value)] = np.nan
        for column in self.rounded_down:
            encoded[:, column] = np.floor(_narrow(encoded[:, column]))
        return encoded

    @property
    def largest(self) -> float:
        """What counts as infinite beyond it: models that do not take every number read them as float32."""
        return float(np.finfo(np.float64 if self.ensure_all_finite is False else np.float32).max)

    def check_finite(self, numbers: NDArray[np.float64], names: Any = None) -> None:
        """Refuse infinity, and missing values where the original takes none, in (n, d) numbers of columns called ``names``."""
        check_finite(numbers, names, missing=self.ensure_all_finite is not True, largest=self.largest)

    def state(self) -> dict[str, Any]:
        """What a file keeps: values that JSON can hold, provided that the categories are such."""
        return {
            "n_features": self.n_features,
            "categories": [[column, list(values)] for column, values in self.categories.items()],
            "arrays_hold_codes": self.arrays_hold_codes,
            "missing_value": None if math.isnan(self.missing_value) else self.missing_value,
            "rounded_down": list(self.rounded_down),
            "ensure_all_finite": self.ensure_all_finite,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Columns:
        """Read what ``state`` gave."""
        missing = state["missing_value"]
        return cls(
            n_features=int(state["n_features"]),
            categories={int(column): list(values) for column, values in state["categories"]},
            arrays_hold_codes=bool(state["arrays_hold_codes"]),
            missing_value=math.nan if missing is None else float(missing),
            rounded_down=tuple(int(column) for column in state["rounded_down"]),
            ensure_all_finite=state.get("ensure_all_finite", False),  # not in the first files
        )

    def _codes(self, X: Any) -> NDArray[np.float64]:
        """(n, d) categories as codes, everything else as it is."""
        if hasattr(X, "tocsr"):
            raise TypeError(
                "X is sparse: the libraries disagree on whether an absent entry is zero or missing. "
                "Pass a dense array (X.toarray()), with NaN where a value is missing."
            )
        is_table = hasattr(X, "columns") and hasattr(X, "dtypes")
        X = X if is_table else np.asarray(X)
        if len(X.shape) != 2 or X.shape[1] != self.n_features:
            raise ValueError(
                f"X has shape {tuple(X.shape)}, but the model was trained on {self.n_features} columns"
            )
        if is_table:
            return _encode_table(X, self.categories)
        if self.arrays_hold_codes or not self.categories:
            return np.array(X, dtype=np.float64)
        encoded = np.empty(X.shape, dtype=np.float64)
        for column in range(self.n_features):
            categories = self.categories.get(column)
            encoded[:, column] = X[:, column] if categories is None else codes_of(X[:, column], categories)
        return encoded


def _narrow(numbers: NDArray[np.float64]) -> NDArray[np.float32]:
    """Float32, as XGBoost reads everything: numbers beyond its range are infinite."""
    with np.errstate(over="ignore"):
        return numbers.astype(np.float32)


def codes_of(values: Any, categories: Sequence[Any]) -> NDArray[np.float64]:
    """(n,) Position of each value of an array or column in ``categories``, NaN for one that is not there."""
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
            _warn_of_unknown_values(name, values, encoded[:, column])
        elif _is_categorical(values):
            raise ValueError(
                f"column {name!r} is categorical, but the model keeps no list of categories for it. "
                "Pass the codes it was trained on, as numbers."
            )
        else:
            encoded[:, column] = _numbers(values)
    return encoded


def _warn_of_unknown_values(name: Any, values: Any, codes: NDArray[np.float64]) -> None:
    """A whole column of values that training has not seen is mostly a mistake: another spelling, or another column."""
    if codes.size > 1 and np.isnan(codes).all():
        # None, NA and NaN are missing in any case
        present = (v for v in list(values) if v is not None and type(v).__name__ != "NAType" and v == v)
        first = next(present, None)
        if first is not None:
            example = repr(str(first)) if isinstance(first, str) else str(first)
            warn_caller(
                f"column {name!r}: none of its values occurred in training, e.g. {example}; all count as missing"
            )


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
