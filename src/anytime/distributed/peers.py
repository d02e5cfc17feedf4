"""Messages between workers that grow a tree together: plain sockets, a message from everyone to everyone at a time.

A reduction takes two of them and a tree some sixty, so that what a message costs beside its bytes decides how few rows are worth
spreading. Whoever dies closes its sockets, which the others notice at once.
"""

from __future__ import annotations

import hmac
import select
import socket
import struct
import time
from collections.abc import Sequence

__all__ = ["PeerLostError", "Peers", "listening"]

_HEADER = struct.Struct("!Q")
_GREETING = struct.Struct("!32sI")  # secret, rank
_PATIENCE = 600.0  # seconds without a single byte after which the others are given up


class PeerLostError(RuntimeError):
    """Another worker cannot be reached any more."""


def listening(host: str) -> socket.socket:
    """A socket that waits for peers at an address of this machine."""
    door = socket.create_server((host, 0), backlog=1024)
    door.settimeout(_PATIENCE)
    return door


class Peers:
    """Connections to all other workers; see ``TreeGrower.peers``.

    Attributes
    ----------
    bytes_sent : int
        To others, headers included.
    seconds_waiting : float
        Spent in ``exchange``: sending, and waiting for those that are not as far.
    """

    def __init__(self, rank: int, sockets: dict[int, socket.socket]) -> None:
        self.rank, self.size, self._sockets = rank, len(sockets) + 1, sockets
        self.bytes_sent, self.seconds_waiting = 0, 0.0
        for connection in sockets.values():
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setblocking(False)

    @classmethod
    def meet(
        cls, rank: int, door: socket.socket, addresses: Sequence[tuple[str, int]], secret: bytes
    ) -> Peers:
        """Connect with everyone who knows the secret: with lower ranks by calling, with higher ones by waiting for their call."""
        sockets: dict[int, socket.socket] = {}
        try:
            for peer in range(rank):
                sockets[peer] = socket.create_connection(addresses[peer], timeout=_PATIENCE)
                sockets[peer].sendall(_GREETING.pack(secret, rank))
            while len(sockets) < len(addresses) - 1:
                caller, _ = door.accept()
                caller.settimeout(_PATIENCE)
                theirs, peer = _GREETING.unpack(_received(caller, _GREETING.size))
                if not hmac.compare_digest(theirs, secret):
                    caller.close()
                    continue
                sockets[peer] = caller
        except OSError as error:
            for connection in sockets.values():
                connection.close()
            raise PeerLostError(f"worker {rank} could not reach the others: {error}") from None
        return cls(rank, sockets)

    def exchange(self, messages: Sequence[bytes]) -> list[bytes]:
        """Send ``messages[i]`` to peer i; what each of them has sent here."""
        began = time.perf_counter()
        answers: list[bytes] = [b""] * self.size
        answers[self.rank] = bytes(messages[self.rank])
        ways = {
            connection.fileno(): _Way(connection, peer, messages[peer])
            for peer, connection in self._sockets.items()
        }
        poll = select.poll()
        for number in ways:
            poll.register(number, select.POLLIN | select.POLLOUT)
        while ways:
            ready = poll.poll(_PATIENCE * 1000)
            if not ready:
                raise PeerLostError(f"worker {self.rank} has heard nothing for {_PATIENCE:g} s")
            for number, _ in ready:
                way = ways[number]
                try:
                    way.go_on()
                except OSError as error:
                    raise PeerLostError(f"worker {way.peer} is gone: {error}") from None
                if way.received_all:
                    answers[way.peer] = bytes(way.incoming[_HEADER.size :])
                if way.received_all and way.sent_all:
                    poll.unregister(number)
                    del ways[number]
                elif way.sent_all:
                    poll.modify(number, select.POLLIN)
                elif way.received_all:
                    poll.modify(number, select.POLLOUT)
        self.bytes_sent += sum(
            len(message) + _HEADER.size for i, message in enumerate(messages) if i != self.rank
        )
        self.seconds_waiting += time.perf_counter() - began
        return answers

    def close(self) -> None:
        """Leave; the others find out at their next exchange."""
        for connection in self._sockets.values():
            connection.close()


class _Way:
    """One message out and one in."""

    def __init__(self, connection: socket.socket, peer: int, message: bytes) -> None:
        self.connection, self.peer = connection, peer
        self.outgoing = [memoryview(_HEADER.pack(len(message))), memoryview(message)]
        self.incoming = bytearray(_HEADER.size)
        self.n_received = 0

    @property
    def sent_all(self) -> bool:
        return not self.outgoing

    @property
    def received_all(self) -> bool:
        if self.n_received < _HEADER.size:
            return False
        return self.n_received == _HEADER.size + int(_HEADER.unpack_from(self.incoming)[0])

    def go_on(self) -> None:
        """Send and receive what goes without waiting."""
        try:
            while self.outgoing:
                sent = self.connection.sendmsg(self.outgoing)
                while self.outgoing and sent >= len(self.outgoing[0]):
                    sent -= len(self.outgoing.pop(0))
                if self.outgoing:
                    self.outgoing[0] = self.outgoing[0][sent:]
        except BlockingIOError:
            pass
        try:
            while not self.received_all:
                if self.n_received == _HEADER.size:
                    self.incoming.extend(bytes(int(_HEADER.unpack_from(self.incoming)[0])))
                with memoryview(self.incoming) as room:
                    count = self.connection.recv_into(room[self.n_received :])
                if count == 0:
                    raise ConnectionResetError("it has closed the connection")
                self.n_received += count
        except BlockingIOError:
            pass


def _received(connection: socket.socket, size: int) -> bytes:
    parts = b""
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise ConnectionResetError("it has closed the connection")
        parts += part
    return parts
