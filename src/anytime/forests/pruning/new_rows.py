"""Costs of new rows for a pruning.

A pruning is chosen because the rows that pay for it pay little; other rows pay more, the more so the fewer rows chose it. So rows
are dealt into folds, prunings are found without each fold in turn, and what its rows pay is compared with what the others pay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.forests.pruning.problem import Pruning, PruningProblem
from anytime.forests.pruning.solvers import BudgetPruner
from anytime.plan import Array
from anytime.spreading import side_by_side

_FOLDS = 5
_MOST_ROWS = 2000  # beyond that the difference is a fraction of a percent
_PENALTIES = 10  # about so many are tried


@dataclass(frozen=True, eq=False)
class CostOnNewRows:
    """From the mean cost of the rows that chose a pruning to that of new rows, by straight lines between points."""

    measured: Array  # (Q,), increasing
    expected: Array  # (Q,), increasing

    @classmethod
    def equal(cls, most: float) -> CostOnNewRows:
        """New rows pay as much."""
        return cls(np.array([0.0, most]), np.array([0.0, most]))

    @classmethod
    def of(
        cls, problem: PruningProblem, path: Sequence[Pruning], *, method: str, n_threads: int = 1
    ) -> CostOnNewRows:
        """Cross-fitted at the cost penalties of some prunings of a path; equal costs where rows are many or fewer than two.

        Costs rise along the path; each pruning is the best for its penalty but the last, which nothing was chosen for.
        """
        whole, n_rows = path[-1].spent, len(problem.leaf)
        chosen = [p for p in path[:-1] if 0 < p.spent < whole and np.isfinite(p.cost_penalty)]
        if not 2 <= n_rows <= _MOST_ROWS or not chosen:
            return cls.equal(whole)
        some = np.unique(np.linspace(0, len(chosen) - 1, _PENALTIES).astype(int))
        chosen = [chosen[k] for k in some]
        penalties = [pruning.cost_penalty for pruning in chosen]
        folds = range(min(_FOLDS, n_rows))
        paid = sum(side_by_side(_paid, (problem, penalties, method, n_threads), folds), start=np.zeros(1))
        measured, expected = paid[:, np.argsort(paid[0], kind="stable")]
        measured, expected = np.array([0.0, *measured, whole]), np.array([0.0, *expected, whole])
        expected = np.minimum(np.maximum.accumulate(np.maximum(expected, measured)), whole)
        return cls(*_increasing(measured, expected))

    def of_new_rows(self, measured: Any) -> Any:
        """What new rows pay on average for prunings that their own rows pay ``measured`` for."""
        return np.interp(measured, self.measured, self.expected)

    def to_aim_at(self, expected: float) -> float:
        """The mean cost of the own rows at which new rows pay ``expected``."""
        return float(np.interp(expected, self.expected, self.measured))


def _paid(
    problem: PruningProblem, penalties: Sequence[float], method: Any, n_threads: int, fold: int
) -> Array:
    """(2, Q) shares of the mean cost: what rows outside of a fold pay for prunings chosen by them, and what its rows pay."""
    dealt = np.random.default_rng(0).permutation(len(problem.leaf)) % _FOLDS
    pruner = BudgetPruner(_part(problem, dealt != fold), method, n_threads=n_threads)
    others, paid = _part(problem, dealt == fold), []
    for penalty in penalties:
        pruning = pruner.prune(penalty)
        _, cost, evaluation_cost = others.evaluate(pruning.internal)
        paid.append(others.n_cost * np.array([pruning.spent, cost + evaluation_cost]) / problem.n_cost)
    return np.stack(paid, axis=1)


def _part(problem: PruningProblem, rows: NDArray[np.bool_]) -> PruningProblem:
    weight = None if problem.weight is None else problem.weight[rows]
    return replace(problem, leaf=problem.leaf[rows], weight=weight)


def _increasing(measured: Array, expected: Array) -> tuple[Array, Array]:
    """Without points at which one of both does not rise."""
    keep = [0]
    for k in range(1, measured.size):
        if measured[k] > measured[keep[-1]] and expected[k] > expected[keep[-1]]:
            keep.append(k)
    return measured[keep], expected[keep]
