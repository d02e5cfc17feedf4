"""Processes that answer: one, or several that share a socket, a board and the models.

The first process loads the models and forks, so that workers share the memory of all that nobody writes, and one that died is
back within milliseconds. It then only watches: a worker that ends is replaced, and when it is told to stop it tells the workers,
which stop listening, answer what they hold, and end.
"""

import asyncio
import gc
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

import uvicorn
import uvloop  # noqa: F401  # by uvicorn, but here already: workers that are forked have it

from anytime.serve.app import Server
from anytime.serve.board import Board
from anytime.serve.logs import configure, logger
from anytime.serve.settings import Settings
from anytime.serve.transport import OnePieceProtocol

_BACKLOG = 2048
# new objects before they are looked through: seldom, for the application does so every second
_GARBAGE = (10_000, 50, 100)
_TURN = 5e-4  # seconds after which a thread that loads a model or computes a feature yields to the answers
_QUICK = 1.0  # seconds; a worker that ends sooner than that after its start may do so again
_LONGEST_PAUSE = 30.0
_GRACE = 5.0  # seconds beyond the time to drain after which a worker is killed
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGHUP)


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens; ``OSError`` says why it cannot."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind(address)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
    except OSError:
        listener.close()
        raise
    return listener


def serve(
    settings: Settings, listener: socket.socket, started: Callable[[Server], None] | None = None
) -> int:
    """Load the models and answer until the process gets a signal to stop; return its exit code.

    ``bind`` makes the ``listener``; ``started`` is called when models are loaded, before anybody is answered.
    """
    configure(settings.log_level, 0)
    if settings.workers > 1:
        # torch then asks the driver whether there is a GPU, and does not begin to use it: a process that did cannot be forked
        os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")
    server = Server(settings, Board(settings.workers, list(settings.models)))
    early = _Early()
    gc.collect()
    gc.freeze()  # what was imported stays: the collector need not look at it, nor workers copy it; models come and go
    try:
        server.load()
        if started is not None:
            started(server)
        if settings.workers == 1:
            code = _answer(server, listener, 0, None, early)
        elif hasattr(os, "fork"):
            code = _Supervisor(server, listener).run()
        else:
            raise ValueError(
                "several workers need a system that can fork; use workers=1 and start several servers"
            )
        counts = server.board.totals().counts
        fields = {name: counts[name] for name in ("requests", "refused", "failed")}
        logger.info("stopped", extra={"fields": fields})
        return code
    finally:
        server.registry.close()


# ---------------------------------------------------------------------- one worker


class _Early:
    """Hears SIGHUP, which would end the process, while nothing can be loaded again yet."""

    def __init__(self) -> None:
        self.came = False
        signal.signal(signal.SIGHUP, self._hear)

    def _hear(self, *_: Any) -> None:
        self.came = True


