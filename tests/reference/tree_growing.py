"""The obvious greedy tree: every leaf, every column, every threshold tried by its definition, prices included.

Several splits may be equally good, so a tree is not compared with another one but replayed: each of its splits must be as
good as the best that can be found when it was made, and at the end there must be none left to make.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from anytime.trees.arrays import LEAF, NUMERIC, TreeArrays
from tests.reference.trees import closure, goes_left


@dataclass
class Rules:
    """What `TreeGrower` is told, and the prices of groups."""

    max_leaf_nodes: int | None = 31
    max_depth: int | None = None
    min_samples_leaf: int = 1
    min_weight: float = 1e-3
    l2_regularization: float = 0.0
    cost_penalty: float = 0.0
    scale: str = "half_sum"
    prices: Sequence[float] = ()
    requires: Sequence[Sequence[int]] = ()
    column_group: Sequence[int] = ()
    bought: set[int] = field(default_factory=set)


@dataclass
class Data:
    """Rows to learn from, (n, K) targets and weights, and where each column may be cut (None: categories)."""

    X: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    thresholds: list[np.ndarray | None]
    columns: Sequence[int]


def value(data: Data, rules: Rules, rows: np.ndarray) -> np.ndarray:
    """What a leaf with these rows answers."""
    w = data.weight[rows]
    return np.asarray((w * data.target[rows]).sum(0) / (w.sum(0) + rules.l2_regularization))


def impurity(data: Data, rules: Rules, rows: np.ndarray) -> float:
    """Of a leaf, by its definition."""
    answer = value(data, rules, rows)
    total = (data.weight[rows] * (data.target[rows] - answer) ** 2).sum() + rules.l2_regularization * (
        answer**2
    ).sum()
    return float(total / len(data.X) if rules.scale == "mean" else total / 2)


def fee(rules: Rules, column: int, bought: set[int]) -> float:
    """What a split on the column has to pay, in units of the impurity."""
    if not rules.prices:
        return 0.0
    wanted = closure(rules.requires, rules.column_group[column]) - bought
    return rules.cost_penalty * sum(rules.prices[g] for g in wanted)


def sides(data: Data, rows: np.ndarray, column: int) -> Iterator[np.ndarray]:
    """Every way to send the rows left (True) or right that the column offers."""
    x = data.X[rows, column]
    missing = np.isnan(x)
    thresholds = data.thresholds[column]
    if thresholds is None:
        category = np.where(missing, np.inf, x)  # missing is a category like others
        names = np.unique(category)
        members = [category == name for name in names]
        w, t = data.weight[rows], data.target[rows]
        means = np.array([(w[m] * t[m]).sum(0) / w[m].sum(0) for m in members])
        mean = (w * t).sum(0) / w.sum(0)
        spread = sum(w[m].sum(0) * (means[i] - mean) ** 2 for i, m in enumerate(members))
        order = np.argsort(means[:, np.argmax(spread)])
        for last in range(1, len(names)):
            yield np.isin(category, names[order[:last]])
        return
    for threshold in thresholds:
        yield x <= threshold
        if missing.any():
            yield (x <= threshold) | missing
    if missing.any():
        yield ~missing


def score(
    data: Data, rules: Rules, rows: np.ndarray, left: np.ndarray, column: int, bought: set[int]
) -> float:
    """Gain less fee of a split; -inf if a side is too small."""
    parts = rows[left], rows[~left]
    if any(p.size < rules.min_samples_leaf or data.weight[p].sum() < rules.min_weight for p in parts):
        return -np.inf
    gain = impurity(data, rules, rows) - sum(impurity(data, rules, p) for p in parts)
    return gain - fee(rules, column, bought)


def replay(tree: TreeArrays, data: Data, rules: Rules, tolerance: float) -> tuple[float, set[int]]:
    """Check every split of a tree; the total gain, and the groups bought in the end."""
    bought = set(rules.bought)
    opened = {0: (np.arange(len(data.X)), 0)}  # node: rows, depth
    total = 0.0

    def best() -> float:
        scores = [
            score(data, rules, rows, left, column, bought)
            for rows, depth in opened.values()
            if rules.max_depth is None or depth < rules.max_depth
            for column in data.columns
            for left in sides(data, rows, column)
        ]
        return max(scores, default=-np.inf)

    for first in range(1, tree.feature.size, 2):  # the children of the k-th split are nodes 2k - 1 and 2k
        parent = int(np.flatnonzero(tree.left == first)[0])
        assert tree.right[parent] == first + 1
        rows, depth = opened.pop(parent)
        assert rules.max_depth is None or depth < rules.max_depth
        column = int(tree.feature[parent])
        assert column in data.columns
        assert (tree.category_set[parent] == NUMERIC) == (data.thresholds[column] is not None)
        left = np.array([goes_left(tree, parent, x) for x in data.X[rows, column]])
        opened[parent] = rows, depth
        got = score(data, rules, rows, left, column, bought)
        assert got > -tolerance, (parent, got)
        assert got >= best() - tolerance, (parent, got, best())
        del opened[parent]
        total += got + fee(rules, column, bought)
        if rules.prices:
            bought |= closure(rules.requires, rules.column_group[column])
        opened[first] = rows[left], depth + 1
        opened[first + 1] = rows[~left], depth + 1
    leaves = int((tree.feature == LEAF).sum())
    assert leaves == len(opened)
    assert rules.max_leaf_nodes is None or leaves <= rules.max_leaf_nodes
    if rules.max_leaf_nodes is None or leaves < rules.max_leaf_nodes:
        assert best() <= tolerance, best()
    for node, (rows, _) in opened.items():
        np.testing.assert_allclose(tree.value[node], value(data, rules, rows), rtol=1e-7, atol=tolerance)
    return total, bought
