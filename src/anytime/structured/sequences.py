"""Sequences: a label for every word of a sentence, every letter of a word, every moment of a recording."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from anytime.parameters import declared
from anytime.structured.chains import Chains
from anytime.structured.labelers import ElementLabeler
from anytime.structured.structures import Array

__all__ = ["SequenceLabeler"]


@declared()
class SequenceLabeler(ElementLabeler):
    """Labels the elements of sequences, features bought one after the other, neighbours' labels taken into account.

    Structured boosting over chains (Grubb, *Anytime Prediction*, 2014, Algorithms 3.3 and 7.1). Every stage buys what explains
    most of what is left per unit of cost, and adds to the scores of all elements a function of all features bought so far and of
    the current predictions of neighbours. In training these are held-out predictions, by copies of the model that have not
    seen a fold of the sequences.

    Parameters
    ----------
    costs : mapping from str to float, FeatureCosts or similar, default=None
        What columns cost. None: 1 per column. Columns are the names of features, and prices are per element. At prediction, a
        feature that no element of a sequence names is not there: nothing is paid for it, and stages that read it are left out for
        the sequence. One that a training sequence did without as well is a missing value: paid for, and read as in training.
    budget : float, default=None
        The most that any row may pay in a prediction that names no bound. None: no limit. A row is a sequence, and pays the
        price of a feature once: per element.
    learner : {"linear", "trees", "both"}, default="linear"
        What stages add: functions that are linear in numbers and have a weight for each value of a string, trees, or at each
        stage whichever gains more per unit of cost.
    context : int, default=2
        Neighbours on either side whose current predictions count; 0: none.
    growth : float, default=0.15
        At each stage at least this share of what is spent already is spent, on as many features as that takes.
    folds : int, default=4
        Copies of the model for held-out predictions.
    min_count : int, default=1
        Values of strings that fewer elements have are taken for unknown.
    epochs : int, default=8
        Passes over the elements when a linear stage is learned.
    n_iter_no_change : int, default=3
        Rounds without gain on the validation rows after which training ends. These are the held-out predictions.
    time_budget : float, default=None
        Seconds that ``fit`` may take. None: no limit. Where they are few, stages are learned from some of the sequences, drawn at
        random; a warning says so.
    warm_start : bool, default=False
        Whether ``fit`` goes on from the fitted model. With the same data and a larger ``max_stages``; training data are kept,
        but not in files and pickles: after these ``fit`` warns, and begins anew.

    Attributes
    ----------
    steps_ : list of StructuredStep
        What each step of training did.

    Examples
    --------
    >>> import anytime as at
    >>> words = [["the", "dog", "barks"], ["a", "cat", "sleeps"], ["dogs", "sleep"], ["the", "cat", "barks"]]
    >>> X = [[{"word": w, "end": w[-1]} for w in sentence] for sentence in words]
    >>> y = [["D", "N", "V"], ["D", "N", "V"], ["N", "V"], ["D", "N", "V"]]
    >>> model = at.SequenceLabeler(costs={"word": 2, "end": 1}, folds=2, random_state=0).fit(X, y)
    >>> [labels.tolist() for labels in model.predict(X[:1])]
    [['D', 'N', 'V']]
    >>> float(model.cost(X[:1], budget=1)[0])
    1.0
    """

    _what = "sentence"

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from sequences and their labels.

        Parameters
        ----------
        X : list of sequences
            Of each element a dict from names of features to strings or numbers, or a row of numbers.
        y : list of sequences of labels
            One per element; None for an element without a label.
        """
        return self._fit(X, y)

    @property
    def _has_context(self) -> bool:
        return bool(self.context > 0)

    def _elements(self, X: Any) -> tuple[Any, Any]:
        return X, None

    def _batch(
        self, table: Array, offsets: NDArray[np.int64], categories: NDArray[np.int32], more: Any
    ) -> Chains:
        return Chains(table, offsets, categories, order=self.context)
