"""Heads of answers: with their bodies where there are any, at once where there are none yet."""

from __future__ import annotations

import asyncio
import time

import uvicorn

from anytime.serve.calls import READ
from anytime.serve.transport import OnePieceProtocol, _OnePiece


def exchange(request, reply, answers=1):
    """What a client has read with the last of some answers, of an application that ``reply(scope, send, release)`` is."""

    async def main():
        release = asyncio.Event()

        async def application(scope, _, send):
            await reply(scope, send, release)

        config = uvicorn.Config(
            application, port=0, http=OnePieceProtocol, ws="none", lifespan="off", log_config=None
        )
        server = uvicorn.Server(config)
        running = asyncio.create_task(server._serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request)
        for _ in range(answers):
            last = await asyncio.wait_for(reader.read(65536), 60)
        release.set()
        server.should_exit = True
        writer.close()
        await running
        return last

    return asyncio.run(main())


async def _plain(_, send, __):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await asyncio.sleep(0.05)
    await send({"type": "http.response.body", "body": b"ok"})


async def _slow_stream(_, send, release):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await release.wait()
    await send({"type": "http.response.body", "body": b"event", "more_body": False})


def test_an_answer_leaves_in_one_piece():
    answer = exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", _plain)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\nok")


def test_an_answer_to_head_leaves_although_it_has_no_body():
    answer = exchange(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", _plain)
    assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
    assert answer.endswith(b"\r\n\r\n")


def test_the_head_of_a_stream_does_not_wait_for_its_first_event():
    answer = exchange(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", _slow_stream)
    assert b"transfer-encoding: chunked" in answer
    assert b"event" not in answer


def test_a_request_knows_when_it_was_read():
    """Which is before its handler begins; half a request has not been read."""
    seen = []

    async def note(scope, send, release):
        seen.append((scope.get(READ), time.monotonic()))
        await _plain(scope, send, release)

    began = time.monotonic()
    exchange(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{}", note)
    exchange(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{", note)
    (read, handled), (half, _) = seen
    assert began < read <= handled
    assert half is None


def test_a_request_behind_another_of_its_connection_has_not_come_yet():
    """Its own time begins when it is its turn: not while the one before is answered."""
    seen = []

    async def note(scope, send, release):
        seen.append((scope["path"], READ in scope))
        await _plain(scope, send, release)

    requests = (f"POST /{i} HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n{{}}" for i in range(2))
    exchange("".join(requests).encode(), note, answers=2)
    assert seen == [("/0", True), ("/1", False)]


def test_what_comes_too_late_for_a_client_that_has_left_is_not_sent():
    """The transports of uvloop raise an error then, which would stand in the log as one of the server."""

    class Transport:
        def __init__(self):
            self.sent, self.has_left = [], False

        def is_closing(self):
            return self.has_left

        def write(self, data):
            assert not self.has_left, "the handler is closed"
            self.sent.append(data)

    transport = Transport()
    held = _OnePiece(transport)
    held.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n")
    transport.has_left = True
    held.write(b"a")
    held.flush()
    assert transport.sent == []
    transport.has_left = False  # the negative control
    held.write(b"b")
    assert transport.sent == [b"b"]
