"""Losses of a stream: value, (sub)gradient, and the constants of step sizes and guarantees.

Hu, *Anytime Prediction and Learning for the Balance between Computation and Accuracy*, 2019, section 5.8.5. ``rho`` is the
weight of the squared length of scores, which makes a convex loss strongly convex; the printed constants leave it out, the ones
here do not. Scores have any number of leading axes, (..., b, m): all prefixes of an ensemble are evaluated at once.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logsumexp, softmax

Array = NDArray[np.float64]
Target = NDArray[np.generic]


@dataclass(frozen=True)
class StreamLoss(ABC):
    """A loss of one row's scores, plus ``rho`` times their squared length."""

    rho: float = 1e-3  # not negative

    name: ClassVar[str]  # the name in ``STREAM_LOSSES``, by which native rounds know it too
    link: ClassVar[str] = "identity"  # the name in ``anytime.losses.LINKS`` of what turns scores into answers
    # whether ``y`` holds class numbers: 0 and 1 (or -1 and 1) for one score, 0 to m - 1 for several
    classifies: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not 0 <= self.rho < np.inf:
            raise ValueError(
                f"rho is the weight of a penalty and must be finite and not negative; got {self.rho}"
            )

    def value(self, Y: Array, y: Target) -> Array:
        """(..., b) Losses of scores ``Y`` (..., b, m) where the truth is ``y``: (b,), or (b, m) for several targets."""
        plain = self._plain(Y, y)
        return plain + self.rho * _squared_lengths(Y) if self.rho else plain

    def gradient(self, Y: Array, y: Target) -> Array:
        """(..., b, m) Derivatives of ``value`` in the scores; at a kink, one subgradient."""
        plain = self._slope(Y, y)
        return plain + 2.0 * self.rho * Y if self.rho else plain

    def strong_convexity(self, radius: float = np.inf) -> float:
        """The largest ``lambda`` known to hold where scores are no longer than ``radius``."""
        return 2.0 * self.rho

    def smoothness(self) -> float | None:
        """The smallest known ``beta``; None for a loss with kinks, which has none."""
        return None

    @abstractmethod
    def _plain(self, Y: Array, y: Target) -> Array:
        """(..., b) Losses without the penalty."""

    @abstractmethod
    def _slope(self, Y: Array, y: Target) -> Array:
        """(..., b, m) Gradients without the penalty's."""


@dataclass(frozen=True)
class Squared(StreamLoss):
    """``1/2 |y - z|^2``: strongly convex by itself, so ``rho`` is 0 by default."""

    rho: float = 0.0

    name: ClassVar[str] = "squared"

    def strong_convexity(self, radius: float = np.inf) -> float:
        """``1 + 2 rho``."""
        return 1.0 + 2.0 * self.rho

    def smoothness(self) -> float | None:
        """``1 + 2 rho``."""
        return 1.0 + 2.0 * self.rho

    def _plain(self, Y: Array, y: Target) -> Array:
        off = Y - _columns(Y, y)
        return np.asarray(0.5 * _squared_lengths(off))

    def _slope(self, Y: Array, y: Target) -> Array:
        return np.asarray(Y - _columns(Y, y))


@dataclass(frozen=True)
class Logistic(StreamLoss):
    """``ln(1 + exp(-u y)) + rho y^2`` with u = -1 or 1 (equation 5.58)."""

    name: ClassVar[str] = "logistic"
    link: ClassVar[str] = "logistic"
    classifies: ClassVar[bool] = True

    def strong_convexity(self, radius: float = np.inf) -> float:
        """``2 rho + 1 / (2 + 2 exp(radius))``."""
        return 2.0 * self.rho + 0.5 * float(expit(-radius))

    def smoothness(self) -> float | None:
        """``1/4 + 2 rho``."""
        return 0.25 + 2.0 * self.rho

    def _plain(self, Y: Array, y: Target) -> Array:
        return np.asarray(np.logaddexp(0.0, -_signs(y) * Y)[..., 0])

    def _slope(self, Y: Array, y: Target) -> Array:
        return np.asarray(expit(Y) - (_signs(y) > 0))


