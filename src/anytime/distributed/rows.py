"""The rows of a fit on a cluster, and boosting on them (`anytime.spreading.SpreadRows`)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from anytime import _native
from anytime.boosting.learners import TrainingRows
from anytime.boosting.objective import MeanLoss
from anytime.boosting.rounds import GradientRounds
from anytime.distributed.checkpoints import Checkpoint, fingerprint
from anytime.distributed.sources import Stretch
from anytime.distributed.worker import BoostingPart, RoundReport
from anytime.linear.moments import Moments
from anytime.losses import TRAINING_LOSSES
from anytime.plan import Array, Plan
from anytime.spreading import SpreadRows
from anytime.trees.arrays import TreeArrays
from anytime.trees.growing import TreeGrower
from anytime.validation import warn_caller

if TYPE_CHECKING:
    from anytime.distributed.cluster import Cluster

__all__ = ["ClusterRounds", "RowsOfCluster"]

_SLOW, _WORTH_SAYING = 1.5, 5.0  # times the usual, and seconds lost, from which on a slow worker is named
_MOST_ROWS = 2**31 - 1  # in all: native code counts the rows of a leaf in 32 bits
_WITH_HESSIAN = ("squared", "logistic", "multinomial")  # whose second derivatives are native
_SAMPLE = 200_000  # rows from which bins are found: the default of ``BinnedData.fit``


class RowsOfCluster(SpreadRows):
    """Rows of which each worker has a stretch."""

    def __init__(self, cluster: Cluster, parts: Sequence[Stretch], n_columns: int) -> None:
        self.cluster, self.crew, self.parts, self.n_columns = cluster, cluster.crew, list(parts), n_columns
        self.bounds = np.cumsum([0] + [part.n_rows for part in self.parts])
        self.crew.begin(self.parts)

    def __len__(self) -> int:
        return int(self.bounds[-1])

    def __getitem__(self, rows: NDArray[Any]) -> RowsOfCluster:
        chosen = np.flatnonzero(rows) if rows.dtype == np.bool_ else rows
        return RowsOfCluster(
            self.cluster,
            [part.only(own) for part, own in zip(self.parts, self.own_rows(chosen), strict=True)],
            self.n_columns,
        )

    def own_rows(self, rows: NDArray[Any]) -> list[NDArray[np.intp]]:
        """Of some rows, which rise, those of each worker, by its own numbers."""
        ends = np.searchsorted(rows, self.bounds)
        return [
            rows[begin:end] - first for begin, end, first in zip(ends, ends[1:], self.bounds, strict=False)
        ]

    def stretches(self, *arrays: Any) -> list[tuple[Any, ...]]:
        """What each worker has of arrays with one entry per row; None stays None."""
        return [
            tuple(None if array is None else array[a:b] for array in arrays)
            for a, b in zip(self.bounds, self.bounds[1:], strict=False)
        ]

    @cached_property
    def hashes(self) -> NDArray[np.uint64]:
        """(n,) a hash of each row."""
        return self.lots(np.random.RandomState(0))

    def lots(self, random: np.random.RandomState) -> NDArray[np.uint64]:
        drawn = self.crew.together("lots", [(random,)] * self.crew.size)
        random.randint(
            0, 2**63, size=self.n_columns, dtype=np.uint64
        )  # as each worker has drawn from its copy
        return np.concatenate(drawn)

    def training_rows(
        self, *, categorical: Sequence[int], max_bins: int, n_threads: int
    ) -> TrainingRowsOfCluster:
        return TrainingRowsOfCluster(self, categorical, max_bins, n_threads)

    def add_to_moments(
        self, sums: list[Moments], Y: Array, weight: Array | None, which: NDArray[np.intp]
    ) -> None:
        crew, first = self.crew, sums[0]
        found = np.array(crew.together("located", [(self.n_columns,)] * crew.size))  # (W, d)
        lies = np.argmax(~np.isnan(found), axis=0)  # the first worker that has a value
        first.shift[:] = found[lies, np.arange(self.n_columns)]
        first.target_shift[:] = Y.mean(axis=0)
        for other in sums[1:]:
            other.shift, other.target_shift = first.shift, first.target_shift
        empty = [first.beside() for _ in sums]
        totals = crew.together("moments", [(empty, *own) for own in self.stretches(Y, weight, which)])
        while len(totals) > 1:  # pairs of neighbours, then pairs of pairs
            totals = [
                totals[i]
                if i + 1 == len(totals)
                else [a.merged(b) for a, b in zip(*totals[i : i + 2], strict=True)]
                for i in range(0, len(totals), 2)
            ]
        for own, total in zip(sums, totals[0], strict=True):
            own.__dict__.update(total.__dict__)


class TrainingRowsOfCluster(TrainingRows):
    """Training rows that workers hold in bins."""

    def __init__(
        self, rows: RowsOfCluster, categorical: Sequence[int], max_bins: int, n_threads: int
    ) -> None:
        self.spread, self.categorical, self.max_bins = rows, tuple(categorical), max_bins
        self.n_threads = n_threads
        self.checkpoints: list[Checkpoint] = []
        self._aim: MeanLoss | None = None

    def __len__(self) -> int:
        return len(self.spread)

    @cached_property
    def cuts(self) -> list[Any]:
        """The bins of `BinnedData.fit`, found from the same sample of rows, once every worker has put its own into them."""
        rows = self.spread
        if len(rows) > _MOST_ROWS:
            raise ValueError(f"there are {len(rows)} rows; boosting on a cluster takes at most {_MOST_ROWS}")
        crew = rows.crew
        sample = _native.sampled_rows(len(rows), _SAMPLE)
        flags = np.zeros(rows.n_columns, dtype=bool)
        flags[list(self.categorical)] = True
        shares = crew.together("cuts", [(own, flags, self.max_bins) for own in rows.own_rows(sample)])
        cuts = [column for share in shares for column in share]
        crew.tell("bin", [(cuts,)] * crew.size)
        return cuts

    def aim(self, objective: MeanLoss) -> None:
        """Tell the workers what to lower."""
        loss = objective.loss
        ours = any(loss is own for own in TRAINING_LOSSES.values())
        if loss.ranks or (loss.hessian is None and not (ours and loss.name in _WITH_HESSIAN)):
            why = (
                "goes by whole queries" if loss.ranks else "has no second derivatives: its steps go by means"
            )
            raise ValueError(
                f"the loss {loss.name!r} {why} over all rows, which are not spread; fit it outside of the cluster"
            )
        if self.spread.cluster.checkpoint is not None and not ours:
            raise ValueError(
                f"checkpoint= is for losses of this library: the loss {loss.name!r} cannot be told from that of a checkpoint; "
                "open the cluster without one"
            )
        if self._aim is not objective:
            bounds = pairwise(self.spread.bounds)
            self.spread.crew.tell("aim", [(_part_of(objective, slice(a, b)),) for a, b in bounds])
            self._aim = objective

    def scores(self, plan: Plan) -> Array:
        crew = self.spread.crew
        return np.concatenate(crew.together("scores", [(plan,)] * crew.size))

    def outputs(self, trees: TreeArrays) -> Array:
        crew = self.spread.crew
        return np.concatenate(crew.together("outputs", [(trees,)] * crew.size))

    def rows(self, rows: NDArray[np.intp] | None, max_bins: int | None = None) -> TrainingRows:
        """Some rows, brought here."""
        crew = self.spread.crew
        chosen = self.spread.own_rows(np.arange(len(self)) if rows is None else rows)
        found = crew.together("some", [(own, self.spread.n_columns) for own in chosen])
        return TrainingRows(
            np.concatenate(found),
            categorical=self.categorical,
            max_bins=max_bins or self.max_bins,
            n_threads=self.n_threads,
        )

    def rounds(self, *arguments: Any, **options: Any) -> ClusterRounds:
        """Boosting on these rows; it ends what was begun before."""
        return ClusterRounds(self, *arguments, **options)

    def end(self) -> None:
        for checkpoint in self.checkpoints:
            checkpoint.end()
        slow = slow_worker(self.spread.cluster.reports)
        if slow is not None:
            warn_caller(slow)


class ClusterRounds(GradientRounds):
    """Boosting, one round at a time, in which workers grow the trees and keep the scores."""

    def __init__(
        self,
        table: TrainingRowsOfCluster,
        objective: MeanLoss,
        grower: TreeGrower,
        start: Array,
        *,
        rows: NDArray[np.intp] | None = None,
        judge: NDArray[np.intp] | None = None,
        keep_gains: bool = False,
        keep_trees: bool = True,  # they always are: a new worker needs them
        tolerance: float = 0.0,
        **options: Any,
    ) -> None:
        spread, options["keep_gains"] = table.spread, keep_gains
        cuts, grower = table.cuts, replace(grower, n_threads=1)
        table.aim(objective)
        self.spread, self.crew = spread, spread.crew
        self.judge, self.rounds, self.cut_short, self.tolerance, self._least = judge, [], False, tolerance, 0
        self.column_gains = np.zeros(spread.n_columns) if keep_gains else None
        self.scores = np.empty((0 if judge is None else judge.size, int(np.shape(start)[-1])))
        learned = [None] * self.crew.size if rows is None else spread.own_rows(rows)
        ends = spread.bounds if rows is None else np.searchsorted(rows, spread.bounds)
        judged = [None] * self.crew.size if judge is None else spread.own_rows(judge)
        parts = [
            BoostingPart(
                grower=grower,
                start=start if np.ndim(start) == 1 else start[a:b],
                rows=own,
                place=(int(first), int(ends[-1])),
                judge=own_judged,
                options=options,
            )
            for (a, b), own, first, own_judged in zip(
                pairwise(spread.bounds), learned, ends[:-1], judged, strict=True
            )
        ]
        self.crew.tell("start", [(part,) for part in parts])
        self.crew.progress = lambda: [("catch_up", [(self.rounds,)] * self.crew.size)]
        self.losses = []
        if judge is not None:
            held = _part_of(objective, judge)
            self._judged = lambda scores, _: held.judged(scores, np.arange(judge.size))
            self.scores[:] = start if np.ndim(start) == 1 else start[judge]
            self.losses.append(self._judged(self.scores, judge))
        mark = ""
        if spread.cluster.checkpoint is not None:
            mark = fingerprint(spread.hashes, objective, start, rows, judge, cuts, grower, tolerance, options)
        self._checkpoint = Checkpoint.of(spread.cluster.checkpoint, mark)
        table.checkpoints.append(self._checkpoint)
        kept = self._checkpoint.read()
        if kept is not None:
            self.rounds, self.losses = kept
        self._workers_are_behind = kept is not None

    def round(self) -> bool:
        """Add a round; False, and nothing added, where no tree finds a split."""
        if self._workers_are_behind:
            self.crew.together("catch_up", [(self.rounds,)] * self.crew.size)
            self._workers_are_behind = False
        reports: list[RoundReport] = self.crew.together("round", [(len(self.rounds),)] * self.crew.size)
        self.spread.cluster.reports.append(reports)
        if not reports[0].grew:
            return False
        assert reports[0].stage is not None
        self.rounds.append(reports[0].stage)
        if self.column_gains is not None and reports[0].column_gains is not None:
            self.column_gains += reports[0].column_gains
        if self.judge is not None:
            self.scores = np.concatenate([report.judged for report in reports if report.judged is not None])
            self._follow(self.judge)
        self._checkpoint.keep(self.rounds, self.losses)
        return True

    def run(self, n_estimators: int, n_iter_no_change: int | None = None, time_is_up: Any = None) -> None:
        """Up to so many rounds in all, those of a checkpoint included; see ``GradientRounds.run``."""
        self._cut(n_estimators, n_iter_no_change)
        while not self._is_done(n_estimators, n_iter_no_change, time_is_up) and self.round():
            pass
        self._checkpoint.keep(self.rounds, self.losses, now=True)

    def _is_done(self, n_estimators: int, n_iter_no_change: int | None, time_is_up: Any) -> bool:
        n_rounds = len(self.rounds)
        if n_rounds >= n_estimators:
            return True
        if n_iter_no_change is not None and n_rounds - self.best >= n_iter_no_change:
            return True
        self.cut_short = bool(n_rounds and time_is_up is not None and time_is_up())
        return self.cut_short

    def _cut(self, n_estimators: int, n_iter_no_change: int | None) -> None:
        """Drop rounds of a checkpoint that this fit would not have done."""
        rounds, losses = self.rounds, self.losses
        self.losses, self._least, n_kept = losses[:1], 0, min(len(rounds), n_estimators)
        for number in range(1, n_kept + 1 if losses else 1):
            self._note(losses[number])
            if n_iter_no_change is not None and number - self._least >= n_iter_no_change:
                n_kept = number
                break
        self.rounds = rounds[:n_kept]


def slow_worker(reports: Sequence[Sequence[RoundReport]]) -> str | None:
    """What to say where one worker has kept the others waiting all the time."""
    if not reports or len(reports[0]) < 2:
        return None
    busy = np.array([[report.busy_seconds for report in of_round] for of_round in reports]).sum(axis=0)
    slowest = int(busy.argmax())
    usual = float(np.median(np.delete(busy, slowest)))  # of the others
    lost = busy[slowest] - usual
    if busy[slowest] < _SLOW * usual or lost < _WORTH_SAYING:
        return None
    return (
        f"worker {slowest} took {busy[slowest] / max(usual, 1e-9):.1f} times as long as the median of the others, "
        f"which waited {lost:.0f} s for it: give it fewer rows (shares=), or look at its machine"
    )


def _part_of(objective: MeanLoss, rows: slice | NDArray[np.intp]) -> MeanLoss:
    """The objective of some rows, whose weights stay what they are among all."""
    given = objective.given_weight
    part = copy.copy(objective)
    part.__dict__.pop("units", None)
    part.y, part.weight = objective.y[rows], objective.weight[rows]
    part.__dict__["given_weight"] = None if given is None else given[rows]
    return part
