"""Boosted models on a stream, as estimators: ``partial_fit``, ``learn_one``, and every prefix of learners as a stage.

Streaming gradient boosting: Hu, *Anytime Prediction and Learning for the Balance between Computation and Accuracy*, chapter 5.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import column_or_1d

from anytime.faces import ClassifierFace, RegressorFace
from anytime.losses import LINKS
from anytime.parameters import declared, without
from anytime.plan import Array
from anytime.streaming.class_weights import ClassWeights
from anytime.streaming.estimator import StreamingBoost
from anytime.validation import class_labels, label_numbers, numbered_classes, target_numbers


@declared()
class StreamingBoostClassifier(ClassifierFace, StreamingBoost):
    """Gradient boosting that learns from a stream of rows, in constant memory, and can predict at any moment.

    All learners learn from every row: learner ``i`` from the gradient of the loss at the sum of the learners before it. Each
    prefix of learners is a model and a stage of the plan, at the price of the columns that its learners read.

    Parameters
    ----------
    costs : FeatureCosts, mapping, table, path or sequence, default=None
        Learners that read few columns (``max_features``) make prefixes cheap.
    n_estimators : int, default=100
        More can be added later with ``append``.
    learner : str or StreamLearner, default="hoeffding_tree"
        "hoeffding_tree", "stump", "ridge", "linear", "small_net", or an object of :mod:`anytime.streaming` with
        settings, such as ``HoeffdingTree(max_features="sqrt")``.
    loss : {"auto", "logistic", "hinge", "softmax"} or StreamLoss, default="auto"
        "auto": logistic for two classes, softmax for more.
    learning_rate : float, default=None
        None: 0.2 of the inverse smoothness of the loss, 0.5 of it for several classes; for losses with kinks, ``1 /
        (lambda i)`` for learner ``i``.
    algorithm : {"auto", "smooth", "residual"} or StreamAlgorithm, default="auto"
        How learners are fitted, and how partial sums become answers; :class:`anytime.streaming.StreamAlgorithm` has the details.
        "auto": "smooth" unless the loss has kinks.
    class_weight : dict, "balanced" or None, default=None
        On a stream, frequencies are counted up to and including the row, starting with one row of each class. Labels
        that a dict does not name have weight 1. The progressive error is unweighted.
    batch_size : int, default=1
        Rows per round: all are predicted before any is learned.
    epochs : int, default=1
        How often ``fit`` goes over its rows.
    rehearse : int or "auto", default="auto"
        Number of recent rows that are kept and learned from again, four times each early in the stream and less and less later.
        Errors are measured on new rows only. 0: every row is learned from once. "auto": 500 for Hoeffding trees and stumps, 0
        for other learners.
    drift : {"adwin", "windows"}, Drift or None, default=None
        Detect changes of the distribution, and leave out learners that increase the loss after one.
    standardise : bool or "auto", default="auto"
        Standardise columns by their running means and standard deviations. "auto": for all learners but trees.
    prefix : {"all", "best"}, default="all"
        Whether plans end with the last learner or with the prefix of the lowest recent loss.
    categorical_features : "from_dtype", list of columns or None, default="from_dtype"
        In an array, they hold whole numbers from 0 on. A category is encoded as the mean target of earlier rows that had it.
    time_budget : float, default=None
        The model has learned from the rows processed by then.
    verbose : int, default=0
        1: after every tenth of the rows of ``fit``. Ctrl-C ends ``fit`` with what was learned so far.

    Attributes
    ----------
    plan_ : Plan
        The current learners.
    rows_seen_ : int
    progressive_error_ : float
        Share of wrong classes among all predictions made before learning.
    edges_, prefix_losses_, best_prefix_, n_estimators_, n_alarms_
        Measurements per learner and per prefix, and counts.

    See Also
    --------
    StreamingBoostRegressor : The same for regression.
    GradientBoostingClassifier : For tables that fit into memory.

    Notes
    -----
    ``learn_one`` and ``predict_one`` also take a row as a dictionary, as river's models do. Labels need not be known in advance:
    a new one restarts learning from the last 500 rows. So does a new feature among the first 500 rows; later ones are ignored.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("breast_cancer")
    >>> model = at.StreamingBoostClassifier(costs=costs, n_estimators=20, random_state=0)
    >>> said = model.predict_then_fit(X, y, classes=[0, 1])  # one pass: each row is answered, then learned
    >>> bool((said == y).mean() > 0.8), model.rows_seen_
    (True, 569)
    """

    classes_: NDArray[Any]

    def _class_weights(self) -> ClassWeights | None:
        class_weight = self.class_weight
        if class_weight is None or isinstance(class_weight, str):
            return None if class_weight is None else ClassWeights(len(self.classes_))
        labels = self.classes_.tolist()
        unknown = [label for label in class_weight if label not in labels]
        if unknown and self._open is None:  # rows that come one by one may bring further labels
            raise ValueError(f"class_weight names {unknown[0]!r}, which is not among classes {labels}")
        weights = [float(class_weight.get(label, 1.0)) for label in labels]
        for label, weight in zip(labels, weights, strict=True):
            if not 0 < weight < np.inf:
                raise ValueError(f"class_weight of {label!r} is {weight}; it must be positive and finite")
        return ClassWeights(len(labels), weights)

    def _checked_targets(self, y: Any) -> NDArray[Any]:
        return class_labels(y)

    def _quick_targets(self, y: NDArray[Any]) -> NDArray[Any]:
        return y  # a label that is none of the classes is refused by its name

    def _take_classes(self, y: NDArray[Any], classes: ArrayLike | None) -> None:
        """Labels there will be: those given, else those of ``fit``'s rows."""
        classes_before = getattr(self, "classes_", None)
        labels = np.unique(y if classes is None else np.asarray(classes))
        if classes_before is not None:
            if not np.array_equal(classes_before, labels):
                raise ValueError(
                    f"classes are {labels.tolist()}, but were {classes_before.tolist()} in the first call"
                )
            return
        self.classes_, _ = numbered_classes(labels)
        self._number = {label: c for c, label in enumerate(labels.tolist())}

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
        return label_numbers(y, self.classes_).astype(np.float64)

    def _answers_for(self, scores: Array, method: str) -> NDArray[Any]:
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
        # of one pass over the few rows of scikit-learn's checks
        tags.classifier_tags.poor_score = self.epochs == 1
        return tags


