"""One network that answers at every depth: its error against the multiplications and additions of each answer.

A residual network with six units and an early exit after each reads digits of 16 x 16 pixels. It is trained three times: with
equal weights for all exits and plain heads, with equal weights and the default heads, and with the defaults.
Run it: python docs/gallery/network_exits.py [folder for the picture]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import torch

import anytime as at
from anytime.networks import TrainingRecipe

torch.set_num_threads(1)  # for reproducible figures on machines of the same kind
EPOCHS = 16

data = at.datasets.load_digit_images()
images = data.images.reshape(-1, 1, 16, 2, 16, 2).mean(
    axis=(3, 5)
)  # 32 x 32 halved, so that digits are hard to read
train, test = data.train, data.test
recipe = TrainingRecipe(epochs=EPOCHS, batch_size=64, learning_rate=0.1)

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for name, weights, side, colour in [
    ("same weights, one mean per channel", "constant", 1, "C1"),
    ("same weights, heads of the default", "constant", 4, "C2"),
    ("default", "auto", 4, "C0"),
]:
    model = at.AnytimeNetworkClassifier(
        backbone="resann",
        backbone_arguments={"n": 2, "c": 6, "side": side},
        loss_weights=weights,
        recipe=recipe,
        device="cpu",
        random_state=0,
    )
    model.fit(images[train], data.y[train], X_val=images[data.valid], y_val=data.y[data.valid])
    curve = at.curve(model, images[test], data.y[test])
    shares = [0.25, 0.5, 0.75, 1.0]
    errors = [100 * (1 - curve.at(share * model.stage_costs_[-1])) for share in shares]
    print(
        f"{name:35}", *(f"{error:5.1f} % at {share:.2f}" for error, share in zip(errors, shares, strict=True))
    )
    costs = [cost / 1e6 for cost in model.stage_costs_]
    axes.step(
        costs, 100 * (1 - curve.values[-len(costs) :]), colour, where="post", marker="o", ms=4, label=name
    )

axes.set(
    xlabel="millions of multiplications and additions per image",
    ylabel="error on new images, %",
    title="Six exits of one network",
    ylim=0,
)
axes.legend()
folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
figure.savefig(folder / "network_exits.png", dpi=120)
