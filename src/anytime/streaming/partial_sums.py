"""One round of streaming gradient boosting as arithmetic: partial sums, gradients and targets (Hu 2019, Algorithms 6, 7 and 8).

Partial sums go down: ``y^i = project(y^(i-1) - eta_i h_i)``. Learner i is fitted to the gradient of the loss at ``y^(i-1)``
("smooth", Algorithm 6), or to this gradient plus what the learners before it left unfitted ("residual", Algorithm 7).
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anytime.streaming.losses import StreamLoss, Target
from anytime.streaming.projections import Projection

Array = NDArray[np.float64]
AlgorithmName = Literal["smooth", "residual"]
Averaging = Literal["last", "theory", "post", "all"]


@dataclass(frozen=True, eq=False)
class RoundTrace:
    """What happened in one round."""

    sums: Array  # (N + 1, b, m): ``y^0`` to ``y^N``
    # (N, b, m) each: gradients of the loss where steps start; what each learner is to be fitted to; what it gave
    gradients: Array
    targets: Array
    outputs: Array


def partial_sums(start: Array, outputs: Array, steps: Array, projection: Projection | None = None) -> Array:
    """(N + 1, b, m) Partial sums from ``start`` (b, m), for outputs (N, b, m) and steps (N,)."""
    moves = -steps[:, None, None] * outputs
    if projection is None:
        return np.asarray(np.cumsum(np.concatenate([start[None], moves]), axis=0))
    reached = [start]
    for move in moves:
        reached.append(projection(reached[-1] + move))
    return np.stack(reached)


def descend(
    outputs: Array,
    y: Target,
    loss: StreamLoss,
    steps: Array,
    start: Array,
    *,
    algorithm: AlgorithmName = "smooth",
    projection: Projection | None = None,
) -> RoundTrace:
    """A round in which all learners have given their outputs (N, b, m)."""
    sums = partial_sums(start, outputs, steps, projection)
    gradients = loss.gradient(sums[:-1], y)
    if algorithm == "smooth":
        return RoundTrace(sums, gradients, gradients, outputs)
    left = np.zeros_like(gradients)  # r_(i-1) = sum of g_j - h_j over the learners j < i
    np.cumsum((gradients - outputs)[:-1], axis=0, out=left[1:])
    return RoundTrace(sums, gradients, left + gradients, outputs)


def averaged(sums: Array, averaging: Averaging) -> Array:
    """(N + 1, ...) The answer of every prefix, from partial sums (N + 1, ...); that of no learners is the start.

    Of a prefix of k learners: "last" is ``y^k``; "theory" the mean of ``y^0 .. y^(k-1)``, which Theorem 5.5.2 speaks of;
    "post" the mean of ``y^1 .. y^k``; "all" that of ``y^0 .. y^k``. (Algorithm 7 prints N + 1 terms over N, which is "post"
    where ``y^0 = 0`` and no average otherwise.)

    Examples
    --------
    >>> sums = np.array([0.0, 2.0, 4.0])
    >>> [averaged(sums, rule)[-1].item() for rule in ("last", "theory", "post", "all")]
    [4.0, 1.0, 3.0, 2.0]
    """
    if averaging == "last":
        return sums
    counts = np.arange(1, len(sums) + 1, dtype=np.float64).reshape(-1, *[1] * (sums.ndim - 1))
    if averaging == "all":
        return np.asarray(np.cumsum(sums, axis=0) / counts)
    terms = sums[:-1] if averaging == "theory" else sums[1:]
    if averaging not in ("theory", "post"):
        raise ValueError(f"there is no averaging {averaging!r}; use 'last', 'theory', 'post' or 'all'")
    return np.concatenate([sums[:1], np.cumsum(terms, axis=0) / counts[:-1]])
