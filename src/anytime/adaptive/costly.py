"""The costly model, of any kind: its predictions for rows it was not trained on, and the stage that calls it.

A gate learned from probabilities that the costly model gives its own training rows would take it for perfect. So the
probabilities come from out-of-bag trees or from folds, unless the model has never seen the rows (Nan 2018, section 5.3,
where this is left open).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_regressor
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import has_fit_parameter

from anytime._compat import rows_of
from anytime.adaptive.blocks import METHODS, CostlyBlock, TableReader, scores_of_probabilities
from anytime.adaptive.embedding import as_trees, embedded
from anytime.adaptive.questions import Costly, CostlyQuestion
from anytime.adaptive.stages import Chain
from anytime.plan import Array
from anytime.trees.clock import inner_fit
from anytime.trees.rows import fold_rows, has_categories
from anytime.validation import is_fitted

__all__ = ["SOURCES", "Costly", "CostlyQuestion", "attached", "check_kind", "is_model", "read_costly"]

SOURCES = ("auto", "oob", "crossval", "insample")
_PROBES = 32  # rows that a file keeps to recognise the model by
_GIVEN = "given probabilities"
_ROUNDING = 1e-6  # by which probabilities may miss 1 in all


def read_costly(question: CostlyQuestion, source: str, costly_proba: ArrayLike | None = None) -> Costly:
    """Whatever stands for the costly model, fitted if need be, with honest scores of the rows.

    Probabilities (n, C) of the rows are ``costly_proba``, which also calibrate a model without probabilities, or come from one of
    ``SOURCES``. "auto": out-of-bag where a forest has them, else from folds; as they are for what cannot be trained,
    a callable or a frozen estimator.
    """
    costly = question.costly
    probabilities = None if costly_proba is None else _checked_probabilities(costly_proba, question)
    if not is_model(costly):
        scores = scores_of_probabilities(_checked_probabilities(costly, question))
        return Costly(_opaque(_GIVEN, None, question), scores, None)
    if not hasattr(costly, "fit"):
        if (asked := hasattr(costly, METHODS[0])) and hasattr(costly, "classes_"):
            _check_known(costly, question.classes)
        function = _reader(_Asked(costly, METHODS[0], question.classes) if asked else costly, question)
        if probabilities is None:
            probabilities = _checked_probabilities(function(question.numbers), question)
        return Costly(
            _opaque(_name(costly), function, question), scores_of_probabilities(probabilities), costly
        )
    fitted = is_fitted(costly)
    if fitted:
        _check_columns(costly, question)
    model = costly if fitted else _fit(_seeded(costly, question.random), question, None)
    _check_known(model, question.classes)
    if probabilities is not None and _method(model) == METHODS[0]:
        return _as_stage(model, probabilities, question)
    # it is only calibrated on what it says, which is not worth training it again
    if probabilities is not None and fitted:
        source = "insample"
    stage = _as_stage(model, _honest_values(model, fitted, question, source), question)
    return stage if probabilities is None else replace(stage, scores=scores_of_probabilities(probabilities))


def _as_stage(model: Any, values: Array, question: CostlyQuestion) -> Costly:
    """A fitted estimator as a stage: by its exits, by its trees, or as it is."""
    method, chain = _method(model), _as_chain(model, question)
    if chain is not None:
        return Costly(chain.last, scores_of_probabilities(values), model, chain.exits, chain.last_cost)
    trees = as_trees(model, question)
    if trees is not None:
        return embedded(trees, values, model, question)
    calibration = None if method == METHODS[0] else _calibration(values, question)
    function = _reader(_Asked(model, method, question.classes), question)
    block = _opaque(_name(model), function, question, method, calibration)
    return Costly(block, block.scores(values), model)


def _as_chain(model: Any, question: CostlyQuestion) -> Chain | None:
    """What a fitted composite is made of, where it reads the same numbers."""
    plan = getattr(model, "plan_", None)
    if plan is None or not hasattr(model, "honest_proba_") or question.columns.categories:
        return None
    same = np.array_equal(model.classes_, question.classes) and plan.n_features == question.numbers.shape[1]
    return Chain.of(plan) if same and question.read is None else None


def attached(block: CostlyBlock, model: Any, owner: Any) -> CostlyBlock:
    """A block with a model given by hand, which reads the columns as ``owner``, the composite, knows them."""
    ask: Callable[[Any], ArrayLike]
    if hasattr(model, block.method):
        _check_known(model, owner.classes_)
        ask = _Asked(model, block.method, owner.classes_)
    elif callable(model) and block.method == METHODS[0]:
        ask = model
    else:
        raise TypeError(
            f"{_name(model)} has no {block.method}, by which {block.name!r} was asked in training; give a fitted model that "
            "has it" + (", or a function from rows to probabilities" if block.method == METHODS[0] else "")
        )
    names = getattr(owner, "feature_names_in_", None)
    words = {j: words for j, words in owner.categories_.items() if words != list(range(len(words)))}
    reader = TableReader(ask, None if names is None else [str(n) for n in names], words)
    return block.attached(_of_columns(reader, block.reads_in_order, owner.n_features_in_), _name(model))


# ---------------------------------------------------------------------- asking an estimator


def _name(model: Any) -> str:
    return str(getattr(model, "__name__", type(model).__name__))


def is_model(costly: Any) -> bool:
    """Whether this can be asked about rows: an object with a method of ``METHODS``, or a function; else it is probabilities."""
    return callable(costly) or any(hasattr(costly, method) for method in METHODS)


def check_kind(costly: Any) -> None:
    """Refuse what is neither a classifier nor a function nor probabilities."""
    wrong = None
    if isinstance(costly, type):
        wrong = f"the class {costly.__name__} itself; give an instance, {costly.__name__}()"
    elif isinstance(costly, str):
        wrong = f"the text {costly!r}"
    elif (
        is_model(costly)
        and not callable(costly)
        and not hasattr(costly, "fit")
        and not hasattr(costly, METHODS[0])
    ):
        wrong = f"a {_name(costly)}, which has no predict_proba; wrap it in a function from rows to probabilities of the classes"
    elif hasattr(costly, "__sklearn_tags__") and is_regressor(costly):
        wrong = f"a {_name(costly)}, which predicts numbers; give a classifier"
    elif isinstance(costly, (tuple, list)) and any(is_model(entry) for entry in costly):
        wrong = (
            f"a {_name(costly)} with a model in it; give the model alone, and its price as evaluation_cost="
        )
    elif costly is not None and not is_model(costly) and not _are_numbers(costly):
        wrong = f"of type {_name(costly)}, which has no predict_proba and cannot be called"
    if wrong is not None:
        raise TypeError(
            "costly must be a classifier, an object with predict_proba and classes_, a function from rows to probabilities, or "
            f"probabilities; it is {wrong}"
        )


def _are_numbers(values: Any) -> bool:
    try:
        return bool(np.asarray(values, dtype=np.float64).ndim)
    except (TypeError, ValueError):
        return False


def _method(model: Any) -> str:
    return next((method for method in METHODS if hasattr(model, method)), METHODS[-1])


def _reader(ask: Callable[[Any], ArrayLike], question: CostlyQuestion) -> Callable[[Array], ArrayLike]:
    """A function of the plan's numbers that gives the model what it was trained on."""
    table = hasattr(question.X, "iloc")
    reader = TableReader(ask, question.names if table else None, question.words)
    return _of_columns(reader, question.read_columns, question.numbers.shape[1])


