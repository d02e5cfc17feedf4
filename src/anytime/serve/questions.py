"""What the server asks an engine: questions with their limits."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from anytime.plan import Array
from anytime.rows import Rows, shown
from anytime.serve.errors import refuse


class Limits(TypedDict):
    """What a client allows for an answer. None: the model's own bounds, or no limit."""

    budget: float | None
    mean_budget: float | None
    deadline: float | None
    confidence: float | None


def limits_of(fields: dict[str, Any], classifies: bool) -> Limits:
    """The limits among the fields or parameters of a request, each of which may be absent; a confidence is for classifiers."""
    if not fields:
        return {"budget": None, "mean_budget": None, "deadline": None, "confidence": None}
    deadline, confidence = amount_of(fields, "deadline_ms"), amount_of(fields, "confidence")
    if confidence is not None:
        if not classifies:
            refuse("confidence is for classifiers; this model predicts numbers")
        if not 0 < confidence <= 1:
            refuse(f"confidence must be above 0 and at most 1, not {confidence:g}")
    return {
        "budget": amount_of(fields, "budget"),
        "mean_budget": amount_of(fields, "mean_budget"),
        "deadline": None if deadline is None else deadline / 1e3,
        "confidence": confidence,
    }


def amount_of(fields: dict[str, Any], name: str) -> float | None:
    """A number that is not negative, or None where there is none."""
    value = fields.get(name)
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 <= value < np.inf:
        refuse(f"{name} must be a non-negative number, not {shown(value)}")
    return float(value)


class Ask(NamedTuple):
    """A request, read."""

    rows: Rows
    # raw examples, from which the server computes the features that it needs, or structures to be labelled
    raws: Sequence[Any] | None
    limits: Limits
    probabilities: bool = False  # whether plain JSON shall have them
    id: str | None = None  # given back in the answer
    outputs: Sequence[tuple[str, bool]] = ()  # tensors that are wanted, and whether as bytes


@dataclass(slots=True, eq=False)
class Question:
    """Rows to be answered, and within which bounds."""

    X: Array  # (n, d): as the model's plan reads them. Columns of groups that are not held may be anything
    # the most that any row may pay, and what rows may pay on average. Both None: the model's own bounds
    budget: float | None = None
    mean_budget: float | None = None
    deadline: float | None = None  # seconds from the arrival
    confidence: float | None = None  # the probability of the leading class that is enough
    held: NDArray[np.bool_] | None = None  # (G,): groups of columns that are there. None: all
    raws: Sequence[Any] | None = None  # raw examples, whose features are computed on demand
    arrived: float = field(default_factory=time.monotonic)  # on the engine's clock
