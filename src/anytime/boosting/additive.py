"""The SpeedBoost family of the papers: stages that add to the answer, each chosen for its gain per cost."""

from collections.abc import Callable
from dataclasses import replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from anytime._compat import Interval, StrOptions
from anytime.boosting.adaboost import EdgeSteps
from anytime.boosting.adding import Adding, competing_trees
from anytime.boosting.boosted import BoostedModel, BoostedRanker, Training
from anytime.boosting.learners import TreeLearner
from anytime.boosting.objective import MeanLoss
from anytime.boosting.trainer import BoostingRules, Trainer
from anytime.faces import ClassifierFace, RegressorFace
from anytime.losses import LINKS, Loss, training_loss
from anytime.parameters import declared, not_negative, shared, store, without
from anytime.validation import warn_caller

# The variants of Grubb's thesis as settings of one trainer; see ``anytime.boosting.trainer``.
METHODS: dict[str, dict[str, Any]] = {
    "proj": {"selection": "gain", "reweight": "last"},
    "mp": {"selection": "inner", "reweight": "last"},
    "omp": {"selection": "inner", "reweight": "all"},
    "omp_gain": {"selection": "gain", "reweight": "all"},
    "adaboost": {"selection": "gain", "reweight": "last"},
}


class _AdditiveSpeedBoost(BoostedModel):
    """What classifier, regressor and ranker share."""

    _trainer: ClassVar[Callable[..., Trainer]] = Trainer

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BoostedModel._parameter_constraints,
        "method": [StrOptions(set(METHODS))],
        "learners": [list, tuple, None],
        "c_min": [*shared("c_min")["c_min"], None],
        "holdout": [Interval(Real, 0, 1, closed="neither"), None],
        "filters": [callable, None],
        "weight_regularization": [not_negative],
    }

    def __init__(
        self,
        *,
        costs: Any = None,
        class_weight: Any = None,
        method: str = "proj",
        loss: str | Loss = "auto",
        learners: Any = None,
        n_estimators: int = 200,
        learning_rate: float = 0.1,
        max_depth: int | None = None,
        min_samples_leaf: int = 20,
        l2_regularization: float = 1.0,
        cost_aware: bool = True,
        schedule: str = "greedy",
        c_min: float | None = None,
        holdout: float | None = None,
        filters: Any = None,
        weight_regularization: float = 0.0,
        validation_fraction: float | None = 0.2,
        n_iter_no_change: int = 20,
        max_bins: int = 255,
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

    def _validate_params(self) -> None:
        """Also refuse settings that do not go together."""
        super()._validate_params()
        refits = METHODS[self.method]["reweight"] == "all"
        if self.weight_regularization and not refits:
            raise ValueError(
                f"weight_regularization has no effect with method={self.method!r}; it is for 'omp' and 'omp_gain', which refit "
                "all weights"
            )
        if self.method == "adaboost" and not isinstance(self, ClassifierFace):
            raise ValueError("method='adaboost' is for classifiers: its learners vote")
        if self.c_min is not None and self.schedule != "doubling":
            raise ValueError(f"c_min is for schedule='doubling', but the schedule is {self.schedule!r}")

    def _loss(self, targets: NDArray[Any]) -> Loss:
        if self.method == "adaboost" and isinstance(self.loss, str) and self.loss == "auto":
            return training_loss("exponential" if targets.max() <= 1 else "multiclass_exponential")
        return super()._loss(targets)

    def _learn(self, training: Training) -> None:
        votes = self.method == "adaboost"
        if votes:  # it starts from nothing
            training = replace(training, base=np.zeros_like(training.base))
        full_steps = votes or METHODS[self.method]["reweight"] == "all"
        rules = BoostingRules(
            **METHODS[self.method],
            weight_regularization=self.weight_regularization,
            cost_aware=self.cost_aware and not votes,
            schedule=self.schedule,
            c_min=self.c_min,
            holdout=self.holdout,
            learning_rate=1.0 if full_steps else self.learning_rate,
            largest=_longest(training),
        )
        adding = self.__dict__.get("_run") if self.warm_start else None
        if adding is None:
            if training.earlier is not None:
                warn_caller(
                    "warm_start: a model that was loaded, unpickled or fitted without warm_start has no training data to "
                    "continue from; training starts over"
                )
            adding = Adding(
                training,
                rules,
                self._learners(training),
                filters=self.filters,
                kind=EdgeSteps if votes else MeanLoss,
                trainer=self._trainer,
            )
        else:
            adding.take_up(training, rules)
        try:
            adding.run(self.n_estimators, self.n_iter_no_change)
        except KeyboardInterrupt:
            if not adding.trainer.steps:
                raise
            warn_caller(
                f"interrupted: the model has {adding.plan.n_stages} of {self.n_estimators} stages",
            )
        if adding.cut_short:
            self._warn_of_time(adding.plan.n_stages, self.n_estimators, "stages")
        if self.warm_start:
            self._run = adding
        self.steps_ = adding.trainer.steps
        self.plan_ = adding.plan

    def _learners(self, training: Training) -> list[Any]:
        if self.learners is not None:
            return list(self.learners)
        if self.method == "adaboost":
            return [
                TreeLearner(
                    max_depth=self.max_depth,
                    max_leaf_nodes=None if self.max_depth else 4,
                    min_samples_leaf=self._least_rows(training),
                    leaf="vote",
                    evaluation_cost=self.evaluation_cost,
                    n_threads=self._threads(),
                )
            ]
        return competing_trees(
            max_depth=self.max_depth,
            min_samples_leaf=self._least_rows(training),
            l2_regularization=self.l2_regularization,
            evaluation_cost=self.evaluation_cost,
            n_threads=self._threads(),
        )


def _longest(training: Training) -> float:
    """The longest step: classes told apart perfectly would ask for an infinite one; numbers come in units of their own."""
    objective, link = training.objective, LINKS[training.loss.link]
    if link.classifies or training.loss.ranks:
        return BoostingRules.largest
    start = np.tile(training.base, (len(objective), 1))
    return BoostingRules.largest / min(objective.curvature(start), 1.0)


@declared()
class AdditiveSpeedBoostClassifier(ClassifierFace, _AdditiveSpeedBoost):
    """SpeedBoost as in the papers: each stage adds the weak predictor with the most improvement per unit of cost.

    Grubb and Bagnell, *SpeedBoost* (2012); Grubb, *Anytime Prediction* (2014), chapter 6. Nothing is computed twice, which
    suits trees that cost as much as features; :class:`SpeedBoostClassifier` is better if features are expensive.

    Parameters
    ----------
    method : {"proj", "mp", "omp", "omp_gain", "adaboost"}, default="proj"
        "proj": each learner's best fit to the gradient, chosen by true gain per cost. "mp": by squared inner product with the
        gradient. "omp": as "mp", with all weights refitted after each step; "omp_gain": by the gain after refitting
        (the rule of SpeedBoost.FR). "adaboost": AdaBoost, and AdaBoost.MM for more than two classes: learners vote, and the one
        with the largest gain is added with the weight that follows from its edge, whatever it costs.
    loss : {"auto", "logistic", "multinomial", "exponential", "multiclass_exponential", ...} or Loss, default="auto"
        "auto": logistic for two classes, multinomial for more.
    learners : list of learners, default=None
        The competing learners, see :mod:`anytime.boosting.learners`. None: small and large trees with three cost penalties;
        for "adaboost", trees that vote.
    n_estimators : int, default=200
        This is the maximum; each is a stage.
    learning_rate : float, default=0.1
        The papers use 1; "omp" and "adaboost" require it.
    c_min : float, default=None
        None: that of the cheapest candidate.
    holdout : float, default=None
        Share of the rows, drawn anew for each stage, on which candidates are compared. None: the rows they were fitted to.
    filters : callable, default=None
        Filters to choose from, such as ``anytime.boosting.margin_filters()``; a stage then works only on the rows that pass
        its filter.
    weight_regularization : float, default=0.0
        "omp": half of it times the squared weights of the learners is added to the loss.
    warm_start : bool, default=False
        It needs the same rows and a larger ``n_estimators``. A model from a file or a pickle starts over.

    Attributes
    ----------
    steps_ : list of Step
        Gain, cost, edge and rivals of each stage; not saved to files.

    See Also
    --------
    SpeedBoostClassifier : Better at most budgets: stages replace each other.
    GradientBoostingClassifier : One exchange rate between loss and cost.
    CascadeClassifier : Rejected rows stay rejected.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("breast_cancer")
    >>> model = at.AdditiveSpeedBoostClassifier(costs=costs, n_estimators=30, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > model.score(X, y, budget=5) > 0.6)
    True
    """


@declared(like=AdditiveSpeedBoostClassifier)
@without("class_weight")
class AdditiveSpeedBoostRegressor(RegressorFace, _AdditiveSpeedBoost):
    """SpeedBoost as in the papers, for regression.

    Parameters
    ----------
    loss : {"auto", "squared", "absolute", "huber", "quantile", "poisson"} or Loss, default="auto"
        "auto": squared.

    Attributes
    ----------
    steps_
        As in :class:`AdditiveSpeedBoostClassifier`.

    See Also
    --------
    SpeedBoostRegressor : Better at most budgets: stages replace each other.
    GradientBoostingRegressor : One exchange rate between loss and cost.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("diabetes")
    >>> model = at.AdditiveSpeedBoostRegressor(costs=costs, method="omp", n_estimators=20, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > model.score(X, y, budget=5) > 0)
    True
    """


@declared(like=AdditiveSpeedBoostClassifier)
@without("class_weight", "calibration")
class AdditiveSpeedBoostRanker(BoostedRanker, _AdditiveSpeedBoost):
    """SpeedBoost as in the papers, for ranking; ``score`` is NDCG.

    Parameters
    ----------
    loss : {"auto", "lambdarank", "pairwise_logistic", "pairwise_hinge", "squared"} or Loss, default="auto"
        "auto": lambdarank. "squared": regression on the grades.

    Attributes
    ----------
    steps_
        As in :class:`AdditiveSpeedBoostClassifier`.

    See Also
    --------
    SpeedBoostRanker : Better at most budgets: stages replace each other.

    Examples
    --------
    >>> import anytime as at
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> grades, queries = np.digitize(X[:, 0], [-0.5, 0.5]), np.arange(300) // 10
    >>> model = at.AdditiveSpeedBoostRanker(n_estimators=20, random_state=0).fit(X, grades, qid=queries)
    >>> bool(model.score(X, grades, qid=queries) > 0.95)
    True
    """
