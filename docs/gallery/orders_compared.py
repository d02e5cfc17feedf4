"""Five ways to order the same groups: quality against budget, and the certificate of the best of them.

All models are linear and buy the same groups; they differ in what they buy first. Run it:
python docs/gallery/orders_compared.py [folder for the picture]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split

import anytime as at
from anytime_research.datasets.optimum import frontier_of  # in the repository (research/), not in the wheel

data = at.datasets.make_priced_regression(2000, 16, group_size=4, noise=0.3, correlation=0.8, random_state=1)
X, y, costs = data
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)

models = {
    "forward regression": at.GroupPursuitRegressor(costs=costs, selection="forward", l2_regularization=1e-4),
    "matching pursuit (OMP)": at.GroupPursuitRegressor(costs=costs, selection="omp", l2_regularization=1e-4),
    "OMP, groups not whitened": at.GroupPursuitRegressor(costs=costs, whiten=False, l2_regularization=1e-4),
    "OMP, blind to cost": at.GroupPursuitRegressor(costs=costs, cost_aware=False, l2_regularization=1e-4),
    "group lasso": at.GroupPursuitRegressor(costs=costs, selection="lasso", l2_regularization=1e-4),
}
curves = {}
for name, model in models.items():
    curves[name] = at.curve(model.fit(X_train, y_train), X_test, y_test, metric="r2")
    print(
        f"{name:26} area under R² {curves[name].timeliness(rule='step', normalise='none') / costs.total:.4f}"
    )

# All rows at once: their optimum is known, and the certificate has to bound it from the run alone.
certificate = (
    at.GroupPursuitRegressor(costs=costs, selection="forward", l2_regularization=1e-4).fit(X, y).certificate_
)
for entry in certificate.summary():
    print(
        f"{entry['budget']:6.1f}: explains {entry['reached']:.3f}, nothing of that price more than {entry['ceiling']:.3f}: "
        f"at least {entry['certified']:.0%} of the best"
    )

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
for name, curve in curves.items():
    left.step(curve.costs, curve.values, where="post", label=name)
left.set(xlabel=f"budget ({costs.unit})", ylabel="R² on new rows", title="The same groups in five orders")
left.legend(fontsize=8)
budgets = np.linspace(0, costs.total, 300)
frontier_costs, frontier_values = frontier_of(data)
right.step(budgets, certificate.reached(budgets), where="post", label="reached")
right.step(frontier_costs, frontier_values, where="post", label="best possible (all sets tried)")
right.plot(budgets, certificate.ceiling(budgets), label="certified ceiling", linestyle="--")
right.set(
    xlabel=f"budget ({costs.unit})",
    ylabel="share of the variance",
    title="What is proved on the rows it was fitted to",
)
right.legend(fontsize=8)
folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
figure.savefig(folder / "orders_compared.png", dpi=120)
