"""Losses of rankings: pairs of rows of one query, of which the one with the higher grade should have the higher score.

Targets are (n, 2), grade and query. The objective is a mean over pairs (over queries, for LambdaMART's), and each pair's share of
it is split evenly between its two rows, so that the mean over rows is the objective. Sample weights must be the same for
all rows of a query: the gradient, which ignores weights, is then correct for the weighted objective, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from anytime.losses.loss import Loss
from anytime.losses.targets import Array, Target

Rows = NDArray[np.intp]
Known = TypeVar("Known")
_BLOCK = 1 << 18  # pairs looked at together: few enough for the cache
_REMEMBERED = 4  # targets: those to learn from, those to judge on, and those of quick models


def _remembering(make: Callable[[Target], Known]) -> Callable[[Target], Known]:
    """``make(y)``, remembered for the last few targets: boosting passes the same ones in every round."""
    remembered: list[tuple[Target, Known]] = []

    def cached(y: Target) -> Known:
        for targets, value in tuple(remembered):
            if np.array_equal(targets, y):
                return value
        value = make(y)
        remembered[:] = [(y.copy(), value), *remembered[: _REMEMBERED - 1]]
        return value

    return cached


class Pairs:
    """All pairs of rows of the same query with different grades; ``y`` (n, 2) has the grade and the query of each row."""

    def __init__(self, y: Target) -> None:
        if np.ndim(y) != 2 or y.shape[1] != 2:
            raise ValueError(f"a ranking needs y of shape (n, 2), grade and query; got {np.shape(y)}")
        grade, query = np.asarray(y[:, 0], dtype=np.float64), np.asarray(y[:, 1])
        self._order = np.lexsort((-grade, query))
        grade, query = grade[self._order], query[self._order]
        new_query = query[1:] != query[:-1]
        # Sorted so, the rows that are worse than a row are a range: from the next grade on to the end of the query.
        self._worse = _next_start(new_query | (grade[1:] != grade[:-1]))
        self._counts = _next_start(new_query) - self._worse
        self._total = np.concatenate([[0], np.cumsum(self._counts)])
        self.n_rows, self.n_pairs = len(y), int(self._total[-1])
        self.n_queries = int(new_query.sum()) + (self.n_rows > 0)

    def __iter__(self) -> Iterator[tuple[Rows, Rows]]:
        """The better and the worse row of each pair, in blocks of bounded size."""
        return self._blocks() if self.n_pairs > _BLOCK else iter(self._only_block)

    @cached_property
    def _only_block(self) -> list[tuple[Rows, Rows]]:
        return list(self._blocks())

    def _blocks(self) -> Iterator[tuple[Rows, Rows]]:
        marks = np.minimum(np.arange(0, self.n_pairs + _BLOCK, _BLOCK), self.n_pairs)
        cuts = np.searchsorted(self._total, marks)
        for start, stop in pairwise(cuts):
            counts = self._counts[start:stop]
            better = np.repeat(np.arange(start, stop), counts)
            within = np.arange(self._total[start], self._total[stop]) - self._total[better]
            yield self._order[better], self._order[self._worse[better] + within]


class _Grades(NamedTuple):
    """What NDCG knows of rows before they are ranked."""

    gain: Array  # (n,)
    query: Rows  # (n,) from 0 on

    def ideal(self, k: int | None) -> Array:
        """(queries,) the gains of the best ranking, discounted."""
        discounted = self.gain * _discounts(self.gain, self.query, k)
        return np.asarray(np.bincount(self.query, discounted), dtype=np.float64)


def _read_grades(y: Target) -> _Grades:
    gain = np.exp2(np.asarray(y[:, 0], dtype=np.float64)) - 1.0
    return _Grades(gain, np.unique(y[:, 1], return_inverse=True)[1].reshape(-1))


_pairs_of, _grades_of = _remembering(Pairs), _remembering(_read_grades)


def _next_start(changes: NDArray[np.bool_]) -> Rows:
    """(n,) For each of n rows where the next run begins; ``changes`` (n - 1,) says between which rows one ends."""
    starts = np.append(np.flatnonzero(changes) + 1, changes.size + 1)
    return np.asarray(np.repeat(starts, np.diff(starts, prepend=0)))


# ---------------------------------------------------------------------- losses of pairs

Margin = Callable[[Array], Array]
Importance = Callable[[Pairs, Array, Target], Callable[[Rows, Rows], Array | float]]


def _pairwise(
    name: str, value: Margin, slope: Margin, bend: Margin | None, importance: Importance, kinked: bool = False
) -> Loss:
    """The loss ``value`` of how far the better row of a pair is ahead, with its first two derivatives."""

    def summed(scores: Array, y: Target, of_margin: Margin, sign: float) -> Array:
        """(n,) Sums over the pairs of each row, those in which it is the worse one with this sign."""
        pairs = _pairs_of(y)
        weigh, f, n = importance(pairs, scores, y), scores[:, 0], pairs.n_rows
        total = np.zeros(n)
        for better, worse in pairs:
            each = weigh(better, worse) * of_margin(f[better] - f[worse])
            total += np.bincount(better, each, n) + sign * np.bincount(worse, each, n)
        return total

    return Loss(
        name,
        lambda scores, y: 0.5 * summed(scores, y, value, 1.0),
        gradient=lambda scores, y: summed(scores, y, slope, -1.0)[:, None],
        hessian=None if bend is None else lambda scores, y: summed(scores, y, bend, 1.0)[:, None],
        constant=lambda y, k, weight: np.zeros(k),
        kinked=kinked,
        ranks=True,
    )


def _evenly(pairs: Pairs, scores: Array, y: Target) -> Callable[[Rows, Rows], float]:
    share = pairs.n_rows / max(pairs.n_pairs, 1)
    return lambda better, worse: share


def _logistic(margin: Array) -> Array:
    return np.asarray(np.logaddexp(0.0, -margin))


def _logistic_slope(margin: Array) -> Array:
    return np.asarray(-expit(-margin))


def _logistic_bend(margin: Array) -> Array:
    probability = expit(margin)
    return np.asarray(probability * (1.0 - probability))


PAIRWISE_HINGE = _pairwise(
    "pairwise_hinge",
    value=lambda margin: np.maximum(0.0, 1.0 - margin),
    slope=lambda margin: -(margin < 1.0).astype(np.float64),
    bend=None,
    importance=_evenly,
    kinked=True,
)

PAIRWISE_LOGISTIC = _pairwise("pairwise_logistic", _logistic, _logistic_slope, _logistic_bend, _evenly)


def lambdarank(k: int | None = None) -> Loss:
    """Logistic loss of each pair, weighted by the change of NDCG at ``k`` if its rows swapped places (LambdaMART).

    The weights are those of the ranks at the scores given, rows of equal score ranked in their given order, and the gradient
    treats them as fixed: it is not the derivative of any objective, but aims at NDCG.
    """
    if k is not None and k < 1:
        raise ValueError(f"NDCG@k needs k ≥ 1, not {k}")

    def importance(pairs: Pairs, scores: Array, y: Target) -> Callable[[Rows, Rows], Array]:
        gain, query = grades = _grades_of(y)
        discount = _discounts(scores[:, 0], query, k)
        ideal = grades.ideal(k)[query]
        share = pairs.n_rows / pairs.n_queries / np.where(ideal > 0, ideal, 1.0)

        def change(better: Rows, worse: Rows) -> Array:
            swapped = (gain[better] - gain[worse]) * np.abs(discount[better] - discount[worse])
            return np.asarray(share[better] * swapped)

        return change

    name = "lambdarank" if k is None else f"lambdarank@{k}"
    return _pairwise(name, _logistic, _logistic_slope, _logistic_bend, importance)


def _discounts(scores: Array, query: Rows, k: int | None) -> Array:
    """(n,) ``1 / log2(rank + 1)`` of each row in its query, queries being 0, 1, ...; 0 beyond rank ``k``."""
    order, sizes = np.lexsort((-scores, query)), np.bincount(query)
    rank = np.empty(order.size)
    rank[order] = np.arange(1, order.size + 1) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.where(rank <= (k or np.inf), 1.0 / np.log2(rank + 1.0), 0.0)


def ndcg_shortfall(scores: Array, y: Target, k: int | None = 10) -> float:
    """1 minus NDCG at ``k``, mean over the queries with a relevant row.

    Rows of equal score share the discounts of their ranks, so that the order of rows does not favour a constant answer.

    Examples
    --------
    >>> grades = np.array([[3, 7], [2, 7], [0, 7]])
    >>> round(ndcg_shortfall(np.array([[0.1], [0.9], [0.5]]), grades), 4)
    0.2691
    """
    gain, query = grades = _grades_of(y)
    reached = np.bincount(query, gain * _shared(_discounts(scores[:, 0], query, k), scores[:, 0], query))
    ideal = grades.ideal(k)
    matters = ideal > 0
    return float(1.0 - np.mean(reached[matters] / ideal[matters])) if matters.any() else 0.0


def _shared(discounts: Array, scores: Array, query: Rows) -> Array:
    """(n,) discounts, each the mean over the rows of its query with the same score."""
    order, tied = np.lexsort((scores, query)), np.zeros(scores.size, dtype=np.intp)
    changes = (np.diff(query[order]) != 0) | (np.diff(scores[order]) != 0)
    tied[order[1:]] = np.cumsum(changes)
    return np.asarray((np.bincount(tied, discounts) / np.bincount(tied))[tied])
