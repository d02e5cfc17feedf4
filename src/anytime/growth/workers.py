"""Workers that run the jobs of a search: this process, local processes or Ray actors.

Each kind of workers takes a job when it is idle and hands a `Report` back. A worker that dies takes nothing with it but its
job, which the search queues again.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from math import isfinite
from multiprocessing import connection, get_context
from pathlib import Path
from typing import Any, Protocol

from anytime.growth.problem import GrowthProblem, Interrupted, Job, Outcome

__all__ = ["LocalWorkers", "OwnProcess", "RayWorkers", "Report", "Workers", "make_workers"]

_PATIENCE = 5.0  # seconds that a job has to notice that it should stop, before its process is ended; it is run again anyway


@dataclass(frozen=True)
class Report:
    """How a job ended: with an outcome, with a failure, with its worker's death, or with none of them (it was stopped)."""

    number: int
    outcome: Outcome | None = None
    failure: str | None = None
    death: str | None = None


class Workers(Protocol):
    """What a search asks of its workers."""

    def open(self, problem: GrowthProblem, folder: Path, stop: Callable[[], bool]) -> None:
        """Make workers ready."""
        ...

    @property
    def n_idle(self) -> int:
        """How many jobs can be submitted now."""
        ...

    @property
    def busy(self) -> bool:
        """Whether any job is running."""
        ...

    def submit(self, job: Job) -> None:
        """Have a job run."""
        ...

    def wait(self, seconds: float) -> list[Report]:
        """Reports that came in, after ``seconds`` at the latest unless jobs run in this process."""
        ...

    def stop(self) -> None:
        """Have all running jobs stopped; they report that."""
        ...

    def close(self) -> None:
        """Let the workers go."""
        ...


def make_workers(workers: int | str | Workers) -> Workers:
    """Workers from their short names: 1 for this process, n for n processes, ``"ray"`` for Ray actors."""
    if workers == "ray":
        return RayWorkers()
    if isinstance(workers, (bool, str)) or (isinstance(workers, int) and workers < 1):
        raise ValueError(f"workers must be a number from 1, 'ray' or workers of your own, not {workers!r}")
    if isinstance(workers, int):
        return OwnProcess() if workers == 1 else LocalWorkers(workers)
    return workers


def run_job(problem: GrowthProblem, job: Job, folder: Path, stop: Callable[[], bool]) -> Report:
    """Run one job, whatever it raises."""
    try:
        return Report(job.number, _checked(job, problem.run(job, folder, stop), folder))
    except Interrupted:
        return Report(job.number)
    except Exception as error:
        sentence = f"{type(error).__name__}: {error}"
        return Report(job.number, failure=f"{sentence}\n{traceback.format_exc()}")


def _checked(job: Job, outcome: Outcome, folder: Path) -> Outcome:
    """The outcome in plain types; a `ValueError` or `TypeError` where the journal could not keep it."""
    if job.kind != "candidates" and not (isfinite(outcome.cost) and isfinite(outcome.error)):
        raise ValueError(f"a model needs a cost and an error, but has {outcome.cost} and {outcome.error}")
    if outcome.checkpoint and not (folder / outcome.checkpoint).is_file():
        raise ValueError(f"the checkpoint {outcome.checkpoint!r} was not written")
    json.dumps([outcome.architecture, outcome.notes])
    return replace(
        outcome, cost=float(outcome.cost), error=float(outcome.error), seconds=float(outcome.seconds)
    )


class OwnProcess:
    """One worker, in this process: jobs run one after the other, in an order that depends on the seed alone."""

    def __init__(self) -> None:
        self._job: Job | None = None

    def open(self, problem: GrowthProblem, folder: Path, stop: Callable[[], bool]) -> None:
        """Remember what is needed."""
        self._problem, self._folder, self._stop = problem, folder, stop

    @property
    def n_idle(self) -> int:
        """1, or 0 while a job waits."""
        return int(self._job is None)

    @property
    def busy(self) -> bool:
        """Whether a job waits."""
        return self._job is not None

    def submit(self, job: Job) -> None:
        """Keep the job for `wait`."""
        self._job = job

    def wait(self, seconds: float) -> list[Report]:
        """Run the job."""
        job, self._job = self._job, None
        return [] if job is None else [run_job(self._problem, job, self._folder, self._stop)]

    def stop(self) -> None:
        """Nothing: the job asks ``stop`` itself."""

    def close(self) -> None:
        """Nothing to let go."""


