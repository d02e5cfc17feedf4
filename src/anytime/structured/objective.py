"""The objective of structured prediction: cross-entropy of every element, elements weighted by their sizes (7.7-7.8)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from anytime.losses import LINKS
from anytime.structured.structures import Array, Regions

__all__ = ["ElementLoss"]

_FLAT = 1e-10  # slope at which the search for a step ends, relative to 1 + the loss
_LARGEST = 10.0  # step
_TURNS = 60


class ElementLoss:
    """Weighted mean over elements of ``-sum_k p_k log q_k``, ``q`` the softmax of the scores.

    Parameters
    ----------
    truth : (E, K)
        The distributions ``p``, one-hot for plain labels.
    weight : (E,)
        How much each element counts; 0: not at all.
    """

    def __init__(self, truth: Array, weight: Array) -> None:
        self.truth, self.weight = truth, weight
        self.total = float(weight.sum())
        if not self.total > 0:
            raise ValueError("no element has a label: there is nothing to learn from")

    def on(self, elements: NDArray[np.bool_]) -> ElementLoss:
        """The loss of some elements."""
        return ElementLoss(self.truth, np.where(elements, self.weight, 0.0))

    def value(self, scores: Array) -> float:
        """The mean loss."""
        there = np.flatnonzero(self.weight)
        return self._sum(scores[there], there) / self.total

    def residual(self, scores: Array) -> Array:
        """(E, K) the negative gradient ``p - q``, weights not included."""
        return np.asarray(self.truth - LINKS["softmax"].transform(scores))

    def projection(self, scores: Array, regions: Regions) -> Array:
        """(R, K) mean negative gradients of regions, elements weighted: the targets of (7.11)."""
        residual = self.residual(scores)
        if regions.are_elements:
            return residual
        total = np.empty((regions.n_regions, residual.shape[1]))
        for k in range(residual.shape[1]):
            total[:, k] = np.bincount(
                regions.label, weights=self.weight * residual[:, k], minlength=regions.n_regions
            )
        weight = np.bincount(regions.label, weights=self.weight, minlength=regions.n_regions)
        return total / np.where(weight > 0, weight, 1.0)[:, None]

    def search(
        self, scores: Array, direction: Array, elements: NDArray[np.intp] | None = None
    ) -> tuple[float, float]:
        """The step along a direction with the least loss, and how much less the mean loss is.

        Newton's steps within a bracket; no step is longer than 10.

        Parameters
        ----------
        scores : (E, K)
        direction : (m, K)
            Of ``elements``; that of others is 0.
        elements : (m,) int, default=None
            None: all.
        """
        there = np.arange(len(self.weight)) if elements is None else elements
        counts = self.weight[there] > 0
        there, h = there[counts], direction[counts]
        if not there.size:
            return 0.0, 0.0
        f, p, w = scores[there], self.truth[there], self.weight[there]
        before = self._sum(f, there)
        low, high, step = -_LARGEST, _LARGEST, 0.0
        for _ in range(_TURNS):
            q = LINKS["softmax"].transform(f + step * h)
            mean = (q * h).sum(axis=1)
            slope = float(w @ (mean - (p * h).sum(axis=1)))
            bend = float(w @ ((q * h * h).sum(axis=1) - mean**2))
            if abs(slope) <= _FLAT * (self.total + abs(before)):
                break
            low, high = (step, high) if slope < 0 else (low, step)
            ahead = step - slope / bend if bend > 0 else np.nan
            if not low < ahead < high:
                ahead = 0.5 * (low + high) if bend > 0 or abs(step) < _LARGEST else step
            if abs(ahead - step) <= 1e-14 * max(abs(step), 1.0):
                break
            step = ahead
        gain = (before - self._sum(f + step * h, there)) / self.total
        return (step, gain) if gain > 0 else (0.0, 0.0)

    def replace(self, value: float, scores: Array, new: Array) -> tuple[float, float]:
        """How far new scores take the place of those whose loss is ``value``, and the gain: wholly where that gains.

        New ones that were fitted to the loss itself, with a penalty, are not stretched: a longer step would undo that. Where they
        are worse than the old ones, part of the way to them may still be better: the loss is convex.
        """
        gain = value - self.value(new)
        if gain > 0:
            return 1.0, gain
        step, gain = self.search(scores, new - scores)
        return (step, gain) if step > 0 else (0.0, 0.0)

    def fall(self, scores: Array, change: Array, elements: NDArray[np.intp]) -> float:
        """By how much the weighted sum of the losses of ``elements`` falls when ``change``, (m, K), is added to their scores."""
        counts = self.weight[elements] > 0
        there = elements[counts]
        return self._sum(scores[there], there) - self._sum(scores[there] + change[counts], there)

    def _sum(self, scores: Array, there: NDArray[np.intp]) -> float:
        if not there.size:
            return 0.0
        p, w = self.truth[there], self.weight[there]
        above = scores - scores.max(axis=1, keepdims=True)
        return float(w @ (np.log(np.exp(above).sum(axis=1)) - (p * above).sum(axis=1)))
