"""How an adaptive classifier is trained: reading the rows, asking the costly model, trying settings, choosing one."""

import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_consistent_length

from anytime._compat import rows_of
from anytime.adaptive.boosted import BoostedPairLearner
from anytime.adaptive.choosing import HeldOutRows, Point, best_point
from anytime.adaptive.costly import Costly, CostlyQuestion, check_kind, is_model, read_costly
from anytime.adaptive.linear import LinearPairLearner
from anytime.adaptive.routing import (
    Alternation,
    Divergence,
    KullbackLeibler,
    Learned,
    PairLearner,
    alternate,
    best_of,
)
from anytime.adaptive.stages import Chain, Exit, bills, constant_block
from anytime.boosting.boosted import BoostedModel
from anytime.boosting.gradient_boosting import GradientBoostingClassifier
from anytime.boosting.learners import TrainingRows
from anytime.costs import BoundCosts
from anytime.losses import LINKS, Loss, training_loss
from anytime.plan import Array, Plan
from anytime.trees.clock import Clock
from anytime.trees.rows import checked_weights, has_categories, split_rows
from anytime.validation import naming_words, warn_caller

# in units of the entropy of the classes per price of everything
_PENALTIES = tuple(np.geomspace(0.01, 10.0, 6))
_FRACTIONS = (0.1, 0.3, 0.6)
_DOUBTS = (0.0, 0.5, 1.0, 2.0, np.inf)
_FINALISTS = 3  # settings that get all turns
_PENALTY, _FRACTION = 0.1, 0.3  # where neither a budget nor the user says
_OUT_OF_TIME = "ended training"  # in the warning of a booster that had too little time


@dataclass(frozen=True)
class GateTrial:
    """A setting that was tried, and what it came to on held-out rows.

    Attributes
    ----------
    cost_penalty, fraction : float
    objective : float
        On training rows.
    point : Point or None
        The best threshold within the budget; None where there is none, or nothing is held out.
    """

    cost_penalty: float
    fraction: float
    objective: float
    point: Point | None


@dataclass(frozen=True, eq=False)
class GateTask:
    """All that learning needs to know."""

    table: TrainingRows
    y: NDArray[np.intp]
    weight: Array | None
    costly_loss: Array
    costly: Costly
    loss: Loss
    base: Array
    costs: BoundCosts
    bench: HeldOutRows | None
    random: np.random.RandomState
    clock: Clock

    @cached_property
    def unit(self) -> float:
        """The entropy of the classes per price of everything: a cost_penalty at which all features are worth nothing."""
        entropy = self.loss(np.tile(self.base, (len(self.y), 1)), self.y, self.weight)
        total = self.costs.costs.total
        return entropy / total if total > 0 else 1.0


# rows, classes, weights, the costly model's scores
_Held = tuple[Array, NDArray[np.intp], Array | None, Array]


@dataclass(frozen=True, eq=False)
class _TriedChain:
    trial: GateTrial
    chain: Chain
    alternation: Alternation


