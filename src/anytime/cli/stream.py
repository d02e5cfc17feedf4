"""``anytime stream``: learn from a table row by row, in constant memory, with checkpoints."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anytime.cli.errors import CliError, UsageError
from anytime.cli.fit import is_classification, read_settings
from anytime.cli.io import check_writable, load_model, missing_cells, read_costs, target_of
from anytime.cli.options import NaValues, PriceList, Seed, Target, Task, TaskName, option
from anytime.cli.tables import console, note, number, share

if TYPE_CHECKING:
    import pandas as pd

    from anytime.streaming import StreamProgress

_LINES = 10.0  # seconds between two lines where no line can be written over


class LearnerName(StrEnum):
    """What ``--learner`` may be."""

    hoeffding_tree = "hoeffding_tree"
    stump = "stump"
    ridge = "ridge"
    linear = "linear"
    small_net = "small_net"


class DriftName(StrEnum):
    """What ``--drift`` may be."""

    adwin = "adwin"
    windows = "windows"


def stream(
    data: Annotated[
        Path,
        typer.Argument(
            metavar="DATA",
            help="CSV, Parquet or Arrow file, read in row order; - reads CSV from a pipe.",
        ),
    ],
    target: Target,
    save: Annotated[Path, option("FILE", "The .anytime file to write.", "--save", "-o")],
    every: Annotated[
        int | None, option("ROWS", "Also write a checkpoint every this many rows.", min=1)
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue where the model in --save stopped in DATA, if there is one."),
    ] = False,
    begin: Annotated[
        Path | None,
        option("FILE", "Start from the model of an earlier stream; all rows of DATA are new to it."),
    ] = None,
    costs: PriceList = None,
    learner: Annotated[
        LearnerName, option("NAME", f"Base learner: {', '.join(LearnerName)}.")
    ] = LearnerName.hoeffding_tree,
    n_estimators: Annotated[int, option("N", "Number of learners.", min=1)] = 100,
    drift: Annotated[
        DriftName | None,
        option(
            "NAME", "Drift detector: adwin or windows. None: assume that the distribution does not change."
        ),
    ] = None,
    task: Task = TaskName.auto,
    classes: Annotated[
        str | None, option("A,B,...", "All class labels. None: those of the first rows.")
    ] = None,
    chunk: Annotated[int, option("ROWS", "Rows in memory at a time.", min=1)] = 1000,
    lenient: Annotated[
        bool,
        typer.Option(
            "--lenient",
            help="Treat unreadable cells as missing, and skip rows without a target.",
        ),
    ] = False,
    settings: Annotated[
        list[str] | None,
        option(
            "NAME=VALUE",
            "Any parameter of the model, as in Python: --set learning_rate=0.1, "
            "--set 'learner={kind: HoeffdingTree, max_features: 2}'. May be repeated.",
            "--set",
        ),
    ] = None,
    seed: Seed = 0,
    na_values: NaValues = None,
) -> None:
    """Learn from rows as they arrive, in constant memory.

    Predicts every row before learning from it, and shows the error of these predictions. Ctrl-C leaves a usable checkpoint.

    Example: anytime stream trips.csv --target minutes --save trips.anytime --every 10000
    """
    from anytime.streaming import read_stream

    check_writable(save)
    if resume and begin is not None:
        raise UsageError(
            "--resume continues the model in --save, --begin continues another one: give only one of them"
        )
    model = _earlier_model(save if resume and save.exists() else begin, resume)
    skip = 0 if model is None else model.position_
    if skip:
        _check_same(model, save, data)
    tables: Iterator[pd.DataFrame] = read_stream(
        str(data), chunk_rows=chunk, skip=skip, strict=not lenient, na_values=missing_cells(na_values)
    )
    if model is None:
        first = next(tables, None)
        if first is None:
            raise CliError(f"{data} has no rows")
        model = _new_model(first, target, data, task, classes)
        parameters = {
            "learner": str(learner),
            "n_estimators": n_estimators,
            "drift": None if drift is None else str(drift),
            "costs": read_costs(costs),
            "random_state": seed,
        }
        model.set_params(**parameters | _objects(read_settings(model, settings or [])))
        tables = chain([first], tables)
    options = {
        "classes": None if classes is None else _labels(classes),
        "every": every,
        "strict": not lenient,
    }
    left_out = _learn(model, tables, target, data, save, options)
    if model.position_ == skip:
        _tell_nothing_new(save, data, skip)
    else:
        _summarise(model, save, left_out)


def _earlier_model(path: Path | None, resume: bool) -> Any:
    """The model to continue with; None: a new one. In a stream that is not resumed it has read no row yet."""
    model = None if path is None else _learning_model(path)
    if model is not None and not resume:
        model.position_ = 0
    return model


def _learn(
    model: Any, tables: Iterator[pd.DataFrame], target: str, data: Path, save: Path, options: dict[str, Any]
) -> int:
    """Learn from all tables, telling of progress; how many rows were left out. What ends it early leaves a checkpoint."""
    from anytime.streaming import learn_stream
    from anytime.streaming.streams import source_of

    skipped, left_out = model.position_, 0
    teller = _Teller(model, skipped)
    try:
        for progress in learn_stream(model, tables, target, save=save, source=source_of(data), **options):
            left_out = progress.left_out
            if progress.rows > skipped:
                teller(progress)
    except (ValueError, KeyboardInterrupt) as error:
        teller.end()
        if model.position_ > skipped:
            note(f"wrote {save} after {model.position_} rows; --resume continues from there")
        if isinstance(error, KeyboardInterrupt):
            raise
        raise CliError(_with_hint(str(error), data)) from None
    teller.end()
    return left_out


def _check_same(model: Any, save: Path, data: Path) -> None:
    """Refuse to skip rows of a file that are not those which were learned."""
    from anytime.streaming.streams import source_of

    source = model.source_
    same_source = None if source is None else source_of(data, source["n_rows"])
    if source is not None and same_source is not None and same_source["digest"] != source["digest"]:
        raise CliError(
            f"{save} has read {model.position_} rows of {source['name']}, but {data} begins with other rows, so --resume would "
            f"skip rows that were never learned; to learn all rows of {data}, use --begin {save} instead of --resume"
        )


def _tell_nothing_new(save: Path, data: Path, skip: int) -> None:
    from anytime.streaming.streams import n_rows_of

    if data.is_file() and (n_rows := n_rows_of(data)) < skip:
        raise CliError(
            f"{data} has {n_rows} rows, but {save} has already read {skip}: is it the same stream? To learn all of its rows, "
            f"use --begin {save} instead of --resume"
        )
    note(f"nothing new: {save} has read all {skip} rows of {data}")


def _with_hint(error: str, data: Path) -> str:
    if "not among classes" in error:
        error += "; name all of them with --classes"
    elif error.startswith("row ") or "saw" in error:
        error += "; --lenient continues without it"
    return error if error.startswith(str(data)) else f"{data}: {error}"


def _learning_model(path: Path) -> Any:
    model = load_model(path)
    if not hasattr(model, "partial_fit"):
        raise CliError(f"{path} holds a {type(model).__name__}, which does not learn from a stream")
    if model._learning is None:
        raise CliError(f"{path} was saved with learning=False: it can predict, but not learn")
    return model


def _new_model(first: pd.DataFrame, target: str, path: Path, task: TaskName, classes: str | None) -> Any:
    from anytime.streaming import StreamingBoostClassifier, StreamingBoostRegressor

    if target in first.columns and not first.empty:  # a row without one is met again where rows are learned
        first = first.dropna(subset=[target])
        if first.empty:
            raise CliError(
                f"{path}: no row of the first chunk has a value of the target {target!r}; raise --chunk to read more rows at once"
            )
    y = target_of(first, target, path)
    if first.shape[1] < 2:
        raise CliError(f"{path} has no column besides the target")
    classes_given = classes is not None
    if classes_given and task is TaskName.regression:
        raise UsageError("--classes cannot be combined with --task regression")
    classify = classes_given or is_classification(y, task, target, path)
    return StreamingBoostClassifier() if classify else StreamingBoostRegressor()


def _objects(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with learners and the like in the place of what describes them: {kind: HoeffdingTree, max_features: 2}."""
    from anytime.streaming.object_parameters import read_setting

    out = dict(settings)
    for name, value in settings.items():
        if isinstance(value, dict) and name != "class_weight":
            try:
                out[name] = read_setting(value)
            except (LookupError, TypeError, ValueError) as error:
                raise UsageError(f"--set {name}: {value} is not a valid object: {error}") from None
    return out


