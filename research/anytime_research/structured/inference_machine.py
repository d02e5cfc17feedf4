"""The hierarchical inference machine: one predictor per level, down the hierarchy of regions and up again, all features at once.

Munoz, Bagnell and Hebert 2010, as compared with in Grubb, *Anytime Prediction*, 2014, chapter 7: the same regions, features and
trees as the anytime parser. A predictor gives the class distribution of every region of a level; it reads the features of the
region and what the predictors before it have said around the region. It is trained on predictions of copies that have not seen
the picture (stacking, algorithm 3.2). There is no answer worth reading before the last level, and every descriptor is computed
before the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.costs import FeatureCosts
from anytime.losses import LINKS
from anytime.structured.learners import BoostedTreesLearner, UpdateTask
from anytime.structured.level_table import BinnedLevels, LevelTable
from anytime.structured.objective import ElementLoss
from anytime.structured.predictors import RegionPredictor
from anytime.structured.structures import WHOLE, Regions, Structures

__all__ = ["HierarchicalInferenceMachine", "SomeColumns", "Visit"]

Array = NDArray[np.float64]
_LEAST = 1e-4  # probability from which a visit goes on


class SomeColumns(Structures):
    """Structures of which only some columns can be read.

    Parameters
    ----------
    structures : Structures
    chosen : (c,) int
    """

    def __init__(self, structures: Structures, chosen: ArrayLike) -> None:
        self.whole, self.chosen = structures, np.asarray(chosen, dtype=np.int32)
        self.offsets, self.n_levels = structures.offsets, structures.n_levels
        self.n_columns, self.categories = self.chosen.size, structures.categories[self.chosen]

    @property
    def sizes(self) -> Array:
        """(E,) how much each element counts."""
        return self.whole.sizes

    def regions(self, level: int) -> Regions:
        """The regions of a level."""
        return self.whole.regions(level)

    def take(self, rows: NDArray[np.intp]) -> SomeColumns:
        """Structures ``rows``, in that order."""
        return SomeColumns(self.whole.take(rows), self.chosen)

    def read(self, level: int, columns: NDArray[np.int32], which: NDArray[np.intp] | None = None) -> Array:
        """(m, len(columns)) features of regions ``which`` of a level; None: all."""
        return self.whole.read(level, self.chosen[columns], which)

    def forget(self) -> None:
        """Give back the memory of features."""
        self.whole.forget()

    def context(self, level: int, probabilities: Array) -> Array:
        """(R, q) what the regions of a level are told of the (E, K) current predictions."""
        return self.whole.context(level, probabilities)

    def context_categories(self, n_classes: int) -> NDArray[np.int32]:
        """(q,) as ``categories``, of the columns that ``context`` gives."""
        return self.whole.context_categories(n_classes)


class Visit(NamedTuple):
    """One look at a level: its predictors are added up."""

    level: int
    predictors: list[RegionPredictor]


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
    goes_on : bool, default=True
        Whether a predictor starts from what was said of its regions before. False: from the frequencies of the classes; what
        was said before is then among its features only.
    committee : bool, default=False
        Whether what is said of an element is the mean of the latest predictions of all levels visited so far. False: it is the
        latest prediction alone, as it was published.
    learner : BoostedTreesLearner, default=None
        How trees are grown: ``n_estimators`` at a time, after which held-out pictures are looked at. None: five.
    max_trees : int, default=80
        The most trees of a visit.
    patience : int, default=2
        Looks in a row without a lower loss of held-out pictures, after which a visit ends.
    max_bins : int, default=32
        Of a column. With eleven outputs most of a tree's time is spent over bins, not over rows.
    seed : int, default=0
    report : callable, default=None
        Called after each visit with its number, its level, and the mean cross-entropy of the predictions that the next visit
        learns from.

    Attributes
    ----------
    visits : list of Visit
    base : (K,)
        Logarithms of the frequencies of the classes.
    """

    def __init__(
        self,
        columns: ArrayLike | None = None,
        *,
        levels: Sequence[int] = (6, 4, 3, 1, 0, 3, 0),
        folds: int = 3,
        goes_on: bool = True,
        committee: bool = False,
        learner: BoostedTreesLearner | None = None,
        max_trees: int = 80,
        patience: int = 2,
        max_bins: int = 32,
        seed: int = 0,
        report: Callable[[int, int, float], None] | None = None,
    ) -> None:
        self.columns = None if columns is None else np.asarray(columns, dtype=np.int32)
        self.levels, self.folds = tuple(levels), folds
        self.goes_on, self.committee = goes_on, committee
        self.learner = learner or BoostedTreesLearner(n_estimators=5)
        self.max_trees, self.patience, self.max_bins = max_trees, patience, max_bins
        self.seed, self.report = seed, report
        self.visits: list[Visit] = []

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
        part = part if fold is None else np.asarray(fold)
        training = _Training(self, self._chosen(structures), truth, weight, part)
        n_classes = truth.shape[1]
        self.base = np.log((weight @ truth + 1.0) / (weight.sum() + n_classes))
        self.visits = []
        latest: dict[int, Array] = {}
        told = np.tile(LINKS["softmax"].transform(self.base[None]), (len(truth), 1))
        for number, level in enumerate(self.levels):
            visit, said = training.visit(level, told, number)
            self.visits.append(visit)
            told = self._heard(latest, level, said)
            if self.report is not None:
                self.report(number, level, cross_entropy(truth, told, weight))
        return self

    def predict_proba(self, structures: Structures) -> Array:
        """(E, K) distributions of the elements."""
        some = self._chosen(structures)
        every = np.arange(some.n_columns, dtype=np.int32)
        told = np.tile(LINKS["softmax"].transform(self.base[None]), (some.n_elements, 1))
        latest: dict[int, Array] = {}
        for level, predictors in self.visits:
            features, context = some.read(level, every), some.context(level, told)
            added = np.zeros((len(features), self.base.size))
            for predictor in predictors:
                read = np.hstack([features[:, predictor.columns], context[:, predictor.context]])
                added += self.learner.learning_rate * predictor.outputs(read)
            scores = self.start(told) + added[some.regions(level).label]
            told = self._heard(latest, level, LINKS["softmax"].transform(scores))
        return told

    def start(self, told: Array) -> Array:
        """(E, K) scores of the elements from which a visit starts."""
        return np.log(np.maximum(told, _LEAST)) if self.goes_on else np.tile(self.base, (len(told), 1))

    def _heard(self, latest: dict[int, Array], level: int, said: Array) -> Array:
        """What is said of the elements now, after the prediction of a level."""
        latest[level] = said
        return np.mean(list(latest.values()), axis=0) if self.committee else said

    def _chosen(self, structures: Structures) -> SomeColumns:
        every = np.arange(structures.n_columns) if self.columns is None else self.columns
        return SomeColumns(structures, every)


