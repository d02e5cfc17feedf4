"""The load generator, against a server of a few lines."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest

from anytime_research.serve.load import arrival_times, bodies_of, fire, main, report
from anytime_research.serve.sending import _parsed

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


class Answering(asyncio.Protocol):
    """Answers each request with what ``said(body, number)`` gives; b"" closes the connection."""

    def __init__(self, said: Callable[[bytes, int], bytes], count: list[int]) -> None:
        self.said, self.count, self.buffer = said, count, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (end := self.buffer.find(b"\r\n\r\n")) >= 0:
            length = int(self.buffer[:end].lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            if len(self.buffer) < end + 4 + length:
                return
            body, self.buffer = self.buffer[end + 4 : end + 4 + length], self.buffer[end + 4 + length :]
            self.count[0] += 1
            answer = self.said(body, self.count[0])
            if not answer:
                self.transport.abort()  # type: ignore[attr-defined]
                return
            self.transport.write(answer)  # type: ignore[attr-defined]


@contextmanager
def server(said: Callable[[bytes, int], bytes] = lambda body, number: OK) -> Iterator[str]:
    """A server in a thread; its address."""
    loop = asyncio.new_event_loop()
    count = [0]
    listening = loop.run_until_complete(
        loop.create_server(lambda: Answering(said, count), "127.0.0.1", 0, backlog=512)
    )
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/predict"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        listening.close()
        loop.close()


def test_arrivals_are_a_poisson_process_of_the_rate() -> None:
    times = arrival_times(1000, 20)
    gaps = np.diff(times)
    assert abs(times.size - 20_000) < 5 * np.sqrt(20_000)
    assert np.all(gaps >= 0)
    assert np.mean(gaps > 1e-3) == pytest.approx(np.exp(-1), abs=0.02)  # exponential gaps, not regular ones
    fixed = arrival_times(4, 2, fixed=True)
    np.testing.assert_array_equal(fixed, np.arange(8) / 4)
    with pytest.raises(ValueError, match="above 0"):
        arrival_times(0, 1)


def test_all_requests_are_sent_and_answered() -> None:
    seen: list[bytes] = []

    def said(body: bytes, number: int) -> bytes:
        seen.append(body)
        return OK

    with server(said) as url:
        log = fire(url, arrival_times(400, 0.5, fixed=True), [b"a", b"bb", b"ccc"])
    assert log.answered.all()
    assert log.errors == {}
    assert log.first_error is None
    assert sorted(seen) == sorted([b"a", b"bb", b"ccc"][i % 3] for i in range(200))
    assert log.replies == [b"{}"] * 200
    assert 0.4 < log.seconds < 2


def test_latency_counts_from_the_arrival_so_that_a_stall_is_not_hidden() -> None:
    """A stall of 0.3 s at the 21st request: all that were due meanwhile have waited, a closed loop sees one late answer."""

    def said(body: bytes, number: int) -> bytes:
        if number == 21:
            time.sleep(0.3)
        return OK

    with server(said) as url:
        log = fire(url, np.arange(60) / 100, [b"x"], connections=1)
    assert log.answered.all()
    expected = np.clip(0.3 - np.arange(30) / 100, 0, None)  # request 20 + k left k/100 s into the stall
    assert np.all(log.latency[20:50] >= expected - 0.01)
    assert np.mean(log.latency > 0.05) > 0.3  # a closed loop would have seen one late answer of 60
    assert log.latency[:20].max() < 0.25


def test_errors_are_counted_by_kind() -> None:
    def said(body: bytes, number: int) -> bytes:
        if body == b"bad":
            return b"HTTP/1.1 400 Bad Request\r\nContent-Length: 11\r\n\r\nno such row"
        if body == b"die":
            return b""
        return OK

    with server(said) as url:
        log = fire(url, np.arange(40) / 400, [b"good", b"bad", b"die", b"good"])
    assert log.errors == {"400": 10, "closed": 10}
    assert np.isinf(log.latency[2])
    told = report(log, slo=1.0)
    assert told["answered"] == 20
    assert told["first_error"] == log.first_error == "request 1: HTTP 400: no such row"
    assert told["within_slo"] == 0.5  # a failed request is not within
    assert told["p99_ms"] is None  # nor does it vanish from percentiles


def test_a_server_that_is_not_there_refuses() -> None:
    with server() as url:
        pass
    log = fire(url, np.arange(5) / 100, [b"x"], patience=0.5)
    assert log.errors == {"refused": 5}
    assert log.first_error == "request 0: refused"


def test_requests_without_an_answer_are_given_up() -> None:
    with server(lambda body, number: OK if number <= 3 else b"HTTP/1.1 200 OK\r\n") as url:
        log = fire(url, np.arange(6) / 100, [b"x"], patience=0.2)
    assert log.errors == {"unanswered": 3}


def test_large_bodies_and_answers_arrive_whole() -> None:
    text = b"y" * 3_000_000
    head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(text)
    with server(lambda body, number: head + body) as url:
        log = fire(url, np.arange(4) / 50, [text])
    assert log.replies == [text] * 4


@pytest.mark.parametrize("cut", [10, 40, 70, 90])
def test_answers_in_chunks_and_pieces(cut: int) -> None:
    whole = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n4;x=1\r\ndefg\r\n0\r\n\r\n"
    assert _parsed(whole) == (200, b"abcdefg", False)
    assert _parsed(whole[:cut]) is None or cut >= len(whole)
    closing = b"HTTP/1.1 503 Busy\r\nConnection: close\r\nContent-Length: 1\r\n\r\n!"
    assert _parsed(closing) == (503, b"!", True)
    assert _parsed(closing[:-1]) is None


def test_a_connection_that_the_server_ends_is_replaced() -> None:
    with server(lambda body, number: OK.replace(b"OK\r\n", b"OK\r\nConnection: close\r\n")) as url:
        log = fire(url, np.arange(50) / 500, [b"x"])
    assert log.errors == {}


def test_bodies_of_both_protocols() -> None:
    plain = bodies_of(np.array([[1.0, np.nan]]), "/predict", budget=3, confidence=None)
    assert json.loads(plain[0]) == {"rows": [[1.0, None]], "budget": 3}
    table = pd.DataFrame({"age": [3], "sex": ["f"]})
    assert json.loads(bodies_of(table)[0]) == {"rows": [{"age": 3, "sex": "f"}]}
    asked = json.loads(bodies_of(np.array([[1.0, 2.0]]), "/v2/models/m/infer", deadline_ms=5)[0])
    assert asked["inputs"] == [{"name": "X", "datatype": "FP64", "shape": [1, 2], "data": [1.0, 2.0]}]
    assert asked["parameters"] == {"deadline_ms": 5}
    words = json.loads(bodies_of(table, "/v2/models/m/infer")[0])["inputs"]
    assert [(t["name"], t["datatype"]) for t in words] == [("age", "FP64"), ("sex", "BYTES")]


def test_bodies_of_several_rows() -> None:
    X = np.arange(10.0).reshape(5, 2)
    first, second = map(json.loads, bodies_of(X, per_request=2))
    assert (first, second) == ({"rows": [[0, 1], [2, 3]]}, {"rows": [[4, 5], [6, 7]]})
    tensor = json.loads(bodies_of(X, "/v2/models/m/infer", per_request=2)[1])["inputs"][0]
    assert (tensor["shape"], tensor["data"]) == ([2, 2], [4, 5, 6, 7])

    def said(body: bytes, number: int) -> bytes:
        text = json.dumps({"predictions": [row[0] for row in json.loads(body)["rows"]]}).encode()
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text

    with server(said) as url:
        log = fire(url, np.arange(6) / 100, bodies_of(X, per_request=2))
    assert report(log, labels=[0, 2, 4, 7, 8])["accuracy"] == 0.75  # 6 is not 7


def test_report_reads_both_protocols() -> None:
    oip = {
        "outputs": [
            {"name": "prediction", "data": [1]},
            {"name": "stage", "data": [4]},
            {"name": "cost", "data": [2.5]},
        ]
    }
    plain = {"predictions": ["1"], "stage": [0], "cost": [0.5], "partial": [True]}

    def said(body: bytes, number: int) -> bytes:
        text = json.dumps(oip if body == b"a" else plain).encode()
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text

    with server(said) as url:
        log = fire(url, np.arange(10) / 100, [b"a", b"b"])
    told = report(log, slo=10, labels=[1, 0])
    assert told["mean_stage"] == 2
    assert told["base_share"] == 0.5
    assert told["mean_cost"] == 1.5
    assert told["mean_partial"] == 1
    assert told["accuracy"] == 0.5
    assert told["within_slo"] == 1


def test_command_line(capsys: pytest.CaptureFixture[str], tmp_path: object) -> None:
    data = f"{tmp_path}/rows.csv"
    pd.DataFrame({"a": [1.0, 2.0], "label": [0, 0]}).to_csv(data, index=False)
    answer = b'{"predictions": [0]}'
    said = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(answer) + answer
    with server(lambda body, number: said) as url:
        options = [
            "--rate",
            "100",
            "--seconds",
            "0.3",
            "--data",
            data,
            "--target",
            "label",
            "--slo-ms",
            "500",
        ]
        main([url.removesuffix("/predict"), *options, "--json"])
    told = json.loads(capsys.readouterr().out)
    assert told["accuracy"] == 1
    assert told["answered"] == told["sent"] > 10
    with pytest.raises(ValueError, match="http://"):
        fire("https://host/predict", [0.0], [b"x"])
