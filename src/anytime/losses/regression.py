"""Regression losses: squared, absolute, quantile, Huber, Poisson."""

import numpy as np

from anytime.losses.links import Link
from anytime.losses.loss import Loss
from anytime.losses.rows import row_sums
from anytime.losses.targets import Array, Target, columns, means


def _squared(scores: Array, y: Target) -> Array:
    return np.asarray(0.5 * row_sums((scores - columns(scores, y)) ** 2))


def _squared_step(scores: Array, direction: Array, y: Target, weight: Array) -> float | None:
    """``<y - f, h> / |h|²``."""
    length = float((weight @ direction**2).sum())
    pull = float((weight @ ((columns(scores, y) - scores) * direction)).sum())
    return pull / length if length > 0 else None


SQUARED = Loss(
    "squared",
    _squared,
    gradient=lambda scores, y: scores - columns(scores, y),
    hessian=lambda scores, y: np.ones_like(scores),
    convexity=1.0,
    smoothness=1.0,
    constant=means,
    step=_squared_step,
)


def squared_after(link: Link) -> Loss:
    """Squared loss of the answers of scores; for evaluation, not for training."""
    return Loss("squared", lambda scores, y: _squared(link.transform(scores), y), link=link.name)


def quantile(level: float) -> Loss:
    """The loss minimised by the quantile of this level: ``level`` per unit too low, ``1 - level`` per unit too high.

    Examples
    --------
    >>> quantile(0.9).base(np.arange(10.0))
    array([8.])
    """
    if not 0 < level < 1:
        raise ValueError(f"the level of a quantile must be between 0 and 1; got {level}")
    return _tilted(f"quantile {level:g}", level, 1.0 - level)


def _tilted(name: str, below: float, above: float) -> Loss:
    def per_row(scores: Array, y: Target) -> Array:
        over = scores - columns(scores, y)
        return row_sums(np.where(over >= 0, above * over, -below * over))

    def constant(y: Target, n_outputs: int, weight: Array) -> Array:
        targets = np.reshape(np.asarray(y, dtype=np.float64), (len(y), n_outputs))
        order = np.argsort(targets, axis=0, kind="stable")
        reached = np.cumsum(weight[order], axis=0)
        at = (reached < below / (below + above) - 1e-12).sum(axis=0)  # sums of weights carry rounding errors
        return np.asarray(np.take_along_axis(targets, order, axis=0)[at, np.arange(n_outputs)])

    return Loss(
        name,
        per_row,
        gradient=lambda scores, y: np.where(scores >= columns(scores, y), above, -below),
        constant=constant,
        kinked=True,
    )


ABSOLUTE = _tilted("absolute", 1.0, 1.0)


def huber(delta: float = 1.0) -> Loss:
    """Squared loss within ``delta`` of the target, growing linearly beyond: the influence of outliers is bounded."""

    def per_row(scores: Array, y: Target) -> Array:
        away = np.abs(scores - columns(scores, y))
        near = np.minimum(away, delta)
        return row_sums(near * (away - 0.5 * near))

    return Loss(
        "huber",
        per_row,
        gradient=lambda scores, y: np.clip(scores - columns(scores, y), -delta, delta),
        smoothness=1.0,  # no Hessian: it is 0 for outliers, and steps by it would be infinite
    )


def _poisson(scores: Array, y: Target) -> Array:
    return row_sums(np.exp(scores) - columns(scores, y) * scores)


POISSON = Loss(
    "poisson",
    _poisson,
    gradient=lambda scores, y: np.exp(scores) - columns(scores, y),
    hessian=lambda scores, y: np.exp(scores),
    link="exp",
    constant=lambda y, k, weight: np.log(np.maximum(means(y, k, weight), 0.5 / weight.size)),
)
