"""The picture of ``make demo`` with stored prices, so that it does not depend on the machine: SpeedBoost beside its rivals.

python benchmarks/demo_picture.py
"""

from __future__ import annotations

import numpy as np
import pandas as pd

import anytime as at
from anytime.cli import digit_rivals, digits
from anytime.cli.demo import WAYS
from anytime.datasets.images import STORED_MS
from common import RESULTS, write

ROUNDS = 20  # as in the demonstration
BUDGETS = (0.01, 0.02, 0.05, 0.13, 0.2, 0.3, 0.5, 0.8, 1.9)  # ms
PICTURE = RESULTS.parents[1] / "docs/images/demo-curve.png"


def loaded() -> digits.Digits:
    """The images of the demonstration with all their features."""
    images, y, train, valid, test = at.datasets.load_digit_images()
    known = at.datasets.image_extractors()
    X, columns = at.datasets.extract(images, {name: known[name] for name in WAYS})
    table = pd.DataFrame(X, columns=[f"column {j}" for j in range(X.shape[1])])
    groups = {name: [f"column {j}" for j in numbers] for name, numbers in columns.items()}
    costs = at.FeatureCosts({name: STORED_MS[name] for name in groups}, groups=groups, unit="ms")
    parts = [digits.Part(images[rows], table.iloc[rows], y[rows]) for rows in (np.r_[train, valid], test)]
    return digits.Digits(costs, *parts)


def main() -> None:
    """Train all of them, draw the picture and write what it shows."""
    data = loaded()
    models = {
        "SpeedBoost": digits.speedboost(data, ROUNDS, seconds=None),
        **digit_rivals.rivals(data, ROUNDS, digits.TREES),
        "as usual": digits.usual(data, ROUNDS),
    }
    comparison = at.compare(models, data.test.X, data.test.y)
    axes = comparison.plot(log=True)
    axes.set_title("Reading digits under a budget")
    axes.legend(frameon=False, loc=(0.3, 0.14))
    axes.figure.savefig(PICTURE, dpi=150)
    accuracy = {name: np.round(curve.at(BUDGETS), 4).tolist() for name, curve in comparison.curves.items()}
    first = {
        name: float(curve.costs[curve.values > curve.values[0]][0])
        for name, curve in comparison.curves.items()
    }
    write(
        "demo_picture",
        {"images": len(data.test.y), "budgets": BUDGETS, "accuracy": accuracy, "first answer": first},
    )


if __name__ == "__main__":
    main()
