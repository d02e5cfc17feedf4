"""When to stop training a model and grow it (section 7.1.3: an open problem; the thesis grows after a fixed number of epochs).

A trigger is called with the history of a training, one mapping per epoch, and says whether it is over: ``Phases(trigger=...)``
asks it after every epoch. An epoch has a ``"loss"``, a ``"validation_error"`` and, while candidates are trained, what
`GradientEvidence` reads. `Plateau` and `GradientEvidence` are experiments of ours, not rules of the thesis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

__all__ = ["FixedEpochs", "GradientEvidence", "GrowthTrigger", "Plateau"]

History = Sequence[Mapping[str, float]]


class GrowthTrigger(Protocol):
    """Says when a phase of training is over."""

    def __call__(self, history: History) -> bool:
        """Whether to end the phase after the epochs of ``history``."""
        ...


@dataclass(frozen=True)
class FixedEpochs:
    """The phase ends after so many epochs.

    Examples
    --------
    >>> FixedEpochs(2)([{"loss": 0.9}]), FixedEpochs(2)([{"loss": 0.9}, {"loss": 0.8}])
    (False, True)
    """

    epochs: int = 80

    def __post_init__(self) -> None:
        _check_count("epochs", self.epochs)

    def __call__(self, history: History) -> bool:
        """Whether there were ``epochs`` epochs."""
        return len(history) >= self.epochs


@dataclass(frozen=True)
class Plateau:
    """Experimental: the phase ends when a value has not fallen for some epochs.

    Parameters
    ----------
    n_iter_no_change : int
        Epochs without a fall after which the phase ends.
    min_delta : float
        A fall counts if it is larger than this.
    of : str
        Key of the value, such as ``"loss"`` or ``"validation_error"``.

    Examples
    --------
    >>> Plateau(n_iter_no_change=2)([{"loss": 0.9}, {"loss": 0.8}, {"loss": 0.85}, {"loss": 0.8}])
    True
    """

    n_iter_no_change: int = 5
    min_delta: float = 0.0
    of: str = "loss"

    def __post_init__(self) -> None:
        _check_count("n_iter_no_change", self.n_iter_no_change)
        if not self.min_delta >= 0:
            raise ValueError(f"min_delta must be at least 0, not {self.min_delta}")

    def __call__(self, history: History) -> bool:
        """Whether the last ``n_iter_no_change`` epochs brought no fall larger than ``min_delta``."""
        best, since = float("inf"), 0
        for epoch in history:
            if epoch[self.of] < best - self.min_delta:
                best, since = epoch[self.of], 0
            else:
                since += 1
        return since >= self.n_iter_no_change


@dataclass(frozen=True)
class GradientEvidence:
    """Experimental: the phase ends when growing promises more than further training.

    Both are judged by correlation with the gradient of the loss at a layer, between 0 and 1: that of the best candidate
    (``"candidate_correlation"``), and that of the change which a step on the model's own parameters makes there
    (``"parent_correlation"``). Only trainings of candidates tell both: others take all of their epochs.

    Parameters
    ----------
    epochs : int
        How many in a row, at the end, the candidate has to be ahead.
    margin : float
        By how much.

    Examples
    --------
    >>> late = {"candidate_correlation": 0.30, "parent_correlation": 0.05}
    >>> GradientEvidence(epochs=1)([late])
    True
    """

    epochs: int = 3
    margin: float = 0.0

    def __post_init__(self) -> None:
        _check_count("epochs", self.epochs)

    def __call__(self, history: History) -> bool:
        """Whether the best candidate was ahead in each of the last ``epochs`` epochs."""
        last = [e for e in history[-self.epochs :] if "candidate_correlation" in e]
        ahead = [e["candidate_correlation"] > e["parent_correlation"] + self.margin for e in last]
        return len(ahead) == self.epochs and all(ahead)


def _check_count(name: str, value: int) -> None:
    if value < 1:
        raise ValueError(f"{name} must be at least 1, not {value}")
