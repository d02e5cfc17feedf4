"""Calibrate a fitted model on held-out rows; conformal sets of labels and intervals of numbers.

``calibrate`` runs the plan over rows that training has not seen, looks at the answer after every stage, and keeps what it learns
in the plan (``anytime.calibration``): files, truncated models, sessions and the server then have it too.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from inspect import signature
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from anytime._compat import n_rows_of, rows_of
from anytime.calibration import LEVELS, Calibration, fitted_power, ranked_quantiles, stopping_thresholds
from anytime.costs import UNLIMITED
from anytime.engine import Run
from anytime.losses import LINKS
from anytime.parameters import KeywordsChecked
from anytime.plan import Array, Plan
from anytime.rules import LikelyRule
from anytime.spreading import announce
from anytime.stopping import stop_table
from anytime.validation import is_amount, warn_caller

__all__ = ["Intervals", "LabelSets", "holding_out"]

_KNOTS = 64  # stages at which probabilities are calibrated; stages between two of them go with the earlier
_BUDGETS = 96  # for which quantiles are kept where rows of one budget end after different stages
# the same, and rows, where each row decides what it buys, which takes long
_DECIDED_BUDGETS, _MOST_DECIDED = 16, 1000
_FEWEST_ROWS = 50  # that a stage has answered, for a calibration of its own
_TABLE_ROWS, _TABLE_STAGES = 50, 96  # the fewest rows and the most stages for a table of stops
# share of the training rows, and the most of them, that ``calibration="auto"`` holds out
_HELD_OUT, _MOST_HELD_OUT = 0.2, 5000
_FEWEST_TRAINING_ROWS = 20
# held-out rows on which calibrating is timed, and by how many times as many at most others may follow
_FIRST_ROWS, _MORE_ROWS = 16, 16
_OVERTIME = 1.05  # of a time budget, when calibrating ends
_FEWEST_OF_CLASS = 5  # rows of a class, for some of them to be held out

Fit = TypeVar("Fit", bound=Callable[..., Any])


class _Calibrated(KeywordsChecked):
    """``calibrate``, and the common part of sets and intervals."""

    plan_: Plan

    def calibrate(self: Any, X: Any, y: ArrayLike) -> Any:
        """Calibrate the answers of every stage on held-out rows.

        Afterwards, probabilities of a classifier are calibrated, of the rows that ``confidence=`` stops that share is right,
        ``mean_budget=`` lets confident rows leave early, and ``predict_set`` or ``predict_interval`` can be called. Predictions
        within a budget do not change, unless the model has a ``cost_matrix``. A new call replaces the previous calibration. All
        rows have equal weight.

        Parameters
        ----------
        X : (n, d)
            Rows not used in training: at least a few hundred, better a few thousand.
        y : (n,)

        Returns
        -------
        model
            The model itself.

        Raises
        ------
        ValueError
            If there are no rows, a column is missing, or a label is not one of the model's classes.

        Examples
        --------
        >>> import anytime as at
        >>> X, y, costs = at.datasets.load("digits")
        >>> model = at.GroupPursuitClassifier(costs=costs).fit(X[:1200], y[:1200]).calibrate(X[1200:], y[1200:])
        >>> model.predict_set(X[:1], coverage=0.9, budget=20).sum() >= 1
        np.True_
        """
        check_is_fitted(self, "plan_")
        if getattr(self, "labels_elements", False):
            raise TypeError(
                f"a {type(self).__name__} labels many elements of an example; only models of rows can be calibrated"
            )
        if getattr(self, "_goes_on_learning", False):
            raise TypeError(
                f"this {type(self).__name__} keeps learning, which would invalidate a calibration: save it with learning=False, "
                "then load and calibrate that model"
            )
        rows, targets = self._checked(X), self._held_out_targets(y)
        check_consistent_length(rows, targets)
        if not len(rows):
            raise ValueError("there are no held-out rows to calibrate on; give at least one")
        # families whose constructor has a ``confidence`` say what their plan is without it
        by_budget, confidence = self.meter == "realised", getattr(self, "confidence", None)
        plan: Plan = self.plan_ if confidence is None else self._without_stops(self.plan_)
        chain = self._learned(plan, rows, targets, by_budget)
        branches = [self._learned(branch, rows, targets, by_budget=False) for branch in plan.branches]
        chain = replace(chain, branches=branches)
        if confidence is not None:
            chain = self._with_own_quantiles(_stopping(chain, confidence, rows), rows, targets)
        self.plan_ = chain
        return self

    def _values_and_bounds(self: Any, X: Any, coverage: float, budget: Any) -> tuple[Array, Array, Array]:
        """Raw probabilities or numbers, (n, K), the nonconformity that is allowed, (n,), and the predictions of the rows."""
        check_is_fitted(self, "plan_")
        if not is_amount(coverage) or not 0.0 < coverage < 1.0:
            raise ValueError(f"coverage must be between 0 and 1, not {coverage!r}")
        calibration: Calibration | None = self.plan_.calibration
        by_budget = self.meter == "realised"
        if calibration is None or calibration.by_budget != by_budget:
            otherwise = ', or give calibration="auto"' if hasattr(self, "calibration") else ""
            raise ValueError(
                f"this {type(self).__name__} is not calibrated: call calibrate(X_val, y_val) first{otherwise}"
            )
        if budget is None and self.mean_budget is not None:
            raise ValueError(
                "coverage cannot be promised for a mean budget, which lets some rows pay more than others; give a budget"
            )
        rows = self._read_in(X)
        values, allowed, predictions = None, np.empty(len(rows.X)), None
        for which, part, money in self._parts_by_branch(rows, budget, None, np.inf):
            run = self._run_plan(part, money, None, np.inf, metered=True)
            reach = self._reach_of(run, money)
            reach = reach if by_budget else np.where(run.incomplete, run.answered, reach)
            allowed[which] = run.plan.calibration.quantile(np.broadcast_to(reach, len(part.X)), coverage)
            some, predicted = _values(run), self._decided(run)
            if values is None or predictions is None:
                values, predictions = (
                    np.empty((len(rows.X), *a.shape[1:]), a.dtype) for a in (some, predicted)
                )
            values[which], predictions[which] = some, predicted
        assert values is not None
        assert predictions is not None
        return values, allowed, predictions

    def _reach_of(self: Any, run: Run, budget: Any) -> Any:
        """Stages, or ticks where the realised cost is counted, that a budget lets rows go."""
        if self.meter == "realised":
            money = self.budget if budget is None else budget
            ticks = UNLIMITED if money is None else self._ticks("budget", money)
            return np.minimum(ticks, self.plan_.limit_ticks)
        choice = self._known_choice(None, budget, None, np.inf, None)
        return self._reach(budget).stages if choice is None else choice.stages

    def _held_out_targets(self, y: ArrayLike) -> NDArray[Any]:
        raise NotImplementedError

    def _learned(self, plan: Plan, X: Array, targets: NDArray[Any], by_budget: bool) -> Plan:
        """A plan with what held-out rows teach about it."""
        raise NotImplementedError


class LabelSets(_Calibrated):
    """Calibrated probabilities and conformal sets of classifiers."""

    def predict_set(
        self: Any, X: Any, coverage: float = 0.95, budget: Any = None, *, allow_empty: bool = False
    ) -> Any:
        """Conformal sets of labels: for this share of the rows, the set contains the true label.

        A label is in the set if its probability reaches a threshold, which held-out rows have set for the stage or branch that
        answers this budget. The probabilities are the uncalibrated ones, because calibrated ones were fitted to the same held-out
        rows as the threshold. A larger budget makes the sets smaller; the coverage stays the same.

        Parameters
        ----------
        X : (n, d)
        coverage : float, default=0.95
            Minimum share of rows whose set contains their label, on average over draws of held-out and new rows; for n held-out
            rows it varies by about ``sqrt(coverage * (1 - coverage) / n)``. It holds approximately if the constructor's
            ``confidence`` stops rows, or if every row decides what it buys within the budget.
        budget : float or (n,) float, default=None
            As in ``answer``.
        allow_empty : bool, default=False
            Whether a set may be empty. False: it always contains the label that ``predict`` returns within the budget, which
            never lowers the coverage.

        Returns
        -------
        (n, C) bool
            Which of ``classes_`` each set contains.

        Raises
        ------
        ValueError
            If the model is not calibrated, or ``coverage`` is not between 0 and 1.
        """
        probabilities, allowed, predictions = self._values_and_bounds(X, coverage, budget)
        inside = probabilities >= -allowed[:, None] * (1.0 - 1e-9)
        if not allow_empty:
            inside |= predictions[:, None] == self.classes_
        return self._wrapped(inside, X, self.classes_)

    def _held_out_targets(self: Any, y: ArrayLike) -> NDArray[Any]:
        labels = column_or_1d(y, warn=True)
        order = np.argsort(
            self.classes_
        )  # outputs of an imported network need not be in the order of the labels
        codes = (
            np.searchsorted(self.classes_, labels, sorter=order)
            if len(labels)
            else np.empty(0, dtype=np.intp)
        )
        codes = order[np.minimum(codes, len(order) - 1)]
        unknown = labels[self.classes_[codes] != labels]
        if unknown.size:
            raise ValueError(f"{unknown.tolist()[0]!r} is not one of the classes of the model")
        return np.asarray(codes, dtype=np.intp)

    def _learned(self, plan: Plan, X: Array, targets: NDArray[Any], by_budget: bool) -> Plan:
        n, link = len(X), LINKS[plan.link]
        power = np.ones((plan.n_stages + 1, link.n_classes(plan.n_outputs)))
        floor = np.full(plan.n_stages + 1, 1e-9)
        likely, right, margins = (np.empty((plan.n_stages + 1, n)) for _ in range(3))
        record = _Nonconformity(plan, n, by_budget)

        def nonconformity(run: Run, rows: Any) -> Array:
            return _of_labels(run, targets[rows])

        run = Run(plan, X, metered=by_budget)
        for stage in range(plan.n_stages + 1):
            run.advance(stage)
            scores, own = run.scores(), run.answered == stage
            raw = link.transform(scores)
            power[stage], floor[stage] = power[stage - 1], floor[stage - 1]
            if stage in record.knots and (own.all() or np.count_nonzero(own) >= _FEWEST_ROWS):
                power[stage], floor[stage] = fitted_power(raw[own], targets[own])
            likely[stage] = Calibration.scaled(raw, power[run.answered], floor[run.answered]).max(axis=1)
            right[stage], margins[stage] = link.leading(scores) == targets, link.margin(scores)
            record.note(stage, nonconformity(run, slice(None)), run)
        quantiles = record.quantiles(X, nonconformity)
        thresholds = stopping_thresholds(likely[:-1], right[:-1] > 0, record.knots)
        table = plan.stop_table
        if _takes_table(plan, n):
            table = stop_table(likely[1:], margins[1:], plan.stage_costs)
        learned = Calibration(power, floor, thresholds, *quantiles, by_budget, record.knots)
        return replace(plan, calibration=learned, stop_table=table)

    def _with_own_quantiles(self, plan: Plan, X: Array, targets: NDArray[Any]) -> Plan:
        """A calibrated plan that has got rules, with the quantiles of the rows that stop by them."""
        assert plan.calibration is not None
        reach, quantiles = _measured(
            plan, X, plan.calibration.by_budget, lambda run, rows: _of_labels(run, targets[rows])
        )
        return replace(plan, calibration=replace(plan.calibration, reach=reach, quantiles=quantiles))


class Intervals(_Calibrated):
    """Conformal intervals of regressors."""

    def predict_interval(self: Any, X: Any, coverage: float = 0.95, budget: Any = None) -> Any:
        """Conformal intervals: for this share of the rows, the interval contains the true value.

        The prediction plus or minus the error that this share of the held-out rows did not exceed, at the stage or branch that
        answers this budget.

        Parameters
        ----------
        X : (n, d)
        coverage, budget
            As in ``predict_set`` of a classifier.

        Returns
        -------
        (n, 2)
            Lower and upper ends; infinite if there are too few held-out rows for this coverage.

        Raises
        ------
        ValueError
            If the model is not calibrated, or ``coverage`` is not between 0 and 1.
        """
        values, allowed, _ = self._values_and_bounds(X, coverage, budget)
        around = np.stack([-allowed, allowed], axis=1)
        return self._wrapped(values + around, X, np.array(["lower", "upper"]))

    def _held_out_targets(self: Any, y: ArrayLike) -> NDArray[Any]:
        if self.plan_.n_outputs > 1:
            raise ValueError("predict_interval supports one target, but this model predicts several")
        targets = np.asarray(column_or_1d(y, warn=True), dtype=np.float64)
        if not np.isfinite(targets).all():
            raise ValueError("y has a value that is not finite")
        return targets

    def _learned(self, plan: Plan, X: Array, targets: NDArray[Any], by_budget: bool) -> Plan:
        def nonconformity(run: Run, rows: Any) -> Array:
            return np.asarray(np.abs(_values(run)[:, 0] - targets[rows]))

        nothing, never = np.zeros((plan.n_stages + 1, 0)), np.full((1, LEVELS.size), np.inf)
        quantiles = _measured(plan, X, by_budget, nonconformity)
        learned = Calibration(nothing, np.zeros(plan.n_stages + 1), never, *quantiles, by_budget)
        return replace(plan, calibration=learned)


class _Nonconformity:
    """Errors of held-out rows after every stage, and their costs up to it."""

    def __init__(self, plan: Plan, n_rows: int, by_budget: bool) -> None:
        self.plan, self.by_budget = plan, by_budget
        self.after = np.empty((plan.n_stages + 1, n_rows))
        self.paid = np.zeros((plan.n_stages + 1, n_rows if by_budget else 0), dtype=np.int64)
        self.knots = np.arange(plan.n_stages + 1)
        if plan.n_stages > _KNOTS:
            spaced = np.rint(np.geomspace(1, plan.n_stages, _KNOTS)).astype(np.int64)
            self.knots = np.unique(np.concatenate([[0], spaced]))

    def note(self, stage: int, nonconformity: Array, run: Run) -> None:
        """What rows have after a stage."""
        self.after[stage] = nonconformity
        if self.by_budget:
            assert run.ledger is not None
            self.paid[stage] = run.ledger.paid

    def quantiles(
        self, X: Array, nonconformity: Callable[[Run, Any], Array]
    ) -> tuple[NDArray[np.int64], Array]:
        """``reach`` and ``quantiles`` of a calibration: each for all that lies before the next, whose worst it is."""
        if not self.by_budget:
            each = np.array([ranked_quantiles(row) for row in self.after])
            return self.knots, np.maximum.reduceat(each, self.knots, axis=0)
        if self.plan.bounded_blocks:  # what rows buy depends on what they may spend
            return self._of_decided_budgets(X, nonconformity)
        budgets = _some_budgets(np.unique(self.paid), _BUDGETS)
        last = np.array([(self.paid <= ticks).sum(axis=0) - 1 for ticks in budgets.tolist()])
        # the last stage of each row for any budget below the next
        until = [(self.paid < ticks).sum(axis=0) - 1 for ticks in budgets[1:].tolist()]
        until.append(np.full_like(last[-1], len(self.after) - 1))
        stages = np.arange(len(self.after))[:, None]
        worst = [
            np.where((stages >= first) & (stages <= end), self.after, -np.inf).max(axis=0)
            for first, end in zip(last, until, strict=True)
        ]
        return budgets, np.array([ranked_quantiles(row) for row in worst])

    def _of_decided_budgets(
        self, X: Array, nonconformity: Callable[[Run, Any], Array]
    ) -> tuple[NDArray[np.int64], Array]:
        """As ``quantiles``. Budgets in between are not tried: they have the worse of the two beside them.

        Rows with little money buy what is cheap, for which those with plenty may have no use: so prices, and sums of the lowest
        of them, are budgets to be tried too.
        """
        prices = np.sort(self.plan.costs.prices)
        amounts = np.concatenate([self.paid.ravel(), prices, np.cumsum(prices)])
        budgets = _some_budgets(np.unique(amounts[amounts <= self.paid.max()]), _DECIDED_BUDGETS)
        rows = _spread(len(X), _MOST_DECIDED)
        each = []
        for ticks in budgets.tolist():
            run = Run(self.plan, X[rows], metered=True)
            run.advance(self.plan.n_stages, budget=ticks)
            each.append(ranked_quantiles(nonconformity(run, rows)))
        return budgets, np.maximum(each, [*each[1:], each[-1]])


def _measured(
    plan: Plan, X: Array, by_budget: bool, nonconformity: Callable[[Run, Any], Array]
) -> tuple[NDArray[np.int64], Array]:
    """``reach`` and ``quantiles`` of the calibration of a plan."""
    record, run = _Nonconformity(plan, len(X), by_budget), Run(plan, X, metered=by_budget)
    for stage in range(plan.n_stages + 1):
        run.advance(stage)
        record.note(stage, nonconformity(run, slice(None)), run)
    return record.quantiles(X, nonconformity)


def _some_budgets(budgets: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """About ``most`` of increasing budgets, more of them where they are small, and 0."""
    if budgets.size > most:
        spaced = [np.geomspace(1, budgets.size, most // 2), np.linspace(1, budgets.size, most // 2)]
        budgets = budgets[np.unique(np.rint(np.concatenate(spaced)).astype(np.intp)) - 1]
    return np.union1d([0], budgets).astype(np.int64)


def _spread(n: int, most: int) -> NDArray[np.intp]:
    """At most so many of n rows, evenly spread."""
    return np.linspace(0, n - 1, min(n, most)).astype(np.intp)


def _values(run: Run) -> Array:
    """(n, K) numbers, or probabilities as the model has them, not calibrated."""
    return np.asarray(LINKS[run.plan.link].transform(run.scores()))


def _of_labels(run: Run, codes: NDArray[Any]) -> Array:
    """(n,) how badly labels fit: their probability, negative."""
    return np.asarray(-_values(run)[np.arange(len(codes)), codes])


def _takes_table(plan: Plan, n_rows: int) -> bool:
    """Whether sure rows can leave early for a mean budget."""
    ruled = plan.passes or plan.stops or plan.bounded_blocks or plan.expected_costs is not None
    few = n_rows < _TABLE_ROWS or not 1 < plan.n_stages <= _TABLE_STAGES
    return not (ruled or few) and bool(plan.stage_costs[0] < plan.stage_costs[-1])


def _stopping(plan: Plan, confidence: float, X: Array) -> Plan:
    """The plan in which rows stop where, of those that stop, this share is right."""
    assert plan.calibration is not None
    power, floor = plan.calibration.power, plan.calibration.floor
    threshold = plan.calibration.threshold(confidence, plan.n_stages)
    stages = range(plan.n_stages - 1 if np.isfinite(threshold) else 0)
    stops = {
        s: LikelyRule(threshold, power=tuple(power[s + 1].tolist()), floor=float(floor[s + 1]))
        for s in stages
    }
    plan = replace(plan, stops=stops)
    if plan.expected_costs is None:
        return plan
    run, ticks = Run(plan, X, metered=True), np.empty(plan.n_stages, dtype=np.int64)
    assert run.ledger is not None
    for stage in range(plan.n_stages):
        run.advance(stage + 1)
        ticks[stage] = np.rint(run.ledger.paid.mean())
    return replace(plan, expected_costs=plan.costs.costs.amounts(ticks))


# ---------------------------------------------------------------------- while training


def holding_out(fit: Fit) -> Fit:
    """Decorator of ``fit``: with ``calibration="auto"`` a fifth of the rows is held out of training and calibrates the model.

    They are drawn by ``random_state``, in the proportions of the classes, among the rows of positive weight; weights do not
    otherwise count in calibrating.
    """
    named = signature(fit)

    @wraps(fit)
    def fitted(self: Any, X: Any, y: Any = None, *more: Any, **by_name: Any) -> Any:
        announce(self, X)
        if getattr(self, "calibration", None) is None or y is None:
            return fit(self, X, y, *more, **by_name)
        if getattr(self, "warm_start", False):
            raise ValueError(
                'calibration="auto" and warm_start=True cannot be combined: every fit holds out other rows, and the model would '
                "have been trained on some of them; leave out calibration, and call calibrate with held-out rows of your own"
            )
        arguments = named.bind(self, X, y, *more, **by_name).arguments
        classifies, weight = hasattr(self, "predict_proba"), arguments.get("sample_weight")
        if not classifies and np.ndim(y) == 2 and np.shape(y)[1] > 1:
            raise ValueError('calibration="auto" supports one target, but y has several')
        targets = column_or_1d(y, warn=True)
        check_consistent_length(np.empty(n_rows_of(X)), targets, weight)
        counts = np.ones(len(targets), dtype=bool) if weight is None else np.ravel(weight) > 0
        kept, held = _divided(targets, counts, classifies, getattr(self, "random_state", 0))
        for name in ("X", "y", "sample_weight"):
            if arguments.get(name) is not None:
                arguments[name] = rows_of(arguments[name], kept)
        began, seconds = time.monotonic(), getattr(self, "time_budget", None)
        fit(**arguments)
        if seconds is None:
            return self.calibrate(rows_of(X, held), rows_of(y, held))
        n = _calibrated_until(began + _OVERTIME * seconds + 0.5, self, X, y, held)
        if n < len(held):
            warn_caller(
                f"time_budget={seconds:g} left time to calibrate on {n} of {len(held)} held-out rows; give more time, or call "
                "calibrate"
            )
        return self

    return fitted  # type: ignore[return-value]


def _calibrated_until(moment: float, model: Any, X: Any, y: Any, held: NDArray[Any]) -> int:
    """Calibrate a model on ever more of the held-out rows, as long as there is time: predicting may be slow."""
    drawn, n = np.random.default_rng(0).permutation(held), min(_FIRST_ROWS, len(held))
    while True:
        began, rows = time.monotonic(), np.sort(drawn[:n])
        model.calibrate(rows_of(X, rows), rows_of(y, rows))
        now = time.monotonic()
        factor = (moment - now) / max(now - began, 1e-9)
        if n == len(held) or factor < 2:
            return n
        n = min(int(n * min(factor, _MORE_ROWS)), len(held))


def _divided(
    y: NDArray[Any], counts: NDArray[np.bool_], classifies: bool, seed: Any
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Rows to train on, and rows to calibrate on, which are some of those that count."""
    rows, codes = np.flatnonzero(counts), None
    n, what = len(rows), "rows"
    if classifies:
        codes = np.unique(y, return_inverse=True)[1]
        per_class = np.bincount(codes[rows], minlength=1)
        rows = rows[per_class[codes[rows]] >= _FEWEST_OF_CLASS]  # of rarer classes the model needs them all
        what = f"rows of classes that have {_FEWEST_OF_CLASS}" if len(rows) < n else what
    if len(rows) < _FEWEST_TRAINING_ROWS:
        raise ValueError(
            f'calibration="auto" needs more rows to hold some out: there are only {len(rows)} {what}; set calibration=None, or '
            "call calibrate with other rows"
        )
    random = check_random_state(None if seed is None else check_random_state(seed).randint(2**31 - 1))
    share = min(min(_HELD_OUT, _MOST_HELD_OUT / n) * n / len(rows), 0.5)
    held = train_test_split(
        rows, test_size=share, stratify=None if codes is None else codes[rows], random_state=random
    )[1]
    held.sort()
    return np.setdiff1d(np.arange(len(y)), held), held
