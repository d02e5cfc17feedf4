"""How long stages take on this machine: measured once when a model is loaded, corrected while it answers.

A plan of work needs more than the pace of the model: each question is also read and rendered by the same process. Both are
measured, so that under load the time for a stage is what is left of the time for an answer.
"""

from __future__ import annotations

import math
import multiprocessing
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.estimator import AnytimeModel
from anytime.forest_run import start
from anytime.plan import Array, Plan

_MOST_CHECKPOINTS = 64
_ROWS = 32  # measured together: about what a busy server evaluates at once
_MEMORY = 5e-3  # seconds of work after which an observation counts a third of what it did
_SLOWEST, _QUICKEST = 100.0, 0.1  # how far observations may correct what was measured
_SURPRISE = 3.0  # times what was expected: the most that one observation counts, as it may be a pause of the whole machine
_QUESTION = 5e-5  # seconds that a question may well take


class StagePace:
    """Seconds that stages take.

    Parameters
    ----------
    checkpoints : (K,) int
        Stages after which work may stop, increasing; the last is the plan's.
    per_row : (K,) float
        Seconds that one row of many takes from the beginning to each checkpoint.
    call : float, default=0.0
        Seconds that any piece of work takes besides, however few its rows.
    per_question : float, default=0.0
        Seconds that a question takes besides its stages: reading, handing over, rendering.

    Examples
    --------
    >>> pace = StagePace([1, 2, 4], [1e-3, 2e-3, 6e-3], call=1e-4)
    >>> round(pace.seconds(1, 3, rows=2), 6)
    0.0061
    """

    def __init__(
        self, checkpoints: ArrayLike, per_row: ArrayLike, call: float = 0.0, per_question: float = 0.0
    ) -> None:
        self.checkpoints = np.asarray(checkpoints, dtype=np.int64)
        measured = np.asarray(per_row, dtype=np.float64)
        if self.checkpoints.shape != measured.shape or not self.checkpoints.size:
            raise ValueError("a pace needs one time for each of its checkpoints, and at least one")
        if (np.diff(self.checkpoints, prepend=0) < 1).any() or (np.diff(measured, prepend=0.0) < 0).any():
            raise ValueError("checkpoints have to increase from 1, and times must not fall")
        stages = np.arange(self.checkpoints[-1] + 1)
        self._measured = np.interp(stages, np.append(0, self.checkpoints), np.append(0.0, measured))
        self._call = call
        self._observed = self._expected = 1e-3  # seconds; a first observation does not change everything
        self._outside, self._questions, self.per_question = 10 * per_question, 10.0, per_question
        self._correct()

    def _correct(self) -> None:
        self.factor = min(max(self._observed / self._expected, _QUICKEST), _SLOWEST)
        self.per_row: Array = self._measured * self.factor
        self.call = self._call * self.factor

    @classmethod
    def measure(cls, model: AnytimeModel, *, rows: ArrayLike | None = None, seconds: float = 0.2) -> Self:
        """Run the model for about ``seconds`` and take its times.

        Parameters
        ----------
        model : fitted AnytimeModel
        rows : (n, d), default=None
            Typical rows, as the plan reads them. None: rows that the model remembers, or that take turns at the
            thresholds of its trees.
        seconds : float, default=0.2
        """
        plan, metered = model.plan_, model.meter == "realised"
        X = _typical_rows(plan) if rows is None else np.ascontiguousarray(rows, dtype=np.float64)
        X = np.resize(X, (_ROWS, plan.n_features))
        checkpoints = checkpoints_of(plan.n_stages)

        def times(X: Array, stops: NDArray[np.int64]) -> Array:
            taken: list[Array] = []
            while not taken or (len(taken) < 200 and time.perf_counter() < ends):
                taken.append(_segments(lambda: start(plan, X, metered=metered), len(X), stops))
            return np.asarray(np.median(taken, axis=0))

        for some in (X[:1], X):  # what happens once (a GPU starts, kernels are chosen) is no time of a stage
            start(plan, some, metered=metered).advance(np.full(len(some), plan.n_stages, dtype=np.int32))
        ends = time.perf_counter() + seconds
        # a segment by itself contains the cost of a call, so single rows say what that is, and whole runs the level
        alone = float(times(X[:1], checkpoints[:1])[0])
        ends = time.perf_counter() + seconds / 2
        whole = float(times(X, checkpoints[-1:])[0])
        ends = time.perf_counter() + seconds / 2
        segments = np.maximum(times(X, checkpoints) - alone, 1e-9)
        per_row = np.cumsum(segments) * (max(whole - alone, 1e-9) / segments.sum()) / len(X)
        return cls(checkpoints, per_row, call=alone)

    def by_way_of(self, before: int, n_stages: int) -> StagePace:
        """What ``before`` of these stages and then others take, each of which is taken to be as long as the longest of these."""
        longest = float(np.diff(self.per_row).max(initial=1e-9))
        further = self.per_row[before] + longest * np.arange(1, n_stages + 1)
        per_row = np.concatenate([self.per_row[1 : before + 1], further])
        return StagePace(np.arange(1, before + n_stages + 1), per_row, self.call, self.per_question)

    # ------------------------------------------------------------------ asking

    def seconds(self, first: int, last: int, rows: int) -> float:
        """Expected seconds of stages ``first`` up to, not including, ``last`` on ``rows`` rows; nothing for no stage."""
        if last <= first or rows <= 0:
            return 0.0
        return float(self.call + rows * (self.per_row[last] - self.per_row[first]))

    def rows_within(self, seconds: float, first: int, last: int) -> int:
        """The most rows, at least one, whose stages ``first`` up to ``last`` are expected to be done within ``seconds``."""
        each = self.per_row[last] - self.per_row[first]
        return max(1, int(min((seconds - self.call) / max(each, 1e-12), 1e9)))

    def stage_within(self, seconds: float, first: int, last: int, rows: int) -> int:
        """The furthest checkpoint, or ``last``, that rows are expected to reach within ``seconds``; at least the next one."""
        if self.seconds(first, last, rows) <= seconds:
            return last
        reach = self.per_row[first] + max(seconds - self.call, 0.0) / rows
        stage = int(np.searchsorted(self.per_row, reach, side="right")) - 1
        return min(last, max(self.checkpoint_before(stage), self.next_checkpoint(first)))

    def next_checkpoint(self, stage: int) -> int:
        """The first checkpoint after ``stage``."""
        at = min(int(np.searchsorted(self.checkpoints, stage, side="right")), self.checkpoints.size - 1)
        return int(self.checkpoints[at])

    def checkpoint_before(self, stage: int) -> int:
        """The last checkpoint that is not after ``stage``; 0 where there is none."""
        at = int(np.searchsorted(self.checkpoints, stage, side="right"))
        return int(self.checkpoints[at - 1]) if at else 0

    # ------------------------------------------------------------------ learning

    def observe(self, first: int, last: int, rows: int, seconds: float) -> None:
        """Correct the pace by what stages ``first`` up to ``last`` have really taken; longer work says more."""
        expected = self.seconds(first, last, rows) / self.factor
        if expected <= 0.0:
            return
        seconds = min(seconds, _SURPRISE * expected * self.factor)
        kept = math.exp(-seconds / _MEMORY)
        self._observed = kept * self._observed + seconds
        self._expected = kept * self._expected + expected
        if not 0.99 < self._observed / (self.factor * self._expected) < 1.01:
            self._correct()

    def observe_questions(self, questions: float, seconds: float) -> None:
        """Learn from what was done between two slices: ``questions`` were read and rendered in ``seconds``."""
        if questions > 0:
            seconds = min(seconds, _SURPRISE * max(self.per_question, _QUESTION) * questions)
            kept = math.exp(-seconds / (4 * _MEMORY))
            self._outside = kept * self._outside + seconds
            self._questions = kept * self._questions + questions
            self.per_question = self._outside / self._questions

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, as corrected now."""
        return {
            "checkpoints": self.checkpoints.tolist(),
            "per_row": self.per_row[self.checkpoints].tolist(),
            "call": self.call,
            "per_question": self.per_question,
            "factor": self.factor,
        }


def measured_aside(model: AnytimeModel, seconds: float) -> StagePace:
    """``StagePace.measure`` in a process of its own, so that this one can be forked afterwards."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_measure_into, args=(there, model, seconds))
    process.start()
    there.close()
    try:
        return StagePace(*here.recv())
    except EOFError:
        raise RuntimeError("the model could not be run in a process of its own; the error is above") from None
    finally:
        process.join()


