"""SpeedBoost: one model that is as good as possible at every budget."""

from __future__ import annotations

import inspect
import warnings
from importlib import import_module
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval, StrOptions

from anytime.boosting.adding import Adding, competing_trees
from anytime.boosting.boosted import BoostedModel, Training, positive_integer
from anytime.boosting.renewal import Booster, Renewal, Renewed
from anytime.boosting.trainer import Rules
from anytime.estimator import Budget, ClassifierFace, RegressorFace, ValueFace
from anytime.losses import LINKS, Loss, training_loss
from anytime.plan import Plan
from anytime.trees.block import TreeBlock
from anytime.trees.growing import TreeGrower

__all__ = ["METHODS", "SpeedBoostClassifier", "SpeedBoostRanker", "SpeedBoostRegressor"]

_HARMFUL = 0.02  # of the least held-out loss so far: a stage that is further above it is left out

# The variants of Grubb's thesis as settings of one trainer; see ``anytime.boosting.trainer``.
METHODS: dict[str, dict[str, Any]] = {
    "proj": {"selection": "gain", "reweight": "last"},
    "mp": {"selection": "inner", "reweight": "last"},
    "omp": {"selection": "inner", "reweight": "all"},
    "omp_gain": {"selection": "gain", "reweight": "all"},
}
_RENEWING = ("n_rounds", "spacing", "max_leaves")
_NOT_WITH = {
    "renew": (
        "learners", "n_stages", "schedule", "c_min", "holdout", "folds", "filters", "ridge", "warm_start",
    ),
    **{name: (*_RENEWING, "ridge" if rule["reweight"] == "last" else "folds") for name, rule in METHODS.items()},
}  # fmt: skip


