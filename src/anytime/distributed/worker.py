"""A worker: some rows of a table in bins, and its part in every tree.

What it holds follows from what it was told (`Crew.tell`): its stretch of the table, the bins, what boosting starts from, and the
rounds that are finished. A new worker that is told the same is in the same state, which is all that recovery needs.
"""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anytime import _native
from anytime.boosting.objective import MeanLoss
from anytime.boosting.rounds import GradientRounds
from anytime.distributed.peers import Peers, listening
from anytime.distributed.sources import Stretch
from anytime.engine import Run
from anytime.linear.moments import Moments
from anytime.plan import Array, Plan
from anytime.trees.arrays import LEAF, TreeArrays
from anytime.trees.binning import BinnedData
from anytime.trees.block import TreeBlock
from anytime.trees.growing import TreeGrower, join
from anytime.trees.rows import drawn_lots

__all__ = ["BoostingPart", "ProcessUse", "RoundReport", "Worker"]

Stage = list[TreeArrays]
_COLUMNS_AT_A_TIME = 4  # whose sampled values of all workers are in memory


@dataclass(frozen=True)
class BoostingPart:
    """What a worker needs to boost on its rows."""

    grower: TreeGrower
    start: Array  # (K,) or (m, K)
    rows: NDArray[np.intp] | None  # of its rows, those to learn from
    place: tuple[int, int]  # of the first of them among those of all workers, and how many these are
    judge: NDArray[np.intp] | None  # of its rows, those whose scores are reported
    options: dict[str, Any]  # of `GradientRounds`


@dataclass(frozen=True)
class RoundReport:
    """What a worker has to say after a round."""

    stage: Stage | None  # the trees, from the first worker only; None where nothing was found to split
    grew: bool
    judged: Array | None  # (h, K): scores of rows that are judged on
    column_gains: Array | None  # (d,) of the trees of this round, where they are asked for
    processor_seconds: float
    busy_seconds: float  # on the clock, waiting for others not counted
    waiting_seconds: float
    bytes_sent: int


class ProcessUse(NamedTuple):
    """What a worker's process has used."""

    pid: int
    processor_seconds: float
    most_bytes: int  # that were in memory at the same time


def _leaving(method: Callable[..., Any]) -> Callable[..., Any]:
    """Whoever fails leaves the others at once, who would otherwise wait for its next message."""

    @wraps(method)
    def guarded(self: Worker, *arguments: Any) -> Any:
        try:
            return method(self, *arguments)
        except BaseException:
            self.part_from_peers()
            raise

    return guarded


