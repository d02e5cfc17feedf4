"""The common part of pruned forests: from the nodes of a forest and held-out rows to prunings, and from these to a plan."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_consistent_length

from anytime._compat import HasMethods, Interval, StrOptions
from anytime.calibrated import holding_out
from anytime.costs import BoundCosts
from anytime.forests.nodes import (
    NodeStatistics,
    grown_from,
    keeps_errors,
    node_statistics,
    truth_of,
    usage,
    with_unseen,
)
from anytime.forests.pruning.gaps import fill_gap, spent_on_budget
from anytime.forests.pruning.new_rows import CostOnNewRows
from anytime.forests.pruning.paths import Answering, Marks, PruningPath, plan_of, spaced
from anytime.forests.pruning.problem import Pruning, PruningProblem, nested
from anytime.forests.pruning.refit import Lessons
from anytime.forests.pruning.solvers import BudgetPruner
from anytime.parameters import not_negative, shared, store
from anytime.plan import Array
from anytime.trees.clock import Clock
from anytime.trees.imported_models import ImportedModel, NothingToFit, Rows
from anytime.validation import warn_caller

if TYPE_CHECKING:
    import pandas as pd

_PATH = 40  # prunings that are best for some weight of cost, at most
_LEAP = 0.1  # of the cost of the whole forest: more than that between two of them is bridged
_PAYING = 2000  # rows that pay, at most: all that are held out, and training rows up to so many in all


@dataclass(frozen=True, eq=False)
class Usage:
    """How often rows use each group, before and after pruning.

    Attributes
    ----------
    groups : tuple of str
    before, after : (G, 3)
        Shares of the held-out rows that use each group never, 1 to 7 times and more often, over all nodes of all trees.
    """

    groups: tuple[str, ...]
    before: Array
    after: Array

    def __post_init__(self) -> None:
        for shares in (self.before, self.after):
            if np.shape(shares) != (len(self.groups), 3):
                raise ValueError(f"usage of {len(self.groups)} groups has shape {np.shape(shares)}")

    def to_frame(self) -> pd.DataFrame:
        """One row per group, six columns."""
        import pandas as pd

        names = pd.MultiIndex.from_product([["before", "after"], ["never", "1-7", "more"]])
        return pd.DataFrame(np.hstack([self.before, self.after]), index=list(self.groups), columns=names)


class PrunedForest(ImportedModel):
    """Base of the classifier and the regressor."""

    _spreads = "tasks"  # prunings for several prices, and folds
    pruner_: BudgetPruner | None
    pruning_: Pruning | None
    path_: PruningPath
    usage_: Usage | None
    refit_: bool
    gap_: float

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "estimator": [HasMethods(["fit", "get_params", "set_params"]), NothingToFit, None],
        "cost_penalty": [*shared("cost_penalty")["cost_penalty"], None],
        "tolerance": [not_negative, None],
        "method": [StrOptions({"auto", "min_cut", "primal_dual"})],
        "out_of_bag": [Interval(Real, 0, 1, closed="both")],
        "vote": [StrOptions({"mean", "majority"})],
        "refit": ["boolean", StrOptions({"auto"})],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        costs: Any = None,
        mean_budget: float | None = None,
        budget: float | None = None,
        cost_penalty: float | None = None,
        tolerance: float | None = None,
        method: str = "auto",
        vote: str = "mean",
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        out_of_bag: float = 0.632,
        refit: bool | Literal["auto"] = "auto",
        evaluation_cost: float = 0.0,
        max_stages: int = 12,
        meter: str = "realised",
        validation_fraction: float | None = 0.2,
        calibration: str | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        store(self, locals())

    @property
    def n_nodes_(self) -> int:
        """Nodes of all trees of the last stage, leaves included."""
        return int(self.path_.n_nodes[-1])

    @holding_out
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the forest on a part of the rows, and prune it on the others.

        If the fit fails, the model stays as it was.

        Parameters
        ----------
        X : (n, d)
        y : (n,)
        sample_weight : (n,), default=None
            Not negative; None: 1 each. Rows of weight 0 are ignored.
        """
        self._check_goal()
        return super().fit(X, y, sample_weight)

    def truncate(self, budget: float | None = None, *, mean_budget: float | None = None) -> Self:
        """A separate model within smaller bounds, without ``estimator_``, ``pruner_`` and ``pruning_``."""
        smaller = super().truncate(budget, mean_budget=mean_budget)
        smaller.pruner_ = smaller.pruning_ = None
        if smaller.plan_.n_stages < self.plan_.n_stages:
            smaller.path_, smaller.usage_, smaller.gap_ = (
                self.path_.head(smaller.plan_.n_stages),
                None,
                np.nan,
            )
        return smaller

    # ------------------------------------------------------------------ from a forest to a plan

    def _check_goal(self) -> None:
        goals = [
            name for name in ("mean_budget", "cost_penalty", "tolerance") if getattr(self, name) is not None
        ]
        if len(goals) > 1:
            raise ValueError(f"{' and '.join(goals)} each set how much is pruned: give only one of them")

    def _take_over(self, estimator: Any, costs: BoundCosts, learned: Rows, held: Rows | None) -> None:
        counting = self._counting(learned)
        statistics = node_statistics(estimator, *(() if keeps_errors(estimator) else counting))
        seen = grown_from(estimator)
        if seen is not None and len(seen[0]) != len(learned[1]):
            seen = None  # it held out some itself
        if self.out_of_bag and seen is not None:
            statistics = with_unseen(statistics, *counting, seen=seen, share=self.out_of_bag)
        elif self.out_of_bag and held is not None and self.tolerance is None:
            statistics = with_unseen(statistics, *self._counting(held), share=self.out_of_bag)
        self._prune(replace(statistics, seen=seen), costs, learned if held is None else held, learned)

    def _prune(self, statistics: NodeStatistics, costs: BoundCosts, held: Rows, learned: Rows | None) -> None:
        """Set all fitted attributes: prune on the rows ``held``, whose truth may be None, a forest grown from ``learned``."""
        self._check_kind(statistics)
        self.columns_, self.source_, self.ordering_ = statistics.columns, statistics.source, None
        if statistics.classes is not None:
            self.classes_ = statistics.classes
        rows, truth, weight, error_weight = self._held_rows(statistics, *held)
        if truth is None and self.tolerance is not None:
            raise ValueError("tolerance compares prunings on validation rows: pass y_val")
        paying, paying_weight = self._paying(rows, weight, None if learned is held else learned)
        problem = PruningProblem.of(
            statistics.trees,
            statistics.error,
            statistics.n_error,
            paying,
            costs,
            weight=paying_weight,
            evaluation_cost=self.evaluation_cost,
        )
        judging = replace(problem, leaf=problem.leaf[: len(rows)], weight=error_weight)
        clock = Clock(None, int(self.verbose))
        held_out_alone = held is not learned and len(paying) == len(rows)
        prunings, on_new_rows = self._prunings(problem, clock, cross_fit=held_out_alone)
        with suppress(KeyboardInterrupt):  # the search is over: there is nothing left for a callback to end
            clock.tell(f"{len(prunings)} prunings are judged on {len(rows)} rows")
        assert self.pruner_ is not None
        lessons = None if self.pruner_.interrupted else self._lessons(statistics, truth, held, learned)
        answering = self._answering(statistics, judging, prunings, truth, lessons)
        marks = answering.marks
        if self.tolerance is not None and marks is not None:
            best = int(np.argmin(marks.loss))
            least = marks.loss[best] + self.tolerance * marks.deviation[best]
            last = int(np.flatnonzero(marks.loss <= least)[0])
            prunings, marks = prunings[: last + 1], marks.head(last + 1)
        spent, error = prunings[-1].spent, prunings[-1].error
        with suppress(KeyboardInterrupt):
            clock.tell(f"kept: cost {spent:.6g}, error {error:.6g}", cost=spent, error=error)
        nothing_is_bought = problem.splits.any() and not prunings[-1].internal.any()
        if self.mean_budget is not None and nothing_is_bought and not self.pruner_.interrupted:
            _warn(
                f"no pruning costs as little as {self.mean_budget:g} on average: all rows get one answer; raise mean_budget"
            )
        self._keep(answering, problem, prunings, marks, on_new_rows, costs)

    def _lessons(
        self, statistics: NodeStatistics, truth: NDArray[Any] | None, held: Rows, learned: Rows | None
    ) -> Lessons | None:
        """What leaves can be refitted by; None where they are not to be, or nothing could decide whether they should be."""
        nothing_decides = self.refit == "auto" and (truth is None or held is learned)
        if self.refit is False or learned is None or nothing_decides:
            return None
        return Lessons.of(statistics, *self._counting(learned))

    def _answering(
        self,
        statistics: NodeStatistics,
        problem: PruningProblem,
        prunings: list[Pruning],
        truth: NDArray[Any] | None,
        lessons: Lessons | None,
    ) -> Answering:
        """What the nodes of prunings answer: as in their trees, or refitted, as ``refit`` or held-out rows say."""
        voting = self._voting(statistics)
        as_grown = Answering(voting, problem, None)
        refitted = (
            None if lessons is None or voting is not statistics else Answering(voting, problem, lessons)
        )
        try:
            for answering in (as_grown, refitted):
                if answering is not None and truth is not None:
                    answering.judge(prunings, truth)
        except KeyboardInterrupt:
            _warn("interrupted: the quality of the prunings may not be known, and leaves are not refitted")
            return as_grown
        if refitted is None or (self.refit == "auto" and not refitted.is_better_than(as_grown)):
            return as_grown
        return refitted

    def _counting(self, rows: Rows) -> Rows:
        """Rows with the weights by which they count in errors."""
        X, y, weight = rows
        return X, y, self._error_weight(y, weight)

    def _held_rows(
        self, statistics: NodeStatistics, X: Any, y: Any, weight: Array | None
    ) -> tuple[Array, NDArray[Any] | None, Array | None, Array | None]:
        """Held-out rows as the trees read them, their truth, their weights, and those in errors."""
        rows = self._matrix(X)
        self.columns_.check_finite(rows)
        truth = None if y is None else truth_of(statistics, y)
        error_weight = weight if y is None else self._error_weight(y, weight)
        if truth is not None:
            check_consistent_length(rows, truth)
        if weight is None or weight.all():
            return rows, truth, weight, error_weight
        present = np.flatnonzero(weight)
        truth = None if truth is None else truth[present]
        assert error_weight is not None
        return rows[present], truth, weight[present], error_weight[present]

    def _paying(self, rows: Array, weight: Array | None, learned: Rows | None) -> tuple[Array, Array | None]:
        """Rows whose mean cost pruning makes small: held-out ones first, then training rows, which pay about as much.

        Trees are grown to the end for training rows, so that these pay slightly more than new rows would; as all rows have a
        share in choosing prunings, they pay slightly less. Both are a percent or two.
        """
        n_more = max(_PAYING - len(rows), 0)
        if learned is None or not n_more:
            return rows, weight
        X, _, learned_weight = learned
        more = self._matrix(X)
        some = np.unique(np.linspace(0, len(more) - 1, min(n_more, len(more))).astype(int))
        if weight is not None or learned_weight is not None:
            weight = np.ones(len(rows)) if weight is None else weight
            added = np.ones(len(more)) if learned_weight is None else learned_weight
            weight = np.concatenate([weight, added[some]])
        return np.concatenate([rows, more[some]]), weight

    def _prunings(
        self, problem: PruningProblem, clock: Clock, *, cross_fit: bool
    ) -> tuple[list[Pruning], CostOnNewRows]:
        """Nested prunings from one that tests nothing to the one that was asked for, and what new rows pay for them."""
        whole, roots = _as_it_is(problem, problem.splits), _as_it_is(problem, np.zeros_like(problem.splits))
        self.pruner_ = BudgetPruner(problem, self.method, n_threads=self._threads(), tell=clock.tell)
        prunings = self._search(self.pruner_)
        path = _distinct(problem, [roots, *prunings, whole])
        on_new_rows = CostOnNewRows.equal(whole.spent)
        if cross_fit and not self.pruner_.interrupted:
            on_new_rows = self._on_new_rows(self.pruner_, path)
        if self.cost_penalty is not None:
            path = _distinct(problem, [roots, *(p for p in prunings if p.cost_penalty >= self.cost_penalty)])
        budget = np.inf if self.mean_budget is None else self.mean_budget
        if budget < whole.spent:
            path = self._within_budget(self.pruner_, roots, whole, on_new_rows.to_aim_at(budget))
        with suppress(KeyboardInterrupt):  # by a callback
            clock.tell(f"{len(path)} prunings are best at their cost; those between follow")
            if not self.pruner_.interrupted:
                path = _bridged(problem, path, _LEAP * whole.spent)
        return path, on_new_rows

    def _search(self, pruner: BudgetPruner) -> list[Pruning]:
        """Prunings that are best for some weight of cost, that of ``cost_penalty`` among them."""
        try:
            pruner.path(n=_PATH)
            if self.cost_penalty is not None and not pruner.interrupted:
                pruner.prune(self.cost_penalty)
        except KeyboardInterrupt:
            _warn("interrupted: the best of the prunings found so far")
            pruner.interrupted = True
        return pruner.prunings

    def _on_new_rows(self, pruner: BudgetPruner, path: list[Pruning]) -> CostOnNewRows:
        """What new rows pay; as much as those here where the user interrupts."""
        try:
            return CostOnNewRows.of(pruner.problem, path, method=pruner.method, n_threads=pruner.n_threads)
        except KeyboardInterrupt:
            _warn("interrupted: new rows may pay more than the mean budget")
            pruner.interrupted = True
            return CostOnNewRows.equal(path[-1].spent)

    def _within_budget(
        self, pruner: BudgetPruner, roots: Pruning, whole: Pruning, budget: float
    ) -> list[Pruning]:
        """The prunings of the path within the budget, and one that spends nearly all of it."""
        if not pruner.interrupted:
            pruner.to_budget(budget)
        path = _distinct(pruner.problem, [roots, *pruner.prunings, whole])
        try:
            within = spent_on_budget(pruner.problem, path, budget, n_threads=pruner.n_threads)
        except KeyboardInterrupt:
            _warn("interrupted: the budget may not be spent")
            pruner.interrupted = True
            return [pruning for pruning in path if pruning.spent <= budget]
        last = within[-1]
        # how good could any be at its weight of cost?
        if last.method == "between" and not pruner.interrupted:
            within[-1] = replace(last, bound=pruner.prune(last.cost_penalty).bound)
        return within

    def _voting(self, statistics: NodeStatistics) -> NodeStatistics:
        """The answers that nodes give."""
        return statistics

    def _keep(
        self,
        answering: Answering,
        problem: PruningProblem,
        prunings: list[Pruning],
        marks: Marks | None,
        on_new_rows: CostOnNewRows,
        costs: BoundCosts,
    ) -> None:
        spent = np.array([pruning.cost for pruning in prunings])
        expected = on_new_rows.of_new_rows(spent)
        stages = spaced(spent, self.max_stages)
        self.refit_ = answering.lessons is not None
        self.path_ = PruningPath(
            cost_penalty=np.array([pruning.cost_penalty for pruning in prunings]),
            cost=spent,
            expected_cost=expected,
            evaluation_cost=np.array([pruning.evaluation_cost for pruning in prunings]),
            error=np.array([pruning.error for pruning in prunings]),
            n_nodes=np.array([_n_nodes(problem, pruning) for pruning in prunings]),
            loss=None if marks is None else marks.loss,
            deviation=None if marks is None else marks.deviation,
            quality=None if marks is None else marks.quality,
            stages=stages,
        )
        self.pruning_ = prunings[-1]
        self.gap_ = self.pruning_.gap
        self.usage_ = Usage(costs.costs.names, usage(problem), usage(problem, self.pruning_.internal))
        self.plan_ = plan_of(
            answering,
            [prunings[s] for s in stages],
            costs,
            expected_costs=expected[stages],
            quality=None if marks is None else marks.quality[np.concatenate([[0], stages])],
        )

    # ------------------------------------------------------------------ files

    def _file_state(self) -> dict[str, Any]:
        return {
            **super()._file_state(),
            "path": self.path_.state(),
            "refit": self.refit_,
            "usage": None if self.usage_ is None else [self.usage_.before, self.usage_.after],
            "gap": None if np.isnan(self.gap_) else self.gap_,
        }

    def _restore_file_state(self, state: Mapping[str, Any]) -> None:
        super()._restore_file_state(state)
        self.pruner_ = self.pruning_ = None
        self.path_ = PruningPath(**state["path"])
        self.refit_ = bool(state["refit"])
        self.usage_ = None if state["usage"] is None else Usage(self.costs_.names, *state["usage"])
        self.gap_ = np.nan if state["gap"] is None else float(state["gap"])


