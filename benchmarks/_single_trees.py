"""Single trees of least risk: the four quarters (figure 3.2 of Nan's thesis) and nine small sets (figure 3.4)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

import anytime as at
from anytime.forests.growing import ClassTree, ClassTreeGrower
from anytime.forests.impurity import ClassPairs, Impurity, Powers
from anytime.forests.levels import groups_before, max_cost
from anytime.trees.arrays import LEAF
from anytime.trees.binning import BinnedData
from anytime_research import datasets as research_datasets
from anytime_research.datasets import make_four_quarters, merge_duplicates, quantise

SMALL_SETS = (
    "vote", "sonar", "ionosphere", "dna", "housing", "soybean", "pima", "wdbc", "mammographic",
)  # fmt: skip
THRESHOLDS = (1, 2, 3, 5, 8, 12, 20, 35, 60, 100)
DEGREES = (2, 3, 4, 5)
MAX_COSTS = (1, 2, 3, 4, 5, 6, 8, 10)


def measured(tree: ClassTree, costs: Any, n: int) -> tuple[float, float, float]:
    """Error on the training rows, the cost of the dearest path, and the mean cost."""
    leaf = tree.arrays.feature == LEAF
    sums = tree.statistics[leaf]
    error = float((sums.sum(axis=1) - sums.max(axis=1)).sum() / n)
    paid = (groups_before(tree.arrays, costs) @ costs.prices)[leaf] * costs.costs.amount(1)
    return error, max_cost(tree.arrays, costs), float(paid @ sums.sum(axis=1) / n)


def four_quarters() -> dict[str, Any]:
    """Error and cost by depth for alpha 0, and of whole trees for others."""
    data = make_four_quarters()
    bins, costs = BinnedData.fit(data.X, exact=True), data.costs.bind(10)

    def tree(alpha: float, depth: int | None) -> list[float]:
        grower = ClassTreeGrower(ClassPairs(alpha=alpha), tests="multiway", max_depth=depth)
        return [*measured(grower.grow(bins, data.y - 1, n_classes=4, costs=costs), costs, 1024)]

    return {
        "alpha 0, by depth": {depth: tree(0, depth) for depth in range(11)},
        "whole trees, by alpha": {alpha: tree(alpha, None) for alpha in (0, 1, 2, 10, 63, 128)},
        "columns": ["error", "max cost", "mean cost"],
    }


def small_set(name: str, folder: str) -> tuple[NDArray[np.float64], NDArray[np.intp], int]:
    """Levels instead of numbers, one row of a kind; and how many rows there were."""
    data = research_datasets.load(name, folder=folder)
    X, y = quantise(np.asarray(data.X, dtype=np.float64)), np.asarray(data.y)
    if name == "housing":
        y = np.digitize(y, np.quantile(y, [0.25, 0.5, 0.75]))
    X, y = merge_duplicates(np.where(np.isnan(X), -1.0, X), y)
    return X, np.unique(y, return_inverse=True)[1], len(data.y)


def curve(X: Any, y: Any, impurity: Impurity, most: int) -> list[tuple[float, float]]:
    """(max cost, error) of trees of every depth, as long as they grow."""
    bins, costs = BinnedData.fit(X, exact=True), at.FeatureCosts(np.ones(X.shape[1])).bind(X.shape[1])
    points: list[tuple[float, float]] = []
    for depth in range(most + 1):
        grower = ClassTreeGrower(impurity, tests="multiway", max_depth=depth)
        tree = grower.grow(bins, y, n_classes=int(y.max()) + 1, costs=costs)
        error, most_paid, _ = measured(tree, costs, len(y))
        points.append((most_paid, error))
        if tree.depth < depth:
            break
    return points


def at_cost(points: list[tuple[float, float]], cost: float) -> float:
    """The least error of trees that cost no more."""
    return min(error for paid, error in points if paid <= cost)


def pairs_against_powers(folder: str, names: tuple[str, ...] = SMALL_SETS, most: int = 10) -> dict[str, Any]:
    """Error at each max cost of threshold-Pairs, the best alpha above 0 and alpha 0, and of Powers, the best degree."""
    out: dict[str, Any] = {}
    for name in names:
        X, y, rows = small_set(name, folder)
        whole = curve(X, y, ClassPairs(), most)
        raised = [point for alpha in THRESHOLDS for point in curve(X, y, ClassPairs(alpha=alpha), most)]
        powers = {degree: curve(X, y, Powers(degree=degree), most) for degree in DEGREES}
        out[name] = {
            "rows": rows,
            "different": len(y),
            "columns": X.shape[1],
            "max cost of the whole tree": whole[-1][0],
            "max costs": list(MAX_COSTS),
            "pairs, alpha 0": [round(at_cost(whole, c), 5) for c in MAX_COSTS],
            "pairs, alpha above 0": [round(at_cost(raised, c), 5) for c in MAX_COSTS],
            **{f"powers {d}": [round(at_cost(p, c), 5) for c in MAX_COSTS] for d, p in powers.items()},
        }
        print(name, out[name], flush=True)
    return out
