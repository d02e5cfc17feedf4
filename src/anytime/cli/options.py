"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

CostlyFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The costly model of an adaptive one that is not in its file: .anytime, or with --trusted a pickle.",
    ),
]
NaValues = Annotated[
    str | None,
    typer.Option(
        "--na-values",
        metavar="A,B,...",
        help="Cells that mean a missing value, beside empty ones, NA, NaN, null and the like: --na-values '?,-999'.",
    ),
]
Trusted = Annotated[
    bool,
    typer.Option(
        "--trusted", help="Open a pickle. That runs code of whoever wrote it: do so only for your own."
    ),
]
