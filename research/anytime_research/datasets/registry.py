"""``load``, ``names`` and ``describe`` as in ``anytime.datasets``, which know the public sets of the papers too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anytime.datasets import registry
from anytime.datasets.dataset import About, Dataset, Listing
from anytime_research.datasets.public import ENTRIES

__all__ = ["describe", "load", "names"]

REGISTRY: dict[str, Listing] = {**registry.REGISTRY, **{entry.about.name: entry for entry in ENTRIES}}


def load(name: str, *, as_frame: bool = False, folder: str | Path | None = None, **options: Any) -> Dataset:
    """A data set with its groups and prices; ``ANYTIME_DATA`` or ``folder`` says where its files lie."""
    return registry.read(registry.find(name, REGISTRY), as_frame, folder, options)


def names() -> list[str]:
    """All names that ``load`` knows."""
    return list(REGISTRY)


def describe(name: str) -> About:
    """What is known about a set without loading it."""
    return registry.find(name, REGISTRY).about
