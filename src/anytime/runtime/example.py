"""The features of one raw example: what has arrived, what is under way, what failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anytime.engine import Stop
from anytime.features import ExtractionError, Extractor, group_values, timed_out
from anytime.plan import Array
from anytime.rows import warn_of_absent
from anytime.runtime.layout import Groups, Layout

_POLL = 1e-3  # seconds between two looks at a Python stop flag while an extractor runs
_LONGEST = 3600.0  # what a condition variable may safely be asked to wait in one go


class Arrival(Enum):
    """How asking for a group ended."""

    HERE = "here"
    LATE = "late"  # still under way when the wait had to end; asking again takes it up
    FAILED = "failed"


class Pending(NamedTuple):
    """A group under way."""

    future: Future[list[Any]]
    began: float
    place: int


class Example:
    """A raw example and the row ``X`` (1, d) that its features fill, group by group: NaN where nothing has been computed yet.

    ``available`` (G,) says which groups are there, and ``is_whole`` whether all were from the start.
    """

    def __init__(
        self,
        layout: Layout,
        # the raw example; where the layout has no extractors, a row in any form that ``anytime.rows`` reads,
        # some groups of which may be missing
        raw: Any,
        # where to keep the row (1, d), all NaN at first, and what is there (G,), all False at first: parts of
        # larger arrays, say
        X: Array | None = None,
        available: NDArray[np.bool_] | None = None,
    ) -> None:
        self.layout, self.raw = layout, raw
        n_features, n_groups = layout.column_group.size, len(layout.names)
        self.failures: dict[str, str] = {}  # why, by group
        self.results: dict[str, Any] = {}  # what extractors returned, where others are given it
        self._pending: dict[int, Pending] = {}
        if layout.features is None:
            rows = layout.reader.one(raw)
            if rows.mistaken:
                warn_of_absent(rows)
            self.X = rows.X.copy()
            self.available = np.ones(n_groups, dtype=bool) if rows.held is None else rows.held.copy()
            self.failures = {layout.names[g]: "not available" for g in np.flatnonzero(~self.available)}
        else:
            self.X = np.full((1, n_features), np.nan) if X is None else X
            self.available = np.zeros(n_groups, dtype=bool) if available is None else available
        self.x: Array = self.X[0]
        self.is_whole = bool(self.available.all())

    def fetch(
        self, group: int, clock: Callable[[], float], due: float = np.inf, stop: Stop | None = None
    ) -> Arrival:
        """Compute a group, all of whose requirements are there, and fill its columns.

        With a deadline or a stop flag the extractor runs in the background, and the wait for it ends in time; what arrives
        later is kept for the next call. A Python function that never releases the interpreter can still delay the return by
        ``sys.getswitchinterval()``.
        """
        assert self.layout.features is not None
        name = self.layout.names[group]
        extractor = self.layout.features.extractors.get(name)
        if extractor is None:  # a step without columns: it is paid for, there is nothing to compute
            self.available[group] = True
            return Arrival.HERE
        if group not in self._pending:
            in_background = due < np.inf or stop is not None or extractor.timeout is not None
            if not in_background:
                return self.accept(group, self.layout.features.compute(name, [self.raw], [self.results])[0])
            began = clock()  # before it is handed over: its time runs from here
            self.expect(group, self.layout.features.submit(name, [self.raw], [self.results]), began)
        elif self._pending[group].future.done():  # arrived between two calls
            return self._take(group)
        return self._collect(group, extractor, clock, due, stop)

    def expect(self, group: int, future: Future[list[Any]], began: float, place: int = 0) -> None:
        """Wait, in the next ``fetch``, for what is under way: it will be at ``place`` in the future's list."""
        self._pending[group] = Pending(future, began, place)

    def time_left(self, group: int, expected: float, now: float) -> float:
        """How long a group that takes ``expected`` seconds will still take: less if it is under way, nothing if it is here."""
        pending = self._pending.get(group)
        if pending is None:
            return expected
        return 0.0 if pending.future.done() else max(expected - (now - pending.began), 0.0)

    def is_pending(self, group: int) -> bool:
        """Whether a group is under way."""
        return group in self._pending

    def _collect(
        self, group: int, extractor: Extractor, clock: Callable[[], float], due: float, stop: Stop | None
    ) -> Arrival:
        future, began, _ = self._pending[group]
        allowed = np.inf if extractor.timeout is None else began + extractor.timeout
        _wait(future, clock, min(due, allowed), stop)
        now = clock()
        if now >= allowed and (allowed <= due or not future.done()):
            future.cancel()
            del self._pending[group]
            return self._fail(group, timed_out(extractor.timeout))
        if now >= due or not future.done():
            return Arrival.LATE
        return self._take(group)

    def _take(self, group: int) -> Arrival:
        future, _, place = self._pending.pop(group)
        return self.accept(group, future.result()[place])

    def when_done(self, group: int, then: Callable[[], None]) -> None:
        """Call ``then`` once the group that came too late has arrived, from whatever thread brings it."""
        if group in self._pending:
            self._pending[group].future.add_done_callback(lambda _: then())

    def accept(self, group: int, outcome: Any) -> Arrival:
        """Fill in what an extractor returned; a result that does not fit is a failure, not an error."""
        layout, name = self.layout, self.layout.names[group]
        columns = layout.columns[group]
        if isinstance(outcome, ExtractionError):
            return self._fail(group, outcome.reason)
        try:
            flat = layout.reader.flat(outcome, columns.tolist())
            values = group_values(flat, layout.labels[group])
            self.x[columns] = layout.reader.values(values, columns.tolist())
        except ValueError as error:
            return self._fail(group, str(error))
        self.available[group] = True
        self.is_whole = layout.features is None and bool(self.available.all())
        if group in layout.dependents:
            self.results[name] = outcome
        return Arrival.HERE

    def lost(self) -> NDArray[np.bool_] | None:
        """(G,) groups that cannot be had: an extractor failed, or that of a group which they require. None: all can."""
        if not self.failures:
            return None
        failed = {self.layout.number[name] for name in self.failures}
        lost = [not failed.isdisjoint(closure) for closure in self.layout.closures]
        return np.asarray(np.array(lost, dtype=bool) & ~self.available)

    def has_lost(self, groups: Sequence[int] | Groups) -> bool:
        """Whether one of ``groups`` cannot be had."""
        lost = self.lost()
        return lost is not None and bool(lost[groups].any())

    def _fail(self, group: int, reason: str) -> Arrival:
        self.failures[self.layout.names[group]] = reason
        return Arrival.FAILED

    def release(self, stage: int) -> None:
        """Drop what extractors returned when nothing from ``stage`` on can build on it."""
        if not self.results:
            return
        layout = self.layout
        ahead = ~self.available & (layout.next_use[stage] < layout.n_stages)
        wanted = {g for user in np.flatnonzero(ahead) for g in layout.closures[user] if not self.available[g]}
        for name in list(self.results):
            if not wanted.intersection(layout.dependents[layout.number[name]]):
                del self.results[name]

    # ------------------------------------------------------------------ state

    def state(self) -> dict[str, Any]:
        """State from which this example continues elsewhere, without running extractors: they would be called again."""
        return {
            "raw": self.raw,
            "X": self.X.copy(),
            "available": self.available.copy(),
            "failures": dict(self.failures),
            "results": dict(self.results),
        }

    def take_back(self, state: dict[str, Any]) -> None:
        """Return to what ``state`` gave, in place."""
        self.X[:], self.available[:] = state["X"], state["available"]
        self.failures, self.results = state["failures"], state["results"]
        self.is_whole = self.layout.features is None and bool(self.available.all())

    @classmethod
    def from_state(cls, layout: Layout, state: dict[str, Any]) -> Example:
        """Read what ``state`` gave."""
        example = cls.__new__(cls)
        example.layout, example._pending = layout, {}
        example.raw, example.failures, example.results = (
            state["raw"],
            dict(state["failures"]),
            dict(state["results"]),
        )
        example.X = np.array(state["X"])
        example.x = example.X[0]
        example.available = np.array(state["available"])
        example.is_whole = layout.features is None and bool(example.available.all())
        return example

    def values(self) -> dict[str, NDArray[np.float64]]:
        """The numbers of every group that has arrived."""
        layout = self.layout
        return {layout.names[g]: self.x[layout.columns[g]] for g in np.flatnonzero(self.available)}


def _wait(future: Future[Any], clock: Callable[[], float], until: float, stop: Stop | None) -> None:
    """Wait for ``future``, or until the clock says ``until``, or until stopped."""
    while not future.done():
        left = until - clock()
        if left <= 0 or (stop is not None and stop.is_set()):
            return
        with suppress(TimeoutError):
            future.exception(min(left, _LONGEST if stop is None else _POLL))
