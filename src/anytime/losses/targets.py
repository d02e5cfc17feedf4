"""Targets as losses read them."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Target = NDArray[np.generic]


def columns(scores: Array, y: Target) -> Array:
    """Targets as (n, K)."""
    return np.reshape(np.asarray(y, dtype=np.float64), (len(scores), -1))


def positive(y: Target) -> NDArray[np.bool_]:
    """(n,) Whether a row is of the second of two classes, coded 0 and 1 or -1 and 1."""
    return np.asarray(np.asarray(y, dtype=np.float64) > 0)


def signs(y: Target) -> Array:
    """(n, 1) The two classes as -1 and 1."""
    return np.where(positive(y), 1.0, -1.0)[:, None]


def classes(y: Target) -> NDArray[np.intp]:
    """(n,) Numbers of classes."""
    return np.asarray(y, dtype=np.intp)


def of_truth(values: Array, y: Target) -> Array:
    """(n,) The entry of ``values`` (n, K) in the column of each row's class."""
    return np.asarray(values[np.arange(len(values)), classes(y)])


def less_truth(values: Array, y: Target) -> Array:
    """``values`` (n, K), changed in place: minus 1 in the column of each row's class."""
    values[np.arange(len(values)), classes(y)] -= 1.0
    return values


def means(y: Target, n_outputs: int, weight: Array) -> Array:
    """(K,) Weighted means of the targets."""
    numbers = np.reshape(np.asarray(y, dtype=np.float64), (len(y), n_outputs))
    mean = weight @ numbers
    return np.asarray(mean + weight @ (numbers - mean))  # exact where all are equal


def shares(y: Target, n_outputs: int, weight: Array) -> Array:
    """(K,) The weight of each class."""
    return np.bincount(classes(y), weights=weight, minlength=n_outputs).astype(np.float64)


def share_of_positives(y: Target, weight: Array) -> Array:
    """(1,) The weight of the second class."""
    return np.asarray(weight @ positive(y)[:, None])


def inside(shares: Array, weight: Array) -> Array:
    """Shares at least half a row away from 0 and 1."""
    return np.clip(shares, 0.5 / weight.size, 1.0 - 0.5 / weight.size)


def logit(shares: Array) -> Array:
    """Log-odds."""
    return np.asarray(np.log(shares) - np.log1p(-shares))


def centred(values: Array) -> Array:
    """Values less their mean."""
    return np.asarray(values - values.mean())
