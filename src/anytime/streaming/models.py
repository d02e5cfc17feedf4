"""Boosted models on a stream, as estimators: ``partial_fit``, ``learn_one``, and every prefix of learners a stage.

Streaming gradient boosting: Hu, *Anytime Prediction and Learning for the Balance between Computation and Accuracy*, chapter 5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from anytime.estimator import ClassifierFace, RegressorFace
from anytime.losses import LINKS
from anytime.plan import Array
from anytime.streaming.estimator import StreamingBoost
from anytime.validation import target_numbers

if TYPE_CHECKING:
    from sklearn.utils import Tags

__all__ = ["StreamingBoostClassifier", "StreamingBoostRegressor"]


class StreamingBoostClassifier(ClassifierFace, StreamingBoost):
    """Gradient boosting that learns from a stream of rows, in constant memory, and can be read at any moment.

    All learners learn from every row: learner ``i`` from the gradient of the loss at the sum of those before it. A prefix of
    learners is a model of its own and a stage of the plan, whose price is that of the columns its learners read.

    Parameters
    ----------
    costs : FeatureCosts, mapping, table, path or sequence, default=None
        What columns cost. None: 1 per column. Learners that may read few columns (``max_features``) make prefixes cheap.
    n_learners : int, default=100
        More can be added later with ``append``.
    learner : str or Learner, default="hoeffding_tree"
        "hoeffding_tree", "stump", "ftrl_tree", "ridge", "linear", "small_net", or an object of :mod:`anytime.streaming` with
        settings, such as ``HoeffdingTree(max_features="sqrt")``.
    loss : {"auto", "logistic", "hinge", "softmax"} or StreamLoss, default="auto"
        "auto": logistic for two classes, softmax for more.
    rho : float, default=0.001
        Weight of the squared length of scores in the loss, which makes it strongly convex. Squared loss needs none.
    algorithm : {"auto", "smooth", "residual"}, default="auto"
        Learners are fitted to gradients ("smooth", Algorithm 6), or to gradients and what those before left unfitted ("residual",
        Algorithm 7, for losses with kinks). "auto": by the loss.
    learning_rate : float, default=None
        The step. None: 0.2 of the inverse smoothness of the loss, 0.5 of it for several classes, and ``1 / (lambda i)`` for
        "residual".
    max_step : float, "auto" or None, default="auto"
        No step is longer. "auto": none for "smooth", and 1 for "residual", whose theorem holds with None only.
    projection : Box, Ball, "auto" or None, default="auto"
        Where partial sums are kept. "auto": none for "smooth"; for "residual" log-odds up to 10, or 5 deviations of a target.
    averaging : {"auto", "last", "theory", "post", "all"}, default="auto"
        Of which partial sums the answer is the mean. "auto": "last" for "smooth", "post" (all but the first) for "residual".
    average : {"last", "params", "reservoir", "tail"}, default="last"
        Which of its past a learner is read with: as it is, or averaged over the stream where it can be.
    gate : {"skip", "shrink"} or None, default="shrink"
        Shrink learners to the multiple that would have fitted their targets best of late, or leave out those that do harm. The
        theorems are for None; with it, early learners may throw the sum far off before they have learned.
    warm_up : int, default=0
        Learner ``i`` counts after ``warm_up * i`` rows only.
    combiner : {"gd", "nesterov"}, default="gd"
    batch_size : int, default=1
        Rows of a round: all are answered before any is learned.
    n_passes : int, default=1
        Of ``fit`` over its rows.
    rehearse : int or "auto", default="auto"
        Keep so many of the last rows and learn from them again, each four times while the stream is young and ever less later.
        Nothing is measured on rows learned from again. 0: every row is learned from once. "auto": 500 for Hoeffding trees and
        stumps, 0 for other learners.
    drift : {"adwin", "windows"}, Drift or None, default=None
        Watch for changes of the distribution, and take out learners that do harm after one.
    standardise : bool or "auto", default="auto"
        Standardise columns by their running means and deviations. "auto": for learners that are no trees.
    scale_rows : int, default=100
        A regressor's target is standardised by these first rows.
    prefix : {"all", "best"}, default="all"
        Whether plans end with the last learner or with the best prefix of late.
    record : bool, default=False
        Keep what ``certificate`` needs. Slower.
    categorical_features : "from_dtype", list of columns or None, default="from_dtype"
        Columns of categories. In a table, those that are not numbers are; in an array, name those, which hold whole numbers from
        0 on. Categories are read as the mean target of earlier rows that had them.
    learner_cost : float, default=0.0
        Cost of evaluating a learner, features apart.
    time_budget : float, default=None
        Seconds that ``fit`` may take: the model has learned from the rows that were passed by then.
    budget, meter
        As in :class:`AnytimeClassifier`.
    random_state : int, RandomState or None, default=None
    n_jobs : int, default=None
        Threads. The result does not depend on it.
    verbose : int, default=0
        1: ``fit`` tells of every tenth of its rows. Ctrl-C ends it with what was learned so far.

    Attributes
    ----------
    plan_ : Plan
        The learners as they are now.
    classes_ : (C,) array
    rows_seen_ : int
    progressive_error_ : float
        Share of wrong classes among all predictions made before learning.
    edges_, prefix_losses_, best_prefix_, n_learners_, n_alarms_
        Of every learner, of every prefix, and counts.
    n_features_in_, feature_names_in_, stage_costs_, order_, categories_
        As in :class:`AnytimeClassifier`.

    Notes
    -----
    ``learn_one`` and ``predict_one`` also take a row as a dictionary, as river's models do. Labels need not be known then: a
    further one begins learning anew from the last 500 rows. So does a further feature among the first 500 rows; later ones are
    ignored.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("breast_cancer")
    >>> model = at.StreamingBoostClassifier(costs=costs, n_learners=20, random_state=0)
    >>> said = model.predict_then_fit(X, y, classes=[0, 1])  # one pass: each row is answered, then learned
    >>> bool((said == y).mean() > 0.8), model.rows_seen_
    (True, 569)
    """

    classes_: NDArray[Any]

    def _checked_targets(self, y: Any) -> NDArray[Any]:
        y = column_or_1d(y, warn=True)
        if y.dtype == object:
            absent = [row for row, label in enumerate(y) if label is None or label != label]
            if absent:
                raise ValueError(f"y is missing in {len(absent)} rows, first in row {absent[0]}")
        check_classification_targets(y)
        return np.asarray(y)

    def _quick_targets(self, y: NDArray[Any]) -> NDArray[Any]:
        return y  # a label that is none of the classes is refused by its name

    def _take_classes(self, y: NDArray[Any], classes: ArrayLike | None) -> None:
        """Labels there will be: those given, else those of ``fit``'s rows."""
        known = getattr(self, "classes_", None)
        found = np.unique(y if classes is None else np.asarray(classes))
        if known is not None:
            if not np.array_equal(known, found):
                raise ValueError(f"classes are {found.tolist()}, but were {known.tolist()} in the first call")
            return
        if len(found) < 2:
            raise ValueError("y has one class only; a classifier needs at least 2 classes")
        self.classes_ = found
        self._number = {label: c for c, label in enumerate(found.tolist())}

    def _first_rows(
        self, X: Any, y: Any, sample_weight: Any, classes: Any, *, keep_absent: bool = False
    ) -> Any:
        if keep_absent and classes is None:
            raise ValueError(
                "classes are needed in the first call of partial_fit: all labels there will be, as in "
                "partial_fit(X, y, classes=[0, 1])"
            )
        return super()._first_rows(X, y, sample_weight, classes, keep_absent=keep_absent)

    def _targets(self, y: NDArray[Any]) -> NDArray[Any]:
        """(n,) numbers of classes, as floats."""
        try:
            return np.array([self._number[label] for label in y.tolist()], dtype=np.float64)
        except KeyError as error:
            raise ValueError(
                f"y holds the label {error.args[0]!r}, which is not among classes {self.classes_.tolist()}"
            ) from None

    def _said(self, scores: Array, method: str) -> NDArray[Any]:
        binary = scores.shape[1] == 1
        if method == "predict":
            leading = (scores[:, 0] > 0).astype(np.intp) if binary else scores.argmax(axis=1)
            return np.asarray(self.classes_[leading])
        if method == "predict_proba":
            return LINKS[self._learnt.boosting.loss.link].transform(scores)
        if method == "decision_function":
            return scores[:, 0] if binary else scores
        raise ValueError(f"method must be 'predict', 'predict_proba' or 'decision_function', not {method!r}")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = (
            self.n_passes == 1
        )  # of one pass over the few rows of scikit-learn's checks
        return tags


