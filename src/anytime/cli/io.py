"""Reading tables, models and price lists, with errors that name the file and the column."""

from __future__ import annotations

import io
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anytime.cli.errors import CliError, UsageError

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from anytime.costs import FeatureCosts


class UnknownLabel(CliError):  # noqa: N818  # what is wrong, not that something is
    """The target holds a label that the model was not trained on."""


_PARQUET = (".parquet", ".pq")
_PACKED = (".gz", ".bz2", ".xz", ".zip")  # pandas compresses what it writes under such a name
_PICKLES = (".pkl", ".pickle", ".joblib")


# ---------------------------------------------------------------------- tables


def read_table(path: Path, words: Sequence[str] = (), na_values: Sequence[str] | None = None) -> pd.DataFrame:
    """Read CSV (also with semicolons or tabs, also compressed), Parquet, or CSV from standard input for ``-``.

    Columns called ``words``, where blanks and ``_`` are not told apart, hold words even where they look like numbers. Cells that
    ``na_values`` lists, separated by commas, mean a missing value, too.
    """
    import pandas as pd

    from anytime.streaming.streams import separator_of

    absent = missing_cells(na_values)
    if str(path) == "-":
        table = _read_csv(None, "standard input", ",", words, absent)
    elif path.suffix.lower() in _PARQUET:
        table = _read_parquet(path)
        table = table.mask(table.isin([*absent, *_asnumbers_of(absent)]))
    else:
        table = _read_csv(path, str(path), separator_of(path), words, absent)
    table.columns = pd.Index([str(name) for name in table.columns])
    if table.columns.size and table.columns[0] == "Unnamed: 0":  # what pandas calls a column without a name
        _note(f"{path}: the first column has no name and is taken as row numbers")
        table = table.iloc[:, 1:]
    if not len(table):
        raise CliError(f"{path} has no rows")
    if not table.columns.is_unique:
        twice = table.columns[table.columns.duplicated()][0]
        raise CliError(f"{path} has two columns called {twice!r}")
    return table


def missing_cells(na_values: Iterable[str] | None) -> list[str]:
    """What all ``--na-values`` list."""
    return [cell.strip() for listed in na_values or () for cell in listed.split(",")]


def _asnumbers_of(cells: Iterable[str]) -> list[float]:
    numbers = []
    for cell in cells:
        with suppress(ValueError):
            numbers.append(float(cell))
    return numbers


def _note(text: str) -> None:
    print(f"anytime: note: {text}", file=sys.stderr)


def _read_csv(
    path: Path | None, name: str, separator: str, words: Sequence[str], absent: list[str]
) -> pd.DataFrame:
    import pandas as pd

    from anytime.streaming.streams import csv_errors

    with csv_errors(name):
        source: Any = io.StringIO(sys.stdin.read()) if path is None else path
        from anytime.rows import spellings

        names = pd.read_csv(source, sep=separator, nrows=0).columns if words else ()
        types = dict.fromkeys(spellings(words, names).values(), str)
        if path is None:
            source.seek(0)
        return pd.read_csv(source, sep=separator, dtype=types, na_values=absent, low_memory=False)


def _read_parquet(path: Path) -> pd.DataFrame:
    import pandas as pd

    from anytime.streaming.streams import pyarrow

    if not path.is_file():
        path.open("rb").close()  # raises what is wrong with it
    try:
        return pd.read_parquet(path)
    except pyarrow().ArrowInvalid as error:
        raise CliError(f"{path} is not a Parquet file: {error}") from None


def write_table(table: pd.DataFrame, path: Path | None) -> None:
    """Write CSV or Parquet; to standard output when no path is given."""
    if path is None:
        table.to_csv(sys.stdout, index=False)
    elif path.suffix.lower() in _PARQUET:
        table.to_parquet(path, index=False)
    else:
        table.to_csv(path, index=False)


def check_table_name(path: Path | None) -> None:
    """Refuse to write a table under the ending of something else; a name without an ending is as good as ``.csv``."""
    if path is None:
        return
    name = path.with_suffix("") if path.suffix.lower() in _PACKED else path
    written = ("", ".csv") if name is not path else ("", ".csv", *_PARQUET)
    if name.suffix.lower() not in written:
        raise UsageError(
            f"{path}: a table must end in .csv (compressed: {', '.join('.csv' + packed for packed in _PACKED)}) or "
            f"{', '.join(_PARQUET)}"
        )


def check_writable(*paths: Path | None) -> None:
    """Fail before the work is done, not after: each path's folder has to be there."""
    import os

    for path in paths:
        if path is None:
            continue
        if path.is_dir():
            raise UsageError(f"{path} is a directory; name a file to write")
        if not path.parent.is_dir():
            raise UsageError(f"cannot write {path}: there is no directory {path.parent}")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise CliError(f"cannot write {path}: permission denied")


