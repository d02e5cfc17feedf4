"""A data folder for tiny files, and the real ones where the user has them."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from anytime_research.datasets import registry

# The real files are checked where ANYTIME_DATA says that they are; elsewhere there is nothing to collect.
collect_ignore = [] if os.environ.get("ANYTIME_DATA") else ["test_real_files.py"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder, named by the environment variable."""
    monkeypatch.setenv("ANYTIME_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def put(folder: Path) -> Callable[..., Path]:
    """Write a file into the data folder, compressed unless ``plain``."""

    def write(file: str, contents: str | bytes, *, plain: bool = False) -> Path:
        path = folder / (file if plain else f"{file}.gz")
        path.parent.mkdir(parents=True, exist_ok=True)
        data = contents.encode() if isinstance(contents, str) else contents
        path.write_bytes(data if plain else gzip.compress(data))
        return path

    return write


@pytest.fixture
def sized(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Tell the registry that a set has as many rows as the tiny file that stands in for it."""

    def resize(name: str, **sizes: int) -> None:
        entry = registry.REGISTRY[name]
        monkeypatch.setitem(registry.REGISTRY, name, replace(entry, about=replace(entry.about, **sizes)))

    return resize
