"""Linear learners: recursive least squares, and gradient steps on the columns themselves or on random features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from anytime.streaming.banks.bank import Bank, Learner

__all__ = ["OnlineLinear", "OnlineRidge"]


@dataclass(frozen=True)
class OnlineRidge(Learner):
    """Ridge regression by recursive least squares, which is follow the regularised leader for square loss.

    Parameters
    ----------
    penalty : float, default=1.0
        Of the squared norm of the coefficients, the intercept's included.
    """

    kind: ClassVar[str] = "ridge"

    penalty: float = 1.0

    def __post_init__(self) -> None:
        if not self.penalty > 0:
            raise ValueError(f"penalty is {self.penalty}; it must be positive")

    def make(self, n_learners: int, n_features: int, n_outputs: int, random_state: int = 0) -> Bank:
        """A bank of fresh learners, all zero."""
        raise NotImplementedError


@dataclass(frozen=True)
class OnlineLinear(Learner):
    """Linear functions, learned by gradient steps on the square loss.

    Parameters
    ----------
    step : float, default=0.01
    method : {"sgd", "adagrad", "adam"}, default="adagrad"
    features : {"raw", "random"}, default="raw"
        The columns themselves, or ``n_components`` random Fourier features of them, other ones for every learner.
    n_components : int, default=50
    """

    kind: ClassVar[str] = "linear"

    step: float = 0.01
    method: Literal["sgd", "adagrad", "adam"] = "adagrad"
    features: Literal["raw", "random"] = "raw"
    n_components: int = 50

    def __post_init__(self) -> None:
        if not self.step > 0:
            raise ValueError(f"step is {self.step}; it must be positive")
        if self.method not in ("sgd", "adagrad", "adam"):
            raise ValueError(f"method is {self.method!r}; it must be 'sgd', 'adagrad' or 'adam'")
        if self.features not in ("raw", "random"):
            raise ValueError(f"features is {self.features!r}; it must be 'raw' or 'random'")
        if self.n_components < 1:
            raise ValueError(f"n_components is {self.n_components}; it must be at least 1")

    def make(self, n_learners: int, n_features: int, n_outputs: int, random_state: int = 0) -> Bank:
        """A bank of fresh learners, all zero."""
        raise NotImplementedError
