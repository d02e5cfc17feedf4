"""A street being labelled: the labels of a picture at six moments, and the regions that each stage worked on.

Streets are drawn, so that nothing has to be downloaded. Run it: python docs/gallery/street.py [folder for the picture]
"""

import itertools
import sys
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.patches import Patch
from PIL import Image, ImageDraw, ImageFilter

import anytime as at

STREETS = 24
HEIGHT = 150
WIDTH = 210
COLOURS = {  # of the classes, in pictures of labels
    "sky": "#a9cdea", "house": "#b5654a", "road": "#6f6b78", "pavement": "#dccfae", "tree": "#4f8f4a", "car": "#3d4fa3",
}  # fmt: skip
CLASSES = list(COLOURS)


class Street:
    """A picture and its labels, drawn side by side: a camera looks along a street of houses, trees and cars."""

    def __init__(self, seed):
        self.random = random = np.random.default_rng(seed)
        size = (2 * WIDTH, 2 * HEIGHT)  # drawn at twice the final resolution
        self.picture, self.labels = Image.new("RGB", size), Image.new("L", size)
        self.brushes = ImageDraw.Draw(self.picture), ImageDraw.Draw(self.labels)
        self.vanishing = np.array([WIDTH * random.uniform(0.7, 1.3), 2 * HEIGHT * random.uniform(0.42, 0.52)])
        self.scale = 2 * HEIGHT - self.vanishing[1]
        self.light = random.uniform(0.8, 1.1)

    def place(self, side, height, ahead):
        """Where a point is seen: to the right, above ground and ahead, all in heights of the camera."""
        return tuple(self.vanishing + np.array([side, 1.0 - height]) * self.scale / ahead)

    def fill(self, label, colour, corners):
        """A shape, given its corners."""
        lit = tuple(int(c) for c in np.clip(self.light * np.asarray(colour), 0, 255))
        for brush, ink in zip(self.brushes, (lit, CLASSES.index(label)), strict=True):
            brush.polygon([self.place(*corner) for corner in corners], fill=ink)

    def disc(self, label, colour, centre, radius):
        """A disc that faces the camera."""
        (x, y), r = self.place(*centre), radius * self.scale / centre[2]
        lit = tuple(int(c) for c in np.clip(self.light * np.asarray(colour), 0, 255))
        for brush, ink in zip(self.brushes, (lit, CLASSES.index(label)), strict=True):
            brush.ellipse([x - r, y - r, x + r, y + r], fill=ink)

    def ground(self, label, colour, left, right, far=9.0, near=0.6):
        """A strip that lies flat."""
        self.fill(label, colour, [(left, 0, far), (right, 0, far), (right, 0, near), (left, 0, near)])

    def front(self, label, colour, left, right, low, high, ahead):
        """A rectangle that faces the camera."""
        self.fill(
            label,
            colour,
            [(left, low, ahead), (left, high, ahead), (right, high, ahead), (right, low, ahead)],
        )

    def wall(self, label, colour, side, low, high, far, near):
        """A rectangle along the street."""
        self.fill(label, colour, [(side, low, far), (side, high, far), (side, high, near), (side, low, near)])

    def sky(self):
        """From blue to the haze of the evening, with some clouds."""
        dusk = self.random.random()
        top, low = np.array([98, 144, 206 - 30 * dusk]), np.array([208 + 30 * dusk, 214, 226 - 45 * dusk])
        for y in range(2 * HEIGHT):
            colour = top + min(1.0, y / self.vanishing[1]) * (low - top)
            self.brushes[0].line([(0, y), (2 * WIDTH, y)], fill=tuple(int(c) for c in colour))
        for _ in range(self.random.integers(0, 4)):
            cloud = np.array([self.random.uniform(-6, 6), self.random.uniform(2, 5)])
            for _ in range(14):
                puff = cloud + self.random.normal(0, [0.9, 0.15])
                self.disc("sky", [228, 231, 236], (*puff, 5.0), self.random.uniform(0.15, 0.5))

    def house(self, side, far, near):
        """A front with windows."""
        storeys = self.random.integers(2, 5)
        walls = np.array([[176, 112, 88], [198, 176, 144], [164, 156, 150], [152, 92, 80], [206, 196, 176]])
        wall = (walls[self.random.integers(5)] + self.random.normal(0, 8)) * (0.8 if side < 0 else 1.0)
        top = 0.3 + 1.25 * storeys
        self.wall("house", wall, side, 0.0, top, far, near)
        self.wall("house", 0.6 * wall, side, top - 0.12, top + 0.12, far, near)  # the eaves
        panes = max(1, round(1.5 * (far - near)))
        for storey in range(storeys):
            for k in range(panes):
                left, right = (far + (near - far) * (k + part) / panes for part in (0.28, 0.72))
                low, glass = 0.5 + 1.25 * storey, np.array([72, 84, 100]) + self.random.normal(0, 12)
                self.wall("house", 1.15 * wall, side, low - 0.06, low + 0.76, left + 0.03, right - 0.03)
                self.wall("house", glass, side, low, low + 0.7, left, right)

    def tree(self, side, ahead):
        """A trunk and a crown of many leaves, lit from above."""
        self.front("tree", [86, 68, 54], side - 0.07, side + 0.07, 0.0, 2.0, ahead)
        green = np.array([74, 112, 54]) + self.random.normal(0, [12, 8, 6])
        for offset in self.random.normal(0, [0.3, 0.32], (160, 2)):
            shade = green + (30 * offset[1] - 18 * offset[0] + self.random.normal(0, 9)) * np.array(
                [1.0, 1.2, 0.6]
            )
            self.disc(
                "tree", shade, (side + offset[0], 2.2 + offset[1], ahead), self.random.uniform(0.05, 0.13)
            )

    def car(self, side, ahead):
        """A car from behind, and its shadow."""
        paints = np.array([[178, 48, 46], [52, 78, 140], [206, 206, 208], [58, 60, 66], [200, 164, 64]])
        paint = paints[self.random.integers(5)]
        self.ground("road", [58, 58, 62], side - 0.55, side + 0.55, ahead + 0.2, ahead - 0.1)  # its shadow
        for left in (-0.42, 0.26):
            self.front("car", [26, 26, 28], side + left, side + left + 0.16, 0.0, 0.2, ahead)
        self.front("car", paint, side - 0.46, side + 0.46, 0.1, 0.54, ahead)
        self.front("car", 0.85 * paint, side - 0.37, side + 0.37, 0.5, 0.9, ahead)
        self.front("car", [64, 76, 90], side - 0.3, side + 0.3, 0.56, 0.84, ahead)
        for left in (-0.44, 0.32):
            self.front("car", [216, 66, 50], side + left, side + left + 0.12, 0.34, 0.44, ahead)

    def drawn(self):
        """The picture, and its labels."""
        random = self.random
        self.sky()
        road = np.array([104, 103, 108]) + random.normal(0, 6)
        self.ground("pavement", np.array([160, 152, 140]) + random.normal(0, 7), -2.6, 2.6)
        self.ground("road", road, -1.35, 1.35)
        for ahead in np.arange(1.0, 8.0, 0.9):
            self.ground("road", 1.6 * road, -0.03, 0.03, ahead + 0.45, ahead)
        for side in (-2.6, 2.6):
            corners = [9.0, *np.sort(random.uniform(0.9, 8.0, 5))[::-1], 0.3]
            for far, near in itertools.pairwise(corners):
                self.house(side, far, near)
        things = [(self.tree, side, ahead) for side in (-1.95, 1.95) for ahead in random.uniform(1.1, 6.0, 2)]
        things += [(self.car, random.choice([-0.75, 0.72]), ahead) for ahead in random.uniform(1.0, 5.0, 3)]
        for thing, side, ahead in sorted(things, key=lambda one: -one[2]):
            thing(side, ahead)
        soft = self.picture.filter(ImageFilter.GaussianBlur(1.2)).resize(
            (WIDTH, HEIGHT), Image.Resampling.BOX
        )
        grain = random.normal(0, 4.0, (HEIGHT, WIDTH, 1)) + random.normal(0, 2.0, (HEIGHT, WIDTH, 3))
        labels = np.asarray(self.labels.resize((WIDTH, HEIGHT), Image.Resampling.NEAREST))
        return np.clip(np.asarray(soft) + grain, 0, 255).astype(np.uint8), np.array(CLASSES)[labels]


