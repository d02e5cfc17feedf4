"""The value of a classifier's next column by a local model of the data: the costly way that margins are compared with.

Weights fall with the distance to the row on what is known of it. With them, what a column will show is predicted by ridge
regression on the known columns, and what it would say of the class by one Gaussian per class (Gao and Koller, *Active
classification based on value of classifier*; as reconstructed for Nan 2018, section 2.4).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from anytime.acquisition import MarginAcquisitionClassifier
from anytime.acquisition.margin_block import MarginBlock
from anytime.acquisition.purchase_block import FINISHED, UNDECIDED
from anytime.blocks import Memory
from anytime.plan import Array

__all__ = ["LocalModel", "ValueAcquisitionClassifier", "ValueBlock"]

_NODES, _SHARES = np.polynomial.hermite_e.hermegauss(9)
_SHARES = _SHARES / _SHARES.sum()
_LEAST_VARIANCE = 1e-6  # of standardised columns


class ValueBlock(MarginBlock):
    """Stages that buy what has the largest value of classifier, less its price; row by row, which takes long."""

    kind = "values"  # no file holds it

    def choose(self, X: Array, memory: Memory) -> None:
        """Decide what each row buys next, and estimate its accuracy now."""
        for i in np.flatnonzero(memory["next"] == UNDECIDED):
            self._choose_for_one(X[i], {name: array[i : i + 1] for name, array in memory.items()})

    def proceed(self, first: int, stage: int, X: Array, memory: Memory) -> Array:
        """Buy once per stage, and give the score of all that was bought."""
        for _ in range(stage - first + 1):
            self.choose(X, memory)
            self._native.proceed(self.coordinates(X), **self._running(memory), purchases=1)
        return self.score(X, self.bought(memory))

    def _choose_for_one(self, x: Array, memory: Memory) -> None:
        has, z = self.bought(memory)[0], self.coordinates(x[None, :])[0]
        column_group = self.costs.column_group
        known = has[column_group] & ~np.isnan(z)
        positive = self.local_model.probability(z, known)
        memory["estimate"][0] = max(positive, 1.0 - positive)
        sure = self.confidence is not None and has.any() and memory["estimate"][0] > self.confidence
        asked = np.flatnonzero((self.candidates & ~has)[column_group])
        memory["next"][0] = FINISHED
        if sure or asked.size == 0:
            return
        # A group is worth what its best column is; what it requires comes with it for the price alone.
        value = np.full(self.costs.n_groups, -np.inf)
        np.maximum.at(value, column_group[asked], self.local_model.values(z, known, asked))
        groups = np.unique(column_group[asked])
        closures = [np.array(self.costs.table.closure(g)) for g in groups]
        ticks = np.array([self.costs.prices[closed[~has[closed]]].sum() for closed in closures])
        best = groups[np.lexsort((ticks, self._tick_weight * ticks - value[groups]))[0]]
        memory["next"][0] = best
        memory["promise"][0] = memory["estimate"][0] + value[best]

    @cached_property
    def local_model(self) -> LocalModel:
        """The model of the data by which columns are valued."""
        return LocalModel(self._filled, self.positive)


class ValueAcquisitionClassifier(MarginAcquisitionClassifier):
    """``MarginAcquisitionClassifier`` with purchases by the value of a classifier instead of margins."""

    _block_class: ClassVar[type[MarginBlock]] = ValueBlock
    _most_measured: ClassVar[int] = 20


@dataclass(frozen=True, eq=False)
class LocalModel:
    """Reference points as a model of what is not known of a row.

    Parameters
    ----------
    Z : (n, d)
        Reference points, standardised, nothing missing.
    positive : (n,) bool
        Their class.
    l2_regularization : float, default=0.5
    """

    Z: Array
    positive: NDArray[np.bool_]
    l2_regularization: float = 0.5

    def weights(self, z: Array, known: NDArray[np.bool_]) -> Array:
        """(n,) weights of the points around ``z``, a row of which ``known`` columns are known.

        ``exp(-distance² / bandwidth)``, the bandwidth being the median distance; 1 for the nearest, so that not all vanish.
        """
        if not known.any():
            return np.ones(len(self.Z))
        squared = ((self.Z[:, known] - z[known]) ** 2).sum(axis=1)
        bandwidth = float(np.median(np.sqrt(squared)))
        squared -= squared.min()
        return np.asarray(np.exp(-squared / bandwidth) if bandwidth > 0 else squared == 0, dtype=np.float64)

    def probability(self, z: Array, known: NDArray[np.bool_]) -> float:
        """The probability of the positive class: the weight of its points."""
        weights = self.weights(z, known)
        return float(weights @ self.positive / weights.sum())

    def values(self, z: Array, known: NDArray[np.bool_], asked: NDArray[np.intp]) -> Array:
        """(m,) by how much knowing each of the ``asked`` columns raises the expected probability of the leading class."""
        weights = self.weights(z, known)
        l2_regularization = self.l2_regularization / weights.sum()
        weights /= weights.sum()
        chance = float(weights @ self.positive)
        mean, variance = self._predicted(z, known, asked, weights, l2_regularization)
        shown = mean + np.sqrt(variance) * _NODES[:, None]  # (nodes, m)
        against, speaking = (
            share * self._density(shown, asked, weights * of, share)
            for of, share in ((~self.positive, 1.0 - chance), (self.positive, chance))
        )
        total = np.maximum(against + speaking, np.finfo(float).tiny)
        leading = np.maximum(against, speaking) / total
        return np.asarray(_SHARES @ leading - max(chance, 1.0 - chance))

    def _predicted(
        self,
        z: Array,
        known: NDArray[np.bool_],
        asked: NDArray[np.intp],
        weights: Array,
        l2_regularization: float,
    ) -> tuple[Array, Array]:
        """Mean and variance of what columns will show, by weighted ridge regression on the known ones."""
        targets = self.Z[:, asked]
        here = np.concatenate([[1.0], z[known]])
        inputs = np.column_stack([np.ones(len(self.Z)), self.Z[:, known]])
        weighted = inputs * weights[:, None]
        gram = weighted.T @ inputs + l2_regularization * np.eye(here.size)
        slopes = np.linalg.solve(gram, weighted.T @ targets)
        variance = weights @ (targets - inputs @ slopes) ** 2
        return here @ slopes, np.maximum(variance, _LEAST_VARIANCE)

    def _density(self, shown: Array, asked: NDArray[np.intp], weights: Array, share: float) -> Array:
        """Density of one class at values of each asked column: a Gaussian fitted to the weighted points of the class."""
        if share <= 0:
            return np.zeros_like(shown)
        targets = self.Z[:, asked]
        mean = weights @ targets / share
        variance = np.maximum(weights @ (targets - mean) ** 2 / share, _LEAST_VARIANCE)
        return np.asarray(np.exp(-((shown - mean) ** 2) / (2.0 * variance)) / np.sqrt(variance))
