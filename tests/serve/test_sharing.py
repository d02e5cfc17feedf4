"""One copy of the trees for all workers."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from pathlib import Path

import pytest
from numpy.testing import assert_array_equal

from anytime._native import Forest
from anytime.serve import sharing
from anytime.serve.sharing import SharedForests
from tests.serve.serving import classifier, running, saved, table, wait_for


@pytest.fixture
def shared(tmp_path, monkeypatch):
    monkeypatch.setattr(sharing, "_IN_MEMORY", tmp_path)
    forests = SharedForests()
    yield forests
    forests.close()
    assert not forests.folder.exists()


def large():
    return copy.deepcopy(classifier(300))


def mapped(pid, folder):
    """Files of a folder that a process has mapped."""
    lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return {Path(line.split()[5]).name for line in lines if str(folder) in line}


def test_models_of_one_version_lie_in_one_file_and_answer_as_before(shared):
    X, models = table()[0], [large(), large()]
    before = models[0].predict_proba(X)
    for model in models:
        shared.adopt(model, "abc")
        assert_array_equal(model.predict_proba(X), before)
        assert_array_equal(
            model.truncate(budget=0.5).predict_proba(X), large().truncate(budget=0.5).predict_proba(X)
        )
    assert [path.name for path in shared.folder.iterdir()] == ["abc-0"]
    assert mapped(os.getpid(), shared.folder) == {"abc-0"}
    assert shared.folder.stat().st_mode & 0o077 == 0
    assert not os.access(shared.folder / "abc-0", os.X_OK)


def test_a_file_that_is_gone_is_no_loss(shared):
    X, model = table()[0], large()
    before = model.predict_proba(X)
    shared.adopt(model, "abc")
    (shared.folder / "abc-0").unlink()
    assert_array_equal(model.predict_proba(X), before)
    shared.adopt(large(), "abc")
    assert (shared.folder / "abc-0").exists()


def test_small_models_need_no_file(shared):
    shared.adopt(copy.deepcopy(classifier(3)), "abc")
    assert not list(shared.folder.iterdir())


def test_without_room_models_stay_where_they_are(shared, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    model = large()
    forest = model.plan_.blocks[0].forest
    monkeypatch.setattr(os, "posix_fallocate", full)
    shared.adopt(model, "abc")
    assert model.plan_.blocks[0].forest is forest
    assert not list(shared.folder.iterdir())


def test_old_versions_go_after_a_while(shared):
    shared.adopt(large(), "old")
    shared.adopt(large(), "new")
    assert {path.name for path in shared.folder.iterdir()} == {"old-0", "new-0"}
    os.utime(shared.folder / "old-0", (0, 0))
    shared.adopt(large(), "new")
    assert {path.name for path in shared.folder.iterdir()} == {"new-0"}


def test_what_a_dead_process_left_is_removed_and_nothing_else(shared, tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    left, others = (
        tmp_path / f"anytime-{ended.pid}-x",
        [tmp_path / "anytime-notes-2", tmp_path / "anytime-1-x"],
    )
    for folder in (left, *others):
        folder.mkdir()
    SharedForests().close()
    assert not left.exists()
    assert all(folder.exists() for folder in (*others, shared.folder))


def test_nothing_is_thawed_twice(shared):
    """A model that comes from one file may be shared under another name."""
    model = large()
    shared.adopt(model, "one")
    shared.adopt(model, "two")
    assert isinstance(model.plan_.blocks[0].forest, Forest)
    assert {path.name for path in shared.folder.iterdir()} == {"one-0", "two-0"}


@pytest.mark.slow
def test_workers_share_the_first_version_and_the_next(tmp_path):
    X, _ = table()
    with running(
        tmp_path, "--workers", 2, "--slo-ms", 1000, "--watch", 0, models={"patients": large()}
    ) as server:
        wait_for(lambda: all(worker["starts"] for worker in server.request("/stats")[1]["workers"]))

        def files():
            pids = [worker["pid"] for worker in server.request("/stats")[1]["workers"]]
            return [mapped(pid, f"/anytime-{server.process.pid}-") for pid in pids]

        first = files()
        assert len(first) == 2
        assert first[0] == first[1] != set()
        second = classifier(299)
        saved(tmp_path, patients=second)
        assert server.request("/v2/repository/models/patients/load", {})[0] == 200
        wait_for(lambda: files()[0] == files()[1] and not files()[0] & first[0])
        answer = server.request("/predict", {"rows": X.to_numpy().tolist()})[1]
        assert answer["predictions"] == second.predict(X).tolist()
    assert not list(sharing._IN_MEMORY.glob(f"anytime-{server.process.pid}-*"))
