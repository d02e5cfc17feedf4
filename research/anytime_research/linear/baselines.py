"""What group pursuit is compared with, as models of their own: the group lasso, matching pursuit, the best set for one budget.

They are the estimators of ``anytime`` with another order of purchases: they predict at a budget and have a curve like any other.

    LassoRegressor(costs=costs, l2_regularization=0.01).fit(X, y)       # in the order of the path, weights refitted
    LassoPathRegressor(costs=costs).fit(X, y)                           # the path itself
    MatchingPursuitRegressor(costs=costs).fit(X, y)                     # chosen as if weights were never fitted again
    BestSetRegressor(costs=costs, budget=10).fit(X, y)                  # the best groups that 10 can buy come first
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

import anytime as at
from anytime.greedy import GainOracle, GroupPrices, Selection, rates_of
from anytime.greedy.selection import checked_gains, room_budgets, room_within
from anytime.linear.group_pursuit import GroupPursuit, keeps_moments
from anytime.linear.learning_from_moments import LearnedSequence
from anytime.linear.moments import Standardised
from anytime.linear.pursuit import DEPENDENT, Criterion, GroupedProblem, Path, PursuitOracle
from anytime.linear.sequencing import Arrangement, Recipe, Sequenced, all_sets
from anytime.linear.smooth import SmoothObjective
from anytime.linear.tuning import least_norm
from anytime.parameters import without
from anytime_research.linear.lasso import LassoPath, group_lasso_path

Array = NDArray[np.float64]

__all__ = [
    "BestSetRegressor",
    "LassoClassifier",
    "LassoPathClassifier",
    "LassoPathRegressor",
    "LassoRegressor",
    "MatchingOracle",
    "MatchingPursuitRegressor",
    "lasso_weights",
    "points_of",
    "pursuit",
    "replay",
]


# ---------------------------------------------------------------------- orders


@dataclass(frozen=True)
class GivenOrder(Recipe):
    """A recipe whose order comes from elsewhere; the books of the run are kept all the same. Nothing is proved of it."""

    theory: ClassVar[bool] = False

    def order(
        self, problem: GroupedProblem, moments: Standardised, arrangement: Arrangement
    ) -> NDArray[np.intp]:
        """Groups in the order of purchase."""
        raise NotImplementedError

    def sequence(self, moments: Standardised, arrangement: Arrangement, ridge: float) -> Sequenced:
        """The order with weights refitted for every prefix."""
        problem = self.problem(moments, arrangement, ridge)
        oracle = PursuitOracle(problem, self.criterion)
        selection = replay(oracle, arrangement.prices(), self.order(problem, moments, arrangement))
        return Sequenced(selection, least_norm(oracle, moments.covariance), problem, ridge)


@dataclass(frozen=True)
class LassoOrder(GivenOrder):
    """Groups as they enter the path of the cost-weighted group lasso."""

    refit: bool = True  # False: the weights are those of the path itself
    residual: list[float] = field(
        default_factory=list, compare=False
    )  # largest violation of an optimality condition

    def path(self, moments: Standardised, arrangement: Arrangement) -> LassoPath:
        """The path for columns already arranged."""
        weights = lasso_weights(arrangement, self.cost_aware)
        S, V = moments.covariance, moments.correlation
        found = group_lasso_path(S, V, arrangement.start, weights, whole=not self.refit)
        self.residual[:] = [float(found.violation.max())]
        return found

    def order(
        self, problem: GroupedProblem, moments: Standardised, arrangement: Arrangement
    ) -> NDArray[np.intp]:
        """By first entry."""
        return self.path(moments, arrangement).order

    def choose(self, oracle: Any, prices: GroupPrices, on_step: Any = None) -> Selection:
        """By rows, for another loss: the order of least squares on the gradient at the start."""
        objective: SmoothObjective = oracle.objective
        Z, weight = objective.features, objective.weight.astype(objective.features.dtype)
        weights = lasso_weights(Arrangement.of(prices.costs), self.cost_aware)
        target = objective.residual(objective.empty())
        return replay(
            oracle, prices, group_lasso_path((Z * weight) @ Z.T, target, oracle.start, weights).order
        )

    def sequence(self, moments: Standardised, arrangement: Arrangement, ridge: float) -> Sequenced:
        """With weights refitted, or those of the path at the least penalty before the next group enters."""
        if self.refit:
            return super().sequence(moments, arrangement, ridge)
        problem, path = self.problem(moments, arrangement, 0.0), self.path(moments, arrangement)
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


def replay(oracle: GainOracle, prices: GroupPrices, order: Sequence[int] | NDArray[np.intp]) -> Selection:
    """Buy in a given order, keeping the books of a greedy run: what was gained, and the best rate that was to be had."""
    paid, values, rates, rooms = [], [], [], []
    left = np.ones(oracle.n_elements, dtype=bool)
    budgets = room_budgets(prices)
    for element in order:
        candidates = np.flatnonzero(left)
        gains, shares = checked_gains(oracle, candidates), prices.shares(candidates)
        rates.append(float(rates_of(gains, shares).max()))
        rooms.append(room_within(budgets, gains, shares))
        oracle.add(int(element))
        paid.append(prices.buy(int(element)))
        values.append(oracle.value)
        left[element] = False
    return Selection(
        order=np.asarray(order, dtype=np.intp),
        prices=np.array(paid),
        costs=np.cumsum(paid),
        values=np.array(values),
        best_rates=np.array(rates),
        n_elements=oracle.n_elements,
        rooms=np.array(rooms),
        room_budgets=budgets,
    )


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


def lasso_weights(arrangement: Arrangement, cost_aware: bool = True) -> Array:
    """What the group lasso charges each group: its price with all it requires, or the same for all."""
    prices = arrangement.prices()
    whole = prices.prices(np.arange(prices.n_elements)) if cost_aware else np.ones(prices.n_elements)
    return np.asarray(whole / max(float(whole.mean()), 1e-300))


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
    refit: ClassVar[bool] = True

    def _recipe(self) -> Recipe:
        if not keeps_moments(self) and (self.kind is not LassoOrder or not self.refit):
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


class LassoRegressor(_Baseline, at.GroupPursuitRegressor):
    """Order of the cost-weighted group lasso, weights refitted like those of the others."""

    kind = LassoOrder

    def _more(self) -> dict[str, Any]:
        self._residual: list[float] = []
        return {"refit": self.refit, "residual": self._residual}

    @property
    def kkt_residual_(self) -> float:
        """The largest violation of an optimality condition on the path, as a share of its limit."""
        self.plan_  # noqa: B018  # of a stream it is worked out now
        return self._residual[0]


class LassoClassifier(_Baseline, at.GroupPursuitClassifier):
    """The same for classes, by any loss."""

    kind = LassoOrder
    _more = LassoRegressor._more


class _PathItself(_Baseline):
    """The path of the lasso: a stage per purchase, at the least penalty before the next. Nothing is held out or proved."""

    refit: ClassVar[bool] = False
    l2_regularization = 0.0
    validation_fraction = None

    def _set_learned(self, learned: LearnedSequence, *rest: Any) -> None:
        super()._set_learned(replace(learned, certificate=None), *rest)


@without("l2_regularization", "validation_fraction")
class LassoPathRegressor(_PathItself, LassoRegressor):
    """The path of the lasso for numbers."""


@without("l2_regularization", "validation_fraction")
class LassoPathClassifier(_PathItself, LassoClassifier):
    """The same for indicators of classes; takes ``loss="squared"``."""

    kkt_residual_ = LassoRegressor.kkt_residual_


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


def pursuit(selection: str = "omp", *, classify: bool = False, **parameters: Any) -> GroupPursuit:
    """An estimator by the name of its rule: one of ``anytime``, "lasso", or for numbers "mp" and "exhaustive"."""
    if classify and selection == "lasso":
        return LassoClassifier(**parameters)
    if classify:
        return at.GroupPursuitClassifier(selection=selection, **parameters)
    others = {"lasso": LassoRegressor, "mp": MatchingPursuitRegressor, "exhaustive": BestSetRegressor}
    if selection in others:
        return others[selection](**parameters)
    return at.GroupPursuitRegressor(selection=selection, **parameters)
