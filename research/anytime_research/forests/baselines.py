"""Prunings to compare with: by the size of trees, which ignores prices, and by taking out one group after the other.

Both give sequences of nested prunings, from the whole forest to roots.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anytime.forests.pruning.problem import Pruning, PruningProblem
from anytime.plan import Array

__all__ = ["cost_complexity", "greedy_prune"]

_EQUAL = 1e-12  # relative difference of levels that is rounding


def cost_complexity(problem: PruningProblem, *, n_levels: int | None = None) -> list[Pruning]:
    """Weakest-link pruning with one level of complexity for all trees (Breiman et al., 1984).

    A node becomes a leaf when ``(R(h) - R(subtree)) / (leaves - 1)``, the error it saves per leaf, is no more than the level.
    ``cost_penalty`` of each pruning is its level, with errors counted as shares of ``n_error``.

    Parameters
    ----------
    problem : PruningProblem
    n_levels : int, default=None
        About so many prunings at most, each with a fixed share of the nodes of the one before. None: every level at which
        something changes.

    Returns
    -------
    list of Pruning
        From the whole forest to its roots.
    """
    internal = problem.splits.copy()
    risk = problem.error / problem.n_error
    share = 1.0 if n_levels is None else float(internal.sum() + 1) ** (-1 / n_levels)
    prunings = [problem.valued(internal.copy(), 0.0, method="cost_complexity")]
    level, last = 0.0, int(internal.sum())
    while internal.any():
        links = _links(problem, internal, risk)
        level = max(level, float(links.min()))
        internal &= links > level * (1 + _EQUAL)
        internal = problem.closed(internal)
        if internal.sum() <= last * share or not internal.any():
            last = int(internal.sum())
            prunings.append(problem.valued(internal.copy(), level, method="cost_complexity"))
    return prunings


def _links(problem: PruningProblem, internal: NDArray[np.bool_], risk: Array) -> Array:
    """(M,) how much error each internal node saves per leaf of its subtree but one; infinite elsewhere."""
    below, leaves = np.where(internal, 0.0, risk), np.where(internal, 0.0, 1.0)
    for level in problem.levels[:0:-1]:
        kept = level[internal[problem.parent[level]]]
        np.add.at(below, problem.parent[kept], below[kept])
        np.add.at(leaves, problem.parent[kept], leaves[kept])
    out = np.full(problem.n_nodes, np.inf)
    saved = risk - below
    # What sums of counts leave over in their last digits is nothing saved.
    saved = np.where(np.abs(saved) <= _EQUAL * np.maximum(risk, 1.0), 0.0, saved)
    return np.asarray(np.divide(saved, leaves - 1.0, out=out, where=internal))


def greedy_prune(
    problem: PruningProblem,
    cost_penalty: float = 0.0,
    *,
    score: Literal["lagrangian", "ratio"] = "lagrangian",
) -> list[Pruning]:
    """Take one group after the other out of the whole forest (GreedyPrune; Nan, *Budgeted prediction*, section 4.5).

    All nodes that need the group, in all trees, become leaves. The next group is the one that leaves the least ``error +
    cost_penalty * cost``, or that saves the most cost per error added. Ties go to the group with the lower number.

    Parameters
    ----------
    problem : PruningProblem
    cost_penalty : float, default=0.0
    score : {"lagrangian", "ratio"}, default="lagrangian"

    Returns
    -------
    list of Pruning
        From the whole forest to one that tests nothing.
    """
    if score not in ("lagrangian", "ratio"):
        raise ValueError(f"score is {score!r}; it must be 'lagrangian' or 'ratio'")
    if not cost_penalty >= 0:
        raise ValueError(f"cost_penalty is {cost_penalty}; it must not be negative")
    prunings = [problem.valued(problem.splits, cost_penalty, method="greedy_prune")]
    while (now := prunings[-1]).internal.any():
        needed = problem.node_groups[np.repeat(now.internal, np.diff(problem.group_start))]
        without = [
            problem.valued(_without(problem, now.internal, group), cost_penalty, method="greedy_prune")
            for group in np.unique(needed)
        ]
        rank = [other.value if score == "lagrangian" else -_savings_rate(now, other) for other in without]
        prunings.append(without[int(np.argmin(rank))])
    return prunings


def _savings_rate(before: Pruning, after: Pruning) -> float:
    """Cost saved per error added."""
    saved, added = before.spent - after.spent, after.error - before.error
    if added <= 0:
        return np.inf if saved > 0 else 0.0
    return saved / added


def _without(problem: PruningProblem, internal: NDArray[np.bool_], group: int) -> NDArray[np.bool_]:
    """The pruning in which no node needs ``group``."""
    out = internal.copy()
    out[np.repeat(np.arange(problem.n_nodes), np.diff(problem.group_start))[problem.node_groups == group]] = (
        False
    )
    return problem.closed(out)
