"""What the tests of the native evaluator share."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from anytime._native import CostTable, Forest
from anytime.trees.arrays import TreeArrays
from tests.reference import trees as reference
from tests.reference.random_trees import Shape

SHAPES = {
    "plain": Shape(),
    "no trees": Shape(n_stages=3, most_trees=0),
    "single leaves": Shape(most_leaves=1),
    "ragged stages": Shape(n_stages=12, most_trees=5),
    "one big stage": Shape(n_stages=1, most_trees=40),
    "float32 input": Shape(float32_input=True, n_stages=10),
    "several outputs": Shape(n_outputs=3, n_stages=10),
    "shared outputs": Shape(n_outputs=3, shared=True, n_stages=10),
    "categories": Shape(categorical=0.6, n_stages=10),
    "only categories": Shape(categorical=1.0, most_category=70, n_stages=10),
    "many categories": Shape(categorical=0.5, most_category=400, n_stages=20, most_leaves=20),
    "lopsided trees": Shape(lopsided=True, most_leaves=40, n_stages=20),
    "large trees": Shape(most_leaves=700, n_stages=4),
    "many columns": Shape(n_features=80, most_leaves=40, n_stages=400, most_trees=1),
    "wide rows": Shape(n_features=3000, most_leaves=300, n_stages=8),
    "many thresholds in a column": Shape(n_features=2, most_leaves=400, n_stages=10),
    "more thresholds than two bytes count": Shape(n_features=1, most_leaves=60_000, n_stages=4, most_trees=1),
}


def forest_of(trees: TreeArrays) -> Forest:
    return Forest(**trees.asdict())


def run(forest: Forest, X: np.ndarray, until: int | np.ndarray | None = None, **options) -> np.ndarray:
    """Sums of a whole run, in units."""
    n = len(X)
    acc = np.zeros((n, forest.n_outputs), np.int64)
    done = np.zeros(n, np.int32)
    limit = np.broadcast_to(forest.n_stages if until is None else until, n).astype(np.int32)
    assert forest.run(X, acc, done, limit, **options)
    np.testing.assert_array_equal(done, limit)
    return acc


def expected(trees: TreeArrays, forest: Forest, X: np.ndarray, until) -> np.ndarray:
    limits = np.broadcast_to(until, len(X))
    rows = [reference.units_after(trees, x, int(u), forest.shift) for x, u in zip(X, limits, strict=True)]
    return np.array(rows, dtype=np.int64).reshape(len(X), forest.n_outputs)


seeds = st.integers(0, 2**32 - 1)
shapes = st.sampled_from([shape for name, shape in SHAPES.items() if "thresholds" not in name])


def table_of(prices, requires, groups) -> CostTable:
    return CostTable(
        np.array(prices, np.int64),
        np.cumsum([0] + [len(r) for r in requires]),
        np.array([g for r in requires for g in r], np.int32),
        np.array(groups, np.int32),
    )


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)
