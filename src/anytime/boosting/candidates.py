"""What a step of boosting can choose from: one fitted predictor per learner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from anytime.boosting.filters import Filters
from anytime.boosting.learners import GradientTask, TrainingRows, Weak, WeakLearner, conditional_price
from anytime.costs import BoundCosts
from anytime.losses import LINKS
from anytime.plan import Array
from anytime.rules import Rule


@dataclass(frozen=True, eq=False)
class Candidate:
    """One possible next step."""

    number: int  # its place among the candidates: of equals the lower one wins
    outputs: Array  # (n, K): on the training rows; 0 where its filter does not let a row pass
    cost: float  # what it would cost now, per row
    weak: Weak | None = None  # what was fitted, where something was
    rule: Rule | None = None  # its filter
    passing: NDArray[np.bool_] | None = None  # (n,): the rows that the filter lets pass

    def without_outputs(self) -> Candidate:
        """The same, without anything that is as long as the training rows."""
        weak = None if self.weak is None else self.weak.without_outputs()
        return replace(self, outputs=self.outputs[:0], weak=weak, passing=None)


class Candidates(Protocol):
    """Where candidates come from."""

    def offer(self, scores: Array, target: Array, rows: NDArray[np.intp] | None) -> list[Candidate]:
        """Candidates at ``scores``, fitted to ``target`` (n, K) on ``rows``."""

    def take(self, candidate: Candidate) -> None:
        """Buy what the candidate uses."""


class FittedCandidates:
    """One predictor per learner, fitted to the gradient; features are paid once per row.

    Parameters
    ----------
    learners : sequence of WeakLearner
    table : TrainingRows
    weight : (n,)
    costs : BoundCosts
    step_cost : float
        Cost of a step that buys nothing and evaluates for free; positive, so that there is a rate.
    filters : callable, default=None
        From scores and link to the filters to try.
    link : str, default="identity"
    random : RandomState, default=None
        One number is drawn from it, on which with the number of steps all else depends.
    time_is_up : callable, default=never
        When it says so, only candidates that are fitted by then are offered, one at least.
    """

    def __init__(
        self,
        learners: Sequence[WeakLearner],
        table: TrainingRows,
        weight: Array,
        costs: BoundCosts,
        *,
        step_cost: float,
        filters: Filters | None = None,
        link: str = "identity",
        random: np.random.RandomState | None = None,
        time_is_up: Callable[[], bool] = lambda: False,
    ) -> None:
        if not learners:
            raise ValueError("give at least one learner")
        for learner in learners:
            if not hasattr(learner, "fit"):
                raise TypeError(
                    f"{learner!r} is not a learner: it has no fit(task); see anytime.boosting.learners"
                )
        if not step_cost > 0:
            raise ValueError(f"step_cost must be positive, not {step_cost}: gains are divided by it")
        self.learners, self.table, self.weight, self.costs = list(learners), table, weight, costs
        self.step_cost, self.filters, self.link = step_cost, filters, LINKS[link]
        # one ledger for all rows; with filters each row has its own
        self.bought = np.zeros((1 if filters is None else len(table), costs.n_groups), dtype=bool)
        self.time_is_up = time_is_up
        self._random, self._n_taken, self._n_offered = reseeded(random), 0, 0

    def offer(self, scores: Array, target: Array, rows: NDArray[np.intp] | None) -> list[Candidate]:
        """Fit every learner, on the rows that each filter lets pass."""
        random = self._random(self._n_taken, self._n_offered)
        self._n_offered += 1
        rules = [None] if self.filters is None else list(self.filters(scores, self.link))
        candidates = []
        for r, rule in enumerate(rules):
            passing = None if rule is None else rule.holds(self.table.X, scores, self.link)
            learn_from = rows
            if passing is not None:
                learn_from = np.flatnonzero(passing) if rows is None else rows[passing[rows]]
                if not learn_from.size:
                    continue
            ledger = self.bought if passing is None else self.bought[passing]
            task = GradientTask(
                self.table,
                target,
                self.weight,
                learn_from,
                self.costs,
                np.logical_and.reduce(ledger, axis=0),
                self.step_cost,
                random,
            )
            for j, learner in enumerate(self.learners):
                weak = learner.fit(task)
                if weak is None or not np.any(weak.outputs[task.learned_from]):
                    continue
                number, cost = r * len(self.learners) + j, self._cost(weak, rule, passing)
                candidates.append(Candidate(number, _where(passing, weak.outputs), cost, weak, rule, passing))
                if self.time_is_up():
                    return candidates
        return candidates

    def _cost(self, weak: Weak, rule: Rule | None, passing: NDArray[np.bool_] | None) -> float:
        """Mean over all rows of what those that pass have to pay: ``E[φ(x) τ_x(h)]``; the filter's columns are paid by all."""
        evaluation = weak.evaluation_cost + self.step_cost
        if len(self.bought) == 1:
            return evaluation + conditional_price(self.costs, weak.columns, self.bought[0])
        share = self.weight / self.weight.sum()
        groups, needed = self._needs(weak, rule, passing)
        unpaid = share @ (needed & ~self.bought[:, groups])
        working = 1.0 if passing is None else float(share @ passing)
        return float(evaluation * working + self.costs.costs.amounts(self.costs.prices[groups]) @ unpaid)

    def _needs(
        self, weak: Weak, rule: Rule | None, passing: NDArray[np.bool_] | None
    ) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
        """The groups that a step reads, and which row needs which of them: (n, g), or (1, g) where all rows do."""
        of_all, of_passing = (
            self.costs.closure(self.costs.groups_of(columns))
            for columns in (np.empty(0, dtype=np.intp) if rule is None else rule.columns(), weak.columns)
        )
        groups = np.flatnonzero(of_all | of_passing)
        works = np.ones((1, 1), dtype=bool) if passing is None else passing[:, None]
        return groups, of_all[groups] | (works & of_passing[groups])

    def take(self, candidate: Candidate) -> None:
        """Enter what the candidate uses into the ledger of the rows that it works on."""
        assert candidate.weak is not None
        groups, needed = self._needs(candidate.weak, candidate.rule, candidate.passing)
        self.bought[:, groups] |= needed
        self._n_taken, self._n_offered = self._n_taken + 1, 0


def _where(passing: NDArray[np.bool_] | None, outputs: Array) -> Array:
    return outputs if passing is None else np.where(passing[:, None], outputs, 0.0)


def reseeded(random: np.random.RandomState | None) -> Callable[..., np.random.RandomState]:
    """Random numbers that depend on a place alone, ``(step, attempt)``, so that a run can be taken up at any step."""
    seed = 0 if random is None else int(random.randint(2**31 - 1))
    return lambda *place: np.random.RandomState([seed, *place])
