"""The estimator: an additive classifier that buys for each row what its neighbours' margins speak for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import train_test_split
from sklearn.svm import LinearSVC
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_consistent_length, check_is_fitted, has_fit_parameter

from anytime._compat import Interval, StrOptions
from anytime.acquisition.additive import AdditiveClassifier, LinearTerms, as_additive
from anytime.acquisition.margin_block import ACQUISITIONS, DISTANCES, NEIGHBOURHOODS, MarginBlock, scaling
from anytime.boosting import GradientBoostingClassifier
from anytime.calibrated import holding_out
from anytime.costs import BoundCosts, FeatureCosts
from anytime.estimator import AnytimeModel, ClassifierFace
from anytime.parameters import shared, store
from anytime.plan import Array, Plan
from anytime.validation import class_labels, numbered_classes, validated, weighed_by_class

if TYPE_CHECKING:
    from sklearn.utils import Tags

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
    """What rows bought, and what was known after each purchase. A row that buys no more keeps what it has.

    Attributes
    ----------
    names : tuple of str
        Groups.
    groups : (n, T) int
        The group chosen for each purchase, -1 where there was none. What it requires is bought with it.
    cost : (n, T)
        Paid by then.
    estimate : (n, T)
        Estimated accuracy: the share of neighbours that such a purchase leaves on the right side.
    labels : (n, T)
        The answer by then.
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
        """(n,) how many each row made."""
        return np.asarray((self.groups >= 0).sum(axis=1))


class MarginAcquisitionClassifier(ClassifierFace, AnytimeModel):
    """Buys for each row, one at a time, the group that puts most rows like it on the right side of a given classifier.

    Fast margin-based cost-sensitive classification (Nan, *Learning to predict under a budget*, chapter 2), for two classes. The
    classifier is a sum over columns; what is not bought counts 0 in it. Neighbours of a row are rows that look like it on what
    it has. The next group is the one with which most neighbours have a positive margin, less ``cost_penalty`` times its price.
    A row that cannot pay for it stops there, even where a cheaper group would still fit its budget.

    Parameters
    ----------
    classifier : None, "stumps", estimator or AdditiveClassifier, default=None
        None: a linear support vector machine on standardised columns, in which a column that is not known counts as its mean.
        "stumps": 1000 boosted stumps. An estimator: a linear model, boosted stumps, or a pipeline of a scaler and a linear model;
        a fitted one is used as it is.
    costs : FeatureCosts, mapping, table, path or sequence, default=None
        What columns cost. None: 1 per column.
    cost_penalty : float or "auto", default="auto"
        Loss that one unit of cost must save to be spent. Here the loss is the share of neighbours on the wrong side. 0: prices do
        not count in the choice. "auto": all groups together weigh 0.1; where all cost the same, the choice does not depend on it.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes. "balanced": inversely proportional to how often they occur. None: 1 each. They count in training
        the classifier; neighbours count once each.
    confidence : float, default=None
        A row whose estimated accuracy is above this buys nothing more. None: rows go on as long as the budget lasts.
    neighbourhood : {"nearest", "radius", "exact"}, default="nearest"
        Neighbours are the ``n_neighbours`` nearest, all within ``radius``, or those with the same values; where there are none,
        the nearest.
    n_neighbours : int, default=65
    radius : float, default=1
    refresh : bool, default=True
        Estimate a row's accuracy after a purchase on neighbours found anew. False: on those by which the purchase was chosen.
    reference : "train" or float, default="train"
        Rows among which neighbours are looked for: those that the classifier learned from, or a share of the rows that are held
        out for it, which makes estimates unbiased. All rows, where the classifier is fitted already.
    distance : {"standardised", "raw", "contributions"}, default="standardised"
        Between columns in units of their deviation, as they are, or between their contributions to the score.
    acquisition : {"margin", "random"}, default="margin"
        "random" draws groups at random, to compare with.
    budget, n_jobs
        As in :class:`AnytimeClassifier`.
    meter : {"realised", "model"}, default="realised"
        How a budget is counted: by what each row really pays, or by the most that a stage can cost. By the latter the
        second purchase costs as much as everything.
    calibration : "auto" or None, default=None
        "auto": a fifth of the training rows, at most 5,000, is held out to calibrate every stage. None: none are.
    random_state : int, RandomState or None, default=None
        Seed; the same seed gives the same model. It draws held-out rows and random purchases, and trains the classifier.

    Attributes
    ----------
    classifier_ : AdditiveClassifier
        The sum over columns. ``predict`` without a budget and without ``confidence`` gives its labels.
    plan_, classes_, n_features_in_, feature_names_in_, stage_costs_, order_
        As in :class:`AnytimeClassifier`; stage t is a row's t-th purchase.

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
        **shared("costs", "budget", "meter", "class_weight", "calibration", "random_state", "n_jobs"),
        "cost_penalty": [*shared("cost_penalty")["cost_penalty"], StrOptions({"auto"})],
        "confidence": [Interval(Real, 0, 1, closed="both"), None],
        "neighbourhood": [StrOptions(set(NEIGHBOURHOODS))],
        "n_neighbours": [Interval(Integral, 1, None, closed="left")],
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
        n_neighbours: int = 65,
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
        """Train the classifier, unless it is fitted, and keep the rows that will be neighbours.

        Parameters
        ----------
        X : (n, d)
            NaN where a value is missing.
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
            raise ValueError(
                f"Only binary classification is supported. y has {len(self.classes_)} classes, but a margin is between two"
            )
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
        if self.classifier is None or isinstance(self.classifier, str):
            return False
        try:
            check_is_fitted(self.classifier)
        except (NotFittedError, TypeError):
            return False
        return True

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
            given: Any = GradientBoostingClassifier(**_STUMPS, random_state=random, n_jobs=self.n_jobs)
        elif self._is_fitted():
            if weight is not None:
                raise ValueError("class_weight counts in training, but the classifier is fitted already")
            known = getattr(self.classifier, "classes_", self.classes_)
            if not np.array_equal(known, self.classes_):
                raise ValueError(
                    f"the classifier knows the classes {np.asarray(known).tolist()}, but y has {self.classes_.tolist()}"
                )
            return as_additive(self.classifier)
        else:
            given = clone(self.classifier)
        if weight is not None and not has_fit_parameter(given, "sample_weight"):
            raise ValueError(f"class_weight needs a classifier that takes sample_weight; {given!r} does not")
        return as_additive(given.fit(X, labels, **({} if weight is None else {"sample_weight": weight})))

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
            n_neighbours=self.n_neighbours,
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
        """What each row buys with all the money in the world, with the estimate and the answer after each purchase."""
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
