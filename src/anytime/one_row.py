"""The microsecond path of ``predict_one``: everything that does not depend on the row is looked up once."""

import time
from bisect import bisect_right
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.engine import combined
from anytime.losses import LINKS
from anytime.plan import Plan
from anytime.rows import Rows
from anytime.validation import is_amount


class OneRow:
    """Answers single rows of a fitted model, to the bits of ``predict``.

    A plan that is one forest takes one native call; so does one whose every stage replaces the answer, of which only the last
    that is affordable is computed. Any other goes through a ``Run``.
    """

    def __init__(self, model: Any) -> None:
        model._reach(None)  # says what is wrong with the meter
        plan = model.plan_
        self.model, self.plan, self.meter = model, plan, model.meter
        self.shape = (plan.n_features,)
        self.reads_rows_as_they_are = model._reads_rows_as_they_are
        by_score = plan.cost_matrix is None  # else probabilities decide, which depend on the stage
        self.forest = plan.plain_forest if by_score else None
        self.unit = 1.0 if self.forest is None else self.forest.unit
        self.refits = plan.always_replaces and by_score
        # stages that continue from earlier ones take their time: with a deadline they are looked at one by one
        self.goes_on = self.refits and not plan.stages_stand_alone
        self.seconds = [plan.seconds(s, 1) for s in range(plan.n_stages)] if self.refits else []
        self.ticks = plan.costs.costs.budget_ticks
        self.costs: list[int] = [0, *plan.stage_ticks.tolist()]
        self.mean_costs: list[int] = plan.mean_ticks.tolist()
        self.realised = model.meter == "realised"
        self.affordable = plan.n_stages if self.realised else int(plan.affordable(plan.limit_ticks))
        self.limit, self.n_outputs = plan.limit_ticks, plan.n_outputs
        self.branches = () if self.realised else plan.branches
        self.alone = plan.n_outputs == 1
        self.base = float(plan.base[0]) if self.alone else plan.base
        self.mean = plan.combine == "mean"
        link = LINKS[plan.link]
        self.classes: list[Any] | None = model.classes_.tolist() if hasattr(model, "classes_") else None
        self.one_class = self.alone and link.classifies and not link.binary
        self.transform = None if plan.link == "identity" else link.transform

    def __call__(
        self, x: NDArray[np.float64], budget: float | None, mean_budget: float | None, due: float
    ) -> Any:
        """The prediction for ``x``, numbers as the plan reads them, by ``due`` on the clock of ``time.monotonic()``."""
        if budget is None and mean_budget is None:
            budget, mean_budget = self.model.budget, self.model.mean_budget
        until, cap = self.affordable, self.limit
        if mean_budget is not None and (self.plan.stop_table is not None or self.plan.bounded_blocks):
            return self.model._decided_one(self.model._run_plan(Rows(x[None, :]), budget, mean_budget, due))
        if mean_budget is not None:
            until = min(until, bisect_right(self.mean_costs, self.ticks(_amount("mean_budget", mean_budget))))
        if budget is not None:
            cap = min(cap, self.ticks(_amount("budget", budget)))
        if self.branches and due == np.inf and (mean_budget is None or self.plan.expected_costs is None):
            if mean_budget is not None:
                cap = min(cap, self.ticks(mean_budget))
            branch, until = self.plan.choice(cap)
            plan = self.plan if branch < 0 else self.branches[branch]
            if plan.always_replaces:
                return self._decided(self._last_of(plan, x, int(until), due))
            return self.model._decided_one(self.model._run_plan(Rows(x[None, :]), budget, None, due))
        binding = cap < self.costs[until]
        if binding and not self.realised:
            until, binding = bisect_right(self.costs, cap) - 1, False
        forest = self.forest
        if forest is not None:
            sums = np.empty(self.n_outputs, dtype=np.int64)
            done = (
                self._pay_along(x, until, cap, due, sums) if binding else forest.run_one(x, until, due, sums)
            )
            total = (sums.item() if self.alone else sums) * self.unit
            return self._decided(combined(total, done, self.base, self.mean))
        if self.refits and not binding and not (self.goes_on and due < np.inf):
            return self._decided(self._last_of(self.plan, x, until, due))
        return self.model._decided_one(self.model._run_plan(Rows(x[None, :]), budget, mean_budget, due))

    def _pay_along(
        self, x: NDArray[np.float64], until: int, cap: int, due: float, sums: NDArray[np.int64]
    ) -> int:
        """Stages that the row can pay for on its own path; fills in their sums."""
        assert self.forest is not None
        plan = self.plan
        sums.fill(0)
        done = np.zeros(1, dtype=np.int32)
        self.forest.run_metered(
            *(x[None, :], sums[None, :], done, np.array([until], dtype=np.int32)),
            *(plan.costs.ledger(1), plan.evaluation_ticks, np.array([cap], dtype=np.int64), due),
        )
        return int(done[0])

    def _last_of(self, plan: Plan, x: NDArray[np.float64], until: int, due: float) -> Any:
        """Scores after ``until`` stages, each of which replaces the answer; the base where there is no time.

        Before a deadline, the last of them that surely ends in time: it alone is computed.
        """
        if not until or (left := due - time.monotonic()) <= 0:
            return self.base
        if due < np.inf and self.seconds[until - 1] > left:
            until = plan.last_in_time(0, until, 1, left) + 1
        b, within = plan.locate(until - 1)
        block = plan.blocks[b]
        if block.forest is None:
            scores = block.outputs(within, x[None, :])[0]
        else:
            sums = np.empty(self.n_outputs, dtype=np.int64)
            if not block.forest.run_one(x, 1, due, sums):
                return self.base
            scores = sums * block.forest.unit
        return scores.item() if self.alone else scores

    def _decided(self, scores: Any) -> Any:
        """The answer from the scores of a row, one number or several."""
        if self.classes is None:
            if self.transform is None:
                return scores
            values = self.transform(np.reshape(scores, (1, -1)))
            return values.item() if self.alone else values[0]
        if self.alone:
            return self.classes[0 if self.one_class else scores > 0]
        return self.classes[int(scores.argmax())]


def _amount(name: str, amount: Any) -> float:
    if not is_amount(amount):
        raise ValueError(f"{name} must be a non-negative number, not {amount!r}")
    return float(amount)
