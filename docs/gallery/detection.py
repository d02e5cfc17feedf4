"""A detector that leaves most of a batch alone: filters restrict each stage to the rows that are still uncertain.

One image patch in six shows a vehicle. Haar-like features describe a patch and cost 1 each. Most patches are easy. Run it:
python docs/gallery/detection.py [folder for the picture]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import anytime as at
from anytime.boosting import CascadeClassifier, TreeLearner, margin_filters
from anytime_research.datasets import make_patches  # in the repository (research/), not in the wheel

PATCHES = 4000
STUMPS = 150
X, y, costs = make_patches(PATCHES, random_state=0)
X_test, y_test, _ = make_patches(6000, random_state=1)

stumps = {
    "method": "proj",
    "loss": "exponential",
    "learners": [TreeLearner(max_depth=1)],
    "learning_rate": 0.3,
    "n_estimators": STUMPS,
    "validation_fraction": None,
    "random_state": 0,
}
models = {
    "filtered": at.AdditiveSpeedBoostClassifier(costs=costs, filters=margin_filters(), **stumps),
    "every row": at.AdditiveSpeedBoostClassifier(costs=costs, **stumps),
    "cascade": CascadeClassifier(costs=costs, n_estimators=10, false_positive_rate=0.7, random_state=0),
}
figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
for name, model in models.items():
    curve = at.curve(model.fit(X, y), X_test, y_test, metric="error", meter="realised")
    left.step(curve.costs, curve.values, where="post", label=name)
    print(f"{name:10} error {curve.values[-1]:.4f} for {curve.costs[-1]:.1f} features per patch")

# Run all patches at once: a queue tracks the next stage of each patch.
batch = at.BatchSession(models["filtered"], X_test)
batch.advance()
updated = np.array(batch.statistics()["updated"])
print(
    f"a stage works on {updated.mean():.0%} of the patches on average, the last ten on {updated[-10:].mean():.0%}"
)

left.set(
    xlim=(0, 70),
    ylim=(0, 0.3),
    xlabel="features per patch, on average",
    ylabel="error on new patches",
    title="What a batch costs",
)
left.legend()
right.bar(np.arange(1, updated.size + 1), updated, width=1.0)
right.set(
    ylim=(0, 1), xlabel="stage", ylabel="share of the patches it works on", title="Only patches in doubt"
)
folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
figure.savefig(folder / "detection.png", dpi=120)
