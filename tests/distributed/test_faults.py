"""What a cluster can lose: the driver, memory, objects. A fit goes on, or ends in one sentence with nothing half-written."""

import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import anytime as at
from anytime.distributed import WorkersLostError
from anytime.spreading import side_by_side

pytestmark = pytest.mark.ray

DRIVER = """
import sys, numpy as np, anytime as at
from anytime.distributed import checkpoints
checkpoints._SECONDS_BETWEEN = 0.0
random = np.random.default_rng(0)
X = random.normal(size=(2000, 4))
y = (X[:, 0] * X[:, 1] > 0).astype(int)
model = at.GradientBoostingClassifier(n_estimators=int(sys.argv[3]))
with at.distributed.cluster(sys.argv[1], workers=2, checkpoint=sys.argv[2]) as cluster:
    model.fit(X, y)
model.save(sys.argv[2] + "/together.anytime")
outside = at.GradientBoostingClassifier(n_estimators=int(sys.argv[3])).fit(X, y)
outside.save(sys.argv[2] + "/alone.anytime")
print(len(cluster.reports), "rounds")
"""


def test_a_fit_goes_on_after_kill_9_of_the_program(running, tmp_path):
    arguments = [sys.executable, "-c", DRIVER, running.get_runtime_context().gcs_address, str(tmp_path)]
    with subprocess.Popen([*arguments, "100000"]) as driver:  # rounds that it will not do
        ends = time.monotonic() + 300
        while rounds_kept(tmp_path) < 3 and time.monotonic() < ends:
            time.sleep(0.01)
        os.kill(driver.pid, signal.SIGKILL)
    n_kept = rounds_kept(tmp_path)
    assert n_kept >= 3
    done = subprocess.run(
        [*arguments, str(n_kept + 5)], capture_output=True, text=True, timeout=600, check=True
    )
    assert re.search(r"(\d+) rounds", done.stdout)[1] == "5"
    assert (tmp_path / "together.anytime").read_bytes() == (tmp_path / "alone.anytime").read_bytes()
    assert not [path for path in tmp_path.iterdir() if path.suffix != ".anytime"]


def rounds_kept(folder):
    """The rounds of a checkpoint in a folder; 0 where there is none."""
    for path in folder.glob("*.npz"):
        with np.load(path) as arrays:
            return len(arrays["sizes"])
    return 0


HUNGRY = """
import sys, os, numpy as np, anytime as at
os.environ |= {"RAY_memory_usage_threshold": "0.0001", "RAY_memory_monitor_refresh_ms": "50"}  # any use is too much
X = np.random.default_rng(0).normal(size=(3000, 4))
y = (X[:, 0] > 0).astype(int)
model = at.GradientBoostingClassifier(n_estimators=20).fit(X, y)
with at.distributed.cluster(workers=2, object_store_memory=100_000_000, logging_level="error"):
    for work in (lambda: at.GradientBoostingClassifier().fit(X, y), lambda: at.distributed.predict(model, X, sys.argv[1])):
        try:
            work()
        except at.distributed.WorkersLostError as error:
            print("SAID", error)
"""


def test_out_of_memory_ends_in_one_sentence_with_nothing_half_written(running, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", HUNGRY, str(tmp_path)], capture_output=True, text=True, timeout=600, check=True
    )
    said = [line for line in done.stdout.splitlines() if line.startswith("SAID")]
    assert len(said) == 2, done.stdout + done.stderr
    assert all("a machine ran out of memory: give it fewer workers" in sentence for sentence in said)
    assert not list(tmp_path.iterdir())


def total(rows, item):
    return float(rows.sum()) + item


class Owner:
    """Its objects are lost with it."""

    def own(self):
        import ray

        return [ray.put(np.ones(500_000))]


def test_lost_objects_end_in_one_sentence(running):
    with at.distributed.cluster(workers=2):
        assert side_by_side(total, (np.ones(500_000),), [1]) == [500_001.0]
        owner = running.remote(Owner).remote()
        gone = running.get(owner.own.remote())
        running.kill(owner)
        with pytest.raises(WorkersLostError, match="data in memory were lost") as caught:
            read_until_lost(gone)
    assert "\n" not in str(caught.value)


def read_until_lost(references):
    for _ in range(100):
        side_by_side(got, (references,), [0])
        time.sleep(0.1)


def got(references, item):
    import ray

    return ray.get(references[0])
