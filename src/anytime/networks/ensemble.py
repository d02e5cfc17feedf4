"""Models of growing cost, run one after the other, as one model that is close to the best of them at every budget.

EANN: Hu, *Anytime Prediction and Learning for the Balance between Computation and Accuracy*, section 4.4. A model that is good at
its end is often weak before. So a small model runs to its end first, then one that costs ``b`` times as much, and so on. An
output is adopted only if it was better than all before it on validation rows; this is decided once, in ``fit``.
``cost_inflation`` is the price of not knowing the budget.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier, is_regressor
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

from anytime._compat import StrOptions, rows_of
from anytime.costs import BoundCosts
from anytime.estimator import AnytimeModel
from anytime.faces import ClassifierFace, RegressorFace
from anytime.losses import LINKS
from anytime.networks.images import ImageRows
from anytime.networks.member import (
    MemberBlock,
    as_anytime,
    common_columns,
    common_images,
    common_link,
    fit_member,
    named_price,
    read_member,
)
from anytime.parameters import check_names, shared, store, without
from anytime.plan import Array, Plan
from anytime.rows import Rows
from anytime.trees.reading import ColumnModel
from anytime.trees.rows import checked_weights, has_categories, split_rows
from anytime.validation import as_table, check_columns, is_fitted, target_numbers, validated, weighed_by_class

__all__ = ["ExponentialEnsemble", "ExponentialEnsembleClassifier", "ExponentialEnsembleRegressor"]


class _OfMembers(ColumnModel):
    """A call of ``ExponentialEnsemble`` gives the class that goes with the members.

    It stands above the constructor, whose signature is therefore that of the class.
    """

    def __new__(cls, *wrapped: Any, **parameters: Any) -> Self:
        check_names(cls, parameters)
        face: type[Any] = cls
        if cls is ExponentialEnsemble:
            members = wrapped[0] if wrapped else parameters.get("members")
            face = ExponentialEnsembleClassifier if _classify(members) else ExponentialEnsembleRegressor
            check_names(face, parameters)
        model: Self = AnytimeModel.__new__(face)
        return model


class ExponentialEnsemble(_OfMembers):
    """Models from cheap to costly, run one after the other; each output that is better than all before it becomes the answer.

    The call returns an ``ExponentialEnsembleClassifier`` or an ``ExponentialEnsembleRegressor``, depending on the members.

    An output is adopted if its error on validation rows (share of wrong labels, or mean squared error) is lower than that of the
    best output adopted so far. The choice is made in ``fit`` and applies to all rows. Other outputs are computed only on the way
    to an adopted one; a member without adopted outputs never runs. Each adopted output is a stage of the plan that replaces the
    answer. A group that an earlier member has bought is free for a later one; members share no computation, so costs of
    evaluation add up.

    Parameters
    ----------
    members : list of models, or of pairs (model, price)
        From cheap to costly, all of them classifiers of the same classes or all regressors. A member is any model of this
        library, whose every stage is an output; a model that ``make_anytime`` takes, with an output per tree; or any other
        estimator, which answers at its end. A price is that of evaluating the whole member, without features, in the unit of
        ``costs``: it is spread over the member's stages in proportion to their own evaluation costs, or equally. Without a
        price, models of this library have their own evaluation costs, and others are free. Fitted members are used as they
        are; the others are cloned and fitted in ``fit``.
    exits : {"all", "last"}, default="all"
        Outputs of members that may be adopted. "last": only the last one of each member, the reference construction of
        ordinary networks.
    costs : FeatureCosts, mapping, table, path or sequence, default=None
        What columns cost. None: 1 per column. Here None means the prices of the members, if they have any, which must agree.
    budget : float, default=None
        Budget used when ``predict`` is given no bound: the most that any row may pay. None: no limit.
    meter : {"model", "realised"}, default="model"
        How a budget is counted: by what each row really pays, or by the most that a stage can cost. Every row of an ensemble pays
        for all columns that a member may read up to its output.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes. "balanced": inversely proportional to their frequency. None: 1 each. For classifiers only.
        They multiply ``sample_weight`` in fitting members and in measuring errors.
    validation_fraction : float or None, default=0.2
        Share of the training rows held out for decisions. None: no rows. It is used only for unfitted
        members; None then needs ``X_val``.
    random_state : int, RandomState or None, default=None
        Seed; the same seed gives the same model. It draws the held-out rows; members have their own.
    n_jobs : int, default=None
        Threads. None: 1; -1: all cores. The result does not depend on it.

    Attributes
    ----------
    plan_ : Plan
        A stage for each adopted output, in order of arrival.
    members_ : list of models
        The fitted members; missing after ``load``.
    adopted_ : list of (S_k,) bool
        Adopted outputs of each member.
    validation_errors_ : list of (S_k,) float
        Error of each output on the validation rows; NaN for outputs that ``exits="last"`` ignores.
    classes_ : (C,) array
        The labels; for classifiers.
    n_features_in_ : int
    feature_names_in_ : (d,) array of str
        Only if the columns have names, all of them strings.
    columns_ : Columns
        How members read a row.
    images_ : ImageRows or None
        How member networks turn images into rows. None: rows are those of a table.
    stage_costs_ : (S,) array
        Cumulative model cost after each stage.
    order_ : list of str
        Groups in the order in which they are first bought.

    See Also
    --------
    anytime.networks.cost_inflation : The price of not knowing the budget, for a growth factor of members.
    make_anytime : Takes a list of tree models too, and adopts them all.

    Notes
    -----
    If the budget is known in advance, the single member that fits it does better. Files hold plans, not estimators: after
    ``load`` the model predicts, but ``members`` is None. Members that are neither models of this library nor made of trees cannot
    be saved.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("breast_cancer")
    >>> small, large = (
    ...     at.GradientBoostingClassifier(n_estimators=n, costs=costs, evaluation_cost=0.1, random_state=0).fit(X[::2], y[::2])
    ...     for n in (5, 50)
    ... )
    >>> model = at.ExponentialEnsemble([small, large]).fit(X[1::2], y[1::2])  # rows that no member has seen
    >>> [int(outputs.sum()) > 0 for outputs in model.adopted_]
    [True, True]
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "members": [list, tuple, None],
        "exits": [StrOptions({"all", "last"})],
        **shared("costs", "budget", "meter", "class_weight", "validation_fraction", "random_state", "n_jobs"),
    }

    members_: list[Any]
    adopted_: list[NDArray[np.bool_]]
    validation_errors_: list[Array]
    images_: ImageRows | None

    def __init__(
        self,
        members: Sequence[Any] | None = None,
        *,
        exits: str = "all",
        costs: Any = None,
        budget: float | None = None,
        meter: str = "model",
        class_weight: Mapping[Any, float] | str | None = None,
        validation_fraction: float | None = 0.2,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        store(self, locals())

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None = None,
        *,
        X_val: Any = None,
        y_val: Any = None,
    ) -> Self:
        """Fit the unfitted members, and choose the adopted outputs on validation rows.

        If the fit fails, the model stays as it was.

        Parameters
        ----------
        X : (n, d)
            If all members are fitted: validation rows, on which none was trained. Otherwise: training rows.
        y : (n,)
            Labels, or numbers.
        sample_weight : (n,), default=None
            Not negative; None: 1 each.
        X_val, y_val : (m, d) and (m,), default=None
            Validation rows, instead of ``X`` or of a share of it.
        """
        self._validate_params()
        entries = [named_price(k, entry) for k, entry in enumerate(self.members or (), 1)]
        if not entries:
            raise ValueError("there are no members: give a list of models, from cheap to costly")
        self._check_kind(entries)
        if (X_val is None) != (y_val is None):
            raise ValueError("give X_val and y_val together: validation rows and their labels")
        trained = copy.copy(self)
        trained._train(entries, X, y, sample_weight, X_val, y_val)
        self.__dict__ = trained.__dict__
        return self

    # ------------------------------------------------------------------ members

    def _check_kind(self, entries: Sequence[tuple[Any, float | None]]) -> None:
        """Refuse members that do not answer the same kind of question."""
        wanted, fits = (
            ("classifier", is_classifier) if isinstance(self, ClassifierFace) else ("regressor", is_regressor)
        )
        for k, (model, _) in enumerate(entries, 1):
            if not fits(model):
                raise TypeError(
                    f"member {k}, a {type(model).__name__}, is not a {wanted}: members must be all classifiers or all regressors"
                )

    def _train(
        self,
        entries: Sequence[tuple[Any, float | None]],
        X: Any,
        y: Any,
        sample_weight: ArrayLike | None,
        X_val: Any,
        y_val: Any,
    ) -> None:
        X, y = self._check_rows(X, y, reset=True)
        weight = None if sample_weight is None else checked_weights(sample_weight, X)
        if weight is not None and not weight.all():
            present = np.flatnonzero(weight)
            X, y, weight = rows_of(X, present), y[present], weight[present]
        weight = self._weighed_by_class(y, weight)
        fitted = [is_fitted(model) for model, _ in entries]
        judging = np.arange(len(y))
        if not all(fitted):
            train, judging = self._split(X, y, X_val)
            learned = rows_of(X, train), y[train], None if weight is None else weight[train]
            entries = [
                entry if already_fitted else (fit_member(entry[0], *learned), entry[1])
                for entry, already_fitted in zip(entries, fitted, strict=True)
            ]
        if X_val is not None:
            X, y = self._check_rows(X_val, y_val, reset=False)
            weight, judging = self._weighed_by_class(y, None), np.arange(len(y))
        self._adopt(entries, rows_of(X, judging), y[judging], None if weight is None else weight[judging])

    def _check_rows(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, NDArray[Any]]:
        """A table, an array or images, and what is to be predicted."""
        X, y = as_table(X), as_table(y)
        shape = getattr(X, "shape", ())
        if len(shape) > 2:  # images, which the members read
            self.n_features_in_ = int(np.prod(shape[1:]))
            check_consistent_length(X, y)
        elif has_categories(X):
            check_columns(self, X, reset=reset)
            y = column_or_1d(y, warn=True)
            check_consistent_length(X, y)
        else:
            numbers, y = validated(
                self,
                X,
                y,
                reset=reset,
                dtype=np.float64,
                ensure_all_finite=False,
                multi_output=isinstance(self, RegressorFace),
                y_numeric=isinstance(self, RegressorFace),
            )
            X = X if hasattr(X, "iloc") else numbers
        return X, self._checked_target(y)

    def _split(self, X: Any, y: NDArray[Any], X_val: Any) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows to fit members on, and rows to judge them on."""
        everything = np.arange(len(y))
        if X_val is not None:
            return everything, everything
        if self.validation_fraction is None:
            raise ValueError(
                "unfitted members need validation rows: give X_val and y_val, or a validation_fraction"
            )
        random = check_random_state(self.random_state)
        rows = X if len(X.shape) == 2 else np.reshape(X, (len(y), -1))
        train, held = split_rows(rows, self._strata(y), self.validation_fraction, random)
        return train, held if held.size else everything  # too few rows to keep any from training

    # ------------------------------------------------------------------ from members to a plan

    def _adopt(
        self,
        entries: Sequence[tuple[Any, float | None]],
        X: Any,
        y: NDArray[Any],
        weight: Array | None,
    ) -> None:
        """Decide which outputs become the answer, and set all fitted attributes."""
        models = [as_anytime(model) for model, _ in entries]
        for k, model in enumerate(models, 1):
            self._check_columns_of(k, model)
        self._take_classes(models)
        costs = self._common_costs([model for model, _ in entries])
        members = [
            read_member(k, model, price, costs)
            for k, (model, (_, price)) in enumerate(zip(models, entries, strict=True), 1)
        ]
        self.columns_ = common_columns(members)
        link, transformed = common_link([member.plan for member in members])
        self.members_ = [model for model, _ in entries]
        self.images_ = common_images(self.members_)
        numbers = self._as_numbers(X) if self.images_ is None else self.images_(X)
        self._check_reading(models, X, numbers)
        target = self._target(y)
        bases = [
            LINKS[m.plan.link].transform(m.plan.base[None])[0] if transformed else m.plan.base
            for m in members
        ]
        error_before = self._error(link, bases[0][None].repeat(len(numbers), axis=0), target, weight)
        self.validation_errors_ = [
            self._errors(member.plan, link, transformed, numbers, target, weight) for member in members
        ]
        self.adopted_ = adopted_outputs(self.validation_errors_, error_before)
        blocks, evaluation, quality = [], [], [-error_before]
        for member, errors, adopted in zip(members, self.validation_errors_, self.adopted_, strict=True):
            ends = np.flatnonzero(adopted) + 1
            if not ends.size:
                continue
            blocks.append(MemberBlock(member.plan, ends, transformed))
            evaluation += np.add.reduceat(member.evaluation[: ends[-1]], np.r_[0, ends[:-1]]).tolist()
            quality += (-errors[adopted]).tolist()
        self.plan_ = Plan(
            blocks=blocks,
            costs=costs,
            base=bases[0],
            link=link,
            replaces=np.ones(len(evaluation), dtype=bool),
            evaluation_costs=costs.costs.amounts(np.array(evaluation)) if any(evaluation) else None,
            quality=np.array(quality),
        )

    def _errors(
        self,
        plan: Plan,
        link: str,
        transformed: bool,
        X: Array,
        target: NDArray[Any],
        weight: Array | None,
    ) -> Array:
        """(S,) error of each output of a member on the validation rows; NaN where it is not asked for."""
        errors = np.full(plan.n_stages, np.nan)
        ends = np.arange(plan.n_stages if self.exits == "last" else 1, plan.n_stages + 1)
        block = MemberBlock(plan, ends, transformed)
        memory = block.remember(len(X))
        for stage, end in enumerate(ends):
            errors[end - 1] = self._error(link, block.proceed(stage, stage, X, memory), target, weight)
        return errors

    def _check_columns_of(self, k: int, model: Any) -> None:
        """Refuse a member that was fitted on other columns."""
        if model.n_features_in_ != self.n_features_in_:
            raise ValueError(
                f"member {k} was fitted on {model.n_features_in_} columns, but X has {self.n_features_in_}"
            )
        names, own = (getattr(m, "feature_names_in_", None) for m in (model, self))
        if names is not None and own is not None and list(names) != list(own):
            raise ValueError(
                f"member {k} was fitted on columns of other names, or in another order, than X has"
            )

    def _check_reading(self, models: Sequence[Any], X: Any, numbers: Array) -> None:
        """Refuse a member that makes other numbers of the validation rows, such as a stream's for its categories."""
        for k, model in enumerate(models, 1):
            if not isinstance(model, AnytimeModel) or model._reads_rows_as_they_are:
                continue
            if not np.array_equal(model._as_numbers(X), numbers, equal_nan=True):
                raise ValueError(f"member {k} encodes categories by itself: encode them as numbers first")

    def _common_costs(self, models: Sequence[Any]) -> BoundCosts:
        """The prices of the ensemble: as given, or those on which the members agree."""
        priced = [(k, model) for k, model in enumerate(models, 1) if isinstance(model, AnytimeModel)]
        if self.costs is not None or not priced:
            return self._bound_costs()
        (first, model), *others = priced
        for k, other in others:
            same = other.costs_ == model.costs_
            if not same or not np.array_equal(other.plan_.costs.column_group, model.plan_.costs.column_group):
                raise ValueError(
                    f"members {first} and {k} have different prices: give costs, which then count for all"
                )
        bound: BoundCosts = model.plan_.costs
        return bound

    # ------------------------------------------------------------------ images

    @property
    def _flattened(self) -> ImageRows | None:
        return self.__dict__.get("images_")

    def _read_in(self, X: Any) -> Rows:
        if self._flattened is None:
            return super()._read_in(X)
        return Rows(self._flattened(X))

    def predict_one(
        self,
        x: Any,
        budget: float | None = None,
        deadline: float | None = None,
        *,
        mean_budget: float | None = None,
    ) -> Any:
        """The prediction for one row or one image. See ``answer`` for the bounds."""
        if self._flattened is None:
            return super().predict_one(x, budget, deadline, mean_budget=mean_budget)
        due = self._due(time.monotonic(), deadline)
        rows = Rows(self._flattened.one(x))
        return self._decided_one(self._run_plan(rows, budget, mean_budget, due))

    # ------------------------------------------------------------------ what classifiers and regressors do differently

    def _checked_target(self, y: Any) -> NDArray[Any]:
        raise NotImplementedError("use ExponentialEnsembleClassifier or ExponentialEnsembleRegressor")

    def _weighed_by_class(self, y: NDArray[Any], weight: Array | None) -> Array | None:
        """Weights of rows, times those of their classes where there are any."""
        return weight

    def _strata(self, y: NDArray[Any]) -> NDArray[np.intp]:
        raise NotImplementedError

    def _take_classes(self, models: Sequence[Any]) -> None:
        """Note the classes of a classifier."""

    def _target(self, y: NDArray[Any]) -> NDArray[Any]:
        raise NotImplementedError

    def _error(self, link: str, scores: Array, target: NDArray[Any], weight: Array | None) -> float:
        raise NotImplementedError

    # ------------------------------------------------------------------ files and tags

    def _file_state(self) -> dict[str, Any]:
        return {
            **super()._file_state(),
            "adopted": list(self.adopted_),
            "validation_errors": list(self.validation_errors_),
            "images": None if self.images_ is None else [list(self.images_.shape), self.images_.largest],
        }

    def _restore_file_state(self, state: Mapping[str, Any]) -> None:
        super()._restore_file_state(state)
        self.adopted_ = [np.asarray(adopted, dtype=bool) for adopted in state["adopted"]]
        self.validation_errors_ = [np.asarray(e, dtype=np.float64) for e in state["validation_errors"]]
        self.images_ = None
        if state["images"] is not None:
            shape, largest = state["images"]
            channels, height, width = map(int, shape)
            if channels * height * width != self.n_features_in_:
                raise ValueError(f"images of shape {shape} do not have {self.n_features_in_} columns")
            self.images_ = ImageRows((channels, height, width), float(largest))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if "columns_" in vars(self):
            tags.input_tags.allow_nan = self.columns_.ensure_all_finite is not True
        else:
            models = [named_price(k, entry)[0] for k, entry in enumerate(self.members or (), 1)]
            tags.input_tags.allow_nan = all(get_tags(model).input_tags.allow_nan for model in models)
        return tags