class AdaptiveModel(BoostedModel):
    """What training needs; the constructor and what a user sees are in :class:`AdaptiveClassifier`."""

    def _train(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        probabilities: ArrayLike | None,
        X_val: Any,
        y_val: Any,
    ) -> None:
        clock = Clock(self.time_budget, int(self.verbose))
        question, probabilities = self._question(X, y, sample_weight, probabilities)
        costly = self._asked(question, probabilities)
        self.costly_ = costly.model
        self._learn_path(self._task(question, costly, X_val, y_val, clock), question.numbers)

    def _learn_path(self, task: GateTask, X: Array) -> None:
        """Set the fitted attributes; ``X``: all rows, those for validation too."""
        chosen = self._choose(task)
        trial, point = chosen.trial, chosen.trial.point
        self.cost_penalty_: float | None = trial.cost_penalty
        self.costly_fraction_: float | None = trial.fraction
        self.terms_, self.trace_ = chosen.alternation.terms, list(chosen.alternation.trace)
        self.threshold_ = 0.0 if task.bench is None else None if point is None else point.threshold
        self.sent_ = 0.0 if point is None else point.sent
        self.doubt_ = 0.0 if point is None else point.doubt
        self.n_iter_ = len(self.trace_) - 1
        self.plan_ = self._finished(chosen, task)
        if task.bench is None:
            on = chosen.chain.exits[0].score(task.table.X, task.loss.link) > 0
            self.sent_ = float(np.average(on, weights=task.weight))
        self.honest_proba_ = self._honest_proba(X, task.costly.scores)

    def _honest_proba(self, X: Array, costly_scores: Array) -> Array:
        plan = self.plan_
        scores = np.tile(plan.base, (len(X), 1))
        chain = Chain.of(plan)
        if chain is not None and self.threshold_ == -np.inf:
            scores = costly_scores
        elif chain is not None and not chain.exits:
            scores = chain.last.outputs(0, X)
        elif chain is not None:
            first = chain.exits[0]
            on = first.score(X, plan.link) > 0
            scores = np.where(on[:, None], costly_scores, first.cheap.outputs(0, X))
        return LINKS[plan.link].transform(scores)

    def _choose(self, task: GateTask) -> _TriedChain:
        """Try the settings; the best within the budget. Of many settings the best few after one turn get all turns."""
        self.trials_: list[GateTrial] = []
        settings = self._settings(task)
        starts: dict[float, tuple[PairLearner, Learned]] = {}
        brief = self.cheap == "boost" and len(settings) > _FINALISTS and self._turns > 1
        tried = self._tried(settings, starts, 1 if brief else self._turns, task)
        if brief and len(tried) == len(settings) and not tried[-1].alternation.interrupted:
            order = sorted(range(len(tried)), key=lambda i: _rank(tried[i]))
            tried += self._tried([settings[i] for i in order[:_FINALISTS]], starts, self._turns, task)
        best = min(tried, key=_rank)
        alone = self._costly_alone(task, best)
        if alone is not None and _rank(alone) < _rank(best):
            best = alone
        return best

    def _tried(
        self,
        settings: list[tuple[float, float]],
        starts: dict[float, tuple[PairLearner, Learned]],
        turns: int,
        task: GateTask,
    ) -> list[_TriedChain]:
        """The model of each setting after so many turns, until time is up or Ctrl-C is pressed."""
        tried: list[_TriedChain] = []
        for number, (cost_penalty, fraction) in enumerate(settings):
            if self.trials_ and task.clock.over:
                break
            try:
                task.clock.tell(
                    f"setting {number + 1} of {len(settings)}: cost_penalty {cost_penalty:.4g}, fraction {fraction:g}, "
                    f"{turns} {'turn' if turns == 1 else 'turns'}",
                    setting=number + 1,
                )
                if cost_penalty not in starts:
                    learner = self._learner(cost_penalty, task)
                    starts[cost_penalty] = learner, learner.start(None)
                candidate = self._try(*starts[cost_penalty], cost_penalty, fraction, turns, task)
            except KeyboardInterrupt:
                if not self.trials_:
                    raise
                _warn_of_interrupt(len(self.trials_), len(settings) - number)
                break
            tried.append(candidate)
            self.trials_.append(candidate.trial)
            if candidate.alternation.interrupted:
                _warn_of_interrupt(len(self.trials_), len(settings) - number - 1)
                break
        return tried

    def _settings(self, task: GateTask) -> list[tuple[float, float]]:
        """Gammas and fractions to be tried, the expensive ones first: they are the quickest to learn."""
        search = self.mean_budget is not None and task.bench is not None
        cost_penalties = (
            [_PENALTY * task.unit] if not search else [task.unit * factor for factor in reversed(_PENALTIES)]
        )
        fractions = list(_FRACTIONS) if search else [_FRACTION]
        cost_penalties = cost_penalties if self.cost_penalty is None else [float(self.cost_penalty)]
        fractions = fractions if self.costly_fraction is None else [float(self.costly_fraction)]
        return [(cost_penalty, fraction) for cost_penalty in cost_penalties for fraction in fractions]

    def _try(
        self,
        learner: PairLearner,
        start: Learned,
        cost_penalty: float,
        fraction: float,
        turns: int,
        task: GateTask,
    ) -> _TriedChain:
        done = self._alternate(learner, start, fraction, turns, task)
        chain = self._chain_of(done, task)
        point = None
        if task.bench is not None:
            budget = np.inf if self.mean_budget is None else self.mean_budget
            # the budget, or the user, limits how many rows a gate may send
            most = fraction if self.mean_budget is None or self.costly_fraction is not None else 1.0
            point = best_point(task.bench.points(chain, self._doubts), budget, most)
        return _TriedChain(GateTrial(cost_penalty, fraction, done.terms.total, point), chain, done)

    def _alternate(
        self, learner: PairLearner, start: Learned, fraction: float, turns: int, task: GateTask
    ) -> Alternation:
        """From one start or several."""
        done: list[Alternation] = []
        for number in range(self._starts):
            done.append(
                alternate(
                    learner,
                    task.costly_loss,
                    fraction,
                    weight=task.weight,
                    start=start if number == 0 else learner.start(task.random),
                    max_iter=turns,
                    tol=self.tol,
                    over=lambda: task.clock.over,
                )
            )
            if done[-1].interrupted or task.clock.over:
                break
        return replace(best_of(done), interrupted=done[-1].interrupted)

    def _chain_of(self, done: Alternation | None, task: GateTask) -> Chain:
        """Gate and cheap model in front of the costly one, which may be a chain itself; None: a gate that sends all on."""
        costly = task.costly
        nothing = constant_block(task.base), constant_block(np.ones(1))
        gate, cheap = nothing[::-1] if done is None else done.learned.blocks()
        return Chain(
            [Exit(cheap, gate, cost=self.cheap_evaluation_cost), *costly.exits],
            costly.block,
            costly.cost or self.evaluation_cost,
            self.answer_first,
        )

    def _costly_alone(self, task: GateTask, best: _TriedChain) -> _TriedChain | None:
        """The costly model for all rows, where it is within the budget."""
        if task.bench is None or self.mean_budget is None or self.costly_fraction is not None:
            return None
        point = task.bench.costly_alone(best.chain)
        return (
            replace(best, trial=replace(best.trial, point=point)) if point.cost <= self.mean_budget else None
        )

    def _finished(self, best: _TriedChain, task: GateTask) -> Plan:
        """The plan of the chosen chain at its threshold, with what it costs."""
        point, chain = best.trial.point, best.chain
        if task.bench is None:
            silent = chain.without_asking.plan(task.costs, task.base, task.loss.link)
            expected = np.average(bills(silent, task.table.X), axis=1, weights=task.weight)
            first = chain.exits[0]
            reads = first.cheap.columns(0).size + first.gate.columns(0).size
            if not reads and first.score(task.table.X[:1], task.loss.link)[0] <= 0:
                self._warn_of_one_answer(best.trial.cost_penalty, task)
            return replace(chain.plan(task.costs, task.base, task.loss.link), expected_costs=expected)
        if point is None:
            warn_caller(
                f"no cheap model that was tried costs at most {self.mean_budget:g} on average: the model always gives the same "
                "answer; raise cost_penalty or mean_budget",
            )
            empty = chain.plan(task.costs, task.base, task.loss.link).head(0)
            return replace(empty, expected_costs=np.empty(0))
        if point.threshold is None:
            if not chain.exits[0].cheap.columns(0).size:
                self._warn_of_one_answer(best.trial.cost_penalty, task)
            return task.bench.judged(chain.cheap_alone, ends_costly=False)
        chain = chain.costly_alone if point.threshold == -np.inf else chain.at(point.threshold, point.doubt)
        return task.bench.judged(chain, ends_costly=True)

    def _warn_of_one_answer(self, cost_penalty: float, task: GateTask) -> None:
        rows = len(task.y)
        if self.cheap == "boost" and rows < 2 * self.min_samples_leaf:
            reason = f"{rows} rows are too few to learn from with min_samples_leaf={self.min_samples_leaf}"
            advice = "give more rows, or lower min_samples_leaf"
        else:
            reason, advice = (
                f"no feature was worth its price at cost_penalty {cost_penalty:.3g}",
                "lower cost_penalty",
            )
            if self.cost_penalty is None and self.mean_budget is not None and task.bench is not None:
                advice = "allow more time" if task.clock.over else "raise mean_budget"
        warn_caller(f"{reason}: the model always gives the same answer; {advice}")

    # ------------------------------------------------------------------ learners

    @property
    def _turns(self) -> int:
        if self.max_iter is not None:
            return int(self.max_iter)
        return 5 if self.cheap == "boost" else 50

    @property
    def _doubts(self) -> tuple[float, ...]:
        """How much the cheap model's margin may count in the gate."""
        return _DOUBTS if self.gate == "both" else (0.0 if self.gate == "learned" else np.inf,)

    @property
    def _starts(self) -> int:
        if self.n_init is not None:
            return int(self.n_init)
        return 1 if self.cheap == "boost" else 4

    def _divergence(self) -> Divergence:
        return KullbackLeibler()

    def _learner(self, cost_penalty: float, task: GateTask) -> PairLearner:
        if self.cheap != "boost":
            return LinearPairLearner(
                task.table.X,
                task.y,
                task.costs,
                n_classes=len(self.classes_),
                cost_penalty=cost_penalty,
                divergence=self._divergence(),
                weight=task.weight,
            )
        return BoostedPairLearner(
            task.table,
            task.y,
            task.costs,
            n_classes=len(self.classes_),
            cost_penalty=cost_penalty,
            divergence=self._divergence(),
            weight=task.weight,
            n_estimators=self.n_estimators,
            learning_rate=self.learning_rate,
            max_depth=self.max_depth,
            min_samples_leaf=self.min_samples_leaf,
            l2_regularization=self.l2_regularization,
            folds=self.folds,
            n_threads=self._threads(),
            over=lambda: task.clock.over,
        )

    # ------------------------------------------------------------------ reading the data

    def _asked(self, question: CostlyQuestion, probabilities: ArrayLike | None) -> Costly:
        """The costly model, with its predictions for the rows."""
        hint = (
            "the costly model takes no strings: pass it in a pipeline that encodes them, or encode them first"
        )
        with naming_words(question.rows, hint=hint):
            if self.costly is not None or self.time_budget is None:
                return read_costly(question, self.proba_source, probabilities)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                costly = read_costly(question, self.proba_source, probabilities)
        out_of_time = [w for w in caught if _OUT_OF_TIME in str(w.message)]
        for warning in caught:
            if warning not in out_of_time:
                warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
        if out_of_time:  # once, and of the time that the user has given, not of a fold's share
            warn_caller(
                f"time_budget={self.time_budget:g} {_OUT_OF_TIME} of the costly model early: it has "
                f"{costly.model.plan_.n_stages} of {costly.model.n_estimators} rounds; give more time, or a model as costly=",
            )
        return costly

    def _question(
        self, X: Any, y: Any, sample_weight: ArrayLike | None, probabilities: ArrayLike | None
    ) -> tuple[CostlyQuestion, ArrayLike | None]:
        """The rows, and the costly model's probabilities where they are given; rows of no weight left out of both."""
        check_kind(self.costly)
        numbers, y = self._read_rows(X, y)
        refuses = not self.__sklearn_tags__().input_tags.allow_nan
        if refuses and not self.columns_.categories and np.isfinite(numbers).all():
            # where there are others the costly model has to show what it takes: pipelines do not know what their steps can do
            self.columns_ = replace(self.columns_, ensure_all_finite=True)
        if self.cheap != "boost" and self.columns_.categories:
            raise ValueError(
                f"cheap={self.cheap!r} needs numbers, but X has columns of categories; encode them, or use cheap='boost'"
            )
        labels = self._checked_targets(y)
        check_consistent_length(numbers, labels)
        weight = None if sample_weight is None else checked_weights(sample_weight, numbers)
        if self.class_weight is not None:
            weight = self._class_weights(labels, labels) * (1.0 if weight is None else weight)
        rows = X if hasattr(X, "iloc") else numbers
        costly = self.costly
        if weight is not None and not weight.all():
            if probabilities is not None and len(np.asarray(probabilities)) != len(numbers):
                raise ValueError(
                    f"costly_proba has {len(np.asarray(probabilities))} rows, but X has {len(numbers)}"
                )
            present = np.flatnonzero(weight)
            rows, numbers, labels, weight = (
                rows_of(rows, present),
                numbers[present],
                labels[present],
                weight[present],
            )
            probabilities = None if probabilities is None else np.asarray(probabilities)[present]
            if costly is not None and not is_model(costly):
                costly = np.asarray(costly)[present]
        self._targets(labels)  # notes the classes
        names = [str(name) for name in self.feature_names_in_] if hasattr(self, "feature_names_in_") else None
        if costly is None:
            # it is fitted once and on each fold: together at most half of the time
            seconds = None if self.time_budget is None else self.time_budget / (2 * (self.costly_folds + 1))
            costly = GradientBoostingClassifier(
                categorical_features=self.categorical_features, n_jobs=self.n_jobs, time_budget=seconds
            )
            rows = self._typed(rows)
        elif names is None and has_categories(rows) and is_model(costly):
            raise ValueError(
                "X has columns of strings, but its column names are not strings, so the costly model could not be called again; "
                "write X.columns = X.columns.astype(str)"
            )
        question = CostlyQuestion(
            costly=costly,
            X=rows,
            numbers=numbers,
            y=labels,
            classes=self.classes_,
            weight=weight,
            columns=self.columns_,
            names=names,
            read=self._read_positions(names),
            folds=self.costly_folds,
            random=check_random_state(self.random_state),
            n_jobs=self.n_jobs,
        )
        return question, probabilities

    def _class_weights(self, labels: NDArray[Any], training: NDArray[Any]) -> Array:
        """(n,) What rows of these labels count; "balanced" by how often classes occur in training."""
        classes = np.unique(training)
        return np.asarray(
            compute_class_weight(self.class_weight, classes=classes, y=training)[
                np.searchsorted(classes, labels)
            ]
        )

    def _typed(self, rows: Any) -> Any:
        """A table whose categories are known from its types: those of some rows alone could be others, or numbers."""
        if not has_categories(rows):
            return rows
        import pandas as pd

        kinds = {rows.columns[j]: pd.CategoricalDtype(words) for j, words in self.columns_.categories.items()}
        return rows.astype(kinds)

    def _read_positions(self, names: list[str] | None) -> NDArray[np.int32] | None:
        """Where the columns stand that the costly model takes."""
        if self.costly_columns is None:
            return None
        positions = []
        for column in np.asarray(self.costly_columns, dtype=object).tolist():
            if isinstance(column, bool) or not isinstance(column, (str, Integral)):
                raise ValueError(f"costly_columns names columns by name or position, not by {column!r}")
            if isinstance(column, str) and column not in (names or []):
                raise ValueError(f"costly_columns names {column!r}, which X does not have")
            j = (names or []).index(column) if isinstance(column, str) else int(column)
            if not 0 <= j < self.n_features_in_:
                raise ValueError(f"costly_columns names column {j}, but X has {self.n_features_in_} columns")
            if j in positions:
                raise ValueError(f"costly_columns names column {column!r} twice")
            positions.append(j)
        if not positions:
            raise ValueError("costly_columns is empty: name at least one column that the costly model reads")
        return np.array(positions, dtype=np.int32)

    def _task(
        self, question: CostlyQuestion, costly: Costly, X_val: Any, y_val: Any, clock: Clock | None = None
    ) -> GateTask:
        X, weight = question.numbers, question.weight
        y = question.class_numbers
        loss = training_loss("logistic" if len(self.classes_) == 2 else "multinomial")
        n_outputs = LINKS[loss.link].n_outputs(len(self.classes_))
        train, held = split_rows(X, y, self.validation_fraction if X_val is None else None, question.random)
        if held.size < 2:  # nothing can be decided on so few
            train, held = np.arange(len(X)), held[:0]
        part = None if weight is None else weight[train]
        costs, base = self._bound_costs(), loss.base(y[train], n_outputs, sample_weight=part)
        rows: _Held | None = None
        if X_val is not None:
            rows = self._validation_rows(X_val, y_val, costly, question.y)
        elif held.size:
            rows = X[held], y[held], None if weight is None else weight[held], costly.scores[held]
        table = TrainingRows(
            X[train],
            categorical=sorted(self.columns_.categories),
            max_bins=self.max_bins,
            n_threads=self._threads(),
        )
        return GateTask(
            table=table,
            y=y[train],
            weight=part,
            costly_loss=loss.per_row(costly.scores[train], y[train]),
            costly=costly,
            loss=loss,
            base=base,
            costs=costs,
            bench=None if rows is None else HeldOutRows(*rows, costs, base, loss.link),
            random=question.random,
            clock=clock or Clock(None, 0),
        )

    def _validation_rows(self, X_val: Any, y_val: Any, costly: Costly, training: NDArray[Any]) -> _Held:
        """As the first fields of a bench."""
        X = self._matrix(X_val)
        labels = self._checked_targets(y_val)
        check_consistent_length(X, labels)
        if X.shape[1] != self.n_features_in_:
            raise ValueError(f"X_val has {X.shape[1]} columns, but X has {self.n_features_in_}")
        if not np.isin(labels, self.classes_).all():
            raise ValueError("y_val has classes that are not in y")
        weight = None
        if self.class_weight is not None:
            weight = self._class_weights(labels, training)
            weight = weight / weight.mean()
        return X, np.searchsorted(self.classes_, labels), weight, costly.ask(X)


def _rank(candidate: _TriedChain) -> tuple[float, float, float]:
    """Better ones first: by held-out accuracy, then cost; where nothing is held out, by the objective."""
    point = candidate.trial.point
    if point is None:
        return 0.0, np.inf, candidate.trial.objective
    return -point.accuracy, point.cost, candidate.trial.objective


def _warn_of_interrupt(done: int, left: int) -> None:
    warn_caller(f"interrupted: {done} of {done + left} settings were tried")
