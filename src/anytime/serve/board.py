"""Counters that all worker processes share: each writes its own slot, anyone adds them up.

The memory is an anonymous map that workers inherit by fork. A slot has one writer, and eight-byte cells are written in one
piece, so there are no locks; a sum may be a request older in one cell than in another. A worker that replaces a dead one, of
which the process that watches takes note, goes on with its slot: counters never fall.
"""

from __future__ import annotations

import math
import mmap
import os
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from anytime.answer import Answer

_METRICS = {
    "requests": "Requests that were answered.",
    "rows": "Rows that were answered for.",
    "partial": "Answers that time cut short.",
    "late": "Requests that were answered after their due time.",
    "refused": "Requests that were wrong (4xx).",
    "failed": "Requests that failed (5xx).",
    "turned_away": "Requests beyond the limit of concurrency (503).",
    "batches": "Times that rows began their stages together.",
    "batch_rows": "Rows of these batches.",
    "reloads": "New versions of models that workers have loaded.",
    "failed_reloads": "New files of models that could not be loaded.",
    "starts": "Starts of worker processes.",
    "deaths": "Worker processes that ended without having been told to.",
}
_MODEL_METRICS = {
    "answers": "Answers of a model.",
    "rows": "Rows that a model answered for.",
    "stages": "Stages that these rows went through.",
    "given_up": "Stages that time left no room for.",
}
_GAUGES = ("open", "pid", "caution")
_COUNTS = (*_METRICS, "answers", *_GAUGES)
_SUMS = ("seconds", "started")
_MODEL_COUNTS = (*_MODEL_METRICS, "asked", "loaded", "queue")

_PER_DECADE = 48  # buckets of latency: each 5 % wider than the one before
_FIRST = 1e-5
_DECADES = 7  # from 10 us to 100 s
_BUCKETS = _PER_DECADE * _DECADES + 2  # and one for all below, one for all above
_EDGES = _FIRST * 10.0 ** (np.arange(_BUCKETS - 1) / _PER_DECADE)
BINS = 64  # of stages: one for each checkpoint of a model


class Totals:
    """What the slots sum to at one moment; the difference of two is what happened in between."""

    def __init__(
        self, at: float, ints: NDArray[np.int64], floats: NDArray[np.float64], n_models: int
    ) -> None:
        self.at = at  # on the clock of ``time.monotonic()``
        self.ints, self.floats, self.n_models = ints, floats, n_models
        head, latency = len(_COUNTS), len(_COUNTS) + _BUCKETS
        self.counts = dict(zip(_COUNTS, ints[:head].tolist(), strict=True))
        self.sums = dict(zip(_SUMS, floats[: len(_SUMS)].tolist(), strict=True))
        self.latency = ints[head:latency]  # (B,) requests per bucket
        per_model = ints[latency:].reshape(n_models, -1)
        self.models = per_model[:, : len(_MODEL_COUNTS)]
        self.stages = per_model[:, len(_MODEL_COUNTS) :]  # rows by the number of checkpoints that they passed
        self.counts["queue"] = int(self.models[:, _MODEL_COUNTS.index("queue")].sum())
        # (M,) what the rows of each model have paid, and the time from arrivals to answers
        self.costs, self.seconds = floats[len(_SUMS) :].reshape(2, n_models)

    def since(self, earlier: Totals) -> Totals:
        """What happened between two moments."""
        return Totals(
            self.at - earlier.at, self.ints - earlier.ints, self.floats - earlier.floats, self.n_models
        )

    def model(self, number: int, field: str) -> int:
        """A counter of one model."""
        return int(self.models[number, _MODEL_COUNTS.index(field)])

    @property
    def given_up(self) -> float:
        """The share of stages that time left no room for, of those that were wanted."""
        done, lost = (int(self.models[:, _MODEL_COUNTS.index(name)].sum()) for name in ("stages", "given_up"))
        return lost / max(done + lost, 1)

    def quantile(self, share: float) -> float | None:
        """Seconds within which ``share`` of the requests were answered, to 5 %; None without requests."""
        total = int(self.latency.sum())
        if not total:
            return None
        bucket = int(np.searchsorted(np.cumsum(self.latency), math.ceil(share * total)))
        return float(_EDGES[min(bucket, len(_EDGES) - 1)])