class ExponentialEnsembleClassifier(ClassifierFace, ExponentialEnsemble):
    """An ``ExponentialEnsemble`` of classifiers; see there."""

    def _checked_target(self, y: Any) -> NDArray[Any]:
        check_classification_targets(y)
        return np.asarray(y)

    def _weighed_by_class(self, y: NDArray[Any], weight: Array | None) -> Array | None:
        return weighed_by_class(weight, self.class_weight, y)

    def _strata(self, y: NDArray[Any]) -> NDArray[np.intp]:
        return np.unique(y, return_inverse=True)[1]

    def _take_classes(self, models: Sequence[Any]) -> None:
        for k, model in enumerate(models[1:], 2):
            if not np.array_equal(model.classes_, models[0].classes_):
                raise ValueError(
                    f"members 1 and {k} have different classes, {list(models[0].classes_)} and {list(model.classes_)}"
                )
        self.classes_ = np.asarray(models[0].classes_)

    def _target(self, y: NDArray[Any]) -> NDArray[Any]:
        if not np.isin(y, self.classes_).any():
            raise ValueError(
                f"no label of the validation rows, such as {y[0]!r}, is among the classes of the members, {list(self.classes_)}"
            )
        return y

    def _error(self, link: str, scores: Array, target: NDArray[Any], weight: Array | None) -> float:
        leading = scores[:, 0] > 0 if LINKS[link].binary else scores.argmax(axis=1)
        wrong = self.classes_[np.asarray(leading, dtype=np.intp)] != target
        return float(np.average(wrong, weights=weight))


