"""Pictures and label maps as users have them, read and checked: one sentence says what is wrong, before anything is computed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["MOST_PIXELS", "LabelMaps", "read_label_maps", "read_picture", "read_pictures"]

MOST_PIXELS = 2**24  # of one picture: 4096 x 4096


def read_pictures(X: Any) -> list[NDArray[np.uint8]]:
    """Pictures of a list (or an array of pictures), each as (h, w, 3) bytes."""
    if not hasattr(X, "__len__"):
        raise ValueError(f"X is of type {type(X).__name__}: give a list of pictures, also for a single one")
    if isinstance(X, np.ndarray) and (X.ndim < 3 or (X.ndim == 3 and X.shape[2] in (3, 4))):
        raise ValueError(f"X is one array of shape {X.shape}: give a list of pictures, also for a single one")
    return [read_picture(picture, i) for i, picture in enumerate(X)]


def read_picture(picture: Any, number: int = 0) -> NDArray[np.uint8]:
    """A picture as (h, w, 3) bytes.

    Grey pictures, (h, w) or (h, w, 1), become three equal channels; a fourth channel (opacity) is left out. Numbers are bytes, or
    floats from 0 to 1.
    """
    array = np.asarray(picture)
    name = f"picture {number}"
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4):
        raise ValueError(
            f"{name} has shape {np.shape(picture)}: a picture is (height, width), or has 1, 3 or 4 channels as its last axis"
        )
    height, width = array.shape[:2]
    if height * width == 0:
        raise ValueError(f"{name} has no pixels: its shape is {np.shape(picture)}")
    if height * width > MOST_PIXELS:
        raise ValueError(
            f"{name} has {height} x {width} pixels; the most are {MOST_PIXELS}: make it smaller first"
        )
    array = array[:, :, :3]
    if array.dtype == np.uint8:
        pass
    elif array.dtype.kind == "f":
        if not (np.isfinite(array).all() and array.min() >= 0.0 and array.max() <= 1.0):
            raise ValueError(
                f"{name} holds floats that are not between 0 and 1; give those, or bytes from 0 to 255"
            )
        array = np.round(array * 255.0)
    elif array.dtype.kind == "b":
        array = array * np.uint8(255)
    elif array.dtype.kind not in "iu" or array.min() < 0 or array.max() > 255:
        raise ValueError(f"{name} holds {array.dtype} numbers that are not bytes from 0 to 255")
    # a copy in any case: the picture of a camera may be overwritten while it is worked on
    rgb = np.empty((height, width, 3), dtype=np.uint8)
    rgb[:] = array
    return rgb


class LabelMaps(NamedTuple):
    """Label maps as numbers of classes.

    Attributes
    ----------
    classes : (K,) array
    codes : list of (h, w) int
        The class of every pixel; -1: it has none.
    """

    classes: NDArray[Any]
    codes: list[NDArray[np.intp]]


def read_label_maps(
    y: Any, shapes: list[tuple[int, int]], ignore_label: Any, classes: NDArray[Any] | None = None
) -> LabelMaps:
    """Labels of all pixels, whole numbers or strings; ``classes``: those that there may be, or None to find them.

    Raises ``ValueError`` where maps do not fit the pictures, or hold a label that is not among the classes.
    """
    if len(y) != len(shapes):
        raise ValueError(f"X has {len(shapes)} pictures but y has {len(y)} label maps")
    maps = [np.asarray(labels) for labels in y]
    for i, (labels, shape) in enumerate(zip(maps, shapes, strict=True)):
        if labels.shape != shape:
            raise ValueError(
                f"picture {i} has {shape[0]} x {shape[1]} pixels, but its label map has shape {labels.shape}"
            )
        if labels.dtype.kind not in "iubU":
            raise ValueError(
                f"label map {i} holds {labels.dtype}; labels are whole numbers or strings, one per pixel"
            )
    if len({labels.dtype.kind == "U" for labels in maps}) > 1:
        raise ValueError("some label maps hold numbers and some strings: labels are all of one kind")
    by_map = [np.unique(labels) for labels in maps]
    if classes is None:
        labels_seen = np.unique(np.concatenate(by_map)) if by_map else np.empty(0)
        classes = labels_seen if ignore_label is None else labels_seen[labels_seen != ignore_label]
        if classes.size == 0:
            raise ValueError("no pixel has a label: there is nothing to learn from")
        if classes.size < 2:
            raise ValueError(f"all labels are {classes[0]!r}; a model needs at least two classes")
    codes = []
    for i, labels in enumerate(maps):
        place = np.minimum(np.searchsorted(classes, labels), classes.size - 1)
        there = np.ones(labels.shape, dtype=bool) if ignore_label is None else labels != ignore_label
        strange = there & (classes[place] != labels)
        if strange.any():
            raise ValueError(
                f"label map {i} holds {labels[strange][0]!r}, which is none of the {classes.size} classes; "
                f"ignore_label says which label stands for none"
            )
        codes.append(np.where(there, place, -1))
    return LabelMaps(classes, codes)
