"""Logs, one JSON object per line, and spans for OpenTelemetry where its API is installed and somebody collects them."""

from __future__ import annotations

import contextlib
import logging
import sys
import time
from collections.abc import Iterator
from typing import Any

import orjson

__all__ = ["Tracing", "configure", "logger"]

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
        self._extract, self._server = propagate.extract, trace.SpanKind.SERVER

    @contextlib.contextmanager
    def span(self, name: str, headers: dict[bytes, bytes], **attributes: Any) -> Iterator[Any]:
        """A span of the server, within the trace that the client's headers name."""
        carrier = {key.decode("latin-1"): value.decode("latin-1") for key, value in headers.items()}
        with self._tracer.start_as_current_span(
            name, context=self._extract(carrier), kind=self._server, attributes=attributes
        ) as span:
            yield span
