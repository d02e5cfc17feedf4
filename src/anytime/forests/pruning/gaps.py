"""Prunings between two that are best for some trade-off.

Prunings that are best for some ``cost_penalty`` lie on the lower hull of error against cost, and a hull has long edges: with many
trees that each read a little of everything, there may be nothing between no feature and most of them. For budgets on such an
edge, groups are removed from the larger pruning one after the other, first the one whose removal adds least error per cost. If a
whole group is too much, nodes are removed: each is charged for the groups that its rows need, less if more nodes need the same,
and nodes that save least error for their charges go first.
"""

import numpy as np
from numpy.typing import NDArray

from anytime.forests.pruning.problem import Pruning, PruningProblem
from anytime.plan import Array

__all__ = ["fill_gap", "spend", "spent_on_budget"]

_STEPS = 60  # about so many prunings in a gap: with more groups than that, several are taken out at a time
_REFILLS = 8  # times that what is left over is spent on what was taken out
_ENOUGH = 0.01  # part of a budget that may be left over
_SLOWEST = 0.02  # part of what is too much at first that is taken out at a time at least
_ROUNDING = 1e-9  # part of the cost that is nothing
_POWER = 1.5  # of n nodes with the same need each is charged price / n**1.5: more than even shares say, those who need alone pay
_HALVINGS = 60  # of the range in which a rate is looked for

Internal = NDArray[np.bool_]


