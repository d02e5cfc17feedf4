"""Worlds to play against: experts whose losses are tosses of a coin, among them the hardest to tell apart."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.online.request_learner import RequestLearner
from anytime_research.online.bounds import HardCase
from anytime_research.online.exp3g import Exp3G
from anytime_research.online.regret import ExpertRegret

__all__ = ["BernoulliEnvironment", "hard_environment"]

Array = NDArray[np.float64]
Seed = int | np.random.Generator | None


class BernoulliEnvironment:
    """Experts that keep silent err at random with a rate of their own; those that ask lose the cost, surely.

    Parameters
    ----------
    errors : (K,) float
        Error rates; those of experts that ask are not read.
    asks : (K,) bool
    evaluation_cost : float, default=1.0
    random_state : int, Generator or None, default=None

    Examples
    --------
    >>> world = BernoulliEnvironment([0.3, 0.5, 0.0], [False, False, True], evaluation_cost=0.4, random_state=0)
    >>> world.means.tolist()
    [0.3, 0.5, 0.4]
    """

    def __init__(
        self, errors: ArrayLike, asks: ArrayLike, evaluation_cost: float = 1.0, *, random_state: Seed = None
    ) -> None:
        self.asks = np.asarray(asks, dtype=np.bool_)
        rates = np.asarray(errors, dtype=np.float64)
        if rates.shape != self.asks.shape or rates.ndim != 1:
            raise ValueError(
                f"errors have shape {rates.shape}, asks {self.asks.shape}; expected (K,) for both"
            )
        if ((rates < 0) | (rates > 1))[~self.asks].any():
            raise ValueError("error rates have to lie in [0, 1]")
        self.evaluation_cost, self.means = evaluation_cost, np.where(self.asks, evaluation_cost, rates)
        self.random = np.random.default_rng(random_state)

    @property
    def n_experts(self) -> int:
        """K."""
        return self.asks.size

    def losses(self, n_rounds: int) -> Array:
        """(n, K) losses of the coming rounds."""
        tossed = (self.random.random((n_rounds, self.n_experts)) < self.means).astype(np.float64)
        tossed[:, self.asks] = self.evaluation_cost
        return tossed

    def challenge(self, learner: RequestLearner | Exp3G | Any, n_rounds: int) -> ExpertRegret:
        """Let a learner play, and track its regret.

        A learner of another kind has ``run(asks, losses)`` and returns the experts it played, (n,).
        """
        losses = self.losses(n_rounds)
        if isinstance(learner, Exp3G):
            return ExpertRegret().add(losses, learner.run(losses))
        outcome: Any = learner.run(np.tile(self.asks, (n_rounds, 1)), losses)
        return ExpertRegret().add(losses, getattr(outcome, "played", outcome))

    def expected_regret(self, played: ArrayLike) -> float:
        """Expected loss of the experts played above that of the best expert."""
        drawn = np.asarray(played, dtype=np.intp)
        return float((self.means[drawn] - self.means.min()).sum())


def hard_environment(
    n_experts: int,
    horizon: int,
    *,
    best: int | None = None,
    gap: float | None = None,
    random_state: Seed = None,
) -> BernoulliEnvironment:
    """The experts of ``HardCase``: the last always asks at a cost of 1, the others err half the time, the best a little less.

    Parameters
    ----------
    n_experts, horizon : int
    best : int, default=None
        The expert that is better than the other silent ones. None: drawn at random.
    gap : float, default=None
        By how much. None: that of ``HardCase``.
    random_state : int, Generator or None, default=None
    """
    random = np.random.default_rng(random_state)
    if n_experts < 2:
        raise ValueError(f"n_experts is {n_experts}; at least one that asks and one that does not are needed")
    chosen = int(random.integers(n_experts - 1)) if best is None else best
    if not 0 <= chosen < n_experts - 1:
        raise ValueError(f"best is {best}; the silent experts are 0 to {n_experts - 2}")
    errors = np.full(n_experts, 0.5)
    errors[chosen] -= HardCase(n_experts, horizon).gap if gap is None else gap
    asks = np.arange(n_experts) == n_experts - 1
    return BernoulliEnvironment(errors, asks, 1.0, random_state=random)
