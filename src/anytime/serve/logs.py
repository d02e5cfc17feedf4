"""Logs, one JSON object per line, and spans for OpenTelemetry if its API is installed and a collector is set up."""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import orjson

from anytime.serve.errors import Refusal

if TYPE_CHECKING:
    from anytime.answer import Answer
    from anytime.serve.calls import Call

logger = logging.getLogger("anytime.serve")


class _JsonLines(logging.Formatter):
    """Each record an object: time, level, message, and the fields that ``extra={"fields": ...}`` gave."""

    def __init__(self, worker: int) -> None:
        super().__init__()
        self.worker = worker

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(record.created))}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            "logger": record.name,
            "worker": self.worker,
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode("utf-8", "replace")


def configure(level: str, worker: int) -> None:
    """Send what this process has to say to standard error, as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines(worker))
    for name in ("anytime.serve", "uvicorn.error"):
        log = logging.getLogger(name)
        log.handlers[:] = [handler]
        log.propagate = False
        log.setLevel(level.upper())
    if level == "info":  # uvicorn's own lines say what ours say
        logging.getLogger("uvicorn.error").setLevel(logging.WARNING)


class Tracing:
    """Spans around requests.

    ``on`` is False, and nothing is paid for, unless ``opentelemetry-api`` is installed and a tracer provider was set
    (``opentelemetry-instrument anytime serve ...``, or a few lines of one's own).
    """

    def __init__(self) -> None:
        self.on = False
        try:
            from opentelemetry import propagate, trace
        except ImportError:
            return
        provider = trace.get_tracer_provider()
        self.on = type(provider).__name__ not in ("ProxyTracerProvider", "NoOpTracerProvider")
        self._tracer = trace.get_tracer("anytime.serve")
        self._extract, self._server, self._error = (
            propagate.extract,
            trace.SpanKind.SERVER,
            trace.StatusCode.ERROR,
        )

    @contextlib.contextmanager
    def span(self, call: Call) -> Iterator[None]:
        """A span around a request, within the trace that its headers name."""
        carrier = {name.decode("latin-1"): value.decode("latin-1") for name, value in call.headers.items()}
        with self._tracer.start_as_current_span(
            f"{call.method} {call.path}",
            context=self._extract(carrier),
            kind=self._server,
            attributes={"http.request.method": call.method, "url.path": call.path, "request_id": call.id},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            status = 500
            try:
                yield
                status = 200
            except Refusal as refusal:
                status = refusal.status
                raise
            finally:
                span.set_attribute("http.response.status_code", status)
                if status >= 500:
                    span.set_status(self._error)
                if call.answer is not None:
                    span.set_attributes(_attributes(call, call.answer))


def _attributes(call: Call, answer: Answer) -> dict[str, Any]:
    return {
        "anytime.model": call.model,
        "anytime.version": call.version,
        "anytime.rows": len(answer.stage),
        "anytime.stage": int(answer.stage.max()),
        "anytime.cost": float(answer.cost.sum()),
        "anytime.partial": bool(answer.partial.any()),
        "anytime.reason": answer.reason,
    }
