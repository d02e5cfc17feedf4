"""Features that take time: which ones are computed for which images, and how much they improve accuracy.

Four ways to describe an image of a digit, with prices measured on the machine that runs this program. Run it:
python docs/gallery/measured_prices.py [folder for the picture]
"""

import sys
from collections import Counter
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import anytime as at

TREES = 20
images, y, train, _, test = at.datasets.load_digit_images()
train = train[::2]
known = at.datasets.image_extractors()
features = at.Features({name: known[name] for name in ("ink", "pixels", "upright", "upright edges")})

costs = features.profile(list(images[train[:60]]))  # medians, in milliseconds
X, X_test = (features.matrix(list(images[rows])) for rows in (train, test))
model = at.SpeedBoostClassifier(
    costs=costs,
    n_estimators=TREES,
    learning_rate=0.3,
    max_leaf_nodes=8,
    min_samples_leaf=5,
    l2_regularization=0.1,
    random_state=0,
).fit(X, y[train])
curve = at.curve(model, X_test, y[test], meter="model")  # after each stage of the chain

# Image by image, from raw pixels: compute the next group only while the model is not confident enough.
session = at.Session(model, features)
sure = 0.9
answers = [session.predict(image, confidence=sure) for image in images[test]]
computed = Counter(group for answer in answers for group in answer.groups)
spent = float(np.mean([float(answer.cost) for answer in answers]))
right = np.mean([answer.prediction == label for answer, label in zip(answers, y[test], strict=True)])
print(f"everything: accuracy {curve.values[-1]:.3f} for {curve.total_cost:.3f} ms")
print(f"until {sure:.0%} sure: accuracy {right:.3f} for {spent:.3f} ms on average")
for name in model.order_:
    print(
        f"{name:14} {costs.prices[name]:.3f} ms, computed for {computed[name] / len(test):.0%} of the images"
    )

figure, (left, right_side) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
left.step([*curve.costs, 1.35 * curve.total_cost], [*curve.values, curve.values[-1]], where="post")
left.plot(spent, right, "C1o", label=f"each image until {sure:.0%} sure")
owned: set[str] = set()
for stage, cost, value in zip(model.plan_, curve.costs[1:], curve.values[1:], strict=True):
    new = [name for name in stage.groups if name not in owned]
    owned.update(new)
    left.annotate(
        "\n".join(f"+ {name}" for name in new),
        (cost, value),
        xytext=(5, -6),
        textcoords="offset points",
        va="top",
        size=8,
    )
left.set(xlabel="milliseconds of features", ylabel="accuracy on new images", title="What is bought when")
left.legend(loc="lower right")
names = list(model.order_)
right_side.barh(names, [computed[name] / len(test) for name in names], color="C1")
right_side.invert_yaxis()
for row, name in enumerate(names):
    end = computed[name] / len(test)
    right_side.annotate(
        f"{costs.prices[name]:.3f} ms",
        (end, row),
        xytext=(4, 0),
        textcoords="offset points",
        va="center",
        size=8,
    )
right_side.set(
    xlim=(0, 1.15), xlabel="share of the images for which it is computed", title="Only while in doubt"
)
folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
figure.savefig(folder / "measured_prices.png", dpi=120)
