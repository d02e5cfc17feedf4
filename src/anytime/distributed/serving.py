"""Models on Ray Serve: replicas of the server of ``anytime.serve``, on as many machines as a cluster has.

A replica is that server as it is, with its protocol, its engine and its promise of time. Ray Serve starts replicas, shares
requests out among them and replaces them. What is new is what replicas know of each other: once a second each leaves its
counters with an actor and takes those of the others along. So each shows what all do, and can tell all to load a model again.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anytime.serve.app import Server
from anytime.serve.board import Board, Totals
from anytime.serve.logs import configure, logger
from anytime.serve.settings import Settings
from anytime.serve.workers import prefer_answers

if TYPE_CHECKING:
    from ray.serve import Application
    from ray.serve.config import AutoscalingContext

__all__ = ["Boards", "Replica", "ReplicaServer", "ReplicasBoard", "application", "serve", "workers_for_load"]

APPLICATION = "anytime"  # what Ray Serve calls it
_ACTOR = "boards"
_PAUSE = 1.0  # seconds between two exchanges
_SILENT = 10.0  # seconds without an exchange after which a replica has died
_BUSY = 0.7  # the load at which a replica has enough to do, and time for bursts
_LEAST_DONE = 0.05  # of all stages, as far as loads go: with none done they would have no limit
_GRACE = 10.0  # seconds beyond the time to drain after which Ray ends a replica

# the engine gives way every millisecond: a thread of its own would only add to what a request takes
_ENVIRONMENT = {"RAY_SERVE_RUN_USER_CODE_IN_SEPARATE_THREAD": "0"}

# of workers, as other processes have; Ray would give them the priority of work in the background
_PRIORITY = ("RAY_worker_niceness", "0")

Rows = NDArray[np.int64]


# ---------------------------------------------------------------------- what replicas know of each other


class Shared(NamedTuple):
    """What others have counted."""

    rows: Rows  # (m, cells) those that are there
    ended: Rows  # (1, cells) all that were


class Boards:
    """The actor that replicas leave their counters with."""

    def __init__(self, models: list[str]) -> None:
        self._board = Board(1, models)
        self._left = self._board.rows()  # the sum of those who said so
        self._seen: dict[str, tuple[Rows, float]] = {}

    def exchange(self, replica: str, row: Rows | None) -> Shared:
        """Take the counters of a replica, if it has begun, and give it those of the others."""
        now = time.monotonic()
        if row is not None:
            self._seen[replica] = row, now
        others = [(row, now - at) for name, (row, at) in self._seen.items() if name != replica]
        silent = [row for row, ago in others if ago > _SILENT]
        there = [row for row, ago in others if ago <= _SILENT]
        ended = self._board.ended(np.concatenate([self._left, *silent]), deaths=len(silent))
        return Shared(np.concatenate([ended[:0], *there]), ended)

    def leave(self, replica: str, row: Rows) -> None:
        """Count a replica among those that have ended, with its last counters."""
        self._seen.pop(replica, None)
        self._left = self._board.ended(np.concatenate([self._left, row]), deaths=0)


class ReplicasBoard(Board):
    """The board of a replica, on which those of the others can be read too."""

    def __init__(self, models: list[str]) -> None:
        self._shared: Shared | None = None
        super().__init__(1, models)

    @property
    def is_shared(self) -> bool:
        return True

    def own(self) -> Rows:
        """(1, cells) what this replica has counted."""
        return super().rows()

    def rows(self) -> Rows:
        return np.concatenate([self.own(), self._shared.rows]) if self._shared else self.own()

    def totals(self) -> Totals:
        return self.sum_of(np.concatenate([self.rows(), self._shared.ended]) if self._shared else self.own())

    def take_note(self, shared: Shared) -> None:
        """Show what others have counted by now."""
        before, self._shared = self._shared, shared
        if before is None or len(before.rows) != len(shared.rows):  # who joins may have counted before
            self.forget()


# ---------------------------------------------------------------------- a replica


class ReplicaServer(Server):
    """The server of a replica."""

    board: ReplicasBoard

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings, ReplicasBoard(list(settings.models)))
        self._measured = self._now()

    async def begin(self) -> None:
        await self._exchange()
        await super().begin()
        self._tasks.append(asyncio.create_task(self._keep_exchanging()))

    async def end(self) -> None:
        await super().end()
        with contextlib.suppress(Exception):  # the actor may have ended before
            boards, replica = _boards_and_name()
            await boards.leave.remote(replica, self.board.own())

    async def _keep_exchanging(self) -> None:
        while True:
            await asyncio.sleep(_PAUSE)
            await self._exchange()

    async def _exchange(self) -> None:
        try:
            boards, replica = _boards_and_name()
            row = self.board.own() if self.ready else None
            self.board.take_note(await boards.exchange.remote(replica, row))
        except Exception as error:  # Ray starts the actor again; until then what is known is shown
            fields = {"error": f"{type(error).__name__}: {error}"}
            logger.warning("the counters of other replicas cannot be read", extra={"fields": fields})

    def measured(self) -> dict[str, float]:
        """The load since this was asked last, and the share of stages that were given up.

        The load is how busy a processor was, and would be more than fully if nothing had been given up: 1.5 is work for one and
        a half replicas.
        """
        (began, busy_before, before), self._measured = self._measured, self._now()
        now, busy, counts = self._measured
        given_up = counts.since(before).given_up
        return {
            "load": (busy - busy_before) / max(now - began, 1e-9) / max(1.0 - given_up, _LEAST_DONE),
            "given_up": given_up,
        }

    def _now(self) -> tuple[float, float, Totals]:
        return time.monotonic(), time.process_time(), self.board.sum_of(self.board.own())


def _boards_and_name() -> tuple[Any, str]:
    """The actor with the counters, which may be another one than before, and what this replica is called."""
    from ray import serve

    return serve.get_deployment_actor(_ACTOR), str(serve.get_replica_context().replica_id.unique_id)


class Replica:
    """What Ray Serve starts on machines of the cluster."""

    def __init__(self, settings: Settings) -> None:
        configure(settings.log_level, 0)
        prefer_answers()
        self._server = ReplicaServer(settings)
        self._server.load()

    def __serve_build_asgi_app__(self) -> ReplicaServer:
        return self._server

    def record_autoscaling_stats(self) -> dict[str, float]:
        """What ``workers_for_load`` goes by."""
        return self._server.measured()


# ---------------------------------------------------------------------- the application


def workers_for_load(context: AutoscalingContext) -> tuple[float, dict[str, Any]]:
    """How many workers there should be, as a policy of Ray Serve: so many that each has a load of 0.7.

    A load counts the stages that were given up for being in time. The length of the queue says little here: however much is
    asked, nobody waits longer than promised.
    """
    loads = (context.aggregated_metrics or {}).get("load")
    if not loads:
        return context.target_num_replicas, {}
    return sum(loads.values()) / _BUSY, {}


def application(args: Mapping[str, Any]) -> Application:
    """The application of Ray Serve, for ``import_path`` in its configuration files.

    Parameters
    ----------
    args : mapping
        As for `serve`: ``models``, ``workers``, ``host`` and other settings. The token may be in ``ANYTIME_TOKEN``.

    Returns
    -------
    ray.serve.Application
    """
    return _bound(*_settings(**{"token": os.environ.get("ANYTIME_TOKEN") or None, **args}))


def serve(
    models: Mapping[str, str | Path],
    *,
    workers: int | tuple[int, int] = 1,
    address: str | None = None,
    **settings: Any,
) -> str:
    """Serve models on a Ray cluster; called again, replace workers one by one without a request that fails.

    Parameters
    ----------
    models : mapping of str to path
        The file of each model, on a path that all machines see, by the name that clients use.
    workers : int or (int, int), default=1
        Processes that answer, which Ray Serve calls replicas; or the least and the most, between which their load decides.
    address : str, default=None
        Of the cluster, as for `cluster`.
    **settings
        As for ``anytime serve``: ``slo`` (seconds), ``token`` and so on. ``host`` and ``port`` are those of every machine with a
        worker; where Ray Serve runs already, they have to be its own.

    Returns
    -------
    str
        The address of the server. It answers until ``ray.serve.delete("anytime")``, or until a cluster of this process ends.

    Examples
    --------
    >>> import anytime as at
    >>> at.distributed.serve({"cells": "/models/cells.anytime"}, workers=2, slo=0.02)  # doctest: +SKIP
    'http://127.0.0.1:8000'
    """
    try:
        import ray.serve  # noqa: F401
    except ImportError as error:
        raise ImportError(f'Ray Serve needs {error.name}: pip install "anytime[ray,serve]"') from None

    return deploy(*_settings(models=models, workers=workers, **settings), address)


def deploy(settings: Settings, workers: tuple[int, int], address: str | None = None) -> str:
    """Serve with the least and the most workers; the address of the server."""
    import ray
    from ray import serve
    from ray.serve.context import _get_global_client

    if not ray.is_initialized():
        os.environ.setdefault(*_PRIORITY)
        ray.init(address=address, include_dashboard=False, log_to_driver=False)
    there = ray.cluster_resources().get("CPU", 0)
    if workers[0] > there:  # Ray would wait for machines to join
        raise ValueError(
            f"{workers[0]} workers need as many processors, and the cluster has {there:g}: ask for fewer, or start Ray on more "
            "machines"
        )
    host, port = settings.host, settings.port
    serve.start(http_options={"host": host, "port": port})
    http = _get_global_client().http_config
    if (http.host, http.port) != (host, port):  # who asked for this machine alone is not to answer others
        raise RuntimeError(
            f"Ray Serve runs on this cluster already and listens at {http.host}, port {http.port}, not at {host}, port {port}: "
            "give that host and port, or end it with ray.serve.shutdown()"
        )
    # workers begin in other folders
    files = {name: path.absolute() for name, path in settings.models.items()}
    features = None if settings.features is None else settings.features.absolute()
    serve.run(_bound(replace(settings, models=files, features=features), workers), name=APPLICATION)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def _settings(
    *,
    models: Mapping[str, str | Path],
    workers: int | Sequence[int] = 1,
    features: str | Path | None = None,
    **settings: Any,
) -> tuple[Settings, tuple[int, int]]:
    """Settings of each worker; the least and the most workers."""
    least, most = (workers, workers) if isinstance(workers, int) else workers
    if not 1 <= least <= most:
        raise ValueError(f"workers must be a positive number, or the least and the most; not {workers}")
    files = {name: Path(path) for name, path in models.items()}
    return Settings(files, features=None if features is None else Path(features), **settings), (least, most)


def _bound(settings: Settings, workers: tuple[int, int]) -> Application:
    import ray
    from ray import serve
    from ray.serve.config import DeploymentActorConfig

    least, most = workers
    policy = {"policy_function": f"{__name__}:{workers_for_load.__name__}"}
    scaling = {"min_replicas": least, "max_replicas": most, "policy": policy}
    boards = DeploymentActorConfig(
        name=_ACTOR,
        actor_class=ray.remote(Boards),
        init_args=(list(settings.models),),
        actor_options={"num_cpus": 0},
    )
    deployment = serve.deployment(
        serve.ingress()(Replica),
        name=Replica.__name__,
        ray_actor_options={"num_cpus": 1, "runtime_env": {"env_vars": _ENVIRONMENT}},
        max_ongoing_requests=settings.max_concurrency,  # the engine is to see all that wait
        graceful_shutdown_timeout_s=settings.drain + _GRACE,
        deployment_actors=[boards],
        logging_config={"enable_access_log": settings.log_requests},
        **({"num_replicas": least} if least == most else {"autoscaling_config": scaling}),
    )
    return deployment.bind(settings)
