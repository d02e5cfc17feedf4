"""The best purchase at every budget, of data from the generators of ``anytime.datasets``: by trying all sets of groups.

What a set of groups is worth has a closed form there, so the optimum is exact: no learner that buys the same groups for every
row does better.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import erf, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anytime.costs import FeatureCosts
from anytime.datasets import PricedDataset

__all__ = ["Optimum", "frontier_of", "optimum_of", "value_of"]

_MOST_GROUPS = 20  # all combinations are tried: 2**20 of them fit in memory and take a moment


class Optimum(NamedTuple):
    """The best that a budget buys."""

    groups: tuple[str, ...]
    value: float
    cost: float


def value_of(data: PricedDataset, groups: Iterable[str]) -> float:
    """What ``groups`` (and all they require) are worth: R² for regression, Bayes accuracy for classification."""
    owned = set(data.costs.closure(groups))
    mask = np.array([name in owned for name in data.costs.names])
    return float(_worth(data, np.array([data.strengths[mask].sum()]))[0])


def optimum_of(data: PricedDataset, budget: float) -> Optimum:
    """The most valuable set of groups that ``budget`` pays; of equally valuable ones the cheapest.

    Examples
    --------
    >>> from anytime.datasets import make_priced_regression
    >>> data = make_priced_regression(random_state=0)
    >>> optimum_of(data, 0).groups, optimum_of(data, data.costs.total).cost == data.costs.total
    ((), True)
    """
    ticks = data.costs.budget_ticks(budget)
    if ticks < 0:
        raise ValueError(f"budget is {budget}; nothing costs less than 0")
    costs, strengths, sets = _frontier(data)
    best = int(np.searchsorted(costs, ticks, side="right")) - 1
    chosen = tuple(name for g, name in enumerate(data.costs.names) if sets[best] >> g & 1)
    value = float(_worth(data, strengths[best : best + 1])[0])
    return Optimum(chosen, value, data.costs.amount(int(costs[best])))


def frontier_of(data: PricedDataset) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Costs at which the optimum changes, and its value from there on: the curve that cannot be beaten."""
    costs, strengths, _ = _frontier(data)
    return data.costs.amounts(costs), _worth(data, strengths)


def _worth(data: PricedDataset, strength: NDArray[np.float64]) -> NDArray[np.float64]:
    if not data.classes:
        return strength
    return np.array([0.5 * (1 + erf(sqrt(d2) / sqrt(8))) for d2 in strength])  # Φ(Δ/2)


def _frontier(data: PricedDataset) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]:
    """Costs in ticks, strengths and bit sets of the best closed sets, from cheap to dear."""
    if len(data.costs.names) > _MOST_GROUPS:
        raise ValueError(
            f"{len(data.costs.names)} groups and steps: all sets of at most {_MOST_GROUPS} can be tried"
        )
    prices = np.array([data.costs.ticks(data.costs.prices[name]) for name in data.costs.names])
    costs, strengths = _subset_sums(prices), _subset_sums(data.strengths)
    sets = np.flatnonzero(_closed_sets(data.costs))
    order = sets[np.lexsort((sets, -strengths[sets], costs[sets]))]
    reached = np.maximum.accumulate(strengths[order])
    better = np.concatenate([[True], reached[1:] > reached[:-1]])
    return costs[order][better], strengths[order][better], order[better]


def _subset_sums(values: NDArray[Any]) -> NDArray[Any]:
    """(2**G,) the sum of each subset; bit ``g`` of the index says whether value ``g`` is in it."""
    sums = np.zeros(1, dtype=values.dtype)
    for value in values:
        sums = np.concatenate([sums, sums + value])
    return sums


def _closed_sets(costs: FeatureCosts) -> NDArray[np.bool_]:
    """(2**G,) whether each subset holds everything that its members require."""
    number = {name: g for g, name in enumerate(costs.names)}
    sets = np.arange(2 ** len(number))
    closed = np.ones(sets.size, dtype=bool)
    for name, needed in costs.requires.items():
        for other in needed:
            closed &= (sets >> number[name] & 1 == 0) | (sets >> number[other] & 1 == 1)
    return closed
