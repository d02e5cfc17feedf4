"""Which rows go on: questions about a row, asked before a stage (does it pass?) or after it (may it stop?)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from anytime.blocks import Block
from anytime.losses import Link

Array = NDArray[np.float64]

__all__ = ["MarginRule", "Rule", "ScoreRule"]


class Rule(ABC):
    """A question about a row, asked before a stage (does it pass?) or after it (may it stop?)."""

    kind: ClassVar[str]

    def columns(self) -> NDArray[np.int32]:
        """Columns that the rule reads."""
        return np.empty(0, dtype=np.int32)

    @abstractmethod
    def holds(self, X: Array, scores: Array, link: Link) -> NDArray[np.bool_]:
        """(n,) the answer for each row, given the scores so far."""


@dataclass(frozen=True)
class MarginRule(Rule):
    """The margin of the answer so far is below (or not below) a threshold: SpeedBoost's filters, a cascade's gates."""

    threshold: float
    below: bool = True
    kind: ClassVar[str] = "margin"

    def holds(self, X: Array, scores: Array, link: Link) -> NDArray[np.bool_]:
        return np.asarray((link.margin(scores) < self.threshold) == self.below)


@dataclass(frozen=True, eq=False)
class ScoreRule(Rule):
    """A learned gate: the output of a one-stage block of width 1 is above a threshold (or, with ``below``, is not)."""

    block: Block
    threshold: float = 0.0
    below: bool = False
    kind: ClassVar[str] = "score"

    def columns(self) -> NDArray[np.int32]:
        return self.block.columns(0)

    def holds(self, X: Array, scores: Array, link: Link) -> NDArray[np.bool_]:
        return np.asarray((self.block.outputs(0, X)[:, 0] > self.threshold) != self.below)
