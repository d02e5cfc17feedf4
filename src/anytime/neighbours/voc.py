"""The value of a classifier's next column by a local model of the data: the costly way that margins are compared with.

Weights fall with the distance to the row on what is known of it. With them, what a column will show is predicted by ridge
regression on the known columns, and what it would say of the class by one Gaussian per class (Gao and Koller, *Active
classification based on value of classifier*; as reconstructed for Nan 2018, section 2.4).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anytime.plan import Array

__all__ = ["LocalModel"]

_NODES, _SHARES = np.polynomial.hermite_e.hermegauss(9)
_SHARES = _SHARES / _SHARES.sum()
_LEAST_VARIANCE = 1e-6  # of standardised columns


@dataclass(frozen=True, eq=False)
class LocalModel:
    """Reference points as a model of what is not known of a row.

    Parameters
    ----------
    Z : (n, d)
        Reference points, standardised, nothing missing.
    positive : (n,) bool
        Their class.
    ridge : float, default=0.5
    """

    Z: Array
    positive: NDArray[np.bool_]
    ridge: float = 0.5

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

    def chance(self, z: Array, known: NDArray[np.bool_]) -> float:
        """The chance of the positive class: the weight of its points."""
        weights = self.weights(z, known)
        return float(weights @ self.positive / weights.sum())

    def values(self, z: Array, known: NDArray[np.bool_], asked: NDArray[np.intp]) -> Array:
        """(m,) by how much knowing each of the ``asked`` columns raises the expected chance of the leading class."""
        weights = self.weights(z, known)
        ridge = self.ridge / weights.sum()
        weights /= weights.sum()
        chance = float(weights @ self.positive)
        mean, variance = self._predicted(z, known, asked, weights, ridge)
        shown = mean + np.sqrt(variance) * _NODES[:, None]  # (nodes, m)
        against, speaking = (
            share * self._density(shown, asked, weights * of, share)
            for of, share in ((~self.positive, 1.0 - chance), (self.positive, chance))
        )
        total = np.maximum(against + speaking, np.finfo(float).tiny)
        leading = np.maximum(against, speaking) / total
        return np.asarray(_SHARES @ leading - max(chance, 1.0 - chance))

    def _predicted(
        self, z: Array, known: NDArray[np.bool_], asked: NDArray[np.intp], weights: Array, ridge: float
    ) -> tuple[Array, Array]:
        """Mean and variance of what columns will show, by weighted ridge regression on the known ones."""
        targets = self.Z[:, asked]
        here = np.concatenate([[1.0], z[known]])
        inputs = np.column_stack([np.ones(len(self.Z)), self.Z[:, known]])
        weighted = inputs * weights[:, None]
        gram = weighted.T @ inputs + ridge * np.eye(here.size)
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
