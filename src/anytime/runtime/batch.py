"""Run many examples through the stages together: stage by stage over all of them, so that each always has an answer.

The batch as a whole has a budget of cost or time; stages spend it on the rows that they work on, and margin filters skip rows
that are already decided (Grubb, *Anytime Prediction*, section 6.4.2). Examples may join and leave at any time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.answer import Answer
from anytime.engine import Stop
from anytime.estimator import AnytimeModel
from anytime.features import Features
from anytime.rows import warn_of_absent
from anytime.runtime.bounds import Bounds, check_ends
from anytime.runtime.layout import Layout
from anytime.runtime.tile import Tile, Work
from anytime.runtime.timing import Timings

# why rows go no further, where nothing interrupts them: of many rows the first that one of them has
_REASONS = ("failed", "groups", "confidence", "budget")

# rows of a tile, as they were when all tiles were looked at
Part = tuple[Tile, Answer, NDArray[np.bool_]]


class BatchSession:
    """A model and a changing set of examples that run through its stages together.

    One thread computes at a time; any thread may ``read``, ``add`` and ``pop`` meanwhile.

    Parameters
    ----------
    model : fitted AnytimeModel
        Any model of this package that has a plan.
    examples : (n, d) table or matrix, or sequence of raw examples when there are ``features``, default=None
        A table need not have all columns: see ``anytime.rows``.
    features : Features, default=None
        Extractors of raw examples. None: examples are rows.
    budget : float, default=None
        The most that each row may pay, by the model's meter. None: the model's ``budget``.
    confidence : float, default=None
        A row stops as soon as its leading class has this probability.
    slice_seconds : float, default=1e-3
        Approximate maximum time between two points at which work can be interrupted.
    tile_rows : int, default=1024
        Number of rows that are stored, and published to readers, together.
    clock : callable, default=time.monotonic
        Returns seconds; tests pass their own.

    Attributes
    ----------
    reason : str
        Why the last call of ``advance`` ended: "complete", "budget", "deadline", "stages", "stop", "confidence", "groups" (rows
        lack some) or "failed" (an extractor did).

    See Also
    --------
    Session : One example at a time.

    Examples
    --------
    >>> import anytime as at
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = [[0, 1], [1, 0], [2, 5], [3, 3]], [0, 0, 1, 1]
    >>> forest = RandomForestClassifier(n_estimators=5, random_state=0).fit(X, y)
    >>> batch = at.BatchSession(at.make_anytime(forest), X)
    >>> batch.read().stage.tolist()
    [0, 0, 0, 0]
    >>> batch.advance(max_stages=2).stage.tolist()
    [2, 2, 2, 2]
    >>> batch.advance().prediction.tolist()
    [0, 0, 1, 1]
    """

    def __init__(
        self,
        model: AnytimeModel,
        examples: Any = None,
        features: Features | None = None,
        *,
        budget: float | None = None,
        confidence: float | None = None,
        slice_seconds: float = 1e-3,
        tile_rows: int = 1024,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not slice_seconds > 0:
            raise ValueError(f"slice_seconds must be positive, not {slice_seconds}")
        if tile_rows < 1:
            raise ValueError(f"tile_rows must be at least 1, not {tile_rows}")
        self.model, self.features = model, features
        self.slice_seconds, self.tile_rows, self.clock = slice_seconds, tile_rows, clock
        self._layout = Layout(model, features)
        self._bounds = Bounds.of(model, clock(), budget=budget, confidence=confidence)
        self._timings = Timings(self._layout.plan)
        self._writer = threading.RLock()
        self._members = threading.Lock()
        # with the number of the first row; replaced, never changed
        self._tiles: tuple[tuple[int, Tile], ...] = ()
        self._joined = 0
        self._departed = 0  # ticks paid by tiles that are gone
        self._departed_updates = np.zeros(self._layout.n_stages, dtype=np.int64)
        self._seconds = 0.0
        self._nobody = self._tile(np.empty((0, self._layout.column_group.size)), None).snapshot
        self.reason = ""
        if examples is not None:
            self.add(examples)

    # ------------------------------------------------------------------ joining and leaving

    def add(self, examples: Any) -> NDArray[np.intp]:
        """Add examples, which start at the first stage; return their numbers, for ``pop``."""
        held, size = None, self.tile_rows
        if self.features is None:
            rows = self.model._read_in(examples)
            if rows.mistaken:
                warn_of_absent(rows)
            examples, held = rows.X, rows.held
        else:
            examples = list(examples)
        tiles = [self._tile(examples[at : at + size], held) for at in range(0, len(examples), size)]
        with self._members:
            first = self._joined
            for tile in tiles:
                self._tiles = (*self._tiles, (self._joined, tile))
                self._joined += len(tile.gone)
            return np.arange(first, self._joined)

    def _tile(self, examples: Any, held: NDArray[np.bool_] | None) -> Tile:
        X, raws = examples, None
        if self.features is not None:
            X, raws = np.full((len(examples), self._layout.column_group.size), np.nan), examples
        return Tile(self._layout, X, raws, self._bounds, self._timings, self.clock, held)

    def pop(self, numbers: ArrayLike) -> Answer:
        """Read some examples and remove them: no more work is done on them."""
        wanted = np.asarray(numbers, dtype=np.intp).reshape(-1)
        with self._members:
            parts: list[Part] = []
            for number in wanted:
                first, tile = self._holder(int(number))
                row = np.zeros(len(tile.gone), dtype=bool)
                row[number - first] = True
                parts.append((tile, tile.snapshot, row))
            for tile, _, row in parts:
                tile.leave(np.flatnonzero(row))
            for _, tile in self._tiles:
                if tile.gone.all():
                    self._departed += tile.spent
                    self._departed_updates += tile.updates
            self._tiles = tuple(entry for entry in self._tiles if not entry[1].gone.all())
        return self._answer(parts)

    def _holder(self, number: int) -> tuple[int, Tile]:
        for first, tile in self._tiles:
            if first <= number < first + len(tile.gone) and not tile.gone[number - first]:
                return first, tile
        raise ValueError(f"there is no example {number}: it has left, or was never in this batch")

    @property
    def numbers(self) -> NDArray[np.intp]:
        """The current examples, in the order of ``read``."""
        numbers = [first + np.flatnonzero(~tile.gone) for first, tile in self._tiles]
        return np.concatenate(numbers) if numbers else np.empty(0, dtype=np.intp)

    # ------------------------------------------------------------------ going on

    def advance(
        self,
        *,
        deadline: float | None = None,
        budget_total: float | None = None,
        max_stages: int | None = None,
        stop: Stop | None = None,
    ) -> Answer:
        """Work until a bound is reached; call it again to continue.

        Parameters
        ----------
        deadline : float, default=None
            Seconds from now.
        budget_total : float, default=None
            Total cost at the end of all examples, including those that have left. Never exceeded: rows are processed in order
            of their margins as long as the maximum cost of the stage fits.
        max_stages : int, default=None
            Stages that the examples have done at the end. Rows that skip the following filters may be further.
        stop : StopFlag, threading.Event or similar, default=None
            Set from another thread to interrupt.
        """
        began = self.clock()
        check_ends(max_stages, stop)
        due = self.model._due(began, deadline)
        if budget_total is not None and not budget_total >= 0:
            raise ValueError(f"budget_total must be a non-negative number, not {budget_total}")
        total = None if budget_total is None else self._layout.plan.costs.costs.budget_ticks(budget_total)
        bounds = Bounds(self._layout.n_stages if max_stages is None else max_stages, due=due, stop=stop)
        with self._writer:
            reason = ""
            while not reason:
                reason = self._unit(bounds, total)
            self.reason = reason
            self._seconds += self.clock() - began
            if deadline is not None:
                self._timings.finish(self.clock() - due)
            return self.read()

    resume = advance  # after an interrupt, resuming is the same as advancing

    def _unit(self, bounds: Bounds, total: int | None) -> str:
        waiting = [(tile.stage, first, tile) for first, tile in self._tiles if tile.stage >= 0]
        if not waiting:
            reasons = {tile.reason for _, tile in self._tiles}
            return next((reason for reason in _REASONS if reason in reasons), "complete")
        stage, _, tile = min(waiting, key=lambda entry: entry[:2])
        if stage >= bounds.until:
            return "stages"
        now = self.clock()
        if reason := bounds.interrupted(now):
            return reason
        allowance = None if total is None else total - self._spent()
        return tile.unit(Work(min(self.slice_seconds, bounds.due - now), allowance, bounds))

    def _spent(self) -> int:
        return self._departed + sum(tile.spent for _, tile in self._tiles)

    # ------------------------------------------------------------------ reading

    def read(self) -> Answer:
        """The current answers of all examples, in the order in which they were added. Never waits for work in progress."""
        return self._answer([(tile, tile.snapshot, ~tile.gone) for _, tile in self._tiles])

    def _answer(self, parts: list[Part]) -> Answer:
        failures: dict[str, str] = {}
        for tile, _, _ in parts:
            for name, reasons in tile.failures.copy().items():
                failures[name] = f"{len(reasons)} rows: {reasons[0]}" if len(reasons) > 1 else reasons[0]
        rows = [self._nobody, *(shot.rows(kept) for _, shot, kept in parts)]
        return Answer.joined(rows, elapsed=self._seconds, reason=self.reason, failures=failures)

    def statistics(self) -> dict[str, Any]:
        """Summarise the run so far: rows, the share finished, the share that each stage has worked on, cost and times."""
        tiles = [tile for _, tile in self._tiles]
        here = sum(int((~tile.gone).sum()) for tile in tiles)
        finished = sum(int((tile.snapshot.finished & ~tile.gone).sum()) for tile in tiles)
        updates = self._departed_updates + sum(tile.updates for tile in tiles)
        joined = max(self._joined, 1)
        return {
            "joined": self._joined,
            "here": here,
            "finished": finished / here if here else 1.0,
            "updated": (updates / joined).tolist(),
            "mean_cost": self._layout.plan.costs.costs.amount(self._spent()) / joined,
            **self._timings.summary(),
        }
