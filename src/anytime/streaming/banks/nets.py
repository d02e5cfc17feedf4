"""Small networks: one hidden layer, learned by Adam, all learners stacked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from anytime.streaming.banks.bank import Bank, Learner

__all__ = ["SmallNet"]


@dataclass(frozen=True)
class SmallNet(Learner):
    """Networks of one hidden layer and a linear output, with an Adam step per round.

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
        """A bank of nets with random weights."""
        raise NotImplementedError
