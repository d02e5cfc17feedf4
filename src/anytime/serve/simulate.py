"""What a server would have done: arrivals replayed on a virtual clock, to choose a policy and a machine before deploying.

A plain server works on one request after the other, all stages of each. The engine of this package takes all that wait through
the stages together and asks its policy, after every slice of work, how far there is time to go; its scheduler and that policy,
the very code, run here. What a stage takes is the measured pace of the model, what HTTP takes is a constant per request.
Nothing holds this server up, so that it never keeps more than its usual reserve.
"""

import copy
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.answer import Answer
from anytime.runtime.bounds import Bounds
from anytime.serve.cohort import Cohort, Piece
from anytime.serve.engine import Engine, Ticket
from anytime.serve.pace import StagePace
from anytime.serve.policy import Adaptive
from anytime.serve.questions import Question
from anytime.serve.scheduler import Queue, Scheduler

Array = NDArray[np.float64]
_TRIAL = 20_000  # arrivals that a fixed stage is tried on


# ---------------------------------------------------------------------- arrivals


def poisson(rate: float, seconds: float, *, random_state: int = 0) -> Array:
    """(n,) arrival times of a Poisson process of ``rate`` per second."""
    return bursts(rate, seconds, factor=1.0, random_state=random_state)


def bursts(
    rate: float,
    seconds: float,
    *,
    factor: float = 5.0,
    every: float = 10.0,
    length: float = 1.0,
    random_state: int = 0,
) -> Array:
    """(n,) arrival times of a process of mean ``rate`` that is ``factor`` times as busy for ``length`` seconds of ``every``.

    The first burst begins half-way through the first period.
    """
    if rate <= 0 or seconds <= 0 or factor < 1 or not 0 < length < every:
        raise ValueError(
            f"needs rate > 0, seconds > 0, factor >= 1 and 0 < length < every; got {rate:g}, {seconds:g}, {factor:g}, "
            f"{length:g}, {every:g}"
        )
    rng = np.random.default_rng(random_state)
    calm = rate * every / (every + (factor - 1) * length)
    most = calm * factor
    times = np.sort(rng.uniform(0.0, seconds, size=rng.poisson(most * seconds)))
    phase = (times + every / 2) % every
    here = np.where(phase < length, most, calm) if factor > 1 else most
    return np.asarray(times[rng.uniform(size=times.size) * most < here])


# ---------------------------------------------------------------------- the virtual server


@dataclass(frozen=True, eq=False)
class SimulatedOutcome:
    """What became of each request.

    Attributes
    ----------
    latency : (n,) float
        Seconds from arrival to answer.
    stage : (n,) int
        Stages that the answer has behind it; 0: none, the base answer.
    """

    latency: Array
    stage: NDArray[np.int64]

    def within(self, slo: float) -> float:
        """Share of requests answered within ``slo`` seconds."""
        return float(np.mean(self.latency <= slo))

    def quantile(self, share: float) -> float:
        """Latency that a share of requests does not exceed, in seconds."""
        return float(np.quantile(self.latency, share, method="higher"))


def replay(
    arrivals: ArrayLike,
    policy: Adaptive | int,
    pace: StagePace,
    *,
    slo: float | None,
    rows: ArrayLike = 1,
    workers: int = 1,
    random_state: int = 0,
    progress: Callable[[int], object] = lambda served: None,
) -> SimulatedOutcome:
    """Answer all arrivals by one policy.

    Parameters
    ----------
    arrivals : (n,)
        Seconds, increasing.
    policy : Adaptive or int
        A number of stages is a plain server: one request after the other, each with that many stages, however long it waits.
        A policy is asked as the engine asks it.
    pace : StagePace
        Taken for true; its ``per_question`` is what reading a request and writing its answer take.
    slo : float or None
        Seconds that a request may take.
    rows : int or (n,) int, default=1
        Rows of each request. They stay together here, while the engine may cut many into pieces.
    workers : int, default=1
        Each arrival goes to one of them at random: connections are shared out when they are made, not by load.
    random_state : int, default=0
    progress : callable, default=None
        Told now and then how many more requests have been answered.
    """
    times = np.asarray(arrivals, dtype=np.float64)
    if times.size and np.any(np.diff(times) < 0):
        raise ValueError("arrivals must be in increasing order")
    if isinstance(policy, int) and not 0 <= policy <= pace.checkpoints[-1]:
        raise ValueError(f"a fixed stage must be between 0 and {pace.checkpoints[-1]}, not {policy}")
    sizes = np.broadcast_to(np.asarray(rows, dtype=np.int64), times.shape)
    latency, stage = np.empty(times.size), np.zeros(times.size, dtype=np.int64)
    of_worker = np.random.default_rng(random_state).integers(workers, size=times.size)
    for w in range(workers):
        mine = np.flatnonzero(of_worker == w)
        if isinstance(policy, int):
            latency[mine] = _one_by_one(times[mine], sizes[mine], policy, pace)
            stage[mine] = policy
            progress(mine.size)
        else:
            latency[mine], stage[mine] = _together(times[mine], sizes[mine], policy, pace, slo, progress)
    return SimulatedOutcome(latency, stage)


