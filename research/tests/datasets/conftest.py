"""A data folder for tiny files, and the real ones where the user has them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

import pytest

from anytime_research.datasets import registry
from tests.datasets.conftest import folder, put

__all__ = ["folder", "put"]

# The real files are checked where ANYTIME_DATA says that they are; elsewhere there is nothing to collect.
collect_ignore = [] if os.environ.get("ANYTIME_DATA") else ["test_real_files.py"]


@pytest.fixture
def sized(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Tell the registry that a set has as many rows as the tiny file that stands in for it."""

    def resize(name: str, **sizes: int) -> None:
        entry = registry.REGISTRY[name]
        monkeypatch.setitem(registry.REGISTRY, name, replace(entry, about=replace(entry.about, **sizes)))

    return resize
