"""Existing models, made interruptible: forests and boosted trees of scikit-learn, LightGBM and XGBoost.

The trees are imported exactly, so the full prediction is the original's. Only the order changes: with held-out rows, stages are
sorted so that every budget buys as much quality as possible (``anytime.trees.ordering``).
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import Tags, check_random_state, get_tags
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_consistent_length, column_or_1d, has_fit_parameter

from anytime._compat import HasMethods, rows_of
from anytime.calibrated import holding_out
from anytime.costs import BoundCosts
from anytime.faces import ClassifierFace, RegressorFace
from anytime.losses import LINKS
from anytime.parameters import declared, store, without
from anytime.plan import Array, Plan
from anytime.trees.block import TreeBlock
from anytime.trees.clock import inner_fit
from anytime.trees.importers import Imported, import_trees
from anytime.trees.judging import ordered
from anytime.trees.ordering import OrderingLog
from anytime.trees.reading import ColumnModel
from anytime.trees.rows import checked_weights, has_categories, split_rows
from anytime.validation import (
    as_table,
    check_columns,
    class_labels,
    label_numbers,
    naming_words,
    numbered_classes,
    target_numbers,
    validated,
)

Rows = tuple[Any, Any, Array | None]  # X, y and weights, as the user gives them


class NothingToFit:
    """Placeholder for the estimator of a model made from trees alone: a booster, a file or a list of models."""

    def __init__(self, source: str) -> None:
        self.source = source

    def __repr__(self) -> str:
        return f"<the trees of {self.source}>"


class ImportedModel(ColumnModel):
    """Base of the classifier and the regressor."""

    source_: str
    ordering_: OrderingLog | None

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "estimator": [HasMethods(["fit", "get_params", "set_params"]), NothingToFit, None],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        costs: Any = None,
        budget: float | None = None,
        meter: str = "realised",
        class_weight: Any = None,
        evaluation_cost: float = 0.0,
        validation_fraction: float | None = 0.2,
        calibration: str | None = None,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        store(self, locals())

    @holding_out
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the wrapped estimator, import its trees, and order them on held-out rows.

        If the fit fails, the model stays as it was.

        Parameters
        ----------
        X : (n, d)
        y : (n,)
        sample_weight : (n,), default=None
            Not negative; None: 1 each. Rows of weight 0 are ignored.
        """
        self._validate_params()
        if isinstance(self.estimator, NothingToFit):
            raise ValueError(
                f"this model was made from {self.estimator.source}, which holds trees but no estimator that could be fitted "
                "again: set one with set_params(estimator=...)"
            )
        trained = copy.copy(self)
        trained._train(X, y, sample_weight)
        self.__dict__ = trained.__dict__
        return self

    def truncate(self, budget: float | None = None, *, mean_budget: float | None = None) -> Self:
        """A separate model within smaller bounds, without ``estimator_``."""
        smaller = super().truncate(budget, mean_budget=mean_budget)
        # all trees again: a small model is to be small in a pickle too
        smaller.__dict__.pop("estimator_", None)
        return smaller

    # ------------------------------------------------------------------ from data to a plan

    def _train(self, X: Any, y: Any, sample_weight: ArrayLike | None) -> None:
        X, y = self._check_training(X, y)
        weight = None if sample_weight is None else checked_weights(sample_weight, X)
        if weight is not None and not weight.all():
            present = np.flatnonzero(weight)
            X, y, weight = rows_of(X, present), y[present], weight[present]
        self._check_labels(y)
        costs = self._bound_costs()  # before the training, which may take long
        random = check_random_state(self.random_state)
        train, held = split_rows(X, self._strata(y), self.validation_fraction, random)
        estimator = self._default() if self.estimator is None else clone(self.estimator)
        if self.random_state is not None:
            _set_seeds(estimator, random)
        parameters = {}
        fit_weight = self._error_weight(y[train], None if weight is None else weight[train])
        if fit_weight is not None:
            if not has_fit_parameter(estimator, "sample_weight"):
                raise ValueError(f"{type(estimator).__name__} takes no sample_weight")
            parameters["sample_weight"] = fit_weight
        with naming_words(X), inner_fit():
            estimator.fit(rows_of(X, train), y[train], **parameters)
        learned, kept = (
            (rows_of(X, rows), y[rows], None if weight is None else weight[rows]) for rows in (train, held)
        )
        self._take_over(estimator, costs, learned, kept if held.size else None)
        self.estimator_ = estimator

    def _error_weight(self, y: NDArray[Any], weight: Array | None) -> Array | None:
        """(n,) how much rows count in training and in errors; None: 1 each."""
        class_weight = getattr(self, "class_weight", None)
        if class_weight is None:
            return weight
        by_class = compute_sample_weight(class_weight, y)
        return np.asarray(by_class if weight is None else weight * by_class)

    def _take_over(self, estimator: Any, costs: BoundCosts, learned: Rows, held: Rows | None) -> None:
        """Make a plan of an estimator that was fitted on the rows ``learned``."""
        imported = import_trees(estimator)
        self._check_kind(imported)
        self._adopt(imported, costs, held)

    def _adopt(self, imported: Imported, costs: BoundCosts, held: Rows | None) -> None:
        """Take over the trees of one model, ordered by held-out data when there is some."""
        trees = imported.trees
        if held is not None and imported.combine == "sum":
            # A boosting round of several classes holds trees that use different groups: order them one by one.
            trees = replace(trees, stage_start=np.arange(trees.n_trees + 1, dtype=np.int64))
        self._take(imported, costs, [TreeBlock(trees)], np.diff(trees.stage_start), combine=imported.combine)
        if held is not None:
            X, y, weight = held
            rows = self._held_out(X, y, self._error_weight(y, weight))
            self.plan_, self.ordering_ = ordered(self.plan_, *rows)

    def _take(
        self,
        imported: Imported,
        costs: BoundCosts,
        blocks: Sequence[TreeBlock],
        trees_per_stage: NDArray[np.int64],
        **more: Any,
    ) -> None:
        """Set all fitted attributes; ``imported`` says how rows are read and what the scores mean."""
        self.columns_, self.source_ = imported.columns, imported.source
        self.ordering_ = None
        if imported.classes is not None:
            self.classes_ = imported.classes
        evaluation = np.asarray(trees_per_stage * float(self.evaluation_cost), dtype=np.float64)
        self.plan_ = Plan(
            blocks=list(blocks),
            costs=costs,
            base=imported.base,
            link=imported.link,
            evaluation_costs=evaluation if self.evaluation_cost else None,
            **more,
        )

    def _held_out(self, X: Any, y: Any, weight: Array | None) -> tuple[Array, NDArray[Any], Array | None]:
        """Held-out rows as the plan and its loss read them."""
        X, target = self._matrix(X), self._target(y)
        self.columns_.check_finite(X)
        check_consistent_length(X, target, weight)
        if weight is None:
            return X, target, None
        present = np.flatnonzero(weight)
        return X[present], target[present], weight[present]

    # ------------------------------------------------------------------ training data

    def _check_training(self, X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
        X, y = as_table(X), as_table(y)
        if has_categories(X):
            check_columns(self, X)
            y = column_or_1d(y, warn=True)
            check_consistent_length(X, y)
        else:
            finite = self.estimator is not None and not get_tags(self.estimator).input_tags.allow_nan
            checked, y = validated(
                self,
                X,
                y,
                dtype=np.float64,
                ensure_all_finite=finite,
                multi_output=False,
                y_numeric=self._numeric,
            )
            X = X if hasattr(X, "iloc") else checked  # the estimator keeps the names of a table
        return X, target_numbers(y) if self._numeric else y

    _numeric = False

    def _strata(self, y: NDArray[Any]) -> NDArray[np.intp]:
        """Number of the class of each row; 0 where there are no classes."""
        return np.zeros(len(y), dtype=np.intp) if self._numeric else np.unique(y, return_inverse=True)[1]

    def _check_labels(self, y: NDArray[Any]) -> None:
        """Refuse labels that cannot be learned."""

    def _default(self) -> BaseEstimator:
        raise NotImplementedError

    def _target(self, y: Any) -> NDArray[Any]:
        raise NotImplementedError

    def _check_kind(self, imported: Imported) -> None:
        if LINKS[imported.link].classifies != isinstance(self, ClassifierFace):
            wanted = "regressor" if isinstance(self, RegressorFace) else "classifier"
            raise TypeError(f"{type(self).__name__} needs a {wanted}, but {imported.source} is not one")
        if imported.classes is not None and len(imported.classes) < 2:
            raise ValueError(
                f"{imported.source} has only one class, {imported.classes[0]!r}; a classifier needs at least 2 classes"
            )

    # ------------------------------------------------------------------ files and tags

    def _file_state(self) -> dict[str, Any]:
        return {**super()._file_state(), "source": self.source_}

    def _restore_file_state(self, state: Mapping[str, Any]) -> None:
        super()._restore_file_state(state)
        self.source_ = str(state["source"])
        self.ordering_ = None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if "columns_" in vars(self):
            tags.input_tags.allow_nan = self.columns_.ensure_all_finite is not True
        elif hasattr(self.estimator, "__sklearn_tags__"):
            tags.input_tags.allow_nan = get_tags(self.estimator).input_tags.allow_nan
        return tags


@declared()
class AnytimeClassifier(ClassifierFace, ImportedModel):
    """A tree-based classifier of another library, made interruptible.

    ``fit`` trains the given estimator, imports its trees exactly and sorts them so that each budget buys as much quality as
    possible. For a fitted model, use :func:`anytime.make_anytime`.

    Parameters
    ----------
    estimator : classifier, default=None
        A forest, extra-trees or gradient boosting classifier of scikit-learn, LightGBM or XGBoost. None:
        ``HistGradientBoostingClassifier``.
    meter : {"realised", "model"}, default="realised"
        By the latter, the first tree that mixes many columns costs as much as all of them.
    class_weight : dict, "balanced" or None, default=None
        They multiply ``sample_weight``, which the estimator must support.
    evaluation_cost : float, default=0.0
        Here per tree.
    validation_fraction : float or None, default=0.2
        They order the stages; without them, stages keep the trained order.
    random_state : int, RandomState or None, default=None
        It draws the held-out rows, and seeds the estimator and its parts unless they have their own ``random_state``.

    Attributes
    ----------
    ordering_ : OrderingLog or None
        How held-out rows ordered the stages. None: stages keep the trained order, or the model was loaded.
    columns_ : Columns
        How the original library reads a row.
    source_ : str
        Origin of the trees, such as ``"lightgbm.LGBMClassifier 4.7.0"``.
    estimator_ : classifier
        The fitted estimator; missing after ``make_anytime``, ``truncate`` or ``load``.

    See Also
    --------
    SpeedBoostClassifier : Trains a model that knows prices.
    PrunedForestClassifier : A forest pruned until it fits a mean budget.
    make_anytime : The same for a fitted model.

    Notes
    -----
    Files do not store the estimator: after ``load``, ``estimator`` is None and ``fit`` would train the default one. Set it first
    with ``set_params``.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("breast_cancer")
    >>> model = at.AnytimeClassifier(costs=costs, random_state=0).fit(X, y)
    >>> bool((model.cost(X, budget=40) <= 40).all())
    True
    """

    def _default(self) -> BaseEstimator:
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier()

    def _check_labels(self, y: NDArray[Any]) -> None:
        numbered_classes(class_labels(y))

    def _target(self, y: Any) -> NDArray[Any]:
        return label_numbers(y, self.classes_)


@declared(like=AnytimeClassifier)
@without("class_weight")
class AnytimeRegressor(RegressorFace, ImportedModel):
    """A tree-based regressor of another library, made interruptible.

    Parameters
    ----------
    estimator : regressor, default=None
        A forest, extra-trees or gradient boosting regressor of scikit-learn, LightGBM or XGBoost. None:
        ``HistGradientBoostingRegressor``.

    Attributes
    ----------
    ordering_, columns_, source_, estimator_
        As in :class:`AnytimeClassifier`.

    See Also
    --------
    SpeedBoostRegressor : Trains a model that knows prices.
    PrunedForestRegressor : A forest pruned until it fits a mean budget.
    make_anytime : The same for a fitted model.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("diabetes")
    >>> model = at.AnytimeRegressor(costs=costs, random_state=0).fit(X, y)
    >>> len(set(model.predict(X, budget=0)))  # nothing bought: one constant answer
    1
    """

    _numeric = True

    def _default(self) -> BaseEstimator:
        from sklearn.ensemble import HistGradientBoostingRegressor

        return HistGradientBoostingRegressor()

    def _target(self, y: Any) -> NDArray[Any]:
        n_outputs = self.plan_.n_outputs
        target = target_numbers(y)
        if n_outputs == 1:
            return np.asarray(column_or_1d(target, warn=True))
        if target.ndim != 2 or target.shape[1] != n_outputs:
            raise ValueError(
                f"y has shape {target.shape}, but the model predicts {n_outputs} numbers per row"
            )
        return np.asarray(target)


def _set_seeds(estimator: BaseEstimator, random: np.random.RandomState) -> None:
    """Give a seed to every ``random_state`` of the estimator and its parts that has none."""
    parameters = estimator.get_params(deep=True)
    unset = [
        name
        for name in sorted(parameters)
        if f"__{name}".endswith("__random_state") and parameters[name] is None
    ]
    estimator.set_params(**{name: random.randint(np.iinfo(np.int32).max) for name in unset})
