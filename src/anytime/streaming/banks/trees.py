"""Hoeffding histogram trees: regression trees that grow while rows come, in constant memory.

A leaf keeps the mean of its targets and, for every column it may split, counts and sums of targets per bin. Every ``grace`` rows
it looks for the best split, and splits when Hoeffding's bound says that the best column is better than the second best (Domingos
and Hulten 2000; for regression Ikonomovska, Gama and Dzeroski 2011), or that they are so close that either will do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from anytime.streaming.banks.bank import Bank, Learner

__all__ = ["HoeffdingTree", "Stump", "width_of"]


@dataclass(frozen=True)
class HoeffdingTree(Learner):
    """Regression trees that grow on a stream.

    Parameters
    ----------
    max_depth : int, default=5
    max_leaves : int, default=16
        Bounds the memory of a tree: a leaf that can still be split keeps ``n_bins`` counts and sums per column.
    grace : int, default=50
        Rows of a leaf between two looks for a split.
    confidence : float, default=0.05
        Chance that a split is not on the best column (δ of Hoeffding's bound), and that a split is made where there is nothing to
        be gained.
    tie : float, default=0.1
        Split also when the bound is below this: the two best columns are about equally good.
    n_bins : int, default=32
        Bins per column, shared by all trees; a missing value has one more.
    max_features : int, float, "sqrt" or None, default=None
        Columns of a tree, drawn at random: a number, a share of them, their square root; None: all.
    memory : int or None, default=None
        A leaf's mean follows its last ``memory`` rows or so; None: all of them count alike.
    """

    kind: ClassVar[str] = "hoeffding_tree"

    max_depth: int = 5
    max_leaves: int = 16
    grace: int = 50
    confidence: float = 0.05
    tie: float = 0.1
    n_bins: int = 32
    max_features: int | float | Literal["sqrt"] | None = None
    memory: int | None = None

    def __post_init__(self) -> None:
        for name, least, most in (
            ("max_depth", 1, 30),
            ("max_leaves", 2, 32767),
            ("grace", 1, None),
            ("n_bins", 2, 255),
        ):
            value = getattr(self, name)
            if value < least or (most is not None and value > most):
                span = f"at least {least}" if most is None else f"from {least} to {most}"
                raise ValueError(f"{name} is {value}; it must be {span}")
        if not 0 < self.confidence < 1:
            raise ValueError(f"confidence is {self.confidence}; it must lie between 0 and 1")
        if not self.tie >= 0:
            raise ValueError(f"tie is {self.tie}; it must not be negative")
        if self.memory is not None and self.memory < 1:
            raise ValueError(f"memory is {self.memory}; it must be at least 1 row, or None")
        width_of(self.max_features, 1)

    def make(self, n_learners: int, n_features: int, n_outputs: int, random_state: int = 0) -> Bank:
        """A bank of fresh trees."""
        raise NotImplementedError


@dataclass(frozen=True)
class Stump(HoeffdingTree):
    """Hoeffding trees of one split."""

    kind: ClassVar[str] = "stump"

    max_depth: int = 1
    max_leaves: int = 2


def width_of(max_features: int | float | str | None, n_features: int) -> int:
    """How many of ``n_features`` columns a learner may read."""
    if max_features is None:
        return n_features
    if max_features == "sqrt":
        return max(1, round(n_features**0.5))
    if isinstance(max_features, str) or not max_features > 0:
        raise ValueError(f"max_features is {max_features!r}; it must be a positive number, 'sqrt' or None")
    if isinstance(max_features, int):
        return min(max_features, n_features)
    if max_features > 1:
        raise ValueError(f"max_features is {max_features}; a share of the columns is at most 1.0")
    return max(1, round(max_features * n_features))
