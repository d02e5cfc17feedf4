"""Images whose feature groups are real computations: scikit-learn's digits, jittered, with eight extractors.

Use ``load_digit_images`` and ``image_extractors`` where prices are to be measured and features computed on demand, and
``load("digit_images")`` for the same features as a matrix with stored prices, where a result must not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anytime.costs import FeatureCosts
from anytime.datasets.dataset import Dataset

Extractor = Callable[[NDArray[np.float64]], NDArray[np.float64]]

# Milliseconds per image: medians over 300 images on one core of the machine this was written on, two digits kept.
STORED_MS = {
    "ink": 0.0043,
    "pixels": 0.0084,
    "edges": 0.073,
    "upright": 0.10,
    "upright edges": 0.17,
    "holes": 0.21,
    "waves": 0.44,
    "swept edges": 1.3,
}

_NOISE = 0.08  # standard deviation of the noise on pixels, whose values are from 0 to 1


class DigitImages(NamedTuple):
    """Raw images and labels with a split; ``images[i]`` is what an extractor takes."""

    images: NDArray[np.float64]
    y: NDArray[np.intp]
    train: NDArray[np.intp]
    valid: NDArray[np.intp]
    test: NDArray[np.intp]


def load_digit_images(*, random_state: int = 0) -> DigitImages:
    """1,797 grey images of 32 x 32, made from scikit-learn's 8 x 8 digits by moving, turning, scaling and noise.

    The disturbances make the task need more than pixels: what sets the digit upright costs time and pays.

    Parameters
    ----------
    random_state : int, default=0
        Decides the disturbances and the split into 1,197 train, 200 valid and 400 test.

    Examples
    --------
    >>> images, y, train, valid, test = load_digit_images()
    >>> images.shape, float(images.min()), float(images.max()), len(test)
    ((1797, 32, 32), 0.0, 1.0, 400)
    """
    from sklearn.datasets import load_digits

    bunch = load_digits()
    rng = np.random.default_rng(random_state)
    images = np.stack([_disturbed(small / 16.0, rng) for small in bunch.images])
    train, valid, test = np.split(rng.permutation(len(images)), [1197, 1397])
    return DigitImages(images, bunch.target.astype(np.intp), np.sort(train), np.sort(valid), np.sort(test))


def image_extractors() -> dict[str, Extractor]:
    """Named functions of one image, from the cheapest to the most expensive; each returns a vector of fixed length.

    Examples
    --------
    >>> extractors = image_extractors()
    >>> list(extractors)
    ['ink', 'pixels', 'edges', 'upright', 'upright edges', 'holes', 'waves', 'swept edges']
    >>> extractors["ink"](np.zeros((32, 32))).shape
    (9,)
    """
    from anytime.datasets import extractors

    return {function.__name__.replace("_", " "): function for function in extractors.ORDER}


def extract(
    images: NDArray[np.float64], extractors: Mapping[str, Extractor] | None = None
) -> tuple[NDArray[np.float64], dict[str, list[int]]]:
    """Compute all features of all images.

    Parameters
    ----------
    images : (n, 32, 32) array
    extractors : mapping from str to callable, default=None
        By default ``image_extractors()``.

    Returns
    -------
    X : (n, d) array
    groups : dict from str to list of int
        The columns of each extractor.

    Examples
    --------
    >>> X, groups = extract(np.zeros((2, 32, 32)))
    >>> X.shape, len(groups["pixels"])
    ((2, 819), 64)
    """
    chosen = image_extractors() if extractors is None else extractors
    blocks = [np.stack([function(image) for image in images]) for function in chosen.values()]
    ends = np.cumsum([block.shape[1] for block in blocks]).tolist()
    groups = {
        name: list(range(end - block.shape[1], end))
        for name, block, end in zip(chosen, blocks, ends, strict=True)
    }
    return np.hstack(blocks), groups


def digit_image_features() -> Dataset:
    """What ``load("digit_images")`` returns: all features, with the prices in ``STORED_MS``."""
    X, groups = _features()
    data = load_digit_images()
    return Dataset(
        X.copy(),
        data.y,
        FeatureCosts(STORED_MS, groups=groups, unit="ms"),
        feature_names=tuple(f"{name} {k}" for name, columns in groups.items() for k in range(len(columns))),
        target_names=tuple("0123456789"),
        train=data.train,
        valid=data.valid,
        test=data.test,
    )


@lru_cache(maxsize=1)
def _features() -> tuple[NDArray[np.float64], dict[str, list[int]]]:
    return extract(load_digit_images().images)


def _disturbed(small: NDArray[Any], rng: np.random.Generator) -> NDArray[np.float64]:
    """One 8 x 8 image, enlarged to 32 x 32 around a random place, turned, sheared, scaled, dimmed and made noisy."""
    from scipy import ndimage

    angle, scale, shear = (
        np.deg2rad(rng.uniform(-12, 12)),
        np.exp(rng.uniform(-0.1, 0.1)),
        rng.uniform(-0.1, 0.1),
    )
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    # the digit covers 26 of the 32 pixels
    matrix = turn @ np.array([[1.0, 0.0], [shear, 1.0]]) * (8 / 26 / scale)
    offset = np.full(2, 3.5) - matrix @ (np.full(2, 15.5) + rng.uniform(-2.5, 2.5, 2))
    large = np.clip(ndimage.affine_transform(small, matrix, offset, (32, 32), order=3), 0.0, 1.0)
    noisy = large * rng.uniform(0.7, 1.0) + rng.normal(0.0, _NOISE, (32, 32))
    return np.asarray(np.clip(noisy, 0.0, 1.0))
