"""Held-out rows on which stages are compared: what each stage adds there, what it needs, and the loss so far."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from anytime.engine import combined

Array = NDArray[np.float64]


class HeldOutLoss(Protocol):
    """A mean loss, such as those of `anytime.losses`."""

    def __call__(self, scores: Array, y: NDArray[Any], sample_weight: Array | None = None, /) -> float:
        """Mean loss of scores (n, K) against truth ``y``."""


@dataclass(frozen=True, eq=False)
class HeldOut:
    """The arguments of `order_stages`, on all held-out rows or on some."""

    outputs: Array  # (S, n, K)
    base: Array
    combine: str
    loss: HeldOutLoss
    y: NDArray[Any]
    sample_weight: Array | None
    needs: NDArray[np.bool_]
    prices: NDArray[np.int64]
    evaluation: NDArray[np.int64]

    @property
    def n_outputs(self) -> int:
        """``K``."""
        return int(self.outputs.shape[2])

    def sample(self, n_rows: int) -> HeldOut:
        """The same problem on some rows, always the same ones."""
        n = len(self.y)
        if n_rows >= n:
            return self
        rows = np.sort(np.random.default_rng(0).choice(n, n_rows, replace=False))
        weight = self.sample_weight
        if weight is not None and not weight[rows].any():
            return self
        weight = None if weight is None else weight[rows]
        outputs = np.ascontiguousarray(self.outputs[:, rows])
        return replace(self, outputs=outputs, y=self.y[rows], sample_weight=weight)


class Progress:
    """Scores after the stages done so far."""

    def __init__(self, problem: HeldOut) -> None:
        self.problem = problem
        self.total = np.zeros(problem.outputs.shape[1:])  # (n, K)
        self.n_done = 0
        self.loss = self.loss_of(self.total, 0)

    def loss_of(self, total: Array, n_done: int) -> float:
        """Loss when the stages done, ``n_done`` in number, add up to ``total``."""
        problem = self.problem
        base = np.broadcast_to(problem.base, total.shape)
        scores = combined(total, n_done, base, problem.combine == "mean")
        return float(problem.loss(scores, problem.y, problem.sample_weight))

    def gain(self, added: Array, n_added: int) -> float:
        """Drop of the loss if stages were done that add up to ``added``, (n, K)."""
        return self.loss - self.loss_of(self.total + added, self.n_done + n_added)

    def add(self, stages: NDArray[np.int64]) -> None:
        """Do stages."""
        self.total = self.total + self.problem.outputs[stages].sum(axis=0)
        self.n_done += len(stages)
        self.loss = self.loss_of(self.total, self.n_done)

    @property
    def replaces_base(self) -> bool:
        """The next stage takes the place of the base instead of joining it: its gain may be negative and still be next."""
        return self.problem.combine == "mean" and self.n_done == 0
