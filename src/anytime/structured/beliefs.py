"""What is believed of elements after the stages so far: distributions, entropies, and mean entropies of regions.

A stage changes the scores of the regions that it selects. Only their elements get new distributions and entropies, and only
regions that overlap them new means (Grubb, *Anytime Prediction*, 2014, 7.9). A mean is added up from the entropies of
all its elements, in their order, and not changed by differences: it has the bits that it would have if all were computed anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from anytime.losses import LINKS

if TYPE_CHECKING:
    from anytime.structured.structures import Structures

__all__ = ["Beliefs", "entropies"]

Array = NDArray[np.float64]


def entropies(probabilities: Array) -> Array:
    """(E,) entropy of each row, in nats."""
    logs = np.log(probabilities, out=np.zeros_like(probabilities), where=probabilities > 0)
    return np.asarray(-(probabilities * logs).sum(axis=1))


class Beliefs:
    """Distributions of all elements, and what follows from them, kept up to date.

    Parameters
    ----------
    structures : Structures
    scores : (E, K)

    Attributes
    ----------
    probabilities : (E, K)
    """

    def __init__(self, structures: Structures, scores: Array) -> None:
        self._structures = structures
        self.scores = scores.copy()
        self.probabilities = LINKS["softmax"].transform(scores) if len(scores) else scores.copy()
        self._changed = np.zeros(len(scores), dtype=np.int64)  # when each element last did
        self._now = 0
        self._entropies = np.zeros(len(scores))
        self._means: dict[int, Array] = {}
        self._seen: dict[int | str, int] = {}  # up to when entropies, and means of each level, are known

    def follow(self, scores: Array) -> None:
        """Go on to other scores of the same elements."""
        rows = _taken((scores != self.scores).any(axis=1))
        if isinstance(rows, slice) or rows.size:
            self._now += 1
            self._changed[rows] = self._now
            self.scores[rows] = scores[rows]
            self.probabilities[rows] = LINKS["softmax"].transform(scores[rows])

    @property
    def entropies(self) -> Array:
        """(E,) of each element's distribution, in nats."""
        rows = _taken(self._stale("entropies"))
        if isinstance(rows, slice) or rows.size:
            self._entropies[rows] = entropies(self.probabilities[rows])
        return self._entropies

    def mean_entropies(self, level: int) -> Array:
        """(R,) of the regions of a level; see ``Structures.regions``."""
        regions = self._structures.regions(level)
        if regions.are_elements:
            return self.entropies
        if level not in self._means:
            self._means[level] = np.zeros(regions.n_regions)
        stale = self._stale(level)
        if stale.any():
            touched = np.zeros(regions.n_regions, dtype=bool)
            touched[regions.label[stale]] = True
            regions.mean(self.entropies, touched, self._means[level])
        return self._means[level]

    def _stale(self, table: int | str) -> NDArray[np.bool_]:
        """(E,) elements that have changed since this was last asked of a table; all at first."""
        stale: NDArray[np.bool_] = self._changed > self._seen.get(table, -1)
        self._seen[table] = self._now
        return stale


def _taken(which: NDArray[np.bool_]) -> NDArray[np.intp] | slice:
    """Rows that are to be worked on: all where most are, which are faster to reach."""
    return slice(None) if 2 * np.count_nonzero(which) > which.size else np.flatnonzero(which)
