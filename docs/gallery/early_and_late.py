"""Early and late: additive stages compared with stages that replace the answer, on the same data and the same trees.

Four quantities determine the class. Each can be measured roughly for 1 unit, better for 5, exactly for 20. Run it:
python docs/gallery/early_and_late.py [folder for the picture]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import ExtraTreesClassifier

import anytime as at
from anytime.boosting import TreeLearner


def measured(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Four quantities, each measured three times, and the class that they decide."""
    rng = np.random.default_rng(seed)
    true = rng.normal(size=(n, 4))
    score = np.sin(1.5 * true[:, 0]) + true[:, 1] * (1 + true[:, 2]) + 0.7 * np.abs(true[:, 3]) - 0.5
    rough, better = (true + error * rng.normal(size=true.shape) for error in (1.0, 0.3))
    return np.hstack([rough, better, true]), (score > 0).astype(int)


ROWS = 2500
ADDED = 300
prices = np.repeat([1.0, 5.0, 20.0], 4)
costs = at.FeatureCosts(prices, unit="units")
(X, y), (X_test, y_test) = measured(ROWS, seed=0), measured(4000, seed=1)

# One model per budget, built by hand: the columns with the highest importance per price that fit it.
importance = ExtraTreesClassifier(100, min_samples_leaf=5, random_state=0).fit(X, y).feature_importances_
budgets = np.geomspace(2, costs.total, 12)
by_hand = []
for budget in budgets:
    bought: list[int] = []
    for column in np.argsort(-importance / prices):
        if prices[bought].sum() + prices[column] <= budget:
            bought.append(int(column))
    alone = at.GradientBoostingClassifier(n_estimators=200, validation_fraction=0.2, random_state=0)
    by_hand.append(1 - alone.fit(X[:, bought], y).score(X_test[:, bought], y_test))

small_and_large = [
    TreeLearner(max_leaf_nodes=leaves, cost_penalty=penalty, scale="relative", min_samples_leaf=20)
    for leaves in (4, 16)
    for penalty in (
        0.0,
        0.3,
        1.0,
        3.0,
    )  # cost penalty of the splits, from none to dominant
]
adding = {"learners": small_and_large, "n_estimators": ADDED, "n_iter_no_change": ADDED}
models = {
    "renewing (the default)": at.SpeedBoostClassifier(costs=costs, n_estimators=200, random_state=0),
    "adding, judged where it was fitted": at.AdditiveSpeedBoostClassifier(
        costs=costs, **adding, random_state=0
    ),
    "adding, judged on held-out rows": at.AdditiveSpeedBoostClassifier(
        costs=costs, **adding, holdout=0.3, random_state=0
    ),
    "boosting, blind to prices": at.GradientBoostingClassifier(
        costs=costs, n_estimators=200, validation_fraction=0.2, random_state=0
    ),
}
figure, axes = plt.subplots(figsize=(8, 4.5), layout="constrained")
for name, model in models.items():
    curve = at.curve(model.fit(X, y), X_test, y_test, metric="error")
    at_budgets = [float(curve.at(share * costs.total)) for share in (0.05, 0.2, 1.0)]
    print(f"{name:36} error at 5, 20, 100 % of the price:", *(f"{error:.3f}" for error in at_budgets))
    axes.step(
        [*np.maximum(curve.costs, 1), costs.total],
        [*curve.values, curve.values[-1]],
        where="post",
        label=name,
    )
print(f"{'one model per budget, last':36} {by_hand[-1]:.3f}")
axes.plot(budgets, by_hand, "k.", label="one model per budget, by hand")
axes.set(xscale="log", xlabel="budget (units)", ylabel="error on new rows", title="One model, early and late")
axes.legend(fontsize=8)
folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
figure.savefig(folder / "early_and_late.png", dpi=120)
