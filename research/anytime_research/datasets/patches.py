"""A detection task: few patches of images show the rear of a vehicle, most show something else, and some nearly the former.

It stands in for the private data of Grubb's and Bagnell's vehicle detector (*SpeedBoost*, 2012): one positive to five negatives,
Haar-like features from integral images, most negatives easy. Each feature costs 1, so that costs count features per patch.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anytime.costs import FeatureCosts
from anytime.datasets.dataset import Dataset

__all__ = ["Haar", "haar_features", "make_patches", "random_haar"]

Array = NDArray[np.float64]

_SIDE = 20  # pixels
_CHUNK = 4096  # patches that are painted together
_LAYOUTS: dict[str, tuple[tuple[int, ...], ...]] = {  # signs of the cells of each kind of feature
    "left-right": ((1, -1),),
    "top-bottom": ((1,), (-1,)),
    "middle column": ((1, -2, 1),),
    "middle row": ((1,), (-2,), (1,)),
    "checkers": ((1, -1), (-1, 1)),
}


class Haar(NamedTuple):
    """A Haar-like feature: neighbouring cells of equal size, summed with signs."""

    kind: Literal["left-right", "top-bottom", "middle column", "middle row", "checkers"]
    top: int
    left: int
    height: int  # of a cell
    width: int


def random_haar(n_features: int, side: int = _SIDE, *, random_state: int = 0) -> list[Haar]:
    """Features of all kinds at random places and sizes, no two the same.

    Parameters
    ----------
    n_features : int
    side : int, default=20
        Of a patch, in pixels.
    random_state : int, default=0

    Examples
    --------
    >>> random_haar(2)
    [Haar(kind='checkers', top=2, left=3, height=6, width=5), Haar(kind='left-right', top=3, left=15, height=2, width=1)]
    """
    rng = np.random.default_rng(random_state)
    kinds = list(_LAYOUTS)
    found: dict[Haar, None] = {}
    while len(found) < n_features:
        kind = kinds[rng.integers(len(kinds))]
        rows, columns = len(_LAYOUTS[kind]), len(_LAYOUTS[kind][0])
        height, width = (int(rng.integers(1, side // (2 * cells) * 2)) for cells in (rows, columns))
        top = int(rng.integers(side - rows * height + 1))
        left = int(rng.integers(side - columns * width + 1))
        found[Haar(kind, top, left, height, width)] = None  # type: ignore[arg-type]
    return list(found)


def haar_features(images: NDArray[np.floating], features: list[Haar]) -> Array:
    """(n, d) values of features of images (n, h, w), by integral images; brightness and contrast of an image do not matter.

    Examples
    --------
    >>> stripe = np.zeros((1, 4, 4))
    >>> stripe[:, :, 2:] = 1.0
    >>> haar_features(stripe, [Haar("left-right", 0, 0, 4, 2), Haar("top-bottom", 0, 0, 2, 4)])
    array([[-1.,  0.]])
    """
    images = np.asarray(images, dtype=np.float64)
    deviation = images.std(axis=(1, 2))
    # corners first: each lookup then reads one contiguous vector over the images
    integral = np.zeros((images.shape[1] + 1, images.shape[2] + 1, len(images)))
    integral[1:, 1:] = images.transpose(1, 2, 0).cumsum(axis=0).cumsum(axis=1)
    out = np.empty((len(images), len(features)))
    for j, (kind, top, left, height, width) in enumerate(features):
        signs = _LAYOUTS[kind]
        total = np.zeros(len(images))
        for r, row in enumerate(signs):
            for c, sign in enumerate(row):
                y, x = top + r * height, left + c * width
                total += sign * (
                    integral[y + height, x + width]
                    - integral[y, x + width]
                    - integral[y + height, x]
                    + integral[y, x]
                )
        out[:, j] = total / (height * width * sum(len(row) for row in signs))
    return out / np.where(deviation > 0, deviation, 1.0)[:, None]


def make_patches(
    n_samples: int = 6000,
    *,
    positive_share: float = 1 / 6,
    n_features: int = 200,
    random_state: int | None = 0,
) -> Dataset:
    """Patches of 20 x 20 pixels as Haar-like features, class 1 for the rear of a vehicle.

    Half of the negatives are smooth, a quarter are full of boxes and edges, and a quarter show a vehicle that is not where it
    should be, or a part of one.

    Parameters
    ----------
    n_samples : int, default=6000
    positive_share : float, default=1/6
        One to five.
    n_features : int, default=200
        The features are the same for every ``random_state``.
    random_state : int or None, default=0

    Examples
    --------
    >>> data = make_patches(600)
    >>> data.X.shape, int(data.y.sum()), data.costs.total
    ((600, 200), 100, 200.0)
    """
    if not 0 < positive_share < 1:
        raise ValueError(f"positive_share must lie between 0 and 1, not {positive_share}")
    rng = np.random.default_rng(random_state)
    y = rng.permutation(np.arange(n_samples) < round(positive_share * n_samples)).astype(np.intp)
    features = random_haar(n_features)
    X = np.empty((n_samples, n_features))
    for at in range(0, n_samples, _CHUNK):
        here = slice(at, at + _CHUNK)
        X[here] = haar_features(_patches(y[here], rng), features)
    return Dataset(
        X,
        y,
        FeatureCosts(np.ones(n_features), unit="features"),
        name="patches",
        feature_names=tuple(f"{f.kind} {f.top},{f.left} {f.height}x{f.width}" for f in features),
        target_names=("other", "vehicle"),
    )


# ---------------------------------------------------------------------- painting


def _patches(y: NDArray[np.intp], rng: np.random.Generator) -> Array:
    """(n, 20, 20) patches of the classes ``y``."""
    n = y.size
    kind = np.where(y == 1, 3, rng.choice(3, size=n, p=[0.5, 0.25, 0.25]))  # smooth, boxes, nearly, vehicle
    images = _background(n, rng)
    boxes = np.flatnonzero(kind == 1)
    for _ in range(4):
        height, width = rng.uniform(2, 14, (2, boxes.size))
        top, left = rng.uniform(-3, _SIDE - 3, (2, boxes.size))
        _paint(images, boxes, top, left, height, width, rng.normal(0.0, 0.35, boxes.size))
    _vehicles(images, np.flatnonzero(kind == 3), rng, astray=False)
    _vehicles(images, np.flatnonzero(kind == 2), rng, astray=True)
    return images + rng.normal(0.0, 0.07, images.shape)


def _background(n: int, rng: np.random.Generator) -> Array:
    """Noise of several coarsenesses on a slope."""
    from scipy import ndimage  # only where patches are made: loading data sets is to be quick

    images = np.empty((n, _SIDE, _SIDE))
    for k, coarseness in enumerate((1.0, 2.0, 4.0)):
        part = slice(k * n // 3, (k + 1) * n // 3)
        noise = rng.normal(size=images[part].shape)
        smooth = ndimage.gaussian_filter(noise, (0.0, coarseness, coarseness))
        images[part] = 0.2 * smooth / smooth.std() if smooth.size else smooth
    line = np.linspace(-0.5, 0.5, _SIDE)
    slope = rng.normal(0.0, 0.25, (2, n, 1, 1))
    return np.asarray(images[rng.permutation(n)] + slope[0] * line[:, None] + slope[1] * line)


def _vehicles(images: Array, rows: NDArray[np.intp], rng: np.random.Generator, *, astray: bool) -> None:
    """A body with a window, two lights and a shadow under it; ``astray``: elsewhere, of another size, or lacking some of it."""
    n = rows.size
    size = rng.normal(1.0, 0.06, n)
    top, left = rng.normal(0.0, 0.7, (2, n))
    lacks = np.zeros((3, n), dtype=bool)
    if astray:
        away = rng.choice(3, n)
        angle = rng.uniform(0, 2 * np.pi, n)
        far = np.where(away == 0, rng.uniform(3, 7, n), 0.0)
        top, left = top + far * np.sin(angle), left + far * np.cos(angle)
        size = np.where(away == 1, rng.choice([0.55, 1.6], n), size)
        lacks = (rng.random((3, n)) < 0.7) & (away == 2)
    contrast = rng.uniform(0.5, 1.2, n)
    middle = _SIDE / 2

    def part(y: float, x: float, height: float, width: float, shade: Array) -> None:
        down, across = middle + (y - middle) * size + top, middle + (x - middle) * size + left
        _paint(images, rows, down, across, height * size, width * size, shade * contrast)

    part(5, 4, 10, 12, rng.normal(0.0, 0.3, n))  # the body, of any colour
    part(6, 6, 3.5, 8, np.where(lacks[0], 0.0, rng.normal(-0.35, 0.15, n)))  # its window
    for x in (4.5, 13.0):
        part(10.5, x, 2, 2.5, np.where(lacks[1], 0.0, rng.normal(0.4, 0.15, n)))  # lights
    part(15, 3.5, 2.5, 13, np.where(lacks[2], 0.0, rng.normal(-0.6, 0.15, n)))  # the shadow


def _paint(
    images: Array, rows: NDArray[np.intp], top: Array, left: Array, height: Array, width: Array, shade: Array
) -> None:
    """Add a box of a shade to each of some images; pixels that it covers in part take a part of it."""
    line = np.arange(_SIDE)[None, :]
    down, across = (
        np.clip(np.minimum(line + 1, (begin + size)[:, None]) - np.maximum(line, begin[:, None]), 0.0, 1.0)
        for begin, size in ((top, height), (left, width))
    )
    images[rows] += shade[:, None, None] * down[:, :, None] * across[:, None, :]