class _Uvicorn(uvicorn.Server):
    """Tells the application that the end is near before it waits for open connections.

    The ``lifeline``, where there is one, can be read from when the process that watches is no more.
    """

    def __init__(self, config: uvicorn.Config, server: Server, lifeline: int | None, early: _Early) -> None:
        super().__init__(config)
        self._server, self._lifeline, self._early = server, lifeline, early

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self._server.reload_all)
        if self._early.came:
            self._server.reload_all()
        if self._lifeline is not None:
            loop.add_reader(self._lifeline, self._orphaned, loop)

    def _orphaned(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.remove_reader(self._lifeline)  # type: ignore[arg-type]  # there is one
        logger.error("the process that watches over this one has ended, and so does this one")
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._server.stop()
        await super().shutdown(sockets)


def _answer(server: Server, listener: socket.socket, worker: int, lifeline: int | None, early: _Early) -> int:
    """Answer until a signal to stop; return the exit code."""
    settings = server.settings
    configure(settings.log_level, worker)
    server.take(worker)
    config = uvicorn.Config(
        server,
        loop="uvloop",
        http=OnePieceProtocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=max(1, round(settings.drain)),
        backlog=_BACKLOG,
    )
    prefer_answers()
    loop = _Uvicorn(config, server, lifeline, early)

    def stop(*_: Any) -> None:
        """Before uvicorn listens to signals, and after: when it is done, it raises again what stopped it."""
        loop.should_exit = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    loop.run(sockets=[listener])
    return 0 if loop.started else 3


def prefer_answers() -> None:
    """Have threads of this process give way to answers, and garbage looked for when there is time."""
    sys.setswitchinterval(_TURN)
    gc.set_threshold(*_GARBAGE)


def _ignore(*_: Any) -> None:
    """Nothing is done at once when a signal comes."""


# ---------------------------------------------------------------------- several


class _Supervisor:
    """Keeps workers alive. Each starts as a copy of this process, with the models loaded."""

    def __init__(self, server: Server, listener: socket.socket) -> None:
        self.server, self.listener = server, listener
        self.workers: dict[int, int] = {}  # number of each worker by its process
        self.born: dict[int, float] = {}  # when each process began
        self.pause: dict[int, float] = {}  # seconds to wait before the next start of a worker that dies young
        self.due = dict.fromkeys(range(server.settings.workers), 0.0)  # when workers are to be started
        self.ends: float | None = None  # when workers that were asked to stop are killed
        self.wake, self.woken = socket.socketpair()  # a signal writes its number into the second
        self.lifeline, self._held = os.pipe()  # workers read the end of it when this process is no more

    def run(self) -> int:
        """Start all workers; return when the last has ended after a signal to stop."""
        for end in (self.wake, self.woken):
            end.setblocking(False)
        signal.set_wakeup_fd(self.woken.fileno())
        for number in _SIGNALS:
            signal.signal(number, _ignore)
        with selectors.DefaultSelector() as selector:
            selector.register(self.wake, selectors.EVENT_READ)
            while self.workers or self.due:
                for worker in [worker for worker, at in self.due.items() if at <= time.monotonic()]:
                    del self.due[worker]
                    self._start(worker)
                times = [*self.due.values(), *([] if self.ends is None else [self.ends])]
                selector.select(max(0.0, min(times) - time.monotonic()) if times else None)
                self._hear()
                self._bury()
        return 0

    def _hear(self) -> None:
        """Pass signals on to the workers."""
        signals = _drained(self.wake)
        if signal.SIGHUP in signals:
            self._tell(signal.SIGHUP)
        if signals & {signal.SIGTERM, signal.SIGINT} and self.ends is None:
            self.ends = time.monotonic() + self.server.settings.drain + _GRACE
            self.due.clear()
            self._tell(signal.SIGTERM)
        if self.ends is not None and time.monotonic() >= self.ends:
            self.ends = time.monotonic() + 1.0
            self._tell(signal.SIGKILL)

    def _start(self, worker: int) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)  # until a new worker has handlers of its own
        try:
            process = os.fork()
        except OSError as error:  # of memory or processes there are too few, for the moment
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            pause = self._later(worker)
            fields = {"error": str(error), "again_in": pause}
            logger.error(f"worker {worker} could not be started", extra={"fields": fields})
            return
        if process:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            self.workers[process], self.born[process] = worker, time.monotonic()
            return
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            early = _Early()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
            self.wake.close()
            self.woken.close()
            os.close(self._held)
            code = _answer(self.server, self.listener, worker, self.lifeline, early)
        except SystemExit as ended:  # uvicorn's, when it cannot start
            code = int(ended.code or 0)
        except BaseException:
            logger.exception("a worker could not go on")
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)  # nothing of the first process is tidied up twice

    def _bury(self) -> None:
        """Take note of workers that have ended, and when others are to take their places."""
        while self.workers:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if not process:
                break
            worker = self.workers.pop(process, None)
            if worker is None:
                continue
            young = time.monotonic() - self.born.pop(process) < _QUICK
            if self.ends is not None:
                continue
            self.server.board.slot(worker).end()
            pause = self._later(worker, young)
            fields = {"pid": process, "status": os.waitstatus_to_exitcode(status), "again_in": pause}
            logger.error(f"worker {worker} has ended", extra={"fields": fields})

    def _later(self, worker: int, young: bool = True) -> float:
        """Start a worker after a pause, twice as long as the one before; at once if the last did not die ``young``."""
        pause = min(max(2 * self.pause.get(worker, 0.0), 0.1), _LONGEST_PAUSE) if young else 0.0
        self.pause[worker], self.due[worker] = pause, time.monotonic() + pause
        return pause

    def _tell(self, number: signal.Signals) -> None:
        for process in self.workers:
            try:
                os.kill(process, number)
            except ProcessLookupError:
                continue


def _drained(wake: socket.socket) -> set[int]:
    try:
        return set(wake.recv(4096))
    except BlockingIOError:
        return set()
