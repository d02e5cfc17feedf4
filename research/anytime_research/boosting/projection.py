"""Projection of a gradient onto what a weak learner can represent, and the edge that it achieves.

Functions are given by their values on the training rows, (n, K), under a measure of the rows:
``<f, g> = sum_n p_n f(x_n) . g(x_n)``, with ``p_n = 1 / n`` unless weights are given. A learner finds a direction h; what is
used of it is its multiple that is nearest to the gradient g (Grubb, *Anytime Prediction*, 2014, section 2.2):

- by angle, the largest ``|<g, h>| / |h|`` (2.11): for any set of functions, such as classifiers or the words of a dictionary;
- by distance, the least ``|g - h|`` (2.12): for sets that hold every multiple of what they hold, such as regressors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

Array = NDArray[np.float64]
Predictor = Callable[[Any], Array]

__all__ = [
    "Dictionary",
    "Predictor",
    "Projection",
    "TargetLearner",
    "advantage",
    "classification",
    "coded",
    "edge_floor",
    "inner",
    "length",
    "measure",
    "project",
    "regression",
]


class TargetLearner(Protocol):
    """Anything that fits a function to a target: a closure over the training rows will do."""

    def __call__(self, target: Array, weight: Array) -> tuple[Predictor, Array]:
        """A predictor ``p(X)`` that points where ``target`` (n, K) points, and its outputs on the training rows, (n, K)."""


@dataclass(frozen=True, eq=False)
class Projection:
    """The shadow that a target casts on a weak predictor.

    Attributes
    ----------
    predictor : callable
    outputs : (n, K)
        On the training rows.
    coefficient : float
        ``<g, h> / |h|²``, of either sign: the multiple of the outputs that is nearest to the target.
    edge : float
        ``|<g, h>| / (|g| |h|)``, between 0 (the predictor is of no use) and 1 (it is the target).
    """

    predictor: Predictor
    outputs: Array
    coefficient: float
    edge: float


def measure(n_rows: int, weight: ArrayLike | None = None) -> Array:
    """(n,) the measure of the rows: ``weight`` as it is, or 1/n each."""
    if weight is None:
        return np.full(n_rows, 1.0 / n_rows)
    given = np.asarray(weight, dtype=np.float64)
    if given.shape != (n_rows,) or not np.isfinite(given).all() or (given < 0).any() or not given.any():
        raise ValueError(f"weight must be {n_rows} finite numbers that are not negative, and not all 0")
    return given


def inner(f: Array, g: Array, weight: Array) -> float:
    """``<f, g>``."""
    return float(np.einsum("n,nk,nk->", weight, f, g))


def length(f: Array, weight: Array) -> float:
    """``|f|``."""
    return float(np.sqrt(inner(f, f, weight)))


def project(target: Array, learner: TargetLearner, weight: ArrayLike | None = None) -> Projection:
    """Project ``target`` (n, K) onto ``learner``.

    Examples
    --------
    >>> towards = project(np.array([[3.0], [4.0]]), Dictionary([[[1.0], [0.0]], [[0.0], [1.0]]]))
    >>> towards.coefficient, round(towards.edge, 2)
    (4.0, 0.8)
    """
    share = measure(len(target), weight)
    predictor, outputs = learner(target, share)
    pull, square = inner(target, outputs, share), inner(outputs, outputs, share)
    both = np.sqrt(square) * length(target, share)
    if both == 0:
        return Projection(predictor, outputs, 0.0, 0.0)
    return Projection(predictor, outputs, pull / square, min(abs(pull) / float(both), 1.0))


# ---------------------------------------------------------------------- learners


class Dictionary:
    """Finitely many functions, all of them tried.

    Parameters
    ----------
    outputs : (J, n, K) or (J, n)
        Of each function on the training rows. Its predictor takes the outputs of all functions on other rows.
    by : {"angle", "distance"}, default="angle"
        Equally good ones: the first.
    """

    def __init__(self, outputs: ArrayLike, *, by: Literal["angle", "distance"] = "angle") -> None:
        given = np.asarray(outputs, dtype=np.float64)
        if given.ndim not in (2, 3):
            raise ValueError(
                f"outputs must be (J, n) or (J, n, K), functions by rows; got shape {given.shape}"
            )
        if by not in ("angle", "distance"):
            raise ValueError(f"by is {by!r}; it is 'angle' or 'distance'")
        self.outputs, self.by = given.reshape(*given.shape[:2], -1), by

    def __call__(self, target: Array, weight: Array) -> tuple[Predictor, Array]:
        """The function nearest to ``target``."""
        words = self.outputs.reshape(len(self.outputs), -1)
        pull = words @ (weight[:, None] * target).ravel()
        squares = np.einsum("n,jnk,jnk->j", weight, self.outputs, self.outputs)
        if self.by == "distance":
            best = int(np.argmax(2.0 * pull - squares))
        else:
            best = int(np.argmax(np.divide(np.abs(pull), np.sqrt(squares), out=0 * pull, where=squares > 0)))
        return itemgetter(best), self.outputs[best]


def regression(estimator: Any, X: Any) -> TargetLearner:
    """Projection by distance: least squares by a regressor of scikit-learn's kind."""

    def fit(target: Array, weight: Array) -> tuple[Predictor, Array]:
        n_outputs = target.shape[1]
        fitted = clone(estimator).fit(X, target if n_outputs > 1 else target[:, 0], **_weighted(weight))

        def predictor(X: Any) -> Array:
            return np.reshape(np.asarray(fitted.predict(X), dtype=np.float64), (-1, n_outputs))

        return predictor, predictor(X)

    return fit


