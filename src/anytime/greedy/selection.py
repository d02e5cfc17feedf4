"""Greedy sequences: one order of purchases, each prefix of which is nearly as good as any set of the same price.

Cost-benefit greedy adds, at each step, the element with the most gain per unit of cost (Grubb, *Anytime Prediction*,
Algorithm 4.1). Its guarantee holds at the costs of its prefixes. Doubling (Algorithm 4.2; Hu et al., *Efficient Feature Group
Sequencing for Anytime Linear Prediction*, Algorithm 4) never buys what costs more than everything bought so far, and is
guaranteed at every budget.

The maximised set function is accessed through a ``GainOracle``: the current value, the gain of each candidate, and a method to
add one.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal, Protocol, Self, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.greedy.prices import SUM_SLACK, FlatPrices, GroupPrices, Prices, rates_of

Array = NDArray[np.float64]
_Amount = TypeVar("_Amount", float, Array)

_SLACK = 1e-9  # relative rounding error of a gain that is still taken for zero
_ROOMS = 65  # budgets at which a run keeps what the gains still to be had add up to


# ---------------------------------------------------------------------- what is maximised


@runtime_checkable
class GainOracle(Protocol):
    """A set function at the current set, which starts empty."""

    n_elements: int
    value: float  # of the set added so far

    def gains(self, candidates: NDArray[np.intp]) -> Array:
        """Gain of adding each candidate, exact or estimated."""

    def add(self, element: int) -> None:
        """Add an element and update ``value``."""

    def restart(self) -> Self:
        """The same function at the empty set."""


Objective = GainOracle | Callable[[frozenset[int]], float]


class SetFunction:
    """A ``GainOracle`` for a Python function of a set.

    Parameters
    ----------
    function : callable
        Function from a frozenset of element numbers to a number. Monotone; its value for the empty set is subtracted.
    n_elements : int

    Examples
    --------
    >>> covered = [{1, 2}, {2, 3}, {4}]
    >>> oracle = SetFunction(lambda s: len(set().union(*(covered[x] for x in s))), 3)
    >>> greedy(oracle, [2.0, 1.0, 1.0]).order.tolist()
    [1, 2, 0]
    """

    def __init__(self, function: Callable[[frozenset[int]], float], n_elements: int) -> None:
        self.function, self.n_elements = function, n_elements
        self.chosen: frozenset[int] = frozenset()
        self._empty = float(function(self.chosen))
        self.value = 0.0

    def __call__(self, elements: Iterable[int]) -> float:
        """The value of a set."""
        return float(self.function(frozenset(int(x) for x in elements))) - self._empty

    def gains(self, candidates: NDArray[np.intp]) -> Array:
        """Gain of adding each candidate."""
        return np.array([self([*self.chosen, x]) for x in candidates], dtype=np.float64) - self.value

    def add(self, element: int) -> None:
        """Add an element."""
        self.chosen |= {int(element)}
        self.value = self(self.chosen)

    def restart(self) -> SetFunction:
        """The same function at the empty set."""
        return SetFunction(self.function, self.n_elements)


# ---------------------------------------------------------------------- what comes out


@dataclass(frozen=True, eq=False)
class Selection:
    """A sequence of purchases and the record of its run.

    Attributes
    ----------
    order : (k,) int
        Elements in the order of purchase.
    prices, costs : (k,) float
        Price of each step, and cumulative cost.
    values : (k,) float
        The function after each step; 0 before the first.
    best_rates : (k,) float
        At each step, the maximum gain per unit of cost of *any* set of elements not yet bought, if gains were additive: the
        largest gain over price, where elements with a common requirement share its price.
    n_elements : int
    schedule : {"greedy", "doubling"}
    c_min : float or None
        For doubling: maximum cost of the first element.
    stuck_at : int or None
        For doubling: the step (from 1) at which nothing affordable was left and the cheapest element was added instead.
        None: it never got stuck, so the guarantee holds.
    rooms : (k, m) float or None
        At each step, the maximum sum of gains of elements not yet bought within each of ``room_budgets``, if elements could be
        bought in part: a sharper form of budget times best rate. None for lazy runs.
    room_budgets : (m,) float or None
        Increasing, from 0 to the price of everything.
    """

    order: NDArray[np.intp]
    prices: Array
    costs: Array
    values: Array
    best_rates: Array
    n_elements: int
    schedule: Literal["greedy", "doubling"] = "greedy"
    c_min: float | None = None
    stuck_at: int | None = None
    rooms: Array | None = None
    room_budgets: Array | None = None

    @property
    def doubling_capable(self) -> bool | None:
        """Whether a doubling run never ran out of affordable elements; None for a greedy run."""
        return None if self.schedule == "greedy" else self.stuck_at is None

    def n_affordable(self, budget: ArrayLike) -> NDArray[np.intp]:
        """Length of the longest prefix that ``budget`` pays."""
        return np.asarray(np.searchsorted(self.costs, _most(_checked_budget(budget)), side="right"))

    def value_at(self, budget: ArrayLike) -> Array:
        """The value of that prefix."""
        return np.asarray(np.concatenate([[0.0], self.values])[self.n_affordable(budget)])

    def upper_bound(self, budget: ArrayLike, gamma: float = 1.0, delta: float = 0.0) -> Array:
        """Upper bound on the value of any set of cost ``budget``, from the run alone, by Lemma 4.2.3.

        It holds if ``gamma`` times the true gain of any set, minus ``delta``, is at most the sum of the oracle's gains of its
        elements. If the oracle returns true gains, this is approximate submodularity. ``spectral_gamma`` suffices for the scores
        of least squares on standardised columns, and for other scores that never exceed the true gains.
        """
        budget = _checked_budget(budget)
        before = np.concatenate([[0.0], self.values])[: self.order.size]
        least = rival_ceiling(before, self.best_rates, budget[..., None], gamma=gamma, delta=delta).min(
            axis=-1, initial=np.inf
        )
        if self.rooms is not None and self.room_budgets is not None and gamma > 0:
            # A budget between two buys no more than the larger of them.
            at = np.searchsorted(self.room_budgets, budget, side="left")
            room = self.rooms.T[np.minimum(at, self.room_budgets.size - 1)]
            least = np.minimum(least, (before + (room + delta) / gamma).min(axis=-1, initial=np.inf))
        if self.order.size == self.n_elements:  # nothing is worth more than everything
            least = np.minimum(least, self.values.max(initial=0.0))
        return np.asarray(least)


# ---------------------------------------------------------------------- sequences


def greedy(
    function: Objective,
    costs: ArrayLike | Prices,
    *,
    cost_aware: bool = True,
    lazy: bool = False,
    budget: float | None = None,
    max_elements: int | None = None,
    min_gain: float | None = None,
    on_step: Callable[[int, int], object] | None = None,
) -> Selection:
    """Cost-benefit greedy: repeatedly add the element with the most gain per unit of cost.

    Ties go to the lower cost, then to the lower index. A free element that gains anything comes first.

    Parameters
    ----------
    function : GainOracle or callable
        The function to maximise; a callable takes a frozenset of element numbers.
    costs : (n,) float or prices
    cost_aware : bool, default=True
        False: choose by gain alone, but still charge the costs.
    lazy : bool, default=False
        Re-evaluate only candidates whose old gain could still win. Exact and much faster if the function is submodular;
        otherwise the order may differ. Needs prices that do not fall when others are bought.
    budget : float, default=None
        The most to spend; elements that no longer fit are skipped.
    max_elements : int, default=None
        Maximum number of elements.
    min_gain : float, default=None
        Stop if no affordable element gains this much.
    on_step : callable, default=None
        Called with (step, element) after each step; the run ends if it returns True.

    Examples
    --------
    >>> greedy(lambda s: sum([3.0, 5.0, 4.0][x] for x in s), [1.0, 5.0, 2.0]).order.tolist()
    [0, 2, 1]
    """
    oracle, purse = opened(function, costs)
    run = _Run(oracle, purse, cost_aware, _Limits(budget, max_elements, min_gain), on_step)
    if not lazy:
        return run.to_the_end()
    if purse.shared:
        raise ValueError("lazy selection needs fixed prices, but several elements share requirements")
    return run.to_the_end_lazily()


def doubling(
    function: Objective,
    costs: ArrayLike | Prices,
    *,
    c_min: float | Literal["auto"] = "auto",
    cost_aware: bool = True,
    budget: float | None = None,
    max_elements: int | None = None,
    min_gain: float | None = None,
    on_step: Callable[[int, int], object] | None = None,
) -> Selection:
    """Greedy that never buys anything that costs more than everything before it: near-optimal at *every* budget above ``c_min``.

    If nothing affordable is left, the cheapest element is added and the run continues without its guarantee, see
    ``Selection.stuck_at``. Parameters are those of ``greedy``, and

    Parameters
    ----------
    c_min : float or "auto", default="auto"
        Maximum cost of the first element that is not free. "auto": the smallest price with which the run never gets stuck; if
        there is none, the price with which it gets furthest.

    Examples
    --------
    >>> from math import exp
    >>> doubling(lambda s: sum(exp(x + 1) for x in s), range(1, 50), c_min=2).order[:6] + 1
    array([ 2,  1,  3,  6, 12, 24])
    """
    oracle, purse = opened(function, costs)
    limits = _Limits(budget, max_elements, min_gain)
    if c_min == "auto":
        # No check whether a run would stop early for lack of gain: it must be able to continue.
        c_min = _smallest_start(oracle, purse, cost_aware, replace(limits, min_gain=None))
    else:
        cheapest = purse.prices(np.arange(oracle.n_elements)).min(initial=np.inf)
        if not cheapest <= _most(c_min):
            raise ValueError(f"no element costs c_min = {c_min:g} or less; the cheapest costs {cheapest:g}")
    return _Run(oracle, purse, cost_aware, limits, on_step, c_min=float(c_min)).to_the_end()


def replay(
    oracle: GainOracle,
    purse: Prices,
    order: Iterable[int],
    on_step: Callable[[int, int], object] | None = None,
) -> Selection:
    """Buy in a given order and record the same as a greedy run: gains, and the best available rate at each step."""
    return _Run(oracle, purse, True, _Limits(None, None, None), on_step).along(order)


# ---------------------------------------------------------------------- the loop


def rival_ceiling(
    value: ArrayLike, rate: ArrayLike, budget: ArrayLike, *, gamma: float = 1.0, delta: float = 0.0
) -> Array:
    """Upper bound on the value of any set of cost ``budget`` (lemmas 4.2.3 and 3.3.1).

    ``F(rival) <= F(G) + (budget * rate + delta) / gamma``.

    Parameters
    ----------
    value : float or array
        Current value of a run, ``F(G)``.
    rate : float or array
        The best gain per unit of cost from there. Lemma 3.3.1: the realised gain per unit of cost of the next step
        of OMP or forward regression, with ``spectral_gamma``.
    budget : float or array
    gamma, delta : float
        With ``gamma`` 0 the bound is infinite.
    """
    if not (0 <= gamma < np.inf and 0 <= delta < np.inf):
        raise ValueError(f"gamma is {gamma} and delta {delta}; both must be finite and not negative")
    value, rate, budget = np.broadcast_arrays(
        *(np.asarray(a, dtype=np.float64) for a in (value, rate, budget))
    )
    # Free elements that gain (an infinite rate) fit into any budget; where nothing gains, no budget helps.
    room = np.full(value.shape, np.inf)
    np.multiply(budget, rate, out=room, where=np.isfinite(rate) & (rate != 0))
    room[rate == 0] = 0.0
    return np.asarray(value + (room + delta) / gamma if gamma > 0 else np.full(value.shape, np.inf))


def opened(function: Objective, costs: ArrayLike | Prices) -> tuple[GainOracle, Prices]:
    """A function and its costs as an oracle and a purse."""
    purse = costs if isinstance(costs, (FlatPrices, GroupPrices)) else FlatPrices(costs)
    oracle = function if isinstance(function, GainOracle) else SetFunction(function, purse.n_elements)
    if oracle.n_elements != purse.n_elements:
        raise ValueError(
            f"the function has {oracle.n_elements} elements, but there are {purse.n_elements} costs"
        )
    return oracle, purse


def checked_gains(oracle: GainOracle, candidates: NDArray[np.intp]) -> Array:
    """The gains of ``candidates``, rounding errors below zero taken for zero, true losses for an error."""
    gains = np.asarray(oracle.gains(candidates), dtype=np.float64)
    bad = ~(np.isfinite(gains) & (gains >= -_SLACK * max(1.0, abs(oracle.value))))
    if bad.any():
        at = int(np.argmax(bad))
        what = f"loses {-gains[at]:.3g}" if np.isfinite(gains[at]) else f"gains {gains[at]}"
        raise ValueError(
            f"adding element {candidates[at]} {what}: greedy selection needs a monotone function with finite values"
        )
    return np.maximum(gains, 0.0)


def _most(amount: _Amount) -> _Amount:
    """``amount`` and what rounding may have added to a sum that equals it."""
    return amount * (1 + SUM_SLACK)


def _checked_budget(budget: ArrayLike) -> Array:
    budget = np.asarray(budget, dtype=np.float64)
    if np.isnan(budget).any():
        raise ValueError("budget is NaN; give a number of units")
    if (budget < 0).any():
        raise ValueError(f"budget must not be negative; got {budget.min():g}")
    return budget


@dataclass(frozen=True)
class _Limits:
    """When a run ends."""

    budget: float | None
    max_elements: int | None
    min_gain: float | None

    def __post_init__(self) -> None:
        _checked_budget(np.inf if self.budget is None else self.budget)
        if self.max_elements is not None and self.max_elements < 0:
            raise ValueError(f"max_elements is {self.max_elements}; it cannot be negative")

    def fit(self, spent: float | Array, prices: Array) -> NDArray[np.bool_]:
        """Which prices can be paid on top of what was spent."""
        return np.asarray(spent + prices <= (np.inf if self.budget is None else _most(self.budget)))

    def stop(self, gains: Array) -> bool:
        """Whether all of these gains are too small to continue."""
        return not gains.size or (self.min_gain is not None and bool(gains.max() < self.min_gain))


@dataclass
class _Run:
    """A run under way; with ``c_min`` a doubling one."""

    oracle: GainOracle
    purse: Prices
    cost_aware: bool
    limits: _Limits
    on_step: Callable[[int, int], object] | None = None
    c_min: float | None = None
    stuck_at: int | None = None

    def __post_init__(self) -> None:
        n, most = self.oracle.n_elements, self.limits.max_elements
        self.n_steps = n if most is None else min(most, n)
        self.order: list[int] = []
        self.paid: list[float] = []
        self.values: list[float] = []
        self.best_rates: list[float] = []
        self.rooms: list[Array] = []
        self.room_budgets = room_budgets(self.purse)

    def to_the_end(self, give_up: bool = False) -> Selection:
        """Look at all that is left before each step; with ``give_up``, end where doubling gets stuck."""
        left = np.arange(self.oracle.n_elements)
        while len(self.order) < self.n_steps:
            gains, prices = checked_gains(self.oracle, left), self.purse.prices(left)
            allowed = np.flatnonzero(self.limits.fit(self.purse.spent, prices))
            if self.limits.stop(gains[allowed]):
                break
            if self.c_min is not None:
                # Until something has been paid for, the next purchase is the first.
                allowed = self._no_dearer(self.purse.spent or self.c_min, prices, allowed)
                if give_up and self.stuck_at is not None:
                    break
            scores = rates_of(gains, prices) if self.cost_aware else gains
            if self.cost_aware:
                scores = self._with_bundles(left, gains, scores)
            at = _first_of_best(scores, prices, allowed)
            if self._take_of(left, gains, int(left[at])):
                break
            left = np.delete(left, at)
        return self._finished()

    def along(self, order: Iterable[int]) -> Selection:
        """Buy in a given order."""
        left = np.arange(self.oracle.n_elements)
        for element in order:
            if self._take_of(left, checked_gains(self.oracle, left), int(element)):
                break
            left = left[left != element]
        return self._finished()

    def _with_bundles(self, left: NDArray[np.intp], gains: Array, rates: Array) -> Array:
        """Rates, where the first of several that share a requirement may speak for all that are worth buying with it.

        A procedure that costs 100 and yields three results at 1 each is expensive for any of them and may be cheap for all three.
        """
        joint_gain = getattr(self.oracle, "joint_gain", None)
        for members, own, shared in self.purse.bundles(left):
            order = np.argsort(-rates_of(gains[members], own), kind="stable")
            spent = shared + np.cumsum(own[order])
            together = rates_of(np.cumsum(gains[members[order]]), spent)
            size = int(np.argmax(together)) + 1
            first, rate = members[order[0]], float(together[size - 1])
            if size > 1 and rate > rates[first] and joint_gain is not None:  # gains may not add up
                rate = float(joint_gain(left[members[order[:size]]])) / spent[size - 1]
            if size > 1 and rate > rates[first]:
                rates = rates.copy()
                rates[first] = rate
        return rates

    def _no_dearer(self, most: float, prices: Array, allowed: NDArray[np.intp]) -> NDArray[np.intp]:
        """Those of ``allowed`` that cost at most so much; if there are none, we are stuck, and take the cheapest."""
        cheap = prices[allowed] <= _most(most)
        if not cheap.any():
            self.stuck_at = self.stuck_at or len(self.order) + 1
            cheap = prices[allowed] == prices[allowed].min()
        return np.asarray(allowed[cheap])

    def to_the_end_lazily(self) -> Selection:
        """Keep a queue of old gains, which only fall when the function is submodular."""
        everything = np.arange(self.oracle.n_elements)
        prices = self.purse.prices(everything)
        gains = checked_gains(self.oracle, everything)  # of each element when last looked at
        rates = rates_of(gains, prices)
        seen = np.zeros(everything.size, dtype=np.intp)  # steps taken by then

        def entry(x: int) -> tuple[float, float, int]:
            return -float(rates[x] if self.cost_aware else gains[x]), float(prices[x]), x

        queue = [entry(x) for x in range(everything.size)]
        heapq.heapify(queue)
        while queue and len(self.order) < self.n_steps:
            x = heapq.heappop(queue)[2]
            if not self.limits.fit(self.purse.spent, prices[x]):
                continue  # it will never fit again
            if seen[x] < len(self.order):
                gains[x] = checked_gains(self.oracle, everything[[x]])[0]
                rates[x] = rates_of(gains[[x]], prices[[x]])[0]
                seen[x] = len(self.order)
                heapq.heappush(queue, entry(x))
                continue
            if self.limits.stop(gains[[x]]):  # by rate the best, but another may gain more
                fit = [y for *_, y in queue if self.limits.fit(self.purse.spent, prices[y])]
                if self.limits.stop(gains[fit]) or self.limits.stop(
                    checked_gains(self.oracle, everything[fit])
                ):
                    break
            if self._take(x, rates.max()):
                break
            gains[x] = rates[x] = 0.0
        return self._finished()

    def _take_of(self, left: NDArray[np.intp], gains: Array, element: int) -> bool:
        """Buy an element of those left, and note what they could have gained."""
        shares = self.purse.shares(left)
        self.rooms.append(room_within(self.room_budgets, gains, shares))
        return self._take(element, rates_of(gains, shares).max())

    def _take(self, element: int, best_rate: float) -> bool:
        """Buy an element; whether ``on_step`` asks to end the run."""
        self.best_rates.append(float(best_rate))
        self.oracle.add(element)
        self.paid.append(self.purse.buy(element))
        self.order.append(element)
        self.values.append(float(self.oracle.value))
        return self.on_step is not None and self.on_step(len(self.order), element) is True

    def _finished(self) -> Selection:
        return Selection(
            order=np.array(self.order, dtype=np.intp),
            prices=np.array(self.paid, dtype=np.float64),
            costs=np.cumsum(np.array(self.paid, dtype=np.float64)),
            values=np.array(self.values, dtype=np.float64),
            best_rates=np.array(self.best_rates, dtype=np.float64),
            rooms=np.array(self.rooms) if self.rooms else None,
            room_budgets=self.room_budgets if self.rooms else None,
            n_elements=self.oracle.n_elements,
            schedule="greedy" if self.c_min is None else "doubling",
            c_min=self.c_min,
            stuck_at=self.stuck_at,
        )


def room_budgets(purse: Prices) -> Array:
    """Budgets from nothing to everything, close together where they are small."""
    everything = float(purse.shares(np.arange(purse.n_elements)).sum())
    return everything * np.linspace(0.0, 1.0, _ROOMS) ** 2


def room_within(budgets: Array, gains: Array, prices: Array) -> Array:
    """What gains can add up to within each budget, if elements can be bought in part: a knapsack filled by rate."""
    free = prices <= 0
    order = np.argsort(-rates_of(gains[~free], prices[~free]), kind="stable")
    spent = np.concatenate([[0.0], np.cumsum(prices[~free][order])])
    gained = np.concatenate([[0.0], np.cumsum(gains[~free][order])])
    return np.asarray(gains[free].sum() + np.interp(budgets, spent, gained))


def _first_of_best(scores: Array, prices: Array, allowed: NDArray[np.intp]) -> int:
    """Position of the highest score among ``allowed``; of equals the cheapest, then the first."""
    best = allowed[scores[allowed] == scores[allowed].max()]
    return int(best[np.argmin(prices[best])])


def _smallest_start(oracle: GainOracle, purse: Prices, cost_aware: bool, limits: _Limits) -> float:
    """The smallest price that, as ``c_min``, never gets doubling stuck; if there is none, the one that gets furthest."""
    everything = np.arange(oracle.n_elements)
    prices = purse.prices(everything)
    starts = np.unique(prices[limits.fit(0.0, prices) & (prices > 0)])
    stuck_after: Iterable[float]
    if purse.shared or (prices == 0).any():
        stuck_after = (_trial(oracle, purse, cost_aware, limits, float(start)) for start in starts)
    else:
        gains = checked_gains(oracle, everything)
        scores = rates_of(gains, prices) if cost_aware else gains
        firsts = [_first_of_best(scores, prices, np.flatnonzero(prices <= _most(start))) for start in starts]
        stuck_after = _next_gap(np.sort(prices), prices[firsts], limits)
    best, furthest = float(prices.min(initial=np.inf)), 0.0
    for start, steps in zip(starts, stuck_after, strict=True):
        if steps > furthest:
            best, furthest = float(start), steps
        if steps == np.inf:
            break
    return best


def _trial(oracle: GainOracle, purse: Prices, cost_aware: bool, limits: _Limits, start: float) -> float:
    """Steps that doubling takes before it gets stuck."""
    run = _Run(oracle.restart(), purse.restart(), cost_aware, limits, c_min=start)
    trial = run.to_the_end(give_up=True)
    return np.inf if trial.doubling_capable else trial.order.size


def _next_gap(prices: Array, firsts: Array, limits: _Limits) -> Array:
    """Steps that doubling takes before it gets stuck, by the price of its first element.

    When it is stuck it has bought what costs no more than it has spent, hence the k cheapest for some k, and the next costs more
    than all of them: a gap in the sorted ``prices``. A run that begins below a gap cannot cross it. So all depends on the first.
    """
    below = np.cumsum(prices)[:-1]
    gaps = 1 + np.flatnonzero((prices[1:] > _most(below)) & limits.fit(below, prices[1:]))
    if limits.max_elements is not None:
        gaps = gaps[gaps < limits.max_elements]
    return np.append(gaps, np.inf)[np.searchsorted(gaps, 1 + np.searchsorted(prices, firsts))]
