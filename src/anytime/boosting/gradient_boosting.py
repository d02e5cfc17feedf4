"""Gradient boosting on the same trees, cost-blind or at a fixed price of first use."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from anytime.boosting.boosted import BoostedModel, Training, positive_integer
from anytime.boosting.rounds import Boosting
from anytime.estimator import ClassifierFace, RegressorFace
from anytime.losses import Loss
from anytime.plan import Plan
from anytime.trees.block import TreeBlock
from anytime.trees.growing import TreeGrower

__all__ = ["GradientBoostingClassifier", "GradientBoostingRegressor"]


class _GradientBoosting(BoostedModel):
    """What classifier and regressor share."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BoostedModel._parameter_constraints,
        "n_stages": [positive_integer],
        "penalty": [Interval(Real, 0, None, closed="left")],
        "patience": [positive_integer, None],
    }

    def __init__(
        self,
        costs: Any = None,
        *,
        n_stages: int = 100,
        learning_rate: float = 0.1,
        max_leaves: int | None = 31,
        max_depth: int | None = None,
        min_rows: int = 20,
        l2: float = 0.0,
        penalty: float = 0.0,
        loss: str | Loss = "auto",
        validation_fraction: float | None = None,
        patience: int | None = 20,
        max_bins: int = 255,
        categorical_features: Any = "from_dtype",
        tree_cost: float = 0.0,
        time_budget: float | None = None,
        budget: float | None = None,
        meter: str = "model",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int | bool = 0,
    ) -> None:
        self.costs = costs
        self.n_stages = n_stages
        self.learning_rate = learning_rate
        self.max_leaves = max_leaves
        self.max_depth = max_depth
        self.min_rows = min_rows
        self.l2 = l2
        self.penalty = penalty
        self.loss = loss
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.max_bins = max_bins
        self.categorical_features = categorical_features
        self.tree_cost = tree_cost
        self.time_budget = time_budget
        self.budget = budget
        self.meter = meter
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _learn(self, training: Training) -> None:
        boosting = Boosting(
            training.table.binned,
            training.objective,
            TreeGrower(
                max_leaves=self.max_leaves,
                max_depth=self.max_depth,
                min_rows=self.min_rows,
                l2=self.l2,
                penalty=self.penalty,
                scale="half_sum",
                n_threads=self._threads(),
            ),
            training.base,
            learning_rate=self.learning_rate,
            rows=training.train if training.held.size else None,
            judge=training.held if training.held.size else None,
            costs=training.costs if self.penalty else None,
        )
        try:
            while len(boosting.rounds) < self.n_stages and not training.clock.over and boosting.round():
                n = len(boosting.rounds)
                if n % 10 == 0:
                    training.clock.tell(f"round {n} of {self.n_stages}" + _loss_so_far(boosting))
                if boosting.losses and self.patience is not None and n - boosting.best >= self.patience:
                    break
        except KeyboardInterrupt:
            warnings.warn(
                f"interrupted: the model has {boosting.best} of {self.n_stages} rounds", stacklevel=3
            )
        n = boosting.best
        self.plan_ = Plan(
            blocks=[TreeBlock(boosting.trees(n))] if n else [],
            costs=training.costs,
            base=training.base,
            link=training.loss.link,
            evaluation_costs=np.full(n, self.tree_cost * boosting.n_outputs) if self.tree_cost else None,
            quality=-np.array(boosting.losses[: n + 1]) if boosting.losses else None,
        )


def _loss_so_far(boosting: Boosting) -> str:
    return f", held-out loss {boosting.losses[-1]:.5g}" if boosting.losses else ""


class GradientBoostingClassifier(ClassifierFace, _GradientBoosting):
    """Gradient boosting of histogram trees, readable after any round; with a penalty, Greedy Miser.

    Each round adds a tree per class (one for two classes), fitted to the gradient by Newton's rule. Costs do not matter unless
    ``penalty`` is positive: then a split that needs a feature for the first time must save ``penalty`` times its price in
    impurity (half the sum of squares on the scale of the gradient). With one fixed penalty this is Greedy Miser.

    Parameters
    ----------
    costs : FeatureCosts, mapping, table, path or sequence, default=None
        What columns cost. None: 1 per column.
    n_stages : int, default=100
        Rounds.
    learning_rate : float, default=0.1
    max_leaves : int or None, default=31
    max_depth : int or None, default=None
    min_rows : int, default=20
        In a leaf.
    l2 : float, default=0.0
        Added to the curvature of a leaf.
    penalty : float, default=0.0
        Lambda: impurity that one unit of price must save.
    loss : {"auto", "logistic", "multinomial", "one_vs_all", "exponential", ...} or Loss, default="auto"
        "auto": logistic for two classes, multinomial for more.
    validation_fraction : float or None, default=None
        Share of the rows on which the loss is followed: the model ends with the best round. None: learn from all rows.
    patience : int or None, default=20
        Rounds without improvement there after which training ends.
    max_bins : int, default=255
        Bins per column.
    categorical_features : "from_dtype", list of columns or None, default="from_dtype"
        Columns of categories. In a table, those that are not numbers are; in an array, name those, which hold whole numbers from
        0 on.
    tree_cost : float, default=0.0
        Cost of evaluating a tree, features apart.
    time_budget : float, default=None
        Seconds that training may take: the model has the rounds that were done by then.
    budget, meter
        As in :class:`AnytimeClassifier`.
    random_state : int, RandomState or None, default=None
        Draws the held-out rows.
    n_jobs : int, default=None
        Threads. The result does not depend on it.
    verbose : int, default=0
        1: tell of every tenth round. Ctrl-C ends training with the rounds done so far.

    Attributes
    ----------
    plan_, classes_, n_features_in_, feature_names_in_, stage_costs_, order_, categories_
        As in :class:`AnytimeClassifier`.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("breast_cancer")
    >>> model = at.GradientBoostingClassifier(costs=costs, n_stages=50).fit(X, y)
    >>> len(model.plan_), bool(model.score(X, y) > 0.98)
    (50, True)
    """


class GradientBoostingRegressor(RegressorFace, _GradientBoosting):
    """Gradient boosting of histogram trees, readable after any round; with a penalty, Greedy Miser.

    Parameters
    ----------
    loss : {"auto", "squared", "absolute", "huber", "quantile", "poisson"} or Loss, default="auto"
        "auto": squared.
    costs, n_stages, learning_rate, max_leaves, max_depth, min_rows, l2, penalty, validation_fraction, patience, max_bins
        As in :class:`GradientBoostingClassifier`.
    categorical_features, tree_cost, time_budget, budget, meter, random_state, n_jobs, verbose
        As in :class:`GradientBoostingClassifier`.

    Attributes
    ----------
    plan_, n_features_in_, feature_names_in_, stage_costs_, order_, categories_
        As in :class:`AnytimeRegressor`.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("diabetes")
    >>> miser = at.GradientBoostingRegressor(costs=costs, penalty=3e4, n_stages=30).fit(X, y)
    >>> blind = at.GradientBoostingRegressor(costs=costs, n_stages=30).fit(X, y)
    >>> bool(miser.stage_costs_[-1] < blind.stage_costs_[-1])
    True
    """
