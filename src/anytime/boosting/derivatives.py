"""First and second derivatives of an objective: natively for the common losses, by the loss itself for all others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from anytime.losses import training_loss
from anytime.plan import Array
from anytime.trees.growing import loss_derivatives

if TYPE_CHECKING:
    from anytime.boosting.objective import MeanLoss

__all__ = ["derivatives"]

_NATIVE: dict[str, Literal["squared", "logistic", "softmax"]] = {
    "squared": "squared",
    "logistic": "logistic",
    "multinomial": "softmax",
}


def derivatives(
    objective: MeanLoss, scores: Array, n_threads: int = 1
) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]:
    """(n, K) gradient and diagonal of the Hessian of each row's loss, times the weight that it was given.

    A loss without a Hessian is taken to curve the same everywhere; both are then divided by that curvature, so that a row counts
    as 1 in the ridge and the least weight of a leaf.
    """
    loss, y = objective.loss, objective.y
    even = np.ptp(objective.weight) == 0
    weight = None if even and objective.total == len(y) else objective.weight * objective.total
    if loss.name in _NATIVE and loss is training_loss(loss.name):
        return loss_derivatives(_NATIVE[loss.name], scores, y, weight, n_threads=n_threads)
    gradient = loss.required_gradient()(scores, y)
    if loss.hessian is None:
        gradient, curvature = gradient / objective.curvature(scores), np.ones_like(gradient)
    else:
        curvature = loss.hessian(scores, y)
    if weight is None:
        return gradient, curvature
    return gradient * weight[:, None], curvature * weight[:, None]
