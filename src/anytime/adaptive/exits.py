"""Where rows leave: margins at which the answers of a chain of models are certain enough.

A row goes from model to model and leaves at the first whose margin, how far its leading class is ahead, is large enough; the last
keeps who is left. For a price of a unit of cost the margins are chosen one after the other, the most expensive first, each the
best for the rows that come so far, until none changes: what is gained never falls. Margins flatter the rows that they were chosen
on, so rows are judged by the margins that other rows choose for about the same cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from anytime.plan import Array

__all__ = ["Answers", "best_margins", "crossed_path", "judged_loss"]

_MOST_CUTS = 64  # margins tried at an exit: more would be chosen by the noise of the rows
_PASSES = 6
_PRICES = np.geomspace(1e-3, 1.0, 60)  # of all that the last model costs, in rows answered rightly


@dataclass(frozen=True, eq=False)
class Answers:
    """Scores of L exits, and of the model behind them, for some rows.

    Attributes
    ----------
    margin : (n, L)
        Of the answer at each exit.
    right : (n, L + 1) bool
        Whether it is right.
    cost : (n, L + 1)
        What a row has paid that leaves there.
    weight : (n,)
    reference : (n,) bool
        Whether the costly model is right: losses are against it.
    """

    margin: Array
    right: NDArray[np.bool_]
    cost: Array
    weight: Array
    reference: NDArray[np.bool_]

    def __add__(self, other: Answers) -> Answers:
        """Both rows."""
        names = [field.name for field in fields(self)]
        return Answers(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in names))

    def part(self, rows: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Answers:
        """Some rows."""
        return Answers(*(getattr(self, field.name)[rows] for field in fields(self)))

    @cached_property
    def falling(self) -> NDArray[np.intp]:
        """(n, L) Rows by falling margin at each exit."""
        return np.argsort(-self.margin, axis=0, kind="stable")

    def leaves(self, margins: Array) -> NDArray[np.intp]:
        """(n,) The exit of each row, L for the last model."""
        sure = np.column_stack([self.margin >= margins, np.ones(len(self.margin), dtype=bool)])
        return np.asarray(sure.argmax(axis=1))

    def accuracy(self, margins: Array) -> float:
        """Share of rows that leave with the right answer."""
        return self.mean(self.right, self.leaves(margins))

    def mean_cost(self, margins: Array) -> float:
        """Mean cost of the rows."""
        return self.mean(self.cost, self.leaves(margins))

    def loss(self, margins: Array) -> tuple[float, float]:
        """The loss of accuracy against the costly model, and its standard error."""
        return self.loss_of(self.leaves(margins))

    def loss_of(self, leaves: NDArray[np.integer]) -> tuple[float, float]:
        """The same where it is known at which exit each row leaves."""
        rows = np.arange(len(self.right))
        lost = self.reference.astype(np.float64) - self.right[rows, leaves]
        mean = float(np.average(lost, weights=self.weight))
        share = self.weight / self.weight.sum()
        return mean, float(np.sqrt(np.square(share * (lost - mean)).sum()))

    def mean(self, values: NDArray[np.float64 | np.bool_], leaves: NDArray[np.integer]) -> float:
        """The mean of values (n, L + 1) at the exits at which rows leave."""
        return float(np.average(values[np.arange(len(values)), leaves], weights=self.weight))


def best_margins(answers: Answers, price: float, start: Array | None = None) -> Array:
    """(L,) Margins with the most rows answered rightly, less ``price`` for each unit of cost.

    Infinite if no row leaves, minus infinity if all do. ``start``: where the search begins; None: no row leaves early.
    """
    worth = answers.weight[:, None] * (answers.right - price * answers.cost)
    n_exits = answers.margin.shape[1]
    margins = np.full(n_exits, np.inf) if start is None else start.copy()
    for _ in range(_PASSES):
        before = margins.copy()
        comes = np.logical_and.accumulate(answers.margin < before, axis=1)  # past each exit
        onwards = worth[:, -1]
        for k in range(n_exits)[::-1]:
            order = answers.falling[:, k]
            if k:
                order = order[comes[order, k - 1]]
            margins[k] = _best_cut(answers.margin[order, k], (worth[:, k] - onwards)[order])
            onwards = np.where(answers.margin[:, k] >= margins[k], worth[:, k], onwards)
        if np.array_equal(margins, before):
            break
    return margins


def _best_cut(margin: Array, gain: Array) -> float:
    """The margin from which on leaving gains the most in all; margins fall."""
    total = np.concatenate([[0.0], np.cumsum(gain)])
    inner = _inner_cuts(margin.size)
    apart = inner[margin[inner - 1] > margin[inner]]  # rows of one margin go together
    cuts = np.concatenate([[0], apart, [margin.size]])
    best = int(cuts[np.argmax(total[cuts])])
    if best == 0:
        return np.inf
    return -np.inf if best == margin.size else float(margin[best - 1])


@lru_cache(maxsize=1024)  # the same numbers of rows come again for every price
def _inner_cuts(n_rows: int) -> NDArray[np.intp]:
    """Places between falling margins at which a cut is tried."""
    if n_rows < _MOST_CUTS:
        return np.arange(1, n_rows)
    return np.linspace(0, n_rows, _MOST_CUTS).astype(np.intp)[1:-1]


def crossed_path(
    answers: Answers, part: NDArray[np.intp], prices: Iterable[float] = _PRICES
) -> tuple[list[Array], list[NDArray[np.int32]]]:
    """The path, and where each row leaves, (n,), by margins that rows of other parts choose for about the same cost.

    The path is margins from the most expensive to the cheapest, such that no others that were found are as cheap and as accurate.

    Parameters
    ----------
    answers : Answers
    part : (n,) int
        The part of each row.
    prices : iterable of float
    """
    if not answers.margin.shape[1]:
        return [np.empty(0)], [np.zeros(len(part), dtype=np.int32)]
    scaled = _scaled(answers, prices)
    path, costs = _frontier(answers, _turns(answers, scaled))
    leaves = np.empty((len(path), len(part)), dtype=np.int32)
    for k in np.unique(part):
        own, others = answers.part(part == k), answers.part(part != k)
        theirs, paid = _frontier(others, _turns(others, scaled))
        near = np.abs(paid - costs[:, None]).argmin(axis=1)
        leaves[:, part == k] = np.array([own.leaves(margins) for margins in theirs])[near]
    return path, list(leaves)


def judged_loss(answers: Answers, leaves: NDArray[np.integer], n_train: int) -> tuple[float, float]:
    """Accuracy lost against the costly model, and its standard error, where the first ``n_train`` rows are for training.

    The others judge. Training rows are many, but were answered by models that have learned from fewer rows, so that what these
    lose may differ. All rows are counted as one where both agree; the larger the difference is, in standard errors, the less
    training rows count (a positive-part James-Stein estimate).
    """
    loss, error = answers.loss_of(leaves)
    if not 0 < n_train < len(leaves):
        return loss, error
    first, others = slice(n_train), slice(n_train, None)
    (biased, noise), (own, own_error) = (answers.part(rows).loss_of(leaves[rows]) for rows in (first, others))
    apart = (own - biased) ** 2
    share = max(1.0 - (noise**2 + own_error**2) / apart, 0.0) if apart > 0 else 0.0
    return loss + share * (own - loss), float(np.hypot(share * own_error, (1.0 - share) * error))


def _scaled(answers: Answers, prices: Iterable[float]) -> list[float]:
    """Prices of a unit of cost."""
    whole = float(np.average(answers.cost[:, -1], weights=answers.weight))
    return [price / whole if whole > 0 else price for price in prices]


def _turns(answers: Answers, prices: Sequence[float]) -> list[Array]:
    """Margins for rising prices, then for falling ones: a search continues from the last, and finds others on its way back."""
    turns: list[Array] = []
    for price in [*prices, *prices[-2::-1]]:
        turns.append(best_margins(answers, price, turns[-1] if turns else None))
    return turns


def _frontier(answers: Answers, turns: Sequence[Array]) -> tuple[list[Array], Array]:
    """Those that no other is as cheap and as accurate as, and their costs, falling.

    On the way from one to the next exits change one by one, the most expensive first.
    """
    margins = turns[0].copy()
    distinct = {margins.tobytes(): margins.copy()}
    for after in turns[1:]:
        for k in np.flatnonzero(margins != after)[::-1]:
            margins[k] = after[k]
            distinct.setdefault(margins.tobytes(), margins.copy())
    every = list(distinct.values())
    left = [answers.leaves(some) for some in every]
    cost, right = (
        np.array([answers.mean(values, leaves) for leaves in left])
        for values in (answers.cost, answers.right)
    )
    order = np.lexsort((-right, cost))
    best = np.maximum.accumulate(right[order])
    kept = order[np.append(True, best[1:] > best[:-1])][::-1]
    return [every[k] for k in kept], cost[kept]
