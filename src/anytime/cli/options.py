"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["CostlyFile", "Trusted"]

CostlyFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The costly model of an adaptive one that is not in its file: .anytime, or with --trusted a pickle.",
    ),
]
Trusted = Annotated[
    bool,
    typer.Option(
        "--trusted", help="Open a pickle. That runs code of whoever wrote it: do so only for your own."
    ),
]
