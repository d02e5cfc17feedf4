"""``load``, ``names`` and ``describe`` as in ``anytime.datasets``, which know the public sets of the papers too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anytime.datasets import registry
from anytime.datasets.dataset import About, Dataset, Listing
from anytime_research.datasets.public import ENTRIES
from anytime_research.datasets.sources import DataFormatError, Source
from anytime_research.datasets.turney import PRICED

__all__ = ["describe", "load", "names"]

FROM_FILES = [*PRICED, *ENTRIES]
REGISTRY: dict[str, Listing] = {**registry.REGISTRY, **{entry.about.name: entry for entry in FROM_FILES}}


def load(name: str, *, as_frame: bool = False, folder: str | Path | None = None, **options: Any) -> Dataset:
    """A data set with its groups and prices; ``ANYTIME_DATA`` or ``folder`` says where its files lie.

    Raises
    ------
    DataNotFoundError
        The folder or a file is absent.
    DataFormatError
        A file is damaged or is not what it should be.
    """
    entry = registry.find(name, REGISTRY)
    about = entry.about
    if about.name in registry.REGISTRY:
        return registry.load(about.name, as_frame=as_frame, **options)
    registry.check_options(about, options)
    data = entry.read(Source(about.name, f"source: {about.source}", folder), **options)
    _check_size(about, data, options)
    return registry.named(data, about, as_frame)


def names() -> list[str]:
    """All names that ``load`` knows."""
    return list(REGISTRY)


def describe(name: str) -> About:
    """What is known about a set without loading it."""
    return registry.find(name, REGISTRY).about


def _check_size(about: About, data: Dataset, options: dict[str, Any]) -> None:
    rows, columns = data.X.shape
    dropped = options.get("unsolved") == "drop"
    if columns != about.columns or (rows != about.rows and not dropped):
        raise DataFormatError(
            f"the files of data set {about.name!r} give {rows} rows and {columns} columns instead of {about.rows} and "
            f"{about.columns}: one of them is cut short or another edition ({about.source}); fetch them again"
        )
