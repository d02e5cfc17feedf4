"""One request and one reply over ASGI, without the layers of a framework: what the busy routes are made of."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from anytime.rows import shown
from anytime.serve.errors import Refusal, refuse

if TYPE_CHECKING:
    from anytime.answer import Answer

READ = "anytime.read"  # in a scope, by servers that know it: when the whole request was read

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

T = TypeVar("T")

_JSON = (b"content-type", b"application/json")
_BINARY = (b"content-type", b"application/octet-stream")
_WINDOWS = {b"gzip": 31, b"deflate": 15}  # what zlib calls the two formats


_PATIENCE = 30.0  # seconds that a body may take to come
_LARGE = 1 << 18  # bytes of a body that is read in a thread, so that others are answered meanwhile
_LARGE_PACKED = 1 << 13  # of one that may be a thousand times as large


class Gone(Exception):  # noqa: N818  # the client has left
    """The client went away before its request was read."""


class Call:
    """A request.

    It ``began``, on the clock of ``time.monotonic()``, when its whole body was read; its answer is late ``due`` seconds later.
    """

    def __init__(
        self, scope: MutableMapping[str, Any], receive: Receive, began: float, due: float, id: str
    ) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        # names in lower case; the last of equal ones
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.scope, self.receive, self.began, self.due = scope, receive, began, due
        self.id = _usable_id(self.headers.get(b"x-request-id")) or id  # for logs, traces and the reply
        self.status = 0  # of the reply; 0 before that
        self.model = self.version = ""  # that is asked
        self.answer: Answer | None = None
        # whether a late answer says something about the server: few rows, as they are, without a deadline of their own
        self.usual = False

    async def body(self, limit: int) -> bytes:
        """The body, unpacked; never more than ``limit`` bytes are held."""
        declared = self.headers.get(b"content-length")
        if declared is not None and (len(declared) > 15 or int(declared) > limit):
            raise _too_large(limit)
        if READ in self.scope:  # nothing to wait for
            body = await self._received(limit)
        else:
            try:
                async with asyncio.timeout(_PATIENCE):
                    body = await self._received(limit)
            except TimeoutError:
                sentence = f"the body did not come within {_PATIENCE:g} seconds; send it again"
                raise Refusal(408, sentence, {"connection": "close"}) from None
        self.began = self.scope[READ] if READ in self.scope else time.monotonic()
        encoding = self.headers.get(b"content-encoding")
        if encoding is None:
            return body
        return await beside(body, _unpacked, body, encoding.strip().lower(), limit, large=_LARGE_PACKED)

    async def _received(self, limit: int) -> bytes:
        message = await self.receive()
        body: bytes = message.get("body", b"")
        if message.get("more_body"):
            pieces, size = [body], len(body)
            while message.get("more_body"):
                message = await self.receive()
                pieces.append(message.get("body", b""))
                size += len(pieces[-1])
                if size > limit:
                    raise _too_large(limit)
            body = b"".join(pieces)
        if message["type"] == "http.disconnect":
            raise Gone
        if len(body) > limit:
            raise _too_large(limit)
        return body

    def json_length(self) -> int | None:
        """Where binary tensors begin in the body, as Triton's header says."""
        header_length = self.headers.get(b"inference-header-content-length")
        if header_length is None:
            return None
        if not header_length.isdigit() or len(header_length) > 15:
            refuse(
                f"Inference-Header-Content-Length must be a whole number, not {shown(header_length.decode('latin-1'))}"
            )
        return int(header_length)


async def beside(body: bytes, work: Callable[..., T], *arguments: Any, large: int = _LARGE) -> T:
    """Do what a body takes: at once, or in a thread where it is large."""
    return await asyncio.to_thread(work, *arguments) if len(body) > large else work(*arguments)


def _usable_id(sent: bytes | None) -> str | None:
    """An id that a client gave, if it can stand in a log and a header."""
    if sent is None or not 0 < len(sent) <= 128:
        return None
    text = sent.decode("latin-1")
    return text if text.isascii() and text.isprintable() else None


def _too_large(limit: int) -> Refusal:
    return Refusal(
        413, f"the body has more than {limit} bytes, which is the limit of this server; send it in parts"
    )


def _unpacked(body: bytes, encoding: bytes, limit: int) -> bytes:
    if encoding in (b"identity", b""):
        return body
    if encoding not in _WINDOWS:
        refuse(
            f"Content-Encoding {shown(encoding.decode('latin-1'))} is not understood; use gzip or deflate",
            415,
        )
    # some send deflate without its header
    windows = [_WINDOWS[encoding]] + ([-15] if encoding == b"deflate" else [])
    for window in windows:
        inflater = zlib.decompressobj(window)
        try:
            unpacked = inflater.decompress(body, limit + 1)
        except zlib.error:
            continue
        if len(unpacked) > limit:
            raise _too_large(limit)
        if inflater.eof and not inflater.unused_data:
            return unpacked
    refuse(f"the body is not {encoding.decode()} data, or it is cut off")


class Reply:
    """An answer to a request: status, body, headers."""

    __slots__ = ("body", "headers", "status")

    def __init__(
        self, body: bytes, status: int = 200, headers: list[tuple[bytes, bytes]] | None = None
    ) -> None:
        self.body, self.status = body, status
        self.headers = [_JSON] if headers is None else headers

    @classmethod
    def binary(cls, body: bytes, json_length: int) -> Reply:
        """Tensors behind JSON, as Triton's extension has it."""
        length = str(json_length).encode()
        return cls(body, headers=[_BINARY, (b"inference-header-content-length", length)])

    @classmethod
    def refusal(cls, refusal: Refusal) -> Reply:
        """The sentence that says what is wrong."""
        headers = [_JSON, *((name.encode(), value.encode()) for name, value in refusal.headers.items())]
        return cls(orjson.dumps({"error": refusal.sentence}), refusal.status, headers)

    def packed(self, wish: bytes | None) -> Reply:
        """Compressed, where the client asks for one way by name, as Triton's clients do; a list of ways is no wish."""
        if wish not in _WINDOWS or not self.body:
            return self
        deflater = zlib.compressobj(1, zlib.DEFLATED, _WINDOWS[wish])
        body = deflater.compress(self.body) + deflater.flush()
        return Reply(body, self.status, [*self.headers, (b"content-encoding", wish)])

    async def send(self, send: Send, id: str) -> None:
        """Send it."""
        headers = [*self.headers, (b"content-length", b"%d" % len(self.body)), (b"x-request-id", id.encode())]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


def json_reply(value: Any, status: int = 200) -> Reply:
    """Any plain value as JSON."""
    return Reply(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY, default=_plain), status)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else str(value)