def _of_columns(
    reader: TableReader, read: NDArray[np.int32], n_features: int
) -> Callable[[Array], ArrayLike]:
    whole = np.array_equal(read, np.arange(n_features))
    return reader if whole else _SomeColumns(reader, read)


@dataclass(frozen=True, eq=False)
class _SomeColumns:
    """Asks with some of the columns."""

    reader: TableReader
    read: NDArray[np.int32]

    def __call__(self, X: Array) -> Array:
        table = self.reader.table(X)
        chosen = table.iloc[:, self.read] if hasattr(table, "iloc") else table[:, self.read]
        return np.asarray(self.reader.ask(chosen), dtype=np.float64)


def _opaque(
    name: str,
    function: Callable[[Array], ArrayLike] | None,
    question: CostlyQuestion,
    method: str = METHODS[0],
    calibration: Array | None = None,
) -> CostlyBlock:
    n = len(question.numbers)
    rows = question.numbers[np.unique(np.linspace(0, n - 1, min(n, _PROBES)).astype(np.intp))]
    # Models that have memorised the training rows agree on them. Each column keeps values that the model can read.
    probe = np.random.default_rng(0).permuted(rows, axis=0)
    return CostlyBlock(
        name,
        question.read_columns,
        function,
        question.classes.size,
        method=method,
        calibration=calibration,
        probe=probe,
    )