@dataclass(frozen=True)
class Hinge(StreamLoss):
    """``max(0, 1 - u y) + rho y^2`` with u = -1 or 1 (equation 5.62)."""

    name: ClassVar[str] = "hinge"
    link: ClassVar[str] = "logistic"
    classifies: ClassVar[bool] = True

    def _plain(self, Y: Array, y: Target) -> Array:
        return np.asarray(np.maximum(0.0, 1.0 - _signs(y) * Y)[..., 0])

    def _slope(self, Y: Array, y: Target) -> Array:
        sign = _signs(y)
        return np.where(sign * Y < 1.0, -sign, 0.0)


@dataclass(frozen=True)
class Absolute(StreamLoss):
    """``|y - z|_1 + rho |y|^2``: sums of absolute deviations."""

    name: ClassVar[str] = "absolute"

    def _plain(self, Y: Array, y: Target) -> Array:
        return np.asarray(np.abs(Y - _columns(Y, y)).sum(axis=-1))

    def _slope(self, Y: Array, y: Target) -> Array:
        return np.asarray(np.sign(Y - _columns(Y, y)))


@dataclass(frozen=True)
class Softmax(StreamLoss):
    """``-ln softmax(y)_z + rho |y|^2`` for a class z (equation 5.63).

    Flat along equal scores: without ``rho`` it is not strongly convex.
    """

    name: ClassVar[str] = "softmax"
    link: ClassVar[str] = "softmax"
    classifies: ClassVar[bool] = True

    def smoothness(self) -> float | None:
        """``1/2 + 2 rho``."""
        return 0.5 + 2.0 * self.rho

    def _plain(self, Y: Array, y: Target) -> Array:
        truth = np.take_along_axis(Y, _at_truth(Y, y), axis=-1)[..., 0]
        return np.asarray(logsumexp(Y, axis=-1) - truth)

    def _slope(self, Y: Array, y: Target) -> Array:
        probabilities, truth = np.asarray(softmax(Y, axis=-1)), _at_truth(Y, y)
        np.put_along_axis(
            probabilities, truth, np.take_along_axis(probabilities, truth, axis=-1) - 1.0, axis=-1
        )
        return probabilities


STREAM_LOSSES: dict[str, type[StreamLoss]] = {
    loss.name: loss for loss in (Squared, Logistic, Hinge, Absolute, Softmax)
}


def loss_named(name: str, rho: float = 1e-3) -> StreamLoss:
    """The loss of that name; ``rho`` is for those that are not strongly convex without it, and the squared loss is.

    Examples
    --------
    >>> loss_named("logistic").smoothness(), loss_named("squared")
    (0.252, Squared(rho=0.0))
    """
    if name not in STREAM_LOSSES:
        raise ValueError(f"there is no loss {name!r} for streams; the losses are {', '.join(STREAM_LOSSES)}")
    return Squared() if name == Squared.name else STREAM_LOSSES[name](rho)


def _columns(Y: Array, y: Target) -> Array:
    """Targets as (b, m)."""
    return np.asarray(y, dtype=np.float64).reshape(Y.shape[-2:])


def _squared_lengths(Y: Array) -> Array:
    if Y.shape[-1] == 1:
        return np.square(Y[..., 0])
    return np.asarray(np.einsum("...m,...m->...", Y, Y))


def _signs(y: Target) -> Array | float:
    """(b, 1) Two classes, coded 0 and 1 or -1 and 1, as -1 and 1; a number for one row, which is quicker."""
    if y.size == 1:
        return 1.0 if y.item() > 0 else -1.0
    return np.where(np.asarray(y, dtype=np.float64).reshape(-1, 1) > 0, 1.0, -1.0)


def _at_truth(Y: Array, y: Target) -> NDArray[np.intp]:
    """(..., b, 1) The number of each row's class, as an index into the last axis of ``Y``."""
    return np.broadcast_to(np.asarray(y, dtype=np.intp).reshape(-1, 1), (*Y.shape[:-1], 1))
