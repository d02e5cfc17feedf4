"""Which heart tests are worth their price? The order of purchases on real patients with real prices.

The data has 303 patients of the Cleveland clinic and 13 tests with the prices of the Ontario Health Insurance Program
(Turney 1995). Some tests share a procedure. Run it: python docs/gallery/heart_tests.py [folder for the picture]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import StratifiedKFold

import anytime as at

X, y, costs = at.datasets.load("heart")

# Accuracy at every budget, on patients that the model has not seen.
curves = []
for train, test in StratifiedKFold(10, shuffle=True, random_state=0).split(X, y):
    model = at.GroupPursuitClassifier(costs=costs, selection="forward", l2_regularization=0.01).fit(
        X[train], y[train]
    )
    curves.append(at.curve(model, X[test], y[test], metric="accuracy"))
budgets = np.linspace(0, costs.total, 500)
accuracy = np.array([curve.at(budgets) for curve in curves])

# The order of purchases of a model trained on all patients.
model = at.GroupPursuitClassifier(costs=costs, selection="forward", l2_regularization=0.01).fit(X, y)
stages = list(model.plan_)
prices = np.diff([0.0, *model.stage_costs_])
bought: set[str] = set()
for stage, price in zip(stages, prices, strict=True):
    new = [name for name in costs.closure(stage.groups) if name not in bought]
    bought.update(new)
    print(f"{stage.model_cost:7.2f} {costs.unit}  + {price:6.2f}  {', '.join(new)}")
for budget in (0, 4, 110, costs.total):
    print(f"accuracy with {budget:6.2f} {costs.unit}: {np.mean([curve.at(budget) for curve in curves]):.3f}")

figure, (upper, lower) = plt.subplots(
    2, 1, figsize=(8, 6), sharex=True, height_ratios=[2, 1], layout="constrained"
)
mean, error = accuracy.mean(axis=0), accuracy.std(axis=0) / np.sqrt(len(accuracy))
upper.step(budgets, mean, where="post")
upper.fill_between(budgets, mean - error, mean + error, step="post", alpha=0.2)
upper.set(ylabel="accuracy, 10 folds", title="Heart disease: what each dollar buys")
names, left = [], 0.0
for row, (stage, price) in enumerate(zip(stages, prices, strict=True)):
    new = [group for group in stage.groups if group not in names]
    lower.barh(row, price, left=left, color="C0" if price < 10 else "C1")
    lower.annotate(
        ", ".join(new), (left + price, row), xytext=(4, 0), textcoords="offset points", va="center", size=7
    )
    names += new
    left += price
lower.invert_yaxis()
lower.set(xlim=(0, 1.08 * costs.total), xlabel=f"spent so far ({costs.unit})", ylabel="purchase", yticks=[])
folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
figure.savefig(folder / "heart_tests.png", dpi=120)
