"""Halve the cost of a forest you already have.

A scikit-learn random forest on 569 biopsies with 30 columns in ten priced groups (the prices are illustrative and part of the
bundled data). In each of ten random splits, half of the rows train the forest, a quarter validates, a quarter tests. Run it:
python docs/gallery/half_price_forest.py [folder for the picture]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

import anytime as at

SPLITS = 10
X, y, costs = at.datasets.load("breast_cancer")
shares = np.linspace(0.2, 1.0, 33)  # of the unpruned forest's cost
kept, before, never = [], [], []
for seed in range(SPLITS):
    X_train, X_rest, y_train, y_rest = train_test_split(X, y, test_size=0.5, stratify=y, random_state=seed)
    X_held, X_test, y_held, y_test = train_test_split(
        X_rest, y_rest, test_size=0.5, stratify=y_rest, random_state=seed
    )
    forest = RandomForestClassifier(100, criterion="entropy", max_features=None, random_state=seed)
    forest.fit(X_train, y_train)

    rows = {"X_val": X_held, "y_val": y_held, "X_train": X_train, "y_train": y_train}
    pruned = at.prune_forest(forest, **rows, costs=costs)  # all prunings; the last is the forest itself
    curve = at.curve(pruned, X_test, y_test)  # accuracy against the mean cost of a row
    kept.append(curve.at(shares * curve.total_cost))
    before.append((curve.total_cost, forest.score(X_test, y_test)))

    half = at.prune_forest(forest, **rows, costs=costs, mean_budget=curve.total_cost / 2)
    never.append([half.usage_.before[:, 0], half.usage_.after[:, 0]])  # rows that never use each group

accuracy = np.array(kept)
price, score = np.mean(before, axis=0)
print(f"the forest as it is: {price:.1f} per row, accuracy {score:.3f}")
for share in (0.75, 0.5, 0.4, 0.3):
    at_share = accuracy[:, np.abs(shares - share).argmin()]
    error = np.std(at_share - np.array(before)[:, 1]) / np.sqrt(SPLITS)
    print(
        f"at {share:.0%} of that: accuracy {at_share.mean():.3f}, difference {at_share.mean() - score:+.3f} ± {error:.3f}"
    )

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4), width_ratios=[3, 2], layout="constrained")
mean, error = accuracy.mean(axis=0), accuracy.std(axis=0) / np.sqrt(len(accuracy))
left.plot(shares * price, mean, label="pruned")
left.fill_between(shares * price, mean - error, mean + error, alpha=0.2)
left.plot(price, score, "o", color="C1", label="the forest as it is")
left.axvline(price / 2, color="grey", lw=0.8, ls=":")
left.set(
    xlabel=f"mean cost of a row ({costs.unit})",
    ylabel=f"accuracy, {SPLITS} splits",
    title="Half the price, nearly the same answers",
)
left.legend(loc="lower right")
shown = [g for g, name in enumerate(half.usage_.groups) if costs.groups[name]]
usage = 1 - np.mean(never, axis=0)[:, shown]
order = np.argsort(usage[1])
place = np.arange(len(shown))
right.barh(place, usage[0][order], color="C1", alpha=0.35, label="as it is")
right.barh(place, usage[1][order], color="C0", height=0.5, label="at half the price")
right.set_yticks(place, [half.usage_.groups[shown[k]] for k in order], fontsize=8)
right.set(xlabel="share of rows that pay for it", title="What rows still buy", xlim=(0, 1))
right.legend(loc="upper center", bbox_to_anchor=(0.4, -0.16), ncols=2, fontsize=8)
folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
figure.savefig(folder / "half_price_forest.png", dpi=120)
