"""Learning and exploration rates of every round, and the regret bound.

K experts, T rounds, an answer of the remote model costs c (Nan, *Learning to Predict under a Budget*, sections 6.2 and 6.3).
With learning rate η and exploration rate γ, of which one in D explorers sees a given loss, the regret is at most

    log K / η  +  η D T / γ  +  c γ T,

least, and its three terms equal, at ``γ = (D log K / (c² T))^(1/3)`` and ``η = c γ² / D``: the source's Theorem 6.2.1 for
``D = 1``.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Horizon", "LearningSchedule", "Rates", "best_rates", "regret_upper_bound"]

Array = NDArray[np.float64]
Horizon = int | Literal["doubling"] | None

DOUBLING = 2 ** (2 / 3) / (2 ** (2 / 3) - 1)  # 2.70: restarting at 1, 2, 4, … instead of knowing T
DECREASING = 13 / 12  # rates that fall with t instead: (1 + 3/4 + 3/2) / 3, see ``regret_upper_bound``


@dataclass(frozen=True)
class LearningSchedule:
    """Rates of every round, and the rounds of restarts.

    Parameters
    ----------
    log_experts : float
    horizon : int, "doubling" or None
        Number of rounds, if known. None: rates that fall as if every round were the last. "doubling": restart after 1, 3, 7,
        … rounds, each time as if the next 2, 4, 8, … were all.
    evaluation_cost : float, default=1.0
        In (0, 1].
    n_explorers : int, default=1
    learning, exploration : float, default=None
        Rates that replace the computed ones.

    Warns
    -----
    UserWarning
        If a known horizon is so short that every round explores.
    """

    log_experts: float
    horizon: Horizon = None
    evaluation_cost: float = 1.0
    n_explorers: int = 1
    learning: float | None = None
    exploration: float | None = None

    def __post_init__(self) -> None:
        usable = self.horizon is None or self.horizon == "doubling"
        if not usable and not (isinstance(self.horizon, int | np.integer) and self.horizon > 0):
            raise ValueError(f"horizon must be a number of rounds, 'doubling' or None, not {self.horizon!r}")
        if self.learning is not None and not self.learning > 0:
            raise ValueError(f"the learning rate is {self.learning}; it must be positive")
        if self.exploration is not None and not 0 <= self.exploration <= 1:
            raise ValueError(f"the exploration rate is {self.exploration}; it must be in [0, 1]")
        needed = self.n_explorers * self.log_experts / self.evaluation_cost**2
        if isinstance(self.horizon, int) and self.exploration is None and self.horizon < needed:
            warnings.warn(
                f"{self.horizon} rounds are fewer than {needed:.1f}, so every round explores", stacklevel=4
            )

    def rates(self, first: int, n_rounds: int) -> Rates:
        """Of ``n_rounds`` rounds, of which the first has number ``first``, counted from 1."""
        rounds = np.arange(first, first + n_rounds)
        if self.horizon is None:
            lengths = rounds
        elif self.horizon == "doubling":
            lengths = 1 << (np.frexp(rounds)[1].astype(np.int64) - 1)  # the power of two at or below t
        else:
            lengths = np.full(n_rounds, self.horizon)
        best = best_rates(self.log_experts, lengths, self.evaluation_cost, n_explorers=self.n_explorers)
        learning = best.learning if self.learning is None else np.full(n_rounds, self.learning)
        exploration = best.exploration if self.exploration is None else np.full(n_rounds, self.exploration)
        return Rates(np.asarray(learning, dtype=np.float64), np.asarray(exploration, dtype=np.float64))

    def stretches(self, done: int, n_rounds: int) -> Iterator[tuple[slice, bool]]:
        """The next rounds in pieces without a restart, and whether a piece starts with one."""
        start = 0
        while start < n_rounds:
            first = done + start + 1
            restart = self.horizon == "doubling" and first & (first - 1) == 0
            stop = n_rounds
            if self.horizon == "doubling":
                stop = min(n_rounds, (1 << first.bit_length()) - 1 - done)
            yield slice(start, stop), restart
            start = stop


@dataclass(frozen=True)
class Rates:
    """Learning rate (η) and exploration rate (γ); numbers, or one per round."""

    learning: Array
    exploration: Array


def best_rates(
    log_experts: float, horizon: ArrayLike, evaluation_cost: float = 1.0, *, n_explorers: int = 1
) -> Rates:
    """The rates that minimise the bound.

    Below ``T = D log K / c²`` the best exploration rate would exceed 1. There every round explores; the rates are those of
    that many rounds, and the bound holds because asking every time loses at most ``c T``.

    Parameters
    ----------
    log_experts : float
        log K.
    horizon : int or (n,) int
        T; an array for a schedule.
    evaluation_cost : float, default=1.0
        Cost of an answer of the remote model, in (0, 1].
    n_explorers : int, default=1
        D, the size of the exploration set.

    Examples
    --------
    >>> rates = best_rates(np.log(10), 1000)
    >>> round(float(rates.learning), 7), round(float(rates.exploration), 7)
    (0.0174372, 0.13205)
    """
    if not 0 < evaluation_cost <= 1:
        raise ValueError(
            f"evaluation_cost is {evaluation_cost}; the rates are for costs in (0, 1]: divide all losses by the largest cost"
        )
    rounds = np.maximum(np.asarray(horizon, dtype=np.float64), n_explorers * log_experts / evaluation_cost**2)
    if log_experts <= 0:  # one expert: nothing to learn, nothing to explore
        return Rates(np.zeros(rounds.shape), np.zeros(rounds.shape))
    exploration = np.minimum(np.cbrt(n_explorers * log_experts / (evaluation_cost**2 * rounds)), 1.0)
    return Rates(evaluation_cost * exploration**2 / n_explorers, exploration)


def regret_upper_bound(
    n_experts: int,
    horizon: int,
    evaluation_cost: float = 1.0,
    *,
    n_explorers: int = 1,
    schedule: str = "known",
) -> float:
    """Upper bound on the expected regret of EXP3.G, ``3 c^(1/3) (D log K)^(1/3) T^(2/3)``.

    Parameters
    ----------
    n_experts, horizon : int
        K and T.
    evaluation_cost : float, default=1.0
        Cost of an answer of the remote model. Above 1, losses are counted in units of it.
    n_explorers : int, default=1
    schedule : {"known", "decreasing", "doubling"}, default="known"
        Whether T was known. "decreasing": rates fall as if every round were the last; the second-order bound of Hedge,
        ``log K / η_T + Σ η_t / (2 γ_t)``, and ``Σ t^(-1/3) <= 3/2 T^(2/3)`` give 13/12 of the bound for known T.
        "doubling": restarts at 1, 2, 4, … give 2.70 times it.

    Warns
    -----
    UserWarning
        If T is so short that every round explores: the bound holds, but learning gains nothing.

    Examples
    --------
    >>> round(regret_upper_bound(10, 1000), 3), round(regret_upper_bound(10, 1000, 0.5), 3)
    (396.15, 314.425)
    """
    check_sizes(n_experts, horizon, evaluation_cost)
    factors = {"known": 1.0, "decreasing": DECREASING, "doubling": DOUBLING}
    if schedule not in factors:
        raise ValueError(f"schedule is {schedule!r}; it must be one of {', '.join(factors)}")
    return factors[schedule] * upper_bound(math.log(n_experts), horizon, evaluation_cost, n_explorers)


def upper_bound(log_experts: float, horizon: int, evaluation_cost: float, n_explorers: int) -> float:
    """``3 c^(1/3) (D log K)^(1/3) T^(2/3)``, in units of the cost if that is above 1."""
    unit = max(1.0, evaluation_cost)
    price = evaluation_cost / unit
    if horizon < n_explorers * log_experts / price**2:
        warnings.warn(
            f"{horizon} rounds are fewer than {n_explorers * log_experts / price**2:.1f}, so every round explores",
            stacklevel=3,
        )
    return float(3 * unit * math.cbrt(price * n_explorers * log_experts) * horizon ** (2 / 3))


def check_sizes(n_experts: int, horizon: int, evaluation_cost: float) -> None:
    """Refuse numbers for which there is no bound."""
    if n_experts < 1 or horizon < 1:
        raise ValueError(f"{n_experts} experts and {horizon} rounds; at least one of each is needed")
    if not 0 < evaluation_cost < math.inf:
        raise ValueError(
            f"evaluation_cost is {evaluation_cost}; it must be positive: if questions are free, always ask"
        )
