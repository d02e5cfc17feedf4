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
    """Label the elements of sequences, buying features one after the other and using the current labels of neighbours.

    Structured boosting over chains (Grubb, *Anytime Prediction*, 2014, Algorithms 3.3 and 7.1). Every stage buys the features
    that explain most of the residual per unit of cost, and adds to the scores of all elements a function of all features bought
    so far and of the current predictions of neighbours. In training these are held-out predictions, by copies of the model that
    were not trained on the fold of the sequence.

    Parameters
    ----------
    costs : mapping from str to float, FeatureCosts or similar, default=None
        Columns are the names of features, and prices are per element. In prediction, a feature that no element of a
        sequence has is unavailable: it is not paid for, and stages that read it are skipped for the sequence. If some
        training sequence lacked it too, it is a missing value: paid for, and read as in training.
    budget : float, default=None
        A row is a sequence, and pays the price of a feature once, per element.
    learner : {"linear", "trees", "both"}, default="linear"
        What stages add: functions that are linear in numbers and have a weight for each value of a string, trees, or the better
        of the two at each stage, by gain per unit of cost.
    context : int, default=2
        Number of neighbours on either side whose current predictions are read; 0: none.
    growth : float, default=0.15
        Each stage spends at least this share of what was spent so far, on as many features as that takes.
    folds : int, default=4
        Number of copies of the model for held-out predictions.
    min_count : int, default=1
        String values that fewer elements have count as unknown.
    epochs : int, default=8
        Passes over the elements to train a linear stage.
    n_iter_no_change : int, default=3
        These are the held-out predictions.
    time_budget : float, default=None
        If time is short, stages are trained on a random part of the sequences; a warning says so.
    warm_start : bool, default=False
        It needs the same data and a larger ``max_stages``. The model keeps its training data, but not in files and
        pickles: after loading, ``fit`` warns and starts over.

    Attributes
    ----------
    steps_ : list of StructuredStep
        The steps of training.

    See Also
    --------
    GraphLabeler : For graphs.
    SceneParser : For images.

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
        """Fit the model to sequences and their labels.

        Parameters
        ----------
        X : list of sequences
            Each element is a dict from feature names to strings or numbers, or a row of numbers.
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
