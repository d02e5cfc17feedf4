"""Figure 6.6 of Grubb's thesis on a painted scene: where in an image a detector with filters works, and where a cascade does.

A scene of 120 x 240 pixels shows six vehicles and sixty boxes on a smooth ground, painted like the patches of ``make_patches``,
from which both detectors learn. Every window of 20 x 20 pixels is judged by 200 Haar-like features of price 1. The maps show the
number of features that were computed around each pixel, and the probability of a vehicle there, when 7, 14, 21 and 28 features
per window have been spent on average, the steps of the thesis. The thesis says of its image that the work of the cascade is still
spread over the whole image, so that its map is flat. What is counted: how much more a window at a vehicle gets than the others.
A cascade decides at the ends of its layers; before the end of the first, its map shows nothing.

    python benchmarks/detection_pictures.py [--scenes 3] [--rows 10000] [--stages 600]
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from scipy import ndimage

from anytime_research.datasets import haar_features, make_patches, random_haar
from anytime_research.datasets import patches as painting
from common import write
from filters import contestants

Array = NDArray[np.float64]
HIGH, WIDE, SIDE = 120, 240, 20
VEHICLES, BOXES = 6, 60
SPENT = (7, 14, 21, 28)
NEAR = 2  # pixels from a vehicle's place: such a window shows the vehicle
CELL = 3  # windows per side of a cell of the maps that are kept
LEVELS = "0123456789abcdefghijklmnopqrstuvwxyz"
DETECTORS = ("filtered", "cascade")


def scene(seed: int) -> tuple[Array, NDArray[np.bool_]]:
    """(H, W) pixels, and which windows show a vehicle."""
    rng = np.random.default_rng([66, seed])
    smooth = ndimage.gaussian_filter(rng.normal(size=(HIGH, WIDE)), 4.0)
    picture = 0.2 * smooth / smooth.std()
    for _ in range(BOXES):
        top, left = rng.integers(0, (HIGH - 14, WIDE - 14))
        height, width = rng.integers(2, 14, 2)
        picture[top : top + height, left : left + width] += rng.normal(0.0, 0.35)
    shows = np.zeros((HIGH - SIDE + 1, WIDE - SIDE + 1), dtype=bool)
    lanes = np.linspace(0, WIDE, VEHICLES + 1).astype(int)
    for first, last in pairwise(lanes):  # so that vehicles do not overlap
        top, left = rng.integers(0, HIGH - SIDE), rng.integers(first, last - SIDE)
        patch = picture[None, top : top + SIDE, left : left + SIDE].copy()
        painting._vehicles(patch, np.zeros(1, dtype=np.intp), rng, astray=False)
        picture[top : top + SIDE, left : left + SIDE] = patch[0]
        shows[max(top - NEAR, 0) : top + NEAR + 1, max(left - NEAR, 0) : left + NEAR + 1] = True
    return picture + rng.normal(0.0, 0.07, picture.shape), shows


def windows(picture: Array) -> Array:
    """Features of all windows, row by row."""
    views = sliding_window_view(picture, (SIDE, SIDE))
    return haar_features(views.reshape(-1, SIDE, SIDE), random_haar(200))


def followed(model: Any, X: Array) -> dict[int, tuple[Array, Array]]:
    """Features computed for each window and its probability of a vehicle, after each mean number of features."""
    found: dict[int, tuple[Array, Array]] = {}
    for answer in model.stages(X):
        for mean in SPENT:
            if answer.cost.mean() <= mean:
                found[mean] = answer.cost.copy(), 1 / (1 + np.exp(-2 * answer.scores[:, 0]))
    return found


def measures(cost: Array, shows: NDArray[np.bool_]) -> dict[str, float]:
    """How unevenly work is spread over the windows."""
    ordered = np.sort(cost)[::-1]
    return {
        "mean": round(float(cost.mean()), 3),
        "at vehicles over elsewhere": round(float(cost[shows].mean() / max(cost[~shows].mean(), 1e-9)), 3),
        "deviation over mean": round(float(cost.std() / max(cost.mean(), 1e-9)), 3),
        "share of the work on a tenth of the windows": round(
            float(ordered[: len(cost) // 10].sum() / max(cost.sum(), 1e-9)), 3
        ),
    }


def coarse(values: Array, shape: tuple[int, int], most: float) -> list[str]:
    """A map as rows of digits (base 36) from 0 to ``most``, a digit per cell of windows."""
    high, wide = (n // CELL for n in shape)
    cells = (
        values.reshape(shape)[: high * CELL, : wide * CELL].reshape(high, CELL, wide, CELL).mean(axis=(1, 3))
    )
    levels = np.clip(np.round(35 * cells / most), 0, 35).astype(int)
    return ["".join(LEVELS[level] for level in row) for row in levels]


def main() -> None:
    """All scenes; maps of the first."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scenes", type=int, default=3)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--stages", type=int, default=600)
    options = parser.parse_args()
    X, y, _ = make_patches(options.rows, random_state=0)
    made = contestants(options.stages, 0)
    models = {name: made[name].fit(X, y) for name in DETECTORS}
    runs: dict[str, list[dict[str, Any]]] = {name: [] for name in DETECTORS}
    maps: dict[str, Any] = {}
    for seed in range(options.scenes):
        picture, shows = scene(seed)
        Z = windows(picture)
        for name, model in models.items():
            found = followed(model, Z)
            runs[name].append({str(mean): measures(cost, shows.ravel()) for mean, (cost, _) in found.items()})
            if seed == 0:
                maps[name] = {
                    "work": {str(m): coarse(cost, shows.shape, 4 * m) for m, (cost, _) in found.items()},
                    "vehicle": {str(m): coarse(p, shows.shape, 1.0) for m, (_, p) in found.items()},
                }
        if seed == 0:
            shade = picture[SIDE // 2 :, SIDE // 2 :][: shows.shape[0], : shows.shape[1]]
            maps["scene"] = coarse(shade - shade.min(), shows.shape, float(np.ptp(shade)))
    keys = list(next(iter(runs["filtered"][0].values())))
    mean = {
        name: {
            str(m): {key: round(float(np.mean([run[str(m)][key] for run in found])), 3) for key in keys}
            for m in SPENT
        }
        for name, found in runs.items()
    }
    write(
        "detection_pictures",
        {
            "scenes": options.scenes,
            "windows": [HIGH - SIDE + 1, WIDE - SIDE + 1],
            "spent": SPENT,
            "mean": mean,
            "runs": runs,
            "maps of the first scene": maps,
        },
    )


if __name__ == "__main__":
    main()
