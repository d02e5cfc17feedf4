"""The one reader of rows: whatever form an example comes in, here it becomes the numbers that a plan reads.

A row is a line of a table (pandas, polars, Arrow), a mapping by name (a dict, a Series, a JSON object), or values in the order of
the columns. Words become the codes of their categories; None is a value known to be missing.

**Rows that are not complete.** Columns are found by name, in any order; others are ignored. A group of which a column is not
there cannot be had. A row leaves out a stage if its own path through that stage meets a group that it cannot have, and nothing is
bought for the stage once that is known. The answer is the best of what can be run: of stages that add up the others, of stages
that replace each other the last that can be run; a refitted table ends at its longest complete prefix; a stopping rule is not
asked; where nothing can be run, the answer is the plan's base. A warning names the columns that were wanted. One that the budget
does not reach is not missed: by realised cost, a row that could not pay for the group ends there, as a complete row would.
This holds for tables, mappings, sessions, batches, the server and the command line. An extractor that fails is the same, but
that is known only when it was tried: what was tried or bought before stays paid. Values without names have to be complete. A
missing *value* (NaN or None in a column that is there) is no missing column: the model reads it as in training.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.validation import as_table, check_finite, check_rows, refuse_sparse, warn_caller

Array = NDArray[np.float64]

_NUMBERS = frozenset([float, int, bool, type(None)])
_WORDS = frozenset([str, type(None)])
_AT_A_TIME = 10_000  # values that are converted in one step: less than a millisecond
_COMPARED = 300  # names that a wrong one is compared with: a few milliseconds
_LISTED = 20  # names in a sentence


@dataclass(eq=False, slots=True)  # not frozen, which takes a microsecond for each
class Rows:
    """Rows as a plan reads them."""

    X: Array  # (n, d): columns that are not there hold anything
    held: NDArray[np.bool_] | None = None  # (G,): groups that are there; None: all
    absent: tuple[str, ...] = ()  # columns that the model reads and that are not there
    # names that were given and are unknown, each with the absent column that it may stand for
    mistaken: Mapping[str, str] | None = None
    there: NDArray[np.bool_] | None = None  # (d,): columns that were given, whether read or not; None: all

    @property
    def hint(self) -> str:
        """A question for each mistaken name, or nothing."""
        return "; ".join(
            f"did you mean {column!r} instead of {shown(name)}?"
            for name, column in (self.mistaken or {}).items()
        )


# ---------------------------------------------------------------------- tables


def read_table(model: Any, X: Any) -> Rows:
    """A table, an array or a list of mappings as the plan of a fitted model reads it; see the module for those not complete."""
    if isinstance(X, (list, tuple)) and X and isinstance(X[0], Mapping):
        return reader_of(model).mappings(X)
    X = as_table(X)
    check_rows(model, X, predicting=True)
    names = getattr(model, "feature_names_in_", None)
    if names is None or not hasattr(X, "columns") or not all(isinstance(name, str) for name in X.columns):
        return Rows(model._as_numbers(X))
    trained_names, table_names = list(names), list(X.columns)
    if trained_names == table_names:
        return Rows(model._as_numbers(X))
    here = spellings(trained_names, table_names)
    if not here:
        return Rows(model._as_numbers(X))  # scikit-learn says what is wrong with it
    X = X[list(here.values())].set_axis(list(here), axis=1)
    places = [j for j, name in enumerate(trained_names) if name not in here]
    if places:
        categories = getattr(model, "categories_", None) or {}
        anything = {trained_names[j]: categories[j][0] if categories.get(j) else 0.0 for j in places}
        X = X.assign(**anything)[trained_names]
    reader = reader_of(model)
    there = np.array([name in here for name in trained_names])
    return reader.incomplete(
        model._as_numbers(X), there, [name for name in table_names if name not in here.values()]
    )


def spellings(columns: Iterable[str], names: Iterable[str]) -> dict[str, str]:
    """The columns of a model that a table with ``names`` has, each with its name in the table.

    LightGBM writes ``_`` for a blank, so the two are not told apart.
    """
    wanted, names = [str(name) for name in columns], list(names)
    exact = set(wanted).intersection(names)
    if len(exact) == len(wanted):
        return {name: name for name in wanted}
    others = {str(name).replace(" ", "_"): name for name in names if name not in exact}
    here = {name: name if name in exact else others.get(name.replace(" ", "_")) for name in wanted}
    return {name: spelled for name, spelled in here.items() if spelled is not None}


def warn_of_absent(rows: Rows, any_stage_ran: bool = True) -> None:
    """Say which columns were wanted and not there."""
    if not rows.absent:
        return
    names, one = listed(rows.absent), len(rows.absent) == 1
    which = f"column {names} is" if one else f"columns {names} are"
    what = f"predictions are made without {'it' if one else 'them'}"
    if not any_stage_ran:
        what = f"no stage could run without {'it' if one else 'them'}, so every row gets the prediction made before any purchase"
    hint = f"; {rows.hint}" if rows.mistaken else ""
    warn_caller(f"the {which} missing: {what}{hint}")


def warn_of_mistakes(rows: Rows) -> None:
    """Say which names look like those of columns that are not there."""
    if rows.mistaken:
        warn_caller(rows.hint)


# ---------------------------------------------------------------------- values


def reader_of(model: Any) -> RowReader:
    """The reader of a fitted model, made once for each plan."""
    reader: RowReader | None = model.__dict__.get("_row_reader")
    if reader is None or reader.plan is not model.plan_:
        reader = model._row_reader = RowReader(model)
    return reader


class RowReader:
    """Reads rows that come value by value for one model; all that it looks up is worked out once."""

    def __init__(self, model: Any) -> None:
        self.plan = plan = model.plan_
        self.n_columns = plan.n_features
        names = getattr(model, "feature_names_in_", None)
        # names of the columns, where the model knows any
        self.names: list[str] | None = None if names is None else [str(name) for name in names]
        self.position = {} if self.names is None else {name: j for j, name in enumerate(self.names)}
        self.groups = list(plan.costs.costs.names)
        self.column_group = plan.costs.column_group
        self.unplaced: list[str] = []  # groups of several columns, by names that the model does not know
        self._members_of: dict[str, list[int]] = {}
        for g, (group, labels) in enumerate(plan.costs.costs.groups.items()):
            places = [label if isinstance(label, int) else self.position.get(label, -1) for label in labels]
            if -1 in places:
                places = np.flatnonzero(self.column_group == g).tolist()
                self.unplaced += [group] if len(labels) > 1 else []
            self._members_of[group] = places
        categories = getattr(model, "categories_", None) or {}
        # columns that hold categories, each with the code of every category
        self.words: dict[int, dict[Any, float]] = {
            j: {value: float(code) for code, value in enumerate(values)}
            for j, values in categories.items()
            if list(values) != list(range(len(values)))  # codes that stand for themselves are numbers
        }
        # No reference to the model: a server drops readers once their model is gone.
        self._compared: Callable[[Array], Array] | None = model._compared
        self._flattened = model._flattened
        columns = getattr(model, "columns_", None)
        self._arrays_hold_codes = columns is None or columns.arrays_hold_codes
        self.takes_missing, self._largest = model._takes_missing, model._largest_number
        self._anything = np.nan if self.takes_missing else 0.0  # a placeholder that is never read

    def label(self, column: int) -> str:
        """What a message calls a column."""
        return repr(self.names[column]) if self.names is not None else str(column)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one row: an image has three sizes, all else one."""
        return (self.n_columns,) if self._flattened is None else tuple(self._flattened.shape)

    def one(self, x: Any) -> Rows:
        """A single row: a mapping by column or group, a Series, a table of one row, an image, or values in order of columns."""
        if self._flattened is not None and not isinstance(x, Mapping):
            return self.matrix(self._flattened.one(x))
        refuse_sparse(x)
        x = as_table(x)
        if hasattr(x, "iloc") and hasattr(x, "columns"):
            if len(x) != 1:
                raise ValueError(f"expected one row, not {len(x)}: use predict")
            x = x.iloc[0]
        if hasattr(x, "to_dict"):  # a Series, by name where it has names
            x = x.to_dict() if all(isinstance(name, str) for name in x.index) else x.tolist()
        if isinstance(x, Mapping):
            return self.mappings([x])
        if np.ndim(x) == 0:
            raise TypeError(f"expected the values of one row, not {x!r}")
        if np.ndim(x) > 1 and len(x) != 1:
            raise ValueError(f"expected one row, not {len(x)}: use predict")
        values = x[0] if np.ndim(x) > 1 else x
        if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
            return self.matrix(values[None])
        return Rows(self._matrix([list(values)], range(self.n_columns)))

    def matrix(self, X: NDArray[Any]) -> Rows:
        """(n, d) numbers, categories as codes; or images."""
        if self._flattened is not None:
            X = self._flattened(X)
        if X.ndim != 2 or X.shape[1] != self.n_columns:
            raise ValueError(
                f"the model takes {self.n_columns} columns: expected shape [n, {self.n_columns}], found {list(X.shape)}"
            )
        if X.dtype.kind == "O" or (self.words and not self._arrays_hold_codes):
            return Rows(self._matrix(X.tolist(), range(self.n_columns)))
        flags = X.flags  # bytes behind a header of any length need not lie where floats do
        if X.dtype != np.float64 or not (flags.c_contiguous and flags.aligned):
            X = np.require(X, np.float64, ["C", "A"])
        X = self._finite(X, range(self.n_columns))
        return Rows(X if self._compared is None else self._compared(X.copy()))

    def mappings(self, rows: Sequence[Mapping[str, Any]]) -> Rows:
        """Values by the names of columns, or of groups, the same for all rows."""
        first = rows[0]
        for i, row in enumerate(rows):
            if not isinstance(row, Mapping) or row.keys() != first.keys():
                raise ValueError(
                    f"row {i} has other columns than row 0; all rows of a call need the same columns: give None for a missing "
                    "value"
                )
        here = {name: self.position[name] for name in first if name in self.position}
        if len(here) == len(first) == self.n_columns:
            X = np.empty((len(rows), self.n_columns))
            X[:, list(here.values())] = self._matrix(
                [list(row.values()) for row in rows], list(here.values())
            )
            return Rows(X)
        here |= {spelled: self.position[name] for name, spelled in spellings(self.position, first).items()}
        groups = [
            name
            for name, value in first.items()
            if name in self._members_of and (name not in here or isinstance(value, (list, tuple, Mapping)))
        ]
        columns: dict[int, list[Any]] = {
            j: [row[name] for row in rows] for name, j in here.items() if name not in groups
        }
        for group in groups:
            columns.update(self.members(group, [row[group] for row in rows]))
        unknown = [str(name) for name in first if name not in here and name not in groups]
        if not columns and unknown:
            names = [*self.position, *self.groups] if self.n_columns <= _COMPARED else []
            near = get_close_matches(unknown[0][:100], names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it has {self._listed(range(self.n_columns))}"
            if self.names is None and not near:
                hint = "it knows no names of columns: give values in their order, or by group"
            raise ValueError(f"the model has no column {shown(unknown[0])}; {hint}")
        return self.columns(columns, len(rows), unknown)

    def columns(self, columns: Mapping[int, Sequence[Any]], n: int, unknown: Sequence[str] = ()) -> Rows:
        """(n, d) from the values of some columns, by position."""
        X, there = np.full((n, self.n_columns), self._anything), np.zeros(self.n_columns, dtype=bool)
        order = list(columns)
        if order:
            X[:, order] = self._matrix([list(row) for row in zip(*columns.values(), strict=True)], order)
        there[order] = True
        return self.incomplete(X, there, unknown)

    def incomplete(self, X: Array, there: NDArray[np.bool_], unknown: Sequence[str] = ()) -> Rows:
        """Rows and their columns: ``there``, (d,), marks those passed; ``unknown`` names those that the model lacks."""
        lacking = ~there & self.plan.read_columns
        if not lacking.any():
            return Rows(X, there=there)
        held = np.ones(len(self.groups), dtype=bool)
        held[self.column_group[lacking]] = False
        absent = tuple(str(self.names[j]) if self.names else str(j) for j in np.flatnonzero(lacking))
        few = unknown if len(absent) <= _COMPARED else ()
        wanted = [*absent, *(self.groups[g] for g in np.flatnonzero(~held))]
        of = {name.casefold(): name for name in reversed(wanted)}  # columns before groups of the same name
        near = {name: get_close_matches(name[:100].casefold(), of, n=1) for name in few[:_LISTED]}
        return Rows(X, held, absent, {name: of[close[0]] for name, close in near.items() if close}, there)

    def places(self, group: str) -> list[int]:
        """Positions of the columns of a group, in the order in which the price list names them."""
        return self._members_of[group]

    def members(self, group: str, values: Sequence[Any]) -> dict[int, list[Any]]:
        """Values of one group, of each row a mapping, a list in the order of the group's columns or a single value, by column."""
        members = self._members_of[group]
        out: dict[int, list[Any]] = {j: [] for j in members}
        for row in values:
            if isinstance(row, Mapping):
                unknown = [name for name in row if self.position.get(name) not in out]
                if unknown or len(row) != len(members):
                    raise ValueError(
                        f"group {group!r} has the columns {self._listed(members)}; give all of them"
                    )
                row = [row[self.names[j]] for j in members] if self.names is not None else []
            elif isinstance(row, str) or not hasattr(row, "__len__"):
                row = [row]
            if len(row) != len(members):
                raise ValueError(f"group {group!r} has {len(members)} columns, found {shown(row)}")
            for j, value in zip(members, row, strict=True):
                out[j].append(value)
        return out

    # ------------------------------------------------------------------ helpers

    def flat(self, value: Any, columns: Sequence[int]) -> Any:
        """An image that fills all columns as their values; anything else as it is."""
        if self._flattened is None or len(columns) < self.n_columns or isinstance(value, Mapping):
            return value
        return self._flattened.one(value)[0] if np.ndim(value) > 1 else value

    def values(self, values: Any, order: Sequence[int]) -> Array:
        """(m,) numbers of some columns of one row: values, or an array of numbers with codes for words."""
        if isinstance(values, np.ndarray) and values.dtype.kind in "biuf":
            return np.asarray(self._finite(np.asarray(values, dtype=np.float64)[None], order)[0])
        return np.asarray(self._matrix([list(values)], order)[0])

    def group_hint(self, name: str) -> str:
        """For a sentence about a name that is no group: what to give instead."""
        if name in self.position:
            group = self.groups[self.column_group[self.position[name]]]
            members = self._members_of[group]
            if len(members) == 1:
                return f"; {name!r} is the column of the group {group!r}: give {group!r} instead"
            return (
                f"; {name!r} is a column of the group {group!r}, which takes {self._listed(members)} together"
            )
        near = get_close_matches(name[:100], self.groups[:_COMPARED], n=1)
        return f"; did you mean {near[0]!r}?" if near else f"; it has {listed(self.groups)}"

    def _listed(self, columns: Sequence[int]) -> str:
        return ", ".join(map(self.label, columns[:_LISTED])) + ", ..." * (len(columns) > _LISTED)

    def _matrix(self, rows: list[Any], order: Sequence[int]) -> Array:
        """(n, len(order)) numbers, words as their codes."""
        X = self._at_once(rows, order)
        if X is None:
            X = self._one_by_one(rows, order)
        X = self._finite(X, order)
        if self._compared is None:
            return X
        whole = np.full((len(X), self.n_columns), np.nan)
        whole[:, list(order)] = X
        return self._compared(whole)[:, list(order)]

    def _at_once(self, rows: list[Any], order: Sequence[int]) -> Array | None:
        """The same for rows in which nothing is odd; None where it takes a closer look."""
        width = len(order)
        for i, row in enumerate(rows):
            if type(row) is not list:
                raise ValueError(f"row {i} must be a list of {width} values, not {shown(row)}")
            if len(row) != width:
                raise ValueError(f"row {i} has {len(row)} values, but the model takes {width}")
        X = np.empty((len(rows), width))
        if not self.words:
            step = max(1, _AT_A_TIME // max(width, 1))
            for start in range(0, len(rows), step):  # between two of them other threads may run
                part = rows[start : start + step]
                if not _NUMBERS.issuperset(map(type, chain(*part))):
                    return None
                try:
                    X[start : start + step] = part
                except OverflowError:  # a whole number beyond all floats
                    return None
            return X
        for k, (j, values) in enumerate(zip(order, zip(*rows, strict=True), strict=True)):
            words_of_column = self.words.get(j)
            if not (_NUMBERS if words_of_column is None else _WORDS).issuperset(map(type, values)):
                return None
            try:
                X[:, k] = (
                    values
                    if words_of_column is None
                    else [words_of_column.get(value, np.nan) for value in values]
                )
            except OverflowError:
                return None
        return X

    def _one_by_one(self, rows: list[Any], order: Sequence[int]) -> Array:
        out = np.empty((len(rows), len(order)))
        for i, row in enumerate(rows):
            for k, (j, value) in enumerate(zip(order, row, strict=True)):
                out[i, k] = self._number(i, j, value)
        return out

    def _number(self, i: int, j: int, value: Any) -> float:
        """A value as the model reads it."""
        if value is None or type(value).__name__ == "NAType":
            return np.nan
        if isinstance(value, np.generic):
            value = value.item()
        words_of_column = self.words.get(j)
        where = f"row {i}, column {self.label(j)}"
        if words_of_column is not None:
            if isinstance(value, (list, dict)):
                raise ValueError(f"{where}: expected one of its categories, found {shown(value)}")
            if value in words_of_column:
                return words_of_column[value]
            if isinstance(value, str) or value != value:
                return np.nan  # a word that the model has not met, as in training
            raise ValueError(
                f"{where}: expected a category such as {next(iter(words_of_column))!r}, found {shown(value)}"
            )
        try:
            if not isinstance(value, (str, bytes)):
                return float(value)
        except OverflowError:
            return np.inf
        except (TypeError, ValueError):
            pass
        raise ValueError(f"{where}: expected a number, found {shown(value)}")

    def _finite(self, X: Array, order: Sequence[int]) -> Array:
        """Refuse infinity, and missing values where the model takes none."""
        names = order if self.names is None else [self.names[j] for j in order]
        check_finite(X, names, missing=self.takes_missing, largest=self._largest)
        return X


def is_named(x: Any) -> bool:
    """Whether a row gives its values by name."""
    x = as_table(x)
    names = getattr(x, "columns", getattr(x, "index", None)) if hasattr(x, "iloc") else None
    return isinstance(x, Mapping) or (names is not None and all(isinstance(name, str) for name in names))


def listed(names: Sequence[str]) -> str:
    """The first names of a list, for a sentence."""
    return ", ".join(map(repr, names[:_LISTED])) + ", ..." * (len(names) > _LISTED)


def shown(value: Any) -> str:
    """A short form of a received value, for messages."""
    if isinstance(value, dict):
        return f"an object of {len(value)}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."
