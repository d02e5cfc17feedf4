"""How far a ranking goes before its first irrelevant row (Nan 2018, section 3.5, where it is called precision@5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.curves.frozen import FrozenAnswer
from anytime.curves.metrics import EvaluationData, QueryMetric

__all__ = ["PrefixPrecision", "prefix_precision"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class PrefixPrecision(QueryMetric):
    """How far the first ``k`` ranks of a query go before the first irrelevant row, to be given as ``metric=``.

    Parameters
    ----------
    relevant : float
        The least relevance that counts.
    k : int, default=5
    short : {"absent", "renormalise"}, default="absent"
        A query with fewer than ``k`` rows: count what is absent as irrelevant, or divide by the number of its rows.

    Examples
    --------
    >>> PrefixPrecision(1).name
    'prefix precision@5'
    """

    relevant: float
    k: int = 5
    short: Literal["absent", "renormalise"] = "absent"

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ValueError(f"prefix precision@k needs k ≥ 1, not {self.k}")
        if self.short not in ("absent", "renormalise"):
            raise ValueError(f"short must be 'absent' or 'renormalise', not {self.short!r}")

    @property
    def name(self) -> str:
        """The name that a curve shows."""
        return f"prefix precision@{self.k}"

    def per_query(self, answer: FrozenAnswer, data: EvaluationData) -> Array:
        """(q,) value of each query in the order of ``np.unique(qid)``; NaN for a query that is left out."""
        assert data.qid is not None
        query = np.unique(data.qid, return_inverse=True)[1]
        order = np.lexsort((-answer.ranking(), query))  # stable: equal scores stay in the order of the rows
        in_order = query[order]
        first = np.flatnonzero(np.diff(in_order, prepend=-1))
        size = np.diff(first, append=order.size)
        rank = np.arange(order.size) - np.repeat(first, size)
        irrelevant = np.asarray(data.y, dtype=np.float64)[order] < self.relevant
        reached = np.minimum(size, self.k)
        np.minimum.at(reached, in_order[irrelevant], rank[irrelevant])
        return reached / (np.minimum(size, self.k) if self.short == "renormalise" else self.k)


def prefix_precision(
    y: ArrayLike,
    scores: ArrayLike,
    qid: ArrayLike,
    k: int = 5,
    *,
    relevant: float,
    short: Literal["absent", "renormalise"] = "absent",
) -> float:
    """Mean over queries of the relevant rows before the first irrelevant one among the first ``k``, divided by ``k``.

    It is not the usual precision: a relevant row after an irrelevant one does not count. Rows of equal score stay in the order
    given. The other parameters are those of :class:`PrefixPrecision`.

    Examples
    --------
    >>> prefix_precision([1, 1, 0, 1, 1], [5, 4, 3, 2, 1], [7, 7, 7, 7, 7], relevant=1)
    0.4
    """
    return PrefixPrecision(relevant, k, short).of_scores(y, scores, qid)