def _measure_into(there: Connection, model: AnytimeModel, seconds: float) -> None:
    pace = StagePace.measure(model, seconds=seconds)
    there.send((pace.checkpoints, pace.per_row[pace.checkpoints], pace.call))


def checkpoints_of(n_stages: int) -> NDArray[np.int64]:
    """Stages after which work may stop: all of a few, else at most 64, denser at the beginning where answers change most."""
    if n_stages <= _MOST_CHECKPOINTS:
        return np.arange(1, max(n_stages, 1) + 1)
    return np.unique(np.geomspace(1, n_stages, _MOST_CHECKPOINTS).round().astype(np.int64))


def _segments(start: Callable[[], Any], n: int, stops: NDArray[np.int64]) -> Array:
    """Seconds from each of ``stops`` to the next, by one run through them."""
    work = start()
    taken = np.empty(stops.size)
    for i, stop in enumerate(stops):
        limit = np.full(n, stop, dtype=np.int32)
        began = time.perf_counter()
        work.advance(limit)
        taken[i] = time.perf_counter() - began
    return taken


def _typical_rows(plan: Plan) -> Array:
    """Rows that take different paths: where a column is compared with thresholds, values around these.

    A costly model may take no other values than it was trained on, such as codes; its probe rows have them.
    """
    for block in plan.blocks:
        probe: Array | None = getattr(block, "probe", None)
        if probe is not None:
            return probe
    rng = np.random.default_rng(0)
    X = rng.normal(size=(_ROWS, plan.n_features))
    for column, values in thresholds_of(plan).items():
        X[:, column] = rng.choice(values, _ROWS)
    return X


def thresholds_of(plan: Plan) -> dict[int, Array]:
    """What the trees of a plan compare each column with, by column."""
    read: list[NDArray[Any]] = [np.empty(0, dtype=np.int32)]
    compared: list[Array] = [np.empty(0)]
    for block in plan.blocks:
        if block.forest is not None:
            arrays = block.forest.arrays()
            inner = (arrays["feature"] >= 0) & np.isfinite(arrays["threshold"])
            read.append(arrays["feature"][inner])
            compared.append(arrays["threshold"][inner])
    feature, threshold = np.concatenate(read), np.concatenate(compared)
    order = np.argsort(feature, kind="stable")
    columns, first = np.unique(feature[order], return_index=True)
    return dict(zip(columns.tolist(), np.split(threshold[order], first[1:]), strict=False))
