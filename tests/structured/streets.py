"""Small pictures of streets that tests of scene parsing share."""

import numpy as np

import anytime as at

COLOURS = np.array([[60, 90, 200], [90, 90, 95], [40, 140, 50]])
PRICES = {"segments": 20.0, "shape": 1.0, "colour": 5.0, "edges": 4.0, "edges code": 0.5, "colour code": 0.1}
CHEAP_CODES = {**PRICES, "shape": 300.0, "colour": 3.0, "edges": 1.0, "edges code": 0.1, "colour code": 0.1}


def street(seed, height=42, width=53):
    """A picture of sky, road and a block of trees, and its label map; some pixels have no label (9)."""
    rng = np.random.default_rng(seed)
    labels = np.zeros((height, width), dtype=int)
    labels[height * 3 // 5 :] = 1
    left = int(rng.integers(0, width // 2))
    labels[height // 4 : height * 3 // 5, left : left + width // 3] = 2
    picture = (
        COLOURS[labels]
        + rng.integers(-30, 31, (height, width, 1))
        + rng.integers(-12, 13, (height, width, 3))
    )
    labels[rng.random(labels.shape) < 0.05] = 9
    return np.clip(picture, 0, 255).astype(np.uint8), labels


def streets(n, first=0, **size):
    pictures, labels = zip(*(street(first + i, **size) for i in range(n)), strict=True)
    return list(pictures), list(labels)


def parser(**settings):
    return at.SceneParser(
        **{
            "costs": PRICES, "ignore_label": 9, "descriptors": ["colour", "edges"], "n_centres": 5, "levels": (0, 3, 6),
            "max_stages": 12, "min_samples_leaf": 2, "max_leaf_nodes": 8, "trees_per_stage": 1, "l2_regularization": 1.0,
            "learning_rate": 0.5, "random_state": 0, **settings,
        }
    )  # fmt: skip
