"""The questions that classifiers and regressors answer: ``predict``, ``predict_proba``, ``decision_function``, ``score``."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.metrics import accuracy_score, r2_score

from anytime.bounded_runs import Amount, Budget
from anytime.calibrated import Intervals, LabelSets
from anytime.losses import LINKS, least_cost
from anytime.parameters import KeywordsChecked
from anytime.plan import Array

__all__ = ["ClassifierFace", "RegressorFace", "ValueFace"]


class _ScoreFace(KeywordsChecked):
    """``score`` of classifiers and regressors."""

    def score(
        self: Any,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        budget: Budget = None,
        deadline: float | None = None,
        *,
        mean_budget: float | None = None,
    ) -> float:
        """Accuracy of a classifier, R² of a regressor, within the bounds. See ``answer`` for these."""
        prediction = self.predict(X, budget, deadline, mean_budget=mean_budget)
        return float(self._agreement(y, prediction, sample_weight))


class ClassifierFace(_ScoreFace, LabelSets, ClassifierMixin):  # type: ignore[misc]
    """``predict``, ``predict_proba``, ``decision_function`` and ``score`` of anytime classifiers."""

    classes_: NDArray[Any]
    _trained_cost_matrix: Array | None = None

    def predict(
        self: Any,
        X: ArrayLike,
        budget: Budget = None,
        deadline: Amount = None,
        *,
        mean_budget: Amount = None,
        cost_matrix: ArrayLike | None = None,
    ) -> Any:
        """Class labels, (n,). See ``answer`` for the other parameters.

        Parameters
        ----------
        cost_matrix : (C, C) or (n, C, C), default=None
            The cost of answering the second class if the first is true, in the order of ``classes_``, for all rows or for each:
            the answer is the class with the lowest expected cost. None: the model's own matrix, else the most likely class.
        """
        if cost_matrix is None:
            cost_matrix = self._trained_cost_matrix
        if cost_matrix is None:
            return self._wrapped(self._decide(self._scores(X, budget, deadline, mean_budget)), X)
        probabilities = np.asarray(self.predict_proba(X, budget, deadline, mean_budget=mean_budget))
        return self._wrapped(self.classes_[least_cost(probabilities, cost_matrix)], X)

    def predict_proba(
        self: Any, X: ArrayLike, budget: Budget = None, deadline: Amount = None, *, mean_budget: Amount = None
    ) -> Any:
        """Class probabilities, (n, C), in the order of ``classes_``. See ``answer`` for the parameters."""
        return self._wrapped(self._probabilities(X, budget, deadline, mean_budget), X, self.classes_)

    def predict_log_proba(
        self: Any, X: ArrayLike, budget: Budget = None, deadline: Amount = None, *, mean_budget: Amount = None
    ) -> Any:
        """Logarithm of ``predict_proba``."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, budget, deadline, mean_budget=mean_budget))

    def decision_function(
        self: Any, X: ArrayLike, budget: Budget = None, deadline: Amount = None, *, mean_budget: Amount = None
    ) -> Any:
        """Scores, (n, C), whose largest decides; with two classes (n,), whose sign decides."""
        scores = self._scores(X, budget, deadline, mean_budget)
        if LINKS[self._scores_link].binary:
            scores = scores[:, 0]
        elif len(self.classes_) == 2:
            scores = scores[:, 1] - scores[:, 0]
        return self._wrapped(scores, X, self.classes_)

    def _agreement(self, y: ArrayLike, prediction: Any, sample_weight: ArrayLike | None) -> float:
        return float(accuracy_score(y, prediction, sample_weight=sample_weight))


class ValueFace(KeywordsChecked):
    """``predict`` of models whose answers are numbers."""

    def predict(
        self: Any, X: ArrayLike, budget: Budget = None, deadline: Amount = None, *, mean_budget: Amount = None
    ) -> Any:
        """Predicted values, (n,) or (n, K). See ``answer`` for the parameters."""
        return self._wrapped(self._decide(self._scores(X, budget, deadline, mean_budget)), X)


class RegressorFace(_ScoreFace, ValueFace, Intervals, RegressorMixin):  # type: ignore[misc]
    """``predict`` and ``score`` of anytime regressors."""

    def _agreement(self, y: ArrayLike, prediction: Any, sample_weight: ArrayLike | None) -> float:
        return float(r2_score(y, prediction, sample_weight=sample_weight))
