"""How fast to learn in every round, whether or not the number of rounds is known."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from anytime.adaptive.online.bounds import Rates, exp3g_rates

__all__ = ["Horizon", "Pace"]

Horizon = int | Literal["doubling"] | None


@dataclass(frozen=True)
class Pace:
    """Rates of every round, and where to start afresh.

    Parameters
    ----------
    log_experts : float
    horizon : int, "doubling" or None
        The number of rounds, if it is known. None: rates that fall as if every round were the last. "doubling": forget all
        after 1, 3, 7, … rounds, and proceed as if the next 2, 4, 8, … were all.
    cost : float, default=1.0
        In (0, 1].
    n_explorers : int, default=1
    learning, exploration : float, default=None
        Rates that take the place of the computed ones.

    Warns
    -----
    UserWarning
        If a known horizon is so short that every round has to explore.
    """

    log_experts: float
    horizon: Horizon = None
    cost: float = 1.0
    n_explorers: int = 1
    learning: float | None = None
    exploration: float | None = None

    def __post_init__(self) -> None:
        known = self.horizon is None or self.horizon == "doubling"
        if not known and not (isinstance(self.horizon, int | np.integer) and self.horizon > 0):
            raise ValueError(f"horizon is {self.horizon!r}; say a number of rounds, 'doubling' or None")
        if self.learning is not None and not self.learning > 0:
            raise ValueError(f"the learning rate is {self.learning}; it has to be positive")
        if self.exploration is not None and not 0 <= self.exploration <= 1:
            raise ValueError(f"the exploration rate is {self.exploration}; it has to lie in [0, 1]")
        needed = self.n_explorers * self.log_experts / self.cost**2
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
        best = exp3g_rates(self.log_experts, lengths, self.cost, n_explorers=self.n_explorers)
        learning = best.learning if self.learning is None else np.full(n_rounds, self.learning)
        exploration = best.exploration if self.exploration is None else np.full(n_rounds, self.exploration)
        return Rates(np.asarray(learning, dtype=np.float64), np.asarray(exploration, dtype=np.float64))

    def stretches(self, done: int, n_rounds: int) -> Iterator[tuple[slice, bool]]:
        """The coming rounds in pieces without a restart, and whether a piece begins with one."""
        start = 0
        while start < n_rounds:
            first = done + start + 1
            restart = self.horizon == "doubling" and first & (first - 1) == 0
            stop = n_rounds
            if self.horizon == "doubling":
                stop = min(n_rounds, (1 << first.bit_length()) - 1 - done)
            yield slice(start, stop), restart
            start = stop
