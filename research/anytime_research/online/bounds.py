"""Bounds for classes of experts, and bounds from below: no learner has a better rate than EXP3.G.

The experts of ``HardCase`` cost any learner ``Ω((log K)^(1/3) T^(2/3))`` (Nan, *Learning to Predict under a Budget*, section
6.3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.online.schedule import check_sizes, upper_bound

Array = NDArray[np.float64]

__all__ = ["HardCase", "class_regret_upper_bound", "log_patterns", "regret_lower_bound"]

_LARGEST_GAP = 0.4463  # up to here KL(Ber(1/2), Ber(1/2 - ε)) <= 4 ε²


def class_regret_upper_bound(
    horizon: int, gate_dimension: int, local_dimension: int, evaluation_cost: float = 1.0
) -> float:
    """The bound for all pairs of two classes of finite VC dimension, whose patterns on the T examples are the experts.

    Holds only if the examples are known in advance, or come from a finite pool: the experts have to be listed beforehand.
    """
    check_sizes(2, horizon, evaluation_cost)
    return upper_bound(log_patterns(horizon, gate_dimension, local_dimension), horizon, evaluation_cost, 1)


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
