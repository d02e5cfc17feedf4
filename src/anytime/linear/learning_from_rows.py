"""From rows to linear stages in the user's units, with what is proved of them: any smooth loss, by refits."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh, qr

from anytime.blocks import LinearBlock
from anytime.greedy import Selection
from anytime.linear.learning_from_moments import LearnedSequence, certified
from anytime.linear.moments import deviations
from anytime.linear.sequencing import Arrangement, Recipe
from anytime.linear.smooth import (
    Fit,
    GradientOracle,
    RefitOracle,
    SmoothObjective,
)
from anytime.linear.tuning import RIDGES
from anytime.losses import Loss, training_loss
from anytime.progress import report

Array = NDArray[np.float64]

_ROUGH = (
    1e-3  # tolerance of refits that only say which ridge or group is best; values are then right to 6 digits
)
_BEYOND = 20  # steps without gain on held-out rows after which the sequence ends, besides half as many as before them
_RANK = 1e-10  # share of a group's largest variance below which a direction of it is taken for empty


@dataclass(frozen=True, eq=False)
class _Design:
    """Standardised columns, group by group, whitened where wanted; and the way back.

    ``Z[:, start[g]:start[g + 1]]`` are the columns of group g times ``maps[g]``.
    """

    Z: NDArray[np.floating]
    start: NDArray[np.intp]
    maps: list[Array]
    mean: Array
    scale: Array

    @classmethod
    def of(cls, X: NDArray[np.floating], weight: Array, arrangement: Arrangement, whiten: bool) -> _Design:
        mean, scale = _location(X, weight)
        mean, scale = mean[arrangement.columns], scale[arrangement.columns]
        share = (weight / weight.sum()).astype(X.dtype)
        Z = np.asfortranarray(X[:, arrangement.columns])
        Z -= mean.astype(X.dtype)
        Z /= scale.astype(X.dtype)
        Z[np.isnan(Z)] = 0.0  # a missing value counts as the mean
        maps, at = [], 0
        for first, last in pairwise(arrangement.start):
            root, part = np.eye(last - first), Z[:, first:last]
            if whiten:
                S = ((part.T * share) @ part).astype(np.float64)
                variances, directions = eigh(S) if last - first > 1 else (S[0], root)
                good = variances > _RANK * max(float(variances.max(initial=0.0)), 1e-300)
                root = directions[:, good] / np.sqrt(variances[good])
            # whitening drops empty directions, so that what is written is never ahead of what is read
            Z[:, at : at + root.shape[1]] = part @ root.astype(X.dtype) if whiten else part
            at += root.shape[1]
            maps.append(root)
        start = np.concatenate([[0], np.cumsum([root.shape[1] for root in maps])]).astype(np.intp)
        return cls(Z[:, :at], start, maps, mean, scale)

    def block(self, order: NDArray[np.intp], fits: list[Fit], arrangement: Arrangement) -> LinearBlock:
        """Stages in the user's units: the fit after each purchase, in the order of purchase."""
        first = arrangement.start
        columns = np.concatenate([np.arange(first[g], first[g + 1]) for g in order])
        tables = []
        for t, fit in enumerate(fits):
            weights, at = [], 0
            for g in order[: t + 1]:
                size = self.maps[g].shape[1]
                weights.append(self.maps[g] @ fit.weights[at : at + size])
                at += size
            table = np.concatenate(weights)
            tables.append(table / self.scale[columns[: len(table)], None])
        return LinearBlock(
            arrangement.columns[columns],
            tables,
            intercepts=np.array([fit.intercept for fit in fits]),
            centres=self.mean[columns],
        )


def _location(X: NDArray[np.floating], weight: Array) -> tuple[Array, Array]:
    """Weighted means over the values that are there, and standard deviations with the others at the mean; 1 for a constant."""
    seen = ~np.isnan(X)
    with np.errstate(over="ignore", invalid="ignore"):  # ``deviations`` tells
        if seen.all():
            mean = np.average(X, axis=0, weights=weight)
            square = np.average((X - mean) ** 2, axis=0, weights=weight)
        else:
            total = weight @ seen
            mean = np.divide(
                weight @ np.where(seen, X, 0.0), total, out=np.zeros(X.shape[1]), where=total > 0
            )
            square = weight @ np.where(seen, X - mean, 0.0) ** 2 / weight.sum()
    mean = np.asarray(mean, dtype=np.float64)
    return mean, deviations(mean, np.asarray(square, dtype=np.float64), "column")[0]


