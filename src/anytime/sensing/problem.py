"""Devices that each read a part of an example and send a message only if their gate opens; a receiver adds up the messages.

Device k has a score ``z_k = w_k'x_k + b_k``, a gate ``g_k = φ(z_k)`` and a message ``h_k = v_k'x_k + a_k``. The receiver
answers with ``s = base + Σ_k h_k g_k``: logits of classes, or a number (Nan, *Learning to Predict under a Budget*, section 7.1).
A gate is open where ``z_k > 0``: ``φ > 1/2`` for a sigmoid, ``φ > 0`` for a ReLU. Only classes have offsets ``a_k``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logsumexp, softmax

__all__ = ["SensingProblem", "SensorGate", "SensorWeights", "device_inputs"]

Array = NDArray[np.float64]


def device_inputs(X: ArrayLike, columns: Sequence[NDArray[np.intp]]) -> Array:
    """(K, n, D) inputs of each device, padded with zeros to the width of the widest."""
    table = np.asarray(X, dtype=np.float64)
    inputs = np.zeros((len(columns), len(table), max(part.size for part in columns)))
    for k, part in enumerate(columns):
        inputs[k, :, : part.size] = table[:, part]
    return inputs


# ---------------------------------------------------------------------- gates


@dataclass(frozen=True)
class SensorGate:
    """φ, the function from the score of a device to the weight of its message.

    Parameters
    ----------
    kind : {"sigmoid", "relu"}, default="sigmoid"
    slope : float, default=1.0
        Multiplies the score inside the sigmoid.
    """

    kind: Literal["sigmoid", "relu"] = "sigmoid"
    slope: float = 1.0

    def __post_init__(self) -> None:
        if self.kind not in ("sigmoid", "relu"):
            raise ValueError(f"the gate is {self.kind!r}; it must be 'sigmoid' or 'relu'")
        if not self.slope > 0:
            raise ValueError(f"the slope is {self.slope}; it must be positive")

    def value(self, z: Array) -> Array:
        """φ(z)."""
        return np.asarray(expit(self.slope * z)) if self.kind == "sigmoid" else np.maximum(z, 0.0)

    def derivative(self, z: Array) -> Array:
        """φ'(z)."""
        if self.kind == "relu":
            return np.asarray(z > 0, dtype=np.float64)
        value = self.value(z)
        return np.asarray(self.slope * value * (1 - value))


# ---------------------------------------------------------------------- what is learned


@dataclass(frozen=True, eq=False)
class SensorWeights:
    """Weights of all devices: ``v`` (K, D, M) and ``a`` (K, M) of messages, ``w`` (K, D) and ``b`` (K,) of gates."""

    v: Array
    a: Array
    w: Array
    b: Array

    @classmethod
    def drawn(
        cls, n_devices: int, width: int, n_outputs: int, random: np.random.Generator, scale: float = 1.0
    ) -> SensorWeights:
        """Normal entries of a given standard deviation, and offsets ``a`` of 0."""
        normal = random.standard_normal
        return cls(
            scale * normal((n_devices, width, n_outputs)),
            np.zeros((n_devices, n_outputs)),
            scale * normal((n_devices, width)),
            scale * normal(n_devices),
        )

    @property
    def arrays(self) -> tuple[Array, Array, Array, Array]:
        """The four arrays."""
        return self.v, self.a, self.w, self.b

    def scores(self, inputs: Array) -> Array:
        """(K, n) z, above 0 where the gate is open."""
        return np.asarray(np.matmul(inputs, self.w[:, :, None])[:, :, 0] + self.b[:, None])

    def messages(self, inputs: Array) -> Array:
        """(K, n, M) h, the messages of the devices."""
        return np.asarray(np.matmul(inputs, self.v) + self.a[:, None, :])


