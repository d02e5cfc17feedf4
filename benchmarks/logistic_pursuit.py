"""Group pursuit with logistic loss against squared loss: processor time of ``fit``, one thread. Bar: at most 5 x.

Rows have normal columns, one group of them a price of 1; the classes are those of a linear model with noise. Each pair of fits
is timed in turns, and the least of a few repeats counts. Squared loss reads the rows once, logistic loss in every step of every
refit: the last three sizes, with more classes or rows, are beyond the bar. Set OPENBLAS_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np

import anytime as at

SIZES = (
    (200, 50, 2),
    (200, 50, 3),
    (200, 1000, 2),
    (5000, 100, 2),
    (5000, 100, 3),
    (5000, 100, 5),
    (5000, 100, 10),
    (5000, 100, 20),
    (20000, 50, 10),
    (20000, 100, 3),
)


def classes_of(n: int, d: int, n_classes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows and their classes: a tenth of the columns, at least five, decide."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d))
    weights = np.zeros((d, n_classes))
    deciding = random.choice(d, max(5, d // 10), replace=False)
    weights[deciding] = random.normal(size=(deciding.size, n_classes))
    scores = X @ weights + random.gumbel(size=(n, n_classes))
    return X, scores.argmax(axis=1)


def seconds(loss: str, X: np.ndarray, y: np.ndarray) -> float:
    """Processor time of one fit."""
    model = at.GroupPursuitClassifier(loss=loss, random_state=0)
    began = time.process_time()
    model.fit(X, y)
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=1)
    asked = parser.parse_args()
    for n, d, n_classes in SIZES:
        for seed in range(asked.seeds):
            X, y = classes_of(n, d, n_classes, seed)
            least = {"squared": np.inf, "log": np.inf}
            for _ in range(asked.repeats):
                for loss in least:
                    least[loss] = min(least[loss], seconds(loss, X, y))
            figures = {name: round(value, 3) for name, value in least.items()}
            ratio = round(least["log"] / least["squared"], 2)
            print(
                json.dumps(
                    {"rows": n, "columns": d, "classes": n_classes, "seed": seed, **figures, "ratio": ratio}
                )
            )


if __name__ == "__main__":
    main()
