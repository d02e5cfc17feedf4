"""Sends requests by the clock over kept connections, and notes what becomes of each: the engine of ``load``.

One thread, one selector, raw HTTP/1.1: the event loops of ``asyncio`` and ``uvloop`` look at their clocks once a millisecond,
which is as long as what is measured here.
"""

from __future__ import annotations

import errno
import gc
import select
import selectors
import socket
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Log", "fire"]

Array = NDArray[np.float64]
_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_PIECE = 1 << 16  # bytes that are read at a time


@dataclass(frozen=True, eq=False)
class Log:
    """What became of each request, in the order of arrival.

    Attributes
    ----------
    arrivals : (n,) float
        When it was due to leave, in seconds after the start.
    latency : (n,) float
        Seconds from then until the whole answer was there; infinite where none came.
    status : (n,) int
        HTTP status; 0 where no answer came.
    fault : list of str
        Why none came: ``refused``, ``closed`` (the server ended the connection), ``unanswered`` (patience ended); else empty.
    replies : list of bytes
        Bodies of answers; empty where none came or none was kept.
    body : (n,) int
        Which of the bodies was sent.
    lag : (n,) float
        Seconds by which the generator itself looked at the request too late: its own doing, within ``latency`` all the same.
    seconds : float
        From the start to the last answer.
    """

    arrivals: Array
    latency: Array
    status: NDArray[np.int64]
    fault: list[str]
    replies: list[bytes]
    body: NDArray[np.int64]
    lag: Array
    seconds: float

    @property
    def answered(self) -> NDArray[np.bool_]:
        """(n,) whether the answer was one of success."""
        return np.asarray((self.status >= 200) & (self.status < 300))

    @property
    def errors(self) -> dict[str, int]:
        """How many requests failed, by status or by fault."""
        kinds = Counter(kind for kind in self.fault if kind)
        kinds.update(str(code) for code in self.status[(self.status != 0) & ~self.answered])
        return dict(kinds)

    @property
    def first_error(self) -> str | None:
        """What happened to the first request that failed, with the server's own words if it had any; None: all went well."""
        failed = np.flatnonzero(~self.answered)
        if not failed.size:
            return None
        first = int(failed[0])
        if not self.status[first]:
            return f"request {first}: {self.fault[first]}"
        said = self.replies[first].decode("utf-8", "replace").strip()
        shown = said if len(said) <= 300 else said[:300] + "..."
        return f"request {first}: HTTP {self.status[first]}" + (f": {shown}" if shown else "")


def fire(
    url: str,
    arrivals: ArrayLike,
    bodies: Sequence[bytes],
    *,
    headers: Mapping[str, str] | None = None,
    connections: int = 256,
    patience: float = 5.0,
    keep: bool = True,
) -> Log:
    """Send a request at each of ``arrivals``; return when all are answered or patience has ended.

    Parameters
    ----------
    url : str
        ``http://host:port/path``.
    arrivals : (n,)
        Seconds after the start, increasing.
    bodies : sequence of bytes
        Sent in turn: request ``i`` carries body ``i % len(bodies)``.
    headers : mapping, default=None
        More headers, such as ``{"Authorization": "Bearer ..."}``.
    connections : int, default=256
        As many are opened at most; each carries one request at a time. A request that finds all of them busy waits, and its
        waiting counts.
    patience : float, default=5.0
        Seconds after the last arrival until requests without an answer are given up.
    keep : bool, default=True
        Keep the bodies of answers.
    """
    if not bodies:
        raise ValueError("there is no body to send")
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError(f"{url!r} is no address of the form http://host:port/path; TLS ends at the balancer")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    more = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
    head = f"POST {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n{more}Content-Length: "
    requests = [b"%s%d\r\n\r\n%s" % (head.encode(), len(body), body) for body in bodies]
    family, _, _, _, address = socket.getaddrinfo(parts.hostname, parts.port or 80, type=socket.SOCK_STREAM)[
        0
    ]
    sender = _Sender(
        family, address, requests, np.asarray(arrivals, dtype=np.float64), max(1, connections), keep
    )
    collecting = gc.isenabled()
    gc.disable()  # a pause here would look like one of the server
    try:
        return sender.run(patience)
    finally:
        sender.close()
        if collecting:
            gc.enable()


class _Connection:
    """A kept connection and the request that it carries; -1: none."""

    __slots__ = ("buffer", "request", "rest", "sock")

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.request = -1
        self.buffer = b""
        self.rest: bytes | memoryview | None = b""  # not sent yet; None: not even connected


