"""The scikit-learn face that all models share: ``predict`` under a budget or a deadline, every prefix, cost, truncation, files.

A learner inherits from ``AnytimeModel`` and one of the two mixins, and sets ``plan_`` (and ``classes_``) in ``fit``. All else
is here.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils.validation import check_is_fitted

from anytime.advice import (
    NextPurchase,
    Offer,
    PurchasePath,
    chain_offers,
    owned_groups,
    usable_groups,
)
from anytime.answer import Answer
from anytime.calibrated import Intervals, LabelSets
from anytime.costs import UNLIMITED, BoundCosts, FeatureCosts
from anytime.engine import Run, Stop
from anytime.forest_run import ForestRun, answered_stages, probabilities_of, start
from anytime.losses import LINKS, least_cost
from anytime.one_row import OneRow
from anytime.parameters import check_names
from anytime.plan import Array, Choice, Plan
from anytime.rows import Rows, is_named, read_table, reader_of, warn_of_absent, warn_of_mistakes
from anytime.validation import is_amount, validated

if TYPE_CHECKING:
    from sklearn.utils import Tags

__all__ = ["AnytimeModel", "ClassifierFace", "RegressorFace", "ValueFace"]

Budget = float | ArrayLike | None
Amount = float | None
METERS = ("model", "realised")  # by which a budget can be counted
_REASONS = ("stop", "deadline", "groups", "budget", "complete")  # why answers of several parts end: the first

_FLOAT, _FLOAT_MAX = np.dtype(np.float64), float(np.finfo(np.float64).max)


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


class AnytimeModel(BaseEstimator):  # type: ignore[misc]
    """What every fitted model can do. Not used by itself.

    A subclass stores at least the constructor parameters ``costs``, ``budget``, ``meter`` and ``n_jobs``:

    costs : FeatureCosts, mapping, table, path or sequence, default=None
        What columns cost. None: 1 per column.
    budget : float, default=None
        The most that any row may pay in a prediction that names no bound. None: no limit.
    meter : {"model", "realised"}, default="model"
        How a budget is counted: by what each row really pays, or by the most that a stage can cost. "model": all rows stop
        after the same stage. "realised": a row with a cheap path goes further. Either way no row pays more than the budget.
    n_jobs : int, default=None
        Threads for prediction; None means 1, -1 all cores. The result does not depend on it. Runs that keep a ledger
        (realised budgets, ``answer``, ``stages``, ``cost``) use one.

    A family that is trained for a mean over rows also has ``mean_budget``: what rows may pay on average in a prediction that
    names no bound.
    """

    plan_: Plan
    costs: Any
    budget: float | None
    mean_budget: float | None = None  # a constructor parameter of families that are trained for a mean
    meter: str
    n_jobs: int | None

    def __new__(cls, *wrapped: Any, **parameters: Any) -> Self:
        """Refuse unknown parameters with a hint, before the constructor's own error that has none."""
        check_names(cls, parameters)
        model: Self = super().__new__(cls)
        return model

    # ------------------------------------------------------------------ fitted attributes

    @property
    def costs_(self) -> FeatureCosts:
        """The prices of the fitted plan."""
        return self._plan.costs.costs

    @property
    def stage_costs_(self) -> Array:
        """(S,) cumulative model cost after each stage."""
        return self._plan.stage_costs

    @property
    def order_(self) -> list[str]:
        """Groups in the order in which they are first bought."""
        return self._plan.order

    @property
    def n_stages_(self) -> int:
        """Number of stages."""
        return self._plan.n_stages

    @property
    def _plan(self) -> Plan:
        try:
            return self.plan_
        except AttributeError:
            # hasattr(model, "order_") has to be False before fit
            raise AttributeError(f"this {type(self).__name__} is not fitted yet; call fit first") from None

    # ------------------------------------------------------------------ answers

    def answer(
        self,
        X: ArrayLike,
        budget: Budget = None,
        deadline: float | None = None,
        *,
        mean_budget: float | None = None,
        stop: Stop | None = None,
    ) -> Answer:
        """The best answer within the bounds, with all that is known about it.

        A call that names neither ``budget`` nor ``mean_budget`` has those of the constructor. A call that names one has only that
        one; where both are named, both hold.

        Parameters
        ----------
        X : (n, d)
            A table may have its columns in any order, and need not have all: see ``anytime.rows``.
        budget : float or (n,) float, default=None
            The most that any row, or each of them, may pay. ``meter`` says how it is counted. A branch of the plan may answer a
            budget, which is known in advance; with a deadline or a stop flag, or counted by ``meter="realised"``, rows keep to
            the chain.
        deadline : float, default=None
            Seconds from now, for the whole batch.
        mean_budget : float, default=None
            What rows may pay on average, as measured on validation rows in training or, in a model that has not measured it, at
            most. Where the plan has a table of stops, sure rows leave early and others go further; else all go on to the
            last stage whose mean cost fits.
        stop : StopFlag, threading.Event or similar, default=None
            Set from another thread to interrupt.

        Returns
        -------
        Answer
        """
        began = time.monotonic()
        due = self._due(began, deadline)
        rows = self._read_in(X)
        parts = self._parts_by_branch(rows, budget, mean_budget, due, stop)
        runs = [self._run_plan(part, money, mean_budget, due, stop, metered=True) for _, part, money in parts]
        answers = [
            self._read(run, began, reason=self._reason(run, stop)) for run in runs if isinstance(run, Run)
        ]
        if len(answers) == 1:
            return answers[0]
        reason = min((answer.reason for answer in answers), key=_REASONS.index)
        joined = Answer.joined(answers, elapsed=time.monotonic() - began, reason=reason)
        return joined.rows(np.argsort(np.concatenate([which for which, _, _ in parts])))

    def stages(self, X: ArrayLike) -> Iterator[Answer]:
        """Every prefix: the answer before the first stage, then one after each stage."""
        rows = self._read_in(X)
        began = time.monotonic()
        run = Run(self.plan_, rows.X, metered=True, held=rows.held)
        yield self._read(run, began, 0)
        for stage in range(1, self.plan_.n_stages + 1):
            run.advance(stage)
            yield self._read(run, began, stage)
        if run.incomplete.any():
            warn_of_absent(rows)

    def cost(
        self,
        X: ArrayLike,
        budget: Budget = None,
        deadline: float | None = None,
        *,
        mean_budget: float | None = None,
        meter: str = "realised",
        row_prices: ArrayLike | None = None,
    ) -> Array:
        """What each answer costs, (n,).

        Parameters
        ----------
        X : (n, d)
        budget, deadline, mean_budget
            As in ``answer``.
        meter : {"realised", "model", "time"}, default="realised"
            "realised": what each row pays. "model": the cost, fixed at training, of the stages it goes through. "time": measured
            seconds of computation, the batch's time shared equally by its rows.
        row_prices : (n, G), default=None
            Prices that differ from row to row, one column per group in the order of ``costs_.names``. They change
            the bill, not the choice of stages.
        """
        if meter not in ("realised", "model", "time"):
            raise ValueError(f"meter must be 'realised', 'model' or 'time', not {meter!r}")
        due = self._due(time.monotonic(), deadline)
        rows = self._read_in(X)
        n = len(rows.X)
        prices = None if row_prices is None else self._row_prices(row_prices, n)
        began = time.perf_counter()
        costs = np.empty(n)
        for which, part, money in self._parts_by_branch(rows, budget, mean_budget, due):
            run = self._run_plan(part, money, mean_budget, due, metered=meter != "time")
            if meter == "time":
                continue
            assert isinstance(run, Run)
            assert run.ledger is not None
            if meter == "model":
                costs[which] = run.plan.prefix_costs[run.answered]
            elif prices is None:
                costs[which] = self.costs_.amounts(run.ledger.paid)
            else:
                bought = run.ledger.bought
                features = (bought @ self.plan_.costs.prices).astype(np.int64)
                evaluation = self.costs_.amounts(run.ledger.paid - features)
                costs[which] = np.where(bought, prices[which], 0.0).sum(axis=1) + evaluation
        return np.full(n, (time.perf_counter() - began) / max(n, 1)) if meter == "time" else costs

    def _row_prices(self, given: ArrayLike, n: int) -> Array:
        prices = np.asarray(given, dtype=np.float64)
        if prices.shape != (n, self.plan_.costs.n_groups):
            raise ValueError(
                f"row_prices has shape {prices.shape}, but needs ({n}, {self.plan_.costs.n_groups})"
            )
        if (prices < 0).any():
            raise ValueError("row_prices must not be negative")
        return prices

    def truncate(self, budget: float | None = None, *, mean_budget: float | None = None) -> Self:
        """A model of its own that never spends more than ``budget`` on a row, or ``mean_budget`` on average.

        Stages beyond the bounds are dropped; a budget that is counted by what each row really pays is kept as a cap instead.
        Where rows leave early for the mean, they do so in every answer of the smaller model.
        """
        check_is_fitted(self, "plan_")
        if (budget is None and mean_budget is None) or np.ndim(0 if budget is None else budget):
            raise ValueError("truncate needs a budget or a mean_budget, a number of units")
        stages, cap, policy = self._reach(budget, mean_budget)
        smaller = copy.copy(self)
        plan = self.plan_ if policy is None else self.plan_.with_policy(policy)
        smaller.plan_ = plan.head(int(stages))
        if mean_budget is None:
            branches = self.plan_.within(self._ticks("budget", budget)).branches
            smaller.plan_ = replace(smaller.plan_, branches=branches)
        if cap is not None:
            smaller.plan_ = replace(smaller.plan_, limit=min(self.plan_.limit, self.costs_.amount(int(cap))))
        return smaller

    def save(self, path: str | Path) -> None:
        """Write the fitted model to an ``.anytime`` file; ``anytime.load`` reads it back."""
        from importlib import import_module

        check_is_fitted(self, "plan_")
        # files stands above the models and knows them all, so it is met only here, at run time
        import_module("anytime.files").save(self, path)

    def to_onnx(
        self,
        path: str | Path | None = None,
        *,
        budgets: Sequence[float | None] | None = None,
        dtype: str = "float64",
    ) -> Any:
        """The fitted model as an ONNX model, with one answer per budget; needs ``anytime[onnx]``.

        Parameters
        ----------
        path : str or Path, default=None
            A file to write.
        budgets : sequence of float or None, default=None
            Budgets to answer at; None among them stands for all that the model may spend. None: one answer, that of ``predict``.
        dtype : {"float64", "float32"}, default="float64"
            Type of the input ``X``, (n, d), with categories as codes; (n, channels, height, width) for networks of images. Inside
            everything is computed in double, but for the layers of a network, which keep their own type.

        Returns
        -------
        onnx.ModelProto
            Outputs ``prediction`` and, of a classifier, ``probability``; with ``budgets``, ``prediction_5`` and so on, and
            ``prediction_all`` for None.

        Raises
        ------
        ExportError
            Where a stage, a rule or the meter cannot be said in ONNX, or a budget buys no stage.
        """
        from importlib import import_module

        return import_module("anytime.export").to_onnx(self, path, budgets=budgets, dtype=dtype)

    def to_c(self, path: str | Path | None = None, *, name: str | None = None) -> str:
        """The fitted model as a C99 header without dependencies, which can be stopped after any stage.

        Parameters
        ----------
        path : str or Path, default=None
            A file to write.
        name : str, default=None
            What all names in it begin with. None: the name of the file, or of the model's class.

        Returns
        -------
        str
            The header.

        Raises
        ------
        ExportError
            Where a stage, a rule or the meter cannot be said in C, or the budget buys no stage.
        """
        from importlib import import_module

        return str(import_module("anytime.export").to_c(self, path, name=name))

    # ------------------------------------------------------------------ one row

    def predict_one(
        self, x: Any, budget: Amount = None, deadline: Amount = None, *, mean_budget: Amount = None
    ) -> Any:
        """The prediction for one row; for a contiguous float64 array the microsecond path, whose values nobody checks.

        Parameters
        ----------
        x : (d,) array or sequence, mapping, or row of a table
            A mapping and a row of a table give values by the names of columns or groups, and need not be complete.
        budget, mean_budget : float, default=None
            As in ``answer``.
        deadline : float, default=None
            Seconds from the call.
        """
        if deadline is None:
            due = np.inf
        elif type(deadline) is float and deadline >= 0.0:  # what ``_due`` asks, in a tenth of its time
            due = time.monotonic() + deadline
        else:
            due = self._due(time.monotonic(), deadline)
        row = self.__dict__.get("_one_row")
        if row is None or row.plan is not self.__dict__.get("plan_") or row.meter != self.meter:
            check_is_fitted(self, "plan_")
            row = self._one_row = OneRow(self)
        if type(x) is not np.ndarray or x.dtype != _FLOAT or x.shape != row.shape or not x.flags.c_contiguous:
            rows = reader_of(self).one(x)
            if rows.held is not None or not self._reads_rows_as_they_are:
                return self._decide(self._run_plan(rows, budget, mean_budget, due).scores())[0]
            x = rows.X[0]
        elif not row.reads_rows_as_they_are:
            x = np.ascontiguousarray(self._matrix(x[None, :])[0])
        return row(x, budget, mean_budget, due)

    def next(
        self, x: Any, bought: Iterable[str] | None = None, *, budget: float | None = None
    ) -> NextPurchase:
        """Which group to buy next for one row, what it costs, and what is expected of it.

        Where purchases are decided row by row, this is what ``predict`` would buy; along a chain it is what the next stage lacks,
        for a row of a forest what its own path asks for. The prediction is that of ``predict_one`` for a row with these groups.

        Parameters
        ----------
        x : (d,) array or sequence, mapping, or row of a table
            As in ``predict_one``. Only values of bought groups are read; others may be NaN, or left out of a mapping.
        bought : iterable of str, default=None
            Groups that the row has. None: those of which a mapping or a row of a table has all columns; of an array, none.
        budget : float, default=None
            The most that the row may pay in all, with what it has. None: what the model may spend.

        Returns
        -------
        NextPurchase
            Read it as words (``print``), by its attributes (``group``, ``price``, ``gain``, ``change``, ``alternatives``), or as
            a ``table()``.
        """
        check_is_fitted(self, "plan_")
        if np.ndim(0 if budget is None else budget):
            raise ValueError("budget is one number: next is about one row")
        rows = reader_of(self).one(x)
        warn_of_mistakes(rows)
        owned = owned_groups(self.plan_, rows, is_named(x), bought)
        plan, cap = self._plan_within(budget, owned)
        offers = self._offers(plan, rows.X, owned, cap)
        usable = Rows(rows.X, usable_groups(self.plan_, owned))
        run = self._run_plan(usable, budget, None, np.inf)
        scores = run.scores()
        link = LINKS[self._scores_link]
        probability = (
            float(np.max(run.plan.probabilities(scores, answered_stages(run)))) if link.classifies else None
        )
        most = None if cap == UNLIMITED else self.costs_.amount(cap)
        return NextPurchase(self._decide(scores)[0], probability, tuple(offers), self.costs_.unit, most)

    def path(self, x: Any, *, budget: float | None = None) -> PurchasePath:
        """What would be bought for one row, from nothing on, and how the answer moves: ``next`` again and again.

        Parameters
        ----------
        x, budget
            As in ``next``; the row has to have all values.

        Returns
        -------
        PurchasePath
            Read it as words (``print``), as a ``table()``, or ``plot()`` it.
        """
        steps, bought = [self.next(x, (), budget=budget)], list[str]()
        while steps[-1].offers:
            bought += steps[-1].offers[0].buys
            steps.append(self.next(x, bought, budget=budget))
        return PurchasePath(tuple(steps))

    def _plan_within(self, budget: float | None, owned: NDArray[np.bool_]) -> tuple[Plan, int]:
        """What a row that owns some groups can reach within a budget, or the model's own, and the most ticks that it may pay."""
        stages, cap, policy = self._reach(budget)
        money = self.budget if budget is None else budget
        if cap is None:
            cap = UNLIMITED if money is None else self._ticks("budget", money)
        cap = int(min(cap, self.plan_.limit_ticks))
        known = self._known_ticks(budget, None, np.inf, None)
        plan = self.plan_ if policy is None else self.plan_.with_policy(policy)
        if known is not None:
            branch, stages = plan.choice(min(int(known), cap), owned=owned)
            if branch >= 0:
                return plan.branches[branch], cap
        elif self.meter == "model":
            stages = min(stages, plan.affordable(cap, owned))
        return plan if stages == plan.n_stages else plan.head(int(stages)), cap

    def _offers(self, plan: Plan, X: Array, owned: NDArray[np.bool_], cap: int) -> Sequence[Offer]:
        """What a row that owns some groups could buy next for at most ``cap`` ticks in all, best first."""
        return chain_offers(plan, X, owned, cap)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name not in ("_one_row", "_row_reader")}

    # ------------------------------------------------------------------ tables in, tables out

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """What notebooks show: scikit-learn's diagram, and below it the card of a fitted model."""
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        if "text/html" in bundle:
            bundle["text/html"] += self._card()
        return bundle

    @property
    def _repr_html_(self) -> Callable[[], str]:
        diagram = super()._repr_html_  # an AttributeError where scikit-learn is set to show text
        return lambda: diagram() + self._card()

    def _card(self) -> str:
        from anytime.summary import card

        return card(self) if hasattr(self, "plan_") else ""

    def set_output(self, *, transform: str | None = None) -> Self:
        """Choose what ``predict``, ``predict_proba`` and ``decision_function`` give.

        Parameters
        ----------
        transform : {"default", "pandas"}, default=None
            "pandas": a Series or DataFrame with the index of ``X`` and the classes as columns. None changes nothing.
        """
        if transform not in (None, "default", "pandas"):
            raise ValueError(f"transform must be 'default' or 'pandas', not {transform!r}")
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}  # the name under which ``clone`` keeps it
        return self

    def _wrapped(self, values: Array, X: Any, columns: NDArray[Any] | None = None) -> Any:
        if getattr(self, "_sklearn_output_config", {}).get("transform", "default") == "default":
            return values
        import pandas as pd

        index = getattr(X, "index", None)
        if values.ndim == 1:
            return pd.Series(values, index=index, name="prediction")
        return pd.DataFrame(values, index=index, columns=columns)

    # ------------------------------------------------------------------ within the family

    @property
    def _scores_link(self) -> str:
        """What turns scores into answers."""
        return self.plan_.link

    @property
    def _reads_rows_as_they_are(self) -> bool:
        """Whether a row of numbers can go to the plan without ``_matrix``."""
        return True

    def _matrix(self, X: Any) -> Array:
        """(n, d) numbers as the plan reads them."""
        return np.asarray(X)

    @property
    def _compared(self) -> Callable[[Array], Array] | None:
        """What turns codes and numbers, (n, d), into what the plan compares; None: they are that. It does not keep the model."""
        return None

    @property
    def _flattened(self) -> Any:
        """What turns images and the like, (n, ...), into (n, d) numbers; None: rows are vectors. It does not keep the model."""
        return None

    @property
    def _takes_missing(self) -> bool:
        """Whether NaN may stand for a missing value."""
        return bool(self.__sklearn_tags__().input_tags.allow_nan)

    @property
    def _largest_number(self) -> float:
        """What counts as infinite beyond it."""
        return float(np.finfo(np.float64).max)

    def _as_numbers(self, X: Any) -> Array:
        """(n, d) numbers of a table or an array with the columns of training, in their order."""
        finite = "allow-nan" if self._takes_missing else True
        return np.asarray(
            validated(self, X, reset=False, dtype=np.float64, order="C", ensure_all_finite=finite)
        )

    def _read_in(self, X: Any) -> Rows:
        """Rows in whatever form, as the plan reads them; they need not be complete (see ``anytime.rows``)."""
        if not hasattr(self, "plan_"):  # check_is_fitted takes several times as long to ask
            check_is_fitted(self, "plan_")
        return read_table(self, X)

    def _checked(self, X: Any) -> Array:
        """(n, d) numbers of rows that have to be complete."""
        rows = self._read_in(X)
        if rows.absent:
            raise ValueError(f"X lacks the column {rows.absent[0]!r}, which the model reads")
        return rows.X

    def _bound_costs(self) -> BoundCosts:
        """Prices of the columns that the model has."""
        names = list(map(str, self.feature_names_in_)) if hasattr(self, "feature_names_in_") else None
        return FeatureCosts.coerce(self.costs, self.n_features_in_, names).bind(self.n_features_in_, names)

    def _threads(self) -> int:
        if self.n_jobs is None:
            return 1
        from joblib import effective_n_jobs

        return int(effective_n_jobs(self.n_jobs))

    def _ticks(self, name: str, budget: Any) -> Any:
        """A budget, or one per row, in ticks."""
        if is_amount(budget):
            is_beyond_floats = isinstance(budget, int) and budget > _FLOAT_MAX
            return self.costs_.budget_ticks(np.inf if is_beyond_floats else budget)
        given = np.asarray(budget)
        for amount in given.ravel().tolist() if given.dtype.kind not in "iuf" else ():
            if not is_amount(amount):
                raise ValueError(f"{name} must be a non-negative number, not {amount!r}")
        amounts = np.asarray(given, dtype=np.float64)
        if np.isnan(amounts).any():
            raise ValueError(f"{name} is NaN; give a number of units, or None for everything")
        if (amounts < 0).any():
            raise ValueError(f"{name} must not be negative; got {amounts.min():g}")
        if amounts.ndim == 0:
            return self.costs_.budget_ticks(float(amounts))
        return self.costs_.budgets_ticks(amounts)

    def _reach(self, budget: Budget, mean_budget: float | None = None) -> Reach:
        """How far bounds let rows go."""
        plan = self.plan_
        if self.meter not in METERS:
            raise ValueError(f"meter must be 'model' or 'realised', not {self.meter!r}")
        if budget is None and mean_budget is None:
            budget, mean_budget = self.budget, self.mean_budget
        cap = UNLIMITED if budget is None else self._ticks("budget", budget)
        stages, policy = plan.n_stages, None
        if mean_budget is not None:
            if np.ndim(mean_budget):
                raise ValueError("mean_budget is one number, for all rows together")
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
        """What is read from the run of each row, (n, K)."""
        due = self._due(time.monotonic(), deadline)
        rows = self._read_in(X)
        parts = self._parts_by_branch(rows, budget, mean_budget, due)
        if len(parts) == 1:
            return read(self._run_plan(rows, budget, mean_budget, due))
        told = [read(self._run_plan(part, money, mean_budget, due)) for _, part, money in parts]
        joined = np.empty((len(rows.X), told[0].shape[1]))
        for (which, _, _), some in zip(parts, told, strict=True):
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
        """What answers a budget that is known in advance; None where rows keep to the chain."""
        ticks = self._known_ticks(budget, mean_budget, due, stop)
        return None if ticks is None else self.plan_.choice(ticks, held)

    def _known_ticks(self, budget: Budget, mean_budget: float | None, due: float, stop: Stop | None) -> Any:
        """A budget that is known in advance, or one per row, in ticks; None where rows keep to the chain."""
        if not self.plan_.branches or self.meter != "model" or due < np.inf or stop is not None:
            return None
        if budget is None and mean_budget is None:
            budget, mean_budget = self.budget, self.mean_budget
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
        """What makes answers of scores, stages and payments; it keeps the plan and the classes of this moment."""
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
        """What scores, (n, K), say."""
        return LINKS[self._scores_link].decide(scores, getattr(self, "classes_", None))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


