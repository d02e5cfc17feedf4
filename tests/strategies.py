"""Hypothesis strategies for price lists, forests and plans. Needs the package ``hypothesis``."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from hypothesis import strategies as st

from anytime._native import row_products
from anytime.blocks import Block, FunctionBlock, LinearBlock
from anytime.costs import FeatureCosts
from anytime.plan import Plan
from anytime.rules import EntropyRule, MarginRule, OutsideRule, Rule
from anytime.trees.arrays import LEAF, MISSING_NAN, NUMERIC, TreeArrays
from anytime.trees.block import TreeBlock

__all__ = ["feature_costs", "plans", "tree_arrays"]

_PRICES = st.one_of(
    st.just(0.0),
    st.sampled_from([0.1, 0.2, 0.3, 2 / 3, 1.0, 2.1, 5.17, 100.9]),
    st.floats(1e-6, 1e4).map(lambda price: round(price, 6)),
)


@st.composite
def feature_costs(draw: st.DrawFn, n_columns: int, most_steps: int = 2) -> FeatureCosts:
    """Groups over ``n_columns`` columns, some steps without columns, and requirements that form a DAG."""
    n_groups = draw(st.integers(1, n_columns))
    owner = draw(st.lists(st.integers(0, n_groups - 1), min_size=n_columns, max_size=n_columns))
    names = [f"g{g}" for g in range(n_groups)] + [f"step{i}" for i in range(draw(st.integers(0, most_steps)))]
    groups: dict[str, list[str | int]] = {name: [] for name in names}
    for column, g in enumerate(owner):
        groups[f"g{g}"].append(column)
    rank = draw(st.permutations(names))  # a group may require only what stands before it
    requires = {
        name: draw(st.lists(st.sampled_from(rank[:i]), unique=True, max_size=2)) if i else []
        for i, name in enumerate(rank)
    }
    prices = {name: draw(_PRICES) for name in names}
    return FeatureCosts(
        prices, groups=groups, requires=requires, unit=draw(st.sampled_from([None, "ms", "USD"]))
    )


@st.composite
def tree_arrays(draw: st.DrawFn, n_columns: int, n_outputs: int = 1, most_trees: int = 6) -> TreeArrays:
    """A random forest of small trees, one to three trees per stage."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    wide = n_outputs > 1 and draw(st.booleans())
    stages = draw(st.lists(st.integers(1, 3), min_size=1, max_size=most_trees))
    trees = [_random_tree(random, n_columns, draw(st.integers(0, 3))) for _ in range(sum(stages))]
    nodes = np.concatenate(trees)
    size = len(nodes)
    return TreeArrays(
        tree_start=np.cumsum([0] + [len(tree) for tree in trees]).astype(np.int64),
        stage_start=np.cumsum([0, *stages]).astype(np.int64),
        feature=nodes[:, 0].astype(np.int32),
        threshold=np.where(nodes[:, 0] == LEAF, 0.0, nodes[:, 1]),
        left=nodes[:, 2].astype(np.int32),
        right=nodes[:, 3].astype(np.int32),
        default_left=random.integers(0, 2, size).astype(np.uint8),
        missing=np.full(size, MISSING_NAN, dtype=np.uint8),
        category_set=np.full(size, NUMERIC, dtype=np.int32),
        members_left=np.zeros(size, dtype=np.uint8),
        category_start=np.zeros(1, dtype=np.int64),
        categories=np.zeros(0, dtype=np.int32),
        value=random.normal(size=(size, n_outputs if wide else 1)),
        tree_output=(np.zeros(len(trees)) if wide else np.arange(len(trees)) % n_outputs).astype(np.int32),
        n_outputs=n_outputs,
        n_features=n_columns,
    )


def _random_tree(
    random: np.random.Generator, n_columns: int, depth: int
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Rows (feature, threshold, left, right) of a tree whose nodes stand after their parents."""
    rows: list[list[float]] = [[LEAF, 0, LEAF, LEAF]]
    frontier = [(0, depth)]
    while frontier:
        node, left_over = frontier.pop(0)
        if left_over and random.random() < 0.9:
            rows[node] = [
                int(random.integers(n_columns)),
                round(random.normal(), 1),
                len(rows),
                len(rows) + 1,
            ]
            frontier += [(len(rows), left_over - 1), (len(rows) + 1, left_over - 1)]
            rows += [[LEAF, 0, LEAF, LEAF], [LEAF, 0, LEAF, LEAF]]
    return np.array(rows)


@st.composite
def plans(draw: st.DrawFn, n_columns: int = 4) -> Plan:
    """A plan of mixed blocks: trees, linear steps, functions; with filters, gates, replacing stages or a refitted table."""
    n_outputs = draw(st.sampled_from([1, 3]))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    refitted = draw(st.booleans())
    blocks: list[Block] = []
    for kind in draw(st.lists(st.sampled_from(["trees", "linear", "function"]), min_size=1, max_size=3)):
        columns = random.choice(n_columns, size=random.integers(1, n_columns + 1), replace=False)
        coefficients = random.normal(size=(columns.size, n_outputs))
        if kind == "trees":
            blocks.append(TreeBlock(draw(tree_arrays(n_columns, n_outputs))))
        elif kind == "linear":
            blocks.append(LinearBlock(columns, coefficients))
        else:
            blocks.append(FunctionBlock(columns, _Squash(coefficients), n_outputs))
    n_stages = sum(block.n_stages for block in blocks)
    chosen = st.booleans() if not refitted else st.just(False)
    link = "logistic" if n_outputs == 1 else "softmax"
    return Plan(
        blocks=blocks,
        costs=draw(feature_costs(n_columns)).bind(n_columns),
        base=random.normal(size=n_outputs),
        link=link,
        combine="sum" if refitted else draw(st.sampled_from(["sum", "mean"])),
        weights=[random.normal(size=t + 1) for t in range(n_stages)] if refitted else None,
        evaluation_costs=random.choice([0.0, 0.1, 1.0], size=n_stages) if draw(st.booleans()) else None,
        replaces=np.array([draw(chosen) for _ in range(n_stages)]) if draw(chosen) else None,
        passes={s: draw(rules(n_outputs)) for s in range(n_stages) if draw(chosen)},
        stops={s: draw(rules(n_outputs)) for s in range(n_stages) if draw(st.booleans())},
    )


@functools.cache
def rules(n_outputs: int = 1) -> st.SearchStrategy[Rule]:
    """Questions about the scores of a row, for a classifier's plan."""
    thresholds, low = st.floats(0, 3), st.floats(-2, 0.5)
    kinds: list[st.SearchStrategy[Rule]] = [
        st.builds(MarginRule, thresholds, st.booleans()),
        st.builds(EntropyRule, st.floats(0, 1), st.booleans()),
    ]
    if n_outputs == 1:
        kinds.append(st.builds(lambda low, more: OutsideRule(low, low + more), low, st.floats(0.1, 3)))
    return st.one_of(kinds)


class _Squash:
    """A row-wise function that can be pickled."""

    def __init__(self, coefficients: np.ndarray[Any, np.dtype[np.float64]]) -> None:
        self.coefficients = coefficients

    def __call__(self, X: np.ndarray[Any, np.dtype[np.float64]]) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.tanh(row_products(X, self.coefficients))
