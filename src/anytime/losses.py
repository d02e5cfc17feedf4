"""From scores to answers (links), and how good scores are (losses).

A plan adds up raw scores; its link turns them into what a user asks for, and a loss says how far they are from the truth.
Both work on ``scores`` of shape (n, K).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, softmax

Array = NDArray[np.float64]

__all__ = ["LINKS", "LOSSES", "Link", "Loss", "loss_for"]


@dataclass(frozen=True)
class Link:
    """How scores become an answer.

    Attributes
    ----------
    name : str
    classifies : bool
        Whether ``transform`` gives class probabilities (n, C) or predictions (n, K).
    transform : callable
    """

    name: str
    classifies: bool
    transform: Callable[[Array], Array]

    def n_classes(self, n_outputs: int) -> int:
        """Number of classes that ``n_outputs`` scores speak of."""
        return 2 if self.name == "logistic" else n_outputs

    def margin(self, scores: Array) -> Array:
        """How far the leading class is ahead, (n,): ``|f|`` for two classes on one score, top minus second otherwise."""
        if scores.shape[1] == 1:
            return np.abs(scores[:, 0])
        top = np.partition(scores, -2, axis=1)
        return np.asarray(top[:, -1] - top[:, -2])


def _logistic(scores: Array) -> Array:
    positive = expit(scores[:, 0])
    return np.column_stack([1.0 - positive, positive])


LINKS = {
    link.name: link
    for link in (
        Link("identity", False, lambda scores: scores),
        Link("exp", False, np.exp),
        Link("signed_square", False, lambda scores: np.sign(scores) * scores**2),
        Link("regression_logistic", False, expit),
        Link("softplus", False, lambda scores: np.logaddexp(0.0, scores)),
        Link("logistic", True, _logistic),
        Link("softmax", True, lambda scores: np.asarray(softmax(scores, axis=1))),
        Link("ova", True, expit),  # one against all: each class by itself, so a row need not sum to 1
        Link("probability", True, lambda scores: scores),
    )
}


@dataclass(frozen=True)
class Loss:
    """A mean loss of scores against truth.

    ``per_row(scores (n, K), y)`` gives (n,) losses; ``y`` holds class numbers for classification, targets otherwise.
    """

    name: str
    per_row: Callable[[Array, NDArray[np.generic]], Array]

    def __call__(self, scores: Array, y: NDArray[np.generic], sample_weight: Array | None = None) -> float:
        return float(np.average(self.per_row(scores, y), weights=sample_weight))


def _squared(scores: Array, y: NDArray[np.generic]) -> Array:
    return np.asarray(0.5 * ((scores - np.reshape(y, (len(scores), -1))) ** 2).sum(axis=1))


def _log_logistic(scores: Array, y: NDArray[np.generic]) -> Array:
    signed = np.where(np.asarray(y) > 0, -scores[:, 0], scores[:, 0])
    return np.asarray(np.logaddexp(0.0, signed))


def _log_softmax(scores: Array, y: NDArray[np.generic]) -> Array:
    return np.asarray(-log_softmax(scores, axis=1)[np.arange(len(scores)), np.asarray(y, dtype=np.intp)])


def _brier(to_chances: Callable[[Array], Array]) -> Callable[[Array, NDArray[np.generic]], Array]:
    """Squared distance of chances from the truth: a single tree that is sure and wrong costs 1, not infinity."""

    def per_row(scores: Array, y: NDArray[np.generic]) -> Array:
        wrong = to_chances(scores).copy()
        wrong[np.arange(len(scores)), np.asarray(y, dtype=np.intp)] -= 1.0
        return np.asarray(0.5 * (wrong**2).sum(axis=1))

    return per_row


def _poisson(scores: Array, y: NDArray[np.generic]) -> Array:
    return np.asarray(np.exp(scores[:, 0]) - np.asarray(y, dtype=np.float64) * scores[:, 0])


def _squared_after(link: Link) -> Callable[[Array, NDArray[np.generic]], Array]:
    return lambda scores, y: _squared(link.transform(scores), y)


LOSSES = {
    "identity": Loss("squared", _squared),
    "exp": Loss("poisson", _poisson),
    "signed_square": Loss("squared", _squared_after(LINKS["signed_square"])),
    "regression_logistic": Loss("squared", _squared_after(LINKS["regression_logistic"])),
    "logistic": Loss("logistic", _log_logistic),
    "softmax": Loss("softmax", _log_softmax),
    "softplus": Loss("squared", _squared_after(LINKS["softplus"])),
    "ova": Loss("Brier", _brier(expit)),
    "probability": Loss("Brier", _brier(lambda scores: scores)),
}


def loss_for(link: str) -> Loss:
    """The loss by which scores under ``link`` are judged."""
    return LOSSES[link]
