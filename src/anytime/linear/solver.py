"""Numbers behind the refits: roots of matrices, weights within a bound, and the least point of a smooth convex function."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_solve, cholesky, eigh
from scipy.optimize import brentq, minimize
from sklearn.exceptions import ConvergenceWarning

Array = NDArray[np.float64]

__all__ = ["bounded_solution", "definite_root", "inverse_root", "minimised"]

_RANK = 1e-12  # eigenvalues below this share of the largest count as zero
_STALLED = 50  # gradient steps at most, where values are too coarse to search by
_FAR = 1e3  # times the goal: more than rounding
_OUT_OF_ITERATIONS = 1  # SciPy's number for it


def definite_root(matrix: NDArray[Any], ridge: float) -> NDArray[Any]:
    """Lower triangle L with ``LL' = matrix + ridge I``, and as little more on the diagonal as it takes to be definite."""
    diagonal = matrix.diagonal()
    extra = 10 * np.finfo(matrix.dtype).eps * (float(diagonal.max()) or 1.0)
    while True:
        loaded = matrix.copy()
        np.fill_diagonal(loaded, diagonal + (ridge + extra))
        try:
            return cholesky(loaded, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            extra *= 100


def inverse_root(matrix: Array) -> Array:
    """A matrix T with ``T'T`` the pseudo-inverse."""
    values, vectors = eigh(matrix)
    kept = values > _RANK * max(values[-1], 0.0) if values.size else np.zeros(0, dtype=bool)
    return np.asarray(vectors[:, kept].T / np.sqrt(values[kept])[:, None])


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


def minimised(risk: Callable[[Array], tuple[float, Array]], u: Array, goal: float, max_iter: int) -> Array:
    """Where the largest entry of the gradient of ``risk`` is ``goal`` or less; its second derivative is at most about I."""
    value, gradient = risk(u)
    # The least point of the quadratic bound: all there is to do for squared loss, and a good start for the others.
    while (steepest := np.abs(gradient).max()) > goal:
        new_value, new_gradient = risk(u - gradient)
        if new_value > value:
            break
        u, value, gradient = u - gradient, new_value, new_gradient
        if np.abs(gradient).max() > 0.1 * steepest:
            break
    if np.abs(gradient).max() <= goal:
        return u
    found: Any = minimize(
        risk,
        u,
        jac=True,
        method="L-BFGS-B",
        options={"maxcor": 20, "maxiter": max_iter, "maxfun": 2 * max_iter, "gtol": goal, "ftol": 0.0},
    )
    u, gradient = found.x, np.asarray(found.jac)
    # Close to the least point values differ by less than rounding; gradients still tell the way.
    for _ in range(_STALLED if found.status != _OUT_OF_ITERATIONS else 0):
        steepest = np.abs(gradient).max()
        if steepest <= goal:
            break
        ahead = u - found.hess_inv @ gradient
        new_gradient = risk(ahead)[1]
        if not np.abs(new_gradient).max() < steepest:
            break
        u, gradient = ahead, new_gradient
    if np.abs(gradient).max() > _FAR * goal or found.status == _OUT_OF_ITERATIONS:
        warnings.warn(
            f"a refit ended after {found.nit} iterations with a gradient of {np.abs(gradient).max():.1e}, where "
            f"{goal:.1e} was asked for: raise max_iter, tol or ridge",
            ConvergenceWarning,
            stacklevel=2,
        )
    return u
