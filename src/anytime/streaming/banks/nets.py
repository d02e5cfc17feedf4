"""Small networks: one hidden layer, all learners stacked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from anytime import _native
from anytime.blocks import Block, State
from anytime.streaming.banks.bank import Array, Bank, Learner
from anytime.streaming.banks.native import NativeBank

Activation = Literal["sigmoid", "leaky_relu", "cosine"]

__all__ = ["NetBank", "NetBlock", "SmallNet"]


@dataclass(frozen=True)
class SmallNet(Learner):
    """Networks of one hidden layer and a linear output, with an Adam step per round on the mean over its rows.

    Hidden weights begin uniform on ``+-1 / sqrt(d)``, the output's at zero: a net that has seen nothing says nothing.

    Parameters
    ----------
    hidden : int, default=10
    activation : {"sigmoid", "leaky_relu"}, default="sigmoid"
    step : float, default=1e-3
    """

    kind: ClassVar[str] = "small_net"

    hidden: int = 10
    activation: Literal["sigmoid", "leaky_relu"] = "sigmoid"
    step: float = 1e-3

    def __post_init__(self) -> None:
        if self.hidden < 1:
            raise ValueError(f"hidden is {self.hidden}; it must be at least 1")
        if self.activation not in ("sigmoid", "leaky_relu"):
            raise ValueError(f"activation is {self.activation!r}; it must be 'sigmoid' or 'leaky_relu'")
        if not self.step > 0:
            raise ValueError(f"step is {self.step}; it must be positive")

    def make(self, n_learners: int, n_features: int, n_outputs: int, random_state: int = 0) -> Bank:
        """A bank of nets with random hidden weights."""
        return NetBank(self, n_learners, n_features, n_outputs, random_state)


class NetBank(NativeBank):
    """Networks of one hidden layer; a missing value counts as 0."""

    learners: ClassVar[tuple[type[Any], ...]] = (SmallNet,)
    averages = ("last", "params", "reservoir", "tail")

    def __init__(
        self, learner: SmallNet, n_learners: int, n_features: int, n_outputs: int, random_state: int
    ) -> None:
        super().__init__(learner, n_learners, n_features, n_outputs, random_state)
        self._make(learner.activation, learner.hidden, "adam", learner.step)

    def _make(self, activation: Activation, hidden: int, method: str, step: float) -> None:
        self.activation: Activation = activation
        self.hidden = hidden
        self.native = _native.StreamNets(
            n_features=self.n_features,
            n_outputs=self.n_outputs,
            activation=activation,
            hidden=hidden,
            method=method,
            step=step,
        )
        self.native.append(self._first(0, self.n_learners))

    def append(self, n: int) -> None:
        """Add ``n`` nets that say nothing yet."""
        self.native.append(self._first(self.n_learners, n))
        self.n_learners += n

    def _first(self, first: int, n: int) -> Array:
        """(n, size) Parameters that learners ``first``, ... begin with."""
        d = self.n_features
        parameters = np.zeros((n, self.native.size))
        for i in range(n):
            rng = np.random.default_rng([self.random_state, first + i])
            if self.activation == "cosine":  # Fourier features of a Gaussian kernel, exp(-|x - x'|^2 / d)
                weights = rng.normal(scale=(2.0 / d) ** 0.5, size=(self.hidden, d + 1))
                weights[:, -1] = rng.uniform(0.0, 2.0 * np.pi, self.hidden)
            else:
                weights = rng.uniform(-1.0, 1.0, size=(self.hidden, d + 1)) / d**0.5
            parameters[i, : weights.size] = weights.ravel()
        return parameters

    def block(self) -> NetBlock:
        """The nets as they are now."""
        return self._block(self.native.state()["parameters"])

    def _block(self, parameters: Array) -> NetBlock:
        table = parameters.reshape(self.n_learners, -1)
        n_hidden = self.hidden * (self.n_features + 1)
        return NetBlock(
            table[:, :n_hidden].reshape(self.n_learners, self.hidden, self.n_features + 1),
            table[:, n_hidden:].reshape(self.n_learners, self.n_outputs, self.hidden + 1),
            self.activation,
        )

    def _mean(self, blocks: list[Block]) -> NetBlock:
        """A mean of nets is a net with all their hidden units."""
        nets = [block for block in blocks if isinstance(block, NetBlock)]
        n_stages = max(net.n_stages for net in nets)
        k = len(nets)
        hidden = np.zeros((n_stages, k * self.hidden, self.n_features + 1))
        readout = np.zeros((n_stages, self.n_outputs, k * self.hidden + 1))
        counts = np.array([sum(i < net.n_stages for net in nets) for i in range(n_stages)])[:, None, None]
        for number, net in enumerate(nets):
            units = slice(number * self.hidden, (number + 1) * self.hidden)
            hidden[: net.n_stages, units] = net.hidden
            readout[: net.n_stages, :, units] = net.readout[:, :, :-1]
            readout[: net.n_stages, :, -1] += net.readout[:, :, -1]
        return NetBlock(hidden, readout / counts, self.activation)

    @classmethod
    def _read_block(cls, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> NetBlock:
        return NetBlock.from_state(description, arrays)


class NetBlock(Block):
    """Stages that are networks of one hidden layer.

    Stage ``t`` gives ``readout[t] @ (activation(hidden[t] @ (x, 1)), 1)``; a missing value counts as 0.

    Parameters
    ----------
    hidden : (S, h, d + 1) float
    readout : (S, width, h + 1) float
    activation : {"sigmoid", "leaky_relu", "cosine"}
    """

    kind = "small nets"

    def __init__(self, hidden: Array, readout: Array, activation: Activation) -> None:
        self.hidden = np.array(hidden, dtype=np.float64)
        self.readout = np.array(readout, dtype=np.float64)
        self.activation: Activation = activation
        if self.hidden.ndim != 3 or self.readout.ndim != 3 or len(self.hidden) != len(self.readout):
            raise ValueError("hidden and readout must have three dimensions, the first of them stages")
        if self.readout.shape[2] != self.hidden.shape[1] + 1:
            raise ValueError(
                f"{self.hidden.shape[1]} hidden units but readouts of {self.readout.shape[2] - 1}"
            )
        if activation not in ("sigmoid", "leaky_relu", "cosine"):
            raise ValueError(f"there is no activation {activation!r} of small nets")
        if not (np.isfinite(self.hidden).all() and np.isfinite(self.readout).all()):
            raise ValueError("weights must be finite")
        self.n_stages, self.width = self.readout.shape[:2]
        self._columns = np.arange(self.hidden.shape[2] - 1, dtype=np.int32)

    def columns(self, stage: int) -> NDArray[np.int32]:
        """All columns."""
        return self._columns

    def outputs(self, stage: int, X: Array) -> Array:
        """(n, width) What the net says of rows."""
        hidden, readout = self.hidden[stage], self.readout[stage]
        d, h = self._columns.size, len(hidden)
        sums = _native.linear_outputs(
            X,
            self._columns,
            np.zeros(d),
            np.ascontiguousarray(hidden[:, :-1].T),
            np.ascontiguousarray(hidden[:, -1]),
        )
        if self.activation == "sigmoid":
            units = expit(sums)
        elif self.activation == "cosine":
            units = np.cos(sums)
        else:
            units = np.where(sums > 0, sums, 0.01 * sums)
        order = np.arange(h, dtype=np.int32)
        table = np.ascontiguousarray(readout[:, :-1].T)
        return _native.linear_outputs(units, order, None, table, np.ascontiguousarray(readout[:, -1]))

    def head(self, n_stages: int) -> NetBlock:
        """The first stages."""
        return self if n_stages == self.n_stages else self._with(self.readout[:n_stages])

    def scaled(self, by: float) -> NetBlock:
        """All outputs multiplied."""
        return self._with(self.readout * by)

    def _with(self, readout: Array) -> NetBlock:
        return NetBlock(self.hidden[: len(readout)], readout, self.activation)

    def state(self) -> State:
        """What a file keeps."""
        return {"activation": self.activation}, {"hidden": self.hidden, "readout": self.readout}

    @classmethod
    def from_state(cls, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> NetBlock:
        """Read what ``state`` gave."""
        return cls(arrays["hidden"], arrays["readout"], description["activation"])
