"""Rows from files and pipes, a chunk at a time: CSV, Parquet and Arrow, in constant memory; and a loop that learns from them."""

from __future__ import annotations

import hashlib
import io
import sys
import time
import warnings
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from anytime.streaming.interrupts import unbroken

if TYPE_CHECKING:
    import pandas as pd

    from anytime.streaming.estimator import StreamingBoost

_PARQUET = (".parquet", ".pq")
_ARROW = (".arrow", ".arrows", ".ipc", ".feather")
_PACE = 0.5  # seconds between two words on progress
_KNOWN_BY = 20  # rows at its beginning by which a file is known again


# ---------------------------------------------------------------------- reading


def read_stream(
    source: Any, *, chunk_rows: int = 1000, skip: int = 0, strict: bool = True, na_values: Sequence[str] = ()
) -> Iterator[pd.DataFrame]:
    r"""Yield tables of at most ``chunk_rows`` rows; no more than one is in memory.

    Columns with a string in the first chunk, or mostly strings if not ``strict``, are strings throughout; all others are numbers.

    Parameters
    ----------
    source : str, path, file or iterable
        A CSV file, also compressed; "-": CSV from standard input; a Parquet file (``.parquet``, ``.pq``); an Arrow file or stream
        (``.arrow``, ``.arrows``, ``.ipc``, ``.feather``); a CSV file that is open; or an iterable of tables or Arrow record
        batches.
    chunk_rows : int, default=1000
    skip : int, default=0
        Number of rows to skip at the beginning.
    strict : bool, default=True
        Whether to stop at a cell that cannot be read. False: the cell is missing, and CSV lines with too many cells are skipped
        with a warning.
    na_values : sequence of str, default=()
        Further CSV cells that mean a missing value.

    Raises
    ------
    ValueError
        If a column that held numbers holds something else or is infinite, a line has too many cells, or the columns change.

    Examples
    --------
    >>> import io
    >>> text = io.StringIO("a,b,y\n1,red,0\n2,blue,1\n3,red,1\n")
    >>> [len(table) for table in read_stream(text, chunk_rows=2)]
    [2, 1]
    """
    if chunk_rows < 1:
        raise ValueError(f"chunk_rows must be at least 1, not {chunk_rows}")
    tables = _skipping(_tables(source, chunk_rows, strict, na_values), skip)
    words: frozenset[str] | None = None
    names: list[str] = []
    seen = skip
    for table in tables:
        if words is None:
            names = [str(name) for name in table.columns]
            words = frozenset(
                n for n, column in zip(names, _columns(table), strict=True) if _is_words(column, strict)
            )
        if [str(name) for name in table.columns] != names:
            raise ValueError(f"after row {seen} the columns are no longer {', '.join(names[:6])}")
        yield _typed(table, names, words, seen, strict)
        seen += len(table)


def source_of(path: Path, n_rows: int = _KNOWN_BY) -> dict[str, Any] | None:
    """By what a file is known again, though it may have grown: its columns and its first, at most ``n_rows``, rows.

    A dict of ``name``, ``n_rows`` and ``digest``; None for a pipe.
    """
    if str(path) == "-" or not path.is_file():
        return None
    tables = _quietly(path, n_rows)
    first = next(tables, None)
    tables.close()
    if first is None:
        return None
    digest = hashlib.sha256(first.to_csv(index=False).encode()).hexdigest()
    return {"name": path.name, "n_rows": len(first), "digest": digest}


def n_rows_of(path: Path) -> int:
    """How many rows a file has."""
    return sum(map(len, _quietly(path, 10_000)))


def _quietly(path: Path, chunk_rows: int) -> Generator[pd.DataFrame, None, None]:
    """Tables of a file whose bad lines are told of when it is learned from."""
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pd.errors.ParserWarning)
        yield from _tables(path, chunk_rows, strict=False)


def _tables(
    source: Any, chunk_rows: int, strict: bool, na_values: Sequence[str] = ()
) -> Iterator[pd.DataFrame]:
    if isinstance(source, (str, Path)):
        path = Path(source)
        suffix = path.suffix.lower()
        if suffix in _PARQUET:
            yield from _parquet(path, chunk_rows)
        elif suffix in _ARROW:
            yield from _arrow(path, chunk_rows)
        elif str(source) == "-":
            yield from _csv_lines(sys.stdin, chunk_rows, strict, na_values)
        else:
            yield from _csv(path, chunk_rows, strict, na_values)
    elif hasattr(source, "readline"):
        yield from _csv_lines(source, chunk_rows, strict, na_values)
    elif isinstance(source, Iterable):
        for part in source:
            yield from _pieces(part.to_pandas() if hasattr(part, "to_pandas") else part, chunk_rows)
    else:
        raise TypeError(
            f"{type(source).__name__} is not a stream of rows: give a path, a file or an iterable of tables"
        )


