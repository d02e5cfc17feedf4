"""Plain gradient boosting, no costs: test quality beside LightGBM and scikit-learn, and prediction beside LightGBM.

The same number of rounds (100), leaves (31), bins (255), rows per leaf (20) and learning rate (0.1) for all. Every data set is
split five times into three quarters to learn from and a quarter to judge on; "within noise" means that the mean difference to
a peer is at most two standard errors of the five paired differences, or that ours is better.

    python benchmarks/plain_boosting.py [--data FOLDER] [--splits 5]
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

import anytime as at
from anytime_research import datasets as research_datasets
from common import in_turns, median, write

CLASSES = (
    "magic",
    "spambase",
    "segment",
    "satimage",
    "pendigits",
    "letter",
    "miniboone-small",
    "adult",
    "thyroid",
)
NUMBERS = ("abalone", "cpu-act", "wine-quality", "housing")
MOST_ROWS = 12_000
ROUNDS = 100


def models(regression: bool) -> dict[str, Any]:
    """Fresh ones, with the same settings."""
    import lightgbm as lgb

    if regression:
        return {
            "anytime": at.GradientBoostingRegressor(n_estimators=ROUNDS),
            "lightgbm": lgb.LGBMRegressor(n_estimators=ROUNDS, verbose=-1, n_jobs=1),
            "scikit-learn": HistGradientBoostingRegressor(max_iter=ROUNDS, early_stopping=False),
        }
    return {
        "anytime": at.GradientBoostingClassifier(n_estimators=ROUNDS),
        "lightgbm": lgb.LGBMClassifier(n_estimators=ROUNDS, verbose=-1, n_jobs=1),
        "scikit-learn": HistGradientBoostingClassifier(max_iter=ROUNDS, early_stopping=False),
    }


def errors(name: str, folder: str | None, n_splits: int) -> dict[str, list[float]]:
    """Test error of each model in each split: share of wrong labels, or 1 - R²."""
    data = research_datasets.load(name, folder=folder)
    X, y = np.asarray(data.X, dtype=np.float64), np.asarray(data.y)
    regression = name in NUMBERS
    found: dict[str, list[float]] = {}
    for split in range(n_splits):
        rows = np.random.default_rng(split).permutation(len(y))[:MOST_ROWS]
        test, train = np.split(rows, [len(rows) // 4])
        for model_name, model in models(regression).items():
            score = model.fit(X[train], y[train]).score(X[test], y[test])
            found.setdefault(model_name, []).append(1.0 - float(score))
    return found


def compared(found: dict[str, list[float]]) -> dict[str, Any]:
    """Means, and whether ours is within noise of each peer."""
    entry: dict[str, Any] = {"mean error": {name: round(float(np.mean(e)), 5) for name, e in found.items()}}
    for peer in ("lightgbm", "scikit-learn"):
        gap = np.array(found["anytime"]) - np.array(found[peer])
        noise = float(gap.std(ddof=1) / np.sqrt(gap.size))
        entry[f"minus {peer}"] = f"{gap.mean():+.5f} +- {noise:.5f}"
        entry[f"within noise of {peer}"] = bool(gap.mean() <= 2 * noise)
    return entry


def prediction_times() -> dict[str, Any]:
    """Our own ensemble of 500 trees of 63 leaves against a booster of the same size, one thread."""
    import lightgbm as lgb

    rng = np.random.default_rng(0)
    X = rng.normal(size=(20_000, 50))
    y = (X[:, :10].sum(axis=1) + X[:, 10] * X[:, 11] + rng.logistic(size=len(X)) > 0).astype(int)
    ours = at.GradientBoostingClassifier(
        n_estimators=500, max_leaf_nodes=63, learning_rate=0.05, n_jobs=2
    ).fit(X, y)
    theirs = (
        lgb.LGBMClassifier(n_estimators=500, num_leaves=63, learning_rate=0.05, verbose=-1, n_jobs=2)
        .fit(X, y)
        .booster_
    )
    ours.set_params(n_jobs=1)
    rows, x = np.ascontiguousarray(X[:1000]), X[0].copy()
    one = in_turns(
        {
            "anytime": lambda: ours.predict_one(x),
            "lightgbm": lambda: theirs.predict(rows[:1], num_threads=1),
        },
        repeats=200,
        inner=10,
    )
    many = in_turns(
        {
            "anytime": lambda: ours.predict_proba(rows),
            "lightgbm": lambda: theirs.predict(rows, num_threads=1),
        },
        repeats=60,
    )
    return {
        "one row, microseconds": {name: round(1e6 * median(t), 2) for name, t in one.items()},
        "one row, ratio": round(median(one["anytime"]) / median(one["lightgbm"]), 3),
        "1000 rows, ratio": round(median(many["anytime"]) / median(many["lightgbm"]), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--data", default=os.environ.get("ANYTIME_DATA"), help="folder with the public data sets"
    )
    parser.add_argument("--splits", type=int, default=5)
    options = parser.parse_args()
    results = {}
    for name in (*CLASSES, *NUMBERS):
        results[name] = compared(errors(name, options.data, options.splits))
        print(name, results[name], flush=True)
    peers = ("lightgbm", "scikit-learn")
    write(
        "plain_boosting",
        {
            "quality": results,
            "data sets within noise": {
                peer: f"{sum(r[f'within noise of {peer}'] for r in results.values())} of {len(results)}"
                for peer in peers
            },
            "prediction": prediction_times(),
            "bars": {
                "data sets within noise": ">= 8",
                "one row, ratio": "<= 0.5",
                "1000 rows, ratio": "<= 0.25",
            },
        },
    )


if __name__ == "__main__":
    main()
