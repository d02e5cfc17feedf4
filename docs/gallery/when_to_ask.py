"""Learn on the job when to ask: every question costs, and only a question reveals the true label.

20,000 examples arrive one by one. A question, always answered correctly, costs a fifth of a mistake. Three local models of
unknown quality could answer instead, each on all rows or only when confident enough. With one that always asks, that makes 22
experts. EXP3.G learns which to follow. Run it: python docs/gallery/when_to_ask.py [folder for the picture]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import anytime as at
from anytime.online import Experts, OnlineSelector, regret_upper_bound
from anytime_research.online import ExpertRegret

RUNS = 20
ROUNDS, COST, PAST = 20_000, 0.2, 600
X, y, _ = at.datasets.make_priced_classification(PAST + ROUNDS, n_groups=6, random_state=0)
X_past, y_past, X, y = X[:PAST], y[:PAST], X[PAST:], y[PAST:]


def local_model(columns, labels):
    """What somebody once trained on some of the columns."""
    some_columns = make_column_transformer(("passthrough", columns))
    return make_pipeline(some_columns, LogisticRegression()).fit(X_past, labels)


models = {
    "two groups": local_model(slice(0, 6), y_past),
    "four groups": local_model(slice(0, 12), y_past),
    "four groups, wrong labels": local_model(slice(0, 12), 1 - y_past),
}
experts = Experts.confident(
    list(models.values())
)  # each asks when its uncertainty exceeds one of six thresholds, or never

curves, asked, spent = [], [], []
for seed in range(RUNS):
    selector = OnlineSelector(experts, evaluation_cost=COST, random_state=seed).partial_fit(
        X, y
    )  # y is read only where the selector asks
    losses = selector.expert_losses(X, y)
    curves.append(ExpertRegret().add(losses, selector.played_).curve)
    asked.append(selector.asked_)
    spent.append(losses[np.arange(ROUNDS), selector.played_])
best = int(losses.sum(axis=0).argmin())
rounds = np.unique(np.geomspace(100, ROUNDS, 200).astype(int))
bound = [regret_upper_bound(len(experts), int(t), COST, schedule="decreasing") for t in rounds]


def tell(who, loss):
    """Print the loss of a round."""
    print(f"{who:52} {loss:.3f}")


tell("always ask", COST)
for name, model in models.items():
    tell(f"{name}, alone", np.mean(model.predict(X) != y))
followed = experts.experts[best]
name = next(name for name, model in models.items() if model is followed.model)
tell(f"best in hindsight: {name}, asks if doubt > {followed.threshold}", losses[:, best].mean())
tell(f"learned on the way, mean of {RUNS} runs", np.mean(spent))
tell("  in the last quarter of the rounds", np.mean(spent, axis=0)[-ROUNDS // 4 :].mean())
last = np.array(curves)[:, -1]
print(f"regret {last.mean():.0f}, at most {last.max():.0f} in {RUNS} runs; the bound is {bound[-1]:.0f}")

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
left.plot(rounds, bound, color="grey", ls="--", label="bound on the expected regret")
left.plot(rounds, np.array(curves)[:, rounds - 1].T, color="C0", alpha=0.25, lw=0.8)
left.plot(rounds, np.mean(curves, axis=0)[rounds - 1], "C0", label=f"regret, mean of {RUNS} runs")
left.set(
    xlabel="rounds", ylabel="loss above that of the best expert", xscale="log", yscale="log", title="Regret"
)
left.legend(loc="upper left", fontsize=8)
width = 500
middle = np.arange(ROUNDS - width + 1) + width / 2
for what, label, colour in ((asked, "share of rounds that ask", "C1"), (spent, "loss a round", "C0")):
    smooth = np.convolve(np.mean(what, axis=0), np.full(width, 1 / width), mode="valid")
    right.plot(middle, smooth, colour, label=label)
right.axhline(COST, color="grey", lw=0.8, ls=":", label="always ask")
right.axhline(losses[:, best].mean(), color="grey", lw=0.8, ls="--", label="best expert in hindsight")
right.set(
    xlabel="rounds",
    xticks=range(0, ROUNDS + 1, 5000),
    ylim=(0, 1),
    title=f"What it does (means over {width} rounds)",
)
right.legend(fontsize=8)
folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
figure.savefig(folder / "when_to_ask.png", dpi=120)
