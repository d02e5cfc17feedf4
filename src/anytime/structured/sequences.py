"""Sequences: a label for every word of a sentence, every letter of a word, every moment of a recording."""

from __future__ import annotations

from numbers import Integral
from typing import Any, Self

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from anytime.costs import FeatureCosts
from anytime.parameters import shared, store
from anytime.structured.block import EntropySelector
from anytime.structured.chains import Chains
from anytime.structured.learners import LinearUpdateLearner, TreeUpdateLearner, UpdateLearner
from anytime.structured.model import StructuredModel, read_labels, train_structured
from anytime.structured.structures import Structures
from anytime.structured.tokens import FeatureReader
from anytime.structured.trainer import StructuredRules
from anytime.trees.clock import Clock

__all__ = ["SequenceLabeler"]


class SequenceLabeler(StructuredModel):
    """Labels the elements of sequences, features bought one after the other, neighbours' labels taken into account.

    Structured boosting over chains (Grubb, *Anytime Prediction*, 2014, Algorithms 3.3 and 7.1). Every stage buys what explains
    most of what is left per unit of cost, and adds to the scores of all elements a function of all features bought so far and of
    the current predictions of neighbours. In training these are held-out predictions, by copies of the model that have not
    seen a fold of the sequences.

    Parameters
    ----------
    costs : mapping from str to float, FeatureCosts or similar, default=None
        What columns cost. None: 1 per column. Columns are the names of features, and prices are per element.
    budget : float, default=None
        The most that any row may pay in a prediction that names no bound. None: no limit. A row is a sequence, and pays the
        price of a feature once: per element.
    meter : {"model", "realised"}, default="model"
        How a budget is counted: by what each row really pays, or by the most that a stage can cost.
    learner : {"auto", "linear", "trees"}, default="auto"
        What stages add: functions that are linear in numbers and have a weight for each value of a string, or trees. "auto":
        linear where some feature holds strings; otherwise linear stages first, which buy, then trees.
    context : int, default=2
        Neighbours on either side whose current predictions count; 0: none.
    evaluation_cost : float, default=0
        Price of evaluating one stage, features apart, in the unit of ``costs``.
    growth : float, default=0.15
        At each stage at least this share of what is spent already is spent, on as many features as that takes.
    max_stages : int, default=60
        The most stages that the plan may have.
    folds : int, default=4
        Copies of the model for held-out predictions.
    min_count : int, default=1
        Values of strings that fewer elements have are taken for unknown.
    epochs : int, default=8
        Passes over the elements when a linear stage is learned.
    l2_regularization : float, default=1.0
        Added to the curvature of a leaf's loss. Of linear stages: half of it times the squared weights is added to the loss.
    max_leaf_nodes : int, default=31
        The most leaves of a tree. None: no limit.
    learning_rate : float, default=1.0
        Factor by which each learner's step is shrunk.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes. "balanced": inversely proportional to how often they occur. None: 1 each.
    n_iter_no_change : int, default=3
        Rounds without gain on the validation rows after which training ends. These are the held-out predictions.
    time_budget : float, default=None
        Seconds that ``fit`` may take. None: no limit.
    random_state : int, RandomState or None, default=None
        Seed; the same seed gives the same model.
    n_jobs : int, default=None
        Threads. None: 1; -1: all cores. The result does not depend on it.
    verbose : int, default=0
        Whether progress is printed.

    Attributes
    ----------
    plan_ : Plan
    classes_ : (C,) array
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

    _parameter_constraints = shared(
        "costs", "budget", "meter", "evaluation_cost", "max_stages", "l2_regularization", "max_leaf_nodes",
        "learning_rate", "class_weight", "n_iter_no_change", "time_budget", "random_state", "n_jobs", "verbose",
    ) | {
        "learner": [StrOptions({"auto", "linear", "trees"})],
        "context": [Interval(Integral, 0, 10, closed="both")],
        "growth": shared("cost_penalty")["cost_penalty"],
        "folds": [Interval(Integral, 2, None, closed="left")],
        "min_count": shared("n_estimators")["n_estimators"],
        "epochs": shared("n_estimators")["n_estimators"],
    }  # fmt: skip

    def __init__(
        self,
        *,
        costs: Any = None,
        budget: float | None = None,
        meter: str = "model",
        learner: str = "auto",
        context: int = 2,
        evaluation_cost: float = 0.0,
        growth: float = 0.15,
        max_stages: int = 60,
        folds: int = 4,
        min_count: int = 1,
        epochs: int = 8,
        l2_regularization: float = 1.0,
        max_leaf_nodes: int | None = 31,
        learning_rate: float = 1.0,
        class_weight: Any = None,
        n_iter_no_change: int = 3,
        time_budget: float | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        store(self, locals())

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from sequences and their labels.

        Parameters
        ----------
        X : list of sequences
            Of each element a dict from names of features to strings or numbers, or a row of numbers.
        y : list of sequences of labels
            One per element; None for an element without a label.
        """
        self._validate_params()
        clock = Clock(self.time_budget, self.verbose)
        reader = FeatureReader.fit(X, min_count=self.min_count)
        table, offsets = reader.read(X)
        labels = read_labels(y, offsets, self.class_weight, "sentence")
        if offsets.size - 1 < self.folds:
            raise ValueError(f"folds is {self.folds}, but there are {offsets.size - 1} sentences")
        costs = FeatureCosts.coerce(self.costs, reader.n_columns, reader.names).bind(
            reader.n_columns, reader.names
        )
        least = 0.01 * costs.costs.total / max(costs.n_groups, 1)
        plan, trainer = train_structured(
            Chains(table, offsets, reader.categories, order=self.context),
            labels,
            costs,
            [EntropySelector()],
            self._learners(bool(reader.categories.any())),
            StructuredRules(
                evaluation_cost=self.evaluation_cost,
                least_cost=max(least, 1e-9),
                folds=self.folds,
                learning_rate=self.learning_rate,
            ),
            max_stages=self.max_stages,
            n_iter_no_change=self.n_iter_no_change,
            clock=clock,
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            n_threads=self._threads(),
        )
        self.plan_, self.classes_, self._reader = plan, labels.classes, reader
        self.steps_, self.n_features_in_ = trainer.steps, reader.n_columns
        if reader.names is not None:
            self.feature_names_in_ = np.array(reader.names, dtype=object)
        return self

    def _learners(self, has_strings: bool) -> list[UpdateLearner]:
        linear = LinearUpdateLearner(
            growth=self.growth,
            use_context=self.context > 0,
            epochs=self.epochs,
            l2_regularization=self.l2_regularization,
        )
        trees = TreeUpdateLearner(
            max_leaf_nodes=self.max_leaf_nodes,
            use_context=self.context > 0,
            l2_regularization=self.l2_regularization,
            n_threads=self._threads(),
        )
        if self.learner == "auto":
            return [linear] if has_strings else [linear, trees]
        return [linear] if self.learner == "linear" else [trees]

    def _structures(self, X: Any) -> Structures:
        table, offsets = self._reader.read(X)
        return Chains(table, offsets, self._reader.categories, order=self.context)

    def _file_state(self) -> dict[str, Any]:
        reader = self._reader
        return {"names": reader.names, "vocabularies": reader.vocabularies}

    def _restore_file_state(self, state: dict[str, Any]) -> None:
        self._reader = FeatureReader(state["names"], self.plan_.n_features, state["vocabularies"])
        self._check_stages(self._structures([]))