def classification(estimator: Any, X: Any) -> TargetLearner:
    """Projection by angle: weighted classification by a classifier of scikit-learn's kind.

    One output: labels are the signs of the target, weights its size (2.13), and outputs are -1 and 1. Several: an answer k
    earns the target's k-th entry (cost-sensitive classification, Theorem 2.2.3), and outputs are ``coded``.
    """

    def fit(target: Array, weight: Array) -> tuple[Predictor, Array]:
        n, n_outputs = target.shape
        if n_outputs == 1:
            rows, labels = np.arange(n), (target[:, 0] >= 0).astype(np.intp)
            reward = np.abs(target[:, 0])
        else:  # a copy of each row for each answer, which weighs what it earns more than the worst one
            rows, labels = np.repeat(np.arange(n), n_outputs), np.tile(np.arange(n_outputs), n)
            reward = (target - target.min(axis=1, keepdims=True)).ravel()
        mass = weight[rows] * reward
        kept = np.flatnonzero(mass)
        classes = labels[kept] if kept.size else labels[:1]
        if (classes == classes[0]).all():
            predictor = _constant(int(classes[0]), n_outputs)
        else:
            fitted = clone(estimator).fit(np.asarray(X)[rows[kept]], classes, **_weighted(mass[kept]))
            predictor = _deciding(fitted, n_outputs)
        return predictor, predictor(X)

    return fit


def _deciding(fitted: Any, n_outputs: int) -> Predictor:
    return lambda X: coded(fitted.predict(X), n_outputs)


def _constant(label: int, n_outputs: int) -> Predictor:
    return lambda X: coded(np.full(len(X), label), n_outputs)


def _weighted(weight: Array) -> dict[str, Array]:
    """Equal weights are not mentioned: some estimators take none."""
    return {} if (weight == weight[0]).all() else {"sample_weight": weight / weight.mean()}


def coded(labels: NDArray[Any], n_outputs: int) -> Array:
    """(n, K) the answers of a classifier as directions: 1 for the class it names, ``-1 / (K - 1)`` for the others.

    With one output, -1 and 1 for classes 0 and 1.
    """
    if n_outputs == 1:
        return np.where(np.asarray(labels) > 0, 1.0, -1.0)[:, None]
    named = np.arange(n_outputs) == np.asarray(labels)[:, None]
    return np.where(named, 1.0, -1.0 / (n_outputs - 1))


# ---------------------------------------------------------------------- classical weak learning


def advantage(target: Array, labels: NDArray[Any]) -> float:
    """By how much a classifier beats chance, as boosting usually counts it: the largest d of Theorems 2.2.2 and 2.2.3.

    One output: correct less wrong weight, as a share of all weight, with weights ``|target|``. Several: what the answers earn,
    as a share of the most that could be earned, with each row of ``target`` shifted to mean 0.

    Parameters
    ----------
    target : (n, K)
    labels : (n,)
        Answers of the classifier; with one output 0 and 1, for a target below and above 0.
    """
    if target.shape[1] == 1:
        return float((coded(labels, 1) * target).sum() / np.abs(target).sum())
    reward = target - target.mean(axis=1, keepdims=True)
    earned = reward[np.arange(len(reward)), np.asarray(labels, dtype=np.intp)]
    return float(earned.sum() / reward.max(axis=1).sum())


def edge_floor(
    advantage: float, n_rows: int, n_classes: int = 2, *, form: Literal["corrected", "printed"] = "corrected"
) -> float:
    """Theorems 2.2.2 and 2.2.3: the edge that an ``advantage`` over chance implies, when rows count evenly.

    ``d / sqrt(N)`` for two classes, ``d / ((K - 1) sqrt(N))`` for K on as many outputs, which is attained. "printed" is
    ``d / sqrt(N)`` for any K, and wrong for more than two. The other way round, an edge implies an advantage of at least itself.
    """
    if form not in ("corrected", "printed"):
        raise ValueError(f"form is {form!r}; it is 'corrected' or 'printed'")
    others = 1 if form == "printed" else n_classes - 1
    return advantage / (others * float(np.sqrt(n_rows)))