class _Sender:
    """The loop. Idle connections are taken in turn, so that all workers of a server get their share."""

    def __init__(
        self,
        family: int,
        address: Any,
        requests: list[bytes],
        arrivals: Array,
        connections: int,
        keep: bool,
    ) -> None:
        n = len(arrivals)
        if not n:
            raise ValueError("there is no arrival to send a request at")
        self.family, self.address, self.most, self.keep = family, address, connections, keep
        self.requests, self.arrivals = requests, arrivals
        self.latency, self.lag = np.full(n, np.inf), np.zeros(n)
        self.status = np.zeros(n, dtype=np.int64)
        self.fault, self.replies = [""] * n, [b""] * n
        self.selector = selectors.DefaultSelector()
        self.idle: deque[_Connection] = deque()
        self.waiting: deque[int] = deque()  # due, and without a connection
        self.open: set[_Connection] = set()
        self.connecting = 0  # of those in ``open``
        self.settled = 0
        self.clock = time.perf_counter

    def run(self, patience: float) -> Log:
        """Send everything; wait for the answers."""
        n = len(self.arrivals)
        for _ in range(min(self.most, 16)):  # so that the first requests need not wait for a handshake
            self._connect()
        self.start = self.clock() + 0.02
        due, ends = self.start + self.arrivals, self.start + float(self.arrivals[-1]) + patience
        upcoming = 0
        while self.settled < n:
            now = self.clock()
            if now >= ends:
                break
            while upcoming < n and due[upcoming] <= now:
                self.lag[upcoming] = now - due[upcoming]
                self.waiting.append(upcoming)
                upcoming += 1
            self._send_waiting()
            wake = due[upcoming] if upcoming < n else ends
            self._look(max(0.0, wake - self.clock()))
        for i in np.flatnonzero(self.status == 0):
            self.fault[i] = self.fault[i] or "unanswered"
        body = np.arange(n) % len(self.requests)
        seconds = self.clock() - self.start
        return Log(
            self.arrivals,
            self.latency,
            self.status,
            self.fault,
            self.replies,
            body,
            self.lag,
            seconds,
        )

    def close(self) -> None:
        """Close all connections."""
        for connection in self.open:
            connection.sock.close()
        self.selector.close()

    # ------------------------------------------------------------------ out

    def _send_waiting(self) -> None:
        while self.waiting and self.idle:
            connection, i = self.idle.popleft(), self.waiting.popleft()
            connection.request = i
            request = self.requests[i % len(self.requests)]
            try:
                sent = connection.sock.send(request)
            except BlockingIOError:
                sent = 0
            except OSError:
                self._drop(connection, "closed")
                continue
            if sent < len(request):
                connection.rest = memoryview(request)[sent:]
                self.selector.modify(connection.sock, _READ | _WRITE, connection)
        for _ in range(min(len(self.waiting) - self.connecting, self.most - len(self.open))):
            self._connect()

    def _connect(self) -> None:
        sock = socket.socket(self.family, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = _Connection(sock)
        connection.rest = None
        code = sock.connect_ex(self.address)
        self.open.add(connection)
        self.connecting += 1
        self.selector.register(sock, _WRITE, connection)
        if code not in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
            self._drop(connection, "refused")

    def _go_on_sending(self, connection: _Connection) -> None:
        if connection.rest is None:  # the handshake is over, one way or the other
            if connection.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                self._drop(connection, "refused")
                return
            self.connecting -= 1
            connection.rest = b""
            self.idle.append(connection)
        if connection.rest:
            try:
                connection.rest = connection.rest[connection.sock.send(connection.rest) :]
            except BlockingIOError:
                return
            except OSError:
                self._drop(connection, "closed")
                return
        if not connection.rest:
            self.selector.modify(connection.sock, _READ, connection)

    # ------------------------------------------------------------------ in

    def _look(self, seconds: float) -> None:
        """Wait for something to read for at most so long, to the microsecond, and read it."""
        if (
            seconds > 0
        ):  # a selector of epoll counts milliseconds; select does not, and one descriptor is enough
            select.select([self.selector.fileno()], [], [], seconds)
        for key, events in self.selector.select(0):
            if events & _WRITE:
                self._go_on_sending(key.data)
            if events & _READ and key.data in self.open:
                self._read(key.data)

    def _read(self, connection: _Connection) -> None:
        try:
            piece = connection.sock.recv(_PIECE)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        if not piece:
            self._drop(connection, "closed")
            return
        buffer = connection.buffer + piece if connection.buffer else piece
        answer = _parsed(buffer)
        if answer is None:
            connection.buffer = buffer
            return
        i, connection.request, connection.buffer = connection.request, -1, b""
        if i < 0:  # an answer to nothing: not a connection to go on with
            self._drop(connection, "closed")
            return
        status, body, closing = answer
        self.latency[i] = self.clock() - self.start - self.arrivals[i]
        self.status[i] = status
        if self.keep:
            self.replies[i] = body
        self.settled += 1
        if closing:
            self._drop(connection, "closed")
        else:
            self.idle.append(connection)

    def _drop(self, connection: _Connection, fault: str) -> None:
        """Forget a connection. The request that it carries fails; a refused connection fails the one that has waited longest."""
        self.open.discard(connection)
        self.connecting -= connection.rest is None
        self.selector.unregister(connection.sock)
        connection.sock.close()
        if connection in self.idle:
            self.idle.remove(connection)
        lost = connection.request
        if fault == "refused" and self.waiting:
            lost = self.waiting.popleft()
        if lost >= 0:
            self.fault[lost] = fault
            self.settled += 1


def _parsed(buffer: bytes) -> tuple[int, bytes, bool] | None:
    """Status, body, and whether the connection ends with it; None while the answer is not whole."""
    end = buffer.find(b"\r\n\r\n")
    if end < 0:
        return None
    head, start = buffer[: end + 2].lower(), end + 4
    status, closing = int(head[9:12]), b"\r\nconnection: close\r\n" in head
    at = head.find(b"\r\ncontent-length:")
    if at >= 0:
        length = int(head[at + 17 : head.index(b"\r\n", at + 17)])
        return None if len(buffer) < start + length else (status, buffer[start : start + length], closing)
    if b"\r\ntransfer-encoding: chunked\r\n" not in head:
        return status, b"", closing
    body = b""
    while True:
        line = buffer.find(b"\r\n", start)
        if line < 0:
            return None
        size = int(buffer[start:line].split(b";")[0], 16)
        start = line + 2 + size + 2
        if len(buffer) < start:
            return None
        if size == 0:
            return status, body, closing
        body += buffer[line + 2 : start - 2]
