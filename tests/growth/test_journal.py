"""growth_and_streaming B.5: one journal, in which every step is whole."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from anytime.growth.journal import Journal, JournalError, Snapshot, snapshot
from anytime.growth.problem import Job, Outcome

SETTINGS = {"random_state": 0}


def job(number: int, kind: str = "candidates", parent: int | None = 0) -> Job:
    return Job(number, kind, parent, {"number": number}, None, 7 * number)


def outcome(cost: float = 1.0, **notes: object) -> Outcome:
    return Outcome({"trained": True}, "file", cost, 0.5, 2.0, dict(notes))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.sqlite"


@pytest.fixture
def journal(path: Path) -> Journal:
    """A journal with a seed."""
    journal = Journal(path, SETTINGS)
    journal.add(job(0, "seed", None))
    journal.finish(journal.take(["seed"]), outcome())
    return journal


def test_a_job_comes_back_as_it_was_put_in(path: Path) -> None:
    journal = Journal(path, SETTINGS)
    original = Job(0, "seed", None, {"cells": [1, {"ops": ["conv"]}], "name": "ü"}, "start.pt", 2**32 - 1)
    journal.add(original)
    assert Journal(path, SETTINGS).take(["seed"]) == original


def test_children_go_before_candidates_and_newest_first(journal: Journal) -> None:
    for number, kind in enumerate(["child", "candidates", "child", "candidates"], start=1):
        journal.add(job(number, kind))
    order = [journal.take(["seed", "child", "candidates"]).number for _ in range(4)]
    assert order == [3, 1, 4, 2]
    assert journal.take(["seed", "child", "candidates"]) is None


def test_a_selection_counts_when_the_job_is_created_and_stays_when_it_fails(journal: Journal) -> None:
    journal.add(job(1))
    assert journal.model(0).n_selected == 1
    journal.take(["candidates"])
    journal.fail(1, "RuntimeError: out of memory")
    assert journal.model(0).n_selected == 1
    assert [(f.number, f.parent, f.failure) for f in journal.failures()] == [
        (1, 0, "RuntimeError: out of memory")
    ]


def test_an_outcome_counts_once(journal: Journal) -> None:
    """Results are idempotent by number: a second worker's outcome of the same job changes nothing."""
    journal.add(job(1))
    candidates = journal.take(["candidates"])
    assert journal.finish(candidates, outcome(added="skip"), job(2, "child"))
    assert not journal.finish(candidates, outcome(added="conv"), job(3, "child"))
    child = journal.take(["child"])
    assert child.number == 2
    assert journal.finish(child, outcome(cost=3.0, loss=0.1))
    assert not journal.finish(child, outcome(cost=9.0))
    model = journal.model(2)
    assert (model.cost, model.seconds, model.parent) == (3.0, 4.0, 0)
    assert model.notes == {"loss": 0.1, "growth": {"added": "skip"}}
    assert journal.n_models() == 2


def test_a_step_is_whole_or_not_at_all(journal: Journal, path: Path) -> None:
    """The outcome of candidates and the child's job are one transaction: without the second the first is not there."""
    journal.add(job(1))
    candidates = journal.take(["candidates"])
    with pytest.raises(TypeError):
        journal.finish(candidates, outcome(), Job(2, "child", 0, {"bad": object()}, None, 1))
    with pytest.raises(sqlite3.IntegrityError):
        journal.finish(candidates, outcome(), job(0, "child"))  # the number is taken
    with Journal(path, SETTINGS).held():
        pass
    assert Journal(path, SETTINGS).take(["candidates"]) == candidates


def test_running_jobs_are_queued_again_when_a_search_begins(journal: Journal, path: Path) -> None:
    journal.add(job(1))
    taken = journal.take(["candidates"])
    again = Journal(path, SETTINGS)
    assert again.take(["candidates"]) is None  # negative control: another may be running it
    with again.held():
        assert again.take(["candidates"]) == taken


def test_two_searches_do_not_run_in_one_folder(journal: Journal, path: Path) -> None:
    with (
        journal.held(),
        pytest.raises(JournalError, match="another process runs the search"),
        Journal(path, SETTINGS).held(),
    ):
        pass
    with Journal(path, SETTINGS).held():  # the lock went with its holder
        pass


def test_deaths_are_counted(journal: Journal) -> None:
    journal.add(job(1))
    for n in (1, 2, 3):
        journal.take(["candidates"])
        assert journal.died(1) == n


def test_other_settings_and_other_files_are_refused(journal: Journal, path: Path, tmp_path: Path) -> None:
    with pytest.raises(JournalError, match="random_state=0, not 1: give the same value, or another folder"):
        Journal(path, {"random_state": 1})
    other = tmp_path / "notes.txt"
    other.write_text("no database at all, but long enough to be looked at as one" * 20)
    with pytest.raises(JournalError, match="is no journal"):
        Journal(other, SETTINGS)


def test_others_can_look_while_a_search_runs(journal: Journal, path: Path, tmp_path: Path) -> None:
    journal.add(job(1))
    journal.add(job(2))
    with journal.held():
        taken = journal.take(["candidates"])
        seen = snapshot(path)
        assert seen.models == journal.models()
        assert seen.running == {taken.number: taken}
        journal.fail(2, "no")
        assert snapshot(path).failures == journal.failures()
    assert snapshot(tmp_path / "none.sqlite") == Snapshot()
    assert not (tmp_path / "none.sqlite").exists()  # looking makes nothing
