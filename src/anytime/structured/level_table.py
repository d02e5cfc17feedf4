"""Features of training regions, level by level, as trees want them: in bins, a byte each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from anytime.structured.structures import Array, Regions, Structures
from anytime.trees.binning import BinnedData

__all__ = ["BinnedLevels", "LevelTable"]

_SAMPLE = 40_000  # elements of the structures from which cuts are found
_TOGETHER = 4_000  # elements of the structures that are read together


class BinnedLevels:
    """All columns of several levels in bins, and behind them room for those of the context.

    Structures are read a few at a time, at all levels, and then asked to forget: numbers of all of them are never there together.

    Parameters
    ----------
    structures : Structures
    levels : iterable of int
    n_classes : int
    max_bins : int, default=63
    n_threads : int, default=1
        A thread reads structures of its own.
    """

    def __init__(
        self,
        structures: Structures,
        levels: Iterable[int],
        n_classes: int,
        *,
        max_bins: int = 63,
        n_threads: int = 1,
    ) -> None:
        self.structures, self.levels, self.max_bins, self.n_threads = (
            structures,
            tuple(levels),
            max_bins,
            n_threads,
        )
        context = structures.context_categories(n_classes)
        self.categorical = np.concatenate([structures.categories, context]) > 0
        self._spread = np.where(context > 0, context, 1)

    @cached_property
    def data(self) -> dict[int, BinnedData]:
        """By level, computed when they are first asked for."""
        sizes = np.diff(self.structures.offsets)
        step = max(1, -(-int(sizes.sum()) // _SAMPLE))
        sample = np.arange(0, sizes.size, step)
        cuts = {level: self._cuts(sample, level) for level in self.levels}
        counts = {level: self._regions_of_structures(level) for level in self.levels}
        data = {level: cuts[level].empty(int(counts[level].sum())) for level in self.levels}
        starts = {level: np.cumsum(counts[level]) - counts[level] for level in self.levels}

        def fill(rows: NDArray[np.intp]) -> None:
            some = self.structures.take(rows)
            for level in self.levels:
                first = int(starts[level][rows[0]])
                data[level].fill_rows(first, self._table(some, level))
            some.forget()

        with ThreadPoolExecutor(self.n_threads) as pool:
            list(pool.map(fill, _stretches(sizes)))
        return data

    def _regions_of_structures(self, level: int) -> NDArray[np.int64]:
        """(n,) how many regions of a level each structure has."""
        first = self.structures.regions(level).first
        owner = np.searchsorted(self.structures.offsets, first, side="right") - 1
        return np.bincount(owner, minlength=len(self.structures)).astype(np.int64)

    def _cuts(self, sample: NDArray[np.intp], level: int) -> BinnedData:
        return BinnedData.fit(
            self._table(self.structures.take(sample), level),
            max_bins=self.max_bins,
            categorical=self.categorical,
            n_threads=self.n_threads,
        )

    def _table(self, structures: Structures, level: int) -> Array:
        """All columns of some structures; those of the context are spread evenly over what they can be."""
        columns = np.arange(structures.n_columns, dtype=np.int32)
        features = structures.read(level, columns)
        even = np.linspace(0.0, 1.0, len(features))[:, None]
        return np.hstack([features, even * self._spread])


def _stretches(sizes: NDArray[np.int64]) -> Iterator[NDArray[np.intp]]:
    """Structures one after the other, as many together as have about ``_TOGETHER`` elements."""
    part = (np.cumsum(sizes) - 1) // _TOGETHER
    for rows in np.split(np.arange(sizes.size), np.flatnonzero(np.diff(part)) + 1):
        if rows.size:
            yield rows


class LevelTable:
    """Features of all training regions of one level.

    Parameters
    ----------
    binned : BinnedLevels
    level : int
    n_classes : int
    """

    def __init__(self, binned: BinnedLevels, level: int, n_classes: int) -> None:
        self.structures, self.level, self._binned = binned.structures, level, binned
        self.regions: Regions = self.structures.regions(level)
        self.categories = self.structures.categories
        self.context_categories = self.structures.context_categories(n_classes)
        self._filled_with: Array | None = None  # the context whose columns the bins hold now
        self._joined: tuple[Array, NDArray[np.int32], Array] | None = None  # see ``joined``

    @property
    def n_columns(self) -> int:
        """Columns of features, without those of the context."""
        return self.structures.n_columns

    @cached_property
    def features(self) -> Array:
        """(R, d) all columns, as numbers."""
        return self.structures.read(self.level, np.arange(self.n_columns, dtype=np.int32))

    def joined(self, columns: NDArray[np.int32], context: Array) -> Array:
        """(R, c + q) some columns and, behind them, the context; kept until others are asked for: copies ask for the same."""
        if (
            self._joined is None
            or self._joined[0] is not context
            or not np.array_equal(self._joined[1], columns)
        ):
            self._joined = (
                context,
                columns,
                np.ascontiguousarray(np.hstack([self.features[:, columns], context])),
            )
        return self._joined[2]

    def binned(self, context: Array) -> BinnedData:
        """All columns and, behind them, those of the context, in bins."""
        bins = self._binned.data[self.level]
        if context.shape[1] and context is not self._filled_with:
            self._filled_with = context
            bins.native.refill(self.n_columns, np.ascontiguousarray(context), self._binned.n_threads)
        return bins
