"""Forests of least risk against scikit-learn's random forests: seconds per tree, nodes, test error.

Covtype (581k x 54), full depth, bootstrap, unit prices. Ours tries all columns at every node, all thresholds or a few
random ones; scikit-learn's forest tries sqrt(54) = 7 columns, as it does by default, or all. Bar: at most 2 x the time of
the default forest with the same number of trees, on the same threads. All take turns; processor time stands beside
wall-clock time, which other work on the machine disturbs. Binning counts. ``ANYTIME_DATA`` or ``--data`` names the folder
that has covtype.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

from anytime._native import Forest
from anytime.forests.growing import ClassTreeGrower
from anytime.forests.impurity import ClassPairs, Gini
from anytime.trees.binning import BinnedData
from anytime.trees.growing import join
from anytime_research.datasets import load
from common import median, write

Array = NDArray[np.float64]
BAR = 2.0
PEER = "scikit-learn, 7 columns"


def covtype(folder: str | None, n: int | None) -> tuple[Array, NDArray[np.int64]]:
    X, y, *_ = load("covtype", folder=folder)
    X, y = np.ascontiguousarray(X, dtype=float), np.unique(y, return_inverse=True)[1]
    if n is None or n >= len(X):
        return X, y
    rows = np.random.default_rng(0).choice(len(X), n, replace=False)
    return np.ascontiguousarray(X[rows]), y[rows]


class Ours:
    """A forest of least risk, or with Gini and some columns an ordinary one."""

    def __init__(self, **options: Any) -> None:
        self.options = options

    def fit(self, X: Array, y: NDArray[np.int64], n_trees: int, threads: int) -> Ours:
        """Bin, and grow."""
        data = BinnedData.fit(X, n_threads=threads)
        grower = ClassTreeGrower(**self.options, n_threads=threads)
        self.trees = grower.grow_forest(data, y, n_classes=7, n_trees=n_trees)
        return self

    def nodes(self) -> float:
        """Per tree."""
        return float(np.mean([tree.arrays.feature.size for tree in self.trees]))

    def predict(self, X: Array) -> NDArray[np.int64]:
        """Classes by the mean of the trees' shares."""
        forest = Forest(**join([tree.arrays for tree in self.trees]).asdict())
        shares = sum(forest.stage_outputs(X, np.array([t]))[0] for t in range(len(self.trees)))
        return np.asarray(shares).argmax(axis=1)


class Theirs:
    """scikit-learn's random forest."""

    def __init__(self, **options: Any) -> None:
        self.options = options

    def fit(self, X: Array, y: NDArray[np.int64], n_trees: int, threads: int) -> Theirs:
        """Grow."""
        self.model = RandomForestClassifier(n_trees, n_jobs=threads, random_state=0, **self.options).fit(X, y)
        return self

    def nodes(self) -> float:
        """Per tree."""
        return float(np.mean([tree.tree_.node_count for tree in self.model.estimators_]))

    def predict(self, X: Array) -> NDArray[np.int64]:
        """Classes by the mean of the trees' shares."""
        return np.asarray(self.model.predict(X))


SIDES: dict[str, Callable[[], Any]] = {
    "least risk, all thresholds": lambda: Ours(impurity=ClassPairs()),
    "least risk, random thresholds": lambda: Ours(impurity=ClassPairs(), search="random"),
    "Gini, 7 columns": lambda: Ours(impurity=Gini(), split="expected", max_features=7),
    PEER: lambda: Theirs(),
    "scikit-learn, all columns": lambda: Theirs(max_features=None),
}


def timed(X: Array, y: NDArray[np.int64], n_trees: int, repeats: int, threads: int) -> dict[str, Any]:
    """Seconds per tree and nodes per tree, the sides taking turns; ratios to the default forest."""
    clocks: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
    seen: dict[tuple[str, str], list[float]] = {}
    nodes = {}
    for _ in range(repeats):
        for side, make in SIDES.items():
            began = {name: clock() for name, clock in clocks.items()}
            model = make().fit(X, y, n_trees, threads)
            for name, clock in clocks.items():
                seen.setdefault((side, name), []).append((clock() - began[name]) / n_trees)
            nodes[side] = round(model.nodes())
            del model
    out: dict[str, Any] = {}
    for side in SIDES:
        row = {f"{name} s per tree": round(median(seen[side, name]), 4) for name in clocks}
        for name in clocks:
            ratios = np.array(seen[side, name]) / np.array(seen[PEER, name])
            row[f"{name} ratio"] = round(median(ratios.tolist()), 3)
        out[side] = {**row, "nodes per tree": nodes[side]}
    return out


def errors(X: Array, y: NDArray[np.int64], n_trees: int, threads: int) -> dict[str, float]:
    """On every fifth row after training on the others."""
    test = np.arange(len(X)) % 5 == 0
    X_train, X_test = np.ascontiguousarray(X[~test]), np.ascontiguousarray(X[test])
    return {
        side: round(
            float(np.mean(make().fit(X_train, y[~test], n_trees, threads).predict(X_test) != y[test])), 4
        )
        for side, make in SIDES.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("ANYTIME_DATA"))
    parser.add_argument("--sizes", type=int, nargs="*", default=[10_000, 100_000, 581_012])
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--trees", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    figures: dict[str, Any] = {"trees": given.trees, "repeats": given.repeats, "bar": BAR}
    for n in given.sizes:
        X, y = covtype(given.data, n)
        for threads in given.threads:
            figures[f"{n} rows, {threads} threads"] = timed(X, y, given.trees, given.repeats, threads)
    X, y = covtype(given.data, 100_000)
    figures["test error, 100000 rows, 20 trees"] = errors(X, y, 20, max(given.threads))
    write("budget_growing", figures)


if __name__ == "__main__":
    main()
