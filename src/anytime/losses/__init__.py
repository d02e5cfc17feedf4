"""From scores to answers (links), and how good scores are (losses).

A plan adds up raw scores; its link turns them into what a user asks for, and a loss says how far they are from the truth.
Both work on ``scores`` of shape (n, K). A learner asks a loss for its gradient and for the bounds on its curvature that step
sizes and guarantees are made of (Grubb, *Anytime Prediction*, seed 003, equations 2.8 and 2.9).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, softmax

Array = NDArray[np.float64]
Target = NDArray[np.generic]

__all__ = ["LINKS", "LOSSES", "TRAINING_LOSSES", "Link", "Loss", "huber", "loss_for", "training_loss"]


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


def _summing_to_one(chances: Array) -> Array:
    """Each row divided by its sum; even where nothing is left."""
    total = chances.sum(axis=1, keepdims=True)
    even = np.full_like(chances, 1.0 / chances.shape[1])
    return np.asarray(np.divide(chances, total, out=even, where=total > 0))


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
        Link(
            "ova", True, expit
        ),  # one against all as LightGBM has it: each class by itself, rows need not sum to 1
        Link("one_vs_all", True, lambda scores: _summing_to_one(expit(scores))),
        Link("probability", True, lambda scores: scores),
        Link("least_squares", True, lambda scores: _summing_to_one(np.clip(scores, 0.0, 1.0))),
    )
}


@dataclass(frozen=True)
class Loss:
    """A loss of scores against truth: its value and gradient row by row, its curvature, and the answer its scores stand for.

    ``y`` holds class numbers for classification, targets (n,) or (n, K) otherwise. A loss of your own needs a name, ``per_row``
    and, to learn by it, ``gradient``; ``smoothness`` lets learners know how far they can step.

    Parameters
    ----------
    name : str
    per_row : callable
        ``per_row(scores (n, K), y)`` gives (n,) losses.
    gradient : callable, default=None
        ``gradient(scores (n, K), y)`` gives the derivative of each row's loss in its scores, (n, K); where it has a kink, one
        subgradient.
    convexity : float, default=0
        Largest m for which each row's loss minus ``m/2 |scores|^2`` is convex.
    smoothness : float, default=None
        Smallest M for which ``M/2 |scores|^2`` minus each row's loss is convex; None where there is none.
    link : str, default="identity"
        The name in ``LINKS`` of what turns scores into answers.
    constant : callable, default=None
        ``constant(y, n_outputs, weight)``, with weights that sum to 1, gives the best constant score where it is known in
        closed form; otherwise it is searched for.

    Examples
    --------
    >>> rounded = Loss("log-cosh", lambda s, y: np.log(np.cosh(s[:, 0] - y)),
    ...                gradient=lambda s, y: np.tanh(s - y[:, None]), smoothness=1.0)
    >>> rounded.base(np.array([0.0, 0.0, 3.0])).round(2)
    array([0.54])
    """

    name: str
    per_row: Callable[[Array, Target], Array]
    gradient: Callable[[Array, Target], Array] | None = None
    convexity: float = 0.0
    smoothness: float | None = None
    link: str = "identity"
    constant: Callable[[Target, int, Array], Array] | None = None

    def __call__(self, scores: Array, y: Target, sample_weight: Array | None = None) -> float:
        return float(np.average(self.per_row(scores, y), weights=sample_weight))

    def n_outputs(self, y: Target) -> int:
        """Number of scores per row that targets ``y`` ask for."""
        if not LINKS[self.link].classifies:
            return 1 if y.ndim == 1 else int(y.shape[1])
        return 1 if self.link == "logistic" else int(np.max(y)) + 1

    def base(self, y: Target, n_outputs: int | None = None, sample_weight: ArrayLike | None = None) -> Array:
        """The constant score with the least mean loss, (K,): the answer before anything is known of a row.

        Shares of classes are kept half a row away from 0 and 1, so that it is finite.
        """
        n_outputs = self.n_outputs(y) if n_outputs is None else n_outputs
        weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        weight = weight / weight.sum()
        if self.constant is not None:
            return self.constant(y, n_outputs, weight)
        gradient = self.required_gradient()

        def mean_loss(score: Array) -> tuple[float, Array]:
            scores = np.tile(score, (len(y), 1))
            return float(weight @ self.per_row(scores, y)), weight @ gradient(scores, y)

        found = minimize(mean_loss, np.zeros(n_outputs), jac=True, method="BFGS", options={"gtol": 1e-9})
        return np.asarray(found.x, dtype=np.float64)

    def required_gradient(self) -> Callable[[Array, Target], Array]:
        """``gradient``, or an error that says what to do without it."""
        if self.gradient is None:
            raise ValueError(
                f"the loss {self.name!r} has no gradient to learn by: give Loss(..., gradient=...), or take one of "
                f"{', '.join(TRAINING_LOSSES)}"
            )
        return self.gradient


# ---------------------------------------------------------------------- targets


def _columns(scores: Array, y: Target) -> Array:
    """Targets as (n, K)."""
    return np.reshape(np.asarray(y, dtype=np.float64), (len(scores), -1))


def _less_truth(values: Array, y: Target) -> Array:
    """``values`` (n, K), changed in place: minus 1 in the column of each row's class."""
    values[np.arange(len(values)), np.asarray(y, dtype=np.intp)] -= 1.0
    return values


