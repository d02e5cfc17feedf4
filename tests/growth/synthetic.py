"""A problem that grows in no time: costs add up, errors are drawn from the job's own random numbers."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from anytime.growth import Interrupted, Job, Outcome, whole_file

SEED_COST = 4.0


@dataclass(frozen=True)
class ToyGrowth:
    """Grows by a layer of a drawn width; the error of a child is its parent's times a drawn factor.

    The parent's error is read from the checkpoint, so that a wrong or half-written one would show.
    """

    n_batches: int = 1
    seconds_per_batch: float = 0.0
    failing: tuple[int, ...] = ()  # numbers of jobs that raise
    deadly: tuple[int, ...] = ()  # numbers of jobs that kill their process, once

    def first(self) -> dict[str, Any]:
        return {"widths": [SEED_COST]}

    def run(self, job: Job, folder: Path, stop: Callable[[], bool]) -> Outcome:
        with (folder / "runs.log").open("a") as log:
            log.write(f"{job.number} {os.getpid()}\n")
        for _ in range(self.n_batches):
            if stop():
                raise Interrupted
            time.sleep(self.seconds_per_batch)
        if job.number in self.failing:
            raise RuntimeError(f"no luck with job {job.number}")
        if job.number in self.deadly and not (folder / f"died-{job.number}").exists():
            (folder / f"died-{job.number}").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        generator = np.random.default_rng(job.random_state)
        architecture, name = dict(job.architecture), f"job-{job.number}.json"
        error = 0.5 if job.warm_start is None else json.loads((folder / job.warm_start).read_text())
        notes: dict[str, Any] = {"batches": self.n_batches}
        if job.kind == "candidates":
            width = int(generator.integers(1, 4))
            architecture["widths"] = [*architecture["widths"], width]
            notes = {"added": width}
        elif job.kind == "child":
            error *= float(generator.uniform(0.8, 1.05))
        with whole_file(folder / name) as unfinished:
            unfinished.write_text(json.dumps(error))
        return Outcome(architecture, name, float(sum(architecture["widths"])), error, 0.01, notes)


def runs_of(folder: Path) -> list[int]:
    """Numbers of the jobs that were begun, in order."""
    return [int(line.split()[0]) for line in (folder / "runs.log").read_text().splitlines()]
