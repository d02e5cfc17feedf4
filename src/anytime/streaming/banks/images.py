"""Small convolutional networks: a window that is moved over an image, all learners stacked."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from anytime.streaming.banks.bank import StreamLearner
from anytime.streaming.banks.native import NativeBank
from anytime.streaming.banks.nets import NetBank


@dataclass(frozen=True)
class SmallConvNet(StreamLearner):
    """One convolution and a linear output, with an Adam step per round on the mean over its rows (H, section 5.7, on MNIST).

    Columns are the pixels of an image, row by row. The image is framed by zeros so that there is an output for every
    ``stride``-th pixel of every ``stride``-th row. Weights begin as those of ``SmallNet``.

    Parameters
    ----------
    shape : (int, int), default=None
        Rows and columns of the image; None: a square.
    channels : int, default=5
    size : int, default=5
        Of the window, in both directions.
    stride : int, default=2
    activation : {"sigmoid", "leaky_relu"}, default="sigmoid"
    learning_rate : float, default=1e-3
    """

    kind: ClassVar[str] = "small_conv_net"

    shape: tuple[int, int] | None = None
    channels: int = 5
    size: int = 5
    stride: int = 2
    activation: Literal["sigmoid", "leaky_relu"] = "sigmoid"
    learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        words = ("sigmoid", "leaky_relu")
        self._check(counts="channels size stride", positive="learning_rate", activation=words)
        if self.shape is not None:
            if len(self.shape) != 2 or min(self.shape) < 1:
                raise ValueError(f"shape is {self.shape}; it must be the rows and columns of an image")
            object.__setattr__(self, "shape", tuple(self.shape))  # files have lists

    def bank_type(self) -> Any:
        """What such learners are kept in."""
        return ConvBank


class ConvBank(NetBank):
    """Networks of one convolution; a missing value counts as 0."""

    def __init__(self, learner: SmallConvNet, *sizes: int) -> None:
        NativeBank.__init__(self, learner, *sizes)
        side = isqrt(self.n_features)
        height, width = learner.shape or (side, side)
        if height * width != self.n_features:
            raise ValueError(
                f"an image of {height} x {width} has {height * width} pixels, but there are {self.n_features} columns: give shape"
            )
        places = places_of(height, width, learner.size, learner.stride)
        self._make(learner.activation, learner.channels, "adam", learner.learning_rate, places)


def places_of(height: int, width: int, size: int, stride: int) -> NDArray[np.int32]:
    """(p, size^2) Pixels under a window at each of its places, -1 beyond the edge; as many places as ``ceil(side / stride)``.

    >>> places_of(3, 3, 3, 2).tolist()[0]
    [-1, -1, -1, -1, 0, 1, -1, 3, 4]
    """

    def along(side: int) -> NDArray[np.intp]:
        n = -(-side // stride)
        before = max((n - 1) * stride + size - side, 0) // 2
        at = stride * np.arange(n)[:, None] - before + np.arange(size)
        return np.where((at >= 0) & (at < side), at, -1)

    rows, columns = along(height)[:, None, :, None], along(width)[None, :, None, :]
    pixels = np.where((rows >= 0) & (columns >= 0), rows * width + columns, -1)
    return np.ascontiguousarray(pixels.reshape(-1, size * size), dtype=np.int32)
