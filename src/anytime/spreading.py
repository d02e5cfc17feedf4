"""What fits know of a cluster: whether one is open around them, and rows that its workers hold.

`anytime.distributed` opens clusters; the rooms below it never import it. A fit reads its rows by `read_rows`: they come back as a
matrix of this process or, within ``with anytime.distributed.cluster(...)``, as `SpreadRows`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from pathlib import Path
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
    if cluster is None or model._spreads != "rows":
        return *reader(X, y), sample_weight
    rows: tuple[Any, Any, Any] = cluster.read_rows(model, reader, X, y, sample_weight)
    return rows


def side_by_side(function: Callable[..., Any], shared: tuple[Any, ...], items: Iterable[Any]) -> list[Any]:
    """``function(*shared, item)`` for each item: here, one after the other, or as tasks of the cluster that is open.

    ``function`` is one of a module, and changes nothing that is shared.
    """
    cluster = CLUSTER.get()
    if cluster is None:
        return one_after_the_other(function, shared, items)
    results: list[Any] = cluster.side_by_side(function, shared, items)
    return results


def one_after_the_other(
    function: Callable[..., Any], shared: tuple[Any, ...], items: Iterable[Any]
) -> list[Any]:
    """``function(*shared, item)`` for each item, here."""
    return [function(*shared, item) for item in items]


def n_places() -> int:
    """How many calls of ``side_by_side`` run at the same time."""
    cluster = CLUSTER.get()
    return 1 if cluster is None else int(cluster.n_places)


def announce(model: Any, X: Any) -> None:
    """Say so where a cluster is open that the fit of ``model`` does not use; refuse rows that only a cluster reads."""
    spreads, opened = getattr(model, "_spreads", None), CLUSTER.get() is not None
    if _is_stored(X) and not (opened and spreads == "rows"):
        why = "is fitted to tables in memory" if opened else "reads files and data sets only within a cluster"
        raise TypeError(
            f"a {type(model).__name__} {why}: gradient boosting, SpeedBoost and group pursuit with the squared loss read Parquet "
            "files and Ray data sets within `with anytime.distributed.cluster(...)`"
        )
    if opened and spreads is None:
        warn_caller(f"a {type(model).__name__} is not spread over the cluster: this fit runs in this process")


def _is_stored(X: Any) -> bool:
    """Whether X says where rows are: a path, several, or a `ray.data.Dataset`."""
    if isinstance(X, (list, tuple)):
        return bool(X) and all(isinstance(entry, (str, Path)) for entry in X)
    return isinstance(X, (str, Path)) or hasattr(X, "to_arrow_refs")
