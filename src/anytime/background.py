"""Where calls that may be slow or asynchronous run: threads that do not hold up the interpreter's exit, and one event loop."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import Any


class _Workers:
    """Daemon threads that outlive what they are given. An extractor that hangs must not hold up the interpreter's exit."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0

    def submit(self, job: Callable[[], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            if self._idle:
                self._idle -= 1
            else:
                threading.Thread(target=self._work, name="anytime-extractor", daemon=True).start()
        self._jobs.put((future, job))
        return future

    def _work(self) -> None:
        while True:
            future, job = self._jobs.get()
            wanted = future.set_running_or_notify_cancel()
            try:
                outcome, error = job() if wanted else None, None
            except BaseException as raised:  # also SystemExit: it must reach the waiting caller
                outcome, error = None, raised
            with self._lock:
                self._idle += 1  # before the result is seen, so that the next job finds this thread idle
            if error is not None:
                future.set_exception(error)
            elif wanted:
                future.set_result(outcome)
            del future, job, outcome, error  # an idle thread keeps no example alive


class _Background:
    """One event loop in one daemon thread, started when the first asynchronous extractor is called."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, coroutine: Awaitable[Any]) -> Future[Any]:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="anytime-async", daemon=True).start()
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)  # type: ignore[arg-type]


_workers = _Workers()
_background = _Background()


def in_background(job: Callable[[], Any]) -> Future[Any]:
    """Run ``job`` in a thread that does not hold up the interpreter's exit."""
    return _workers.submit(job)


def on_event_loop(awaitable: Awaitable[Any]) -> Future[Any]:
    """Await something on the event loop that all asynchronous calls share: what is bound to a loop works in every one."""

    async def awaited() -> Any:
        return await awaitable

    return _background.run(awaited())


def _forget_threads() -> None:
    global _workers, _background
    _workers, _background = _Workers(), _Background()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)  # threads do not survive a fork