class _ScoreFace:
    """``score`` of classifiers and regressors."""

    def score(
        self: Any,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        budget: Budget = None,
        deadline: float | None = None,
        *,
        mean_budget: float | None = None,
    ) -> float:
        """Accuracy of a classifier, R² of a regressor, within the bounds. See ``answer`` for these."""
        prediction = self.predict(X, budget, deadline, mean_budget=mean_budget)
        return float(self._agreement(y, prediction, sample_weight))


class ClassifierFace(_ScoreFace, LabelSets, ClassifierMixin):  # type: ignore[misc]
    """``predict``, ``predict_proba``, ``decision_function`` and ``score`` of anytime classifiers."""

    classes_: NDArray[Any]

    def predict(
        self: Any,
        X: ArrayLike,
        budget: Budget = None,
        deadline: Amount = None,
        *,
        mean_budget: Amount = None,
        cost_matrix: ArrayLike | None = None,
    ) -> Any:
        """Class labels, (n,). See ``answer`` for the other parameters.

        Parameters
        ----------
        cost_matrix : (C, C) or (n, C, C), default=None
            What it costs to answer the second class where the first is true, in the order of ``classes_``, for all rows or for
            each: the answer is the class that is expected to cost least. None: the most likely one.
        """
        if cost_matrix is None:
            return self._wrapped(self._decide(self._scores(X, budget, deadline, mean_budget)), X)
        probabilities = np.asarray(self.predict_proba(X, budget, deadline, mean_budget=mean_budget))
        return self._wrapped(self.classes_[least_cost(probabilities, cost_matrix)], X)

    def predict_proba(
        self: Any, X: ArrayLike, budget: Budget = None, deadline: Amount = None, *, mean_budget: Amount = None
    ) -> Any:
        """Class probabilities, (n, C), in the order of ``classes_``. See ``answer`` for the parameters."""
        return self._wrapped(self._probabilities(X, budget, deadline, mean_budget), X, self.classes_)

    def predict_log_proba(
        self: Any, X: ArrayLike, budget: Budget = None, deadline: Amount = None, *, mean_budget: Amount = None
    ) -> Any:
        """Logarithm of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, budget, deadline, mean_budget=mean_budget))

    def decision_function(
        self: Any, X: ArrayLike, budget: Budget = None, deadline: Amount = None, *, mean_budget: Amount = None
    ) -> Any:
        """Scores whose largest (with two classes: whose sign) decides; (n, C), or (n,) with two classes."""
        scores = self._scores(X, budget, deadline, mean_budget)
        if LINKS[self._scores_link].binary:
            scores = scores[:, 0]
        elif len(self.classes_) == 2:
            scores = scores[:, 1] - scores[:, 0]
        return self._wrapped(scores, X, self.classes_)

    def _agreement(self, y: ArrayLike, prediction: Any, sample_weight: ArrayLike | None) -> float:
        return float(accuracy_score(y, prediction, sample_weight=sample_weight))


class ValueFace:
    """``predict`` of models whose answers are numbers."""

    def predict(
        self: Any, X: ArrayLike, budget: Budget = None, deadline: Amount = None, *, mean_budget: Amount = None
    ) -> Any:
        """Predicted values, (n,) or (n, K). See ``answer`` for the parameters."""
        return self._wrapped(self._decide(self._scores(X, budget, deadline, mean_budget)), X)


class RegressorFace(_ScoreFace, ValueFace, Intervals, RegressorMixin):  # type: ignore[misc]
    """``predict`` and ``score`` of anytime regressors."""

    def _agreement(self, y: ArrayLike, prediction: Any, sample_weight: ArrayLike | None) -> float:
        return float(r2_score(y, prediction, sample_weight=sample_weight))