@dataclass(frozen=True, eq=False)
class _Asked:
    """Predictions of an estimator for rows."""

    model: Any
    method: str
    classes: NDArray[Any]

    def __call__(self, X: Any) -> Array:
        return _values(self.model, self.method, X, self.classes)


def _by_class(values: ArrayLike, model: Any, classes: NDArray[Any]) -> Array:
    columns = np.asarray(values, dtype=np.float64)
    classes_of_model = np.asarray(getattr(model, "classes_", classes))
    if np.array_equal(classes_of_model, classes):
        return columns
    out = np.zeros((len(columns), classes.size))
    out[:, np.searchsorted(classes, classes_of_model)] = columns
    return out


def _check_known(model: Any, classes: NDArray[Any]) -> None:
    """Refuse a model of other classes; of some of them it may know nothing."""
    trained = getattr(model, "classes_", None)
    if trained is not None and not set(np.asarray(trained).tolist()) <= set(classes.tolist()):
        raise ValueError(
            f"the costly model was trained on the classes {np.asarray(trained).tolist()[:8]}, but y has {classes.tolist()[:8]}: "
            "its classes must be among those of y"
        )


def _check_columns(model: Any, question: CostlyQuestion) -> None:
    """Refuse a fitted model that takes another number of columns than it would be given."""
    n_trained, n_read = getattr(model, "n_features_in_", None), question.read_columns.size
    if n_trained is None or n_trained == n_read:
        return
    if question.read is not None:
        raise ValueError(
            f"the costly model was fitted on {n_trained} columns, but costly_columns= names {n_read}"
        )
    raise ValueError(
        f"the costly model was fitted on {n_trained} columns, but X has {n_read}: "
        "name the columns that it takes with costly_columns="
    )


def _checked_probabilities(probabilities: ArrayLike, question: CostlyQuestion) -> Array:
    shares, kind = np.asarray(probabilities, dtype=np.float64), np.asarray(probabilities).dtype
    n, c = len(question.numbers), question.classes.size
    if shares.ndim == 1 and c == 2:
        shares = np.column_stack([1.0 - shares, shares])
    if shares.shape != (n, c):
        raise ValueError(
            f"the costly model's probabilities have shape {shares.shape}, but need ({n}, {c}): one row per row of X, "
            "one column per class in sorted order"
        )
    wrong = ~((shares >= 0) & (shares <= 1 + 1e-9)).all(axis=1)
    if wrong.any():
        first = int(wrong.argmax())
        raise ValueError(
            f"the costly model's probabilities must lie between 0 and 1; in {wrong.sum()} of {n} rows they do not, first in row "
            f"{first}: {shares[first].tolist()}"
        )
    rounding = c * float(np.finfo(kind).eps) if kind.kind == "f" else 0.0
    wrong = np.abs(shares.sum(axis=1) - 1.0) > max(_ROUNDING, rounding)
    if wrong.any():
        first = int(wrong.argmax())
        raise ValueError(
            f"the costly model's probabilities of the classes must add up to 1; in {wrong.sum()} of {n} rows they do not, first "
            f"in row {first}: {shares[first].tolist()}"
        )
    return shares


# ---------------------------------------------------------------------- scores of rows it has not learned from


