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

Array = NDArray[np.float64]
Hypotheses = Literal["last", "params"]


class StreamLearner(ABC):
    """What kind of learner a bank is made of, and its settings: an immutable value."""

    kind: ClassVar[str]  # its name, as a parameter and in files
    standardises: ClassVar[bool] = True  # whether columns are put on one scale for it by default
    kinds: ClassVar[dict[str, type[StreamLearner]]] = {}  # all that have been defined, by kind

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "kind" in vars(cls):  # not one that is to be derived from, nor a variant of another
            cls.kinds[cls.kind] = cls

    def make(self, n_estimators: int, n_features: int, n_outputs: int, random_state: int = 0) -> Bank:
        """A bank of fresh learners; learner ``i`` depends on ``random_state`` and ``i`` alone."""
        bank: Bank = self.bank_type()(self, n_estimators, n_features, n_outputs, random_state)
        return bank

    def _check(self, *, counts: str = "", positive: str = "", **choices: tuple[str, ...]) -> None:
        """Refuse settings: counts below 1, numbers that are not positive, words that are none of the choices."""
        for name in counts.split():
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        for name in positive.split():
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be positive")
        for name, words in choices.items():
            if getattr(self, name) not in words:
                *first, last = map(repr, words)
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}; it must be {', '.join(first)} or {last}"
                )

    @abstractmethod
    def bank_type(self) -> Any:
        """The class of banks of such learners, made of one, numbers of learners, columns and outputs, and a seed."""


class Bank(ABC):
    """N on-line learners for square loss.

    Learners are independent of each other: the first k of a bank of N are, bit for bit, a bank of k.
    """

    hypotheses: ClassVar[tuple[Hypotheses, ...]] = ("last",)  # what ``read`` can offer

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

    # ------------------------------------------------------------------ learning

    @abstractmethod
    def predict(self, X: Array) -> Array:
        """(N, b, m) what every learner says of the rows ``X`` (b, d), which are contiguous."""

    @abstractmethod
    def update(self, X: Array, targets: Array, weight: Array | None = None) -> None:
        """One round: a square-loss step of every learner towards its ``targets`` (N, b, m), rows in order.

        ``weight`` (b,), default 1, says how much rows count; a row of weight 0 teaches nothing.
        """

    @abstractmethod
    def append(self, n: int) -> None:
        """Add ``n`` fresh learners behind the others, which stay as they are."""

    @abstractmethod
    def restart(self, learners: NDArray[np.bool_]) -> None:
        """Let the marked learners (N,) start over, as if the rows to come were the first; the others go on."""

    def columns(self, i: int) -> NDArray[np.int32]:
        """Columns that learner ``i`` may read, increasing."""
        return np.arange(self.n_features, dtype=np.int32)

    # ------------------------------------------------------------------ reading

    @abstractmethod
    def block(self) -> Block:
        """A frozen copy: one stage per learner, as wide as there are outputs."""

    def track(self, hypotheses: Hypotheses) -> None:
        """Begin to keep what ``read(hypotheses)`` needs."""
        if hypotheses not in self.hypotheses:
            raise ValueError(
                f"a bank of {self.learner.kind} cannot be read by {hypotheses!r}, only by {', '.join(map(repr, self.hypotheses))}"
            )

    def read(self, hypotheses: Hypotheses = "last") -> Block:
        """The learners as they are now ("last"), or with the mean of their parameters since ``track("params")``.

        The latter is the mean of their functions only where these are linear in the parameters.
        """
        self.track(hypotheses)
        return self.block()

    # ------------------------------------------------------------------ files

    @abstractmethod
    def state(self) -> State:
        """Everything, so that learning continues bit for bit; ``description["kind"]`` is the learner's kind."""

    @classmethod
    @abstractmethod
    def from_state(
        cls, learner: Any, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> Self:
        """A bank of learners of that kind, as it was when ``state`` was taken."""
