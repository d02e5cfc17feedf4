"""Answers that leave in one piece.

Uvicorn writes the head and the body of an answer separately: a second system call, a second packet, a client woken twice.
"""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

__all__ = ["OnePieceProtocol"]


class _OnePiece:
    """A transport that holds the head of an answer back until its body comes; all else goes through."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport, self._head = transport, b""

    def write(self, data: bytes) -> None:
        """Send, or hold back."""
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(b"HTTP/1.1 ") and data[9:10] != b"1" and data.endswith(b"\r\n\r\n"):
            self._head = data  # not "100 Continue", for which the client waits
            return
        self._transport.write(data)

    def close(self) -> None:
        """Close when all is sent."""
        if self._head:
            self._transport.write(self._head)
            self._head = b""
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class OnePieceProtocol(HttpToolsProtocol):
    """Uvicorn's protocol with answers in one piece."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has come."""
        super().connection_made(_OnePiece(transport))  # type: ignore[arg-type]
