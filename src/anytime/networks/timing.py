"""How long blocks and heads take: learned while they run, on a processor, and on a GPU, which computes asynchronously."""

from __future__ import annotations

import time
from collections import deque
from functools import lru_cache

import torch

__all__ = ["BatchPace", "BlockWatch", "QueueWatch", "watch"]

_FORGETS = 0.8  # momentum of measured times
_SURPRISE = (
    3.0  # times what was expected: the most that one time counts, as the machine may have done something else
)
_CAUTION = 2.0  # mean deviations above the mean: few runs take longer
_BELIEVED = 1000.0  # times itself for which a time is not doubted
_DOUBT = 0.9  # what is left of it when it is


class BatchPace:
    """Seconds that stages take, by stage and by rows taken together.

    Numbers of rows are rounded up to a power of two. The first time of a stage also contains what happens once only (memory is
    taken, kernels are chosen), so that nothing is known before the second.
    """

    def __init__(self) -> None:
        self._estimates: dict[int, dict[int, _Estimate]] = {}
        self._first: dict[tuple[int, int], float] = {}  # times of what was met once

    def knows(self, stage: int) -> bool:
        """Whether anything is known of a stage."""
        return stage in self._estimates

    def seconds(self, stage: int, n_rows: int) -> float:
        """Seconds within which most runs of a stage are done; 0 where nothing is known.

        Where so many rows were not met yet, the time of the nearest number that was is taken in proportion.
        """
        estimates = self._estimates.get(stage)
        if estimates is None:
            return 0.0
        bucket = _bucket(n_rows)
        nearest = _nearest(estimates, bucket)
        estimate = estimates[nearest]
        return (estimate.mean + _CAUTION * estimate.deviation) * float(2.0 ** (bucket - nearest))

    def note(self, stage: int, n_rows: int, taken: float) -> None:
        """Learn from one run."""
        bucket = _bucket(n_rows)
        estimate = self._estimates.get(stage, {}).get(bucket)
        if estimate is not None:
            estimate.follow(taken)
        elif (stage, bucket) in self._first:
            self.begin_with(stage, n_rows, min(taken, self._first.pop((stage, bucket))))
        else:
            self._first[stage, bucket] = taken

    def begin_with(self, stage: int, n_rows: int, seconds: float) -> None:
        """Take what was measured in several runs for the truth."""
        self._estimates.setdefault(stage, {})[_bucket(n_rows)] = _Estimate(seconds)

    def doubt(self, stage: int, n_rows: int) -> None:
        """A stage was left out because of its time, which may be of a slower hour: believe it a little less.

        Else a stage that nobody begins any more would never be measured again.
        """
        estimates = self._estimates.get(stage)
        if estimates is not None:
            estimates[_nearest(estimates, _bucket(n_rows))].doubt()


class _Estimate:
    """Mean and mean deviation of times, and when they were last changed."""

    __slots__ = ("changed", "deviation", "mean")

    def __init__(self, seconds: float) -> None:
        self.mean, self.deviation, self.changed = seconds, 0.0, time.perf_counter()

    def follow(self, taken: float) -> None:
        taken = min(taken, _SURPRISE * self.mean)
        self.deviation += (1 - _FORGETS) * (abs(taken - self.mean) - self.deviation)
        self.mean += (1 - _FORGETS) * (taken - self.mean)
        self.changed = time.perf_counter()

    def doubt(self) -> None:
        now = time.perf_counter()
        if now - self.changed > _BELIEVED * self.mean:
            self.mean, self.deviation, self.changed = _DOUBT * self.mean, _DOUBT * self.deviation, now


def _nearest(estimates: dict[int, _Estimate], bucket: int) -> int:
    return bucket if bucket in estimates else min(estimates, key=lambda met: abs(met - bucket))


class BlockWatch:
    """Times blocks that are done when they return.

    Parameters
    ----------
    pace : BatchPace
        Learns the times.
    n_rows : int
        Of the batch.

    Attributes
    ----------
    ahead : float
        Seconds until all blocks that were begun are done.
    """

    ahead = 0.0

    def __init__(self, pace: BatchPace, n_rows: int) -> None:
        self._pace, self._n_rows = pace, n_rows
        self._began = time.perf_counter()

    def begun(self, stage: int) -> None:
        """The block of a stage was called; those before it are done now."""
        now = time.perf_counter()
        self._pace.note(stage, self._n_rows, now - self._began)
        self._began = now

    def finish(self) -> None:
        """Wait until all blocks are done."""


class QueueWatch(BlockWatch):
    """Times blocks that a GPU computes while the program continues: one is handed over while the one before is computed.

    Parameters
    ----------
    pace, n_rows
        As above.
    device : torch.device
    """

    def __init__(self, pace: BatchPace, n_rows: int, device: torch.device) -> None:
        super().__init__(pace, n_rows)
        self._stream = torch.cuda.current_stream(device)
        self._last = self._mark()  # the end of the last block that is known to be done
        self._queue: deque[tuple[int, torch.cuda.Event]] = deque()

    def _mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event(enable_timing=True)
        event.record(self._stream)
        return event

    @property
    def ahead(self) -> float:  # type: ignore[override]
        """Seconds until all blocks that were begun are done."""
        if not self._queue:
            return 0.0
        stage, _ = self._queue[0]
        return max(self._began + self._pace.seconds(stage, self._n_rows) - time.perf_counter(), 0.0)

    def begun(self, stage: int) -> None:
        self._queue.append((stage, self._mark()))
        if len(self._queue) > 1:
            self._wait()

    def finish(self) -> None:
        while self._queue:
            self._wait()

    def _wait(self) -> None:
        stage, end = self._queue.popleft()
        end.synchronize()
        self._pace.note(stage, self._n_rows, self._last.elapsed_time(end) / 1e3)
        self._last, self._began = end, time.perf_counter()


def watch(pace: BatchPace, n_rows: int, device: torch.device) -> BlockWatch:
    """What times the blocks of a batch on a device."""
    return QueueWatch(pace, n_rows, device) if device.type == "cuda" else BlockWatch(pace, n_rows)


@lru_cache(maxsize=1024)
def _bucket(n_rows: int) -> int:
    """Rows up to the next power of two: batches of about the same size take about the same time."""
    return max(int(n_rows) - 1, 0).bit_length()