def learn_from_rows(
    X: NDArray[np.floating],  # (n, d)
    y: NDArray[Any],  # (n,) or (n, k): as the loss reads it
    weight: Array | None,  # (n,)
    arrangement: Arrangement,
    recipe: Recipe,
    loss: Loss,
    *,
    l2_regularization: Any,  # a number, or "auto"
    # (n,): rows to judge on. The order is then learned from the others, and weights are fitted to all
    held: NDArray[np.bool_] | None,
    bound: float | None,  # on the norm of the (standardised, or whitened) weights
    fit_intercept: bool,
    tol: float,
    n_outputs: int,
    verbose: int = 0,
) -> LearnedSequence:
    """Any smooth loss, by refits on the data."""
    weight = np.ones(len(X)) if weight is None else weight
    # a group's best column is one of the user's, not of the whitened ones
    whiten = recipe.whiten == "data" and recipe.selection not in ("single", "forward_single")
    # Units come from the rows that the order is learned from; held-out rows are only read in them.
    design = _Design.of(X, weight if held is None else weight * ~held, arrangement, whiten)

    def objective(
        Z: NDArray[np.floating], rows: Any, l2_regularization: float, tol: float
    ) -> SmoothObjective:
        return SmoothObjective(
            Z,
            y[rows],
            loss,
            n_outputs=n_outputs,
            l2_regularization=l2_regularization,
            bound=bound,
            fit_intercept=fit_intercept,
            sample_weight=weight[rows],
            tol=tol,
        )

    judge = None
    if held is None:
        problem = objective(design.Z, slice(None), l2_regularization, tol)
    else:
        rough = max(tol, _ROUGH)  # the order is refitted to all rows below
        # along the columns, as they lie in memory
        Z, judged = (np.compress(rows, design.Z.T, axis=1).T for rows in (~held, held))
        judge = _HeldOutJudge(judged, y[held], weight[held], loss)
        if loss is not training_loss("squared"):  # whose moments are exact
            Z = Z.astype(np.float32)  # has the digits of these tolerances
        problem = objective(Z, ~held, RIDGES[-1] if l2_regularization == "auto" else l2_regularization, rough)
        if l2_regularization == "auto":
            if Z.shape[1] > len(Z):
                turn = _turned(Z)
                l2_regularization = _best_ridge(
                    objective(Z @ turn, ~held, RIDGES[-1], rough), judge.seen_through(turn)
                )
            else:
                l2_regularization = _best_ridge(problem, judge)
            problem = problem.with_ridge(l2_regularization)
    selection, order, fits = _sequence(problem, design, arrangement, recipe, verbose, judge)
    certificate = None
    if selection is not None and bound is None:
        gamma = _smooth_gamma(problem, design, recipe)
        certificate = certified(selection, problem.risk, gamma, arrangement, recipe)
    quality = None
    if judge is not None:
        quality = -np.array([judge(fit) for fit in (problem.empty(), *fits)])
        last = max(int(quality.argmax()), 1)  # what comes after the best prefix only makes it worse
        order, quality = order[:last], quality[: last + 1]
        problem = objective(design.Z, slice(None), l2_regularization, tol)
        fits = _refitted(problem, order, design.start, fits)
    return LearnedSequence(
        design.block(order, fits, arrangement),
        problem.empty().intercept,
        np.full(len(fits), float(l2_regularization)),
        certificate,
        quality,
    )


def _sequence(
    problem: SmoothObjective,
    design: _Design,
    arrangement: Arrangement,
    recipe: Recipe,
    verbose: int,
    judge: _HeldOutJudge | None,
) -> tuple[Selection | None, NDArray[np.intp], list[Fit]]:
    oracle: GradientOracle | RefitOracle
    if recipe.selection in ("forward", "forward_single"):
        oracle = RefitOracle(problem, design.start, single=recipe.selection == "forward_single")
    else:
        score = (
            "single" if recipe.selection == "single" else "plain" if recipe.whiten is False else "whitened"
        )
        oracle = GradientOracle(problem, design.start, score=score)  # type: ignore[arg-type]
    selection: Selection | None = None
    try:
        on_step = _after_each_step(arrangement, oracle, verbose, judge)
        selection = recipe.choose(oracle, arrangement.prices(), on_step)
    except KeyboardInterrupt:
        if not oracle.fits:
            raise
        warnings.warn(
            f"interrupted: the model has the first {len(oracle.fits)} of {oracle.n_elements} groups",
            stacklevel=2,
        )
    bought = np.searchsorted(design.start, oracle.fit.columns, side="right") - 1
    order = bought[np.sort(np.unique(bought, return_index=True)[1])]
    if selection is not None:
        order = selection.order  # also groups that turned out to have no direction at all
    return selection, order, oracle.fits


def _refitted(
    problem: SmoothObjective, order: NDArray[np.intp], start: NDArray[np.intp], rough: list[Fit]
) -> list[Fit]:
    """The best models on prefixes of an order, each near a rough one on the same columns."""
    fits, fit = [], problem.empty()
    for g, near in zip(order, rough, strict=False):
        fit = problem.extended(fit, np.arange(start[g], start[g + 1]), near)
        fits.append(replace(fit, gram=None, scores=None))
    return fits


