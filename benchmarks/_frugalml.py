"""FrugalML's strategy (Chen, Zaharia and Zou, NeurIPS 2020), written from the paper: the rival of ``cascades.py``.

A base service is called. Where its quality score is below a threshold for the label that it gave, an add-on service, chosen by
base and label, is called too, and its answer taken. Base, thresholds and add-ons are those of the highest accuracy on training
rows within a mean price; between two such strategies one may be drawn at random. Thresholds are searched among quantiles.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
_QUANTILES = 50  # thresholds that are tried for a service and a label


class FrugalStrategy:
    """Strategies for every mean price.

    Parameters
    ----------
    labels, scores, right : (n, K)
        What services said of training rows, how sure they were, and whether they were right.
    prices : (K,)
    """

    def __init__(self, labels: NDArray[Any], scores: Array, right: NDArray[np.bool_], prices: Array) -> None:
        self.prices = prices
        vertices: list[tuple[float, float, int, dict[int, tuple[int, float]]]] = []
        for base in range(prices.size):
            vertices += self._path_of(base, labels, scores, right)
        self.envelope = _upper_hull(vertices)

    def _path_of(self, base: int, labels: NDArray[Any], scores: Array, right: NDArray[np.bool_]) -> list[Any]:
        """Strategies of one base service, by rising price: every step has the best gain per price that is left."""
        n = len(labels)
        steps = []
        for label in np.unique(labels[:, base]):
            rows = np.flatnonzero(labels[:, base] == label)
            points: list[tuple[float, float, tuple[int, float]]] = [(0.0, 0.0, (-1, -np.inf))]
            for threshold in np.unique(np.quantile(scores[rows, base], np.linspace(0, 1, _QUANTILES + 1))):
                asked = rows[scores[rows, base] <= threshold]
                for other in range(self.prices.size):
                    if other != base:
                        gain = (right[asked, other].sum() - float(right[asked, base].sum())) / n
                        points.append((asked.size * self.prices[other] / n, gain, (other, float(threshold))))
            hull = _upper_hull(points)
            for before, after in pairwise(hull):
                price, gain = after[0] - before[0], after[1] - before[1]
                steps.append((-gain / max(price, 1e-300), price, gain, int(label), after[2]))
        cost, accuracy = float(self.prices[base]), float(right[:, base].mean())
        chosen: dict[int, tuple[int, float]] = {}
        path: list[Any] = [(cost, accuracy, base, dict(chosen))]
        for _, price, gain, label, add_on in sorted(steps, key=lambda step: step[0]):
            cost, accuracy = cost + price, accuracy + gain
            chosen[label] = add_on
            path.append((cost, accuracy, base, dict(chosen)))
        return path

    def evaluate(
        self, budgets: Array, labels: NDArray[Any], scores: Array, right: NDArray[np.bool_]
    ) -> tuple[Array, Array]:
        """Mean price and accuracy on other rows at each budget; a drawn strategy counts by its probability."""
        costs, accuracies = [], []
        for budget in budgets:
            at = int(np.searchsorted([vertex[0] for vertex in self.envelope], budget, side="right")) - 1
            low = self.envelope[max(at, 0)]
            high = self.envelope[min(max(at, 0) + 1, len(self.envelope) - 1)]
            share = 0.0 if high[0] <= low[0] else np.clip((budget - low[0]) / (high[0] - low[0]), 0.0, 1.0)
            (c0, a0), (c1, a1) = (self._one(vertex, labels, scores, right) for vertex in (low, high))
            costs.append((1 - share) * c0 + share * c1)
            accuracies.append((1 - share) * a0 + share * a1)
        return np.array(costs), np.array(accuracies)

    def _one(
        self, vertex: Any, labels: NDArray[Any], scores: Array, right: NDArray[np.bool_]
    ) -> tuple[float, float]:
        _, _, base, chosen = vertex
        asked = np.full(len(labels), -1)
        for label, (other, threshold) in chosen.items():
            asked[(labels[:, base] == label) & (scores[:, base] <= threshold)] = other
        answered = np.where(asked >= 0, asked, base)
        cost = self.prices[base] + np.where(asked >= 0, self.prices[asked], 0.0).mean()
        return float(cost), float(right[np.arange(len(labels)), answered].mean())


def _upper_hull(points: list[Any]) -> list[Any]:
    """Points, by price, on the upper concave hull from the cheapest to the most accurate."""
    hull: list[Any] = []
    for point in sorted(points, key=lambda p: (p[0], -p[1])):
        if hull and point[1] <= hull[-1][1]:
            continue
        while len(hull) > 1 and (hull[-1][1] - hull[-2][1]) * (point[0] - hull[-2][0]) <= (
            point[1] - hull[-2][1]
        ) * (hull[-1][0] - hull[-2][0]):
            hull.pop()
        hull.append(point)
    return hull
