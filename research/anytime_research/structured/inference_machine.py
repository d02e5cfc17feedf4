"""The hierarchical inference machine: one predictor per level, down the hierarchy of regions and up again, all features at once.

Munoz, Bagnell and Hebert 2010, as compared with in Grubb, *Anytime Prediction*, 2014, chapter 7: the same regions, features and
trees as the anytime parser. A predictor gives the class distribution of every region of a level; it reads the features of the
region and what the predictors before it have said around the region. It is trained on predictions of copies that have not seen
the picture (stacking, algorithm 3.2). There is no answer worth reading before the last level, and every descriptor is computed
before the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.structured.structures import WHOLE, Structures
from anytime.trees.binning import BinnedData
from anytime_research.structured.boosted import (
    BoostedDistribution,
    DistributionRules,
    LabelledRows,
    cross_entropy,
)

__all__ = ["HierarchicalInferenceMachine"]

Array = NDArray[np.float64]
_ROWS_READ = 20_000  # at once


class HierarchicalInferenceMachine:
    """A class distribution for every region, level by level.

    Parameters
    ----------
    columns : (c,) int, default=None
        Columns that predictors may read; None: all.
    levels : sequence of int, default=(6, 4, 3, 1, 0, 3, 0)
        The levels that are visited, in order: down, up and down.
    folds : int, default=3
        Parts of the pictures that are held out in turn, so that predictors learn from what is said of pictures that were not
        seen. 0: predictors learn from what is said of the training pictures themselves.
    committee : bool, default=True
        Whether what is said of an element is the mean of the latest predictions of all levels visited so far. False: it is the
        latest prediction alone, as it was published; what a finer level knew is then lost at a coarser one.
    rules : DistributionRules, default=None
        How each predictor is boosted; None: as ``DistributionRules()``.
    seed : int, default=0
    report : callable, default=None
        Called after each visit with its number, its level, and the mean cross-entropy of the predictions that the next visit
        learns from.

    Attributes
    ----------
    visits : list of (int, BoostedDistribution)
        The level and the predictor of each visit.
    """

    def __init__(
        self,
        columns: ArrayLike | None = None,
        *,
        levels: Sequence[int] = (6, 4, 3, 1, 0, 3, 0),
        folds: int = 3,
        committee: bool = True,
        rules: DistributionRules | None = None,
        seed: int = 0,
        report: Callable[[int, int, float], None] | None = None,
    ) -> None:
        self.columns = None if columns is None else np.asarray(columns, dtype=np.int32)
        self.levels, self.folds, self.committee = tuple(levels), folds, committee
        self.rules, self.seed, self.report = rules or DistributionRules(), seed, report
        self.visits: list[tuple[int, BoostedDistribution]] = []

    def fit(
        self, structures: Structures, truth: Array, weight: Array, fold: ArrayLike | None = None
    ) -> HierarchicalInferenceMachine:
        """Learn from labelled structures.

        Parameters
        ----------
        structures : Structures
        truth : (E, K) distributions of the elements
        weight : (E,) how much each element counts; 0: it has no label
        fold : (n,) int, default=None
            The part to which each structure belongs, 0 to ``folds - 1``. None: parts are runs of structures that follow each
            other, as pictures of a video do: were they drawn, each would have been seen almost as it is by the copies that
            hold it out.
        """
        if self.folds > len(structures):
            raise ValueError(f"{self.folds} folds need as many structures, but there are {len(structures)}")
        part = np.arange(len(structures)) * max(self.folds, 1) // max(len(structures), 1)
        if fold is not None:
            part = np.asarray(fold)
        columns = self._columns(structures)
        random = np.random.RandomState(self.seed)
        n_classes = truth.shape[1]
        told = np.full(truth.shape, 1.0 / n_classes)
        bins: dict[int, BinnedData] = {}
        latest: dict[int, Array] = {}
        self.visits = []
        for number, level in enumerate(self.levels):
            regions = structures.regions(level)
            size = np.bincount(regions.label, weights=weight, minlength=regions.n_regions).astype(np.float64)
            mass = np.stack(
                [np.bincount(regions.label, weight * t, regions.n_regions) for t in truth.T], axis=1
            )
            known = size[:, None] > 0
            target = np.where(known, mass / np.where(known, size[:, None], 1.0), 1.0 / n_classes)
            context = structures.context(level, told)
            if level not in bins:
                bins[level] = self._bins(structures, level, columns, context.shape[1])
            if context.shape[1]:
                bins[level].native.refill(columns.size, np.ascontiguousarray(context), self.rules.n_threads)
            rows = LabelledRows(bins[level], target, size, columns.size)
            if self.folds:
                owner = structures.regions(WHOLE).label[regions.first]
                predictor, said = BoostedDistribution.fit_stacked(rows, part[owner], self.rules, random)
            else:
                predictor, said = BoostedDistribution.fit(rows, self.rules, random)
            self.visits.append((level, predictor))
            told = self._heard(latest, level, said[regions.label])
            if self.report is not None:
                self.report(number, level, cross_entropy(truth, told, weight))
        return self

    def predict_proba(self, structures: Structures) -> Array:
        """(E, K) distributions of the elements."""
        columns = self._columns(structures)
        n_classes = self.visits[0][1].base.size
        told = np.full((structures.n_elements, n_classes), 1.0 / n_classes)
        latest: dict[int, Array] = {}
        for level, predictor in self.visits:
            table = np.hstack([structures.read(level, columns), structures.context(level, told)])
            said = predictor.predict_proba(table)[structures.regions(level).label]
            told = self._heard(latest, level, said)
        return told

    def _heard(self, latest: dict[int, Array], level: int, said: Array) -> Array:
        """What is said of the elements now, after the prediction of a level."""
        latest[level] = said
        return np.mean(list(latest.values()), axis=0) if self.committee else said

    def _columns(self, structures: Structures) -> NDArray[np.int32]:
        return np.arange(structures.n_columns, dtype=np.int32) if self.columns is None else self.columns

    def _bins(
        self, structures: Structures, level: int, columns: NDArray[np.int32], n_context: int
    ) -> BinnedData:
        """Features in bins and, behind them, columns for the context, cut evenly and filled anew at each visit."""
        n_rows = structures.regions(level).n_regions
        table = np.empty((n_rows, columns.size + n_context))
        for first in range(0, n_rows, _ROWS_READ):
            which = np.arange(first, min(first + _ROWS_READ, n_rows))
            table[which, : columns.size] = structures.read(level, columns, which)
        table[:, columns.size :] = np.linspace(0.0, 1.0, n_rows)[:, None]
        return BinnedData.fit(table, max_bins=self.rules.max_bins, n_threads=self.rules.n_threads)
