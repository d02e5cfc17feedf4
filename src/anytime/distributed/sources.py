"""Where rows come from, and how they are shared out: a table that can be read a stretch at a time, by whoever holds that stretch.

Rows are numbered over the whole table, in the order of the files or blocks; a worker has a stretch of these numbers. Whatever is
drawn at random is drawn by number, so that it does not depend on who has which.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.validation import check_finite

Array = NDArray[np.float64]

__all__ = ["ArrayStretch", "SourcePiece", "Stretch", "Table", "TableStretch", "arrow_of", "read_table"]

_ROWS_AT_A_TIME = 65_536
_ROWS_READ = 4 * _ROWS_AT_A_TIME  # of a piece that are in memory as the file has them
_CPUS = 0.1  # of a task that looks at a block


@dataclass(frozen=True)
class SourcePiece:
    """Rows that are read together: a row group of a Parquet file, or a block of a data set."""

    source: Any  # (path, row group), or a reference to an Arrow table
    n_rows: int


@dataclass(frozen=True)
class Stretch:
    """A stretch of the rows of a table, as a worker is told of it: small to send, and read where it is needed."""

    n_rows: int

    def chunks(self) -> Iterator[Array]:
        """(m, d) its rows in their order, some at a time."""
        raise NotImplementedError

    def only(self, rows: NDArray[np.intp]) -> Stretch:
        """Some of its rows, which rise."""
        return self if rows.size == self.n_rows else _Chosen(rows.size, self, rows)


@dataclass(frozen=True)
class ArrayStretch(Stretch):
    """Rows that were in memory."""

    reference: Any  # to the rows, in the cluster's object store

    def chunks(self) -> Iterator[Array]:
        import ray

        X = ray.get(self.reference)
        for first in range(0, len(X), _ROWS_AT_A_TIME):
            chunk = X[first : first + _ROWS_AT_A_TIME]
            yield chunk
            _let_go(chunk)


@dataclass(frozen=True)
class TableStretch(Stretch):
    """Rows of Parquet files or of a data set."""

    pieces: tuple[tuple[SourcePiece, int, int], ...]  # each with the first row and the one after the last
    columns: tuple[str, ...]
    first_row: int = 0  # its number in the whole table

    def chunks(self) -> Iterator[Array]:
        number = self.first_row
        for piece, first, last in self.pieces:
            for start in range(first, last, _ROWS_READ):
                for chunk in _chunks(_columns(piece, self.columns, start, min(start + _ROWS_READ, last))):
                    check_finite(chunk, self.columns, first_row=number)
                    number += len(chunk)
                    yield chunk
                    del chunk  # before the next one is made


@dataclass(frozen=True)
class _Chosen(Stretch):
    part: Stretch
    rows: NDArray[np.intp]

    def chunks(self) -> Iterator[Array]:
        first = 0
        for chunk in self.part.chunks():
            begin, end = np.searchsorted(self.rows, [first, first + len(chunk)])
            if end > begin:
                yield chunk[self.rows[begin:end] - first]
            first += len(chunk)


@dataclass(frozen=True)
class Table:
    """All rows: pieces in their order, and the columns that are there."""

    pieces: tuple[SourcePiece, ...]
    names: tuple[str, ...]
    index: tuple[
        str, ...
    ] = ()  # columns that were the index of a pandas table: read only where they are named

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(piece.n_rows for piece in self.pieces)

    def without(self, names: Sequence[str]) -> Table:
        """The same rows with fewer columns."""
        for name in names:
            if name not in self.names + self.index:
                raise ValueError(
                    f"the data have no column {name!r}; there are {', '.join(map(repr, self.names))}"
                )
        return replace(self, names=tuple(name for name in self.names if name not in names))

    def column(self, name: str) -> NDArray[Any]:
        """(n,) one column, read here."""
        import ray

        if any(not isinstance(piece.source, tuple) for piece in self.pieces):  # blocks stay where they are
            read = ray.remote(num_cpus=_CPUS)(_column)
            parts = ray.get([read.remote(piece, name) for piece in self.pieces])
        else:
            parts = [_column(piece, name) for piece in self.pieces]
        return np.concatenate(parts) if parts else np.empty(0)

    def part(self, first: int, last: int) -> TableStretch:
        """A stretch of the rows."""
        chosen, start = [], 0
        for piece in self.pieces:
            begin, end = max(first - start, 0), min(last - start, piece.n_rows)
            if begin < end:
                chosen.append((piece, begin, end))
            start += piece.n_rows
        return TableStretch(last - first, tuple(chosen), self.names, first)


def _let_go(rows: Array) -> None:
    """Rows in the object store stay there, but no longer count as memory of this process, which maps them anew if it must."""
    if not _is_shared(rows.ctypes.data):  # small objects are not in the store
        return
    begin = -(-rows.ctypes.data // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (rows.ctypes.data + rows.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if begin < end:
        address, size = ctypes.c_void_p(begin), ctypes.c_size_t(end - begin)
        ctypes.CDLL(None).madvise(address, size, mmap.MADV_DONTNEED)


def _is_shared(address: int) -> bool:
    """Whether memory is a mapping shared with other processes, whose contents stay where they are when pages are let go."""
    with suppress(OSError), open("/proc/self/maps") as maps:
        for line in maps:
            ends, flags = line.split(maxsplit=2)[:2]
            first, _, last = ends.partition("-")
            if int(first, 16) <= address < int(last, 16):
                return flags.endswith("s")
    return False


def read_table(data: Any) -> Table | None:
    """The table of a folder of Parquet files, of one or several of them or of a `ray.data.Dataset`; None for anything else."""
    if hasattr(data, "to_arrow_refs") and hasattr(data, "materialize"):
        return _of_dataset(data)
    if isinstance(data, (str, Path)):
        path = Path(data)
        files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
        if not files:
            raise ValueError(f"there is no Parquet file in {path}")
        return _of_files(files)
    if isinstance(data, (list, tuple)) and data and all(isinstance(entry, (str, Path)) for entry in data):
        return _of_files([Path(entry) for entry in data])
    return None


def _of_files(files: Sequence[Path]) -> Table:
    from pyarrow import parquet

    pieces, names = [], None
    index: tuple[str, ...] = ()
    for path in files:
        if not path.exists():
            raise ValueError(f"there is no file {path}")
        with parquet.ParquetFile(path) as file:
            index = _index(file.schema_arrow)
            here = tuple(name for name in file.schema_arrow.names if name not in index)
            if names is not None and here != names:
                raise ValueError(f"{path} has the columns {list(here)}, the files before it {list(names)}")
            names = here
            pieces += [
                SourcePiece((str(path.absolute()), group), file.metadata.row_group(group).num_rows)
                for group in range(file.num_row_groups)
            ]
    assert names is not None
    return Table(tuple(pieces), names, index)


def _index(schema: Any) -> tuple[str, ...]:
    """Columns in which pandas has kept the index of a table."""
    said = getattr(schema, "pandas_metadata", None) or {}
    return tuple(name for name in said.get("index_columns", ()) if isinstance(name, str))


def _of_dataset(dataset: Any) -> Table:
    import ray

    options = dataset.context.execution_options
    before, options.preserve_order = options.preserve_order, True  # or blocks come as their tasks end
    try:
        references = dataset.materialize().to_arrow_refs()
    finally:
        options.preserve_order = before
    count = ray.remote(num_cpus=_CPUS)(_count)
    sizes = ray.get([count.remote(reference) for reference in references])
    schema = dataset.schema()
    index = _index(schema.base_schema) if references else ()
    names = tuple(name for name in schema.names if name not in index) if references else ()
    return Table(
        tuple(SourcePiece(reference, size) for reference, size in zip(references, sizes, strict=True)),
        names,
        index,
    )


def arrow_of(piece: SourcePiece, columns: Sequence[str]) -> Any:
    """The columns of a piece, as an Arrow table."""
    if isinstance(piece.source, tuple):
        from pyarrow import parquet

        path, group = piece.source
        with parquet.ParquetFile(path) as file:
            return file.read_row_group(group, columns=list(columns))
    import ray

    return ray.get(piece.source).select(list(columns))


def _chunks(columns: Iterable[NDArray[Any]]) -> Iterator[Array]:
    """Columns as rows, some at a time."""
    columns = list(columns)
    for first in range(0, len(columns[0]), _ROWS_AT_A_TIME):
        some = [column[first : first + _ROWS_AT_A_TIME] for column in columns]
        chunk = np.empty((len(some[0]), len(some)))
        for number, values in enumerate(some):
            chunk[:, number] = values
        yield chunk
        del chunk


def _columns(piece: SourcePiece, names: Sequence[str], first: int, last: int) -> Iterator[NDArray[Any]]:
    """Some rows of each column as numbers, copied: a file is decoded a column at a time, of which the rest is let go."""
    if not isinstance(piece.source, tuple):
        table = arrow_of(piece, names).slice(first, last - first)
        yield from (_numbers(table.column(name), name) for name in names)
        return
    from pyarrow import parquet

    path, group = piece.source
    with parquet.ParquetFile(path) as file:
        for name in names:
            column = file.read_row_group(group, columns=[name], use_threads=False).column(name)
            yield _numbers(column.slice(first, last - first), name)


def _count(table: Any) -> int:
    return int(table.num_rows)


def _column(piece: SourcePiece, name: str) -> NDArray[Any]:
    return np.asarray(arrow_of(piece, (name,)).column(name).to_numpy())


def _numbers(column: Any, name: str) -> NDArray[Any]:
    """A column as numbers, NaN where a value is missing."""
    import pyarrow as pa

    kind = column.type
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise ValueError(
            f"column {name!r} holds {kind}; on a cluster columns of files and data sets must be numbers"
        )
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    return np.array(column.to_numpy())
