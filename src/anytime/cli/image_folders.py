"""A folder of images as training data: one folder per class, as image sets are usually laid out."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.cli.errors import CliError
from anytime.cli.tables import track

_SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif")


def read_image_folder(path: Path, size: int | None = None) -> tuple[NDArray[np.uint8], NDArray[Any]]:
    """Images (n, channels, height, width) from ``path/CLASS/FILE``, and their classes (n,), the names of the folders.

    There is one channel where all images are grey, otherwise three. Height and width are brought to ``size`` pixels; None: all
    images have to be of one size.
    """
    files = list(_files(path))
    names = {name for name, _ in files}
    if len(names) < 2:
        raise CliError(
            f"{path}: needs a folder of images for each of two classes or more, but has {len(names)}"
        )
    images: list[NDArray[np.uint8]] = []
    for _, file in track(files, f"reading {path}"):
        image = _image(file, size)
        if images and image.shape != images[0].shape:
            height, width = image.shape[1:]
            raise CliError(
                f"{file} has {height} x {width} pixels, but {files[0][1]} has {images[0].shape[1]} x {images[0].shape[2]}: "
                "--size brings all to one size"
            )
        images.append(image)
    together = np.stack(images)
    grey = (together[:, :1] == together).all()
    return together[:, :1] if grey else together, np.array([name for name, _ in files])


def _files(path: Path) -> Iterator[tuple[str, Path]]:
    """Class and path of each image, in the order of names."""
    for folder in sorted(child for child in path.iterdir() if child.is_dir()):
        for file in sorted(folder.iterdir()):
            if file.suffix.lower() in _SUFFIXES:
                yield folder.name, file


def _image(file: Path, size: int | None) -> NDArray[np.uint8]:
    """(3, height, width) bytes."""
    from anytime.structured.picture_files import opened_picture

    try:
        pixels = opened_picture(file.read_bytes(), str(file))
    except ValueError as error:
        raise CliError(str(error)) from None
    if size is not None and pixels.shape[:2] != (size, size):
        from PIL import Image

        pixels = np.asarray(Image.fromarray(pixels).resize((size, size), Image.Resampling.BILINEAR))
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))
