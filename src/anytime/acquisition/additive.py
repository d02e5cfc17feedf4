"""Classifiers that are sums over columns, ``f(x) = b + sum_j s_j(x_j)``: what can answer before all columns are known.

Linear models are such sums, and so are boosted stumps. A column that is not known contributes 0 (Nan 2018, section 2.2).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.blocks import State
from anytime.losses import LINKS
from anytime.plan import Array, Plan
from anytime.trees.arrays import LEAF, MISSING_NAN_OR_ZERO, NUMERIC, TreeArrays
from anytime.trees.block import TreeBlock
from anytime.trees.importers import import_trees

_SCALERS = ("StandardScaler", "MinMaxScaler", "MaxAbsScaler", "RobustScaler")


class AdditiveClassifier(ABC):
    """A score ``offset + sum_j s_j(x_j)``, positive for the second of two classes.

    Attributes
    ----------
    offset : float
    n_features : int
    used : (d,) bool
        Columns whose term is not 0 everywhere.
    """

    kind: ClassVar[str]
    offset: float
    used: NDArray[np.bool_]

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.used.size

    def contributions(self, X: Array) -> Array:
        """(n, d) what each column adds to the score; 0 where it is missing."""
        out = np.zeros((len(X), self.n_features))
        with np.errstate(invalid="ignore", over="ignore"):
            self._fill(X, out)
        return np.where(np.isnan(out) | np.isnan(X), 0.0, out)

    def decision_function(self, X: Array) -> Array:
        """(n,) the score when all columns are known."""
        return np.asarray(self.offset + self.contributions(X).sum(axis=1))

    @abstractmethod
    def _fill(self, X: Array, out: Array) -> None:
        """Write the terms of the used columns to ``out``."""

    def state(self) -> State:
        """What a file keeps of it."""
        raise TypeError(f"{type(self).__name__} hold Python functions and cannot be saved to a file")


class LinearTerms(AdditiveClassifier):
    """``s_j(x) = slopes[j] * (x - centres[j])``.

    Parameters
    ----------
    offset : float
    slopes : (d,)
    centres : (d,), default=None
        The value of a column that counts as much as not knowing it. 0 where not given.
    """

    kind = "linear"

    def __init__(self, offset: float, slopes: ArrayLike, centres: ArrayLike | None = None) -> None:
        self.offset = float(offset)
        self.slopes = np.array(slopes, dtype=np.float64)
        self.centres = np.zeros_like(self.slopes) if centres is None else np.array(centres, dtype=np.float64)
        if self.slopes.ndim != 1 or self.centres.shape != self.slopes.shape:
            raise ValueError(f"{self.slopes.shape} slopes, but {self.centres.shape} centres")
        if not np.isfinite([self.offset, *self.slopes, *self.centres]).all():
            raise ValueError("offset, slopes and centres must be finite")
        self.used = self.slopes != 0

    def _fill(self, X: Array, out: Array) -> None:
        out[:, self.used] = self.slopes[self.used] * (X[:, self.used] - self.centres[self.used])

    def state(self) -> State:
        """Offset, and the two arrays."""
        return {"offset": self.offset}, {"slopes": self.slopes, "centres": self.centres}


class StepTerms(AdditiveClassifier):
    """Terms that are constant between thresholds: sums of stumps on one column.

    Parameters
    ----------
    offset : float
    start : (d + 1,) int
        Thresholds of column j are ``thresholds[start[j]:start[j + 1]]``.
    thresholds : (m,)
        Increasing within a column, not necessarily strictly.
    values : (m + d,)
        One more than thresholds for each column: what it adds up to and including the first threshold, up to the second, ...
        and above the last.
    """

    kind = "steps"

    def __init__(self, offset: float, start: ArrayLike, thresholds: ArrayLike, values: ArrayLike) -> None:
        self.offset = float(offset)
        self.start = np.array(start, dtype=np.int64)
        self.thresholds = np.array(thresholds, dtype=np.float64)
        self.values = np.array(values, dtype=np.float64)
        d, m = self.start.size - 1, self.thresholds.size
        if d < 0 or self.start[0] != 0 or self.start[-1] != m or (np.diff(self.start) < 0).any():
            raise ValueError(f"start must rise from 0 to the number of thresholds, {m}")
        if self.values.shape != (m + d,):
            raise ValueError(f"{m} thresholds of {d} columns need {m + d} values, not {self.values.size}")
        if not np.isfinite([self.offset, *self.values]).all() or np.isnan(self.thresholds).any():
            raise ValueError("offset and values must be finite, and thresholds numbers")
        for j in range(d):
            if (np.diff(self.thresholds[self.start[j] : self.start[j + 1]]) < 0).any():
                raise ValueError(f"the thresholds of column {j} do not increase")
        self.used = np.diff(self.start) > 0

    @classmethod
    def of_stumps(
        cls,
        n_features: int,
        offset: float,
        columns: NDArray[np.integer[Any]],
        thresholds: Array,
        left: Array,
        right: Array,
    ) -> StepTerms:
        """The sum of stumps, each of which adds ``left`` where ``x <= threshold`` and ``right`` where it is above."""
        order = np.lexsort((thresholds, columns))
        columns, thresholds, left, right = columns[order], thresholds[order], left[order], right[order]
        start = np.searchsorted(columns, np.arange(n_features + 1))
        values = []
        for a, b in pairwise(start):
            below = np.concatenate([[0.0], np.cumsum(right[a:b])])
            above = np.concatenate([[0.0], np.cumsum(left[a:b][::-1])])[::-1]
            values.append(below + above)
        return cls(offset, start, thresholds, np.concatenate(values) if values else [])

    def _fill(self, X: Array, out: Array) -> None:
        for j in np.flatnonzero(self.used):
            a, b = self.start[j : j + 2]
            out[:, j] = self.values[a + j : b + j + 1][np.searchsorted(self.thresholds[a:b], X[:, j])]

    def state(self) -> State:
        """Offset, and the three arrays."""
        arrays: dict[str, NDArray[Any]] = {
            "start": self.start,
            "thresholds": self.thresholds,
            "values": self.values,
        }
        return {"offset": self.offset}, arrays


class FunctionTerms(AdditiveClassifier):
    """Terms given as functions of one column each.

    Parameters
    ----------
    n_features : int
    offset : float
    functions : mapping from int to callable
        By column; from (n,) values to (n,) contributions. Columns without one contribute nothing.
    """

    kind = "functions"

    def __init__(
        self, n_features: int, offset: float, functions: Mapping[int, Callable[[Array], ArrayLike]]
    ) -> None:
        strange = [j for j in functions if not 0 <= j < n_features]
        if strange:
            raise ValueError(
                f"there is a function for column {strange[0]}, but there are {n_features} columns"
            )
        self.offset, self.functions = float(offset), dict(functions)
        self.used = np.isin(np.arange(n_features), list(functions))

    def _fill(self, X: Array, out: Array) -> None:
        for j, function in self.functions.items():
            out[:, j] = function(X[:, j])


# ---------------------------------------------------------------------- other models as sums


def as_additive(model: Any) -> AdditiveClassifier:
    """A fitted classifier of two classes as a sum over columns.

    Parameters
    ----------
    model : fitted estimator
        With ``coef_`` and ``intercept_``, as linear models of scikit-learn have them; boosted stumps of scikit-learn, LightGBM or
        XGBoost, or of this library; or a scikit-learn pipeline that only scales columns before one of these. Scores at most
        rounding apart from its own, where no value is missing.
    """
    if isinstance(model, AdditiveClassifier):
        return model
    classes = getattr(model, "classes_", None)
    if classes is not None and len(classes) != 2:
        raise ValueError(
            f"Only binary classification is supported. The classifier has {len(classes)} classes"
        )
    if hasattr(model, "steps"):
        return _scaled(model)
    if hasattr(model, "coef_"):
        slopes = np.asarray(model.coef_, dtype=np.float64).reshape(-1)
        return LinearTerms(float(np.asarray(model.intercept_).reshape(-1)[0]), slopes)
    if hasattr(model, "estimator_weights_"):
        return _of_votes(model)
    plan = getattr(model, "plan_", None)
    return _of_plan(plan) if isinstance(plan, Plan) else _of_imported(model)


def _scaled(pipeline: Any) -> AdditiveClassifier:
    """A pipeline of scalers and a linear model."""
    *before, (_, last) = pipeline.steps
    strange = [type(step).__name__ for _, step in before if type(step).__name__ not in _SCALERS]
    if strange:
        raise TypeError(
            f"a {strange[0]} may mix columns, so the pipeline is not a sum over columns; only "
            f"{', '.join(_SCALERS)} may come before"
        )
    inner = as_additive(last)
    if not isinstance(inner, LinearTerms):
        raise TypeError(
            "a scaler is supported only before a linear model; stumps need none, so fit them without it"
        )
    zero, one = np.zeros((1, inner.n_features)), np.ones((1, inner.n_features))
    for _, step in before:
        zero, one = step.transform(zero), step.transform(one)
    rate = (one - zero)[0]
    return LinearTerms(inner.offset, inner.slopes * rate, (inner.centres - zero[0]) / rate)


def _of_votes(model: Any) -> AdditiveClassifier:
    """scikit-learn's AdaBoost: the weighted votes of stumps, over the sum of weights."""
    trees = [stump.tree_ for stump in model.estimators_ if hasattr(stump, "tree_")]
    if len(trees) < len(model.estimators_) or max(tree.max_depth for tree in trees) > 1:
        raise TypeError(
            "AdaBoost is a sum over columns only if its estimators are DecisionTreeClassifier(max_depth=1)"
        )
    weights = 2.0 * model.estimator_weights_[: len(trees)] / model.estimator_weights_.sum()
    offset, stumps = 0.0, []
    for tree, weight in zip(trees, weights, strict=True):
        vote = np.where(tree.value[:, 0, :].argmax(axis=1) == 1, weight, -weight)
        if tree.node_count == 1:
            offset += vote[0]
        else:
            stumps.append((tree.feature[0], tree.threshold[0], vote[1], vote[2]))
    column, threshold, left, right = np.array(stumps).reshape(-1, 4).T
    cuts = _cuts_of_float32(threshold)
    return StepTerms.of_stumps(model.n_features_in_, offset, column.astype(int), cuts, left, right)


