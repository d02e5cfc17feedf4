"""The price of not knowing the budget: cost inflation of ensembles with growing members, and the schedule of their outputs.

An ensemble runs a cheap network to its end, then a more expensive one from the input, and so on. At budget ``B`` it competes with
the best network of cost ``B / C``; ``C`` is the cost inflation. Hu, *Anytime Prediction and Learning for the Balance between
Computation and Accuracy*, Proposition 4.4.1, assumes that a member of depth ``L`` is as good at depth ``i > L / b`` as the best
network of depth ``i``. Whether a trained network meets this assumption has to be measured (``estimate_base``).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from math import ceil, log
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "CostInflation",
    "Output",
    "cost_inflation",
    "estimate_base",
    "exponential_depths",
    "inflation_at",
    "output_schedule",
]

Array = NDArray[np.float64]
KINDS = ("eann", "ordinary")


class CostInflation(NamedTuple):
    """Cost inflation of an infinite ensemble.

    Attributes
    ----------
    sup : float
        The supremum over budgets.
    mean : float
        The mean over budgets, uniform between the ends of two successive members.
    sup_bound, mean_bound : float
        The bounds of the paper for several workers, with ``b ** workers`` in place of ``b``: never smaller.
    """

    sup: float
    mean: float
    sup_bound: float
    mean_bound: float


def cost_inflation(b: float, kind: Literal["eann", "ordinary"] = "eann", workers: int = 1) -> CostInflation:
    """Cost inflation of an ensemble whose members' costs grow by ``b``.

    With one worker ``sup = 2 + 1 / (b - 1)`` and ``mean = 1 - 1 / (2 b) + (1 + ln b) / (b - 1)`` for networks with exits,
    ``sup = b^2 / (b - 1)`` and ``mean = b (1 + b) / (2 (b - 1))`` for ordinary ones. Several workers take members in
    order, each the next one as soon as it is free, and the budget is wall time.

    Parameters
    ----------
    b : float
        More than 1.
    kind : {"eann", "ordinary"}, default="eann"
        Members with exits, of which all beyond ``1 / b`` of the cost compete with the best of that cost; or members that answer
        at their ends only.
    workers : int, default=1

    Returns
    -------
    CostInflation

    Raises
    ------
    ValueError
        For a base of 1 or less, an unknown kind, or less than one worker.

    Examples
    --------
    >>> cost_inflation(2).sup, round(cost_inflation(2).mean, 4)
    (3.0, 2.4431)
    >>> cost_inflation(2, "ordinary").sup
    4.0
    """
    _check_base(b)
    _check_workers(workers)
    if kind not in KINDS:
        raise ValueError(f"kind must be 'eann' or 'ordinary', not {kind!r}")
    exact, stated = (_with_exits if kind == "eann" else _without_exits), b**workers
    return CostInflation(*exact(b, workers), *exact(stated, 1))


def _with_exits(b: float, workers: int) -> tuple[float, float]:
    """Supremum and mean where a member takes over at ``1 / b`` of its cost.

    Member ``k`` of cost ``b^k`` begins at ``b^k / (b^M - 1)``. The answer of its predecessor is held for a share ``1 / b^M`` of
    the time, while ``C`` grows from ``b^M / (b^M - 1)`` to the supremum; then ``C`` falls as the member's own depth grows.
    """
    ahead = b**workers - 1
    while_held = 1 + (1 + b) / (2 * ahead)
    while_growing = 1 + b * log(b) / (ahead * (b - 1))
    held = b**-workers
    return 1 + b / ahead, held * while_held + (1 - held) * while_growing


def _without_exits(b: float, workers: int) -> tuple[float, float]:
    """Supremum and mean where the answer of a member is held until the next one ends."""
    first = b**workers / (b**workers - 1)  # C when a member ends
    return first * b, first * (1 + b) / 2


def exponential_depths(b: float, smallest: int, largest: int) -> list[int]:
    """Depths from ``smallest`` to ``largest`` that grow by about the same factor, at most ``b`` before rounding.

    Parameters
    ----------
    b : float
        More than 1.
    smallest, largest : int
        Depths of the first and the last member.

    Returns
    -------
    list of int
        Each depth once; no more than it takes.

    Examples
    --------
    >>> exponential_depths(2, 7, 25)
    [7, 13, 25]
    """
    _check_base(b)
    if not 1 <= smallest <= largest:
        raise ValueError(f"depths go from 1 on, and from smallest to largest; got {smallest} and {largest}")
    steps = ceil(log(largest / smallest) / log(b) - 1e-9)  # a whole power of b must not take a step more
    depths = np.rint(np.geomspace(smallest, largest, steps + 1)) if steps else [largest]
    return sorted({int(depth) for depth in depths})


def estimate_base(
    exit_costs: ArrayLike, errors: ArrayLike, optimal_errors: ArrayLike, tolerance: float = 0.05
) -> float:
    """The largest base for which a trained network meets the assumption of ``cost_inflation``, on measured errors.

    Parameters
    ----------
    exit_costs : (E,) float
        Increasing: cost up to each exit. The last one is the network's.
    errors : (E,) float
        Error of each exit on held-out rows.
    optimal_errors : (E,) float
        Error of a network trained for that exit alone; NaN if there is none, and the exit is then ignored.
    tolerance : float, default=0.05
        How much worse than the optimum an exit may be, relatively.

    Returns
    -------
    float
        The largest ``b`` such that all exits beyond ``1 / b`` of the cost are within the tolerance. 1: not even the last
        one is, so no base is supported. Infinity: all are.

    Examples
    --------
    >>> estimate_base([1, 2, 3, 4], [0.5, 0.2, 0.1, 0.08], [0.2, 0.15, 0.1, 0.08])
    2.0
    """
    costs = _increasing("exit_costs", exit_costs)
    error, optimum = (np.asarray(values, dtype=np.float64) for values in (errors, optimal_errors))
    if error.shape != costs.shape or optimum.shape != costs.shape:
        raise ValueError(
            f"{costs.size} exits have costs, {error.size} errors and {optimum.size} optimal ones: give one of each per exit"
        )
    if not tolerance >= 0:
        raise ValueError(f"tolerance must be a non-negative number, not {tolerance!r}")
    if np.isnan(error).any():
        raise ValueError("an error is NaN; only an optimal error may be unknown")
    if np.isnan(optimum).all():
        raise ValueError("no optimal error is known: train a network for the last exit alone at least")
    behind = np.flatnonzero(error > (1 + tolerance) * optimum)
    return float(costs[-1] / costs[behind[-1]]) if behind.size else np.inf


class Output(NamedTuple):
    """One output of an ensemble.

    Attributes
    ----------
    time : float
        When it arrives: total cost with one worker, wall time with several.
    member, exit : int
        Its member and exit, counted from 0.
    cost : float
        Cost of the member alone, up to this exit.
    """

    time: float
    member: int
    exit: int
    cost: float


def output_schedule(exit_costs: Sequence[ArrayLike], *, workers: int = 1) -> list[Output]:
    """The times at which the outputs of an ensemble arrive.

    Members start in the given order, each as soon as a worker is free, and compute from the input.

    Parameters
    ----------
    exit_costs : sequence of (E_k,) float
        For each member the increasing cost up to each of its exits. A member that answers at its end only has one.
    workers : int, default=1

    Returns
    -------
    list of Output
        In the order of time; at equal times the cheaper member's first.

    Examples
    --------
    >>> [(output.time, output.member) for output in output_schedule([[1], [1, 2]])]
    [(1.0, 0), (2.0, 1), (3.0, 1)]
    """
    _check_workers(workers)
    free = [0.0] * workers  # when each worker is
    outputs = []
    for member, costs_of_exits in enumerate(exit_costs):
        costs = _increasing(f"exit_costs[{member}]", costs_of_exits)
        began = heapq.heappop(free)
        outputs += [Output(float(began + cost), member, e, float(cost)) for e, cost in enumerate(costs)]
        heapq.heappush(free, float(began + costs[-1]))
    return sorted(outputs)


def inflation_at(budgets: ArrayLike, exit_costs: Sequence[ArrayLike], *, b: float, workers: int = 1) -> Array:
    """Cost inflation of an ensemble at some budgets, if its members are as good as ``cost_inflation`` assumes.

    Parameters
    ----------
    budgets : (n,) float
    exit_costs : sequence of (E_k,) float
        As in ``output_schedule``.
    b : float
        Exits beyond ``1 / b`` of their member's cost compete with the best network of their own cost, the others with none.
    workers : int, default=1

    Returns
    -------
    (n,) float
        Budget divided by the cost of the best network competed with; infinite before the first output that competes.
    """
    _check_base(b)
    outputs = output_schedule(exit_costs, workers=workers)
    whole = [_increasing("exit_costs", costs)[-1] for costs in exit_costs]
    competing = [output for output in outputs if output.cost * b > whole[output.member]]
    times = np.array([output.time for output in competing])
    best = np.maximum.accumulate([0.0, *(output.cost for output in competing)])
    budget_values = np.asarray(budgets, dtype=np.float64)
    with np.errstate(divide="ignore"):
        return np.asarray(budget_values / best[np.searchsorted(times, budget_values, side="right")])


def _check_base(b: float) -> None:
    if not 1 < b < np.inf:
        raise ValueError(f"b, the factor by which costs grow, must be more than 1 and finite, not {b!r}")


def _check_workers(workers: int) -> None:
    if workers < 1:
        raise ValueError(f"workers must be at least 1, not {workers!r}")


def _increasing(name: str, values: ArrayLike) -> Array:
    costs = np.asarray(values, dtype=np.float64)
    if costs.ndim != 1 or not costs.size:
        raise ValueError(f"{name} must be a list of costs, one per exit; its shape is {costs.shape}")
    if not np.isfinite(costs).all() or costs[0] <= 0 or (np.diff(costs) <= 0).any():
        raise ValueError(
            f"{name} must be positive and grow from exit to exit: each is the cost up to its exit"
        )
    return costs
