"""Joint training of gates and messages: a local search without proof of convergence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from anytime.sensing.problem import SensingProblem, SensorWeights

__all__ = ["DirectGates", "GateSolver", "within_participation"]

Array = NDArray[np.float64]

_PRICE_STEP = 2.0  # per epoch and share of gates open above the budget


class GateSolver(Protocol):
    """Trains the weights of a problem."""

    def solve(
        self,
        problem: SensingProblem,
        start: SensorWeights,
        participation: float | None,
        random: np.random.Generator,
    ) -> SensorWeights:
        """SensorWeights reached from ``start``, with open gates that cost at most the share ``participation``, if set."""


@dataclass(frozen=True)
class DirectGates:
    """Train gates directly, with a price on open gates (OPT-Direct).

    With a ``participation``, the price follows the share of open gates, offsets are lowered at the end if too many are still
    open, and training uses gates as in prediction: messages behind a closed gate do not arrive. (Otherwise small gates with large
    messages, which cost little and say everything, would evade the price; not in the source.)

    Parameters
    ----------
    cost_penalty : float, default=0.0
        λ, or its initial value.
    epochs : int, default=100
    batch_size : int, default=100
    learning_rate : float, default=1e-2
        Learning rate of Adam.
    """

    cost_penalty: float = 0.0
    epochs: int = 100
    batch_size: int = 100
    learning_rate: float = 1e-2

    def solve(
        self,
        problem: SensingProblem,
        start: SensorWeights,
        participation: float | None,
        random: np.random.Generator,
    ) -> SensorWeights:
        """See ``GateSolver``."""
        weights, cost_penalty, adam = start, self.cost_penalty, Adam(self.learning_rate)
        hard = participation is not None
        for _ in range(self.epochs):

            def gradient(
                now: SensorWeights, rows: NDArray[np.intp], price: float = cost_penalty
            ) -> SensorWeights:
                return problem.rows(rows).direct_gradient(now, price, hard=hard)

            weights = adam.epoch(weights, problem.n_rows, self.batch_size, random, gradient)
            if participation is not None:
                open_share = problem.share(weights.scores(problem.inputs) > 0)
                cost_penalty = max(0.0, cost_penalty + _PRICE_STEP * (open_share - participation))
        if participation is None:
            return weights
        return within_participation(weights, problem.inputs, participation, prices=problem.prices)


class Adam:
    """Adam (Kingma and Ba 2015), with its usual constants."""

    def __init__(self, learning_rate: float) -> None:
        self.learning_rate, self._count = learning_rate, 0
        self._mean: list[Array] = []
        self._square: list[Array] = []

    def epoch(
        self,
        weights: SensorWeights,
        n_rows: int,
        batch_size: int,
        random: np.random.Generator,
        gradient: Callable[[SensorWeights, NDArray[np.intp]], SensorWeights],
    ) -> SensorWeights:
        """A step for each batch of rows, in random order."""
        order = random.permutation(n_rows)
        for first in range(0, n_rows, batch_size):
            weights = self.step(weights, gradient(weights, order[first : first + batch_size]))
        return weights

    def step(self, weights: SensorWeights, gradient: SensorWeights) -> SensorWeights:
        """One step down."""
        if not self._mean:
            self._mean = [np.zeros_like(array) for array in weights.arrays]
            self._square = [np.zeros_like(array) for array in weights.arrays]
        self._count += 1
        rate = self.learning_rate * np.sqrt(1 - 0.999**self._count) / (1 - 0.9**self._count)
        moved = []
        for array, slope, mean, square in zip(
            weights.arrays, gradient.arrays, self._mean, self._square, strict=True
        ):
            mean += 0.1 * (slope - mean)
            square += 0.001 * (slope**2 - square)
            moved.append(array - rate * mean / (np.sqrt(square) + 1e-8))
        return SensorWeights(*moved)


def within_participation(
    weights: SensorWeights,
    inputs: Array,
    participation: float,
    *,
    exactly: bool = False,
    prices: Array | None = None,
) -> SensorWeights:
    """The same with gate offsets lowered just enough that at most this share of gates is open on the inputs.

    ``exactly``: also raised if fewer are open. ``prices`` (K,), of mean 1: weight of an open gate; gates of price 0 stay
    unchanged.
    """
    check_share(participation)
    scores = weights.scores(inputs)
    price = np.ones(len(scores)) if prices is None else prices
    priced = price > 0
    each = np.repeat(price[:, None], scores.shape[1], axis=1)
    order = np.argsort(-scores[priced], axis=None, kind="stable")
    ranked, budget = scores[priced].ravel()[order], participation * scores.size + 1e-9
    allowed = int(np.searchsorted(np.cumsum(each[priced].ravel()[order]), budget, side="right"))
    n_open = int((ranked > 0).sum())
    if n_open == allowed or (n_open < allowed and not exactly):
        return weights
    if allowed == ranked.size:
        return replace(weights, b=weights.b + priced * (2 * np.abs(scores).max() + 1))
    shift = ranked[allowed]  # the largest that has to close
    if not allowed:
        shift += 1e-9 * (1.0 + abs(shift))  # clear of the rounding of another order of sums
    elif ranked[allowed - 1] > shift:
        shift = 0.5 * (shift + ranked[allowed - 1])  # clear of rounding on either side
    step = np.spacing(np.abs(ranked).max())
    while True:
        lowered = replace(weights, b=weights.b - shift * priced)
        if each[(lowered.scores(inputs) > 0) & priced[:, None]].sum() <= budget:
            return lowered
        shift, step = shift + step, 2 * step  # rounding, or equal scores


def check_share(value: float) -> None:
    """Refuse a negative budget."""
    if not value >= 0:
        raise ValueError(f"the budget is {value}; it cannot be negative")