def cross_entropy(truth: Array, said: Array, weight: Array) -> float:
    """The weighted mean of ``-sum_k truth_k log said_k``."""
    loss = -(truth * np.log(np.maximum(said, 1e-12))).sum(axis=1)
    return float(weight @ loss / weight.sum())


@dataclass(eq=False)
class _LearnedLevel:
    """A predictor of a visit in the making: the one that is kept, or a copy that has not seen a part."""

    loss: ElementLoss
    scores: Array
    predictors: list[RegionPredictor]


class _Training:
    """What visits learn from."""

    def __init__(
        self,
        machine: HierarchicalInferenceMachine,
        structures: SomeColumns,
        truth: Array,
        weight: Array,
        part: NDArray[np.intp],
    ) -> None:
        self.machine, self.structures = machine, structures
        self.losses = [ElementLoss(truth, weight)]
        self._part = part[structures.regions(WHOLE).label]
        self._parts = np.unique(part) if machine.folds else np.empty(0, dtype=np.intp)
        self.losses += [self.losses[0].on(self._part != k) for k in self._parts]
        self._costs = FeatureCosts([0.0] * structures.n_columns).bind(structures.n_columns)
        levels = sorted(set(machine.levels))
        threads = machine.learner.n_threads
        binned = BinnedLevels(
            structures, levels, truth.shape[1], max_bins=machine.max_bins, n_threads=threads
        )
        self._tables = {level: LevelTable(binned, level, truth.shape[1]) for level in levels}

    def visit(self, level: int, told: Array, number: int) -> tuple[Visit, Array]:
        """Learn to say more of the regions of a level than was ``told``: the predictor, and what copies say of their parts.

        There are as many trees as serve the copies best.
        """
        start = self.machine.start(told)
        context = self.structures.context(level, told)
        learned = [_LearnedLevel(loss, start.copy(), []) for loss in self.losses]
        best, n_best, said = np.inf, 0, start
        batches = -(-self.machine.max_trees // self.machine.learner.n_estimators)
        for batch in range(1, batches + 1):
            for k, one in enumerate(learned):
                self._grow(one, level, context, 7919 * (batches * number + batch) + 104729 * k)
            held_out = self._held_out(learned)
            loss = self.losses[0].value(held_out)
            if loss < best:
                best, n_best, said = loss, batch, held_out
            elif self._parts.size and batch - n_best >= self.machine.patience:
                break
        return Visit(level, learned[0].predictors[:n_best]), LINKS["softmax"].transform(said)

    def _held_out(self, learned: list[_LearnedLevel]) -> Array:
        """(E, K) what copies say of the parts that they have not seen; without copies, what the main predictor says."""
        out = learned[0].scores.copy()
        for k, copy in zip(self._parts, learned[1:], strict=True):
            out[self._part == k] = copy.scores[self._part == k]
        return out

    def _grow(self, one: _LearnedLevel, level: int, context: Array, seed: int) -> None:
        """Add some trees."""
        table, learner = self._tables[level], self.machine.learner
        regions = table.regions
        weight = np.bincount(regions.label, weights=one.loss.weight, minlength=regions.n_regions)
        task = UpdateTask(
            table,
            np.flatnonzero(weight > 0),
            weight.astype(np.float64),
            context,
            one.loss,
            one.scores,
            one.scores,
            self._costs,
            np.zeros(self._costs.n_groups, dtype=bool),
            0.0,
            (self.machine.seed + seed) % 2**31,
        )
        fitted = learner.fit(task)
        if fitted is None:
            return
        one.scores = one.scores + learner.learning_rate * fitted.outputs[regions.label]
        one.predictors.append(fitted.predictor)
