"""EXP3.G: learning from experts when every round reveals only some of the losses (Alon et al. 2015; Nan, Algorithm 6).

Each round draws an expert, mostly by its weight, sometimes from a set of explorers that together reveal every loss. An observed
loss is divided by the probability of observing it: the estimates are unbiased, and experts with small estimated totals gain
weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime._native import play_requests
from anytime.online.schedule import Horizon, LearningSchedule

__all__ = ["Decisions", "RequestLearner", "WeightedExperts", "check_seen"]

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Seed = int | np.random.Generator | None

_NOT_CHARGED = -1.0  # experts that ask are charged only in rounds that are seen, as the bound has it


class WeightedExperts:
    """Experts, their estimated losses so far, and the weights that follow."""

    def __init__(self, n_experts: int, schedule: LearningSchedule, random_state: Seed) -> None:
        self.n_experts, self.schedule = n_experts, schedule
        self.random = np.random.default_rng(random_state)
        self.restart()

    def restart(self) -> None:
        """Reset to the state before the first round."""
        self.n_rounds = 0
        self.totals: Array = np.zeros(self.n_experts)

    @property
    def weights(self) -> Array:
        """(K,) q of the coming round, proportional to ``exp(-η L)``, L the estimated losses so far."""
        rate = self.schedule.rates(self.n_rounds + 1, 1).learning[0]
        weights = np.exp(-rate * (self.totals - self.totals.min()))
        return np.asarray(weights / weights.sum())

    @property
    def best(self) -> int:
        """The expert with the lowest estimated loss."""
        return int(self.totals.argmin())

    def _matrix(self, losses: ArrayLike, n: int | None = None) -> Array:
        table = np.ascontiguousarray(losses, dtype=np.float64)
        if (
            table.ndim != 2
            or table.shape[1] != self.n_experts
            or table.shape[0] != (n if n is not None else len(table))
        ):
            rows = "n" if n is None else n
            raise ValueError(
                f"losses have shape {table.shape}; expected ({rows}, {self.n_experts}), a column per expert"
            )
        return table


def check_seen(losses: Array, seen: Flags) -> None:
    """Check that observed losses are finite and not negative; the others may be anything."""
    bad = seen & ~(np.isfinite(losses) & (losses >= 0))
    if bad.any():
        t, i = (int(v) for v in np.argwhere(bad)[0])
        raise ValueError(
            f"round {t} shows a loss of {losses[t, i]} for expert {i}; losses are finite and not negative"
        )


@dataclass(frozen=True, eq=False)
class Decisions:
    """Decisions for n examples, and what learning from the answers needs.

    Attributes
    ----------
    played : (n,) int
        The expert drawn for each.
    asked : (n,) bool
        Whether it asks.
    asks : (n, K) bool
        Which experts would have asked.
    probability : (n,) float
        The probability with which the example was asked.
    """

    played: NDArray[np.int32]
    asked: Flags
    asks: Flags
    probability: Array


class RequestLearner(WeightedExperts):
    """EXP3.G for experts that either ask, at the same cost for all, and reveal every loss, or reveal nothing.

    A round without a question changes no weight. It takes time O(K) per round, and at least one expert must ask in each.

    Parameters
    ----------
    n_experts : int
    evaluation_cost : float
        Cost of asking. Above 1, losses are counted in units of it.
    horizon : int, "doubling" or None, default=None
        Number of rounds, if known; see ``LearningSchedule``.
    learning_rate, exploration : float, default=None
        η and γ. None: those that minimise the bound.
    random_state : int, Generator or None, default=None

    Examples
    --------
    >>> learner = RequestLearner(3, evaluation_cost=0.5, horizon=2000, random_state=0)
    >>> asks = np.tile([False, False, True], (2000, 1))
    >>> decisions = learner.run(asks, np.tile([0.1, 0.6, 0.5], (2000, 1)))
    >>> learner.best, bool(decisions.asked.mean() < 0.3)
    (0, True)
    """

    def __init__(
        self,
        n_experts: int,
        *,
        evaluation_cost: float,
        horizon: Horizon = None,
        learning_rate: float | None = None,
        exploration: float | None = None,
        random_state: Seed = None,
    ) -> None:
        if not 0 < evaluation_cost < math.inf:
            raise ValueError(
                f"evaluation_cost is {evaluation_cost}; it must be positive: if questions are free, always ask"
            )
        self.evaluation_cost = evaluation_cost
        self._unit = max(1.0, evaluation_cost)
        schedule = LearningSchedule(
            math.log(n_experts), horizon, evaluation_cost / self._unit, 1, learning_rate, exploration
        )
        super().__init__(n_experts, schedule, random_state)

    def run(self, asks: ArrayLike, losses: ArrayLike) -> Decisions:
        """Play one round per row: ``asks`` (n, K), and losses (n, K), read only in rows that are asked."""
        flags = self._flags(asks)
        return self._rounds(flags, self._matrix(losses, len(flags)))

    def decide(self, asks: ArrayLike) -> Decisions:
        """Draw an expert per row of ``asks`` (n, K) without learning; ``learn`` takes the answers later."""
        return self._rounds(self._flags(asks), None)

    def learn(self, decisions: Decisions, losses: ArrayLike) -> None:
        """Learn from the losses (n, K) of decided examples; rows that were not asked may be anything, such as NaN."""
        table = self._matrix(losses, len(decisions.asked))
        requests = decisions.asked
        check_seen(table, np.repeat(requests[:, None], self.n_experts, axis=1))
        estimates = np.zeros(table.shape)
        estimates[requests] = table[requests] / decisions.probability[requests, None]
        self.totals += estimates.sum(axis=0) / self._unit

    def _rounds(self, asks: Flags, losses: Array | None) -> Decisions:
        n = len(asks)
        scaled = None if losses is None else losses / self._unit
        probability, rates = self.random.random(n), self.schedule.rates(self.n_rounds + 1, n)
        totals, played, seen = self.totals.copy(), np.empty(n, dtype=np.int32), np.empty(n)
        for part, restart in self.schedule.stretches(self.n_rounds, n):
            if restart:
                totals[:] = 0.0
            played[part], seen[part] = play_requests(
                totals,
                asks[part],
                None if scaled is None else scaled[part],
                probability[part],
                rates.learning[part],
                rates.exploration[part],
                _NOT_CHARGED,
            )
        requests = asks[np.arange(n), played]
        if losses is not None:
            check_seen(losses, np.repeat(requests[:, None], self.n_experts, axis=1))
        self.totals = totals
        self.n_rounds += n
        return Decisions(played, requests, asks, seen)

    def _flags(self, asks: ArrayLike) -> Flags:
        flags = np.ascontiguousarray(asks, dtype=np.bool_)
        if flags.ndim != 2 or flags.shape[1] != self.n_experts:
            raise ValueError(
                f"asks has shape {flags.shape}; expected (n, {self.n_experts}), a column per expert"
            )
        return flags
