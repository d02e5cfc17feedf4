"""A bank: all weak learners of a boosted model, learning side by side from a stream.

Every learner is an on-line regressor for square loss (Hu, *Anytime Prediction and Learning*, section 5.4). A bank holds N of
them in one piece, because a round of streaming boosting asks all of them for an answer to the same rows and then gives each
its own targets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from anytime.blocks import Block, State
from anytime.streaming.banks.averaging import Snapshots

Array = NDArray[np.float64]
Average = Literal["last", "params", "reservoir", "tail"]

__all__ = ["Average", "Bank", "StreamLearner"]


class StreamLearner(ABC):
    """What kind of learner a bank is made of, and its settings: an immutable value."""

    kind: ClassVar[str]  # its name, as a parameter and in files

    @abstractmethod
    def make(self, n_estimators: int, n_features: int, n_outputs: int, random_state: int = 0) -> Bank:
        """A bank of fresh learners; learner ``i`` depends on ``random_state`` and ``i`` alone."""


class Bank(ABC):
    """N on-line learners for square loss.

    Learners are independent of each other: the first k of a bank of N are, bit for bit, a bank of k.

    Parameters
    ----------
    learner : StreamLearner
    n_estimators, n_features, n_outputs : int
    random_state : int

    Attributes
    ----------
    linear_in_parameters : bool
        The mean of its parameters over rounds is the mean of its functions.
    predict_cost, update_cost : float
        Of one learner on one row, in units of one prediction (in the thesis: 1 and 2).
    """

    linear_in_parameters: ClassVar[bool] = False
    predict_cost: ClassVar[float] = 1.0
    update_cost: ClassVar[float] = 2.0
    averages: ClassVar[tuple[Average, ...]] = ("last", "reservoir", "tail")  # what ``averaged`` can offer

    def __init__(
        self, learner: StreamLearner, n_estimators: int, n_features: int, n_outputs: int, random_state: int
    ) -> None:
        for name, value in (
            ("n_estimators", n_estimators),
            ("n_features", n_features),
            ("n_outputs", n_outputs),
        ):
            if value < 1:
                raise ValueError(f"{name} is {value}; a bank needs at least 1")
        if random_state < 0:
            raise ValueError(
                f"random_state is {random_state}; a bank takes a whole number that is not negative"
            )
        self.learner = learner
        self.n_estimators = n_estimators
        self.n_features = n_features
        self.n_outputs = n_outputs
        self.random_state = random_state
        self.snapshots: Snapshots | None = None

    # ------------------------------------------------------------------ learning

    @abstractmethod
    def predict(self, X: Array) -> Array:
        """(N, b, m) what every learner says of the rows ``X`` (b, d), which are contiguous."""

    def update(self, X: Array, targets: Array, weight: Array | None = None) -> None:
        """One round: a square-loss step of every learner towards its ``targets`` (N, b, m), rows in order.

        ``weight`` (b,), default 1, says how much rows count; a row of weight 0 teaches nothing.
        """
        self._update(X, targets, weight)
        self.count_rounds(1)

    @abstractmethod
    def _update(self, X: Array, targets: Array, weight: Array | None) -> None: ...

    @abstractmethod
    def append(self, n: int) -> None:
        """Add ``n`` fresh learners behind the others, which stay as they are."""

    @abstractmethod
    def restart(self, learners: NDArray[np.bool_]) -> None:
        """Let the marked learners (N,) begin anew, as if the rows to come were the first; the others go on."""

    def columns(self, i: int) -> NDArray[np.int32]:
        """Columns that learner ``i`` may read, increasing."""
        return np.arange(self.n_features, dtype=np.int32)

    # ------------------------------------------------------------------ reading

    @abstractmethod
    def block(self) -> Block:
        """A frozen copy: one stage per learner, as wide as there are outputs."""

    def track(self, mode: Average, kept: int = 8) -> None:
        """Begin to keep what ``averaged(mode)`` needs; ``kept`` is how many snapshots, if it needs any."""
        self._check_mode(mode)
        if mode in ("reservoir", "tail") and self.snapshots is None:
            self.snapshots = Snapshots(kept)

    def averaged(self, mode: Average = "last") -> Block:
        """The learners, averaged over the rounds since ``track(mode)``.

        "last": as they are now. "params": the mean of their parameters, which is the mean of their functions only where
        ``linear_in_parameters``. "reservoir": the mean over snapshots that lie evenly over all rounds. "tail": over those of
        the last half of the rounds.
        """
        self._check_mode(mode)
        if mode == "last":
            return self.block()
        if self.snapshots is None:
            raise ValueError(f"nothing was kept for average={mode!r}: call track({mode!r}) before learning")
        blocks = self.snapshots.blocks(tail=mode == "tail")
        return self._mean(blocks) if blocks else self.block()

    def _check_mode(self, mode: Average) -> None:
        if mode not in self.averages:
            raise ValueError(
                f"a bank of {self.learner.kind} cannot average by {mode!r}; it can by {', '.join(map(repr, self.averages))}"
            )

    def _mean(self, blocks: list[Block]) -> Block:
        """The mean of frozen copies; a learner that was appended is averaged over those that have it."""
        raise NotImplementedError

    def count_rounds(self, n: int) -> None:
        """Say that ``n`` rounds have been learned; at most ``rounds_until_snapshot`` of them at a time."""
        if self.snapshots is not None and self.snapshots.due(n):
            self.snapshots.take(self.block())

    @property
    def rounds_until_snapshot(self) -> int | None:
        """After how many rounds a snapshot has to be taken; None: never."""
        return None if self.snapshots is None else self.snapshots.wait

    # ------------------------------------------------------------------ files

    @abstractmethod
    def state(self) -> State:
        """Everything, so that learning goes on bit for bit; ``description["kind"]`` is the learner's kind."""

    @classmethod
    @abstractmethod
    def from_state(cls, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Read what ``state`` gave."""
