"""EXP3.G for any feedback graph (Alon et al. 2015); the product has the case in which experts ask or keep silent."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime._native import play_graphs
from anytime.online.request_learner import WeightedExperts, check_seen
from anytime.online.schedule import Horizon, LearningSchedule
from anytime_research.online.graphs import FeedbackGraph

__all__ = ["Exp3G"]

Array = NDArray[np.float64]
Flags = NDArray[np.bool_]
Seed = int | np.random.Generator | None


class Exp3G(WeightedExperts):
    """EXP3.G for any feedback graph, which may change from round to round.

    Losses lie in [0, 1].

    Parameters
    ----------
    graph : FeedbackGraph
        What rounds show that name no other.
    horizon : int, "doubling" or None, default=None
        Number of rounds, if known; see ``LearningSchedule``.
    evaluation_cost : float, default=1.0
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
        evaluation_cost: float = 1.0,
        learning_rate: float | None = None,
        exploration: float | None = None,
        random_state: Seed = None,
    ) -> None:
        self.graph = graph
        log_experts = math.log(graph.n_experts)
        schedule = LearningSchedule(
            log_experts, horizon, evaluation_cost, graph.explorers.size, learning_rate, exploration
        )
        super().__init__(graph.n_experts, schedule, random_state)
        self._shown: tuple[Flags, Array] | None = None

    def probabilities(self, graph: FeedbackGraph | None = None) -> Array:
        """(K,) p of the coming round, ``(1 - γ) q + γ u``."""
        explorers = self._checked(graph).explorers
        rate = self.schedule.rates(self.n_rounds + 1, 1).exploration[0]
        probabilities: Array = (1 - rate) * self.weights
        probabilities[explorers] += rate / explorers.size
        return probabilities

    def play(self, graph: FeedbackGraph | None = None) -> int:
        """Draw the expert of this round; ``learn`` then takes the losses it shows."""
        graph = self._checked(graph)
        if any(restart for _, restart in self.schedule.stretches(self.n_rounds, 1)):
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
        check_seen(table, shown[None])
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
        probability, rates = self.random.random(n), self.schedule.rates(self.n_rounds + 1, n)
        totals, played = self.totals.copy(), np.empty(n, dtype=np.int32)
        for part, restart in self.schedule.stretches(self.n_rounds, n):
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
            check_seen(losses, shows[which, played])
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
