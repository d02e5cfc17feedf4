"""Sequences of feature groups for any smooth loss: generalised linear models, several outputs, bounded weights.

The value of a set of columns is how much less risk the best linear model on them has than the best constant (Hu 2019, equation
3.27; Grubb, *Anytime Prediction*, 2014, objectives SQ, SM, with ridge or a bound on the weights). An *objective*
finds that model; two *oracles* over any objective tell greedy selection what a group would gain: from the gradient (orthogonal
matching pursuit, Algorithm 5 of Hu 2019), or by refitting with every candidate (forward regression). Squared loss has a much
faster engine of its own, unless weights are bounded.
"""

import copy
import warnings
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import brentq
from scipy.sparse import block_diag, coo_array
from sklearn.exceptions import ConvergenceWarning

from anytime._native import softmax_pull
from anytime.linear.pursuit import by_group
from anytime.linear.solver import definite_root, inverse_root, inverse_triangle, minimised
from anytime.losses import Loss, Target, training_loss
from anytime.losses.rows import softmax
from anytime.losses.targets import classes

Array = NDArray[np.float64]
Columns = NDArray[np.intp]
_T = TypeVar("_T")

_NEAR = 1e-2  # of the gradient at the start
_ROUND = 30  # iterations after which the curvature is looked at again
_FAR = 1e3  # times the goal: more than rounding
_FLAT = 1e-8  # share of the most that a loss can curve
_COUPLED = 1e-5  # finer tolerances are worth the second derivative at the start, in the weights of all classes, if these are few
_FEW = 200
_PLAIN = (training_loss("logistic"), training_loss("multinomial"))  # gradients have the digits of the scores
_SHIFT = 1e-6  # share of the largest curvature that stands for none
_NEGLIGIBLE = 1e-3  # rows that curve less than this share of the mean are left out of a Gram matrix


@dataclass(frozen=True, eq=False)
class Gram:
    """The Gram matrix (k, k) of columns, each row of the data counted as much as its loss was bent, (n,)."""

    bend: Array
    matrix: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Fit:
    """The best linear model on some columns: scores are ``intercept + Z[:, columns] @ weights``."""

    columns: Columns  # (k,): in the order they were added
    intercept: Array  # (K,)
    weights: Array  # (k, K)
    value: float = 0.0  # how much less risk it has than the model without columns
    scores: Array | None = None  # (n, K)
    gram: Gram | None = None  # what an objective for data keeps to extend the fit


class LinearObjective(Protocol):
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


