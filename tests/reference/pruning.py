"""Pruning a forest by trying all prunings, one row at a time; trees as graphs of arcs; the dual written out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import product

import numpy as np

from anytime.forests.pruning.problem import PruningProblem


def random_problem(
    seed: int,
    n_trees: int = 2,
    depth: int = 3,
    n_rows: int = 8,
    n_groups: int = 4,
    evaluation_cost: float = 0.0,
    weighted: bool = False,
    n_train: int = 25,
) -> PruningProblem:
    """Trees of random shape and arity 2 or 3, priced groups some of which require others, rows with random leaves."""
    random = np.random.default_rng(seed)
    requires = [sorted({g, *(k for k in range(g) if random.random() < 0.25)}) for g in range(n_groups)]
    parent: list[int] = []
    error: list[float] = []
    groups: list[list[int]] = []
    tree_start, leaves = [0], []

    def grow(above: int, rows: np.ndarray, levels: int) -> None:
        """A node for training rows of three classes."""
        node = len(parent)
        parent.append(above)
        error.append(float(rows.size - np.bincount(rows, minlength=3).max()))
        groups.append([])
        if levels and rows.size > 2 and (above < 0 or random.random() < 0.8):
            groups[node] = requires[random.integers(n_groups)]
            n_children = 2 + int(random.random() < 0.25)
            noise = random.integers(0, 2, rows.size) * random.integers(0, 3, rows.size)
            child = (rows + noise) % n_children  # tells the classes apart half of the time
            for c in range(n_children):
                grow(node, rows[child == c], levels - 1)
        else:
            leaves[-1].append(node)

    for _ in range(n_trees):
        leaves.append([])
        grow(-1, random.integers(0, 3, n_train), depth)
        tree_start.append(len(parent))
    return PruningProblem(
        parent=parent,
        tree_start=tree_start,
        error=error,
        n_error=float(n_train),
        prices=random.choice([0.0, 0.5, 1.0, 1.0, 3.0], n_groups),
        leaf=np.stack([random.choice(own, n_rows) for own in leaves], axis=1),
        weight=random.integers(1, 5, n_rows).astype(float) if weighted else None,
        group_start=np.cumsum([0, *map(len, groups)]),
        node_groups=np.array([g for own in groups for g in own], dtype=int),
        evaluation_cost=evaluation_cost,
    )


def node_groups(problem: PruningProblem, node: int) -> list[int]:
    """What testing at a node needs."""
    start = problem.group_start
    return problem.node_groups[start[node] : start[node + 1]].tolist()


def path_to(problem: PruningProblem, node: int) -> list[int]:
    """From the root to the node."""
    out = [int(node)]
    while problem.parent[out[-1]] >= 0:
        out.append(int(problem.parent[out[-1]]))
    return out[::-1]


def children(problem: PruningProblem, node: int) -> list[int]:
    """Of a node, in order."""
    return np.flatnonzero(problem.parent == node).tolist()


def all_prunings(problem: PruningProblem) -> Iterator[np.ndarray]:
    """Every set of internal nodes that is a pruning."""

    def below(node: int) -> list[list[int]]:
        own = children(problem, node)
        if not own:
            return [[]]
        kept = [[node, *(h for part in parts for h in part)] for parts in product(*map(below, own))]
        return [[], *kept]

    for parts in product(*(below(int(root)) for root in problem.tree_start[:-1])):
        internal = np.zeros(problem.parent.size, dtype=bool)
        internal[[h for part in parts for h in part]] = True
        yield internal


def evaluate(problem: PruningProblem, internal: np.ndarray) -> tuple[float, float, float]:
    """Error, feature cost, computation: every row walks every tree."""
    weight = np.ones(len(problem.leaf)) if problem.weight is None else problem.weight
    cost = tests = 0.0
    for leaves, times in zip(problem.leaf, weight, strict=True):
        passed = [h for leaf in leaves for h in path_to(problem, leaf) if internal[h]]
        needed = {g for h in passed for g in node_groups(problem, h)}
        cost += times * sum(problem.prices[g] for g in needed)
        tests += times * len(passed)
    stops = [
        h
        for h in range(problem.parent.size)
        if not internal[h] and (problem.parent[h] < 0 or internal[problem.parent[h]])
    ]
    error = problem.error[stops].sum() / (problem.n_error * (len(problem.tree_start) - 1))
    return float(error), float(cost / weight.sum()), float(problem.evaluation_cost * tests / weight.sum())


def lines(problem: PruningProblem) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
    """All prunings with their errors and what they spend: the value for cost_penalty is error + cost_penalty * spent."""
    prunings = list(all_prunings(problem))
    error, cost, evaluation_cost = np.array([evaluate(problem, internal) for internal in prunings]).T
    return prunings, error, cost + evaluation_cost


def links(problem: PruningProblem) -> list[tuple[int, int, int]]:
    """(node, group, row) where the node is the first on the row's way that needs the group, if it has a price.

    By group, then node, then the order of the rows' ways through the tree. Rows must differ.
    """
    out = []
    for i, leaves in enumerate(problem.leaf):
        for leaf in leaves:
            seen: set[int] = set()
            for h in path_to(problem, leaf)[:-1]:
                new = [g for g in node_groups(problem, h) if g not in seen and problem.prices[g] > 0]
                seen.update(node_groups(problem, h))
                out += [(g, h, path_to(problem, leaf), i) for g in new]
    return [(h, g, i) for g, h, _, i in sorted(out)]


def shortest_path(problem: PruningProblem, tree: int, coefficient: np.ndarray, charges: list[float]) -> float:
    """The cheapest pruning of a tree as the shortest path of its graph of arcs.

    Real leaves and, after the subtrees of each node, one made-up leaf for each of its charges stand side by side; the arc of node
    h leads from before its first leaf to behind its last, the arc of a made-up leaf over that leaf alone.
    """
    arcs: list[tuple[int, int, float]] = []
    n = 0

    def number(node: int) -> None:
        nonlocal n
        first = n
        own = children(problem, node)
        for child in own:
            number(child)
        n += 1
        if own:
            arcs.append((n - 1, n, charges[node]))
        arcs.append((first, n, coefficient[node]))

    number(int(problem.tree_start[tree]))
    far = np.full(n + 1, np.inf)
    far[0] = 0.0
    for begin, end, length in sorted(arcs):
        far[end] = min(far[end], far[begin] + length)
    return float(far[n])


def dual(problem: PruningProblem, cost_penalty: float, beta: dict[tuple[int, int, int], float]) -> float:
    """D(beta) of the Lagrangian: shortest paths, and min(0, price - sum beta) of every pair."""
    n_trees = len(problem.tree_start) - 1
    weight = np.ones(len(problem.leaf)) if problem.weight is None else problem.weight
    reach = defaultdict(float)
    for leaves, times in zip(problem.leaf, weight, strict=True):
        for leaf in leaves:
            for depth, h in enumerate(path_to(problem, leaf)):
                reach[h] += times * depth
    coefficient = np.array(
        [
            problem.error[h] / (problem.n_error * n_trees)
            + cost_penalty * problem.evaluation_cost * reach[h] / weight.sum()
            for h in range(problem.parent.size)
        ]
    )
    charges, sold = [0.0] * problem.parent.size, defaultdict(float)
    for (h, g, i), part in beta.items():
        charges[h] += part
        sold[g, i] += part
    total = sum(shortest_path(problem, t, coefficient, charges) for t in range(n_trees))
    price = {(g, i): cost_penalty * problem.prices[g] * weight[i] / weight.sum() for g, i in sold}
    return total + sum(min(0.0, price[pair] - sold[pair]) for pair in sold)
