"""Gradient boosting on the same trees, cost-blind or with a fixed penalty on first use."""

from typing import Any, ClassVar

import numpy as np

from anytime.boosting.boosted import BoostedModel, Training
from anytime.boosting.rounds import GradientRounds
from anytime.faces import ClassifierFace, RegressorFace
from anytime.losses import Loss
from anytime.parameters import declared, shared, store, without
from anytime.plan import Plan
from anytime.trees.block import TreeBlock
from anytime.trees.growing import TreeGrower
from anytime.validation import warn_caller


class _GradientBoosting(BoostedModel):
    """What classifier and regressor share."""

    _spreads = "rows"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BoostedModel._parameter_constraints,
        "n_iter_no_change": [*shared("n_iter_no_change")["n_iter_no_change"], None],
    }

    def __init__(
        self,
        *,
        costs: Any = None,
        class_weight: Any = None,
        n_estimators: int = 100,
        learning_rate: float = 0.1,
        max_leaf_nodes: int | None = 31,
        max_depth: int | None = None,
        min_samples_leaf: int = 20,
        l2_regularization: float = 0.0,
        cost_penalty: float = 0.0,
        loss: str | Loss = "auto",
        validation_fraction: float | None = None,
        n_iter_no_change: int | None = 20,
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

    def _learn(self, training: Training) -> None:
        clock, costs, earlier = training.clock, training.costs, training.earlier
        start, bought, n_before = training.base, None, 0
        if earlier is not None:
            n_before = earlier.n_stages
            if n_before > self.n_estimators:
                raise ValueError(
                    f"n_estimators={self.n_estimators}, but the fitted model already has {n_before} rounds; "
                    "raise n_estimators or set warm_start=False"
                )
            start = training.table.scores(earlier)
            bought = costs.closure(np.concatenate([np.empty(0, dtype=np.int32), *earlier.stage_groups]))
        boosting = training.table.rounds(
            training.objective,
            TreeGrower(
                max_leaf_nodes=self.max_leaf_nodes,
                max_depth=self.max_depth,
                min_samples_leaf=self.min_samples_leaf,
                l2_regularization=self.l2_regularization,
                cost_penalty=self.cost_penalty,
                scale="half_sum",
                n_threads=self._threads(),
            ),
            start,
            learning_rate=self.learning_rate,
            rows=training.train if training.held.size else None,
            judge=training.held if training.held.size else None,
            costs=costs if self.cost_penalty else None,
            bought=bought if self.cost_penalty else None,
        )

        ends = clock.ends(clock.seconds)

        def time_is_up() -> bool:
            n_done = n_before + len(boosting.rounds)
            if n_done % 10 == 0:
                judged = {"held_out_loss": boosting.losses[-1]} if boosting.losses else {}
                followed = "".join(f", held-out loss {loss:.5g}" for loss in judged.values())
                clock.tell(f"round {n_done} of {self.n_estimators}{followed}", round=n_done, **judged)
            return ends()

        n_left = self.n_estimators - n_before
        try:
            boosting.run(n_left, self.n_iter_no_change if boosting.losses else None, time_is_up)
        except KeyboardInterrupt:
            if not boosting.rounds and not n_before:
                raise
            n_kept = n_before + boosting.best
            warn_caller(f"interrupted: the model has {n_kept} of {self.n_estimators} rounds")
        if boosting.cut_short:
            self._warn_of_time(n_before + boosting.best, self.n_estimators, "rounds")
        self.plan_ = self._plan_of(training, boosting, n_before + boosting.best)

    def _plan_of(self, training: Training, boosting: GradientRounds, n_stages: int) -> Plan:
        """The rounds that training went on from, and those that were added."""
        earlier, added = training.earlier, boosting.best
        blocks = [] if earlier is None else list(earlier.blocks)
        losses = np.array(boosting.losses[: added + 1])
        if earlier is not None and earlier.quality is not None and losses.size:
            losses = np.concatenate([-earlier.quality, losses[1:]])
        each = self.evaluation_cost * boosting.n_outputs
        return Plan(
            blocks=[*blocks, TreeBlock(boosting.trees(added))] if added else blocks,
            costs=training.costs,
            base=training.base,
            link=training.loss.link,
            evaluation_costs=np.full(n_stages, each) if each else None,
            quality=-losses if losses.size == n_stages + 1 else None,
        )


@declared()
class GradientBoostingClassifier(ClassifierFace, _GradientBoosting):
    """Gradient boosting of histogram trees, which can be stopped after any round; with a cost penalty, Greedy Miser.

    Each round adds a tree per class (one for two classes), fitted to the gradient by Newton's rule. Costs are ignored unless
    ``cost_penalty`` is positive: then a split that needs a feature for the first time must save ``cost_penalty`` times its price
    in impurity (half the sum of squares on the scale of the gradient). With one fixed penalty this is Greedy Miser.

    Parameters
    ----------
    n_estimators : int, default=100
        Here the number of rounds, with one tree per class.
    cost_penalty : float, default=0.0
        Here the reduction of impurity by a split.
    loss : {"auto", "logistic", "multinomial", "one_vs_all", "exponential", ...} or Loss, default="auto"
        "auto": logistic for two classes, multinomial for more.
    validation_fraction : float or None, default=None
        The model ends at the round with the lowest loss on them.
    n_iter_no_change : int or None, default=20
        None: never before ``n_estimators``.
    evaluation_cost : float, default=0.0
        Here per tree; a round has one per class.
    time_budget : float, default=None
        The model has the rounds finished by then, and a warning says so.
    warm_start : bool, default=False
        It needs the same table and adds rounds up to ``n_estimators``; also after ``anytime.load``.

    See Also
    --------
    SpeedBoostClassifier : One model for all budgets.
    make_anytime : Boosted trees of other libraries, made interruptible.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("breast_cancer")
    >>> model = at.GradientBoostingClassifier(costs=costs, n_estimators=50).fit(X, y)
    >>> len(model.plan_), bool(model.score(X, y) > 0.98)
    (50, True)
    """


@declared(like=GradientBoostingClassifier)
@without("class_weight")
class GradientBoostingRegressor(RegressorFace, _GradientBoosting):
    """Gradient boosting of histogram trees, which can be stopped after any round; with a cost penalty, Greedy Miser.

    Parameters
    ----------
    loss : {"auto", "squared", "absolute", "huber", "quantile", "poisson"} or Loss, default="auto"
        "auto": squared.

    See Also
    --------
    SpeedBoostRegressor : One model for all budgets.
    make_anytime : Boosted trees of other libraries, made interruptible.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("diabetes")
    >>> miser = at.GradientBoostingRegressor(costs=costs, cost_penalty=3e4, n_estimators=30).fit(X, y)
    >>> blind = at.GradientBoostingRegressor(costs=costs, n_estimators=30).fit(X, y)
    >>> bool(miser.stage_costs_[-1] < blind.stage_costs_[-1])
    True
    """
