"""growth_and_streaming B.5 and C.1: a search that can be stopped, killed and continued, and the gallery it leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anytime.growth import CostLimitError, GrowthError, GrowthSearch, hull_values
from anytime.growth.journal import JournalError
from anytime.growth.problem import Job
from anytime.growth.sampling import Pool, draw_parent
from tests.growth.synthetic import SEED_COST, ToyGrowth, runs_of


def pool_of(search: GrowthSearch) -> list[dict[str, Any]]:
    return [asdict(model) for model in search.models]


def grown(folder: Path, n: int, **how: Any) -> GrowthSearch:
    return GrowthSearch(how.pop("problem", ToyGrowth()), folder, **how).run(max_models=n)


def sequential_loop(
    n: int, seed: int, tolerance: float, folder: Path
) -> list[tuple[int, int | None, float, float]]:
    """The reference growth step of growth_and_streaming B.9, in one loop without queues, journal or workers."""
    problem, number, folder = ToyGrowth(), 0, folder

    def job(kind: str, parent: int | None, architecture: dict[str, Any], warm: str | None) -> Job:
        state = int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
        return Job(number, kind, parent, architecture, warm, state)

    def go() -> bool:
        return False

    folder.mkdir()
    outcomes = {0: problem.run(job("seed", None, problem.first(), None), folder, go)}
    selected, parents = {0: 0}, {0: None}
    while len(outcomes) < n:
        number += 1
        numbers = sorted(outcomes)
        pool = Pool(
            np.array([outcomes[k].cost for k in numbers]),
            np.array([outcomes[k].error for k in numbers]),
            np.array([selected[k] for k in numbers]),
        )
        generator = np.random.default_rng([seed, number, 1])
        parent = numbers[draw_parent(pool, generator, tolerance=tolerance)]
        selected[parent] += 1
        grow = job("candidates", parent, outcomes[parent].architecture, outcomes[parent].checkpoint)
        chosen = problem.run(grow, folder, go)
        number += 1
        child = problem.run(job("child", parent, chosen.architecture, chosen.checkpoint), folder, go)
        outcomes[number], selected[number], parents[number] = child, 0, parent
    return [(k, parents[k], o.cost, o.error) for k, o in sorted(outcomes.items())]


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_one_worker_equals_the_sequential_loop(seed: int, tmp_path: Path) -> None:
    """B-P25: the same pool as the plain loop, and the same again; another seed gives another."""
    search = grown(tmp_path / "a", 9, random_state=seed)
    expected = sequential_loop(9, seed, search.tolerance, tmp_path / "loop")
    assert [(m.number, m.parent, m.cost, m.error) for m in search.models] == expected
    assert pool_of(grown(tmp_path / "b", 9, random_state=seed)) == pool_of(search)
    assert pool_of(grown(tmp_path / "c", 9, random_state=seed + 1)) != pool_of(search)


def test_parents_are_not_all_the_seed(tmp_path: Path) -> None:
    """Negative control of B-P25: the loop does choose."""
    parents = [model.parent for model in grown(tmp_path, 20).models]
    assert len(set(parents)) > 4


@pytest.mark.parametrize("rule", ["hull", "uniform_hull", "greedy_best", "latest"])
def test_no_model_above_the_cost_limit_is_grown(rule: str, tmp_path: Path) -> None:
    """B-P24 within a search, with its negative control."""
    limit = 6.0
    search = grown(tmp_path / "limited", 10, sampling=rule, cost_limit=limit)
    costs = {model.number: model.cost for model in search.models}
    assert all(costs[model.parent] <= limit for model in search.models if model.parent is not None)
    free = grown(tmp_path / "free", 10, sampling=rule)
    costs = {model.number: model.cost for model in free.models}
    assert any(costs[model.parent] > limit for model in free.models if model.parent is not None)


def test_a_seed_above_the_cost_limit_is_a_clear_error(tmp_path: Path) -> None:
    """B-P24; the seed stays in the gallery."""
    search = GrowthSearch(ToyGrowth(), tmp_path, cost_limit=SEED_COST / 2)
    with pytest.raises(CostLimitError, match="the cheapest costs 4, more than the cost limit of 2"):
        search.run(max_models=5)
    assert len(search.hull()) == 1
    search.cost_limit = 100.0
    assert len(search.run(max_models=3).models) == 3


def test_a_failed_job_counts_as_a_selection_and_the_search_goes_on(tmp_path: Path) -> None:
    search = grown(tmp_path, 4, problem=ToyGrowth(failing=(1, 4)))
    assert len(search.models) == 4
    assert [(f.number, f.kind) for f in search.failures] == [(1, "candidates"), (4, "candidates")]
    assert search.failures[0].failure.startswith("RuntimeError: no luck with job 1\nTraceback")
    children = sum(model.parent is not None for model in search.models)
    assert sum(model.n_selected for model in search.models) == children + 2


def test_a_seed_that_fails_ends_the_search_and_can_be_tried_again(tmp_path: Path) -> None:
    with pytest.raises(GrowthError, match="the seed could not be trained: RuntimeError: no luck with job 0"):
        grown(tmp_path, 3, problem=ToyGrowth(failing=(0,)))
    assert len(grown(tmp_path, 3).models) == 3


def test_a_search_whose_jobs_all_fail_ends(tmp_path: Path) -> None:
    with pytest.raises(GrowthError, match="8 jobs in a row failed; the last: RuntimeError"):
        grown(tmp_path, 3, problem=ToyGrowth(failing=tuple(range(1, 100))))


@pytest.mark.parametrize(("cost", "error"), [(float("nan"), 0.5), (3.0, float("inf"))])
def test_a_model_without_an_error_or_a_cost_is_a_failed_job(
    cost: float, error: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ToyGrowth.run

    def diverging(self: ToyGrowth, job: Job, folder: Path, stop: Any) -> Any:
        outcome = run(self, job, folder, stop)
        return (
            outcome if job.number != 2 else type(outcome)(**{**asdict(outcome), "cost": cost, "error": error})
        )

    monkeypatch.setattr(ToyGrowth, "run", diverging)
    search = grown(tmp_path, 3)
    assert [f.number for f in search.failures] == [2]
    assert "a model needs a cost and an error" in search.failures[0].failure


# ---------------------------------------------------------------------- anytime learning


def test_hull_and_best_error_never_get_worse(tmp_path: Path) -> None:
    """C-P2, after every job; the errors of single children do rise, so that there is something to hold."""
    at, values, best = np.linspace(4, 40, 30), [], []

    def look(search: GrowthSearch) -> None:
        if models := search.models:
            values.append(hull_values([m.cost for m in models], [m.error for m in models], at))
            best.append(search.best_under(np.inf).error)

    search = GrowthSearch(ToyGrowth(), tmp_path)
    search.run(max_models=25, report=look)
    assert (np.diff(np.array(values), axis=0) <= 1e-12).all()
    assert (np.diff(best) <= 0).all()
    assert best[-1] < best[0]
    assert (np.diff([model.error for model in search.models]) > 0).any()


@pytest.mark.parametrize("how", ["stop", "time", "interrupt"])
def test_an_interrupt_returns_the_gallery_within_a_batch(how: str, tmp_path: Path) -> None:
    """C-P1: stop, clock and Ctrl-C in the middle of a job of 100 s, whose batches take 20 ms."""
    grown(tmp_path, 3)
    search = GrowthSearch(ToyGrowth(n_batches=5000, seconds_per_batch=0.02), tmp_path)
    stop, times = threading.Event(), {"time_budget": 0.2 if how == "time" else None}

    def press() -> None:
        stop.set() if how == "stop" else os.kill(os.getpid(), signal.SIGINT)

    def press_in_a_job() -> None:
        while not search.running:
            time.sleep(0.005)
        time.sleep(0.1)
        press()

    began = time.monotonic()
    if how != "time":
        threading.Thread(target=press_in_a_job).start()
    search.run(stop=stop, **times)
    assert time.monotonic() - began < 50
    assert search.ended_by == how
    assert [model.number for model in search.models] == [0, 2, 4]
    assert search.hull()
    assert pool_of(grown(tmp_path, 6)) == pool_of(grown(tmp_path / "straight", 6))  # and the job was not lost


def test_resumed_equals_uninterrupted(tmp_path: Path) -> None:
    """C-P3: one run, several runs on the same folder, and runs stopped within jobs."""
    straight = pool_of(grown(tmp_path / "a", 10))
    for n in (1, 4, 5, 10):
        parts = grown(tmp_path / "b", n)
    assert pool_of(parts) == straight
    rng, search = np.random.default_rng(0), GrowthSearch(ToyGrowth(n_batches=4), tmp_path / "c")
    while len(search.models) < 10:
        calls = iter(range(int(rng.integers(1, 12))))
        search.run(max_models=10, stop=lambda calls=calls: next(calls, None) is None)
    stopped = pool_of(search)
    assert [m["error"] for m in stopped] == [m["error"] for m in straight]
    assert len(runs_of(tmp_path / "c")) > len(
        runs_of(tmp_path / "a")
    )  # negative control: it was stopped within jobs


def test_half_written_files_of_a_killed_process_are_removed(tmp_path: Path) -> None:
    stale = tmp_path / ".job-7.json.123.unfinished"
    stale.write_text("0.4")
    grown(tmp_path, 2)
    assert not stale.exists()


def test_best_under_a_cost(tmp_path: Path) -> None:
    """C-P5."""
    search = grown(tmp_path, 15)
    for cost in (4.0, 7.5, 11.0, 1e9):
        model = search.best_under(cost)
        assert model.cost <= cost
        assert model.error == min(m.error for m in search.models if m.cost <= cost)
    with pytest.raises(ValueError, match=r"no model that costs at most 3: the cheapest costs 4"):
        search.best_under(3)
    empty = GrowthSearch(ToyGrowth(), tmp_path / "empty")
    assert empty.hull() == []
    with pytest.raises(ValueError, match="none is trained yet"):
        empty.best_under(3)


def test_the_gallery_can_be_exported(tmp_path: Path) -> None:
    """C-P5: a folder that needs neither journal nor search."""
    search = grown(tmp_path / "search", 15)
    target = search.export(tmp_path / "gallery")
    described = json.loads((target / "gallery.json").read_text())
    assert [entry["number"] for entry in described] == [model.number for model in search.hull()]
    files = {entry["checkpoint"] for entry in described}
    assert {path.name for path in target.iterdir()} == files | {"gallery.json"}
    assert all((target / f).read_bytes() == (search.folder / f).read_bytes() for f in files)


def test_bad_arguments_are_refused_before_anything_is_made(tmp_path: Path) -> None:
    for how, message in [
        ({"sampling": "best"}, "sampling must be one of"),
        ({"tolerance": -1.0}, "tolerance must be at least 0"),
        ({"workers": 0}, "workers must be a number from 1"),
        ({"workers": "dask"}, "workers must be a number from 1, 'ray'"),
    ]:
        with pytest.raises(ValueError, match=message):
            GrowthSearch(ToyGrowth(), tmp_path / "none", **how)
    assert not (tmp_path / "none").exists()
    grown(tmp_path, 2)
    with pytest.raises(JournalError, match="random_state=0, not 5"):
        GrowthSearch(ToyGrowth(), tmp_path, random_state=5)


# ---------------------------------------------------------------------- kill -9

DRIVER = """
import sys
from tests.growth.synthetic import ToyGrowth
from anytime.growth import GrowthSearch
if __name__ == "__main__":
    GrowthSearch(ToyGrowth(n_batches=4, seconds_per_batch=0.005), sys.argv[1]).run(max_models=40)
    print("finished")
