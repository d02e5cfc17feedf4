"""How a structured trainer chooses, and what it says of each step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from anytime.structured.block import Update

__all__ = ["StructuredRules", "StructuredStep"]


@dataclass(frozen=True)
class StructuredRules:
    """How a structured trainer chooses.

    Parameters
    ----------
    cost_aware : bool, default=True
        Choose by gain per unit of cost (Algorithm 7.1). False: by how close a candidate comes to the gradient (3.1).
    evaluation_cost : float, default=0
        Price of an update, whatever it reads.
    least_cost : float, default=0.01
        Added to the cost of every candidate when they are compared: what costs nothing has no gain per unit of cost.
    folds : int, default=0
        Copies for held-out predictions (3.3), over structures; 0: updates are told training predictions.
    copies_are_told : {"held_out", "own"}, default="held_out"
        What copies, while they learn, are told of the predictions of others. "own": those of the copy itself, as printed in 3.3.
        "held_out": those that the main predictor is told, as in forward stacking (3.2).
    stacking : {"shared", "independent"}, default="shared"
        Whether copies make the main predictor's choice of selector, learner and columns again, or choose for themselves, by
        what they have bought themselves.
    holdout : float or None, default=None
        Share of the structures, drawn anew at each step, on which gain is measured; candidates are fitted to the others, and the
        step of the one that is taken to all (section 6.5.4).
    draws : int, default=5
        ``holdout``: draws in a row without a gain on what is held out after which there is no further step.
    learning_rate : float, default=1
        Times each step, after it was chosen.
    tried_candidates : int or None, default=None
        Pairs of selector and learner that are tried at each step, drawn anew; all are where none of these gains. None: all at
        each step.
    judged_elements : int or None, default=None
        On about how many elements, drawn anew at each step, gains are measured and steps fitted; a step that does not lower the
        loss of all elements is not taken. None: on all.
    """

    cost_aware: bool = True
    evaluation_cost: float = 0.0
    least_cost: float = 0.01
    folds: int = 0
    copies_are_told: Literal["held_out", "own"] = "held_out"
    stacking: Literal["shared", "independent"] = "shared"
    holdout: float | None = None
    draws: int = 5
    learning_rate: float = 1.0
    tried_candidates: int | None = None
    judged_elements: int | None = None

    def __post_init__(self) -> None:
        if not (self.least_cost > 0 and self.evaluation_cost >= 0):
            raise ValueError("least_cost must be positive, and evaluation_cost not negative")
        if self.folds == 1 or self.folds < 0:
            raise ValueError(f"folds is {self.folds}; it must be 0 or at least 2")


@dataclass(frozen=True, eq=False)
class StructuredStep:
    """What one step did.

    Attributes
    ----------
    update : Update
    gain : float
        Drop of the objective on all training elements.
    cost : float
        Mean over structures of what it cost, given what they had bought.
    value : float
        The objective after it.
    held_out : float
        The objective of the copies' held-out predictions after it; NaN without copies.
    selected : float
        Share of the regions of its level that it worked on.
    """

    update: Update
    gain: float
    cost: float
    value: float
    held_out: float
    selected: float
