"""Sequences of feature groups for any smooth loss: generalised linear models, several outputs, bounded weights.

The value of a set of columns is how much less risk the best linear model on them has than the best constant (Hu 2019, equation
3.27; Grubb, *Anytime Prediction*, 2014, objectives SQ, SM, with ridge or a bound on the weights). An *objective*
finds that model; two *oracles* over any objective tell greedy selection what a group would gain: from the gradient (orthogonal
matching pursuit, Algorithm 5 of Hu 2019), or by refitting with every candidate (forward regression). Squared loss has a much
faster engine of its own; here it serves for bounded weights, and as the naive version that the fast one is compared with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular
from scipy.optimize import brentq

from anytime.linear.solver import bounded_solution, definite_root, inverse_root, minimised
from anytime.losses import Loss, Target, training_loss

Array = NDArray[np.float64]
Columns = NDArray[np.intp]
_T = TypeVar("_T")

__all__ = ["Fit", "GradientOracle", "Objective", "QuadraticObjective", "RefitOracle", "SmoothObjective"]

_NEAR = 1e-2  # of the gradient at the start
_FLAT = 1e-8  # share of the most that a loss can curve
_NEGLIGIBLE = 1e-3  # rows that curve less than this share of the mean are left out of a Gram matrix


@dataclass(frozen=True, eq=False)
class Gram:
    """The Gram matrix (k, k) of columns, each row of the data counted as much as its loss was bent, (n,)."""

    bend: Array
    matrix: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Fit:
    """The best linear model on some columns: scores are ``intercept + Z[:, columns] @ weights``.

    Attributes
    ----------
    columns : (k,) int
        In the order they were added.
    intercept : (K,)
    weights : (k, K)
    value : float
        How much less risk it has than the model without columns.
    scores : (n, K), or None
    gram : Gram, or None
        What an objective for data keeps to extend the fit.
    """

    columns: Columns
    intercept: Array
    weights: Array
    value: float = 0.0
    scores: Array | None = None
    gram: Gram | None = None


class Objective(Protocol):
    """What linear models are fitted for."""

    n_columns: int

    def empty(self) -> Fit:
        """The best model without columns."""

    def extended(self, fit: Fit, columns: Columns) -> Fit:
        """The best model on the columns of ``fit`` and some new ones."""

    def residual(self, fit: Fit) -> Array:
        """Minus the gradient of the risk in the weight of every column, (D, K); columns not in ``fit`` have weight 0."""

    def curvature(self, columns: Columns) -> Array:
        """What the second derivative of the risk in these columns' weights does not exceed, for each output, (k, k)."""


# ---------------------------------------------------------------------- objectives


