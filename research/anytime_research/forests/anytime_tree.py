"""A decision tree that can be stopped on the way: the deepest node that was visited answers (Hu 2019, section 7.1.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["AnytimeTree"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class AnytimeTree:
    """A fitted tree of scikit-learn whose every node answers with the mean of its training rows.

    Parameters
    ----------
    tree : DecisionTreeClassifier or DecisionTreeRegressor

    Examples
    --------
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> tree = AnytimeTree(DecisionTreeRegressor().fit([[0], [1], [2], [3]], [0, 0, 4, 8]))
    >>> tree.predict([[3]], 0), tree.predict([[3]], 1), tree.predict([[3]], 9)
    (array([[3.]]), array([[6.]]), array([[8.]]))
    """

    tree: Any

    @property
    def depth(self) -> int:
        """Comparisons after which every row is at its leaf."""
        return int(self.tree.get_depth())

    def predict(self, X: ArrayLike, budget: ArrayLike) -> Array:
        """(n, K) means of the targets, or shares of the classes, after as many comparisons as ``budget`` allows each row."""
        nodes, rows = self.tree.tree_, np.asarray(X, dtype=np.float32)
        left = np.broadcast_to(np.asarray(budget), len(rows)).copy()
        at = np.zeros(len(rows), dtype=np.intp)
        while (moving := np.flatnonzero((left > 0) & (nodes.children_left[at] >= 0))).size:
            here = at[moving]
            goes_left = rows[moving, nodes.feature[here]] <= nodes.threshold[here]
            at[moving] = np.where(goes_left, nodes.children_left[here], nodes.children_right[here])
            left[moving] -= 1
        means: Array = nodes.value[at].reshape(len(rows), -1)
        return means
