"""Which rows continue: rules that decide before a stage (does a row pass?) or after it (may it stop?).

A rule that reads no column looks only at the row's scores. These change only when a stage works on the row, so such a rule
answers the same until then, and the runtime may jump over the stages that it closes (``anytime.runtime.skipping``).

Rules of a plan hold whatever the budget. A ``StopTable`` holds those that go with a mean budget: easy rows leave early, so that
hard ones can go further.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr

from anytime.blocks import Block
from anytime.calibration import Calibration
from anytime.losses import Link

Array = NDArray[np.float64]

__all__ = [
    "EntropyRule",
    "FunctionRule",
    "LikelyRule",
    "MarginRule",
    "OutsideRule",
    "Rule",
    "ScoreRule",
    "StopTable",
    "ThresholdRule",
]


class Rule(ABC):
    """A question about a row, asked before a stage (does it pass?) or after it (may it stop?)."""

    kind: ClassVar[str]

    def columns(self) -> NDArray[np.int32]:
        """Columns that the rule reads."""
        return np.empty(0, dtype=np.int32)

    def check(self, link: Link, n_outputs: int) -> None:  # noqa: B027 - most rules go with all scores
        """Raise ``ValueError`` where the rule makes no sense for such scores."""

    @abstractmethod
    def holds(self, X: Array, scores: Array, link: Link) -> NDArray[np.bool_]:
        """(n,) the answer for each row, given the scores so far."""


@dataclass(frozen=True)
class ThresholdRule(Rule):
    """A number made of a row's scores is below (or not below) a threshold."""

    threshold: float
    below: bool = True

    def __post_init__(self) -> None:
        if np.isnan(self.threshold):
            raise ValueError("the threshold of a rule must be a number")

    @abstractmethod
    def measure(self, scores: Array, link: Link) -> Array:
        """(n,) the number of each row."""

    @property
    def family(self) -> Hashable:
        """The key of rules that measure the same value and differ in their thresholds alone."""
        return type(self), self.below

    def holds(self, X: Array, scores: Array, link: Link) -> NDArray[np.bool_]:
        return np.asarray((self.measure(scores, link) < self.threshold) == self.below)


@dataclass(frozen=True)
class MarginRule(ThresholdRule):
    """The margin of the answer so far is below (or not below) a threshold: SpeedBoost's filters, gates that stop early."""

    kind: ClassVar[str] = "margin"

    def measure(self, scores: Array, link: Link) -> Array:
        return link.margin(scores)


@dataclass(frozen=True)
class EntropyRule(ThresholdRule):
    """The entropy of the probabilities of classes, in nats, is not below (or below) a threshold: undecided rows pass."""

    below: bool = False
    kind: ClassVar[str] = "entropy"

    def check(self, link: Link, n_outputs: int) -> None:
        if not link.classifies:
            raise ValueError(
                f"an entropy rule needs probabilities of classes, which the link {link.name!r} does not give"
            )

    def measure(self, scores: Array, link: Link) -> Array:
        probabilities = np.maximum(link.transform(scores), 0.0)
        total = probabilities.sum(axis=1, keepdims=True)
        shares = np.divide(
            probabilities, total, out=np.full_like(probabilities, 1 / probabilities.shape[1]), where=total > 0
        )
        return np.asarray(entr(shares).sum(axis=1))


@dataclass(frozen=True)
class LikelyRule(ThresholdRule):
    """The calibrated probability of the leading class is not below (or below) a threshold: rows that are sure enough stop."""

    # of the stage after which the rule applies: see ``Calibration``
    power: tuple[float, ...] = field(kw_only=True)
    floor: float = field(default=0.0, kw_only=True)
    below: bool = False
    kind: ClassVar[str] = "likely"

    def check(self, link: Link, n_outputs: int) -> None:
        if not link.classifies:
            raise ValueError(f"the link {link.name!r} has no probabilities of classes, which the rule needs")
        powers = np.asarray(self.power)
        if powers.shape != (link.n_classes(n_outputs),) or not ((powers > 0) & np.isfinite(powers)).all():
            raise ValueError(f"the rule needs {link.n_classes(n_outputs)} powers, finite and positive")

    @property
    def family(self) -> Hashable:
        return type(self), self.below, self.power, self.floor

    def measure(self, scores: Array, link: Link) -> Array:
        return np.asarray(
            Calibration.scaled(link.transform(scores), np.asarray(self.power), self.floor).max(axis=1)
        )


