"""What boosting lowers: a mean loss over training rows, as a functional of the scores on those rows."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.losses import LINKS, Loss, line_search, ndcg_shortfall, training_loss
from anytime.plan import Array
from anytime.trees.growing import loss_derivatives

Rows = NDArray[np.intp] | slice

_NATIVE: dict[str, Literal["squared", "logistic", "softmax"]] = {
    "squared": "squared",
    "logistic": "logistic",
    "multinomial": "softmax",
}


class MeanLoss:
    """The mean loss over the training rows: a functional with values and gradients on those rows.

    Parameters
    ----------
    loss : Loss
    y : (n,) or (n, K)
    weight : (n,), default=None
        Scaled to sum to 1.

    Attributes
    ----------
    total : float
        What the weights summed to.
    """

    def __init__(self, loss: Loss, y: NDArray[Any], weight: ArrayLike | None = None) -> None:
        weights = np.ones(len(y)) if weight is None else np.asarray(weight, dtype=np.float64)
        if (
            weights.shape != (len(y),)
            or not np.isfinite(weights).all()
            or (weights < 0).any()
            or not weights.sum() > 0
        ):
            raise ValueError(f"weights must be {len(y)} finite numbers, none of them negative and not all 0")
        self.loss, self.y, self.total = loss, y, float(weights.sum())
        self.weight = weights / self.total

    def __len__(self) -> int:
        return len(self.y)

    @cached_property
    def given_weight(self) -> Array | None:
        """(n,) the weights as they were given; None where each is 1."""
        even = np.ptp(self.weight) == 0 and self.total == len(self.y)
        return None if even else self.weight * self.total

    def shares(self, rows: Rows) -> Array:
        """Weights of some rows, which sum to 1."""
        weight = self.weight[rows]
        return weight if isinstance(rows, slice) else np.asarray(weight / weight.sum())

    def value(self, scores: Array, rows: Rows = slice(None)) -> float:
        """Mean loss of scores (n, K) of all rows, over some of them."""
        return self.value_of(scores[rows], rows)

    def value_of(self, scores: Array, rows: Rows) -> float:
        """Mean loss of scores (m, K) of some rows."""
        return float(self.shares(rows) @ self.loss.per_row(scores, self.y[rows]))

    def judged(self, scores: Array, rows: Rows = slice(None)) -> float:
        """What held-out rows are judged by.

        The mean loss; for classes the squared error of their probabilities, which, unlike the logarithm, does not end training
        because of a few rows that are sure and wrong; for rankings, how far NDCG falls short of 1.
        """
        if self.loss.ranks:
            return ndcg_shortfall(scores[rows], self.y[rows])
        link = LINKS[self.loss.link]
        if not link.classifies:
            return self.value(scores, rows)
        probabilities = link.transform(scores[rows])
        truth = np.asarray(self.y[rows], dtype=np.intp)
        squares = (
            np.einsum("nk,nk->n", probabilities, probabilities)
            + 1.0
            - 2.0 * probabilities[np.arange(len(truth)), truth]
        )
        return float(self.shares(rows) @ squares)

    def residual(self, scores: Array) -> Array:
        """(n, K) the negative gradient."""
        return np.negative(self.loss.required_gradient()(scores, self.y))

    def curvature(self, scores: Array) -> float:
        """How much the loss bends as a whole, where it has no second derivative to say so.

        As a parabola that falls to 0 from the value here with the slope here (Polyak's rule): it is 1 for squares, and never
        more than the smoothness of a loss that is nowhere negative. So steps go with the scale of the targets.
        """
        value, pull = self.value(scores), self.residual(scores)
        square = self.inner(pull, pull)
        return square / (2.0 * value) if value > 0 and square > 0 else (self.loss.smoothness or 1.0)

    def inner(self, f: Array, g: Array, rows: Rows = slice(None)) -> float:
        """Inner product of two functions given by their values on the rows."""
        return float(self.shares(rows) @ np.einsum("nk,nk->n", f[rows], g[rows]))

    def search(
        self,
        scores: Array,
        direction: Array,
        largest: float,
        rows: Rows = slice(None),
        value: float | None = None,
    ) -> tuple[float, float]:
        """The step along ``direction`` with the least mean loss over some rows, and how much less it is.

        ``value`` is the mean loss of ``scores`` over those rows, where it is known.
        """
        weight = self.weight[rows]
        return line_search(
            self.loss, scores[rows], direction[rows], self.y[rows], weight, largest=largest, at_start=value
        )

    @cached_property
    def units(self) -> NDArray[np.intp]:
        """(n,) the unit of each row: rows that are judged together, such as those of a query, may not be torn apart."""
        if not self.loss.ranks:
            return np.arange(len(self))
        return np.unique(self.y[:, 1], return_inverse=True)[1].reshape(-1)

    def n_units(self) -> int:
        """Number of units; an error where there is only one."""
        n_units = int(self.units.max()) + 1
        if n_units < 2:
            raise ValueError("there is only one row (one query, for ranking), so none can be held out")
        return n_units

    def split(self, share: float, random: np.random.RandomState) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows drawn at random, a ``share`` of all units aside: the others, and those aside."""
        n_units = self.n_units()
        aside = np.zeros(n_units, dtype=bool)
        aside[random.permutation(n_units)[: min(max(round(share * n_units), 1), n_units - 1)]] = True
        return np.flatnonzero(~aside[self.units]), np.flatnonzero(aside[self.units])


def derivatives(
    objective: MeanLoss, scores: Array, n_threads: int = 1
) -> tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]:
    """(n, K) gradient and diagonal of the Hessian of each row's loss, times the weight that it was given.

    A loss without a Hessian is taken to curve the same everywhere; both are then divided by that curvature, so that a row counts
    as 1 in the ridge and the least weight of a leaf.
    """
    loss, y = objective.loss, objective.y
    weight = objective.given_weight
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
