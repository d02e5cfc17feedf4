"""New versions of models in every worker: the worker that gets the request tells the others through the board.

Workers share no other channel, and need none: each looks every few milliseconds at how often a load was asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import time
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from anytime.serve.errors import Refusal
from anytime.serve.logs import logger
from anytime.serve.registry import Stamp, stamp_of

if TYPE_CHECKING:
    from anytime.serve.board import Board, Slot
    from anytime.serve.registry import Registry

_LOOK = 0.05  # seconds between two looks at the board
_PATIENCE = 30.0  # seconds that others have to load a model too
_TIDY = 2.0  # seconds after which an old version has answered what it held


class Reloads:
    """Loads models again when this worker, whose ``slot`` is given, or another one is asked to."""

    def __init__(self, registry: Registry, board: Board, slot: Slot) -> None:
        self.registry, self.board, self.slot = registry, board, slot
        self.tasks: set[asyncio.Task[None]] = set()
        self._tidying = False
        self._seen = [board.reloads_asked(number) for number in range(len(board.models))]

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside the answers."""
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def tidy_soon(self) -> None:
        """Free the memory of an old version once no request uses it."""
        if not self._tidying:
            self._tidying = True
            self.begin(self._tidy())

    async def _tidy(self) -> None:
        await asyncio.sleep(_TIDY)
        self._tidying = False
        await asyncio.to_thread(_give_back)

    async def catch_up(self) -> None:
        """Load files that were replaced after this process got its models, and say that all requests are seen to."""
        for number, name in enumerate(self.board.models):
            entry = self.registry.get(name)
            # a file that is gone: the model is loaded, and that is what counts
            with contextlib.suppress(OSError):
                if stamp_of(entry.path) != entry.stamp:
                    await self._try(name)
            self.slot.saw_reloads(number, self._seen[number])

    async def here(self) -> None:
        """Load all models in this worker."""
        for name in self.board.models:
            await self._try(name)

    async def everywhere(self, name: str) -> None:
        """Load a model's file, if it is another, here, then in all other workers; return when all have it."""
        number = self.board.models.index(name)
        try:
            await self._reload(name, unchanged=False)
        except Exception as error:
            raise Refusal(400, f"{name} stays as it was: {error}") from error
        self.slot.ask_reload(number)
        requests = self.board.reloads_asked(number)
        if (
            requests == self._seen[number] + 1
        ):  # no other request meanwhile: this worker has loaded it already
            self._saw(number, requests)
        ends = time.monotonic() + _PATIENCE
        while min(self.board.reloads_seen(number)) < requests:
            if time.monotonic() >= ends:
                sentence = f"{name} is loaded here, but not yet in all workers; ask again to wait for them"
                raise Refusal(503, sentence, {"retry-after": "1"})
            await asyncio.sleep(_LOOK)

    async def follow(self) -> None:
        """See to what other workers ask for, for ever."""
        while True:
            await asyncio.sleep(_LOOK)
            for number, name in enumerate(self.board.models):
                requests = self.board.reloads_asked(number)
                if requests <= self._seen[number]:
                    continue
                await self._try(name, unchanged=False)
                self._saw(number, requests)

    async def watch(self, seconds: float) -> None:
        """Look at the files for ever, every ``seconds``; load those that were replaced. What cannot be loaded is tried once."""
        tried: dict[str, Stamp | None] = {name: self.registry.get(name).stamp for name in self.board.models}
        while True:
            await asyncio.sleep(seconds)
            for name in self.board.models:
                entry, stamp = self.registry.get(name), None
                with contextlib.suppress(OSError):  # a file that is gone cannot be loaded either
                    stamp = stamp_of(entry.path)
                if stamp not in (tried[name], entry.stamp):
                    tried[name] = stamp
                    await self._try(name)

    def _saw(self, number: int, asked: int) -> None:
        self._seen[number] = asked
        self.slot.saw_reloads(number, asked)

    async def _try(self, name: str, *, unchanged: bool = True) -> None:
        """Load a model; whatever is wrong with a new file, the old version answers."""
        try:
            await self._reload(name, unchanged=unchanged)
        except Exception as error:
            fields = {"model": name, "error": f"{type(error).__name__}: {error}"}
            logger.error("a new version could not be loaded", extra={"fields": fields})

    async def _reload(self, name: str, *, unchanged: bool) -> None:
        try:
            await self.registry.reload(name, unchanged=unchanged)
        except Exception:
            self.slot.count("failed_reloads")
            raise


def _give_back() -> None:
    """Hand memory that is free within this process back to the system, where its C library can."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
