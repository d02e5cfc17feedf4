"""Images as the rows of a plan: one after the other, channels first, in whatever order they come."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["ImageRows"]

_SCALED = 1.5  # numbers up to this in training: images that were divided by 255


class ImageRows:
    """Turns images of one size into rows of numbers.

    Parameters
    ----------
    shape : (channels, height, width)
    largest : float, default=inf
        The largest number met in training: whole numbers far beyond it were not scaled as those were.
    """

    def __init__(self, shape: tuple[int, ...], largest: float = np.inf) -> None:
        self.shape, self.largest = shape, largest

    def __call__(self, images: Any) -> NDArray[Any]:
        """(n, d) rows of several images, channels first, last or, where there is one channel, left out.

        Raises
        ------
        ValueError
            For another size, values that are no numbers, and whole numbers that were not scaled as in training.
        """
        try:
            pixels = np.asarray(images)
        except ValueError:
            raise ValueError("all images, and all lines of an image, must have the same size") from None
        channels, height, width = self.shape
        if pixels.ndim == 2 and pixels.shape[1] == channels * height * width:
            rows = pixels
        elif pixels.shape[1:] == self.shape or (channels == 1 and pixels.shape[1:] == (height, width)):
            rows = pixels.reshape(len(pixels), -1)
        elif pixels.shape[1:] == (height, width, channels):
            rows = pixels.transpose(0, 3, 1, 2).reshape(len(pixels), -1)
        else:
            raise ValueError(
                f"the network reads images of {channels} channels, {height} x {width}; X has shape {pixels.shape}"
            )
        if rows.dtype.kind not in "fiub":
            raise ValueError(f"images are numbers, not {rows.dtype}")
        if rows.dtype.kind == "f" and not np.isfinite(rows).all():
            raise ValueError("X holds NaN or infinity; images have to be complete")
        if rows.dtype.kind in "iu" and self.largest <= _SCALED and rows.size and rows.max() > 1:
            raise ValueError(
                f"the network was trained on numbers up to {self.largest:g}, and X holds whole numbers up to "
                f"{rows.max()}: scale them as in training, for instance X / 255"
            )
        return np.ascontiguousarray(rows)

    def one(self, image: Any) -> NDArray[Any]:
        """(1, d) the row of one image, which may stand in a batch of its own."""
        pixels = np.asarray(image)
        alone = pixels.ndim == 1 or pixels.shape in (
            self.shape,
            self.shape[1:],
            (*self.shape[1:], self.shape[0]),
        )
        return self(pixels[None] if alone else pixels)
