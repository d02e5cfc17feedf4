"""Classification losses: logarithmic, exponential, hinge, and squared.

Two classes share one score and are coded 0 and 1 (or -1 and 1), several have one score each. Scores of hinge losses are not
log-odds: only the leading class is meaningful, not the probabilities.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import expit

from anytime.losses.loss import Loss
from anytime.losses.rows import log_sum_exp, row_sums, softmax, softplus
from anytime.losses.targets import (
    Array,
    Target,
    centred,
    classes,
    inside,
    less_truth,
    logit,
    of_truth,
    positive,
    share_of_positives,
    shares,
    signs,
)

# ---------------------------------------------------------------------- logarithmic


def _variance(scores: Array) -> Array:
    """``p (1 - p)`` of probabilities on a logistic scale."""
    probabilities = expit(scores)
    return np.asarray(probabilities * (1.0 - probabilities))


def _multinomial_bend(scores: Array, y: Target) -> Array:
    probabilities = softmax(scores)
    return probabilities * (1.0 - probabilities)


LOGISTIC = Loss(
    "logistic",
    lambda scores, y: softplus(-(signs(y) * scores)[:, 0]),
    gradient=lambda scores, y: expit(scores) - positive(y)[:, None],
    hessian=lambda scores, y: _variance(scores),
    smoothness=0.25,
    link="logistic",
    constant=lambda y, _, weight: logit(inside(share_of_positives(y, weight), weight)),
)

MULTINOMIAL = Loss(
    "multinomial",
    lambda scores, y: log_sum_exp(scores) - of_truth(scores, y),
    gradient=lambda scores, y: less_truth(softmax(scores), y),
    hessian=_multinomial_bend,
    smoothness=0.5,
    link="softmax",
    constant=lambda y, k, weight: centred(np.log(inside(shares(y, k, weight), weight))),
)

ONE_VS_ALL = Loss(
    "one_vs_all",
    lambda scores, y: row_sums(softplus(scores)) - of_truth(scores, y),
    gradient=lambda scores, y: less_truth(expit(scores), y),
    hessian=lambda scores, y: _variance(scores),
    smoothness=0.25,
    link="one_vs_all",
    constant=lambda y, k, weight: logit(inside(shares(y, k, weight), weight)),
)


# ---------------------------------------------------------------------- exponential


def _exponential_step(scores: Array, direction: Array, y: Target, weight: Array) -> float | None:
    """``1/2 ln((1 - e) / e)``, e the weighted error, for outputs of one size and either sign; 0 is no opinion."""
    size = float(np.abs(direction).max(initial=0.0))
    if size == 0 or not np.isin(direction, (-size, 0.0, size)).all():
        return None
    agrees = (signs(y) * direction)[:, 0]
    with np.errstate(over="ignore"):
        mass = weight * np.exp(-(signs(y) * scores)[:, 0])
    return _half_log_ratio(float(mass[agrees > 0].sum()), float(mass[agrees < 0].sum()), size)


def _half_log_ratio(right: float, wrong: float, size: float) -> float | None:
    """Least point of ``right e^(-a size) + wrong e^(a size)``."""
    if not (np.isfinite(right) and np.isfinite(wrong)) or right == wrong == 0:
        return None
    with np.errstate(divide="ignore"):
        return float(0.5 * (np.log(right) - np.log(wrong)) / size)


EXPONENTIAL = Loss(
    "exponential",
    lambda scores, y: np.exp(-(signs(y) * scores)[:, 0]),
    gradient=lambda scores, y: -signs(y) * np.exp(-signs(y) * scores),
    hessian=lambda scores, y: np.exp(-signs(y) * scores),
    link="half_logistic",
    constant=lambda y, _, weight: 0.5 * logit(inside(share_of_positives(y, weight), weight)),
    step=_exponential_step,
)


def _leads(scores: Array, y: Target) -> Array:
    """(n, K) ``exp(f_k - f_y)``, and 0 at the true class y."""
    lead = np.exp(scores - of_truth(scores, y)[:, None])
    lead[np.arange(len(lead)), classes(y)] = 0.0
    return np.asarray(lead)


def _lead_gradient(scores: Array, y: Target) -> Array:
    lead = _leads(scores, y)
    lead[np.arange(len(lead)), classes(y)] = -row_sums(lead)
    return lead


def _multiclass_step(scores: Array, direction: Array, y: Target, weight: Array) -> float | None:
    """``1/2 ln(A+ / A-)`` for outputs that raise one class by the same amount above all others; 0 is no opinion."""
    low, named = direction.min(axis=1), direction.argmax(axis=1)
    raised = direction.max(axis=1) - low
    size = float(raised.max(initial=0.0))
    votes = raised > 0
    alone = (direction == low[:, None]).sum(axis=1) == direction.shape[1] - 1
    if size == 0 or (raised[votes] != size).any() or not alone[votes].all():
        return None
    with np.errstate(over="ignore"):
        mass = weight[:, None] * _leads(scores, y)
    right = votes & (named == classes(y))
    wrong = votes & ~right
    return _half_log_ratio(float(mass[right].sum()), float(mass[wrong, named[wrong]].sum()), size)


MULTICLASS_EXPONENTIAL = Loss(
    "multiclass_exponential",
    lambda scores, y: row_sums(_leads(scores, y)),
    gradient=_lead_gradient,
    hessian=lambda scores, y: np.abs(_lead_gradient(scores, y)),
    link="half_softmax",
    constant=lambda y, k, weight: 0.5 * centred(np.log(inside(shares(y, k, weight), weight))),
    step=_multiclass_step,
)


# ---------------------------------------------------------------------- hinges


HINGE = Loss(
    "hinge",
    lambda scores, y: np.maximum(0.0, 1.0 - (signs(y) * scores)[:, 0]),
    gradient=lambda scores, y: np.where(signs(y) * scores < 1.0, -signs(y), 0.0),
    link="logistic",
    constant=lambda y, _, weight: np.sign(share_of_positives(y, weight) - 0.5),
    kinked=True,
)

SQUARED_HINGE = Loss(
    "squared_hinge",
    lambda scores, y: np.maximum(0.0, 1.0 - (signs(y) * scores)[:, 0]) ** 2,
    gradient=lambda scores, y: -2.0 * signs(y) * np.maximum(0.0, 1.0 - signs(y) * scores),
    hessian=lambda scores, y: np.where(signs(y) * scores < 1.0, 2.0, 0.0),
    smoothness=2.0,
    link="logistic",
    constant=lambda y, _, weight: 2.0 * share_of_positives(y, weight) - 1.0,
)


def _shortfall(scores: Array, y: Target) -> tuple[Array, Array]:
    """(n,) How much the true class misses being ahead by 1, if it does; (n,) the class that is nearest to it or ahead."""
    others = scores.copy()
    others[np.arange(len(others)), classes(y)] = -np.inf
    rival = others.argmax(axis=1)
    return np.maximum(0.0, 1.0 + others[np.arange(len(others)), rival] - of_truth(scores, y)), rival


def _multiclass_hinge_gradient(scores: Array, y: Target) -> Array:
    short, rival = _shortfall(scores, y)
    gradient, at = np.zeros_like(scores), np.flatnonzero(short > 0)
    gradient[at, rival[at]] = 1.0
    gradient[at, classes(y)[at]] = -1.0
    return gradient


def _majority(y: Target, n_outputs: int, weight: Array) -> Array:
    """One class ahead by 1 where it has more than half of the weight; otherwise nothing beats even scores."""
    share = shares(y, n_outputs, weight)
    return centred((share > 0.5).astype(np.float64))


MULTICLASS_HINGE = Loss(
    "multiclass_hinge",  # Crammer and Singer's
    lambda scores, y: _shortfall(scores, y)[0],
    gradient=_multiclass_hinge_gradient,
    link="softmax",
    constant=_majority,
    kinked=True,
)


# ---------------------------------------------------------------------- squared


def _identity(scores: Array) -> Array:
    return scores


def brier(link: str, to_probabilities: Callable[[Array], Array] = _identity) -> Loss:
    """Squared distance of probabilities from the truth: a single tree that is certain and wrong costs 1, not infinity."""

    def per_row(scores: Array, y: Target) -> Array:
        return np.asarray(0.5 * row_sums(less_truth(to_probabilities(scores).copy(), y) ** 2))

    return Loss("Brier", per_row, link=link)


LEAST_SQUARES = Loss(
    "least_squares",  # to the indicator of each class
    brier("least_squares").per_row,
    gradient=lambda scores, y: less_truth(scores.copy(), y),
    hessian=lambda scores, y: np.ones_like(scores),
    convexity=1.0,
    smoothness=1.0,
    link="least_squares",
    constant=shares,
)
