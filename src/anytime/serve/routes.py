"""All addresses, for FastAPI: which handler answers, and the OpenAPI document of them all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

import anytime
from anytime.serve import page
from anytime.serve.calls import Gone, Receive, Reply, Send
from anytime.serve.errors import Refusal
from anytime.serve.handlers import Events, Handlers
from anytime.serve.schemas import ANYTHING, INFER, NEXT, PREDICT, SCHEMAS, answers, body

if TYPE_CHECKING:
    from anytime.serve.app import Server

Handler = Callable[..., Awaitable[Reply | Events]]

_SAID = {404: "no such endpoint", 405: "this endpoint does not accept that method"}


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
    for method, path, handler, responses, *extra in _table(server, Handlers(server)):
        _add(api, method, path, handler, responses, extra[0] if extra else {})
    api.router.routes.extend(page.routes())
    api.add_exception_handler(HTTPException, _refuse)
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


def _table(server: Server, handlers: Handlers) -> list[tuple[Any, ...]]:
    """Method, path, handler, what it answers, and the body it takes."""
    refusals = (400, 404, 408, 413, 415)
    infer = answers("InferResponse", *refusals), body("InferRequest", INFER, binary=True)
    body_of_predict = body("PredictRequest", PREDICT)
    events = "text/event-stream"
    versions = [
        row
        for base in ("/v2/models/{model}", "/v2/models/{model}/versions/{version}")
        for row in (
            ("GET", base, handlers.model, answers("ModelMetadata", 404)),
            ("GET", f"{base}/ready", handlers.model_ready, answers("ModelReady", 404)),
            ("GET", f"{base}/config", handlers.model_config, answers("ModelConfiguration", 404)),
            ("GET", f"{base}/stats", handlers.model_stats, answers("ModelStatistics", 404)),
            ("POST", f"{base}/infer", server.infer, *infer),
        )
    ]
    control = "/v2/repository/models/{model}"
    return [
        ("GET", "/v2", handlers.describe, answers("ServerMetadata")),
        ("GET", "/v2/health/live", handlers.live, answers("Live")),
        ("GET", "/v2/health/ready", handlers.ready, answers("Ready")),
        ("GET", "/v2/models/stats", handlers.model_stats, answers("ModelStatistics")),
        *versions,
        (
            "POST",
            "/v2/repository/index",
            handlers.index,
            answers("RepositoryIndex", 400, 408, 413, 415),
            ANYTHING,
        ),
        ("POST", f"{control}/load", handlers.load, answers("Nothing", *refusals), ANYTHING),
        ("POST", f"{control}/unload", handlers.unload, answers("Nothing", 400, 404)),
        ("POST", "/predict", server.predict, answers("PredictResponse", *refusals), body_of_predict),
        (
            "POST",
            "/next",
            handlers.next,
            answers("NextResponse", *refusals),
            body("NextRequest", NEXT),
        ),
        ("POST", "/stream", handlers.stream, answers(None, *refusals, media=events), body_of_predict),
        ("GET", "/stats", handlers.stats, answers("Stats")),
        ("GET", "/stats/stream", handlers.stats_stream, answers(None, media=events)),
        ("GET", "/metrics", handlers.metrics, answers(None, media="text/plain")),
    ]


def _add(
    api: FastAPI,
    method: str,
    path: str,
    handler: Handler,
    responses: dict[int | str, Any],
    extra: dict[str, Any],
) -> None:
    names = [part[1:-1] for part in path.split("/") if part.startswith("{")]
    varying = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]

    async def endpoint(request: Request) -> Response:
        reply = await handler(request.scope["anytime.call"], **request.path_params)
        return _response(reply) if isinstance(reply, Reply) else _EventStream(reply)

    api.add_api_route(
        path,
        endpoint,
        methods=[method],
        response_class=Response,
        responses=responses,
        openapi_extra={**extra, **({"parameters": varying} if varying else {})},
        name=f"{method} {path}",
        summary=(handler.__doc__ or "").rstrip("."),
    )


def _response(reply: Reply) -> Response:
    response = Response(reply.body, reply.status)
    response.raw_headers[:] = [*reply.headers, (b"content-length", b"%d" % len(reply.body))]
    return response


def _lifespan(server: Server) -> Callable[[FastAPI], Any]:
    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await server.begin()
        try:
            yield
        finally:
            await server.end()

    return lifespan


class _EventStream(Response):
    """Server-sent events, until there are no more or the client has gone."""

    media_type = "text/event-stream"

    def __init__(self, events: Events) -> None:
        self.status_code, self.background, self._events = 200, None, events
        # a proxy must not hold events back
        self.init_headers({"cache-control": "no-store", "x-accel-buffering": "no"})

    async def __call__(self, _: Any, receive: Receive, send: Send) -> None:
        gone = asyncio.ensure_future(_end_of(receive))
        sending = asyncio.ensure_future(self._send(send))
        try:
            await asyncio.wait([gone, sending], return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                raise Gone  # while nothing was there to be sent
            sending.result()
        finally:
            for task in (gone, sending):
                task.cancel()
            await asyncio.gather(gone, sending, return_exceptions=True)
            await self._events.aclose()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        async for event in self._events:
            await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b""})


async def _end_of(receive: Receive) -> None:
    """Wait until a client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _refuse(_: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        error = Refusal(error.status_code, _SAID.get(error.status_code, str(error.detail)), error.headers)
    assert isinstance(error, Refusal)
    return _response(Reply.refusal(error))
