"""Why the relaxation of pruning has whole solutions: in one tree it is a shortest path.

Nan, *Budgeted prediction*, Lemma 4.3.1 and figures 4.1 and 4.2. That a row needs a group in a tree is pictured as one more
leaf, hung below the first node that tests the group. With leaves listed depth first, these after the real ones of their
node, every variable stands in a run of consecutive constraints. Differences of neighbouring constraints then hold one -1
and one 1 per variable: arcs of a graph whose paths from the first to the last vertex are exactly the prunings of the tree.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.forests.pruning.problem import PruningProblem
from anytime.plan import Array
from anytime_research.forests.program import first_tests

__all__ = ["TreeNetwork", "is_totally_unimodular"]

_MOST_ROWS = 20  # of a matrix that is checked: the work grows with the number of its sets of rows


@dataclass(frozen=True, eq=False)
class TreeNetwork:
    """One tree as a graph with vertices 0 to ``m``, one more than it has leaves, pictured ones included.

    Attributes
    ----------
    nodes : (N,) int
        The tree's nodes by their number in the forest; the first ``N`` arcs.
    uses : (P, 2) int
        Group and row of every pictured leaf, sorted; the last ``P`` arcs.
    tail, head : (N + P,) int
        Arcs. That of a node runs from the first leaf below it to the one after its last, that of a use over one leaf.

    Examples
    --------
    A root that tests group 0, for one row.

    >>> problem = PruningProblem(
    ...     parent=[-1, 0, 0], tree_start=[0, 3], error=[4, 1, 0], n_error=10, prices=[1], leaf=[[1]], weight=None,
    ...     group_start=[0, 1, 1, 1], node_groups=[0])
    >>> network = TreeNetwork.of(problem, 0)
    >>> network.matrix.astype(int).tolist()
    [[1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 1]]
    >>> list(zip(network.tail.tolist(), network.head.tolist()))
    [(0, 3), (0, 1), (1, 2), (2, 3)]
    """

    nodes: NDArray[np.int64]
    uses: NDArray[np.int64]
    tail: NDArray[np.int64]
    head: NDArray[np.int64]

    @classmethod
    def of(cls, problem: PruningProblem, tree: int) -> TreeNetwork:
        """The graph of one tree of a problem."""
        first, stop = problem.tree_start[tree : tree + 2]
        n_nodes = int(stop - first)
        trees, groups, rows, at = first_tests(problem)
        here = np.flatnonzero(trees == tree)
        below: list[list[int]] = [[] for _ in range(n_nodes)]
        for node in range(1, n_nodes):
            below[int(problem.parent[first + node] - first)].append(node)
        for use, node in enumerate(at[here] - first):
            below[node].append(n_nodes + use)  # after all real children
        tail = np.zeros(n_nodes + here.size, dtype=np.int64)
        head = np.zeros_like(tail)
        n_leaves, pending = 0, [0]
        while pending:
            arc = pending.pop()
            if arc < 0:  # everything below this node has been numbered
                head[~arc] = n_leaves
                continue
            tail[arc] = n_leaves
            children = below[arc] if arc < n_nodes else []
            n_leaves += not children
            pending += [~arc, *reversed(children)]
        return cls(np.arange(first, stop), np.column_stack([groups[here], rows[here]]), tail, head)

    @property
    def n_leaves(self) -> int:
        """Leaves, real and pictured, which are as many constraints: on the way to each is one cut."""
        return int(self.head[0])

    @property
    def matrix(self) -> Array:
        """(m, N + P) the constraints, ``matrix @ variables == 1``: each column is one run of ones."""
        leaf = np.arange(self.n_leaves)[:, None]
        return np.asarray((self.tail <= leaf) & (leaf < self.head), dtype=np.float64)

    @property
    def network_matrix(self) -> Array:
        """(m + 1, N + P) with the constraints ``r`` as rows: ``-r_1, r_1 - r_2, ..., r_m``."""
        padded = np.pad(self.matrix, ((1, 1), (0, 0)))
        return np.asarray(padded[:-1] - padded[1:])

    def shortest_path(self, costs: ArrayLike) -> tuple[float, NDArray[np.bool_]]:
        """Length of the shortest path from the first to the last vertex, and the (N + P,) arcs on it.

        Of paths equally short it is one with its cuts high up.
        """
        length = np.asarray(costs, dtype=np.float64)
        if length.shape != self.tail.shape:
            raise ValueError(f"costs has shape {length.shape}, but the graph has {self.tail.size} arcs")
        distance = np.full(self.n_leaves + 1, np.inf)
        came_by = np.zeros(self.n_leaves + 1, dtype=np.int64)
        distance[0] = 0.0
        # all arcs point forward; into each vertex the longest first, which stay where others are no shorter
        for arc in np.lexsort((self.tail, self.head)):
            reached = distance[self.tail[arc]] + length[arc]
            if reached < distance[self.head[arc]]:
                distance[self.head[arc]], came_by[self.head[arc]] = reached, arc
        used = np.zeros(length.size, dtype=bool)
        vertex = self.n_leaves
        while vertex:
            used[came_by[vertex]] = True
            vertex = int(self.tail[came_by[vertex]])
        return float(distance[-1]), used


def is_totally_unimodular(matrix: ArrayLike) -> bool:
    """Whether every square part of a small matrix has determinant 0, 1 or -1.

    By the criterion of Ghouila-Houri: every set of rows can be parted in two such that in each column the sums of the parts
    differ by at most 1. Rows are taken in one after the other, left out, on one side or on the other; of what has been done
    so far only the set and the differences in columns that go on matter.

    Parameters
    ----------
    matrix : (m, n)
        At most 20 rows, or columns: a matrix is totally unimodular if its transpose is.

    Examples
    --------
    >>> is_totally_unimodular([[1, 1, 0], [0, 1, 1]]), is_totally_unimodular([[1, 1, 0], [0, 1, 1], [1, 0, 1]])
    (True, False)
    """
    entries = np.asarray(matrix)
    if entries.ndim != 2:
        raise ValueError(f"a matrix has rows and columns; this has shape {entries.shape}")
    if not np.isin(entries, (-1, 0, 1)).all():
        return False
    if entries.shape[0] > entries.shape[1]:
        entries = entries.T
    n_rows = entries.shape[0]
    if n_rows > _MOST_ROWS:
        raise ValueError(
            f"a matrix of {n_rows} rows has 2**{n_rows} sets of them; {_MOST_ROWS} rows are the most that are checked"
        )
    entries = entries.astype(np.int8)
    still = np.abs(entries[::-1]).cumsum(axis=0, dtype=np.int64)[::-1]  # entries in this row and below
    # A state: in the columns the differences, in the last four the set of rows as a number.
    states = np.zeros((1, entries.shape[1] + 4), dtype=np.int8)
    for r, row in enumerate(entries):
        taken = np.zeros(states.shape[1], dtype=np.int8)
        taken[-4 + r // 7] = 1 << (r % 7)
        change = np.concatenate([row, np.zeros(4, dtype=np.int8)])
        states = np.concatenate([states, states + taken + change, states + taken - change])
        ahead = still[r + 1] if r + 1 < n_rows else np.zeros_like(still[0])
        possible = (np.abs(states[:, :-4]) <= 1 + ahead).all(axis=1)
        states = states[possible]
        states[:, :-4][:, ahead == 0] = 0  # settled
        states = _distinct(states)
    return bool(len(states) == 2**n_rows)


def _distinct(states: NDArray[np.int8]) -> NDArray[np.int8]:
    """The different rows."""
    packed = np.ascontiguousarray(states).view(f"V{states.shape[1]}").ravel()
    return states[np.unique(packed, return_index=True)[1]]