def _mean(y: Target, n_outputs: int, weight: Array) -> Array:
    return np.asarray(weight @ np.reshape(np.asarray(y, dtype=np.float64), (len(y), n_outputs)))


def _shares(y: Target, n_outputs: int, weight: Array) -> Array:
    return np.bincount(np.asarray(y, dtype=np.intp), weights=weight, minlength=n_outputs).astype(np.float64)


def _inside(shares: Array, weight: Array) -> Array:
    """Shares at least half a row away from 0 and 1."""
    return np.clip(shares, 0.5 / weight.size, 1.0 - 0.5 / weight.size)


def _positive(y: Target) -> NDArray[np.bool_]:
    return np.asarray(np.asarray(y, dtype=np.float64) > 0)


def _logit(shares: Array) -> Array:
    return np.asarray(np.log(shares) - np.log1p(-shares))


def _centred(values: Array) -> Array:
    return np.asarray(values - values.mean())


# ---------------------------------------------------------------------- the losses


def _squared(scores: Array, y: Target) -> Array:
    return np.asarray(0.5 * ((scores - _columns(scores, y)) ** 2).sum(axis=1))


def _log_logistic(scores: Array, y: Target) -> Array:
    signed = np.where(_positive(y), -scores[:, 0], scores[:, 0])
    return np.asarray(np.logaddexp(0.0, signed))


def _log_softmax(scores: Array, y: Target) -> Array:
    return np.asarray(-log_softmax(scores, axis=1)[np.arange(len(scores)), np.asarray(y, dtype=np.intp)])


def _log_one_vs_all(scores: Array, y: Target) -> Array:
    rows = np.arange(len(scores))
    return np.asarray(np.logaddexp(0.0, scores).sum(axis=1) - scores[rows, np.asarray(y, dtype=np.intp)])


def _brier(to_chances: Callable[[Array], Array]) -> Callable[[Array, Target], Array]:
    """Squared distance of chances from the truth: a single tree that is sure and wrong costs 1, not infinity."""

    def per_row(scores: Array, y: Target) -> Array:
        return np.asarray(0.5 * (_less_truth(to_chances(scores).copy(), y) ** 2).sum(axis=1))

    return per_row


def _poisson(scores: Array, y: Target) -> Array:
    return np.asarray((np.exp(scores) - _columns(scores, y) * scores).sum(axis=1))


def _squared_after(link: Link) -> Callable[[Array, Target], Array]:
    return lambda scores, y: _squared(link.transform(scores), y)