def _honest_values(model: Any, fitted: bool, question: CostlyQuestion, source: str) -> Array:
    """(n, ...) what the model's ``_method`` gives for rows that it has not learned from."""
    costly, method, n = question.costly, _method(model), len(question.numbers)
    bagged = getattr(model, "oob_decision_function_", getattr(model, "honest_proba_", None))
    has_bags = bagged is not None and len(bagged) == n and np.isfinite(bagged).all()
    if source == "oob" and not has_bags:
        raise ValueError(
            f"proba_source='oob', but {_name(model)} has no out-of-bag probabilities for these {n} rows; fit it with "
            "oob_score=True and more trees, or use proba_source='crossval'"
        )
    if source in ("auto", "oob") and bagged is not None and has_bags and method == "predict_proba":
        return _by_class(bagged, model, question.classes)
    frozen = fitted and clone(costly) is costly  # scikit-learn's FrozenEstimator
    if source == "insample" or (source == "auto" and frozen):
        return _values(model, method, question.rows, question.classes)
    return _by_folds(costly, method, question)


def _values(model: Any, method: str, X: Any, classes: NDArray[Any]) -> Array:
    """(n, C) probabilities, or (n, m) numbers from which probabilities can be learned."""
    if hasattr(model, "n_features_in_") and not hasattr(model, "feature_names_in_") and not has_categories(X):
        X = np.asarray(X, dtype=np.float64)  # it was trained on arrays, and would wonder at names
    if method == "predict":
        return np.asarray(np.asarray(model.predict(X))[:, None] == classes, dtype=np.float64)
    outputs = np.asarray(getattr(model, method)(X), dtype=np.float64)
    if method == "predict_proba":
        return _by_class(outputs, model, classes)
    return outputs[:, None] if outputs.ndim == 1 else outputs


def _by_folds(costly: Any, method: str, question: CostlyQuestion) -> Array:
    numbers, n_folds = question.class_numbers, min(question.folds, len(question.numbers))
    fold = fold_rows(question.numbers, numbers, n_folds, question.random)
    folds = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in np.unique(fold)]
    seeds = [np.random.RandomState(question.random.randint(2**31)) for _ in folds]

    def judged(train: NDArray[np.intp], test: NDArray[np.intp], random: np.random.RandomState) -> Array:
        try:
            model = _fit(_seeded(costly, random), question, train)
        except ValueError as error:
            if np.unique(numbers[train]).size > 1:
                raise
            lost = np.setdiff1d(numbers, numbers[train])[0]
            rows = "1 row" if (count := (numbers == lost).sum()) == 1 else f"{count} rows"
            raise ValueError(
                f"class {question.classes.tolist()[lost]!r} has {rows}, too few for cross-validation of {_name(costly)}; "
                "give more, or set proba_source='insample'"
            ) from error
        return _values(model, method, rows_of(_as_rows(question.rows), test), question.classes)

    done = Parallel(n_jobs=question.n_jobs, prefer="threads")(
        delayed(judged)(train, test, random) for (train, test), random in zip(folds, seeds, strict=True)
    )
    out = np.empty((len(numbers), max(part.shape[1] for part in done)))
    for (_, test), part in zip(folds, done, strict=True):
        if part.shape[1] != out.shape[1]:
            raise ValueError(
                f"y has too few rows of some class for cross-validation of {_name(costly)}; set proba_source='insample'"
            )
        out[test] = part
    return out


def _seeded(costly: Any, random: np.random.RandomState) -> Any:
    """A clone that draws from ``random`` where it was left to luck."""
    model = clone(costly)
    if "random_state" in model.get_params(deep=False) and model.random_state is None:
        model.set_params(random_state=random.randint(2**31))
    return model


def _fit(model: Any, question: CostlyQuestion, rows: NDArray[np.intp] | None) -> Any:
    X, y, weight = _as_rows(question.rows), question.y, question.weight
    if rows is not None:
        X, y, weight = rows_of(X, rows), y[rows], None if weight is None else weight[rows]
    weights = (
        {"sample_weight": weight} if weight is not None and has_fit_parameter(model, "sample_weight") else {}
    )
    with inner_fit():
        return model.fit(X, y, **weights)


def _as_rows(X: Any) -> Any:
    return X if hasattr(X, "iloc") else np.asarray(X)


def _calibration(values: Array, question: CostlyQuestion) -> Array:
    """(v + 1, K) Scores of classes from a model that gives none: logistic regression on decision values (Platt) or votes."""
    regression = LogisticRegression(C=1.0, max_iter=1000)
    regression.fit(values, question.class_numbers, sample_weight=question.weight)
    return np.vstack([regression.coef_.T, regression.intercept_])
