"""All routes, for FastAPI: health, metadata, model control, streams, figures, and the OpenAPI document of them all.

The handlers take a ``Call`` and give a ``Reply``; FastAPI finds the route and describes it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import orjson
from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

import anytime
from anytime.serve import page
from anytime.serve.calls import Call, Receive, Reply, Send, json_reply
from anytime.serve.errors import Refusal, refuse, shown
from anytime.serve.plain import model_of, read_plain, write_plain
from anytime.serve.protocol import configuration, metadata, object_of, statistics
from anytime.serve.schemas import INFER, PREDICT, SCHEMAS, answers, body
from anytime.serve.stats import Stats

if TYPE_CHECKING:
    from anytime.serve.app import Server

__all__ = ["routes"]

_EXTENSIONS = ["binary_tensor_data", "model_configuration", "model_repository", "parameters", "statistics"]


def routes(server: Server) -> FastAPI:
    """The application behind the busy routes."""
    api = FastAPI(
        title="anytime",
        version=anytime.__version__,
        description="Predictions in time: under load, answers are less exact rather than late.",
        docs_url=None,  # they fetch scripts from elsewhere
        redoc_url=None,
        lifespan=_lifespan(server),
    )
    _add_protocol(api, server)
    _add_plain(api, server)
    _add_figures(api, server)
    api.router.routes.extend(page.routes())
    api.add_exception_handler(HTTPException, _refuse_http)
    api.add_exception_handler(Refusal, _refuse)
    describe = api.openapi

    def document() -> dict[str, Any]:
        described = describe()
        described.setdefault("components", {})["schemas"] = SCHEMAS
        if server.settings.token is not None:
            described["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
            described["security"] = [{"token": []}]
        return described

    api.openapi = document  # type: ignore[method-assign]
    return api


def _lifespan(server: Server) -> Callable[[FastAPI], Any]:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await server.begin()
        try:
            yield
        finally:
            await server.end()

    return lifespan


def _endpoint(
    handler: Callable[[Call, dict[str, str]], Awaitable[Reply]],
) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        reply = await handler(request.scope["anytime.call"], dict(request.path_params))
        response = Response(reply.body, reply.status)
        response.raw_headers[:] = [*reply.headers, (b"content-length", b"%d" % len(reply.body))]
        return response

    return endpoint


async def _refuse_http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    said = {404: "there is nothing at this address", 405: "this address does not take that method"}
    sentence = said.get(error.status_code, str(error.detail))
    return Response(
        orjson.dumps({"error": sentence}), error.status_code, dict(error.headers or {}), "application/json"
    )


async def _refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return Response(
        orjson.dumps({"error": error.sentence}), error.status, dict(error.headers), "application/json"
    )


# ---------------------------------------------------------------------- the Open Inference Protocol


def _add_protocol(api: FastAPI, server: Server) -> None:
    async def describe(_: Call, __: dict[str, str]) -> Reply:
        return json_reply({"name": "anytime", "version": anytime.__version__, "extensions": _EXTENSIONS})

    async def live(_: Call, __: dict[str, str]) -> Reply:
        return json_reply({"live": True})

    async def ready(_: Call, __: dict[str, str]) -> Reply:
        return json_reply({"ready": server.ready}, 200 if server.ready else 503)

    async def model(_: Call, given: dict[str, str]) -> Reply:
        entry = server.entry(given["model"], given.get("version"))
        versions = server.registry.versions(entry.name)
        return json_reply(metadata(entry.name, versions, server.face(entry).tensors))

    async def model_config(_: Call, given: dict[str, str]) -> Reply:
        entry = server.entry(given["model"], given.get("version"))
        return json_reply(configuration(entry.name, server.face(entry).tensors))

    async def model_stats(_: Call, given: dict[str, str]) -> Reply:
        named = given.get("model")
        entries = [
            server.entry(name, given.get("version"))
            for name in ([named] if named else server.settings.models)
        ]
        totals, numbers = server.board.totals(), list(server.settings.models)
        counted = []
        for entry in entries:
            number = numbers.index(entry.name)
            answered, rows = totals.model(number, "answers"), totals.model(number, "rows")
            counted.append(
                statistics(entry.name, entry.version, answered, rows, float(totals.seconds[number]))
            )
        return json_reply({"model_stats": counted})

    async def model_ready(_: Call, given: dict[str, str]) -> Reply:
        entry = server.entry(given["model"], given.get("version"))
        return json_reply({"name": entry.name, "ready": server.ready}, 200 if server.ready else 503)

    async def infer(call: Call, _: dict[str, str]) -> Reply:
        return await server.infer(call)

    async def index(call: Call, _: dict[str, str]) -> Reply:
        raw = await call.body(server.settings.max_body)
        wants_ready = (object_of(raw) if raw else {}).get("ready", False)
        if type(wants_ready) is not bool:
            refuse(f"ready must be true or false, not {shown(wants_ready)}")
        entries = [server.entry(name, None) for name in server.settings.models]
        return json_reply(
            [{"name": e.name, "version": e.version, "state": "READY", "reason": ""} for e in entries]
        )

    async def load(call: Call, given: dict[str, str]) -> Reply:
        raw = await call.body(server.settings.max_body)
        parameters = (object_of(raw) if raw else {}).get("parameters") or {}
        if (
            type(parameters) is not dict
            or parameters.keys() & {"config"}
            or any(":" in name for name in parameters)
        ):
            refuse(
                "a model is loaded from its own file; configurations and files are not taken from a request"
            )
        await server.reloads.everywhere(server.entry(given["model"], None).name)
        return json_reply({})

    async def unload(_: Call, given: dict[str, str]) -> Reply:
        server.entry(given["model"], None)
        refuse("models of this server are not unloaded; stop the server, or replace the model's file")

    _route(api, "GET", "/v2", describe, answers("ServerMetadata"))
    _route(api, "GET", "/v2/health/live", live, answers("Live"))
    _route(api, "GET", "/v2/health/ready", ready, answers("Ready"))
    _route(api, "GET", "/v2/models/stats", model_stats, answers("ModelStatistics"))
    for base in ("/v2/models/{model}", "/v2/models/{model}/versions/{version}"):
        _route(api, "GET", base, model, answers("ModelMetadata", 404))
        _route(api, "GET", f"{base}/ready", model_ready, answers("ModelReady", 404))
        _route(api, "GET", f"{base}/config", model_config, answers("ModelConfiguration", 404))
        _route(api, "GET", f"{base}/stats", model_stats, answers("ModelStatistics", 404))
        _route(
            api,
            "POST",
            f"{base}/infer",
            infer,
            answers("InferResponse", 400, 404, 413, 415),
            body("InferRequest", INFER, binary=True),
        )
    anything = {
        "requestBody": {"required": False, "content": {"application/json": {"schema": {"type": "object"}}}}
    }
    _route(api, "POST", "/v2/repository/index", index, answers("RepositoryIndex", 400, 413), anything)
    control = "/v2/repository/models/{model}"
    _route(api, "POST", f"{control}/load", load, answers(None, 400, 404, 413), anything)
    _route(api, "POST", f"{control}/unload", unload, answers(None, 400, 404))


# ---------------------------------------------------------------------- plain JSON and events


def _add_plain(api: FastAPI, server: Server) -> None:
    async def predict(call: Call, _: dict[str, str]) -> Reply:
        return await server.predict(call)

    async def stream(request: Request) -> Response:
        call: Call = request.scope["anytime.call"]
        document = object_of(await call.body(server.settings.max_body))
        entry = server.entry(*model_of(document))
        face = server.face(entry)
        ask = read_plain(document, face.reader, face.classifies)
        call.began = (
            time.monotonic()
        )  # time counts from here: the way to a stream is longer than to an answer
        question = server.question(call, entry, ask.rows, ask.raws, ask.bounds)

        async def events() -> AsyncGenerator[bytes, None]:
            async for served in entry.engine.stream(question):
                answer = write_plain(served, entry.name, served.version, probabilities=ask.probabilities)
                yield _event("answer", answer)
                if served.reason:
                    yield _event("done", answer)

        return _Events(events())

    refusals = (400, 404, 413, 415)
    _route(
        api,
        "POST",
        "/predict",
        predict,
        answers("PredictResponse", *refusals),
        body("PredictRequest", PREDICT),
    )
    api.add_api_route(
        "/stream",
        stream,
        methods=["POST"],
        response_class=Response,
        responses=answers(None, *refusals, media="text/event-stream"),
        openapi_extra=body("PredictRequest", PREDICT),
        summary="Every improved answer, as server-sent events: answer, answer, ..., done",
    )


def _event(kind: str, data: Any) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (kind.encode(), orjson.dumps(data))


async def _end_of(receive: Receive) -> None:
    """Wait until a client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


