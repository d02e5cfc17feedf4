"""Numbers behind the refits: roots of matrices, weights within a bound, and the least point of a smooth convex function."""

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, eigh, get_lapack_funcs

Array = NDArray[np.float64]

_RANK = 1e-12  # eigenvalues below this share of the largest count as zero
_TRIALS = 40  # points tried along one direction


def definite_root(matrix: NDArray[Any], added: Array) -> NDArray[Any]:
    """Lower triangle L with ``LL' = matrix + diag(added)``, and as little more on the diagonal as it takes to be definite."""
    diagonal = matrix.diagonal()
    extra = 10 * np.finfo(matrix.dtype).eps * (float(diagonal.max()) or 1.0)
    while True:
        loaded = matrix.copy()
        np.fill_diagonal(loaded, diagonal + (added + extra))
        try:
            return cholesky(loaded, lower=True, overwrite_a=True, check_finite=False)
        except LinAlgError:
            extra *= 100


def inverse_triangle(root: NDArray[Any]) -> NDArray[Any]:
    """The inverse of a lower triangle."""
    trtri: Any = get_lapack_funcs("trtri", (root,))
    return np.asarray(trtri(root, lower=1)[0])


def inverse_root(matrix: Array) -> Array:
    """A matrix T with ``T'T`` the pseudo-inverse."""
    values, vectors = eigh(matrix) if len(matrix) > 1 else (matrix.ravel(), np.eye(len(matrix)))
    kept = values > _RANK * max(values[-1], 0.0) if values.size else np.zeros(0, dtype=bool)
    return np.asarray(vectors[:, kept].T / np.sqrt(values[kept])[:, None])


def minimised(
    gradient: Callable[[Array], Array], u: Array, goal: float, max_iter: int
) -> tuple[Array, float]:
    """A point where the largest entry of the gradient of a convex function is ``goal`` or less, and that entry.

    L-BFGS by gradients alone: they still tell the way where values differ by less than rounding. The second derivative should
    be about I. After ``max_iter`` iterations the flattest point so far is given.
    """
    g, pairs = gradient(u), _Pairs()
    least, best = float(np.abs(g).max()), u
    for _ in range(max_iter):
        if least <= goal:
            break
        ahead, g_ahead = _flatter_point(gradient, u, g, pairs.newton_step(g))
        pairs.add(ahead - u, g_ahead - g)
        u, g = ahead, g_ahead
        steepest = float(np.abs(g).max())
        if steepest < least:
            least, best = steepest, u
    return best, least


def _flatter_point(
    gradient: Callable[[Array], Array], u: Array, g: Array, direction: Array
) -> tuple[Array, Array]:
    """A point along ``direction``, and its gradient, where the slope is clearly less steep than at ``u``, by false position."""
    initial = float(g @ direction)
    low, slope_low, high, slope_high, t = 0.0, initial, np.inf, np.inf, 1.0
    for _ in range(_TRIALS):
        with np.errstate(over="ignore", invalid="ignore"):  # too far, and said so below
            g_ahead = gradient(u + t * direction)
            slope = float(g_ahead @ direction)
        if 0.9 * initial <= slope <= -0.3 * initial:
            break
        if slope < 0:
            low, slope_low = t, slope
        else:
            high, slope_high = t, slope
        if high == np.inf:
            t *= 4.0
        elif np.isfinite(slope_high):
            t = low + (high - low) * float(np.clip(slope_low / (slope_low - slope_high), 0.1, 0.9))
        else:
            t = 0.5 * (low + high)
    return u + t * direction, g_ahead


class _Pairs:
    """Steps and the changes of gradient along them: what L-BFGS knows of the second derivative."""

    def __init__(self) -> None:
        self.pairs: deque[tuple[Array, Array, float]] = deque(maxlen=20)

    def add(self, step: Array, change: Array) -> None:
        product = float(step @ change)
        if product > 1e-14 * float(change @ change):  # otherwise rounding, or no curvature at all
            self.pairs.append((step, change, 1.0 / product))

    def newton_step(self, gradient: Array) -> Array:
        """Minus the gradient in units of the second derivative (the two loops of Nocedal and Wright, Algorithm 7.4)."""
        q, alphas = -gradient, []
        for step, change, rho in reversed(self.pairs):
            alphas.append(rho * float(step @ q))
            q = q - alphas[-1] * change
        for (step, change, rho), alpha in zip(self.pairs, reversed(alphas), strict=True):
            q = q + (alpha - rho * float(change @ q)) * step
        return q
