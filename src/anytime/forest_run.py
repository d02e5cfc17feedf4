"""The short way through a plan that is one forest: what the engine does, to the same bits, by native calls alone."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.costs import UNLIMITED, Ledger
from anytime.engine import Run, Stop, combined
from anytime.plan import Array, Plan

_FEW = 6  # rows that are quicker taken one by one than together


class ForestRun:
    """Progress of a plan that is one forest, without rules: what a ``Run`` does, to the same bits, by native calls alone."""

    __slots__ = ("X", "_forest", "_sums", "done", "ledger", "plan", "threads")

    def __init__(self, plan: Plan, X: Array, metered: bool = False, threads: int = 1) -> None:
        assert plan.plain_forest is not None
        self.plan, self.X, self.threads, self._forest = plan, X, threads, plan.plain_forest
        self.ledger: Ledger | None = plan.costs.ledger(len(X)) if metered else None
        self.done = np.zeros(len(X), dtype=np.int32)
        self._sums = np.zeros((len(X), plan.n_outputs), dtype=np.int64)

    def advance(
        self,
        until: NDArray[np.integer[Any]] | int,
        *,
        budget: NDArray[np.int64] | int = UNLIMITED,
        deadline: float = np.inf,
        stop: Stop | None = None,
    ) -> bool:
        """Continue, as a ``Run`` does; a budget needs a ledger."""
        limit = np.empty(len(self.X), dtype=np.int32)
        limit[:] = until
        if self.ledger is not None:
            cap = np.empty(len(self.X), dtype=np.int64)
            cap[:] = np.minimum(budget, self.plan.limit_ticks)
            price = self.plan.evaluation_ticks
            return self._forest.run_metered(
                self.X, self._sums, self.done, limit, self.ledger, price, cap, deadline, stop
            )
        assert budget is UNLIMITED or np.min(budget) == UNLIMITED
        if len(self.X) > _FEW or deadline < np.inf or stop is not None or self.done.any():
            return self._forest.run(self.X, self._sums, self.done, limit, deadline, stop, self.threads)
        for i, stage in enumerate(limit.tolist()):
            self.done[i] = self._forest.run_one(self.X[i], stage, np.inf, self._sums[i])
        return True

    @property
    def finished(self) -> NDArray[np.bool_]:
        """(n,) rows that a stopping rule has released: none, there is no such rule."""
        return np.zeros(len(self.X), dtype=bool)

    @property
    def paid(self) -> NDArray[np.int64] | None:
        """(n,) ticks that rows have paid; None where no ledger is kept."""
        return None if self.ledger is None else self.ledger.paid

    def scores(self) -> Array:
        """(n, K) the answers so far."""
        total = self._sums * self._forest.unit
        return np.asarray(combined(total, self.done[:, None], self.plan.base, self.plan.combine == "mean"))

    def scores_ahead(self, rows: NDArray[np.intp], stage: int, end: int) -> Array:
        """(m, n, K) the answers of rows at ``stage`` after each of the next stages up to ``end``, up to rounding."""
        steps = self._forest.stage_outputs(np.ascontiguousarray(self.X[rows]), np.arange(stage, end))
        total = self._sums[rows] * self._forest.unit + np.cumsum(steps, axis=0)
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
