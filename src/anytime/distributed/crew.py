"""The workers of a fit, from the driver's side: calls to all of them, and new ones in the place of those that die."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from anytime.distributed.peers import PeerLostError
from anytime.distributed.worker import Worker

__all__ = ["Crew", "WorkersLostError"]

_MOST_LOSSES = 5  # in a row, without a call that ended well
_GRACE = 15.0  # seconds that survivors of a loss have to notice it
_WITH_PEERS = frozenset({"meet", "cuts", "round"})  # calls in which workers wait for each other
_RESERVED = 0.5  # of the processors that a worker uses; see `Crew`

Call = tuple[str, Sequence[tuple[Any, ...]]]  # a method, and the arguments of each worker


class WorkersLostError(RuntimeError):
    """Workers have died again and again, or cannot be replaced."""


class Crew:
    """Actors, one per stretch of rows.

    ``tell`` calls all and is remembered: a new worker is told the last of each method. ``together`` calls all at the same time,
    for what they do with each other; it is done again after a loss. ``progress`` gives the calls that bring a new worker, once it
    has been told everything, to where the others are.
    """

    def __init__(self, n_workers: int, threads: int, kind: type[Any] = Worker) -> None:
        import ray

        self._ray = ray
        there, needed = ray.cluster_resources().get("CPU", 0), _RESERVED * threads * n_workers
        if needed > there:  # Ray would wait for machines to join
            raise ValueError(
                f"{n_workers} workers of {threads} threads reserve {needed:g} processors, and the cluster has {there:g}: "
                "ask for fewer workers or threads, or start Ray on more machines"
            )
        # Half of what it uses is reserved: tasks that read data sets need processors while workers wait for them.
        self._make = ray.remote(
            num_cpus=_RESERVED * threads, max_restarts=0, scheduling_strategy="SPREAD", max_concurrency=1
        )(kind).remote
        self.size, self.threads, self._talk = n_workers, threads, hasattr(kind, "meet")
        self._told: list[Call] = []
        self.progress: Callable[[], list[Call]] = list
        self.n_losses = 0
        self.workers = [self._make(rank, threads) for rank in range(n_workers)]
        self._replace(set())

    def close(self) -> None:
        """End the workers."""
        for worker in self.workers:
            self._ray.kill(worker)

    def begin(self, parts: Sequence[Any]) -> None:
        """Forget what was told and hand out stretches of another table."""
        self._told, self.progress = [], list
        self.tell("take", [(part,) for part in parts])

    def tell(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call all workers, each with its own arguments; a new worker is told the same."""
        answers = self._until_done(method, arguments)
        self._told = [call for call in self._told if call[0] != method] + [(method, list(arguments))]
        return answers

    def together(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Call all workers at the same time."""
        return self._until_done(method, arguments)

    def _until_done(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        for attempt in range(_MOST_LOSSES + 1):
            try:
                return self._called(method, arguments)
            except _Lost as loss:
                reason = loss.reason
                self.n_losses += 1
                if attempt == _MOST_LOSSES:
                    break
                self._replace(loss.ranks)
        raise WorkersLostError(
            f"workers were lost {_MOST_LOSSES + 1} times in a row while doing {method!r}; the last: {reason}"
        )

    def _called(
        self, method: str, arguments: Sequence[tuple[Any, ...]], ranks: Iterable[int] | None = None
    ) -> list[Any]:
        """Results of all, or of some; the first error of any, and otherwise `_Lost` where a worker is gone."""
        ray, answers = self._ray, [None] * self.size
        rank_of = {
            getattr(self.workers[rank], method).remote(*arguments[rank]): rank
            for rank in (range(self.size) if ranks is None else ranks)
        }
        grace = _GRACE if method in _WITH_PEERS else None
        failure, dead, reason, trouble = None, set(), "", False
        while rank_of:
            ready, _ = ray.wait(list(rank_of), num_returns=1, timeout=grace if trouble else None)
            if not ready:  # they wait for someone who is gone, and do not know it
                dead |= set(rank_of.values())
                reason = reason or f"no answer within {_GRACE:g} s of a loss"
                break
            rank = rank_of.pop(ready[0])
            try:
                answers[rank] = ray.get(ready[0])
                continue
            except ray.exceptions.RayTaskError as error:
                if isinstance(error.cause, PeerLostError):
                    reason = reason or str(error.cause)
                elif isinstance(error.cause, ray.exceptions.RayError):
                    failure = failure or WorkersLostError(said_of_loss(error.cause))
                else:
                    failure = failure or error.cause or error
            except ray.exceptions.RayError as error:
                dead.add(rank)
                reason = said_of_loss(error)
            trouble = True
        if failure is not None:
            with suppress(_Lost):  # the next call replaces those that are dead
                if not dead:
                    self._meet()  # those who were waiting for the one that failed have left
            raise failure
        if trouble:
            raise _Lost(dead, reason)
        return answers

    def _replace(self, ranks: set[int]) -> None:
        """New workers for those that are gone, told what they had been told; then everyone meets anew."""
        for _ in range(_MOST_LOSSES + 1):
            for rank in ranks:
                self._ray.kill(self.workers[rank])
                self.workers[rank] = self._make(rank, self.threads)
            try:
                for method, arguments in [*self._told, *self.progress()]:
                    self._called(method, arguments, ranks)
                self._meet()
                return
            except _Lost as loss:
                reason, ranks = loss.reason, ranks | loss.ranks
        raise WorkersLostError(f"workers that were lost cannot be replaced: {reason}")

    def _meet(self) -> None:
        if not self._talk:
            return
        addresses = self._called("address", [()] * self.size)
        # a secret of its own every time: calls of an earlier meeting that failed may still be waiting at a door
        self._called("meet", [(addresses, secrets.token_bytes(32))] * self.size)


class _Lost(Exception):  # noqa: N818  # caught here, and never seen by users
    def __init__(self, ranks: set[int], reason: str) -> None:
        super().__init__(reason)
        self.ranks, self.reason = ranks, reason


def said_of_loss(error: BaseException) -> str:
    """One sentence for what Ray says of a process, a machine or an object that is lost."""
    from ray import exceptions

    if isinstance(error, exceptions.OutOfMemoryError):
        return "a machine ran out of memory: give it fewer workers or less of the rows, or use more machines"
    if isinstance(error, (exceptions.ObjectStoreFullError, exceptions.OutOfDiskError)):
        return "Ray's object store is full: give it more memory (object_store_memory=) or disk"
    if isinstance(error, exceptions.ObjectLostError):
        return "data in memory were lost with the process or machine that held them: start again, or read rows from files"
    return str(error).strip().partition("\n")[0]
