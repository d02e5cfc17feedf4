"""The obvious evaluation of `TreeArrays` and of what a row pays for it: one row, one tree, one node at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from anytime.trees.arrays import LEAF, MISSING_NAN_OR_ZERO, MISSING_NEVER, NUMERIC, TreeArrays

ZERO = float(np.float32(1e-35))


def goes_left(trees: TreeArrays, node: int, x: float) -> bool:
    """Whether a value goes left at a node, numbered over all trees."""
    if trees.float32_input:
        with np.errstate(over="ignore"):
            x = float(np.float32(x))
    missing_left = bool(trees.default_left[node])
    if trees.category_set[node] != NUMERIC:
        if math.isnan(x):
            return missing_left
        c = trees.category_set[node]
        members = trees.categories[trees.category_start[c] : trees.category_start[c + 1]].tolist()
        is_member = math.isfinite(x) and math.trunc(x) in members
        return is_member == bool(trees.members_left[node])
    rule = trees.missing[node]
    if math.isnan(x):
        if rule != MISSING_NEVER:
            return missing_left
        x = 0.0
    if rule == MISSING_NAN_OR_ZERO and abs(x) <= ZERO:
        return missing_left
    return x <= float(trees.threshold[node])


def leaf_of(
    trees: TreeArrays, tree: int, x: Sequence[float], before_reading: Callable[[int], bool] | None = None
) -> int | None:
    """Node of the leaf that a row reaches; None if ``before_reading(column)`` forbade a column on the way."""
    start = int(trees.tree_start[tree])
    node = start
    while trees.feature[node] != LEAF:
        column = int(trees.feature[node])
        if before_reading is not None and not before_reading(column):
            return None
        child = trees.left if goes_left(trees, node, float(x[column])) else trees.right
        node = start + int(child[node])
    return node


def stage_trees(trees: TreeArrays, stage: int) -> range:
    """The trees of a stage."""
    return range(int(trees.stage_start[stage]), int(trees.stage_start[stage + 1]))


def leaf_units(trees: TreeArrays, tree: int, leaf: int, shift: int) -> list[int]:
    """What a leaf adds to each output, as whole multiples of ``2**-shift``."""
    scaled = [round(math.ldexp(float(v), shift)) for v in trees.value[leaf]]
    if trees.value.shape[1] == trees.n_outputs:
        return scaled
    return [scaled[0] if k == trees.tree_output[tree] else 0 for k in range(trees.n_outputs)]


def units_after(
    trees: TreeArrays, x: Sequence[float], n_stages: int, shift: int, first: int = 0
) -> list[int]:
    """Sum of stages ``first`` to ``n_stages`` for one row."""
    total = [0] * trees.n_outputs
    for stage in range(first, n_stages):
        for t in stage_trees(trees, stage):
            leaf = leaf_of(trees, t, x)
            assert leaf is not None
            total = [a + b for a, b in zip(total, leaf_units(trees, t, leaf, shift), strict=True)]
    return total


def closure(requires: Sequence[Sequence[int]], group: int) -> set[int]:
    """A group and everything it needs."""
    found = {group}
    for other in requires[group]:
        found |= closure(requires, other)
    return found


def run_metered(
    trees: TreeArrays,
    x: Sequence[float],
    until: int,
    shift: int,
    *,
    prices: Sequence[int],
    requires: Sequence[Sequence[int]],
    column_group: Sequence[int],
    evaluation: Sequence[int],
    budget: int,
) -> tuple[list[int], int, int, set[int]]:
    """Sums, stages done, ticks paid and groups bought of a row that pays for what its path tests."""
    total = [0] * trees.n_outputs
    bought: set[int] = set()
    paid = 0

    def buy(column: int) -> bool:
        nonlocal paid
        wanted = closure(requires, column_group[column])
        if column_group[column] in bought:
            return True
        price = sum(prices[g] for g in wanted - bought)
        if paid + price > budget:
            return False
        paid += price
        bought.update(wanted)
        return True

    for stage in range(until):
        if paid + evaluation[stage] > budget:
            return total, stage, paid, bought
        paid += evaluation[stage]
        added = list(total)
        for t in stage_trees(trees, stage):
            leaf = leaf_of(trees, t, x, buy)
            if leaf is None:  # the groups are there for another try, but the stage was not evaluated
                return total, stage, paid - evaluation[stage], bought
            added = [a + b for a, b in zip(added, leaf_units(trees, t, leaf, shift), strict=True)]
        total = added
    return total, until, paid, bought