class SmoothObjective:
    """The mean of a smooth loss on data, with a ridge, or a bound on the weights, or both.

    ``risk = mean loss + ridge / 2 * |W|^2`` in the Frobenius norm, and ``|W| <= bound``; the intercept is free. A refit is a
    search by L-BFGS from the fit it extends, in coordinates in which the second derivative is near the identity.

    Parameters
    ----------
    Z : (n, D) float64 or float32
        Copied unless it is in Fortran order. With float32 gradients have six or seven digits: choose ``tol`` accordingly.
    y : (n,) or (n, K)
        Class numbers or targets, as the loss reads them.
    loss : str or Loss
    n_outputs : int, default=None
        Number of scores per row; as many as ``y`` shows when not given.
    ridge : float, default=0
    bound : float, default=None
    fit_intercept : bool, default=True
        False: scores are 0 before the first column.
    sample_weight : (n,), default=None
    tol : float, default=1e-8
        A refit ends where no entry of the gradient, in those coordinates, is above ``tol`` of the largest at ``W = 0``.
    max_iter : int, default=1000
        Iterations per search.
    """

    def __init__(
        self,
        Z: NDArray[Any],
        y: Target,
        loss: str | Loss,
        *,
        n_outputs: int | None = None,
        ridge: float = 0.0,
        bound: float | None = None,
        fit_intercept: bool = True,
        sample_weight: ArrayLike | None = None,
        tol: float = 1e-8,
        max_iter: int = 1000,
    ) -> None:
        self.features = np.asfortranarray(Z).T  # (D, n): a column's numbers lie side by side
        self.n_columns, n = self.features.shape
        self.y, self.loss = np.asarray(y), _differentiable(training_loss(loss))
        self.gradient = self.loss.required_gradient()
        self.n_outputs = self.loss.n_outputs(self.y) if n_outputs is None else n_outputs
        self.ridge, self.bound = _checked(ridge, bound)
        self.fit_intercept, self.tol, self.max_iter = fit_intercept, tol, max_iter
        weight = np.ones(n) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        self.weight = weight / weight.sum()
        base = np.zeros(self.n_outputs)
        if fit_intercept:
            base = self.loss.base(self.y, self.n_outputs, self.weight)
        scores = np.tile(base, (n, 1))
        bend = self._bend(scores)
        self._empty = Fit(
            columns=np.empty(0, dtype=np.intp),
            intercept=base,
            weights=np.empty((0, self.n_outputs)),
            scores=scores,
            gram=Gram(bend, np.empty((0, 0), dtype=self.features.dtype)),
        )
        self.risk = float(self.weight @ self.loss.per_row(scores, self.y))
        self.smoothness = self.loss.smoothness or float(bend.sum())
        self._slope = self.residual(self._empty)
        pull = float((self.weight @ np.abs(self.gradient(scores, self.y))).max())
        steepest = max(float(np.abs(self._slope).max(initial=0.0)), 1e-3 * pull)  # noise is no yardstick
        self._yardstick = steepest / np.sqrt(bend.sum() + ridge)

    def empty(self) -> Fit:
        """The best constant."""
        return self._empty

    def extended(self, fit: Fit, columns: Columns) -> Fit:
        """The best model on the columns of ``fit`` and some new ones."""
        if not columns.size:
            return fit
        if columns.size > fit.columns.size:  # a long way to go: look again at the curvature when near
            fit, columns = self._refitted(fit, columns, max(self.tol, _NEAR)), columns[:0]
        return self._refitted(fit, columns, self.tol)

    def _refitted(self, fit: Fit, columns: Columns, tol: float) -> Fit:
        together = np.concatenate([fit.columns, columns])
        design = self.features[together]
        gram = self._extended_gram(fit, design)
        point = (np.vstack([fit.weights, np.zeros((columns.size, self.n_outputs))]), fit.intercept)
        goal = tol * self._yardstick

        def solved(multiplier: float) -> float:
            """Refit with a larger ridge; how far the weights then stay within the bound, 1/|W| - 1/bound."""
            nonlocal point
            point = self._solved(design, gram, point, self.ridge + multiplier, goal)
            size = float(np.linalg.norm(point[0]))
            return np.inf if self.bound is None or size == 0 else 1.0 / size - 1.0 / self.bound

        # Bounded weights are those of some larger ridge (the conditions of Karush, Kuhn and Tucker), by at most |b| / bound.
        if solved(0.0) < 0 and self.bound is not None:
            most = float(np.linalg.norm(self._slope[together])) / self.bound
            solved(brentq(solved, 0.0, most, xtol=tol * most, rtol=max(tol, 1e-15)))
            point = (point[0] * (self.bound / np.linalg.norm(point[0])), point[1])
        weights, intercept = point
        scores = self._scores(design, weights, intercept)
        risk = self.weight @ self.loss.per_row(scores, self.y) + 0.5 * self.ridge * (weights**2).sum()
        return Fit(together, intercept, weights, self.risk - float(risk), scores, gram)

    def residual(self, fit: Fit) -> Array:
        """Minus the gradient in every weight: one pass over the data, O(nDK)."""
        pull = -self.weight[:, None] * self.gradient(_kept(fit.scores), self.y)
        b: Array = (self.features @ pull.astype(self.features.dtype)).astype(np.float64)
        b[fit.columns] -= self.ridge * fit.weights
        return b

    def curvature(self, columns: Columns) -> Array:
        """``M S + ridge I`` of these columns, M the smoothness of the loss, or where it has none its curvature at the start."""
        some = self.features[columns]
        gram: Array = ((some * self.weight.astype(some.dtype)) @ some.T).astype(np.float64)
        return self.smoothness * gram + self.ridge * np.eye(columns.size)

    def _scores(self, design: NDArray[Any], weights: Array, intercept: Array) -> Array:
        return np.asarray((design.T @ weights.astype(design.dtype)).astype(np.float64) + intercept)

    def _bend(self, scores: Array) -> Array:
        """How sharply the loss of each row curves here, (n,): its largest second derivative in one score, times its weight.

        Where the loss is flat for all rows, as Huber's is far from its target, the most it can curve elsewhere.
        """
        step, here, bend = 1e-4, self.gradient(scores, self.y), np.zeros(len(scores))
        for k in range(self.n_outputs):
            ahead = scores.copy()
            ahead[:, k] += step
            np.maximum(bend, (self.gradient(ahead, self.y)[:, k] - here[:, k]) / step, out=bend)
        most = self.loss.smoothness or 1.0
        return np.asarray(self.weight * (bend if self.weight @ bend > _FLAT * most else most))

    def _extended_gram(self, fit: Fit, design: NDArray[Any]) -> Gram:
        """For ``design``, whose first rows are the columns of ``fit``: what resembles the second derivative of the risk there.

        Rows that the model has become sure of no longer count. Only when half the curvature is gone is everything added up anew.
        """
        old, k = _kept(fit.gram), fit.columns.size
        bend, now = old.bend, self._bend(_kept(fit.scores))
        if now.sum() < 0.5 * bend.sum():
            bend, k = now, 0
        rows = np.flatnonzero(bend > _NEGLIGIBLE * bend.mean())
        some, counted = (design[:, rows], bend[rows]) if 2 * rows.size < bend.size else (design, bend)
        matrix = np.empty((len(design), len(design)), dtype=design.dtype)
        matrix[:k, :k] = old.matrix[:k, :k]
        matrix[:, k:] = some @ (some[k:] * counted.astype(design.dtype)).T
        matrix[k:, :k] = matrix[:k, k:].T
        if (
            rows.size < bend.size
        ):  # the others may not be flat for long: a little on the diagonal stands for them
            matrix[range(k, len(design)), range(k, len(design))] += _NEGLIGIBLE * bend.sum()
        return Gram(bend, matrix)

    def _solved(
        self,
        design: NDArray[Any],
        gram: Gram,
        point: tuple[Array, Array],
        ridge: float,
        goal: float,
    ) -> tuple[Array, Array]:
        """Weights and intercept of least risk for this ridge, searched from ``point`` in coordinates ``root' @ weights``."""
        root = definite_root(gram.matrix, ridge)
        # The intercept is counted in units of its own; infinite ones keep it where it is.
        unit = np.sqrt(gram.bend.sum()) if self.fit_intercept else np.inf
        (began, origin), dtype = point, root.dtype

        def weights_at(u: Array) -> Array:
            turned = u[: began.size].reshape(began.shape).astype(dtype)
            w = solve_triangular(root, turned, lower=True, trans="T", check_finite=False)
            return np.asarray(w, dtype=np.float64)

        def risk(u: Array) -> tuple[float, Array]:
            w, a = weights_at(u), origin + u[began.size :] / unit
            scores = self._scores(design, w, a)
            pull = self.weight[:, None] * self.gradient(scores, self.y)
            value = self.weight @ self.loss.per_row(scores, self.y) + 0.5 * ridge * (w**2).sum()
            g = design @ pull.astype(design.dtype) + (ridge * w).astype(dtype)
            g = solve_triangular(root, g, lower=True, check_finite=False)
            return float(value), np.concatenate([g.ravel(), pull.sum(axis=0) / unit], dtype=np.float64)

        turned = root.T @ began.astype(dtype)
        start = np.concatenate([turned.ravel(), np.zeros(self.n_outputs)], dtype=np.float64)
        u = minimised(risk, start, goal, self.max_iter)
        return weights_at(u), origin + u[began.size :] / unit


