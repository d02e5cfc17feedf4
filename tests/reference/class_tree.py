"""The obvious greedy tree of least risk: at every node every test of every column by its definition, prices included.

A tree is replayed: at each of its nodes the test that it makes must be one of those there are, and none may have less risk; a
leaf must be one that no test helps. Where sums are exact the column must be the very one that the rules name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from anytime.forests.growing import ClassTree
from anytime.trees.arrays import LEAF
from tests.reference.trees import closure, goes_left

Sets = list[np.ndarray]
ROUNDING = 1e-13  # of the impurity: a smaller fall is none


@dataclass
class Problem:
    """Rows to learn from, and the rules. A row stands in ``rows`` once, ``repeats`` says how often it counts."""

    X: np.ndarray
    bins: np.ndarray
    missing: Sequence[int]  # bin of missing values, per column
    categorical: Sequence[bool]
    y: np.ndarray
    weight: np.ndarray
    repeats: np.ndarray
    n_classes: int | None
    impurity: Callable[[np.ndarray], np.ndarray]
    split: str = "minimax"
    multiway: bool = False
    max_depth: int | None = None
    min_samples_leaf: int = 1
    min_impurity: float = 0.0
    discount_reused: bool = False
    columns: Sequence[int] = ()
    prices: Sequence[int] = ()  # of groups, in ticks; none: every column costs 1
    requires: Sequence[Sequence[int]] = ()
    column_group: Sequence[int] = ()
    exact: bool = True
    seen: set[int] = field(default_factory=set)  # columns tested, for tests of this test


def statistics(p: Problem, rows: np.ndarray, centre: float = 0.0) -> np.ndarray:
    """Sums over rows: weights of classes, or of w, w y, w y^2."""
    w = p.weight[rows] * p.repeats[rows]
    if p.n_classes is None:
        return np.array([(w * (p.y[rows] - centre) ** k).sum() for k in range(3)])
    return np.array([w[p.y[rows] == k].sum() for k in range(p.n_classes)])


def price(p: Problem, column: int, paid: set[int]) -> float:
    """Of a test of the column, with all that it requires."""
    if not p.prices:
        return 1.0
    wanted = closure(p.requires, p.column_group[column])
    return float(sum(p.prices[g] for g in wanted if not (p.discount_reused and g in paid)))


def tests(p: Problem, rows: np.ndarray, column: int) -> Iterator[Sets]:
    """Every test of the column: the rows of its outcomes."""
    bins = p.bins[rows, column]
    here = np.unique(bins)
    if here.size < 2:
        return
    if p.multiway:
        yield [rows[bins == b] for b in here]
        return
    if p.categorical[column]:
        parts = {int(b): statistics(p, rows[bins == b]) for b in here}
        if p.n_classes is None:
            keys = [{b: s[1] / s[0] for b, s in parts.items()}]
        else:
            classes = np.flatnonzero(statistics(p, rows))
            keys = [{b: s[c] / s.sum() for b, s in parts.items()} for c in classes]
            keys = keys[:1] if len(keys) == 2 else keys
        for key in keys:
            order = sorted(key, key=lambda b: (key[b], b))
            for n in range(1, len(order)):
                left = np.isin(bins, order[:n])
                yield [rows[left], rows[~left]]
        return
    missing = bins == p.missing[column]
    for b in here[here != p.missing[column]]:
        for left in (bins <= b, (bins <= b) | missing):
            if not left.all() and (missing.any() or left.any()):
                yield [rows[left], rows[~left]]


def fall(p: Problem, rows: np.ndarray, outcomes: Sets) -> float:
    """How much the impurity falls by the worst outcome, or by the mean; not positive: the test is useless."""
    if min(p.repeats[part].sum() for part in outcomes) < p.min_samples_leaf:
        return -np.inf
    centre = 0.0 if p.n_classes is not None else statistics(p, rows)[1] / statistics(p, rows)[0]
    before = p.impurity(statistics(p, rows, centre)[None])[0]
    sums = np.array([statistics(p, part, centre) for part in outcomes])
    after = p.impurity(sums)
    if p.split == "minimax":
        return float(before - after.max())
    size = sums[:, 0] if p.n_classes is None else sums.sum(axis=1)
    mean = sum(s * f for s, f in zip(size, after, strict=True)) / sum(size)
    return float(before - mean)


def best(p: Problem, rows: np.ndarray, paid: set[int]) -> tuple[float, float, int] | None:
    """(risk, -fall, column) of the test to make: least risk, then largest fall, then first column."""
    floor = ROUNDING * impurity(p, rows)
    keys = [
        (price(p, column, paid) / drop, -drop, int(column))
        for column in p.columns
        for outcomes in tests(p, rows, column)
        if (drop := fall(p, rows, outcomes)) > floor
    ]
    return min(keys, default=None)


def impurity(p: Problem, rows: np.ndarray) -> float:
    """Of the rows."""
    if p.n_classes is None and np.unique(p.y[rows]).size == 1:
        return 0.0
    sums = statistics(p, rows)
    centre = 0.0 if p.n_classes is not None else sums[1] / sums[0]
    return float(p.impurity(statistics(p, rows, centre)[None])[0])


def outcomes_of(tree: ClassTree, p: Problem, node: int, rows: np.ndarray) -> list[tuple[int, np.ndarray]]:
    """Nodes and rows of the outcomes of the test that begins at a node."""
    a = tree.arrays
    left = np.array([goes_left(a, node, x) for x in p.X[rows, a.feature[node]]], dtype=bool)
    found = []
    for child, part in ((int(a.left[node]), rows[left]), (int(a.right[node]), rows[~left])):
        check_node(tree, p, child, part)
        if a.feature[child] != LEAF and np.isnan(tree.risk[child]):
            assert p.multiway
            assert a.feature[child] == a.feature[node]
            found += outcomes_of(tree, p, child, part)
        else:
            found.append((child, part))
    return found


def check_node(tree: ClassTree, p: Problem, node: int, rows: np.ndarray) -> None:
    """What a node says of its rows is so."""
    sums = statistics(p, rows)
    np.testing.assert_allclose(tree.statistics[node], sums, rtol=1e-12)
    value = [sums[1] / sums[0]] if p.n_classes is None else sums / sums.sum()
    np.testing.assert_allclose(tree.arrays.value[node], value, rtol=1e-12)


def replay(tree: ClassTree, p: Problem, tick: float = 1.0) -> int:
    """Check every node; the depth in tests."""
    rows = np.flatnonzero((p.repeats > 0) & (p.weight > 0))
    check_node(tree, p, 0, rows)
    pending = [(0, rows, 0, set[int]())]
    deepest = 0
    while pending:
        node, rows, depth, paid = pending.pop()
        deepest = max(deepest, depth)
        column = int(tree.arrays.feature[node])
        stop = impurity(p, rows) <= p.min_impurity or depth == p.max_depth
        wanted = None if stop else best(p, rows, paid)
        if column == LEAF:
            assert wanted is None, (node, wanted)
            assert np.isnan(tree.risk[node])
            continue
        assert wanted is not None, node
        found = outcomes_of(tree, p, node, rows)
        made = sorted(tuple(part) for _, part in found)
        assert any(sorted(tuple(part) for part in test) == made for test in tests(p, rows, column)), (
            f"node {node} makes no test of column {column}"
        )
        risk = price(p, column, paid) / fall(p, rows, [part for _, part in found])
        assert np.isclose(risk, wanted[0], rtol=1e-9), (node, risk, wanted)
        assert np.isclose(tree.risk[node], risk * tick, rtol=1e-9)
        if p.exact:
            assert column == wanted[2], (node, column, wanted)
        p.seen.add(column)
        if p.prices:
            paid = paid | closure(p.requires, p.column_group[column])
        pending += [(child, part, depth + 1, paid) for child, part in found]
    return deepest
