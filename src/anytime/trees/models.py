"""Models people already have, made interruptible: forests and boosted trees of scikit-learn, LightGBM and XGBoost.

The trees are taken over exactly, so the full prediction is the original's. What changes is the order: with held-out
data, stages are sorted so that every budget buys as much quality as it can (``anytime.trees.ordering``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    has_fit_parameter,
    validate_data,
)

from anytime.costs import FeatureCosts
from anytime.engine import Run
from anytime.estimator import AnytimeModel, ClassifierFace, RegressorFace
from anytime.losses import LINKS, loss_for
from anytime.plan import Array, Plan
from anytime.trees.block import TreeBlock
from anytime.trees.importers import Columns, Imported, import_trees
from anytime.trees.ordering import OrderingLog, order_stages

if TYPE_CHECKING:
    from sklearn.utils import Tags

__all__ = ["AnytimeClassifier", "AnytimeRegressor", "ImportedModel", "held_out_quality"]

_MOST_NUMBERS_FOR_ORDERING = 40_000_000  # stages x rows x outputs: 320 MB
_FEWEST_ROWS_FOR_ORDERING = 200


class ImportedModel(AnytimeModel):
    """What classifier and regressor share."""

    def __init__(
        self,
        estimator: Any = None,
        *,
        costs: Any = None,
        budget: float | None = None,
        meter: str = "model",
        evaluation_cost: float = 0.0,
        validation_fraction: float | None = 0.2,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.costs = costs
        self.budget = budget
        self.meter = meter
        self.evaluation_cost = evaluation_cost
        self.validation_fraction = validation_fraction
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the wrapped estimator, take over its trees, and order them on held-out rows.

        Parameters
        ----------
        X : (n, d)
        y : (n,)
        sample_weight : (n,), default=None
        """
        X, y = self._check_training(X, y)
        weight = None if sample_weight is None else column_or_1d(sample_weight, dtype=np.float64)
        check_consistent_length(X, y, weight)
        if weight is not None and (weight == 0).any():  # a row without weight is as good as absent
            present = np.flatnonzero(weight)
            if not present.size:
                raise ValueError("all sample weights are zero")
            X, y, weight = _rows(X, present), y[present], weight[present]
        self._check_labels(y)
        random = check_random_state(self.random_state)
        estimator = self._default(random) if self.estimator is None else clone(self.estimator)
        train, held = self._split(X, y, random)
        parameters = {}
        if weight is not None:
            if not has_fit_parameter(estimator, "sample_weight"):
                raise ValueError(f"{type(estimator).__name__} takes no sample_weight")
            parameters["sample_weight"] = weight[train]
        estimator.fit(_rows(X, train), y[train], **parameters)
        imported = import_trees(estimator)
        self._check_kind(imported)
        self.estimator_ = estimator
        held_weight = None if weight is None else weight[held]
        self._adopt(imported, None if not held.size else (_rows(X, held), y[held], held_weight))
        return self

    def _adopt(self, imported: Imported, held: tuple[Any, Any, Array | None] | None) -> None:
        """Make the plan from imported trees, ordered by held-out data when there is some."""
        self.columns_ = imported.columns
        self.source_ = imported.source
        if imported.classes is not None:
            self.classes_ = imported.classes
        names = list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None
        n_columns = imported.trees.n_features
        bound = FeatureCosts.coerce(self.costs, n_columns, names).bind(n_columns, names)
        trees = imported.trees
        if held is not None and imported.combine == "sum":
            # A boosting round of several classes holds trees that use different groups: order them one by one.
            trees = replace(trees, stage_start=np.arange(trees.n_trees + 1, dtype=np.int64))
        trees_per_stage = np.diff(trees.stage_start)
        plan = Plan(
            blocks=[TreeBlock(trees)],
            costs=bound,
            base=imported.base,
            link=imported.link,
            combine=imported.combine,
            evaluation_costs=self._evaluation_costs(trees_per_stage),
        )
        self.ordering_: OrderingLog | None = None
        if held is not None:
            plan = self._ordered(plan, *held)
        self.plan_ = plan

    def _evaluation_costs(self, trees_per_stage: NDArray[np.int64]) -> Array | None:
        if not self.evaluation_cost:
            return None
        return np.asarray(trees_per_stage * float(self.evaluation_cost))

    def _ordered(self, plan: Plan, X: Any, y: Any, weight: Array | None) -> Plan:
        X = self._matrix(X)
        target = self._target(y)
        most = max(_FEWEST_ROWS_FOR_ORDERING, _MOST_NUMBERS_FOR_ORDERING // (plan.n_stages * plan.n_outputs))
        if len(X) > most:
            chosen = np.random.RandomState(0).permutation(len(X))[:most]
            X, target, weight = X[chosen], target[chosen], None if weight is None else weight[chosen]
        block = plan.blocks[0]
        assert isinstance(block, TreeBlock)
        outputs = block.forest.stage_outputs(X, np.arange(plan.n_stages))
        needs = np.array([plan.costs.closure(groups) for groups in plan.stage_groups])
        loss = loss_for(plan.link)
        order, self.ordering_ = order_stages(
            outputs,
            base=plan.base,
            combine=plan.combine,
            loss=loss,
            y=target,
            sample_weight=weight,
            needs=needs,
            prices=plan.costs.prices,
            evaluation=plan.evaluation_ticks,
        )
        evaluation = None if plan.evaluation_costs is None else plan.evaluation_costs[order]
        plan = replace(plan, blocks=[block.select(order)], evaluation_costs=evaluation)
        return replace(plan, quality=held_out_quality(plan, X, target, weight))

    # ------------------------------------------------------------------ how the library reads a row

    @property
    def categories_(self) -> dict[int, list[Any]]:
        """Columns whose values are categories, each with its categories."""
        return self.columns_.categories

    @property
    def _reads_rows_as_they_are(self) -> bool:
        return self.columns_.are_plain

    def _matrix(self, X: Any) -> Array:
        """(n, d) numbers as the trees compare them."""
        if self.columns_.are_plain and not _has_categories(X):
            return np.asarray(check_array(X, dtype=np.float64, order="C", ensure_all_finite=False))
        return self.columns_.encode(X)

    def _checked(self, X: Any) -> Array:
        check_is_fitted(self, "plan_")
        if self.columns_.are_plain and not _has_categories(X):
            return super()._checked(X)
        validate_data(self, X, reset=False, skip_check_array=True)  # names and number of columns
        return self._matrix(X)

    # ------------------------------------------------------------------ training data

    def _check_training(self, X: Any, y: Any) -> tuple[Any, NDArray[Any]]:
        if _has_categories(X):
            validate_data(self, X, skip_check_array=True)
            y = column_or_1d(y, warn=True)
        else:
            finite = not self.__sklearn_tags__().input_tags.allow_nan
            checked, y = validate_data(
                self,
                X,
                y,
                dtype=np.float64,
                ensure_all_finite=finite,
                multi_output=False,
                y_numeric=self._numeric,
            )
            X = X if hasattr(X, "iloc") else checked  # the estimator keeps the names of a table
        return X, y

    _numeric = False

    def _split(
        self, X: Any, y: NDArray[Any], random: np.random.RandomState
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows to fit on, and rows to order on.

        Equal rows stay together, so that a repeated row is never both trained and judged on, and a row of weight 2 is the
        same as two rows. Every class keeps a row to fit on.
        """
        fraction = self.validation_fraction
        everything = np.arange(len(y))
        if fraction is None:
            return everything, everything[:0]
        if not 0 < fraction < 1:
            raise ValueError(f"validation_fraction must lie between 0 and 1 or be None, not {fraction}")
        strata = np.zeros(len(y), dtype=np.intp) if self._numeric else np.unique(y, return_inverse=True)[1]
        lots = _lots(X, random)
        held = np.zeros(len(y), dtype=bool)
        for stratum in range(int(strata.max()) + 1):
            members = strata == stratum
            drawn = np.unique(lots[members])
            held |= members & np.isin(lots, drawn[: int(fraction * drawn.size)])
        return everything[~held], everything[held]

    def _check_labels(self, y: NDArray[Any]) -> None:
        """Refuse labels that cannot be learned."""

    def _default(self, random: np.random.RandomState) -> BaseEstimator:
        raise NotImplementedError

    def _target(self, y: Any) -> NDArray[Any]:
        raise NotImplementedError

    def _check_kind(self, imported: Imported) -> None:
        if LINKS[imported.link].classifies != isinstance(self, ClassifierFace):
            wanted = "regressor" if isinstance(self, RegressorFace) else "classifier"
            raise TypeError(f"{type(self).__name__} needs a {wanted}, but {imported.source} is not one")

    # ------------------------------------------------------------------ files and tags

    def _file_state(self) -> dict[str, Any]:
        return {"source": self.source_, "columns": self.columns_.state()}

    def _restore_file_state(self, state: Mapping[str, Any]) -> None:
        self.source_ = str(state["source"])
        self.columns_ = Columns.from_state(state["columns"])
        self.ordering_ = None
        if self.columns_.n_features != self.n_features_in_:
            raise ValueError(
                f"{self.columns_.n_features} columns are described, but the model has {self.n_features_in_}"
            )

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if self.estimator is not None:
            tags.input_tags.allow_nan = get_tags(self.estimator).input_tags.allow_nan
        return tags


class AnytimeClassifier(ClassifierFace, ImportedModel):
    """A tree-based classifier of another library, made interruptible.

    ``fit`` trains the given estimator, takes over its trees exactly and sorts them so that each budget buys as much
    quality as it can. For a model that is fitted already use :func:`anytime.make_anytime`.

    Parameters
    ----------
    estimator : classifier, default=None
        A forest, extra-trees or gradient boosting classifier of scikit-learn, LightGBM or XGBoost. None:
        ``HistGradientBoostingClassifier``.
    costs : FeatureCosts, mapping, table, path or sequence, default=None
        What columns cost. None: 1 per column.
    budget : float, default=None
        The budget of a prediction that names none. None: unlimited.
    meter : {"model", "realised"}, default="model"
        Whether a budget counts the cost of whole stages, the same for all rows, or what each row really pays.
    evaluation_cost : float, default=0.0
        Cost of evaluating one tree, features apart.
    validation_fraction : float, default=0.2
        Share of the rows that is kept from the estimator and orders the stages. None: keep the trained order.
    random_state : int, RandomState or None, default=None
    n_jobs : int, default=None
        Threads for prediction. The result does not depend on it.

    Attributes
    ----------
    plan_ : Plan
    classes_ : (C,) array
    stage_costs_ : (S,) array
        Cumulative model cost after each stage.
    order_ : list of str
        Groups in the order in which they are first bought.
    estimator_ : the fitted estimator (not after ``make_anytime`` or ``load``)

    See Also
    --------
    make_anytime : The same for a model that is fitted already.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("breast_cancer")
    >>> model = at.AnytimeClassifier(costs=costs, random_state=0).fit(X, y)
    >>> bool((model.cost(X, budget=40) <= 40).all())
    True
    """

    def _default(self, random: np.random.RandomState) -> BaseEstimator:
        from sklearn.ensemble import HistGradientBoostingClassifier

        return HistGradientBoostingClassifier(random_state=random.randint(2**31))

    def _check_labels(self, y: NDArray[Any]) -> None:
        check_classification_targets(y)
        if len(np.unique(y)) < 2:
            raise ValueError("y has one class only; a classifier needs at least 2 classes")

    def _target(self, y: Any) -> NDArray[Any]:
        number = {label: c for c, label in enumerate(self.classes_.tolist())}
        try:
            return np.array([number[label] for label in np.asarray(y).tolist()], dtype=np.intp)
        except KeyError as error:
            raise ValueError(f"y holds the label {error.args[0]!r}, which the model does not know") from None


class AnytimeRegressor(RegressorFace, ImportedModel):
    """A tree-based regressor of another library, made interruptible.

    Parameters
    ----------
    estimator : regressor, default=None
        A forest, extra-trees or gradient boosting regressor of scikit-learn, LightGBM or XGBoost. None:
        ``HistGradientBoostingRegressor``.
    costs, budget, meter, evaluation_cost, validation_fraction, random_state, n_jobs
        As in :class:`AnytimeClassifier`.

    See Also
    --------
    make_anytime : The same for a model that is fitted already.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("diabetes")
    >>> model = at.AnytimeRegressor(costs=costs, random_state=0).fit(X, y)
    >>> len(set(model.predict(X, budget=0)))  # nothing bought: one constant answer
    1
    """

    _numeric = True

    def _default(self, random: np.random.RandomState) -> BaseEstimator:
        from sklearn.ensemble import HistGradientBoostingRegressor

        return HistGradientBoostingRegressor(random_state=random.randint(2**31))

    def _target(self, y: Any) -> NDArray[Any]:
        return np.asarray(y, dtype=np.float64)


def held_out_quality(plan: Plan, X: Array, target: NDArray[Any], weight: Array | None) -> Array:
    """Minus the held-out loss before the first and after each stage."""
    run, loss = Run(plan, X), loss_for(plan.link)
    quality = [-loss(run.scores(), target, weight)]
    for stage in range(1, plan.n_stages + 1):
        run.advance(stage)
        quality.append(-loss(run.scores(), target, weight))
    return np.array(quality)


def _has_categories(X: Any) -> bool:
    """Whether X is a table with a column that is not a number."""
    if not hasattr(X, "dtypes"):
        return False
    return any(
        not isinstance(dtype, np.dtype) or dtype.kind not in "biuf" for dtype in np.atleast_1d(X.dtypes)
    )


def _lots(X: Any, random: np.random.RandomState) -> NDArray[np.uint64]:
    """(n,) random numbers that depend on what a row holds, not on where it stands."""
    if _has_categories(X):
        import pandas as pd

        columns = np.asarray(pd.util.hash_pandas_object(X, index=False), dtype=np.uint64)[:, None]
    else:
        columns = (np.ascontiguousarray(X, dtype=np.float64) + 0.0).view(
            np.uint64
        )  # + 0.0: minus zero is zero
    odd = random.randint(0, 2**63, size=columns.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    mixed = ((columns ^ (columns >> np.uint64(29))) * odd).sum(axis=1, dtype=np.uint64)
    return np.asarray((mixed ^ (mixed >> np.uint64(32))) * np.uint64(0x9E3779B97F4A7C15))


def _rows(X: Any, rows: NDArray[np.intp]) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]
