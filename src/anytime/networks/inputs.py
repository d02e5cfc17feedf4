"""Inputs of networks: tensors, data sets of torch, images in any order of channels."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

Array = NDArray[np.float64]

__all__ = ["as_array", "count_axes", "image_shape", "moments", "read_dataset"]

_CHANNELS = (1, 3, 4)  # of an image: grey, colours, colours with transparency


def as_array(X: Any) -> NDArray[Any]:
    """An array, of a tensor without its history."""
    return X.detach().cpu().numpy() if isinstance(X, torch.Tensor) else np.asarray(X)


def count_axes(X: Any) -> int:
    """How many axes ``X`` has, which may be a table, an array, a tensor or nested lists."""
    shape = getattr(X, "shape", None)
    return np.asarray(X).ndim if shape is None else len(shape)


def read_dataset(data: Any, estimator: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """All pairs of a torch data set, stacked."""
    if not (hasattr(data, "__getitem__") and hasattr(data, "__len__")) or hasattr(data, "shape"):
        raise ValueError(
            f"{estimator} requires y to be passed, but the target y is None; only a torch Dataset, which gives pairs of an "
            "input and its label, has its own"
        )
    pairs = [data[i] for i in range(len(data))]
    if not pairs or not isinstance(pairs[0], (tuple, list)) or len(pairs[0]) != 2:
        raise ValueError("a data set has to give pairs of an input and its label")
    inputs = np.stack([as_array(x) for x, _ in pairs])
    return inputs, np.array([label.item() if hasattr(label, "item") else label for _, label in pairs])


def image_shape(images: NDArray[Any]) -> tuple[int, int, int]:
    """Channels, height and width of images with channels first, last or left out."""
    if images.ndim == 3:
        return (1, int(images.shape[1]), int(images.shape[2]))
    if images.ndim != 4:
        raise ValueError(f"images have shape (n, channels, height, width); X has shape {images.shape}")
    _, a, b, c = (int(size) for size in images.shape)
    if a in _CHANNELS or c not in _CHANNELS:
        return (a, b, c)
    return (c, a, b)


def moments(rows: NDArray[Any], shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Means and deviations: of each column of a table, of each channel of images."""
    if len(shape) == 1:
        centre = np.nan_to_num(np.nanmean(rows, axis=0)) if len(rows) else np.zeros(shape)
        spread = np.nan_to_num(np.nanstd(rows, axis=0))
    else:
        some = rows[:: max(len(rows) // 5000, 1)].reshape(-1, *shape)
        centre, spread = (
            some.mean(axis=(0, 2, 3), dtype=np.float64),
            some.std(axis=(0, 2, 3), dtype=np.float64),
        )
    return centre, np.where(spread > 0, spread, 1.0)
