"""Tables whose rows are of unequal length: the scores of all words of each sentence, of all regions of each picture.

The engine takes examples by their numbers and adds up what stages say of them. ``Ragged`` lets it do so where an example has
many outputs: it is indexed, added to and assigned by examples as an array is by rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Ragged", "offsets_of", "zeros_for"]


def offsets_of(lengths: ArrayLike) -> NDArray[np.int64]:
    """(n + 1,) where each of n examples begins, given how many elements each has."""
    return np.concatenate([[0], np.cumsum(np.asarray(lengths, dtype=np.int64))]).astype(np.int64)


def zeros_for(X: Any, width: int) -> Any:
    """Zeros to be added to: (n, width) for the rows of a matrix, ragged where examples have elements (``X.offsets``)."""
    offsets = getattr(X, "offsets", None)
    if offsets is None:
        return np.zeros((len(X), width))
    values = np.zeros((int(offsets[-1]), width))
    return X.ragged(values) if hasattr(X, "ragged") else Ragged(values, offsets)


class Ragged:
    """Values of the elements of examples, one example after the other.

    Parameters
    ----------
    values : (E, ...) array
        One entry per element.
    offsets : (n + 1,) int
        Example ``i`` has the elements from ``offsets[i]`` to ``offsets[i + 1]``.

    Examples
    --------
    >>> words = Ragged(np.array([[1.0], [2.0], [3.0]]), [0, 2, 3])
    >>> [part.ravel().tolist() for part in (words[[1]] + words[[1]]).parts()]
    [[6.0]]
    """

    __array_ufunc__ = None  # array + ragged is left to ``__radd__``
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, values: ArrayLike, offsets: ArrayLike) -> None:
        self.values, self.offsets = np.asarray(values), np.asarray(offsets, dtype=np.int64)

    @property
    def ndim(self) -> int:
        """As of the values: an example is not an axis of its own."""
        return self.values.ndim

    @property
    def lengths(self) -> NDArray[np.int64]:
        """(n,) elements of each example."""
        return np.diff(self.offsets)

    @property
    def owner(self) -> NDArray[np.intp]:
        """(E,) the example of each element."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def __len__(self) -> int:
        return self.offsets.size - 1

    def parts(self) -> list[NDArray[Any]]:
        """The values of each example."""
        return np.split(self.values, self.offsets[1:-1]) if len(self) else []

    def like(self, values: NDArray[Any]) -> Ragged:
        """Other values of the same elements."""
        return Ragged(values, self.offsets)

    def mean(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """(n,) the mean of (E,) values over the elements of each example; 0 for an example without any."""
        total = np.bincount(self.owner, weights=values, minlength=len(self))
        return np.asarray(total / np.maximum(self.lengths, 1))

    def copy(self) -> Ragged:
        """The same, not shared."""
        return self.like(self.values.copy())

    def __getitem__(self, rows: Any) -> Ragged:
        if self._has_only(rows):
            return self
        elements, offsets = elements_of(self.offsets, rows)
        return Ragged(self.values[elements], offsets)

    def __setitem__(self, rows: Any, values: Ragged | float) -> None:
        elements = slice(None) if self._has_only(rows) else elements_of(self.offsets, rows)[0]
        self.values[elements] = values.values if isinstance(values, Ragged) else values

    def _has_only(self, rows: Any) -> bool:
        """Whether these are all examples, in their order."""
        if isinstance(rows, slice):
            return rows == slice(None)
        if not isinstance(rows, np.ndarray) or rows.dtype.kind != "i" or rows.shape != (len(self),):
            return False
        return bool(rows[0] == 0) if rows.size == 1 else bool((rows == np.arange(rows.size)).all())

    def __add__(self, other: Any) -> Ragged:
        return self.like(self.values + self._per_element(other))

    __radd__ = __add__

    def _per_element(self, other: Any) -> Any:
        if isinstance(other, Ragged):
            return other.values
        return np.repeat(other, self.lengths, axis=0) if np.ndim(other) == 2 else other

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Ragged)
            and np.array_equal(self.offsets, other.offsets)
            and np.array_equal(self.values, other.values)
        )

    @staticmethod
    def of(parts: Sequence[NDArray[Any]]) -> Ragged:
        """One array per example; at least one of them."""
        return Ragged(np.concatenate(parts), offsets_of([len(part) for part in parts]))

    @staticmethod
    def joined(parts: Sequence[Ragged]) -> Ragged:
        """Examples of several, one after the other."""
        lengths = np.concatenate([part.lengths for part in parts])
        return Ragged(np.concatenate([part.values for part in parts]), offsets_of(lengths))


def elements_of(offsets: NDArray[np.int64], rows: Any) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
    """Elements of some examples, one example after the other, and their offsets among themselves."""
    rows = np.arange(offsets.size - 1)[rows]
    starts, lengths = offsets[rows], offsets[rows + 1] - offsets[rows]
    new = offsets_of(lengths)
    return np.arange(new[-1]) + np.repeat(starts - new[:-1], lengths), new
