"""What is proved of streaming gradient boosting, as numbers (Hu 2019, Theorems 5.5.1 and 5.5.2 and the lemmas under them).

``gamma`` is the least edge of all learners, ``lam`` and ``beta`` the strong convexity and smoothness of the loss, ``G`` its
longest gradient, ``excess`` the ``R(T)`` of the edge, ``gap`` the regret of the start, average or total as one likes: bounds
on regrets come out in the same kind. (Twice the largest loss is a coarse bound on the average one.) Where a printed statement
does not follow from its proof, the corrected one is the default. Without an edge nothing is promised: infinity.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Form = Literal["tight", "printed", "sharp"]

__all__ = [
    "excess_of_edge",
    "output_bound",
    "product_bound",
    "residual_bound",
    "residual_bound_finite",
    "residual_root",
    "smooth_base",
    "smooth_bound",
    "smooth_bound_finite",
    "smooth_floor",
    "smooth_step",
]


# ---------------------------------------------------------------------- smooth losses, Algorithm 6


def smooth_step(gamma: ArrayLike, beta: float) -> Array:
    """The step of Theorem 5.5.1, ``gamma / (beta (8 - 4 gamma))`` (equation 5.28); at most a quarter of ``1 / beta``.

    Examples
    --------
    >>> smooth_step([0.1, 0.5, 1.0], 1.0).round(7)
    array([0.0131579, 0.0833333, 0.25     ])
    """
    gamma = _edges(gamma)
    return np.asarray(gamma / (beta * (8.0 - 4.0 * gamma)))


def smooth_base(gamma: ArrayLike, lam: float, beta: float, *, form: Form = "tight") -> Array:
    """By which factor one more learner shrinks the bound on regret.

    "printed": ``1 - gamma^2 lam / (16 beta)``; "tight", from the same proof: ``1 - gamma^2 lam / (beta (16 - 8 gamma))``;
    both with ``smooth_step``. "sharp": ``1 - gamma lam / beta``, with steps of ``1 / beta``, because ``2 <g, h>`` is at least
    ``gamma |g|^2 + |h|^2`` and the proof drops the second term.

    Examples
    --------
    >>> [smooth_base(0.5, 1.0, 1.0, form=form).round(7).item() for form in ("printed", "tight", "sharp")]
    [0.984375, 0.9791667, 0.5]
    """
    _check_curvature(lam, beta)
    gamma = _edges(gamma)
    if form == "printed":
        return np.asarray(1.0 - gamma**2 * lam / (16.0 * beta))
    if form == "tight":
        return np.asarray(1.0 - gamma**2 * lam / (beta * (16.0 - 8.0 * gamma)))
    if form == "sharp":
        return np.asarray(1.0 - gamma * lam / beta)
    raise ValueError(f"form is {form!r}; it is 'printed', 'tight' or 'sharp'")


def smooth_bound(
    gap: float, n_estimators: ArrayLike, gamma: float, lam: float, beta: float, *, form: Form = "tight"
) -> Array:
    """Theorem 5.5.1 for endless streams: regret after N learners is at most ``base^N gap`` (equations 5.8 and 5.9)."""
    return np.asarray(
        smooth_base(gamma, lam, beta, form=form) ** np.asarray(n_estimators, dtype=np.float64) * gap
    )


def smooth_bound_finite(
    gap: float,
    n_estimators: ArrayLike,
    gamma: float,
    lam: float,
    beta: float,
    *,
    excess: float = 0.0,
    step: float | None = None,
    form: Literal["tight", "sharp"] = "tight",
) -> Array:
    """The same for T rounds: ``C^N gap + a R(T) / (1 - C)``, the recursion of equation 5.26 summed up.

    "tight": ``C = 1 - (eta gamma lam - beta eta^2 lam (4 - 2 gamma))`` and ``a = eta / 2 + beta eta^2``, by default at
    ``smooth_step``. "sharp": ``C = 1 - eta gamma lam`` and ``a = eta / 2``, for steps up to ``1 / beta``, the default.
    """
    _check_curvature(lam, beta)
    if form == "tight":
        eta = float(smooth_step(gamma, beta)) if step is None else step
        shrinks, share = (
            eta * gamma * lam - beta * eta**2 * lam * (4.0 - 2.0 * gamma),
            0.5 * eta + beta * eta**2,
        )
    elif form == "sharp":
        eta = 1.0 / beta if step is None else step
        if eta > (1.0 + 1e-12) / beta:
            raise ValueError(f"the sharp form holds for steps up to 1 / beta = {1.0 / beta:g}; got {eta:g}")
        shrinks, share = eta * gamma * lam, 0.5 * eta
    else:
        raise ValueError(f"form is {form!r}; it is 'tight' or 'sharp'")
    N = np.asarray(n_estimators, dtype=np.float64)
    if shrinks <= 0:
        return np.full(N.shape, math.inf)
    return np.asarray((1.0 - shrinks) ** N * gap + share * excess / shrinks)


def smooth_floor(
    gamma: float, lam: float, excess: float, *, form: Literal["tight", "sharp"] = "tight"
) -> float:
    """Below this no number of learners pushes the bound.

    "tight", at ``smooth_step``: ``R / lam (1 / gamma + 1 / (4 - 2 gamma))``; "sharp": ``R / (2 gamma lam)``.
    """
    if gamma <= 0:
        return math.inf
    return (
        excess / lam * (1.0 / gamma + 1.0 / (4.0 - 2.0 * gamma))
        if form == "tight"
        else excess / (2.0 * gamma * lam)
    )


def product_bound(gap: float, edges: ArrayLike, lam: float, beta: float, step: float) -> Array:
    """(N,) Regret of every prefix by measured edges and any step up to ``1 / beta``: ``gap prod_i (1 - eta gamma_i lam)``.

    Edges fall along the sequence, so that the product says more than the least edge. A learner without an edge shrinks
    nothing, and what it may do is not bounded by this: from there on infinity.
    """
    _check_curvature(lam, beta)
    measured = np.asarray(edges, dtype=np.float64)
    if step > (1.0 + 1e-12) / beta:
        raise ValueError(f"the product form holds for steps up to 1 / beta = {1.0 / beta:g}; got {step:g}")
    factors = np.where(measured >= 0, 1.0 - step * np.clip(measured, 0.0, 1.0) * lam, math.inf)
    return np.asarray(gap * np.cumprod(factors))


# ---------------------------------------------------------------------- losses with kinks, Algorithm 7


def residual_root(
    gamma: ArrayLike, ratio: float = 0.0, *, form: Literal["root", "printed"] = "root"
) -> Array:
    """``c``: what is left unfitted has mean square at most ``c^2 G^2`` (Lemma 5.8.2).

    "root": ``(1 - gamma + sqrt(1 - gamma (1 - ratio))) / gamma``, where ``c^2 = (1 - gamma)(1 + c)^2 + ratio`` and
    ``ratio = R(T) / (T G^2)``. "printed": ``2 / gamma - 1``, which is larger for ratios below 1.

    Examples
    --------
    >>> residual_root([0.1, 0.5, 1.0]).round(6)
    array([18.486833,  2.414214,  0.      ])
    """
    gamma = _edges(gamma)
    with np.errstate(divide="ignore"):
        if form == "printed":
            return np.asarray(2.0 / gamma - 1.0)
        if form == "root":
            return np.asarray((1.0 - gamma + np.sqrt(1.0 - gamma * (1.0 - ratio))) / gamma)
    raise ValueError(f"form is {form!r}; it is 'root' or 'printed'")


def residual_bound(n_estimators: ArrayLike, gamma: float, G: float, lam: float) -> Array:
    """Theorem 5.5.2 for endless streams: ``4 c^2 G^2 / (lam N) (1 + ln N + 1 / (8 N))``, ``c = 2 / gamma - 1`` (equation 5.10).

    On the average regret of the mean of ``y^0 .. y^(N-1)``, with steps ``1 / (lam i)``.

    Examples
    --------
    >>> residual_bound(100, gamma=0.5, G=1.0, lam=1.0).round(4).item()
    2.0183
    """
    _check_curvature(lam)
    N, c = np.asarray(n_estimators, dtype=np.float64), residual_root(gamma, form="printed")
    return np.asarray(4.0 * (c * G) ** 2 / (lam * N) * (1.0 + np.log(N) + 1.0 / (8.0 * N)))


def residual_bound_finite(
    n_estimators: ArrayLike, gamma: float, G: float, lam: float, *, ratio: float = 0.0
) -> Array:
    """The same for T rounds, with the root c of ``ratio = R(T) / (T G^2)``.

    ``((1 + 2 c)^2 / 2 + (1 + 2 c) c) G^2 (1 + ln N) / (lam N) + c^2 G^2 / (2 lam N^2)``. The printed proof passes through an
    inequality that holds for no edge (5.34); the triangle inequality takes its place.
    """
    _check_curvature(lam)
    N, c = np.asarray(n_estimators, dtype=np.float64), residual_root(gamma, ratio)
    given = 1.0 + 2.0 * c  # outputs have mean square at most (given G)^2
    first = (0.5 * given**2 + given * c) * G**2 * (1.0 + np.log(N)) / (lam * N)
    return np.asarray(first + (c * G) ** 2 / (2.0 * lam * N**2))


# ---------------------------------------------------------------------- edges


def output_bound(
    gamma: ArrayLike, squares: ArrayLike, excess: float = 0.0, *, form: Literal["tight", "printed"] = "tight"
) -> Array:
    """At most how large ``sum |h|^2`` is for a learner with an edge on targets with ``sum |g|^2 = squares``.

    "printed": ``(4 - 2 gamma) squares + 2 R`` (equation 5.24). "tight": ``(sqrt(squares) + sqrt((1 - gamma) squares +
    R))^2``, the triangle inequality; ``(1 + sqrt(1 - gamma))^2 squares`` where R = 0.
    """
    gamma, squares = _edges(gamma), np.asarray(squares, dtype=np.float64)
    if form == "printed":
        return np.asarray((4.0 - 2.0 * gamma) * squares + 2.0 * excess)
    if form == "tight":
        return np.asarray((np.sqrt(squares) + np.sqrt((1.0 - gamma) * squares + excess)) ** 2)
    raise ValueError(f"form is {form!r}; it is 'tight' or 'printed'")


def excess_of_edge(regret: float, n_rows: int, gamma: float, D: float, M: float, delta: float) -> float:
    """``R(T)`` for fixed targets, with a chance of at least ``1 - delta`` (Proposition 5.4.3).

    ``R_A(T) + (M^2 + (1 - gamma) D^2) sqrt(T ln(4 / delta) / 2)``: the learner's own regret, and two means of squares, of
    targets no longer than D and of the best hypothesis' errors no longer than M, which are within their deviations. (The
    printed deviations are those of a variable without the square.)
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta is a chance, between 0 and 1; got {delta}")
    return regret + (M**2 + (1.0 - gamma) * D**2) * math.sqrt(0.5 * n_rows * math.log(4.0 / delta))


# ---------------------------------------------------------------------- parts


def _edges(gamma: ArrayLike) -> Array:
    edges = np.asarray(gamma, dtype=np.float64)
    if (edges > 1).any() or (edges < 0).any():
        raise ValueError(f"an edge is between 0 and 1; got {edges.tolist()}")
    return edges


def _check_curvature(lam: float, beta: float = math.inf) -> None:
    if not 0 < lam <= beta:
        raise ValueError(
            f"needs 0 < lam, and lam ≤ beta; got {lam}" + (f", {beta}" if math.isfinite(beta) else "")
        )
