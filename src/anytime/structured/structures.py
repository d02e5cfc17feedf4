"""What is labelled: examples of many elements, with neighbours, regions and features that are computed when they are asked for.

One example is one structure: a sentence, a picture, a graph. It has *elements* (words, the finest regions of a picture, nodes),
each of which gets a label. ``Structures`` is a batch of them, and all that trainer and stages know of the data. A kind of
data of its own (pictures) is a subclass that says

- ``offsets`` and ``sizes``: where each structure's elements begin, and how much each of them counts (pixels);
- ``regions(level)``: nested partitions of the elements, from single elements (level 0) up; ``WHOLE`` is the whole structure;
- ``read(level, columns, which)``: features of regions. A column that nobody has asked for need not be computed: what is
  computed may be kept by the batch, and by the structures of which it is a part (``take``);
- ``context(level, probabilities)``: what regions are told of the current predictions of others: neighbours, parents, children;
- ``take(rows)``: some of the structures, sharing what has been computed.

Columns are those of the price list (``FeatureCosts``), which is per structure: a column of a group that is bought is there for
all of a structure's elements. Where features are given by element (words), prices are per element: all elements of a
structure buy together, so that the mean per element is the price.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime._native import region_means
from anytime.ragged import elements_of, offsets_of
from anytime.structured.beliefs import Beliefs

__all__ = ["WHOLE", "ElementTable", "Regions", "Structures"]

Array = NDArray[np.float64]
WHOLE = -1  # the level of whole structures


@dataclass(frozen=True, eq=False)
class Regions:
    """A partition of the elements of a batch.

    Attributes
    ----------
    label : (E,) int
        The region of each element, counted through the batch.
    sizes : (E,) float
        How much each element counts.
    n_regions : int
    """

    label: NDArray[np.intp]
    sizes: Array
    n_regions: int

    @cached_property
    def size(self) -> Array:
        """(R,) how much each region counts."""
        return np.bincount(self.label, weights=self.sizes, minlength=self.n_regions).astype(np.float64)

    @cached_property
    def first(self) -> NDArray[np.intp]:
        """(R,) an element of each region."""
        first = np.zeros(self.n_regions, dtype=np.intp)
        first[self.label[::-1]] = np.arange(self.label.size)[::-1]
        return first

    @cached_property
    def are_elements(self) -> bool:
        """Whether each region is one element, in their order."""
        return self.n_regions == self.label.size and bool((self.label == np.arange(self.label.size)).all())

    @cached_property
    def _lists(self) -> tuple[NDArray[np.int64], NDArray[np.int64], Array]:
        """Where the list of each region's elements starts, the lists, and the share that each makes up of its region."""
        share = self.sizes / np.where(self.size > 0, self.size, 1.0)[self.label]
        elements = np.argsort(self.label, kind="stable").astype(np.int64)
        return offsets_of(np.bincount(self.label, minlength=self.n_regions)), elements, share[elements]

    def elements(self, which: NDArray[np.intp]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Elements of regions ``which``, one region after the other, and the (m + 1,) offsets of the regions."""
        starts, order, _ = self._lists
        places, offsets = elements_of(starts, which)
        return order[places], offsets

    def mean(self, values: Array, only: NDArray[np.bool_] | None = None, out: Array | None = None) -> Array:
        """(R, ...) means of (E, ...) values, elements weighted by their sizes.

        ``only``, (R,): the other regions keep what they have in ``out``. A mean has the same bits whatever others are computed.
        """
        if out is None:
            if self.are_elements:
                return values
            out = np.zeros((self.n_regions, *values.shape[1:]))
        columns = values.shape[1] if values.ndim > 1 else 1
        table = np.ascontiguousarray(values, dtype=np.float64).reshape(-1, columns)
        region_means(*self._lists, table, only, out.reshape(-1, columns))
        return out


class Structures(ABC):
    """A batch of structures; see the module.

    Attributes
    ----------
    offsets : (n + 1,) int64
        Where the elements of each structure begin.
    n_levels : int
        Levels of regions, the elements themselves included.
    n_columns : int
        Columns that ``read`` knows.
    categories : (n_columns,) int32
        How many categories a column has whose values are codes; 0: it holds numbers.
    held : (n, n_columns) bool or None
        Columns that each structure has; None: all. A stage that reads another one is left out for it (see ``anytime.rows``).
    """

    offsets: NDArray[np.int64]
    n_levels: int = 1
    n_columns: int
    categories: NDArray[np.int32]
    held: NDArray[np.bool_] | None = None
    _beliefs: Beliefs | None = None

    def __len__(self) -> int:
        return self.offsets.size - 1

    def __getitem__(self, rows: Any) -> Structures:
        """Some of the structures, by number: what the engine asks for."""
        numbers = np.arange(len(self))[rows]
        some = self.take(numbers)
        some.held = None if self.held is None else self.held[numbers]
        return some

    @property
    def n_elements(self) -> int:
        """Of all structures together."""
        return int(self.offsets[-1])

    @property
    def sizes(self) -> Array:
        """(E,) how much each element counts."""
        return np.ones(self.n_elements)

    def regions(self, level: int) -> Regions:
        """The regions of a level: 0 are the elements, ``WHOLE`` the structures."""
        if level == WHOLE:
            return Regions(np.repeat(np.arange(len(self)), np.diff(self.offsets)), self.sizes, len(self))
        if level != 0:
            raise ValueError(f"there is no level {level}: these structures have elements only")
        return Regions(np.arange(self.n_elements), self.sizes, self.n_elements)

    def beliefs(self, scores: Array) -> Beliefs:
        """What (E, K) scores say of the elements; worked out anew only where they differ from those of the call before."""
        if self._beliefs is None or self._beliefs.scores.shape != scores.shape:
            self._beliefs = Beliefs(self, scores)
        else:
            self._beliefs.follow(scores)
        return self._beliefs

    @abstractmethod
    def take(self, rows: NDArray[np.intp]) -> Structures:
        """Structures ``rows``, in that order."""

    @abstractmethod
    def read(self, level: int, columns: NDArray[np.int32], which: NDArray[np.intp] | None = None) -> Array:
        """(m, len(columns)) features of regions ``which`` of a level; None: all. NaN: missing."""

    def forget(self) -> None:  # noqa: B027 - most have nothing to forget
        """Give back the memory of features that can be computed anew."""

    def context(self, level: int, probabilities: Array) -> Array:
        """(R, q) what the regions of a level are told of the (E, K) current predictions; free of charge."""
        return np.empty((self.regions(level).n_regions, 0))

    def context_categories(self, n_classes: int) -> NDArray[np.int32]:
        """(q,) as ``categories``, of the columns that ``context`` gives."""
        return np.empty(0, dtype=np.int32)


class ElementTable(Structures):
    """Structures whose elements come with their features: rows of one table.

    Parameters
    ----------
    table : (E, d)
        Features, NaN where missing; codes in columns of categories, -1 for one that is not known.
    offsets : (n + 1,) int
    categories : (d,) int, default=None
        See ``Structures``; None: all columns hold numbers.
    """

    def __init__(self, table: ArrayLike, offsets: ArrayLike, categories: ArrayLike | None = None) -> None:
        self.table = np.ascontiguousarray(table, dtype=np.float64)
        self.offsets = np.asarray(offsets, dtype=np.int64)
        self.n_columns = self.table.shape[1]
        codes = np.zeros(self.n_columns) if categories is None else categories
        self.categories = np.asarray(codes, dtype=np.int32)

    def take(self, rows: NDArray[np.intp]) -> ElementTable:
        """Structures ``rows``, in that order."""
        elements, offsets = elements_of(self.offsets, rows)
        return ElementTable(self.table[elements], offsets, self.categories)

    def read(self, level: int, columns: NDArray[np.int32], which: NDArray[np.intp] | None = None) -> Array:
        """(m, len(columns)) the table's entries."""
        if level != 0:
            raise ValueError("features are given for elements, not for regions of other levels")
        rows = self.table if which is None else self.table[which]
        every = len(columns) == self.n_columns and bool((columns == np.arange(self.n_columns)).all())
        return rows if every else np.ascontiguousarray(rows[:, columns])
