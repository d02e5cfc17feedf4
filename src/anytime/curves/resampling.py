"""Bootstrap bands: how far a curve could have come out differently with other rows of the same kind.

Rows (or whole queries, or groups of rows that belong together) are drawn with replacement. Every stage is judged on the *same*
draws, so bands of one curve, and of several compared curves, are comparable. A draw is kept as the count of each row; metrics
that are means, R² and the area under the ROC curve are computed for all draws at once from these counts.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import UndefinedMetricWarning

from anytime.curves.areas import Array
from anytime.curves.frozen import FrozenAnswer
from anytime.curves.metrics import EvaluationData, Metric, QueryMetric, violations

Counts = NDArray[np.uint16]
Resampled = Callable[[FrozenAnswer, EvaluationData, Counts], Array]

_BLOCK = 2_000_000  # counts turned into float64 at a time: 16 MB


def generator(random_state: Any) -> np.random.Generator:
    """A seeded generator from an int, None, a ``Generator`` or a ``RandomState``."""
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(2**31 - 1))
    return np.random.default_rng(random_state)


@dataclass(frozen=True, eq=False)
class Bootstrap:
    """Fixed draws of rows, and the band they give a stage."""

    counts: Counts  # (b, n): how often each draw has each row
    confidence: float

    @classmethod
    def drawn(
        cls,
        data: EvaluationData,
        groups: ArrayLike | None,
        n_draws: int,
        confidence: float,
        random_state: Any,
    ) -> Bootstrap:
        """Draw ``n_draws`` times as many units as there are: groups if given, else queries, else rows."""
        if not 0 < confidence < 1:
            raise ValueError(f"confidence must lie between 0 and 1, not {confidence}")
        unit = _units(data, groups)
        n_units = int(unit.max()) + 1
        rng = generator(random_state)
        drawn = [np.bincount(rng.integers(n_units, size=n_units), minlength=n_units) for _ in range(n_draws)]
        return cls(np.array(drawn, dtype=np.uint16)[:, unit], confidence)

    def band(self, metric: Metric, answer: FrozenAnswer, data: EvaluationData) -> tuple[float, float]:
        """Percentile interval of the metric over the draws."""
        values = self.values(metric, answer, data)
        values = values[np.isfinite(values)]
        if 2 * values.size < len(self.counts):
            raise ValueError(
                f"metric {metric.name!r} is not defined on {len(self.counts) - values.size} of {len(self.counts)} "
                "bootstrap draws (a draw may lack a class); use more rows, another metric, or bootstrap=0"
            )
        low, high = np.quantile(values, [(1 - self.confidence) / 2, (1 + self.confidence) / 2])
        return float(low), float(high)

    def values(self, metric: Metric, answer: FrozenAnswer, data: EvaluationData) -> Array:
        """(b,) the metric on each draw; NaN where a draw does not define it."""
        if isinstance(metric.source, QueryMetric):
            return _query_draws(metric.source, answer, data, self.counts)
        fast = None if metric.source is None else _FAST.get(metric.source)
        if fast is None:
            return np.array([_score_draw(metric, answer, data, count) for count in self.counts])
        return fast(answer, data, self.counts)


def _units(data: EvaluationData, groups: ArrayLike | None) -> NDArray[np.intp]:
    """(n,) the unit of resampling that each row belongs to."""
    n = data.y.size
    if groups is None:
        return np.arange(n) if data.qid is None else np.unique(data.qid, return_inverse=True)[1]
    labels = np.asarray(groups)
    if labels.shape != (n,):
        raise ValueError(f"X has {n} rows but groups has shape {labels.shape}")
    unit = np.unique(labels, return_inverse=True)[1]
    if data.qid is not None:
        query, first = np.unique(data.qid, return_index=True)
        if (unit != unit[first][np.searchsorted(query, data.qid)]).any():
            raise ValueError("a query lies in more than one group; groups must keep queries whole")
    return unit


def _score_draw(metric: Metric, answer: FrozenAnswer, data: EvaluationData, count: Counts) -> float:
    """Any metric on one draw, by repeating its rows; NaN where the draw does not define it."""
    rows = np.repeat(np.arange(count.size), count)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UndefinedMetricWarning)
            return metric(answer.take(rows), data.take(rows))
    except ValueError:  # a class that the draw does not have
        return np.nan


# ---------------------------------------------------------------------- metrics for all draws at once


def _sums(counts: Counts, values: Array) -> Array:
    """(b,) ``Σ_i count_i · value_i`` for each draw."""
    step = max(_BLOCK // counts.shape[1], 1)
    return np.concatenate(
        [counts[s : s + step].astype(np.float64) @ values for s in range(0, len(counts), step)]
    )


def _ratio(numerator: Array, denominator: Array) -> Array:
    return np.asarray(
        np.divide(numerator, denominator, out=np.full(numerator.shape, np.nan), where=denominator > 0)
    )


def _weight(data: EvaluationData) -> Array:
    return np.ones(data.y.size) if data.weight is None else data.weight


def _mean_of(per_row: Callable[[FrozenAnswer, EvaluationData], Array]) -> Resampled:
    """A metric that is the weighted mean of something each row has."""

    def draws(answer: FrozenAnswer, data: EvaluationData, counts: Counts) -> Array:
        weight = _weight(data)
        return _ratio(_sums(counts, weight * per_row(answer, data)), _sums(counts, weight))

    return draws


def _residual(answer: FrozenAnswer, data: EvaluationData) -> Array:
    return np.asarray(answer.predict(), dtype=np.float64) - np.asarray(data.y, dtype=np.float64)


def _log_probability(answer: FrozenAnswer, data: EvaluationData) -> Array:
    proba = answer.predict_proba()
    own = proba[np.arange(data.y.size), np.searchsorted(answer.classes_, data.y)]
    return np.asarray(np.log(np.clip(own, np.finfo(proba.dtype).eps, 1.0)))


def _r2_draws(answer: FrozenAnswer, data: EvaluationData, counts: Counts) -> Array:
    weight, y = _weight(data), np.asarray(data.y, dtype=np.float64)
    y = y - np.average(y, weights=weight)  # centred, so that the difference below loses no digits
    total = _sums(counts, weight)
    spread = _sums(counts, weight * y**2) - _ratio(_sums(counts, weight * y) ** 2, total)
    return 1 - _ratio(_sums(counts, weight * _residual(answer, data) ** 2), spread)


def _auc_draws(answer: FrozenAnswer, data: EvaluationData, counts: Counts) -> Array:
    """P(score of a positive > score of a negative) + ½ P(equal), from one sort for all draws."""
    scored = "decision_function" if hasattr(answer, "decision_function") else "predict_proba"
    score = answer.decision_function() if scored == "decision_function" else answer.predict_proba()[:, 1]
    values, level = np.unique(score, return_inverse=True)
    order = np.argsort(level, kind="stable")
    starts = np.searchsorted(level[order], np.arange(values.size))
    weight, positive = _weight(data), data.y == answer.classes_[1]
    out = []
    for count in counts:
        mass = (count * weight)[order]
        pos = np.add.reduceat(np.where(positive[order], mass, 0.0), starts)
        neg = np.add.reduceat(np.where(positive[order], 0.0, mass), starts)
        below = np.cumsum(neg) - neg / 2
        out.append([pos @ below, pos.sum() * neg.sum()])
    wins = np.array(out)
    return _ratio(wins[:, 0], wins[:, 1])


def _query_draws(metric: QueryMetric, answer: FrozenAnswer, data: EvaluationData, counts: Counts) -> Array:
    """The mean over drawn queries; rows of a query share their count."""
    value = metric.per_query(answer, data)
    first = np.unique(np.asarray(data.qid), return_index=True)[1]
    kept = ~np.isnan(value)
    count = counts[:, first[kept]]
    return _ratio(_sums(count, value[kept]), _sums(count, np.ones(int(kept.sum()))))


def _disagreement_draws(answer: FrozenAnswer, data: EvaluationData, counts: Counts) -> Array:
    """Pairs of a query count as often as the query was drawn."""
    violated, pairs = violations(data.y, answer.ranking(), np.asarray(data.qid))
    return _ratio(_sums(counts, violated), _sums(counts, pairs))


_FAST: dict[str, Resampled] = {
    "accuracy": _mean_of(lambda answer, data: (answer.predict() == data.y).astype(np.float64)),
    "error": _mean_of(lambda answer, data: (answer.predict() != data.y).astype(np.float64)),
    "neg_mean_squared_error": _mean_of(lambda answer, data: -(_residual(answer, data) ** 2)),
    "neg_mean_absolute_error": _mean_of(lambda answer, data: -np.abs(_residual(answer, data))),
    "neg_log_loss": _mean_of(_log_probability),
    "r2": _r2_draws,
    "roc_auc": _auc_draws,
    "disagreement": _disagreement_draws,
}
