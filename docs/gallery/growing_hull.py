"""The hull of a growth search, and the networks on it drawn as graphs: what each adds to the one before.

The input is a handwritten digit as 64 numbers. The seed has two residual units of width eight; each growth adds three
shortcuts to both.
Run it: python docs/gallery/growing_hull.py [folder for the picture]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import anytime as at
from anytime.growth import for_tables

torch.set_num_threads(1)  # the same figures on any machine of this kind
EPOCHS = 15

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.4, random_state=0, stratify=y)
model = at.GrowingNetworkClassifier(
    n_cells=2,
    width=8,
    n_growths=5,
    phases=for_tables(epochs=EPOCHS, batch_size=64),
    validation_fraction=0.3,
    random_state=0,
    device="cpu",
).fit(X_train, y_train)

figure, axes = plt.subplot_mosaic(
    [["hull", "a", "c"], ["hull", "b", "c"]],
    figsize=(12, 5),
    width_ratios=[1.2, 0.9, 1.2],
    layout="constrained",
)
pool = [(m["cost"], 100 * m["error"]) for m in model.models_]
axes["hull"].plot(*zip(*pool, strict=True), "o", color="0.7", label="a network of the search")
hull = [
    (cost, 100 * (1 - quality))
    for cost, quality in zip(model.stage_costs_, model.plan_.quality[1:], strict=True)
]
axes["hull"].plot(*zip(*hull, strict=True), "C0o-", label="the hull: stages of the plan")
errors = [100 * (1 - model.score(X_test, y_test, budget=cost)) for cost in model.stage_costs_]
axes["hull"].plot(model.stage_costs_, errors, "C1s--", ms=4, label="the same networks on new rows")
for model_ in model.models_:
    if model_["parent"] is not None:
        parent = next(m for m in model.models_ if m["number"] == model_["parent"])
        ends = [(m["cost"], 100 * m["error"]) for m in (parent, model_)]
        axes["hull"].plot(*zip(*ends, strict=True), color="0.85", lw=1, zorder=0)
axes["hull"].set(xlabel="mult-adds per row", ylabel="error, %", title="Who grew from whom", ylim=0)
axes["hull"].legend()


def draw(place, architecture, title):
    """One cell: the residual unit on the left, what has grown in columns beside it, all added up on the right."""
    growths = architecture.patterns["normal"]
    spots = {"before": (0, 0), "previous": (0, 1), "a": (0, 2), "b": (0, 3)}
    spots |= {f"g{k + 1}": (k + 1, 1.5 + 1.1 * (-1) ** k) for k in range(len(growths))}
    spots["output"] = (len(growths) + 1, 1.5)
    plain = [("previous", "a", ""), ("a", "b", "")]
    plain += [(name, "output", "") for name in ("previous", "b", *(f"g{k + 1}" for k in range(len(growths))))]
    for k, growth in enumerate(growths):
        for start in dict.fromkeys(shortcut.input for shortcut in growth.shortcuts):
            ops = "\n".join(shortcut.op for shortcut in growth.shortcuts if shortcut.input == start)
            plain.append((start, f"g{k + 1}", ops))
    for start, end, ops in plain:
        colour = f"C{int(end[1:]) - 1}" if ops else "0.75"
        arrow = {"arrowstyle": "->", "color": colour, "shrinkA": 10, "shrinkB": 10}
        place.annotate("", spots[end], spots[start], arrowprops=arrow)
        middle = [0.45 * there + 0.55 * here for here, there in zip(spots[end], spots[start], strict=True)]
        white = {"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none"}
        if ops:
            place.text(*middle, ops, color=colour, fontsize=7, ha="center", va="center", bbox=white, zorder=3)
    for name, spot in spots.items():
        colour = f"C{int(name[1:]) - 1}" if name.startswith("g") else "0.3"
        box = {"boxstyle": "round", "fc": colour, "ec": "none"}
        place.text(*spot, name, color="white", ha="center", va="center", fontsize=8, bbox=box, zorder=4)
    place.set(xlim=(-0.6, spots["output"][0] + 0.6), ylim=(-0.6, 3.6))
    place.set_title(title, fontsize=10)
    place.axis("off")


shown = {0, len(errors) // 2, len(errors) - 1}
for name, stage in zip("abc", sorted(shown), strict=False):
    draw(
        axes[name],
        model.architectures_[stage],
        f"{model.stage_costs_[stage]:.0f} mult-adds, {errors[stage]:.1f} %",
    )
for name in "abc"[len(shown) :]:
    axes[name].axis("off")

for cost, validated, error in zip(model.stage_costs_, hull, errors, strict=True):
    print(
        f"{cost:6.0f} mult-adds: error {validated[1]:4.1f} % on validation rows, {error:4.1f} % on new rows"
    )
print(f"{len(model.models_)} networks were trained")
folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
figure.savefig(folder / "growing_hull.png", dpi=120)
