"""growth_and_streaming B.5, parallel workers: local processes and Ray actors, and what happens when they die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anytime.growth import GrowthError, GrowthSearch, LocalWorkers
from anytime.growth.problem import Job
from anytime.growth.workers import RayWorkers, visible_gpus
from tests.growth.synthetic import ToyGrowth, runs_of
from tests.growth.test_search import grown, pool_of


def processes_of(folder: Path) -> set[str]:
    return {line.split()[1] for line in (folder / "runs.log").read_text().splitlines()}


def test_one_process_of_its_own_gives_the_same_pool(tmp_path: Path) -> None:
    """B-P25 across processes: what a job gives does not depend on who runs it."""
    here = grown(tmp_path / "here", 6)
    there = grown(tmp_path / "there", 6, workers=LocalWorkers(1))
    assert pool_of(there) == pool_of(here)
    assert processes_of(tmp_path / "here") == {str(os.getpid())}
    assert str(os.getpid()) not in processes_of(tmp_path / "there")


def test_two_processes_share_the_work_and_each_job_counts_once(tmp_path: Path) -> None:
    problem = ToyGrowth(n_batches=4, seconds_per_batch=0.02)
    search = grown(tmp_path, 9, problem=problem, workers=2)
    assert len(search.models) == 9
    assert len(processes_of(tmp_path)) == 2
    assert sorted(runs_of(tmp_path)) == sorted(set(runs_of(tmp_path)))
    assert sum(model.n_selected for model in search.models) == 8


def test_a_worker_that_dies_costs_no_job(tmp_path: Path) -> None:
    """The job is run again with its own random numbers, so that the pool is that of a run without deaths."""
    search = grown(tmp_path / "deadly", 5, problem=ToyGrowth(deadly=(0, 3, 4)), workers=LocalWorkers(1))
    assert pool_of(search) == pool_of(grown(tmp_path / "straight", 5))
    assert not search.failures
    assert [runs_of(tmp_path / "deadly").count(n) for n in (0, 1, 3, 4)] == [2, 1, 2, 2]


@dataclass(frozen=True)
class Murderous(ToyGrowth):
    """Kills its process at every growth."""

    def run(self, job: Job, folder: Path, stop: Any) -> Any:
        if job.kind == "candidates":
            os.kill(os.getpid(), signal.SIGKILL)
        return super().run(job, folder, stop)


@pytest.mark.slow
def test_a_job_that_kills_every_worker_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anytime.growth.search._MOST_DEATHS", 2)
    monkeypatch.setattr("anytime.growth.search._MOST_FAILURES", 2)
    with pytest.raises(
        GrowthError, match="2 jobs in a row failed; the last: it has cost 2 workers: its process ended"
    ):
        grown(tmp_path, 3, problem=Murderous(), workers=LocalWorkers(1))


@dataclass(frozen=True)
class NoCopy(ToyGrowth):
    """Cannot be unpickled."""

    def __reduce__(self) -> Any:
        return (int, ("no number",))


def test_a_problem_that_cannot_be_copied_says_so(tmp_path: Path) -> None:
    with pytest.raises(GrowthError, match="seed could not be trained: no copy of the problem: ValueError"):
        grown(tmp_path, 2, problem=NoCopy(), workers=LocalWorkers(1))


@dataclass(frozen=True)
class TellsDevice(ToyGrowth):
    """Notes which GPU its process may see, once both processes have jobs."""

    signs: Path = Path()

    def run(self, job: Job, folder: Path, stop: Any) -> Any:
        outcome = super().run(job, folder, stop)
        outcome.notes["gpu"] = os.environ.get("CUDA_VISIBLE_DEVICES")
        (self.signs / f"gpu-{outcome.notes['gpu']}").touch()
        due = time.monotonic() + 60
        while job.kind == "candidates" and len(list(self.signs.glob("gpu-*"))) < 2 and time.monotonic() < due:
            time.sleep(0.01)
        return outcome


def test_each_process_has_one_gpu(tmp_path: Path) -> None:
    problem = TellsDevice(n_batches=3, seconds_per_batch=0.05, signs=tmp_path)
    search = grown(tmp_path, 7, problem=problem, workers=LocalWorkers(2, gpus=["3", "5"]))
    assert {model.notes["gpu"] for model in search.models} == {"3", "5"}


def test_gpus_that_this_process_may_see(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1, 4")
    assert visible_gpus() == ["1", "4"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert visible_gpus() == []
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    listing = "GPU 0: NVIDIA X (UUID: a)\n  MIG 1g Device 0: (UUID: b)\nGPU 1: NVIDIA X (UUID: c)\n"
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, listing))
    assert visible_gpus() == ["0", "1"]


def test_stop_reaches_other_processes_within_a_batch(tmp_path: Path) -> None:
    """C-P1 with two processes in jobs of 100 s: they stop, their jobs stay queued, and nothing is left running."""
    stop = threading.Event()
    workers = LocalWorkers(2)
    search = GrowthSearch(ToyGrowth(n_batches=5000, seconds_per_batch=0.02), tmp_path, workers=workers)
    grown(tmp_path, 2)
    search.run(
        stop=lambda: (
            stop.is_set() or (len(search.running) == 2 and len(processes_of(tmp_path)) == 3 and stop.set())
        )
    )
    assert search.ended_by == "stop"
    assert len(search.models) == 2
    assert search._journal.n_unfinished() == 2
    assert workers._workers == []


@dataclass(frozen=True)
class Deaf(ToyGrowth):
    """Grows without ever asking whether to stop."""

    def run(self, job: Job, folder: Path, stop: Any) -> Any:
        if job.kind == "candidates":
            (folder / "begun").touch()
            time.sleep(100)
        return super().run(job, folder, stop)


def test_a_job_that_does_not_stop_is_ended_and_runs_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anytime.growth.workers._PATIENCE", 0.3)
    search = GrowthSearch(Deaf(), tmp_path, workers=LocalWorkers(1))
    began = time.monotonic()
    search.run(stop=lambda: (tmp_path / "begun").exists())
    assert time.monotonic() - began < 80
    assert search.ended_by == "stop"
    assert not search.failures
    assert pool_of(grown(tmp_path, 3)) == pool_of(grown(tmp_path / "straight", 3))


@pytest.mark.slow
def test_workers_killed_at_random_moments_lose_nothing(tmp_path: Path) -> None:
    """Kill -9 of the worker, 8 times, with one worker and a fixed seed: the same pool as without."""
    problem, rng = ToyGrowth(n_batches=4, seconds_per_batch=0.01), np.random.default_rng(1)
    workers, kills = LocalWorkers(1), set[int]()  # jobs whose worker was killed: each once
    search = GrowthSearch(problem, tmp_path / "killed", workers=workers)

    def kill(after: float) -> None:
        time.sleep(after)
        (worker,) = workers._workers
        os.kill(worker.process.pid, signal.SIGKILL)

    def maybe_kill(search: GrowthSearch) -> None:
        under_way = set(search.running) - kills
        if under_way and len(kills) < 8 and rng.random() < 0.4:
            kills.update(under_way)
            threading.Thread(target=kill, args=(float(rng.uniform(0, 0.06)),)).start()

    search.run(max_models=20, report=maybe_kill)
    assert len(kills) == 8
    assert len(runs_of(tmp_path / "killed")) > 39  # negative control: some were in the middle of a job
    assert not search.failures
    straight = grown(tmp_path / "straight", 20, problem=ToyGrowth(n_batches=4))
    assert pool_of(search) == pool_of(straight)


ORPHANED = """
import sys
from tests.growth.synthetic import ToyGrowth
from anytime.growth import GrowthSearch
if __name__ == "__main__":
    GrowthSearch(ToyGrowth(n_batches=5000, seconds_per_batch=0.02), sys.argv[1], workers=2).run()
