"""Tables that do not fit in memory, read in chunks."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Chunk = tuple[Any, Any] | tuple[Any, Any, Any]

_BATCH_BYTES = 1 << 25


def parquet_chunks(
    path: str | Path, target: str | list[str] | None, weight: str | None = None, *, labels: bool = False
) -> tuple[Iterator[Chunk], NDArray[Any] | None]:
    """Chunks of a Parquet file, or of all in a folder, and (with ``labels``) the distinct values of the target.

    Columns of numbers come as float32 where all are, as float64 otherwise; a null is NaN.
    """
    from pyarrow import dataset, parquet, types

    if target is None:
        raise ValueError("target is None; name the column(s) of the Parquet file to predict")
    table = dataset.dataset(str(path), format="parquet")
    wanted = [target] if isinstance(target, str) else list(target)
    names = [name for name in table.schema.names if name not in wanted and name != weight]
    if missing := [
        name for name in [*wanted, *([weight] if weight else [])] if name not in table.schema.names
    ]:
        raise ValueError(f"{path} has no column {missing[0]!r}; it has {', '.join(table.schema.names[:8])}")
    if words := [name for name in names if not _is_number(table.schema.field(name).type, types)]:
        raise ValueError(f"{path}: column {words[0]!r} is not numeric; encode it first")
    single = all(types.is_float32(table.schema.field(name).type) for name in names)
    kind = np.float32 if single else np.float64
    rows = max(1024, _BATCH_BYTES // (4 if single else 8) // max(len(names), 1))

    def read() -> Iterator[Chunk]:
        import pandas as pd

        # File by file and without reading ahead: a data set's own batches hold several times the memory.
        files = (parquet.ParquetFile(file, pre_buffer=False) for file in table.files)
        for batch in chain.from_iterable(file.iter_batches(batch_size=rows) for file in files):
            if not batch.num_rows:
                continue
            X = np.empty((batch.num_rows, len(names)), dtype=kind, order="F")
            for j, name in enumerate(names):
                X[:, j] = batch.column(name).to_numpy(zero_copy_only=False)
            y = np.column_stack([batch.column(name).to_numpy(zero_copy_only=False) for name in wanted])
            frame = pd.DataFrame(X, columns=names, copy=False)
            answer = y[:, 0] if isinstance(target, str) else y
            if weight is None:
                yield frame, answer
            else:
                yield frame, answer, batch.column(weight).to_numpy(zero_copy_only=False)

    distinct = None
    if labels and isinstance(target, str):
        column = table.to_table(columns=[target]).column(target)
        if column.null_count:
            raise ValueError(
                f"{path}: the target {target!r} is missing in {column.null_count} rows; drop them first"
            )
        distinct = np.unique(column.to_numpy())
    return _one_ahead(read()), distinct


def _one_ahead(chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """The same chunks, each read while the one before is worked on."""
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, chunks, None)
        while (chunk := coming.result()) is not None:
            coming = reader.submit(next, chunks, None)
            yield chunk


def _is_number(kind: Any, types: Any) -> bool:
    return bool(types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind))
