"""From moments to a sequence of groups with refitted weights: arranging columns, choosing the order."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from anytime.blas import blas_threads
from anytime.costs import BoundCosts
from anytime.greedy import GainOracle, GroupPrices, Selection, doubling, greedy, replay
from anytime.linear.lasso import group_lasso_path
from anytime.linear.moments import Standardised
from anytime.linear.pursuit import Criterion, GroupedProblem, Path, PursuitOracle
from anytime.linear.smooth import GradientOracle, SmoothObjective
from anytime.linear.subsets import values_of_all_sets
from anytime.linear.tuning import least_norm

Array = NDArray[np.float64]

_SMALL = 4000  # columns
MOST_GROUPS = 17  # whose sets are all tried
_MOST_WORK = 2e8  # products of columns in all sets of groups: about a second, which a certificate may take


@dataclass(frozen=True, eq=False)
class Arrangement:
    """Columns side by side with those of their group."""

    costs: BoundCosts
    groups: NDArray[np.intp]  # (J,): the groups that have columns: the elements of a sequence
    columns: NDArray[np.intp]  # (d,): positions in X, group by group
    start: NDArray[np.int64]  # (J + 1,): where each group begins in ``columns``

    @classmethod
    def of(cls, costs: BoundCosts) -> Arrangement:
        """The columns of a price list, arranged."""
        sizes = np.bincount(costs.column_group, minlength=costs.n_groups)
        groups = np.flatnonzero(sizes)
        columns = np.argsort(costs.column_group, kind="stable")
        start = np.concatenate([[0], np.cumsum(sizes[groups])]).astype(np.int64)
        return cls(costs, groups, columns, start)

    def prices(self) -> GroupPrices:
        """A full purse."""
        return GroupPrices(self.costs, self.groups, look_ahead=True)


@dataclass(frozen=True, eq=False)
class Sequenced:
    """A sequence with weights for every prefix, on standardised columns in the order of an ``Arrangement``."""

    selection: Selection  # costs in ticks
    path: Path
    problem: GroupedProblem  # what was maximised
    l2_regularization: float


@dataclass(frozen=True)
class Recipe:
    """How a sequence is chosen; the parameters of the estimators say more."""

    selection: Literal["omp", "forward", "single", "forward_single"] = "omp"
    whiten: Literal["data", "criterion", False] = "data"
    cost_aware: bool = True
    schedule: Literal["greedy", "doubling"] = "greedy"
    c_min: float | Literal["auto"] = "auto"

    theory: ClassVar[bool] = True  # whether something is proved of the order before any data is seen

    @property
    def criterion(self) -> Criterion:
        """How ``PursuitOracle`` scores candidates."""
        return "norm" if self.selection == "omp" and self.whiten is False else self.selection

    def choose(
        self, oracle: GainOracle, prices: GroupPrices, on_step: Callable[[int, int], object] | None = None
    ) -> Selection:
        """Greedy or doubling."""
        if self.schedule == "greedy":
            return greedy(oracle, prices, cost_aware=self.cost_aware, on_step=on_step)
        c_min: Any = self.c_min
        if c_min != "auto":
            costs, cheapest = prices.costs.costs, prices.prices(np.arange(prices.n_elements)).min()
            c_min = float(costs.budget_ticks(c_min))
            if c_min < cheapest:
                raise ValueError(
                    f"no group costs c_min={self.c_min:g} or less; the cheapest costs {costs.amount(int(cheapest)):g}"
                )
        return doubling(oracle, prices, c_min=c_min, cost_aware=self.cost_aware, on_step=on_step)

    def problem(self, moments: Standardised, arrangement: Arrangement, ridge: float) -> GroupedProblem:
        """What is maximised, for columns already arranged."""
        return GroupedProblem.from_moments(
            moments.covariance,
            moments.correlation,
            arrangement.start,
            ridge,
            whitened=self.whiten == "data",
            power=float(moments.power.sum()),
        )

    def sequence(self, moments: Standardised, arrangement: Arrangement, ridge: float) -> Sequenced:
        """The whole sequence for squared loss, from moments of columns already arranged."""
        problem = self.problem(moments, arrangement, ridge)
        oracle = PursuitOracle(problem, self.criterion)
        with _few_threads(arrangement):
            selection = self.choose(oracle, arrangement.prices())
        return Sequenced(selection, least_norm(oracle, moments.covariance), problem, ridge)


def _few_threads(arrangement: Arrangement) -> AbstractContextManager[Any]:
    """For products that are many and small: threads would wait for each other longer than they work."""
    return blas_threads(1 if arrangement.columns.size <= _SMALL else None)


@dataclass(frozen=True)
class GivenOrder(Recipe):
    """A recipe whose order comes from elsewhere; gains and costs are recorded all the same. Nothing is proved of it."""

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
        with _few_threads(arrangement):
            selection = replay(oracle, arrangement.prices(), self.order(problem, moments, arrangement))
        return Sequenced(selection, least_norm(oracle, moments.covariance), problem, ridge)


@dataclass(frozen=True)
class LassoOrder(GivenOrder):
    """Groups as they enter the path of the cost-weighted group lasso (Hu et al. 2016, "Sparse")."""

    def order(
        self, problem: GroupedProblem, moments: Standardised, arrangement: Arrangement
    ) -> NDArray[np.intp]:
        """By first entry."""
        weights, whiten = lasso_weights(arrangement, self.cost_aware), self.whiten is not False
        path = group_lasso_path(
            moments.covariance, moments.correlation, arrangement.start, weights, whiten=whiten
        )
        return path.order

    def choose(
        self, oracle: GainOracle, prices: GroupPrices, on_step: Callable[[int, int], object] | None = None
    ) -> Selection:
        """For a loss without moments: the order of least squares on its gradient at the start (Grubb 2014, chapter 5)."""
        assert isinstance(oracle, GradientOracle)
        assert isinstance(oracle.objective, SmoothObjective)
        objective, weights = oracle.objective, lasso_weights(Arrangement.of(prices.costs), self.cost_aware)
        Z = objective.features.astype(np.float64)
        gradient = objective.residual(objective.empty())
        S, whiten = (Z * objective.weight) @ Z.T, self.whiten is not False
        order = group_lasso_path(S, gradient, oracle.start, weights, whiten=whiten).order
        return replay(oracle, prices, order, on_step)


def lasso_weights(arrangement: Arrangement, cost_aware: bool = True) -> Array:
    """What the group lasso charges each group: its price with all it requires, or the same for all."""
    prices = arrangement.prices()
    whole = prices.prices(np.arange(prices.n_elements)) if cost_aware else np.ones(prices.n_elements)
    return np.asarray(whole / max(float(whole.mean()), 1e-300))


def all_sets(problem: GroupedProblem, arrangement: Arrangement) -> tuple[Array, Array]:
    """(2^J,) cost in ticks, with all that is required, and value of every set of groups; bit ``g`` stands for group ``g``."""
    prices = arrangement.prices()
    n = prices.n_elements
    if n > MOST_GROUPS:
        raise ValueError(f"all sets of {n} groups are too many to try; the limit is {MOST_GROUPS} groups")
    sets = np.arange(2**n)
    costs = np.zeros(sets.size)
    for group, price in enumerate(arrangement.costs.prices):
        users = sum(1 << g for g, closure in enumerate(prices.closures) if group in closure)
        costs += np.where(sets & users, float(price), 0.0)
    return costs, values_of_all_sets(problem.covariance, problem.correlation, problem.start)


def few_sets(arrangement: Arrangement) -> bool:
    """Whether trying all sets of groups takes a moment only."""
    n_groups, n_columns = arrangement.groups.size, arrangement.columns.size
    return n_groups <= MOST_GROUPS and 2**n_groups * n_columns**2 <= _MOST_WORK