def _one_by_one(arrivals: Array, rows: NDArray[np.int64], last: int, pace: StagePace) -> Array:
    """Latencies of a plain server: first come, first served, each to the ``last`` stage."""
    takes = {int(size): pace.per_question + pace.seconds(0, last, int(size)) for size in np.unique(rows)}
    latency, free = np.empty(arrivals.size), 0.0
    for i, (arrival, size) in enumerate(zip(arrivals.tolist(), rows.tolist(), strict=True)):
        free = max(free, arrival) + takes[size]
        latency[i] = free - arrival
    return latency


class _Request(Ticket):
    """A request under way, of which nothing but its size is known."""

    def reply(self, outcome: Answer | BaseException) -> None:
        if isinstance(outcome, BaseException):
            raise outcome


class _Together(Cohort):
    """Requests that go through stages together, without any rows to work on."""

    def __init__(self, pieces: list[Piece]) -> None:
        self.pieces, self.stage, self.stepwise = pieces, 0, False
        self.rows = sum(piece.rows for piece in pieces)
        for piece in pieces:
            piece.cohort = self

    def advance(self, stage: int) -> None:
        self.stage = stage
        for piece in self.pieces:
            piece.stage = stage

    def release(self, pieces: set[Piece]) -> None:
        self.pieces = [piece for piece in self.pieces if piece not in pieces]
        self.rows = sum(piece.rows for piece in self.pieces)


class _VirtualEngine(Engine):
    """The server's engine and scheduler on a clock that only their work moves, for requests that want everything."""

    def __init__(self, policy: Adaptive, pace: StagePace, slo: float | None) -> None:
        self.now, self._truth = 0.0, pace
        self.due_calls: list[
            Callable[[], None]
        ] = []  # calls of the scheduler, for when all arrivals are read
        self.ready: list[Piece] = []  # answered in this turn, to be written before the next
        scheduler = Scheduler(after_reading=self.due_calls.append)
        unknown: Any = None  # there is no model: a pace says all of it
        super().__init__(
            unknown, copy.deepcopy(pace), policy, slo=slo, clock=lambda: self.now, scheduler=scheduler
        )

    def read(self, arrived: float, rows: int) -> _Request:
        """Let a request wait."""
        question = Question(np.empty((rows, 0)), arrived=arrived)
        request = _Request(
            question, *self._due(question), self._small, Bounds(int(self.pace.checkpoints[-1]))
        )
        self.scheduler.join(self._small, [Piece(request, 0, rows)])
        return request

    def begin(self, pieces: list[Piece]) -> Cohort:
        return _Together(pieces)

    def _compute(self, cohort: Cohort, stage: int) -> None:
        self.now += self._truth.seconds(cohort.stage, stage, cohort.rows)
        cohort.advance(stage)

    def settle(self, queue: Queue, pieces: list[Piece]) -> None:
        if pieces:
            self.scheduler.leave(queue, pieces)
            self.scheduler.answered += len(pieces)
            self.ready += pieces


