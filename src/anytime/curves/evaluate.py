"""``curve``: evaluate a fitted model after every stage, by any of the three meters, or at every budget.

Only the public interface of a model is used (``stages``, ``answer``, ``classes_``, ``costs_``, ``order_``). Each answer is
computed once and scored once; it is not scored again if nothing that the metric reads has changed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.curves.anytime_curve import AnytimeCurve, Meter, Purchase
from anytime.curves.elements import Elements
from anytime.curves.frozen import FrozenAnswer, is_classification
from anytime.curves.metrics import EvaluationData, Metric, resolve_metric
from anytime.curves.resampling import Bootstrap
from anytime.parameters import keywords_checked

METERS = ("budget", "model", "realised", "time")
_MOST_BUDGETS = 64  # points of a curve over budgets
_MOST_POLICIES = (
    24  # points of a curve over mean budgets for which rows leave early: each is a run of its own
)


@keywords_checked
def curve(
    model: Any,
    X: Any,
    y: Any,
    *,
    metric: Any = None,
    meter: Meter | None = None,
    sample_weight: ArrayLike | None = None,
    qid: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    greater_is_better: bool | None = None,
    bootstrap: int = 0,
    confidence: float = 0.95,
    random_state: Any = None,
    full_cost: float | None = None,
    label: str | None = None,
) -> AnytimeCurve:
    """Quality of a fitted model against cost, after every stage or at every budget.

    Parameters
    ----------
    model : estimator
        A fitted anytime model, a pipeline that ends in one, or a finished search over either. In a pipeline, costs refer to the
        columns that reach the model. An estimator without ``stages`` is one point at ``full_cost``.
    X : (n, d), or structures
        Rows that the model was not trained on.
    y : (n,), or labels of the elements of each structure
        If examples are structures, metrics count their elements: ``"accuracy"`` is the share of elements that are right,
        ``"balanced_accuracy"`` the mean recall of the classes.
    metric : str, callable or NDCG, default=None
        A scorer name of scikit-learn, ``"error"`` (1 − accuracy), ``"ndcg@k"`` or ``"disagreement"`` of rankings, ``"chunk_f1"``
        of sequences with labels B-x, I-x and O, a scorer
        ``f(estimator, X, y)`` or a metric ``f(y, prediction)``. None: accuracy for a classifier, R² for a regressor, NDCG@5 for a
        regressor with ``qid``.
    meter : {"budget", "model", "realised", "time"}, default=None
        The cost axis. "budget": the most that any row may pay, as in ``predict(X, budget=b)``; points lie where an answer
        changes, or at 64 of these budgets; only this meter uses branches of the plan. The others have a point per stage.
        "model": the maximum cost of the stages, fixed in training. "realised": the mean of what rows actually paid, as in
        ``predict(X, mean_budget=b)``; if rows leave early for that, points lie at up to 24 mean budgets. "time": seconds for the
        whole batch, without scoring. None: the cost that budgets of the model limit: "realised" for a family that is trained
        for a ``mean_budget``, else "budget" or, if that is the same, "model".
    sample_weight : (n,), default=None
        Weight of each row in the metric. None: 1 each.
    qid : (n,), default=None
        The query of each row, for ranking metrics. The bootstrap then draws whole queries.
    groups : (n,), default=None
        Rows that belong together (a patient, a site) and are drawn together.
    greater_is_better : bool, default=None
        For a callable metric. None: it is a loss if its name ends in ``_error``, ``_loss`` or ``_deviance``, otherwise a score.
    bootstrap : int, default=0
        Number of bootstrap draws for the band; 0 for none. Means, R² and ROC AUC are fast; other metrics are computed again
        for every draw of every stage.
    confidence : float, default=0.95
        Coverage of the band.
    random_state : int, Generator or RandomState, default=None
        Seed of the bootstrap draws.
    full_cost : float, default=None
        Cost of an answer of an estimator without stages.
    label : str, default=None
        Name of the model in plots.

    Returns
    -------
    AnytimeCurve
        Quality at every cost, with a confidence band if ``bootstrap`` is set.

    See Also
    --------
    compare : Several models on the same rows.
    budget_scorer : Scores at one budget, for grid search.

    Examples
    --------
    >>> from types import SimpleNamespace as Answer
    >>> class Halves:  # answers 0, then y's first digit, then y
    ...     def stages(self, X):
    ...         for s, (cost, guess) in enumerate([(0, 0 * X[:, 0]), (1, np.floor(X[:, 0])), (4, X[:, 0])]):
    ...             yield Answer(stage=s, prediction=guess, scores=None, probabilities=None, cost=cost, model_cost=cost)
    >>> X = np.array([[0.5], [1.5], [2.0]])
    >>> result = curve(Halves(), X, X[:, 0], metric="neg_mean_absolute_error")
    >>> result.at(2.0), result.cost_to_reach(0)
    (-0.3333333333333333, 4.0)
    """
    model, X = within_pipeline(model, X)
    if meter is None:
        meter = usual_meter([model])
    if meter not in METERS:
        raise ValueError(f"meter must be 'budget', 'model', 'realised' or 'time', not {meter!r}")
    if bootstrap < 0:
        raise ValueError(f"bootstrap is a number of draws, not {bootstrap}")
    classifier = is_classification(model)
    elements = (
        Elements.of(y, getattr(model, "ignore_label", None))
        if getattr(model, "labels_elements", False)
        else None
    )
    if elements is None:
        data = EvaluationData.checked(X, y, sample_weight, qid)
    else:
        data = EvaluationData.of_elements(X, elements, sample_weight)
    judge = _Judge(
        resolve_metric(metric, classifier=classifier, data=data, greater_is_better=greater_is_better),
        data,
        Bootstrap.drawn(data, groups, bootstrap, confidence, random_state) if bootstrap else None,
        elements,
    )
    classes = np.asarray(model.classes_) if classifier else None
    if not hasattr(model, "stages"):
        records = [_whole(model, X, classes, judge, full_cost, meter)]
    elif meter == "budget" and _has_branches(model):
        records = []
        for budget in _known_budgets(model):
            answer = model.answer(X, budget=budget)
            records.append(judge.record(answer, answer.elapsed, classes))
    elif meter == "budget" and getattr(model, "meter", None) == "realised":
        records = []
        for budget in _budgets(model, X):
            answer = model.answer(X, budget=budget)
            records.append(judge.record(answer, answer.elapsed, classes, budget))
    elif meter == "realised" and (means := _mean_budgets(model)):
        answers = [model.answer(X, mean_budget=mean) for mean in means]
        records = [judge.record(answer, answer.elapsed, classes) for answer in answers]
        records.sort(key=lambda record: record.realised_cost)  # new rows may pay a little more or less
    else:
        records = [judge.record(stage, seconds, classes) for stage, seconds in _timed(model.stages(X))]
    return _assemble(model, records, judge, meter, confidence, label)


@dataclass(frozen=True)
class _Record:
    """One stage, judged."""

    stage: int
    branch: int
    model_cost: float
    realised_cost: float
    seconds: float
    value: float
    band: tuple[float, float] | None
    groups: list[str] | None
    budget: float  # the least that reaches it


class _Judge:
    """Scores answers, remembering the last so that an unchanged one is not scored again."""

    def __init__(
        self,
        metric: Metric,
        data: EvaluationData,
        bootstrap: Bootstrap | None,
        elements: Elements | None = None,
    ) -> None:
        self.metric, self.data, self.bootstrap, self.elements = metric, data, bootstrap, elements
        self._last: tuple[FrozenAnswer, float, tuple[float, float] | None] | None = None

    def record(
        self, answer: Any, seconds: float, classes: NDArray[Any] | None, budget: float | None = None
    ) -> _Record:
        """Judge one ``Answer``, of a stage or at a budget."""
        stage, model_cost = int(np.max(answer.stage)), float(np.max(answer.model_cost))
        value, band = self.judged(FrozenAnswer.of_stage(answer, classes, self.elements), stage)
        cost = np.asarray(answer.cost, dtype=np.float64)
        # of structures each counts once, whatever the number of its elements
        rows, weight = self.data.y.shape, self.data.weight
        if self.elements is not None:
            rows, weight = (self.elements.n_structures,), None
        realised = np.broadcast_to(cost, rows)
        return _Record(
            stage=stage,
            branch=int(np.max(getattr(answer, "branch", -1), initial=-1)),
            model_cost=model_cost,
            realised_cost=float(np.average(realised, weights=weight)),
            seconds=seconds,
            value=value,
            band=band,
            groups=getattr(answer, "groups", None),
            budget=model_cost if budget is None else budget,
        )

    def _value(self, answer: FrozenAnswer) -> float:
        try:
            return self.metric(answer, self.data)
        except ValueError as error:
            classes = getattr(answer, "classes_", None)
            unknown = [] if classes is None else np.setdiff1d(self.data.y, classes).tolist()
            if not unknown:
                raise
            raise ValueError(
                f"metric {self.metric.name!r} is undefined for rows of class {unknown[0]!r}, which the model was not trained on: "
                "leave them out, or use a metric that counts them as errors, such as accuracy"
            ) from error

    def judged(self, answer: FrozenAnswer, stage: int) -> tuple[float, tuple[float, float] | None]:
        """The value of an answer and its band."""
        if self._last is not None:
            before, value, band = self._last
            if answer.same(before, before.used):
                return value, band
        if len(answer) != self.data.y.size:
            raise ValueError(f"stage {stage} answers for {len(answer)} rows, but y has {self.data.y.size}")
        value = self._value(answer)
        if not np.isfinite(value):
            raise ValueError(
                f"metric {self.metric.name!r} is {value} at stage {stage}; a curve needs finite values (does y hold every class?)"
            )
        band = None if self.bootstrap is None else self.bootstrap.band(self.metric, answer, self.data)
        self._last = answer, value, band
        return value, band


def within_pipeline(model: Any, X: Any = None) -> tuple[Any, Any]:
    """The anytime model at the end of a pipeline or of a finished search, and the rows, where given, as they reach it."""
    if hasattr(model, "best_estimator_"):
        return within_pipeline(model.best_estimator_, X)
    last = model.steps[-1][1] if hasattr(model, "steps") else None
    if not hasattr(last, "stages") and not hasattr(last, "steps"):
        return model, X
    return within_pipeline(last, X if X is None or len(model.steps) == 1 else model[:-1].transform(X))


def usual_meter(models: Iterable[Any]) -> Meter:
    """The cost that budgets of these models are about: means over rows as soon as one of them is trained for that."""
    models = [within_pipeline(model)[0] for model in models]
    if any("mean_budget" in getattr(model, "__dict__", {}) for model in models):
        return "realised"
    own = any(getattr(model, "meter", None) == "realised" or _has_branches(model) for model in models)
    return "budget" if own else "model"


def _has_branches(model: Any) -> bool:
    """Whether a budget that is known in advance may be answered by a branch."""
    return bool(getattr(getattr(model, "plan_", None), "branches", ())) and model.meter == "model"


def _known_budgets(model: Any) -> list[float]:
    """Budgets from which on something else answers."""
    plan = model.plan_
    ticks, choice = plan.choices
    changes = np.append(True, (np.diff(choice.branch) != 0) | (np.diff(choice.stages) != 0))
    budgets: list[float] = plan.costs.costs.amounts(ticks[changes]).tolist()
    return budgets


def _budgets(model: Any, X: Any) -> list[float]:
    """Budgets at which the answer of some row changes: what rows have paid after some stage; thinned where these are many."""
    paid = np.unique(np.concatenate([np.atleast_1d(answer.cost) for answer in model.stages(X)]))
    if paid.size > _MOST_BUDGETS:
        paid = paid[np.linspace(0, paid.size - 1, _MOST_BUDGETS).astype(np.intp)]
    return [float(budget) for budget in paid]


def _mean_budgets(model: Any) -> list[float]:
    """Mean budgets at which answers change, from none to all, where sure rows leave early; an empty list where they do not."""
    plan: Any = getattr(model, "plan_", None)
    if getattr(plan, "stop_table", None) is None:
        return []
    means = plan.costs.costs.amounts(np.unique(plan.policy_ticks))
    if means.size > _MOST_POLICIES:
        means = means[np.linspace(0, means.size - 1, _MOST_POLICIES).astype(np.intp)]
    return [0.0, *means.tolist(), float(plan.stage_costs[-1])]


def _timed(stages: Iterator[Any]) -> Iterator[tuple[Any, float]]:
    """Each answer with the seconds spent computing up to it; the time the consumer takes between answers is not counted."""
    spent = 0.0
    stages = iter(stages)
    while True:
        began = time.perf_counter()
        try:
            answer = next(stages)
        except StopIteration:
            return
        spent += time.perf_counter() - began
        yield answer, spent


def _whole(
    model: Any, X: Any, classes: NDArray[Any] | None, judge: _Judge, full_cost: float | None, meter: Meter
) -> _Record:
    """An estimator that answers all at once, as one stage."""
    if not hasattr(model, "predict"):
        raise TypeError(f"a {type(model).__name__} has neither stages nor predict: pass a fitted model")
    if full_cost is None and meter != "time":
        raise ValueError(f"a {type(model).__name__} has no stages: pass the cost of its answer as full_cost=")
    began = time.perf_counter()
    model.predict(X)
    seconds = time.perf_counter() - began
    cost = 0.0 if full_cost is None else float(full_cost)
    value, band = judge.judged(FrozenAnswer.of_estimator(model, X, classes), 1)
    return _Record(1, -1, cost, cost, seconds, value, band, None, cost)


def _assemble(
    model: Any, records: list[_Record], judge: _Judge, meter: Meter, confidence: float, label: str | None
) -> AnytimeCurve:
    if not records:
        raise ValueError("the model returned no answer, not even the constant one before the first stage")
    meters = {
        "budget": np.array([r.budget for r in records]),
        "model": np.array([r.model_cost for r in records]),
        "realised": _never_falling(np.array([r.realised_cost for r in records])),
        "time": np.array([r.seconds for r in records]),
    }
    price_unit = getattr(getattr(model, "costs_", None), "unit", None)
    bands = [r.band for r in records if r.band is not None]
    purchases = _purchases(model, records)
    return AnytimeCurve(
        meters[meter],
        np.array([r.value for r in records]),
        metric=judge.metric.name,
        greater_is_better=judge.metric.greater_is_better,
        perfect=judge.metric.perfect,
        meter=meter,
        unit="s" if meter == "time" else price_unit,
        price_unit=price_unit,
        model_costs=meters["model"],
        realised_costs=meters["realised"],
        times=meters["time"],
        stages=np.array([r.stage for r in records]),
        band=(np.array([b[0] for b in bands]), np.array([b[1] for b in bands])) if bands else None,
        confidence=confidence if bands else None,
        purchases=purchases,
        label=label,
        branches=np.array([r.branch for r in records]),
        bought=_bought(purchases, records),
    )


def _never_falling(costs: NDArray[np.float64]) -> NDArray[np.float64]:
    """Mean realised costs without the last-digit falls that summing in floating point can give."""
    level = np.maximum.accumulate(costs)
    return np.where(level - costs <= 1e-9 * level, level, costs)


def _purchases(model: Any, records: list[_Record]) -> tuple[Purchase, ...]:
    """Groups in the order first bought: as the answers tell, else by adding up the prices of ``order_``."""
    prices = getattr(getattr(model, "costs_", None), "prices", None)
    price = {str(name): float(p) for name, p in prices.items()} if isinstance(prices, Mapping) else {}
    first: dict[str, _Record] = {}
    for record in records:
        for name in record.groups or ():
            first.setdefault(str(name), record)
    if not first and price:
        order = [str(name) for name in getattr(model, "order_", ())]
        spent = np.cumsum([price.get(name, 0.0) for name in order])
        after = np.searchsorted([r.model_cost for r in records], spent - 1e-9 * (1 + spent), side="left")
        first = {name: records[j] for name, j in zip(order, after, strict=True) if j < len(records)}
    return tuple(Purchase(name, r.stage, price.get(name), r.branch) for name, r in first.items())


def _bought(purchases: tuple[Purchase, ...], records: list[_Record]) -> NDArray[np.bool_] | None:
    """(m, p) which purchases each answer has; None where answers do not tell."""
    if not any(record.groups for record in records):
        return None
    number = {p.group: k for k, p in enumerate(purchases)}
    bought = np.zeros((len(records), len(purchases)), dtype=bool)
    for has, record in zip(bought, records, strict=True):
        has[[number[str(name)] for name in record.groups or ()]] = True
    return bought
