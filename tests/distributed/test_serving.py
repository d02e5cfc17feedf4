"""Ray Serve: replicas give the answers of one server, and go on answering while models and replicas are replaced."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import httpx
import numpy as np
import pytest

from anytime.serve.settings import Settings
from tests.serve.serving import application as local_server
from tests.serve.serving import ask as ask_locally
from tests.serve.serving import classifier, saved, table, wait_for

pytestmark = pytest.mark.ray
pytest.importorskip("ray.serve", reason='needs Ray Serve: pip install "anytime[ray,serve]"')

from anytime.distributed import serving  # noqa: E402

# ---------------------------------------------------------------------- what replicas know of each other


def counted(replica, requests):
    for _ in range(requests):
        replica.slot(0).request(0.001, late=False)
    return replica


def test_replicas_show_what_all_have_counted():
    boards, first, second = (
        kind(["m"]) for kind in (serving.Boards, serving.ReplicasBoard, serving.ReplicasBoard)
    )
    counted(first, 3).slot(0).begin()
    counted(second, 5).slot(0).begin()
    for name, board in (("a", first), ("b", second), ("a", first)):
        board.take_note(boards.exchange(name, board.own()))
    assert [board.totals().counts["requests"] for board in (first, second)] == [8, 8]
    assert sorted(worker["requests"] for worker in first.snapshot()["workers"]) == [3, 5]
    assert first.recent().counts["requests"] == 0  # what was before is no part of the window
    counted(first, 1)
    assert first.recent().counts["requests"] == 1


@pytest.mark.parametrize("died", [False, True])
def test_counters_of_replicas_that_have_ended_stay(monkeypatch, died):
    boards, first, second = (
        kind(["m"]) for kind in (serving.Boards, serving.ReplicasBoard, serving.ReplicasBoard)
    )
    counted(first, 3).slot(0).begin()
    second.slot(0).begin()
    second.slot(0).waiting(0, 4)
    counted(second, 5).slot(0).ask_reload(0)
    for name, board in (("a", first), ("b", second)):
        board.take_note(boards.exchange(name, board.own()))
    if died:
        later = time.monotonic() + 11
        monkeypatch.setattr(time, "monotonic", lambda: later)
    else:
        counted(second, 1)  # since it was asked last
        boards.leave("b", second.own())
    first.take_note(boards.exchange("a", first.own()))
    snapshot = first.snapshot()
    assert [worker["pid"] for worker in snapshot["workers"]] == [os.getpid()]
    requests = 8 if died else 9
    assert snapshot["totals"] | {"requests": requests, "deaths": int(died), "queue": 0} == snapshot["totals"]
    assert first.reloads_asked(0) == 1
    assert len(first.reloads_seen(0)) == 1  # nobody waits for who has ended
    if died:  # it had only been held up
        boards.exchange("b", second.own())
        first.take_note(boards.exchange("a", first.own()))
        assert first.totals().counts | {"requests": 8, "deaths": 0} == first.totals().counts
        assert len(first.snapshot()["workers"]) == 2


def test_the_load_counts_what_was_given_up(tmp_path, monkeypatch):
    server = serving.ReplicaServer(Settings(saved(tmp_path, patients=classifier()), slo=5.0, watch=None))
    server.load()
    board = server.slot.model(0, [1, 10])
    clock = iter([(100.0, 7.0), (110.0, 12.0)])
    monkeypatch.setattr(server, "_now", lambda: (*next(clock), board_totals(server)))
    server._measured = server._now()
    answer = SimpleNamespace(
        stage=np.array([2, 10]), cost=np.zeros(2), partial=np.array([True, False]), elapsed=0.01, batch=1
    )
    board.answered(answer, 0)
    measured = server.measured()
    assert measured["given_up"] == pytest.approx(8 / 20)
    assert measured["load"] == pytest.approx(0.5 / (1 - 8 / 20))


def board_totals(server):
    return server.board.sum_of(server.board.own())


@pytest.mark.parametrize(("loads", "wanted"), [([0.1, 0.2], 1), ([0.7, 0.7], 2), ([3.0, 3.0], 9), ([], 2)])
def test_there_are_as_many_workers_as_their_load_asks_for(loads, wanted):
    context = SimpleNamespace(
        aggregated_metrics={"load": dict(enumerate(loads))} if loads else None, target_num_replicas=2
    )
    assert int(np.ceil(serving.workers_for_load(context)[0] - 1e-9)) == wanted


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"workers": 0}, "positive"),
        ({"workers": (3, 2)}, "positive"),
        ({"slo": -1}, "slo"),
        ({"models": {}}, "between 1"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, error):
    with pytest.raises(ValueError, match=error):
        serving.application({"models": {"m": "m.anytime"}, **settings})


# ---------------------------------------------------------------------- a cluster that serves


class Served:
    """`anytime serve --ray` in a process of its own."""

    def __init__(self, address, paths, process):
        self.address, self.paths, self.process = address, paths, process

    def request(self, method, path, body=None):
        content = None if body is None else json.dumps(body).encode()
        return httpx.request(method, self.address + path, content=content, timeout=120)

    def stats(self):
        try:
            return self.request("GET", "/stats").raise_for_status().json()
        except httpx.HTTPError as error:  # it went to the replica that was killed: ``wait_for`` asks again
            raise ConnectionError from error

    def pids(self):
        pids = {worker["pid"] for worker in self.stats()["workers"]}
        assert 0 not in pids
        return pids

    def is_settled(self):
        """Whether what was asked before is known to all: whoever answers, it shows the same."""
        shown = [{worker["pid"]: worker["requests"] for worker in self.stats()["workers"]} for _ in range(12)]
        return all(counts == shown[0] for counts in shown)

    def both_pids(self):
        """Of the two replicas, once each knows of the other, and of none that has ended."""
        wait_for(lambda: all(len(self.pids()) == 2 for _ in range(6)))
        return self.pids()


@pytest.fixture(scope="module")
def served(running, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    paths = saved(folder, patients=classifier())
    command = [
        sys.executable,
        "-m",
        "anytime.cli",
        "serve",
        paths["patients"].name,  # workers begin in another folder
        "--ray",
        "--workers",
        "2",
    ]
    command += ["--port", "0", "--slo-ms", "5000", "--watch", "0.2"]
    environment = {**os.environ, "RAY_ADDRESS": running.get_runtime_context().gcs_address}
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, env=environment, cwd=folder
        )
    found = re.search(r"http://[^/]+", process.stdout.readline())
    assert found, (folder / "log").read_text()
    yield Served(found[0], paths, process)
    process.send_signal(signal.SIGTERM)
    assert process.wait(300) == 0
    process.stdout.close()
    from ray import serve

    assert not serve.status().applications
    serve.shutdown()


class Asking:
    """Requests, one after the other in each of two threads, until the block ends; ``failed`` has those that were not answered."""

    def __init__(self, served):
        self.served, self.ends, self.versions, self.failed = served, threading.Event(), [], []

    def __enter__(self):
        self.threads = [threading.Thread(target=self._ask) for _ in range(2)]
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ends.set()
        for thread in self.threads:
            thread.join()

    def _ask(self):
        body = json.dumps({"row": [0.5, 1.0, -0.5, 0.25, 2.0]}).encode()
        with httpx.Client(base_url=self.served.address, timeout=120) as client:
            while not self.ends.is_set():
                try:
                    answer = client.post("/predict", content=body)
                    if answer.status_code == 200:
                        self.versions.append(answer.json()["version"])
                    else:
                        self.failed.append(answer.text)
                except httpx.HTTPError as error:
                    self.failed.append(repr(error))


def test_answers_are_those_of_one_server(served, tmp_path):
    X, _ = table()
    row = X.iloc[3].to_dict()
    tensor = {
        "inputs": [
            {"name": "X", "datatype": "FP64", "shape": [2, 5], "data": X.iloc[:2].to_numpy().ravel().tolist()}
        ]
    }
    requests = [
        ("POST", "/predict", {"row": row, "probabilities": True}),
        ("POST", "/predict", {"rows": X.iloc[:4].to_numpy().tolist(), "budget": 6}),
        ("POST", "/predict", {"row": [1, 2, "three"]}),
        ("POST", "/v2/models/patients/infer", tensor),
        ("GET", "/v2/models/patients", None),
        ("GET", "/v2/health/ready", None),
        ("POST", "/next", {"row": row, "bought": [], "budget": 30}),
        ("GET", "/nothing", None),
        ("GET", "/", None),
    ]
    expected = ask_locally(local_server(tmp_path), *requests)
    for request, answer in zip(requests, expected, strict=True):
        found = served.request(*request)
        assert found.status_code == answer.status_code, request
        assert without_times(found) == without_times(answer), request


def without_times(answer):
    if not answer.headers["content-type"].startswith("application/json"):
        return answer.text
    body = answer.json()
    body.pop("elapsed_ms", None)
    if "outputs" in body:
        body["outputs"] = [output for output in body["outputs"] if output["name"] != "elapsed"]
    return body


def test_each_replica_shows_the_requests_of_all(served):
    wait_for(lambda: served.is_settled())
    before = served.stats()["totals"]["requests"]
    for _ in range(20):
        assert served.request("POST", "/predict", {"row": [0.5, 1.0, -0.5, 0.25, 2.0]}).status_code == 200
    wait_for(lambda: all(served.stats()["totals"]["requests"] == before + 20 for _ in range(6)))
    stats = served.stats()
    assert len(stats["workers"]) == 2
    assert all(worker["requests"] for worker in stats["workers"])
    assert "anytime_workers 2.0" in served.request("GET", "/metrics").text


def test_a_new_file_is_taken_into_service_by_all_without_a_failed_request(served):
    old = served.request("GET", "/v2/models/patients").json()["versions"]
    with Asking(served) as asking:
        beside = served.paths["patients"].with_suffix(".new")
        classifier(trees=10, seed=1).save(beside)
        os.replace(beside, served.paths["patients"])
        answer = served.request("POST", "/v2/repository/models/patients/load", {})
        assert answer.status_code == 200, answer.text
        wait_for(lambda: len(asking.versions) > 10)
        new = served.request("GET", "/v2/models/patients").json()["versions"][-1]
        seen = len(asking.versions)
        wait_for(lambda: len(asking.versions) > seen + 20)
    assert not asking.failed
    assert new not in old
    assert set(asking.versions[seen + 2 :]) == {
        new
    }  # of all replicas: the load had been asked for, and waited until all had it


def test_a_replica_that_is_killed_is_replaced(served):
    victim = min(served.both_pids())
    with Asking(served) as asking:
        wait_for(lambda: len(asking.versions) > 5)
        os.kill(victim, signal.SIGKILL)
        wait_for(lambda: victim not in served.pids() and len(served.pids()) == 2)
    assert len(asking.failed) <= 2, asking.failed  # each of two threads had at most one with it
    wait_for(lambda: served.stats()["totals"]["deaths"] == 1)


def test_more_workers_than_processors_are_refused(running, tmp_path):
    with pytest.raises(ValueError, match="5 workers need as many processors, and the cluster has 4"):
        serving.serve({"m": tmp_path / "m.anytime"}, workers=5)


def test_ray_that_is_started_to_serve_gives_workers_the_priority_of_other_processes(monkeypatch):
    import ray

    name, started = "RAY_worker_niceness", []
    monkeypatch.setenv(name, "15")
    monkeypatch.delenv(name)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.setattr(ray, "init", lambda **_: started.append(os.environ[name]) or 1 / 0)
    with pytest.raises(ZeroDivisionError):
        serving.serve({"m": "m.anytime"})
    assert started == ["0"]


@pytest.mark.parametrize("other", [{"port": 1}, {"host": "0.0.0.0"}])
def test_an_address_that_is_not_that_of_ray_serve_is_refused(served, other):
    from ray import serve

    def deployed_at():
        return serve.status().applications[serving.APPLICATION].last_deployed_time_s

    before = deployed_at()
    own = {"port": int(served.address.rsplit(":", 1)[1])}
    with pytest.raises(RuntimeError, match=r"listens at 127.0.0.1, port \d+, not at"):
        serving.serve(served.paths, **(own | other))
    assert deployed_at() == before


def test_workers_are_replaced_one_by_one_without_a_failed_request(served):
    old = served.both_pids()
    port = int(served.address.rsplit(":", 1)[1])
    with Asking(served) as asking:
        address = serving.serve(served.paths, workers=2, slo=4.0, port=port)
        wait_for(lambda: len(served.pids() - old) == 2 and not served.pids() & old)
        done = len(asking.versions)
        wait_for(lambda: len(asking.versions) > done + 10)
    assert address == served.address
    assert not asking.failed
    assert served.stats()["slo_ms"] == 4000
