"""Well-known images from files of yours: MNIST, Fashion-MNIST and CIFAR-10, in their official parts."""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from anytime.datasets.sources import DataFolder, reading

Part = Literal["train", "test"]
Images = NDArray[np.uint8]


def load_images(
    name: str, part: Part = "train", *, folder: str | Path | None = None
) -> tuple[Images, NDArray[np.int64]]:
    """Load images and labels of a well-known set, from files that do not come with the package.

    ======================  ==========================  ==============  =====================================================
    name                    rows                        shape           files in the folder
    ======================  ==========================  ==============  =====================================================
    ``"mnist"``             60,000 train, 10,000 test   (1, 28, 28)     ``mnist/train-images-idx3-ubyte``, as published
    ``"fashion-mnist"``     60,000 train, 10,000 test   (1, 28, 28)     ``fashion-mnist/train-images-idx3-ubyte``, as published
    ``"cifar10"``           50,000 train, 10,000 test   (3, 32, 32)     ``cifar10/data_batch_1.webp``: a sheet of 100 x 100
                                                                        images without loss, and ``data_batch_1.labels.u8``
    ======================  ==========================  ==============  =====================================================

    Parameters
    ----------
    name : {"mnist", "fashion-mnist", "cifar10"}
    part : {"train", "test"}, default="train"
        Official part; the order of rows is the official one.
    folder : path, default=None
        Folder of the files. None: the one that the environment variable ``ANYTIME_DATA`` names. Files may be compressed
        (``.gz``).

    Returns
    -------
    images : (n, channels, height, width) uint8
    labels : (n,) int64

    Raises
    ------
    ValueError
        If there is no such set or part.
    DataNotFoundError
        If the folder or a file is missing.
    DataFormatError
        If a file is damaged or has the wrong contents.
    ImportError
        If Pillow, which reads CIFAR-10, is not installed.
    """
    key = str(name).lower().replace("_", "-")
    if key not in _SETS:
        raise ValueError(f"no image set is called {name!r}; use one of {', '.join(map(repr, _SETS))}")
    if part not in ("train", "test"):
        raise ValueError(f"part must be 'train' or 'test', not {part!r}")
    image_set = _SETS[key]
    source = DataFolder(key, image_set.origin, folder)
    read = _read_sheets if key == "cifar10" else _read_idx
    images, labels = read(source, key, part)
    with reading(source.path(f"{key}/{image_set.first[part]}")):
        rows = image_set.rows[part]
        if images.shape != (rows, *image_set.shape) or labels.shape != (rows,):
            raise ValueError(
                f"images of shape {images.shape} with {len(labels)} labels, instead of {rows} of each"
            )
        if labels.max() > 9:
            raise ValueError(f"the label {labels.max()}, instead of 0 to 9")
    return images, labels.astype(np.int64)


@dataclass(frozen=True)
class _ImageSet:
    origin: str
    shape: tuple[int, int, int]
    rows: dict[Part, int]
    first: dict[Part, str]  # the file that an error names


_IDX: dict[Part, str] = {"train": "train-images-idx3-ubyte", "test": "t10k-images-idx3-ubyte"}
_SHEETS: dict[Part, str] = {"train": "data_batch_1.webp", "test": "test_batch.webp"}
_SETS = {
    "mnist": _ImageSet("yann.lecun.com", (1, 28, 28), {"train": 60_000, "test": 10_000}, _IDX),
    "fashion-mnist": _ImageSet(
        "github.com/zalandoresearch", (1, 28, 28), {"train": 60_000, "test": 10_000}, _IDX
    ),
    "cifar10": _ImageSet(
        "www.cs.toronto.edu/~kriz/cifar.html, its batches as sheets of images",
        (3, 32, 32),
        {"train": 50_000, "test": 10_000},
        _SHEETS,
    ),
}


def _read_idx(folder: DataFolder, name: str, part: Part) -> tuple[Images, Images]:
    prefix = "train" if part == "train" else "t10k"
    images = idx(folder, f"{name}/{prefix}-images-idx3-ubyte")
    return images[:, None], idx(folder, f"{name}/{prefix}-labels-idx1-ubyte")


def _read_sheets(folder: DataFolder, name: str, part: Part) -> tuple[Images, Images]:
    batches = ["test_batch"] if part == "test" else [f"data_batch_{k}" for k in range(1, 6)]
    parts = [_sheet(folder, f"{name}/{batch}.webp") for batch in batches]
    labels = [np.frombuffer(folder.read(f"{name}/{batch}.labels.u8"), np.uint8) for batch in batches]
    return np.concatenate(parts), np.concatenate(labels)


def _sheet(folder: DataFolder, file: str) -> Images:
    """(10000, 3, 32, 32) the images of a sheet of 100 rows and 100 columns."""
    contents = folder.read(file)
    try:
        from PIL import Image
    except ImportError:
        raise ImportError(f"{file} is a WebP image, which needs Pillow: pip install pillow") from None
    with reading(folder.path(file)):
        try:
            sheet = np.asarray(Image.open(io.BytesIO(contents)).convert("RGB"))
        except OSError as error:  # what Pillow raises about images that it cannot read
            raise ValueError(str(error)) from error
        return sheet.reshape(100, 32, 100, 32, 3).transpose(0, 2, 4, 1, 3).reshape(-1, 3, 32, 32)


def idx(folder: DataFolder, file: str) -> NDArray[np.uint8]:
    """The byte arrays of MNIST: two zeros, 8, the number of axes, the axes as big-endian integers, the bytes."""
    data = folder.read(file)
    with reading(folder.path(file)):
        if data[:3] != b"\0\0\x08":
            raise ValueError("it does not begin like an idx file of bytes")
        axes = data[3]
        shape = np.frombuffer(data, dtype=">i4", count=axes, offset=4)
        return np.frombuffer(data, dtype=np.uint8, offset=4 + 4 * axes).reshape(shape).copy()
