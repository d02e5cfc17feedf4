"""README's picture: the demo's images, our models beside what a careful user would do with LightGBM.

The careful user trains one LightGBM per budget, for two dozen budgets, on the groups that fit it (by split gain or held-out
gain per price), or LightGBM with a penalty on the first use of each feature, at eight trade-offs; both with and without column
sampling and bagging, chosen on validation rows and refitted on all. Boosting as usual is blind to prices. Prices are measured, or
read from a file, such as the ``costs.yaml`` that ``anytime demo`` leaves.

    python benchmarks/demo_picture.py [--costs FILE] [--picture docs/images/demo-curve.png]
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import anytime as at
from _quality_peers import cost_blind, coupled_penalties, one_per_budget
from _quality_sets import Problem
from anytime.cli.demo import _WAYS, _all_features
from anytime.cli.digits import _TREES
from anytime.datasets.images import image_extractors, load_digit_images
from anytime.features import Features
from common import write

N_BUDGETS = 24
SHOWN = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # shares of the price of everything


@dataclass(frozen=True)
class DigitProblem(Problem):
    """The images of the demo, at budgets spaced evenly on the logarithm."""

    @property
    def budgets(self) -> list[float]:
        """From the cheapest group to everything."""
        prices = self.costs.prices.values()
        return np.geomspace(min(prices), self.costs.total, N_BUDGETS).tolist()


def by_position(costs: at.FeatureCosts, columns: list[str]) -> at.FeatureCosts:
    """The same prices for columns without names."""
    place = {name: j for j, name in enumerate(columns)}
    groups = {name: [place[column] for column in of] for name, of in costs.groups.items()}
    return at.FeatureCosts(costs.prices, groups=groups, requires=costs.requires, unit=costs.unit)


def main() -> None:
    """Train, judge, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--costs", type=Path, help="prices; measured without")
    parser.add_argument("--picture", type=Path, help="file to draw to")
    options = parser.parse_args()
    images, y, train, valid, test = load_digit_images()
    known = image_extractors()
    features = Features({name: known[name] for name in _WAYS})
    measured = (
        at.FeatureCosts.read(options.costs)
        if options.costs
        else features.profile(list(images[train[:60]]), repeats=3)
    )
    table = _all_features(features, images)
    X, costs = table.to_numpy(dtype=np.float64), by_position(measured, list(table.columns))
    problem = DigitProblem(X[train], y[train], X[valid], y[valid], X[test], y[test], costs, 10)
    joined = problem.joined()
    usual = at.GradientBoostingClassifier(costs=costs, n_estimators=20, **_TREES)
    models = {
        "AutoClassifier": at.AutoClassifier(costs=costs, random_state=0),
        "SpeedBoost": at.SpeedBoostClassifier(costs=costs, random_state=0),
        "boosting as usual": usual,
    }
    curves = {
        name: [float(model.score(X[test], y[test], budget=b)) for b in problem.budgets]
        for name, model in ((name, model.fit(*joined)) for name, model in models.items())
    }
    peers = {
        "one LightGBM per budget": one_per_budget,
        "LightGBM with cost penalties": coupled_penalties,
        "LightGBM as it comes": cost_blind,
    }
    for name, peer in peers.items():
        curves[name] = [float((said == y[test]).mean()) for said in peer(problem).test]
    places = np.searchsorted(problem.budgets, np.array(SHOWN) * costs.total * (1 + 1e-9), side="right") - 1
    print(f"{'budget (ms)':>30}", *(f"{problem.budgets[k] if k >= 0 else 0:7.3f}" for k in places))
    for name, values in curves.items():
        print(f"{name:>30}", *(f"{100 * values[k]:7.2f}" if k >= 0 else "      -" for k in places))
    write("demo_picture", {"budgets": problem.budgets, "accuracy": curves, "prices": costs.prices})
    if options.picture:
        draw(problem.budgets, curves, options.picture)


def draw(budgets: list[float], curves: dict[str, list[float]], path: Path) -> None:
    """Steps of accuracy against the logarithm of the budget."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
    styles = {"AutoClassifier": "-", "SpeedBoost": "-", "boosting as usual": ":"}
    for name, values in curves.items():
        axes.step(budgets, values, styles.get(name, "--"), where="post", label=name)
    axes.set(xscale="log", xlabel="Budget (ms)", ylabel="Accuracy", title="Reading digits under a budget")
    axes.grid(axis="y", alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
