"""How much was lost by not knowing the best expert."""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["ExpertRegret"]

Array = NDArray[np.float64]


class ExpertRegret:
    """Adds up what a learner lost and what each expert would have lost. Needs all losses, so it is for evaluation.

    Attributes
    ----------
    n_rounds : int
    loss : float
        Of the learner.
    expert_losses : (K,) float

    Examples
    --------
    >>> tracker = ExpertRegret().add([[0.0, 1.0], [0.0, 1.0], [1.0, 0.0]], [1, 0, 0])
    >>> tracker.regret, tracker.best, tracker.curve.tolist()
    (1.0, 0, [1.0, 1.0, 1.0])
    """

    def __init__(self) -> None:
        self.n_rounds, self.loss = 0, 0.0
        self.expert_losses: Array = np.zeros(0)
        self._curve: list[Array] = []

    def add(self, losses: ArrayLike, played: ArrayLike) -> Self:
        """Rounds with the losses of all experts (n, K) and the expert played (n,)."""
        table, drawn = np.asarray(losses, dtype=np.float64), np.asarray(played, dtype=np.intp)
        if table.ndim != 2 or drawn.shape != table.shape[:1]:
            raise ValueError(
                f"losses have shape {table.shape}, played {drawn.shape}; expected (n, K) and (n,)"
            )
        if not np.isfinite(table).all():
            raise ValueError("a loss is missing; regret can be known only where all losses are")
        before = self.expert_losses if self.n_rounds else np.zeros(table.shape[1])
        if before.size != table.shape[1]:
            raise ValueError(f"losses of {table.shape[1]} experts, after those of {before.size}")
        own = self.loss + np.cumsum(table[np.arange(len(table)), drawn])
        theirs = before + np.cumsum(table, axis=0)
        if len(table):
            self.loss, self.expert_losses = float(own[-1]), theirs[-1].copy()
        self._curve.append(own - theirs.min(axis=1))
        self.n_rounds += len(table)
        return self

    @property
    def regret(self) -> float:
        """The learner's loss minus that of the best expert in hindsight."""
        return self.loss - float(self.expert_losses.min()) if self.n_rounds else 0.0

    @property
    def best(self) -> int:
        """The best expert in hindsight."""
        if not self.n_rounds:
            raise ValueError("no round was added yet")
        return int(self.expert_losses.argmin())

    @property
    def curve(self) -> Array:
        """(n,) regret after each round, against the expert best by then."""
        return np.concatenate(self._curve) if self._curve else np.zeros(0)