def _csv_lines(
    file: IO[Any], chunk_rows: int, strict: bool, na_values: Sequence[str]
) -> Iterator[pd.DataFrame]:
    """Tables from a pipe as soon as their rows are there: a reader of files would wait for many more."""
    header = _record(file)
    while records := list(islice(iter(lambda: _record(file), ""), chunk_rows)):
        text = io.StringIO(header + "".join(records))
        yield from _csv(text, chunk_rows, strict, na_values, _called(file))
    if not header:
        raise ValueError(f"{_called(file)} is empty")


def _record(file: IO[Any]) -> str:
    """A line, and those after it while a quotation is open; empty at the end."""
    record = ""
    while line := file.readline():
        record += line.decode() if isinstance(line, bytes) else line
        if record.count('"') % 2 == 0:
            break
    return record


def _csv(
    source: Any, chunk_rows: int, strict: bool, na_values: Sequence[str], called: str | None = None
) -> Iterator[pd.DataFrame]:
    import pandas as pd

    called = str(source) if called is None else called
    settings: dict[str, Any] = {
        "dtype": str,  # at first: what a column is must not depend on where chunks end
        "sep": separator_of(source) if isinstance(source, Path) else ",",
        "na_values": list(na_values),
        "index_col": False,  # a first line that is too long is no table whose first column has no name
        "on_bad_lines": "error" if strict else "warn",
    }
    with csv_errors(called), pd.read_csv(source, chunksize=chunk_rows, **settings) as reader:
        for table in _pulled(reader, strict):
            nameless = str(table.columns[0]) == "Unnamed: 0"  # pandas' name for none: row numbers
            yield table.iloc[:, int(nameless) :].reset_index(drop=True)


@contextmanager
def csv_errors(name: str) -> Iterator[None]:
    """Say of what pandas cannot read in the file ``name`` what is wrong with it, as a ``ValueError``."""
    import pandas as pd

    try:
        yield
    except pd.errors.EmptyDataError:
        raise ValueError(f"{name} is empty") from None
    except pd.errors.ParserWarning:
        raise ValueError(f"{name} is not a table: a line has more cells than the header") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} is not a CSV file in UTF-8: {error.reason} at byte {error.start}") from None
    except pd.errors.ParserError as error:
        reason = str(error).removeprefix("Error tokenizing data. C error: ").strip()
        raise ValueError(f"{name} is not a table: {reason[:1].lower()}{reason[1:]}") from None


def _pulled(reader: Iterator[pd.DataFrame], strict: bool) -> Iterator[pd.DataFrame]:
    """Tables of pandas, whose warnings that cells were lost are errors if ``strict``."""
    import pandas as pd

    while True:
        with warnings.catch_warnings():
            if strict:
                warnings.simplefilter("error", pd.errors.ParserWarning)
            table = next(reader, None)
        if table is None:
            return
        yield table


def separator_of(path: Path) -> str:
    """Comma, unless the header of a CSV file has none and has semicolons or tabs."""
    header = _header(path)
    if b"\0" in header:
        raise ValueError(f"{path} is not a CSV file: it holds binary data")
    counts = {separator: header.count(separator.encode()) for separator in ",;\t"}
    return max(counts, key=lambda separator: (separator == "," and counts[","] > 0, counts[separator]))


def _header(path: Path) -> bytes:
    """The first line, also of a compressed file."""
    import bz2
    import gzip
    import lzma
    import zlib

    path.open("rb").close()  # raises what is wrong with it
    openers: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
    if path.suffix.lower() in (".zip", ".zst"):  # pandas reads these; their header is not worth the trouble
        return b","
    try:
        with openers.get(path.suffix.lower(), open)(path, "rb") as file:
            return bytes(file.readline(1 << 20))
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise ValueError(f"{path} cannot be unpacked: {error}") from None


