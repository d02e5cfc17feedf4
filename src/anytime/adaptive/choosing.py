"""Held-out rows choose: which gate, which cheap model, and how many rows to send on."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from anytime.adaptive.stages import Chain, bills
from anytime.costs import BoundCosts
from anytime.losses import LINKS
from anytime.plan import Array, Plan

Quality = Callable[[NDArray[np.intp], Array], float]

_MOST_POINTS = 64  # thresholds tried: more would be chosen by the noise of the held-out rows


@dataclass(frozen=True)
class Point:
    """Accuracy and cost of a composite on held-out rows.

    Attributes
    ----------
    threshold : float or None
        Rows whose gate is above it go to the costly model; None: there is no gate, and none goes. Minus infinity: all go.
    accuracy, cost : float
        Means over rows.
    sent : float
        Share of rows that go to the costly model.
    doubt : float, default=0
        How much the margin of the cheap answer counts in the gate; infinite where it alone counts.
    """

    threshold: float | None
    accuracy: float
    cost: float
    sent: float
    doubt: float = 0.0


@dataclass(frozen=True, eq=False)
class HeldOutRows:
    """Held-out rows."""

    X: Array  # (n, d)
    y: NDArray[np.intp]  # (n,)
    weight: Array | None  # (n,)
    costly_scores: Array  # (n, K): scores of a costly model that was not trained on them
    costs: BoundCosts
    base: Array  # (K,): scores before any model has run
    link: str
    # from classes (n,) and their probabilities (n, C) to what is told instead of accuracy, such as the
    # precision of a ranking
    quality: Quality | None = None

    def points(self, chain: Chain, doubts: Sequence[float] = (0.0,)) -> list[Point]:
        """Points of a chain without its first gate, and with the gate passing on ever more rows, up to all."""
        thresholds: list[tuple[float | None, float]] = [(None, 0.0)]
        for doubt in doubts if chain.answer_first else (0.0,):
            thresholds += [(t, doubt) for t in _cuts(chain.at(0.0, doubt).exits[0].score(self.X, self.link))]
        return self.at(chain, thresholds)

    def at(self, chain: Chain, cuts: Sequence[tuple[float | None, float]]) -> list[Point]:
        """The point at these thresholds and doubts of the first gate; None: without the gate."""
        cheap_scores = chain.exits[0].cheap.outputs(0, self.X)
        stays, goes = self.right(cheap_scores), self.right(self.costly_scores)
        doubts = {doubt for _, doubt in cuts}
        gates = {doubt: chain.at(0.0, doubt).exits[0].score(self.X, self.link) for doubt in doubts}
        # whether there is a gate to be paid for, and what rows pay that stay or go
        paid = {
            alone: [self.bill(chain.at(t, np.inf if alone else 0.0))[-1] for t in (np.inf, -np.inf)]
            for alone in {doubt == np.inf for doubt in gates}
        }

        def accuracy(on: NDArray[np.bool_]) -> float:
            if self.quality is None:
                return self._mean(np.where(on, goes, stays))
            return self.accuracy(np.where(on[:, None], self.costly_scores, cheap_scores))

        def point(threshold: float | None, doubt: float) -> Point:
            if threshold is None:
                alone = self._mean(self.bill(chain.cheap_alone)[-1])
                return Point(None, accuracy(np.zeros(len(stays), dtype=bool)), alone, 0.0)
            on = gates[doubt] > threshold
            cost = np.where(on, *paid[doubt == np.inf][::-1])
            return Point(float(threshold), accuracy(on), self._mean(cost), self._mean(on), doubt)

        return [point(*cut) for cut in cuts]

    def costly_alone(self, chain: Chain) -> Point:
        """The operating point at which all rows are passed on without a gate."""
        accuracy = self.accuracy(self.costly_scores)
        return Point(-np.inf, accuracy, self._mean(self.bill(chain.costly_alone)[-1]), 1.0)

    def judged(self, chain: Chain, *, ends_costly: bool) -> Plan:
        """The plan of a chain with what rows pay on average after each stage, and how often the answer is right.

        ``ends_costly``: whether its last stage is the costly model, whose scores are known.
        """
        scores = np.tile(self.base, (len(self.y), 1))
        here, quality = np.ones(len(self.y), dtype=bool), [self.accuracy(scores)]
        for exit in chain.exits:
            on = here & (exit.score(self.X, self.link) > 0)
            answered = here if chain.answer_first else here & ~on
            scores = np.where(answered[:, None], exit.cheap.outputs(0, self.X), scores)
            quality.append(self.accuracy(scores))
            here = on
        outputs = self.costly_scores if ends_costly else chain.last.outputs(0, self.X)
        quality.append(self.accuracy(np.where(here[:, None], outputs, scores)))
        expected = np.average(self.bill(chain), axis=1, weights=self.weight)
        plan = chain.plan(self.costs, self.base, self.link)
        return replace(plan, expected_costs=expected, quality=np.array(quality))

    def bill(self, chain: Chain) -> Array:
        """(S, n) What rows have paid after each stage, as the chain sends them."""
        return bills(chain.without_asking.plan(self.costs, self.base, self.link), self.X)

    def _mean(self, values: NDArray[np.float64 | np.bool_]) -> float:
        return float(np.average(values, weights=self.weight))

    def right(self, scores: Array) -> NDArray[np.bool_]:
        """(n,) Whether the leading class is the true one."""
        leading = (scores[:, 0] > 0).astype(np.intp) if LINKS[self.link].binary else scores.argmax(axis=1)
        return np.asarray(leading == self.y)

    def accuracy(self, scores: Array) -> float:
        """Accuracy, or the value of ``quality``."""
        if self.quality is not None:
            return self.quality(self.y, LINKS[self.link].transform(scores))
        return self._mean(self.right(scores))


def best_point(points: Iterable[Point], budget: float = np.inf, fraction: float = 1.0) -> Point | None:
    """The most accurate point within the bounds, the cheapest of equal ones; None where there is none."""
    within = [p for p in points if p.cost <= budget * (1 + 1e-12) and p.sent <= fraction * (1 + 1e-12)]
    return min(within, key=lambda p: (-p.accuracy, p.cost), default=None)


def _cuts(gate: Array) -> list[float]:
    """Thresholds between the gate's scores, falling, one below them all, and 0."""
    scores = np.unique(gate)[::-1]
    cuts = np.append(0.5 * (scores[:-1] + scores[1:]), scores[-1] - 1.0)
    if cuts.size > _MOST_POINTS:  # with about as many rows between any two
        ranks = np.linspace(0, gate.size - 1, _MOST_POINTS).astype(np.intp)
        cuts = cuts[np.searchsorted(-scores, -np.sort(gate)[::-1][ranks])]
    return sorted({*cuts.tolist(), 0.0}, reverse=True)
