"""Forward stagewise regression: the linear model of growth (Hu 2019, section 6.2; least angle regression in small steps).

The coefficient of the column that is most correlated with the residual is nudged, again and again. This is gradient boosting of
the squared loss with columns as learners and a tiny step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["ForwardStagewise", "StagewisePath"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class StagewisePath:
    """Coefficients after every step.

    Attributes
    ----------
    coefficients : (n_steps + 1, d)
        The first row is zero.
    columns : (n_steps,) int
        Column of each step.
    """

    coefficients: Array
    columns: NDArray[np.intp]

    def losses(self, X: ArrayLike, y: ArrayLike) -> Array:
        """(n_steps + 1,) halved mean squares of the residuals."""
        residuals = np.asarray(y)[:, None] - np.asarray(X) @ self.coefficients.T
        losses: Array = (residuals**2).mean(axis=0) / 2
        return losses


@dataclass(frozen=True)
class ForwardStagewise:
    """Small steps on the best column: ``j = argmax |X_j' r|``, ``w_j += eps sign(X_j' r)``.

    Parameters
    ----------
    eps : float
        Size of a step.
    n_steps : int

    Examples
    --------
    >>> path = ForwardStagewise(eps=0.5, n_steps=4).fit([[1, 0], [0, 1]], [2, 1])
    >>> path.coefficients[-1], path.columns
    (array([1.5, 0.5]), array([0, 0, 0, 1]))
    """

    eps: float = 0.01
    n_steps: int = 1000

    def fit(self, X: ArrayLike, y: ArrayLike) -> StagewisePath:
        """The path; each step costs one product with X', O(nd)."""
        X = np.asarray(X, dtype=np.float64)
        residual = np.array(y, dtype=np.float64)
        coefficients = np.zeros((self.n_steps + 1, X.shape[1]))
        columns = np.zeros(self.n_steps, dtype=np.intp)
        for step in range(self.n_steps):
            correlations = X.T @ residual
            j = int(np.abs(correlations).argmax())
            nudge = self.eps * np.sign(correlations[j])
            columns[step] = j
            coefficients[step + 1] = coefficients[step]
            coefficients[step + 1, j] += nudge
            residual -= nudge * X[:, j]
        return StagewisePath(coefficients, columns)
