"""Which algorithm sorts this list? Computing features of the list takes time, too.

Lists of numbers are random, nearly sorted, or full of equal values. Times are in milliseconds, at a million comparisons or moves
a second: insertion sort is quick on nearly sorted lists, counting sort on small values, and merge sort is never bad. A sample of
twenty neighbours costs little; counting descents in a quarter of the list, or distinct values of all of it, costs more.
Run it: python docs/gallery/algorithm_selector.py [folder for the picture]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import anytime as at

LISTS = 1200
random = np.random.default_rng(0)
rows, costs_of, steps_of = [], [], []
for _ in range(LISTS):
    n = int(2 ** random.uniform(9, 13))
    kind = random.integers(3)
    values = (
        random.integers(10 ** int(random.integers(1, 7)), size=n)
        if kind == 2
        else random.integers(10**6, size=n)
    )
    if kind == 1:
        values = np.sort(values)
        for place in random.integers(n - 1, size=int(n * random.uniform(0, 0.4))):
            values[[place, place + 1]] = values[[place + 1, place]]
    sample = random.integers(n - 1, size=20)
    stretch = values[: n // 4]
    places = np.argsort(np.argsort(values, kind="stable"), kind="stable")
    moves = np.abs(places - np.arange(n)).sum() / 2  # about the inversions that insertion sort undoes
    descents, spread = (np.diff(stretch) < 0).mean(), len(np.unique(values)) / n
    rows.append([n, (values[sample] > values[sample + 1]).mean(), descents, spread, values.max()])
    costs_of.append([(n + moves) / 1000, n * np.log2(n) / 1000, (2 * n + values.max() / 4) / 1000])
    steps_of.append([0.0, 0.02, len(stretch) / 1000, n / 1000])
columns = ["length", "sampled descents", "descents", "share of values", "largest"]
X = pd.DataFrame(rows, columns=columns)
cost = pd.DataFrame(costs_of, columns=["insertion", "merge", "counting"])
groups = {
    "known": ["length"],
    "sample": ["sampled descents"],
    "stretch": ["descents"],
    "scan": ["share of values", "largest"],
}
prices = np.array(steps_of)
steps = at.FeatureCosts(dict(zip(groups, prices.mean(axis=0), strict=True)), groups=groups, unit="ms")

train, test = np.arange(LISTS // 2), np.arange(LISTS // 2, LISTS)
model = at.AlgorithmSelector(costs=steps, n_estimators=50, random_state=0)
model.fit(X.iloc[train], cost.iloc[train], row_prices=prices[train])
chosen = model.predict(X.iloc[test])
features = model.cost(X.iloc[test], row_prices=prices[test])
sorting = cost.to_numpy()[test, cost.columns.get_indexer(chosen)]
single = cost.iloc[train].mean().idxmin()
totals = {
    f"always {single}": (0.0, cost[single].iloc[test].mean()),
    "selector": (features.mean(), sorting.mean()),
    "best of each list": (0.0, cost.iloc[test].min(axis=1).mean()),
}
for name, (looking, work) in totals.items():
    print(
        f"{name:18s} {looking:6.2f} for looking + {work:7.2f} for sorting = {looking + work:7.2f} ms a list"
    )
gap = totals[f"always {single}"][1] - totals["best of each list"][1]
print(f"{(totals[f'always {single}'][1] - sum(totals['selector'])) / gap:.0%} of the gap is closed")

figure, (left, lower) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
for place, (looking, work) in enumerate(totals.values()):
    left.bar(place, work, color="C0", label="sorting" if place == 0 else None)
    left.bar(place, looking, bottom=work, color="C1", label="looking" if place == 0 else None)
left.set_xticks(range(3), list(totals))
left.set(ylabel="ms a list", title="Looking and sorting")
left.legend()
lower.hist(features, bins=30, color="C1")
lower.set(xlabel="ms of looking", ylabel="lists", title="What lists are looked at for")
folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
figure.savefig(folder / "algorithm_selector.png", dpi=120)