class StreamingBoostRegressor(RegressorFace, StreamingBoost):
    """Gradient boosting that learns from a stream of rows, in constant memory, and can be read at any moment.

    Parameters
    ----------
    loss : {"auto", "squared", "absolute"} or StreamLoss, default="auto"
        "auto": squared.
    scale_rows : int, default=100
        The target is standardised by mean and deviation of these first rows; the answer of no learners is their mean.
    costs, n_learners, learner, rho, algorithm, learning_rate, max_step, projection, averaging, average, gate, warm_up, combiner
        As in :class:`StreamingBoostClassifier`.
    batch_size, n_passes, rehearse, drift, standardise, prefix, record, categorical_features, learner_cost, time_budget
        As in :class:`StreamingBoostClassifier`.
    budget, meter, random_state, n_jobs, verbose
        As in :class:`StreamingBoostClassifier`.

    Attributes
    ----------
    progressive_error_ : float
        Root mean square error of all predictions made before learning.
    plan_, rows_seen_, edges_, prefix_losses_, best_prefix_, n_learners_, n_alarms_
        As in :class:`StreamingBoostClassifier`.
    n_features_in_, feature_names_in_, stage_costs_, order_, categories_
        As in :class:`AnytimeRegressor`.

    Examples
    --------
    >>> import anytime as at
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(2000, 3))
    >>> y = X[:, 0] - 2 * X[:, 1]
    >>> model = at.StreamingBoostRegressor(n_learners=10, learner="ridge", learning_rate=0.5)
    >>> model = model.partial_fit(X[:1000], y[:1000])
    >>> before = model.predict_then_fit(X[1000:], y[1000:])  # each row is answered, then learned
    >>> bool(np.abs(before - y[1000:]).mean() < 0.05 * y.std())
    True
    """

    def _checked_targets(self, y: Any) -> NDArray[Any]:
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        targets = target_numbers(y)
        return np.asarray(column_or_1d(targets, warn=True))

    def _quick_targets(self, y: NDArray[Any]) -> NDArray[Any]:
        y = y.astype(np.float64, copy=False)
        if not np.isfinite(y).all():
            raise ValueError("y contains NaN or infinity")
        return y

    def _take_classes(self, y: NDArray[Any], classes: ArrayLike | None) -> None:
        if classes is not None:
            raise ValueError("a regressor has no classes")

    def _targets(self, y: NDArray[Any]) -> NDArray[Any]:
        return y

    def _said(self, scores: Array, method: str) -> NDArray[Any]:
        if method != "predict":
            raise ValueError(f"a regressor can only predict; there is no {method}")
        return np.asarray(scores[:, 0])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = (
            self.n_passes == 1
        )  # of one pass over the few rows of scikit-learn's checks
        return tags
