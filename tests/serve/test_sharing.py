"""One copy of the trees for all workers."""

from __future__ import annotations

import copy
import os
import signal
import tempfile
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
    folder = forests.folder
    yield forests
    forests.close()
    assert not folder.exists()


def large():
    return copy.deepcopy(classifier(300))


def mapped(pid, folder):
    """Files of a folder that a process has mapped: their names and inodes."""
    lines = [
        line.split() for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if str(folder) in line
    ]
    return {(Path(line[5]).name, int(line[4])) for line in lines if line[-1] != "(deleted)"}


def test_models_of_one_version_lie_in_one_file_and_answer_as_before(shared):
    X, models = table()[0], [large(), large()]
    before = models[0].predict_proba(X)
    for model in models:
        shared.adopt(model, "abc")
        assert_array_equal(model.predict_proba(X), before)
        assert_array_equal(
            model.truncate(budget=0.5).predict_proba(X), large().truncate(budget=0.5).predict_proba(X)
        )
    assert [path.name for path in shared.folder.iterdir()] == ["abc"]
    assert mapped(os.getpid(), shared.folder) == {("abc", (shared.folder / "abc").stat().st_ino)}
    assert shared.folder.stat().st_mode & 0o077 == 0
    assert not os.access(shared.folder / "abc", os.X_OK)


def test_a_file_that_is_gone_is_no_loss(shared):
    X, model = table()[0], large()
    before = model.predict_proba(X)
    shared.adopt(model, "abc")
    (shared.folder / "abc").unlink()
    assert_array_equal(model.predict_proba(X), before)
    shared.adopt(large(), "abc")
    assert (shared.folder / "abc").exists()


def test_small_models_need_no_file(shared):
    shared.adopt(copy.deepcopy(classifier(3)), "abc")
    assert not list(shared.folder.iterdir())


@pytest.mark.parametrize("what", ["link", "fdopen"])
def test_without_room_models_stay_where_they_are(shared, monkeypatch, what):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    model = large()
    forest = model.plan_.blocks[0].forest
    monkeypatch.setattr(os, what, full)
    shared.adopt(model, "abc")
    assert model.plan_.blocks[0].forest is forest
    assert not list(shared.folder.iterdir())


def test_without_a_folder_too(shared, monkeypatch):
    model, small = large(), copy.deepcopy(classifier(3))
    forest = model.plan_.blocks[0].forest
    shared.folder.rmdir()
    for one in (model, small):
        shared.adopt(one, "abc")
    assert model.plan_.blocks[0].forest is forest
    shared.folder.mkdir()
    monkeypatch.setattr(tempfile, "mkdtemp", lambda **_: os.mkdir("/nowhere/at/all"))
    nowhere = SharedForests()
    nowhere.adopt(model, "abc")
    nowhere.close()
    assert model.plan_.blocks[0].forest is forest


def test_a_file_of_another_model_is_not_taken(shared, caplog):
    shared.adopt(large(), "abc")
    model = copy.deepcopy(classifier(299))
    forest = model.plan_.blocks[0].forest
    shared.adopt(model, "abc")
    assert model.plan_.blocks[0].forest is forest
    assert "not shared" in caplog.text
    (shared.folder / "abc").write_bytes(b"nothing")
    shared.adopt(model, "abc")
    assert model.plan_.blocks[0].forest is forest


def test_who_writes_first_writes_for_all(shared, monkeypatch):
    """Two workers begin at once: the second finds that there is a file, and maps that."""
    link, inodes = os.link, []

    def linked(own, path):
        if not inodes:  # the other one is quicker by a moment
            inodes.append(0)
            shared.adopt(large(), "abc")
            inodes[0] = path.stat().st_ino
        link(own, path)

    monkeypatch.setattr(os, "link", linked)
    model = large()
    shared.adopt(model, "abc")
    assert (shared.folder / "abc").stat().st_ino == inodes[0]
    assert [path.name for path in shared.folder.iterdir()] == ["abc"]
    assert_array_equal(model.predict_proba(table()[0]), large().predict_proba(table()[0]))


def test_old_versions_go_after_a_while(shared):
    shared.adopt(large(), "old")
    shared.adopt(large(), "new")
    assert {path.name for path in shared.folder.iterdir()} == {"old", "new"}
    os.utime(shared.folder / "old", (0, 0))
    shared.adopt(large(), "new", ["old"])
    assert {path.name for path in shared.folder.iterdir()} == {"old", "new"}
    shared.adopt(large(), "new")
    assert {path.name for path in shared.folder.iterdir()} == {"new"}


def test_what_a_dead_process_left_is_removed_and_nothing_else(shared, tmp_path):
    left, fresh, other = (
        tmp_path / name for name in ("anytime-forests-x", "anytime-forests-y", "anytime-notes")
    )
    for folder in (left, fresh, other):
        folder.mkdir()
    (left / "abc").write_bytes(b"trees")
    (tmp_path / "anytime-forests-z").symlink_to(other)
    for folder in (left, other, shared.folder):  # of which the last is held
        os.utime(folder, (0, 0))
    SharedForests().close()
    assert not left.exists()
    assert all(folder.exists() for folder in (fresh, other, shared.folder, tmp_path / "anytime-forests-z"))


def test_nothing_is_thawed_twice(shared):
    """A model that comes from one file may be shared under another name."""
    model = large()
    shared.adopt(model, "one")
    shared.adopt(model, "two")
    assert isinstance(model.plan_.blocks[0].forest, Forest)
    assert {path.name for path in shared.folder.iterdir()} == {"one", "two"}


@pytest.mark.slow
def test_workers_share_the_first_version_and_the_next(tmp_path):
    X, _ = table()
    with running(
        tmp_path, "--workers", 2, "--slo-ms", 1000, "--watch", 0, models={"patients": large()}
    ) as server:
        wait_for(lambda: all(worker["starts"] for worker in server.request("/stats")[1]["workers"]))

        def files():
            pids = [worker["pid"] for worker in server.request("/stats")[1]["workers"]]
            return [mapped(pid, "/anytime-forests-") for pid in pids]

        first, seen = files(), set()
        assert len(first) == 2
        assert first[0] == first[1] != set()
        (folder,) = {Path(line.split()[5]).parent for line in maps_of(server.process.pid)}
        for trees in (299, 298):  # asked for by one worker, then by a signal to all at once
            new = classifier(trees)
            saved(tmp_path, patients=new)
            if trees == 299:
                assert server.request("/v2/repository/models/patients/load", {})[0] == 200
            else:
                server.process.send_signal(signal.SIGHUP)
            seen.update(first[0])
            wait_for(lambda: files()[0] == files()[1] and files()[0] and not files()[0] & seen)
            first = files()
            answer = server.request("/predict", {"rows": X.to_numpy().tolist()})[1]
            assert answer["predictions"] == new.predict(X).tolist()
    assert not folder.exists()


def maps_of(pid):
    return [
        line for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if "/anytime-forests-" in line
    ]
