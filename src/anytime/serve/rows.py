"""From the values that a client sends to the matrix that a model reads, and the groups of features that it then has.

Numbers go straight into an array; words become the codes that the model compares; null is a value known to be missing. A
column that is not sent at all means that its group is not there: the model answers without it, or the server computes it.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.estimator import AnytimeModel
from anytime.serve.errors import refuse, shown

__all__ = ["RowReader", "Rows"]

Array = NDArray[np.float64]

_NUMBERS = frozenset([float, int, bool, type(None)])
_WORDS = frozenset([str, type(None)])
_AT_A_TIME = 10_000  # values that are converted in one step: less than a millisecond
_COMPARED = 300  # names that a wrong one is compared with: a few milliseconds
_LISTED = 20  # names in a sentence


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a request.

    Attributes
    ----------
    X : (n, d) float64
    held : (G,) bool or None
        Groups that were sent; None: all.
    """

    X: Array
    held: NDArray[np.bool_] | None = None


class RowReader:
    """Reads rows for one model; all that it looks up is worked out once.

    Parameters
    ----------
    model : fitted AnytimeModel
    max_rows : int
    max_values : int
        Of rows times columns, also of columns that a client leaves out.

    Attributes
    ----------
    names : list of str or None
        Names of the columns, where the model knows any.
    words : dict of int to dict
        Columns that hold categories, each with the code of every category.
    takes_missing : bool
    """

    def __init__(self, model: AnytimeModel, max_rows: int, max_values: int) -> None:
        plan = model.plan_
        self.max_rows = min(max_rows, max(1, max_values // plan.n_features))
        self.n_columns = plan.n_features
        names = getattr(model, "feature_names_in_", None)
        self.names: list[str] | None = None if names is None else [str(name) for name in names]
        self.position = {} if self.names is None else {name: j for j, name in enumerate(self.names)}
        self.groups = list(plan.costs.costs.names)
        self.column_group = plan.costs.column_group
        self._members_of: dict[str, list[int]] = {name: [] for name in self.groups}
        for j, group in enumerate(self.column_group.tolist()):
            if group >= 0:
                self._members_of[self.groups[group]].append(j)
        self.needed: list[bool] = plan.read_columns.tolist()
        categories = getattr(model, "categories_", None) or {}
        self.words: dict[int, dict[Any, float]] = {
            j: {value: float(code) for code, value in enumerate(known)}
            for j, known in categories.items()
            if list(known) != list(range(len(known)))  # codes that stand for themselves are numbers
        }
        self._plain = bool(model._reads_rows_as_they_are)
        self._quick = self._plain and not self.words
        self.takes_missing = _takes_missing(model)
        # The model itself is not kept: its server forgets readers when nobody else has the model any more.
        self._columns = columns = getattr(model, "columns_", None)
        narrow = columns is not None and columns.ensure_all_finite is not False  # such a model reads float32
        self._largest = float(np.finfo(np.float32 if narrow else np.float64).max)
        self._absent = np.nan if self.takes_missing else 0.0  # stands where nobody looks

    def label(self, column: int) -> str:
        """What a message calls a column."""
        return repr(self.names[column]) if self.names is not None else str(column)

    # ------------------------------------------------------------------ the forms in which rows come

    def rows(self, rows: Any) -> Rows:
        """Rows as JSON has them: lists of values in the order of the columns, or objects by name."""
        if type(rows) is not list or not rows:
            refuse(f"rows must be a list of at least one row, not {shown(rows)}")
        self.check_count(len(rows))
        if type(rows[0]) is dict:
            return self._mappings(rows)
        return Rows(self._matrix(rows, range(self.n_columns)))

    def matrix(self, X: NDArray[Any]) -> Rows:
        """An (n, d) array of numbers, as a tensor has them."""
        if X.ndim != 2 or X.shape[1] != self.n_columns:
            refuse(
                f"the model takes {self.n_columns} columns: expected shape [n, {self.n_columns}], found {list(X.shape)}"
            )
        self.check_count(len(X))
        if not self._quick or X.dtype.kind == "O":
            return Rows(self._matrix(X.tolist(), range(self.n_columns)))
        flags = X.flags  # bytes behind a header of any length need not lie where floats do
        if X.dtype != np.float64 or not (flags.c_contiguous and flags.aligned):
            X = np.require(X, np.float64, ["C", "A"])
        return Rows(self._finite(X, range(self.n_columns)))

    def columns(self, columns: Mapping[str, Sequence[Any]]) -> Rows:
        """Values by the name of their column, equally many for each."""
        lengths = {len(values) for values in columns.values()}
        if len(lengths) != 1:
            refuse("all columns must have the same number of rows, at least one column given")
        self.check_count(lengths.pop())
        order = [self._position(name) for name in columns]
        rows = [list(row) for row in zip(*columns.values(), strict=True)]
        return self._placed(self._matrix(rows, order), order)

    def by_group(self, groups: Any) -> Rows:
        """Values by group: an object by column, a list in the order of the group's columns, or lists of these for more rows."""
        if type(groups) is not dict:
            refuse(f"groups must be an object from group to values, not {shown(groups)}")
        columns: dict[int, list[Any]] = {}
        for group, given in groups.items():
            if group not in self._members_of:
                refuse(f"the model has no group {shown(group)}{_hint(group, self.groups)}")
            columns.update(self._members(group, self._members_of[group], given))
        if not columns:
            return Rows(np.full((1, self.n_columns), self._absent), np.zeros(len(self.groups), dtype=bool))
        lengths = {len(values) for values in columns.values()}
        if len(lengths) != 1:
            refuse(f"groups must have the same number of rows; found {min(lengths)} and {max(lengths)}")
        self.check_count(lengths.pop())
        order = list(columns)
        rows = [list(row) for row in zip(*columns.values(), strict=True)]
        return self._placed(self._matrix(rows, order), order)

    def nothing(self, n: int) -> Rows:
        """Rows of which nothing is known yet."""
        self.check_count(n)
        return Rows(np.full((n, self.n_columns), self._absent), np.zeros(len(self.groups), dtype=bool))

    def check_count(self, n: int) -> None:
        """Refuse none, or more rows than one request may have."""
        if n < 1:
            refuse("at least one row is needed")
        if n > self.max_rows:
            refuse(f"{n} rows, but a request may have at most {self.max_rows}; send them in parts", 413)

    # ------------------------------------------------------------------ helpers

    def _members(self, group: str, members: list[int], given: Any) -> dict[int, list[Any]]:
        """Values of one group, by column."""
        if type(given) is dict:
            given = [given]
        elif type(given) is not list:
            given = [[given]]
        elif not given or not isinstance(given[0], (list, dict)):
            given = [given]
        out: dict[int, list[Any]] = {j: [] for j in members}
        for row in given:
            if type(row) is dict:
                unknown = [name for name in row if self.position.get(name) not in out]
                if unknown or len(row) != len(members):
                    listed = ", ".join(map(self.label, members[:_LISTED])) + ", ..." * (
                        len(members) > _LISTED
                    )
                    refuse(f"group {group!r} has the columns {listed}; give all of them")
                row = [row[self.names[j]] for j in members] if self.names is not None else []
            if type(row) is not list or len(row) != len(members):
                refuse(f"group {group!r} has {len(members)} columns, found {shown(row)}")
            for j, value in zip(members, row, strict=True):
                out[j].append(value)
        return out

    def _mappings(self, rows: list[Any]) -> Rows:
        first = rows[0]
        order = [self._position(name) for name in first]
        for i, row in enumerate(rows):
            if type(row) is not dict or row.keys() != first.keys():
                refuse(f"row {i} has other columns than row 0; rows of one request have the same")
        values = [[row[name] for name in first] for row in rows]
        return self._placed(self._matrix(values, order), order)

    def _position(self, name: str) -> int:
        if self.names is None:
            refuse("the model knows no names of columns: give its rows as lists, in the order of training")
        if name not in self.position:
            refuse(f"the model has no column {shown(name)}{_hint(name, self.names)}")
        return self.position[name]

    def _placed(self, values: Array, order: Sequence[int]) -> Rows:
        """Columns at their places, and the groups that are complete."""
        if len(order) == self.n_columns:
            X = np.empty_like(values)
            X[:, order] = values
            return Rows(X)
        X = np.full((len(values), self.n_columns), self._absent)
        X[:, order] = values
        given = set(order)
        held = np.zeros(len(self.groups), dtype=bool)
        groups = self.column_group[list(order)]
        held[groups[groups >= 0]] = True
        for j, needed in enumerate(self.needed):
            group = self.column_group[j]
            if needed and j not in given and held[group]:
                refuse(
                    f"column {self.label(j)} is missing: of group {self.groups[group]!r} all columns are needed, or none"
                )
        return Rows(X, held)

    def _matrix(self, rows: list[Any], order: Sequence[int]) -> Array:
        """(n, len(order)) numbers, words as their codes."""
        X = self._at_once(rows, order)
        if X is None:
            X = self._one_by_one(rows, order)
        X = self._finite(X, order)
        return X if self._plain else self._as_trees_compare(X, order)

    def _at_once(self, rows: list[Any], order: Sequence[int]) -> Array | None:
        """The same for rows in which nothing is odd; None where it takes a closer look."""
        width = len(order)
        for i, row in enumerate(rows):
            if type(row) is not list:
                refuse(f"row {i} must be a list of {width} values, not {shown(row)}")
            if len(row) != width:
                refuse(f"row {i} has {len(row)} values, but the model takes {width}")
        X = np.empty((len(rows), width))
        if not self.words:
            step = max(1, _AT_A_TIME // max(width, 1))
            for start in range(0, len(rows), step):  # between two of them a thread lets others go on
                part = rows[start : start + step]
                if not _NUMBERS.issuperset(map(type, chain(*part))):
                    return None
                X[start : start + step] = part
            return X
        for k, (j, values) in enumerate(zip(order, zip(*rows, strict=True), strict=True)):
            known = self.words.get(j)
            if not (_NUMBERS if known is None else _WORDS).issuperset(map(type, values)):
                return None
            X[:, k] = values if known is None else [known.get(value, np.nan) for value in values]
        return X

    def _one_by_one(self, rows: list[Any], order: Sequence[int]) -> Array:
        out = np.empty((len(rows), len(order)))
        for i, row in enumerate(rows):
            for k, (j, value) in enumerate(zip(order, row, strict=True)):
                out[i, k] = self._number(i, j, value)
        return out

    def _number(self, i: int, j: int, value: Any) -> float:
        """A value as the model reads it."""
        if value is None:
            return np.nan
        known = self.words.get(j)
        if known is not None:
            if isinstance(value, (list, dict)):
                refuse(
                    f"row {i}, column {self.label(j)}: expected one of its categories, found {shown(value)}"
                )
            if value in known:
                return known[value]
            if isinstance(value, str) or value != value:
                return np.nan  # a word that the model has not met, as in training
            refuse(
                f"row {i}, column {self.label(j)}: expected a category such as {next(iter(known))!r}, found {shown(value)}"
            )
        if not isinstance(value, (int, float)):
            refuse(f"row {i}, column {self.label(j)}: expected a number, found {shown(value)}")
        try:
            return float(value)
        except OverflowError:
            return np.inf

    def _finite(self, X: Array, order: Sequence[int]) -> Array:
        """Refuse infinity, and missing values where the model takes none."""
        fine = np.abs(X) <= self._largest
        if np.count_nonzero(fine) == fine.size:
            return X
        missing = np.isnan(X)
        wrong = ~fine if not self.takes_missing else ~fine & ~missing
        if wrong.any():
            i, k = (int(at[0]) for at in np.nonzero(wrong))
            what = (
                "is missing, and this model takes no missing values"
                if missing[i, k]
                else "is infinite or too large"
            )
            refuse(f"row {i}, column {self.label(order[k])}: the value {what}")
        return X

    def _as_trees_compare(self, X: Array, order: Sequence[int]) -> Array:
        """What a model of another library makes of numbers: a number that stands for a missing one, codes rounded down."""
        columns = self._columns
        assert columns is not None
        if not np.isnan(columns.missing_value):
            X[X.astype(np.float32) == np.float32(columns.missing_value)] = np.nan
        for k, j in enumerate(order):
            if j in columns.rounded_down:
                X[:, k] = np.floor(X[:, k].astype(np.float32))
        return X


def _takes_missing(model: AnytimeModel) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the row has no names
            model._checked(np.full((1, model.plan_.n_features), np.nan))
    except ValueError:
        return False
    return True


def _hint(name: Any, known: Sequence[str]) -> str:
    near = get_close_matches(str(name)[:100], known, n=1) if len(known) <= _COMPARED else []
    return f"; did you mean {near[0]!r}?" if near else ""
