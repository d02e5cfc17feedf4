"""scikit-learn's checks of rows and targets, with errors that say which column, which row and which word is wrong."""

import sys
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import NotFittedError
from sklearn.utils import assert_all_finite
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted, column_or_1d, validate_data

from anytime._native import is_within


def validated(model: Any, X: Any, *y: Any, largest: float = np.finfo(np.float64).max, **how: Any) -> Any:
    """What ``sklearn.utils.validation.validate_data`` gives, with an error of our own for values that are not finite."""
    X, y = as_table(X), tuple(map(as_table, y))
    check_rows(model, X, predicting=not how.get("reset", True))
    missing = how.pop("ensure_all_finite", True) is not True
    if not y and _is_ready(model, X, **how):
        read = np.ascontiguousarray(X)
    else:
        with naming_words(X, y=y[0] if y else None):
            read = validate_data(model, X, *y, ensure_all_finite=False, **how)
    names = getattr(model, "feature_names_in_", None)
    check_finite(read[0] if y else read, names, missing=missing, largest=largest)
    return read


def check_finite(
    X: Any,
    names: Any = None,
    *,
    missing: bool = True,
    largest: float = np.finfo(np.float64).max,
    first_row: int = 0,
) -> None:
    """Refuse infinite values in the (n, d) numbers ``X``, in fit and in predict of every model; say in which column and row.

    NaN stands for a missing value unless ``missing`` is False. What is beyond the ``largest`` number that a model can read is
    infinite.
    """
    values = np.asarray(X)
    if values.dtype.kind != "f" or is_within(np.ascontiguousarray(values, np.float64), largest, missing):
        return
    wrong = ~(np.abs(values) <= largest)
    if missing:
        wrong &= ~np.isnan(values)
    row, column = (int(index[0]) for index in np.nonzero(wrong))
    label = column if names is None else names[column]
    label = repr(str(label)) if isinstance(label, str) else label
    what = "is infinite or too large"
    if np.isnan(values[row, column]):
        what = "is missing (NaN), and this model takes no missing values"
    raise ValueError(f"row {first_row + row}, column {label}: the value {what}")


def _is_ready(model: Any, X: Any, *, reset: bool = True, dtype: Any = None, **_: Any) -> bool:
    """Whether ``X`` is an array that scikit-learn would take as it is. It takes longer than many a prediction to say so."""
    return (
        not reset
        and type(X) is np.ndarray
        and X.dtype == np.float64
        and X.ndim == 2
        and len(X) > 0
        and dtype is np.float64
        and X.shape[1] == getattr(model, "n_features_in_", None)
        and not hasattr(model, "feature_names_in_")
    )


def as_table(X: Any) -> Any:
    """A table of another library (pyarrow, polars, anything of which pandas can be made) as a pandas table; all else as it is."""
    if (
        isinstance(X, np.ndarray)
        or hasattr(X, "iloc")
        or not hasattr(X, "__len__")
        or isinstance(X, (list, tuple))
    ):
        return X
    if hasattr(X, "to_pandas"):
        try:
            return X.to_pandas()
        except ImportError:  # polars goes through pyarrow, which may not be there
            return _column_by_column(X)
    if hasattr(X, "__dataframe__"):
        from pandas.api.interchange import from_dataframe

        return from_dataframe(X)
    return X


def _column_by_column(X: Any) -> Any:
    import pandas as pd

    if not hasattr(X, "columns"):
        return pd.Series(X.to_list(), name=getattr(X, "name", None))
    return pd.DataFrame({name: X[name].to_list() for name in X.columns})


def check_columns(model: Any, X: Any, *, reset: bool = True) -> None:
    """Take note of the columns of a table that is no array of numbers; without ``reset``: they have to be those of training."""
    check_rows(model, X, predicting=not reset)
    validate_data(model, X, reset=reset, skip_check_array=True)


def check_rows(model: Any, X: Any, *, predicting: bool) -> None:
    """Refuse sparse matrices, single rows, columns of the same name, and no rows to learn from (not when ``predicting``)."""
    refuse_sparse(X)
    shape = getattr(X, "shape", None)
    if isinstance(X, Mapping) if shape is None else len(shape) == 1 and not isinstance(X, np.ndarray):
        hint = "; predict_one takes a single row" if predicting and hasattr(model, "predict_one") else ""
        raise ValueError(f"X should be a table or a 2-D array, not a {type(X).__name__}{hint}")
    if hasattr(X, "columns"):
        repeated = [name for name, times in Counter(X.columns).items() if times > 1]
        if repeated:
            raise ValueError(f"X has several columns called {repeated[0]!r}; rename them")
    if not predicting and shape is not None and shape[:1] == (0,):
        raise ValueError("X has no rows to learn from")


def refuse_sparse(X: Any) -> None:
    """Say what to do instead."""
    if hasattr(X, "tocsr"):
        raise TypeError(
            "X is a sparse matrix, and this model reads dense rows: pass X.toarray(). If that is too large for memory, pass "
            "pieces, X[i:j].toarray(), to predict and to partial_fit (StreamingBoost); GroupPursuit with loss='squared' learns "
            "from sparse matrices"
        )


def target_numbers(y: Any) -> NDArray[np.float64]:
    """(n,) or (n, k) What a regressor learns to predict."""
    _check_given(y)
    with naming_words(None, y=y):
        return np.asarray(check_array(y, dtype=np.float64, ensure_2d=False, input_name="y"))


