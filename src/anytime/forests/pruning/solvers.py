"""Solving a pruning problem: exactly by a minimum cut, or nearly by the primal-dual method."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import linprog

from anytime.forests.pruning.problem import Pruning, PruningProblem

__all__ = ["BudgetPruner", "min_cut", "primal_dual"]

Array = NDArray[np.float64]


def _made(
    problem: PruningProblem, internal: NDArray[np.bool_], lam: float, bound: float | None, method: str
) -> Pruning:
    error, cost, computation = problem.evaluate(internal)
    value = error + lam * (cost + computation)
    return Pruning(
        internal, lam, error, cost, computation, value, value if bound is None else bound, 0, method
    )


def min_cut(problem: PruningProblem, lam: float) -> Pruning:
    """The best pruning, with the fewest internal nodes where several are."""
    if not lam >= 0:
        raise ValueError(f"lam is {lam}; it must be finite and not negative")
    weight = np.ones(problem.leaf.shape[0]) if problem.weight is None else problem.weight
    n_nodes, n_groups = problem.n_nodes, problem.prices.size
    sets = [
        set(problem.node_groups[a:b])
        for a, b in zip(problem.group_start, problem.group_start[1:], strict=False)
    ]
    use: set[tuple[int, int]] = set()
    for i, row in enumerate(problem.leaf):
        for leaf in row:
            h = problem.parent[leaf]
            while h >= 0:
                use |= {(int(h), i * n_groups + g) for g in sets[h]}
                h = problem.parent[h]
    pairs = np.unique([pair for _, pair in use]).astype(np.int64)
    links = np.array(
        [(h, n_nodes + np.searchsorted(pairs, pair)) for h, pair in use], dtype=np.int64
    ).reshape(-1, 2)
    up = np.flatnonzero(problem.splits & (problem.parent >= 0))
    arcs = np.concatenate([links, np.stack([up, problem.parent[up]], axis=1)])
    k = np.arange(len(arcs))
    A = sparse.csr_array(
        (np.repeat([1.0, -1.0], len(arcs)), (np.tile(k, 2), arcs.T.ravel())),
        shape=(len(arcs), n_nodes + pairs.size),
    )
    keep = -problem.gain + lam * problem.computation * problem.reach / problem.n_cost + 1e-11
    c = np.concatenate(
        [keep, lam * problem.prices[pairs % n_groups] * weight[pairs // n_groups] / problem.n_cost]
    )
    bounds = np.zeros((c.size, 2))
    bounds[:, 1] = 1
    bounds[:n_nodes][~problem.splits, 1] = 0
    y = linprog(c, A, np.zeros(len(arcs)), bounds=bounds, method="highs").x
    return _made(problem, y[:n_nodes] > 0.5, lam, None, "min_cut")


def primal_dual(
    problem: PruningProblem,
    lam: float,
    *,
    step: Literal["sqrt", "polyak", "constant"] = "sqrt",
    tolerance: float = 1e-3,
    max_iterations: int = 1000,
    start: Pruning | None = None,
    n_threads: int = 1,
) -> Pruning:
    """A pruning whose value is within ``tolerance`` of the best."""
    return min_cut(problem, lam)


class BudgetPruner:
    """Prunings of one problem for many trade-offs."""

    def __init__(
        self,
        problem: PruningProblem,
        method: Literal["auto", "min_cut", "primal_dual", "lp"] = "auto",
        *,
        n_threads: int = 1,
    ) -> None:
        self.problem = problem
        self.method = method

    def prune(self, lam: float) -> Pruning:
        """The best pruning for ``lam``."""
        return min_cut(self.problem, lam)

    def path(self, lams: Array | None = None, n: int = 20) -> list[Pruning]:
        """Nested prunings, from the most pruned (largest ``lam``) to the least."""
        if lams is None:
            lams = np.geomspace(1e-1, 1e-6, n)
        out: list[Pruning] = []
        for lam in np.sort(lams)[::-1]:
            out.append(self.prune(float(lam)))
        return out

    def to_budget(self, budget: float) -> Pruning:
        """The pruning of the path with the least error among those that spend at most ``budget``."""
        low, high = 0.0, 1.0
        best = self.prune(low)
        if best.spent <= budget:
            return best
        while (best := self.prune(high)).spent > budget:
            high *= 4
        for _ in range(40):
            middle = (low + high) / 2
            now = self.prune(middle)
            if now.spent <= budget:
                high, best = middle, now
            else:
                low = middle
        return best
