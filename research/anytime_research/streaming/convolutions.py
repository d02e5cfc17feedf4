"""Small convolutional networks: a window that is moved over an image, all learners stacked."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from anytime import _native
from anytime.streaming.banks.bank import Array, StreamLearner
from anytime.streaming.banks.native import NativeBank
from anytime.streaming.banks.nets import Activation, NetBank, NetBlock

_ROWS = 64  # that are read at a time: a window of 25 columns makes 25 of each


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
        self.hidden, self.places = learner.channels, places_of(height, width, learner.size, learner.stride)
        self.activation = learner.activation
        self.native = _native.StreamNets(
            n_features=self.n_features,
            n_outputs=self.n_outputs,
            activation=learner.activation,
            hidden=learner.channels,
            method="adam",
            step=learner.learning_rate,
            places=self.places,
        )
        self.native.append(self._first(0, self.n_estimators))

    def _first(self, first: int, n: int) -> Array:
        """(n, size) Parameters that learners ``first``, ... begin with."""
        window = self.places.shape[1]
        parameters = np.zeros((n, self.native.size))
        for i in range(n):
            rng = np.random.default_rng([self.random_state, first + i])
            weights = rng.uniform(-1.0, 1.0, size=(self.hidden, window + 1)) / window**0.5
            parameters[i, : weights.size] = weights.ravel()
        return parameters

    def _block(self, parameters: Array) -> ConvBlock:
        table, window = parameters.reshape(self.n_estimators, -1), self.places.shape[1]
        n_hidden = self.hidden * (window + 1)
        return ConvBlock(
            table[:, :n_hidden].reshape(self.n_estimators, self.hidden, window + 1),
            table[:, n_hidden:].reshape(self.n_estimators, self.n_outputs, -1),
            self.activation,
            self.places,
        )


class ConvBlock(NetBlock):
    """Stages that are networks of one convolution, which no file knows.

    Parameters
    ----------
    hidden : (S, h, w + 1) float
    readout : (S, width, h p + 1) float
    activation : {"sigmoid", "leaky_relu"}
    places : (p, w) int
        Columns that every hidden unit sees at each of p places, -1: none, and 0 is seen. Its outputs at all places stand next
        to each other.
    """

    kind = "small convolutions"

    def __init__(
        self, hidden: Array, readout: Array, activation: Activation, places: NDArray[np.int32]
    ) -> None:
        self.places = np.array(places, dtype=np.int32)
        super().__init__(hidden, readout, activation)
        self._columns = np.unique(self.places[self.places >= 0]).astype(np.int32)

    def _check_readout(self, n_units: int) -> None:
        super()._check_readout(n_units * len(self.places))

    def outputs(self, stage: int, X: Array) -> Array:
        """(n, width) What the net says of rows."""
        out, none = np.empty((len(X), self.width)), X.shape[1]
        at_places = np.where(self.places < 0, none, self.places)
        for rows in (slice(at, at + _ROWS) for at in range(0, len(X), _ROWS)):
            seen = np.pad(X[rows], ((0, 0), (0, 1)))[:, at_places]  # (n, p, w)
            units = self._units(stage, np.ascontiguousarray(seen.reshape(-1, at_places.shape[1])))
            units = units.reshape(len(seen), len(at_places), -1).transpose(0, 2, 1)
            out[rows] = self._read_out(stage, np.ascontiguousarray(units.reshape(len(seen), -1)))
        return out

    def _with(self, readout: Array) -> ConvBlock:
        return ConvBlock(self.hidden[: len(readout)], readout, self.activation, self.places)


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
