"""Participation within a budget, by Frank-Wolfe: each step goes a little towards the best corner."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["frank_wolfe", "participation_oracle"]

Array = NDArray[np.float64]


def participation_oracle(gradient: ArrayLike, participation: float) -> Array:
    """The q in [0, 1] with mean at most ``participation`` that is least along the gradient.

    The most negative entries are set to 1 until the budget is spent, the last one in part. Entries that are not negative
    stay 0: the budget need not be spent. (The source spends it all, which is not the best corner.)

    Examples
    --------
    >>> participation_oracle([[-3, 1, -0.5], [-2, -0.1, 4]], 0.45).round(12).tolist()
    [[1.0, 0.0, 0.7], [1.0, 0.0, 0.0]]
    """
    slopes = np.asarray(gradient, dtype=np.float64)
    if not 0 <= participation <= 1:
        raise ValueError(f"participation is {participation}; it has to lie in [0, 1]")
    budget = participation * slopes.size
    order = np.argsort(slopes, axis=None, kind="stable")
    corner = np.zeros(slopes.size)
    corner[order] = np.clip(budget - np.arange(slopes.size), 0.0, 1.0)
    corner[slopes.ravel() >= 0] = 0.0
    return corner.reshape(slopes.shape)


def frank_wolfe(
    gradient: Callable[[Array], Array],
    start: Array,
    participation: float,
    *,
    n_steps: int,
    step: float | None = None,
) -> tuple[Array, Array]:
    """Lower a convex function of q within the budget.

    Parameters
    ----------
    gradient : callable
        From q to the gradient there.
    start : array
        Has to be within the budget; then all that follow are.
    participation : float
        The largest mean of q.
    n_steps : int
    step : float, default=None
        Weight of the corner in each step. None: ``2 / (t + 2)``, for which convergence is proved.

    Returns
    -------
    q, gaps : array and (n_steps,) array
        The gap ``<gradient, q - corner>`` before each step bounds how far above the least value q was.
    """
    q = np.asarray(start, dtype=np.float64)
    if q.min() < 0 or q.max() > 1 or q.mean() > participation + 1e-12:
        raise ValueError(
            f"the start has mean {q.mean():.6g}; it has to lie in [0, 1] with a mean of at most {participation}"
        )
    gaps = np.empty(n_steps)
    for t in range(n_steps):
        slopes = gradient(q)
        corner = participation_oracle(slopes, participation)
        gaps[t] = np.vdot(slopes, q - corner)
        part = 2 / (t + 2) if step is None else step
        q = (1 - part) * q + part * corner
    return q, gaps
