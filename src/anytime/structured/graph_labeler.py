"""Graphs: a label for every node, such as points, atoms, people or pages."""

from __future__ import annotations

import reprlib
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from anytime.parameters import declared, without
from anytime.ragged import offsets_of
from anytime.structured.graphs import Graphs
from anytime.structured.labelers import ElementLabeler
from anytime.structured.sequences import SequenceLabeler
from anytime.structured.structures import Array

__all__ = ["GraphLabeler"]


@declared(like=SequenceLabeler)
@without("context")
class GraphLabeler(ElementLabeler):
    """Label the nodes of graphs, buying features one after the other and using the current labels of neighbours.

    Structured boosting (Grubb, *Anytime Prediction*, 2014, Algorithms 3.3 and 7.1), as in :class:`SequenceLabeler`: every stage
    reads the current predictions of a node's neighbours and of their neighbours.

    Parameters
    ----------
    costs : mapping from str to float, FeatureCosts or similar, default=None
        Columns are the names of features, and prices are per node. In prediction, a feature that no node of a graph has
        is unavailable: it is not paid for, and stages that read it are skipped for the graph. If some training graph
        lacked it too, it is a missing value: paid for, and read as in training.
    budget : float, default=None
        A row is a graph, and pays the price of a feature once, per node.
    min_count : int, default=1
        String values that fewer nodes have count as unknown.
    epochs : int, default=8
        Passes over the nodes to train a linear stage.
    time_budget : float, default=None
        If time is short, stages are trained on a random part of the graphs; a warning says so.

    Attributes
    ----------
    steps_ : list of StructuredStep
        The steps of training.

    See Also
    --------
    SequenceLabeler : For sequences.
    SceneParser : For images.

    Examples
    --------
    >>> import numpy as np
    >>> import anytime as at
    >>> rng = np.random.default_rng(0)
    >>> ring = [(i, (i + 1) % 20) for i in range(20)]
    >>> y = [np.repeat(rng.integers(0, 2, 4), 5) for _ in range(30)]
    >>> X = [(labels[:, None] + rng.normal(size=(20, 1)), ring) for labels in y]
    >>> model = at.GraphLabeler(folds=2, random_state=0).fit(X, y)
    >>> len(model.predict(X)[0])
    20
    """

    _what = "graph"

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the model to graphs and the labels of their nodes.

        Parameters
        ----------
        X : list of (nodes, edges)
            Nodes are rows of numbers or dicts of features; edges are pairs of node numbers, (m, 2), or None.
        y : list of sequences of labels
            One per node; None for a node without a label.
        """
        return self._fit(X, y)

    def _elements(self, X: Any) -> tuple[Any, Any]:
        nodes, edges, lengths = [], [], []
        if isinstance(X, (str, bytes, dict)) or not hasattr(X, "__len__"):
            raise ValueError(f"X must be a list of graphs, not {type(X).__name__}")
        for i, graph in enumerate(X):
            if not isinstance(graph, (tuple, list)) or len(graph) != 2:
                raise ValueError(f"graph {i} must be a pair of nodes and edges")
            if not hasattr(graph[0], "__len__"):
                raise ValueError(
                    f"graph {i}: nodes are a list of their features, not {type(graph[0]).__name__}"
                )
            pairs = _pairs(graph[1])
            if pairs is None:
                raise ValueError(
                    f"graph {i}: edges are pairs of numbers of nodes, (m, 2); {reprlib.repr(graph[1])} are not"
                )
            if pairs.size and not 0 <= pairs.min() <= pairs.max() < len(graph[0]):
                raise ValueError(f"graph {i}: an edge names a node that is not among its {len(graph[0])}")
            nodes.append(graph[0])
            edges.append(pairs)
            lengths.append(len(graph[0]))
        starts = offsets_of(lengths)[:-1]
        joined = [pairs + start for pairs, start in zip(edges, starts, strict=True)]
        return nodes, np.concatenate([np.empty((0, 2), dtype=np.intp), *joined])

    def _batch(
        self, table: Array, offsets: NDArray[np.int64], categories: NDArray[np.int32], more: Any
    ) -> Graphs:
        return Graphs(table, offsets, categories, edges=more)


def _pairs(edges: Any) -> NDArray[np.intp] | None:
    """(m, 2) the edges as whole numbers; None where they are something else."""
    try:
        pairs = np.asarray([] if edges is None else edges)
    except ValueError:  # of several lengths
        return None
    if not pairs.size:
        return np.empty((0, 2), dtype=np.intp)
    fits = pairs.ndim == 2 and pairs.shape[1] == 2 and pairs.dtype.kind in "iu"
    return pairs if fits else None
