"""A rejection cascade that can be stopped at any time: it spends little on rows that are easy to reject.

Each layer is a boosted classifier with its own threshold. Rows that it rejects stay negative; rows that pass go on to the
next, more expensive layer, which is trained on these survivors only (Viola and Jones; the comparator of Grubb, *Anytime
Prediction*, section 6.5.2). A row that no layer has rejected yet counts as positive, so before the first layer all rows do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags

from anytime._compat import Interval
from anytime.boosting.boosted import BoostedModel, Training
from anytime.boosting.candidates import FittedCandidates
from anytime.boosting.learners import TreeLearner
from anytime.boosting.trainer import BoostingRules, MeanLoss, Trainer
from anytime.faces import ClassifierFace
from anytime.losses import Loss, training_loss
from anytime.parameters import declared, store
from anytime.plan import Array, Plan
from anytime.rules import OutsideRule
from anytime.trees.arrays import TreeArrays
from anytime.trees.block import TreeBlock
from anytime.trees.growing import join
from anytime.validation import warn_caller

Mask = NDArray[np.bool_]


@declared()
class CascadeClassifier(ClassifierFace, BoostedModel):
    """A cascade of boosted classifiers, each of which rejects rows; it detects the second of two classes.

    Parameters
    ----------
    class_weight : dict, "balanced" or None, default=None
        With None, each layer gives both classes the same total weight, however many rows remain of them.
    detection_rate : float, default=0.995
        Minimum share of the positives that pass each layer, on held-out rows.
    false_positive_rate : float, default=0.5
        Maximum share of the negatives that pass each layer: a layer grows until it reaches this. If boosting ends before any
        negative can be rejected at this detection rate, the layer ignores the rate if that improves held-out accuracy.
    two_sided : bool, default=False
        Whether layers also accept rows for good, among them at most ``1 - detection_rate`` of their negatives.
    max_stages : int, default=20
        A stage is a layer; there are fewer if no negatives are left, or none can be separated from the positives.
    n_estimators : int, default=50
        Here the maximum per layer.
    max_depth : int or None, default=1
        1: stumps.
    validation_fraction : float or None, default=0.3
        Thresholds are set on these, or on all rows if these are too few.
    evaluation_cost : float, default=0.0
        Here per tree of a layer.

    Attributes
    ----------
    plan_, classes_, n_features_in_, feature_names_in_, stage_costs_, order_, categories_
        As in :class:`AnytimeClassifier`; a stage is a layer.

    See Also
    --------
    AdditiveSpeedBoostClassifier : With filters, a row that was left out may come back.
    LadderClassifier : Cheap models in front of a costly one.

    Notes
    -----
    The score of a row is its margin over the threshold of the last layer that it passed through: positive for survivors. Scores
    of different layers are not comparable.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("breast_cancer")
    >>> cascade = at.CascadeClassifier(costs=costs, random_state=0).fit(X, y)
    >>> bool(cascade.predict(X, budget=0).all())  # nothing is ruled out yet
    True
    >>> bool(cascade.score(X, y) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **BoostedModel._parameter_constraints,
        "detection_rate": [Interval(Real, 0, 1, closed="right")],
        "false_positive_rate": [Interval(Real, 0, 1, closed="neither")],
        "two_sided": ["boolean"],
    }

    def __init__(
        self,
        *,
        costs: Any = None,
        class_weight: Any = None,
        detection_rate: float = 0.995,
        false_positive_rate: float = 0.5,
        two_sided: bool = False,
        max_stages: int = 20,
        n_estimators: int = 50,
        max_depth: int | None = 1,
        min_samples_leaf: int = 1,
        validation_fraction: float | None = 0.3,
        max_bins: int = 255,
        categorical_features: Any = "from_dtype",
        evaluation_cost: float = 0.0,
        time_budget: float | None = None,
        budget: float | None = None,
        meter: str = "model",
        calibration: str | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int | bool = 0,
    ) -> None:
        store(self, locals())

    def _targets(self, y: NDArray[Any]) -> NDArray[Any]:
        targets = super()._targets(y)
        if len(self.classes_) > 2:
            raise ValueError(
                f"Only binary classification is supported. y has {len(self.classes_)} classes, but a cascade "
                "separates the second class from the first"
            )
        return targets

    def _loss(self, targets: NDArray[Any]) -> Loss:
        return training_loss("exponential")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    # ------------------------------------------------------------------ learning

    def _learn(self, training: Training) -> None:
        rows = _Survivors.of(training)
        layers: list[_Layer] = []
        quality = [rows.accuracy]
        try:
            while len(layers) < self.max_stages and rows.are_mixed:
                if layers and training.clock.over:
                    self._warn_of_time(len(layers), self.max_stages, "layers")
                    break
                layer = self._layer(training, rows)
                if layer is None:
                    break
                layers.append(layer)
                quality.append(rows.accuracy)
                training.clock.tell(
                    f"layer {len(layers)} of {layer.n_trees} trees; accuracy {rows.accuracy:.4f}",
                    layer=len(layers),
                    accuracy=rows.accuracy,
                )
        except KeyboardInterrupt:
            if not layers:
                raise
            warn_caller(f"interrupted: the cascade has {len(layers)} layers")
        n_trees = np.array([layer.n_trees for layer in layers], dtype=np.int64)
        self.plan_ = Plan(
            blocks=[TreeBlock(join([t for layer in layers for t in layer.trees], n_trees))] if layers else [],
            costs=training.costs,
            base=np.ones(1),
            link="logistic",
            replaces=np.ones(len(layers), dtype=bool),
            stops={s: OutsideRule(0.0, layer.height) for s, layer in enumerate(layers)},
            evaluation_costs=self.evaluation_cost * n_trees.astype(np.float64)
            if self.evaluation_cost
            else None,
            quality=np.array(quality),
        )

    def _layer(self, training: Training, rows: _Survivors) -> _Layer | None:
        """Boost on the survivors until enough negatives are rejected; None where none can be."""
        trainer = self._trainer(training, rows)
        scores = np.zeros(len(training.table))
        judged = np.flatnonzero(rows.held & rows.alive)
        positive, weight = rows.positive[judged], rows.weight[judged]
        trees: list[TreeArrays] = []
        low, high, passing = -np.inf, np.inf, 1.0
        while len(trees) < self.n_estimators and passing > self.false_positive_rate:
            step = trainer.step()
            if step is None or (trees and training.clock.over):
                break
            weak, size = step.candidate.weak, float(step.weights[0])
            assert weak is not None
            assert isinstance(weak.part, TreeArrays)
            trees.append(replace(weak.part, value=weak.part.value * size))
            scores[rows.alive] += size * weak.on(training.table.X[rows.alive])[:, 0]
            low = _threshold(scores[judged], positive, weight, self.detection_rate)
            passing = float(np.average(scores[judged][~positive] > low, weights=weight[~positive]))
        if trees and passing == 1.0:
            low = -_threshold(-scores[judged], ~positive, weight, 1.0 - self.false_positive_rate)
            right = np.average((scores[judged] > low) == positive, weights=weight)
            if right <= np.average(positive, weights=weight):
                return None
        if not trees:
            return None
        if self.two_sided:
            high = -_threshold(-scores[judged], ~positive, weight, self.detection_rate)
            high = max(high, np.nextafter(low, np.inf))
        rows.decide((scores <= low) | (scores >= high), scores > low)
        first = replace(trees[0], value=trees[0].value - low)
        return _Layer([first, *trees[1:]], float(high - low))

    def _trainer(self, training: Training, rows: _Survivors) -> Trainer:
        """AdaBoost on the survivors; unless ``class_weight`` says otherwise, both classes have the same weight."""
        table, learned = training.table, np.flatnonzero(rows.train & rows.alive)
        positive, weight = rows.positive[learned], rows.weight[learned]
        if self.class_weight is None:
            weight = np.where(positive, weight / weight[positive].sum(), weight / weight[~positive].sum())
        objective = MeanLoss(training.loss, training.objective.y[learned], weight)
        subset = table.rows(learned)
        stump = TreeLearner(
            max_depth=self.max_depth,
            min_samples_leaf=self.min_samples_leaf,
            leaf="vote",
            n_threads=self._threads(),
        )
        candidates = FittedCandidates([stump], subset, objective.weight, training.costs, step_cost=1.0)
        return Trainer(objective, candidates, BoostingRules(cost_aware=False))