class QuadraticObjective:
    """Squared loss seen through moments alone, refitted from scratch each time.

    ``F = max tr(V'W) - tr(W'(S + ridge I)W) / 2`` over ``|W| <= bound``: exact, by eigenvectors where there is a bound
    (Grubb 2014, objective SQ-con). Without one this is the naive ridge regression with which faster code is compared.

    Parameters
    ----------
    S : (D, D)
        ``X'X / n``.
    V : (D,) or (D, K)
        ``X'Y / n``.
    ridge : float, default=0
    bound : float, default=None
    """

    def __init__(self, S: ArrayLike, V: ArrayLike, *, ridge: float = 0.0, bound: float | None = None) -> None:
        self.ridge, self.bound = _checked(ridge, bound)
        S, V = np.asarray(S, dtype=np.float64), np.asarray(V, dtype=np.float64)
        self.C = S + ridge * np.eye(len(S))
        self.V = V.reshape(len(S), -1)
        self.n_columns, self.n_outputs = self.V.shape

    def empty(self) -> Fit:
        """All scores 0."""
        return Fit(np.empty(0, dtype=np.intp), np.zeros(self.n_outputs), np.empty((0, self.n_outputs)))

    def extended(self, fit: Fit, columns: Columns) -> Fit:
        """The best weights on the columns of ``fit`` and some new ones."""
        if not columns.size:
            return fit
        together = np.concatenate([fit.columns, columns])
        C, V = self.C[np.ix_(together, together)], self.V[together]
        weights = bounded_solution(C, V, self.bound)
        value = float((V * weights).sum() - 0.5 * (weights * (C @ weights)).sum())
        return Fit(together, fit.intercept, weights, value)

    def residual(self, fit: Fit) -> Array:
        """``V - C W``."""
        return np.asarray(self.V - self.C[:, fit.columns] @ fit.weights)

    def curvature(self, columns: Columns) -> Array:
        """``S + ridge I`` of these columns."""
        return np.asarray(self.C[np.ix_(columns, columns)])


