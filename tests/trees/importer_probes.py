"""Asking an original and its import the same questions, also strange ones."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import xgboost as xgb
from scipy.special import expit, softmax

from anytime.trees.arrays import NUMERIC
from anytime.trees.importers import import_trees
from tests.reference.tree_walk import prefix_scores, stage_outputs
from tests.trees.importer_cases import CASES, N

LINKS = {
    "identity": lambda s: s,
    "probability": lambda s: s,
    "exp": np.exp,
    "softplus": lambda s: np.log1p(np.exp(s)),
    "signed_square": lambda s: np.sign(s) * s**2,
    "regression_logistic": expit,
    "logistic": lambda s: np.hstack([1 - expit(s), expit(s)]),
    "softmax": lambda s: softmax(s, axis=1),
    "ova": expit,
}
ZERO = float(np.float32(1e-35))
STRANGE = [0.0, -0.0, 1e-36, -1e-36, 1e-35, -1e-35, ZERO, -ZERO, 1e-40, -1e-40, 1e30, -1e30, 1.0 + 1e-9, 1.0]
STRANGE_CODES = [
    -1.0,
    -0.5,
    -0.0,
    0.4,
    1.9,
    31.5,
    33.0,
    63.0,
    64.0,
    300.0,
    2.0**24,
    2.0**31,
    2.0**32 + 1,
    1e20,
]


@functools.cache
def built(name):
    case = CASES[name]()
    return case, import_trees(case.model)


def original(model, X):
    """(n, columns) what the library itself says."""
    if isinstance(model, xgb.Booster):
        said = model.inplace_predict(X)
    else:
        said = model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)
    return np.asarray(said, dtype=np.float64).reshape(len(X), -1)


def full_scores(imported, X):
    return prefix_scores(stage_outputs(imported.trees, imported.encode(X)), imported.base, imported.combine)[
        -1
    ]


def ours(imported, X, columns):
    """(n, columns) what the imported trees say; a bare booster gives the second class only."""
    return LINKS[imported.link](full_scores(imported, X))[:, -columns:]


def thresholds(imported, column):
    trees = imported.trees
    used = (trees.feature == column) & (trees.category_set == NUMERIC)
    exact = trees.threshold[used]
    narrow = exact.astype(np.float32)
    near = [np.nextafter(exact, -np.inf), np.nextafter(exact, np.inf), narrow]
    near += [np.nextafter(narrow, np.float32(-np.inf)), np.nextafter(narrow, np.float32(np.inf))]
    return np.concatenate([exact, *near]).astype(np.float64)


def strange_rows(case, imported, n=160):
    """Training rows in which many values are replaced: at thresholds and beside, zeros, holes, wrong categories."""
    r = np.random.default_rng(1)
    if isinstance(case.X, pd.DataFrame):
        return _strange_table(case, imported, r, n)
    X = np.array(case.X[r.integers(0, N, n)], dtype=np.float64)
    by_set = set(imported.trees.feature[imported.trees.category_set != NUMERIC].tolist())
    for column in range(X.shape[1]):
        pool = STRANGE + [np.inf, -np.inf] * case.infinite
        pool = np.concatenate([pool, STRANGE_CODES if column in by_set else thresholds(imported, column)])
        pool = pool if case.infinite else pool[np.abs(pool) < 1e38]
        X[:, column] = np.where(r.random(n) < 0.5, r.choice(pool, n), X[:, column])
        X[(r.random(n) < 0.15) & case.nan, column] = np.nan
    return X


def _strange_table(case, imported, r, n):
    table = case.X.iloc[r.integers(0, N, n)].reset_index(drop=True)
    refuses_new = isinstance(case.model, xgb.XGBModel)
    for column, name in enumerate(table.columns):
        if table[name].dtype == "category":
            words = [*table[name].cat.categories, None] + ([] if refuses_new else ["mauve", 99])
            chosen = pd.Series(r.choice(np.array(words, dtype=object), n))
            kept = pd.CategoricalDtype(table[name].cat.categories) if refuses_new else "category"
            table[name] = chosen.astype(kept)
        else:
            pool = np.concatenate(
                [thresholds(imported, column), STRANGE, [np.nan] + [np.inf] * case.infinite]
            )
            table[name] = np.where(r.random(n) < 0.5, r.choice(pool, n), table[name])
    return table
