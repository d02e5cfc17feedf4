"""A round of streaming boosting learner by learner, as the algorithms are printed, and other points to start a step from.

``descend_one_by_one`` asks for outputs in turn, which is the only way for learners that look at their target.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from anytime.streaming.losses import StreamLoss, Target
from anytime.streaming.partial_sums import AlgorithmName, RoundTrace
from anytime.streaming.projections import Projection

Array = NDArray[np.float64]
Combiner = Callable[[Sequence[Array]], Array]

__all__ = ["Combiner", "descend_one_by_one", "gd", "nesterov"]


def gd(sums: Sequence[Array]) -> Array:
    """Gradient descent: step i starts from ``y^(i-1)``, where its gradient is taken too."""
    return sums[-1]


def nesterov(sums: Sequence[Array]) -> Array:
    """Accelerated descent: step i starts from ``y^(i-1) + (i - 1) / (i + 2) (y^(i-1) - y^(i-2))``.

    Hu 2019 names it among the open options (section 5.7); none of the guarantees is for it.
    """
    i = len(sums)
    return sums[-1] if i == 1 else sums[-1] + (i - 1) / (i + 2) * (sums[-1] - sums[-2])


def descend_one_by_one(
    output_of: Callable[[int, Array], Array],
    n_estimators: int,
    y: Target,
    loss: StreamLoss,
    steps: Array,
    start: Array,
    *,
    algorithm: AlgorithmName = "smooth",
    projection: Projection | None = None,
    combiner: Combiner = gd,
) -> RoundTrace:
    """The same, learner by learner: ``output_of(i, target)`` gives the output (b, m) of learner i, 0 for the first."""
    sums, left = [start], np.zeros_like(start)
    gradients, targets, outputs = [], [], []
    for i in range(n_estimators):
        point = combiner(sums)
        gradients.append(loss.gradient(point, y))
        targets.append(gradients[i] + left if algorithm == "residual" else gradients[i])
        outputs.append(output_of(i, targets[i]))
        left = targets[i] - outputs[i]
        after = point - steps[i] * outputs[i]
        sums.append(after if projection is None else projection(after))
    return RoundTrace(np.stack(sums), np.stack(gradients), np.stack(targets), np.stack(outputs))