# ---------------------------------------------------------------------- oracles


class _Pursuit:
    """A ``GainOracle`` over the groups of an objective's columns; remembers the model after every purchase.

    Attributes
    ----------
    fits : list of Fit
        After each purchase.
    """

    def __init__(self, objective: Objective, start: ArrayLike) -> None:
        self.objective, self.start = objective, np.asarray(start, dtype=np.intp)
        if self.start[0] != 0 or self.start[-1] != objective.n_columns or (np.diff(self.start) < 0).any():
            raise ValueError(
                f"start must rise from 0 to the number of columns, {objective.n_columns}, "
                f"but goes from {self.start[0]} to {self.start[-1]}"
            )
        self.n_elements = self.start.size - 1
        self._clear()

    def _clear(self) -> None:
        self.fit, self.value = self.objective.empty(), 0.0
        self.fits: list[Fit] = []

    def columns(self, element: int) -> Columns:
        """The columns of a group."""
        return np.arange(self.start[element], self.start[element + 1])

    def add(self, element: int) -> None:
        """Buy a group and refit."""
        fit = self.objective.extended(self.fit, self.columns(element))
        self.fit, self.value = fit, fit.value
        self.fits.append(replace(fit, scores=None, gram=None))

    def restart(self) -> Self:
        """The same groups, none bought."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._clear()
        return other


class GradientOracle(_Pursuit):
    """Orthogonal matching pursuit: a group is judged by minus the gradient of the risk in its weights, ``b`` (D_g, K).

    Parameters
    ----------
    objective : Objective
    start : (J+1,) int
        Group g has the columns ``start[g]:start[g+1]``.
    score : {"whitened", "plain", "single"}, default="whitened"
        ``tr(b' H^-1 b) / 2``, with H the bound on the second derivative in the group's weights: a lower bound on the true gain,
        unless weights are bounded; ``|b|^2 / 2``; or that of the best column alone.

    Examples
    --------
    >>> from anytime.greedy import greedy
    >>> S = [[1, 0.9, 0], [0.9, 1, 0], [0, 0, 1]]
    >>> oracle = GradientOracle(QuadraticObjective(S, [0.6, 0.5, 0.08]), [0, 1, 2, 3])
    >>> greedy(oracle, [1, 1, 1]).values.round(4)
    array([0.18  , 0.1832, 0.1874])
    """

    def __init__(
        self,
        objective: Objective,
        start: ArrayLike,
        *,
        score: Literal["whitened", "plain", "single"] = "whitened",
    ) -> None:
        super().__init__(objective, start)
        self.score = score
        if score == "whitened":
            self._whitenings = [
                inverse_root(objective.curvature(self.columns(g))) for g in range(self.n_elements)
            ]

    def _clear(self) -> None:
        super()._clear()
        self._residual: Array | None = None

    def gains(self, candidates: NDArray[np.intp]) -> Array:
        """The score of each candidate."""
        if self._residual is None:
            self._residual = self.objective.residual(self.fit)
        return np.array(
            [self._score(int(g), self._residual[self.columns(g)]) for g in candidates], dtype=np.float64
        )

    def add(self, element: int) -> None:
        """Buy a group and refit."""
        super().add(element)
        self._residual = None

    def _score(self, group: int, b: Array) -> float:
        if self.score == "whitened":
            b = self._whitenings[group] @ b
        squares = (b**2).sum(axis=1)
        return 0.5 * float(squares.max(initial=0.0) if self.score == "single" else squares.sum())


class RefitOracle(_Pursuit):
    """Forward regression: a group is judged by what the risk falls when everything is refitted with it.

    Parameters
    ----------
    objective : Objective
    start : (J+1,) int
        Group g has the columns ``start[g]:start[g+1]``.
    single : bool, default=False
        Judge a group by its best column alone; what is bought is still the whole group.
    """

    def __init__(self, objective: Objective, start: ArrayLike, *, single: bool = False) -> None:
        super().__init__(objective, start)
        self.single = single

    def gains(self, candidates: NDArray[np.intp]) -> Array:
        """The gain of each candidate: one refit for each."""
        return (
            np.array([self._value_with(self.columns(g)) for g in candidates], dtype=np.float64) - self.value
        )

    def joint_gain(self, elements: NDArray[np.intp]) -> float:
        """The gain of several groups together."""
        columns = np.concatenate([self.columns(int(g)) for g in elements])
        return self.objective.extended(self.fit, columns).value - self.value

    def _value_with(self, columns: Columns) -> float:
        trials = columns[:, None] if self.single else columns[None, :]
        values = [self.objective.extended(self.fit, trial).value for trial in trials]
        return max(values, default=self.value)


def _differentiable(loss: Loss) -> Loss:
    if loss.kinked or loss.ranks:
        what = "compares rows" if loss.ranks else "has kinks"
        raise ValueError(
            f"the loss {loss.name!r} {what}; linear models need one that is smooth in each row by itself"
        )
    return loss


def _checked(ridge: float, bound: float | None) -> tuple[float, float | None]:
    if not (np.isfinite(ridge) and ridge >= 0):
        raise ValueError(f"ridge must be a finite number, 0 or more; got {ridge}")
    if bound is not None and not bound > 0:
        raise ValueError(f"bound must be above 0, or None for unbounded weights; got {bound}")
    return float(ridge), None if bound is None or np.isinf(bound) else float(bound)


def _kept(thing: _T | None) -> _T:
    """What a fit keeps to be extended."""
    if thing is None:
        raise ValueError("this fit was put away without its scores; only the latest can be extended")
    return thing
