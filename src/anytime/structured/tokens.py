"""Features of elements in the forms that users have: a dict per element, or rows of numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.ragged import offsets_of

__all__ = ["FeatureReader"]

Array = NDArray[np.float64]
_UNKNOWN = -1.0
_COMPARED = 300  # names that a wrong one is compared with
_LISTED = 20  # names in a sentence


class FeatureReader:
    """Turns elements into rows of one table: numbers as they are, strings as codes of categories.

    Elements are dicts from names of features to strings, numbers or booleans, or rows of numbers. A feature that an element does
    not have, or that is None or NaN, is missing; a value or a name that training has not seen is passed over. A feature that no
    element of a structure names is one that the structure does not have, unless training structures did without it as well.

    Parameters
    ----------
    names : sequence of str or None
        Names of the features; None: rows of numbers.
    n_columns : int
    vocabularies : sequence of (list of str or None)
        The values of each feature that holds strings, in the order of their codes; None: it holds numbers.
    what : str
        What a structure is called in messages.
    optional : sequence of str, default=()
        Features that no element of some training structure names.
    """

    def __init__(
        self,
        names: Sequence[str] | None,
        n_columns: int,
        vocabularies: Sequence[list[str] | None],
        what: str = "sentence",
        optional: Sequence[str] = (),
    ) -> None:
        self.optional = [str(name) for name in optional]
        self.names = None if names is None else list(names)
        self.n_columns, self.vocabularies, self.what = n_columns, list(vocabularies), what
        if len(self.vocabularies) != n_columns or (names is not None and len(set(names)) != n_columns):
            raise ValueError(f"names and vocabularies do not go with {n_columns} features")
        self.categories = np.array(
            [0 if words is None else max(len(words), 1) for words in self.vocabularies], dtype=np.int32
        )
        self._place = {name: j for j, name in enumerate(self.names or ())}
        self._codes = [
            None if words is None else {word: float(code) for code, word in enumerate(words)}
            for words in self.vocabularies
        ]

    @classmethod
    def fit(cls, X: Any, *, min_count: int = 1, what: str = "sentence") -> FeatureReader:
        """Learn names and values from training structures; values that fewer than ``min_count`` elements have are unknown."""
        listed = _listed(X, what)
        full = next((structure for structure in listed if len(structure)), None)
        if full is None:
            raise ValueError(f"X has no element: every {what} is empty")
        first = full[0]
        if not isinstance(first, Mapping):
            width = np.ndim(first) and np.size(first)
            if not width:
                raise ValueError(
                    f"an element of a {what} is a dict of features or a row of numbers, not {type(first).__name__}"
                )
            return cls(None, int(width), [None] * int(width), what)
        counts: dict[str, dict[Any, int]] = {}
        numbers: dict[str, bool] = {}
        n_with: Counter[str] = Counter()  # structures that have each feature
        for i, structure in enumerate(listed):
            named: set[str] = set()
            for element in structure:
                if not isinstance(element, Mapping):
                    raise ValueError(f"{what} {i} holds a {type(element).__name__} among dicts of features")
                named.update(element)
                for name, value in element.items():
                    if type(name) is not str:
                        raise ValueError(f"{what} {i}: the name of a feature is a string, not {name!r}")
                    seen = counts.setdefault(name, {})
                    if _is_nan(value):  # missing
                        continue
                    if type(value) is str:
                        numbers[name] = False
                    elif not (value is None or isinstance(value, (Real, np.bool_))):
                        raise ValueError(
                            f"{what} {i}: feature {name!r} is a {type(value).__name__}; it must be a string or a number"
                        )
                    seen[value] = seen.get(value, 0) + 1
            n_with.update(named)
        names = sorted(counts)
        if not names:
            raise ValueError("no element has a feature: every dict is empty")
        words: list[list[str] | None] = []
        for name in names:
            if numbers.get(name, True):
                words.append(None)
                continue
            total: dict[str, int] = {}
            for value, count in counts[name].items():
                if value is not None:
                    total[str(value)] = total.get(str(value), 0) + count
            kept = sorted((-count, word) for word, count in total.items() if count >= min_count)
            words.append([word for _, word in kept])
        n_full = sum(len(structure) > 0 for structure in listed)
        return cls(names, len(names), words, what, [name for name in names if n_with[name] < n_full])

    def read(self, X: Any) -> tuple[Array, NDArray[np.int64]]:
        """(E, d) the table of all elements, and where each structure begins."""
        listed = _listed(X, self.what)
        if self.names is None:
            return self._rows(listed)
        offsets = offsets_of([len(structure) for structure in listed])
        table = np.full((int(offsets[-1]), self.n_columns), np.nan)
        flat, d, place, codes = table.reshape(-1), self.n_columns, self._place, self._codes
        cells: list[int] = []
        values: list[float] = []
        row = 0
        for i, structure in enumerate(listed):
            for element in structure:
                if not isinstance(element, Mapping):
                    raise ValueError(
                        f"{self.what} {i} holds a {type(element).__name__}, not a dict of features"
                    )
                for name, value in element.items():
                    j = place.get(name)
                    if j is None or value is None:
                        continue
                    words = codes[j]
                    if words is None:
                        number = _number(value, name, self.what, i)
                    elif type(value) is str:
                        number = words.get(value, _UNKNOWN)
                    elif _is_nan(value):
                        continue
                    else:
                        number = words.get(str(value), _UNKNOWN)
                    cells.append(row + j)
                    values.append(number)
                row += d
        flat[cells] = values
        return table, offsets

    def held(self, X: Any) -> NDArray[np.bool_] | None:
        """(n, d) features that each structure has; None: all have all. An empty structure lacks nothing.

        Raises
        ------
        ValueError
            A structure names features, and none of them is known.
        """
        if self.names is None or len(self.optional) == self.n_columns:
            return None
        held = np.ones((len(X), self.n_columns), dtype=bool)
        needed = [(name, j) for name, j in self._place.items() if name not in self.optional]
        for i, structure in enumerate(X):
            if not len(structure) or all(name in structure[0] for name, _ in needed):
                continue
            named: set[Any] = set().union(*structure)
            if named and not any(name in self._place for name in named):
                wrong = min(map(str, named))
                near = get_close_matches(wrong[:100], self.names[:_COMPARED], n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(self.names[:_LISTED])}"
                raise ValueError(
                    f"no feature of {self.what} {i} is known: the model has no {wrong!r:.60}; {hint}"
                )
            held[i, [j for name, j in needed if name not in named]] = False
        return None if held.all() else held

    def _rows(self, listed: Sequence[Any]) -> tuple[Array, NDArray[np.int64]]:
        tables = []
        for i, structure in enumerate(listed):
            if len(structure) and isinstance(structure[0], Mapping):
                raise ValueError(f"{self.what} {i} holds dicts, but the model was fitted to rows of numbers")
            try:
                rows = np.asarray(structure, dtype=np.float64)
            except (TypeError, ValueError):
                raise ValueError(
                    f"{self.what} {i} is not a table of numbers with one row per element"
                ) from None
            if not rows.size and not len(rows):
                rows = np.empty((0, self.n_columns))
            if rows.ndim != 2 or rows.shape[1] != self.n_columns:
                raise ValueError(
                    f"{self.what} {i} has shape {rows.shape}, but elements have {self.n_columns} features"
                )
            if np.isinf(rows).any():
                raise ValueError(f"{self.what} {i} holds an infinite number")
            tables.append(rows)
        return (
            np.concatenate([np.empty((0, self.n_columns)), *tables]),
            offsets_of([len(rows) for rows in tables]),
        )


def _is_nan(value: Any) -> bool:
    return isinstance(value, (float, np.floating)) and bool(value != value)


def _number(value: Any, name: str, what: str, i: int) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(
            f"{what} {i}: feature {name!r} holds numbers, but here it is {value!r:.60}"
        ) from None
    if number in (np.inf, -np.inf):
        raise ValueError(f"{what} {i}: feature {name!r} is infinite")
    return number


def _listed(X: Any, what: str) -> Sequence[Any]:
    """Structures as a list of sequences."""
    if isinstance(X, (str, bytes, Mapping)) or not hasattr(X, "__len__"):
        raise ValueError(f"X must be a list of {what}s, not {type(X).__name__}")
    for i, structure in enumerate(X):
        if isinstance(structure, (str, bytes, Mapping)) or not hasattr(structure, "__len__"):
            raise ValueError(
                f"{what} {i} is a {type(structure).__name__}; it must be a sequence of elements, each with its features"
            )
    listed: Sequence[Any] = X
    return listed
