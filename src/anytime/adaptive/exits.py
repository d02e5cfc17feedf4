"""Where rows leave: margins at which the answers of a chain of models are sure enough.

A row goes from model to model and leaves at the first whose margin, how far its leading class is ahead, is large enough; the last
keeps who is left. For a price of a unit of cost the margins are chosen one after the other, the dearest first, each the best for
the rows that come so far, until none changes: what is gained never falls. Margins flatter the rows that they were chosen on, so
rows are judged by the margins that other rows choose for the same price.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from anytime.plan import Array

__all__ = ["Answers", "best_margins", "crossed_path", "price_path"]

_MOST_CUTS = 64  # margins tried at an exit: more would be chosen by the noise of the rows
_PASSES = 6
_PRICES = np.geomspace(1e-3, 1.0, 60)  # of all that the last model costs, in rows answered rightly


@dataclass(frozen=True, eq=False)
class Answers:
    """What L exits and the model behind them say of some rows.

    Attributes
    ----------
    margin : (n, L)
        Of the answer at each exit.
    right : (n, L + 1) bool
        Whether it is right.
    cost : (n, L + 1)
        What a row has paid that leaves there.
    weight : (n,)
    """

    margin: Array
    right: NDArray[np.bool_]
    cost: Array
    weight: Array

    def __add__(self, other: Answers) -> Answers:
        """Both rows."""
        pairs = (
            (getattr(self, name), getattr(other, name)) for name in ("margin", "right", "cost", "weight")
        )
        return Answers(*(np.concatenate(pair) for pair in pairs))

    def part(self, rows: NDArray[np.intp] | NDArray[np.bool_] | slice) -> Answers:
        """Some rows."""
        return Answers(self.margin[rows], self.right[rows], self.cost[rows], self.weight[rows])

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
        return self._mean(self.right, margins)

    def mean_cost(self, margins: Array) -> float:
        """What rows pay on average."""
        return self._mean(self.cost, margins)

    def loss(self, margins: Array) -> tuple[float, float]:
        """How much accuracy is lost against the last model, and the standard error of that."""
        return self.loss_of(self.leaves(margins))

    def loss_of(self, leaves: NDArray[np.integer]) -> tuple[float, float]:
        """The same where it is known at which exit each row leaves."""
        rows = np.arange(len(self.right))
        lost = self.right[:, -1].astype(np.float64) - self.right[rows, leaves]
        mean = float(np.average(lost, weights=self.weight))
        share = self.weight / self.weight.sum()
        return mean, float(np.sqrt(np.square(share * (lost - mean)).sum()))

    def _mean(self, values: NDArray[np.float64 | np.bool_], margins: Array) -> float:
        return float(np.average(values[np.arange(len(values)), self.leaves(margins)], weights=self.weight))


def best_margins(answers: Answers, price: float, start: Array | None = None) -> Array:
    """(L,) Margins with the most rows answered rightly, less ``price`` for each unit of cost.

    Infinite where nobody leaves, minus infinity where all do. ``start``: where the search begins; None: nobody leaves early.
    """
    worth = answers.weight[:, None] * (answers.right - price * answers.cost)
    n, n_exits = answers.margin.shape
    margins = np.full(n_exits, np.inf) if start is None else start.copy()
    for _ in range(_PASSES):
        before = margins.copy()
        for k in range(n_exits)[::-1]:
            here = (answers.margin[:, :k] < margins[:k]).all(axis=1)
            onwards = np.where(np.arange(n_exits) > k, margins, np.inf)
            gain = worth[:, k] - worth[np.arange(n), answers.leaves(onwards)]
            falling = answers.falling[:, k]
            order = falling[np.asarray(here)[falling]]
            margins[k] = _best_cut(answers.margin[order, k], gain[order])
        if np.array_equal(margins, before):
            break
    return margins


def _best_cut(margin: Array, gain: Array) -> float:
    """The margin from which on leaving gains the most in all; margins fall."""
    total = np.concatenate([[0.0], np.cumsum(gain)])
    inner = np.unique(np.linspace(0, margin.size, _MOST_CUTS).astype(np.intp))[1:-1]
    apart = inner[margin[inner - 1] > margin[inner]]  # rows of one margin go together
    cuts = np.concatenate([[0], apart, [margin.size]])
    best = int(cuts[np.argmax(total[cuts])])
    if best == 0:
        return np.inf
    return -np.inf if best == margin.size else float(margin[best - 1])


def price_path(answers: Answers, prices: Iterable[float] = _PRICES) -> list[Array]:
    """Margins from the most accurate to the cheapest, none twice: each is good for some price, or on the way to the next such.

    The search for a price goes on from the one before. From one to the next exits change one by one, the dearest first.
    """
    steps = _steps(answers, _scaled(answers, prices))
    return list({margins.tobytes(): margins for margins in steps}.values())


def crossed_path(
    answers: Answers, part: NDArray[np.intp], prices: Iterable[float] = _PRICES
) -> tuple[list[Array], list[NDArray[np.int32]]]:
    """The path, and where each row leaves, (n,), at the same step of the paths that rows of other parts choose.

    Parameters
    ----------
    answers : Answers
    part : (n,) int
        The part of each row.
    prices : iterable of float
    """
    scaled = _scaled(answers, prices)
    steps = _steps(answers, scaled)
    leaves = np.empty((len(steps), len(part)), dtype=np.int32)
    for k in np.unique(part):
        own, others = answers.part(part == k), answers.part(part != k)
        leaves[:, part == k] = [own.leaves(margins) for margins in _steps(others, scaled)]
    last = {margins.tobytes(): step for step, margins in enumerate(steps)}  # of equal ones the highest price
    return [steps[step] for step in last.values()], [leaves[step] for step in last.values()]


def _scaled(answers: Answers, prices: Iterable[float]) -> list[float]:
    """Prices of a unit of cost."""
    whole = float(np.average(answers.cost[:, -1], weights=answers.weight))
    return [price / whole if whole > 0 else price for price in prices]


def _steps(answers: Answers, prices: Iterable[float]) -> list[Array]:
    """Margins for each price and on the way to them, as many steps for each price as there are exits."""
    steps: list[Array] = []
    for price in prices:
        margins = best_margins(answers, price, steps[-1] if steps else None)
        before = steps[-1].copy() if steps else margins.copy()
        for k in range(margins.size)[::-1]:
            before[k] = margins[k]
            steps.append(before.copy())
    return steps
