"""The estimator: an additive classifier that chooses purchases by the margins of neighbours."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.model_selection import train_test_split
from sklearn.svm import LinearSVC
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_consistent_length, has_fit_parameter

from anytime._compat import Interval, StrOptions
from anytime.acquisition.additive import AdditiveClassifier, LinearTerms, as_additive
from anytime.acquisition.margin_block import ACQUISITIONS, DISTANCES, NEIGHBOURHOODS, MarginBlock, scaling
from anytime.boosting import GradientBoostingClassifier
from anytime.calibrated import holding_out
from anytime.costs import BoundCosts, FeatureCosts
from anytime.estimator import AnytimeModel
from anytime.faces import ClassifierFace
from anytime.parameters import declared, shared, store
from anytime.plan import Array, Plan
from anytime.validation import class_labels, is_fitted, numbered_classes, validated, weighed_by_class

_STUMPS: dict[str, Any] = {
    "n_estimators": 1000,
    "max_leaf_nodes": 2,
    "learning_rate": 0.1,
    "min_samples_leaf": 5,
}
_WORTH_OF_ALL = 0.1  # accuracy that all groups together have to bring
_CHUNK = 512  # rows whose purchases are followed together


@dataclass(frozen=True, eq=False)
class MarginTrace:
    """The purchases of each row, and the answer after each. Rows that stop buying repeat their last values.

    Attributes
    ----------
    names : tuple of str
        Groups.
    groups : (n, T) int
        The group chosen for each purchase, -1 for none. Its requirements are bought with it.
    cost : (n, T)
        Cumulative cost.
    estimate : (n, T)
        Estimated accuracy: the share of neighbours on the right side after the purchase.
    labels : (n, T)
        The answer after the purchase.
    """

    names: tuple[str, ...]
    groups: NDArray[np.int32]
    cost: Array
    estimate: Array
    labels: NDArray[Any]

    def order(self, row: int) -> list[str]:
        """Names of the groups that a row chose, in the order of purchase."""
        return [self.names[g] for g in self.groups[row] if g >= 0]

    @property
    def purchases(self) -> NDArray[np.int64]:
        """(n,) number of purchases of each row."""
        return np.asarray((self.groups >= 0).sum(axis=1))


@declared()
class MarginAcquisitionClassifier(ClassifierFace, AnytimeModel):
    """Buys one group at a time for each row: the one that puts most of its neighbours on the right side of a classifier.

    Fast margin-based cost-sensitive classification (Nan, *Learning to predict under a budget*, chapter 2), for two classes. The
    classifier is a sum over columns, in which unbought columns count as 0. The neighbours of a row are close to it in the values
    seen so far. The next group maximises the share of neighbours with a positive margin minus ``cost_penalty`` times its price.
    A row that cannot pay for it stops, even if a cheaper group would still fit its budget.

    Parameters
    ----------
    classifier : None, "stumps", estimator or AdditiveClassifier, default=None
        None: a linear support vector machine on standardised columns, in which an unknown column counts as its mean.
        "stumps": 1000 boosted stumps. An estimator: a linear model, boosted stumps, or a pipeline of a scaler and a linear model;
        a fitted one is used as it is.
    cost_penalty : float or "auto", default="auto"
        Here the loss is the share of neighbours on the wrong side. 0: prices do not affect the choice. "auto": the
        penalty of all groups together is 0.1; if all prices are equal, the choice does not depend on it.
    class_weight : dict, "balanced" or None, default=None
        They apply to training the classifier; neighbours have equal weights.
    confidence : float, default=None
        A row stops buying once its estimated accuracy exceeds this. None: rows buy as long as the budget lasts.
    neighbourhood : {"nearest", "radius", "exact"}, default="nearest"
        Neighbours are the ``n_neighbors`` nearest, all within ``radius``, or those with the same values; if there are none,
        the nearest.
    radius : float, default=1
        Distance up to which rows are neighbours, by ``distance``. Only with ``neighbourhood="radius"``.
    refresh : bool, default=True
        Whether to estimate the accuracy after a purchase on new neighbours. False: on those that chose the purchase.
    reference : "train" or float, default="train"
        Rows that can be neighbours: the training rows of the classifier, or a held-out share of the rows, which makes estimates
        unbiased. All rows, if the classifier is already fitted.
    distance : {"standardised", "raw", "contributions"}, default="standardised"
        Distance between standardised columns, between raw columns, or between their contributions to the score.
    acquisition : {"margin", "random"}, default="margin"
        "random" draws groups at random, as a baseline.
    meter : {"realised", "model"}, default="realised"
        By the latter the second purchase costs as much as everything.
    random_state : int, RandomState or None, default=None
        It draws held-out rows and random purchases, and trains the classifier.

    Attributes
    ----------
    classifier_ : AdditiveClassifier
        The sum over columns. ``predict`` without a budget and without ``confidence`` gives its labels.
    plan_, classes_, n_features_in_, feature_names_in_, stage_costs_, order_
        As in :class:`AnytimeClassifier`; stage t is a row's t-th purchase.

    See Also
    --------
    AcquisitionClassifier : For any data, without a linear classifier.
    GroupPursuitClassifier : A linear model with one order for all rows.

    Examples
    --------
    >>> import anytime as at
    >>> from anytime.acquisition import MarginAcquisitionClassifier
    >>> X, y, costs = at.datasets.load("breast_cancer")
    >>> model = MarginAcquisitionClassifier(costs=costs, confidence=0.97, random_state=0).fit(X, y)
    >>> trace = model.trace(X)
    >>> bool(model.score(X, y) > 0.9), bool(trace.purchases.mean() < 8)
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "cost_penalty": [*shared("cost_penalty")["cost_penalty"], StrOptions({"auto"})],
        "confidence": [Interval(Real, 0, 1, closed="both"), None],
        "neighbourhood": [StrOptions(set(NEIGHBOURHOODS))],
        "radius": [Interval(Real, 0, None, closed="left")],
        "refresh": ["boolean"],
        "reference": [StrOptions({"train"}), Interval(Real, 0, 1, closed="neither")],
        "distance": [StrOptions(set(DISTANCES))],
        "acquisition": [StrOptions(set(ACQUISITIONS))],
    }
    _block_class: ClassVar[type[MarginBlock]] = MarginBlock
    _most_measured: ClassVar[int] = 250  # reference rows on which the mean cost of stages is measured

    def __init__(
        self,
        classifier: Any = None,
        *,
        costs: Any = None,
        cost_penalty: float | str = "auto",
        class_weight: dict[Any, float] | str | None = None,
        confidence: float | None = None,
        neighbourhood: str = "nearest",
        n_neighbors: int = 65,
        radius: float = 1.0,
        refresh: bool = True,
        reference: str | float = "train",
        distance: str = "standardised",
        acquisition: str = "margin",
        budget: float | None = None,
        meter: str = "realised",
        calibration: str | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        store(self, locals())

    # ------------------------------------------------------------------ learning

    @holding_out
    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train the classifier, unless it is fitted, and store the rows that can be neighbours.

        Parameters
        ----------
        X : (n, d)
            NaN for missing values.
        y : (n,)
            Labels of two classes.
        """
        self._validate_params()
        X = np.asarray(validated(self, X, dtype=np.float64, order="C", ensure_all_finite="allow-nan"))
        positive = self._targets(y, len(X))
        random = check_random_state(self.random_state)
        bound = self._bound_costs()
        learned, kept = self._parts(positive, random)
        self.classifier_ = self._trained(X[learned], positive[learned], random)
        if self.classifier_.n_features != X.shape[1]:
            raise ValueError(
                f"the classifier is for {self.classifier_.n_features} columns, but X has {X.shape[1]}"
            )
        self.plan_ = self._planned(X[kept], positive[kept], bound, int(random.randint(2**31)))
        return self

    def _targets(self, y: Any, n_rows: int) -> NDArray[np.bool_]:
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        labels = class_labels(y)
        check_consistent_length(labels, np.empty(n_rows))
        self.classes_, numbers = numbered_classes(labels)
        if len(self.classes_) > 2:
            raise ValueError(f"Only binary classification is supported. y has {len(self.classes_)} classes")
        return np.asarray(numbers == 1)

    def _parts(
        self, positive: NDArray[np.bool_], random: np.random.RandomState
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows to learn from, and rows to be neighbours."""
        rows = np.arange(positive.size)
        if self.reference == "train" or self._is_fitted():
            return rows, rows
        try:
            learned, kept = train_test_split(
                rows, test_size=self.reference, stratify=positive, random_state=random
            )
        except ValueError as error:
            raise ValueError(f"reference={self.reference} of {rows.size} rows: {error}") from None
        return np.sort(learned), np.sort(kept)

    def _is_fitted(self) -> bool:
        if isinstance(self.classifier, AdditiveClassifier):
            return True
        return (
            self.classifier is not None
            and not isinstance(self.classifier, str)
            and is_fitted(self.classifier)
        )

    def _trained(
        self, X: Array, positive: NDArray[np.bool_], random: np.random.RandomState
    ) -> AdditiveClassifier:
        labels = self.classes_[positive.astype(int)]
        weight = weighed_by_class(None, self.class_weight, labels)
        if self.classifier is None:
            return _linear_svm(X, positive, weight, random)
        if isinstance(self.classifier, str):
            if self.classifier != "stumps":
                raise ValueError(
                    f"classifier must be None, 'stumps' or an estimator, not {self.classifier!r}"
                )
            classifier: Any = GradientBoostingClassifier(**_STUMPS, random_state=random, n_jobs=self.n_jobs)
        elif self._is_fitted():
            if weight is not None:
                raise ValueError(
                    "class_weight has no effect on a fitted classifier; leave it out, or pass an unfitted one"
                )
            trained = getattr(self.classifier, "classes_", self.classes_)
            if not np.array_equal(trained, self.classes_):
                raise ValueError(
                    f"the classifier was trained on the classes {np.asarray(trained).tolist()}, but y "
                    f"has {self.classes_.tolist()}"
                )
            return as_additive(self.classifier)
        else:
            classifier = clone(self.classifier)
        if weight is not None and not has_fit_parameter(classifier, "sample_weight"):
            raise ValueError(
                f"class_weight needs a classifier that takes sample_weight; {classifier!r} does not"
            )
        return as_additive(classifier.fit(X, labels, **({} if weight is None else {"sample_weight": weight})))

    def _exchange(self, costs: FeatureCosts) -> float:
        """Accuracy for a unit of cost."""
        if self.cost_penalty != "auto":
            return float(self.cost_penalty)
        return _WORTH_OF_ALL / costs.total if costs.total else 0.0

    def _planned(self, X: Array, positive: NDArray[np.bool_], bound: BoundCosts, seed: int) -> Plan:
        block = self._block_class(
            self.classifier_,
            X,
            positive,
            bound,
            cost_penalty=self._exchange(bound.costs),
            confidence=self.confidence,
            neighbourhood=self.neighbourhood,
            n_neighbors=self.n_neighbors,
            radius=self.radius,
            refresh=self.refresh,
            distance=self.distance,
            acquisition=self.acquisition,
            seed=seed,
            n_threads=self._threads(),
        )
        measured = np.unique(np.linspace(0, len(X) - 1, self._most_measured).astype(int))
        paid = _followed(block, X[measured])[1]
        return Plan(
            blocks=[block] if block.n_stages else [],
            costs=bound,
            base=np.array([self.classifier_.offset or block.undecided]),
            link="logistic",
            replaces=np.ones(block.n_stages, dtype=bool),
            expected_costs=bound.costs.amounts(paid.mean(axis=0)),
        )

    def _without_stops(self, plan: Plan) -> Plan:
        blocks = [block.changed(confidence=None) for block in plan.blocks]  # type: ignore[attr-defined]
        return replace(plan, blocks=blocks, stops={})

    # ------------------------------------------------------------------ looking on

    def trace(self, X: ArrayLike) -> MarginTrace:
        """The purchases of each row without a budget, with the estimated accuracy and the answer after each."""
        X = self._checked(X)
        groups, paid, estimate, scores = _followed(self._block(), X)
        labels = self._decide(scores.reshape(-1, 1)).reshape(scores.shape)
        return MarginTrace(self.costs_.names, groups, self.costs_.amounts(paid), estimate, labels)

    def _block(self) -> MarginBlock:
        for block in self.plan_.blocks:
            assert isinstance(block, MarginBlock)
            return block
        raise ValueError("this model buys nothing: no column changes its score")

    # ------------------------------------------------------------------ files and conventions

    def _restore_file_state(self, state: Any) -> None:
        self.classifier_ = LinearTerms(float(self.plan_.base[0]), np.zeros(self.n_features_in_))
        for block in self.plan_.blocks:
            if not isinstance(block, MarginBlock):
                raise ValueError(f"a {type(block).__name__} buys nothing by margins")
            self.classifier_, block.n_threads = block.classifier, self._threads()

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _linear_svm(
    X: Array, positive: NDArray[np.bool_], weight: Array | None, random: np.random.RandomState
) -> LinearTerms:
    """A linear support vector machine on standardised columns; missing values count as the mean."""
    mean, deviation = scaling(X)
    machine = LinearSVC(random_state=random, dual="auto", max_iter=10_000)
    machine.fit(np.where(np.isnan(X), 0.0, (X - mean) / deviation), positive, sample_weight=weight)
    return LinearTerms(float(machine.intercept_[0]), machine.coef_[0] / deviation, mean)


def _followed(block: MarginBlock, X: Array) -> tuple[NDArray[np.int32], NDArray[np.int64], Array, Array]:
    """Groups chosen, ticks paid, estimates and scores after every purchase, (n, T) each."""
    shape = len(X), block.n_stages
    groups, paid = np.full(shape, -1, dtype=np.int32), np.zeros(shape, dtype=np.int64)
    estimate, scores = np.zeros(shape), np.zeros(shape)
    for at in range(0, len(X), _CHUNK):
        rows = slice(at, at + _CHUNK)
        part = np.ascontiguousarray(X[rows])
        memory = block.remember(len(part))
        for t in range(block.n_stages):
            block.choose(part, memory)
            groups[rows, t] = np.maximum(memory["next"], -1)
            scores[rows, t] = block.proceed(t, t, part, memory)[:, 0]
            paid[rows, t] = block.bought(memory) @ block.costs.prices
            block.choose(part, memory)
            estimate[rows, t] = memory["estimate"]
    return groups, paid, estimate, scores