"""


@pytest.mark.slow
def test_workers_end_when_their_search_is_killed(tmp_path: Path) -> None:
    script, log, root = tmp_path / "driver.py", tmp_path / "search" / "runs.log", Path(__file__).parents[2]
    script.write_text(ORPHANED)
    command = [sys.executable, str(script), str(tmp_path / "search")]
    driver = subprocess.Popen(command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)})
    while not (log.exists() and log.read_text()):
        time.sleep(0.01)
    worker = int(log.read_text().split()[1])
    assert is_running(worker)  # negative control
    driver.kill()
    driver.wait()
    due = time.monotonic() + 120
    while is_running(worker) and time.monotonic() < due:
        time.sleep(0.02)
    assert not is_running(worker)


def is_running(process: int) -> bool:
    """Whether a process is there, and not only its exit code that nobody has fetched."""
    try:
        return ") Z " not in Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return False


def test_ray_that_is_not_there_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ImportError, match=r"workers='ray' needs Ray: pip install 'anytime\[ray\]'"):
        GrowthSearch(ToyGrowth(), tmp_path / "none", workers="ray")
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("running")
def test_ray_actors_give_the_same_pool_and_survive_deaths(tmp_path: Path) -> None:
    search = grown(tmp_path / "ray", 5, problem=ToyGrowth(deadly=(2, 3)), workers=RayWorkers(1))
    assert pool_of(search) == pool_of(grown(tmp_path / "straight", 5))
    two = grown(
        tmp_path / "two", 7, problem=ToyGrowth(n_batches=4, seconds_per_batch=0.05), workers=RayWorkers(2)
    )
    assert len(two.models) == 7
    assert len(processes_of(tmp_path / "two")) == 2


@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.usefixtures("running")
def test_stop_reaches_ray_actors(tmp_path: Path) -> None:
    grown(tmp_path, 2)
    search = GrowthSearch(ToyGrowth(n_batches=5000, seconds_per_batch=0.02), tmp_path, workers=RayWorkers(1))
    search.run(stop=lambda: len(processes_of(tmp_path)) == 2)
    assert search.ended_by == "stop"
    assert len(search.models) == 2
    deaf = GrowthSearch(Deaf(), tmp_path, workers=RayWorkers(1))
    deaf.run(stop=lambda: (tmp_path / "begun").exists())
    assert deaf.ended_by == "stop"
    assert not deaf.failures