def _together(
    arrivals: Array,
    rows: NDArray[np.int64],
    policy: Adaptive,
    pace: StagePace,
    slo: float | None,
    progress: Callable[[int], object],
) -> tuple[Array, NDArray[np.int64]]:
    """The engine: in each turn of the event loop it reads what has come, works for a slice, and writes what is ready."""
    n, half = arrivals.size, pace.per_question / 2
    latency, stage = np.empty(n), np.zeros(n, dtype=np.int64)
    engine, upcoming = _VirtualEngine(policy, pace, slo), 0
    numbers: dict[Ticket, int] = {}
    while upcoming < n or engine.due_calls:
        if not engine.due_calls and arrivals[upcoming] > engine.now:
            engine.now = float(arrivals[upcoming])
        # what comes while these are read is seen in the next turn
        come = max(upcoming, int(np.searchsorted(arrivals, engine.now, side="right")))
        for i in range(upcoming, come):
            numbers[engine.read(float(arrivals[i]), int(rows[i]))] = i
            engine.now += half
        upcoming = come
        calls = engine.due_calls.copy()
        engine.due_calls.clear()
        for call in calls:
            call()
        for piece in engine.ready:
            engine.now += half
            number = numbers.pop(piece.ticket)
            latency[number], stage[number] = engine.now - arrivals[number], piece.stage
        progress(len(engine.ready))
        engine.ready.clear()
    return latency, stage


def largest_fixed(
    pace: StagePace, rate: float, slo: float, *, share: float = 0.99, workers: int = 1
) -> int | None:
    """The last checkpoint that a plain server can go to if ``share`` of Poisson arrivals are to be within ``slo``.

    None where even the first is too far.
    """
    times = poisson(rate, _TRIAL / rate)
    stops = pace.checkpoints.tolist()

    def fails(stop: int) -> bool:
        outcome = replay(times, stop, pace, slo=slo, workers=workers)
        return outcome.within(slo) < share

    fit = bisect_right(stops, False, key=fails)
    return int(stops[fit - 1]) if fit else None


# ---------------------------------------------------------------------- what answers are worth


class Judge:
    """What answers of each stage cost, and how good they are.

    Parameters
    ----------
    model : fitted model
    stages : (K,) int
        Stages that answers may have.
    X : (n, d), default=None
        Rows of the requests, in turn. Without them the plan's own costs and held-out quality are read.
    y : (n,), default=None
        The truth.
    """

    def __init__(
        self, model: Any, stages: ArrayLike, X: Any | None = None, y: ArrayLike | None = None
    ) -> None:
        self.plan, self.classifies = model.plan_, hasattr(model, "classes_")
        self.stages = np.unique(np.append(0, np.asarray(stages, dtype=np.int64)))
        self.truth = None if y is None or X is None else np.asarray(y)
        self.costs: Array | None = None
        self.predictions: NDArray[Any] | None = None
        if X is None:
            return
        answers = [answer for answer in model.stages(X) if answer.stage in self.stages]
        self.costs = np.array([answer.cost for answer in answers])
        self.predictions = np.array([answer.prediction for answer in answers])

    def cost(self, outcome: SimulatedOutcome) -> float:
        """Mean cost of the answers: what their rows really pay, or where there are no rows the model cost."""
        if self.costs is None:
            return float(np.mean(self.plan.prefix_costs[outcome.stage]))
        return float(np.mean(self.costs[self._places(outcome)]))

    @property
    def quality_name(self) -> str:
        """What ``quality`` is."""
        if self.truth is None or self.predictions is None:
            return "quality"
        return "accuracy" if self.classifies else "R²"

    def quality(self, outcome: SimulatedOutcome) -> float:
        """How good the answers are: judged by the truth, else the plan's held-out quality; nan where neither is known."""
        if self.truth is None or self.predictions is None:
            return (
                float("nan")
                if self.plan.quality is None
                else float(np.mean(self.plan.quality[outcome.stage]))
            )
        place, row = self._places(outcome)
        predicted, truth = self.predictions[place, row], self.truth[row]
        if self.classifies:
            return float(np.mean(predicted == truth))
        return float(1.0 - np.sum((predicted - truth) ** 2) / np.sum((truth - truth.mean()) ** 2))

    def _places(self, outcome: SimulatedOutcome) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        assert self.costs is not None
        row = np.arange(outcome.stage.size) % self.costs.shape[1]
        return np.searchsorted(self.stages, outcome.stage), row
