"""The server as an ASGI application: guards, the two busy routes, and FastAPI behind them for all else.

``/predict`` and ``/v2/models/{model}/infer`` are answered here, in as few steps as it takes; a framework's routing and
validation would cost more than the model. Every other request goes on to ``routes``.
"""

from __future__ import annotations

import asyncio
import gc
import hmac
import itertools
import os
import secrets
import time
from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from anytime.rows import shown
from anytime.serve.board import Board
from anytime.serve.calls import Call, Gone, Receive, Reply, Send, beside
from anytime.serve.errors import Refusal, refuse
from anytime.serve.logs import Tracing, logger
from anytime.serve.page import assets
from anytime.serve.plain import model_of, read_plain, write_plain
from anytime.serve.protocol import object_of, read_infer, write_infer
from anytime.serve.questions import Ask, Question
from anytime.serve.reloads import Reloads
from anytime.serve.settings import Settings

if TYPE_CHECKING:
    from anytime.answer import Answer
    from anytime.serve.registry import ServedModel

Handler = Callable[[Call], Awaitable[Reply]]

_FEW = 64  # rows of a usual request
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Server:
    """The application of one worker; ``load`` loads its models."""

    def __init__(self, settings: Settings, board: Board) -> None:
        from anytime.serve.registry import Registry
        from anytime.serve.routes import routes

        self.settings, self.board = settings, board
        self.registry = Registry(settings, on_load=self._adopt)
        self.ready = False  # whether models are loaded and the process is not about to end
        self.held = 0  # requests that are being answered
        # set when the process is about to end: streams without an end of their own end then
        self.stopping = asyncio.Event()
        self._token = None if settings.token is None else settings.token.encode()
        self._names = _own_names(settings)
        self._late = float("inf") if settings.slo is None else settings.slo
        self._tasks: list[asyncio.Task[None]] = []
        self._open = {"/v2/health/live", "/v2/health/ready", *(f"/{name}" for name in assets())}
        self.api = routes(self)
        self.take(0)

    # ------------------------------------------------------------------ beginning and ending

    def load(self) -> None:
        """Load all models; raises what is wrong with a file."""
        for name, path in self.settings.models.items():
            self.registry.add(name, path)
        self.api.openapi()  # which FastAPI keeps: no worker has to make it again

    def take(self, worker: int) -> None:
        """Be the worker of this number, and count in its slot of the board."""
        self.worker, self.slot = worker, self.board.slot(worker)
        prefix = secrets.token_hex(5)  # no other worker's, on whichever machine, and no earlier one's
        self._ids = map((prefix + "-{:x}").format, itertools.count(1))
        for name in self.registry.names:
            self._adopt(self.registry.get(name))

    def _adopt(self, entry: ServedModel) -> None:
        """Count the answers of a model that has been loaded."""
        if self.ready:
            self.slot.count("reloads")
            self.reloads.tidy_soon()
        number = list(self.settings.models).index(entry.name)
        entry.engine.observer = self.slot.model(number, entry.engine.pace.checkpoints.tolist())

    async def begin(self) -> None:
        """Start what runs beside the answers, then be ready."""
        self.tracing = Tracing()
        self.slot.begin()
        self.registry.settle()
        self.reloads = Reloads(self.registry, self.board, self.slot)
        await self.reloads.catch_up()
        for path in ("/openapi.json", "/stats", "/metrics", "/v2"):
            await self._warm(path)
        beside = [self._keep_time()]
        if self.board.is_shared:
            beside.append(self.reloads.follow())
        if self.settings.watch is not None:
            beside.append(self.reloads.watch(self.settings.watch))
        self._tasks = [asyncio.create_task(work) for work in beside]
        self.ready = True
        logger.info("ready to answer", extra={"fields": {"pid": os.getpid()}})

    async def _warm(self, path: str) -> None:
        """Call a route once, so that no client waits for what happens on the first call only."""

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(_: MutableMapping[str, Any]) -> None:
            pass

        scope: dict[str, Any] = {
            "type": "http",
            "method": "GET",
            "path": path,
            "query_string": b"",
            "headers": [],
        }
        scope["anytime.call"] = Call(scope, receive, time.monotonic(), 0.0, "")
        await self.api(scope, receive, send)

    def reload_all(self) -> None:
        """Load all models of this worker again."""
        self.reloads.begin(self.reloads.here())

    def stop(self) -> None:
        """Be no longer ready: the process is about to end."""
        self.ready = False
        self.stopping.set()

    async def end(self) -> None:
        """Answer what is held, and stop what runs beside."""
        self.stop()
        await self.registry.drain()
        tasks = [*self._tasks, *self.reloads.tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _keep_time(self) -> None:
        while True:
            self.board.remember()
            for number, name in enumerate(self.settings.models):
                # also if no answer was sent: clients may have left
                self.slot.waiting(number, self.registry.get(name).engine.queue)
            self.slot.set("caution", round(100 * self.registry.scheduler.caution.factor))
            gc.collect(1)  # a little every second, rather than more whenever much is being answered
            await asyncio.sleep(1.0)

    # ------------------------------------------------------------------ every request

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request of ASGI, or start and stop with the process."""
        if scope["type"] != "http":
            await self.api(scope, receive, send)
            return
        call = Call(scope, receive, time.monotonic(), self._late, next(self._ids))
        self.held += 1
        self.slot.set("open", self.held)
        try:
            self._admit(call)
            handler = self._busy_route(call)
            if handler is None:
                scope["anytime.call"] = call
                await self.api(scope, receive, self._noting(send, call))
            else:
                reply = await self._traced(handler, call)
                await reply.packed(call.headers.get(b"accept-encoding")).send(send, call.id)
                call.status = 200
                self.answered(call)
        except Refusal as refusal:
            call.status = refusal.status
            await Reply.refusal(refusal).send(send, call.id)
        except Gone:
            call.status = 499
        except Exception:
            already, sentence = call.status, self.failed(call)
            if not already:
                await Reply.refusal(Refusal(500, sentence)).send(send, call.id)
        finally:
            scope.pop("anytime.call", None)  # they hold each other
            self.held -= 1
            self.slot.set("open", self.held)
            self._note(call)

    def answered(self, call: Call) -> None:
        """Count a request of which the last byte has been written."""
        now = time.monotonic()
        seconds = now - call.began
        late = seconds > call.due
        self.slot.request(seconds, late)
        if call.usual:
            self.registry.scheduler.caution.note(late, now)

    def failed(self, call: Call) -> str:
        """Log the exception that is being handled; give the sentence for the client."""
        call.status = 500
        logger.exception("a request failed", extra={"fields": {"request_id": call.id, "path": call.path}})
        return f"this should not have happened; the server's log has it under {call.id}"

    def _admit(self, call: Call) -> None:
        """Let a request in, or say why not."""
        if call.path in self._open:  # health says nothing else, and the page holds no figures
            return
        headers = call.headers
        if self._token is not None and not hmac.compare_digest(_bearer(headers), self._token):
            raise Refusal(
                401, "a token is needed: Authorization: Bearer TOKEN", {"www-authenticate": "Bearer"}
            )
        host = headers.get(b"host")
        if self._names is not None and host is not None and _name_in(host) not in self._names:
            name = shown(host.decode("latin-1"))
            refuse(
                f"a server without a token accepts local requests only, and Host {name} is not local; use localhost",
                421,
            )
        if _of_another_site(headers):
            refuse(
                "requests from pages of other sites are not accepted", 403
            )  # a browser would do it unasked
        if self.held > self.settings.max_concurrency:
            self.slot.count("turned_away")
            raise Refusal(
                503,
                f"{self.held - 1} requests are being answered, which is the limit; try again later",
                {"retry-after": "1"},
            )

    def _busy_route(self, call: Call) -> Handler | None:
        if call.method != "POST":
            return None
        if call.path == "/predict":
            return self.predict
        if call.path.startswith("/v2/models/") and call.path.endswith("/infer"):
            return self.infer
        return None

    async def _traced(self, handler: Handler, call: Call) -> Reply:
        if not self.tracing.on:
            return await handler(call)
        with self.tracing.span(call):
            return await handler(call)

    def _noting(self, send: Send, call: Call) -> Send:
        """``send``, which takes note of the status and adds the request's id."""

        async def noted(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                call.status = message["status"]
                message["headers"] = [*message["headers"], (b"x-request-id", call.id.encode())]
            await send(message)

        return noted

    def _note(self, call: Call) -> None:
        status = call.status
        if 400 <= status < 499:  # 499: the client had left
            self.slot.count("refused")
        elif status >= 500 and status != 503:
            self.slot.count("failed")
        if self.settings.log_requests:
            seconds = round(time.monotonic() - call.began, 6)
            fields = {
                "request_id": call.id,
                "method": call.method,
                "path": call.path,
                "status": status,
                "seconds": seconds,
            }
            logger.info("request", extra={"fields": fields})

    # ------------------------------------------------------------------ the busy routes

    async def plain(self, call: Call) -> tuple[ServedModel, Question, list[Any] | None]:
        """Read plain JSON: the model, what it is asked, and the classes if probabilities are wanted."""
        body = await call.body(self.settings.max_body)
        document = await beside(body, object_of, body)
        entry = self.entry(*model_of(document))
        ask = await beside(body, read_plain, document, entry.tensors.reader, entry.tensors.classifies)
        return entry, self.question(call, entry, ask), entry.tensors.classes if ask.probabilities else None

    async def written(self, entry: ServedModel, answer: Answer, classes: list[Any] | None) -> dict[str, Any]:
        """An answer as plain JSON; label maps are packed in a thread, so that others are answered meanwhile."""
        if not entry.tensors.has_maps:
            return write_plain(answer, entry.name, entry.version, classes=classes)
        write = partial(write_plain, classes=entry.tensors.classes, maps=True)
        return await asyncio.to_thread(write, answer, entry.name, entry.version)

    async def predict(self, call: Call) -> Reply:
        """Answer for rows, in plain JSON."""
        entry, question, classes = await self.plain(call)
        call.answer = answer = await entry.engine.answer(question)
        return Reply(orjson.dumps(await self.written(entry, answer, classes)))

    async def infer(self, call: Call, **_: str) -> Reply:
        """Answer for tensors, by the Open Inference Protocol."""
        parts = call.path.split("/")  # "", "v2", "models", model, ["versions", version], "infer"
        if len(parts) == 5:
            entry = self.entry(parts[3], None)
        elif len(parts) == 7 and parts[4] == "versions":
            entry = self.entry(parts[3], parts[5])
        else:
            refuse(f"there is nothing at {shown(call.path)}", 404)
        tensors = entry.tensors
        body = await call.body(self.settings.max_body)
        ask = await beside(body, read_infer, body, call.json_length(), tensors)
        call.answer = answer = await entry.engine.answer(self.question(call, entry, ask))
        body, json_length = write_infer(ask, answer, entry.name, entry.version, tensors)
        return Reply(body) if json_length is None else Reply.binary(body, json_length)

    # ------------------------------------------------------------------ models

    def entry(self, name: str | None, version: str | None) -> ServedModel:
        """The model that a request names; the only one, where it names none."""
        if name is None:
            if len(self.settings.models) > 1:
                refuse(f"name a model: {', '.join(self.settings.models)}")
            name = next(iter(self.settings.models))
        try:
            return self.registry.get(name, version)
        except KeyError:
            pass
        if name not in self.settings.models:
            refuse(f"there is no model {shown(name)}; there is {', '.join(self.settings.models)}", 404)
        refuse(f"model {name!r} has no version {shown(version)}; leave it out for the latest", 404)

    def question(self, call: Call, entry: ServedModel, ask: Ask) -> Question:
        """What the engine is asked."""
        rows, raws, limits = ask.rows, ask.raws, ask.limits
        call.model, call.version = entry.name, entry.version
        if raws is not None and entry.engine.extraction is None:
            refuse("this server has no extractors, so that raw examples cannot be answered; send columns")
        deadline = limits["deadline"]
        if entry.engine.slo is None:
            call.due = float("inf")
        if deadline is not None and deadline < call.due:
            call.due = deadline
        elif raws is None and len(rows.X) <= _FEW:
            call.usual = True
        return Question(rows.X, held=rows.held, raws=raws, arrived=call.began, **limits)


def _bearer(headers: dict[bytes, bytes]) -> bytes:
    scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
    return token.strip() if scheme.lower() == b"bearer" else b""


def _own_names(settings: Settings) -> frozenset[bytes] | None:
    """What clients may call a server that only its own machine reaches; None: anything.

    Without that a page of another site, whose name somebody lets point to this machine, would be of the same site.
    """
    host = settings.host.strip("[]").lower()
    if settings.token is not None or not (host in _LOOPBACK or host.startswith("127.")):
        return None
    return frozenset(name.encode() for name in (*_LOOPBACK, host))


def _name_in(host: bytes) -> bytes:
    """A ``Host`` without its port."""
    name = host.partition(b"]")[0].lstrip(b"[") if host.startswith(b"[") else host.partition(b":")[0]
    return name.rstrip(b".").lower()


def _of_another_site(headers: dict[bytes, bytes]) -> bool:
    """Whether a browser sends this for a page of another site. What it says itself counts; a proxy may have changed the host."""
    site = headers.get(b"sec-fetch-site")
    if site is not None:
        return site not in (b"same-origin", b"none")
    origin = headers.get(b"origin")
    return origin is not None and origin.partition(b"://")[2] != headers.get(b"host")