class _Events(Response):
    """Server-sent events, until there are no more or the client has gone."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes, None]) -> None:
        self.status_code, self.background, self._events = 200, None, events
        # a proxy must not hold events back
        self.init_headers({"cache-control": "no-store", "x-accel-buffering": "no"})

    async def __call__(self, _: Any, receive: Receive, send: Send) -> None:
        gone = asyncio.ensure_future(_end_of(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            async for event in self._events:
                await send({"type": "http.response.body", "body": event, "more_body": True})
                if gone.done():
                    return
            await send({"type": "http.response.body", "body": b""})
        finally:
            gone.cancel()
            await self._events.aclose()


# ---------------------------------------------------------------------- figures


def _add_figures(api: FastAPI, server: Server) -> None:
    stats = Stats(server)

    async def figures(_: Call, __: dict[str, str]) -> Reply:
        return json_reply(stats.now())

    async def figures_stream(request: Request) -> Response:
        async def events() -> AsyncGenerator[bytes, None]:
            while not server.stopping.is_set():
                yield _event("stats", stats.now())
                try:
                    await asyncio.wait_for(server.stopping.wait(), 1.0)
                except TimeoutError:
                    continue

        return _Events(events())

    async def metrics(_: Call, __: dict[str, str]) -> Reply:
        from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

        registry = CollectorRegistry()
        registry.register(server.board)
        return Reply(generate_latest(registry), headers=[(b"content-type", CONTENT_TYPE_LATEST.encode())])

    _route(api, "GET", "/stats", figures, answers("Stats"))
    _route(api, "GET", "/metrics", metrics, answers(None, media="text/plain"))
    api.add_api_route(
        "/stats/stream",
        figures_stream,
        methods=["GET"],
        response_class=Response,
        responses=answers(None, media="text/event-stream"),
        summary="The figures of /stats once a second, as server-sent events",
    )


def _route(
    api: FastAPI,
    method: str,
    path: str,
    handler: Callable[[Call, dict[str, str]], Awaitable[Reply]],
    responses: dict[int | str, Any],
    extra: dict[str, Any] | None = None,
) -> None:
    parameters = [name[1:-1] for name in path.split("/") if name.startswith("{")]
    described = [
        {"name": n, "in": "path", "required": True, "schema": {"type": "string"}} for n in parameters
    ]
    api.add_api_route(
        path,
        _endpoint(handler),
        methods=[method],
        response_class=Response,
        responses=responses,
        openapi_extra={**(extra or {}), **({"parameters": described} if described else {})},
        name=path,
        summary=(handler.__doc__ or handler.__name__.replace("_", " ")).strip(),
    )