@dataclass(frozen=True)
class FunctionRule(ThresholdRule):
    """A measure of your own: ``function(scores)``, from (n, K) to (n,), is not below (or below) a threshold.

    Numbers, or True and False: with the threshold given by default, rows for which the function says True pass. What it says of a
    row may depend on that row's scores alone, because rows are worked on in whatever company time and budget allow. A model with
    such a rule cannot be saved to a file, which holds no code.
    """

    function: Callable[[Array], ArrayLike] = field(kw_only=True)
    threshold: float = 0.5
    below: bool = False
    kind: ClassVar[str] = "function"

    @property
    def family(self) -> Hashable:
        return self.function, self.below

    def measure(self, scores: Array, link: Link) -> Array:
        numbers = np.asarray(self.function(scores), dtype=np.float64)
        if numbers.shape != (len(scores),):
            raise ValueError(
                f"the function of a rule returned shape {numbers.shape}, but needs one number per row, ({len(scores)},)"
            )
        return numbers


@dataclass(frozen=True)
class OutsideRule(Rule):
    """The single score is not within the open interval from ``low`` to ``high``: a cascade rejects below and accepts above."""

    low: float = -np.inf
    high: float = np.inf
    kind: ClassVar[str] = "outside"

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"the interval from {self.low} to {self.high} is empty; low must be below high")

    def check(self, link: Link, n_outputs: int) -> None:
        if n_outputs != 1:
            raise ValueError(f"an interval is for a single score, but there are {n_outputs}")

    def holds(self, X: Array, scores: Array, link: Link) -> NDArray[np.bool_]:
        return np.asarray(~((scores[:, 0] > self.low) & (scores[:, 0] < self.high)))


@dataclass(frozen=True, eq=False)
class ScoreRule(Rule):
    """A learned gate: the output of a one-stage block of width 1 is above a threshold (or, with ``below``, is not).

    With ``doubt`` the margin of the answer so far, times it, is taken off the output: who is undecided passes more easily.
    """

    block: Block
    threshold: float = 0.0
    below: bool = False
    doubt: float = 0.0
    kind: ClassVar[str] = "score"

    def columns(self) -> NDArray[np.int32]:
        return self.block.columns(0)

    def holds(self, X: Array, scores: Array, link: Link) -> NDArray[np.bool_]:
        measure = self.block.outputs(0, X)[:, 0]
        if self.doubt:
            measure = measure - self.doubt * link.margin(scores)
        return np.asarray((measure > self.threshold) != self.below)


@dataclass(frozen=True, eq=False)
class StopTable:
    """When rows leave, for several mean budgets: margins after each stage that are enough.

    Parameters
    ----------
    margins : (m, S) float
        A policy in each row: after a stage, a row of the data whose margin is at least this goes no further. ``inf``: none leaves
        there; ``-inf``: all do.
    leaving : (m, S) float
        Share of validation rows for which this was the last stage; each policy's shares add up to 1. With the prices of
        stages they say what the policy costs on average, so that a table outlives a change of prices.

    Raises
    ------
    ValueError
        Where shapes differ, a margin is not a number, or shares do not add up to 1.
    """

    margins: Array
    leaving: Array

    def __post_init__(self) -> None:
        for name in ("margins", "leaving"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.float64))
        if self.margins.ndim != 2 or self.leaving.shape != self.margins.shape or not len(self.margins):
            raise ValueError(
                f"margins and leaving are (policies, stages); they have shapes {self.margins.shape} and {self.leaving.shape}"
            )
        if np.isnan(self.margins).any():
            raise ValueError("margins must not be NaN")
        shares = np.isfinite(self.leaving).all() and (self.leaving >= 0).all()
        if not shares or not np.allclose(self.leaving.sum(axis=1), 1.0, rtol=0, atol=1e-9):
            raise ValueError("shares of rows that leave must not be negative and must add up to 1")

    def head(self, n_stages: int) -> StopTable | None:
        """The table of a plan that ends after ``n_stages`` stages; policies that then do the same are kept once."""
        if not n_stages:
            return None
        margins, leaving = self.margins[:, :n_stages].copy(), self.leaving[:, :n_stages].copy()
        margins[:, -1] = -np.inf
        leaving[:, -1] = np.maximum(1.0 - leaving[:, :-1].sum(axis=1), 0.0)
        kept = np.sort(np.unique(leaving, axis=0, return_index=True)[1])
        return StopTable(margins[kept], leaving[kept])

    def last_stage(self, policy: int) -> int:
        """The stage, counted from 1, after which no row continues."""
        everyone = np.isneginf(self.margins[policy])
        return int(everyone.argmax()) + 1 if everyone.any() else self.margins.shape[1]

    def rules(self, policy: int) -> dict[int, Rule]:
        """Stopping rules of a policy, by stage counted from 0, before the last."""
        margins = self.margins[policy, : self.last_stage(policy) - 1]
        return {
            s: MarginRule(float(margins[s]), below=False)
            for s in np.flatnonzero(np.isfinite(margins)).tolist()
        }
