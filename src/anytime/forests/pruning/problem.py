"""The problem of pruning a forest, in one form for all solvers.

All trees are pruned together (Nan, Wang and Saligrama, *Pruning Random Forests for Prediction on a Budget*). A pruning selects
the nodes that stay internal; their other children become leaves. It increases the training error, one tree at a time, and saves
prices: a row pays for a group once, however many nodes and trees read it.

    minimise   sum_h error[h] [h is a leaf now] / (n_error T)  +  cost_penalty * (feature cost + computation)

Feature cost: mean over the cost rows of the prices of all groups that the row needs. Computation: ``kappa`` times the mean
number of nodes that test a row, over all trees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from anytime._native import Forest, PruneGraph
from anytime.costs import BoundCosts
from anytime.trees.arrays import LEAF, TreeArrays

__all__ = ["Pruning", "PruningProblem", "leaves_of", "nested", "parents"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PruningProblem:
    """A forest of ``T`` trees and ``M`` nodes to prune, and ``n`` rows that pay for the groups it reads.

    Nodes are numbered across all trees; those of a tree are consecutive, the root first, a child after its parent. A node may
    have any number of children; a node without children is always a leaf.

    Attributes
    ----------
    parent : (M,) int32
        -1 at a root.
    tree_start : (T + 1,) int64
        Tree ``t`` is nodes ``tree_start[t]:tree_start[t + 1]``.
    error : (M,) float64
        Training error (weight of the misclassified rows) if the node is a leaf.
    n_error : float
        Training rows of a tree: the error of a pruning is ``sum error / (n_error T)``.
    prices : (G,) float64
    leaf : (n, T) int32
        The leaf of the whole forest that each cost row reaches in each tree.
    weight : (n,) float64 or None
        Weight of each cost row. None: 1.
    group_start : (M + 1,) int64
    node_groups : int32
        Testing at node ``h`` needs the groups ``node_groups[group_start[h]:group_start[h + 1]]``: the group of its column and its
        requirements. None at a leaf.
    evaluation_cost : float
        The price of testing a row at one node (``kappa``).
    """

    parent: NDArray[np.int32]
    tree_start: NDArray[np.int64]
    error: Array
    n_error: float
    prices: Array
    leaf: NDArray[np.int32]
    weight: Array | None
    group_start: NDArray[np.int64]
    node_groups: NDArray[np.int32]
    evaluation_cost: float = 0.0

    def __post_init__(self) -> None:
        types = {"parent": np.int32, "tree_start": np.int64, "error": np.float64, "prices": np.float64}
        types |= {"leaf": np.int32, "weight": np.float64, "group_start": np.int64, "node_groups": np.int32}
        for name, dtype in types.items():
            if getattr(self, name) is not None:
                object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=dtype))
        _check_numbers(self)
        _check_trees(self)
        _check_groups(self)
        _check_rows(self)

    @classmethod
    def of(
        cls,
        trees: TreeArrays,
        error: Array,
        n_error: float,
        X: Array,
        costs: BoundCosts,
        *,
        weight: Array | None = None,
        evaluation_cost: float = 0.0,
    ) -> PruningProblem:
        """The problem of pruning ``trees``, the rows of ``X`` paying ``costs``.

        ``error[h]`` is the training error of node ``h`` as a leaf and ``n_error`` the number of training rows of a tree.
        """
        inner = np.flatnonzero(trees.feature != LEAF)
        needs = [np.asarray(costs.table.closure(g), dtype=np.int32) for g in range(costs.n_groups)]
        groups = costs.column_group[trees.feature[inner]]
        sizes = np.zeros(trees.feature.size, dtype=np.int64)
        sizes[inner] = np.array([need.size for need in needs], dtype=np.int64)[groups]
        return cls(
            parent=parents(trees),
            tree_start=trees.tree_start,
            error=error,
            n_error=n_error,
            prices=costs.costs.amounts(costs.prices),
            leaf=leaves_of(trees, X),
            weight=weight,
            group_start=np.concatenate([[0], np.cumsum(sizes)]),
            node_groups=np.concatenate([np.empty(0, np.int32), *(needs[g] for g in groups)]),
            evaluation_cost=evaluation_cost,
        )

    @property
    def n_nodes(self) -> int:
        """Number of nodes of all trees."""
        return self.parent.size

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return self.tree_start.size - 1

    @property
    def n_cost(self) -> float:
        """Number of cost rows, each counted as often as its weight says."""
        return float(self.leaf.shape[0] if self.weight is None else self.weight.sum())

    @cached_property
    def splits(self) -> NDArray[np.bool_]:
        """(M,) whether a node has children."""
        out = np.zeros(self.n_nodes, dtype=bool)
        out[self.parent[self.parent >= 0]] = True
        return out

    @cached_property
    def reach(self) -> Array:
        """(M,) weight of the cost rows that reach each node."""
        out = np.zeros(self.n_nodes)
        for column in self.leaf.T:
            out += np.bincount(column, self.weight, self.n_nodes)
        for level in self.levels[:0:-1]:
            np.add.at(out, self.parent[level], out[level])
        return out

    @cached_property
    def levels(self) -> list[NDArray[np.intp]]:
        """Nodes by depth: the roots, their children, and so on."""
        depth = np.zeros(self.n_nodes, dtype=np.intp)
        above = self.parent
        while (there := above >= 0).any():
            depth += there
            above = np.where(there, self.parent[above], -1)
        return np.split(np.argsort(depth, kind="stable"), np.cumsum(np.bincount(depth))[:-1])

    @cached_property
    def gain(self) -> Array:
        """(M,) by how much the error term falls where a leaf of the pruning becomes a node with leaves below; 0 at leaves."""
        out = np.where(self.splits, self.error, 0.0)
        below = np.flatnonzero(self.parent >= 0)
        np.subtract.at(out, self.parent[below], self.error[below])
        return out / (self.n_error * self.n_trees)

    @cached_property
    def graph(self) -> PruneGraph:
        """What the native solvers work on; rows that reach the same leaves are one."""
        return PruneGraph(
            parent=self.parent,
            tree_start=self.tree_start,
            group_start=self.group_start,
            node_groups=self.node_groups,
            prices=self.prices,
            leaf=self.leaf,
            weight=self.weight,
        )

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "graph"}

    def evaluate(self, internal: NDArray[np.bool_], *, n_threads: int = 1) -> tuple[float, float, float]:
        """Error, feature cost and computation of the pruning with these ``internal`` nodes."""
        internal = self.check(internal)
        # the parent stays; a root is always there
        below = np.concatenate([[True], internal])[self.parent + 1]
        error = float(self.error[below & ~internal].sum() / (self.n_error * self.n_trees))
        kept = internal[self.graph.nodes].astype(np.uint8)
        cost = self.graph.feature_cost(kept, n_threads)
        return error, cost, float(self.evaluation_cost * self.reach[internal].sum() / self.n_cost)

    def check(self, internal: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """``internal``, checked to be a pruning: it contains no leaf, and with every node its parent."""
        internal = np.asarray(internal)
        if internal.shape != (self.n_nodes,) or internal.dtype != bool:
            raise ValueError(
                f"internal must be ({self.n_nodes},) bool, not {internal.shape} {internal.dtype}"
            )
        if (bad := np.flatnonzero(internal & ~self.splits)).size:
            raise ValueError(f"node {bad[0]} has no children, so it cannot stay internal")
        orphan = internal & (self.parent >= 0) & ~internal[self.parent]
        if (bad := np.flatnonzero(orphan)).size:
            raise ValueError(f"node {bad[0]} stays internal but its parent {self.parent[bad[0]]} does not")
        return internal

    def valued(
        self,
        internal: NDArray[np.bool_],
        cost_penalty: float,
        *,
        bound: float | None = -np.inf,
        method: str = "",
        n_threads: int = 1,
    ) -> Pruning:
        """The pruning with what it costs and makes of errors; ``bound`` None: it is the best."""
        error, cost, evaluation_cost = self.evaluate(internal, n_threads=n_threads)
        value = error + cost_penalty * (cost + evaluation_cost)
        bound = value if bound is None else bound
        return Pruning(internal, cost_penalty, error, cost, evaluation_cost, value, bound, method=method)

    def of_splits(self, kept: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """(M,) bool, of nodes, from (N,) bool, of the nodes with children."""
        out = np.zeros(self.n_nodes, dtype=bool)
        out[self.graph.nodes] = kept
        return out

    def ends(self, internal: NDArray[np.bool_]) -> NDArray[np.intp]:
        """(M,) where a row on its way to each node stops: at the first that is not ``internal``."""
        out = np.arange(self.n_nodes)
        for level in self.levels[1:]:
            above = self.parent[level]
            out[level] = np.where(internal[above], level, out[above])
        return out

    def closed(self, internal: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """``internal`` without the nodes that have an ancestor outside of it."""
        out = internal.copy()
        for level in self.levels[1:]:
            out[level] &= out[self.parent[level]]
        return out


@dataclass(frozen=True, eq=False)
class Pruning:
    """The nodes of a forest that stay internal, with their cost and error.

    Attributes
    ----------
    internal : (M,) bool
    cost_penalty : float
        The weight of cost against error for which it was found.
    error, cost, evaluation_cost : float
        Results of ``PruningProblem.evaluate``.
    value : float
        ``error + cost_penalty * (cost + evaluation_cost)``.
    bound : float
        Lower bound on the value of any pruning. Equal to ``value`` for an exact method.
    iterations : int
    method : str
    state : array or None
        Start of the primal-dual method for another ``cost_penalty``.
    """

    internal: NDArray[np.bool_]
    cost_penalty: float
    error: float
    cost: float
    evaluation_cost: float
    value: float
    bound: float
    iterations: int = 0
    method: str = ""
    state: Array | None = field(default=None, repr=False)

    @property
    def spent(self) -> float:
        """Feature cost plus computation, which ``cost_penalty`` weighs and a budget limits."""
        return self.cost + self.evaluation_cost

    @property
    def gap(self) -> float:
        """Upper bound on how much better another pruning can be."""
        return max(self.value - self.bound, 0.0)


def nested(problem: PruningProblem, prunings: Sequence[Pruning], *, n_threads: int = 1) -> list[Pruning]:
    """Prunings from cheap to costly, cut down so that each keeps what those before it keep; the last is unchanged.

    Exact ones are nested already. Of what an approximate method keeps, only that is left which larger prunings keep too.
    """
    out: list[Pruning] = []
    for pruning in reversed(prunings):
        if out and (pruning.internal & ~out[-1].internal).any():
            internal = pruning.internal & out[-1].internal
            pruning = problem.valued(
                internal,
                pruning.cost_penalty,
                bound=pruning.bound,
                method=pruning.method,
                n_threads=n_threads,
            )
        out.append(pruning)
    return out[::-1]


def parents(trees: TreeArrays) -> NDArray[np.int32]:
    """(M,) the parent of every node, numbered through all trees; -1 at a root."""
    first = np.repeat(trees.tree_start[:-1], np.diff(trees.tree_start))
    out = np.full(trees.feature.size, -1, dtype=np.int32)
    inner = np.flatnonzero(trees.feature != LEAF)
    for child in (trees.left, trees.right):
        out[first[inner] + child[inner]] = inner
    return out


def leaves_of(trees: TreeArrays, X: Array) -> NDArray[np.int32]:
    """(n, T) number, over all trees, of the leaf that each row reaches in each tree."""
    n_trees = trees.n_trees
    numbers = {
        **trees.asdict(),
        "stage_start": np.arange(n_trees + 1),
        "value": np.arange(trees.feature.size, dtype=np.float64)[:, None],
        "tree_output": np.zeros(n_trees, dtype=np.int32),
        "n_outputs": 1,
    }
    X = np.ascontiguousarray(X, dtype=np.float64)
    outputs = Forest(**numbers).stage_outputs(X, np.arange(n_trees))
    return np.ascontiguousarray(np.rint(outputs).reshape(n_trees, len(X)).T, dtype=np.int32)


# ---------------------------------------------------------------------- checks


def _check_numbers(problem: PruningProblem) -> None:
    for name in ("error", "prices", "weight"):
        values = getattr(problem, name)
        if values is None:
            continue
        if values.ndim != 1:
            raise ValueError(f"{name} must have one dimension, not the shape {values.shape}")
        if (bad := np.flatnonzero(~(np.isfinite(values) & (values >= 0)))).size:
            raise ValueError(f"{name}[{bad[0]}] is {values[bad[0]]}; it must be finite and not negative")
    if not (np.isfinite(problem.n_error) and problem.n_error > 0):
        raise ValueError(f"n_error is {problem.n_error}; it must be finite and more than 0")
    if not (np.isfinite(problem.evaluation_cost) and problem.evaluation_cost >= 0):
        raise ValueError(f"evaluation_cost is {problem.evaluation_cost}; it must be finite and not negative")


def _check_trees(problem: PruningProblem) -> None:
    parent, start = problem.parent, problem.tree_start
    if start.ndim != 1 or start.size < 2:
        raise ValueError("tree_start has fewer than 2 entries: there are no trees to prune")
    if parent.ndim != 1 or start[0] != 0 or start[-1] != parent.size:
        raise ValueError(f"tree_start must run from 0 to the number of nodes, {parent.size}")
    if (bad := np.flatnonzero(np.diff(start) < 1)).size:
        raise ValueError(f"tree {bad[0]} has no nodes; a tree has a root at least")
    if problem.error.size != parent.size:
        raise ValueError(f"error has {problem.error.size} entries, but there are {parent.size} nodes")
    is_root = np.zeros(parent.size, dtype=bool)
    is_root[start[:-1]] = True
    if (bad := np.flatnonzero(is_root != (parent == -1))).size:
        raise ValueError(
            f"node {bad[0]} has the parent {parent[bad[0]]}; the first node of a tree, and no other, has -1"
        )
    first = np.repeat(start[:-1], np.diff(start))
    wrong = ~is_root & ((parent < first) | (parent >= np.arange(parent.size)))
    if (bad := np.flatnonzero(wrong)).size:
        raise ValueError(
            f"node {bad[0]} has the parent {parent[bad[0]]}, which does not stand before it in its tree"
        )


def _check_groups(problem: PruningProblem) -> None:
    start, groups, n_groups = problem.group_start, problem.node_groups, problem.prices.size
    if start.shape != (problem.n_nodes + 1,) or groups.ndim != 1:
        raise ValueError(f"group_start must have {problem.n_nodes + 1} entries, not the shape {start.shape}")
    if start[0] != 0 or start[-1] != groups.size or (np.diff(start) < 0).any():
        raise ValueError(f"group_start must rise from 0 to the length of node_groups, {groups.size}")
    if groups.size and (groups.min() < 0 or groups.max() >= n_groups):
        raise ValueError(f"node_groups names groups outside [0, {n_groups})")
    owner = np.repeat(np.arange(problem.n_nodes), np.diff(start))
    if (bad := owner[~problem.splits[owner]]).size:
        raise ValueError(f"node {bad[0]} has no children, so it tests nothing, but it has groups")
    pairs = np.sort(owner * max(n_groups, 1) + groups)
    if (bad := np.flatnonzero(np.diff(pairs) == 0)).size:
        raise ValueError(f"node {pairs[bad[0]] // n_groups} names group {pairs[bad[0]] % n_groups} twice")


def _check_rows(problem: PruningProblem) -> None:
    leaf, start = problem.leaf, problem.tree_start
    if leaf.ndim != 2 or leaf.shape[1] != problem.n_trees:
        raise ValueError(f"leaf must be (rows, {problem.n_trees} trees), not the shape {leaf.shape}")
    if not leaf.shape[0]:
        raise ValueError("there are no cost rows: nothing says what reading a group costs")
    if problem.weight is not None and problem.weight.size != leaf.shape[0]:
        raise ValueError(f"weight has {problem.weight.size} entries, but there are {leaf.shape[0]} cost rows")
    if problem.n_cost <= 0:
        raise ValueError("the weights of the cost rows are all 0")
    outside = (leaf < start[:-1]) | (leaf >= start[1:])
    wrong = outside | problem.splits[np.where(outside, 0, leaf)]
    if wrong.any():
        i, t = np.argwhere(wrong)[0]
        raise ValueError(
            f"cost row {i} is said to reach node {leaf[i, t]} in tree {t}, which is no leaf of that tree"
        )
