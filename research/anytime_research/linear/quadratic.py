"""Least squares from moments, refitted from scratch each time: what faster code is compared with, also with bounded weights."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgError, cho_solve, cholesky, eigh
from scipy.optimize import brentq

from anytime.linear.smooth import Columns, Fit

Array = NDArray[np.float64]

_RANK = 1e-12  # eigenvalues below this share of the largest count as zero


class QuadraticObjective:
    """Squared loss seen through moments alone, refitted from scratch each time.

    ``F = max tr(V'W) - tr(W'(S + r I)W) / 2`` over ``|W| <= bound``: exact, by eigenvectors where there is a bound
    (Grubb 2014, objective SQ-con). Without one this is plain ridge regression, with which faster code is compared.

    Parameters
    ----------
    S : (D, D)
        ``X'X / n``.
    V : (D,) or (D, K)
        ``X'Y / n``.
    l2_regularization : float, default=0
    bound : float, default=None
    """

    def __init__(
        self, S: ArrayLike, V: ArrayLike, *, l2_regularization: float = 0.0, bound: float | None = None
    ) -> None:
        if not (np.isfinite(l2_regularization) and l2_regularization >= 0):
            raise ValueError(f"l2_regularization must be a finite number, 0 or more; got {l2_regularization}")
        if bound is not None and not bound > 0:
            raise ValueError(f"bound must be above 0, or None for unbounded weights; got {bound}")
        self.l2_regularization, self.bound = l2_regularization, bound if bound != np.inf else None
        S, V = np.asarray(S, dtype=np.float64), np.asarray(V, dtype=np.float64)
        self.C = S + l2_regularization * np.eye(len(S))
        self.V = V.reshape(len(S), -1)
        self.n_columns, self.n_outputs = self.V.shape

    def empty(self) -> Fit:
        """All scores 0."""
        return Fit(np.empty(0, dtype=np.intp), np.zeros(self.n_outputs), np.empty((0, self.n_outputs)))

    def extended(self, fit: Fit, columns: Columns) -> Fit:
        """The best weights on the columns of ``fit`` and some new ones."""
        if not columns.size:
            return fit
        together = np.concatenate([fit.columns, columns])
        C, V = self.C[np.ix_(together, together)], self.V[together]
        weights = bounded_solution(C, V, self.bound)
        value = float((V * weights).sum() - 0.5 * (weights * (C @ weights)).sum())
        return Fit(together, fit.intercept, weights, value)

    def residual(self, fit: Fit) -> Array:
        """``V - C W``."""
        return np.asarray(self.V - self.C[:, fit.columns] @ fit.weights)

    def curvature(self, columns: Columns) -> Array:
        """``S + l2_regularization I`` of these columns."""
        return np.asarray(self.C[np.ix_(columns, columns)])


def bounded_solution(C: Array, V: Array, bound: float | None) -> Array:
    """The W of largest ``tr(V'W) - tr(W'CW)/2`` with ``|W| <= bound``; of least norm where there are several."""
    if bound is None:
        try:
            root = cholesky(C, lower=True)
            if root.diagonal().min() ** 2 > _RANK * C.diagonal().max():
                return np.asarray(cho_solve((root, True), V))
        except LinAlgError:
            pass
    values, vectors = eigh(C)
    kept = values > _RANK * max(values[-1], 0.0)
    values, vectors = values[kept], vectors[:, kept]
    turned = vectors.T @ V

    def weights(mu: float) -> Array:
        return np.asarray(turned / (values + mu)[:, None])

    mu = 0.0
    if bound is not None and np.linalg.norm(weights(0.0)) > bound:  # sum_i (v_i / (e_i + mu))^2 = bound^2
        most = float(np.linalg.norm(turned)) / bound
        mu = brentq(
            lambda t: 1 / np.linalg.norm(weights(t)) - 1 / bound, 0.0, most, xtol=1e-15 * most, rtol=1e-14
        )
    return np.asarray(vectors @ weights(mu))
