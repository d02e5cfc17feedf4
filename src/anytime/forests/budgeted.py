"""The common part of trees and forests grown for a budget: reading the data, choosing a setting, building the plan."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import isqrt
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length

from anytime._compat import Interval, StrOptions
from anytime.calibrated import holding_out
from anytime.costs import UNLIMITED, BoundCosts
from anytime.engine import Run
from anytime.forests.choosing import Attempt, Setting, SettingTrial, choose, softened
from anytime.forests.growing import ClassTree, ClassTreeGrower
from anytime.forests.impurity import CustomImpurity, Impurity, read_impurity
from anytime.forests.sequence import levels_within, order_trees, sequence_plan
from anytime.forests.within_budget import Growth, JudgingRows, Rival, Visited, grow_within
from anytime.parameters import not_negative, positive_integer, store
from anytime.plan import Array, Plan
from anytime.trees.binning import BinnedData
from anytime.trees.clock import Clock
from anytime.trees.reading import ColumnModel
from anytime.trees.rows import checked_weights, split_rows
from anytime.validation import check_columns, warn_caller

__all__ = ["BudgetModel", "GrowingTask"]

_PROBE_ROWS = 2000  # grown from first where time is limited, to see how long a tree takes
_FIRST_TREE = 0.3  # share of the time that the first tree may take
_ORDERING = 0.05  # and that putting trees into their order may take

# Any split into halves takes three quarters of the pairs away, a perfect one all: small differences in price decide already.
_WEIGHTINGS = (1.0, 0.2, 0.1, 0.05, 0.0)


def _refuse_missing(name: str, y: Any) -> None:
    """Of any kind that objects may hold: None, NaN, pandas.NA."""
    if getattr(getattr(y, "dtype", None), "kind", None) != "O":
        return
    import pandas as pd

    absent = np.flatnonzero(pd.isna(y))
    if absent.size:
        raise ValueError(f"{name} is missing in {absent.size} rows, first in row {absent[0]}")


@dataclass(frozen=True, eq=False)
class GrowingTask:
    """Everything that growing needs to know of the data."""

    data: BinnedData  # rows to learn from
    y: NDArray[Any]  # (n,)
    weight: Array | None  # (n,)
    bench: JudgingRows
    base: Array  # (K,): the answer that costs nothing
    budget: float  # what rows may pay on average, in ticks
    seed: int
    random: np.random.RandomState  # before anything was drawn: the same rows are held out again
    clock: Clock
    # (m,): rows of ``data`` that trees are grown from, where time does not allow for all
    rows: NDArray[np.intp] | None = None
    notes: list[str] = field(default_factory=list)  # what the user is warned of in the end


@dataclass(frozen=True, eq=False)
class Grown:
    """The state from which a further fit continues."""

    task: GrowingTask
    grower: ClassTreeGrower
    setting: Setting
    trees: tuple[ClassTree, ...]  # as grown, that which broke the budget among them

    @classmethod
    def of(cls, attempt: Attempt, task: GrowingTask) -> Grown:
        """The trees of the setting that was chosen."""
        growth = attempt.growth
        visited = growth.trees if growth.dropped is None else (*growth.trees, growth.dropped)
        return cls(task, attempt.grower, attempt.trial.setting, tuple(v.tree for v in visited))

    def check(self, task: GrowingTask, grower: ClassTreeGrower) -> None:
        """Make sure that further trees are grown on the same rows in the same way."""
        earlier = self.task
        same = (
            replace(grower, n_threads=1) == replace(self.grower, n_threads=1)
            and task.bench.costs.costs == earlier.bench.costs.costs
            and np.array_equal(task.y, earlier.y)
            and _same(task.weight, earlier.weight)
            and np.array_equal(task.data.bins(), earlier.data.bins())
            and np.array_equal(task.bench.X, earlier.bench.X, equal_nan=True)
            and _same(task.bench.target, earlier.bench.target)
        )
        if not same:
            raise ValueError(
                "warm_start=True continues on the same rows, targets, weights, prices and rules; set it to False to start over"
            )

    def __reduce__(self) -> Any:
        return type(None), ()  # a pickle does not hold it: it is as large as the training rows


def _times(weight: Array | None, factors: Array | None, target: NDArray[Any] | None) -> Array | None:
    """Weights of rows times those of their classes; None: all are 1."""
    if factors is None or target is None:
        return weight
    return np.asarray(factors[target] if weight is None else weight * factors[target])


def _same(a: NDArray[Any] | None, b: NDArray[Any] | None) -> bool:
    return a is b if a is None or b is None else np.array_equal(a, b)


class BudgetModel(ColumnModel):
    """The common part of all four estimators."""

    _spreads = "tasks"  # trees side by side

    impurity: Any
    setting_: Setting
    trees_: list[ClassTree]
    trials_: list[SettingTrial]

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "split": [StrOptions({"minimax", "expected"})],
        "tests": [StrOptions({"stumps", "multiway"})],
        "search": [StrOptions({"exhaustive", "random"})],
        "max_features": [
            positive_integer,
            Interval(Real, 0, 1, closed="right"),
            StrOptions({"sqrt", "log2"}),
            None,
        ],
        "min_impurity": [not_negative],
        "discount_reused": ["boolean"],
        "cost_weighted": ["boolean", Interval(Real, 0, 1, closed="both"), StrOptions({"auto"})],
    }
    # what a single tree is; forests have parameters of these names
    n_estimators: int = 1
    bootstrap: bool = False
    warm_start: bool = False
    vote: Literal["probability", "majority", "counts"] = "probability"

    def __init__(
        self,
        *,
        costs: Any = None,
        mean_budget: float | None = None,
        budget: float | None = None,
        n_estimators: int = 100,
        impurity: str | Impurity = "pairs",
        alpha: float | Literal["auto"] = "auto",
        alphas: Sequence[float] = (0, 2, 4, 8, 15, 30, 60, 120),
        split: Literal["minimax", "expected"] = "minimax",
        tests: Literal["stumps", "multiway"] = "stumps",
        search: Literal["exhaustive", "random"] = "random",
        max_features: int | float | str | None = None,
        max_depth: int | None = None,
        min_samples_leaf: int | Literal["auto"] = 1,
        leaf_sizes: Sequence[int] = (1, 5, 15, 50),
        min_impurity: float = 0.0,
        discount_reused: bool = False,
        bootstrap: bool = True,
        cost_weighted: bool | float | Literal["auto"] = "auto",
        vote: Literal["probability", "majority", "counts"] = "probability",
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        validation_fraction: float | None = 0.2,
        max_bins: int = 255,
        categorical_features: Any = "from_dtype",
        time_budget: float | None = None,
        meter: str = "realised",
        warm_start: bool = False,
        calibration: str | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int | bool = 0,
    ) -> None:
        store(self, locals())

    @holding_out
    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, *, X_val: Any = None, y_val: Any = None
    ) -> Self:
        """Grow for the budget. If the fit fails, the model stays as it was.

        Parameters
        ----------
        X : (n, d)
            Numbers, with NaN for missing values; columns of a table may be categories.
        y : (n,)
        sample_weight : (n,), default=None
            Rows of weight 0 are ignored.
        X_val, y_val : (m, d) and (m,), default=None
            Rows on which costs and quality are measured. None: a share of ``X``, see ``validation_fraction``.
        """
        self._validate_params()
        trained = copy.copy(self)
        notes = trained._train(X, y, sample_weight, X_val, y_val)
        self.__dict__ = trained.__dict__
        for note in notes:
            warn_caller(note)
        return self

    @property
    def expected_cost_(self) -> float:
        """Mean cost of validation rows for the whole model."""
        costs = self._plan.expected_costs
        return float(costs[-1]) if costs is not None and costs.size else 0.0

    def truncate(self, budget: float | None = None, *, mean_budget: float | None = None) -> Self:
        """A separate model within smaller bounds, without ``trees_``."""
        smaller = super().truncate(budget, mean_budget=mean_budget)
        for name in ("trees_", "_grown"):
            smaller.__dict__.pop(name, None)
        return smaller

    def _file_state(self) -> dict[str, Any]:
        impurity = self.impurity
        written = None
        if isinstance(impurity, Impurity):  # a name is a parameter like others
            written = ("custom", None) if isinstance(impurity, CustomImpurity) else impurity.native()
        return {**super()._file_state(), "setting": asdict(self.setting_), "impurity": written}

    def _restore_file_state(self, state: Mapping[str, Any]) -> None:
        super()._restore_file_state(state)
        read = state["setting"]
        self.setting_ = Setting(
            None if read["size"] is None else float(read["size"]), float(read["weighting"])
        )
        if self.impurity is not None:
            return
        name, parameter = state.get("impurity") or ("custom", None)  # older files do not have it
        if name != "custom":
            self.impurity = read_impurity(name, parameter)
            return
        self.impurity = "pairs"
        warn_caller(
            "files cannot hold a custom impurity function: predictions are unchanged, but another fit would use 'pairs'",
        )

    # ------------------------------------------------------------------ from data to a plan

    def _train(self, X: Any, y: Any, sample_weight: ArrayLike | None, X_val: Any, y_val: Any) -> list[str]:
        clock = Clock(self.time_budget, int(self.verbose))
        sizes = self._listed_sizes()
        grown: Grown | None = self.__dict__.pop("_grown", None)
        if not self.warm_start:
            grown = None
        task = self._task(X, y, sample_weight, X_val, y_val, clock, grown)
        sizes = sizes if task.bench.target is not None else sizes[:1]  # nothing judges them
        weightings = self._weightings(task)
        if grown is not None:
            grown.check(task, self._grower(grown.setting.size, task))
            task = replace(task, rows=grown.task.rows)
            sizes, weightings = [grown.setting.size], [grown.setting.weighting]
        elif self.warm_start and "setting_" in self.__dict__:  # read from a file: its trees are grown again
            sizes, weightings = [self.setting_.size], [self.setting_.weighting]
        if task.rows is None and self.time_budget is not None:
            task = self._within_time(task, self._grower(sizes[0], task))
        best, self.trials_ = choose(
            sizes,
            weightings,
            lambda setting, seconds, rival: self._try(setting, seconds, rival, task, grown),
            clock,
            task.notes,
        )
        self.setting_ = best.trial.setting
        n_trees = len(best.growth.trees)
        growing = best.growth.dropped is None and not best.growth.interrupted
        if self.time_budget is not None and growing and n_trees < self.n_estimators:
            task.notes.append(
                f"time_budget={self.time_budget:g} is over: {n_trees} of {self.n_estimators} trees are grown"
            )
        if self.warm_start:
            self._grown = Grown.of(best, task)
        self._finish(best, task)
        return task.notes

    def _within_time(self, task: GrowingTask, grower: ClassTreeGrower) -> GrowingTask:
        """The task with as many rows as one tree can be grown from in time."""
        n, y = task.data.n_rows, task.y
        n_classes = None if grower.impurity.regression else task.base.size
        if n <= 2 * _PROBE_ROWS:
            return task
        order = np.random.default_rng(task.seed).permutation(n)
        began = time.monotonic()
        grower.grow(
            task.data, y, task.weight, n_classes=n_classes, rows=order[:_PROBE_ROWS], costs=task.bench.costs
        )
        seconds = (time.monotonic() - began) * n / _PROBE_ROWS * np.log(n) / np.log(_PROBE_ROWS)
        left = task.clock.seconds - task.clock.elapsed
        n_rows = max(int(n * _FIRST_TREE * left / seconds), _PROBE_ROWS)
        if n_rows >= n:
            return task
        task.notes.append(
            f"time_budget={self.time_budget:g} allows trees of {n_rows} of the {n} training rows"
        )
        return replace(task, rows=np.sort(order[:n_rows]))

    def _try(
        self, setting: Setting, seconds: float, rival: Rival | None, task: GrowingTask, earlier: Grown | None
    ) -> Attempt:
        """Grow with one setting; where no whole tree is within the budget, make do with levels of the first."""
        grower = self._grower(setting.size, task)
        growth = grow_within(
            task.budget,
            self._growing(grower, setting.weighting, task, () if earlier is None else earlier.trees),
            task.bench,
            n_estimators=self.n_estimators,
            clock=task.clock,
            seconds=seconds,
            rival=rival,
        )
        try:
            trial, plan = self._judge(setting, growth, task)
        except KeyboardInterrupt:  # what was grown shall not be lost; a second one ends it all
            growth = replace(growth, interrupted=True)
            trial, plan = self._judge(setting, growth, task)
        if growth.interrupted:
            task.notes.append(f"interrupted: {len(growth.trees)} of {self.n_estimators} trees are grown")
        return Attempt(trial, grower, growth, plan)

    def _judge(self, setting: Setting, growth: Growth, task: GrowingTask) -> tuple[SettingTrial, Plan | None]:
        bench, plan = task.bench, None
        if growth.trees:
            cost, scores = growth.cost * bench.costs.costs.amount(1), growth.scores
        else:
            plan = levels_within(growth.first, bench, task.base, task.budget)
            assert plan.expected_costs is not None
            cost = float(plan.expected_costs[-1]) if plan.n_stages else 0.0
            run = Run(plan, bench.X)
            run.advance()
            scores = run.scores()
        error, loss, spread = bench.error(scores), bench.loss(scores), bench.spread(scores)
        return SettingTrial(setting, len(growth.trees), cost, error, loss, spread), plan

    def _growing(
        self, grower: ClassTreeGrower, weighting: float, task: GrowingTask, earlier_trees: Sequence[ClassTree]
    ) -> Callable[[int, int], list[ClassTree]]:
        """What gives the trees with some numbers: those known already, then new ones."""
        prices = softened(task.bench.costs, weighting)

        def grow(first: int, n: int) -> list[ClassTree]:
            trees = list(earlier_trees[first : first + n])
            if len(trees) < n:
                trees += grower.grow_forest(
                    task.data,
                    task.y,
                    task.weight,
                    n_classes=None if grower.impurity.regression else task.base.size,
                    n_trees=n - len(trees),
                    first_tree=first + len(trees),
                    bootstrap=self.bootstrap,
                    rows=task.rows,
                    costs=prices,
                    random_state=task.seed,
                )
            return trees

        return grow

    def _finish(self, attempt: Attempt, task: GrowingTask) -> None:
        """Put the chosen trees into their order and make the plan."""
        if attempt.plan is None:
            trees: Sequence[Visited] = attempt.growth.trees
            try:
                if task.bench.target is not None and len(trees) > 1:
                    task.clock.tell("putting trees into their order")
                    order = order_trees(trees, task.bench, task.base, seconds=_ORDERING * task.clock.seconds)
                    trees = [trees[t] for t in order]
                self.plan_ = sequence_plan(trees, task.bench, task.base)
            except KeyboardInterrupt:
                task.notes.append("interrupted: trees stand in the order in which they were grown")
                trees = attempt.growth.trees
                self.plan_ = sequence_plan(trees, task.bench, task.base)
            self.trees_ = [visited.tree for visited in trees]
            return
        self.plan_, self.trees_ = attempt.plan, []
        costs = task.bench.costs.costs
        kept = (
            f"the model is the part of it that costs {self.expected_cost_:.6g}"
            if self.plan_.n_stages
            else "and so is its first test, so that the model gives everyone the same answer"
        )
        task.notes.append(
            f"the first tree costs {attempt.growth.dropped_cost * costs.amount(1):.6g} {costs.unit or 'units'} on average, "
            f"beyond the mean_budget of {self.mean_budget:.6g}; {kept}"
        )

    # ------------------------------------------------------------------ settings

    def _listed_sizes(self) -> list[float | None]:
        """What makes trees shallow, to be tried."""
        raise NotImplementedError

    def _weightings(self, task: GrowingTask) -> list[float]:
        """How much prices may count; where all columns cost the same, it does not matter how much."""
        if not isinstance(self.cost_weighted, str):
            return [float(self.cost_weighted)]
        costs = task.bench.costs
        prices = [costs.prices @ costs.closure(np.array([g], dtype=np.int32)) for g in costs.column_group]
        return list(_WEIGHTINGS) if task.bench.target is not None and len(set(prices)) > 1 else [1.0]

    def _impurity(self, size: float | None) -> Impurity:
        raise NotImplementedError

    def _leaf_rows(self, size: float | None) -> int:
        raise NotImplementedError

    def _grower(self, size: float | None, task: GrowingTask) -> ClassTreeGrower:
        return ClassTreeGrower(
            self._impurity(size),
            split=self.split,
            tests=self.tests,
            search=self.search,
            max_features=self._n_features(task.data.n_features),
            max_depth=self.max_depth,
            min_samples_leaf=self._leaf_rows(size),
            min_impurity=self.min_impurity,
            discount_reused=self.discount_reused,
            n_threads=self._threads(),
        )

    def _n_features(self, d: int) -> int | None:
        most = self.max_features
        if most is None or isinstance(most, Integral):
            return None if most is None else min(int(most), d)
        if isinstance(most, str):
            return max(1, isqrt(d) if most == "sqrt" else int(np.log2(d)))
        return max(1, int(most * d))

    # ------------------------------------------------------------------ reading the data

    def _task(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        X_val: Any,
        y_val: Any,
        clock: Clock,
        earlier: Grown | None,
    ) -> GrowingTask:
        if (X_val is None) != (y_val is None):
            raise ValueError("give X_val and y_val together: validation rows and their labels")
        _refuse_missing("y", y)
        _refuse_missing("y_val", y_val)
        X, y = self._read_rows(X, y)
        target = self._targets(y)
        check_consistent_length(X, target)
        weight = None if sample_weight is None else checked_weights(sample_weight, X)
        if weight is not None and not weight.all():
            present = np.flatnonzero(weight)
            X, target, weight = X[present], target[present], weight[present]
        self._check_present(target)
        costs = self._bound_costs()
        random = (
            check_random_state(self.random_state) if earlier is None else copy.deepcopy(earlier.task.random)
        )
        before = copy.deepcopy(random)
        train, held = split_rows(
            X, self._strata(target), self.validation_fraction if X_val is None else None, random
        )
        if held.size < 2:  # nothing can be decided on so few
            train, held = np.arange(len(X)), held[:0]
        factors = self._class_factors(target)
        if X_val is not None:
            rows, truth = self._read_validation(X_val, y_val)
            bench = self._bench(rows, truth, None, costs, factors)
        elif held.size:
            held_weight = None if weight is None else weight[held]
            bench = self._bench(X[held], target[held], held_weight, costs, factors)
        else:
            bench = self._bench(X, None, weight, costs, None)
        weight = _times(None if weight is None else weight[train], factors, target[train])
        return GrowingTask(
            data=BinnedData.fit(
                X[train],
                max_bins=self.max_bins,
                categorical=sorted(self.columns_.categories),
                n_threads=self._threads(),
            ),
            y=target[train],
            weight=weight,
            bench=bench,
            base=self._base(target[train], weight),
            budget=float(
                UNLIMITED if self.mean_budget is None else costs.costs.budget_ticks(self.mean_budget)
            ),
            seed=int(random.randint(np.iinfo(np.int32).max)),
            random=before,
            clock=clock,
        )

    def _bench(
        self,
        X: Array,
        target: NDArray[Any] | None,
        weight: Array | None,
        costs: BoundCosts,
        factors: Array | None,
    ) -> JudgingRows:
        error_weight = _times(weight, factors, target)
        return JudgingRows(X, target, weight, costs, self._link, self.vote, error_weight)

    def _class_factors(self, target: NDArray[Any]) -> Array | None:
        """(C,) by how much rows of each class count more in learning and in errors; None: all the same."""
        return None

    def _read_validation(self, X: Any, y: Any) -> tuple[Array, NDArray[Any]]:
        check_columns(self, X, reset=False)
        numbers = self._matrix(X)
        target = self._targets(y, of_validation=True)
        check_consistent_length(numbers, target)
        return numbers, target

    @property
    def _link(self) -> str:
        raise NotImplementedError

    def _targets(self, y: Any, of_validation: bool = False) -> NDArray[Any]:
        """Numbers of classes, or numbers; ``of_validation``: of validation rows, whose classes training rows must have."""
        raise NotImplementedError

    def _check_present(self, target: NDArray[Any]) -> None:
        """Refuse targets that cannot be learned."""

    def _strata(self, target: NDArray[Any]) -> NDArray[np.intp]:
        raise NotImplementedError

    def _base(self, target: NDArray[Any], weight: Array | None) -> Array:
        raise NotImplementedError