@dataclass(frozen=True, eq=False)
class _HeldOutJudge:
    """Mean loss of fits on held-out rows."""

    Z: NDArray[np.floating]
    y: NDArray[Any]
    weight: Array
    loss: Loss

    def rows(self, fit: Fit) -> Array:
        """(n,) loss of each row."""
        weights = fit.weights.astype(self.Z.dtype)
        scores = np.asarray(self.Z[:, fit.columns] @ weights, dtype=np.float64) + fit.intercept
        return self.loss.per_row(scores, self.y)

    def __call__(self, fit: Fit) -> float:
        return float(np.average(self.rows(fit), weights=self.weight))

    def clearly_worse(self, rows: Array, best: Array) -> bool:
        """Whether losses are worse than others by more than two standard errors of the difference."""
        share, difference = self.weight / self.weight.sum(), rows - best
        mean = share @ difference
        return bool(mean > 2.0 * np.sqrt(share**2 @ (difference - mean) ** 2))

    def seen_through(self, turn: NDArray[np.floating]) -> _HeldOutJudge:
        """The same rows in the coordinates ``Z @ turn``."""
        return replace(self, Z=self.Z @ turn)


def _turned(Z: NDArray[np.floating]) -> NDArray[np.floating]:
    """Orthonormal columns ``Q`` such that ``Z @ Q`` is no wider than it is long and ridge regression on it is that on ``Z``."""
    return np.asarray(qr(Z.T, mode="economic", check_finite=False)[0])


def _best_ridge(problem: SmoothObjective, judge: _HeldOutJudge) -> float:
    """The ridge with which all columns together do best on held-out rows, searched from the largest down."""
    best, fit = RIDGES[-1], problem.extended(problem.empty(), np.arange(problem.n_columns))
    least = judge(fit)
    for l2_regularization in RIDGES[-2::-1]:
        fit = problem.with_ridge(l2_regularization).moved(fit)
        loss = judge(fit)
        if loss >= least:
            break
        best, least = l2_regularization, loss
    return best


def _smooth_gamma(problem: SmoothObjective, design: _Design, recipe: Recipe) -> float | Callable[[], float]:
    """``(m least + r) / (M most + r)``, r the regularization (Theorem 5.4.3; covariance within groups is at most ``most``)."""
    loss, l2_regularization = problem.loss, problem.l2_regularization
    if loss.smoothness is None:
        return 0.0
    smoothness, convexity = loss.smoothness, loss.convexity
    if convexity == 0:
        return _bounded_gamma(0.0, l2_regularization, smoothness, recipe, design)

    def from_spectrum() -> float:
        Z, weight = problem.features, problem.weight
        S = ((Z * weight.astype(Z.dtype)) @ Z.T).astype(np.float64)
        lowest = max(float(eigh(S, eigvals_only=True, subset_by_index=[0, 0])[0]), 0.0)
        return _bounded_gamma(convexity * lowest, l2_regularization, smoothness, recipe, design)

    return from_spectrum


def _bounded_gamma(
    least: float, l2_regularization: float, smoothness: float, recipe: Recipe, design: _Design
) -> float:
    if l2_regularization == 0 and least == 0:
        return 0.0
    widest = float(max(np.diff(design.start).max(initial=1), 1))
    # no group of unit-variance columns has more than its width in one direction
    whitened = recipe.whiten == "data" and recipe.selection in ("omp", "forward")
    most = smoothness * (1.0 if whitened else widest) + l2_regularization
    if recipe.selection == "single" or (recipe.whiten is False and recipe.selection == "omp"):
        most = max(most, 1.0)  # the gradient as it is, not in units of the curvature
    divisor = widest if recipe.selection in ("single", "forward_single") else 1.0
    return min((least + l2_regularization) / most / divisor, 1.0)


def _after_each_step(
    arrangement: Arrangement, oracle: GradientOracle | RefitOracle, verbose: int, judge: _HeldOutJudge | None
) -> Callable[[int, int], bool]:
    """Reports progress; ends the run when held-out rows have seen no gain for a long time."""
    began, best, least, best_rows = time.monotonic(), 0, np.inf, np.empty(0)

    def after(step: int, element: int) -> bool:
        nonlocal best, least, best_rows
        name = arrangement.costs.costs.names[arrangement.groups[element]]
        report(
            time.monotonic() - began,
            f"group {step} of {oracle.n_elements}: {name!r}, risk lower by {oracle.value:.5g}",
            verbose,
            n_bought=step,
            gain=oracle.value,
        )
        if judge is None:
            return False
        rows = judge.rows(oracle.fit)
        mean = float(np.average(rows, weights=judge.weight))
        if mean < least:
            best, least, best_rows = step, mean, rows
        too_late = step > 1.5 * best + _BEYOND
        return too_late or (step > 1.25 * best + _BEYOND / 4 and judge.clearly_worse(rows, best_rows))

    return after