# ---------------------------------------------------------------------- columns


def listing(names: Iterable[Any], most: int = 6) -> str:
    """A few names, and how many more."""
    names = [str(name) for name in names]
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def target_of(table: pd.DataFrame, target: str, path: Path) -> pd.Series[Any]:
    """The target column; it has a value in every row."""
    if target not in table.columns:
        near = _nearest(target, table.columns)
        hint = f"did you mean {near!r}?" if near else f"it has {listing(table.columns)}"
        if all(name[:1] in "-.0123456789" for name in table.columns):
            hint += "; does its first line hold the names?"
        raise UsageError(f"{path} has no column {target!r}; {hint}")
    y = table[target]
    if missing := int(y.isna().sum()):
        first = int(y.isna().to_numpy().argmax()) + 1
        raise CliError(
            f"{path}: the target {target!r} is missing in {missing} of {len(y)} rows, first in row {first}"
        )
    return y


def _nearest(name: str, names: Iterable[str]) -> str | None:
    """The entry of ``names`` that ``name`` may mean; case does not matter."""
    import difflib

    small = {other.casefold(): other for other in names}
    near = difflib.get_close_matches(name.casefold(), small, n=1)
    return small[near[0]] if near else None


def training_features(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Columns as an estimator takes them: floats, and pandas categories for words."""
    import pandas as pd

    if not table.columns.size:
        raise CliError(f"{path} has no column besides the target")
    out: dict[str, Any] = {}
    for name in table.columns:
        column = table[name]
        if column.isna().all():
            _note(f"{path}: column {name!r} is empty; no answer will depend on it")
            # scikit-learn's boosting cannot cut a column of gaps
            out[name] = pd.Series(0.0, index=table.index)
        elif pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
            out[name] = numbers_of(column, name, path)
        elif _holds_words(column):
            _mention_odd_words(column, name, path)
            out[name] = column.astype("category")
        else:
            raise CliError(
                f"{path}: column {name!r} is of type {column.dtype}; convert it to numbers or strings first"
            )
    return pd.DataFrame(out, index=table.index)


def _mention_odd_words(column: pd.Series[Any], name: str, path: Path) -> None:
    """Say where words are perhaps not meant; the library does so for columns that are not categories yet."""
    import pandas as pd

    from anytime.trees.reading import odd_words

    if isinstance(column.dtype, pd.CategoricalDtype):
        return
    if (message := odd_words(name, column, Counter(column.dropna()))) is not None:
        _note(f"{path}: {message}")


def features_for(model: Any, table: pd.DataFrame, path: Path, *, without: str | None = None) -> Any:
    """Rows as ``model`` reads them: a table where it knows names."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        rest = table.drop(columns=[without]) if without in table.columns else table
        if rest.shape[1] != model.n_features_in_:
            raise CliError(
                f"{path} has {rest.shape[1]} columns, but the model takes {model.n_features_in_} and has no column names: "
                "keep only its columns, in the order of training"
            )
        return rest.apply(lambda column: numbers_of(column, str(column.name), path)).to_numpy()
    from anytime.rows import spellings

    here = spellings(names, table.columns)
    if not here:
        raise CliError(f"{path} has none of the model's columns, which are {listing(names)}")
    words = {here[name] for name in word_columns(model) if name in here}
    numbers = {name: numbers_of(table[name], name, path) for name in here.values() if name not in words}
    return table.assign(**numbers)  # the model warns of columns that are not there


def word_columns(model: Any) -> list[str]:
    """Columns that the model knows as words."""
    names = getattr(model, "feature_names_in_", None)
    categories = getattr(model, "categories_", None) or {}
    return [] if names is None else [str(names[j]) for j, values in categories.items() if _are_words(values)]


def target_for(
    model: Any, table: pd.DataFrame, target: str, path: Path, *, all_known: bool = False
) -> NDArray[Any]:
    """The target as the model knows it: its labels, or numbers.

    Labels that the model does not know stay: an answer for their rows is wrong whatever it is, which a note says. With
    ``all_known``, ``UnknownLabel`` is raised instead.
    """
    import numpy as np

    y = target_of(table, target, path)
    classes = getattr(model, "classes_", None)
    if classes is None:
        return np.asarray(numbers_of(y, target, path))
    labels = _labels_like(classes, y)
    has_label = np.isin(labels, classes)
    if has_label.all():
        return labels
    other = y.to_numpy()[~has_label]
    if all_known:
        raise UnknownLabel(
            f"{path}: the target {target!r} holds {str(other[0])!r}, which is not a class of the model; "
            f"its classes are {listing(classes.tolist())}"
        )
    _note(
        f"{path}: the target {target!r} holds labels that the model was not trained on, {listing(dict.fromkeys(other))}: "
        f"{len(other)} of {len(y)} rows, which count as wrong; its classes are {listing(classes.tolist())}"
    )
    return labels


def _labels_like(classes: NDArray[Any], y: pd.Series[Any]) -> NDArray[Any]:
    """Labels of the type that ``classes`` have; a word among numbers becomes a number that is no class."""
    import numpy as np
    import pandas as pd

    if classes.dtype.kind not in "biuf":
        return y.astype(str).to_numpy(dtype=str)
    if pd.api.types.is_bool_dtype(y) or pd.api.types.is_numeric_dtype(y):
        return labels_of(y)
    numbers = pd.to_numeric(y, errors="coerce").to_numpy(dtype=np.float64)
    return np.where(np.isnan(numbers), classes.max() + 1.0, numbers)


def labels_of(y: pd.Series[Any]) -> NDArray[Any]:
    """Class labels as a plain array: whole numbers, truth values or words."""
    import numpy as np
    import pandas as pd

    if pd.api.types.is_bool_dtype(y):
        return y.to_numpy(dtype=bool)
    if pd.api.types.is_numeric_dtype(y):
        values = y.to_numpy(dtype=np.float64)
        return values.astype(np.int64) if (values == np.floor(values)).all() else values
    return y.astype(str).to_numpy(dtype=str)


def numbers_of(column: pd.Series[Any], name: str, path: Path) -> pd.Series[Any]:
    """A column as floats; words and infinite numbers are refused, with the first row that has one."""
    import numpy as np
    import pandas as pd

    try:
        values = pd.to_numeric(column).astype(np.float64)
    except (TypeError, ValueError):
        bad = (pd.to_numeric(column, errors="coerce").isna() & column.notna()).to_numpy()
        row = int(bad.argmax())
        raise CliError(
            f"{path}: column {name!r} must hold numbers, but holds {column.iloc[row]!r} in row {row + 1}; "
            "if that means a missing value, name it with --na-values"
        ) from None
    infinite = np.asarray(np.isinf(values))
    if infinite.any():
        raise CliError(
            f"{path}: column {name!r} is infinite in row {int(infinite.argmax()) + 1}; leave the cell empty for a missing value"
        )
    return values


def _holds_words(column: pd.Series[Any]) -> bool:
    import pandas as pd

    if isinstance(column.dtype, pd.CategoricalDtype):
        return True
    return bool(pd.api.types.is_object_dtype(column) or pd.api.types.is_string_dtype(column))


def _are_words(categories: Sequence[Any]) -> bool:
    return any(isinstance(value, str) for value in categories)


# ---------------------------------------------------------------------- models and prices


def load_model(path: Path, costly: Path | None = None, trusted: bool = False) -> Any:
    """The model of an ``.anytime`` file, with the costly model that is not in it where one is given."""
    if path.is_dir():
        raise CliError(f"{path} is a directory, not an .anytime file")
    path.open("rb").close()  # raises what is wrong with it, before the import below takes its time
    from anytime.files import load_detached

    model: Any = load_detached(path)
    if costly is None:
        return model
    if getattr(model, "detached_", None) is None:
        raise UsageError(f"{path} needs no --costly: the file holds the whole model")
    return model.attach(load_estimator(costly, trusted))


def load_estimator(path: Path, trusted: bool) -> Any:
    """A fitted model of this library or another: an ``.anytime`` file, or if it is ``trusted`` a pickle."""
    if not refuse_pickle(path, trusted):
        return load_model(path)
    import joblib

    try:
        model = joblib.load(path)
    except ImportError:
        raise
    except Exception as error:  # a broken pickle can raise anything at all
        raise CliError(f"{path} cannot be unpickled: {type(error).__name__}: {error}") from error
    if not hasattr(model, "predict"):
        raise CliError(
            f"{path} holds a {type(model).__name__}, which is not a model: it has no predict method"
        )
    return model


def refuse_pickle(path: Path, trusted: bool) -> bool:
    """Whether a file is a pickle; one that is not ``trusted`` is refused."""
    with path.open("rb") as file:
        pickled = path.suffix.lower() in _PICKLES or file.read(1) == b"\x80"
    if pickled and not trusted:
        raise UsageError(
            f"{path} is a pickle, and loading a pickle can run any code; if you trust the file, add --trusted"
        )
    return pickled


def read_costs(path: Path | None) -> FeatureCosts | None:
    """A price list; None stays None."""
    from anytime.costs import FeatureCosts

    if path is None:
        return None
    try:
        return FeatureCosts.read(path)
    except ValueError as error:
        text = str(error)
        raise CliError(text if text.startswith(str(path)) else f"{path}: {text}") from None
