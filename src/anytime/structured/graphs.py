"""Graphs and grids: elements that read the mean predictions of their neighbours."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.spatial import cKDTree

from anytime.ragged import elements_of
from anytime.structured.structures import ElementTable

__all__ = ["Graphs", "grid_edges", "nearest_edges"]

Array = NDArray[np.float64]


class Graphs(ElementTable):
    """Nodes with their features, and edges between nodes of the same graph.

    The context of a node consists of its own current class probabilities, their mean over its neighbours and over the neighbours'
    neighbours, and the shares of leading classes among its neighbours. It is 0 for a node without neighbours.

    Parameters
    ----------
    table, offsets, categories
        As of :class:`ElementTable`: one row per node.
    edges : (m, 2) int
        Pairs of nodes, numbered across all graphs, in either direction; a duplicate pair counts twice.
    weights : (m,) float, default=None
        Weight of each edge. None: 1.
    """

    def __init__(
        self,
        table: ArrayLike,
        offsets: ArrayLike,
        categories: ArrayLike | None = None,
        *,
        edges: ArrayLike,
        weights: ArrayLike | None = None,
    ) -> None:
        super().__init__(table, offsets, categories)
        pairs = np.asarray(edges, dtype=np.intp).reshape(-1, 2)
        strength = np.ones(len(pairs)) if weights is None else np.asarray(weights, dtype=np.float64)
        ends = (np.concatenate([pairs[:, 0], pairs[:, 1]]), np.concatenate([pairs[:, 1], pairs[:, 0]]))
        n = self.n_elements
        beside = csr_array((np.concatenate([strength, strength]), ends), shape=(n, n))
        degree = np.asarray(beside.sum(axis=1)).reshape(-1)
        spread = np.repeat(np.where(degree > 0, degree, 1.0), np.diff(beside.indptr))
        self.averaging = csr_array((beside.data / spread, beside.indices, beside.indptr), shape=(n, n))

    def take(self, rows: NDArray[np.intp]) -> Graphs:
        """Graphs ``rows``, in that order."""
        elements, offsets = elements_of(self.offsets, rows)
        some = object.__new__(Graphs)
        ElementTable.__init__(some, self.table[elements], offsets, self.categories)
        some.averaging = self.averaging[elements][:, elements]
        return some

    def context_categories(self, n_classes: int) -> NDArray[np.int32]:
        """(q,) zeros: all columns of the context hold numbers."""
        return np.zeros(4 * n_classes, dtype=np.int32)

    def context(self, level: int, probabilities: Array) -> Array:
        """(E, 4 K) context of the nodes, from the current predictions."""
        n, n_classes = probabilities.shape
        leading = np.zeros((n, n_classes))
        if n:
            leading[np.arange(n), probabilities.argmax(axis=1)] = 1.0
        beside = self.averaging @ probabilities
        return np.hstack([probabilities, beside, self.averaging @ beside, self.averaging @ leading])


def grid_edges(height: int, width: int) -> NDArray[np.intp]:
    """(m, 2) pairs of neighbours, up and down, left and right, among the cells of a grid, counted row by row.

    Examples
    --------
    >>> grid_edges(2, 2).tolist()
    [[0, 1], [2, 3], [0, 2], [1, 3]]
    """
    cells = np.arange(height * width).reshape(height, width)
    pairs = [(cells[:, :-1], cells[:, 1:]), (cells[:-1], cells[1:])]
    return np.concatenate([np.stack([a.ravel(), b.ravel()], axis=1) for a, b in pairs])


def nearest_edges(points: ArrayLike, k: int) -> NDArray[np.intp]:
    """(m, 2) pairs of neighbours in a cloud of points: each point and its ``k`` nearest others, every pair once.

    Parameters
    ----------
    points : (n, d)
        Coordinates.
    k : int
        Number of nearest points that each point is joined to; a smaller cloud is joined completely. A point can have more
        neighbours if it is among the nearest of others.

    Returns
    -------
    edges : (m, 2) int
        Sorted, the smaller number of each pair first.

    Examples
    --------
    >>> nearest_edges([[0.0], [1.0], [3.0]], k=1).tolist()
    [[0, 1], [1, 2]]
    """
    places = np.asarray(points, dtype=np.float64)
    if places.ndim != 2 or not np.isfinite(places).all():
        raise ValueError(
            f"points must be a table of finite coordinates, (n, d); their shape is {places.shape}"
        )
    if k < 1:
        raise ValueError(f"k is {k}; a point needs at least one neighbour")
    n = len(places)
    if n < 2:
        return np.empty((0, 2), dtype=np.intp)
    near = cKDTree(places).query(places, k=min(k + 1, n))[1]
    first, second = np.repeat(np.arange(n), near.shape[1]), near.ravel()
    # of points at the same place a point itself need not come first
    others = first != second
    pairs = np.sort(np.stack([first[others], second[others]], axis=1), axis=1)
    return np.unique(pairs, axis=0)