"""


@pytest.mark.slow
def test_a_driver_killed_at_random_moments_loses_nothing(tmp_path: Path) -> None:
    """Kill -9 of the driver, 12 times: journal intact, nothing finished lost, the same pool in the end."""
    straight = pool_of(grown(tmp_path / "straight", 40, problem=ToyGrowth(n_batches=4)))
    script, folder, rng = tmp_path / "driver.py", tmp_path / "killed", np.random.default_rng(0)
    script.write_text(DRIVER)
    folder.mkdir()
    known: list[dict[str, Any]] = []
    kills = 0
    while kills < 12 or not known:
        kills += 1
        driver = start(script, folder)
        wait_for_work(folder, driver)
        time.sleep(float(rng.uniform(0, 0.15)))
        driver.kill()
        driver.wait()
        search = GrowthSearch(ToyGrowth(n_batches=4), folder)
        assert pool_without_counts(search)[: len(known)] == known
        known = pool_without_counts(search)
        search.close()
    assert len(known) < 40  # negative control: every kill met a search under way
    driver = start(script, folder)
    assert driver.communicate(timeout=300)[0].strip() == b"finished"
    assert pool_of(GrowthSearch(ToyGrowth(), folder)) == straight


def start(script: Path, folder: Path) -> subprocess.Popen[bytes]:
    root = Path(__file__).parents[2]
    command = [sys.executable, str(script), str(folder)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}
    )


def wait_for_work(folder: Path, driver: subprocess.Popen[bytes]) -> None:
    """Until the driver has begun a job."""
    log = folder / "runs.log"
    before = log.stat().st_size if log.exists() else 0
    while driver.poll() is None and (not log.exists() or log.stat().st_size == before):
        time.sleep(0.005)


def pool_without_counts(search: GrowthSearch) -> list[dict[str, Any]]:
    """Models as they were finished; how often they are selected goes on rising."""
    return [{key: value for key, value in model.items() if key != "n_selected"} for model in pool_of(search)]
