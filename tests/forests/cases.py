"""Rows, prices and forests that tests of budgeted forests share."""

from __future__ import annotations

import numpy as np

import anytime as at
from anytime.forests.growing import ClassTree

SMALL = {"n_estimators": 6, "random_state": 0}
FIXED = {"alpha": 0.0, "cost_weighted": True}
COSTS = at.FeatureCosts(
    {"step": 0.1, "a": 0.2, "b": 3.1, "c": 5.17, "free": 0.0},
    groups={"step": [], "a": [5, 1, 2], "b": [0, 7], "c": [3], "free": [6, 4]},
    requires={"b": ["step"], "c": ["step", "a"]},
    unit="CAD",
)


def problem(n=300, seed=0, classes=3):
    random = np.random.default_rng(seed)
    X = random.standard_normal((n, 8))
    signal = X[:, 0] * (X[:, 1] > 0) + np.abs(X[:, 3]) + 0.3 * X[:, 6]
    y = np.searchsorted(np.quantile(signal, np.arange(1, classes) / classes), signal)
    X[random.random(X.shape) < 0.05] = np.nan
    return X, y


UNIT = at.FeatureCosts(np.ones(8), unit="CAD")


def forest(mean_budget=None, **settings):
    return at.BudgetForestClassifier(costs=UNIT, mean_budget=mean_budget, **{**SMALL, **FIXED, **settings})


def same(a: ClassTree, b: ClassTree) -> bool:
    """Whether two trees are the same bits."""
    fields = zip(a.arrays.asdict().values(), b.arrays.asdict().values(), strict=True)
    return (
        all(np.array_equal(x, y) for x, y in fields)
        and np.array_equal(a.statistics, b.statistics)
        and np.array_equal(a.risk, b.risk, equal_nan=True)
        and a.depth == b.depth
    )
