"""For one budget that is known: the greedy set or the best single element."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.greedy import Prices, greedy
from anytime.greedy.selection import Objective, opened


def best_of_greedy_or_single(
    function: Objective, costs: ArrayLike | Prices, budget: float
) -> tuple[NDArray[np.intp], float]:
    """For one known budget: the greedy set or the best single element, whichever is worth more.

    At least ``(1 - 1/e) / 2`` of the optimum of a submodular function. Sets for different budgets are not nested, so this
    makes no anytime sequence.

    Returns
    -------
    (elements, value)
    """
    oracle, purse = opened(function, costs)
    many = greedy(oracle.restart(), purse.restart(), budget=budget)
    single = greedy(oracle, purse, budget=budget, cost_aware=False, max_elements=1)
    better = max(many, single, key=lambda selection: selection.values[-1:].sum())
    return better.order, float(better.values[-1:].sum())
