"""What the processes of a server do in moments that are too short to be met from outside."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import socket
import sys

import pytest

from anytime.serve import workers
from tests.serve.serving import application


@pytest.fixture
def as_it_was():
    """Handlers and the rhythm of the interpreter, which a worker sets for itself."""
    handlers = {number: signal.getsignal(number) for number in workers._SIGNALS}
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)
    sys.setswitchinterval(interval)
    gc.set_threshold(*thresholds)


def test_a_signal_before_the_loop_runs_is_not_lost(tmp_path, as_it_was, monkeypatch):
    told = []

    def run(loop, sockets):
        os.kill(os.getpid(), signal.SIGTERM)  # uvicorn's own handlers come later
        told.append(loop.should_exit)
        loop.started = True

    monkeypatch.setattr(workers._Uvicorn, "run", run)
    monkeypatch.setattr(workers, "configure", lambda *_: None)
    with socket.socket() as listener:
        assert workers._answer(application(tmp_path), listener, 0, None, workers._Early()) == 0
    assert told == [True]


def test_a_wish_to_load_again_that_comes_too_early_is_not_lost(tmp_path, as_it_was, monkeypatch):
    """It would end a process that does not listen yet."""
    early = workers._Early()
    assert not early.came
    os.kill(os.getpid(), signal.SIGHUP)
    assert early.came
    server, done = application(tmp_path), []
    monkeypatch.setattr(server, "reload_all", lambda: done.append(True))

    async def started(*_):
        pass

    async def main():
        monkeypatch.setattr(workers.uvicorn.Server, "startup", started)
        await workers._Uvicorn(workers.uvicorn.Config(server), server, None, early).startup()
        asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)

    asyncio.run(main())
    assert done == [True]


def test_a_worker_that_cannot_be_started_is_tried_again(tmp_path, as_it_was, monkeypatch, caplog):
    """A system may be out of processes for a moment; that must not end those who answer."""

    def fork():
        raise BlockingIOError("no more processes")

    monkeypatch.setattr(workers.os, "fork", fork)
    with socket.socket() as listener:
        supervisor = workers._Supervisor(application(tmp_path, workers=2), listener)
        supervisor.due.clear()
        for _ in range(3):
            supervisor._start(0)
        assert supervisor.due.keys() == {0}
        assert supervisor.pause[0] == pytest.approx(0.4)
        assert not signal.pthread_sigmask(signal.SIG_BLOCK, [])  # signals are heard
        for end in (supervisor.wake, supervisor.woken):
            end.close()
    assert caplog.records[-1].getMessage() == "worker 0 could not be started"
