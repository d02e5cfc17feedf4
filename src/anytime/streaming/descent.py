"""One round of streaming gradient boosting as arithmetic, without learners (Hu 2019, Algorithms 6, 7 and 8).

Partial sums go down: ``y^i = project(y^(i-1) - eta_i h_i)``. Learner i is fitted to the gradient of the loss at ``y^(i-1)``
("smooth", Algorithm 6), or to this gradient plus what the learners before it left unfitted ("residual", Algorithm 7).
``descend`` takes the outputs of all learners at once; ``descend_one_by_one`` asks for them in turn, which is how the
algorithms are printed, and the only way for learners that look at their target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anytime.streaming.losses import StreamLoss, Target
from anytime.streaming.projections import Projection

Array = NDArray[np.float64]
Algorithm = Literal["smooth", "residual"]
Averaging = Literal["last", "theory", "post", "all"]
Combiner = Callable[[Sequence[Array]], Array]

__all__ = [
    "COMBINERS",
    "Algorithm",
    "Averaging",
    "Combiner",
    "Descent",
    "averaged",
    "descend",
    "descend_one_by_one",
    "gd",
    "nesterov",
    "partial_sums",
]


# ---------------------------------------------------------------------- combiners: where a step starts


def gd(sums: Sequence[Array]) -> Array:
    """Gradient descent: step i starts from ``y^(i-1)``, where its gradient is taken too."""
    return sums[-1]


def nesterov(sums: Sequence[Array]) -> Array:
    """Accelerated descent: step i starts from ``y^(i-1) + (i - 1) / (i + 2) (y^(i-1) - y^(i-2))``.

    Hu 2019 names it among the open options (section 5.7); none of the guarantees is for it.
    """
    i = len(sums)
    return sums[-1] if i == 1 else sums[-1] + (i - 1) / (i + 2) * (sums[-1] - sums[-2])


COMBINERS: dict[str, Combiner] = {"gd": gd, "nesterov": nesterov}


# ---------------------------------------------------------------------- a round


@dataclass(frozen=True, eq=False)
class Descent:
    """What happened in one round.

    Attributes
    ----------
    sums : (N + 1, b, m) float
        ``y^0`` to ``y^N``.
    gradients, targets, outputs : (N, b, m) float
        Gradients of the loss where steps start; what each learner is to be fitted to; what it gave.
    """

    sums: Array
    gradients: Array
    targets: Array
    outputs: Array


def partial_sums(
    start: Array, outputs: Array, steps: Array, projection: Projection | None = None, combiner: Combiner = gd
) -> tuple[Array, Array]:
    """(N + 1, b, m) Partial sums from ``start`` (b, m), and (N, b, m) the points that steps start from."""
    moves = -steps[:, None, None] * outputs
    if combiner is gd and projection is None:
        sums = np.cumsum(np.concatenate([start[None], moves]), axis=0)
        return sums, sums[:-1]
    reached, points = [start], []
    for move in moves:
        points.append(combiner(reached))
        after = points[-1] + move
        reached.append(after if projection is None else projection(after))
    return np.stack(reached), np.stack(points) if points else np.empty((0, *start.shape))


def descend(
    outputs: Array,
    y: Target,
    loss: StreamLoss,
    steps: Array,
    start: Array,
    *,
    algorithm: Algorithm = "smooth",
    projection: Projection | None = None,
    combiner: Combiner = gd,
) -> Descent:
    """A round in which all learners have given their outputs (N, b, m)."""
    sums, points = partial_sums(start, outputs, steps, projection, combiner)
    gradients = loss.gradient(points, y)
    if algorithm == "smooth":
        return Descent(sums, gradients, gradients, outputs)
    left = np.zeros_like(gradients)  # r_(i-1) = sum of g_j - h_j over the learners j < i
    np.cumsum((gradients - outputs)[:-1], axis=0, out=left[1:])
    return Descent(sums, gradients, left + gradients, outputs)


def descend_one_by_one(
    output_of: Callable[[int, Array], Array],
    n_learners: int,
    y: Target,
    loss: StreamLoss,
    steps: Array,
    start: Array,
    *,
    algorithm: Algorithm = "smooth",
    projection: Projection | None = None,
    combiner: Combiner = gd,
) -> Descent:
    """The same, learner by learner: ``output_of(i, target)`` gives the output (b, m) of learner i, 0 for the first."""
    sums, left = [start], np.zeros_like(start)
    gradients, targets, outputs = [], [], []
    for i in range(n_learners):
        point = combiner(sums)
        gradients.append(loss.gradient(point, y))
        targets.append(gradients[i] + left if algorithm == "residual" else gradients[i])
        outputs.append(output_of(i, targets[i]))
        left = targets[i] - outputs[i]
        after = point - steps[i] * outputs[i]
        sums.append(after if projection is None else projection(after))
    return Descent(np.stack(sums), np.stack(gradients), np.stack(targets), np.stack(outputs))


# ---------------------------------------------------------------------- answers


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
        raise ValueError(f"there is no averaging {averaging!r}; there are 'last', 'theory', 'post' and 'all'")
    return np.concatenate([sums[:1], np.cumsum(terms, axis=0) / counts[:-1]])