def _of_plan(plan: Plan) -> AdditiveClassifier:
    """A model of this library that adds up stumps."""
    if (
        plan.n_outputs != 1
        or not LINKS[plan.link].binary
        or plan.combine != "sum"
        or plan.weights is not None
    ):
        raise TypeError("only a binary classifier whose stages add up is a sum over columns")
    if plan.passes or plan.stops or (plan.replaces is not None and np.any(plan.replaces)):
        raise TypeError("a model whose stages replace each other or skip rows is not a sum over columns")
    parts = []
    for block in plan.blocks:
        if not isinstance(block, TreeBlock):
            raise TypeError(f"a model with a {type(block).__name__} is not a sum of stumps")
        arrays: dict[str, Any] = dict(block.forest.arrays())
        arrays.pop("shift")
        parts.append(_stumps_of(TreeArrays(**arrays)))
    return _of_stumps(plan.n_features, float(plan.base[0]), parts)


def _of_imported(model: Any) -> AdditiveClassifier:
    try:
        imported = import_trees(model)
    except TypeError as error:
        raise TypeError(
            f"a {type(model).__name__} is not a sum over columns; use a linear model or boosted stumps"
        ) from error
    if imported.base.size != 1 or imported.combine != "sum" or imported.classes is None:
        raise TypeError(f"{imported.source} is not a sum of stumps for two classes")
    return _of_stumps(imported.trees.n_features, float(imported.base[0]), [_stumps_of(imported.trees)])


