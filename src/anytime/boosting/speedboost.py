"""SpeedBoost: one model that is as good as possible at every budget."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from anytime.boosting.boosted import BoostedModel, BoostedRanker, Training, trees_of
from anytime.boosting.renewal import Booster, Renewal, Renewed
from anytime.faces import ClassifierFace, RegressorFace
from anytime.losses import Loss
from anytime.parameters import declared, shared, store, without
from anytime.plan import Plan
from anytime.trees.block import TreeBlock
from anytime.trees.growing import TreeGrower
from anytime.validation import warn_caller

# Shares of the least held-out loss so far: a stage that is further above it is left out. Quick models see less than full ones in
# large sets, so the second holds where full models do not agree with them
_HARMFUL, _HARMFUL_BY_QUICK = 0.02, 0.3


class _SpeedBoost(BoostedModel):
    """What classifier, regressor and ranker share."""

    _spreads: str | None = "rows"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BoostedModel._parameter_constraints,
        **shared("n_estimators", "max_stages", "budgets", "n_iter_no_change", "warm_start"),
    }

    def __init__(
        self,
        *,
        costs: Any = None,
        class_weight: Any = None,
        loss: str | Loss = "auto",
        n_estimators: int = 300,
        learning_rate: float = 0.1,
        max_leaf_nodes: int | None = 31,
        min_samples_leaf: int = 20,
        l2_regularization: float = 1.0,
        max_stages: int = 24,
        budgets: Any = None,
        n_iter_no_change: int = 20,
        categorical_features: Any = "from_dtype",
        evaluation_cost: float = 0.0,
        time_budget: float | None = None,
        warm_start: bool = False,
        budget: float | None = None,
        meter: str = "model",
        calibration: str | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int | bool = 0,
    ) -> None:
        store(self, locals())

    def _learn(self, training: Training) -> None:
        grower = TreeGrower(
            max_leaf_nodes=self.max_leaf_nodes,
            min_samples_leaf=self._least_rows(training),
            l2_regularization=self.l2_regularization,
            n_threads=self._threads(),
        )
        booster = Booster(grower, self.learning_rate, self.n_estimators, self.n_iter_no_change)
        earlier = self._known_models(training) if training.earlier is not None else []
        renewal = Renewal(training, booster, earlier, checked_budgets(self.budgets), self.evaluation_cost)
        fitted: dict[frozenset[int], Renewed] = {}
        beside: list[Renewed] = []
        interrupted = False
        try:
            for model in renewal.models(self.max_stages):
                fitted[model.groups] = model
            beside.extend(renewal.branches())
        except KeyboardInterrupt:
            if not fitted:
                raise
            interrupted = True
        before = renewal.before
        judged = renewal.judged(sorted(fitted.values(), key=lambda m: len(m.groups)))
        models = _without_harm(judged, before, renewal.sets.everything)
        models = _one_for_each_cost(models, training, self.evaluation_cost)
        if interrupted:
            warn_caller(f"interrupted: the model has {len(models)} stages")
        elif renewal.cut_short:
            warn_caller(
                f"time_budget={self.time_budget:g} was too short: the model has {len(models)} of {renewal.n_planned} planned "
                "stages (the others were not trained, or were no better than a cheaper one), and stages may have fewer trees "
                "than they need; allow more time, or continue this model with warm_start=True",
            )
        losses = np.array([before, *(model.loss for model in models)])
        chain = replace(_plan(models, training, self.evaluation_cost), quality=-losses)
        costs = {model: _plan([model], training, self.evaluation_cost).stage_costs[-1] for model in beside}
        judged = renewal.judged_beside(costs, dict(zip(models, chain.stage_costs, strict=True)))
        branches = [_branch(model, training, self.evaluation_cost, chain) for model in judged]
        if training.earlier is not None and not renewal.has_searched:
            branches = [replace(branch, costs=training.costs) for branch in training.earlier.branches]
        self.plan_ = _with_branches(chain, branches)
        # for models that are built on these trees
        self._booster, self._promise = renewal.booster, renewal.promise

    def _known_models(self, training: Training) -> list[Renewed]:
        """The stages of the fitted plan, to continue from; the last was made with everything at hand."""
        plan, models, owned = training.earlier, list[Renewed](), frozenset[int]()
        assert plan is not None
        quality = plan.quality if plan.quality is not None else np.zeros(plan.n_stages + 1)
        for s, groups in enumerate(plan.stage_groups):
            owned = owned.union(*(plan.costs.table.closure(g) for g in groups.tolist()))
            if s == plan.n_stages - 1:
                owned = frozenset(range(plan.costs.n_groups))
            loss, trees = -float(quality[s + 1]), trees_of(plan, s)
            per_round = trees.n_outputs if trees.value.shape[1] == 1 else 1
            models.append(Renewed(owned, trees, loss, n_estimators=trees.n_trees // per_round))
        return models


def checked_budgets(budgets: Any) -> NDArray[np.float64] | None:
    """Budgets to plan for, if any were named: numbers that are not negative."""
    if budgets is None:
        return None
    planned = np.asarray(budgets, dtype=np.float64)
    if planned.ndim != 1 or not (planned >= 0).all():
        raise ValueError(f"budgets must be a list of non-negative numbers, not {budgets!r}")
    return planned


def _without_harm(models: list[Renewed], before: float, everything: frozenset[int]) -> list[Renewed]:
    """The models without those that are clearly worse on held-out rows than a cheaper one.

    The model of everything stays unless it is clearly worse in every fold, and by full models too where these were judged: who
    buys all shall not get less for it by an unlucky split.
    """
    kept: list[Renewed] = []
    whole_harms = _is_worse(everything, models)
    share = _HARMFUL if whole_harms else _HARMFUL_BY_QUICK
    for model in models:
        best = min(kept, key=lambda m: m.loss, default=None)
        least = before if best is None else min(best.loss, before)
        if model.groups == everything and best is not None:
            harmful = whole_harms and model.harms(best, _HARMFUL)
        else:
            harmful = model.loss > least + share * abs(least)
        if not harmful:
            kept.append(model)
    return kept


def _is_worse(everything: frozenset[int], models: Sequence[Renewed]) -> bool:
    """Whether the model of everything is clearly worse than others, of those that were judged in full; True if unknown."""
    measured = {model.groups: model.measured for model in models if np.isfinite(model.measured)}
    whole = measured.pop(everything, np.inf)
    least = min(measured.values(), default=0.0)
    return not measured or bool(whole > least + _HARMFUL * abs(least))


def _one_for_each_cost(models: list[Renewed], training: Training, evaluation_cost: float) -> list[Renewed]:
    """The models without those that cost as much as the next: the next one answers for their budget."""
    while True:
        costs = _plan(models, training, evaluation_cost).stage_costs
        tied = np.flatnonzero(np.diff(costs) <= 0)
        if not tied.size:
            return models
        models = [model for k, model in enumerate(models) if k not in tied]


def _plan(models: list[Renewed], training: Training, evaluation_cost: float) -> Plan:
    """Each model replaces the answer before it."""
    n_trees = np.array([model.trees.n_trees for model in models])
    return Plan(
        blocks=[TreeBlock(model.trees) for model in models],
        costs=training.costs,
        base=training.base,
        link=training.loss.link,
        replaces=np.ones(len(models), dtype=bool),
        evaluation_costs=evaluation_cost * n_trees if evaluation_cost else None,
    )


def _branch(model: Renewed, training: Training, evaluation_cost: float, chain: Plan) -> Plan:
    """A plan of one stage, not quite as good as the best of the chain: who can pay for everything gets that."""
    assert chain.quality is not None
    quality = min(-model.loss, np.nextafter(chain.quality.max(), -np.inf))
    return replace(_plan([model], training, evaluation_cost), quality=np.array([chain.quality[0], quality]))


def _with_branches(chain: Plan, branches: list[Plan]) -> Plan:
    """The chain with those branches that answer some budget."""
    if not branches:
        return chain
    plan = replace(chain, branches=branches)
    used = set(plan.choices[1].branch.tolist())
    kept = [branch for number, branch in enumerate(branches) if number in used]
    return replace(plan, branches=kept) if kept else chain


@declared()
class SpeedBoostClassifier(ClassifierFace, _SpeedBoost):
    """A classifier that is as good as possible at every budget.

    Groups of features are bought one after the other, in an order chosen on held-out rows by gain per price. After a purchase, a
    full-strength boosted model of everything bought so far *replaces* the answer. So one model is about as good at each budget
    as a model trained for that budget alone, early and late. A budget that is known in advance may be answered by a branch: a
    model of other groups, if it is better on held-out rows than the chain of purchases. A fifth of the rows is held out for
    these decisions (cross-validation if rows are few); the chosen models are then trained on all rows.

    Parameters
    ----------
    loss : {"auto", "logistic", "multinomial", "exponential", "multiclass_exponential", ...} or Loss, default="auto"
        "auto": logistic for two classes, multinomial for more.
    n_estimators : int, default=300
        The maximum of each model per class; validation rows choose the number. All classes share their trees.
    min_samples_leaf : int, default=20
        In small tables a twentieth of the rows, if that is less.
    max_stages : int, default=24
        With more purchases than that, stages are spaced evenly on the logarithm of cost.
    categorical_features : "from_dtype", list of columns or None, default="from_dtype"
        For an array, list them; they hold whole numbers from 0 on.
    evaluation_cost : float, default=0.0
        Here per tree: a stage costs this times its trees.
    time_budget : float, default=None
        The model of everything is fitted first and the cheapest next, so that both exist however short the time is; a
        warning says what is missing.
    warm_start : bool, default=False
        It needs the same table: stages stay, missing ones are added, also those of a larger ``max_stages``, and trees
        are added up to a larger ``n_estimators``. Also after ``anytime.load``.

    See Also
    --------
    AutoClassifier : Tries other kinds of models too.
    AcquisitionClassifier : Decides row by row what to buy next.
    GroupPursuitClassifier : Linear, with a bound on the distance from the optimum.
    make_anytime : Boosted trees that are already trained, made interruptible.
    AdditiveSpeedBoostClassifier : The papers' rules, whose stages add to the answer.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("breast_cancer")
    >>> model = at.SpeedBoostClassifier(costs=costs, random_state=0).fit(X, y)
    >>> bool((model.cost(X, budget=40) <= 40).all())
    True
    """


@declared(like=SpeedBoostClassifier)
@without("class_weight")
class SpeedBoostRegressor(RegressorFace, _SpeedBoost):
    """A regressor that is as good as possible at every budget.

    Parameters
    ----------
    loss : {"auto", "squared", "absolute", "huber", "quantile", "poisson"} or Loss, default="auto"
        "auto": squared.

    See Also
    --------
    AutoRegressor : Tries other kinds of models too.
    AdditiveSpeedBoostRegressor : The papers' rules, whose stages add to the answer.
    GroupPursuitRegressor : Linear, with a bound on the distance from the optimum.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("diabetes")
    >>> model = at.SpeedBoostRegressor(costs=costs, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > model.score(X, y, budget=5) > 0)
    True
    """


@declared(like=SpeedBoostClassifier)
@without("class_weight", "calibration")
class SpeedBoostRanker(BoostedRanker, _SpeedBoost):
    """A ranker that is as good as possible at every budget.

    Scores order the rows of a query; ``score`` is NDCG.

    Parameters
    ----------
    loss : {"auto", "lambdarank", "pairwise_logistic", "pairwise_hinge", "squared"} or Loss, default="auto"
        "auto": lambdarank. "squared": regression on the grades.

    See Also
    --------
    SpeedBoostRegressor : For numbers instead of rankings.
    AdditiveSpeedBoostRanker : The papers' rules, whose stages add to the answer.

    Examples
    --------
    >>> import anytime as at
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> grades, queries = np.digitize(X[:, 0], [-0.5, 0.5]), np.arange(300) // 10
    >>> model = at.SpeedBoostRanker(random_state=0).fit(X, grades, qid=queries)
    >>> bool(model.score(X, grades, qid=queries) > 0.95)
    True
    """

    _spreads = None  # pairs are of rows of one query