@dataclass(frozen=True, eq=False)
class _Layer:
    """Trees whose sum is positive for rows that pass, and not below ``height`` for rows that are accepted."""

    trees: list[TreeArrays]
    height: float

    @property
    def n_trees(self) -> int:
        return len(self.trees)


@dataclass(eq=False)
class _Survivors:
    """Rows that are still undecided, among those to learn from and those to set thresholds on."""

    positive: Mask  # (n,)
    weight: Array  # (n,)
    train: Mask  # (n,)
    held: Mask  # (n,)
    alive: Mask  # (n,)
    answer: Mask  # (n,): what the cascade says now

    @classmethod
    def of(cls, training: Training) -> _Survivors:
        positive = np.asarray(training.objective.y == 1)
        train, held = np.zeros((2, positive.size), dtype=bool)
        train[training.train] = True
        held[training.held] = True
        if not positive[held].any() or positive[held].all():  # too few to set anything on
            train[:] = held[:] = True
        everyone = np.ones(positive.size, dtype=bool)
        return cls(positive, training.objective.weight, train, held, everyone, everyone.copy())

    @property
    def are_mixed(self) -> bool:
        """Whether there are undecided rows of both classes, to learn from and to judge on."""
        return all(
            (kind & part & self.alive).any()
            for kind in (self.positive, ~self.positive)
            for part in (self.train, self.held)
        )

    @property
    def accuracy(self) -> float:
        """On the held-out rows."""
        right = self.answer == self.positive
        return float(np.average(right[self.held], weights=self.weight[self.held]))

    def decide(self, decided: Mask, positive: Mask) -> None:
        """Some of the undecided rows are decided; of all of them it is known anew what the cascade says."""
        self.answer = np.where(self.alive, positive, self.answer)
        self.alive = self.alive & ~decided


def _threshold(scores: Array, kept: Mask, weight: Array, rate: float) -> float:
    """The highest threshold with at least ``rate`` of the weight of the ``kept`` above it, half-way down to the next score."""
    order = np.argsort(scores[kept], kind="stable")
    values, weight = scores[kept][order], weight[kept][order]
    lost = np.cumsum(weight)
    last = values[np.searchsorted(lost, (1.0 - rate) * lost[-1] * (1 + 1e-12), side="right")]
    lower = scores[scores < last - 1e-9 * (1.0 + abs(last))]
    return float((lower.max() + last) / 2 if lower.size else last - 1.0)
