"""What group pursuit is compared with, as models of their own: the lasso path, matching pursuit, the best set for one budget.

They are the estimators of ``anytime`` with another order of purchases: they predict at a budget and have a curve like any other.

    LassoPathRegressor(costs=costs).fit(X, y)                           # the path of the lasso, its own weights
    MatchingPursuitRegressor(costs=costs).fit(X, y)                     # chosen as if weights were never fitted again
    BestSetRegressor(costs=costs, budget=10).fit(X, y)                  # the best groups that 10 can buy come first
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import anytime as at
from anytime.greedy import rates_of, replay
from anytime.linear.group_pursuit import GroupPursuit, keeps_moments
from anytime.linear.lasso import LassoPath, group_lasso_path
from anytime.linear.learning_from_moments import LearnedSequence
from anytime.linear.moments import Standardised
from anytime.linear.pursuit import DEPENDENT, Criterion, GroupedProblem, Path, PursuitOracle
from anytime.linear.sequencing import (
    Arrangement,
    GivenOrder,
    LassoOrder,
    Recipe,
    Sequenced,
    all_sets,
    lasso_weights,
)
from anytime.parameters import without

Array = NDArray[np.float64]

__all__ = [
    "BestSetRegressor",
    "LassoPathClassifier",
    "LassoPathRegressor",
    "MatchingOracle",
    "MatchingPursuitRegressor",
    "points_of",
]


# ---------------------------------------------------------------------- orders


@dataclass(frozen=True)
class PathItself(LassoOrder):
    """Groups and weights of the path: those at the least penalty before the next group enters."""

    residual: list[float] = field(
        default_factory=list, compare=False
    )  # largest violation of an optimality condition

    def sequence(self, moments: Standardised, arrangement: Arrangement, ridge: float) -> Sequenced:
        """The path for columns already arranged."""
        weights = lasso_weights(arrangement, self.cost_aware)
        S, V = moments.covariance, moments.correlation
        path = group_lasso_path(S, V, arrangement.start, weights, whole=True)
        self.residual[:] = [float(path.violation.max())]
        problem = self.problem(moments, arrangement, 0.0)
        selection = replay(PursuitOracle(problem, self.criterion), arrangement.prices(), path.order)
        return Sequenced(selection, points_of(path, arrangement.start), problem, 0.0)


@dataclass(frozen=True)
class MatchingOrder(GivenOrder):
    """Matching pursuit: as if weights once fitted were never fitted again."""

    def order(
        self, problem: GroupedProblem, moments: Standardised, arrangement: Arrangement
    ) -> NDArray[np.intp]:
        """By the gradient that is left."""
        return self.choose(MatchingOracle(problem), arrangement.prices()).order


@dataclass(frozen=True)
class BestSetFirst(GivenOrder):
    """All sets of groups are tried."""

    within: float = np.inf

    def order(
        self, problem: GroupedProblem, moments: Standardised, arrangement: Arrangement
    ) -> NDArray[np.intp]:
        """The best set first, then the others."""
        return _best_first(problem, arrangement, self.within)


class MatchingOracle(PursuitOracle):
    """Candidates scored as by "omp", but by the gradient where weights once fitted are never fitted again."""

    def __init__(self, problem: GroupedProblem, criterion: Criterion = "omp") -> None:
        super().__init__(problem, criterion)
        self._refitted, self._unrefitted = self._b, self._b.copy()

    def gains(self, candidates: NDArray[np.intp]) -> Array:
        """Score of each candidate, in units of the objective."""
        self._b = self._unrefitted
        gains = super().gains(candidates)
        self._b = self._refitted
        return gains

    def add(self, element: int) -> None:
        """Buy a group; the weights of others stay as they were."""
        super().add(element)
        first, last = self.problem.start[element : element + 2]
        C, own = self.problem.covariance[:, first:last], self._unrefitted[first:last]
        self._unrefitted -= C @ np.linalg.lstsq(C[first:last], own, rcond=DEPENDENT)[0]


def points_of(lasso: LassoPath, start: NDArray[np.int64]) -> Path:
    """The least penalised point of a lasso path for every set of groups that have entered by then.

    What has once been in use is paid for, and stays a column of the path when its weights are zero again. Groups that are never
    in use are not bought; if none is, the first is, for a plan has a stage.
    """
    first = np.where(lasso.active.any(axis=0), lasso.active.argmax(axis=0), len(lasso.lambdas))
    order = lasso.order[np.argsort(first[lasso.order], kind="stable")]
    entered = (first[None, :] <= np.arange(len(lasso.lambdas))[:, None]).sum(axis=1)
    last = np.flatnonzero(np.diff(entered, append=-1) != 0)  # of all points with as many groups
    last = last[entered[last] > 0]
    counts = entered[last]
    if not last.size:
        last, counts = np.array([len(lasso.lambdas) - 1]), np.array([1])
    columns = np.concatenate([np.arange(start[g], start[g + 1]) for g in order[: counts[-1]]]).astype(np.intp)
    ends = np.cumsum(np.diff(start)[order])[counts - 1].astype(np.intp)
    tables = [lasso.coefficients[i][columns[:end]] for i, end in zip(last, ends, strict=True)]
    return Path(columns, ends, tables)


def _best_first(problem: GroupedProblem, arrangement: Arrangement, budget: float) -> NDArray[np.intp]:
    """The best set for a budget first, then the others; both by gain per unit of cost."""
    costs, values = all_sets(problem, arrangement)
    fits = np.flatnonzero(costs <= arrangement.costs.costs.budget_ticks(budget))
    best = int(fits[np.lexsort((fits, costs[fits], -values[fits]))[0]])
    chosen = np.array([bool(best >> g & 1) for g in range(arrangement.groups.size)])
    oracle, prices, order = PursuitOracle(problem, "forward"), arrangement.prices(), []
    for wanted in (chosen, ~chosen):
        left = np.flatnonzero(wanted)
        while left.size:
            rates = rates_of(np.maximum(oracle.gains(left), 0.0), prices.prices(left))
            at = int(np.argmax(rates))
            oracle.add(int(left[at]))
            prices.buy(int(left[at]))
            order.append(int(left[at]))
            left = np.delete(left, at)
    return np.array(order, dtype=np.intp)


# ---------------------------------------------------------------------- estimators


class _Baseline(GroupPursuit):
    """An estimator with another recipe."""

    kind: ClassVar[type[GivenOrder]]

    def _recipe(self) -> Recipe:
        if not keeps_moments(self):
            raise ValueError(f"{type(self).__name__} is for squared loss with an intercept and no norm_bound")
        if self.schedule == "doubling" and self.kind is not MatchingOrder:
            raise ValueError(
                f"{type(self).__name__} has an order of its own, which does not go with doubling"
            )
        plain = super()._recipe()
        given: dict[str, Any] = {field.name: getattr(plain, field.name) for field in fields(Recipe)}
        return self.kind(**given, **self._more())

    def _more(self) -> dict[str, Any]:
        return {}


class _LassoPath(_Baseline):
    """The path of the lasso: a stage per purchase, at the least penalty before the next. Nothing is held out or proved."""

    kind = PathItself
    l2_regularization = 0.0
    validation_fraction = None

    def _more(self) -> dict[str, Any]:
        self._residual: list[float] = []
        return {"residual": self._residual}

    @property
    def kkt_residual_(self) -> float:
        """The largest violation of an optimality condition on the path, as a share of its limit."""
        self.plan_  # noqa: B018  # of a stream it is worked out now
        return self._residual[0]

    def _set_learned(self, learned: LearnedSequence, *rest: Any) -> None:
        super()._set_learned(replace(learned, certificate=None), *rest)


@without("l2_regularization", "validation_fraction")
class LassoPathRegressor(_LassoPath, at.GroupPursuitRegressor):
    """The path of the lasso for numbers."""


@without("l2_regularization", "validation_fraction")
class LassoPathClassifier(_LassoPath, at.GroupPursuitClassifier):
    """The same for indicators of classes; takes ``loss="squared"``."""


class MatchingPursuitRegressor(_Baseline, at.GroupPursuitRegressor):
    """Matching pursuit, weights refitted like those of the others."""

    kind = MatchingOrder


class BestSetRegressor(_Baseline, at.GroupPursuitRegressor):
    """The best groups for ``budget`` come first, by trying all sets of up to 17."""

    kind = BestSetFirst

    def _more(self) -> dict[str, Any]:
        if self.budget is None:
            raise ValueError("the best groups are found for one budget; set budget to a number")
        return {"within": self.budget}
