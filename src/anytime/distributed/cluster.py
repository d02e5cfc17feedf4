"""Opening a cluster: within it, fits that can be spread are spread."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextvars import Token
from itertools import pairwise
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from anytime.distributed.crew import Crew
from anytime.distributed.rows import RowsOfCluster
from anytime.distributed.sources import ArrayStretch, Table, read_table
from anytime.distributed.tasks import run_side_by_side
from anytime.spreading import CLUSTER
from anytime.trees.importers.columns import Columns
from anytime.trees.reading import ColumnModel

__all__ = ["Cluster", "cluster"]


def cluster(
    address: str | None = None,
    *,
    workers: int | None = None,
    threads_per_worker: int = 1,
    shares: Sequence[float] | None = None,
    checkpoint: str | Path | None = None,
    **ray_options: Any,
) -> Cluster:
    """Fits within ``with cluster(...)`` run on the workers of a Ray cluster and give the model that one process would give.

    Rows are shared out for gradient boosting and SpeedBoost (any loss that has second derivatives) and for the second moments of
    group pursuit. Trees of budgeted forests, prunings and folds of ladders run side by side, each with all rows. A warning names
    what is not spread.

    Parameters
    ----------
    address : str, default=None
        Of a running cluster; "auto": the one that this machine belongs to. None: the one that this process is connected to, or
        a new one on this machine, which ends with the block.
    workers : int, default=None
        Processes that hold rows. None: as many as the cluster has processors for.
    threads_per_worker : int, default=1
    shares : sequence of float, default=None
        How many rows each worker gets, relative to the others, where machines are not equally fast. None: the same number. The
        model does not depend on it.
    checkpoint : path, default=None
        A folder for finished rounds: a fit that is started again, after whatever ended it, goes on from there.
    **ray_options
        For ``ray.init``.

    Returns
    -------
    Cluster

    Examples
    --------
    >>> import anytime as at
    >>> with at.distributed.cluster(workers=2):  # doctest: +SKIP
    ...     model = at.GradientBoostingClassifier().fit("rows/", "label")
    """
    return Cluster(address, workers, threads_per_worker, shares, checkpoint, ray_options)


class Cluster:
    """An open cluster; made by `cluster`."""

    def __init__(
        self,
        address: str | None,
        workers: int | None,
        threads_per_worker: int,
        shares: Sequence[float] | None,
        checkpoint: str | Path | None,
        ray_options: dict[str, Any],
    ) -> None:
        if shares is not None:
            workers = len(shares) if workers is None else workers
            if len(shares) != workers or not all(share > 0 for share in shares):
                raise ValueError(f"shares must be {workers} positive numbers, one per worker")
        for name, number in (("workers", workers), ("threads_per_worker", threads_per_worker)):
            if number is not None and number < 1:
                raise ValueError(f"{name} is {number}; it must be at least 1")
        self.address, self.workers, self.threads_per_worker = address, workers, threads_per_worker
        self.shares, self.ray_options = shares, ray_options
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self.reports: list[Any] = []  # of each round of the last fit, one per worker
        self._crew: Crew | None = None
        self._token: Token[Any] | None = None

    def __enter__(self) -> Self:
        try:
            import ray
        except ImportError:
            raise ImportError('a cluster needs Ray: pip install "anytime[ray]"') from None
        self._ours = not ray.is_initialized()
        if self._ours:
            options: dict[str, Any] = {"include_dashboard": False, "log_to_driver": False, **self.ray_options}
            if self.address is None and self.workers is not None:
                needed = self.workers * self.threads_per_worker
                options.setdefault("num_cpus", max(needed, os.cpu_count() or 1))
            ray.init(address=self.address, **options)
        self._token = CLUSTER.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        import ray

        assert self._token is not None
        CLUSTER.reset(self._token)
        if self._crew is not None:
            self._crew.close()
            self._crew = None
        if self._ours:
            ray.shutdown()

    @property
    def crew(self) -> Crew:
        """The workers, which are started when they are first needed."""
        if self._crew is None:
            self._crew = Crew(self.n_workers, self.threads_per_worker)
        return self._crew

    @property
    def n_workers(self) -> int:
        """How many workers there are, or will be."""
        return self.workers or max(1, self.n_places // self.threads_per_worker)

    def boundaries(self, n_rows: int) -> list[int]:
        """Where the rows of each worker begin, and where the last ends."""
        shares = np.ones(self.crew.size) if self.shares is None else np.asarray(self.shares, dtype=np.float64)
        ends = np.rint(np.cumsum(shares) / shares.sum() * n_rows).astype(int)
        return [0, *ends.tolist()]

    def read_rows(
        self,
        model: Any,
        reader: Callable[[Any, Any], tuple[Any, Any]],
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
    ) -> tuple[RowsOfCluster, Any, Any]:
        """What a fit learns from (see ``anytime.spreading.read_rows``), once the workers know their parts of it."""
        self.reports = []
        table = read_table(X)
        if table is None:
            if isinstance(y, str) and hasattr(X, "columns"):
                y, X = X[y], X.drop(columns=[y])
            X, y = reader(X, y)
            return self._rows_of_array(np.asarray(X)), y, sample_weight
        if not isinstance(y, str):
            raise TypeError("with files or a data set, y is the name of the column to predict")
        named = [y] + ([sample_weight] if isinstance(sample_weight, str) else [])
        features = table.without(named)
        targets = table.column(y)
        weight = table.column(sample_weight) if isinstance(sample_weight, str) else sample_weight
        self._describe(model, features)
        bounds = self.boundaries(table.n_rows)
        parts = [features.part(a, b) for a, b in pairwise(bounds)]
        return RowsOfCluster(self, parts, len(features.names)), targets, weight

    @property
    def n_places(self) -> int:
        """How many tasks run at the same time."""
        import ray

        return max(1, int(ray.cluster_resources().get("CPU", 1)))

    def side_by_side(
        self, function: Callable[..., Any], shared: tuple[Any, ...], items: Iterable[Any]
    ) -> list[Any]:
        """Calls as tasks of the cluster (see ``anytime.spreading.side_by_side``)."""
        return run_side_by_side(function, shared, items)

    def _rows_of_array(self, X: Any) -> RowsOfCluster:
        import ray

        bounds = self.boundaries(len(X))
        parts = [ArrayStretch(b - a, ray.put(np.ascontiguousarray(X[a:b]))) for a, b in pairwise(bounds)]
        return RowsOfCluster(self, parts, X.shape[1])

    def _describe(self, model: Any, table: Table) -> None:
        """Let the model know its columns."""
        if table.n_rows < 2:
            raise ValueError(f"the data have {table.n_rows} rows; learning needs at least 2")
        model.n_features_in_ = len(table.names)
        model.feature_names_in_ = np.array(table.names, dtype=object)
        if isinstance(model, ColumnModel):
            named = model.categorical_features
            if not (named is None or (isinstance(named, str) and named == "from_dtype")):
                raise ValueError(
                    "categorical_features is for tables in memory; columns of files and data sets are numbers"
                )
            model.columns_ = Columns(len(table.names))
