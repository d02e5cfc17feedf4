"""Logs are lines of JSON, and spans come only where somebody collects them."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

import pytest

from anytime.serve.logs import configure, logger
from tests.serve.serving import application, post, table


@pytest.fixture
def quiet():
    """Loggers as they were."""
    names = ("anytime.serve", "uvicorn.error")
    before = {
        name: (log := logging.getLogger(name), log.handlers[:], log.propagate, log.level) for name in names
    }
    yield
    for log, handlers, propagate, level in before.values():
        log.handlers[:], log.propagate = handlers, propagate
        log.setLevel(level)


def test_a_record_is_one_line_of_json(quiet, capsys):
    configure("info", 3)
    logger.info("said", extra={"fields": {"request_id": "a1", "odd": {1: object}}})
    try:
        raise ValueError("two\nlines")
    except ValueError:
        logger.exception("failed")
    logger.debug("not said")
    first, second = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert first | {"level": "info", "message": "said", "worker": 3, "request_id": "a1"} == first
    assert first["time"].endswith("Z")
    assert second["level"] == "error"
    assert "ValueError: two\nlines" in second["traceback"]


def test_requests_are_logged_where_that_is_asked_for(tmp_path, quiet, capsys):
    configure("info", 0)
    server = application(tmp_path, log_requests=True)
    post(server, "/predict", {"row": [0] * 5}, {"X-Request-Id": "one"})
    post(server, "/predict", {}, {"X-Request-Id": "two"})
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    seen = {
        line["request_id"]: (line["path"], line["status"]) for line in lines if line["message"] == "request"
    }
    assert seen == {"one": ("/predict", 200), "two": ("/predict", 400)}


_TRACED = """
import sys
from pathlib import Path
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.serve.serving import application, post

collected = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(collected))
trace.set_tracer_provider(provider)
server = application(Path(sys.argv[1]))
parent = {"traceparent": "00-" + "a" * 32 + "-" + "b" * 16 + "-01", "X-Request-Id": "r1"}
assert post(server, "/predict", {"row": [0] * 5}, parent).status_code == 200
assert post(server, "/predict", {}, parent).status_code == 400
spans = collected.get_finished_spans()  # FastAPI may have some of its own
answered, refused = [span for span in spans if span.instrumentation_scope.name == "anytime.serve"]
assert answered.name == "POST /predict", answered.name
assert format(answered.context.trace_id, "032x") == "a" * 32  # the trace of the client goes on
assert format(answered.parent.span_id, "016x") == "b" * 16
told = dict(answered.attributes)
assert told["http.response.status_code"] == 200, told
assert (told["request_id"], told["anytime.model"], told["anytime.rows"]) == ("r1", "patients", 1), told
assert (told["anytime.stage"], told["anytime.partial"], told["anytime.reason"]) == (20, False, "complete"), told
assert dict(refused.attributes)["http.response.status_code"] == 400
"""


def test_spans_tell_what_was_answered(tmp_path):
    """In a process of its own: a provider of traces is set once and for all."""
    subprocess.run([sys.executable, "-c", _TRACED, str(tmp_path)], check=True)


def test_without_a_provider_there_are_no_spans(tmp_path):
    server = application(tmp_path)
    assert post(server, "/predict", {"row": table()[0].to_numpy()[0].tolist()}).status_code == 200
    assert not server.tracing.on
