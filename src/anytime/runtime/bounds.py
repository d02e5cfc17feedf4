"""When a run has to stop: cost, time, stages, confidence, or a stop flag."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.costs import UNLIMITED
from anytime.engine import Stop
from anytime.estimator import AnytimeModel
from anytime.losses import LINKS, Link
from anytime.plan import Array
from anytime.validation import is_amount


@dataclass(frozen=True)
class Bounds:
    """The bounds of one run, as the runtime compares them. All hold together."""

    until: int  # stages after which to stop
    reason: str = "complete"  # why it ends there: or "budget", or "stages"
    cap: int = int(UNLIMITED)  # realised cost, in ticks, that may be reached
    due: float = np.inf  # on the session's clock
    # the probability of the leading class that is enough; of a calibrated plan the threshold that keeps the promise
    confidence: float | None = None
    stop: Stop | None = None
    # (S,): the margin after each stage that is enough, where a mean budget lets sure rows leave early
    margins: Array | None = None

    @classmethod
    def of(
        cls,
        model: AnytimeModel,
        now: float,
        budget: float | None = None,
        deadline: float | None = None,
        confidence: float | None = None,
        stop: Stop | None = None,
        max_stages: int | None = None,
        mean_budget: float | None = None,
    ) -> Bounds:
        """Check what a user asks for, and turn it into bounds."""
        plan = model.plan_
        if budget is not None and np.ndim(budget):
            raise ValueError("a session has one example and takes one budget, not an array")
        check_ends(max_stages, stop)
        _check_confidence(model, confidence)
        due = model._due(now, deadline)
        stages, most, policy = model._reach(budget, mean_budget)
        until, cap = int(stages), int(UNLIMITED) if most is None else min(int(most), plan.limit_ticks)
        reason = "complete" if until == plan.n_stages else "budget"
        if max_stages is not None and max_stages < until:
            until, reason = max_stages, "stages"
        if confidence is not None and plan.calibration is not None:
            confidence = plan.calibration.threshold(confidence, until)
        margins = None
        if policy is not None and plan.stop_table is not None:
            margins = plan.stop_table.margins[policy]
        return cls(until, reason, cap, due, confidence, stop, margins)

    @property
    def stepwise(self) -> bool:
        """Whether the answer after each stage is checked."""
        return self.confidence is not None or self.margins is not None

    def has_margin(self, scores: Array, answered: NDArray[np.int32], link: Link) -> NDArray[np.bool_]:
        """(n,) rows whose margin, after the last stage that worked on them, is enough for the mean budget."""
        if self.margins is None:
            return np.zeros(len(scores), dtype=bool)
        enough = np.concatenate([[np.inf], self.margins])[answered]
        return np.asarray(link.margin(scores) >= enough)

    @property
    def hurried(self) -> bool:
        """Whether a deadline or a stop flag is set: extractors must then not block the answer."""
        return self.due < np.inf or self.stop is not None

    def interrupted(self, now: float) -> str:
        """Why to stop at once, or an empty string."""
        if self.stop is not None and self.stop.is_set():
            return "stop"
        return "deadline" if now >= self.due else ""


def _check_confidence(model: AnytimeModel, confidence: float | None) -> None:
    if confidence is None:
        return
    if not LINKS[model.plan_.link].classifies:
        raise ValueError(f"confidence needs a classifier, but a {type(model).__name__} predicts numbers")
    if not is_amount(confidence) or not 0.0 < confidence <= 1.0:
        raise ValueError(f"confidence must be a probability in (0, 1], not {confidence!r}")


def check_ends(max_stages: Any, stop: Any) -> None:
    """Refuse what says when to end, where it is no number of stages or no flag."""
    if max_stages is not None and not is_amount(max_stages):
        raise ValueError(f"max_stages must be a non-negative number, not {max_stages!r}")
    if stop is not None and not callable(getattr(stop, "is_set", None)):
        raise ValueError(
            f"stop must have a method is_set(), as threading.Event does; {type(stop).__name__} has none"
        )
