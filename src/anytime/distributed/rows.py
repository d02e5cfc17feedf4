"""The rows of a fit on a cluster, and boosting on them (`anytime.spreading.SpreadRows`)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
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
from anytime.trees.growing import TreeGrower
from anytime.validation import warn_caller

if TYPE_CHECKING:
    from anytime.distributed.cluster import Cluster

__all__ = ["ClusterRounds", "RowsOfCluster"]

_SLOW, _WORTH_SAYING = 1.5, 5.0  # times the usual, and seconds lost, from which on a slow worker is named
_MOST_ROWS = 2**31 - 1  # in all: native code counts the rows of a leaf in 32 bits
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

    def lots(self, random: np.random.RandomState) -> NDArray[np.uint64]:
        drawn = self.crew.together("lots", [(random,)] * self.crew.size)
        random.randint(
            0, 2**63, size=self.n_columns, dtype=np.uint64
        )  # as each worker has drawn from its copy
        return np.concatenate(drawn)

    def training_rows(
        self, *, categorical: Sequence[int], max_bins: int, n_threads: int
    ) -> TrainingRowsOfCluster:
        return TrainingRowsOfCluster(self, categorical, max_bins)

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

    def __init__(self, rows: RowsOfCluster, categorical: Sequence[int], max_bins: int) -> None:
        self._rows, self.categorical, self.max_bins = rows, tuple(categorical), max_bins

    def __len__(self) -> int:
        return len(self._rows)

    def bin(self) -> None:
        """Find the bins of `BinnedData.fit` from the same sample of rows, and have every worker bin its own."""
        rows = self._rows
        if len(rows) > _MOST_ROWS:
            raise ValueError(f"there are {len(rows)} rows; boosting on a cluster takes at most {_MOST_ROWS}")
        crew = rows.crew
        sample = _native.sampled_rows(len(rows), _SAMPLE)
        flags = np.zeros(rows.n_columns, dtype=bool)
        flags[list(self.categorical)] = True
        shares = crew.together("cuts", [(own, flags, self.max_bins) for own in rows.own_rows(sample)])
        self.cuts = [column for share in shares for column in share]
        crew.tell("bin", [(self.cuts,)] * crew.size)

    def scores(self, plan: Plan) -> Array:
        crew = self._rows.crew
        return np.concatenate(crew.together("scores", [(plan,)] * crew.size))

    def rounds(self, *arguments: Any, **options: Any) -> ClusterRounds:
        """Boosting on these rows."""
        self.bin()
        return ClusterRounds(self._rows, self.cuts, *arguments, **options)


class ClusterRounds(GradientRounds):
    """Boosting, one round at a time, in which workers grow the trees and keep the scores."""

    def __init__(
        self,
        spread: RowsOfCluster,
        cuts: list[Any],
        objective: MeanLoss,
        grower: TreeGrower,
        start: Array,
        *,
        learning_rate: float,
        rows: NDArray[np.intp] | None,
        judge: NDArray[np.intp] | None,
        costs: Any,
        bought: NDArray[np.bool_] | None,
    ) -> None:
        loss = objective.loss
        ours = any(loss is own for own in TRAINING_LOSSES.values())
        if loss.hessian is None and not (ours and loss.name in ("squared", "logistic", "multinomial")):
            raise ValueError(
                f"the loss {loss.name!r} has no second derivatives: its steps go by means over all rows, which are not spread; "
                "fit it outside of the cluster"
            )
        if spread.cluster.checkpoint is not None and not ours:
            raise ValueError(
                f"checkpoint= is for losses of this library: the loss {loss.name!r} cannot be told from that of a checkpoint; "
                "open the cluster without one"
            )
        self.spread, self.crew = spread, spread.crew
        self.judge, self.rounds, self.cut_short, self.tolerance, self._least = judge, [], False, 0.0, 0
        self._n_outputs = int(np.shape(start)[-1])
        starts = [start] * self.crew.size if np.ndim(start) == 1 else [s for (s,) in spread.stretches(start)]
        learned = [None] * self.crew.size if rows is None else spread.own_rows(rows)
        judged = [None] * self.crew.size if judge is None else spread.own_rows(judge)
        parts = [
            BoostingPart(
                objective=_part_of(objective, slice(a, b), ours),
                loss_name=loss.name if ours else None,
                grower=replace(grower, n_threads=1),
                start=begins,
                learning_rate=learning_rate,
                rows=own,
                judge=own_judged,
                costs=costs,
                bought=bought,
            )
            for a, b, begins, own, own_judged in zip(
                spread.bounds, spread.bounds[1:], starts, learned, judged, strict=False
            )
        ]
        self.crew.tell("start", [(part,) for part in parts])
        self.crew.progress = lambda: [("catch_up", [(self.rounds,)] * self.crew.size)]
        self.losses = []
        if judge is not None:
            self._held = _part_of(objective, judge, ours=False)
            scores = np.empty((judge.size, self._n_outputs))
            scores[:] = start if np.ndim(start) == 1 else start[judge]
            self.losses.append(self._held.judged(scores, np.arange(judge.size)))
        self.spread.cluster.reports = []
        mark = ""
        if spread.cluster.checkpoint is not None:
            data = spread.lots(np.random.RandomState(0))  # a hash of each row
            settings = (learning_rate, replace(grower, n_threads=1), costs, bought)
            mark = fingerprint(data, objective, start, rows, judge, cuts, *settings)
        self._checkpoint = Checkpoint.of(spread.cluster.checkpoint, mark)
        self._go_on()

    @property
    def n_outputs(self) -> int:
        """Number of scores per row."""
        return self._n_outputs

    def round(self) -> bool:
        """Add a round; False, and nothing added, where no tree finds a split."""
        reports: list[RoundReport] = self.crew.together("round", [(len(self.rounds),)] * self.crew.size)
        self.spread.cluster.reports.append(reports)
        if not reports[0].grew:
            return False
        assert reports[0].stage is not None
        self.rounds.append(reports[0].stage)
        if self.judge is not None:
            scores = np.concatenate([report.judged for report in reports if report.judged is not None])
            self.losses.append(self._held.judged(scores, np.arange(self.judge.size)))
            if self.losses[-1] < self.losses[self._least]:
                self._least = len(self.losses) - 1
        self._checkpoint.keep(self.rounds, self.losses)
        return True

    def run(self, n_estimators: int, n_iter_no_change: int | None = None, time_is_up: Any = None) -> None:
        """Up to so many rounds in all, those of a checkpoint included; see ``GradientRounds.run``."""
        self._cut(n_estimators, n_iter_no_change)
        while not self._is_done(n_estimators, n_iter_no_change, time_is_up) and self.round():
            pass
        self._checkpoint.end()
        slow = slow_worker(self.spread.cluster.reports)
        if slow is not None:
            warn_caller(slow)

    def _is_done(self, n_estimators: int, n_iter_no_change: int | None, time_is_up: Any) -> bool:
        n_rounds = len(self.rounds)
        if n_rounds >= n_estimators:
            return True
        if n_iter_no_change is not None and n_rounds - self.best >= n_iter_no_change:
            return True
        self.cut_short = bool(n_rounds and time_is_up is not None and time_is_up())
        return self.cut_short

    def _cut(self, n_estimators: int, n_iter_no_change: int | None) -> None:
        """Drop rounds of a checkpoint that this fit would not have done; no worker does a round after them."""
        rounds, losses = self.rounds, self.losses
        self._least, n_kept = 0, min(len(rounds), n_estimators)
        for number in range(1, n_kept + 1 if losses else 1):
            if losses[number] < losses[self._least]:
                self._least = number
            if n_iter_no_change is not None and number - self._least >= n_iter_no_change:
                n_kept = number
                break
        self.rounds, self.losses = rounds[:n_kept], losses[: n_kept + 1]

    def _go_on(self) -> None:
        """Take over the rounds of a checkpoint of the same fit."""
        kept = self._checkpoint.read()
        if kept is None:
            return
        self.rounds, self.losses = kept
        self.crew.together("catch_up", [(self.rounds,)] * self.crew.size)


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


def _part_of(objective: MeanLoss, rows: slice | NDArray[np.intp], ours: bool) -> MeanLoss:
    """The objective of some rows, whose weights stay what they are among all."""
    given = objective.given_weight
    part = copy.copy(objective)
    part.__dict__.pop("units", None)
    part.y, part.weight = objective.y[rows], objective.weight[rows]
    part.__dict__["given_weight"] = None if given is None else given[rows]
    if ours:
        part.loss = None  # type: ignore[assignment]  # found by its name where it is needed
    return part
