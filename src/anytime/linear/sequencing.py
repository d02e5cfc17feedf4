"""From moments to a sequence of groups with refitted weights: arranging columns, choosing the order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # scikit-learn brings it

from anytime.costs import BoundCosts
from anytime.greedy import GroupPrices, Selection, doubling, greedy, rates_of
from anytime.greedy.selection import GainOracle, checked_gains, room_budgets, room_within
from anytime.linear.lasso import LassoPath, group_lasso_path
from anytime.linear.moments import Standardised
from anytime.linear.pursuit import Criterion, GroupedProblem, Path, PursuitOracle
from anytime.linear.subsets import values_of_all_sets
from anytime.linear.tuning import least_norm

Array = NDArray[np.float64]

__all__ = [
    "Arrangement",
    "Recipe",
    "Sequenced",
    "choose_sequence",
    "few_sets",
    "points_of",
    "replay",
    "sequence_from_moments",
]

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


@dataclass(frozen=True)
class Recipe:
    """How a sequence is chosen; the parameters of the estimators say more."""

    selection: Literal["omp", "forward", "single", "forward_single", "mp", "lasso", "exhaustive"] = "omp"
    whiten: Literal["data", "criterion", False] = "data"
    cost_aware: bool = True
    schedule: Literal["greedy", "doubling"] = "greedy"
    c_min: float | Literal["auto"] = "auto"
    budget: float | None = None  # the one that an exhaustive search is for
    refit: bool = True  # False: the weights of the lasso itself

    @property
    def criterion(self) -> Criterion:
        """How ``PursuitOracle`` scores candidates."""
        if self.selection == "lasso" or self.selection == "exhaustive":
            return "forward"
        if self.selection == "mp":
            return "omp"  # of the books; the order comes from an oracle of its own
        return "norm" if self.selection == "omp" and self.whiten is False else self.selection


@dataclass(frozen=True, eq=False)
class Sequenced:
    """A sequence with weights for every prefix, on standardised columns in the order of an ``Arrangement``."""

    selection: Selection  # costs in ticks
    # of the lasso without refits: a stage per purchase, or several of them where groups came together
    path: Path
    problem: GroupedProblem  # what was maximised
    l2_regularization: float
    # of the group lasso whose order it is: the largest violation of an optimality condition, as a share of its
    # limit
    kkt_residual: float | None = None


def choose_sequence(
    oracle: GainOracle,
    prices: GroupPrices,
    recipe: Recipe,
    on_step: Callable[[int, int], object] | None = None,
) -> Selection:
    """Greedy or doubling, as the recipe says."""
    if recipe.schedule == "greedy":
        return greedy(oracle, prices, cost_aware=recipe.cost_aware, on_step=on_step)
    c_min: Any = recipe.c_min
    if c_min != "auto":
        costs, cheapest = prices.costs.costs, prices.prices(np.arange(prices.n_elements)).min()
        c_min = float(costs.budget_ticks(c_min))
        if c_min < cheapest:
            raise ValueError(
                f"no group costs c_min={recipe.c_min:g} or less; the cheapest costs {costs.amount(int(cheapest)):g}"
            )
    return doubling(oracle, prices, c_min=c_min, cost_aware=recipe.cost_aware, on_step=on_step)


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


def sequence_from_moments(
    moments: Standardised,  # columns already arranged
    arrangement: Arrangement,
    recipe: Recipe,
    l2_regularization: float,
) -> Sequenced:
    """The whole sequence for squared loss."""
    S, V, start = moments.covariance, moments.correlation, arrangement.start
    problem = GroupedProblem.from_moments(
        S, V, start, l2_regularization, whitened=recipe.whiten == "data", power=float(moments.power.sum())
    )
    oracle, prices = PursuitOracle(problem, recipe.criterion), arrangement.prices()
    residual = None
    if recipe.selection == "lasso":
        lasso = group_lasso_path(S, V, start, lasso_weights(arrangement, recipe), whole=not recipe.refit)
        residual = float(lasso.violation.max())
        selection = replay(oracle, prices, lasso.order)
        if not recipe.refit:
            return Sequenced(selection, points_of(lasso, start), problem, 0.0, residual)
    elif recipe.selection == "exhaustive":
        selection = replay(oracle, prices, _best_first(problem, arrangement, recipe))
    elif recipe.selection == "mp":
        order = choose_sequence(PursuitOracle(problem, "mp"), prices.restart(), recipe).order
        selection = replay(oracle, prices, order)
    else:
        # Its products are many and small: threads would wait for each other longer than they work.
        with threadpool_limits(1 if len(S) <= _SMALL else None, user_api="blas"):
            selection = choose_sequence(oracle, prices, recipe)
    return Sequenced(selection, least_norm(oracle, S), problem, l2_regularization, residual)


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


def lasso_weights(arrangement: Arrangement, recipe: Recipe) -> Array:
    """What the group lasso charges each group: its price with all it requires, or the same for all."""
    prices = arrangement.prices()
    whole = prices.prices(np.arange(prices.n_elements)) if recipe.cost_aware else np.ones(prices.n_elements)
    return np.asarray(whole / max(float(whole.mean()), 1e-300))


def all_sets(problem: GroupedProblem, arrangement: Arrangement) -> tuple[Array, Array]:
    """(2^J,) cost in ticks, with all that is required, and value of every set of groups; bit ``g`` stands for group ``g``."""
    prices = arrangement.prices()
    n = prices.n_elements
    if n > MOST_GROUPS:
        raise ValueError(f"all sets of {n} groups are too many to try; at most {MOST_GROUPS} groups can be")
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


def _best_first(problem: GroupedProblem, arrangement: Arrangement, recipe: Recipe) -> NDArray[np.intp]:
    """The best set for the recipe's budget first, then the others; both by gain per unit of cost."""
    if recipe.budget is None:
        raise ValueError(
            "selection='exhaustive' finds the best groups for one budget; set budget to a number"
        )
    costs, values = all_sets(problem, arrangement)
    fits = np.flatnonzero(costs <= arrangement.costs.costs.budget_ticks(recipe.budget))
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
