"""What can be checked on a run as it was: inequalities that have to hold of every stream, every bank and every competitor.

The theorems are about edges that learners are assumed to have. With sums over the run in their place, the same proofs give
statements without assumptions (Hu 2019, equations 5.26 and 5.55). They bound the run itself, not rows to come.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from anytime.streaming.losses import StreamLoss, Target
from anytime.streaming.partial_sums import RoundTrace

Array = NDArray[np.float64]

__all__ = ["Record", "RunCertificate", "descent_certificate", "edge_certificate", "residual_certificate"]


class Record:
    """Sums over a run, in constant memory; its ``add`` is what ``BoostedBank(..., on_round=...)`` calls.

    Outputs are taken as they entered the partial sums, gates included.

    Parameters
    ----------
    loss : StreamLoss

    Attributes
    ----------
    paid : (N + 1,) float
        Losses of the partial sums ``y^0 .. y^N``.
    along, given, asked, missed, left : (N,) float
        ``sum <g, h>``, ``sum |h|^2``, ``sum |g|^2``, ``sum |g - h|^2`` of gradients g and outputs h, and ``sum |q - h|^2`` of
        targets q.
    """

    def __init__(self, loss: StreamLoss) -> None:
        self.loss = loss
        self.n_rows = 0
        self.paid = self.along = self.given = self.asked = self.missed = self.left = np.zeros(())

    def add(self, went: RoundTrace, y: Target, weight: Array | None = None) -> None:
        """Count a round."""
        if self.n_rows and len(went.sums) != self.paid.size:
            raise ValueError(
                f"a record of {self.paid.size - 1} learners, but the round had {len(went.outputs)}"
            )
        rows = np.ones(went.sums.shape[1]) if weight is None else weight
        g, h, q = went.gradients, went.outputs, went.targets

        def product(a: Array, b: Array) -> Array:
            return np.asarray(np.einsum("ibm,ibm,b->i", a, b, rows))

        self.paid = self.paid + self.loss.value(went.sums, y) @ rows
        self.along = self.along + product(g, h)
        self.given = self.given + product(h, h)
        self.asked = self.asked + product(g, g)
        self.missed = self.missed + product(g - h, g - h)
        self.left = self.left + product(q - h, q - h)
        self.n_rows += rows.size

    @property
    def edges(self) -> Array:
        """(N,) Measured edges on the gradients."""
        return 1.0 - np.divide(self.missed, self.asked, out=np.ones_like(self.asked), where=self.asked > 0)

    def regret(self, competitor_paid: float) -> Array:
        """(N + 1,) What ``y^0 .. y^N`` paid more than a competitor."""
        return np.asarray(self.paid - competitor_paid)


@dataclass(frozen=True, eq=False)
class RunCertificate:
    """``left <= right``, for every learner or for the run.

    Attributes
    ----------
    left, right : (k,) float
    applies : (k,) bool
        Where the conditions of the statement are met.
    """

    left: Array
    right: Array
    applies: NDArray[np.bool_]

    def holds(self, tolerance: float = 1e-9) -> bool:
        """Whether it is true wherever it applies, up to rounding relative to the larger side."""
        slack = tolerance * np.maximum(1.0, np.maximum(np.abs(self.left), np.abs(self.right)))
        return bool((self.left <= self.right + slack)[self.applies].all())


def descent_certificate(
    record: Record, steps: Array, beta: float, competitor_paid: float = 0.0
) -> RunCertificate:
    """A-P4: ``Reg_i <= Reg_(i-1) - eta sum <g, h> + beta eta^2 / 2 sum |h|^2`` for every i.

    For every smooth loss and all learners, whatever they do; of runs by gradient descent without a projection.
    """
    regret = record.regret(competitor_paid)
    right = regret[:-1] - steps * record.along + 0.5 * beta * steps**2 * record.given
    return RunCertificate(regret[1:], right, np.ones(right.size, dtype=np.bool_))


def edge_certificate(
    record: Record, steps: Array, lam: float, beta: float, competitor_paid: float, *, sharp: bool = True
) -> RunCertificate:
    """By which factor each learner shrank the regret at least, by its measured edge.

    ``sharp`` (A-P7): ``1 - eta gamma_i lam``, where ``eta <= 1 / beta`` and the edge is not negative. Otherwise (A-P6, equation
    5.26): ``1 - (eta gamma_i lam - beta eta^2 lam (4 - 2 gamma_i))``, where ``eta gamma_i / 2 >= beta eta^2 (2 - gamma_i)``.
    ``lam`` has to hold wherever partial sums and the competitor were.
    """
    regret, edges = record.regret(competitor_paid), record.edges
    if sharp:
        applies = (steps <= (1.0 + 1e-12) / beta) & (edges >= 0)
        factor = 1.0 - steps * edges * lam
    else:
        applies = 0.5 * edges >= beta * steps * (2.0 - edges)
        factor = 1.0 - (steps * edges * lam - beta * steps**2 * lam * (4.0 - 2.0 * edges))
    return RunCertificate(regret[1:], regret[:-1] * factor, applies)


def residual_certificate(
    record: Record, steps: Array, competitor_paid: float, lam: float | None = None
) -> RunCertificate:
    """A-P12, equation 5.55: summed regrets of ``y^0 .. y^(N-1)`` against what outputs and remainders allow.

    ``sum_i eta_i / 2 A_i + eta_N / 2 D_N + sum_i eta_i sqrt(A_i D_i)``, with ``A = sum |h|^2`` and ``D = sum |q - h|^2``. Of
    runs by gradient descent, with or without a projection onto a set in which the start and the competitor lie. Applies where
    ``1 / eta_i`` grows by at most ``lam`` from 0 on, as that of ``1 / (lam i)`` does; ``lam`` is by default the strong
    convexity that the loss has everywhere.
    """
    lam = record.loss.strong_convexity() if lam is None else lam
    given, left = record.given, np.maximum(record.left, 0.0)
    right = 0.5 * steps @ given + 0.5 * steps[-1] * left[-1] + steps @ np.sqrt(given * left)
    growth = np.diff(1.0 / steps, prepend=0.0)
    applies = bool((growth <= lam * (1.0 + 1e-9)).all())
    regret = record.regret(competitor_paid)[:-1].sum()
    return RunCertificate(np.array([regret]), np.array([right]), np.array([applies]))
