"""Answers that leave in one piece, and requests that know when they were read.

Uvicorn writes the head and the body of an answer separately: a second system call, a second packet, a client woken twice.
"""

import asyncio
import time
from typing import Any

from anytime._compat import HttpToolsProtocol
from anytime.serve.calls import READ

_IN_CHUNKS = b"transfer-encoding: chunked\r\n\r\n"  # how uvicorn ends the head of a stream


class _OnePiece:
    """A transport that holds the head of an answer back until its body comes; all else goes through."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport, self._head = transport, b""

    def write(self, data: bytes) -> None:
        """Send, or hold back; to a client that has left, nothing, which uvloop would call an error."""
        if self._transport.is_closing():
            return
        if self._head:
            data, self._head = self._head + data, b""
        elif (
            data.startswith(b"HTTP/1.1 ")
            and data[9:10] != b"1"  # not "100 Continue", for which the client waits
            and data.endswith(b"\r\n\r\n")
            and not data.endswith(_IN_CHUNKS)  # the first event of a stream may be long in coming
        ):
            self._head = data
            return
        self._transport.write(data)

    def flush(self) -> None:
        """Send a head whose body does not come."""
        if self._head and not self._transport.is_closing():
            self._transport.write(self._head)
        self._head = b""

    def close(self) -> None:
        """Close when all is sent."""
        self.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class OnePieceProtocol(HttpToolsProtocol):
    """Uvicorn's protocol with answers in one piece, and the moment at which a request was whole in its scope."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has come."""
        super().connection_made(_OnePiece(transport))  # type: ignore[arg-type]

    def on_message_complete(self) -> None:
        """A request is there; its handler begins later. One that waits behind another of its connection has not come yet."""
        if not self.pipeline:
            self.scope[READ] = time.monotonic()  # type: ignore[literal-required]
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """An answer has ended; that to HEAD without any body."""
        self.transport.flush()  # type: ignore[attr-defined]
        super().on_response_complete()
