"""The ``Loss`` class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize

from anytime.losses.links import LINKS

Array = NDArray[np.float64]
Target = NDArray[np.generic]


@dataclass(frozen=True)
class Loss:
    """A loss of scores against the truth: value and gradient row by row, curvature, and the link of its scores.

    ``y`` holds class numbers for classification, targets (n,) or (n, K) otherwise, and (n, 2), grade and query, for ranking. Your
    own loss needs a name, ``per_row`` and, for training, ``gradient``; from ``smoothness``, learners derive step sizes.

    Parameters
    ----------
    name : str
    per_row : callable
        ``per_row(scores (n, K), y)`` returns (n,) losses, whose mean is the objective.
    gradient : callable, default=None
        ``gradient(scores (n, K), y)`` returns the derivative of each row's loss in its scores, (n, K); at a kink, one
        subgradient. If a row's score enters other rows' losses, as in ranking, n times the derivative of the mean.
    hessian : callable, default=None
        ``hessian(scores (n, K), y)`` returns the second derivative in each score alone, (n, K).
    convexity : float, default=0
        Largest m for which each row's loss minus ``m/2 |scores|^2`` is convex.
    smoothness : float, default=None
        Smallest M for which ``M/2 |scores|^2`` minus each row's loss is convex; None if there is none.
    kinked : bool, default=False
        Whether it lacks a derivative at some scores.
    link : str, default="identity"
        Name in ``LINKS`` of the link that turns scores into answers.
    constant : callable, default=None
        ``constant(y, n_outputs, weight)``, with weights that sum to 1, returns the best constant score in closed
        form. None: it is found by search.
    step : callable, default=None
        ``step(scores, direction, y, weight)`` returns the best step along ``direction`` if it has a closed form, else None;
        see ``line_search``.
    ranks : bool, default=False
        Whether ``y`` is (n, 2): grade and query.

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
    hessian: Callable[[Array, Target], Array] | None = None
    step: Callable[[Array, Array, Target, Array], float | None] | None = None
    kinked: bool = False
    ranks: bool = False

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A copy of a loss of this library is that loss, which native code knows."""
        from anytime.losses.catalogue import TRAINING_LOSSES, training_loss

        if TRAINING_LOSSES.get(self.name) is self:
            return training_loss, (self.name,)
        return super().__reduce_ex__(protocol)

    def __call__(self, scores: Array, y: Target, sample_weight: Array | None = None) -> float:
        return float(np.average(self.per_row(scores, y), weights=sample_weight))

    def n_outputs(self, y: Target) -> int:
        """Number of scores per row for targets ``y``."""
        if LINKS[self.link].classifies:
            return LINKS[self.link].n_outputs(int(np.max(y)) + 1)
        return 1 if y.ndim == 1 or self.ranks else int(y.shape[1])

    def base(self, y: Target, n_outputs: int | None = None, sample_weight: ArrayLike | None = None) -> Array:
        """The constant score with the lowest mean loss, (K,): the answer before the first stage.

        Class frequencies stay half a row away from 0 and 1, so that it is finite.
        """
        n_outputs = self.n_outputs(y) if n_outputs is None else n_outputs
        weight = np.ones(len(y)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        weight = weight / weight.sum()
        if self.constant is not None:
            return self.constant(y, n_outputs, weight)
        gradient = self.required_gradient()

        def mean_loss(score: Array) -> float:
            return float(weight @ self.per_row(np.tile(score, (len(y), 1)), y))

        def slope(score: Array) -> Array:
            return np.asarray(weight @ gradient(np.tile(score, (len(y), 1)), y))

        start = np.zeros(n_outputs)
        if self.kinked:  # no gradient says there that it is the best
            optimum = minimize(mean_loss, start, method="Powell", options={"xtol": 1e-9, "ftol": 1e-15})
        else:
            optimum = minimize(mean_loss, start, jac=slope, method="BFGS", options={"gtol": 1e-9})
        return np.reshape(np.asarray(optimum.x, dtype=np.float64), n_outputs)

    def required_gradient(self) -> Callable[[Array, Target], Array]:
        """``gradient``, or an error that says what to do without it."""
        if self.gradient is None:
            raise ValueError(
                f"the loss {self.name!r} has no gradient, which training needs: give Loss(..., gradient=...), or use one of "
                "anytime.losses.TRAINING_LOSSES"
            )
        return self.gradient


def regularised(loss: Loss, l2_regularization: float) -> Loss:
    """``loss`` plus ``l2_regularization / 2`` times the squared length of the scores, which makes a convex loss strongly convex.

    Examples
    --------
    >>> from anytime.losses import training_loss
    >>> loss = regularised(training_loss("hinge"), 0.1)
    >>> loss.convexity, loss.per_row(np.array([[0.5]]), np.array([1]))
    (0.1, array([0.5125]))
    """
    if not l2_regularization >= 0:
        raise ValueError(f"l2_regularization must not be negative; got {l2_regularization}")
    value, gradient, hessian = loss.per_row, loss.required_gradient(), loss.hessian
    return replace(
        loss,
        name=f"{loss.name} + {l2_regularization:g}/2 |f|²",
        per_row=lambda scores, y: value(scores, y) + 0.5 * l2_regularization * (scores**2).sum(axis=1),
        gradient=lambda scores, y: gradient(scores, y) + l2_regularization * scores,
        hessian=None if hessian is None else lambda scores, y: hessian(scores, y) + l2_regularization,
        convexity=loss.convexity + l2_regularization,
        smoothness=None if loss.smoothness is None else loss.smoothness + l2_regularization,
        constant=None,
        step=None,
    )
