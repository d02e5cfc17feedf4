"""Ask an expensive classifier only about the rows that need it.

Is a handwritten digit odd? Images have 8 x 8 pixels in 16 zones, and each pixel costs 1. An RBF support vector machine needs
the whole image. Boosted trees and a gate run before it and read a few zones; then a ladder of cheap models does the same.
In each of three splits, three fifths of the rows train and choose, and the others are test rows. Run it:
python docs/gallery/cheap_before_svm.py [folder for the picture]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

import anytime as at
from anytime.adaptive import LadderClassifier
from anytime_research.adaptive import oracle_curve, sweep

X, y, costs = at.datasets.load("digits")
y = y % 2
SPLITS = 3
TREES = 20
BUDGET, LADDER_BUDGET, budgets = 32, 16, np.arange(6, 46, 2)
settings = [{"cost_penalty": cost_penalty, "costly_fraction": 0.3} for cost_penalty in (0.001, 0.003, 0.008)]
svms, gated, chosen, oracles, validated, ladders = [], [], [], [], [], []
for seed in range(SPLITS):
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=seed)
    X_fit, X_val, y_fit, y_val = train_test_split(
        X_train, y_train, test_size=0.2, stratify=y_train, random_state=seed
    )

    # Several settings at many thresholds, chosen on validation rows and evaluated on test rows.
    costly = SVC(C=10, gamma=0.001)
    model = at.AdaptiveClassifier(costly, costs=costs, n_estimators=TREES, random_state=0)
    found = sweep(model, settings, X_fit, y_fit, X_val, y_val, X_test, y_test)
    best = [found.best(budget) for budget in budgets]
    chosen.append([(test.cost, test.accuracy) for _, _, test in best])
    validated.append([valid.accuracy for _, valid, _ in best])

    # One model around the fitted machine. The machine's predictions for training rows are cross-validated.
    cost_penalty = found.best(BUDGET)[0]["cost_penalty"]
    svm = costly.fit(X_train, y_train)
    model = at.AdaptiveClassifier(
        svm, costs=costs, mean_budget=BUDGET, cost_penalty=cost_penalty, n_estimators=TREES, random_state=0
    )
    model.fit(X_train, y_train)
    paid, sent = model.cost(X_test), model.sent(X_test)
    svms.append(svm.score(X_test, y_test))
    gated.append((paid.mean(), model.score(X_test, y_test), sent.mean(), paid[~sent].mean()))

    # An oracle gate: the same two models, knowing which cheap answers are wrong.
    first = list(model.stages(X_test))[1]  # the cheap answers, for all rows
    wrong = [answer != y_test for answer in (svm.predict(X_test), first.prediction)]
    curve = oracle_curve(*wrong, costs.total, first.cost)
    oracles.append([np.interp(np.linspace(0, 1, 20), np.linspace(0, 1, len(side)), side) for side in curve])

    # Several cheap models on more and more zones: a row leaves at the first confident one.
    ladder = LadderClassifier(svm, costs=costs, mean_budget=LADDER_BUDGET, n_estimators=TREES, random_state=0)
    ladder.fit(X_train, y_train)
    reached = ladder.sent(X_test).mean()
    ladders.append((ladder.cost(X_test).mean(), ladder.score(X_test, y_test), reached))

print(f"support vector machine: accuracy {np.mean(svms):.3f} at {costs.total:g} {costs.unit} a row")
cost, accuracy, share, stay = np.mean(gated, axis=0)
spread = np.std(np.array(gated)[:, 1] - svms, ddof=1) / np.sqrt(SPLITS)
print(
    f"with a gate in front:   accuracy {accuracy:.3f} at {cost:.1f} (difference {accuracy - np.mean(svms):+.3f} ± {spread:.3f})"
)
print(f"{share:.0%} of the rows go on to the machine; the others pay {stay:.1f}")
for budget, (cost, accuracy), promised in zip(
    budgets, np.mean(chosen, axis=0), np.mean(validated, axis=0), strict=True
):
    if budget in (12, 22, 32):
        print(
            f"sweep, budget {budget}: accuracy {accuracy:.3f} at {cost:.1f}; validation rows said {promised:.3f}"
        )

cost, accuracy, reached = np.mean(ladders, axis=0)
print(
    f"ladder, budget {LADDER_BUDGET}: accuracy {accuracy:.3f} at {cost:.1f}; {reached:.0%} reach the machine"
)

figure = plt.figure(figsize=(10, 4), layout="constrained")
curves, images = figure.subfigures(1, 2, width_ratios=[7, 4])
axes = curves.subplots()
oracle_cost, oracle_error = np.mean(oracles, axis=0)
axes.plot(*np.mean(chosen, axis=0).T, "C0.-", label="one cheap model and a gate, chosen on validation rows")
axes.plot(*np.mean(gated, axis=0)[:2], "C3*", ms=12, label=f"the same fitted for a budget of {BUDGET}")
axes.plot(
    oracle_cost, 1 - oracle_error, color="grey", ls="--", label="the same with a gate that knows who is wrong"
)
axes.plot(*np.mean(ladders, axis=0)[:2], "C2s", label=f"a ladder fitted for a budget of {LADDER_BUDGET}")
axes.plot(costs.total, np.mean(svms), "C1o", label="support vector machine")
axes.set(
    xlabel=f"mean cost of a row ({costs.unit})",
    ylabel=f"accuracy on test rows, {SPLITS} splits",
    ylim=(0.86, 1.0),
)
axes.legend(loc="lower right", fontsize=8)
read = np.isin(np.arange(64), [j for g in model.answer(X_test[~sent]).groups for j in costs.groups[g]])
grid = images.subplots(2, 3)
for line, rows, shown in ((grid[0], X_test[~sent], read), (grid[1], X_test[sent], read | True)):
    for place, row in zip(line, rows[:3], strict=True):
        place.set_facecolor("lightsteelblue")  # pixels that are not read
        place.imshow(np.ma.masked_array(row, ~shown).reshape(8, 8), cmap="gray_r", vmin=0, vmax=16)
        place.set(xticks=[], yticks=[])
grid[0, 0].set_title("the cheap model answers", loc="left", fontsize=10)
grid[1, 0].set_title("sent on", loc="left", fontsize=10)
folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
figure.savefig(folder / "cheap_before_svm.png", dpi=120)
