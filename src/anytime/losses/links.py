"""From scores to answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from anytime._native import logistic

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Link:
    """A function from scores to answers.

    Attributes
    ----------
    name : str
    classifies : bool
        Whether ``transform`` returns class probabilities (n, C) or predictions (n, K).
    transform : callable
    binary : bool, default=False
        Whether a single score stands for two classes.
    """

    name: str
    classifies: bool
    transform: Callable[[Array], Array]
    binary: bool = False

    def n_classes(self, n_outputs: int) -> int:
        """Number of classes of ``n_outputs`` scores."""
        return 2 if self.binary else n_outputs

    def n_outputs(self, n_classes: int) -> int:
        """Number of scores for ``n_classes`` classes."""
        return 1 if self.binary else n_classes

    def decide(self, scores: Array, classes: NDArray[Any] | None = None) -> NDArray[Any]:
        """Answers from scores, (n, K): the leading of ``classes``, or values, (n,) or (n, K), if there are none."""
        if classes is None:
            values = self.transform(scores)
            return np.asarray(values[:, 0] if values.shape[1] == 1 else values)
        return np.asarray(classes[self.leading(scores)])

    def leading(self, scores: Array) -> NDArray[np.intp]:
        """(n,) the number of the leading class."""
        return (scores[:, 0] > 0).astype(np.intp) if self.binary else scores.argmax(axis=1)

    def margin(self, scores: Array) -> Array:
        """Lead of the leading class, (n,): ``|f|`` for two classes on one score, top minus second otherwise."""
        if scores.shape[1] == 1:
            return np.abs(scores[:, 0])
        top = np.partition(scores, -2, axis=1)
        return np.asarray(top[:, -1] - top[:, -2])


def _logistic(log_odds: Array) -> Array:
    return logistic(np.ascontiguousarray(log_odds[:, :1], dtype=np.float64))


def _softmax(scores: Array) -> Array:
    # the steps of scipy.special.softmax, whose looking at its arguments takes longer than a few rows do
    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _summing_to_one(probabilities: Array) -> Array:
    """Each row divided by its sum; even where nothing is left."""
    total = probabilities.sum(axis=1, keepdims=True)
    even = np.full_like(probabilities, 1.0 / probabilities.shape[1])
    return np.asarray(np.divide(probabilities, total, out=even, where=total > 0))


def least_cost(probabilities: Array, cost_matrix: ArrayLike) -> NDArray[np.intp]:
    """(n,) the class with the lowest expected cost.

    Parameters
    ----------
    probabilities : (n, C)
    cost_matrix : (C, C) or (n, C, C)
        The cost of answering the second class if the first is true, for all rows or for each.
    """
    matrix = np.asarray(cost_matrix, dtype=np.float64)
    n, n_classes = probabilities.shape
    if (
        matrix.shape not in ((n_classes, n_classes), (n, n_classes, n_classes))
        or not np.isfinite(matrix).all()
    ):
        raise ValueError(
            f"cost_matrix has shape {matrix.shape}, but needs finite numbers for {n_classes} true and as many answered classes, "
            f"({n_classes}, {n_classes}), or such a table for each of {n} rows"
        )
    expected = np.einsum("nj,jk->nk" if matrix.ndim == 2 else "nj,njk->nk", probabilities, matrix)
    return np.asarray(expected.argmin(axis=1))


def _leading(scores: Array) -> Array:
    """All of the probability on the largest score."""
    return np.asarray(np.eye(scores.shape[1])[scores.argmax(axis=1)])


LINKS = {
    link.name: link
    for link in (
        Link("identity", False, lambda scores: scores),
        Link("exp", False, np.exp),
        Link("signed_square", False, lambda scores: np.sign(scores) * scores**2),
        Link("regression_logistic", False, expit),
        Link("softplus", False, lambda scores: np.logaddexp(0.0, scores)),
        Link("logistic", True, _logistic, binary=True),
        # exponential losses are least where scores are half the log-odds
        Link("half_logistic", True, lambda scores: _logistic(2.0 * scores), binary=True),
        Link("softmax", True, _softmax),
        Link("half_softmax", True, lambda scores: _softmax(2.0 * scores)),
        Link("ova", True, expit),  # one against all as LightGBM has it: rows need not sum to 1
        Link("one_vs_all", True, lambda scores: _summing_to_one(expit(scores))),
        Link("probability", True, lambda scores: scores),
        Link("counts", True, _summing_to_one),  # sums over the leaves of a forest
        Link("least_cost", True, _leading),  # scores are expected costs with their sign changed
        Link("least_squares", True, lambda scores: _summing_to_one(np.clip(scores, 0.0, 1.0))),
    )
}
