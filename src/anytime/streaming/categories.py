"""Words in a stream: categories that come as they come, and the numbers that stand for them.

A category is read as the mean target of the rows that had it before, drawn towards the mean of all: the rows of a stream are in
order, so that no row ever sees its own target (ordered target statistics; Prokhorenkova et al., *CatBoost*, 2018). With several
outputs there is no such single number, and categories are read as the order in which they first appeared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np

from anytime.plan import Array

MOST_CATEGORIES = 10_000  # of a column; those that come later are missing values


def grow_categories(categories: list[Any], values: Iterable[Any]) -> None:
    """Append values that are not known yet, in the order in which they come; missing ones are none."""
    seen = set(categories)
    for value in values:
        if value in seen or value is None or value != value or len(categories) >= MOST_CATEGORIES:
            continue
        seen.add(value)
        categories.append(value)


class CategoryNumbers:
    """The number that stands for each category of the ``columns`` that hold codes: 0, 1, ..., NaN.

    A category is read as its mean target, or, not ``by_target``, as its code.
    """

    def __init__(self, columns: Iterable[int], by_target: bool) -> None:
        self.by_target = by_target
        # per column and code: how many rows, and the sum of their targets
        self._sums: dict[int, list[list[float]]] = {column: [] for column in columns}

    @property
    def columns(self) -> list[int]:
        """Columns whose codes are not read as they are."""
        return list(self._sums) if self.by_target else []

    def learn(self, X: Array, targets: Array) -> Array:
        """Rows (b, d) with numbers in place of codes, each by the rows before it; takes note of their ``targets`` (b,)."""
        if not self.by_target or not self._sums:
            return X
        out = X.copy()
        for column, sums in self._sums.items():
            codes = X[:, column]
            self._make_room(sums, codes)
            for row, (code, target) in enumerate(zip(codes.tolist(), targets.tolist(), strict=True)):
                if code == code:
                    entry = sums[int(code)]
                    out[row, column] = entry[1] / (entry[0] + 1.0)
                    entry[0] += 1.0
                    entry[1] += target
        return out

    def apply(self, X: Array) -> Array:
        """Rows (b, d) with numbers in place of codes, by all rows so far."""
        if not self.by_target or not self._sums:
            return X
        out = X.copy()
        for column, sums in self._sums.items():
            means = np.array([total / (count + 1.0) for count, total in sums] + [np.nan])
            codes = X[:, column]
            in_range = (codes >= 0) & (codes < len(sums))  # NaN is in no range
            out[:, column] = means[np.where(in_range, codes, len(sums)).astype(np.intp)]
        return out

    @staticmethod
    def _make_room(sums: list[list[float]], codes: Array) -> None:
        most = np.nanmax(codes, initial=-1.0)
        sums.extend([0.0, 0.0] for _ in range(int(most) + 1 - len(sums)))

    def copy(self) -> CategoryNumbers:
        """The same, to go on by itself."""
        other = CategoryNumbers([], self.by_target)
        other._sums = {column: [list(entry) for entry in sums] for column, sums in self._sums.items()}
        return other

    def state(self) -> dict[str, Any]:
        """What a file keeps."""
        tables = {column: np.array(sums).reshape(-1, 2) for column, sums in self._sums.items()}
        return {"by_target": self.by_target, "sums": tables}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], n_columns: int) -> Self:
        """Read what ``state`` gave."""
        numbers = cls([], bool(state["by_target"]))
        for column, table in state["sums"].items():
            sound = isinstance(table, np.ndarray) and table.dtype == np.float64 and table.shape[1:] == (2,)
            if type(column) is not int or not 0 <= column < n_columns or not sound:
                raise ValueError("expected the sums of each category of a column")
            if not np.isfinite(table).all():
                raise ValueError("sums of categories must be finite")
            numbers._sums[column] = table.tolist()
        return numbers
