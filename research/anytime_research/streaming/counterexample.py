"""A loss with kinks on which Algorithm 6 stands still and Algorithm 7 does not (Hu 2019, section 5.8.4).

``l(y) = 2 |y_1| + |y_2|`` for every row; learners are constants along one axis. The first axis has the larger gradient, so
learners that are fitted to gradients never touch the second one. The printed claim, that learners which follow the leader do
so whatever the gradients were, is too strong: once the first coordinate changes sign, its gradients cancel in the mean and
the second axis wins. Two forms hold: steps too short for a change of sign, and learners that look at the present gradient.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anytime.streaming.losses import StreamLoss, Target
from anytime.streaming.partial_sums import AlgorithmName, averaged, descend
from anytime.streaming.projections import Ball
from anytime_research.streaming.descent import descend_one_by_one
from anytime_research.streaming.oracles import AxisLeaders, axis_oracle

Array = NDArray[np.float64]

__all__ = ["LeadersRun", "Uneven", "axis_run", "leaders_run"]


@dataclass(frozen=True)
class Uneven(StreamLoss):
    """``2 |y_1| + |y_2| + rho |y|^2``, whatever the row; least at 0. ``rho`` is half of lambda.

    Parameters
    ----------
    rho : float, default=0
    at_zero : float, default=1
        Any subgradient will do at a kink: this multiple of the slope to its right. With 0, the shortest, Algorithm 6 escapes
        by steps that happen to land on the kink.
    """

    rho: float = 0.0
    at_zero: float = 1.0

    name: ClassVar[str] = "uneven"

    def gradient_bound(self, radius: float) -> float:
        """``sqrt(5) + 2 rho radius``: no gradient is longer where scores are no longer than ``radius``."""
        return float(np.sqrt(5.0)) + 2.0 * self.rho * radius

    def _plain(self, Y: Array, y: Target) -> Array:
        return np.asarray(2.0 * np.abs(Y[..., 0]) + np.abs(Y[..., 1]))

    def _slope(self, Y: Array, y: Target) -> Array:
        return np.asarray(np.where(Y == 0, self.at_zero, np.sign(Y)) * [2.0, 1.0])


class LeadersRun(NamedTuple):
    """What learners that follow the leader did.

    Attributes
    ----------
    answers : (T, 2) float
        After N learners, round by round.
    losses : (T,) float
    second_axis : float
        Share of all outputs that point along the second axis.
    """

    answers: Array
    losses: Array
    second_axis: float


def leaders_run(
    n_estimators: int, step: float, *, start: tuple[float, float] = (1.0, 1.0), n_rounds: int = 400
) -> LeadersRun:
    """Algorithm 6 with learners that follow the leader. Form A-P19a: a step below ``start[0] / (2 N)``."""
    loss, leaders = Uneven(at_zero=0.0), AxisLeaders(n_estimators, 2)
    row, nothing = np.zeros((1, 0)), np.zeros(1)
    answers, second = np.empty((n_rounds, 2)), 0
    for t in range(n_rounds):
        outputs = leaders.predict(row)
        went = descend(outputs, nothing, loss, np.full(n_estimators, step), np.array([start]))
        answers[t] = went.sums[-1, 0]
        second += int((outputs[:, 0, 1] != 0).sum())
        leaders.update(row, went.targets)
    return LeadersRun(answers, loss.value(answers, nothing), second / (n_estimators * n_rounds))


def axis_run(
    n_estimators: int,
    *,
    algorithm: AlgorithmName,
    lam: float = 0.5,
    step: float | None = None,
    start: tuple[float, float] = (1.0, 1.0),
    radius: float = 2.0,
) -> tuple[Array, Array]:
    """One round with axis oracles, whose edge is at least 1/2 (form A-P19b); rows do not differ, so one round is all.

    Returns the answer (2,) and the partial sums (N + 1, 2). "residual" takes steps ``1 / (lam i)`` in a ball of ``radius``
    and answers with the average of theory; "smooth" takes constant steps, or ``1 / (lam i)`` too where ``step`` is None, and
    answers with its last sum.
    """
    loss, residual = Uneven(lam / 2.0), algorithm == "residual"
    numbers = np.arange(1, n_estimators + 1, dtype=np.float64)
    steps = 1.0 / (lam * numbers) if step is None else np.full(n_estimators, step)
    went = descend_one_by_one(
        axis_oracle,
        n_estimators,
        np.zeros(1),
        loss,
        steps,
        np.array([start]),
        algorithm=algorithm,
        projection=Ball(radius) if residual else None,
    )
    sums = went.sums[:, 0]
    return averaged(sums, "theory" if residual else "last")[-1], sums