def _check_given(y: Any) -> None:
    if y is None:
        raise ValueError("y is missing: fit requires y to be passed, but the target y is None")


def class_labels(y: Any) -> NDArray[Any]:
    """(n,) What a classifier learns to predict: labels, none of which is missing."""
    _check_given(y)
    labels = column_or_1d(y, warn=True)
    if labels.dtype.kind == "f":
        assert_all_finite(labels, input_name="y")  # before scikit-learn makes whole numbers of them
    if labels.dtype == object:
        absent = [row for row, label in enumerate(labels) if label is None or label != label]
        if absent:
            raise ValueError(f"y is missing in {len(absent)} rows, first in row {absent[0]}")
    check_classification_targets(labels)
    return np.asarray(labels)


def numbered_classes(labels: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """The classes, of which there are at least 2, and (n,) the number of each row's class."""
    classes, numbers = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        only = classes.tolist()[0]
        raise ValueError(f"y has only one class, {only!r}; a classifier needs at least 2 classes")
    return classes, np.asarray(numbers, dtype=np.intp)


def weighed_by_class(
    weight: NDArray[np.float64] | None, class_weight: Any, y: NDArray[Any]
) -> NDArray[np.float64] | None:
    """(n,) Weights of rows times those of their classes; None: all are 1."""
    if class_weight is None:
        return weight
    by_class = compute_sample_weight(class_weight, y)
    return np.asarray(by_class if weight is None else weight * by_class)


def is_amount(value: Any) -> bool:
    """Whether a value is a number, no text and no truth value, that is not negative."""
    # float and int first: Real alone takes several times as long to be asked
    is_number = isinstance(value, (float, int, Real)) and not isinstance(value, bool)
    return is_number and bool(value >= 0)


def is_word(value: Any) -> bool:
    """Whether a value is text that is no number."""
    if not isinstance(value, (str, bytes)):
        return False
    try:
        float(value)
    except ValueError:
        return True
    return False


@contextmanager
def naming_words(X: Any, but: Any = (), y: Any = None, hint: str | None = None) -> Iterator[None]:
    """Say where in ``X`` or ``y`` the word stands that could not be made a number.

    Columns ``but`` may hold words. The ``hint`` says what to do about a word in ``X``; None: make a number of it.
    """
    try:
        yield
    except ValueError as error:
        message = str(error)
        if "could not convert string to float" not in message:
            raise
        # a library may have taken some columns of words and stumbled over another: look for the word that it names
        named = (word for word in _words(X, but) if repr(str(word[2])) in message)
        place, in_y = next(named, None), next(_words(_as_columns(y)), None)
        if place is None and in_y is not None:
            row, _, word = in_y
            raise ValueError(
                f"y should hold numbers, but row {row} has {_shown(word)}; to predict labels, use a classifier"
            ) from None
        place = place or next(_words(X, but), None)
        if place is None:
            raise
        row, column, word = place
        if hint is None:
            hint = "encode its strings as numbers first"
            if not hasattr(X, "columns"):
                hint += ", or give X as a table, of which many models take categories"
        raise ValueError(
            f"column {column!r} should hold numbers, but row {row} has {_shown(word)}; {hint}"
        ) from None


def _words(X: Any, but: Any = ()) -> Iterator[tuple[Any, Any, str]]:
    """Row, column and text of every word, column by column; rows of a table as it calls them itself."""
    named: Any
    labels = X.index if hasattr(X, "columns") and hasattr(X, "index") else None
    if hasattr(X, "columns"):
        named = [(name, X.iloc[:, j] if hasattr(X, "iloc") else X[name]) for j, name in enumerate(X.columns)]
    else:
        cells = np.asarray(X, dtype=object)
        named = enumerate(cells.T) if cells.ndim == 2 else ()
    for j, (name, values) in enumerate(named):
        for i, value in enumerate(() if j in but else values):
            if is_word(value):
                row = i if labels is None else labels[i]  # some of the user's rows are still called the same
                yield row, name, value if isinstance(value, str) else value.decode("latin-1")


def _as_columns(y: Any) -> Any:
    """(n, k) A table stays one."""
    if y is None or hasattr(y, "columns"):
        return y
    cells = np.atleast_1d(np.asarray(y, dtype=object))
    return cells.reshape(len(cells), -1)


def _shown(word: str) -> str:
    return repr(str(word) if len(word) <= 40 else word[:40] + "...")


def label_numbers(y: Any, classes: NDArray[Any]) -> NDArray[np.intp]:
    """(n,) places of labels among classes; a label that is not among them is named."""
    places = {label: place for place, label in enumerate(classes.tolist())}
    try:
        return np.array([places[label] for label in column_or_1d(y, warn=True).tolist()], dtype=np.intp)
    except KeyError as error:
        strange = error.args[0]
        raise ValueError(f"y holds the label {strange!r}, which is not among classes {[*places]}") from None


def is_fitted(model: Any) -> bool:
    """Whether a model can answer: one that has no ``fit`` can."""
    try:
        check_is_fitted(model)
    except NotFittedError:
        return False
    except TypeError:
        return True
    return True


def warn_caller(message: str) -> None:
    """Warn at the line that called the library, however deep inside the library this is."""
    frame, level = sys._getframe(1), 2
    while (
        frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == "anytime"
    ):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)
