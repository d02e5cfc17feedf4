"""Scores of the models of a ladder for rows, and choices of models and margins among which a budget or a tolerance decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from anytime.adaptive.choosing import HeldOutRows, Point
from anytime.adaptive.exits import Answers, judged_loss
from anytime.adaptive.stages import Chain
from anytime.engine import Run
from anytime.forests.levels import ticks_of
from anytime.losses import LINKS
from anytime.plan import Array

_Bill = tuple[NDArray[np.uint8], NDArray[np.int64]]


@dataclass(frozen=True, eq=False)
class ScoredRows:
    """Rows, honest scores of them from all models, the costly one last, and what they buy for each.

    Every model is run once. What a chain of models costs is read off the groups that its models buy: each is paid once.
    """

    bench: HeldOutRows
    scores: Sequence[Array]  # (n, K) of each model
    # of each model alone, after each of its stages: (n, ceil(G / 8)) groups bought, eight to a byte, and (n,)
    # ticks paid for evaluation. All models but the costly one have one stage
    bills: Sequence[Sequence[_Bill]]
    # (n, K): scores of the models themselves, which may have been trained on the rows
    own_scores: Sequence[Array]
    _after: dict[tuple[int, ...], list[_Bill]] = field(default_factory=dict)
    _paid: dict[tuple[int, ...], list[Array]] = field(default_factory=dict)

    @classmethod
    def of(cls, bench: HeldOutRows, scores: Sequence[Array], models: Sequence[Chain]) -> ScoredRows:
        """``models``: each as a chain of its own, without gates before it."""
        ran = [_run(bench, model) for model in models]
        return cls(bench, scores, [bills for bills, _ in ran], [own for _, own in ran])

    def paid(self, which: Sequence[int]) -> Array:
        """(S, n) cumulative cost of rows after each stage of some of the models, if no row leaves before the last."""
        models = tuple(which)
        return np.array(
            [self._amounts(models[: k + 1])[-1] for k in range(len(models) - 1)] + self._amounts(models)
        )

    def _amounts(self, models: tuple[int, ...]) -> list[Array]:
        if models not in self._paid:
            costs = self.bench.costs
            self._paid[models] = [
                costs.costs.amounts(ticks_of(_unpacked(bits, costs.n_groups), costs) + evaluation)
                for bits, evaluation in self._bought(models)
            ]
        return self._paid[models]

    def _bought(self, models: tuple[int, ...]) -> list[_Bill]:
        """After each stage of the last of the models."""
        *before, last = models
        if not before:
            return list(self.bills[last])
        if models not in self._after:
            bits, evaluation = self._bought(tuple(before))[-1]
            self._after[models] = [(bits | more, evaluation + ticks) for more, ticks in self.bills[last]]
        return self._after[models]

    def answers(self, which: Sequence[int], scores: Sequence[Array] | None = None) -> Answers:
        """Accuracy and cost of some of the models, by held-out scores or others."""
        link, last, paid = LINKS[self.bench.link], len(which) - 1, self.paid(which)
        scores = [(self.scores if scores is None else scores)[k] for k in which]
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
    """Models one after the other, margins of all but the last, and what they come to."""

    which: tuple[int, ...]  # the models, by number; the costly one has the highest
    margins: Array  # (L,): from which on rows leave with the answer of each but the last
    point: Point
    # accuracy lost against the costly model by margins that other rows choose for about the same cost,
    # and its standard error
    loss: float
    error: float
    own_loss: float  # by the margins themselves, on rows that have chosen them
    # (n,): the model with which each training row leaves, by margins that other rows choose
    leaves: NDArray[np.integer]

    @classmethod
    def of(
        cls,
        which: tuple[int, ...],
        margins: Array,
        cost: float,
        judging: Answers,
        all_answers: Answers,
        crossed: NDArray[np.integer],
        n_train: int,
        costly: int,
    ) -> LadderChoice:
        """``crossed``: exits of the rows of ``all_answers``, training rows first, by margins that other rows chose."""
        loss, error = judged_loss(all_answers, crossed, n_train)
        accuracy = float(np.average(judging.reference, weights=judging.weight)) - loss
        models = np.array(which)
        sent = float(np.average(models[judging.leaves(margins)] == costly, weights=judging.weight))
        point = Point(None, accuracy, cost, sent, doubt=1.0)
        choice = cls(which, margins, point, loss, error, judging.loss(margins)[0], models[crossed[:n_train]])
        return replace(choice, point=replace(point, threshold=choice.threshold(costly)))

    @property
    def used(self) -> tuple[list[int], Array]:
        """Models at which rows leave, and margins of all but the last of them, which keeps the remaining rows."""
        last = int(np.argmax(np.append(self.margins, -np.inf) == -np.inf))
        kept = [k for k in range(last) if self.margins[k] < np.inf]
        return [self.which[k] for k in (*kept, last)], self.margins[kept]

    def threshold(self, costly: int) -> float | None:
        """Of the first exit in use; None where one model answers all rows, minus infinity where it is the costly one."""
        models, margins = self.used
        if margins.size:
            return -float(margins[0])
        return -np.inf if models[-1] == costly else None


def _run(bench: HeldOutRows, model: Chain) -> tuple[list[_Bill], Array]:
    """Costs of rows after each stage of a model, and their scores."""
    run = Run(model.without_asking.plan(bench.costs, bench.base, bench.link), bench.X, metered=True)
    bills = []
    for stage in range(run.plan.n_stages):
        run.advance(stage + 1)
        assert run.ledger is not None
        bought = run.ledger.bought
        bills.append((np.packbits(bought, axis=1), run.ledger.paid - ticks_of(bought, bench.costs)))
    return bills, run.scores()


def _unpacked(bits: NDArray[np.uint8], n_groups: int) -> NDArray[np.bool_]:
    return np.unpackbits(bits, axis=1, count=n_groups).view(np.bool_)