def _parquet(path: Path, chunk_rows: int) -> Iterator[pd.DataFrame]:
    path.open("rb").close()  # raises what is wrong with it
    pa = pyarrow()
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=chunk_rows):
                yield from _pieces(batch.to_pandas(), chunk_rows)
    except pa.ArrowInvalid as error:
        raise ValueError(f"{path} is not a Parquet file: {error}") from None


def _arrow(path: Path, chunk_rows: int) -> Iterator[pd.DataFrame]:
    pa = pyarrow()
    import pyarrow.ipc as ipc

    with ExitStack() as stack:
        file: BinaryIO = stack.enter_context(path.open("rb"))
        try:
            if file.read(6) == b"ARROW1":
                reader = stack.enter_context(ipc.open_file(pa.memory_map(str(path))))
                batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
            else:
                file.seek(0)
                batches = iter(stack.enter_context(ipc.open_stream(file)))
            for batch in batches:
                yield from _pieces(batch.to_pandas(), chunk_rows)
        except pa.ArrowInvalid as error:
            raise ValueError(f"{path} is not an Arrow file or stream: {error}") from None


def pyarrow() -> Any:
    """The package, or an error that names it."""
    try:
        import pyarrow
    except ImportError as error:
        raise ImportError(str(error), name="pyarrow") from None
    return pyarrow


def _pieces(table: Any, chunk_rows: int) -> Iterator[pd.DataFrame]:
    if not hasattr(table, "iloc"):
        raise TypeError(f"a {type(table).__name__} is neither a table nor an Arrow record batch")
    for start in range(0, len(table), chunk_rows):
        yield table.iloc[start : start + chunk_rows].reset_index(drop=True)


def _skipping(tables: Iterator[pd.DataFrame], skip: int) -> Iterator[pd.DataFrame]:
    for table in tables:
        here = min(skip, len(table))
        skip -= here
        if here < len(table):
            yield table.iloc[here:].reset_index(drop=True)


def _called(source: Any) -> str:
    return "standard input" if source is sys.stdin else str(getattr(source, "name", source))


# ---------------------------------------------------------------------- columns


def _columns(table: pd.DataFrame) -> list[Any]:
    return [table.iloc[:, j] for j in range(table.shape[1])]


def _is_words(column: Any, strict: bool) -> bool:
    """Whether some of its cells are no numbers; of a stream that may have bad ones, more than half of them."""
    import pandas as pd

    if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return False
    numbers = int(pd.to_numeric(column.astype(object), errors="coerce").notna().sum())
    n_present = int(column.notna().sum())
    return numbers < n_present if strict else numbers < 0.5 * n_present


def _typed(
    table: pd.DataFrame, names: list[str], words: frozenset[str], seen: int, strict: bool
) -> pd.DataFrame:
    import pandas as pd

    out = {}
    for name, column in zip(names, _columns(table), strict=True):
        if name in words:
            out[name] = column.astype(object).where(column.notna(), None)
            continue
        try:
            numbers = pd.to_numeric(column).astype(np.float64)
        except (TypeError, ValueError):
            numbers = pd.to_numeric(column.astype(object), errors="coerce").astype(np.float64)
        usable = np.isfinite(numbers) | column.isna()
        if strict and not usable.all():
            row = int((~usable).to_numpy().argmax())
            what = f"held numbers so far, but here holds {column.iloc[row]!r}"
            what = "is infinite" if np.isinf(numbers.iloc[row]) else what
            raise ValueError(f"row {seen + row + 1}: column {name!r} {what}")
        out[name] = numbers.where(usable)
    return pd.DataFrame(out)


# ---------------------------------------------------------------------- learning


@dataclass(frozen=True)
class StreamProgress:
    """Progress of a stream.

    Attributes
    ----------
    rows : int
        Rows of this stream read so far, including earlier runs.
    rows_per_second : float
        Speed in this run, including reading.
    error : float
        Error of all predictions made before learning: root mean square error, or the share of wrong classes.
    saved : bool
        Whether a checkpoint was just written.
    left_out : int
        Rows without a target skipped in this run.
    """

    rows: int
    rows_per_second: float
    error: float
    saved: bool
    left_out: int = 0


