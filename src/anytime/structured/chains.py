"""Chains: elements in a row, as the words of a sentence. Each is told what its neighbours on both sides are taken for."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.ragged import elements_of
from anytime.structured.structures import ElementTable

__all__ = ["Chains"]

Array = NDArray[np.float64]
_NEGLIGIBLE = (
    0.01  # probabilities below it are told as 0: hardly any would be left otherwise that costs nothing to add
)


class Chains(ElementTable):
    """Sequences of elements with their features, of which each knows ``order`` neighbours on either side.

    The context of an element are, for each of those places and its own, the current class probabilities there, and for places
    outside of the sequence a mark; and, as categories, pairs of the leading classes at neighbouring places: on both sides of it,
    the two before it, the two after it.

    Parameters
    ----------
    table, offsets, categories
        As of :class:`ElementTable`.
    order : int, default=2
        Neighbours on either side; 0: no context.

    Examples
    --------
    >>> pair = Chains([[0.0], [1.0]], [0, 2], order=1)
    >>> told = pair.context(0, np.array([[0.9, 0.1], [0.2, 0.8]]))
    >>> told[0].round(1).tolist()  # outside; itself; the second; the pair (outside, class 1)
    [0.0, 0.0, 1.0, 0.9, 0.1, 0.0, 0.2, 0.8, 0.0, 7.0]
    """

    def __init__(
        self,
        table: ArrayLike,
        offsets: ArrayLike,
        categories: ArrayLike | None = None,
        *,
        order: int = 2,
    ) -> None:
        super().__init__(table, offsets, categories)
        self.order = order

    def take(self, rows: NDArray[np.intp]) -> Chains:
        """Structures ``rows``, in that order."""
        elements, offsets = elements_of(self.offsets, rows)
        return Chains(self.table[elements], offsets, self.categories, order=self.order)

    def context_categories(self, n_classes: int) -> NDArray[np.int32]:
        """(q,) categories of the context's columns; 0: numbers."""
        if self.order == 0:
            return np.empty(0, dtype=np.int32)
        numbers = np.zeros((2 * self.order + 1) * (n_classes + 1), dtype=np.int32)
        pairs = np.full(len(self._pairs), (n_classes + 1) ** 2, dtype=np.int32)
        return np.concatenate([numbers, pairs])

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        """Places whose leading classes are told together."""
        return [(-1, 1)] + [(-2, -1), (1, 2)] * (self.order >= 2)

    def context(self, level: int, probabilities: Array) -> Array:
        """(E, q) what elements are told of the current predictions of their neighbours."""
        n, n_classes = probabilities.shape
        if self.order == 0:
            return np.empty((n, 0))
        start = np.repeat(self.offsets[:-1], np.diff(self.offsets))
        end = np.repeat(self.offsets[1:], np.diff(self.offsets))
        # entry n is what stands outside of every sequence
        counts = np.zeros((n + 1, n_classes + 1))
        counts[:n, :n_classes] = np.where(probabilities < _NEGLIGIBLE, 0.0, probabilities)
        counts[n, n_classes] = 1.0
        leading = np.append(probabilities.argmax(axis=1) if n else np.empty(0, np.intp), n_classes)
        place = {}
        for step in range(-self.order, self.order + 1):
            at = np.arange(n) + step
            place[step] = np.where((at >= start) & (at < end), at, n)
        out = np.empty((n, (2 * self.order + 1) * (n_classes + 1) + len(self._pairs)))
        for i, at in enumerate(place.values()):
            out[:, i * (n_classes + 1) : (i + 1) * (n_classes + 1)] = counts[at]
        for i, (left, right) in enumerate(self._pairs):
            pair = leading[place[left]] * (n_classes + 1) + leading[place[right]]
            out[:, out.shape[1] - len(self._pairs) + i] = pair
        return out
