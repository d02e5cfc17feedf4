"""Quick models: they tell sets of groups apart, on held-out rows, at a small part of the price of a full model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray

from anytime.boosting.boosted import Training
from anytime.boosting.objective import MeanLoss
from anytime.boosting.rounds import GradientRounds
from anytime.boosting.sets import Groups, GroupSets
from anytime.plan import Array
from anytime.trees.growing import TreeGrower

Rows = NDArray[np.intp]

_ROWS = 3_000  # to learn from, and as many to judge on: these take little time, and noise is less with more of them
_BINS = 64
_LEAVES, _RATE, _ROUNDS, _PATIENCE = 15, 0.4, 15, 3
_RIDGE = (
    5.0  # at so large a rate, leaves of few rows would go astray, and larger sets seem worse than they are
)
_PARTS = 20  # of the held-out rows, on which sets are compared pairwise


class Probes:
    """Held-out losses of quick models, remembered: one tree per round for all outputs, few bins, few rounds.

    They are followed by the loss itself, which tells small differences best.
    """

    def __init__(
        self,
        training: Training,
        sets: GroupSets,
        splits: Sequence[tuple[Rows, Rows]],
        grower: TreeGrower,
        until: float,  # when, on the clock of the training, there are no more of them
    ) -> None:
        self.sets, self.clock, self.until, self.n_jobs = sets, training.clock, until, grower.n_threads
        self.base = training.base
        leaves = min(grower.max_leaf_nodes or _LEAVES, _LEAVES)
        ridge = max(grower.l2_regularization, _RIDGE)
        self.grower = replace(grower, max_leaf_nodes=leaves, l2_regularization=ridge, n_threads=1)
        kept = np.arange(len(training.table))
        if len(splits) == 1:
            kept = np.sort(np.concatenate([_some(rows, training) for rows in splits[0]]))
        place = np.full(len(training.table), -1)
        place[kept] = np.arange(kept.size)
        self.splits = [
            (place[rows][place[rows] >= 0], place[judge][place[judge] >= 0]) for rows, judge in splits
        ]
        table = training.table
        self.binned = table.rows(None if kept.size == len(table) else kept, min(_BINS, table.max_bins)).binned
        # As the weights were given: the ridge is a number of rows of weight 1, whatever their number.
        objective = training.objective
        self.objective = MeanLoss(objective.loss, objective.y[kept], objective.weight[kept] * objective.total)
        self._parts: dict[Groups, Array] = {}

    @property
    def over(self) -> bool:
        """Whether there is no time for more."""
        return self.clock.elapsed >= self.until

    def __call__(self, groups: Groups) -> float:
        """Held-out loss of a quick model on a closed set of groups; NaN where there was no time for it."""
        return float(self.parts(groups).mean())

    def losses(self, sets: Sequence[Groups]) -> Array:
        """Of several sets, looked at side by side."""
        new = [groups for groups in dict.fromkeys(sets) if groups not in self._parts]
        if self.n_jobs > 1 and len(new) > 1:
            Parallel(n_jobs=self.n_jobs, prefer="threads")(delayed(self.parts)(groups) for groups in new)
        return np.array([self(groups) for groups in sets])

    def parts(self, groups: Groups) -> Array:
        """(P,) loss on each part of the held-out rows; NaN where there was no time."""
        if groups not in self._parts:
            if self.over:
                return np.full(1, np.nan)
            judges = [
                _PartsJudge(self.objective, judge, _PARTS // len(self.splits)) for _, judge in self.splits
            ]
            for (rows, _), judge in zip(self.splits, judges, strict=True):
                if self._run(self.sets.columns(groups), rows, judge).cut_short:
                    return np.full(1, np.nan)
            length = max(len(judge.found) for judge in judges)
            by_round = np.hstack([judge.padded(length) for judge in judges])
            self._parts[groups] = by_round[by_round.mean(axis=1).argmin()]
        return self._parts[groups]

    def promise(self) -> Array:
        """(G,) what the splits on each group take off the loss in a quick model of all columns."""
        rows, judged = self.splits[0]
        judge = _PartsJudge(self.objective, judged, _PARTS // len(self.splits))
        run = self._run(self.sets.columns(self.sets.everything), rows, judge, keep_gains=True)
        assert run.column_gains is not None
        return by_group(self.sets, run.column_gains)

    def _run(
        self, columns: NDArray[np.bool_], rows: Rows, judge: _PartsJudge, keep_gains: bool = False
    ) -> GradientRounds:
        run = GradientRounds(
            self.binned,
            self.objective,
            self.grower,
            self.base,
            learning_rate=_RATE,
            rows=rows,
            judge=judge.rows,
            columns=columns,
            shared=True,
            keep_gains=keep_gains,
            judged=judge,
            keep_trees=False,
        )
        run.run(_ROUNDS if columns.any() else 0, _PATIENCE, self.clock.ends(self.until))
        return run


class _PartsJudge:
    """Follows a boosting on parts of its held-out rows."""

    def __init__(self, objective: MeanLoss, rows: Rows, n_parts: int) -> None:
        self.objective, self.rows = objective, rows
        unit = np.unique(objective.units[rows], return_inverse=True)[1]
        self.part = unit % min(max(n_parts, 1), int(unit.max()) + 1)
        self.y, self.weight = objective.y[rows], objective.weight[rows]
        self.total = np.bincount(self.part, self.weight)
        self.found: list[Array] = []  # (p,) each: loss on each part, before the first round and after each

    def __call__(self, scores: Array, rows: Rows) -> float:
        """Mean loss over the parts."""
        objective, part = self.objective, self.part
        if objective.loss.ranks:
            by_part = np.array([objective.judged(scores, rows[part == k]) for k in range(self.total.size)])
        else:
            losses = objective.loss.per_row(scores[rows], self.y)
            by_part = np.bincount(part, self.weight * losses) / self.total
        self.found.append(by_part)
        return float(by_part.mean())

    def padded(self, length: int) -> Array:
        """(length, p) what was found; what the last round has is that of further ones."""
        return np.array(self.found + self.found[-1:] * (length - len(self.found)))


def by_group(sets: GroupSets, of_columns: Array) -> Array:
    """(G,) sums over the columns of each group."""
    costs = sets.costs
    return np.asarray(np.bincount(costs.column_group, of_columns, costs.n_groups), dtype=np.float64)


def _some(rows: Rows, training: Training) -> Rows:
    """Some of the rows, enough to tell groups apart; whole queries."""
    if rows.size <= _ROWS:
        return rows
    if training.query is None:
        return rows[training.random.permutation(rows.size)[:_ROWS]]
    queries = training.random.permutation(np.unique(training.query[rows]))
    n_queries = max(int(_ROWS / rows.size * queries.size), 2)
    return rows[np.isin(training.query[rows], queries[:n_queries])]