pictures, maps = zip(*[Street(seed).drawn() for seed in range(STREETS)], strict=True)
prices = {  # milliseconds per picture, measured once (costs=None measures them) and fixed for reproducibility
    "segments": 4.0, "shape": 0.3, "colour": 0.5, "texture": 0.7, "patterns": 0.5, "edges": 0.4,
    "colour code": 0.02, "texture code": 0.025, "patterns code": 0.025, "edges code": 0.06,
}  # fmt: skip
began = time.monotonic()
model = at.SceneParser(
    costs=prices,
    descriptors=("colour", "texture", "patterns", "edges"),
    n_centres=20,
    levels=(0, 2, 4, 6),
    thresholds=(0.1, 0.3, 0.5),  # stages work where labels are uncertain, at first everywhere
    max_stages=32,
    trees_per_stage=1,
    learning_rate=0.5,
    max_leaf_nodes=12,
    max_samples=5000,
    tried_candidates=8,
    folds=2,
    random_state=0,
).fit(pictures, maps)
print(f"trained on {len(pictures)} streets in {time.monotonic() - began:.0f} s: {model.n_stages_} stages")

new, truths = zip(*[Street(seed).drawn() for seed in range(1000, 1010)], strict=True)
first, last = at.curve(model, list(new), list(truths)).values[[1, -1]]
print(
    f"{len(new)} new streets: {first:.1%} of the pixels are right after the first stage, {last:.1%} in the end"
)