class Slot:
    """The cells that one worker writes."""

    def __init__(self, memory: memoryview, n_models: int) -> None:
        ints, floats = _sizes(n_models)
        self._ints = memory[: 8 * ints].cast("q")
        self._floats = memory[8 * ints : 8 * (ints + floats)].cast("d")
        self.n_models = n_models

    def count(self, name: str, by: int = 1) -> None:
        """Add to a counter."""
        self._ints[_AT[name]] += by

    def set(self, name: str, value: int) -> None:
        """Write a gauge."""
        self._ints[_AT[name]] = value

    def request(self, seconds: float, late: bool) -> None:
        """An answered request, from the arrival of its last byte to the last of its answer."""
        ints = self._ints
        ints[_REQUESTS] += 1
        if late:
            ints[_LATE] += 1
        self._floats[0] += seconds
        scaled = math.log10(seconds / _FIRST) * _PER_DECADE if seconds > _FIRST else -1.0
        bucket = min(math.ceil(scaled), _BUCKETS - 1) if scaled > 0 else 0
        ints[_LATENCY + bucket] += 1

    def begin(self) -> None:
        """A worker has this slot from now on."""
        self._hold_nothing()
        self.set("caution", 100)
        self.set("pid", os.getpid())
        self.count("starts")
        self._floats[_SUMS.index("started")] = time.time()

    def end(self) -> None:
        """The worker of this slot has died; the watching process records it."""
        self._hold_nothing()
        self.set("pid", 0)
        self.count("deaths")

    def waiting(self, model: int, questions: int) -> None:
        """So many questions wait for a model."""
        self._ints[_model_at(model) + _MODEL_QUEUE] = questions

    def _hold_nothing(self) -> None:
        self.set("open", 0)
        for number in range(self.n_models):
            self.waiting(number, 0)

    def ask_reload(self, model: int) -> None:
        """Ask all workers to load a model again."""
        self._ints[_model_at(model) + _MODEL_COUNTS.index("asked")] += 1

    def saw_reloads(self, model: int, asked: int) -> None:
        """Say that this worker has seen to so many of these requests."""
        self._ints[_model_at(model) + _MODEL_COUNTS.index("loaded")] = asked

    def model(self, number: int, checkpoints: Sequence[int]) -> ModelBoard:
        """What counts the answers of one model."""
        return ModelBoard(self, number, checkpoints)


class ModelBoard:
    """Counts the answers of one model: the observer of its engine."""

    def __init__(self, slot: Slot, number: int, checkpoints: Sequence[int]) -> None:
        self._ints, self._floats = slot._ints, slot._floats
        self._at = _model_at(number)
        self._cost, self._seconds = len(_SUMS) + number, len(_SUMS) + slot.n_models + number
        self.checkpoints = [int(stage) for stage in checkpoints][:BINS]
        self._n_stages = int(checkpoints[-1])

    def evaluated(self, rows: int) -> None:
        """Count rows that begin their stages together."""
        self._ints[_BATCHES] += 1
        self._ints[_BATCH_ROWS] += rows

    def answered(self, answer: Answer, queue_length: int) -> None:
        """Count an answer."""
        ints, at = self._ints, self._at
        stages = answer.stage.tolist()
        ints[at + _MODEL_QUEUE] = queue_length
        ints[_ANSWERS] += 1
        ints[_ROWS] += len(stages)
        n_cut = int(np.count_nonzero(answer.partial))
        ints[at] += 1
        ints[at + 1] += len(stages)
        ints[at + 2] += sum(stages)
        if n_cut:
            ints[_PARTIAL] += 1
            ints[at + 3] += n_cut * self._n_stages - int(answer.stage[answer.partial].sum())
        self._floats[self._seconds] += answer.elapsed
        first = at + len(_MODEL_COUNTS)
        if len(stages) < 16:
            self._floats[self._cost] += sum(answer.cost.tolist())
            for stage in stages:
                ints[first + bisect_left(self.checkpoints, stage + 1)] += 1
            return
        self._floats[self._cost] += float(answer.cost.sum())
        passed = np.bincount(np.searchsorted(self.checkpoints, stages, side="right"))
        for k in np.flatnonzero(passed).tolist():
            ints[first + k] += int(passed[k])


