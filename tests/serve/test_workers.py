"""Worker processes: killed, told to stop, given new models, while requests come in."""

from __future__ import annotations

import http.client
import json
import os
import signal
import threading
import time
import urllib.error

import pytest

from tests.serve.serving import classifier, regressor, running, table, wait_for

pytestmark = pytest.mark.slow

ROW = {"row": table()[0].to_numpy()[0].tolist()}


class Clients:
    """Threads that ask over kept connections until they are stopped; one that loses its connection opens a new one."""

    def __init__(self, server, number=4):
        self.server, self.stopped = server, threading.Event()
        self.statuses, self.versions, self.lost = [], [], 0
        self.threads = [threading.Thread(target=self.ask, daemon=True) for _ in range(number)]

    def ask(self):
        body = json.dumps(ROW)
        connection = None
        while not self.stopped.is_set():
            try:
                connection = connection or http.client.HTTPConnection(
                    "127.0.0.1", self.server.port, timeout=60
                )
                connection.request("POST", "/predict", body)
                response = connection.getresponse()
                answer = json.load(response)
                self.statuses.append(response.status)
                self.versions.append(answer.get("version"))
            except (OSError, http.client.HTTPException):
                self.lost += 1
                connection = None
            time.sleep(0.002)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.stopped.set()
        for thread in self.threads:
            thread.join(60)


def workers_of(server):
    return server.request("/stats")[1]["workers"]


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    """Two workers that answer, and the file of their model."""
    folder = tmp_path_factory.mktemp("pair")
    with running(folder, "--workers", 2, "--slo-ms", 1000, "--watch", 0.05) as server:
        wait_for(lambda: all(worker["starts"] for worker in workers_of(server)))
        yield server, folder / "patients.anytime"


def versions(server):
    """Versions that answer now, from whichever worker."""
    return {server.request("/predict", ROW)[1]["version"] for _ in range(8)}


def test_a_killed_worker_returns_and_the_others_answer(pair):
    server, _ = pair
    with Clients(server) as clients:
        wait_for(lambda: len(clients.statuses) > 50)
        before = server.request("/stats")[1]
        victim = before["workers"][0]
        os.kill(victim["pid"], signal.SIGKILL)
        at_once = len(clients.statuses)
        wait_for(lambda: len(clients.statuses) > at_once + 50)
        wait_for(lambda: workers_of(server)[0]["starts"] == victim["starts"] + 1)
    stats = server.request("/stats")[1]
    assert set(clients.statuses) == {200}
    assert clients.lost <= 4  # what the killed one held: at most one request of each client
    assert victim["pid"] not in {worker["pid"] for worker in stats["workers"]}
    assert stats["totals"]["deaths"] == before["totals"]["deaths"] + 1
    assert stats["totals"]["requests"] >= before["totals"]["requests"]  # counters never fall
    assert "worker 0 has ended" in {line["message"] for line in server.said()}


def test_models_are_replaced_in_all_workers_without_a_failed_request(pair):
    server, file = pair
    (old,) = versions(server)
    with Clients(server) as clients:
        wait_for(lambda: len(clients.statuses) > 20)
        for seed in range(1, 6):
            classifier(seed=seed).save(file)
            assert server.request("/v2/repository/models/patients/load", {})[0] == 200
            (new,) = versions(server)  # who asks after the load was answered gets the new version
            assert new != old
            old = new
        classifier(seed=6).save(file)  # and where nobody says so, the watch sees it
        wait_for(lambda: len(versions(server)) == 1 and old not in versions(server))
    assert set(clients.statuses) == {200}
    assert clients.lost == 0
    assert len(set(clients.versions)) >= 6
    before = versions(server)
    victim = workers_of(server)[1]
    os.kill(victim["pid"], signal.SIGKILL)
    wait_for(lambda: workers_of(server)[1]["starts"] == victim["starts"] + 1)
    for _ in range(3):  # who comes back has the new version, not the one that all began with
        assert versions(server) == before


def test_a_bad_file_leaves_the_old_model_in_its_place(pair):
    server, file = pair
    classifier().save(file)
    assert server.request("/v2/repository/models/patients/load", {})[0] == 200
    before = versions(server)
    file.write_bytes(b"no model")
    status, answer = server.request("/v2/repository/models/patients/load", {})
    assert status == 400
    assert answer["error"].startswith("patients stays as it was: ")
    wait_for(lambda: "a new version could not be loaded" in {line["message"] for line in server.said()})
    assert versions(server) == before
    wait_for(
        lambda: server.request("/stats")[1]["totals"]["failed_reloads"] >= 3
    )  # the request's, and the watch of both
    regressor().save(file)  # a good one heals it, even of another kind
    wait_for(lambda: isinstance(server.request("/predict", ROW)[1]["predictions"][0], float))
    classifier().save(file)
    wait_for(lambda: versions(server) == before)


def test_a_signal_loads_models_again(pair):
    server, _ = pair
    before = server.request("/stats")[1]["totals"]["reloads"]
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: server.request("/stats")[1]["totals"]["reloads"] == before + 2)


@pytest.mark.parametrize("workers", [1, 2])
def test_what_is_held_is_answered_before_the_end(tmp_path, workers):
    with running(tmp_path, "--workers", workers, "--slo-ms", 0, "--max-rows", 1_000_000) as server:
        rows = table()[0].to_numpy().tolist() * 300
        outcome = []
        asking = threading.Thread(
            target=lambda: outcome.append(server.request("/predict", {"rows": rows}, timeout=60))
        )
        asking.start()
        wait_for(lambda: sum(worker["open"] for worker in workers_of(server)) > 1)  # this look, and the rows
        server.process.send_signal(signal.SIGTERM)
        asking.join(60)
        assert server.process.wait(60) == 0
        status, answer = outcome[0]
        assert status == 200
        assert len(answer["predictions"]) == len(rows)
    with pytest.raises(urllib.error.URLError, match="refused"):
        server.request("/v2/health/live")


def test_workers_do_not_outlive_the_process_that_watches(tmp_path):
    with running(tmp_path, "--workers", 2) as server:
        wait_for(lambda: all(worker["starts"] for worker in workers_of(server)))
        pids = [worker["pid"] for worker in workers_of(server)]
        os.kill(server.process.pid, signal.SIGKILL)
        server.process.wait()
        wait_for(lambda: not any(alive(pid) for pid in pids))


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False
