"""How to fit a small model of each family, and rows to ask it about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_wine
from sklearn.ensemble import ExtraTreesRegressor, HistGradientBoostingClassifier, RandomForestClassifier

import anytime as at
from anytime.boosting.learners import LinearLearner, TreeLearner
from anytime.linear.classifier_tree import SubmodularTreeClassifier
from anytime.streaming import StreamAlgorithm

Fitted = tuple[Any, np.ndarray]


def _cells(missing: float = 0.0) -> tuple[np.ndarray, np.ndarray, at.FeatureCosts]:
    X, y, costs = at.datasets.load("breast_cancer")
    X = np.array(X)
    X[np.random.default_rng(0).random(X.shape) < missing] = np.nan
    return X, np.asarray(y), costs


def _fitted(model: Any, missing: float = 0.0) -> Fitted:
    X, y, _ = _cells(missing)
    return model.fit(X, y), X


def _wine(model: Any) -> Fitted:
    X, y = load_wine(return_X_y=True)
    return model.fit(X, np.array(["barolo", "grignolino", "barbera"])[y]), X


def _diabetes(model: Any, columns: int = 10) -> Fitted:
    X, y, _ = at.datasets.load("diabetes")
    X = np.ascontiguousarray(np.asarray(X)[:, -columns:])
    return model.fit(X, y), X


def _imported(estimator: Any, missing: float = 0.0) -> Fitted:
    X, y, costs = _cells(missing)
    return at.make_anytime(estimator.fit(X, y), costs=costs), X


def _lightgbm(**settings: Any) -> Fitted:
    """Categories, zeros and missing values, at the edges of their meaning too."""
    import lightgbm

    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 4))
    X[:, 1] *= rng.random(600) < 0.7
    X[:, 2] = rng.integers(0, 12, 600)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.nan_to_num(X[:, 0]) + 2 * np.isin(X[:, 2], [1, 4, 5, 9]) + np.nan_to_num(X[:, 1]) > 0.5
    parameters = {
        "objective": "binary",
        "verbose": -1,
        "num_leaves": 15,
        "min_data_in_leaf": 5,
        "cat_smooth": 1,
    }
    data = lightgbm.Dataset(X, y.astype(int), categorical_feature=[2])
    booster = lightgbm.train(parameters | {"min_data_per_group": 5, "num_threads": 1} | settings, data, 20)
    edges = [
        [-0.5, 0, -0.5, 0], [1, 1e-36, -1, 0], [1, 1e-35, 11.9, 0], [0, -1e-35, 12, 0], [0, 0, 1e9, 0],
        [1e30, -1e30, 0, 0], [0, float(np.float32(1e-35)), np.nan, 0],
    ]  # fmt: skip
    return at.make_anytime(booster), np.concatenate([X, edges])


def _xgboost(missing: float) -> Fitted:
    """float32 trees, and a number that stands for a missing one."""
    import xgboost

    rng = np.random.default_rng(0)
    X = rng.integers(-2, 3, size=(400, 3)) + rng.normal(scale=0.1, size=(400, 3))
    X[rng.random(X.shape) < 0.2] = missing
    y = np.where(missing == X[:, 0], 1.0, X[:, 0]) + X[:, 1] > 0
    model = xgboost.XGBClassifier(n_estimators=15, max_depth=3, missing=missing, n_jobs=1).fit(
        X, y.astype(int)
    )
    return at.make_anytime(model), np.concatenate([X, X + 1e-9])


def _pruned() -> Fitted:
    X, y, costs = _cells()
    forest = RandomForestClassifier(15, max_depth=5, random_state=0).fit(X[::2], y[::2])
    return at.prune_forest(forest, X[1::2], y[1::2], costs=costs, mean_budget=60), X


def _ranker() -> Fitted:
    X, y, costs = _cells()
    model = at.AdditiveSpeedBoostRanker(costs=costs, method="proj", n_estimators=3, random_state=0)
    return model.fit(X[:100], y[:100], qid=np.repeat(np.arange(10), 10)), X


def _stream(learner: Any, missing: float = 0.0, **settings: Any) -> Fitted:
    X, y, _ = _cells(missing)
    model = at.StreamingBoostClassifier(n_estimators=5, learner=learner, random_state=0, **settings)
    return model.partial_fit(X, y, classes=[0, 1]), X


def _costs() -> at.FeatureCosts:
    return _cells()[2]


FAMILIES: dict[str, Callable[[], Fitted]] = {
    "boosting": lambda: _fitted(at.GradientBoostingClassifier(costs=_costs(), n_estimators=20), missing=0.1),
    "boosting_regression": lambda: _diabetes(at.GradientBoostingRegressor(n_estimators=20)),
    "boosting_classes": lambda: _wine(at.GradientBoostingClassifier(n_estimators=10)),
    "renewing": lambda: _diabetes(at.SpeedBoostRegressor(random_state=0), columns=3),
    "last_weight": lambda: _fitted(at.AdditiveSpeedBoostClassifier(costs=_costs(), n_estimators=12, random_state=0)),
    "refit": lambda: _fitted(at.AdditiveSpeedBoostClassifier(costs=_costs(), method="omp", n_estimators=8, random_state=0)),
    "lines_and_trees": lambda: _fitted(
        at.AdditiveSpeedBoostClassifier(
            costs=_costs(), method="proj", n_estimators=4, random_state=0,
            learners=[LinearLearner(2, evaluation_cost=0.1), TreeLearner()],
        ),
        missing=0.1,
    ),
    "ranker": _ranker,
    "forest": lambda: _fitted(at.BudgetForestClassifier(costs=_costs(), mean_budget=20, n_estimators=10, random_state=0)),
    "pruned": _pruned,
    "sklearn_forest": lambda: _imported(RandomForestClassifier(20, max_depth=5, random_state=0)),
    "sklearn_extra": lambda: _diabetes_import(),
    "sklearn_histogram": lambda: _imported(HistGradientBoostingClassifier(max_iter=10), missing=0.1),
    "lightgbm": lambda: _lightgbm(),
    "lightgbm_zero_as_missing": lambda: _lightgbm(zero_as_missing=True),
    "xgboost": lambda: _xgboost(np.nan),
    "xgboost_missing_number": lambda: _xgboost(1.0),
    "pursuit": lambda: _fitted(at.GroupPursuitClassifier(costs=_costs()), missing=0.1),
    "pursuit_regression": lambda: _diabetes(at.GroupPursuitRegressor()),
    "pursuit_classes": lambda: _wine(at.GroupPursuitClassifier()),
    "cascade": lambda: _fitted(at.CascadeClassifier(costs=_costs(), random_state=0)),
    "stream_of_nets": lambda: _stream("small_net"),
    "stream_averaged": lambda: _stream("stump", algorithm=StreamAlgorithm(averaging="all")),
    "linear_tree": lambda: _fitted(SubmodularTreeClassifier(costs=_costs(), node_budget=25), missing=0.1),
}  # fmt: skip
IN_C = (
    *(
        "boosting",
        "boosting_classes",
        "renewing",
        "refit",
        "lines_and_trees",
        "ranker",
        "forest",
        "pruned",
        "sklearn_extra",
    ),
    *("lightgbm", "xgboost_missing_number", "pursuit", "pursuit_classes", "cascade"),
)
NOT_IN_C = ("stream_of_nets", "stream_averaged", "linear_tree")


def _diabetes_import() -> Fitted:
    X, y, costs = at.datasets.load("diabetes")
    forest = ExtraTreesRegressor(10, max_depth=6, random_state=0).fit(np.asarray(X), y)
    return at.make_anytime(forest, costs=costs), np.asarray(X)


def budgets_of(model: Any) -> list[float | None]:
    """A budget for an early stage, one for a middle one, and all."""
    spent = model.plan_.stage_costs
    return [*sorted({float(spent[0]), float(spent[len(spent) // 2])}), None]
