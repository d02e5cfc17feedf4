"""The common part of boosted models: reading tables, targets and weights, and building a plan."""

from __future__ import annotations

import copy
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_consistent_length, column_or_1d

from anytime.boosting.learners import TrainingRows
from anytime.boosting.objective import MeanLoss
from anytime.bounded_runs import Budget
from anytime.calibrated import holding_out
from anytime.costs import BoundCosts
from anytime.faces import ClassifierFace, RegressorFace, ValueFace
from anytime.losses import LINKS, Loss, training_loss
from anytime.parameters import shared
from anytime.plan import Array, Plan
from anytime.spreading import announce, read_rows
from anytime.trees.arrays import TreeArrays
from anytime.trees.block import TreeBlock
from anytime.trees.clock import Clock
from anytime.trees.reading import ColumnModel
from anytime.trees.rows import checked_weights, split_rows
from anytime.validation import class_labels, numbered_classes, target_numbers, warn_caller, weighed_by_class

_LONG_QUERY, _PART_OF_QUERY = 200, 100  # rows of a query that is cut, and of its parts
_BEST_GRADE = 60  # of a document; larger powers of 2 would drown all others


@dataclass(frozen=True, eq=False)
class Training:
    """The data, as learners need it."""

    table: TrainingRows
    objective: MeanLoss
    base: Array  # (K,): the best constant scores
    costs: BoundCosts
    # (m,) each: rows to learn from, and to judge on
    train: NDArray[np.intp]
    held: NDArray[np.intp]
    query: NDArray[np.intp] | None  # (n,): rows of a query stay together
    random: np.random.RandomState
    clock: Clock
    earlier: Plan | None = None  # what to continue from

    @property
    def loss(self) -> Loss:
        """The training loss."""
        return self.objective.loss

    def folds(self, most: int) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Up to this many splits into training and validation rows; every row is validated once."""
        unit = np.arange(len(self.table)) if self.query is None else self.query
        n_units = int(unit.max()) + 1
        n_folds = min(most, n_units)
        fold = (self.random.permutation(n_units) % n_folds)[unit]
        return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(n_folds)]


def _parts(query: NDArray[np.intp], random: np.random.RandomState) -> NDArray[np.intp]:
    """(n,) queries, of which the long ones are cut at random: to compare each row with a hundred others is enough.

    Pairs grow with the square of a query's length. Where all rows are one query, all pairs of the table would be compared.
    """
    sizes = np.bincount(query)
    if sizes.max() <= _LONG_QUERY:
        return query
    n_parts = np.where(sizes > _LONG_QUERY, -(-sizes // _PART_OF_QUERY), 1)
    dealt = random.permutation(len(query))
    place = np.empty(len(query), dtype=np.intp)  # of a row among those of its query
    order = dealt[np.argsort(query[dealt], kind="stable")]
    place[order] = np.arange(len(query)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    first = np.cumsum(n_parts) - n_parts
    return np.asarray(first[query] + place % n_parts[query])


def trees_of(plan: Plan, stage: int) -> TreeArrays:
    """The trees of one stage of a plan."""
    number, within = plan.locate(stage)
    block = plan.blocks[number]
    assert isinstance(block, TreeBlock)
    arrays: dict[str, Any] = dict(block.select([within]).forest.arrays())
    return TreeArrays(**{field.name: arrays[field.name] for field in fields(TreeArrays)})


class BoostedModel(ColumnModel):
    """Base of all boosted models."""

    class_weight: Any  # of classifiers
    time_budget: float | None
    min_samples_leaf: int
    # parameters of most; what they are where they are none
    max_bins: int = 255
    validation_fraction: float | None = 0.2
    # what a cluster does for it: "rows" are shared out, or "tasks" run side by side
    _spreads: str | None = None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "loss": [str, Loss],
        **shared("costs", "learning_rate", "max_leaf_nodes", "min_samples_leaf", "l2_regularization"),
        **shared("categorical_features", "evaluation_cost", "time_budget"),
        **shared("class_weight", "budget", "meter", "random_state", "n_jobs", "verbose"),
    }

    @holding_out
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model. If the fit fails, the model stays as it was.

        Parameters
        ----------
        X : (n, d)
            Numbers, with NaN for missing values; columns of a table may be categories.
        y : (n,), or (n, k) for a regressor with several targets
        sample_weight : (n,), default=None
            Rows of weight 0 are ignored.
        """
        return self._fit(X, y, sample_weight)

    def _fit(self, X: Any, y: Any, sample_weight: ArrayLike | None, qid: ArrayLike | None = None) -> Self:
        self._validate_params()
        trained = copy.copy(self)
        training = trained._training(X, y, sample_weight, qid)
        trained._learn(training)
        training.table.end()
        self.__dict__ = trained.__dict__
        return self

    def _learn(self, training: Training) -> None:
        raise NotImplementedError

    def _warn_of_time(self, done: int, asked_for: int, what: str) -> None:
        warn_caller(
            f"time_budget={self.time_budget:g} ended training: the model has {done} of {asked_for} {what}",
        )

    def _least_rows(self, training: Training) -> int:
        """``min_samples_leaf``, but at most a twentieth of the rows, or small tables would have no splits at all."""
        return min(self.min_samples_leaf, max(len(training.table) // 20, 1))

    # ------------------------------------------------------------------ reading the data

    def _training(self, X: Any, y: Any, sample_weight: ArrayLike | None, qid: ArrayLike | None) -> Training:
        clock = Clock(self.time_budget, int(self.verbose))
        earlier = (getattr(self, "plan_", None), getattr(self, "classes_", None))
        X, y, sample_weight = read_rows(self, self._read_rows, X, y, sample_weight)
        y = self._checked_targets(y)
        query = None if qid is None else column_or_1d(qid)
        check_consistent_length(X, y, query)
        weight = None if sample_weight is None else checked_weights(sample_weight, X)
        if getattr(self, "class_weight", None) is not None:
            weight = checked_weights(np.asarray(weighed_by_class(weight, self.class_weight, y)), X)
        if weight is not None and not weight.all():
            present = np.flatnonzero(weight)
            X, y, weight = X[present], y[present], weight[present]
            query = None if query is None else query[present]
            if len(X) < 2:
                raise ValueError("only one row has a weight above 0; learning needs at least 2")
        targets = self._targets(y)
        query = None if query is None else np.unique(query, return_inverse=True)[1]
        if query is not None and not query.any():  # a single query has to be torn, or nothing could be judged
            query = None
        costs = self._bound_costs()
        loss = self._loss(targets)
        random = check_random_state(self.random_state)
        if loss.ranks:
            if not ((targets >= 0) & (targets <= _BEST_GRADE)).all():
                raise ValueError(
                    f"grades must be numbers from 0 to {_BEST_GRADE}, because a grade counts as 2^grade - 1; y has "
                    f"{targets.min():g} to {targets.max():g}"
                )
            parts = _parts(np.zeros(len(targets), dtype=np.intp) if query is None else query, random)
            targets = np.column_stack([targets, parts])
            if query is None and parts.any():
                query = parts
        objective = MeanLoss(loss, targets, weight)
        table = TrainingRows.of(
            X, categorical=sorted(self.columns_.categories), max_bins=self.max_bins, n_threads=self._threads()
        )
        train, held = self._split(X, targets, query, random)
        return Training(
            table=table,
            objective=objective,
            base=loss.base(targets, sample_weight=objective.weight),
            costs=costs,
            train=train,
            held=held,
            query=query,
            random=random,
            clock=clock,
            earlier=self._going_on(costs, loss, *earlier),
        )

    def _going_on(self, costs: BoundCosts, loss: Loss, plan: Plan | None, classes: Any) -> Plan | None:
        """The fitted plan, where training continues from it; another table is refused."""
        if plan is None or not getattr(self, "warm_start", False):
            return None
        same_classes = classes is None or np.array_equal(classes, self.classes_)
        if plan.link != loss.link or not same_classes or plan.n_features != costs.column_group.size:
            raise ValueError(
                "warm_start=True continues on the same table, with the same columns and classes; set it to False to start over"
            )
        if plan.costs.costs != costs.costs:
            raise ValueError("warm_start=True continues with the same costs; set it to False to start over")
        return plan

    def _split(
        self, X: Array, targets: NDArray[Any], query: NDArray[np.intp] | None, random: np.random.RandomState
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows to learn from and to judge on; whole queries where there are some."""
        fraction = self.validation_fraction
        if query is not None:
            drawn = random.permutation(int(query.max()) + 1)
            aside = np.isin(query, drawn[: int((fraction or 0.0) * drawn.size)])
            return np.flatnonzero(~aside), np.flatnonzero(aside)
        strata = targets if isinstance(self, ClassifierFace) else np.zeros(len(X), dtype=np.intp)
        train, held = split_rows(X, strata, fraction, random)
        if held.size < 2:  # nothing can be decided on so few
            return np.arange(len(X)), held[:0]
        return train, held

    # ------------------------------------------------------------------ targets

    def _checked_targets(self, y: Any) -> NDArray[Any]:
        """One target per row, or for a regressor several."""
        if isinstance(self, ClassifierFace):
            return class_labels(y)
        targets = target_numbers(y)
        several = isinstance(self, RegressorFace) and targets.ndim == 2 and targets.shape[1] > 1
        return np.asarray(targets if several else column_or_1d(targets, warn=True))

    def _targets(self, y: NDArray[Any]) -> NDArray[Any]:
        """Targets as losses read them: for a classifier, numbers of classes."""
        if not isinstance(self, ClassifierFace):
            return y
        self.classes_, numbers = numbered_classes(y)
        return numbers

    def _loss(self, targets: NDArray[Any]) -> Loss:
        named = self.loss
        if isinstance(named, str) and named == "auto":
            named = "squared"
            if isinstance(self, ClassifierFace):
                named = "logistic" if len(self.classes_) == 2 else "multinomial"
        loss = training_loss(named)
        kinds = {ClassifierFace: "classifier", RegressorFace: "regressor"}
        kind = next((kind for face, kind in kinds.items() if isinstance(self, face)), "ranker")
        if LINKS[loss.link].classifies != (kind == "classifier") or (loss.ranks and kind != "ranker"):
            raise ValueError(f"the loss {loss.name!r} cannot be used by a {kind}")
        if kind == "classifier" and LINKS[loss.link].binary and len(self.classes_) > 2:
            raise ValueError(f"the loss {loss.name!r} is for 2 classes, but y has {len(self.classes_)}")
        return loss

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if not isinstance(self, ClassifierFace):
            tags.target_tags.multi_output = True
        return tags


class BoostedRanker(ValueFace):
    """Base of rankers: scores order the rows of a query; ``score`` is NDCG."""

    def fit(
        self: Any, X: Any, y: Any, sample_weight: ArrayLike | None = None, qid: ArrayLike | None = None
    ) -> Any:
        """Fit the model to graded rows. If the fit fails, the model stays as it was.

        Parameters
        ----------
        X : (n, d)
        y : (n,)
            Grades: 0 is worst.
        sample_weight : (n,), default=None
            The same for all rows of a query.
        qid : (n,), default=None
            The query of each row; rows are compared within queries. None: one query. In a query of more than 200 rows, training
            compares each row with about 100 others drawn at random.
        """
        announce(self, X)
        return self._fit(X, y, sample_weight, qid)

    def _loss(self: Any, targets: NDArray[Any]) -> Loss:
        if isinstance(self.loss, str) and self.loss == "auto":
            return training_loss("lambdarank")
        return BoostedModel._loss(self, targets)

    def score(
        self: Any,
        X: ArrayLike,
        y: ArrayLike,
        qid: ArrayLike | None = None,
        budget: Budget = None,
        deadline: float | None = None,
        k: int | None = 10,
        *,
        mean_budget: float | None = None,
    ) -> float:
        """NDCG of the first ``k`` within the bounds, mean over queries."""
        # curves stand above the models, so they are met only here, at run time
        ndcg = import_module("anytime.curves.metrics").ndcg
        queries = np.zeros(len(np.asarray(y))) if qid is None else qid
        return float(ndcg(y, self.predict(X, budget, deadline, mean_budget=mean_budget), queries, k=k))
