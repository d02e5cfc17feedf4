"""All weights of a sum of predictors, fitted again with every new one (Grubb, Algorithms 6.4 and 6.5)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize

from anytime.plan import Array

if TYPE_CHECKING:
    from anytime.boosting.objective import MeanLoss, Rows

_DEPENDENT = 1e-12  # share of a squared length outside the span of others that is taken for rounding
_FLAT = 1e-8  # slope at which a descent by values ends


class Reweighting:
    """The weights with the least ``objective(base + sum of weight_j h_j) + weight_regularization / 2 |weights|²``.

    A loss of constant curvature is solved from inner products, of which a new predictor adds one row; other losses continue from
    the weights before, in coordinates in which their curvature there is even, and have a ``largest`` weight: some have no least
    point without one. Outputs of all predictors are kept.
    """

    def __init__(
        self, objective: MeanLoss, base: Array, weight_regularization: float, largest: float = np.inf
    ) -> None:
        self.objective, self.weight_regularization, self.largest = objective, weight_regularization, largest
        self.weights = np.zeros(0)  # (t,)
        self.scores = np.tile(base, (len(objective), 1))  # (n, K)
        self.value = objective.value(self.scores)  # of the objective, with its ridge
        self.outputs = np.empty((0, *self.scores.shape))  # (t, n, K)
        self._start = self.scores
        self._pull = objective.residual(self.scores)
        self._quadratic = objective.loss.smoothness == objective.loss.convexity
        self._factor = _Factor()

    def add(self, h: Array, weights: Array | None = None) -> float:
        """Join a predictor and fit all weights, or take those given; returns the drop of the objective with its ridge."""
        before = self.value
        self.weights = self._solver(slice(None))(h) if weights is None else np.array(weights)
        if self._quadratic:
            self._factor = self._factor.joined(*self._border(self.outputs, h, slice(None)))
        self.outputs = _appended(self.outputs, h)
        self.scores = self._start + np.tensordot(self.weights, self.outputs, 1)
        self.value = self.objective.value(self.scores) + self._penalty(self.weights)
        return before - self.value

    def gains(self, rows: Rows, judge_on: Rows) -> Callable[[Array], float]:
        """A function: how much the objective on ``judge_on`` falls if a predictor joins and all weights are fitted on ``rows``.

        What is the same for all predictors is worked out once.
        """
        if self._quadratic and isinstance(rows, slice) and isinstance(judge_on, slice):
            return lambda h: self._factor.joined(*self._border(self.outputs, h, rows)).gain
        solved, objective = self._solver(rows), self.objective
        before = objective.value(self.scores, judge_on) + self._penalty(self.weights)
        start, outputs = self._start[judge_on], self.outputs[:, judge_on]

        def gain(h: Array) -> float:
            weights = solved(h)
            moved = start + np.tensordot(weights[:-1], outputs, 1) + weights[-1] * h[judge_on]
            return before - objective.value_of(moved, judge_on) - self._penalty(weights)

        return gain

    def _penalty(self, weights: Array) -> float:
        return 0.5 * self.weight_regularization * float(weights @ weights)

    def _solver(self, rows: Rows) -> Callable[[Array], Array]:
        """From a predictor to the weights of all, with it the last."""
        if not self._quadratic:
            return self._descent(rows)
        factor = self._factor
        if not isinstance(rows, slice):
            factor = _Factor()
            for t, h in enumerate(self.outputs):
                factor = factor.joined(*self._border(self.outputs[:t], h, rows))
        return lambda h: factor.joined(*self._border(self.outputs, h, rows)).weights

    def _border(self, outputs: Array, h: Array, rows: Rows) -> tuple[Array, float, float]:
        """What a predictor adds to the system ``(M <h_i, h_j> + r) w = <g, h_i>``: r the regularization, g minus the gradient."""
        curvature = self.objective.loss.convexity
        weighted = self.objective.shares(rows)[:, None] * h[rows]
        row = curvature * np.tensordot(outputs[:, rows], weighted, 2)
        corner = curvature * float(np.vdot(weighted, h[rows])) + self.weight_regularization
        return row, corner, float(np.vdot(weighted, self._pull[rows]))

    def _descent(self, rows: Rows) -> Callable[[Array], Array]:
        """As ``_solver``, for a loss whose curvature varies."""
        objective, gradient = self.objective, self.objective.loss.required_gradient()
        y, share = objective.y[rows], objective.shares(rows)[:, None]
        start, outputs, curvature = self._start[rows], self.outputs[:, rows], share * self._curvature(rows)
        inside = np.tensordot(outputs * curvature, outputs, ((1, 2), (1, 2)))

        def weights(h: Array) -> Array:
            h = h[rows]

            def penalised(w: Array) -> tuple[float, Array]:
                scores = start + np.tensordot(w[:-1], outputs, 1) + w[-1] * h
                pull = share * gradient(scores, y)
                slope = (
                    np.append(np.tensordot(outputs, pull, 2), np.vdot(h, pull))
                    + self.weight_regularization * w
                )
                return objective.value_of(scores, rows) + self._penalty(w), slope

            border = np.tensordot(outputs, curvature * h, 2)
            bend = np.block([[inside, border[:, None]], [border, np.vdot(h, curvature * h)]])
            return _least(
                penalised,
                np.append(self.weights, 0.0),
                bend + self.weight_regularization * np.eye(len(bend)),
                self.largest,
            )

        return weights

    def _curvature(self, rows: Rows) -> Array:
        """(n, K) second derivatives at the scores now, or an idea of them."""
        loss, scores = self.objective.loss, self.scores[rows]
        if loss.hessian is None:
            return np.full_like(scores, loss.smoothness or 1.0)
        return np.asarray(loss.hessian(scores, self.objective.y[rows]))


def _appended(outputs: Array, h: Array) -> Array:
    """``outputs`` with one more, in place where there is room: room is made for twice as many."""
    t = len(outputs)
    room = outputs if outputs.base is None else outputs.base
    if t == len(room):
        room = np.empty((max(2 * t, 4), *h.shape))
        room[:t] = outputs
    room[t] = h
    return np.asarray(room[: t + 1])


@dataclass(frozen=True, eq=False)
class _Factor:
    """Cholesky factor of a system that grows row by row, its right side solved halfway, and what the last row gains."""

    lower: Array = field(default_factory=lambda: np.empty((0, 0)))
    halfway: Array = field(default_factory=lambda: np.empty(0))
    gain: float = 0.0

    def joined(self, row: Array, corner: float, right: float) -> _Factor:
        """With one more row."""
        t = len(self.halfway)
        across = solve_triangular(self.lower, row, lower=True, check_finite=False) if t else row
        rest = corner - float(across @ across)
        if not rest > _DEPENDENT * corner:  # a sum of others: this gives it the weight 0
            rest = np.inf
        left = right - float(across @ self.halfway)
        lower = np.zeros((t + 1, t + 1))
        lower[:t, :t], lower[t, :t], lower[t, t] = self.lower, across, np.sqrt(rest)
        return _Factor(lower, np.append(self.halfway, left / lower[t, t]), 0.5 * left**2 / rest)

    @property
    def weights(self) -> Array:
        """The solution of the system."""
        return np.asarray(solve_triangular(self.lower.T, self.halfway, check_finite=False), dtype=np.float64)


def _least(
    function: Callable[[Array], tuple[float, Array]], start: Array, curvature: Array, largest: float
) -> Array:
    """Where a convex function is least within ``largest``; from ``start``, where it curves about as ``curvature`` says."""
    size = np.sqrt(np.maximum(np.diag(curvature), 1e-300))
    lower = np.linalg.cholesky(curvature / np.outer(size, size) + 1e-10 * np.eye(len(size))) * size[:, None]

    def place(u: Array) -> Array:
        return start + np.asarray(solve_triangular(lower.T, u), dtype=np.float64)

    def even(u: Array) -> tuple[float, Array]:
        """The function where it curves the same in all directions."""
        value, slope = _bounded(function, place(u))
        return value, np.asarray(solve_triangular(lower, slope, lower=True), dtype=np.float64)

    solution = minimize(
        even, np.zeros_like(start), jac=True, method="BFGS", options={"gtol": _FLAT, "maxiter": 500}
    )
    u, slope = np.asarray(solution.x), np.asarray(solution.jac)
    for _ in range(20):  # where values no longer tell, slopes still do
        nearer = u - solution.hess_inv @ slope
        new = even(nearer)[1]
        if not np.abs(new).max() < np.abs(slope).max():
            break
        u, slope = nearer, new
    best = place(u)
    if np.abs(best).max() > largest:  # perhaps there is no least point at all

        def within(w: Array) -> tuple[float, Array]:
            return _bounded(function, w)

        solution = minimize(
            within,
            np.clip(start, -largest, largest),
            jac=True,
            method="L-BFGS-B",
            bounds=[(-largest, largest)] * len(start),
            options={"gtol": _FLAT, "ftol": 0.0, "maxiter": 500},
        )
        best = np.asarray(solution.x)
    return best if _bounded(function, best)[0] <= function(start)[0] else start


def _bounded(function: Callable[[Array], tuple[float, Array]], place: Array) -> tuple[float, Array]:
    """Value and slope, an infinite one where it is too far to tell."""
    with np.errstate(over="ignore", invalid="ignore"):
        value, slope = function(place)
    if np.isfinite(value) and np.isfinite(slope).all():
        return value, slope
    return np.inf, np.zeros_like(place)
