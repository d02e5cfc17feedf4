"""Gradient descent in a space of functions, restricted to directions that weak learners can represent.

Three algorithms of Grubb, *Anytime Prediction*, 2014, chapter 2, in one loop. They differ in what becomes of the part of a
gradient that a projection misses: "basic" forgets it, which is right for smooth losses; "repeated" projects it again, with t
learners on the t-th gradient; "residual" adds it to the next gradient. On losses with kinks only the last two converge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.losses import Loss, Target, line_search, training_loss
from anytime_research.boosting.projection import (
    Array,
    Predictor,
    Projection,
    TargetLearner,
    length,
    measure,
    project,
)

__all__ = ["STEP_RULES", "Descent", "descend"]

Schedule = Callable[[int], float]

STEP_RULES: dict[str, Callable[[Loss, int], float]] = {
    "1/M": lambda loss, t: 1.0 / _constant(loss.smoothness, loss, "smoothness M"),
    "1/(mt)": lambda loss, t: 1.0 / (_constant(loss.convexity, loss, "strong convexity m") * t),
    "5/(4mt)": lambda loss, t: 1.25 / (_constant(loss.convexity, loss, "strong convexity m") * t),
    "1/sqrt(t)": lambda loss, t: 1.0 / float(np.sqrt(t)),
}
_NO_EDGE = 1e-10  # an edge that is rounding error
_LONGEST = 10.0  # step of a line search, as the length of the function that is added


def _constant(value: float | None, loss: Loss, name: str) -> float:
    if not value:
        raise ValueError(
            f"the loss {loss.name!r} has no {name} to take steps by; use 'line search' or '1/sqrt(t)'"
        )
    return value


@dataclass(frozen=True, eq=False)
class Descent:
    """A sum of weak predictors, any prefix of which is a predictor, and how it came about.

    T steps, each with one gradient, added L learners.

    Attributes
    ----------
    start : (K,) or (n, K)
        The scores before the first learner.
    predictors : list of callables
        ``predictors[l](X)`` gives (m, K).
    weights : (L,)
        Of each predictor in the sum; mostly negative, because predictors are fitted to the gradient.
    scores : (n, K)
        Of the training rows, after everything.
    ends : (T,) int
        Number of learners after each step.
    edges : (L,)
        Achieved by each learner's projection.
    objectives : (T + 1,)
        The objective at the start and after each step.
    gradient_norms, step_sizes : (T,)
    residual_norms : (T,)
        Length of what each step's projections missed.
    status : {"steps", "converged", "no edge", "stopped"}
        Why it ended: as many steps as asked for; a gradient of length 0; nothing in the learner's reach points along it, which
        voids all rates; the callback's word.
    """

    start: Array
    predictors: list[Predictor]
    weights: Array
    scores: Array
    ends: NDArray[np.intp]
    edges: Array
    objectives: Array
    gradient_norms: Array
    step_sizes: Array
    residual_norms: Array
    status: str

    @property
    def gamma(self) -> float:
        """The least edge of all projections: the edge in the rates that are proved."""
        return float(self.edges.min(initial=1.0))

    @property
    def mean_objective(self) -> float:
        """Mean over the points at which gradients were taken, which is what the rates of non-smooth losses bound."""
        return float(self.objectives[:-1].mean())

    def staged(self, X: Any) -> Iterator[Array]:
        """(m, K) scores of other rows after 1, 2, ..., L learners. A start given per row is for those rows only."""
        total = self.start
        for predictor, weight in zip(self.predictors, self.weights, strict=True):
            total = total + weight * predictor(X)
            yield total


def descend(
    loss: str | Loss,
    y: ArrayLike,
    learner: TargetLearner,
    n_steps: int,
    *,
    algorithm: Literal["basic", "repeated", "residual"] = "residual",
    step: float | str | Schedule = "1/sqrt(t)",
    start: ArrayLike | None = None,
    weight: ArrayLike | None = None,
    inner: int | Callable[[int], int] | None = None,
    missed: float | Schedule | None = None,
    tol: float = 1e-12,
    callback: Callable[[int, Array], bool | None] | None = None,
) -> Descent:
    """Minimise the mean loss over sums of weak predictors.

    Parameters
    ----------
    loss : str or Loss
    y : array
        Targets, as the loss reads them.
    learner : TargetLearner
        Projects gradients: ``regression(...)``, ``classification(...)``, a ``Dictionary`` or a function of your own.
    n_steps : int
        Gradients to take.
    algorithm : {"basic", "repeated", "residual"}, default="residual"
    step : float, str or callable, default="1/sqrt(t)"
        How far to go along the projected gradient in step t = 1, 2, ...: a number, a function of t, "line search", or one of
        ``STEP_RULES`` by the loss's convexity m and smoothness M. Smooth losses: "1/M" or "line search". Kinks: "1/sqrt(t)",
        and where m > 0, "1/(mt)" (residual) and "5/(4mt)" (repeated).
    start : (K,) or (n, K), default=None
        Scores to begin with; the best constant by default.
    weight : (n,), default=None
        The measure of the rows, taken as it is; 1/n each by default.
    inner : int or callable, default=None
        "repeated": how many learners a gradient gets at the most, also as a function of t. t by default, and 100 with ``missed``.
    missed : float or callable, default=None
        "repeated": stop projecting a gradient when at most this share of its squared length is missed; also as a function of t.
    tol : float, default=1e-12
        A gradient of this length is 0.
    callback : callable, default=None
        ``callback(t, scores)`` after each step; True ends the descent.

    Examples
    --------
    The example of section 2.4, ``2 |f(x_1)| + |f(x_2)|`` with coordinates as learners: basic never looks at the second row.

    >>> from anytime_research.boosting.projection import Dictionary
    >>> steep = np.array([[2.0], [1.0]])
    >>> loss = Loss("steep", lambda f, y: (steep * abs(f)).sum(axis=1), lambda f, y: steep * np.where(f >= 0, 1, -1))
    >>> for algorithm in ("basic", "residual"):
    ...     run = descend(loss, np.zeros(2), Dictionary(np.eye(2)), 1000, algorithm=algorithm,
    ...                   start=[[3.0], [2.0]], weight=[1.0, 1.0])
    ...     print(algorithm, run.objectives[-1].round(3))
    basic 2.0
    residual 0.253
    """
    loss, truth = training_loss(loss), np.asarray(y)
    share = measure(len(truth), weight)
    first = np.asarray(loss.base(truth, sample_weight=share) if start is None else start, dtype=np.float64)
    scores = np.array(np.broadcast_to(first, (len(truth), first.shape[-1])))
    rule = _step_rule(step, loss, truth, share)
    plan = _inner_rule(algorithm, inner, missed)
    slope, log = loss.required_gradient(), _Log(float(share @ loss.per_row(scores, truth)))
    carried, status = np.zeros_like(scores), "steps"
    for t in range(1, n_steps + 1):
        gradient = slope(scores, truth)
        size = length(gradient, share)
        if size <= tol:
            status = "converged"
            break
        found, rest = _projected(gradient + carried, learner, share, *plan(t))
        if not found:
            status = "no edge"
            break
        direction = gradient + carried - rest
        eta = rule(t, scores, direction)
        scores = scores - eta * direction
        if algorithm == "residual":
            carried = rest
        log.add(found, eta, size, length(rest, share), float(share @ loss.per_row(scores, truth)))
        if callback is not None and callback(t, scores):
            status = "stopped"
            break
    return log.descent(first, scores, status)


def _projected(
    target: Array, learner: TargetLearner, weight: Array, most: int, missed: float
) -> tuple[list[Projection], Array]:
    """Projections of a target, each of what those before it missed, and what is missed in the end."""
    found: list[Projection] = []
    rest, enough = target, missed * length(target, weight) ** 2
    while len(found) < most and length(rest, weight) ** 2 > enough:
        projection = project(rest, learner, weight)
        if projection.edge <= _NO_EDGE:
            break
        found.append(projection)
        rest = rest - projection.coefficient * projection.outputs
    return found, rest


def _step_rule(
    step: float | str | Schedule, loss: Loss, y: Target, weight: Array
) -> Callable[[int, Array, Array], float]:
    if step == "line search":
        return lambda t, scores, direction: line_search(
            loss, scores, -direction, y, weight, largest=_LONGEST / length(direction, weight)
        )[0]
    if callable(step):
        return lambda t, scores, direction: step(t)
    if not isinstance(step, str):
        return lambda t, scores, direction: float(step)
    if step not in STEP_RULES:
        raise ValueError(
            f"no step rule {step!r}; the rules are 'line search', {', '.join(map(repr, STEP_RULES))}"
        )
    STEP_RULES[step](loss, 1)  # a constant that the loss lacks is missed before the first gradient
    return lambda t, scores, direction: STEP_RULES[step](loss, t)


def _inner_rule(
    algorithm: str, inner: int | Callable[[int], int] | None, missed: float | Schedule | None
) -> Callable[[int], tuple[int, float]]:
    """For each step the most learners, and the share of the squared length that may be missed."""
    if algorithm not in ("basic", "repeated", "residual"):
        raise ValueError(f"no algorithm {algorithm!r}; there are 'basic', 'repeated' and 'residual'")
    if algorithm != "repeated":
        if inner is not None or missed is not None:
            raise ValueError(
                f"inner and missed are for algorithm='repeated'; {algorithm!r} has one learner per step"
            )
        return lambda t: (1, 0.0)

    def rule(t: int) -> tuple[int, float]:
        most = (t if missed is None else 100) if inner is None else inner(t) if callable(inner) else inner
        share = _NO_EDGE**2 if missed is None else missed(t) if callable(missed) else missed
        return most, share

    return rule


@dataclass
class _Log:
    """What a descent writes down as it goes; outputs on the training rows are not kept."""

    before: float
    predictors: list[Predictor] = field(default_factory=list)
    learners: list[tuple[float, float]] = field(default_factory=list)  # weight, edge
    steps: list[tuple[int, float, float, float, float]] = field(default_factory=list)

    def add(
        self, found: list[Projection], eta: float, gradient: float, residual: float, objective: float
    ) -> None:
        self.predictors += [projection.predictor for projection in found]
        self.learners += [(-eta * projection.coefficient, projection.edge) for projection in found]
        self.steps.append((len(self.learners), eta, gradient, residual, objective))

    def descent(self, start: Array, scores: Array, status: str) -> Descent:
        weights, edges = np.array(self.learners).reshape(-1, 2).T
        ends, etas, gradients, residuals, objectives = np.array(self.steps).reshape(-1, 5).T
        return Descent(
            start=start,
            predictors=self.predictors,
            weights=weights,
            scores=scores,
            ends=ends.astype(np.intp),
            edges=edges,
            objectives=np.concatenate([[self.before], objectives]),
            gradient_norms=gradients,
            step_sizes=etas,
            residual_norms=residuals,
            status=status,
        )
