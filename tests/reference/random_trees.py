"""Random forests that try everything `TreeArrays` can say: missing values, categories, ragged stages, lopsided trees."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anytime.trees.arrays import LEAF, NUMERIC, TreeArrays

# Values that sit on thresholds, at the edges of float32 and of categories, and values that are none.
SPECIAL = np.array(
    [0.0, -0.0, 1e-36, -1e-36, 1e-30, -0.5, 0.5, 1.0, 2.9999, 3.0, 7.0, -1.0, 1e300, -1e300, 0.1]
)


@dataclass(frozen=True)
class Shape:
    """What a random forest shall look like."""

    n_stages: int = 6
    n_features: int = 5
    n_outputs: int = 1
    shared: bool = False  # every tree answers for all outputs
    most_trees: int = 2  # per stage; a stage may have none
    most_leaves: int = 12
    lopsided: bool = False
    categorical: float = 0.0  # fraction of inner nodes
    most_category: int = 10
    float32_input: bool = False
    grid: int = 0  # thresholds from so many values, 0: any


def random_forest(random: np.random.Generator, shape: Shape) -> TreeArrays:
    """A forest of that shape."""
    stages = random.integers(0, shape.most_trees + 1, shape.n_stages)
    n_trees = int(stages.sum())
    sets: list[np.ndarray] = []
    trees = [_random_tree(random, shape, sets) for _ in range(n_trees)]
    sizes = [len(tree["feature"]) for tree in trees]

    def joined(name: str, dtype: type) -> np.ndarray:
        return np.concatenate([tree[name] for tree in trees] or [np.empty(0)]).astype(dtype)

    width = shape.n_outputs if shape.shared else 1
    value = random.normal(size=(sum(sizes), width)) * 10.0 ** random.integers(-3, 3)
    shared = shape.shared or shape.n_outputs == 1
    return TreeArrays(
        tree_start=np.cumsum([0, *sizes]).astype(np.int64),
        stage_start=np.cumsum([0, *stages]).astype(np.int64),
        feature=joined("feature", np.int32),
        threshold=joined("threshold", np.float64),
        left=joined("left", np.int32),
        right=joined("right", np.int32),
        default_left=random.integers(0, 2, sum(sizes)).astype(np.uint8),
        missing=random.integers(0, 3, sum(sizes)).astype(np.uint8),
        category_set=joined("category_set", np.int32),
        members_left=random.integers(0, 2, sum(sizes)).astype(np.uint8),
        category_start=np.cumsum([0, *(len(s) for s in sets)]).astype(np.int64),
        categories=np.concatenate([*sets, np.empty(0)]).astype(np.int32),
        value=value,
        tree_output=np.zeros(n_trees, np.int32)
        if shared
        else random.integers(0, shape.n_outputs, n_trees).astype(np.int32),
        n_outputs=shape.n_outputs,
        n_features=shape.n_features,
        float32_input=shape.float32_input,
    )


def _random_tree(random: np.random.Generator, shape: Shape, sets: list[np.ndarray]) -> dict[str, list[float]]:
    tree: dict[str, list[float]] = {n: [] for n in ("feature", "threshold", "left", "right", "category_set")}
    leaves = int(random.integers(1, shape.most_leaves + 1))
    waiting = [(leaves, -1, "")]  # leaves below the node, its parent, which child it is
    while waiting:
        below, parent, side = waiting.pop(0 if random.random() < 0.5 else -1)
        node = len(tree["feature"])
        if parent >= 0:
            tree[side][parent] = node
        for name, empty in (
            ("feature", LEAF),
            ("threshold", 0.0),
            ("left", LEAF),
            ("right", LEAF),
            ("category_set", NUMERIC),
        ):
            tree[name].append(empty)
        if below == 1:
            continue
        tree["feature"][node] = int(random.integers(shape.n_features))
        tree["threshold"][node] = _threshold(random, shape)
        if random.random() < shape.categorical:
            tree["category_set"][node] = len(sets)
            sets.append(np.flatnonzero(random.random(shape.most_category + 1) < 0.5))
        on_left = 1 if shape.lopsided else int(random.integers(1, below))
        waiting += [(on_left, node, "left"), (below - on_left, node, "right")]
    return tree


def _threshold(random: np.random.Generator, shape: Shape) -> float:
    if random.random() < 0.1:
        return float(random.choice([*SPECIAL, np.inf, -np.inf]))
    if shape.grid:
        return float(random.integers(shape.grid)) / shape.grid * 4 - 2
    return float(random.normal() * 2)


def random_rows(random: np.random.Generator, trees: TreeArrays, n: int) -> np.ndarray:
    """Rows that hit thresholds, special values and missing ones often."""
    X = random.normal(size=(n, trees.n_features)) * 2
    if trees.threshold.size:
        exact = random.choice(trees.threshold, size=X.shape)
        X = np.where(random.random(X.shape) < 0.2, exact, X)
    X = np.where(random.random(X.shape) < 0.1, random.choice(SPECIAL, size=X.shape), X)
    X = np.where(random.random(X.shape) < 0.1, random.integers(-2, 14, X.shape), X)
    X = np.where(random.random(X.shape) < 0.1, np.nan, X)
    return np.ascontiguousarray(
        np.where(random.random(X.shape) < 0.02, random.choice([np.inf, -np.inf], X.shape), X)
    )


__all__ = ["SPECIAL", "Shape", "random_forest", "random_rows"]
