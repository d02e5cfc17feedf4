"""The hierarchical inference machine: one predictor per level, down the hierarchy of regions and up again, all features at once.

Munoz, Bagnell and Hebert 2010, as compared with in Grubb, *Anytime Prediction*, 2014, chapter 7: the same regions, features and
trees as the anytime parser. A predictor gives the class distribution of every region of a level; it reads the features of the
region and what the predictors before it have said around the region. It is trained on predictions of copies that have not seen
the picture (stacking, algorithm 3.2). There is no answer worth reading before the last level, and every descriptor is computed
before the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.losses import LINKS
from anytime.structured.structures import Structures
from anytime.trees.binning import BinnedData
from anytime.trees.block import TreeBlock
from anytime.trees.growing import TreeGrower, join

__all__ = ["HierarchicalInferenceMachine"]

Array = NDArray[np.float64]


@dataclass(eq=False)
class _LevelPredictor:
    """Boosted trees with one output per class, over features and context of the regions of a level."""

    level: int
    base: Array
    trees: TreeBlock
    rate: float

    def scores(self, table: Array) -> Array:
        """(R, K) of (R, d) features and context."""
        return np.asarray(self.base + self.rate * self.trees.outputs(0, np.ascontiguousarray(table)))


class HierarchicalInferenceMachine:
    """A class distribution for every region, level by level.

    Parameters
    ----------
    columns : (c,) int, default=None
        Columns that predictors may read; None: all.
    levels : sequence of int, default=(6, 5, 4, 3, 2, 1, 0, 1, 2, 3, 2, 1, 0)
        The levels that are visited, in order: down, up and down.
    n_rounds : int, default=40
        Trees of each predictor.
    max_leaf_nodes : int, default=31
    learning_rate : float, default=0.2
    folds : int, default=3
    max_samples : int, default=20000
        The most regions that a tree is grown on.
    max_features : float, default=0.3
        Share of the columns that a tree may test, drawn anew for each.
    n_threads : int, default=1
    seed : int, default=0
    """

    def __init__(
        self,
        columns: NDArray[np.int32] | None = None,
        *,
        levels: Sequence[int] = (6, 5, 4, 3, 2, 1, 0, 1, 2, 3, 2, 1, 0),
        n_rounds: int = 40,
        max_leaf_nodes: int = 31,
        learning_rate: float = 0.2,
        folds: int = 3,
        max_samples: int = 20_000,
        max_features: float = 0.3,
        n_threads: int = 1,
        seed: int = 0,
    ) -> None:
        self.columns, self.levels, self.n_rounds = columns, tuple(levels), n_rounds
        self.max_leaf_nodes, self.learning_rate, self.folds = max_leaf_nodes, learning_rate, folds
        self.max_samples, self.max_features = max_samples, max_features
        self.n_threads, self.seed = n_threads, seed
        self.predictors: list[_LevelPredictor] = []

    def fit(self, structures: Structures, truth: Array, weight: Array) -> HierarchicalInferenceMachine:
        """Learn from (E, K) distributions of elements and (E,) weights."""
        n_classes = truth.shape[1]
        if self.columns is None:
            self.columns = np.arange(structures.n_columns, dtype=np.int32)
        random = np.random.RandomState(self.seed)
        fold = random.permutation(len(structures)) % self.folds
        told = np.full(truth.shape, 1.0 / n_classes)
        bins: dict[int, BinnedData] = {}
        for level in self.levels:
            regions = structures.regions(level)
            owner = structures.regions(-1).label[regions.first]
            size = np.bincount(regions.label, weights=weight, minlength=regions.n_regions).astype(np.float64)
            mass = np.stack(
                [
                    np.bincount(regions.label, weights=weight * t, minlength=regions.n_regions)
                    for t in truth.T
                ],
                axis=1,
            )
            target = np.where(
                size[:, None] > 0, mass / np.where(size > 0, size, 1.0)[:, None], 1.0 / n_classes
            )
            context = structures.context(level, told)
            if level not in bins:
                even = np.tile(np.linspace(0.0, 1.0, regions.n_regions)[:, None], context.shape[1])
                bins[level] = BinnedData.fit(
                    np.hstack([structures.read(level, self.columns), even]), n_threads=self.n_threads
                )
            bins[level].native.refill(len(self.columns), np.ascontiguousarray(context), self.n_threads)
            main, _ = self._boosted(
                level, bins[level], target, size, np.ones(regions.n_regions, dtype=bool), random
            )
            self.predictors.append(main)
            held_out = np.empty_like(target)
            for k in range(self.folds):
                inside = fold[owner] == k
                _, scores = self._boosted(level, bins[level], target, size, ~inside, random)
                held_out[inside] = scores[inside]
            told = LINKS["softmax"].transform(held_out)[regions.label]
        return self

    def _boosted(
        self, level: int, data: BinnedData, target: Array, size: Array, learns: NDArray[np.bool_], random: Any
    ) -> tuple[_LevelPredictor, Array]:
        """A predictor learned from some regions, and its scores of all."""
        assert self.columns is not None
        n_columns = len(self.columns)
        rows = np.flatnonzero(learns & (size > 0))
        base = np.log((size[rows] @ target[rows] + 1.0) / (size[rows].sum() + target.shape[1]))
        scores, trees = np.tile(base, (len(target), 1)), []
        grower = TreeGrower(
            max_leaf_nodes=self.max_leaf_nodes,
            min_samples_leaf=20,
            min_weight=0.0,
            l2_regularization=1.0,
            n_threads=self.n_threads,
        )
        weight = size / size[rows].mean()
        for _ in range(self.n_rounds):
            some = (
                rows
                if rows.size <= self.max_samples
                else np.sort(random.choice(rows, self.max_samples, replace=False))
            )
            allowed = np.ones(data.n_features, dtype=bool)
            allowed[:n_columns] = random.random_sample(n_columns) < self.max_features
            said = LINKS["softmax"].transform(scores)
            curvature = weight[:, None] * np.maximum(said * (1.0 - said), 1e-3)
            grown = grower.grow_newton(
                data, weight[:, None] * (said - target), curvature, rows=some, columns=allowed
            )
            scores += self.learning_rate * grown.values[grown.leaf]
            trees.append(grown.arrays)
        together = TreeBlock(join(trees, [len(trees)]))
        return _LevelPredictor(level, base, together, self.learning_rate), scores

    def predict_proba(self, structures: Structures) -> Array:
        """(E, K) distributions of the elements after the last level."""
        assert self.columns is not None
        n_classes = self.predictors[0].base.size
        told = np.full((structures.n_elements, n_classes), 1.0 / n_classes)
        for predictor in self.predictors:
            level = predictor.level
            table = np.hstack([structures.read(level, self.columns), structures.context(level, told)])
            told = LINKS["softmax"].transform(predictor.scores(table))[structures.regions(level).label]
        return told
