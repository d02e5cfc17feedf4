"""Rows of a request: what ``anytime.rows`` reads, within a server's limits, and refused with a status and a sentence."""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from numpy.typing import NDArray

from anytime.estimator import AnytimeModel
from anytime.rows import RowReader, Rows, shown
from anytime.serve.errors import refuse


class RequestReader(RowReader):
    """Reads the rows of requests for one model: at most ``max_values`` cells, those that a client leaves out included."""

    def __init__(self, model: AnytimeModel, max_rows: int, max_values: int) -> None:
        super().__init__(model)
        self.max_rows = min(max_rows, max(1, max_values // self.n_columns))

    def rows(self, rows: Any) -> Rows:
        """Rows as JSON has them: lists of values in the order of the columns, objects by name, or images as nested lists."""
        if type(rows) is not list or not rows:
            refuse(f"rows must be a list of at least one row, not {shown(rows)}")
        self.check_count(len(rows))
        with _Refusing():
            if self._flattened is not None and type(rows[0]) is list and rows[0] and type(rows[0][0]) is list:
                return self.matrix(self._flattened(rows))
            if type(rows[0]) is not dict:
                return Rows(self._matrix(rows, range(self.n_columns)))
            return self._unmistaken(self.mappings(rows))

    def tensor(self, X: NDArray[Any]) -> Rows:
        """An (n, d) array of numbers or, as objects, of words too; or images, (n, ...)."""
        self.check_count(len(X))
        with _Refusing():
            wrong_shape = X.ndim != 2 or X.shape[1] != self.n_columns
            return (
                Rows(self._matrix(X.tolist(), range(self.n_columns)))
                if self.words and not wrong_shape
                else self.matrix(X)
            )

    def named(self, columns: Mapping[str, Sequence[Any]]) -> Rows:
        """Values by the name of their column, equally many for each."""
        n = self._common_length(
            columns, "all columns must have the same number of rows, at least one column given"
        )
        unknown = [name for name in columns if name not in self.position]
        here = {self.position[name]: values for name, values in columns.items() if name in self.position}
        with _Refusing():
            return self._unmistaken(self.columns(here, n, unknown))

    def by_group(self, groups: Any) -> Rows:
        """Values by group: an object by column, a list in the order of the group's columns, or lists of these for more rows."""
        if type(groups) is not dict:
            refuse(f"groups must be an object from group to values, not {shown(groups)}")
        columns: dict[int, list[Any]] = {}
        for group, values in groups.items():
            if group not in self._members_of:
                near = (
                    get_close_matches(str(group)[:100], self.groups, n=1) if len(self.groups) <= 300 else []
                )
                refuse(
                    f"the model has no group {shown(group)}"
                    + (f"; did you mean {near[0]!r}?" if near else "")
                )
            several = type(values) is list and values and isinstance(values[0], (list, dict))
            with _Refusing():
                columns.update(self.members(group, values if several else [values]))
        if not columns:
            return self.nothing(1)
        n = self._common_length(columns, "groups must have the same number of rows")
        with _Refusing():
            return self.columns(columns, n)

    def nothing(self, n: int) -> Rows:
        """Rows of which nothing is known yet."""
        self.check_count(n)
        return self.columns({}, n)

    def check_count(self, n: int) -> None:
        """Refuse none, or more rows than one request may have."""
        if n < 1:
            refuse("at least one row is needed")
        if n > self.max_rows:
            refuse(f"{n} rows, but a request may have at most {self.max_rows}; send them in parts", 413)

    def _common_length(self, columns: Mapping[Any, Sequence[Any]], complaint: str) -> int:
        lengths = {len(values) for values in columns.values()}
        if len(lengths) != 1:
            refuse(complaint)
        self.check_count(n := lengths.pop())
        return n

    @staticmethod
    def _unmistaken(rows: Rows) -> Rows:
        """Nobody reads warnings of a server: a name that looks like a column that is not there is refused."""
        for name, column in (rows.mistaken or {}).items():
            refuse(f"the model has no column {shown(name)}; did you mean {column!r}?")
        return rows


class _Refusing:
    """What a reader finds wrong is the sender's fault. A class: a generator would take two microseconds of every request."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, ValueError):
            refuse(str(error))
