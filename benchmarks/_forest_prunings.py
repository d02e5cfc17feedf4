"""A forest pruned in several ways, as curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import anytime as at
from _forest_curves import (
    N_TREES,
    Pair,
    budget_forest,
    entropy_forest,
    forest_plan,
    joined,
    pair,
    random_forest,
    stopped,
)
from _forest_sets import Split
from anytime.forests.growing import ClassTree
from anytime.forests.impurity import Entropy
from anytime.forests.levels import cut
from anytime.forests.nodes import NodeStatistics, usage
from anytime.forests.pruning.problem import Pruning, PruningProblem
from anytime.forests.pruning.solvers import BudgetPruner
from anytime.trees.binning import BinnedData
from anytime_research.forests.baselines import cost_complexity, greedy_prune

N_PRUNINGS = 24
N_STAGES = 40  # of what prune_forest makes, about
COST_ROWS = 5000  # validation rows that pay in the problem, at most
FEWER_ROWS = 1500  # the same for prune_forest, which also looks for prunings between those that are best for some trade-off
THRESHOLDS = (
    0.0,
    0.01,
    0.03,
    0.06,
    0.1,
    0.15,
    0.2,
    0.25,
    0.3,
    0.35,
    0.4,
    0.5,
    0.6,
    0.8,
    1.0,
    1.3,
    1.6,
    2.0,
    2.5,
    3.5,
)


class Base:
    """A forest to prune, with what its nodes know and the problem of pruning it."""

    def __init__(self, split: Split, trees: list[ClassTree]) -> None:
        self.split, self.trees = split, trees
        self.nodes = NodeStatistics.of_trees(trees, classes=np.arange(split.n_classes))
        self.bound = split.costs.bind(split.train[0].shape[1])

    def problem(self, most: int = COST_ROWS, *, of_test: bool = False) -> PruningProblem:
        """The first ``most`` validation (or test) rows pay."""
        X = (self.split.test if of_test else self.split.valid)[0][:most]
        return PruningProblem.of(self.nodes.trees, self.nodes.error, self.nodes.n_error, X, self.bound)

    def judged(self, prunings: Sequence[Pruning]) -> Pair:
        """All of them, between the constant answer (the first) and the whole forest (the last), as one pair of curves."""
        whole = forest_plan(self.nodes.trees, self.split)
        plans = [forest_plan(cut(self.nodes.trees, pruning.internal), self.split) for pruning in prunings]
        points = [pair(plan, self.split, [N_TREES]) for plan in (*plans, whole)]
        return joined([pair(whole, self.split, [0]), *points])


def base(split: Split, seed: int, kind: str) -> Base:
    """The forests that are pruned: entropy with all columns per split as in the thesis, and others."""
    data = BinnedData.fit(split.train[0])
    subset = max(int(np.sqrt(split.train[0].shape[1])), 1)
    grown = {
        "entropy": lambda: entropy_forest(split, data, seed, power=0.0),
        "entropy, root of the columns": lambda: entropy_forest(
            split, data, seed, power=0.0, max_features=subset
        ),
        "entropy per price": lambda: entropy_forest(split, data, seed),
        "pairs": lambda: budget_forest(split, data, seed, 0),
        "gini, root of the columns": lambda: random_forest(split, data, seed, "gini"),
    }
    if kind.endswith("columns per split"):
        return Base(split, entropy_forest(split, data, seed, power=0.0, max_features=int(kind.split()[0])))
    return Base(split, grown[kind]())


def budget_prune(base: Base) -> tuple[Pair, list[Pruning]]:
    """Exact prunings for a path of trade-offs, as in the thesis."""
    path = BudgetPruner(base.problem()).path(n=N_PRUNINGS)
    return base.judged(path), path


def as_the_library_prunes(base: Base) -> Pair:
    """The stages of ``prune_forest`` as it comes, which is given the training rows and some of the validation rows."""
    X, y = (part[:FEWER_ROWS] for part in base.split.valid)
    X_train, y_train = base.split.train
    model = at.prune_forest(
        base.nodes, X, y, X_train=X_train, y_train=y_train, costs=base.split.costs, max_stages=N_STAGES
    )
    return pair(model.plan_, base.split, range(len(model.plan_) + 1))


def complexity(base: Base) -> Pair:
    """Cost-complexity pruning, one level for all trees."""
    return base.judged(cost_complexity(base.problem(), n_levels=N_PRUNINGS))


def one_by_one(base: Base) -> Pair:
    """GreedyPrune: all nodes of a group at a time."""
    return base.judged(greedy_prune(base.problem()))


def early_stopping(base: Base) -> Pair:
    """Nodes below a threshold of entropy are left alone."""
    points = [pair(forest_plan(base.nodes.trees, base.split), base.split, [0])]
    for threshold in THRESHOLDS:
        plan = forest_plan(stopped(base.trees, Entropy(), threshold), base.split)
        points.append(pair(plan, base.split, [N_TREES]))
    return joined(points)


def usage_table(base: Base, pruned: NDArray[np.bool_] | None) -> dict[str, Any]:
    """Table 4.1: how often test rows use a group, before and after; of the group in the middle, and on average."""
    problem = base.problem(20_000, of_test=True)
    before, after = usage(problem), usage(problem, pruned)
    typical = int(np.argsort(before[:, 0], kind="stable")[len(before) // 2])
    return {
        "columns": ["never", "1 to 7 times", "more often"],
        "typical group": base.split.costs.names[typical],
        "before": before[typical].round(4).tolist(),
        "after": after[typical].round(4).tolist(),
        "mean before": before.mean(axis=0).round(4).tolist(),
        "mean after": after.mean(axis=0).round(4).tolist(),
    }
