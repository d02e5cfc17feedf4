"""Sessions in threads beside the event loop: when the answer is due, what they have by then is the answer."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any

import numpy as np

from anytime._native import StopFlag
from anytime.answer import Answer
from anytime.background import in_background
from anytime.serve.questions import Question


class SessionsBeside(ABC):
    """Answers raw examples of one model by sessions, of which ``places`` run at the same time; others wait for their turn."""

    def __init__(self, places: int, clock: Callable[[], float]) -> None:
        self._n_places, self.clock = places, clock
        self._places = asyncio.Semaphore(places)

    async def stream(
        self, question: Question, due: float, look: float | None = None
    ) -> AsyncIterator[Answer]:
        """The answer when all is done or due; with ``look``, what has improved every so many seconds until then."""
        stop, sessions = StopFlag(), self._begin(question)
        numbers = iter(range(len(sessions)))

        async def take_turns() -> None:
            for i in numbers:
                async with self._places:
                    if self.clock() >= due:
                        return
                    job = partial(self._run, sessions, i, question, due, stop)
                    await asyncio.wrap_future(in_background(job))

        work = asyncio.gather(*(take_turns() for _ in range(min(len(sessions), self._n_places))))
        work.add_done_callback(_heard)
        best = 0
        try:
            while not work.done() and (left := due - self.clock()) > 0:
                wait = min(left, np.inf if look is None else look)
                await asyncio.wait([work], timeout=None if wait == np.inf else wait)
                if look is None or work.done():
                    continue
                answer = self._read(sessions, question)
                if answer.stage.sum() > best:
                    best = int(answer.stage.sum())
                    yield answer.changed(reason="")
            if work.done():
                work.result()
            yield self._read(sessions, question)
        finally:
            stop.set()
            work.cancel()

    @abstractmethod
    def _begin(self, question: Question) -> list[Any]:
        """A place for each session; None where ``_run`` makes it."""

    @abstractmethod
    def _run(self, sessions: list[Any], i: int, question: Question, due: float, stop: StopFlag) -> None:
        """Take session ``i`` as far as there is time; in a thread."""

    @abstractmethod
    def _read(self, sessions: list[Any], question: Question) -> Answer:
        """What all sessions have come to; at any moment."""


def _heard(work: asyncio.Future[Any]) -> None:
    """Work that is given up when the answer is due is not an error to report."""
    if not work.cancelled():
        work.exception()
