"""From trees to a plan that can be stopped at any cost: one tree level by level, then tree after tree.

The first tree stands in the plan as its levels, each replacing the one before, so that small budgets have an answer of their
own. Then whole trees join it, and the answer is their mean. Which tree is first, and which comes next, held-out rows decide: the
most gain for what the average row has to pay in addition.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from anytime.costs import BoundCosts
from anytime.forests.levels import Level, cost_levels
from anytime.forests.pruning.problem import leaves_of
from anytime.forests.within_budget import JudgingRows, Visited
from anytime.plan import Array, Plan
from anytime.trees.arrays import TreeArrays
from anytime.trees.block import TreeBlock
from anytime.trees.growing import join
from anytime.trees.judging import judged

__all__ = ["levels_within", "order_trees", "sequence_plan"]

_NUMBERS = 5e8  # (tree, tree, row, group) that are looked at in a second
_SECONDS = 2.0
_FEWEST_ROWS = 200


def sequence_plan(trees: Sequence[Visited], bench: JudgingRows, base: Array) -> Plan:
    """The plan of trees in their order; the first, in levels.

    Parameters
    ----------
    trees : sequence of Visited
    bench : JudgingRows
    base : (K,)
        The answer before anything is paid.
    """
    if not trees:
        return plan_of([], [], bench, base)
    first, *others = trees
    levels = cost_levels(first.arrays, bench.costs, first.leaf, bench.weight)
    return plan_of(
        [level.arrays for level in _useful(levels, bench, base)], [t.arrays for t in others], bench, base
    )


def plan_of(levels: list[TreeArrays], others: list[TreeArrays], bench: JudgingRows, base: Array) -> Plan:
    """Stages that replace each other, then stages that join the last of them; costs and quality from the bench."""
    plan = Plan(
        blocks=[TreeBlock(join(trees)) for trees in (levels, others) if trees],
        costs=bench.costs,
        base=base,
        link=bench.link,
        combine="mean",
        replaces=np.arange(len(levels) + len(others)) < len(levels),
    )
    return judged(plan, bench.X, bench.target, bench.weight, bench.error_weight)


def levels_within(tree: Visited, bench: JudgingRows, base: Array, budget: float) -> Plan:
    """The levels of a tree that, as a whole, is beyond the budget (ticks); no stage at all when its first test is."""
    levels = cost_levels(tree.arrays, bench.costs, tree.leaf, bench.weight, budget=budget)
    return plan_of([level.arrays for level in _useful(levels, bench, base)], [], bench, base)


def _useful(levels: list[Level], bench: JudgingRows, base: Array) -> list[Level]:
    """Levels that answer better than all before them, and the last, which others may join."""
    if bench.target is None:
        return levels
    kept, best = [], bench.loss(np.tile(base, (len(bench.X), 1)))
    for level in levels:
        loss = bench.loss(level.arrays.value[leaves_of(level.arrays, bench.X)[:, 0]])
        if loss < best or level is levels[-1]:
            kept.append(level)
        best = min(best, loss)
    return kept


# ---------------------------------------------------------------------- the order of trees


def order_trees(
    trees: Sequence[Visited], bench: JudgingRows, base: Array, seconds: float = _SECONDS
) -> list[int]:
    """Numbers of the trees so that each is the one of most gain per cost after those before it.

    The loss is the squared distance from the truth, for classes of the probabilities that a tree gives them. It is a quadratic
    function of which trees are in, so that the inner products of their answers, taken once, are all it needs.
    """
    rows = _some_rows(len(trees), bench, min(seconds, _SECONDS))
    weight, error_weight = (
        np.ones(rows.size) if weights is None else weights[rows]
        for weights in (bench.weight, bench.error_weight)
    )
    weight, error_weight = weight / weight.sum(), error_weight / error_weight.sum()
    answers = np.array([_probabilities(tree.outputs[rows], bench) for tree in trees])
    truth = bench.truth(base.size)[rows]
    missed = answers - truth
    scaled = (missed * np.sqrt(error_weight)[:, None]).reshape(len(trees), -1)
    inner = scaled @ scaled.T
    off = _probabilities(base[None], bench) - truth
    loss = float((off**2).sum(axis=1) @ error_weight)
    needs = np.array([bench.groups(tree, rows) for tree in trees])
    paid = np.zeros(needs.shape[1:], dtype=bool)
    order: list[int] = []
    waiting = np.arange(len(trees))
    together = np.zeros(len(trees))  # inner products with the sum of the trees chosen
    square = 0.0  # of that sum
    while waiting.size:
        losses = (square + 2 * together[waiting] + inner[waiting, waiting]) / (len(order) + 1) ** 2
        costs = _added(needs[waiting], paid, weight, bench.costs)
        best = _best(loss - losses, costs)
        chosen = int(waiting[best])
        loss = float(losses[best])
        square += 2 * together[chosen] + inner[chosen, chosen]
        together += inner[chosen]
        paid |= needs[chosen]
        order.append(chosen)
        waiting = np.delete(waiting, best)
    return order


def _some_rows(n_trees: int, bench: JudgingRows, seconds: float) -> NDArray[np.intp]:
    most = max(_FEWEST_ROWS, int(seconds * _NUMBERS / (n_trees**2 * bench.costs.n_groups)))
    n = len(bench.X)
    if n <= most:
        return np.arange(n)
    rows = np.sort(np.random.default_rng(0).choice(n, most, replace=False))
    return rows if bench.weight is None or bench.weight[rows].any() else np.arange(n)


def _probabilities(outputs: Array, bench: JudgingRows) -> Array:
    return outputs / outputs.sum(axis=1, keepdims=True) if bench.link == "counts" else outputs


def _added(
    needs: NDArray[np.bool_], paid: NDArray[np.bool_], weight: Array, costs: BoundCosts
) -> NDArray[np.float64]:
    """(T,) ticks that the average row pays in addition for each tree."""
    share = np.array([weight @ (need & ~paid) for need in needs])
    return np.asarray(share @ costs.prices)


def _best(gains: Array, costs: Array) -> int:
    """The largest gain per cost; where nothing gains, the least harm. Ties to the lower cost, then the earlier."""
    rates = np.where(gains > 0, gains / np.maximum(costs, 1e-9), gains)
    return int(np.lexsort((costs, -rates))[0])
