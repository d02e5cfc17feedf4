"""Learners of one's own: any object that learns from a row, or from a batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from anytime.streaming.banks.bank import Bank, Learner

__all__ = ["OwnLearner"]


@dataclass(frozen=True)
class OwnLearner(Learner):
    """Learners made by a function of one's own.

    Parameters
    ----------
    factory : callable
        ``factory()`` gives a learner. It has ``predict(x)`` and ``learn(x, target)`` for a row ``x`` (d,) and targets (m,), or, like
        scikit-learn's, ``predict(X)`` and ``partial_fit(X, targets)``.
    """

    kind: ClassVar[str] = "own"

    factory: Callable[[], Any]

    def __post_init__(self) -> None:
        if not callable(self.factory):
            raise TypeError(f"factory is {self.factory!r}; it must be a function that makes a learner")

    def make(self, n_learners: int, n_features: int, n_outputs: int, random_state: int = 0) -> Bank:
        """A bank of learners that the factory makes."""
        raise NotImplementedError
