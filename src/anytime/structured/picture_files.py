"""Picture files and label maps as files: what a camera, a browser or a folder has, read with Pillow within limits."""

from __future__ import annotations

import colorsys
import io
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.structured.pictures import MOST_PIXELS

__all__ = ["FORMATS", "label_colours", "label_png", "opened_picture"]

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF")  # that are read; of a film the first picture
_MODES = ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "RGBX", "CMYK", "YCbCr")
_COLOURS = (  # told apart on white and on black; more are made by turning the hue
    "#4e79a7", "#e15759", "#59a14f", "#f28e2b", "#b07aa1", "#76b7b2", "#edc948", "#9c755f",
    "#ff9da7", "#8a8f98", "#2f6f5e", "#d37295", "#6b5fb5", "#a0c35a", "#3fa7d6", "#8c564b",
)  # fmt: skip
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


def label_colours(n_classes: int) -> list[str]:
    """A colour for each class, as ``#rrggbb``.

    Examples
    --------
    >>> label_colours(2)
    ['#4e79a7', '#e15759']
    """
    turned = []
    for i in range(len(_COLOURS), n_classes):
        parts = colorsys.hsv_to_rgb(0.618034 * i % 1.0, 0.45 + 0.2 * (i % 3), 0.85 - 0.2 * (i % 2))
        turned.append("#" + "".join(f"{round(255 * part):02x}" for part in parts))
    return [*_COLOURS, *turned][:n_classes]


def label_png(codes: NDArray[Any], n_classes: int) -> bytes:
    """A label map as a PNG file: the value of a pixel is the number of its class, and the palette gives each class a colour.

    With more than 256 classes it is a grey picture of 16 bits, without a palette.

    Parameters
    ----------
    codes : (h, w) int
        Numbers of classes.
    """
    from PIL import Image

    if n_classes > _IN_A_BYTE:
        image = Image.fromarray(codes.astype(np.uint16))
    else:
        image = Image.fromarray(codes.astype(np.uint8))
        image.putpalette(b"".join(bytes.fromhex(colour[1:]) for colour in label_colours(n_classes)))
    out = io.BytesIO()
    image.save(out, "PNG", compress_level=3)
    return out.getvalue()
