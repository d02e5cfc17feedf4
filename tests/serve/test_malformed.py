"""Requests that no client sends, over real sockets to a real process: ``benchmarks/fuzz_http.py`` sends 200,000."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import fuzz_http as fuzz
from _fuzz_requests import VALID, VALID_TENSORS, Requests


def test_a_case_is_the_same_bytes_every_time():
    assert [Requests(3).make(i) for i in range(50)] == [Requests(3).make(i) for i in range(50)]
    assert Requests(3).make(0) != Requests(4).make(0)


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, {"error": "the request failed; request 1 in the log"}),
        (503, {"error": "not ready yet, come again"}),
        (400, {"detail": "not the sentence of a refusal"}),
        (400, {"error": "short"}),
        (404, {"error": "two lines\nare no sentence"}),
    ],
)
def test_answers_that_no_request_may_get_are_failures(status, body):
    with pytest.raises(fuzz.BrokenPromiseError):
        fuzz.judge(status, json.dumps(body).encode(), is_whole=True)


def test_malformed_requests_are_answered_refused_or_left(tmp_path):
    options = fuzz.parsed(["--cases", "400", "--seed", "5", "--keep", str(tmp_path), "--time-limit", "60"])
    figures = fuzz.run(options)
    assert figures["failures"] == 0, figures
    assert figures["cases"] == 400
    assert all(counts["refused"] for counts in figures["outcomes"].values())
    assert all(counts["answered"] for kind, counts in figures["outcomes"].items() if kind != "bytes")


def test_requests_are_right_before_they_are_spoilt(tmp_path):
    async def statuses(port):
        client = fuzz.Client(port)
        return [(await client.ask(request.bytes(), is_whole=True))[1] for request in VALID + VALID_TENSORS]

    with fuzz.served(tmp_path) as server:
        found = asyncio.run(statuses(server.port))
        assert server.exceptions() == []
    assert found == [200] * len(VALID + VALID_TENSORS)