Stumps = tuple[float, NDArray[np.int64], Array, Array, Array]  # constant, columns, thresholds, left, right


def _of_stumps(n_features: int, base: float, parts: list[Stumps]) -> StepTerms:
    offset = base + sum(part[0] for part in parts)
    none: Stumps = (0.0, np.empty(0, dtype=np.int64), np.empty(0), np.empty(0), np.empty(0))
    columns, thresholds, left, right = (
        np.concatenate([np.asarray(part[i]) for part in [none, *parts]]) for i in range(1, 5)
    )
    return StepTerms.of_stumps(n_features, offset, columns, thresholds, left, right)


def _stumps_of(trees: TreeArrays) -> Stumps:
    roots, sizes = trees.tree_start[:-1], np.diff(trees.tree_start)
    split = roots[trees.feature[roots] != LEAF]
    if (sizes > 3).any():
        raise TypeError(
            f"tree {int(np.argmax(sizes > 3))} has several splits, so it is not a function of one column; use stumps: "
            "max_depth=1 or max_leaf_nodes=2"
        )
    if (trees.category_set[split] != NUMERIC).any() or (trees.missing[split] == MISSING_NAN_OR_ZERO).any():
        raise TypeError(
            "stumps on categories, or that treat 0 as missing, are not supported here; encode the column"
        )
    value = trees.value[:, 0]
    thresholds = trees.threshold[split]
    return (
        float(value[roots[trees.feature[roots] == LEAF]].sum()),
        trees.feature[split].astype(np.int64),
        _cuts_of_float32(thresholds) if trees.float32_input else thresholds,
        value[split + trees.left[split]],
        value[split + trees.right[split]],
    )


def _cuts_of_float32(thresholds: Array) -> Array:
    """For values that are rounded to float32 before they are compared: thresholds that say the same of values as they are."""
    with np.errstate(over="ignore"):
        below = thresholds.astype(np.float32)
        below = np.where(below > thresholds, np.nextafter(below, np.float32(-np.inf)), below)
        halfway = (below.astype(np.float64) + np.nextafter(below, np.float32(np.inf)).astype(np.float64)) / 2
        return np.where(halfway.astype(np.float32) <= below, halfway, np.nextafter(halfway, -np.inf))
