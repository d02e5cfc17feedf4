"""Forests of every library, small, with data and prices."""

import lightgbm as lgb
import xgboost as xgb
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from anytime.costs import FeatureCosts

LIGHTGBM = {
    "boosting_type": "rf",
    "n_estimators": 5,
    "bagging_freq": 1,
    "bagging_fraction": 0.7,
    "n_jobs": 1,
    "verbose": -1,
}
WINE, CANCER, DIABETES = (load(return_X_y=True) for load in (load_wine, load_breast_cancer, load_diabetes))
GROUPED = FeatureCosts(
    groups={"lab": [], "first": [0, 1, 2], "second": [3, 4, 5, 6], "third": [7, 8], "last": [9, 10, 11, 12]},
    prices={"lab": 2.0, "first": 1.0, "second": 4.0, "third": 0.0, "last": 3.0},
    requires={"second": ["lab"], "last": ["lab"]},
)

FORESTS = {
    "random forest": (RandomForestClassifier(8, max_depth=6, random_state=0), WINE),
    "extra trees": (ExtraTreesClassifier(8, max_depth=6, random_state=0), WINE),
    "tree": (DecisionTreeClassifier(random_state=0), WINE),
    "random forest, numbers": (RandomForestRegressor(5, max_depth=4, random_state=0), DIABETES),
    "extra trees, numbers": (ExtraTreesRegressor(5, max_depth=4, random_state=0), DIABETES),
    "tree, numbers": (DecisionTreeRegressor(max_depth=4, random_state=0), DIABETES),
    "lightgbm, two classes": (lgb.LGBMClassifier(**LIGHTGBM), CANCER),
    "lightgbm, three classes": (lgb.LGBMClassifier(**LIGHTGBM), WINE),
    "lightgbm, numbers": (lgb.LGBMRegressor(**LIGHTGBM, num_leaves=8), DIABETES),
    "xgboost, two classes": (xgb.XGBRFClassifier(n_estimators=5, max_depth=4), CANCER),
    "xgboost, three classes": (xgb.XGBRFClassifier(n_estimators=5, max_depth=4), WINE),
    "xgboost, parallel trees": (
        xgb.XGBClassifier(n_estimators=1, num_parallel_tree=5, subsample=0.7, max_depth=4, learning_rate=1.0),
        WINE,
    ),
    "xgboost, numbers": (xgb.XGBRFRegressor(n_estimators=5, max_depth=4), DIABETES),
}


def answers(model, X):
    """Probabilities, or numbers."""
    return model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)


def halves(data):
    X, y = data
    return X[::2], y[::2], X[1::2], y[1::2]