picture, truth = new[0], truths[0]
moments, began = [], time.process_time()
for answer in model.stages([picture]):
    moments.append((answer.prediction[0], 1e3 * (time.process_time() - began)))
selected = list(at.structured.selected_pixels(model, picture))
stages = [1, 3, 7, 9, 11, model.n_stages_]


def coloured(labels):
    """A label map in colours."""
    colours = np.array([to_rgb(COLOURS[name]) for name in CLASSES])
    return colours[np.select([labels == name for name in CLASSES], range(len(CLASSES)))]


figure = plt.figure(figsize=(12, 7), layout="constrained")
above, below = figure.subfigures(2, 1, height_ratios=[1.1, 1])
left, middle, right = above.subplots(1, 3)
for axes, image, title in ((left, picture, "a new street"), (middle, coloured(truth), "what is there")):
    axes.imshow(image)
    axes.set_title(title)
    axes.set_axis_off()
share = [np.mean(labels == truth) for labels, _ in moments]
right.step([ms for _, ms in moments], share, where="post", color="#333a56")
right.plot([moments[t][1] for t in stages], [share[t] for t in stages], "o", color="#e0475b")
right.set(
    xlabel="milliseconds of one core",
    ylim=(0.3, 1),
    title="share of the pixels that are right",
    box_aspect=HEIGHT / WIDTH,
)
right.grid(alpha=0.3)
right.legend(handles=[Patch(color=COLOURS[name], label=name) for name in CLASSES], ncols=2, loc="lower right")
for (upper, lower), t in zip(below.subplots(2, 6).T, stages, strict=True):
    labels, ms = moments[t]
    upper.imshow(coloured(labels))
    upper.set_title(f"stage {t}, {ms:.0f} ms", fontsize=10)
    lower.imshow(np.where(selected[t - 1][:, :, None], picture, 0.2 * picture + 190).astype(np.uint8))
    lower.set_title(f"looked at {selected[t - 1].mean():.0%} of it", fontsize=10)
    upper.set_axis_off()
    lower.set_axis_off()
folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
figure.savefig(folder / "street.png", dpi=84)