def learn_stream(
    model: StreamingBoost,
    tables: Iterable[pd.DataFrame],
    target: str,
    *,
    classes: Sequence[Any] | None = None,
    save: str | Path | None = None,
    every: int | None = None,
    strict: bool = True,
    source: dict[str, Any] | None = None,
) -> Iterator[StreamProgress]:
    r"""Learn from tables one after the other, yielding progress about twice a second and at every checkpoint.

    However the stream ends (its last row, Ctrl-C, an unreadable row, or a caller that stops iterating), the last checkpoint is
    complete and holds what was learned by then.

    Parameters
    ----------
    model : StreamingBoostClassifier or StreamingBoostRegressor
    tables : iterable of DataFrame
        For example from ``read_stream``; every other column is a feature.
    target : str
    classes : sequence, default=None
        All labels that will occur, for a classifier that has not learned yet. None: those of the first table.
    save : path, default=None
        File for checkpoints; each replaces the previous one.
    every : int, default=None
        Rows between two checkpoints. None: one at the end.
    strict : bool, default=True
        Whether to stop at a row without a target. False: skip it.
    source : dict, default=None
        Identification of the stream, kept in checkpoints as ``source_``.

    Yields
    ------
    StreamProgress
        Also once at the end if a continued model finds no further rows.

    Examples
    --------
    >>> import io
    >>> import anytime as at
    >>> from anytime.streaming import learn_stream, read_stream
    >>> text = io.StringIO("a,y\n" + "\n".join(f"{i % 7},{i % 7 > 3}" for i in range(200)))
    >>> model = at.StreamingBoostClassifier(n_estimators=5)
    >>> *_, last = learn_stream(model, read_stream(text), "y")
    >>> last.rows
    200
    """
    began = last_told = time.perf_counter()
    start, waiting, left_out = model.position_, 0, 0

    def progress(saved: bool) -> StreamProgress:
        pace = (model.position_ - start) / max(time.perf_counter() - began, 1e-9)
        error = model.progressive_error_ if model._has_begun else float("nan")
        return StreamProgress(model.position_, pace, error, saved, left_out)

    try:
        for table in tables:
            labelled = _with_target(table, target, model.position_, strict)
            with unbroken():
                if len(labelled):
                    _learn_table(model, labelled.drop(columns=[target]), labelled[target], classes)
                model.position_ += len(table)
                model.source_ = source
                left_out += len(table) - len(labelled)
                waiting += len(table)
                saved = save is not None and every is not None and waiting >= every and model._has_begun
                if save is not None and saved:
                    model.save(save)
                    waiting = 0
            if saved or time.perf_counter() - last_told >= _PACE:
                last_told = time.perf_counter()
                yield progress(saved)
    finally:
        unsaved = save is not None and waiting > 0 and model._has_begun
        if save is not None and unsaved:
            with unbroken():
                model.save(save)
    if model.position_ == 0:
        raise ValueError("the stream has no rows")
    yield progress(unsaved)


def _with_target(table: pd.DataFrame, target: str, seen: int, strict: bool) -> pd.DataFrame:
    """The rows whose target is known."""
    if target not in table.columns:
        raise ValueError(f"no column {target!r}; the columns are {', '.join(map(str, table.columns[:6]))}")
    missing = table[target].isna().to_numpy()
    if strict and missing.any():
        raise ValueError(f"row {seen + int(missing.argmax()) + 1}: the target {target!r} is missing")
    return table.loc[~missing].reset_index(drop=True) if missing.any() else table


def _learn_table(
    model: StreamingBoost, X: pd.DataFrame, y: pd.Series[Any], classes: Sequence[Any] | None
) -> None:
    import pandas as pd
    from sklearn.base import is_classifier

    if not is_classifier(model):
        model.partial_fit(X, pd.to_numeric(y).to_numpy(dtype=np.float64))
        return
    trained_classes = getattr(model, "classes_", None)
    labels = labels_of(y, words=trained_classes is not None and trained_classes.dtype.kind in "OU")
    first = (
        None
        if trained_classes is not None
        else (np.unique(labels) if classes is None else np.asarray(classes))
    )
    model.partial_fit(X, labels, classes=first)


def labels_of(y: pd.Series[Any], words: bool = False) -> NDArray[Any]:
    """Class labels as a plain array: whole numbers, truth values or words."""
    import pandas as pd

    if words or not pd.api.types.is_numeric_dtype(y):
        return y.astype(str).to_numpy(dtype=str)
    values = y.to_numpy(dtype=np.float64)
    return values.astype(np.int64) if (values == np.floor(values)).all() else values
