"""No method to choose: the best of several kinds of models at every budget."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from anytime._compat import StrOptions
from anytime.auto.blend_block import BlendBlock, LogProbabilityBlock
from anytime.auto.dense_block import DenseBlock
from anytime.auto.improving import Improvement
from anytime.auto.kinds import KINDS
from anytime.blocks import Block
from anytime.boosting.boosted import BoostedModel, Training
from anytime.boosting.speedboost import SpeedBoostClassifier, SpeedBoostRegressor
from anytime.faces import ClassifierFace, RegressorFace
from anytime.parameters import shared, store, without
from anytime.trees.block import TreeBlock
from anytime.trees.clock import Clock, inner_fit
from anytime.validation import warn_caller

_TREES_SHARE = 0.6  # of a time budget
_ROUNDS = 300  # of boosted trees, at most


class _Auto(BoostedModel):
    """What classifier and regressor share."""

    loss = "auto"
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "kinds": [StrOptions({"all"}), list, tuple],
        **shared("costs", "class_weight", "max_stages", "budgets", "categorical_features", "time_budget"),
        **shared("budget", "meter", "calibration", "random_state", "n_jobs", "verbose"),
    }

    def __init__(
        self,
        *,
        costs: Any = None,
        class_weight: Any = None,
        kinds: Any = "all",
        max_stages: int = 24,
        budgets: Any = None,
        categorical_features: Any = "from_dtype",
        time_budget: float | None = None,
        budget: float | None = None,
        meter: str = "model",
        calibration: str | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int | bool = 0,
    ) -> None:
        store(self, locals())

    @property
    def families_(self) -> list[tuple[float, dict[str, float]]]:
        """What answers from which cost on: shares of trees, forest, linear models, products and the network."""
        plan = self._plan
        if not plan.branches:
            return [
                (float(cost), _family(plan.blocks[plan.locate(stage)[0]]))
                for stage, cost in enumerate(plan.stage_costs)
            ]
        told = []
        for ticks, branch, stages in zip(plan.choices[0], *plan.choices[1], strict=True):
            if stages:
                of = plan if branch < 0 else plan.branches[branch]
                told.append(
                    (plan.costs.costs.amount(int(ticks)), _family(of.blocks[of.locate(stages - 1)[0]]))
                )
        return told

    def _learn(self, training: Training) -> None:
        kinds = KINDS if isinstance(self.kinds, str) else self.kinds
        for kind in kinds:
            if kind not in KINDS:
                raise ValueError(f"kinds names {kind!r}; there are {', '.join(KINDS)}, and trees always")
        kind_of_trees = SpeedBoostClassifier if isinstance(self, ClassifierFace) else SpeedBoostRegressor
        trees = kind_of_trees(
            n_estimators=_ROUNDS,
            max_stages=self.max_stages,
            budgets=self.budgets,
            time_budget=self.time_budget,
            n_jobs=self.n_jobs,
        )
        clock = training.clock
        seconds = _TREES_SHARE * (clock.seconds - clock.elapsed)
        inner = Clock(seconds if np.isfinite(seconds) else None, clock.verbose)
        improvement = None
        with warnings.catch_warnings(record=True) as of_trees:
            warnings.simplefilter("always")
            try:
                with inner_fit():
                    trees._learn(replace(training, clock=inner))
                improvement = Improvement(
                    training,
                    trees.plan_,
                    trees._booster,
                    trees._promise,
                    trees.budgets,
                    kinds,
                    self._threads(),
                )
            except KeyboardInterrupt:
                if not hasattr(trees, "plan_"):
                    raise
        self.plan_ = trees.plan_ if improvement is None else improvement.improved()
        if improvement is None or improvement.interrupted:
            warn_caller("interrupted: kinds that were not tried by then are missing")
        elif self.time_budget is not None and (improvement.out_of_time or of_trees):
            warn_caller(
                f"time_budget={self.time_budget:g} was too short to try every kind of model at every budget; more time may "
                "give a better model",
            )


def _family(block: Block) -> dict[str, float]:
    """Kinds of models in a stage, with their shares."""
    if isinstance(block, BlendBlock):
        total = dict[str, float]()
        for part, share in zip(block.parts, block.shares.tolist(), strict=True):
            for name in _family(part):
                total[name] = total.get(name, 0.0) + share
        return total
    if isinstance(block, DenseBlock):
        if len(block.layers) > 1:
            return {"network": 1.0}
        return {"products" if len(block.inputs.pairs) else "linear": 1.0}
    # our own trees compare doubles, those of scikit-learn's forests single precision
    of_forest = isinstance(block, LogProbabilityBlock) or (
        isinstance(block, TreeBlock) and block.forest.arrays()["float32_input"]
    )
    return {"forest" if of_forest else "trees": 1.0}


class AutoClassifier(ClassifierFace, _Auto):
    """A classifier without a method to choose: the best of several kinds of models at every budget.

    SpeedBoost finds an order of purchases, branches for known budgets, and boosted trees for each set of groups. Each set then
    gets an ensemble of boosted trees, linear models, forests of extra-random trees and a small network that accepts missing
    groups. Rows that the models have not learned from decide how much each kind counts, and which set answers a budget.

    Parameters
    ----------
    costs : FeatureCosts, mapping, table, path or sequence, default=None
        What columns cost. None: 1 per column.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes. "balanced": inversely proportional to their frequency. None: 1 each.
    kinds : "all" or list of {"linear", "products", "forest", "network"}, default="all"
        What is tried besides boosted trees. "products" are linear models of up to 20 columns, their squares and their products.
    max_stages : int, default=24
        Maximum number of stages. With more purchases than that, stages are spaced evenly on the logarithm of cost.
    budgets : array-like of float, default=None
        Known budgets to plan for, in the unit of ``costs``. None: up to 24, spaced evenly on the logarithm of cost.
    categorical_features : "from_dtype", list of columns or None, default="from_dtype"
        Columns that hold categories. "from_dtype": the non-numeric columns of a table. In an array, name those, which hold
        whole numbers from 0 on.
    time_budget : float, default=None
        Seconds that ``fit`` may take. None: no limit. Boosted trees take three fifths of it, other kinds what is left.
    budget : float, default=None
        Budget used when ``predict`` is given no bound: the most that any row may pay. None: no limit.
    meter : {"model", "realised"}, default="model"
        How a budget is counted: by what each row really pays, or by the most that a stage can cost.
    calibration : "auto" or None, default=None
        "auto": a fifth of the training rows, at most 5,000, is held out to calibrate every stage. None: no rows.
    random_state : int, RandomState or None, default=None
        Seed; the same seed gives the same model.
    n_jobs : int, default=None
        Threads. None: 1; -1: all cores. The result does not depend on it.
    verbose : int, default=0
        Whether progress is printed.

    Attributes
    ----------
    families_ : list of (float, dict)
        From which cost on which kinds answer, with their shares.
    plan_, classes_, n_features_in_, feature_names_in_, stage_costs_, order_, categories_
        As in :class:`AnytimeClassifier`.

    See Also
    --------
    AutoRegressor : The same for numbers.
    AcquisitionClassifier : Decides row by row what to buy next.
    SpeedBoostClassifier : Boosted trees alone, several times faster to train.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("breast_cancer")
    >>> model = at.AutoClassifier(costs=costs, max_stages=4, random_state=0).fit(X, y)
    >>> bool((model.cost(X, budget=40) <= 40).all())
    True
    >>> cost, kinds = model.families_[-1]
    >>> round(sum(kinds.values()), 6)
    1.0
    """


@without("class_weight")
class AutoRegressor(RegressorFace, _Auto):
    """A regressor without a method to choose: the best of several kinds of models at every budget.

    Parameters
    ----------
    costs, kinds, max_stages, budgets, categorical_features, time_budget, budget, meter, random_state, n_jobs, verbose
        As in :class:`AutoClassifier`.

    Attributes
    ----------
    families_, plan_, n_features_in_, feature_names_in_, stage_costs_, order_, categories_
        As in :class:`AutoClassifier`.

    See Also
    --------
    AcquisitionRegressor : Decides row by row what to buy next.
    AutoClassifier : The same for classes.
    SpeedBoostRegressor : Boosted trees alone, which train faster.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("diabetes")
    >>> model = at.AutoRegressor(costs=costs, max_stages=3, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.4)
    True
    """
