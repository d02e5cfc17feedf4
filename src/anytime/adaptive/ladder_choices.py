"""What the models of a ladder say of rows, and choices of models and margins among which a budget or a tolerance decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from anytime.adaptive.choosing import HeldOutRows, Point
from anytime.adaptive.exits import Answers, judged_loss
from anytime.losses import LINKS
from anytime.plan import Array

__all__ = ["LadderChoice", "ScoredRows"]


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Rows, and honest scores of them from all models, the costly one last."""

    bench: HeldOutRows
    scores: Sequence[Array]

    def answers(self, paid: Array, which: Sequence[int]) -> Answers:
        """What some of the models come to; ``paid`` (S, n): after their stages, if nobody leaves before the last."""
        link, last = LINKS[self.bench.link], len(which) - 1
        scores = [self.scores[k] for k in which]
        right = np.column_stack([self.bench.right(s) for s in scores])
        margin = np.array([link.margin(s) for s in scores[:last]]).reshape(last, len(right)).T
        weight = np.ones(len(right)) if self.bench.weight is None else self.bench.weight
        cost = np.column_stack([*paid[:last], paid[-1]])
        return Answers(margin, right, cost, weight, self.bench.right(self.scores[-1]))

    def routed(self, leaves: NDArray[np.integer]) -> Array:
        """(n, K) The scores with which rows leave; ``leaves`` (n,): which model's."""
        return np.asarray(np.stack(self.scores)[leaves, np.arange(len(leaves))])


@dataclass(frozen=True, eq=False)
class LadderChoice:
    """Models one after the other, margins of all but the last, and what they come to.

    Attributes
    ----------
    which : tuple of int
        The models, by number; the costly one has the highest.
    margins : (L,)
        From which on rows leave with the answer of each but the last.
    point : Point
    loss, error : float
        Accuracy lost against the costly model by margins that other rows choose for about the same cost, and its standard error.
    own_loss : float
        By the margins themselves, on rows that have chosen them.
    leaves : (n,) int
        The model with which each training row leaves, by margins that other rows choose.
    """

    which: tuple[int, ...]
    margins: Array
    point: Point
    loss: float
    error: float
    own_loss: float
    leaves: NDArray[np.integer]

    @classmethod
    def of(
        cls,
        which: tuple[int, ...],
        margins: Array,
        judging: Answers,
        known: Answers,
        crossed: NDArray[np.integer],
        n_train: int,
        costly: int,
    ) -> LadderChoice:
        """``crossed``: where all rows that are ``known`` leave by margins of others; training rows are the first of them."""
        loss, error = judged_loss(known, crossed, n_train)
        accuracy = float(np.average(judging.reference, weights=judging.weight)) - loss
        models = np.array(which)
        sent = float(np.average(models[judging.leaves(margins)] == costly, weights=judging.weight))
        point = Point(None, accuracy, judging.mean_cost(margins), sent, doubt=1.0)
        choice = cls(which, margins, point, loss, error, judging.loss(margins)[0], models[crossed[:n_train]])
        return replace(choice, point=replace(point, threshold=choice.threshold(costly)))

    @property
    def used(self) -> tuple[list[int], Array]:
        """Models with which somebody leaves, and margins of all but the last of them, which keeps who is left."""
        last = int(np.argmax(np.append(self.margins, -np.inf) == -np.inf))
        kept = [k for k in range(last) if self.margins[k] < np.inf]
        return [self.which[k] for k in (*kept, last)], self.margins[kept]

    def threshold(self, costly: int) -> float | None:
        """Of the first exit in use; None where one model answers all rows, minus infinity where it is the costly one."""
        models, margins = self.used
        if margins.size:
            return -float(margins[0])
        return -np.inf if models[-1] == costly else None
