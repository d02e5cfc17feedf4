"""The stages that a budget, a mean budget or a deadline allows, and runs of the plan up to them.

Budgets are turned into ticks, ticks into stages, a branch of the plan or margins for stopping; rows that different branches
answer run apart.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from anytime.answer import Answer
from anytime.batch_means import spend_by_table
from anytime.costs import UNLIMITED
from anytime.engine import Run, Stop
from anytime.forest_run import ForestRun, answered_stages, probabilities_of, start
from anytime.losses import LINKS
from anytime.parameters import KeywordsChecked
from anytime.plan import Array, Plan
from anytime.plan_choices import Choice
from anytime.rows import Rows, read_table, warn_of_absent
from anytime.validation import is_amount

__all__ = ["METERS", "Amount", "BoundedRuns", "Budget", "Reach", "check_one_or_per_row"]

Budget = float | ArrayLike | None
Amount = float | None
METERS = ("model", "realised")  # by which a budget can be counted

_FLOAT_MAX = float(np.finfo(np.float64).max)


class Reach(NamedTuple):
    """How far bounds let rows go."""

    stages: Any  # the most, for all rows or for each
    cap: Any  # the most ticks of realised cost; None where no ledger is needed
    policy: int | None  # of the plan's table of stops


def check_one_or_per_row(budget: Any, n: int) -> None:
    """Raise where a budget is neither one number nor one per row."""
    if np.ndim(budget) and np.shape(budget) != (n,):
        raise ValueError(
            f"budget has shape {np.shape(budget)}, but X has {n} rows: give one number, or one per row"
        )


class BoundedRuns(KeywordsChecked):
    """How ``AnytimeModel`` applies bounds."""

    plan_: Plan
    budget: float | None
    mean_budget: float | None = None  # a constructor parameter of families that are trained for a mean
    meter: str
    n_jobs: int | None

    @property
    def _scores_link(self) -> str:
        """The function that turns scores into answers."""
        return self.plan_.link

    def _read_in(self, X: Any) -> Rows:
        """Rows in whatever form, as the plan reads them; they need not be complete (see ``anytime.rows``)."""
        if not hasattr(self, "plan_"):  # check_is_fitted takes several times as long to ask
            check_is_fitted(self, "plan_")
        return read_table(self, X)

    def _threads(self) -> int:
        if self.n_jobs is None:
            return 1
        from joblib import effective_n_jobs

        return int(effective_n_jobs(self.n_jobs))

    def _ticks(self, name: str, budget: Any) -> Any:
        """A budget, or one per row, in ticks."""
        if is_amount(budget):
            is_beyond_floats = isinstance(budget, int) and budget > _FLOAT_MAX
            return self.plan_.costs.costs.budget_ticks(np.inf if is_beyond_floats else budget)
        budgets = np.asarray(budget)
        for amount in budgets.ravel().tolist() if budgets.dtype.kind not in "iuf" else ():
            if not is_amount(amount):
                raise ValueError(f"{name} must be a non-negative number, not {amount!r}")
        amounts = np.asarray(budgets, dtype=np.float64)
        if np.isnan(amounts).any():
            raise ValueError(f"{name} is NaN; give a number of units, or None for everything")
        if (amounts < 0).any():
            raise ValueError(f"{name} must not be negative; got {amounts.min():g}")
        if amounts.ndim == 0:
            return self.plan_.costs.costs.budget_ticks(float(amounts))
        return self.plan_.costs.costs.budgets_ticks(amounts)

    def _bounds(self, budget: Budget, mean_budget: float | None) -> tuple[Budget, float | None]:
        """The bounds of a call, or the model's own where it names none."""
        return (
            (self.budget, self.mean_budget)
            if budget is None and mean_budget is None
            else (budget, mean_budget)
        )

    def _reach(self, budget: Budget, mean_budget: float | None = None) -> Reach:
        """How far bounds let rows go."""
        plan = self.plan_
        if self.meter not in METERS:
            raise ValueError(f"meter must be 'model' or 'realised', not {self.meter!r}")
        budget, mean_budget = self._bounds(budget, mean_budget)
        cap = UNLIMITED if budget is None else self._ticks("budget", budget)
        stages, policy = plan.n_stages, None
        if mean_budget is not None:
            if np.ndim(mean_budget):
                raise ValueError("mean_budget must be one number, for all rows together")
            ticks = self._ticks("mean_budget", mean_budget)
            stages, policy = plan.affordable_on_average(ticks), plan.policy_within(ticks)
        if self.meter == "model":
            affordable = plan.affordable(cap)
            most_stages = min if isinstance(affordable, int) else np.minimum  # one number: much quicker
            return Reach(most_stages(stages, affordable), None, policy)
        most = plan.stage_ticks[stages - 1] if stages else 0
        several = isinstance(cap, np.ndarray)
        least = np.min(cap, initial=UNLIMITED) if several else cap
        return Reach(stages, cap if several or min(least, plan.limit_ticks) < most else None, policy)

    @staticmethod
    def _due(began: float, deadline: float | None) -> float:
        if deadline is None:
            return np.inf
        if not is_amount(deadline):
            raise ValueError(f"deadline must be a non-negative number of seconds, not {deadline!r}")
        return began + deadline

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
        """The plan run over rows as far as the bounds, and what is there of the rows, allow; one branch, or none, for all."""
        choice = self._known_choice(rows.held, budget, mean_budget, due, stop)
        if choice is None:
            stages, cap, policy = self._reach(budget, mean_budget)
        else:
            stages, cap, policy = choice.stages, None, None
        for entries in (stages, cap):
            check_one_or_per_row(entries, len(rows.X))
        if policy is not None and len(rows.X) > 1:
            return self._run_within_mean(rows, budget, mean_budget, due, stop, metered=metered)
        kind = Run if metered else start
        plan = self.plan_ if policy is None else self.plan_.with_policy(policy)
        if choice is not None and np.max(choice.branch, initial=-1) >= 0:
            plan = plan.branches[np.max(choice.branch)]
        run = kind(plan, rows.X, metered=metered or cap is not None, threads=self._threads(), held=rows.held)
        run.advance(stages, budget=UNLIMITED if cap is None else cap, deadline=due, stop=stop)
        if isinstance(run, Run):
            if choice is not None and rows.held is not None:
                # with all groups something else might have answered
                wanted = self.plan_.choice(self._known_ticks(budget, mean_budget, due, stop))
                run.incomplete |= (wanted.branch != choice.branch) | (wanted.stages != choice.stages)
            if run.incomplete.any():
                warn_of_absent(rows, any_stage_ran=bool(run.updates.any()))
        return run

    def _run_within_mean(
        self,
        rows: Rows,
        budget: Budget,
        mean_budget: float | None,
        due: float,
        stop: Stop | None,
        *,
        metered: bool,
    ) -> Run:
        """The plan run over rows that together pay no more than ``mean_budget`` on average."""
        budget, mean_budget = self._bounds(budget, mean_budget)
        cap = UNLIMITED if budget is None else self._ticks("budget", budget)
        check_one_or_per_row(cap, len(rows.X))
        run = self._spent(
            rows, int(self._ticks("mean_budget", mean_budget)), cap, due=due, stop=stop, metered=metered
        )
        if run.incomplete.any():
            warn_of_absent(rows, any_stage_ran=bool(run.updates.any()))
        return run

    def _spent(self, rows: Rows, mean: int, cap: Any, *, metered: bool, **ends: Any) -> Run:
        """A run that has spent ``mean`` ticks a row, the least sure ones most; ``ends`` are a clock and a flag."""
        table, realised = self.plan_.stop_table, self.meter == "realised"
        assert table is not None
        policies = table.margins[self.plan_.policy_within(mean // 2) or 0 :]  # cheaper ones take time alone
        plan, metered = self.plan_.for_means, metered or realised
        run = Run(plan, rows.X, metered=metered, threads=self._threads(), held=rows.held)
        spend_by_table(run, policies, mean * len(rows.X), cap, realised=realised, **ends)
        return run

    def _scores(
        self, X: Any, budget: Budget, deadline: float | None, mean_budget: float | None = None
    ) -> Array:
        return self._read_off(X, budget, deadline, mean_budget, lambda run: run.scores())

    def _probabilities(
        self, X: Any, budget: Budget, deadline: float | None, mean_budget: float | None = None
    ) -> Array:
        if not hasattr(self, "plan_"):
            check_is_fitted(self, "plan_")
        if self.plan_.calibration is None:
            return LINKS[self._scores_link].transform(self._scores(X, budget, deadline, mean_budget))
        return self._read_off(X, budget, deadline, mean_budget, probabilities_of)

    def _read_off(
        self,
        X: Any,
        budget: Budget,
        deadline: float | None,
        mean_budget: float | None,
        read: Callable[[Run | ForestRun], Array],
    ) -> Array:
        """Values read from the run of each row, (n, K)."""
        due = self._due(time.monotonic(), deadline)
        rows = self._read_in(X)
        parts = self._parts_by_branch(rows, budget, mean_budget, due)
        if len(parts) == 1:
            return read(self._run_plan(rows, budget, mean_budget, due))
        readings = [read(self._run_plan(part, money, mean_budget, due)) for _, part, money in parts]
        joined = np.empty((len(rows.X), readings[0].shape[1]))
        for (which, _, _), some in zip(parts, readings, strict=True):
            joined[which] = some
        return joined

    def _known_choice(
        self,
        held: NDArray[np.bool_] | None,
        budget: Budget,
        mean_budget: float | None,
        due: float,
        stop: Stop | None,
    ) -> Choice | None:
        """The choice that answers a budget known in advance; None if rows keep to the chain."""
        ticks = self._known_ticks(budget, mean_budget, due, stop)
        return None if ticks is None else self.plan_.choice(ticks, held)

    def _known_ticks(self, budget: Budget, mean_budget: float | None, due: float, stop: Stop | None) -> Any:
        """A budget that is known in advance, or one per row, in ticks; None where rows keep to the chain."""
        if not self.plan_.branches or self.meter != "model" or due < np.inf or stop is not None:
            return None
        budget, mean_budget = self._bounds(budget, mean_budget)
        cap = UNLIMITED if budget is None else self._ticks("budget", budget)
        if mean_budget is not None:
            measured = self.plan_.expected_costs is not None or self.plan_.stop_table is not None
            if measured or np.ndim(mean_budget):
                return None  # some rows pay less than a stage may cost: the chain knows how much
            cap = np.minimum(cap, self._ticks("mean_budget", mean_budget))
        return cap

    def _parts_by_branch(
        self, rows: Rows, budget: Budget, mean_budget: float | None, due: float, stop: Stop | None = None
    ) -> list[tuple[Any, Rows, Budget]]:
        """Rows that one branch, or the chain, answers, with their budgets: mostly all of them."""
        everything: list[tuple[Any, Rows, Budget]] = [(slice(None), rows, budget)]
        if (
            budget is None
            or not np.ndim(budget)
            or (choice := self._known_choice(rows.held, budget, mean_budget, due, stop)) is None
        ):
            return everything
        branch, budgets = np.asarray(choice.branch), np.asarray(budget)
        if branch.shape != (len(rows.X),) or np.unique(branch).size < 2:
            return everything  # of a wrong shape: the run says so
        parts = [np.flatnonzero(branch == number) for number in np.unique(branch)]
        return [(which, replace(rows, X=rows.X[which]), budgets[which]) for which in parts]

    @property
    def _answer(self) -> Callable[..., Answer]:
        """A function that makes answers of scores, stages and payments, with the current plan and classes."""
        return partial(Answer, self.plan_, getattr(self, "classes_", None))

    def _read(self, run: Run, began: float, stage: int | None = None, reason: str = "") -> Answer:
        """The answer of a run; ``stage``: where all rows have been taken."""
        assert run.ledger is not None
        return self._answer(
            run.scores(),
            run.answered if stage is None else stage,
            run.ledger.paid,
            np.asarray(run.ledger.bought.any(axis=0)),
            self._complete(run),
            run.partial,
            time.monotonic() - began,
            reason,
            branch=self._branch_of(run),
        )

    def _branch_of(self, run: Run) -> int:
        """The branch that a run is of; -1: the chain."""
        return next((number for number, plan in enumerate(self.plan_.branches) if plan is run.plan), -1)

    def _reason(self, run: Run, stop: Stop | None) -> str:
        """Why a run has ended."""
        if run.partial.any():
            return "stop" if stop is not None and stop.is_set() else "deadline"
        if run.incomplete.any():
            return "groups"
        return "complete" if self._complete(run).all() else "budget"

    def _complete(self, run: Run) -> NDArray[np.bool_]:
        """(n,) rows that have nothing left to do, whatever the budget: those that left early for a mean have."""
        branch = self._branch_of(run)
        if run.plan is self.plan_ or (branch >= 0 and branch == self.plan_.choice(UNLIMITED).branch):
            return run.complete
        return np.asarray(run.complete & (branch < 0) & (run.done == self.plan_.n_stages))

    def _decide(self, scores: Array) -> Any:
        """Labels or values of scores, (n, K), where all mistakes cost the same."""
        return LINKS[self._scores_link].decide(scores, getattr(self, "classes_", None))

    def _decided(self, run: Run | ForestRun) -> Any:
        """Labels or values of the rows of a run."""
        return run.plan.decide(run.scores(), getattr(self, "classes_", None), answered_stages(run))

    def _decided_one(self, run: Run | ForestRun) -> Any:
        """The label or value of the only row of a run, as a Python object where it is one label or number."""
        answer = self._decided(run)[0]
        return answer.item() if isinstance(answer, np.generic) else answer
