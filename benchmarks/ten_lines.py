"""The two models that README's ten lines could use, on the table that they use: errors at some budgets, and times.

python benchmarks/ten_lines.py
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

import anytime as at
from common import write

SPLITS = 3
BUDGETS = (2, 5, 10, 20, 40, 80, 100)  # everything costs 100


def judged(kind: type[Any], seed: int) -> dict[str, Any]:
    """Errors on one split, and processor seconds to train and to answer all test rows."""
    X, y, costs = at.datasets.load("breast_cancer")
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=seed)
    began = time.process_time()
    model = kind(costs=costs, random_state=0).fit(X_train, y_train)
    trained = time.process_time()
    model.predict(X_test)
    answered = time.process_time()
    errors = [1 - model.score(X_test, y_test, budget=budget) for budget in BUDGETS]
    return {"errors": errors, "training": trained - began, "answering": answered - trained}


def main() -> None:
    """Run both on every split."""
    found = {}
    for kind in (at.SpeedBoostClassifier, at.AutoClassifier):
        runs = [judged(kind, seed) for seed in range(SPLITS)]
        found[kind.__name__] = {key: np.mean([run[key] for run in runs], axis=0).tolist() for key in runs[0]}
        print(kind.__name__, found[kind.__name__], flush=True)
    write("ten_lines", {"splits": SPLITS, "budgets": BUDGETS, **found})


if __name__ == "__main__":
    main()
