"""What is proved of the regret: how fast to learn and explore, and between which bounds the regret then lies.

K experts, T rounds, an answer of the remote model costs c (Nan, *Learning to Predict under a Budget*, sections 6.2 and 6.3).
With learning rate η and exploration rate γ, of which one in D explorers sees a given loss, the regret is at most

    log K / η  +  η D T / γ  +  c γ T,

least, and its three terms equal, at ``γ = (D log K / (c² T))^(1/3)`` and ``η = c γ² / D``: the source's Theorem 6.2.1 for
``D = 1``. No learner does better than the rate: the experts of ``HardCase`` cost it ``Ω((log K)^(1/3) T^(2/3))``.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]

__all__ = [
    "DECREASING",
    "DOUBLING",
    "HardCase",
    "Rates",
    "class_regret_upper_bound",
    "exp3g_rates",
    "log_patterns",
    "regret_lower_bound",
    "regret_upper_bound",
]

DOUBLING = 2 ** (2 / 3) / (2 ** (2 / 3) - 1)  # 2.70: restarting at 1, 2, 4, … instead of knowing T
DECREASING = 13 / 12  # rates that fall with t instead: (1 + 3/4 + 3/2) / 3, see ``regret_upper_bound``
_LARGEST_GAP = 0.4463  # up to here KL(Ber(1/2), Ber(1/2 - ε)) <= 4 ε²


# ---------------------------------------------------------------------- from above


@dataclass(frozen=True)
class Rates:
    """How fast to learn (η) and how often to explore (γ); numbers, or one per round."""

    learning: Array
    exploration: Array


def exp3g_rates(log_experts: float, horizon: ArrayLike, cost: float = 1.0, *, n_explorers: int = 1) -> Rates:
    """The rates that make the bound least.

    Below ``T = D log K / c²`` the best exploration rate would exceed 1. There every round explores; the rates are those of
    that many rounds, and the bound holds because asking every time loses at most ``c T``.

    Parameters
    ----------
    log_experts : float
        log K.
    horizon : int or (n,) int
        T; several for a schedule.
    cost : float, default=1.0
        Of an answer of the remote model, in (0, 1].
    n_explorers : int, default=1
        D, the size of the exploration set.

    Examples
    --------
    >>> rates = exp3g_rates(np.log(10), 1000)
    >>> round(float(rates.learning), 7), round(float(rates.exploration), 7)
    (0.0174372, 0.13205)
    """
    if not 0 < cost <= 1:
        raise ValueError(
            f"cost is {cost}; the rates are for costs in (0, 1]: divide all losses by max(1, cost)"
        )
    rounds = np.maximum(np.asarray(horizon, dtype=np.float64), n_explorers * log_experts / cost**2)
    if log_experts <= 0:  # one expert: nothing to learn, nothing to explore
        return Rates(np.zeros(rounds.shape), np.zeros(rounds.shape))
    exploration = np.minimum(np.cbrt(n_explorers * log_experts / (cost**2 * rounds)), 1.0)
    return Rates(cost * exploration**2 / n_explorers, exploration)


def regret_upper_bound(
    n_experts: int,
    horizon: int,
    cost: float = 1.0,
    *,
    n_explorers: int = 1,
    schedule: str = "known",
) -> float:
    """What the expected regret of EXP3.G cannot exceed, ``3 c^(1/3) (D log K)^(1/3) T^(2/3)``.

    Parameters
    ----------
    n_experts, horizon : int
        K and T.
    cost : float, default=1.0
        Of an answer of the remote model. Above 1, losses are counted in units of it.
    n_explorers : int, default=1
    schedule : {"known", "decreasing", "doubling"}, default="known"
        Whether T was known. "decreasing": rates fall as if every round were the last; the second-order bound of Hedge,
        ``log K / η_T + Σ η_t / (2 γ_t)``, and ``Σ t^(-1/3) <= 3/2 T^(2/3)`` give 13/12 of the bound for known T.
        "doubling": restarts at 1, 2, 4, … give 2.70 times it.

    Warns
    -----
    UserWarning
        If T is so short that every round has to explore: the bound holds, but nothing is gained by learning.

    Examples
    --------
    >>> round(regret_upper_bound(10, 1000), 3), round(regret_upper_bound(10, 1000, 0.5), 3)
    (396.15, 314.425)
    """
    _check_sizes(n_experts, horizon, cost)
    factors = {"known": 1.0, "decreasing": DECREASING, "doubling": DOUBLING}
    if schedule not in factors:
        raise ValueError(f"schedule is {schedule!r}; say one of {', '.join(factors)}")
    return factors[schedule] * _upper(math.log(n_experts), horizon, cost, n_explorers)


def class_regret_upper_bound(
    horizon: int, gate_dimension: int, local_dimension: int, cost: float = 1.0
) -> float:
    """The bound for all pairs of two classes of finite VC dimension, whose patterns on the T examples are the experts.

    Holds only if the examples are known in advance, or come from a finite pool: the experts have to be listed beforehand.
    """
    _check_sizes(2, horizon, cost)
    return _upper(log_patterns(horizon, gate_dimension, local_dimension), horizon, cost, 1)


def log_patterns(horizon: int, gate_dimension: int, local_dimension: int) -> float:
    """Logarithm of the most patterns that gates and local models can make on T examples, by Sauer's lemma.

    ``(eT/d)^d`` for each of the two classes, multiplied, since a pair has three answers and not two.
    """
    dimensions = gate_dimension, local_dimension
    if min(dimensions) < 1 or horizon < max(dimensions):
        raise ValueError(
            f"horizon is {horizon} for the dimensions {dimensions}; both have to be at least 1, the horizon no less than either"
        )
    return sum(d * (1 + math.log(horizon / d)) for d in dimensions)


def _upper(log_experts: float, horizon: int, cost: float, n_explorers: int) -> float:
    unit = max(1.0, cost)
    price = cost / unit
    if horizon < n_explorers * log_experts / price**2:
        warnings.warn(
            f"{horizon} rounds are fewer than {n_explorers * log_experts / price**2:.1f}, so every round explores",
            stacklevel=3,
        )
    return float(3 * unit * math.cbrt(price * n_explorers * log_experts) * horizon ** (2 / 3))


def _check_sizes(n_experts: int, horizon: int, cost: float) -> None:
    if n_experts < 1 or horizon < 1:
        raise ValueError(f"{n_experts} experts and {horizon} rounds; at least one of each is needed")
    if not 0 < cost < math.inf:
        raise ValueError(f"cost is {cost}; it has to be positive: what is free is best asked every time")


# ---------------------------------------------------------------------- from below


@dataclass(frozen=True)
class HardCase:
    """The experts no learner can tell apart cheaply, and what that costs (section 6.3).

    Experts 1 to K-1 never ask and err with probability 1/2, but one of them with ``1/2 - gap``; expert K always asks, at a
    cost of 1. With m requests the regret of any learner is at least ``regret_at(m)``, a parabola whose least value is
    ``regret``, at ``requests``.

    Parameters
    ----------
    n_experts, horizon : int
        K and T. K has to be at least 4, T at least ``0.704 log(K - 1)``, for the bound to say anything.

    Examples
    --------
    >>> case = HardCase(20, 1000)
    >>> round(case.gap, 4), round(case.requests, 3), round(case.regret, 4)
    (0.0569, 37.562, 36.8569)
    """

    n_experts: int
    horizon: int

    def __post_init__(self) -> None:
        if self.n_experts < 4:
            raise ValueError(
                f"n_experts is {self.n_experts}; the bound is positive from 4 on, where log(K - 1) > 1"
            )
        if self.gap > _LARGEST_GAP:
            raise ValueError(
                f"horizon is {self.horizon}; for {self.n_experts} experts the argument needs at least "
                f"{math.ceil(self.log_rivals / (16 * _LARGEST_GAP**3))} rounds"
            )

    @property
    def log_rivals(self) -> float:
        """L = log(K - 1)."""
        return math.log(self.n_experts - 1)

    @property
    def gap(self) -> float:
        """ε, by which the best expert is better."""
        return math.cbrt(self.log_rivals / (16 * self.horizon))

    @property
    def requests(self) -> float:
        """m*, the expected number of requests of the learner with the least regret."""
        return self.gap * self.horizon * (1 - 1 / self.log_rivals)

    @property
    def regret(self) -> float:
        """The least regret; its leading term is ``16^(-1/3) L^(1/3) T^(2/3)``, where the source's last line has half more."""
        rivals, rounds = self.log_rivals, self.horizon
        leading = math.cbrt(rivals / 16) * rounds ** (2 / 3) * (1 - 1 / rivals)
        return float(leading - math.cbrt(16 * rounds / rivals) * (rivals - 1) ** 2 / (32 * rivals))

    def regret_at(self, requests: ArrayLike) -> Array:
        """A bound on the regret of a learner that asks ``requests`` times on average, (6.24)."""
        eps, rivals, rounds = self.gap, self.log_rivals, self.horizon
        m = np.asarray(requests, dtype=np.float64)
        cubic = 8 * eps**3 / rivals
        return np.asarray(
            cubic * m**2 + (eps / rivals - cubic * rounds + 0.5 - eps) * m + rounds * eps * (1 - 1 / rivals)
        )


def regret_lower_bound(n_experts: int, horizon: int) -> float:
    """What the worst expected regret of any learner is at least, when an answer of the remote model costs 1.

    See ``HardCase`` for the experts that force it, and ``hard_environment`` to play against them.

    Examples
    --------
    >>> round(regret_lower_bound(100, 100_000), 4)
    1105.9119
    """
    return HardCase(n_experts, horizon).regret
