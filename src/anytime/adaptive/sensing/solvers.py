"""Three ways to train gates and messages together. All are local searches: nothing is proved of where they end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from anytime.adaptive.sensing.frank_wolfe import frank_wolfe
from anytime.adaptive.sensing.problem import Problem, Weights
from anytime.adaptive.sensing.projection import project_scores, recover_gates, within_participation

__all__ = ["Direct", "Projected", "Relaxed", "Solver"]

Array = NDArray[np.float64]

_PRICE_STEP = 2.0  # per epoch and share of gates open above the budget


class Solver(Protocol):
    """Trains the weights of a problem."""

    def solve(
        self, problem: Problem, start: Weights, participation: float | None, random: np.random.Generator
    ) -> Weights:
        """Weights reached from ``start``, with at most ``participation`` of all gates open, if it is given."""


@dataclass(frozen=True)
class Direct:
    """Gates are trained as they are, with a price on being open (OPT-Direct).

    With a ``participation`` to keep to, the price rises and falls with the share of open gates, offsets are lowered at the
    end if too many are still open, and training sees gates as they will be used: what a closed one would let through does
    not arrive. (Else small gates and large messages, which cost little and say all, would evade the price; not in the source.)

    Parameters
    ----------
    penalty : float, default=0.0
        λ, or where it starts.
    epochs : int, default=100
    batch_size : int, default=100
    learning_rate : float, default=1e-2
        Of Adam.
    """

    penalty: float = 0.0
    epochs: int = 100
    batch_size: int = 100
    learning_rate: float = 1e-2

    def solve(
        self, problem: Problem, start: Weights, participation: float | None, random: np.random.Generator
    ) -> Weights:
        """See ``Solver``."""
        weights, penalty, adam = start, self.penalty, Adam(self.learning_rate)
        hard = participation is not None
        for _ in range(self.epochs):

            def gradient(now: Weights, rows: NDArray[np.intp], price: float = penalty) -> Weights:
                return problem.rows(rows).direct_gradient(now, price, hard=hard)

            weights = adam.epoch(weights, problem.n_rows, self.batch_size, random, gradient)
            if participation is not None:
                open_share = float(np.mean(weights.scores(problem.inputs) > 0))
                penalty = max(0.0, penalty + _PRICE_STEP * (open_share - participation))
        return (
            weights if participation is None else within_participation(weights, problem.inputs, participation)
        )


@dataclass(frozen=True)
class Relaxed:
    """Participation is free within the budget, and gates follow it (OPT-Relax): Adam and Frank-Wolfe in turns.

    Offsets are moved at the end so that as many gates are open as participation was found worth its budget. Defaults are
    those of the source. Needs sigmoid gates and a ``participation``.

    Parameters
    ----------
    closeness : float, default=0.1
        Weight of the divergence between participation and gates.
    alternations, epochs, steps : int, default=30, 50, 20
        Turns; epochs of Adam and steps of Frank-Wolfe in each.
    step : float, default=0.01
        Weight of the corner in a step of Frank-Wolfe.
    batch_size : int, default=100
    learning_rate : float, default=1e-3
    """

    closeness: float = 0.1
    alternations: int = 30
    epochs: int = 50
    steps: int = 20
    step: float | None = 0.01
    batch_size: int = 100
    learning_rate: float = 1e-3

    def solve(
        self, problem: Problem, start: Weights, participation: float | None, random: np.random.Generator
    ) -> Weights:
        """See ``Solver``."""
        if participation is None:
            raise ValueError("the relaxed form needs a participation to keep to")
        weights, adam = start, Adam(self.learning_rate)
        q = np.full((problem.n_devices, problem.n_rows), participation)  # within the budget from the first
        for _ in range(self.alternations):

            def gradient(now: Weights, rows: NDArray[np.intp], fixed: Array = q) -> Weights:
                return problem.rows(rows).relaxed_gradient(now, fixed[:, rows], self.closeness)

            for _ in range(self.epochs):
                weights = adam.epoch(weights, problem.n_rows, self.batch_size, random, gradient)

            def slopes(now: Array, settled: Weights = weights) -> Array:
                return problem.participation_gradient(settled, now, self.closeness)

            q, _ = frank_wolfe(slopes, q, participation, n_steps=self.steps, step=self.step)
        return within_participation(
            weights, problem.inputs, min(float(q.mean()), participation), exactly=True
        )


@dataclass(frozen=True)
class Projected:
    """Gradient steps, each followed by the nearest scores within the budget and gates fitted to them, (7.3)-(7.5).

    That it converges from a good start is a conjecture of the source. The best weights within the budget are kept.

    Parameters
    ----------
    iterations : int, default=2000
    step : float, default=0.05
        Times the gradient of the mean loss.
    """

    iterations: int = 2000
    step: float = 0.05

    def solve(
        self, problem: Problem, start: Weights, participation: float | None, random: np.random.Generator
    ) -> Weights:
        """See ``Solver``."""
        share = 1.0 if participation is None else participation
        weights = best = within_participation(start, problem.inputs, share)
        least = problem.direct(best, 0.0)
        for _ in range(self.iterations):
            weights = self.projected(
                problem, weights.moved(problem.direct_gradient(weights, 0.0), -self.step), share
            )
            if (value := problem.direct(weights, 0.0)) < least:
                best, least = weights, value
        return best

    @staticmethod
    def projected(problem: Problem, weights: Weights, share: float) -> Weights:
        """The nearest weights whose gates are open often enough, as far as least squares finds them."""
        scores = weights.scores(problem.inputs)
        nearest = project_scores(scores, share * problem.n_devices)
        if np.array_equal(nearest, scores):
            return weights
        w, b = recover_gates(problem.inputs, nearest)
        return within_participation(replace(weights, w=w, b=b), problem.inputs, share)


class Adam:
    """Adam (Kingma and Ba 2015), with its usual constants."""

    def __init__(self, learning_rate: float) -> None:
        self.learning_rate, self._count = learning_rate, 0
        self._mean: list[Array] = []
        self._square: list[Array] = []

    def epoch(
        self,
        weights: Weights,
        n_rows: int,
        batch_size: int,
        random: np.random.Generator,
        gradient: Callable[[Weights, NDArray[np.intp]], Weights],
    ) -> Weights:
        """A step for each batch of rows, in random order."""
        order = random.permutation(n_rows)
        for first in range(0, n_rows, batch_size):
            weights = self.step(weights, gradient(weights, order[first : first + batch_size]))
        return weights

    def step(self, weights: Weights, gradient: Weights) -> Weights:
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
        return Weights(*moved)
