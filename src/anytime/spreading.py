"""What fits know of a cluster: whether one is open around them, and rows that its workers hold.

`anytime.distributed` opens clusters; the rooms below it never import it. A fit reads its rows by `read_rows`: they come back as a
matrix of this process or, within ``with anytime.distributed.cluster(...)``, as `SpreadRows`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.validation import warn_caller

CLUSTER: ContextVar[Any] = ContextVar("anytime_cluster", default=None)


class SpreadRows:
    """Rows held by workers. They can be counted and chosen; what is computed from their numbers is computed there."""

    def __len__(self) -> int:
        raise NotImplementedError

    def __getitem__(self, rows: NDArray[np.integer[Any] | np.bool_]) -> SpreadRows:
        raise NotImplementedError

    def lots(self, random: np.random.RandomState) -> NDArray[np.uint64]:
        """(n,) what ``trees.rows`` draws for the rows, by what they hold."""
        raise NotImplementedError

    def training_rows(self, *, categorical: Any, max_bins: int, n_threads: int) -> Any:
        """What boosting learns from: see ``boosting.learners.TrainingRows``."""
        raise NotImplementedError

    def add_to_moments(self, sums: list[Any], Y: Any, weight: Any, which: NDArray[np.intp]) -> None:
        """Add each row to one of several ``linear.moments.Moments``, that of its number in ``which`` (n,)."""
        raise NotImplementedError


def read_rows(
    model: Any, reader: Callable[[Any, Any], tuple[Any, Any]], X: Any, y: Any, sample_weight: ArrayLike | None
) -> tuple[Any, Any, Any]:
    """Rows, targets and weights of a fit; ``reader`` reads tables that are in memory."""
    cluster = CLUSTER.get()
    if cluster is None or not model._spreads:
        return *reader(X, y), sample_weight
    rows: tuple[Any, Any, Any] = cluster.read_rows(model, reader, X, y, sample_weight)
    return rows


def announce(model: Any) -> None:
    """Say so where a cluster is open that the fit of ``model`` does not use."""
    if CLUSTER.get() is not None and not getattr(model, "_spreads", False):
        warn_caller(f"a {type(model).__name__} is not spread over the cluster: this fit runs in this process")
