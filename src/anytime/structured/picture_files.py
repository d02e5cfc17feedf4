"""Picture files and label maps as files: what a camera, a browser or a folder has, read with Pillow within limits."""

from __future__ import annotations

import colorsys
import io
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.structured.pictures import MOST_PIXELS

__all__ = ["FORMATS", "label_colours", "label_png", "opened_picture"]

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF")  # that are read; of a film the first picture
_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr")
_COLOURS = (  # distinguishable on white and on black; further ones come from turning the hue
    "#4e79a7", "#e15759", "#59a14f", "#f28e2b", "#b07aa1", "#76b7b2", "#edc948", "#9c755f",
    "#ff9da7", "#8a8f98", "#2f6f5e", "#d37295", "#6b5fb5", "#a0c35a", "#3fa7d6", "#8c564b",
)  # fmt: skip
_USUAL = {  # colours that people expect of what is often labelled
    "sky": "#9cc3e6", "building": "#b5654a", "house": "#b5654a", "road": "#6f6b78", "pavement": "#d9caa6", "sidewalk": "#d9caa6",
    "tree": "#4f8f4a", "vegetation": "#4f8f4a", "grass": "#86b65a", "car": "#3d4fa3",
    "pedestrian": "#e0475b", "person": "#e0475b",
    "bicyclist": "#e08a2e", "rider": "#e08a2e", "sign": "#e6c72f", "pole": "#8f9aa3", "fence": "#8a5a83", "water": "#3f7fbf",
    "background": "#c9cdd2",
}  # fmt: skip
_IN_A_BYTE = 256


def opened_picture(
    data: bytes, name: str = "the picture", most_pixels: int = MOST_PIXELS
) -> NDArray[np.uint8]:
    """A picture file as (h, w, 3) bytes, turned as its camera says.

    Parameters
    ----------
    data : bytes
        PNG, JPEG, WebP, BMP or GIF.
    name : str, default="the picture"
        What messages call it.
    most_pixels : int, default=16777216
        Larger pictures are refused before they are unpacked.

    Raises
    ------
    ValueError
        The bytes are no picture, are cut off, have too many pixels, or more than 8 bits per channel.
    """
    from PIL import Image, ImageOps

    unreadable = f"{name} is no picture that can be read ({', '.join(FORMATS)}), or it is cut off"
    try:
        image = Image.open(io.BytesIO(data), formats=FORMATS)
    except Exception as error:  # Pillow's readers raise what their formats make them raise
        raise ValueError(unreadable) from error
    width, height = image.size
    if width * height > most_pixels:
        raise ValueError(
            f"{name} has {height} x {width} pixels; the most are {most_pixels}: make it smaller first"
        )
    if image.mode not in _MODES:
        raise ValueError(f"{name} has mode {image.mode}; save it with 8 bits per channel, in colour or grey")
    try:
        return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    except Exception as error:
        raise ValueError(unreadable) from error


def label_colours(classes: Iterable[Any]) -> list[str]:
    """A colour for each class, as ``#rrggbb``: the usual one of a well-known name, else one that no other class has.

    Examples
    --------
    >>> label_colours(["dog", "sky"]), label_colours(range(2))
    (['#4e79a7', '#9cc3e6'], ['#4e79a7', '#e15759'])
    """
    others = _different_colours()
    return [_USUAL.get(str(name).lower()) or next(others) for name in classes]


def _different_colours() -> Iterator[str]:
    yield from _COLOURS
    for i in itertools.count(len(_COLOURS)):
        parts = colorsys.hsv_to_rgb(0.618034 * i % 1.0, 0.45 + 0.2 * (i % 3), 0.85 - 0.2 * (i % 2))
        yield "#" + "".join(f"{round(255 * part):02x}" for part in parts)


def label_png(codes: NDArray[Any], classes: Sequence[Any]) -> bytes:
    """A label map as a PNG file: the value of a pixel is the number of its class, and the palette gives each class a colour.

    With more than 256 classes it is a grey picture of 16 bits, without a palette.

    Parameters
    ----------
    codes : (h, w) int
        Numbers of classes.
    classes : sequence
        Their names.
    """
    from PIL import Image

    if len(classes) > _IN_A_BYTE:
        image = Image.fromarray(codes.astype(np.uint16))
    else:
        image = Image.fromarray(codes.astype(np.uint8))
        image.putpalette(b"".join(bytes.fromhex(colour[1:]) for colour in label_colours(classes)))
    out = io.BytesIO()
    image.save(out, "PNG", compress_level=3)
    return out.getvalue()