def fill_gap(problem: PruningProblem, small: Pruning, large: Pruning) -> list[Pruning]:
    """Nested prunings strictly between two nested ones, from cheap to costly.

    A node is removed if a row that reaches it would pay for the group for the first time; the nodes of ``small`` stay. Nothing is
    proved about them. Each takes time linear in nodes and rows.

    Parameters
    ----------
    problem : PruningProblem
    small, large : Pruning
    """
    node, group = first_uses(problem)
    removable = large.internal[node] & ~small.internal[node]
    node, group = node[removable], group[removable]
    shares = np.minimum(problem.reach / problem.n_cost, 1 - 1e-12)
    tree = np.searchsorted(problem.tree_start, node, side="right") - 1
    n_groups = problem.prices.size
    internal, between = large.internal, list[Pruning]()
    at_once = max(1, np.unique(group).size // _STEPS)
    while True:
        here = internal[node]
        node, group, tree = node[here], group[here], tree[here]
        left = np.unique(group)
        if left.size <= 1:  # without the last there is nothing beyond ``small``
            return between[::-1]
        added = np.bincount(group, _saved(problem, internal)[node], n_groups)
        saved = problem.prices * _readers(shares[node], tree, group, problem.n_trees, n_groups)
        worth = np.divide(added, saved, out=np.full(n_groups, np.inf), where=saved > 0)[left]
        worst = left[np.lexsort((-problem.prices[left], worth))[: min(at_once, left.size - 1)]]
        internal = internal.copy()
        internal[node[np.isin(group, worst)]] = False
        internal = problem.closed(internal)
        pruning = _between(problem, internal, small, large)
        if pruning.spent <= small.spent:
            return between[::-1]
        if pruning.spent < (between[-1] if between else large).spent:
            between.append(pruning)


def spent_on_budget(
    problem: PruningProblem, path: list[Pruning], budget: float, *, n_threads: int = 1
) -> list[Pruning]:
    """The prunings of a nested path within a budget, then one that spends nearly all of it, if that lowers the error.

    Whole groups are removed from the next pruning of the path, and from the one with the lowest error, until the rest is within
    the budget; the remaining budget is spent on single nodes of the latter.

    Parameters
    ----------
    problem : PruningProblem
    path : list of Pruning
        Nested, from cheap to costly; the first is within the budget, the last is not.
    budget : float
    n_threads : int, default=1
    """
    within = [pruning for pruning in path if pruning.spent <= budget]
    small, beyond = within[-1], path[len(within) :]
    next_one, best = beyond[0], min(beyond, key=lambda pruning: pruning.error)
    starts = [small]
    for large in (next_one,) if next_one is best else (next_one, best):
        starts += [step for step in fill_gap(problem, small, large) if step.spent <= budget][-1:]
    starts += [spend(problem, start, next_one, budget, n_threads=n_threads) for start in starts[:2]]
    prunings = [spend(problem, start, best, budget, n_threads=n_threads) for start in starts]
    best = min(prunings, key=lambda pruning: pruning.error)
    return within if best.error >= small.error else [*within, best]


def spend(
    problem: PruningProblem, small: Pruning, large: Pruning, budget: float, *, n_threads: int = 1
) -> Pruning:
    """A pruning between two nested ones that spends nearly all of a budget between their costs, and never more.

    It is only proved that its error is no larger than that of ``small``. It takes some 50 passes over nodes and rows.

    Parameters
    ----------
    problem : PruningProblem
    small, large : Pruning
        ``small`` is within the budget.
    budget : float
    n_threads : int, default=1
    """
    best_so_far = small
    for _ in range(_REFILLS):
        if budget - best_so_far.spent <= _ENOUGH * budget:
            break
        for fill in (_thinned, _topped_up):
            internal = fill(problem, best_so_far, large.internal, budget, n_threads)
            fuller = _between(problem, internal, small, large)
            if fuller.spent <= budget and fuller.error < best_so_far.error:
                best_so_far = fuller
                break
        else:
            break
    return best_so_far


def _thinned(
    problem: PruningProblem, small: Pruning, internal: Internal, budget: float, n_threads: int
) -> Internal:
    """``internal`` without so many nodes, none of them of ``small``, that it is within the budget.

    About as many nodes go at a time as save half of what is too much; then the charges of the others grow.
    """
    nodes, least = problem.graph.nodes, 0.0
    while True:
        _, cost, evaluation_cost = problem.evaluate(internal, n_threads=n_threads)
        excess = cost + evaluation_cost - budget
        charge = _charges(problem, internal[nodes], small.internal[nodes], _POWER, n_threads)
        if excess <= 0 or not charge.any():
            return internal
        least = least or max(_SLOWEST * excess, _ROUNDING * cost)
        go = min(max(excess / 2, least), charge.sum() / 4)
        internal, _ = _paying(problem, internal, small.internal, charge, charge.sum() - go, go / 10)


def _topped_up(
    problem: PruningProblem, small: Pruning, internal: Internal, budget: float, n_threads: int
) -> Internal:
    """``small`` and so much more of ``internal`` as the rest of the budget pays for if every node pays in full."""
    nodes, left = problem.graph.nodes, budget - small.spent
    charge = _charges(problem, internal[nodes], small.internal[nodes], 0.0, n_threads)
    at_node = np.zeros(problem.n_nodes)
    at_node[nodes] = charge
    on_the_way = at_node.copy()  # what it takes to get to a node from ``small``, and through it
    for level in problem.levels[1:]:
        on_the_way[level] += on_the_way[problem.parent[level]]
    affordable = internal & (on_the_way <= left)
    kept, too_much = _paying(problem, affordable, small.internal, charge, left, 0.0)
    return _with_what_fits(problem, kept, too_much, at_node, left - float(at_node[kept].sum()))


def _with_what_fits(
    problem: PruningProblem, kept: Internal, more: Internal, charge: Array, left: float
) -> Internal:
    """``kept`` and of the subtrees that ``more`` has besides, those of most error per charge first, what ``left`` pays for."""
    new = more & ~kept
    subtree = np.where(new, np.arange(problem.n_nodes), -1)  # the topmost new node above each
    for level in problem.levels[1:]:
        above = problem.parent[level]
        subtree[level] = np.where(new[level] & new[above], subtree[above], subtree[level])
    tops = np.unique(subtree[new])
    gain = np.bincount(subtree[new], problem.gain[new], problem.n_nodes)[tops]
    price = np.bincount(subtree[new], charge[new], problem.n_nodes)[tops]
    taken = np.zeros(problem.n_nodes + 1, dtype=bool)  # the last entry stands for "no subtree"
    for k in np.lexsort((tops, -gain / np.maximum(price, np.finfo(float).tiny))):
        if gain[k] > 0 and price[k] <= left:
            taken[tops[k]], left = True, left - price[k]
    return kept | taken[subtree]


def _charges(problem: PruningProblem, kept: Internal, stays: Internal, power: float, n_threads: int) -> Array:
    """(N,) what the splits ``kept`` are charged that do not stay anyway."""
    graph = problem.graph
    charge = graph.charges(kept.astype(np.uint8), stays.astype(np.uint8), power, n_threads)
    evaluation_cost = problem.evaluation_cost * problem.reach[graph.nodes] / problem.n_cost
    return charge + np.where(kept & ~stays, evaluation_cost, 0.0)


def _paying(
    problem: PruningProblem, internal: Internal, stays: Internal, charge: Array, most: float, near: float
) -> tuple[Internal, Internal]:
    """(M,) the nodes that trees keep at the least rate of error to cost at which charges add up to at most ``most``.

    Or at a rate so low that at most ``near`` is missing. And (M,) those at the next lower rate, where charges add up to more.
    """
    graph, charged = problem.graph, charge[charge > 0]
    if not charged.size:
        return internal, internal
    gain = np.where(internal, problem.gain, -np.inf)
    gain[stays] = 1.0  # whatever they gain, they stay
    gain = gain[graph.nodes]
    low, high = (
        np.log(np.finfo(float).tiny),
        np.log(2 * np.abs(problem.gain).sum() + 2) - np.log(charged.min()),
    )
    kept = more = stays[graph.nodes]
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        kept_nodes = graph.prune_trees(gain, charge * np.exp(middle))[0] != 0
        total = charge[kept_nodes].sum()
        if total > most:
            low, more = middle, kept_nodes
            continue
        kept, high = kept_nodes, middle
        if total >= most - near:
            break
    return problem.of_splits(kept), problem.of_splits(more | kept)


def _between(problem: PruningProblem, internal: Internal, small: Pruning, large: Pruning) -> Pruning:
    """A pruning of which nothing is claimed, at the trade-off of the edge from ``small`` to ``large``."""
    slope = (small.error - large.error) / max(large.spent - small.spent, np.finfo(float).tiny)
    return problem.valued(internal, max(slope, 0.0), method="between")


def first_uses(problem: PruningProblem) -> tuple[NDArray[np.intp], NDArray[np.int32]]:
    """Nodes, and the groups that they need but no node above them does."""
    node = np.repeat(np.arange(problem.n_nodes), np.diff(problem.group_start))
    group = problem.node_groups
    bit, byte = np.uint8(1) << (group & 7).astype(np.uint8), group >> 3
    own = np.zeros((problem.n_nodes, -(-problem.prices.size // 8)), dtype=np.uint8)
    np.bitwise_or.at(own, (node, byte), bit)
    above = np.zeros_like(own)
    for level in problem.levels[1:]:
        parent = problem.parent[level]
        above[level] = above[parent] | own[parent]
    first = above[node, byte] & bit == 0
    return node[first], group[first]


def _saved(problem: PruningProblem, internal: NDArray[np.bool_]) -> Array:
    """(M,) how much less error the pruning makes below each node than the node would as a leaf."""
    below = np.where(internal, 0.0, problem.error)
    for level in problem.levels[:0:-1]:
        kept = level[internal[problem.parent[level]]]
        np.add.at(below, problem.parent[kept], below[kept])
    return problem.error - below


def _readers(
    share: Array, tree: NDArray[np.intp], group: NDArray[np.int32], n_trees: int, n_groups: int
) -> Array:
    """(G,) about which part of the rows reads each group, if trees were independent of each other."""
    in_tree = np.bincount(tree * n_groups + group, share, n_trees * n_groups).reshape(n_trees, n_groups)
    return np.asarray(1 - np.exp(np.log1p(-np.minimum(in_tree, 1 - 1e-12)).sum(axis=0)))
