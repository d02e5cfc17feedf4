"""Predictions for more rows than one machine reads: a task per block of rows, an output file per task.

The name of a file follows from the number of its block. A task writes it to a hidden folder of the call and puts it in its place
when it is whole. A task whose worker dies is done again and gives the same file, so that every row is there exactly once, however
often workers die. When the call ends the hidden folder is removed, so that late tasks cannot write.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from anytime._native import Forest
from anytime.distributed.sources import Table, arrow_of, read_table
from anytime.distributed.tasks import run_tasks
from anytime.estimator import AnytimeModel
from anytime.files import load
from anytime.trees.block import TreeBlock

__all__ = ["WrittenPredictions", "predict"]

_ROWS_AT_A_TIME = 65_536


@dataclass(frozen=True)
class WrittenPredictions:
    """What `predict` has written.

    Attributes
    ----------
    folder : Path
    files : list of Path
        In the order of the rows.
    n_rows : int
    mean_cost : float
        What the average row has paid.
    """

    folder: Path
    files: list[Path]
    n_rows: int
    mean_cost: float


def predict(
    model: AnytimeModel,
    data: Any,
    output: str | Path,
    *,
    budget: float | None = None,
    deadline_per_row: float | None = None,
    probabilities: bool = False,
    keep: Sequence[str] = (),
) -> WrittenPredictions:
    """Predict many rows on the cluster and write answers and costs to Parquet files.

    Parameters
    ----------
    model : AnytimeModel
        One that can be saved. Its trees are in memory once per machine.
    data : path, list of paths, `ray.data.Dataset` or (n, d)
        Parquet files or a data set with the columns that the model knows by name (or with no others, where it knows none); or
        rows in memory.
    output : path
        A folder that all machines see, empty or not there yet.
    budget : float, default=None
        The most that any row may pay. None: what the model's constructor says.
    deadline_per_row : float, default=None
        Seconds; a block of rows is answered within that times its rows. None: no limit.
    probabilities : bool, default=False
        Whether to write the probabilities of a classifier too.
    keep : sequence of str, default=()
        Columns of the data to write beside the answers, such as a key.

    Returns
    -------
    WrittenPredictions
        The files have the columns of ``keep``, ``prediction``, ``probability_<class>`` where asked for, ``cost`` and ``stage``.

    Raises
    ------
    RuntimeError
        Outside of a cluster.
    ValueError
        Where the folder has files, the data lack a column, or ``keep`` names one that is written anyway. Whatever is raised, the
        folder is left without files of this call.
    """
    import ray

    if not ray.is_initialized():
        raise RuntimeError("there is no cluster: call this within `with anytime.distributed.cluster(...)`")
    taken = [name for name in keep if re.fullmatch(r"prediction(_\d+)?|cost|stage|probability_.*", name)]
    if taken:
        raise ValueError(f"keep has {taken[0]!r}, a name of the answers: rename that column of the data")
    folder = Path(output).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise ValueError(f"{folder} is not empty; predictions are written to a folder of their own")
    blocks = list(_blocks(model, data, keep))
    names = [folder / f"part-{number:06d}.parquet" for number in range(len(blocks))]
    workshop = folder / f".writing-{uuid.uuid4().hex}"
    job = _Job(_shared(model), budget, deadline_per_row, probabilities, tuple(keep), str(workshop))
    calls = [(job, block, str(name)) for block, name in zip(blocks, names, strict=True)]
    workshop.mkdir()
    try:
        rows_and_costs = run_tasks(_predict_block, calls)
        whole = {"files": [path.name for path in names], "rows": [n for n, _ in rows_and_costs]}
        _put_in_place(workshop, folder / "_written.json", json.dumps(whole).encode())
    except BaseException:
        _remove(workshop)
        for written in names:
            written.unlink(missing_ok=True)
        raise
    _remove(workshop)
    n_rows = sum(n for n, _ in rows_and_costs)
    total = sum(cost for _, cost in rows_and_costs)
    return WrittenPredictions(folder, names, n_rows, total / n_rows if n_rows else 0.0)


@dataclass(frozen=True)
class _Job:
    """What all tasks of a call share."""

    model: tuple[Any, list[Any]]
    budget: float | None
    deadline_per_row: float | None
    probabilities: bool
    keep: tuple[str, ...]
    workshop: str  # the hidden folder, there as long as the call goes on


def _blocks(model: AnytimeModel, data: Any, keep: Sequence[str]) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Where the rows of each task are, and which columns the model reads."""
    import ray

    table = read_table(data)
    if table is not None:
        columns = _columns(model, table, keep)
        for piece in table.pieces:
            if piece.n_rows:
                yield piece, columns
        return
    if keep:
        raise ValueError("keep names columns of files and data sets; rows in memory have none to keep")
    for first in range(0, len(data), _ROWS_AT_A_TIME):
        rows = slice(first, first + _ROWS_AT_A_TIME)
        yield ray.put(data.iloc[rows] if hasattr(data, "iloc") else np.asarray(data)[rows]), ()