# ---------------------------------------------------------------------- local processes


class LocalWorkers:
    """Processes on this machine, each with one GPU where there are some.

    Parameters
    ----------
    n : int
        Number of processes.
    gpus : list of str or None
        Devices as in ``CUDA_VISIBLE_DEVICES``, given out in turn. None: all that this process may see.
    """

    def __init__(self, n: int, gpus: list[str] | None = None) -> None:
        self.n = n
        self.gpus = visible_gpus() if gpus is None else gpus
        self._context = get_context("spawn")
        self._workers: list[_Worker] = []

    def open(self, problem: GrowthProblem, folder: Path, stop: Callable[[], bool]) -> None:
        """Start the processes."""
        self._folder, self._stopping = (
            folder,
            self._context.RawValue("b", 0),
        )  # no lock that a dead worker could keep
        self._problem = pickle.dumps(problem)
        self._workers = [self._started(k) for k in range(self.n)]

    def _started(self, k: int) -> _Worker:
        ours, theirs = self._context.Pipe()
        gpu = self.gpus[k % len(self.gpus)] if self.gpus else None
        what = (theirs, self._problem, self._folder, self._stopping, gpu, os.getpid())
        process = self._context.Process(target=_serve, args=what, daemon=True, name=f"anytime-growth-{k}")
        process.start()
        theirs.close()
        return _Worker(process, ours)

    @property
    def n_idle(self) -> int:
        """Processes without a job."""
        return sum(worker.job is None for worker in self._workers)

    @property
    def busy(self) -> bool:
        """Whether any process has a job."""
        return self.n_idle < len(self._workers)

    def submit(self, job: Job) -> None:
        """Send the job to an idle process."""
        worker = next(worker for worker in self._workers if worker.job is None)
        worker.job = job.number
        with suppress(OSError):  # of a dead worker: `wait` notices
            worker.pipe.send(job)

    def wait(self, seconds: float) -> list[Report]:
        """Reports of processes that are done or dead; the dead are replaced."""
        busy = [worker for worker in self._workers if worker.job is not None]
        ready = connection.wait([worker.pipe for worker in busy], seconds)
        return [self._received(worker) for worker in busy if worker.pipe in ready]

    def _received(self, worker: _Worker) -> Report:
        number, worker.job = worker.job, None
        assert number is not None
        try:
            report: Report = worker.pipe.recv()
        except (EOFError, OSError, pickle.UnpicklingError):
            worker.process.join()
            worker.pipe.close()
            k = self._workers.index(worker)
            if self._stopping.value:
                del self._workers[k]
                return Report(number)
            self._workers[k] = self._started(k)
            return Report(number, death=f"its process ended with exit code {worker.process.exitcode}")
        return report

    def stop(self) -> None:
        """Raise the flag that all processes look at; end those that do not."""
        if not self._stopping.value:
            self._stopping.value, self._asked = 1, time.monotonic()
        elif time.monotonic() > self._asked + _PATIENCE:
            for worker in self._workers:
                worker.process.kill()

    def close(self) -> None:
        """End the processes: they are idle, or their jobs are no longer needed."""
        for worker in self._workers:
            worker.pipe.close()
            worker.process.kill()
        for worker in self._workers:
            worker.process.join()
        self._workers = []


@dataclass
class _Worker:
    """A process, our end of its pipe, and the number of the job that it runs."""

    process: Any
    pipe: connection.Connection[Any, Any]
    job: int | None = None


def _serve(
    pipe: connection.Connection[Any, Any],
    pickled: bytes,
    folder: Path,
    stopping: Any,
    gpu: str | None,
    parent: int,
) -> None:
    """Life of a local worker: jobs until the pipe is closed, which the death of the search does too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the search answers it
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu  # before the problem, which may touch the device, is there
    problem: GrowthProblem | None = None

    def stop() -> bool:
        return bool(stopping.value) or os.getppid() != parent

    with suppress(EOFError, OSError):
        while True:
            job = pipe.recv()
            try:
                problem = pickle.loads(pickled) if problem is None else problem
            except Exception as error:
                pipe.send(
                    Report(job.number, failure=f"no copy of the problem: {type(error).__name__}: {error}")
                )
                continue
            pipe.send(run_job(problem, job, folder, stop))


def visible_gpus() -> list[str]:
    """Names of the GPUs that this process may use, as ``CUDA_VISIBLE_DEVICES`` has them."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return [name.strip() for name in named.split(",") if name.strip() not in ("", "-1")]
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.split(":")[0].split()[1] for line in listed.stdout.splitlines() if line.startswith("GPU ")]


