"""Models whose rows decide what they buy: how budgets, means and advice are kept, whatever decides."""

from __future__ import annotations

from typing import Any

import numpy as np

from anytime.acquisition.mean_spending import spend_mean
from anytime.acquisition.purchase_block import PurchaseBlock
from anytime.blocks import Memory
from anytime.bounded_runs import Budget, Reach
from anytime.engine import Run, Stop
from anytime.forest_run import ForestRun
from anytime.plan import Plan
from anytime.rows import Rows
from anytime.trees.reading import ColumnModel

__all__ = ["RowwiseModel"]


class RowwiseModel(ColumnModel):
    """What these models share: a plan of one block of purchases, hard budgets, and means that a batch keeps exactly."""

    _block_type: type[PurchaseBlock]

    @staticmethod
    def _plan_of(block: PurchaseBlock, base: Any, **settings: Any) -> Plan:
        """The plan of a block; of none where nothing can be bought."""
        blocks = [block] if block.n_stages else []
        replaces = np.ones(block.n_stages, dtype=bool)
        return Plan(blocks=blocks, costs=block.costs, base=base, replaces=replaces, **settings)

    @property
    def _block(self) -> Any:
        """What decides; None where there is nothing to buy."""
        return next(iter(self._plan.blocks), None)

    def _restore_file_state(self, state: Any) -> None:
        super()._restore_file_state(state)
        for block in self.plan_.blocks:
            if not isinstance(block, self._block_type):
                raise ValueError(
                    f"a {type(block).__name__} is not how a {type(self).__name__} decides what to buy"
                )

    @property
    def _bounds_of_single_rows(self) -> tuple[Budget, float | None]:
        """The model's own budget and mean, as rows that come one by one keep them: each keeps to the mean itself."""
        return self.budget, self.mean_budget

    def _reach(self, budget: Budget, mean_budget: float | None = None) -> Reach:
        if budget is None and mean_budget is None:
            budget, mean_budget = self._bounds_of_single_rows
        if mean_budget is not None:
            if np.ndim(mean_budget):
                raise ValueError("mean_budget must be one number, for all rows together")
            self._ticks("mean_budget", mean_budget)
            budget = mean_budget if budget is None else np.minimum(budget, mean_budget)
        return super()._reach(np.inf if budget is None else budget)

    def _run_plan(
        self,
        rows: Rows,
        budget: Budget,
        mean_budget: float | None,
        due: float,
        stop: Stop | None = None,
        *,
        metered: bool = False,
    ) -> Run | ForestRun:
        mean = self._bounds(budget, mean_budget)[1]
        exactly = mean is not None and not np.ndim(mean) and self.meter != "model" and self.plan_.n_stages > 0
        way = self._run_within_mean if exactly else super()._run_plan
        return way(rows, budget, mean_budget, due, stop, metered=metered)

    def _spent(self, rows: Rows, mean: int, cap: Any, *, metered: bool, **ends: Any) -> Run:
        plan, n = self.plan_, len(rows.X)
        mean = min(mean, int(plan.stage_ticks[-1]))
        run = Run(plan, rows.X, metered=True, threads=self._threads(), held=rows.held)
        self._begin_spending(run.memory_of(0), mean)
        cap = np.minimum(np.broadcast_to(cap, n), plan.limit_ticks).astype(np.int64)
        spend_mean(run, mean * n, cap, relax=self._relax, **ends)
        return run

    def _begin_spending(self, memory: Memory, mean: int) -> None:
        """Prepare rows that are to pay ``mean`` ticks on average."""

    def _relax(self, memory: Memory) -> bool:
        """Let rows want more, where they want nothing any more and money is left; whether they may."""
        return False
