"""Metrics: scorer names of scikit-learn, ``"error"``, ranking metrics, or a function, all behind one small object.

Two metrics are defined here. NDCG (Hu et al., *Anytime Linear Prediction*, report NDCG@5 on Yahoo! LTR without defining it):
gain ``2^rel − 1``, discount ``log2(rank + 1)``, mean over queries. Disagreement (Grubb, *Anytime Prediction*, section 2.6):
the share of pairs of one query that are not in the order of their relevance. A ``QueryMetric`` of one's own is one more.
"""

from __future__ import annotations

import difflib
import inspect
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.utils.validation import column_or_1d

from anytime._compat import n_rows_of, rows_of, scored_function, scorer_of_class
from anytime.curves.areas import Array
from anytime.curves.elements import Elements, chunk_score
from anytime.curves.frozen import FrozenAnswer
from anytime.losses.ranking import Pairs

_UNBOUNDED = {"mutual_info_score", "positive_likelihood_ratio"}  # scorers without a perfect value
_HINTS = {
    "acc": "accuracy", "auc": "roc_auc", "mse": "neg_mean_squared_error", "mae": "neg_mean_absolute_error",
    "rmse": "neg_root_mean_squared_error", "logloss": "neg_log_loss", "cross_entropy": "neg_log_loss",
    "brier": "neg_brier_score", "r^2": "r2", "mcc": "matthews_corrcoef",
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class EvaluationData:
    """The rows on which a model is judged, checked once."""

    X: Any
    y: NDArray[Any]
    weight: Array | None = None
    qid: NDArray[Any] | None = None

    @classmethod
    def checked(
        cls, X: Any, y: Any, sample_weight: ArrayLike | None, qid: ArrayLike | None
    ) -> EvaluationData:
        """Raise ``ValueError`` unless everything has as many rows as ``X``, and at least one."""
        n = n_rows_of(X)
        if n == 0:
            raise ValueError("X has no rows; a curve needs at least one")
        target = column_or_1d(y, warn=True)
        weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        query = None if qid is None else np.asarray(qid)
        for name, values in (("y", target), ("sample_weight", weight), ("qid", query)):
            if values is not None and len(values) != n:
                raise ValueError(f"X has {n} rows but {name} has {len(values)}")
        if weight is not None and (not np.isfinite(weight).all() or (weight < 0).any() or not weight.any()):
            raise ValueError("sample_weight must be finite and not negative, and not all zero")
        return cls(X, target, weight, query)

    @classmethod
    def of_elements(cls, X: Any, elements: Elements, sample_weight: ArrayLike | None) -> EvaluationData:
        """Labelled elements as rows, the structures they belong to as queries; weights are of structures."""
        if len(X) != elements.n_structures:
            raise ValueError(f"X has {len(X)} structures but y has labels of {elements.n_structures}")
        weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        if weight is not None and weight.shape != (elements.n_structures,):
            raise ValueError(
                f"sample_weight has shape {weight.shape}, but there are {elements.n_structures} structures"
            )
        nothing = np.empty((elements.y.size, 0))
        return cls(nothing, elements.y, None if weight is None else weight[elements.owner], elements.owner)

    def take(self, rows: NDArray[np.intp]) -> EvaluationData:
        """Some of the rows, or rows repeated."""
        return EvaluationData(
            rows_of(self.X, rows),
            self.y[rows],
            None if self.weight is None else self.weight[rows],
            None if self.qid is None else self.qid[rows],
        )


@dataclass(frozen=True)
class Metric:
    """A judge of answers: ``score(answer, data)``, which way is better, and what it was made from unless a callable."""

    name: str
    score: Callable[[FrozenAnswer, EvaluationData], float]
    greater_is_better: bool = True
    perfect: float | None = None
    source: str | QueryMetric | None = None

    def __call__(self, answer: FrozenAnswer, data: EvaluationData) -> float:
        """Score, without the warnings that a constant answer (stage 0) is bound to give."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UndefinedMetricWarning)
            return float(self.score(answer, data))


class QueryMetric(ABC):
    """A metric in [0, 1] that every query has by itself; of several queries it is the mean."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The name that a curve shows."""

    @abstractmethod
    def per_query(self, answer: FrozenAnswer, data: EvaluationData) -> Array:
        """(q,) value of each query in the order of ``np.unique(qid)``; NaN for a query that is left out."""

    def metric(self) -> Metric:
        """The judge."""
        return Metric(
            self.name, lambda a, data: _mean_query(self.per_query(a, data)), perfect=1.0, source=self
        )

    def of_scores(self, y: ArrayLike, scores: ArrayLike, qid: ArrayLike) -> float:
        """The metric of scores."""
        data = EvaluationData.checked(np.zeros((len(np.asarray(y)), 0)), y, None, qid)
        return _mean_query(self.per_query(FrozenAnswer({"predict": np.asarray(scores)}), data))


@dataclass(frozen=True)
class NDCG(QueryMetric):
    """Normalised discounted cumulative gain at ``k``, for ``metric=``.

    Parameters
    ----------
    k : int, default=None
        Number of ranks that count. None: all.
    zero_ideal : {"zero", "skip"}, default="zero"
        A query without a relevant row has no ideal ranking: count it as 0, or leave it out.

    Examples
    --------
    >>> NDCG(5, zero_ideal="skip").name
    'ndcg@5'
    """

    k: int | None = None
    zero_ideal: Literal["zero", "skip"] = "zero"

    def __post_init__(self) -> None:
        if self.k is not None and self.k < 1:
            raise ValueError(f"ndcg@k needs k ≥ 1, not {self.k}")
        if self.zero_ideal not in ("zero", "skip"):
            raise ValueError(f"zero_ideal must be 'zero' or 'skip', not {self.zero_ideal!r}")

    @property
    def name(self) -> str:
        """The name that a curve shows."""
        return "ndcg" if self.k is None else f"ndcg@{self.k}"

    def per_query(self, answer: FrozenAnswer, data: EvaluationData) -> Array:
        """(q,) value of each query in the order of ``np.unique(qid)``; NaN for a query that is left out."""
        assert data.qid is not None
        return query_ndcg(
            data.y, answer.ranking(), data.qid, self.k, 0.0 if self.zero_ideal == "zero" else np.nan
        )


def ndcg(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike,
    k: int | None = None,
    *,
    zero_ideal: Literal["zero", "skip"] = "zero",
) -> float:
    r"""Mean over queries of DCG over the best possible DCG, both of the first ``k`` ranks.

    .. math:: \mathrm{DCG} = \sum_{r \le k} (2^{rel_r} - 1) / \log_2(r + 1)

    Rows of equal score share the mean discount of the ranks they occupy, so that a constant answer is judged by chance and not by
    the order of the rows.

    Examples
    --------
    >>> round(ndcg([3, 2, 0], [0.1, 0.9, 0.5], [7, 7, 7]), 4)
    0.7309
    """
    return NDCG(k, zero_ideal).of_scores(y, scores, qid)


def query_ndcg(y: NDArray[Any], scores: Array, qid: NDArray[Any], k: int | None, zero_ideal: float) -> Array:
    """(q,) NDCG of each query; ``zero_ideal`` where no row is relevant."""
    relevance = np.asarray(y, dtype=np.float64)
    if not (relevance >= 0).all():
        raise ValueError("ndcg needs relevances y ≥ 0")
    query = np.unique(qid, return_inverse=True)[1]
    gain = np.exp2(relevance) - 1
    reached = _dcg(gain, np.asarray(scores, dtype=np.float64), query, k)
    ideal = _dcg(gain, gain, query, k)
    return np.asarray(np.divide(reached, ideal, out=np.full(reached.shape, zero_ideal), where=ideal > 0))


def _dcg(gain: Array, scores: Array, query: NDArray[np.intp], k: int | None) -> Array:
    """(q,) discounted gain per query, ties sharing their ranks' mean discount."""
    order = np.lexsort((-scores, query))
    in_order, ranked = query[order], scores[order]
    first = np.flatnonzero(np.diff(in_order, prepend=-1))
    rank = np.arange(order.size) - np.repeat(first, np.diff(first, append=order.size)) + 1
    discount = 1 / np.log2(rank + 1)
    if k is not None:
        discount[rank > k] = 0.0
    run = np.flatnonzero((np.diff(in_order, prepend=-1) != 0) | (np.diff(ranked, prepend=np.nan) != 0))
    length = np.diff(run, append=order.size)
    shared = np.repeat(np.add.reduceat(discount, run) / length, length)
    return np.bincount(in_order, weights=gain[order] * shared).astype(np.float64)


def _mean_query(values: Array) -> float:
    if np.isnan(values).all():
        raise ValueError("no query has a relevant row: zero_ideal='skip' leaves nothing to average")
    return float(np.nanmean(values))


def disagreement(y: ArrayLike, scores: ArrayLike, qid: ArrayLike, *, margin: float = 0.0) -> float:
    """Share of the pairs of one query with different relevance in which the more relevant row is not ahead.

    Ties are violations, so that a constant answer is wrong about everything.

    Parameters
    ----------
    y, scores, qid : (n,) arrays
    margin : float, default=0
        The more relevant row has to be ahead by more than this. With 1, the share of pairs that pairwise hinge loss acts on.

    Examples
    --------
    >>> disagreement([3, 2, 0, 1], [0.1, 0.9, 0.05, 0.0], [7, 7, 7, 8])
    0.3333333333333333
    """
    scores = np.asarray(scores, dtype=np.float64)
    violated, pairs = violations(np.asarray(y), scores, np.asarray(qid), margin)
    if not pairs.any():
        raise ValueError("no query has rows of different relevance: there is no pair to disagree on")
    return float(violated.sum() / pairs.sum())


def violations(y: NDArray[Any], scores: Array, qid: NDArray[Any], margin: float = 0.0) -> tuple[Array, Array]:
    """(n,) number of less relevant rows in its query that a row is not ahead of, and (n,) of all less relevant rows there."""
    query = np.unique(qid, return_inverse=True)[1]
    violated, total = np.zeros(len(scores)), np.zeros(len(scores))
    for better, worse in Pairs(np.column_stack([np.asarray(y, dtype=np.float64), query])):
        total += np.bincount(better, minlength=len(scores))
        violated += np.bincount(better[scores[better] - scores[worse] <= margin], minlength=len(scores))
    return violated, total


# ---------------------------------------------------------------------- from what a user gives


def resolve_metric(
    metric: Any, *, classifier: bool, data: EvaluationData, greater_is_better: bool | None = None
) -> Metric:
    """The ``Metric`` object of ``metric``; the default depends on the model. See ``anytime.curve``."""
    if metric is None:
        metric = "accuracy" if classifier else "r2" if data.qid is None else "ndcg@5"
    if isinstance(metric, str):
        ranking = re.fullmatch(r"ndcg(?:@(\d+))?", metric)
        metric = NDCG(int(ranking[1]) if ranking[1] else None) if ranking else metric
    if isinstance(metric, QueryMetric) or (isinstance(metric, str) and metric in _OF_QUERIES):
        judge = metric.metric() if isinstance(metric, QueryMetric) else _OF_QUERIES[metric]
        if data.qid is None:
            raise ValueError(f"metric {judge.name!r} needs qid, the query of each row")
        if data.weight is not None:
            raise ValueError(f"metric {judge.name!r} is about queries and takes no sample_weight")
        return judge
    if callable(metric):
        return _from_callable(metric, greater_is_better)
    if not isinstance(metric, str):
        raise TypeError(f"metric must be a name, a callable or NDCG, not {type(metric).__name__}")
    return _from_name(metric)


_DISAGREEMENT = Metric(
    "disagreement",
    lambda answer, data: disagreement(data.y, answer.ranking(), np.asarray(data.qid)),
    greater_is_better=False,
    perfect=0.0,
    source="disagreement",
)


_CHUNKS = Metric(
    "chunk_f1",
    lambda answer, data: chunk_score(data.y, answer.predict(), np.asarray(data.qid)),
    perfect=1.0,
    source="chunk_f1",
)
_OF_QUERIES = {"disagreement": _DISAGREEMENT, "chunk_f1": _CHUNKS}


def _from_name(name: str) -> Metric:
    if name == "error":
        accuracy = _scored(name, get_scorer("accuracy"))
        return Metric(
            name, lambda a, data: 1.0 - accuracy(a, data), greater_is_better=False, perfect=0.0, source=name
        )
    scorers = get_scorer_names()
    if name not in scorers:
        raise ValueError(_unknown(name, scorers))
    perfect = None if name in _UNBOUNDED else 0.0 if name.startswith("neg_") else 1.0
    return Metric(name, _scored(name, get_scorer(name)), perfect=perfect, source=name)


def _unknown(name: str, names: Sequence[str]) -> str:
    """The message for a name that nothing has, with the nearest names that exist."""
    plain = name.lower().replace("-", "_").replace(" ", "_")
    near = [_HINTS[plain]] if plain in _HINTS else []
    near += [
        n
        for n in difflib.get_close_matches(
            plain, [*names, "error", "ndcg@5", "disagreement", "chunk_f1"], n=3
        )
        if n not in near
    ]
    hint = f"; did you mean {' or '.join(map(repr, near))}?" if near else "."
    return (
        f"no metric {name!r}{hint} A metric is a scorer name of scikit-learn (sklearn.metrics.get_scorer_names()), 'error', "
        "'ndcg@k', 'disagreement', or a callable"
    )


def _scored(name: str, scorer: Any) -> Callable[[FrozenAnswer, EvaluationData], float]:
    def score(answer: FrozenAnswer, data: EvaluationData) -> float:
        weighted = {} if data.weight is None else {"sample_weight": data.weight}
        try:
            return float(scorer(answer, data.X, data.y, **weighted))
        except ValueError as error:
            if "pos_label" not in str(error):
                raise
            label = np.unique(data.y).tolist()[-1]
            raise ValueError(
                f"metric {name!r} scores one class, and the labels do not say which. Name it, for instance with "
                f"metric={scorer_of_class(scorer, label)} of sklearn.metrics"
            ) from None

    return score


def _from_callable(function: Any, greater_is_better: bool | None) -> Metric:
    """A scorer ``f(estimator, X, y)``, or a metric ``f(y, prediction)``: distinguished by their required parameters."""
    inside = scored_function(function)
    name = str(getattr(function, "__name__", None) or getattr(inside, "__name__", "score"))
    if inside is not None or _required_arguments(function) >= 3:
        return Metric(name, _scored(name, function), greater_is_better is not False)
    if greater_is_better is None:  # the naming rule of scikit-learn
        greater_is_better = not name.endswith(("_error", "_loss", "_deviance"))

    def score(answer: FrozenAnswer, data: EvaluationData) -> float:
        weight = {} if data.weight is None else {"sample_weight": data.weight}
        return float(function(data.y, answer.predict(), **weight))

    return Metric(name, score, greater_is_better)


def _required_arguments(function: Any) -> int:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # some built-ins have no signature
        return 2
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(p.kind in positional and p.default is inspect.Parameter.empty for p in parameters)