def _labels(classes: str) -> list[Any]:
    parts = [part.strip() for part in classes.split(",") if part.strip()]
    if len(set(parts)) < 2:
        raise UsageError(f"--classes {classes!r}: give at least two labels, as in --classes yes,no")
    try:
        return [int(part) for part in parts]
    except ValueError:
        return list(parts)


# ---------------------------------------------------------------------- output


class _Teller:
    """Tells of progress on standard error: in one line on a terminal, in a line now and then in a file."""

    def __init__(self, model: Any, skipped: int) -> None:
        self.classifies = hasattr(model, "predict_proba")
        self.live = sys.stderr.isatty()
        self.last_note, self.skipped = time.monotonic(), skipped

    def __call__(self, progress: StreamProgress) -> None:
        if self.skipped:
            note(f"continued after {self.skipped} rows")
            self.skipped = 0
        text = (
            f"{progress.rows} rows, {progress.rows_per_second:,.0f} rows/s, "
            f"{_error(progress.error, self.classifies)}{', saved' if progress.saved else ''}"
        )
        if self.live:
            print(f"\r{text:<78}", end="", file=sys.stderr, flush=True)
        elif progress.saved or time.monotonic() - self.last_note > _LINES:
            self.last_note = time.monotonic()
            note(text)

    def end(self) -> None:
        """Leave the line."""
        if self.live:
            print(file=sys.stderr)


def _error(error: float, classifies: bool) -> str:
    return f"error rate {share(error)}" if classifies else f"root mean square error {number(error)}"


def _summarise(model: Any, save: Path, left_out: int) -> None:
    classifies = hasattr(model, "predict_proba")
    out = console()
    out.print(
        f"{model.rows_seen_} rows learned; before learning each: {_error(model.progressive_error_, classifies)}"
    )
    if left_out:
        out.print(f"left out: {left_out} rows without a target")
    out.print(f"best prefix of late: {model.best_prefix_} of {model.n_estimators_} learners")
    if model.drift is not None:
        out.print(f"changes met: {model.n_alarms_}")
    out.print(f"wrote {save}", soft_wrap=True)