class SmoothObjective:
    """The mean of a smooth loss on data, with a ridge, or a bound on the weights, or both.

    ``risk = mean loss + l2_regularization / 2 * |W|^2`` in the Frobenius norm, and ``|W| <= bound``; the intercept is free. A
    refit is a search by L-BFGS from the fit it extends, in coordinates in which the second derivative is near the identity.
    """

    def __init__(
        self,
        Z: NDArray[Any],  # (n, D): in float32 gradients have six or seven digits, which is then the tolerance
        y: Target,  # (n,) or (n, K): class numbers or targets, as the loss reads them
        loss: str | Loss,
        *,
        n_outputs: int | None = None,  # scores per row; None: as many as ``y`` shows
        l2_regularization: float = 0.0,
        bound: float | None = None,
        fit_intercept: bool = True,  # False: scores are 0 before the first column
        sample_weight: ArrayLike | None = None,  # (n,)
        # a refit ends where no entry of the gradient, in those coordinates, is above ``tol`` of the largest at ``W = 0``
        tol: float = 1e-8,
        max_iter: int = 1000,  # iterations per search
    ) -> None:
        n, self.n_columns = Z.shape
        # A column's numbers lie side by side; the last is that of the intercept.
        self._table = np.ones((self.n_columns + 1, n), dtype=Z.dtype)
        self.features = self._table[:-1]  # (D, n)
        self.features[:] = Z.T
        self.y, self.loss = np.asarray(y), _differentiable(training_loss(loss))
        self.gradient = self.loss.required_gradient()
        self.n_outputs = self.loss.n_outputs(self.y) if n_outputs is None else n_outputs
        self.l2_regularization, self.bound = _checked(l2_regularization, bound)
        self.fit_intercept, self.max_iter = fit_intercept, max_iter
        self.tol = max(tol, 20 * float(np.finfo(Z.dtype).eps))  # gradients have no more digits
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
            gram=self._gram(self._design(np.empty(0, dtype=np.intp)), bend),
        )
        self.risk = float(self.weight @ self.loss.per_row(scores, self.y))
        self.smoothness = self.loss.smoothness or float(bend.sum())
        self._slope = self.residual(self._empty)
        pull = float((self.weight @ np.abs(self.gradient(scores, self.y))).max())
        # noise is no yardstick
        self._steepest = max(float(np.abs(self._slope).max(initial=0.0)), 1e-3 * pull)

    def with_ridge(self, l2_regularization: float) -> Self:
        """The same risk with another ridge."""
        other = copy.copy(self)
        other.l2_regularization = _checked(l2_regularization, self.bound)[0]
        return other

    def empty(self) -> Fit:
        """The best constant."""
        return self._empty

    def moved(self, fit: Fit) -> Fit:
        """The best model on the columns of ``fit``, which was the best for another ridge."""
        return self._refitted(fit, fit.columns[:0], self.tol)

    def extended(self, fit: Fit, columns: Columns, near: Fit | None = None) -> Fit:
        """The best model on the columns of ``fit`` and some new ones, searched from ``near``, which has them all, where given."""
        if not columns.size:
            return fit
        # a long way to go: look again at the curvature when near
        if near is None and columns.size > fit.columns.size:
            fit, columns = self._refitted(fit, columns, max(self.tol, _NEAR)), columns[:0]
        return self._refitted(fit, columns, self.tol, near)

    def _refitted(self, fit: Fit, columns: Columns, tol: float, near: Fit | None = None) -> Fit:
        together = np.concatenate([fit.columns, columns])
        design = self._design(together)
        gram = self._extended_gram(fit, design)
        point = np.vstack([fit.intercept, fit.weights, np.zeros((columns.size, self.n_outputs))])
        if near is not None:
            point = np.vstack([near.intercept, near.weights])
        point = point if self.fit_intercept else point[1:]
        own = point[int(self.fit_intercept) :]
        goal = tol * self._steepest / np.sqrt(_kept(self._empty.gram).bend.sum() + self.l2_regularization)

        def solved(multiplier: float) -> float:
            """Refit with a larger ridge; how far the weights then stay within the bound, 1/|W| - 1/bound."""
            nonlocal point, own, gram
            iterations, steepest, strikes = 0, np.inf, 0
            while steepest > goal and iterations < self.max_iter and strikes < 2:
                if iterations:  # a long way from where the curvature was measured: look again
                    gram = self._gram(design, self._bend(self._scores(design, point)))
                before, round_length = steepest, min(max(_ROUND, 2 * iterations), self.max_iter - iterations)
                point, steepest = self._solved(
                    design, gram, point, self.l2_regularization + multiplier, goal, round_length
                )
                iterations += round_length
                strikes += steepest > 0.5 * before  # rounding hides the rest
            if steepest > (goal if iterations >= self.max_iter else _FAR * goal):
                warnings.warn(
                    f"a refit ended after {iterations} iterations with a gradient of {steepest:.1e}, above "
                    f"the tolerance of {goal:.1e}: raise max_iter, tol or l2_regularization",
                    ConvergenceWarning,
                    stacklevel=2,
                )
            own = point[int(self.fit_intercept) :]
            size = float(np.linalg.norm(own))
            return np.inf if self.bound is None or size == 0 else 1.0 / size - 1.0 / self.bound

        # Bounded weights are those of some larger ridge (the conditions of Karush, Kuhn and Tucker), by at most |b| / bound.
        if solved(0.0) < 0 and self.bound is not None:
            most = float(np.linalg.norm(self._slope[together])) / self.bound
            solved(brentq(solved, 0.0, most, xtol=tol * most, rtol=max(tol, 1e-15)))
            own *= self.bound / np.linalg.norm(own)
        scores = self._scores(design, point)
        risk = self.weight @ self.loss.per_row(scores, self.y) + 0.5 * self.l2_regularization * (own**2).sum()
        intercept = point[0] if self.fit_intercept else fit.intercept
        return Fit(together, intercept, own, self.risk - float(risk), scores, gram)

    def residual(self, fit: Fit) -> Array:
        """Minus the gradient in every weight: one pass over the data, O(nDK)."""
        dtype = self.features.dtype if self.loss in _PLAIN else np.dtype(np.float64)
        pull = self._pull(_kept(fit.scores).astype(dtype, copy=False))
        b: Array = -(self.features @ pull.astype(self.features.dtype, copy=False)).astype(np.float64)
        b[fit.columns] -= self.l2_regularization * fit.weights
        return b

    def curvature(self, columns: Columns) -> Array:
        """``M S + r I`` of these columns, r the regularization, M the smoothness of the loss or, without, its first curvature."""
        some = self.features[columns]
        gram: Array = ((some * self.weight.astype(some.dtype)) @ some.T).astype(np.float64)
        return self.smoothness * gram + self.l2_regularization * np.eye(columns.size)

    def _design(self, columns: Columns) -> NDArray[Any]:
        """(k, n) columns, after that of the intercept if there is one."""
        rows = np.concatenate([[-1], columns]) if self.fit_intercept else columns
        return np.asarray(self._table[rows])

    def _scores(self, design: NDArray[Any], weights: Array, dtype: Any = np.float64) -> NDArray[Any]:
        # One output after the other in memory: what a loss does to each row then runs along it.
        scores = (weights.T.astype(design.dtype, copy=False) @ design).T
        return np.asarray(scores.astype(dtype, copy=False))

    def _pull(self, scores: NDArray[Any]) -> NDArray[Any]:
        """(n, K) the gradient of each row's loss in its scores, times its weight."""
        weight = self.weight.astype(scores.dtype, copy=False)
        if self.loss is _PLAIN[1]:
            return softmax_pull(np.ascontiguousarray(scores.T), classes(self.y), weight).T
        return np.asarray(self.gradient(scores, self.y) * weight[:, None])

    def _bend(self, scores: Array) -> Array:
        """How sharply the loss of each row curves here, (n,): its largest second derivative in one score, times its weight.

        Where the loss is flat for all rows, as Huber's is far from its target, the most it can curve elsewhere.
        """
        if self.loss in _PLAIN:
            scores = scores.astype(np.float32)  # curvature need not be exact
        if self.loss.hessian is not None:
            bend = np.maximum.reduce(self.loss.hessian(scores, self.y), axis=1)
        else:
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
        old, k = _kept(fit.gram), fit.columns.size + int(self.fit_intercept)
        bend, now = old.bend, self._bend(_kept(fit.scores))
        if now.sum() < 0.5 * bend.sum():
            bend, k = now, 0
        return self._gram(design, bend, old.matrix[:k, :k])

    def _gram(self, design: NDArray[Any], bend: Array, leading: NDArray[Any] | None = None) -> Gram:
        """With rows counted as ``bend`` says; of the first columns it may be known."""
        rows = np.flatnonzero(bend > _NEGLIGIBLE * bend.mean())
        some, counted = (design[:, rows], bend[rows]) if 2 * rows.size < bend.size else (design, bend)
        k = 0 if leading is None else len(leading)
        matrix = np.empty((len(design), len(design)), dtype=design.dtype)
        matrix[:k, :k] = leading if k else 0.0
        matrix[:, k:] = some @ (some[k:] * counted.astype(design.dtype)).T
        matrix[k:, :k] = matrix[:k, k:].T
        if rows.size < bend.size:  # the others may not be flat for long: a little stands for them
            matrix[range(k, len(design)), range(k, len(design))] += _NEGLIGIBLE * bend.sum()
        return Gram(bend, matrix)

    def _solved(
        self,
        design: NDArray[Any],
        gram: Gram,
        weights: Array,
        l2_regularization: float,
        goal: float,
        max_iter: int,
    ) -> tuple[Array, float]:
        """Weights of least risk for this ridge, searched in coordinates ``root' @ weights``, and the gradient's largest entry."""
        pull_back = np.full((len(design), 1), l2_regularization)
        if self.fit_intercept:
            pull_back[0] = 0.0
        matrix, shape = gram.matrix, weights.shape
        if self.tol < _COUPLED and self.loss in _PLAIN and weights.size <= _FEW:
            if self.n_outputs > 1:
                matrix, shape = self._second_derivative(design, weights), (weights.size, 1)
            else:
                matrix = self._gram(design, self._bend(self._scores(design, weights))).matrix
        root = definite_root(matrix, np.repeat(pull_back[:, 0], len(matrix) // len(design)))
        back, dtype = inverse_triangle(root), root.dtype
        precision = dtype if self.loss in _PLAIN else np.dtype(np.float64)

        def weights_at(u: Array) -> Array:
            turned = u.reshape(shape).astype(dtype, copy=False)
            return np.asarray(back.T @ turned, dtype=np.float64).reshape(weights.shape)

        def gradient(u: Array) -> Array:
            w = weights_at(u)
            pull = self._pull(self._scores(design, w, precision))
            g = design @ pull.astype(dtype, copy=False) + (pull_back * w).astype(dtype, copy=False)
            return np.asarray((back @ g.reshape(shape)).ravel(), dtype=np.float64)

        start = np.asarray((root.T @ weights.reshape(shape).astype(dtype)).ravel(), dtype=np.float64)
        u, steepest = minimised(gradient, start, goal, max_iter)
        solution = weights_at(u)
        # intercepts that shift alike change nothing, so rounding moves them
        if self.fit_intercept and self.loss is _PLAIN[1]:
            solution[0] += weights[0].mean() - solution[0].mean()
        return solution, steepest

    def _second_derivative(self, design: NDArray[Any], weights: Array) -> NDArray[Any]:
        """(kK, kK) of the multinomial risk: ``sum_i w_i zz' (diag(p) - pp')``, and a little where all classes shift alike."""
        dtype, design = design.dtype, design.astype(np.float32, copy=False)  # it need not be exact
        chances = softmax(self._scores(design, weights, np.float32)).T
        (k, n), K = design.shape, len(chances)
        weight = self.weight.astype(np.float32)
        rooted = (design[:, None] * (chances * np.sqrt(weight))).reshape(k * K, n)
        matrix = -(rooted @ rooted.T)
        by_class = matrix.reshape(k, K, k, K)
        for c in range(K):
            by_class[:, c, :, c] += (design * (weight * chances[c])) @ design.T
        matrix[range(k * K), range(k * K)] += _SHIFT * matrix.diagonal().max()
        return np.asarray(matrix, dtype=dtype)


# ---------------------------------------------------------------------- oracles


class _Pursuit:
    """A ``GainOracle`` over the groups of an objective's columns, group g of which has ``start[g]:start[g + 1]``.

    It remembers the model after every purchase (``fits``).
    """

    def __init__(self, objective: LinearObjective, start: ArrayLike) -> None:
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

    Its score is ``tr(b' H^-1 b) / 2`` ("whitened"), with H the bound on the second derivative in the group's weights: a lower
    bound on the true gain, unless weights are bounded; or ``|b|^2 / 2`` ("plain"); or that of the best column ("single").

    Examples
    --------
    >>> from anytime.greedy import greedy
    >>> Z = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]])
    >>> oracle = GradientOracle(SmoothObjective(Z, Z @ [0.2, 0.6], "squared"), [0, 1, 2])
    >>> greedy(oracle, [1, 1]).values.round(4)  # half the squares of the weights
    array([0.18, 0.2 ])
    """

    def __init__(
        self,
        objective: LinearObjective,
        start: ArrayLike,
        *,
        score: Literal["whitened", "plain", "single"] = "whitened",
    ) -> None:
        super().__init__(objective, start)
        self.score = score
        roots = [np.eye(end - first) for first, end in pairwise(self.start)]
        if score == "whitened":
            roots = [inverse_root(objective.curvature(self.columns(g))) for g in range(self.n_elements)]
        self._roots: Any = block_diag([coo_array((0, 0)), *roots], format="csr")
        self._bounds = np.cumsum([0, *(len(root) for root in roots)])

    def _clear(self) -> None:
        super()._clear()
        self._all_gains: Array | None = None

    def gains(self, candidates: NDArray[np.intp]) -> Array:
        """The score of each candidate."""
        if self._all_gains is None:
            squares = ((self._roots @ self.objective.residual(self.fit)) ** 2).sum(axis=1)
            combine = np.maximum if self.score == "single" else np.add
            self._all_gains = 0.5 * by_group(combine, squares, self._bounds)
        return np.asarray(self._all_gains[candidates])

    def add(self, element: int) -> None:
        """Buy a group and refit; gains are found anew."""
        super().add(element)
        self._all_gains = None


class RefitOracle(_Pursuit):
    """Forward regression: a group is judged by what the risk falls when everything is refitted with it.

    With ``single`` a group is judged by its best column alone; what is bought is still the whole group.
    """

    def __init__(self, objective: LinearObjective, start: ArrayLike, *, single: bool = False) -> None:
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


def _checked(l2_regularization: float, bound: float | None) -> tuple[float, float | None]:
    if not (np.isfinite(l2_regularization) and l2_regularization >= 0):
        raise ValueError(f"l2_regularization must be a finite number, 0 or more; got {l2_regularization}")
    if bound is not None and not bound > 0:
        raise ValueError(f"bound must be above 0, or None for unbounded weights; got {bound}")
    return float(l2_regularization), None if bound is None or np.isinf(bound) else float(bound)


def _kept(thing: _T | None) -> _T:
    """What a fit keeps to be extended."""
    if thing is None:
        raise ValueError("the scores of this fit were discarded; only the latest fit can be extended")
    return thing
