"""Which model to grow next: parents are drawn from the hull (Petridish, section 6.3.4), or chosen by simpler rules.

A rule sees the pool as arrays: cost, error and how often each model was selected. It gives one probability per model,
and none to a model above the cost limit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anytime.growth.hull import hull_band

__all__ = [
    "SAMPLING_RULES",
    "CostLimitError",
    "Pool",
    "draw_parent",
    "hull_probabilities",
    "parent_probabilities",
]

Floats = NDArray[np.float64]


class CostLimitError(ValueError):
    """No model is cheap enough to be grown."""


@dataclass(frozen=True)
class Pool:
    """Models as arrays: ``costs``, ``errors`` and ``n_selected``, each (n,), in the order in which the models were made."""

    costs: Floats
    errors: Floats
    n_selected: NDArray[np.int64]


def draw_parent(
    pool: Pool,
    generator: np.random.Generator,
    *,
    rule: str = "hull",
    tolerance: float = 0.0,
    cost_limit: float | None = None,
) -> int:
    """Index of the model to grow, drawn with `parent_probabilities`."""
    p = parent_probabilities(pool, rule=rule, tolerance=tolerance, cost_limit=cost_limit)
    return int(generator.choice(p.size, p=p))


def parent_probabilities(
    pool: Pool, *, rule: str = "hull", tolerance: float = 0.0, cost_limit: float | None = None
) -> Floats:
    """Probability of each model to be grown next.

    Parameters
    ----------
    pool : Pool
    rule : {"hull", "uniform_hull", "greedy_best", "latest"}
        ``"hull"``: from the most to the least accurate model of the hull, each is taken with probability 1/(n+1), where n
        is how often it was selected; again until one is taken. ``"uniform_hull"``: each model of the hull equally.
        ``"greedy_best"``: the most accurate model. ``"latest"``: the model that was made last.
    tolerance : float
        The hull includes models with ``error <= (1 + tolerance) * hull value``.
    cost_limit : float or None
        Costlier models are not grown.

    Returns
    -------
    (n,) float

    Raises
    ------
    CostLimitError
        All models that the rule may take cost more than ``cost_limit``.
    """
    if rule not in SAMPLING_RULES:
        raise ValueError(f"sampling must be one of {', '.join(SAMPLING_RULES)}; not {rule!r}")
    visited, weigh = SAMPLING_RULES[rule]
    order = visited(pool, tolerance)
    if cost_limit is not None:
        cheapest = pool.costs[order].min()
        order = order[pool.costs[order] <= cost_limit]
        if not order.size:
            raise CostLimitError(
                f"no model can be grown: the cheapest costs {cheapest:g}, more than the cost limit of {cost_limit:g}; "
                "raise the limit or begin with a smaller seed"
            )
    probabilities = np.zeros(pool.costs.size)
    probabilities[order] = weigh(pool.n_selected[order])
    return probabilities


def hull_probabilities(n_selected: Sequence[int] | NDArray[np.int64]) -> Floats:
    """Probability of each model to be taken, in the order of visit: passes over ``p = 1/(n+1)`` until one is taken.

    One pass takes the j-th model with probability ``p_j ∏_{l<j} (1 - p_l)``; repeated passes divide by the sum.

    Examples
    --------
    >>> hull_probabilities([1, 0, 3])
    array([0.5, 0.5, 0. ])
    """
    p = 1.0 / (np.asarray(n_selected, dtype=np.float64) + 1.0)
    passed_over = np.append(1.0, np.cumprod(1.0 - p)[:-1])
    taken: Floats = p * passed_over
    taken /= taken.sum()
    return taken


def _uniform(n_selected: NDArray[np.int64]) -> Floats:
    return np.full(n_selected.size, 1.0 / n_selected.size)


def _first(n_selected: NDArray[np.int64]) -> Floats:
    return np.append(1.0, np.zeros(n_selected.size - 1))


def _hull_first_accurate(pool: Pool, tolerance: float) -> NDArray[np.intp]:
    return hull_band(pool.costs, pool.errors, tolerance)


def _all_by_error(pool: Pool, tolerance: float) -> NDArray[np.intp]:
    return np.lexsort((np.arange(pool.costs.size), pool.costs, pool.errors))


def _all_latest_first(pool: Pool, tolerance: float) -> NDArray[np.intp]:
    return np.arange(pool.costs.size)[::-1]


# a rule: which models are visited, in what order, and with what probability each is taken
SAMPLING_RULES: dict[
    str, tuple[Callable[[Pool, float], NDArray[np.intp]], Callable[[NDArray[np.int64]], Floats]]
] = {
    "hull": (_hull_first_accurate, hull_probabilities),
    "uniform_hull": (_hull_first_accurate, _uniform),
    "greedy_best": (_all_by_error, _first),
    "latest": (_all_latest_first, _first),
}
