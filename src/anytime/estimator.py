"""The scikit-learn interface of all models: answers within a budget or a deadline, stages, cost, truncation, files.

A learner inherits from ``AnytimeModel`` and one of the mixins of ``faces``, and sets ``plan_`` (and ``classes_``) in ``fit``.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
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
from anytime.bounded_runs import Amount, BoundedRuns, Budget
from anytime.costs import UNLIMITED, BoundCosts, FeatureCosts
from anytime.engine import Run, Stop
from anytime.forest_run import probabilities_of
from anytime.losses import LINKS
from anytime.one_row import OneRow
from anytime.parameters import check_names
from anytime.plan import Array, Plan
from anytime.rows import Rows, is_named, reader_of, warn_of_absent, warn_of_mistakes
from anytime.summary import importances
from anytime.validation import validated

__all__ = ["AnytimeModel"]

_REASONS = ("stop", "deadline", "groups", "budget", "complete")  # why answers of several parts end: the first

_FLOAT = np.dtype(np.float64)


class AnytimeModel(BoundedRuns, BaseEstimator):  # type: ignore[misc]
    """The methods of every fitted model. Not used by itself.

    A subclass stores at least the constructor parameters ``costs``, ``budget``, ``meter`` and ``n_jobs``, which
    ``anytime.parameters`` describes, and ``mean_budget`` if it is trained for a mean. Either meter makes a budget a cap.
    Runs that keep a ledger (realised budgets, ``answer``, ``stages``, ``cost``) use one thread.
    """

    costs: Any

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
    def feature_importances_(self) -> Array:
        """(d,) share of each column in what the stages gain; together 1, or 0 if nothing gains.

        Groups that are bought together share the gain equally, and so do the columns of a group. Only models that measure what
        each purchase gains have it; `anytime.permutation_importances` works for all, at any budget.
        """
        shares = importances(self._plan)
        if shares is None:
            raise AttributeError(
                f"this {type(self).__name__} has no feature_importances_, because it did not measure what each group gains; use "
                "at.permutation_importances"
            )
        return shares

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
        """The best answer within the bounds, with its stage, cost and reason.

        Without ``budget`` and ``mean_budget``, those of the constructor apply. A call that passes one of them uses only that one;
        if both are passed, both hold.

        Parameters
        ----------
        X : (n, d)
            A table may have its columns in any order and lack some: see ``anytime.rows``.
        budget : float or (n,) float, default=None
            The most that any row, or each row, may pay, counted by ``meter``. A branch of the plan may answer; with a deadline, a
            stop flag or ``meter="realised"``, rows keep to the chain.
        deadline : float, default=None
            Seconds from now, for the whole batch.
        mean_budget : float, default=None
            What rows may pay on average. If the plan has a table of stops, rows with confident answers leave early and others
            continue: the mean of a call is never exceeded, and single rows leave by margins learned on validation rows.
            Otherwise all rows go to the last stage whose mean cost fits, as measured in training, or its maximum cost if not.
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
        """Yield the answer before the first stage, and one after each stage."""
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
        """Cost of each answer, (n,).

        Parameters
        ----------
        X : (n, d)
        budget, deadline, mean_budget
            As in ``answer``.
        meter : {"realised", "model", "time"}, default="realised"
            "realised": what each row pays. "model": the cost of its stages, fixed in training. "time": measured seconds of
            computation, divided equally among the rows of the batch.
        row_prices : (n, G), default=None
            Prices of each row, one column per group in the order of ``costs_.names``. They change the result, not the choice of
            stages.
        """
        if meter not in ("realised", "model", "time"):
            raise ValueError(f"meter must be 'realised', 'model' or 'time', not {meter!r}")
        due = self._due(time.monotonic(), deadline)
        rows = self._read_in(X)
        n = len(rows.X)
        prices = None if row_prices is None else self.plan_.costs.prices_of_rows(row_prices, n)
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

    def truncate(self, budget: float | None = None, *, mean_budget: float | None = None) -> Self:
        """A separate model that never spends more than ``budget`` on a row, or ``mean_budget`` on average.

        It drops the stages beyond the bounds; with ``meter="realised"``, the budget is kept as a cap instead. If rows leave early
        for the mean, they do so in every answer of the smaller model.
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
        """Export the fitted model to ONNX, with one answer per budget; needs ``anytime[onnx]``.

        Parameters
        ----------
        path : str or Path, default=None
            A file to write.
        budgets : sequence of float or None, default=None
            Budgets to answer at; None in the list stands for no limit. None: one answer, that of ``predict``.
        dtype : {"float64", "float32"}, default="float64"
            Type of the input ``X``, (n, d), with categories as codes; (n, channels, height, width) for networks of images.
            Computations use double precision, except in the layers of a network, which keep their own type.

        Returns
        -------
        onnx.ModelProto
            Its outputs are ``prediction`` and, for a classifier, ``probability``; with ``budgets``, ``prediction_5`` and so on,
            and ``prediction_all`` for None.

        Raises
        ------
        ExportError
            If a stage, a rule or the meter cannot be expressed in ONNX, or a budget buys no stage.
        """
        from importlib import import_module

        return import_module("anytime.export").to_onnx(self, path, budgets=budgets, dtype=dtype)

    def to_c(self, path: str | Path | None = None, *, name: str | None = None) -> str:
        """Export the fitted model as a C99 header without dependencies, which can be stopped after any stage.

        Parameters
        ----------
        path : str or Path, default=None
            A file to write.
        name : str, default=None
            Prefix of all names in it. None: the name of the file, or of the model's class.

        Returns
        -------
        str
            The header.

        Raises
        ------
        ExportError
            If a stage, a rule or the meter cannot be expressed in C, or the budget buys no stage.
        """
        from importlib import import_module

        return str(import_module("anytime.export").to_c(self, path, name=name))

    # ------------------------------------------------------------------ one row

    def predict_one(
        self, x: Any, budget: Amount = None, deadline: Amount = None, *, mean_budget: Amount = None
    ) -> Any:
        """The prediction for one row; a contiguous float64 array takes microseconds, and its values are not checked.

        Parameters
        ----------
        x : (d,) array or sequence, mapping, or row of a table
            A mapping or a row of a table has values by column or group name, and may be incomplete.
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
                return self._decided_one(self._run_plan(rows, budget, mean_budget, due))
            x = rows.X[0]
        elif not row.reads_rows_as_they_are:
            x = np.ascontiguousarray(self._matrix(x[None, :])[0])
        return row(x, budget, mean_budget, due)

    # what Python calls it where a keyword is wrong; a function of no class is not checked, which would take a tenth of its time
    predict_one.__qualname__ = "predict_one"

    def next(
        self, x: Any, bought: Iterable[str] | None = None, *, budget: float | None = None
    ) -> NextPurchase:
        """Recommend which group to buy next for one row, with its price and expected gain.

        If purchases are decided row by row, this is what ``predict`` would buy. In a chain it is what the next stage lacks, in a
        forest what the row's own path needs. The prediction is that of ``predict_one`` for a row with these groups.

        Parameters
        ----------
        x : (d,) array or sequence, mapping, or row of a table
            As in ``predict_one``. Only values of bought groups are read; others may be NaN, or left out of a mapping.
        bought : iterable of str, default=None
            Groups that the row owns. None: those of which a mapping or a row of a table has all columns; for an array, none.
        budget : float, default=None
            The most that the row may pay in total, including what it owns. None: the model's own budget.

        Returns
        -------
        NextPurchase
            ``print`` it, read its attributes (``group``, ``price``, ``gain``, ``change``, ``alternatives``), or get a
            ``table()``.
        """
        check_is_fitted(self, "plan_")
        if np.ndim(0 if budget is None else budget):
            raise ValueError("budget must be one number, because next takes one row")
        rows = reader_of(self).one(x)
        warn_of_mistakes(rows)
        owned = owned_groups(self.plan_, rows, is_named(x), bought)
        plan, cap = self._plan_within(budget, owned)
        offers = self._offers(plan, rows.X, owned, cap)
        usable = Rows(rows.X, usable_groups(self.plan_, owned))
        run = self._run_plan(usable, budget, None, np.inf)
        classifies = LINKS[self._scores_link].classifies
        probability = float(np.max(probabilities_of(run))) if classifies else None
        most = None if cap == UNLIMITED else self.costs_.amount(cap)
        return NextPurchase(self._decided(run)[0], probability, tuple(offers), self.costs_.unit, most)

    def path(self, x: Any, *, budget: float | None = None) -> PurchasePath:
        """List what would be bought for one row, starting from nothing, and how its answer changes: ``next``, repeated.

        Parameters
        ----------
        x, budget
            As in ``next``; the row must be complete.

        Returns
        -------
        PurchasePath
            ``print`` it, get a ``table()``, or ``plot()`` it.
        """
        steps, bought = [self.next(x, (), budget=budget)], list[str]()
        while steps[-1].offers:
            bought += steps[-1].offers[0].buys
            steps.append(self.next(x, bought, budget=budget))
        return PurchasePath(tuple(steps))

    def _plan_within(self, budget: float | None, owned: NDArray[np.bool_]) -> tuple[Plan, int]:
        """The choice for a row that owns some groups, within a budget or the model's own, and the most ticks that it may pay."""
        stages, cap, policy = self._reach(budget)
        money = self.budget if budget is None else budget
        if cap is None:
            cap = UNLIMITED if money is None else self._ticks("budget", money)
        cap = int(min(cap, self.plan_.limit_ticks))
        ticks = self._known_ticks(budget, None, np.inf, None)
        plan = self.plan_ if policy is None else self.plan_.with_policy(policy)
        if ticks is not None:
            branch, stages = plan.choice(min(int(ticks), cap), owned=owned)
            if branch >= 0:
                return plan.branches[branch], cap
        elif self.meter == "model":
            stages = min(stages, plan.affordable(cap, owned))
        return plan if stages == plan.n_stages else plan.head(int(stages)), cap

    def _offers(self, plan: Plan, X: Array, owned: NDArray[np.bool_], cap: int) -> Sequence[Offer]:
        """Offers for a row that owns some groups, for at most ``cap`` ticks in all, best first."""
        return chain_offers(plan, X, owned, cap)

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name not in ("_one_row", "_row_reader")}

    # ------------------------------------------------------------------ tables in, tables out

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        """HTML for notebooks: scikit-learn's diagram and, for a fitted model, its card."""
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
        """Choose the container that ``predict``, ``predict_proba`` and ``decision_function`` return.

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
    def _reads_rows_as_they_are(self) -> bool:
        """Whether a row of numbers can go to the plan without ``_matrix``."""
        return True

    def _matrix(self, X: Any) -> Array:
        """(n, d) numbers as the plan reads them."""
        return np.asarray(X)

    @property
    def _compared(self) -> Callable[[Array], Array] | None:
        """A function, without the model, from codes and numbers, (n, d), to the values that the plan compares; None: the same."""
        return None

    @property
    def _flattened(self) -> Any:
        """A function, without the model, from images and the like, (n, ...), to (n, d) numbers; None: rows are vectors."""
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

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
