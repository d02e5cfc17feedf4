"""What is answered at the addresses that are not busy: health, metadata, model control, streams, figures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

import orjson

import anytime
from anytime.rows import shown
from anytime.serve.calls import Call, Reply, beside, json_reply
from anytime.serve.errors import refuse
from anytime.serve.plain import model_of, read_next
from anytime.serve.protocol import configuration, metadata, object_of, statistics
from anytime.serve.stats import Stats

if TYPE_CHECKING:
    from anytime.serve.app import Server

Events = AsyncGenerator[bytes, None]

_EXTENSIONS = ["binary_tensor_data", "model_configuration", "model_repository", "parameters", "statistics"]


class Handlers:
    """Handlers of one server; each takes a call and, by name, the varying parts of its address."""

    def __init__(self, server: Server) -> None:
        self.server, self.figures = server, Stats(server)

    # ------------------------------------------------------------------ the Open Inference Protocol

    async def describe(self, _: Call) -> Reply:
        """Name, version and extensions of the server."""
        return json_reply({"name": "anytime", "version": anytime.__version__, "extensions": _EXTENSIONS})

    async def live(self, _: Call) -> Reply:
        """Whether the process answers at all."""
        return json_reply({"live": True})

    async def ready(self, _: Call) -> Reply:
        """Whether models are loaded, and the process is not about to end."""
        ready = self.server.ready
        return json_reply({"ready": ready}, 200 if ready else 503)

    async def model(self, _: Call, model: str, version: str | None = None) -> Reply:
        """Tensors and versions of a model."""
        entry = self.server.entry(model, version)
        versions = self.server.registry.versions(entry.name)
        return json_reply(metadata(entry.name, versions, entry.tensors))

    async def model_ready(self, _: Call, model: str, version: str | None = None) -> Reply:
        """Whether a model answers."""
        entry, ready = self.server.entry(model, version), self.server.ready
        return json_reply({"name": entry.name, "ready": ready}, 200 if ready else 503)

    async def model_config(self, _: Call, model: str, version: str | None = None) -> Reply:
        """A model's configuration, as Triton calls it."""
        entry = self.server.entry(model, version)
        return json_reply(configuration(entry.name, entry.tensors))

    async def model_stats(self, _: Call, model: str | None = None, version: str | None = None) -> Reply:
        """How much a model, or each, has answered."""
        server = self.server
        names = [model] if model is not None else list(server.settings.models)
        totals, counted = server.board.totals(), []
        for entry in (server.entry(name, version) for name in names):
            number = server.board.models.index(entry.name)
            answered, rows = totals.model(number, "answers"), totals.model(number, "rows")
            counted.append(
                statistics(entry.name, entry.version, answered, rows, float(totals.seconds[number]))
            )
        return json_reply({"model_stats": counted})

    async def index(self, call: Call) -> Reply:
        """All models and their states."""
        wants_ready = (await self._options(call)).get("ready", False)
        if type(wants_ready) is not bool:
            refuse(f"ready must be true or false, not {shown(wants_ready)}")
        entries = [self.server.entry(name, None) for name in self.server.settings.models]
        return json_reply(
            [{"name": e.name, "version": e.version, "state": "READY", "reason": ""} for e in entries]
        )

    async def load(self, call: Call, model: str) -> Reply:
        """Load a model's file again, in all workers."""
        parameters = (await self._options(call)).get("parameters") or {}
        if type(parameters) is not dict or "config" in parameters or any(":" in name for name in parameters):
            refuse(
                "a model is loaded from its own file; configurations and files are not taken from a request"
            )
        await self.server.reloads.everywhere(self.server.entry(model, None).name)
        return json_reply({})

    async def unload(self, _: Call, model: str) -> Reply:
        """Refused: models stay."""
        self.server.entry(model, None)
        refuse("models of this server are not unloaded; stop the server, or replace the model's file")

    async def _options(self, call: Call) -> dict[str, Any]:
        """The JSON object of a body that may be empty."""
        raw = await call.body(self.server.settings.max_body)
        return object_of(raw) if raw else {}

    # ------------------------------------------------------------------ plain JSON and events

    async def next(self, call: Call) -> Reply:
        """What to buy next for one row, in plain JSON."""
        body = await call.body(self.server.settings.max_body)
        document = await beside(body, object_of, body)
        entry = self.server.entry(*model_of(document, "NextRequest"))
        call.model, call.version = entry.name, entry.version
        question = await beside(body, read_next, document, entry.tensors.reader)
        advice = await asyncio.to_thread(question.answered_by, entry.model)  # others are answered meanwhile
        return json_reply({"model": entry.name, "version": entry.version, **advice.to_dict()})

    async def stream(self, call: Call) -> Events:
        """Every improved answer, as server-sent events: answer, answer, ..., done; or error, where something failed."""
        server = self.server
        entry, question, classes = await server.plain(call)
        call.usual = False  # the duration of a stream depends on its reader

        async def events() -> Events:
            try:
                async for answer in entry.engine.stream(question):
                    written = await server.written(entry, answer, classes)
                    yield _event("done" if answer.reason else "answer", written)
                server.answered(call)
            except Exception:
                yield _event("error", {"error": server.failed(call)})

        return events()

    # ------------------------------------------------------------------ figures

    async def stats(self, _: Call) -> Reply:
        """Throughput, latency, stages and costs of the last seconds, and what a page needs to draw the models."""
        return json_reply(self.figures.now())

    async def stats_stream(self, _: Call) -> Events:
        """The figures of /stats once a second, as server-sent events."""

        async def events() -> Events:
            while not self.server.stopping.is_set():
                yield _event("stats", self.figures.now())
                try:
                    await asyncio.wait_for(self.server.stopping.wait(), 1.0)
                except TimeoutError:
                    continue

        return events()

    async def metrics(self, _: Call) -> Reply:
        """Counters for Prometheus."""
        from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

        registry = CollectorRegistry()
        registry.register(self.server.board)
        return Reply(generate_latest(registry), headers=[(b"content-type", CONTENT_TYPE_LATEST.encode())])


def _event(kind: str, data: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), orjson.dumps(data))
