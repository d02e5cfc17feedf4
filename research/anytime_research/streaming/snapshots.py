"""Algorithm 8: an answer averaged over the rounds of a run, of which a few frozen copies stand for all (Hu 2019, section 5.5).

The averaged hypothesis of the theory is a mean of functions over all rounds, which would need a copy of every learner at every
round.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.blocks import Block
from anytime.streaming.banks import Bank
from anytime.streaming.boosted_bank import BoostedBank
from anytime.streaming.losses import StreamLoss, Target
from anytime.streaming.partial_sums import averaged

Array = NDArray[np.float64]

__all__ = ["AveragedRounds"]


class AveragedRounds(BoostedBank):
    """A boosted bank whose answers are the mean over copies of its learners, spread evenly over the rounds.

    Parameters
    ----------
    bank, loss, **settings
        As of ``BoostedBank``.
    kept : int, default=8
        Between so many and twice as many copies are kept, at multiples of a stride that doubles when there is no more room.

    Attributes
    ----------
    copies : list of (int, Block)
        Round and copy, rounds increasing.
    """

    def __init__(self, bank: Bank, loss: StreamLoss, *, kept: int = 8, **settings: Any) -> None:
        super().__init__(bank, loss, **settings)
        self.kept, self.stride, self.n_rounds = kept, 1, 0
        self.copies: list[tuple[int, Block]] = []

    def round(self, X: Array, y: Target, weight: Array | None = None, start: Array | None = None) -> Array:
        """One round of all rows, and a copy of the learners where one is due."""
        before = super().round(X, y, weight, start)
        self.n_rounds += 1
        if self.n_rounds % self.stride == 0:
            self.copies.append((self.n_rounds, self.bank.block()))
        if len(self.copies) > 2 * self.kept:
            self.stride *= 2
            self.copies = [(at, copy) for at, copy in self.copies if at % self.stride == 0]
        return before

    def learn(self, X: Array, y: Target, weight: Array | None = None, *, batch_size: int = 1) -> Array:
        """Rounds of ``batch_size`` rows; (n, m) what the learners of now answered to each row before learning it."""
        parts = [slice(at, at + batch_size) for at in range(0, len(X), batch_size)]
        return np.concatenate([self.round(X[p], y[p], None if weight is None else weight[p]) for p in parts])

    def answers(self, X: Array) -> Array:
        """(N + 1, b, m) The answer of every prefix: the mean over the copies that have all its learners, and those of now."""
        answers = super().answers(X)
        counts = np.ones((self.n_estimators + 1, 1, 1))
        for _, block in self.copies:
            outputs = np.stack([block.outputs(i, X) for i in range(block.n_stages)])
            n = len(outputs)
            answers[: n + 1] += averaged(self._sums(outputs * self.gates[:n, None, None]), self.averaging)
            counts[: n + 1] += 1
        return np.asarray(answers / counts)

    def predict(self, X: Array) -> Array:
        """(b, m) The answer of all learners."""
        return np.asarray(self.answers(X)[-1])
