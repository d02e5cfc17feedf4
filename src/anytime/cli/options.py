"""Options: how they are written, and those that several commands have."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer


def option(metavar: str | None, help: str, *names: str, **more: Any) -> Any:
    """An option: what its value is called, what it is for, its names where these are not the parameter's, limits."""
    return typer.Option(*names, metavar=metavar, help=help, **more)


class TaskName(StrEnum):
    """What ``--task`` may be."""

    auto = "auto"
    classification = "classification"
    regression = "regression"


ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="An .anytime file.")]
OutputFile = Annotated[Path, option("FILE", "The .anytime file to write.", "--output", "-o")]
Target = Annotated[str, option("COLUMN", "The column to predict.", "--target", "-t")]
Truth = Annotated[str, option("COLUMN", "The column with the truth.", "--target", "-t")]
PriceList = Annotated[
    Path | None, option("FILE", "Price list in YAML or CSV: what groups of columns cost. None: 1 per column.")
]
Task = Annotated[TaskName, typer.Option(help="auto: words and few whole numbers are classes.")]
Seed = Annotated[int, option("N", "The same seed gives the same model.")]
CostlyFile = Annotated[
    Path | None,
    option(
        "FILE",
        "The costly model of an adaptive one that is not in its file: .anytime, or with --trusted a pickle.",
    ),
]
NaValues = Annotated[
    str | None,
    option(
        "A,B,...",
        "Cells that mean a missing value, beside empty ones, NA, NaN, null and the like: --na-values '?,-999'.",
        "--na-values",
    ),
]
Trusted = Annotated[
    bool,
    typer.Option(
        "--trusted", help="Open a pickle. That runs code of whoever wrote it: do so only for your own."
    ),
]