def _columns(model: AnytimeModel, table: Table, keep: Sequence[str]) -> tuple[str, ...]:
    known = getattr(model, "feature_names_in_", None)
    rest = table.without(list(keep))
    if known is None:
        return rest.names
    for name in known:
        if name not in table.names:
            raise ValueError(f"the model reads column {name!r}, which the data do not have")
    return tuple(known)


# ---------------------------------------------------------------------- the model, once per machine


def _shared(model: AnytimeModel) -> tuple[Any, list[Any]]:
    """References to the model's file and to its forests as they lie in memory."""
    import ray

    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model.anytime")
        file = np.fromfile(Path(folder) / "model.anytime", dtype=np.uint8)
    forests = []
    for block in model.plan_.all_blocks:
        if isinstance(block, TreeBlock):
            memory = np.empty(block.forest.frozen_size, dtype=np.uint8)
            block.forest.freeze(memory)
            forests.append(ray.put(memory))
    return ray.put(file), forests


@lru_cache(maxsize=2)
def _model_of(file: Any, *forests: Any) -> AnytimeModel:
    """The model in this process; the object store's memory is mapped by all processes of a machine, and so are its trees."""
    import ray

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.anytime"
        ray.get(file).tofile(path)
        model: AnytimeModel = load(path)
    blocks = [block for block in model.plan_.all_blocks if isinstance(block, TreeBlock)]
    for block, memory in zip(blocks, forests, strict=True):
        block.forest = Forest.thawed(ray.get(memory))
    return model


# ---------------------------------------------------------------------- a task


def _predict_block(job: _Job, block: tuple[Any, tuple[str, ...]], path: str) -> tuple[int, float]:
    """Answer the rows of a block, write the file, and say how many rows there were and what they paid in all."""
    import pyarrow as pa
    from pyarrow import parquet

    if not Path(job.workshop).exists():  # or the call has ended, and nobody hears of it
        folder = Path(job.workshop).parent
        raise FileNotFoundError(
            f"a machine of the cluster does not see {folder}: give a folder that all machines see"
        )
    file, forests = job.model
    model = _model_of(file, *forests)
    tables = [_answers(job, model, rows, kept) for rows, kept in _rows_of(block, job.keep)]
    table = pa.concat_tables(tables)
    sink = pa.BufferOutputStream()
    parquet.write_table(table, sink)
    _put_in_place(Path(job.workshop), Path(path), sink.getvalue())
    return table.num_rows, float(np.sum(table.column("cost").to_numpy()))


def _rows_of(
    block: tuple[Any, tuple[str, ...]], keep: tuple[str, ...]
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Rows as the model reads them, some at a time, with what is kept of each."""
    import ray

    source, columns = block
    if not columns:
        yield ray.get(source), {}
        return
    table = arrow_of(source, tuple(dict.fromkeys([*columns, *keep])))
    for first in range(0, table.num_rows, _ROWS_AT_A_TIME):
        some = table.slice(first, _ROWS_AT_A_TIME)
        yield some.select(list(columns)).to_pandas(), {name: some.column(name) for name in keep}


def _answers(job: _Job, model: AnytimeModel, rows: Any, kept: dict[str, Any]) -> Any:
    import pyarrow as pa

    columns = dict(kept)
    known = getattr(model, "feature_names_in_", None) is not None
    deadline = None if job.deadline_per_row is None else job.deadline_per_row * len(rows)
    answer = model.answer(rows if known else np.asarray(rows), job.budget, deadline)
    prediction = np.asarray(answer.prediction)
    if prediction.ndim == 1:
        columns["prediction"] = prediction
    else:
        columns |= {f"prediction_{k}": prediction[:, k] for k in range(prediction.shape[1])}
    if job.probabilities:
        shares, classes = np.asarray(answer.probabilities), np.asarray(answer.classes)
        columns |= {f"probability_{label}": shares[:, k] for k, label in enumerate(classes)}
    columns["cost"] = np.broadcast_to(np.asarray(answer.cost, dtype=np.float64), len(rows))
    columns["stage"] = np.broadcast_to(np.asarray(answer.stage, dtype=np.int64), len(rows))
    return pa.table(columns)


def _put_in_place(workshop: Path, path: Path, contents: Any) -> None:
    """Write in the hidden folder, then rename: whoever looks sees nothing or everything."""
    unfinished = workshop / uuid.uuid4().hex
    with open(unfinished, "wb") as file:
        file.write(contents)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)


def _remove(workshop: Path) -> None:
    """Remove the hidden folder, also where a late task began a file meanwhile."""
    shutil.rmtree(workshop, ignore_errors=True)
    if workshop.exists():
        shutil.rmtree(workshop)