@dataclass(frozen=True, eq=False)
class SensingProblem:
    """Examples read by devices, and the targets of the receiver.

    Attributes
    ----------
    inputs : (K, n, D) float
    targets : (n, M) float
        Classes as rows of 0 and 1, or numbers.
    base : (M,) float
        The answer of the receiver if no device sends.
    loss : {"cross_entropy", "squared"}
    gate : SensorGate
    prices : (K,) float, default=None
        Price of sending for each device, in units of their mean. None: the same for all.
    weight : (n,) float, default=None
        Weights of the examples, in units of their mean. None: the same for all.
    """

    inputs: Array
    targets: Array
    base: Array
    loss: Literal["cross_entropy", "squared"]
    gate: SensorGate
    prices: Array | None = None
    weight: Array | None = None

    @property
    def n_devices(self) -> int:
        """K."""
        return int(self.inputs.shape[0])

    @property
    def n_rows(self) -> int:
        """Number of examples."""
        return int(self.inputs.shape[1])

    def rows(self, chosen: NDArray[np.intp]) -> SensingProblem:
        """The same for some of the examples."""
        weight = None if self.weight is None else self.weight[chosen]
        return replace(self, inputs=self.inputs[:, chosen], targets=self.targets[chosen], weight=weight)

    def share(self, open_gates: Array | NDArray[np.bool_]) -> float:
        """Cost of open gates (K, n), as a share of the cost of all gates."""
        if self.prices is None:
            return float(np.mean(open_gates))
        return float(np.mean(self.prices[:, None] * open_gates))

    def answers(self, weights: SensorWeights, gates: Array) -> Array:
        """(n, M) s, for gates (K, n) of any origin."""
        return np.asarray(self.base + np.einsum("kn,knm->nm", gates, weights.messages(self.inputs)))

    def mean_loss(self, answers: Array) -> float:
        """Negative log-likelihood, or squared error."""
        if self.loss == "squared":
            return self._mean(np.sum((answers - self.targets) ** 2, axis=1))
        return self._mean(logsumexp(answers, axis=1) - np.sum(answers * self.targets, axis=1))

    def _mean(self, losses: Array) -> float:
        return float(np.mean(losses if self.weight is None else self.weight * losses))

    def pull(self, answers: Array) -> Array:
        """(n, M) gradient of the mean loss by the answers."""
        if self.loss == "squared":
            pull = 2 * (answers - self.targets) / self.n_rows
        else:
            pull = (softmax(answers, axis=1) - self.targets) / self.n_rows
        return np.asarray(pull if self.weight is None else self.weight[:, None] * pull)

    # ------------------------------------------------------------------ gates that count as they are

    def direct(self, weights: SensorWeights, cost_penalty: float) -> float:
        """Mean loss plus ``cost_penalty`` times the mean gate (OPT-Direct)."""
        gates = self.gate.value(weights.scores(self.inputs))
        return self.mean_loss(self.answers(weights, gates)) + cost_penalty * self.share(gates)

    def direct_gradient(
        self, weights: SensorWeights, cost_penalty: float, *, hard: bool = False
    ) -> SensorWeights:
        """Of ``direct``; if ``hard``, messages behind closed gates do not arrive, and gates learn as if they did."""
        scores, messages = weights.scores(self.inputs), weights.messages(self.inputs)
        gates = self.gate.value(scores)
        if hard:
            gates = np.where(scores > 0, gates, 0.0)
        pull = self.pull(self.base + np.einsum("kn,knm->nm", gates, messages))
        prices = 1.0 if self.prices is None else self.prices[:, None]
        by_gate = np.einsum("nm,knm->kn", pull, messages) + cost_penalty * prices / gates.size
        return self.gradient(gates, pull, by_gate * self.gate.derivative(scores))

    def gradient(self, gates: Array, pull: Array, by_score: Array) -> SensorWeights:
        """From gradients by the answers (n, M) and by the scores (K, n)."""
        turned = self.inputs.transpose(0, 2, 1)
        weighted = gates[:, :, None] * pull
        offsets = (
            weighted.sum(axis=1)
            if self.loss == "cross_entropy"
            else np.zeros((self.n_devices, pull.shape[1]))
        )
        return SensorWeights(
            np.matmul(turned, weighted),
            offsets,
            np.matmul(turned, by_score[:, :, None])[:, :, 0],
            by_score.sum(axis=1),
        )