@without("class_weight")
class ExponentialEnsembleRegressor(RegressorFace, ExponentialEnsemble):
    """An ``ExponentialEnsemble`` of regressors; see there."""

    def _checked_target(self, y: Any) -> NDArray[Any]:
        return target_numbers(y)

    def _strata(self, y: NDArray[Any]) -> NDArray[np.intp]:
        return np.zeros(len(y), dtype=np.intp)

    def _target(self, y: NDArray[Any]) -> NDArray[Any]:
        return y[:, None] if y.ndim == 1 else y

    def _error(self, link: str, scores: Array, target: NDArray[Any], weight: Array | None) -> float:
        values = LINKS[link].transform(scores)
        if values.shape != target.shape:
            raise ValueError(f"members predict {values.shape[1]} numbers a row, but y has {target.shape[1]}")
        return float(np.average(((values - target) ** 2).mean(axis=1), weights=weight))


def adopted_outputs(errors: Sequence[Array], error_before: float) -> list[NDArray[np.bool_]]:
    """Outputs that are better than all before them, in the order of the members.

    Parameters
    ----------
    errors : sequence of (S_k,) float
        Errors of each member's outputs on validation rows; NaN: never adopted.
    error_before : float
        Error of the answer before the first output.

    Returns
    -------
    list of (S_k,) bool
        At least one is adopted: if none is better than ``error_before``, the first of the best ones.

    Examples
    --------
    >>> import numpy as np
    >>> [mask.tolist() for mask in adopted_outputs([np.array([0.4, 0.3]), np.array([0.3, 0.2])], 0.5)]
    [[True, True], [False, True]]
    """
    whole = np.concatenate([np.where(np.isnan(e), np.inf, e) for e in errors])
    best_before = np.minimum.accumulate(np.r_[error_before, whole])[:-1]
    adopted = whole < best_before
    if not adopted.any():
        adopted[np.argmin(whole)] = True
    return np.split(adopted, np.cumsum([len(e) for e in errors])[:-1])


def _classify(members: Any) -> bool:
    """Whether the first member is a classifier; if something is wrong with it, ``fit`` raises."""
    if not isinstance(members, (list, tuple)) or not members:
        return False
    first = members[0][0] if isinstance(members[0], tuple) and members[0] else members[0]
    return hasattr(first, "predict") and not isinstance(first, type) and bool(is_classifier(first))