def huber(delta: float = 1.0) -> Loss:
    """Squared loss within ``delta`` of the target, growing linearly beyond: outliers pull with a bounded force."""

    def per_row(scores: Array, y: Target) -> Array:
        away = np.abs(scores - _columns(scores, y))
        near = np.minimum(away, delta)
        return np.asarray((near * (away - 0.5 * near)).sum(axis=1))

    return Loss(
        "huber",
        per_row,
        gradient=lambda scores, y: np.clip(scores - _columns(scores, y), -delta, delta),
        smoothness=1.0,
    )


TRAINING_LOSSES = {
    loss.name: loss
    for loss in (
        Loss(
            "squared",
            _squared,
            gradient=lambda scores, y: scores - _columns(scores, y),
            convexity=1.0,
            smoothness=1.0,
            constant=_mean,
        ),
        Loss(
            "logistic",
            _log_logistic,
            gradient=lambda scores, y: expit(scores) - _positive(y)[:, None],
            smoothness=0.25,
            link="logistic",
            constant=lambda y, _, weight: _logit(_inside(weight @ _positive(y)[:, None], weight)),
        ),
        Loss(
            "multinomial",
            _log_softmax,
            gradient=lambda scores, y: _less_truth(np.asarray(softmax(scores, axis=1)), y),
            smoothness=0.5,
            link="softmax",
            constant=lambda y, k, weight: _centred(np.log(_inside(_shares(y, k, weight), weight))),
        ),
        Loss(
            "one_vs_all",
            _log_one_vs_all,
            gradient=lambda scores, y: _less_truth(expit(scores), y),
            smoothness=0.25,
            link="one_vs_all",
            constant=lambda y, k, weight: _logit(_inside(_shares(y, k, weight), weight)),
        ),
        Loss(
            "least_squares",  # to the indicator of each class
            _brier(lambda scores: scores),
            gradient=lambda scores, y: _less_truth(scores.copy(), y),
            convexity=1.0,
            smoothness=1.0,
            link="least_squares",
            constant=_shares,
        ),
        Loss(
            "poisson",
            _poisson,
            gradient=lambda scores, y: np.exp(scores) - _columns(scores, y),
            link="exp",
            constant=lambda y, k, weight: np.log(np.maximum(_mean(y, k, weight), 0.5 / weight.size)),
        ),
        huber(),
    )
}


def training_loss(loss: str | Loss) -> Loss:
    """A loss to learn by: one's own, or by its name in ``TRAINING_LOSSES``."""
    if isinstance(loss, Loss):
        loss.required_gradient()
        return loss
    if loss not in TRAINING_LOSSES:
        raise ValueError(
            f"no loss {loss!r}; the losses are {', '.join(TRAINING_LOSSES)}, or a Loss of your own"
        )
    return TRAINING_LOSSES[loss]


# ---------------------------------------------------------------------- judging

LOSSES = {
    "identity": TRAINING_LOSSES["squared"],
    "exp": TRAINING_LOSSES["poisson"],
    "signed_square": Loss("squared", _squared_after(LINKS["signed_square"]), link="signed_square"),
    "regression_logistic": Loss(
        "squared", _squared_after(LINKS["regression_logistic"]), link="regression_logistic"
    ),
    "logistic": TRAINING_LOSSES["logistic"],
    "softmax": TRAINING_LOSSES["multinomial"],
    "softplus": Loss("squared", _squared_after(LINKS["softplus"]), link="softplus"),
    "ova": Loss("Brier", _brier(expit), link="ova"),
    "probability": Loss("Brier", _brier(lambda scores: scores), link="probability"),
    "one_vs_all": TRAINING_LOSSES["one_vs_all"],
    "least_squares": TRAINING_LOSSES["least_squares"],
}


def loss_for(link: str) -> Loss:
    """The loss by which scores under ``link`` are judged."""
    return LOSSES[link]
