"""Learn from a stream that moves, and read it at any moment and any price.

24,000 rows pass once, and each is predicted before it is learned from. Half-way through, the columns that matter change.
One model has no drift detector, the other has one; each has 100 trees of two columns that learn side by side. Every prefix of
trees is a model, which costs the price of the columns that its trees read. Run it:
python docs/gallery/moving_stream.py [folder for the picture]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import anytime as at
from anytime.streaming import Drift, HoeffdingTree

ROWS = 12000
WINDOW = 500
PRICES, BUDGETS = [1, 1, 2, 2, 3, 3, 5, 5, 8, 8], [0, 10, 20, 38]
random = np.random.default_rng(0)


def rows(n, matter):
    """Friedman's first function of five of ten columns, with noise of deviation 1."""
    X = random.random((n, 10))
    a, b, c, d, e = X[:, matter].T
    y = 10 * np.sin(np.pi * a * b) + 20 * (c - 0.5) ** 2 + 10 * d + 5 * e
    return X, y + random.normal(size=n)


before, after = [0, 2, 4, 6, 8], [1, 3, 5, 7, 9]
parts = [rows(ROWS, before), rows(ROWS, after)]
tests = [rows(2000, before), rows(2000, after)]

trees = HoeffdingTree(max_features=2)
models = {
    "takes it as it comes": at.StreamingBoostRegressor(costs=PRICES, learner=trees, random_state=0),
    "watches for change": at.StreamingBoostRegressor(
        costs=PRICES, learner=trees, drift=Drift("adwin", action="restart"), random_state=0
    ),
}
figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
reading = []
print(f"root mean square errors{'last 2,000':>14}{'1,000 after':>13}{'last 2,000':>12}")
for (name, model), colour in zip(models.items(), ("C1", "C0"), strict=True):
    errors = []
    for (X, y), (X_test, y_test), style in zip(parts, tests, ("--", "-"), strict=True):
        errors.append((model.predict_then_fit(X, y) - y) ** 2)  # predict each row, then learn from it
        if name == "watches for change":  # evaluate the current model at every price
            curve = at.curve(model, X_test, y_test, metric="neg_root_mean_squared_error")
            when = f"after {model.rows_seen_} rows"
            right.step(curve.costs, -curve.values, colour, ls=style, where="post", label=when)
            reading.append(
                f"{when}, budget 0, 10, 20 and 38: {', '.join(f'{-curve.at(b):.2f}' for b in BUDGETS)}"
            )
    squares = np.concatenate(errors)
    at_change = [slice(ROWS - 2000, ROWS), slice(ROWS, ROWS + 1000), slice(2 * ROWS - 2000, 2 * ROWS)]
    last, worst, end = (np.sqrt(squares[part].mean()) for part in at_change)
    print(f"{name:<23}{last:>14.2f}{worst:>13.2f}{end:>12.2f}   changes met: {model.n_alarms_}")
    rolling = np.sqrt(np.convolve(squares, np.full(WINDOW, 1 / WINDOW), mode="valid"))
    left.plot(np.arange(WINDOW, len(squares) + 1), rolling, colour, label=name)

print(*reading, sep="\n")
left.axhline(1.0, color="grey", lw=0.8, ls=":", label="noise")
left.set(xlabel="rows", ylabel="error before learning", ylim=(0.8, 5.6), title=f"Means over {WINDOW} rows")
left.legend(fontsize=8)
right.set(
    xlabel="price of the columns read",
    ylabel="error on new rows",
    title="Every prefix of 100 trees is a model",
)
right.legend(fontsize=8)
folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
figure.savefig(folder / "moving_stream.png", dpi=120)