# ---------------------------------------------------------------------- Ray


class RayWorkers:
    """Ray actors, here or on other machines that see the same folder; needs ``pip install 'anytime[ray]'``.

    Parameters
    ----------
    n : int or None
        Number of actors. None: one per GPU of the cluster, or where it has none one per CPU.
    """

    def __init__(self, n: int | None = None) -> None:
        try:
            import ray
        except ModuleNotFoundError:
            raise ImportError("workers='ray' needs Ray: pip install 'anytime[ray]'") from None
        self._ray, self.n = ray, n
        self._actors: list[Any] = []
        self._running: dict[Any, tuple[int, int]] = {}  # a future -> (actor, job)
        self._asked: float | None = None  # when jobs were told to stop

    def open(self, problem: GrowthProblem, folder: Path, stop: Callable[[], bool]) -> None:
        """Join the cluster, or start one here, and make the actors."""
        self._ours, self._asked = not self._ray.is_initialized(), None
        if self._ours:
            self._ray.init(include_dashboard=False, log_to_driver=False)
        resources = self._ray.cluster_resources()
        gpus = int(resources.get("GPU", 0))
        n = self.n or gpus or int(resources.get("CPU", 1))
        # two threads: a call of stop has to get through while a job runs
        self._make = self._ray.remote(num_cpus=1, num_gpus=int(gpus > 0), max_concurrency=2)(_RayActor).remote
        self._arguments = (self._ray.put(problem), str(folder.absolute()))
        self._actors = [self._make(*self._arguments) for _ in range(n)]

    @property
    def n_idle(self) -> int:
        """Actors without a job."""
        return len(self._actors) - len(self._running)

    @property
    def busy(self) -> bool:
        """Whether any actor has a job."""
        return bool(self._running)

    def submit(self, job: Job) -> None:
        """Send the job to an idle actor."""
        taken = {k for k, _ in self._running.values()}
        k = next(k for k in range(len(self._actors)) if k not in taken)
        self._running[self._actors[k].run.remote(job)] = (k, job.number)

    def wait(self, seconds: float) -> list[Report]:
        """Reports of actors that are done or dead; the dead are replaced."""
        ready, _ = self._ray.wait(list(self._running), num_returns=1, timeout=seconds)
        return [self._report(future) for future in ready]

    def _report(self, future: Any) -> Report:
        k, number = self._running.pop(future)
        try:
            report: Report = self._ray.get(future)
        except self._ray.exceptions.RayActorError as error:
            if self._asked is not None:
                return Report(number)
            self._actors[k] = self._make(*self._arguments)
            return Report(number, death=f"its actor died: {error}")
        except self._ray.exceptions.RayTaskError as error:
            return Report(number, failure=str(error))
        return report

    def stop(self) -> None:
        """Tell every actor; end those that do not listen."""
        if self._asked is None:
            self._asked = time.monotonic()
            for actor in self._actors:
                actor.stop.remote()
        elif time.monotonic() > self._asked + _PATIENCE:
            for actor in self._actors:
                self._ray.kill(actor)

    def close(self) -> None:
        """End the actors, and the cluster where it was started here."""
        for actor in self._actors:
            self._ray.kill(actor)
        self._actors, self._running = [], {}
        if self._ours:
            self._ray.shutdown()


class _RayActor:
    """A worker of Ray's: a copy of the problem, and a flag."""

    def __init__(self, problem: GrowthProblem, folder: str) -> None:
        self._problem, self._folder, self._stopping = problem, Path(folder), False

    def run(self, job: Job) -> Report:
        """Run one job."""
        return run_job(self._problem, job, self._folder, lambda: self._stopping)

    def stop(self) -> None:
        """Have the running job stopped."""
        self._stopping = True
