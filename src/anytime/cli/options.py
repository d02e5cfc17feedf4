"""Options: how they are written, and those that several commands have."""

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
Truth = Annotated[str, option("COLUMN", "The column with the true labels.", "--target", "-t")]
PriceList = Annotated[
    Path | None, option("FILE", "Price list of column groups in YAML or CSV. None: 1 per column.")
]
Task = Annotated[
    TaskName, typer.Option(help="auto: a target of strings or of few distinct integers is classification.")
]
Seed = Annotated[int, option("N", "Random seed; the same seed gives the same model.")]
CostlyFile = Annotated[
    Path | None,
    option(
        "FILE",
        "Costly model of a ladder or adaptive model, if not in its file: .anytime, or a pickle with --trusted.",
    ),
]
NaValues = Annotated[
    list[str] | None,
    option(
        "A,B,...",
        "More cell values that mean missing, besides empty cells, NA, NaN, null and the like: --na-values '?,-999'. "
        "May be repeated.",
        "--na-values",
    ),
]
Trusted = Annotated[
    bool,
    typer.Option(
        "--trusted", help="Allow loading a pickle. A pickle can run any code, so load only your own."
    ),
]
