"""Held-out rows choose: which gate, which cheap model, and how many rows to send on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from anytime.adaptive.stages import Chain, bills
from anytime.costs import BoundCosts
from anytime.losses import LINKS
from anytime.plan import Array, Plan

__all__ = ["Bench", "Point", "best_point"]

_MOST_POINTS = 64  # thresholds tried: more would be chosen by the noise of the held-out rows


@dataclass(frozen=True)
class Point:
    """What a composite comes to on held-out rows.

    Attributes
    ----------
    threshold : float or None
        Rows whose gate is above it go to the costly model; None: there is no gate, and none goes. Minus infinity: all go.
    accuracy, cost : float
        Means over rows.
    sent : float
        Share of rows that go to the costly model.
    """

    threshold: float | None
    accuracy: float
    cost: float
    sent: float


@dataclass(frozen=True, eq=False)
class Bench:
    """Held-out rows.

    Attributes
    ----------
    X : (n, d)
    y : (n,) int
    weight : (n,) or None
    costly_scores : (n, K)
        What the costly model says of them, not having learned from them.
    costs : BoundCosts
    base : (K,)
        Scores before any model is asked.
    link : str
    """

    X: Array
    y: NDArray[np.intp]
    weight: Array | None
    costly_scores: Array
    costs: BoundCosts
    base: Array
    link: str

    def points(self, chain: Chain) -> list[Point]:
        """What a chain comes to at various thresholds of its first gate, from no row to all rows sent on."""
        first = chain.exits[0]
        gate = first.gate.outputs(0, self.X)[:, 0]
        order = np.argsort(-gate, kind="stable")
        weight = np.ones(len(self.y)) if self.weight is None else self.weight
        share, falling = weight[order] / weight.sum(), gate[order]
        stays = self._right(first.cheap.outputs(0, self.X))[order].astype(np.float64)
        goes = self._right(self.costly_scores)[order].astype(np.float64)
        stay, go = (self._bill(chain.at(t))[-1][order] for t in (np.inf, -np.inf))
        # after so many rows, the ones that the gate would rather send first
        sent = np.concatenate([[0.0], np.cumsum(share)])
        right = share @ stays + np.concatenate([[0.0], np.cumsum(share * (goes - stays))])
        cost = share @ stay + np.concatenate([[0.0], np.cumsum(share * (go - stay))])
        right = np.minimum(right, 1.0)  # sums of shares may exceed it by a rounding error
        found = [Point(None, float(right[0]), self._mean(self._bill(chain.cheap_alone)[-1]), 0.0)]
        for k in _cuts(falling):
            threshold = 0.5 * (falling[k - 1] + falling[k]) if k < falling.size else falling[-1] - 1.0
            if k == np.count_nonzero(falling > 0):
                threshold = 0.0
            found.append(Point(float(threshold), float(right[k]), float(cost[k]), float(sent[k])))
        return found

    def costly_alone(self, chain: Chain) -> Point:
        """What comes of sending all rows on without asking a gate."""
        accuracy = self._accuracy(self.costly_scores)
        return Point(-np.inf, accuracy, self._mean(self._bill(chain.costly_alone)[-1]), 1.0)

    def judged(self, chain: Chain, *, ends_costly: bool) -> Plan:
        """The plan of a chain with what rows pay on average after each stage, and how often the answer is right.

        ``ends_costly``: whether its last stage is the costly model, whose scores are known.
        """
        scores = np.tile(self.base, (len(self.y), 1))
        here, quality = np.ones(len(self.y), dtype=bool), [self._accuracy(scores)]
        for exit in chain.exits:
            on = here & (exit.score(self.X) > 0)
            answered = here if chain.answer_first else here & ~on
            scores = np.where(answered[:, None], exit.cheap.outputs(0, self.X), scores)
            quality.append(self._accuracy(scores))
            here = on
        outputs = self.costly_scores if ends_costly else chain.last.outputs(0, self.X)
        quality.append(self._accuracy(np.where(here[:, None], outputs, scores)))
        expected = np.average(self._bill(chain), axis=1, weights=self.weight)
        plan = chain.plan(self.costs, self.base, self.link)
        return replace(plan, expected_costs=expected, quality=np.array(quality))

    def _bill(self, chain: Chain) -> Array:
        return bills(chain.without_asking.plan(self.costs, self.base, self.link), self.X)

    def _mean(self, values: Array) -> float:
        return float(np.average(values, weights=self.weight))

    def _right(self, scores: Array) -> NDArray[np.bool_]:
        leading = (scores[:, 0] > 0).astype(np.intp) if LINKS[self.link].binary else scores.argmax(axis=1)
        return np.asarray(leading == self.y)

    def _accuracy(self, scores: Array) -> float:
        return self._mean(self._right(scores).astype(np.float64))


def best_point(points: Iterable[Point], budget: float = np.inf, fraction: float = 1.0) -> Point | None:
    """The most accurate point within the bounds, the cheapest of equal ones; None where there is none."""
    within = [p for p in points if p.cost <= budget * (1 + 1e-12) and p.sent <= fraction * (1 + 1e-12)]
    return min(within, key=lambda p: (-p.accuracy, p.cost), default=None)


def _cuts(falling: Array) -> NDArray[np.intp]:
    """How many rows may be sent on: never one of two that the gate holds equal; where it changes sign, and some others."""
    cuts = np.append(np.flatnonzero(np.diff(falling)) + 1, falling.size)
    if cuts.size > _MOST_POINTS:
        kept = np.linspace(0, cuts.size - 1, _MOST_POINTS).astype(np.intp)
        sign_change = min(int(np.searchsorted(cuts, np.count_nonzero(falling > 0))), cuts.size - 1)
        cuts = cuts[np.union1d(kept, [sign_change])]
    return cuts
