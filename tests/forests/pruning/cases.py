"""Small pruning problems, and every pruning of one by the obvious recursion."""

from itertools import product

import numpy as np

from anytime.forests.pruning.problem import PruningProblem


def worked_example(error=None, prices=(1.0, 1.0, 1.0, 1.0), n_error=1.0):
    """Two trees of figure 4.1, nodes and groups counted from 0, and one row that reaches the leaves 4 and 11."""
    groups = [[0], [], [1], [], [], [1], [3], [], [], [2], [], []]
    return PruningProblem(
        parent=[-1, 0, 0, 2, 2, -1, 5, 6, 6, 5, 9, 9],
        tree_start=[0, 5, 12],
        error=np.zeros(12) if error is None else error,
        n_error=n_error,
        prices=prices,
        leaf=[[3, 10]],
        weight=None,
        **rows_of(groups),
    )


def naive_fixture():
    """The first of these trees alone: errors 10, 0, 1, 0, 0 and prices 3 and 1."""
    return PruningProblem(
        parent=[-1, 0, 0, 2, 2],
        tree_start=[0, 5],
        error=[10, 0, 1, 0, 0],
        n_error=1,
        prices=[3, 1],
        leaf=[[3]],
        weight=None,
        **rows_of([[0], [], [1], [], []]),
    )


def random_problem(
    seed, *, n_trees=2, depth=3, n_rows=8, n_groups=4, arity=2, prices=None, requires=False, **more
):
    """Random trees of whole class counts, which random rows go through."""
    random = np.random.default_rng(seed)
    parent, tree_start, counts, groups, children = [], [0], [], [], []

    def grow(above, count, levels):
        node = len(parent)
        parent.append(above)
        counts.append(count)
        groups.append([])
        children.append([])
        if levels and count.sum() > 1 and (levels == depth or random.random() < 0.85):
            group = int(random.integers(n_groups))
            groups[node] = sorted({group, 0}) if requires else [group]
            shares = np.array([random.multinomial(n, random.dirichlet(np.full(arity, 0.6))) for n in count]).T
            for share in shares:
                children[node].append(grow(node, share, levels - 1))
        return node

    leaf = np.empty((n_rows, n_trees), dtype=np.int32)
    for t in range(n_trees):
        root = grow(-1, random.integers(10, 30, size=3), depth)
        tree_start.append(len(parent))
        for i in range(n_rows):
            node = root
            while children[node]:
                node = int(random.choice(children[node]))
            leaf[i, t] = node
    counts = np.array(counts)
    return PruningProblem(
        parent=parent,
        tree_start=tree_start,
        error=counts.sum(axis=1) - counts.max(axis=1),
        n_error=float(np.mean(counts[np.array(tree_start[:-1])].sum(axis=1))),
        prices=np.ones(n_groups) if prices is None else random.choice(prices, n_groups),
        leaf=leaf,
        **{"weight": None, **rows_of(groups), **more},
    )


def rows_of(groups):
    """The groups of every node in the two arrays that a problem keeps."""
    start = np.concatenate([[0], np.cumsum([len(row) for row in groups])])
    return {"group_start": start, "node_groups": [g for row in groups for g in row]}


def all_prunings(problem):
    """Every set of nodes that may stay internal."""
    children = [np.flatnonzero(problem.parent == node) for node in range(problem.n_nodes)]

    def below(node):
        """All prunings of a subtree, as lists of internal nodes."""
        if not len(children[node]):
            return [[]]
        kept = [sum(parts, [node]) for parts in product(*(below(child) for child in children[node]))]
        return [[], *kept]

    for chosen in product(*(below(root) for root in problem.tree_start[:-1])):
        internal = np.zeros(problem.n_nodes, dtype=bool)
        internal[[node for part in chosen for node in part]] = True
        yield internal


def objective(problem, internal, cost_penalty):
    """The objective of a pruning, read off the definition row by row and tree by tree."""
    n_rows, n_trees = problem.leaf.shape
    weight = np.ones(n_rows) if problem.weight is None else problem.weight
    error = 0.0
    for node in range(problem.n_nodes):
        above = problem.parent[node]
        if not internal[node] and (above < 0 or internal[above]):
            error += problem.error[node] / (problem.n_error * n_trees)
    spent = 0.0
    for i in range(n_rows):
        needed = set()
        for node in problem.leaf[i]:
            while node >= 0:
                if internal[node]:
                    start, stop = problem.group_start[node : node + 2]
                    needed |= set(problem.node_groups[start:stop].tolist())
                    spent += weight[i] * problem.evaluation_cost
                node = problem.parent[node]
        spent += weight[i] * sum(problem.prices[g] for g in needed)
    return error + cost_penalty * spent / weight.sum()
