"""EXP3.G: learning from experts of which every round shows only some (Alon et al. 2015; Nan, Algorithm 6).

Each round draws an expert, mostly by its weight, sometimes from a set of explorers that together show every loss. A loss that
is seen is divided by the probability of seeing it: the estimates are unbiased, and experts with small estimated totals gain
weight.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime._native import play_graphs, play_requests
from anytime.adaptive.online.graphs import FeedbackGraph
from anytime.adaptive.online.pace import Horizon, Pace

__all__ = ["Decisions", "Exp3G", "RequestLearner"]

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Seed = int | np.random.Generator | None


class _Weights:
    """Experts, their estimated losses so far, and the weights that follow."""

    def __init__(self, n_experts: int, pace: Pace, random_state: Seed) -> None:
        self.n_experts, self.pace = n_experts, pace
        self.random = np.random.default_rng(random_state)
        self.restart()

    def restart(self) -> None:
        """Forget everything, as before the first round."""
        self.n_rounds = 0
        self.totals: Array = np.zeros(self.n_experts)

    @property
    def weights(self) -> Array:
        """(K,) q of the coming round, proportional to ``exp(-η L)``, L the estimated losses so far."""
        rate = self.pace.rates(self.n_rounds + 1, 1).learning[0]
        weights = np.exp(-rate * (self.totals - self.totals.min()))
        return np.asarray(weights / weights.sum())

    @property
    def best(self) -> int:
        """The expert with the least estimated loss."""
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


def _check_seen(losses: Array, seen: Flags) -> None:
    """Losses that were shown have to be numbers from 0 on; the others may be anything."""
    bad = seen & ~(np.isfinite(losses) & (losses >= 0))
    if bad.any():
        t, i = (int(v) for v in np.argwhere(bad)[0])
        raise ValueError(
            f"round {t} shows a loss of {losses[t, i]} for expert {i}; losses are finite and not negative"
        )


# ---------------------------------------------------------------------- general graphs


class Exp3G(_Weights):
    """EXP3.G for any feedback graph, which may change from round to round.

    Losses lie in [0, 1].

    Parameters
    ----------
    graph : FeedbackGraph
        What rounds show that name no other.
    horizon : int, "doubling" or None, default=None
        Number of rounds, if known; see ``Pace``.
    cost : float, default=1.0
        The most that an explorer can lose.
    learning_rate, exploration : float, default=None
        η and γ, instead of those for which the bound is least.
    random_state : int, Generator or None, default=None

    Examples
    --------
    >>> graph = FeedbackGraph.requests([False, False, True])
    >>> learner = Exp3G(graph, horizon=2000, random_state=0)
    >>> losses = np.tile([0.1, 0.6, 1.0], (2000, 1))
    >>> played = learner.run(losses)
    >>> learner.best, bool(np.mean(played == 0) > 0.5)
    (0, True)
    """

    def __init__(
        self,
        graph: FeedbackGraph,
        *,
        horizon: Horizon = None,
        cost: float = 1.0,
        learning_rate: float | None = None,
        exploration: float | None = None,
        random_state: Seed = None,
    ) -> None:
        self.graph = graph
        log_experts = math.log(graph.n_experts)
        pace = Pace(log_experts, horizon, cost, graph.explorers.size, learning_rate, exploration)
        super().__init__(graph.n_experts, pace, random_state)
        self._shown: tuple[Flags, Array] | None = None

    def probabilities(self, graph: FeedbackGraph | None = None) -> Array:
        """(K,) p of the coming round, ``(1 - γ) q + γ u``."""
        explorers = self._checked(graph).explorers
        rate = self.pace.rates(self.n_rounds + 1, 1).exploration[0]
        probabilities: Array = (1 - rate) * self.weights
        probabilities[explorers] += rate / explorers.size
        return probabilities

    def play(self, graph: FeedbackGraph | None = None) -> int:
        """Draw the expert of this round; ``learn`` then takes the losses it shows."""
        graph = self._checked(graph)
        if any(restart for _, restart in self.pace.stretches(self.n_rounds, 1)):
            self.totals = np.zeros(self.n_experts)
        probabilities = self.probabilities(graph)
        played = int(self._rounds(None, [graph])[0])
        self._shown = graph.shows[played], graph.seeing(probabilities)
        return played

    def learn(self, losses: ArrayLike) -> None:
        """Take the losses that the last expert played shows, (K,); the others may be anything, such as NaN."""
        if self._shown is None:
            raise ValueError("there is nothing to learn from yet; call play first")
        shown, probability = self._shown
        table = self._matrix(np.atleast_2d(np.asarray(losses, dtype=np.float64)), 1)
        _check_seen(table, shown[None])
        self.totals[shown] += table[0, shown] / probability[shown]
        self._shown = None

    def run(
        self,
        losses: ArrayLike,
        graphs: FeedbackGraph | Sequence[FeedbackGraph] | Callable[[int], FeedbackGraph] | None = None,
    ) -> NDArray[np.int32]:
        """Play a round per row of ``losses`` (n, K), of which only what is shown is read: the experts drawn, (n,).

        ``graphs``: one for all rounds, one per round, or a function from the row to the graph. The same as ``play`` and
        ``learn`` in turn, but in native code.
        """
        table = self._matrix(losses)
        if callable(graphs):
            listed = [graphs(t) for t in range(len(table))]
        elif graphs is None or isinstance(graphs, FeedbackGraph):
            listed = [self._checked(graphs)] * len(table)
        else:
            listed = list(graphs)
        if len(listed) != len(table):
            raise ValueError(f"{len(listed)} graphs for {len(table)} rounds")
        return self._rounds(table, listed)

    def _rounds(self, losses: Array | None, graphs: list[FeedbackGraph]) -> NDArray[np.int32]:
        """Rounds on the graphs, learning from ``losses`` if there are any."""
        n = len(graphs)
        places: dict[int, int] = {}
        which = np.array([places.setdefault(id(graph), len(places)) for graph in graphs], dtype=np.int32)
        distinct = [graphs[int(t)] for t in np.unique(which, return_index=True)[1]]
        shows = (
            np.stack([self._checked(graph).shows for graph in distinct])
            if distinct
            else _no_graphs(self.n_experts)
        )
        explorers = np.zeros(shows.shape[:2], dtype=np.bool_)
        for g, graph in enumerate(distinct):
            explorers[g, graph.explorers] = True
        probability, rates = self.random.random(n), self.pace.rates(self.n_rounds + 1, n)
        totals, played = self.totals.copy(), np.empty(n, dtype=np.int32)
        for part, restart in self.pace.stretches(self.n_rounds, n):
            if restart:
                totals[:] = 0.0
            shown = None if losses is None else losses[part]
            played[part] = play_graphs(
                totals,
                shows,
                explorers,
                which[part],
                shown,
                probability[part],
                rates.learning[part],
                rates.exploration[part],
            )
        if losses is not None:
            _check_seen(losses, shows[which, played])
        self.totals, self._shown = totals, None
        self.n_rounds += n
        return played

    def _checked(self, graph: FeedbackGraph | None) -> FeedbackGraph:
        graph = self.graph if graph is None else graph
        if graph.n_experts != self.n_experts:
            raise ValueError(f"the graph has {graph.n_experts} experts, the learner {self.n_experts}")
        return graph


def _no_graphs(n_experts: int) -> Flags:
    return np.empty((0, n_experts, n_experts), dtype=np.bool_)


# ---------------------------------------------------------------------- experts that ask or keep silent


@dataclass(frozen=True, eq=False)
class Decisions:
    """What was decided for n examples, and all that learning from the answers needs.

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


