"""The short way through a plan that is one forest: what the engine does, to the same bits, by native calls alone."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anytime._native import forest_scores
from anytime.costs import UNLIMITED, Ledger
from anytime.engine import Run, Stop, combined
from anytime.plan import Array, Plan

_FEW = 6  # rows that are quicker taken one by one than together


class _Progress(NamedTuple):
    done: NDArray[np.int32]  # (n,) stages behind each row
    sums: NDArray[np.int64]  # (n, K) of these, in units of the forest
    ledger: Ledger | None


class ForestRun:
    """Progress of a plan that is one forest, without rules: what a ``Run`` does, to the same bits, by native calls alone.

    If all rows go equally far from the start, and nothing can interrupt them, one call computes the scores when they are read.
    """

    __slots__ = ("X", "_forest", "_goal", "_progress", "metered", "plan", "threads")

    def __init__(self, plan: Plan, X: Array, metered: bool = False, threads: int = 1) -> None:
        assert plan.plain_forest is not None
        self.plan, self.X, self.threads, self._forest = plan, X, threads, plan.plain_forest
        self.metered = metered
        # the stage and the budget to which rows go once something of them is read
        self._goal: tuple[int, int] | None = None
        self._progress: _Progress | None = None

    def advance(
        self,
        until: NDArray[np.integer[Any]] | int,
        *,
        budget: NDArray[np.int64] | int = UNLIMITED,
        deadline: float = np.inf,
        stop: Stop | None = None,
    ) -> bool:
        """Continue, as a ``Run`` does; a budget needs a ledger."""
        assert self.metered or budget is UNLIMITED or np.min(budget) == UNLIMITED
        fresh = self._goal is None and self._progress is None and (self.metered or len(self.X) > _FEW)
        if fresh and type(until) is int and type(budget) is int and deadline == np.inf and stop is None:
            self._goal = until, min(budget, self.plan.limit_ticks)
            return True
        return self._advance(self._computed(), until, budget, deadline, stop)

    def _advance(
        self,
        progress: _Progress,
        until: NDArray[np.integer[Any]] | int,
        budget: NDArray[np.int64] | int,
        deadline: float = np.inf,
        stop: Stop | None = None,
    ) -> bool:
        done, sums, ledger = progress
        limit = np.empty(len(self.X), dtype=np.int32)
        limit[:] = until
        if ledger is not None:
            cap = np.empty(len(self.X), dtype=np.int64)
            cap[:] = np.minimum(budget, self.plan.limit_ticks)
            price = self.plan.evaluation_ticks
            return self._forest.run_metered(self.X, sums, done, limit, ledger, price, cap, deadline, stop)
        if len(self.X) > _FEW or deadline < np.inf or stop is not None or done.any():
            return self._forest.run(self.X, sums, done, limit, deadline, stop, self.threads)
        for i, stage in enumerate(limit.tolist()):
            done[i] = self._forest.run_one(self.X[i], stage, np.inf, sums[i])
        return True

    def _computed(self) -> _Progress:
        """The progress so far, which is not there yet where only scores have been read."""
        if self._progress is None:
            n, plan = len(self.X), self.plan
            self._progress = _Progress(
                np.zeros(n, dtype=np.int32),
                np.zeros((n, plan.n_outputs), dtype=np.int64),
                plan.costs.ledger(n) if self.metered else None,
            )
            if self._goal is not None:
                self._advance(self._progress, *self._goal)
        return self._progress

    @property
    def done(self) -> NDArray[np.int32]:
        """(n,) stages behind each row."""
        return self._computed().done

    @property
    def finished(self) -> NDArray[np.bool_]:
        """(n,) rows that a stopping rule has released: none, there is no such rule."""
        return np.zeros(len(self.X), dtype=bool)

    @property
    def ledger(self) -> Ledger | None:
        """What rows have paid for; None where no ledger is kept."""
        return self._computed().ledger

    @property
    def paid(self) -> NDArray[np.int64] | None:
        """(n,) ticks that rows have paid; None where no ledger is kept."""
        return None if self.ledger is None else self.ledger.paid

    def scores(self) -> Array:
        """(n, K) the answers so far."""
        plan, mean = self.plan, self.plan.combine == "mean"
        if self._progress is None and self._goal is not None:
            until, budget = self._goal
            return forest_scores(
                *(self._forest, self.X, until, plan.base, mean, self.threads),
                *(plan.costs.table if self.metered else None, plan.evaluation_ticks, budget),
            )
        done, sums, _ = self._computed()
        return np.asarray(combined(sums * self._forest.unit, done[:, None], plan.base, mean))

    def scores_ahead(self, rows: NDArray[np.intp], stage: int, end: int) -> Array:
        """(m, n, K) the answers of rows at ``stage`` after each of the next stages up to ``end``, up to rounding."""
        steps = self._forest.stage_outputs(np.ascontiguousarray(self.X[rows]), np.arange(stage, end))
        total = self._computed().sums[rows] * self._forest.unit + np.cumsum(steps, axis=0)
        count = np.arange(stage + 1, end + 1)[:, None, None]
        return np.asarray(combined(total, count, self.plan.base, self.plan.combine == "mean"))


def start(
    plan: Plan, X: Array, *, metered: bool = False, threads: int = 1, held: NDArray[np.bool_] | None = None
) -> Run | ForestRun:
    """Rows of a matrix before the first stage, by the quickest means there are."""
    if held is not None or plan.plain_forest is None:
        return Run(plan, X, metered=metered, threads=threads, held=held)
    return ForestRun(plan, X, metered, threads)


def answered_stages(run: Run | ForestRun) -> NDArray[np.int32]:
    """(n,) the last stage that is part of each row's answer."""
    return run.answered if isinstance(run, Run) else run.done


def probabilities_of(run: Run | ForestRun) -> Array:
    """(n, C) scores of the classes after a run."""
    return run.plan.probabilities(run.scores(), answered_stages(run))