class _SpeedBoost(BoostedModel):
    """What classifier, regressor and ranker share."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BoostedModel._parameter_constraints,
        "method": [StrOptions({"renew", *METHODS})],
        "learners": [list, tuple, None],
        "n_stages": [positive_integer],
        "n_rounds": [positive_integer],
        "spacing": [Interval(Real, 1, None, closed="left")],
        "cost_aware": ["boolean"],
        "schedule": [StrOptions({"greedy", "doubling"})],
        "c_min": [Interval(Real, 0, None, closed="neither"), None],
        "holdout": [Interval(Real, 0, 1, closed="neither"), None],
        "folds": [Interval(Integral, 2, None, closed="left"), None],
        "filters": [callable, None],
        "ridge": [Interval(Real, 0, None, closed="left")],
        "patience": [positive_integer],
        "warm_start": ["boolean"],
    }

    def __init__(
        self,
        costs: Any = None,
        *,
        method: str = "renew",
        loss: str | Loss = "auto",
        n_rounds: int = 300,
        learning_rate: float = 0.1,
        max_leaves: int | None = 31,
        max_depth: int | None = None,
        min_rows: int = 20,
        l2: float = 1.0,
        spacing: float = 1.0,
        cost_aware: bool = True,
        learners: Any = None,
        n_stages: int = 200,
        schedule: str = "greedy",
        c_min: float | None = None,
        holdout: float | None = None,
        folds: int | None = None,
        filters: Any = None,
        ridge: float = 0.0,
        validation_fraction: float | None = 0.2,
        patience: int = 20,
        max_bins: int = 255,
        categorical_features: Any = "from_dtype",
        tree_cost: float = 0.0,
        time_budget: float | None = None,
        warm_start: bool = False,
        budget: float | None = None,
        meter: str = "model",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int | bool = 0,
    ) -> None:
        self.costs = costs
        self.method = method
        self.loss = loss
        self.n_rounds = n_rounds
        self.learning_rate = learning_rate
        self.max_leaves = max_leaves
        self.max_depth = max_depth
        self.min_rows = min_rows
        self.l2 = l2
        self.spacing = spacing
        self.cost_aware = cost_aware
        self.learners = learners
        self.n_stages = n_stages
        self.schedule = schedule
        self.c_min = c_min
        self.holdout = holdout
        self.folds = folds
        self.filters = filters
        self.ridge = ridge
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.max_bins = max_bins
        self.categorical_features = categorical_features
        self.tree_cost = tree_cost
        self.time_budget = time_budget
        self.warm_start = warm_start
        self.budget = budget
        self.meter = meter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _validate_params(self) -> None:
        """Also refuse settings that the method would not look at."""
        super()._validate_params()
        defaults = inspect.signature(type(self)).parameters
        for name in _NOT_WITH[self.method]:
            if getattr(self, name) != defaults[name].default:
                others = [method for method, unused in _NOT_WITH.items() if name not in unused]
                raise ValueError(
                    f"{name} means nothing with method={self.method!r}; it is for {' or '.join(map(repr, others))}"
                )
        if self.folds is not None and (self.holdout is not None or self.filters is not None):
            raise ValueError("folds go neither with holdout nor with filters; leave one of them out")
        if self.c_min is not None and self.schedule != "doubling":
            raise ValueError(f"c_min is for schedule='doubling', but the schedule is {self.schedule!r}")

    def _learn(self, training: Training) -> None:
        if self.method == "renew":
            self.plan_ = self._renewing(training)
        else:
            self.plan_ = self._adding(training)

    # ------------------------------------------------------------------ stages that replace

    def _renewing(self, training: Training) -> Plan:
        grower = TreeGrower(
            max_leaves=self.max_leaves,
            max_depth=self.max_depth,
            min_rows=self._least_rows(training),
            l2=self.l2,
            n_threads=self._threads(),
        )
        booster = Booster(grower, self.learning_rate, self.n_rounds, self.patience)
        renewal = Renewal(training, booster, cost_aware=self.cost_aware)
        found: dict[int, Renewed] = {}
        interrupted = False
        try:
            for place, model in renewal.models(renewal.spaced(renewal.order(), self.spacing)):
                found[place] = model
        except KeyboardInterrupt:
            if not found:
                raise
            interrupted = True
        models: list[Renewed] = []
        losses = [renewal.before()]
        for _, model in sorted(found.items()):
            least = min(losses)
            # Further above is no chance any more: what was bought before does better without this.
            if model.loss <= least + _HARMFUL * abs(least):
                models.append(model)
                losses.append(model.loss)
        if interrupted:
            warnings.warn(f"interrupted: the model has {len(models)} stages", stacklevel=4)
        n_trees = np.array([model.trees.n_trees for model in models])
        return Plan(
            blocks=[TreeBlock(model.trees) for model in models],
            costs=training.costs,
            base=training.base,
            link=training.loss.link,
            replaces=np.ones(len(models), dtype=bool),
            evaluation_costs=self.tree_cost * n_trees if self.tree_cost else None,
            quality=-np.array(losses),
        )

    # ------------------------------------------------------------------ stages that add

    def _adding(self, training: Training) -> Plan:
        reweight = METHODS[self.method]["reweight"]
        rules = Rules(
            **METHODS[self.method],
            ridge=self.ridge,
            cost_aware=self.cost_aware,
            schedule=self.schedule,  # type: ignore[arg-type]  # checked with the parameters
            c_min=self.c_min,
            holdout=self.holdout,
            learning_rate=1.0 if reweight == "all" else self.learning_rate,
            largest=_longest(training),
        )
        known = self.__dict__.get("_run") if self.warm_start else None
        if known is None:
            known = Adding(training, rules, self._learners(training), filters=self.filters, folds=self.folds)
        else:
            known.take_up(training, rules)
        try:
            known.run(self.n_stages, self.patience)
        except KeyboardInterrupt:
            if not known.trainer.steps:
                raise
            warnings.warn(
                f"interrupted: the model has {known.plan.n_stages} of {self.n_stages} stages", stacklevel=4
            )
        if self.warm_start:
            self._run = known
        self.steps_ = known.trainer.steps
        return known.plan

    def _least_rows(self, training: Training) -> int:
        """Rows of a leaf: as asked for, and no more than a twentieth of all, or small tables would have no splits at all."""
        return min(self.min_rows, max(len(training.table) // 20, 1))

    def _learners(self, training: Training) -> list[Any]:
        if self.learners is not None:
            return list(self.learners)
        return competing_trees(
            max_depth=self.max_depth,
            min_rows=self._least_rows(training),
            l2=self.l2,
            tree_cost=self.tree_cost,
            n_threads=self._threads(),
        )


def _longest(training: Training) -> float:
    """The longest step: classes told apart perfectly would ask for an infinite one; numbers come in units of their own."""
    objective, link = training.objective, LINKS[training.loss.link]
    if link.classifies or training.loss.ranks:
        return Rules.largest
    start = np.tile(training.base, (len(objective), 1))
    return Rules.largest / min(objective.curvature(start), 1.0)


class SpeedBoostClassifier(ClassifierFace, _SpeedBoost):
    """A classifier that is as good as possible at every budget.

    By default (``method="renew"``) groups of features are bought one after the other, in an order chosen on held-out rows by loss
    per price, and after a purchase a boosted model of full strength on everything bought so far *replaces* the answer. So one
    model is about as good at each budget as a model trained for that budget alone, early and late.

    The other methods are those of Grubb and Bagnell's *SpeedBoost* (2012; Grubb 2014, chapter 6): stages *add* to the answer,
    and each is the weak predictor with the most improvement per unit of cost among several learners.

    Parameters
    ----------
    costs : FeatureCosts, mapping, table, path or sequence, default=None
        What columns cost. None: 1 per column.
    method : {"renew", "proj", "mp", "omp", "omp_gain"}, default="renew"
        "proj": each learner's best fit to the gradient, chosen by true gain per cost. "mp": by squared inner product with the
        gradient. "omp": as "mp", with all weights fitted again after each step; "omp_gain": by the gain after that.
    loss : {"auto", "logistic", "multinomial", "exponential", "multiclass_exponential", ...} or Loss, default="auto"
        "auto": logistic for two classes, multinomial for more.
    n_rounds : int, default=300
        "renew": the most rounds of a model; held-out rows say how many there are.
    learning_rate : float, default=0.1
        The papers' methods are printed with 1, and "omp" takes no other.
    max_leaves : int or None, default=31
        "renew": of a tree. Other methods have trees of several sizes, or ``learners``.
    max_depth : int or None, default=None
    min_rows : int, default=20
        In a leaf; in small tables a twentieth of the rows, where that is less.
    l2 : float, default=1.0
        Added to the curvature of a leaf.
    spacing : float, default=1.0
        "renew": a new model only when what is bought costs so many times what it cost at the last; 1: after every purchase, or,
        where there are more than 24, as often as makes 24.
    cost_aware : bool, default=True
        False: choose by improvement alone. A baseline; costs are charged all the same.
    learners : list of learners, default=None
        Not with "renew": what competes, see :mod:`anytime.boosting.learners`. None: small and large trees at three prices of
        first use.
    n_stages : int, default=200
        Not with "renew": the most stages.
    schedule : {"greedy", "doubling"}, default="greedy"
        Not with "renew". "doubling": never take what costs more than everything so far.
    c_min : float, default=None
        Doubling: the most that the first stage may cost. None: the cheapest candidate.
    holdout : float, default=None
        Not with "renew": share of the rows, drawn anew for each stage, on which candidates are compared instead of where they
        were fitted.
    folds : int, default=None
        Not with "renew": choose and weigh stages by what copies that have not seen a row gain on it, with so many copies.
    filters : callable, default=None
        Not with "renew": filters to choose from, such as ``anytime.boosting.margin_filters()``; a stage then works only on rows
        that its filter lets pass.
    ridge : float, default=0.0
        "omp": on the weights.
    validation_fraction : float or None, default=0.2
        Share of the rows held out. "renew" then learns from all rows what it decided on these; where they are few, all rows take
        their turn.
    patience : int, default=20
        Rounds, or stages, without improvement there after which training ends.
    max_bins : int, default=255
        Bins per column.
    categorical_features : "from_dtype", list of columns or None, default="from_dtype"
        Columns of categories. In a table, those that are not numbers are; in an array, name those, which hold whole numbers from
        0 on.
    tree_cost : float, default=0.0
        Cost of evaluating a tree, features apart.
    time_budget : float, default=None
        Seconds that training may take; then it ends with the stages there are. "renew": half at most go into the order, and
        the model of everything is made in any case.
    warm_start : bool, default=False
        Not with "renew": ``fit`` again, on the same rows, goes on from the stages there are when ``n_stages`` has grown. A model
        from a file or a pickle begins anew.
    budget, meter, n_jobs
        As in :class:`AnytimeClassifier`; ``n_jobs`` also for training. The result does not depend on it.
    random_state : int, RandomState or None, default=None
        Draws the held-out rows.
    verbose : int, default=0
        1: tell of every stage. Ctrl-C ends training with the stages done so far.

    Attributes
    ----------
    plan_, classes_, n_features_in_, feature_names_in_, stage_costs_, order_, categories_
        As in :class:`AnytimeClassifier`.
    steps_ : list of Step
        Not with "renew": gain, cost, edge and rivals of each stage; not kept in a file.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("breast_cancer")
    >>> model = at.SpeedBoostClassifier(costs=costs, random_state=0).fit(X, y)
    >>> bool((model.cost(X, budget=40) <= 40).all())
    True
    """


class SpeedBoostRegressor(RegressorFace, _SpeedBoost):
    """A regressor that is as good as possible at every budget.

    Parameters
    ----------
    loss : {"auto", "squared", "absolute", "huber", "quantile", "poisson"} or Loss, default="auto"
        "auto": squared.
    costs, method, n_rounds, learning_rate, max_leaves, max_depth, min_rows, l2, spacing, cost_aware, learners, n_stages
        As in :class:`SpeedBoostClassifier`.
    schedule, c_min, holdout, folds, filters, ridge, validation_fraction, patience, max_bins, categorical_features, tree_cost
        As in :class:`SpeedBoostClassifier`.
    time_budget, warm_start, budget, meter, random_state, n_jobs, verbose
        As in :class:`SpeedBoostClassifier`.

    Attributes
    ----------
    plan_, n_features_in_, feature_names_in_, stage_costs_, order_, categories_, steps_
        As in :class:`SpeedBoostClassifier`.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("diabetes")
    >>> model = at.SpeedBoostRegressor(costs=costs, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > model.score(X, y, budget=5) > 0)
    True
    """


class SpeedBoostRanker(ValueFace, _SpeedBoost):
    """A ranker of documents that is as good as possible at every budget.

    Scores order the rows of a query; ``score`` is NDCG.

    Parameters
    ----------
    loss : {"auto", "lambdarank", "pairwise_logistic", "pairwise_hinge", "squared"} or Loss, default="auto"
        "auto": lambdarank. "squared": regression on the grades.
    costs, method, n_rounds, learning_rate, max_leaves, max_depth, min_rows, l2, spacing, cost_aware, learners, n_stages
        As in :class:`SpeedBoostClassifier`.
    schedule, c_min, holdout, folds, filters, ridge, validation_fraction, patience, max_bins, categorical_features, tree_cost
        As in :class:`SpeedBoostClassifier`.
    time_budget, warm_start, budget, meter, random_state, n_jobs, verbose
        As in :class:`SpeedBoostClassifier`.

    Attributes
    ----------
    plan_, n_features_in_, feature_names_in_, stage_costs_, order_, categories_, steps_
        As in :class:`SpeedBoostClassifier`.
    """

    def fit(
        self, X: Any, y: Any, sample_weight: ArrayLike | None = None, qid: ArrayLike | None = None
    ) -> Self:
        """Learn from rows and their grades. A fit that fails leaves the model as it was.

        Parameters
        ----------
        X : (n, d)
        y : (n,)
            Grades: 0 is worst.
        sample_weight : (n,), default=None
            The same for all rows of a query.
        qid : (n,), default=None
            The query of each row; rows are compared within it. None: one query.
        """
        return self._fit(X, y, sample_weight, qid)

    def _loss(self, targets: Any) -> Loss:
        if isinstance(self.loss, str) and self.loss == "auto":
            return training_loss("lambdarank")
        return super()._loss(targets)

    def score(
        self,
        X: ArrayLike,
        y: ArrayLike,
        qid: ArrayLike | None = None,
        budget: Budget = None,
        deadline: float | None = None,
        k: int | None = 10,
    ) -> float:
        """NDCG of the first ``k`` within the bounds, mean over queries."""
        # curves stand above the models, so they are met only here, at run time
        ndcg = import_module("anytime.curves.metrics").ndcg
        queries = np.zeros(len(np.asarray(y))) if qid is None else qid
        return float(ndcg(y, self.predict(X, budget, deadline), queries, k=k))