class RequestLearner(_Weights):
    """EXP3.G where an expert either asks, which costs the same for all and shows every loss, or shows nothing.

    A round in which nobody asks changes no weight. Takes time O(K) per round, and at least one expert has to ask in each.

    Parameters
    ----------
    n_experts : int
    cost : float
        Of asking. Above 1, losses are counted in units of it.
    horizon : int, "doubling" or None, default=None
        Number of rounds, if known; see ``Pace``.
    charge_requests : bool, default=False
        Charge experts that ask in every round, not only in those seen: what they lose is known. Their estimates are then
        exact. Not part of the published analysis; on coin tosses the regret was the same.
    learning_rate, exploration : float, default=None
        η and γ, instead of those for which the bound is least.
    random_state : int, Generator or None, default=None

    Examples
    --------
    >>> learner = RequestLearner(3, cost=0.5, horizon=2000, random_state=0)
    >>> asks = np.tile([False, False, True], (2000, 1))
    >>> decisions = learner.run(asks, np.tile([0.1, 0.6, 0.5], (2000, 1)))
    >>> learner.best, bool(decisions.asked.mean() < 0.3)
    (0, True)
    """

    def __init__(
        self,
        n_experts: int,
        *,
        cost: float,
        horizon: Horizon = None,
        charge_requests: bool = False,
        learning_rate: float | None = None,
        exploration: float | None = None,
        random_state: Seed = None,
    ) -> None:
        if not 0 < cost < math.inf:
            raise ValueError(f"cost is {cost}; it has to be positive: what is free is best asked every time")
        self.cost, self.charge_requests = cost, charge_requests
        self._unit = max(1.0, cost)
        pace = Pace(math.log(n_experts), horizon, cost / self._unit, 1, learning_rate, exploration)
        super().__init__(n_experts, pace, random_state)

    def run(self, asks: ArrayLike, losses: ArrayLike) -> Decisions:
        """Play a round per row: who would ask (n, K), and the losses (n, K), read only in rows that are asked."""
        flags = self._flags(asks)
        return self._rounds(flags, self._matrix(losses, len(flags)))

    def decide(self, asks: ArrayLike) -> Decisions:
        """Draw an expert per row of ``asks`` (n, K) without learning; ``learn`` takes the answers when they are there."""
        return self._rounds(self._flags(asks), None)

    def learn(self, decisions: Decisions, losses: ArrayLike) -> None:
        """Take the losses (n, K) of examples decided before; rows that were not asked may be anything, such as NaN."""
        table = self._matrix(losses, len(decisions.asked))
        asked, asks = decisions.asked, decisions.asks
        _check_seen(table, np.repeat(asked[:, None], self.n_experts, axis=1))
        estimates = np.zeros(table.shape)
        estimates[asked] = table[asked] / decisions.probability[asked, None]
        if self.charge_requests:
            estimates[asks] = self.cost
        self.totals += estimates.sum(axis=0) / self._unit

    def _rounds(self, asks: Flags, losses: Array | None) -> Decisions:
        n = len(asks)
        scaled = None if losses is None else losses / self._unit
        charged = self.cost / self._unit if self.charge_requests else -1.0
        probability, rates = self.random.random(n), self.pace.rates(self.n_rounds + 1, n)
        totals, played, seen = self.totals.copy(), np.empty(n, dtype=np.int32), np.empty(n)
        for part, restart in self.pace.stretches(self.n_rounds, n):
            if restart:
                totals[:] = 0.0
            played[part], seen[part] = play_requests(
                totals,
                asks[part],
                None if scaled is None else scaled[part],
                probability[part],
                rates.learning[part],
                rates.exploration[part],
                charged,
            )
        asked = asks[np.arange(n), played]
        if losses is not None:
            _check_seen(losses, np.repeat(asked[:, None], self.n_experts, axis=1))
        self.totals = totals
        self.n_rounds += n
        return Decisions(played, asked, asks, seen)

    def _flags(self, asks: ArrayLike) -> Flags:
        flags = np.ascontiguousarray(asks, dtype=np.bool_)
        if flags.ndim != 2 or flags.shape[1] != self.n_experts:
            raise ValueError(
                f"asks has shape {flags.shape}; expected (n, {self.n_experts}), a column per expert"
            )
        return flags
