"""Predictions on a cluster are those of one process, each row once."""

import os
import signal
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import anytime as at

pytest.importorskip("pyarrow", reason="needs pyarrow")
pytestmark = pytest.mark.ray
COSTS = at.FeatureCosts({"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0, "e": 5.0, "f": 6.0})


@pytest.fixture(scope="module")
def rows(table, tmp_path_factory):
    """A model, a table and a folder with the same table in files."""
    X, _, three, _ = table
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = at.GradientBoostingClassifier(costs=COSTS, n_estimators=20).fit(
        frame, np.array(["x", "y", "z"])[three]
    )
    folder = tmp_path_factory.mktemp("rows")
    keyed = frame.assign(key=np.arange(len(frame)))
    for number, part in enumerate(np.array_split(np.arange(len(frame)), 6)):
        keyed.iloc[part].to_parquet(folder / f"{number}.parquet", row_group_size=200)
    return model, frame, folder


def written(folder):
    return pd.concat([pd.read_parquet(path) for path in sorted(Path(folder).glob("*.parquet"))])


def assert_right(answers, model, frame, budget):
    assert list(answers["key"]) == list(range(len(frame)))
    assert list(answers["prediction"]) == list(model.predict(frame, budget=budget))
    np.testing.assert_array_equal(answers["cost"], model.cost(frame, budget=budget))


@pytest.mark.parametrize("budget", [None, 6.0, 0.0])
def test_answers_and_costs_are_those_of_one_process(running, rows, tmp_path, budget):
    model, frame, folder = rows
    done = at.distributed.predict(
        model, folder, tmp_path / "out", budget=budget, keep=["key"], probabilities=True
    )
    answers = written(tmp_path / "out")
    assert_right(answers, model, frame, budget)
    shares = answers[[f"probability_{label}" for label in "xyz"]].to_numpy()
    np.testing.assert_array_equal(shares, model.predict_proba(frame, budget=budget))
    assert done.n_rows == len(frame)
    assert done.mean_cost == pytest.approx(answers["cost"].mean())
    assert [path.name for path in done.files] == [path.name for path in sorted(done.folder.glob("*.parquet"))]


def test_rows_in_memory_and_data_sets_are_answered_too(running, rows, tmp_path):
    import ray.data

    model, frame, folder = rows
    for number, data in enumerate([frame, ray.data.read_parquet(str(folder))]):
        done = at.distributed.predict(model, data, tmp_path / str(number), budget=6.0)
        assert done.n_rows == len(frame)
        answers = written(done.folder)
        assert sorted(answers["prediction"]) == sorted(model.predict(frame, budget=6.0))


def descendants():
    """Processes below this one, with what they call themselves."""
    parent, title = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                status = (entry / "stat").read_text()
                title[int(entry.name)] = (entry / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            parent[int(entry.name)] = int(status.rpartition(")")[2].split()[1])
    found = {os.getpid()}
    for _ in range(6):
        found |= {pid for pid, above in parent.items() if above in found}
    return {pid: title[pid] for pid in found if pid in title}


@pytest.mark.skipif(not Path("/proc").exists(), reason="finds the processes of tasks in /proc")
def test_rows_are_there_once_however_often_workers_die(running, rows, tmp_path):
    model, frame, folder = rows
    killed, over = [], threading.Event()

    def kill():
        random = np.random.default_rng(0)
        while not over.is_set() and len(killed) < 5:
            busy = [pid for pid, title in descendants().items() if title.startswith("ray::_predict_block")]
            if busy:
                os.kill(int(random.choice(busy)), signal.SIGKILL)
                killed.append(busy)
            time.sleep(0.01)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        for turn in map(str, range(20)):
            at.distributed.predict(model, folder, tmp_path / turn, budget=6.0, keep=["key"])
            assert_right(written(tmp_path / turn), model, frame, 6.0)
            assert not list((tmp_path / turn).glob(".*"))
            if killed:  # work may be done before the killer looks
                break
    finally:
        over.set()
        killer.join()
    assert killed


def test_a_folder_with_files_and_data_without_a_column_are_refused(running, rows, tmp_path):
    model, _, folder = rows
    with pytest.raises(ValueError, match="not empty"):
        at.distributed.predict(model, folder, folder)
    frame = pd.DataFrame({"a": [1.0]})
    frame.to_parquet(tmp_path / "a.parquet")
    with pytest.raises(ValueError, match="reads column 'b'"):
        at.distributed.predict(model, tmp_path / "a.parquet", tmp_path / "out")


def test_names_of_the_answers_cannot_be_kept(running, rows, tmp_path):
    model, _, folder = rows
    with pytest.raises(ValueError, match="keep has 'cost'"):
        at.distributed.predict(model, folder, tmp_path / "out", keep=["cost"])
    assert not (tmp_path / "out").exists()


def test_a_call_that_fails_leaves_no_files(running, rows, tmp_path):
    model, frame, _ = rows
    for number in range(3):
        frame[:50].assign(a="word" if number == 2 else 1.0).to_parquet(tmp_path / f"{number}.parquet")
    with pytest.raises(ValueError, match="word"):
        at.distributed.predict(model, sorted(tmp_path.glob("*.parquet")), tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())


def test_a_task_that_is_late_writes_nothing(running, rows, tmp_path):
    """The hidden folder of the call is gone, or its machine never saw it: rows without a file must not count as answered."""
    from anytime.distributed import prediction

    model, frame, _ = rows
    gone = tmp_path / ".writing-gone"
    job = prediction._Job(prediction._shared(model), None, None, False, (), str(gone))
    block, path = next(iter(prediction._blocks(model, frame, ()))), tmp_path / "part-000000.parquet"
    with pytest.raises(FileNotFoundError, match="a folder that all machines see"):
        prediction._predict_block(job, block, str(path))
    with pytest.raises(FileNotFoundError):
        prediction._put_in_place(gone, path, b"late")
    assert not path.exists()
    gone.mkdir()  # the negative control: with the folder, the same task writes
    assert prediction._predict_block(job, block, str(path))[0] == len(frame)
    assert path.exists()


def test_blocks_without_rows_write_no_file(running, rows, tmp_path):
    import pyarrow as pa
    import ray.data

    model, frame, _ = rows
    some = pa.Table.from_pandas(frame[:50])
    data = ray.data.from_arrow([some[:0], some, some[:0]])
    done = at.distributed.predict(model, data, tmp_path / "out")
    assert (done.n_rows, len(done.files)) == (50, 1)
