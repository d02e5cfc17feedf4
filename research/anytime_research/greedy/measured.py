"""Constants of a run, and of the function it maximised, found by looking: what its bounds are computed from.

How greedy a run was (Grubb, *Anytime Prediction*, Definition 4.3.1) can be told of any order, so that an order that was not
chosen greedily has a guarantee too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.greedy.certificate import Certificate
from anytime.greedy.prices import SUM_SLACK, Prices, rates_of
from anytime.greedy.selection import GainOracle, Objective, Selection, checked_gains, opened
from anytime.linear.pursuit import GroupedProblem, PursuitOracle
from anytime.linear.sequencing import Arrangement, all_sets, few_sets
from anytime_research.greedy.ratios import elementwise_ratio, submodularity_ratio, submodularity_slack

Array = NDArray[np.float64]

__all__ = ["Measured", "greediness", "greediness_slack", "measure", "measured_of", "measured_run"]

_MOST_COMPARED = 13  # groups, of which all pairs of sets are compared: 3**13, about a second
_MOST_ORDERS = 20  # random ones, along which pairs are sampled where there are more groups
_MOST_STEPS = 2e10  # products of columns along them all
_NEGLIGIBLE = 1e-12  # a gain below this share of everything is a rounding error

# ---------------------------------------------------------------------- how greedy


def greediness(
    function: Objective,
    order: Iterable[int],
    costs: ArrayLike | Prices,
    *,
    beta: float = 0.0,
) -> Array:
    """For each step of a sequence the largest ``alpha`` up to 1 with which it was (alpha, beta)-greedy (Definition 4.3.1).

    ``gain(g) / c(g) >= (alpha gain(x) - beta) / c(x)`` for the chosen ``g`` and every ``x`` that was left. The least of them
    holds for the whole sequence.

    Parameters
    ----------
    function : GainOracle or callable
        The function itself. An oracle must know its true gains: scores only tell how well a choice followed the scores.
    order : (k,) int
    costs : (n,) float or prices
    beta : float, default=0.0

    Returns
    -------
    (k,) float

    Examples
    --------
    >>> greediness(lambda s: sum([3.0, 5.0, 4.0][x] for x in s), [1, 0, 2], [1.0, 1.0, 2.0])
    array([1., 1., 1.])
    >>> greediness(lambda s: sum([3.0, 5.0, 4.0][x] for x in s), [0, 1, 2], [1.0, 1.0, 2.0])
    array([0.6, 1. , 1. ])
    """
    return np.array([_alpha(*step, beta) for step in _replayed(function, order, costs)], dtype=np.float64)


def greediness_slack(
    function: Objective,
    order: Iterable[int],
    costs: ArrayLike | Prices,
    *,
    alpha: float = 1.0,
    per: Literal["element", "cost"] = "element",
) -> Array:
    """For each step of a sequence the smallest slack with which it was greedy, for a given ``alpha``.

    Parameters are those of ``greediness``, and

    Parameters
    ----------
    per : {"element", "cost"}, default="element"
        "element": the ``beta`` of Definition 4.3.1. "cost": by how much the rate fell short of ``alpha`` times the best,
        for the form "per_cost" of ``greedy_bound``.

    Returns
    -------
    (k,) float
    """
    if per not in ("element", "cost"):
        raise ValueError(f"per is {per!r}; it is 'element' or 'cost'")
    slack = _slack if per == "element" else _rate_slack
    return np.array([slack(*step, alpha) for step in _replayed(function, order, costs)], dtype=np.float64)


def _alpha(gains: Array, prices: Array, rate: float, beta: float = 0.0) -> float:
    real = gains > 0
    allowed = rate * prices[real] + beta if np.isfinite(rate) else np.full(real.sum(), np.inf)
    return float((allowed / gains[real]).min(initial=1.0))


def _slack(gains: Array, prices: Array, rate: float, alpha: float = 1.0) -> float:
    return float((alpha * gains - rate * prices).max(initial=0.0)) if np.isfinite(rate) else 0.0


def _rate_slack(gains: Array, prices: Array, rate: float, alpha: float = 1.0) -> float:
    return float((alpha * rates_of(gains, prices) - rate).max(initial=0.0)) if np.isfinite(rate) else 0.0


def _replayed(
    function: Objective, order: Iterable[int], costs: ArrayLike | Prices
) -> Iterator[tuple[Array, Array, float]]:
    """At each step, gains and prices of all that was left, and the rate of what was chosen."""
    oracle, purse = opened(function, costs)
    oracle, purse = oracle.restart(), purse.restart()
    left = np.ones(oracle.n_elements, dtype=bool)
    for element in order:
        if not 0 <= element < left.size or not left[element]:
            raise ValueError(f"order names {element}, which is no element or was named before")
        candidates = np.flatnonzero(left)
        gains, prices = checked_gains(oracle, candidates), purse.prices(candidates)
        chosen = candidates == element
        yield gains, prices, float(rates_of(gains[chosen], prices[chosen])[0])
        left[element] = False
        oracle.add(int(element))
        purse.buy(int(element))


# ---------------------------------------------------------------------- all of them


@dataclass(frozen=True, eq=False)
class Measured:
    """What was measured of a run and its function.

    Attributes
    ----------
    found : {"enumerated", "sampled"}
        How the first three were found: from all pairs of sets, or along random orders. A sample may miss the worst pair, so that
        its constants are optimistic and **prove nothing**.
    gamma : float
        ``submodularity_ratio`` with ``delta`` 0.
    delta : float
        ``submodularity_slack`` with ``gamma`` 1.
    elementwise : float
        ``elementwise_ratio``.
    alpha : float
        How greedy the run was: the least of its ``greediness``.
    beta, rate_slack : float
        The largest ``greediness_slack`` with ``alpha`` 1, per element and per unit of cost; the latter infinite where something
        free that gains was passed over.
    doubling_alpha, doubling_beta : float
        The same among those that doubling was allowed to take; 0 for a greedy run.
    prices : (n,) float
        Of the elements, rising.
    shared : bool
        Whether elements share requirements, which voids all bounds that add up prices.
    """

    found: Literal["enumerated", "sampled"]
    gamma: float
    delta: float
    elementwise: float
    alpha: float
    beta: float
    rate_slack: float
    doubling_alpha: float
    doubling_beta: float
    prices: Array
    shared: bool

    def most_elements(self, budget: float) -> int:
        """How many elements a set within ``budget`` can have."""
        return int(np.searchsorted(np.cumsum(self.prices), budget * (1 + SUM_SLACK), side="right"))


def measure(
    oracle: GainOracle,
    selection: Selection,
    prices: Prices,
    *,
    table: ArrayLike | None = None,
    n_orders: int = 20,
    random_state: Any = 0,
) -> Measured:
    """Measure a run and its function.

    Parameters
    ----------
    oracle : GainOracle
        Of true gains.
    selection : Selection
        The run, with costs as ``prices`` has them.
    prices : Prices
    table : (2**n,) float, default=None
        The values of all sets, where they are known: then constants are enumerated, over 3**n pairs.
    n_orders : int, default=20
        Otherwise they are sampled along so many random orders.
    random_state : int, Generator or None, default=0

    Examples
    --------
    >>> from anytime.greedy import FlatPrices, SetFunction, greedy
    >>> from anytime_research.greedy import value_table
    >>> def squared(s):
    ...     return float(len(s) ** 2)
    >>> run, prices = greedy(SetFunction(squared, 3), [1.0, 1.0, 1.0]), FlatPrices([1.0, 1.0, 1.0])
    >>> measured = measure(SetFunction(squared, 3), run, prices, table=value_table(squared, 3))
    >>> measured.found, round(measured.gamma, 4), measured.delta, measured.elementwise, measured.alpha
    ('enumerated', 0.3333, 6.0, 0.2, 1.0)
    """
    function: Any = oracle if table is None else np.asarray(table, dtype=np.float64)
    how: dict[str, Any] = {}
    if table is None:
        how = {"method": "sampled", "n_samples": n_orders, "random_state": random_state}
    everything = np.arange(prices.n_elements)
    greedy_run, doubling_run = _greediness_of(oracle, selection, prices)
    return Measured(
        found="enumerated" if table is not None else "sampled",
        gamma=submodularity_ratio(function, **how),
        delta=submodularity_slack(function, **how),
        elementwise=elementwise_ratio(function, **how),
        alpha=greedy_run[0],
        beta=greedy_run[1],
        rate_slack=greedy_run[2],
        doubling_alpha=doubling_run[0],
        doubling_beta=doubling_run[1],
        prices=np.sort(prices.restart().prices(everything)),
        shared=bool(prices.restart().shared),
    )


def _greediness_of(
    oracle: GainOracle, selection: Selection, prices: Prices
) -> tuple[tuple[float, float, float], tuple[float, float]]:
    """(alpha, beta, rate slack) among all that was left, and (alpha, beta) among what doubling was allowed to take."""
    floor = _NEGLIGIBLE * float(selection.values.max(initial=0.0))
    alpha, beta, rate_slack = 1.0, 0.0, 0.0
    among: tuple[float, float] = (1.0, 0.0) if selection.schedule == "doubling" else (0.0, 0.0)
    spent = 0.0
    steps = _replayed(oracle, selection.order, prices)
    for (gains, each, rate), paid in zip(steps, selection.prices, strict=True):
        gains = np.where(gains > floor, gains, 0.0)
        alpha = min(alpha, _alpha(gains, each, rate))
        beta = max(beta, _slack(gains, each, rate))
        rate_slack = max(rate_slack, _rate_slack(gains, each, rate))
        if selection.schedule == "doubling":
            allowed = each <= (spent or selection.c_min or 0.0) * (1 + SUM_SLACK)
            some = gains[allowed], each[allowed], rate
            among = min(among[0], _alpha(*some)), max(among[1], _slack(*some))
        spent += paid
    return (alpha, beta, rate_slack), among


# ---------------------------------------------------------------------- of fitted models

_KNOWN: WeakKeyDictionary[Certificate, Measured | None] = WeakKeyDictionary()


def measured_of(certificate: Certificate) -> Measured | None:
    """Constants of the run that a certificate speaks of; None where that takes too long or the run is not known."""
    if certificate not in _KNOWN:
        basis = certificate.basis
        _KNOWN[certificate] = measured_run(*basis) if basis is not None and measurable(basis[2]) else None
    return _KNOWN[certificate]


def measurable(arrangement: Arrangement) -> bool:
    """Whether looking at many sets of groups takes a moment only: at all of them, or along a random order."""
    return few_sets(arrangement) or arrangement.columns.size**3 <= _MOST_STEPS


def measured_run(problem: GroupedProblem, selection: Selection, arrangement: Arrangement) -> Measured:
    """Constants of a run (costs in ticks), with prices in units."""
    all_pairs = arrangement.groups.size <= _MOST_COMPARED and few_sets(arrangement)
    n_columns = max(arrangement.columns.size, 1)
    found = measure(
        PursuitOracle(problem, "forward"),
        selection,
        arrangement.prices(),
        table=all_sets(problem, arrangement)[1] if all_pairs else None,
        n_orders=int(np.clip(_MOST_STEPS / n_columns**3, 1, _MOST_ORDERS)),
    )
    costs = arrangement.costs.costs
    one = costs.amount(1)
    return replace(
        found,
        prices=costs.amounts(found.prices.astype(np.int64)),
        rate_slack=found.rate_slack / one if one > 0 else found.rate_slack,
    )
