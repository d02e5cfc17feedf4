"""Features on demand: raw examples are answered by sessions, which ask extractors for the groups on each example's own path.

Extractors wait for others: databases, services, large files. So sessions run in threads beside the event loop, and when the
answer is due, what a session has by then is the answer, whatever its extractor is doing.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from anytime._native import StopFlag
from anytime.answer import Answer
from anytime.estimator import AnytimeModel
from anytime.features import ExtractionError, Extractor, Features
from anytime.runtime import Session
from anytime.serve.questions import Question
from anytime.serve.sessions import SessionsBeside

if TYPE_CHECKING:
    from collections.abc import Iterator


logger = logging.getLogger("anytime.serve")

_PLACES = 64  # sessions that run at the same time
_CALLS = 64  # of an extractor for which no limit is set
_LOOK = 1.0  # seconds between two looks whether anybody still waits for a call that stands before its gate
_REASONS = ("deadline", "failed", "confidence", "budget")  # of many rows the first that one of them has


@dataclass(frozen=True)
class Extractors:
    """What a server knows of extractors."""

    features: Features
    # how many calls of an extractor may run at the same time; others wait for their turn. A group without a
    # limit has 64, and calls beyond them fail at once
    limits: Mapping[str, int] = field(default_factory=dict)
    # seconds after which a group counts as failed
    timeouts: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for what, settings in (("limits", self.limits), ("timeouts", self.timeouts)):
            for name, value in settings.items():
                if name not in self.features.extractors:
                    raise ValueError(f"{what} names {name!r}, for which there is no extractor")
                if not value > 0:
                    raise ValueError(f"{what}[{name!r}] must be positive, not {value}")

    @classmethod
    def read(cls, path: Path) -> Extractors:
        """Run a Python file that sets ``features``, and may set ``limits`` and ``timeouts``."""
        spec = importlib.util.spec_from_file_location("anytime_extractors", path)
        if spec is None or spec.loader is None:
            raise ValueError(f"{path} is not a Python file: its name must end in .py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # where dataclasses, pickle and others look for it
        spec.loader.exec_module(module)
        features = getattr(module, "features", None)
        if isinstance(features, Mapping):
            features = Features(features)
        if not isinstance(features, Features):
            raise ValueError(f"{path} has to set features = anytime.Features({{group: function, ...}})")
        return cls(features, getattr(module, "limits", {}), getattr(module, "timeouts", {}))


class Extraction(SessionsBeside):
    """Answers raw examples of one model. A group without an extractor is one that clients have to send."""

    def __init__(
        self, model: AnytimeModel, extractors: Extractors, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(_PLACES, clock)
        self.model = model
        self._session = Session(model, _guarded(model, extractors, clock), clock=clock)
        self._nothing = self._session.start(None).read()  # before the first stage

    @classmethod
    def of(cls, model: AnytimeModel, extractors: Extractors, name: str) -> Extraction | None:
        """For one of several models; None, and a line in the log, where the extractors are not made for it."""
        try:
            return cls(model, extractors)
        except ValueError as error:
            logger.warning("no features on demand", extra={"fields": {"model": name, "error": str(error)}})
            return None

    def _begin(self, question: Question) -> list[Any]:
        assert question.raws is not None
        return [None] * len(question.raws)

    def _run(self, sessions: list[Any], i: int, question: Question, due: float, stop: StopFlag) -> None:
        """Answer row ``i`` in a session that has what the client has sent."""
        assert question.raws is not None
        session = self._session.sibling().start(_Call(question.raws[i], due, stop))
        layout = session._layout
        held = range(len(layout.names)) if question.held is None else np.flatnonzero(question.held)
        columns = {layout.names[g]: layout.columns[g] for g in held}
        session.give({name: question.X[i, where] for name, where in columns.items() if len(where)})
        sessions[i] = session
        left = None if due == np.inf else max(due - self.clock(), 0.0)
        session.resume(
            budget=question.budget,
            mean_budget=question.mean_budget,
            deadline=left,
            confidence=question.confidence,
            stop=stop,
        )

    def _read(self, sessions: list[Any], question: Question) -> Answer:
        """What all sessions have come to."""
        rows = [self._nothing if session is None else session.read() for session in sessions]
        reasons = [_reason(row) for row in rows]
        return Answer.joined(
            rows,
            elapsed=self.clock() - question.arrived,
            partial=np.array([reason in ("deadline", "failed") for reason in reasons]),
            reason=next((reason for reason in _REASONS if reason in reasons), "complete"),
            failures={name: why for row in rows for name, why in row.failures.items()},
        )


def _reason(row: Answer) -> str:
    """Why a row ended: whoever stops it does so when an answer is due."""
    return "deadline" if row.reason in ("", "stop") else row.reason


# ---------------------------------------------------------------------- extractors within limits


class _Call:
    """A raw example, and when its features are due."""

    __slots__ = ("due", "raw", "stop")

    def __init__(self, raw: Any, due: float, stop: StopFlag) -> None:
        self.raw, self.due, self.stop = raw, due, stop


class _Gate:
    """Limits the concurrent calls of an extractor, and drops calls whose features are no longer needed.

    Calls beyond a limit that somebody has set wait. Without one they fail at once: they are too many only where an extractor
    hangs, or is late again and again, and each that waited would keep a thread.
    """

    def __init__(self, group: str, limit: int | None, clock: Callable[[], float]) -> None:
        self.group, self.clock = group, clock
        self._waits = limit is not None
        self._threads = threading.Semaphore(limit or _CALLS)
        self._tasks = asyncio.Semaphore(limit or _CALLS)

    def _patience(self, call: _Call) -> float:
        """Seconds until the next check whether a call is still needed; raises if it is not."""
        left = call.due - self.clock()
        if left <= 0 or call.stop.is_set():
            raise ExtractionError(self.group, "no request waits for it any more")
        return min(left, _LOOK)

    def _too_many(self) -> ExtractionError:
        return ExtractionError(self.group, "too many calls of its extractor are under way")

    @contextmanager
    def thread(self, call: _Call) -> Iterator[None]:
        """In a thread."""
        patience = self._patience(call)
        if not self._waits and not self._threads.acquire(blocking=False):
            raise self._too_many()
        while self._waits and not self._threads.acquire(timeout=patience):
            patience = self._patience(call)
        try:
            self._patience(call)
            yield
        finally:
            self._threads.release()

    @asynccontextmanager
    async def task(self, call: _Call) -> AsyncIterator[None]:
        """On an event loop."""
        patience, waits = self._patience(call), True
        if not self._waits and self._tasks.locked():
            raise self._too_many()
        while waits:
            try:
                await asyncio.wait_for(self._tasks.acquire(), patience)
                waits = False
            except TimeoutError:
                patience = self._patience(call)
        try:
            self._patience(call)
            yield
        finally:
            self._tasks.release()


def _guarded(model: AnytimeModel, extractors: Extractors, clock: Callable[[], float]) -> Features:
    """The extractors of the groups that a model uses, each behind its gate."""
    features, costs = extractors.features, model.costs_
    made = {}
    for name in costs.names:
        extractor = features.extractors.get(name)
        if extractor is None and costs.groups[name]:
            extractor = Extractor(_unsent(name))
        if extractor is not None:
            timeout = extractors.timeouts.get(name, extractor.timeout)
            made[name] = _behind(_Gate(name, extractors.limits.get(name), clock), extractor, timeout)
    columns = {name: listed for name, listed in features.columns.items() if name in made}
    return Features(made, columns=columns)


def _behind(gate: _Gate, extractor: Extractor, timeout: float | None) -> Extractor:
    """An extractor that is given calls instead of raw examples, always, and its function only what that takes."""
    raw_too = extractor.takes != "required"

    def arguments(call: Any, required: tuple[Any, ...]) -> tuple[Any, ...]:
        raw = [one.raw for one in call] if extractor.batch else call.raw
        return (raw, *required) if raw_too else required

    def function(call: Any, *required: Any) -> Any:
        try:
            with gate.thread(call[0] if extractor.batch else call):
                return extractor.function(*arguments(call, required))
        except ExtractionError as error:
            return error

    async def coroutine(call: Any, *required: Any) -> Any:
        try:
            async with gate.task(call[0] if extractor.batch else call):
                return await extractor.function(*arguments(call, required))
        except ExtractionError as error:
            return error

    guarded = coroutine if extractor.is_async else function
    takes: Literal["raw", "both"] = "raw" if extractor.takes == "raw" else "both"
    return replace(extractor, function=guarded, timeout=timeout, takes=takes)


def _unsent(group: str) -> Callable[[Any], Any]:
    def function(raw: Any) -> Any:
        raise ExtractionError(group, "was not sent, and the server has no extractor for it")

    return function
