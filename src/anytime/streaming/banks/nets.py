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
from anytime.streaming.banks.bank import Array, StreamLearner
from anytime.streaming.banks.native import NativeBank

Activation = Literal["none", "sigmoid", "leaky_relu", "cosine"]  # "none": of a bank of linear functions


@dataclass(frozen=True)
class SmallNet(StreamLearner):
    """Networks of one hidden layer and a linear output, with an Adam step per round on the mean over its rows.

    Hidden weights start uniform on ``+-1 / sqrt(d)``, output weights at zero: an untrained net outputs 0.

    Parameters
    ----------
    hidden : int, default=10
    activation : {"sigmoid", "leaky_relu"}, default="sigmoid"
    learning_rate : float, default=1e-3
    """

    kind: ClassVar[str] = "small_net"

    hidden: int = 10
    activation: Literal["sigmoid", "leaky_relu"] = "sigmoid"
    learning_rate: float = 1e-3

    def __post_init__(self) -> None:
        self._check(counts="hidden", positive="learning_rate", activation=("sigmoid", "leaky_relu"))

    def bank_type(self) -> Any:
        return NetBank


class NetBank(NativeBank):
    """Networks of one hidden layer; a missing value counts as 0."""

    hypotheses = ("last", "params")

    def __init__(self, learner: SmallNet, *sizes: int) -> None:
        super().__init__(learner, *sizes)
        self._make(learner.activation, learner.hidden, "adam", learner.learning_rate)

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
        self.native.append(self._first(0, self.n_estimators))

    def append(self, n: int) -> None:
        self.native.append(self._first(self.n_estimators, n))
        self.n_estimators += n

    def restart(self, learners: NDArray[np.bool_]) -> None:
        """Let the marked nets say nothing again, with the hidden weights that they began with."""
        self.native.restart(learners, self._first(0, self.n_estimators))

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

    def block(self) -> Block:
        return self._block(self.native.state()["parameters"])

    def _block(self, parameters: Array) -> Block:
        table = parameters.reshape(self.n_estimators, -1)
        n_hidden = self.hidden * (self.n_features + 1)
        return NetBlock(
            table[:, :n_hidden].reshape(self.n_estimators, self.hidden, self.n_features + 1),
            table[:, n_hidden:].reshape(self.n_estimators, self.n_outputs, -1),
            self.activation,
        )


class NetBlock(Block):
    """Stages that are networks of one hidden layer.

    Stage ``t`` gives ``readout[t] @ (activation(hidden[t] @ (x, 1)), 1)``; a missing value counts as 0. ``hidden`` is
    (S, h, w + 1), ``readout`` (S, width, h + 1).
    """

    kind = "small nets"

    def __init__(self, hidden: Array, readout: Array, activation: Activation) -> None:
        self.hidden = np.array(hidden, dtype=np.float64)
        self.readout = np.array(readout, dtype=np.float64)
        self.activation: Activation = activation
        if self.hidden.ndim != 3 or self.readout.ndim != 3 or len(self.hidden) != len(self.readout):
            raise ValueError("hidden and readout must have three dimensions, the first of them stages")
        self._check_readout(self.hidden.shape[1])
        if activation not in ("sigmoid", "leaky_relu", "cosine"):
            raise ValueError(f"there is no activation {activation!r} of small nets")
        if not (np.isfinite(self.hidden).all() and np.isfinite(self.readout).all()):
            raise ValueError("weights must be finite")
        self.n_stages, self.width = self.readout.shape[:2]
        self._columns = np.arange(self.hidden.shape[2] - 1, dtype=np.int32)

    def _check_readout(self, n_units: int) -> None:
        if self.readout.shape[2] != n_units + 1:
            raise ValueError(f"{n_units} hidden units, but readouts of {self.readout.shape[2] - 1}")

    def columns(self, stage: int) -> NDArray[np.int32]:
        return self._columns

    def outputs(self, stage: int, X: Array) -> Array:
        return self._read_out(stage, self._units(stage, X))

    def _units(self, stage: int, seen: Array) -> Array:
        """(n, h) hidden units, by what they see."""
        hidden = self.hidden[stage]
        w = hidden.shape[1] - 1
        weights, constants = np.ascontiguousarray(hidden[:, :-1].T), np.ascontiguousarray(hidden[:, -1])
        sums = _native.linear_outputs(seen, np.arange(w, dtype=np.int32), np.zeros(w), weights, constants)
        if self.activation == "sigmoid":
            return np.asarray(expit(sums))
        return np.cos(sums) if self.activation == "cosine" else np.where(sums > 0, sums, 0.01 * sums)

    def _read_out(self, stage: int, units: Array) -> Array:
        readout = self.readout[stage]
        order = np.arange(units.shape[1], dtype=np.int32)
        table = np.ascontiguousarray(readout[:, :-1].T)
        return _native.linear_outputs(units, order, None, table, np.ascontiguousarray(readout[:, -1]))

    def head(self, n_stages: int) -> NetBlock:
        return self if n_stages == self.n_stages else self._with(self.readout[:n_stages])

    def scaled(self, by: float) -> NetBlock:
        return self._with(self.readout * by)

    def _with(self, readout: Array) -> NetBlock:
        return NetBlock(self.hidden[: len(readout)], readout, self.activation)

    def state(self) -> State:
        return {"activation": self.activation}, {"hidden": self.hidden, "readout": self.readout}

    @classmethod
    def from_state(cls, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> NetBlock:
        return cls(arrays["hidden"], arrays["readout"], description["activation"])
