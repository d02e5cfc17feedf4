"""``anytime grow``: from a table or a folder of images to a family of networks, from cheap to good."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anytime.cli.errors import CliError, UsageError
from anytime.cli.fit import few_threads, is_classification, read_settings, split_rows
from anytime.cli.io import (
    check_writable,
    labels_of,
    listing,
    numbers_of,
    read_costs,
    read_table,
    target_of,
    training_features,
)
from anytime.cli.options import NaValues, OutputFile, Task, TaskName, option
from anytime.cli.tables import console, counted, note, print_table, print_title, share, step

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LONG_ENOUGH = 120.0  # seconds to grow where nothing else ends it


@dataclass(frozen=True)
class GrowthRows:
    """Rows, what they are, and whether their answers are classes."""

    X: Any
    y: NDArray[Any]
    classify: bool
    what: str


def grow(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA", help="CSV or Parquet file, or a folder with a folder of images per class."
        ),
    ],
    output: OutputFile,
    target: Annotated[
        str | None, option("COLUMN", "The column to predict, if DATA is a table.", "--target", "-t")
    ] = None,
    time_budget: Annotated[
        float | None,
        option("SECONDS", "How long to grow. None: 120 s, unless --n-growths is given.", min=0.0),
    ] = None,
    n_growths: Annotated[
        int | None, option("N", "Networks to add in this run. None: as time allows.", min=0)
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue the search of an earlier run, however it ended.")
    ] = False,
    workers: Annotated[
        str, option("N", "Number of training processes, each with one GPU if there are any; or: ray.")
    ] = "1",
    folder: Annotated[
        Path | None,
        option("DIR", "Folder in which the search keeps all its networks. None: beside the output."),
    ] = None,
    report: Annotated[
        Path | None, option("FILE", "HTML report of the search. None: beside the output.")
    ] = None,
    costs: Annotated[
        Path | None,
        option("FILE", "Price list of columns in YAML or CSV. None: networks cost their mult-adds."),
    ] = None,
    task: Task = TaskName.auto,
    holdout: Annotated[
        float,
        option("SHARE", "Share of the rows held out to evaluate the result; 0: none.", min=0.0, max=0.9),
    ] = 0.2,
    size: Annotated[int | None, option("PIXELS", "Resize images to this height and width.", min=4)] = None,
    settings: Annotated[
        list[str] | None,
        option("NAME=VALUE", "Any parameter of the model, as in Python. May be repeated.", "--set"),
    ] = None,
    seed: Annotated[int, option("N", "The same seed grows the same networks.")] = 0,
    na_values: NaValues = None,
) -> None:
    """Grow a family of neural networks, from cheap to accurate.

    Trains a small network, then repeatedly grows a network that is among the best at its cost. Ctrl-C ends the search and
    keeps its networks; --resume continues it. Needs PyTorch.

    Example: anytime grow digits.csv --target digit --time-budget 300 -o digits.anytime
    """
    import anytime as at
    from anytime._compat import rows_of
    from anytime.cli.growing import watched

    page, home = report or output.with_suffix(".html"), folder or output.with_suffix(".search")
    check_writable(output, page)
    _check_folder(home, resume)
    trainers = _workers(workers)
    rows = _read_images(data, size) if data.is_dir() else _read_rows(data, target, task, na_values)
    name = "GrowingNetworkClassifier" if rows.classify else "GrowingNetworkRegressor"
    model = getattr(at, name)(
        time_budget=_seconds(time_budget, n_growths),
        n_growths=n_growths,
        workers=trainers,
        folder=str(home),
        costs=read_costs(costs),
        random_state=seed,
    )
    model.set_params(**read_settings(model, settings or []))
    train, test = split_rows(rows.y, holdout, rows.classify, seed)
    _check_same_rows(home, rows, seed)
    print_title(rows.what)
    unit = "mult-adds" if costs is None else model.costs.unit or "cost"
    with watched(home, model.time_budget, unit), few_threads(rows.X.size):
        model.fit(rows_of(rows.X, train), rows.y[train])
    model.save(output)
    _summarise(model, rows_of(rows.X, test), rows.y[test], unit)
    _write_report(home, page, data, rows, unit)
    console().print(f"wrote {output} and {page}; the search is in {home}", soft_wrap=True)


# ---------------------------------------------------------------------- what was asked for


def _check_folder(home: Path, resume: bool) -> None:
    there = (home / "journal.sqlite").exists()
    if there and not resume:
        raise UsageError(
            f"{home} already holds a search: add --resume to continue it, or name another --folder"
        )
    if resume and not there:
        raise UsageError(f"there is no search in {home} to continue; leave out --resume to start one")
    if home.exists() and not home.is_dir():
        raise UsageError(f"{home} is a file; name a directory for the search with --folder")


def _seconds(time_budget: float | None, n_growths: int | None) -> float | None:
    return _LONG_ENOUGH if time_budget is None and n_growths is None else time_budget


def _workers(text: str) -> int | str:
    if text == "ray":
        return text
    if not text.isdecimal() or int(text) < 1:
        raise UsageError(f"--workers must be a number from 1, or ray; not {text!r}")
    return int(text)


# ---------------------------------------------------------------------- rows


def _read_images(data: Path, size: int | None) -> GrowthRows:
    from anytime.cli.image_folders import read_image_folder

    X, y = read_image_folder(data, size)
    n, channels, height, width = X.shape
    what = f"{counted(n, 'image')} of {height} x {width} x {channels}: classification, {len(set(y))} classes"
    return GrowthRows(X, y, True, what)


def _read_rows(data: Path, target: str | None, task: TaskName, na_values: list[str] | None) -> GrowthRows:
    if target is None:
        raise UsageError("a table needs --target: the column to predict")
    with step(f"reading {data}"):
        table = read_table(data, na_values=na_values)
    y = target_of(table, target, data)
    classify = is_classification(y, task, target, data)
    X = training_features(table.drop(columns=[target]), data)
    words = [str(name) for name in X.columns if X[name].dtype == "category"]
    if words:
        raise UsageError(
            f"{data}: networks need numbers, but words are in {listing(words)}: encode them first"
        )
    answers = labels_of(y) if classify else numbers_of(y, target, data).to_numpy()
    kind = f"classification, {len(set(answers.tolist()))} classes" if classify else "regression"
    return GrowthRows(
        X, answers, classify, f"{counted(len(X), 'row')}, {counted(X.shape[1], 'column')}: {kind}"
    )


def _check_same_rows(home: Path, rows: GrowthRows, seed: int) -> None:
    """Remember which rows a search was started on; refuse to continue it on others."""
    import hashlib

    import numpy as np

    digest = hashlib.sha256(np.ascontiguousarray(rows.X).tobytes())
    digest.update(repr(rows.y.tolist()).encode())
    begun_on = {"rows": digest.hexdigest(), "seed": seed}
    file = home / "rows.json"
    if not file.exists():
        home.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(begun_on), encoding="utf-8")
    elif json.loads(file.read_text(encoding="utf-8")) != begun_on:
        raise CliError(
            f"the search in {home} was started on other rows or with another --seed; use the same ones, or name another --folder"
        )


# ---------------------------------------------------------------------- output


def _summarise(model: Any, X: Any, y: NDArray[Any], unit: str) -> None:
    """One line per network of the hull."""
    from anytime.cli.growing import plain_number
    from anytime.curves import curve

    costs = model.stage_costs_.tolist()
    sizes = [architecture.counts().parameters for architecture in model.architectures_]
    columns = ["network", unit, "parameters"]
    lines = [[str(k), *map(plain_number, pair)] for k, pair in enumerate(zip(costs, sizes, strict=True), 1)]
    title = f"{counted(len(model.models_), 'network')} trained, {len(costs)} of them on the hull"
    if len(y):
        judged = curve(model, X, y)
        columns.append(judged.metric)
        for line, cost in zip(lines, costs, strict=True):
            line.append(share(float(judged.at(cost))))
        title += f"; {judged.metric} on the {len(y)} rows held out"
    else:
        note("no rows are held out: the quality on new rows is unknown")
    print_table(columns, lines, title=title)


def _write_report(home: Path, page: Path, data: Path, rows: GrowthRows, unit: str) -> None:
    from anytime.growth import ReportWords
    from anytime.growth.journal import snapshot
    from anytime.growth.report import render

    seen = snapshot(home / "journal.sqlite")
    words = ReportWords(title=f"{data.stem}: networks that grew", cost=unit, data=f"{data.name}, {rows.what}")
    page.write_text(render(seen.models, seen.failures, words), encoding="utf-8")
