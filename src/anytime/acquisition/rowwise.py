"""Models whose rows decide what they buy: how budgets, means and advice are kept, whatever decides."""

from __future__ import annotations

from typing import Any

import numpy as np

from anytime.acquisition.mean_spending import spend_mean
from anytime.acquisition.purchase_block import PurchaseBlock
from anytime.blocks import Memory
from anytime.costs import UNLIMITED
from anytime.engine import Run, Stop
from anytime.estimator import Budget, Reach, check_one_or_per_row
from anytime.forest_run import ForestRun
from anytime.plan import Plan
from anytime.rows import Rows, warn_of_absent
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
                raise ValueError("mean_budget is one number, for all rows together")
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
        if budget is None and mean_budget is None:
            budget, mean_budget = self.budget, self.mean_budget
        n, plan = len(rows.X), self.plan_
        if mean_budget is None or np.ndim(mean_budget) or self.meter == "model" or not plan.n_stages:
            return super()._run_plan(rows, budget, mean_budget, due, stop, metered=metered)
        cap = UNLIMITED if budget is None else self._ticks("budget", budget)
        check_one_or_per_row(cap, n)
        cap = np.minimum(np.broadcast_to(cap, n), plan.limit_ticks).astype(np.int64)
        mean = min(int(self._ticks("mean_budget", mean_budget)), int(plan.stage_ticks[-1]))
        run = Run(plan, rows.X, metered=True, threads=self._threads(), held=rows.held)
        self._begin_spending(run.memory_of(0), mean)
        spend_mean(run, mean * n, cap, due=due, stop=stop, relax=self._relax)
        if run.incomplete.any():
            warn_of_absent(rows)
        return run

    def _begin_spending(self, memory: Memory, mean: int) -> None:
        """Prepare rows that are to pay ``mean`` ticks on average."""

    def _relax(self, memory: Memory) -> bool:
        """Let rows want more, where they want nothing any more and money is left; whether they may."""
        return False
