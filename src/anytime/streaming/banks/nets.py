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

Activation = Literal["sigmoid", "leaky_relu", "cosine"]

_ROWS_OF_IMAGES = 64  # that are read at a time: a window of 25 columns makes 25 of each


@dataclass(frozen=True)
class SmallNet(StreamLearner):
    """Networks of one hidden layer and a linear output, with an Adam step per round on the mean over its rows.

    Hidden weights begin uniform on ``+-1 / sqrt(d)``, the output's at zero: a net that has seen nothing says nothing.

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
        """What such learners are kept in."""
        return NetBank


class NetBank(NativeBank):
    """Networks of one hidden layer; a missing value counts as 0."""

    hypotheses = ("last", "params")

    def __init__(self, learner: SmallNet, *sizes: int) -> None:
        super().__init__(learner, *sizes)
        self._make(learner.activation, learner.hidden, "adam", learner.learning_rate)

    def _make(
        self,
        activation: Activation,
        hidden: int,
        method: str,
        step: float,
        places: NDArray[np.int32] | None = None,
    ) -> None:
        self.activation: Activation = activation
        self.hidden, self.places = hidden, places
        self.native = _native.StreamNets(
            n_features=self.n_features,
            n_outputs=self.n_outputs,
            activation=activation,
            hidden=hidden,
            method=method,
            step=step,
            places=places,
        )
        self.native.append(self._first(0, self.n_estimators))

    def append(self, n: int) -> None:
        """Add ``n`` nets that say nothing yet."""
        self.native.append(self._first(self.n_estimators, n))
        self.n_estimators += n

    def restart(self, learners: NDArray[np.bool_]) -> None:
        """Let the marked nets say nothing again, with the hidden weights that they began with."""
        self.native.restart(learners, self._first(0, self.n_estimators))

    @property
    def _window(self) -> int:
        """Columns that a hidden unit sees at a time."""
        return self.n_features if self.places is None else int(self.places.shape[1])

    def _first(self, first: int, n: int) -> Array:
        """(n, size) Parameters that learners ``first``, ... begin with."""
        d = self._window
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
        table = parameters.reshape(self.n_estimators, -1)
        n_hidden = self.hidden * (self._window + 1)
        return NetBlock(
            table[:, :n_hidden].reshape(self.n_estimators, self.hidden, self._window + 1),
            table[:, n_hidden:].reshape(self.n_estimators, self.n_outputs, -1),
            self.activation,
            self.places,
        )


class NetBlock(Block):
    """Stages that are networks of one hidden layer.

    Stage ``t`` gives ``readout[t] @ (activation(hidden[t] @ (x, 1)), 1)``; a missing value counts as 0.

    Parameters
    ----------
    hidden : (S, h, w + 1) float
    readout : (S, width, h p + 1) float
    activation : {"sigmoid", "leaky_relu", "cosine"}
    places : (p, w) int, default=None
        Columns that every hidden unit sees at each of p places, -1: none, and 0 is seen. Its outputs at all places stand next
        to each other. None: one place, where all columns are seen.
    """

    kind = "small nets"

    def __init__(
        self, hidden: Array, readout: Array, activation: Activation, places: NDArray[np.int32] | None = None
    ) -> None:
        self.hidden = np.array(hidden, dtype=np.float64)
        self.readout = np.array(readout, dtype=np.float64)
        self.activation: Activation = activation
        self.places = None if places is None else np.array(places, dtype=np.int32)
        if self.hidden.ndim != 3 or self.readout.ndim != 3 or len(self.hidden) != len(self.readout):
            raise ValueError("hidden and readout must have three dimensions, the first of them stages")
        window = self.hidden.shape[2] - 1
        if self.places is not None and (self.places.ndim != 2 or self.places.shape[1] != window):
            raise ValueError(f"places of shape {self.places.shape}, but hidden units see {window} columns")
        n_places = 1 if self.places is None else len(self.places)
        if self.readout.shape[2] != self.hidden.shape[1] * n_places + 1:
            raise ValueError(
                f"{self.hidden.shape[1]} hidden units at {n_places} places, but readouts of {self.readout.shape[2] - 1}"
            )
        if activation not in ("sigmoid", "leaky_relu", "cosine"):
            raise ValueError(f"there is no activation {activation!r} of small nets")
        if not (np.isfinite(self.hidden).all() and np.isfinite(self.readout).all()):
            raise ValueError("weights must be finite")
        self.n_stages, self.width = self.readout.shape[:2]
        seen = np.arange(window) if self.places is None else np.unique(self.places[self.places >= 0])
        self._columns = seen.astype(np.int32)

    def columns(self, stage: int) -> NDArray[np.int32]:
        """All columns."""
        return self._columns

    def outputs(self, stage: int, X: Array) -> Array:
        """(n, width) What the net says of rows."""
        if self.places is None:
            return self._read_out(stage, self._units(stage, X))
        out, none = np.empty((len(X), self.width)), X.shape[1]
        at_places = np.where(self.places < 0, none, self.places)
        for rows in (slice(at, at + _ROWS_OF_IMAGES) for at in range(0, len(X), _ROWS_OF_IMAGES)):
            seen = np.pad(X[rows], ((0, 0), (0, 1)))[:, at_places]  # (n, p, w)
            units = self._units(stage, np.ascontiguousarray(seen.reshape(-1, at_places.shape[1])))
            units = units.reshape(len(seen), len(at_places), -1).transpose(0, 2, 1)
            out[rows] = self._read_out(stage, np.ascontiguousarray(units.reshape(len(seen), -1)))
        return out

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
        """The first stages."""
        return self if n_stages == self.n_stages else self._with(self.readout[:n_stages])

    def scaled(self, by: float) -> NetBlock:
        """All outputs multiplied."""
        return self._with(self.readout * by)

    def _with(self, readout: Array) -> NetBlock:
        return NetBlock(self.hidden[: len(readout)], readout, self.activation, self.places)

    def state(self) -> State:
        """What a file keeps."""
        arrays: dict[str, NDArray[Any]] = {"hidden": self.hidden, "readout": self.readout}
        return {"activation": self.activation}, arrays if self.places is None else arrays | {
            "places": self.places
        }

    @classmethod
    def from_state(cls, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> NetBlock:
        """Read what ``state`` gave."""
        return cls(arrays["hidden"], arrays["readout"], description["activation"], arrays.get("places"))