class Worker:
    """A Ray actor."""

    def __init__(self, rank: int, threads: int) -> None:
        import ray

        self.rank, self.threads = rank, threads
        self._host = ray.util.get_node_ip_address()
        self._door = listening(self._host)
        self._peers: Peers | None = None

    def address(self) -> tuple[str, int]:
        """Where peers can reach it."""
        return self._host, int(self._door.getsockname()[1])

    def meet(self, addresses: Sequence[tuple[str, int]], secret: bytes) -> None:
        """Connect with the other workers."""
        self.part_from_peers()
        self._peers = Peers.meet(self.rank, self._door, addresses, secret)

    def part_from_peers(self) -> None:
        """Close all connections."""
        if self._peers is not None:
            self._peers.close()
            self._peers = None

    # ------------------------------------------------------------------ rows

    def take(self, part: Stretch) -> None:
        """Begin anew with a stretch of a table."""
        self._part = part
        self._boosting: GradientRounds | None = None
        self._data: BinnedData | None = None

    def lots(self, random: np.random.RandomState) -> NDArray[np.uint64]:
        """(m,) lots of its rows; ``random`` is in the same state for all workers."""
        drawn = [drawn_lots(chunk, copy.deepcopy(random)) for chunk in self._part.chunks()]
        return np.concatenate([np.empty(0, np.uint64), *drawn])

    @_leaving
    def cuts(
        self, sample: NDArray[np.intp], categorical: NDArray[np.bool_], max_bins: int
    ) -> list[tuple[bool, int, float, NDArray[Any]]]:
        """The cuts of its share of the columns, found from the sampled rows of all workers; ``sample``: those among its own."""
        assert self._peers is not None
        mine = self.some(sample, categorical.size)
        shares = np.array_split(np.arange(categorical.size), self._peers.size)
        found = []
        for start in range(0, len(shares[0]), _COLUMNS_AT_A_TIME):  # no share is larger than the first
            some = [share[start : start + _COLUMNS_AT_A_TIME] for share in shares]
            sent = [np.ascontiguousarray(mine[:, columns]).tobytes() for columns in some]
            columns = some[self.rank]
            received = [np.frombuffer(message) for message in self._peers.exchange(sent)]
            if columns.size:
                whole = np.concatenate([numbers.reshape(-1, columns.size) for numbers in received])
                flags = np.ascontiguousarray(categorical[columns])
                found += _native.Bins.fit(whole, flags, max_bins, False, len(whole), self.threads).columns()
        return found

    def bin(self, columns: list[tuple[bool, int, float, NDArray[Any]]]) -> None:
        """Put its rows into bins."""
        data, first = BinnedData(_native.Bins.of_cuts(columns, self._part.n_rows)), 0
        for chunk in self._part.chunks():
            data.fill_rows(first, chunk, n_threads=self.threads)
            first += len(chunk)
        self._data = data

    def scores(self, plan: Plan) -> Array:
        """(m, K) scores of its rows after all stages of a plan."""
        found = [np.empty((0, plan.base.size))]
        for chunk in self._part.chunks():
            run = Run(plan, np.ascontiguousarray(chunk))
            run.advance(plan.n_stages)
            found.append(np.array(run.scores()))
        return np.concatenate(found)

    def outputs(self, trees: TreeArrays) -> Array:
        """(m, K) outputs of trees that are one stage."""
        block = TreeBlock(trees)
        found = [block.outputs(0, np.ascontiguousarray(chunk)) for chunk in self._part.chunks()]
        return np.concatenate([np.empty((0, trees.n_outputs)), *found])

    def some(self, rows: NDArray[np.intp], n_columns: int) -> Array:
        """Some of its rows, which rise, by their numbers among its own."""
        found, first = np.empty((rows.size, n_columns)), 0
        for chunk in self._part.chunks():
            begin, end = np.searchsorted(rows, [first, first + len(chunk)])
            found[begin:end] = chunk[rows[begin:end] - first]
            first += len(chunk)
        return found

    # ------------------------------------------------------------------ boosting

    def aim(self, objective: MeanLoss) -> None:
        """What boosting lowers on its rows; weights are shares of that of all rows."""
        self._objective = objective

    def start(self, part: BoostingPart) -> None:
        """Get ready for the first round."""
        assert self._data is not None
        self._judge = part.judge
        self._boosting = GradientRounds(
            self._data,
            self._objective,
            replace(part.grower, n_threads=self.threads),
            part.start,
            rows=part.rows,
            place=part.place,
            **part.options,
        )
        self._before, self.n_rounds = self._boosting, 0

    def catch_up(self, stages: Sequence[Stage]) -> None:
        """Do the rounds that others have finished: the scores are those of having been there, bit by bit."""
        boosting = self._boosting
        assert boosting is not None
        if self.n_rounds == len(stages):  # already done: the call is repeated after a loss
            return
        if stages:
            first = 0
            for chunk in self._part.chunks():
                _add_outputs(boosting.scores[first : first + len(chunk)], stages, np.ascontiguousarray(chunk))
                first += len(chunk)
        for stage in stages:
            boosting.draws()
            for tree in stage:
                columns = np.unique(tree.feature[tree.feature != LEAF])
                if boosting.costs is not None and boosting.bought is not None and columns.size:
                    boosting.bought |= boosting.costs.closure(boosting.costs.groups_of(columns))
        self.n_rounds = len(stages)

    @_leaving
    def round(self, number: int) -> RoundReport:
        """Do a round together with the others; the one before may have been theirs alone, and is then done again."""
        peers, boosting = self._peers, self._boosting
        assert boosting is not None
        assert peers is not None
        if self.n_rounds == number + 1:
            boosting = self._boosting = self._before
            self.n_rounds = number
        assert self.n_rounds == number, "rounds come one after the other"
        self._before = boosting.snapshot()
        began, clock = time.perf_counter(), time.process_time()
        waited, sent = peers.seconds_waiting, peers.bytes_sent
        boosting.grower = replace(boosting.grower, peers=peers)
        boosting.rounds = []  # the driver keeps them, and what their splits have gained
        if boosting.column_gains is not None:
            boosting.column_gains[:] = 0.0
        try:
            grew = boosting.round()
        except BaseException:  # some trees of the round may have bought groups already
            self._boosting = self._before
            raise
        self.n_rounds += 1
        waited = peers.seconds_waiting - waited
        return RoundReport(
            stage=boosting.rounds[-1] if grew and self.rank == 0 else None,
            grew=grew,
            judged=None if self._judge is None else boosting.scores[self._judge],
            column_gains=boosting.column_gains if self.rank == 0 else None,
            processor_seconds=time.process_time() - clock,
            busy_seconds=time.perf_counter() - began - waited,
            waiting_seconds=waited,
            bytes_sent=peers.bytes_sent - sent,
        )

    # ------------------------------------------------------------------ moments

    def located(self, n_columns: int) -> Array:
        """(d,) where about each column lies by its first rows here; NaN where none has a value."""
        moments = Moments(n_columns, 0)
        for chunk in self._part.chunks():
            moments.locate(chunk, np.empty((0, 0)))
            if not np.isnan(moments.shift).any():
                break
        return moments.shift

    def moments(
        self, empty: list[Moments], Y: Array, weight: Array | None, which: NDArray[np.intp]
    ) -> list[Moments]:
        """Sums over its rows, each row in one of several."""
        gathered, first = copy.deepcopy(empty), 0  # what Ray hands over cannot be written to
        for chunk in self._part.chunks():
            rows = slice(first, first + len(chunk))
            first += len(chunk)
            for number, sums in enumerate(gathered):
                members = np.flatnonzero(which[rows] == number)
                if members.size:
                    sums.add(chunk, Y[rows], None if weight is None else weight[rows], members)
        return gathered

    # ------------------------------------------------------------------ the process

    def process(self) -> ProcessUse:
        """The process that it is, and what it has used so far."""
        import resource

        use = resource.getrusage(resource.RUSAGE_SELF)
        return ProcessUse(os.getpid(), use.ru_utime + use.ru_stime, use.ru_maxrss * 1024)


def _add_outputs(scores: Array, stages: Sequence[Stage], X: Array) -> None:
    """Add what finished rounds answer, in their order and with the roundings of ``update_scores``.

    A forest evaluates to multiples of a unit; here the leaves are looked up, and their own values added.
    """
    trees = [tree for stage in stages for tree in stage]
    numbered = [
        replace(
            tree,
            value=np.arange(tree.feature.size, dtype=np.float64)[:, None],
            n_outputs=1,
            tree_output=np.zeros(1, dtype=np.int32),
        )
        for tree in trees
    ]
    forest = TreeBlock(join(numbered)).forest
    for number, tree in enumerate(trees):
        nodes = forest.stage_outputs(X, np.array([number]))[0, :, 0].astype(np.intp)
        if tree.value.shape[1] == 1:
            scores[:, int(tree.tree_output[0])] += tree.value[nodes, 0]
        else:
            scores += tree.value[nodes]
