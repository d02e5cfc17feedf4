"""Growing a family of models: train a seed, then again and again choose a parent, find what to add to it, train the child.

Petridish, section 6.3.4. At every moment there is a gallery: the models on the lower hull of error against cost. Every step
is in a journal, so that a search can be interrupted or killed and goes on where it was.
"""

from __future__ import annotations

import json
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from operator import index
from pathlib import Path
from typing import Any

import numpy as np

from anytime.growth.hull import lower_hull
from anytime.growth.journal import FailedJob, Journal, Model
from anytime.growth.problem import GrowthProblem, Job, Outcome, whole_file
from anytime.growth.report import ReportWords, render
from anytime.growth.sampling import SAMPLING_RULES, draw_parent
from anytime.growth.workers import Report, Workers, make_workers

__all__ = ["GrowthError", "GrowthSearch"]

_QUEUES = ("seed", "child", "candidates")  # which kind of job an idle worker takes first
_MOST_DEATHS = 5  # workers that a job may cost before it is given up
_MOST_FAILURES = 8  # jobs in a row after which something is wrong with all of them
_LOOK = 0.1  # seconds between two looks at the clock and at stop


class GrowthError(Exception):
    """The search cannot continue: the seed could not be trained, or job after job failed."""


class GrowthSearch:
    """A search by growth, in a folder that holds all of it.

    A search on a folder that has one already goes on with it: nothing that was finished is lost, whatever ended the process.
    With one worker the models depend on ``random_state`` alone.

    Parameters
    ----------
    problem : GrowthProblem
        What is grown.
    folder : path
        For the journal and the checkpoints. It is made where there is none.
    cost_limit : float or None
        Models that cost more are not grown.
    sampling : {"hull", "uniform_hull", "greedy_best", "latest"}
        How parents are chosen: see `anytime.growth.parent_probabilities`.
    tolerance : float
        Models with ``error <= (1 + tolerance) * hull value`` may be parents too.
    workers : int, "ray" or Workers
        1: jobs run in this process. n: in so many processes, each with one GPU where there are some. ``"ray"``: in Ray
        actors.
    random_state : int
        Seed; the same for as long as the search lasts.

    Attributes
    ----------
    models : list of Model
        The pool, in the order of numbers.
    failures : list of FailedJob
        Jobs that raised, each with its error.
    running : dict of int to Job
        Jobs under way.
    ended_by : {"models", "time", "stop", "interrupt"} or None
        What ended the last `run`.
    """

    def __init__(
        self,
        problem: GrowthProblem,
        folder: str | Path,
        *,
        cost_limit: float | None = None,
        sampling: str = "hull",
        tolerance: float = 0.025,
        workers: int | str | Workers = 1,
        random_state: int = 0,
    ) -> None:
        if sampling not in SAMPLING_RULES:
            raise ValueError(f"sampling must be one of {', '.join(SAMPLING_RULES)}; not {sampling!r}")
        if not tolerance >= 0:
            raise ValueError(f"tolerance must be at least 0, not {tolerance}")
        self.problem, self.folder = problem, Path(folder)
        self.cost_limit, self.sampling, self.tolerance = cost_limit, sampling, tolerance
        self.random_state = index(random_state)
        self._workers = make_workers(workers)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._journal = Journal(self.folder / "journal.sqlite", {"random_state": self.random_state})
        self.running: dict[int, Job] = {}
        self.ended_by: str | None = None

    # ------------------------------------------------------------------ what there is

    @property
    def models(self) -> list[Model]:
        """The pool, in the order of numbers."""
        return self._journal.models()

    @property
    def failures(self) -> list[FailedJob]:
        """Jobs that raised."""
        return self._journal.failures()

    def hull(self) -> list[Model]:
        """The gallery: models that no mixture of others beats, from the cheapest to the most accurate."""
        models = self.models
        if not models:
            return []
        return [models[i] for i in lower_hull([m.cost for m in models], [m.error for m in models])]

    def best_under(self, cost: float) -> Model:
        """The most accurate model that costs at most ``cost``; of equally accurate ones the cheaper."""
        models = self.models
        affordable = [model for model in models if model.cost <= cost]
        if not affordable:
            least = min((model.cost for model in models), default=None)
            why = "none is trained yet" if least is None else f"the cheapest costs {least:g}"
            raise ValueError(f"there is no model that costs at most {cost:g}: {why}")
        return min(affordable, key=lambda model: (model.error, model.cost, model.number))

    def export(self, folder: str | Path) -> Path:
        """Copy the gallery to a folder of its own: the hull's checkpoints, and ``gallery.json`` that describes them."""
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        gallery = self.hull()
        for model in gallery:
            if model.checkpoint:
                with whole_file(target / model.checkpoint) as unfinished:
                    shutil.copyfile(self.folder / model.checkpoint, unfinished)
        with whole_file(target / "gallery.json") as unfinished:
            unfinished.write_text(
                json.dumps([asdict(model) for model in gallery], indent=1), encoding="utf-8"
            )
        return target

    def report(self, path: str | Path, words: ReportWords | None = None) -> Path:
        """Write a page about this search: hull, lineage, what each growth added; one HTML file that needs no other."""
        page = Path(path)
        page.write_text(render(self.models, self.failures, words), encoding="utf-8")
        return page

    def close(self) -> None:
        """Close the journal; a search that continues opens it again."""
        self._journal.close()

    # ------------------------------------------------------------------ going on

    def run(
        self,
        time_budget: float | None = None,
        max_models: int | None = None,
        stop: Any = None,
        report: Callable[[GrowthSearch], object] | None = None,
    ) -> GrowthSearch:
        """Grow until a budget is spent, or Ctrl-C; the gallery is there whatever ends it.

        A job that is under way then ends at its next mini-batch and is run again when the search goes on.

        Parameters
        ----------
        time_budget : float or None
            Seconds.
        max_models : int or None
            Models in the pool, those of earlier runs included.
        stop : StopFlag, threading.Event, callable or None
            Ends the search when it is set, or when it returns True.
        report : callable or None
            Called with this search whenever a job begins or ends.

        Raises
        ------
        GrowthError
            The seed could not be trained, or job after job failed.
        CostLimitError
            All models of the hull cost more than ``cost_limit``.
        """
        due = float("inf") if time_budget is None else time.monotonic() + time_budget
        stopped = _as_callable(stop)
        self._failed_in_a_row, self.ended_by = 0, None
        with self._journal.held(), _interrupts() as interrupted:

            def should_stop() -> bool:
                reasons = {"interrupt": interrupted(), "stop": stopped(), "time": time.monotonic() >= due}
                self.ended_by = self.ended_by or next((name for name, held in reasons.items() if held), None)
                return self.ended_by is not None

            for half_written in self.folder.glob(".*.unfinished"):  # by a process that was killed
                half_written.unlink(missing_ok=True)
            self._workers.open(self.problem, self.folder, should_stop)
            try:
                self._loop(should_stop, max_models, report or (lambda search: None))
            finally:
                self.running = {}
                self._workers.close()
        self.ended_by = self.ended_by or "models"
        return self

    def _loop(
        self,
        should_stop: Callable[[], bool],
        max_models: int | None,
        report: Callable[[GrowthSearch], object],
    ) -> None:
        while True:
            if should_stop():
                self._workers.stop()
            else:
                while self._workers.n_idle and (job := self._next_job(max_models)) is not None:
                    self.running[job.number] = job
                    self._workers.submit(job)
                    report(self)
            if not self._workers.busy:
                return
            for ended in self._workers.wait(_LOOK):
                self._record(self.running.pop(ended.number), ended)
                report(self)

    def _next_job(self, max_models: int | None) -> Job | None:
        """The next job for an idle worker: children first, then candidates, then a parent is chosen."""
        n_models, n_unfinished = self._journal.n_models(), self._journal.n_unfinished()
        if max_models is not None and n_models >= max_models:
            return None
        job = self._journal.take(_QUEUES)
        if job is not None:
            return job
        if not n_models and n_unfinished:
            return None  # the seed is being trained
        if max_models is not None and n_models + n_unfinished >= max_models:
            return None
        self._journal.add(
            self._growth_job() if n_models else self._job("seed", None, self.problem.first(), None)
        )
        return self._journal.take(_QUEUES)

    def _growth_job(self) -> Job:
        """Candidates for a parent that is drawn by the rule."""
        numbers, pool = self._journal.pool()
        generator = np.random.default_rng([self.random_state, self._journal.next_number(), 1])
        drawn = draw_parent(
            pool, generator, rule=self.sampling, tolerance=self.tolerance, cost_limit=self.cost_limit
        )
        parent = self._journal.model(numbers[drawn])
        return self._job("candidates", parent.number, parent.architecture, parent.checkpoint)

    def _job(
        self, kind: str, parent: int | None, architecture: dict[str, Any], warm_start: str | None
    ) -> Job:
        number = self._journal.next_number()
        state = int(np.random.SeedSequence([self.random_state, number]).generate_state(1)[0])
        return Job(number, kind, parent, architecture, warm_start or None, state)

    def _record(self, job: Job, ended: Report) -> None:
        """Take what a worker has reported into the journal."""
        if ended.outcome is not None:
            self._failed_in_a_row = 0
            self._journal.finish(job, ended.outcome, self._job_after(job, ended.outcome))
        elif ended.failure is not None:
            self._give_up(job, ended.failure)
        elif ended.death is not None and self._journal.died(job.number) >= _MOST_DEATHS:
            self._give_up(job, f"it has cost {_MOST_DEATHS} workers: {ended.death}")
        elif ended.death is None:
            self._journal.give_back(job.number)

    def _job_after(self, job: Job, outcome: Outcome) -> Job | None:
        """Candidates that are chosen have to be trained."""
        if job.kind != "candidates":
            return None
        return self._job("child", job.parent, outcome.architecture, outcome.checkpoint)

    def _give_up(self, job: Job, failure: str) -> None:
        self._journal.fail(job.number, failure)
        self._failed_in_a_row += 1
        sentence = failure.partition("\n")[0]
        if job.kind == "seed":
            raise GrowthError(f"the seed could not be trained: {sentence}")
        if self._failed_in_a_row >= _MOST_FAILURES:
            raise GrowthError(f"{_MOST_FAILURES} jobs in a row failed; the last: {sentence}")


def _as_callable(stop: Any) -> Callable[[], bool]:
    if stop is None:
        return lambda: False
    asked: Callable[[], bool] = getattr(stop, "is_set", stop)
    return asked


@contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    """Whether Ctrl-C was pressed; the second time it interrupts as usual. In other threads than the main one: never."""
    pressed = False

    def note(number: int, frame: Any) -> None:
        nonlocal pressed
        if pressed:
            raise KeyboardInterrupt
        pressed = True

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.signal(signal.SIGINT, note)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)
