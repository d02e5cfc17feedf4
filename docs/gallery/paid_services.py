"""Three paid services that read handwriting.

Three models of increasing price stand in for paid services: a model on four blocks of the image, one on rows and columns, and a
support vector machine on all pixels. Each returns a digit and a confidence. Half of the digits train the services, a quarter the
cascade, and a quarter are test images. Run it: python docs/gallery/paid_services.py [folder for the picture]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

import anytime as at

X, y = load_digits(return_X_y=True)
drawn = np.random.default_rng(0).permutation(len(y))
train, learn, test = drawn[:900], drawn[900:1350], drawn[1350:]
images = X.reshape(-1, 8, 8)
seen = {
    "blocks": images.reshape(-1, 2, 4, 2, 4).sum(axis=(2, 4)).reshape(-1, 4),
    "profiles": np.hstack([images.sum(axis=1), images.sum(axis=2)]),
    "picture": X,
}
prices = {"blocks": 0.10, "profiles": 0.50, "picture": 2.00}  # dollars per 1,000 calls
table = {}
for name, part in seen.items():
    kind = SVC(gamma=0.001, C=10) if name == "picture" else LogisticRegression(max_iter=1000)
    service = make_pipeline(StandardScaler(with_std=name != "picture"), kind).fit(part[train], y[train])
    table[f"{name} label"] = service.predict(part)
    table[f"{name} score"] = np.diff(np.sort(service.decision_function(part), axis=1)[:, -2:])[
        :, 0
    ]  # first before second
answers = pd.DataFrame(table)

cascade = at.cascade(dict.fromkeys(prices), prices=prices, unit="USD", random_state=0)
model = cascade.fit(answers.iloc[learn], y[learn]).model
budgets = np.array([0.1, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0, 1.5, 2.0, 2.6])
right = [(model.predict(answers.iloc[test], mean_budget=b) == y[test]).mean() for b in budgets]
paid = [model.cost(answers.iloc[test], mean_budget=b).mean() for b in budgets]
for name, price in prices.items():
    print(
        f"{name:9s} alone: {price:.2f} USD per 1,000, {(answers[f'{name} label'][test] == y[test]).mean():.3f} right"
    )
for cost, share in zip(paid, right, strict=True):
    print(f"cascade: {cost:.2f} USD per 1,000, {share:.3f} right")
answer = model.truncate(mean_budget=1.0).answer(answers.iloc[test])  # as if requests came one by one
print(
    f"one by one, for a mean of 1.00: {answer.cost.mean():.2f} USD, {(answer.prediction == y[test]).mean():.3f} right"
)

figure, (quality, spending) = plt.subplots(1, 2, figsize=(9, 4), layout="constrained")
quality.plot(paid, right, "o-", color="C0", label="cascade, mean over requests")
for name, price in prices.items():
    place = (price, (answers[f"{name} label"][test] == y[test]).mean())
    quality.plot(*place, "s", color="black")
    quality.annotate(name, place, xytext=(-8, -14), textcoords="offset points", size=8)
quality.set(xlabel="USD per 1,000 requests", ylabel="share right", title="Services alone, and asked in turn")
quality.legend(loc="lower right")
costs, counts = np.unique(np.round(answer.cost, 2), return_counts=True)
spending.bar([f"{cost:.2f}" for cost in costs], counts, color="C1")
spending.set(
    xlabel="paid for a request (USD per 1,000)", ylabel="requests", title="Who pays what, at a mean of 1 USD"
)
folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
figure.savefig(folder / "paid_services.png", dpi=120)
