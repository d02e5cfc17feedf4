"""What pruned forests share: from the nodes of a forest and held-out rows to prunings, and from these to a plan."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_consistent_length

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
from anytime.forests.pruning.baselines import cost_complexity, greedy_prune
from anytime.forests.pruning.gaps import fill_gap, spend
from anytime.forests.pruning.paths import Answers, PruningPath, judged, plan_of, spaced
from anytime.forests.pruning.problem import Pruning, PruningProblem, nested
from anytime.forests.pruning.refit import Lessons
from anytime.forests.pruning.solvers import BudgetPruner
from anytime.parameters import shared
from anytime.plan import Array
from anytime.trees.clock import Clock
from anytime.trees.models import ImportedModel, NothingToFit, Rows

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PrunedForest", "Usage"]

_BASELINES = ("cost_complexity", "greedy_prune")
_PATH = 40  # prunings that are best for some weight of cost, at most
_LEAP = 0.1  # of the cost of the whole forest: more than that between two of them is bridged


@dataclass(frozen=True, eq=False)
class Usage:
    """How often rows use each group, before and after pruning.

    Attributes
    ----------
    groups : tuple of str
    before, after : (G, 3)
        Shares of the held-out rows that use it never, 1 to 7 times and more often, over all nodes of all trees.
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
    """What classifier and regressor share."""

    pruner_: BudgetPruner | None
    pruning_: Pruning | None
    path_: PruningPath
    usage_: Usage | None
    gap_: float

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "estimator": [HasMethods(["fit", "get_params", "set_params"]), NothingToFit, None],
        "costs": "no_validation",  # FeatureCosts reads and checks them
        **shared("mean_budget", "budget", "meter"),
        "lam": [Interval(Real, 0, None, closed="left"), None],
        "tolerance": [Interval(Real, 0, None, closed="left"), None],
        "method": [StrOptions({"auto", "min_cut", "primal_dual", "lp", *_BASELINES})],
        "out_of_bag": [Interval(Real, 0, 1, closed="both")],
        "refit": ["boolean"],
        "computation": [Interval(Real, 0, None, closed="left")],
        "n_stages": [Interval(Integral, 1, None, closed="left")],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither"), None],
        "random_state": ["random_state"],
        "n_jobs": [
            Interval(Integral, None, -1, closed="right"),
            Interval(Integral, 1, None, closed="left"),
            None,
        ],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        costs: Any = None,
        mean_budget: float | None = None,
        budget: float | None = None,
        lam: float | None = None,
        tolerance: float | None = None,
        method: str = "auto",
        out_of_bag: float = 0.632,
        refit: bool = True,
        computation: float = 0.0,
        n_stages: int = 12,
        meter: str = "realised",
        validation_fraction: float | None = 0.2,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.estimator = estimator
        self.costs = costs
        self.mean_budget = mean_budget
        self.budget = budget
        self.lam = lam
        self.tolerance = tolerance
        self.method = method
        self.out_of_bag = out_of_bag
        self.refit = refit
        self.computation = computation
        self.n_stages = n_stages
        self.meter = meter
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @property
    def n_nodes_(self) -> int:
        """Nodes of all trees of the last stage, leaves included."""
        return int(self.path_.n_nodes[-1])

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the forest on a part of the rows, and prune it on the others.

        A fit that fails leaves the model as it was.

        Parameters
        ----------
        X : (n, d)
        y : (n,)
        sample_weight : (n,), default=None
            None is negative. A row of weight 0 is as good as absent.
        """
        self._check_goal()
        return super().fit(X, y, sample_weight)

    def truncate(self, budget: float | None = None, *, mean_budget: float | None = None) -> Self:
        """A model of its own within smaller bounds, without ``estimator_``, ``pruner_`` and ``pruning_``."""
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
        given = [name for name in ("mean_budget", "lam", "tolerance") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} each say how much is pruned: give one of them")

    def _take_over(self, estimator: Any, costs: BoundCosts, learned: Rows, held: Rows | None) -> None:
        statistics = node_statistics(estimator, *(() if keeps_errors(estimator) else learned))
        seen = grown_from(estimator)
        if seen is not None and len(seen[0]) != len(learned[1]):
            seen = None  # it held out some itself
        if self.out_of_bag and seen is not None:
            statistics = with_unseen(statistics, *learned, seen=seen, share=self.out_of_bag)
        elif self.out_of_bag and held is not None and self.tolerance is None:
            statistics = with_unseen(statistics, *held, share=self.out_of_bag)
        self._prune(replace(statistics, seen=seen), costs, learned if held is None else held, learned)

    def _prune(self, statistics: NodeStatistics, costs: BoundCosts, held: Rows, learned: Rows | None) -> None:
        """Set all fitted attributes: prune on the rows ``held``, whose truth may be None, a forest grown from ``learned``."""
        self._check_kind(statistics)
        self.columns_, self.source_, self.ordering_ = statistics.columns, statistics.source, None
        if statistics.classes is not None:
            self.classes_ = statistics.classes
        rows, truth, weight = self._paying(statistics, *held)
        problem = PruningProblem.of(
            statistics.trees,
            statistics.error,
            statistics.n_error,
            rows,
            costs,
            weight=weight,
            computation=self.computation,
        )
        if truth is None and self.tolerance is not None:
            raise ValueError("tolerance compares prunings on held-out rows: give y_val")
        clock = Clock(None, int(self.verbose))
        statistics, answers = self._answering(statistics, problem, learned)
        prunings = self._prunings(problem, clock)
        marks: tuple[Array, ...] | None = None
        if truth is not None:
            clock.tell(f"{len(prunings)} prunings are judged on {len(rows)} rows")
            try:
                marks = judged(statistics, problem, prunings, answers, truth)
            except KeyboardInterrupt:
                _warn("interrupted: the quality of the prunings is not known, and the largest is kept")
        if self.tolerance is not None and marks is not None:
            loss, deviation = marks[:2]
            best = int(np.argmin(loss))
            last = int(np.flatnonzero(loss <= loss[best] + self.tolerance * deviation[best])[0])
            prunings, marks = prunings[: last + 1], tuple(mark[: last + 1] for mark in marks)
        clock.tell(f"kept: cost {prunings[-1].spent:.6g}, error {prunings[-1].error:.6g}")
        if self.mean_budget is not None and problem.splits.any() and not prunings[-1].internal.any():
            _warn(
                f"no pruning costs as little as {self.mean_budget:g} on average: all rows get one answer; raise mean_budget"
            )
        self._keep(statistics, problem, prunings, answers, marks, costs)

    def _answering(
        self, statistics: NodeStatistics, problem: PruningProblem, learned: Rows | None
    ) -> tuple[NodeStatistics, Answers]:
        """The forest as it answers, and what the nodes of a pruning say; those of the whole forest what they always said."""
        voting = self._voting(statistics)
        lessons, value = None, voting.trees.value
        if self.refit and learned is not None and voting is statistics:
            lessons = Lessons.of(statistics, *learned)
        if lessons is None:
            return voting, lambda pruning: value
        if statistics.link == "probability":  # what is corrected may leave the range of chances
            voting = replace(statistics, link="least_squares")

        def answers(pruning: Pruning) -> Array:
            as_grown = not pruning.internal.any() or (pruning.internal == problem.splits).all()
            return value if as_grown else lessons.fitted(problem, value, pruning.internal)

        return voting, answers

    def _paying(
        self, statistics: NodeStatistics, X: Any, y: Any, weight: Array | None
    ) -> tuple[Array, NDArray[Any] | None, Array | None]:
        """Held-out rows as the trees read them, their truth and their weights."""
        rows = self._matrix(X)
        self.columns_.check_finite(rows)
        truth = None if y is None else truth_of(statistics, y)
        if truth is not None:
            check_consistent_length(rows, truth)
        if weight is None or weight.all():
            return rows, truth, weight
        present = np.flatnonzero(weight)
        return rows[present], None if truth is None else truth[present], weight[present]

    def _prunings(self, problem: PruningProblem, clock: Clock) -> list[Pruning]:
        """Nested prunings from one that tests nothing to the one that was asked for."""
        whole, roots = _as_it_is(problem, problem.splits), _as_it_is(problem, np.zeros_like(problem.splits))
        if self.method in _BASELINES:
            self.pruner_ = None
            return _distinct(problem, [roots, *self._compared(problem)])
        self.pruner_ = BudgetPruner(problem, self.method, n_threads=self._threads(), tell=clock.tell)  # type: ignore[arg-type]
        found = self._search(self.pruner_, whole)
        if self.lam is not None:
            path = _distinct(problem, [roots, *(pruning for pruning in found if pruning.lam >= self.lam)])
        else:
            path = _distinct(problem, [roots, *found, whole])
        if self.mean_budget is not None and self.mean_budget < whole.spent:
            path = self._within_budget(self.pruner_, path)
        clock.tell(f"{len(path)} prunings are best at their cost; those between follow")
        return _bridged(problem, path, _LEAP * whole.spent)

    def _search(self, pruner: BudgetPruner, whole: Pruning) -> list[Pruning]:
        """Prunings that are best for some weight of cost, those that were asked for among them."""
        try:
            pruner.path(n=_PATH)
            if self.lam is not None and not pruner.interrupted:
                pruner.prune(self.lam)
            if self.mean_budget is not None and self.mean_budget < whole.spent and not pruner.interrupted:
                pruner.to_budget(self.mean_budget)
        except KeyboardInterrupt:
            _warn("interrupted: the best of the prunings found so far")
            pruner.interrupted = True
        return pruner.found

    def _within_budget(self, pruner: BudgetPruner, path: list[Pruning]) -> list[Pruning]:
        """The prunings of a path within the budget, and one that spends nearly all of it."""
        budget, problem = self.mean_budget, pruner.problem
        assert budget is not None
        within = [pruning for pruning in path if pruning.spent <= budget]
        small, large = within[-1], path[len(within)]
        found = [small]
        try:
            found += [step for step in fill_gap(problem, small, large) if step.spent <= budget][-1:]
            for start in found.copy():
                found.append(spend(problem, start, large, budget, n_threads=pruner.n_threads))
        except KeyboardInterrupt:
            _warn("interrupted: the budget may not be spent")
        best = min(found, key=lambda pruning: pruning.error)
        if best is small:
            return within
        if not pruner.interrupted:  # how good could any be at its weight of cost?
            best = replace(best, bound=pruner.prune(best.lam).bound)
        return [*within, best]

    def _compared(self, problem: PruningProblem) -> list[Pruning]:
        """The prunings of a baseline, up to the one that was asked for."""
        if self.method == "cost_complexity":
            found = cost_complexity(problem, n_levels=_PATH)[::-1]
            at_level = [pruning for pruning in found if self.lam is None or pruning.lam >= self.lam]
        else:
            at_level = found = greedy_prune(problem, 0.0 if self.lam is None else self.lam)[::-1]
            if self.lam is not None:
                at_level = found[: 1 + int(np.argmin([pruning.value for pruning in found]))]
        if self.mean_budget is not None:
            at_level = [pruning for pruning in at_level if pruning.spent <= self.mean_budget]
        return at_level or found[:1]

    def _voting(self, statistics: NodeStatistics) -> NodeStatistics:
        """The answers that nodes give."""
        return statistics

    def _keep(
        self,
        statistics: NodeStatistics,
        problem: PruningProblem,
        prunings: list[Pruning],
        answers: Answers,
        marks: tuple[Array, ...] | None,
        costs: BoundCosts,
    ) -> None:
        spent = np.array([pruning.cost for pruning in prunings])
        stages = spaced(spent, self.n_stages)
        loss, deviation, quality = (None, None, None) if marks is None else marks
        self.path_ = PruningPath(
            lam=np.array([pruning.lam for pruning in prunings]),
            cost=spent,
            computation=np.array([pruning.computation for pruning in prunings]),
            error=np.array([pruning.error for pruning in prunings]),
            n_nodes=np.array([_n_nodes(problem, pruning) for pruning in prunings]),
            loss=loss,
            deviation=deviation,
            quality=quality,
            stages=stages,
        )
        self.pruning_ = prunings[-1]
        self.gap_ = self.pruning_.gap
        self.usage_ = Usage(costs.costs.names, usage(problem), usage(problem, self.pruning_.internal))
        self.plan_ = plan_of(
            statistics,
            [prunings[s] for s in stages],
            answers,
            costs,
            None if quality is None else quality[np.concatenate([[0], stages])],
        )

    # ------------------------------------------------------------------ files

    def _file_state(self) -> dict[str, Any]:
        return {
            **super()._file_state(),
            "path": self.path_.state(),
            "usage": None if self.usage_ is None else [self.usage_.before, self.usage_.after],
            "gap": None if np.isnan(self.gap_) else self.gap_,
        }

    def _restore_file_state(self, state: Mapping[str, Any]) -> None:
        super()._restore_file_state(state)
        self.pruner_ = self.pruning_ = None
        self.path_ = PruningPath(**state["path"])
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
    warnings.warn(message, stacklevel=3)


def _as_it_is(problem: PruningProblem, internal: NDArray[np.bool_]) -> Pruning:
    """The whole forest, or its roots: the best pruning for no weight of cost, or for any that is large enough."""
    error, cost, computation = problem.evaluate(internal)
    lam = 0.0 if internal.any() else np.inf
    return Pruning(internal, lam, error, cost, computation, error, error)


def _n_nodes(problem: PruningProblem, pruning: Pruning) -> int:
    below = problem.parent[problem.parent >= 0]
    return problem.n_trees + int(pruning.internal[below].sum())
