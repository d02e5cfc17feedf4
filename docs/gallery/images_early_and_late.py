"""Images that leave a network early, and images that need all of it.

A residual network with an early exit after each of its six units reads digits of 16 x 16 pixels. An image leaves at the first
exit that is confident enough. Confidence is calibrated on validation images.
Run it: python docs/gallery/images_early_and_late.py [folder for the picture]
"""

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch

import anytime as at
from anytime.networks import TrainingRecipe

torch.set_num_threads(1)  # for reproducible figures on machines of the same kind
SURE, SHOWN = 0.95, 12
EPOCHS = 16

data = at.datasets.load_digit_images()
images = data.images.reshape(-1, 1, 16, 2, 16, 2).mean(axis=(3, 5))
train, test = data.train, data.test
model = at.AnytimeNetworkClassifier(
    backbone="resann",
    backbone_arguments={"n": 2, "c": 6},
    recipe=TrainingRecipe(epochs=EPOCHS, batch_size=64, learning_rate=0.1),
    device="cpu",
    random_state=0,
)
model.fit(images[train], data.y[train], X_val=images[data.valid], y_val=data.y[data.valid])

answers = [answer for answer in model.stages(images[test]) if answer.stage > 0]
sure = np.array([answer.probabilities.max(axis=1) >= SURE for answer in answers])  # (exits, images)
sure[-1] = True  # all remaining images leave at the last exit
left = sure.argmax(axis=0)
said = np.array([answer.prediction for answer in answers])[left, np.arange(len(test))]
mean_cost = np.asarray(model.stage_costs_)[left].mean() / model.stage_costs_[-1]

print("images that leave at each exit:", *np.bincount(left, minlength=len(answers)))
print(f"error of the whole network:     {np.mean(answers[-1].prediction != data.y[test]):.3f}")
print(f"error with leaving at {SURE:.0%}:     {np.mean(said != data.y[test]):.3f}")
print(f"mean cost of an image:          {mean_cost:.2f} of the whole network")

doubt = np.array([answer.probabilities.max(axis=1) for answer in answers])
order = np.lexsort((doubt.mean(axis=0), -left))  # latest first, then most uncertain first
rows = {"leave first": order[::-1][:SHOWN], "leave last": order[:SHOWN]}
figure, axes = plt.subplots(2, SHOWN, figsize=(10, 2.6), layout="constrained")
for line, (name, chosen) in zip(axes, rows.items(), strict=True):
    for axis, i in zip(line, chosen, strict=True):
        axis.imshow(images[test[i], 0], cmap="gray_r", vmin=0, vmax=1)
        right = said[i] == data.y[test[i]]
        axis.set_title(f"{said[i]}, exit {left[i] + 1}", fontsize=8, color="black" if right else "C3")
        axis.set(xticks=[], yticks=[])
    line[0].set_ylabel(name)
folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
figure.savefig(folder / "images_early_and_late.png", dpi=120)
