"""Scores with few open gates: the nearest ones, and gates that have them (Nan, section 7.1.3)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.adaptive.sensing.problem import Weights

__all__ = ["project_scores", "recover_gates", "within_participation"]

Array = NDArray[np.float64]


def project_scores(scores: ArrayLike, max_active_devices: float) -> Array:
    """The nearest scores (K, n) of which at most ``max_active_devices`` per example are positive on average, (7.5).

    The smallest positive ones become 0 until few enough are left.

    Examples
    --------
    >>> project_scores([[0.5, -1.0], [2.0, 0.1]], 1.0).tolist()
    [[0.5, -1.0], [2.0, 0.0]]
    """
    z = np.array(scores, dtype=np.float64)
    _check_budget(max_active_devices)
    allowed = int(np.floor(z.shape[1] * max_active_devices + 1e-9))
    positive = np.flatnonzero(z > 0)
    excess = positive.size - allowed
    if excess > 0:
        smallest = positive[np.argsort(z.ravel()[positive], kind="stable")[:excess]]
        z.ravel()[smallest] = 0.0
    return z


def recover_gates(inputs: Array, scores: Array) -> tuple[Array, Array]:
    """``w`` (K, D) and ``b`` (K,) whose scores on the inputs (K, n, D) are nearest to the given ones, by least squares."""
    w, b = np.empty((inputs.shape[0], inputs.shape[2])), np.empty(inputs.shape[0])
    for k, (seen, wanted) in enumerate(zip(inputs, scores, strict=True)):
        solution = np.linalg.lstsq(np.column_stack([seen, np.ones(len(seen))]), wanted, rcond=None)[0]
        w[k], b[k] = solution[:-1], solution[-1]
    return w, b


def within_participation(
    weights: Weights, inputs: Array, participation: float, *, exactly: bool = False
) -> Weights:
    """The same with all gates' offsets lowered by as little as opens at most this share of them on the inputs.

    ``exactly``: raised too, if fewer are open.
    """
    scores = weights.scores(inputs)
    _check_budget(participation)
    allowed = int(np.floor(participation * scores.size + 1e-9))
    n_open = int((scores > 0).sum())
    if n_open == allowed or (n_open < allowed and not exactly):
        return weights
    if allowed == scores.size:
        return replace(weights, b=weights.b + 2 * np.abs(scores).max() + 1)
    ranked = np.sort(scores, axis=None)[::-1]
    shift = ranked[allowed]  # the largest that has to close
    if allowed and ranked[allowed - 1] > shift:
        shift = 0.5 * (shift + ranked[allowed - 1])  # clear of rounding on either side
    step = np.spacing(np.abs(ranked).max())
    while True:
        lowered = replace(weights, b=weights.b - shift)
        if (lowered.scores(inputs) > 0).sum() <= allowed:
            return lowered
        shift, step = shift + step, 2 * step  # rounding, or equal scores


def _check_budget(value: float) -> None:
    if not value >= 0:
        raise ValueError(f"the budget is {value}; it cannot be negative")