class Board:
    """The slots of all workers; rates and percentiles are taken over ``window`` seconds."""

    def __init__(self, workers: int, models: Sequence[str], window: float = 5.0) -> None:
        self.models, self.workers, self.window = list(models), workers, window
        ints, floats = _sizes(len(self.models))
        self._stride, self._n_ints = ints + floats, ints
        self._memory = mmap.mmap(-1, 8 * self._stride * workers)
        self.began = time.time()
        self._past: deque[Totals] = deque([self.totals()], maxlen=240)

    @property
    def is_shared(self) -> bool:
        """Whether there are other workers that may request a reload."""
        return self.workers > 1

    def slot(self, worker: int) -> Slot:
        """The slot of one worker."""
        size = 8 * self._stride
        return Slot(memoryview(self._memory)[worker * size : (worker + 1) * size], len(self.models))

    def rows(self) -> NDArray[np.int64]:
        """(workers, cells) what each worker has written; the last cells of a row are floats."""
        return np.frombuffer(self._memory, dtype=np.int64).reshape(-1, self._stride).copy()

    def _cells(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        rows = self.rows()
        return rows[:, : self._n_ints], rows[:, self._n_ints :].view(np.float64)

    def totals(self) -> Totals:
        """The sum of all slots."""
        return self.sum_of(self.rows())

    def sum_of(self, rows: NDArray[np.int64]) -> Totals:
        """The sum of some rows, as they are at this moment."""
        ints, floats = rows[:, : self._n_ints], rows[:, self._n_ints :].view(np.float64)
        return Totals(time.monotonic(), ints.sum(axis=0), floats.sum(axis=0), len(self.models))

    def ended(self, rows: NDArray[np.int64], deaths: int) -> NDArray[np.int64]:
        """(1, cells) one row for workers that have ended: what they have counted, together."""
        total = self.sum_of(rows)
        total.ints[[_AT[name] for name in _GAUGES]] = 0
        total.ints[[_model_at(number) + _MODEL_QUEUE for number in range(len(self.models))]] = 0
        total.ints[_AT["deaths"]] += deaths
        return np.concatenate([total.ints, total.floats.view(np.int64)])[None]

    def forget(self) -> None:
        """Begin the window anew."""
        self._past = deque([self.totals()], maxlen=self._past.maxlen)

    def remember(self) -> None:
        """Keep the totals of this moment, for windows that begin here."""
        self._past.append(self.totals())

    def recent(self) -> Totals:
        """What happened in the last ``window`` seconds, or since the first look."""
        now = self.totals()
        while len(self._past) > 1 and now.at - self._past[1].at >= self.window:
            self._past.popleft()
        return now.since(self._past[0])

    def reloads_asked(self, model: int) -> int:
        """How often the workers were asked to load a model again."""
        return self.totals().model(model, "asked")

    def reloads_seen(self, model: int) -> list[int]:
        """What each worker has seen of these requests."""
        ints, _ = self._cells()
        at = _model_at(model) + _MODEL_COUNTS.index("loaded")
        return [int(value) for value in ints[:, at]]

    # ------------------------------------------------------------------ what is shown

    def snapshot(self) -> dict[str, Any]:
        """Totals, the recent window, and the workers, as plain values."""
        totals, recent = self.totals(), self.recent()
        ints, floats = self._cells()
        queues = [_model_at(number) + _MODEL_QUEUE for number in range(len(self.models))]
        workers = [
            {
                **{name: int(row[_AT[name]]) for name in ("pid", "starts", "requests", "rows", "open")},
                "queue": int(row[queues].sum()),
                "caution": int(row[_AT["caution"]]) / 100,
                "uptime": round(time.time() - float(times[_SUMS.index("started")]), 3),
            }
            for row, times in zip(ints, floats, strict=True)
        ]
        counts = {name: value for name, value in totals.counts.items() if name not in ("pid", "caution")}
        return {
            "uptime": round(time.time() - self.began, 3),
            "workers": workers,
            "totals": {
                **counts,
                "latency_seconds": totals.sums["seconds"],
                "cost": float(totals.costs.sum()),
            },
            "window": self._window(recent, totals),
        }

    def _window(self, recent: Totals, totals: Totals) -> dict[str, Any]:
        counts, seconds = recent.counts, max(recent.at, 1e-9)

        def milliseconds(share: float) -> float | None:
            value = recent.quantile(share)
            return None if value is None else round(value * 1e3, 4)

        def mean(total: float, number: int) -> float | None:
            return total / number if number else None

        return {
            "seconds": round(seconds, 3),
            "rps": counts["requests"] / seconds,
            "rows_per_second": counts["rows"] / seconds,
            "p50_ms": milliseconds(0.5),
            "p95_ms": milliseconds(0.95),
            "p99_ms": milliseconds(0.99),
            "p999_ms": milliseconds(0.999),
            "late_share": mean(counts["late"], counts["requests"]),
            "partial_share": mean(counts["partial"], counts["answers"]),
            "given_up_share": recent.given_up,
            "mean_stage": mean(int(recent.models[:, _MODEL_COUNTS.index("stages")].sum()), counts["rows"]),
            "mean_cost": mean(float(recent.costs.sum()), counts["rows"]),
            "mean_batch": mean(counts["batch_rows"], counts["batches"]),
            "queue": totals.counts["queue"],
            "errors": counts["failed"],
        }

    def collect(self) -> Iterator[Metric]:
        """The totals as Prometheus reads them."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

        totals = self.totals()
        for name, text in _METRICS.items():
            yield CounterMetricFamily(f"anytime_{name}", text, value=totals.counts[name])
        for name, text in (("queue", "Questions that wait."), ("open", "Requests that are being answered.")):
            yield GaugeMetricFamily(f"anytime_{name}", text, value=totals.counts[name])
        alive = int(np.count_nonzero(self._cells()[0][:, _AT["pid"]]))
        yield GaugeMetricFamily("anytime_workers", "Worker processes that are alive.", value=alive)
        caution = float(self._cells()[0][:, _AT["caution"]].max()) / 100
        text = "How many times its reserve of time the most cautious worker keeps, because answers were late."
        yield GaugeMetricFamily("anytime_caution", text, value=caution)
        cumulative = np.cumsum(totals.latency)
        every = _PER_DECADE // 3
        bounds = [
            (f"{edge:.4g}", int(count))
            for edge, count in zip(_EDGES[::every], cumulative[::every], strict=False)
        ]
        yield HistogramMetricFamily(
            "anytime_request_seconds",
            "Seconds from the last byte of a request to the last of its answer.",
            buckets=[*bounds, ("+Inf", int(cumulative[-1]))],
            sum_value=totals.sums["seconds"],
        )
        for name, text in _MODEL_METRICS.items():
            family = CounterMetricFamily(f"anytime_model_{name}", text, labels=["model"])
            for number, model in enumerate(self.models):
                family.add_metric([model], totals.model(number, name))
            yield family
        text = "What these rows paid, in units of the model."
        cost = CounterMetricFamily("anytime_model_cost", text, labels=["model"])
        for model, paid in zip(self.models, totals.costs.tolist(), strict=True):
            cost.add_metric([model], paid)
        yield cost


_AT = {name: k for k, name in enumerate(_COUNTS)}
_REQUESTS, _ANSWERS, _ROWS, _PARTIAL, _LATE = (
    _AT[n] for n in ("requests", "answers", "rows", "partial", "late")
)
_BATCHES, _BATCH_ROWS = _AT["batches"], _AT["batch_rows"]
_MODEL_QUEUE = _MODEL_COUNTS.index("queue")
_LATENCY = len(_COUNTS)


def _model_at(number: int) -> int:
    """Where the cells of a model begin."""
    return len(_COUNTS) + _BUCKETS + number * (len(_MODEL_COUNTS) + BINS + 1)


def _sizes(n_models: int) -> tuple[int, int]:
    """Cells of a slot: whole numbers, floats."""
    return _model_at(n_models), len(_SUMS) + 2 * n_models