@declared(like=StreamingBoostClassifier)
@without("class_weight")
class StreamingBoostRegressor(RegressorFace, StreamingBoost):
    """Gradient boosting that learns from a stream of rows, in constant memory, and can predict at any moment.

    Parameters
    ----------
    loss : {"auto", "squared", "absolute"} or StreamLoss, default="auto"
        "auto": squared. The target is standardised by its first 100 rows; the answer of no learners is their mean.

    Attributes
    ----------
    progressive_error_ : float
        Root mean square error of all predictions made before learning.
    rows_seen_, edges_, prefix_losses_, best_prefix_, n_estimators_, n_alarms_
        As in :class:`StreamingBoostClassifier`.

    See Also
    --------
    StreamingBoostClassifier : The same for classification.
    GradientBoostingRegressor : For tables that fit into memory.

    Examples
    --------
    >>> import anytime as at
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(2000, 3))
    >>> y = X[:, 0] - 2 * X[:, 1]
    >>> model = at.StreamingBoostRegressor(n_estimators=10, learner="ridge", learning_rate=0.5)
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

    def _answers_for(self, scores: Array, method: str) -> NDArray[Any]:
        if method != "predict":
            raise ValueError(f"a regressor can only predict; there is no {method}")
        return np.asarray(scores[:, 0])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        # of one pass over the few rows of scikit-learn's checks
        tags.regressor_tags.poor_score = self.epochs == 1
        return tags