def _distinct(problem: PruningProblem, prunings: list[Pruning]) -> list[Pruning]:
    """The same prunings nested, without those that are equal to the next."""
    path = nested(problem, prunings)
    return [
        pruning
        for pruning, larger in zip(path, [*path[1:], None], strict=True)
        if larger is None or (pruning.internal != larger.internal).any()
    ]


def _bridged(problem: PruningProblem, path: list[Pruning], leap: float) -> list[Pruning]:
    """Nested prunings with others in between where costs leap."""
    out = path[:1]
    try:
        for pruning in path[1:]:
            small = out[-1]
            if pruning.spent - small.spent > leap:
                out += [step for step in fill_gap(problem, small, pruning) if step.error < small.error]
            out.append(pruning)
    except KeyboardInterrupt:
        _warn("interrupted: there are fewer prunings than there might be")
        return path
    return out


def _warn(message: str) -> None:
    warn_caller(message)


def _as_it_is(problem: PruningProblem, internal: NDArray[np.bool_]) -> Pruning:
    """The whole forest, or its roots: the best pruning for no weight of cost, or for any that is large enough."""
    error, cost, evaluation_cost = problem.evaluate(internal)
    cost_penalty = 0.0 if internal.any() else np.inf
    return Pruning(internal, cost_penalty, error, cost, evaluation_cost, error, error)


def _n_nodes(problem: PruningProblem, pruning: Pruning) -> int:
    below = problem.parent[problem.parent >= 0]
    return problem.n_trees + int(pruning.internal[below].sum())
