"""Pruning a forest as an integer program whose linear relaxation has whole solutions.

BudgetPrune (Nan, *Budgeted prediction*, chapter 4: the program of section 4.3, Lemma 4.3.1, Theorem 4.3.2). A variable
``z[h]`` says that node ``h`` is a leaf of the pruned tree, ``w_tree`` that a row needs a group in one tree, ``w`` that
it needs it at all. Here it is solved by HiGHS, for small forests and as a yardstick; ``solvers`` is for large ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from anytime.forests.pruning.problem import Pruning, PruningProblem
from anytime.plan import Array

__all__ = [
    "Program",
    "Solution",
    "first_tests",
    "linear_program",
    "naive_program",
    "node_costs",
    "pruning_program",
]

_WHOLE = 1e-7  # a variable this close to 0 or 1 is whole: HiGHS keeps constraints to about as much


@dataclass(frozen=True, eq=False)
class Program:
    """``min objective @ v`` such that ``equal @ v == 1``, ``below @ v <= 0`` and every ``v`` is 0 or 1.

    Attributes
    ----------
    problem : PruningProblem
    cost_penalty : float
    objective : (V,) float
        The first ``M`` variables are ``z``, one per node; the last ones are ``w``, one per pair of group and row.
    equal, below : sparse (rows, V)
        Entries are 0, 1 and -1.
    uses : (P, 3) int
        Tree, group and row of every ``w_tree``, which stand after ``z``. Empty in the naive formulation.
    pairs : (Q, 2) int
        Group and row of every ``w``.
    """

    problem: PruningProblem
    cost_penalty: float
    objective: Array
    equal: sparse.csr_array
    below: sparse.csr_array
    uses: NDArray[np.int64]
    pairs: NDArray[np.int64]

    def solve(self, *, integer: bool = False) -> Solution:
        """Solve the relaxation, ``0 <= v <= 1``, by the simplex method, or the program itself."""
        ones, zeros = np.ones(self.equal.shape[0]), np.zeros(self.below.shape[0])
        if integer:
            found = milp(
                self.objective,
                integrality=np.ones(self.objective.size, dtype=np.int64),
                bounds=Bounds(0, 1),
                constraints=[
                    LinearConstraint(self.equal, ones, ones),
                    LinearConstraint(self.below, -np.inf, zeros),
                ],
            )
        else:
            found = linprog(  # type: ignore[call-overload]  # the stubs know no sparse matrix
                self.objective,
                self.below if zeros.size else None,
                zeros if zeros.size else None,
                self.equal,
                ones,
                bounds=(0.0, 1.0),
                method="highs-ds",
            )
        if found.x is None:
            raise RuntimeError(f"HiGHS found no solution: {found.message}")
        return Solution(self, np.asarray(found.x), float(found.fun))


@dataclass(frozen=True, eq=False)
class Solution:
    """A solution of a program, whole or not.

    Attributes
    ----------
    program : Program
    variables : (V,) float
    value : float
        The objective.
    """

    program: Program
    variables: Array
    value: float

    @property
    def violation(self) -> float:
        """``max |v - round(v)|``: 0 for a whole solution, at most 0.5."""
        return float(np.abs(self.variables - np.round(self.variables)).max(initial=0.0))

    @property
    def n_fractional(self) -> int:
        """Variables that are neither 0 nor 1."""
        return int((np.abs(self.variables - np.round(self.variables)) > _WHOLE).sum())

    @property
    def internal(self) -> NDArray[np.bool_]:
        """(M,) nodes that stay internal: no node from the root to them became a leaf."""
        parent = self.program.problem.parent
        kept = 1.0 - _ancestors(parent) @ self.variables[: parent.size]
        return np.asarray(kept > 0.5)


def linear_program(problem: PruningProblem, cost_penalty: float) -> Pruning:
    """The best pruning by the relaxation alone.

    Raises
    ------
    RuntimeError
        The solution is not whole, which contradicts the theorem beyond rounding.
    """
    solution = pruning_program(problem, cost_penalty).solve()
    if solution.n_fractional:
        raise RuntimeError(
            f"{solution.n_fractional} variables of the relaxation are not whole (by up to {solution.violation:.2g}): "
            "scale errors and prices to similar sizes, or use the minimum cut"
        )
    internal = solution.internal
    error, cost, evaluation_cost = problem.evaluate(internal)
    value = error + cost_penalty * (cost + evaluation_cost)
    return Pruning(
        internal, cost_penalty, error, cost, evaluation_cost, value, min(solution.value, value), method="lp"
    )


def pruning_program(problem: PruningProblem, cost_penalty: float) -> Program:
    """The program whose relaxation is whole.

    Every path of the forest is cut exactly once. In a tree a row needs a group unless its path is cut at or above the
    first node that tests it, and it needs what any of its trees needs.
    """
    n_nodes, n_leaves = problem.n_nodes, int((~problem.splits).sum())
    tree, group, row, node = first_tests(problem)
    pairs, pair_of = np.unique(np.column_stack([group, row]), axis=0, return_inverse=True)
    ancestors = _ancestors(problem.parent)
    n_uses, one = tree.size, np.ones(tree.size)
    each = np.arange(n_uses)
    equal = sparse.block_array(
        [
            [ancestors[~problem.splits], None, sparse.csr_array((n_leaves, len(pairs)))],
            [ancestors[node], sparse.eye_array(n_uses), None],
        ],
        format="csr",
    )
    below = sparse.hstack(
        [
            sparse.csr_array((n_uses, n_nodes)),
            sparse.eye_array(n_uses),
            sparse.csr_array((-one, (each, pair_of)), shape=(n_uses, len(pairs))),
        ],
        format="csr",
    )
    objective = np.concatenate(
        [node_costs(problem, cost_penalty), np.zeros(n_uses), _prices(problem, cost_penalty, pairs)]
    )
    return Program(problem, cost_penalty, objective, equal, below, np.column_stack([tree, group, row]), pairs)


def naive_program(problem: PruningProblem, cost_penalty: float) -> Program:
    """The obvious program, ``w >= z[h]`` for every group tested strictly above ``h``: its relaxation is not whole."""
    n_nodes = problem.n_nodes
    tree, group, row, node = first_tests(problem)
    pairs, pair_of = np.unique(np.column_stack([group, row]), axis=0, return_inverse=True)
    # Nodes strictly below the first test, on the path of the row: between its leaf and that node.
    current, use = problem.leaf[row, tree].astype(np.int64), np.arange(tree.size)
    below_node, below_use = [current[:0]], [use[:0]]
    while use.size:
        on = current != node[use]
        current, use = current[on], use[on]
        below_node.append(current)
        below_use.append(use)
        current = problem.parent[current].astype(np.int64)
    at, of = np.concatenate(below_node), np.concatenate(below_use)
    each, one = np.arange(at.size), np.ones(at.size)
    below = sparse.hstack(
        [
            sparse.csr_array((one, (each, at)), shape=(at.size, n_nodes)),
            sparse.csr_array((-one, (each, pair_of[of])), shape=(at.size, len(pairs))),
        ],
        format="csr",
    )
    leaves = _ancestors(problem.parent)[~problem.splits]
    equal = sparse.hstack([leaves, sparse.csr_array((leaves.shape[0], len(pairs)))], format="csr")
    objective = np.concatenate([node_costs(problem, cost_penalty), _prices(problem, cost_penalty, pairs)])
    return Program(problem, cost_penalty, objective, equal, below, np.empty((0, 3), dtype=np.int64), pairs)


# ---------------------------------------------------------------------- what both are made of


def first_tests(problem: PruningProblem) -> tuple[NDArray[np.int64], ...]:
    """Tree, group, row and node (four arrays) of the first need of each group on the way of each row through each tree."""
    leaves, place = np.unique(problem.leaf, return_inverse=True)
    above = _ancestors(problem.parent)[leaves]  # columns increase, so a parent stands before its child
    found: list[NDArray[np.int64]] = []
    for nodes in np.split(above.indices, above.indptr[1:-1]):
        starts, stops = problem.group_start[nodes], problem.group_start[nodes + 1]
        groups = np.concatenate([problem.node_groups[a:b] for a, b in zip(starts, stops, strict=True)])
        group, first = np.unique(groups, return_index=True)
        found.append(np.column_stack([group, np.repeat(nodes, stops - starts)[first]]))
    place = place.reshape(problem.leaf.shape)
    parts = []
    for t in range(problem.n_trees):
        sizes = np.array([len(found[p]) for p in place[:, t]], dtype=np.int64)
        tests = np.concatenate([np.empty((0, 2), dtype=np.int64), *(found[p] for p in place[:, t])])
        rows = np.repeat(np.arange(sizes.size), sizes)
        order = np.lexsort((rows, tests[:, 0]))
        parts.append(np.array([np.full(order.size, t), tests[order, 0], rows[order], tests[order, 1]]))
    return tuple(np.concatenate(parts, axis=1))


def _ancestors(parent: NDArray[np.int32]) -> sparse.csr_array:
    """(M, M) ones where the column's node is on the way from the root to the row's node, both included."""
    node = current = np.arange(parent.size, dtype=np.int64)
    rows, columns = [], []
    while node.size:
        rows.append(node)
        columns.append(current)
        above = parent[current].astype(np.int64)
        node, current = node[above >= 0], above[above >= 0]
    at, of = np.concatenate(rows), np.concatenate(columns)
    out = sparse.csr_array((np.ones(at.size), (at, of)), shape=(parent.size, parent.size))
    out.sort_indices()
    return out


def node_costs(problem: PruningProblem, cost_penalty: float) -> Array:
    """(M,) what a node costs as a leaf: its error, and the tests on the way to it."""
    tests = _ancestors(problem.parent).sum(axis=1) - 1.0  # depth, 0 at a root
    evaluation_cost = problem.evaluation_cost * problem.reach * tests / problem.n_cost
    return np.asarray(problem.error / (problem.n_error * problem.n_trees) + cost_penalty * evaluation_cost)


def _prices(problem: PruningProblem, cost_penalty: float, pairs: NDArray[np.int64]) -> Array:
    """(Q,) what it costs that a row needs a group."""
    weight = 1.0 if problem.weight is None else problem.weight[pairs[:, 1]]
    return np.asarray(cost_penalty * problem.prices[pairs[:, 0]] * weight / problem.n_cost)
