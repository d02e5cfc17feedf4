"""Finished rounds in a file: a fit that was ended, however rudely, goes on from there."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Sequence
from dataclasses import fields
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from anytime.boosting.objective import MeanLoss
from anytime.costs import BoundCosts
from anytime.trees.arrays import TreeArrays

__all__ = ["Checkpoint", "fingerprint"]

_SECONDS_BETWEEN = 10.0
Stage = list[TreeArrays]


def fingerprint(*things: Any) -> str:
    """A name for a fit by all that its rounds follow from: whatever is given here, and the version of this library."""
    mark = hashlib.sha256()
    _add(mark, [version("anytime"), *things])
    return mark.hexdigest()[:32]


def _add(mark: Any, thing: Any) -> None:
    """Add a thing with its kind and length before it, so that no two lists of things read the same."""
    if isinstance(thing, np.ndarray) and thing.dtype != object:
        _add(mark, f"{thing.dtype}{thing.shape}")
        mark.update(np.ascontiguousarray(thing))
    elif isinstance(thing, (list, tuple, np.ndarray)):
        mark.update(f"list {len(thing)};".encode())
        for part in thing:
            _add(mark, part)
    elif isinstance(thing, dict):
        _add(mark, [part for name in sorted(thing) for part in (name, thing[name])])
    elif isinstance(thing, MeanLoss):
        _add(mark, [str(thing.loss.name), thing.y, thing.weight, thing.total])
    elif isinstance(thing, BoundCosts):
        _add(mark, [thing.column_group, repr(thing.costs.prices), repr(thing.costs.requires)])
    else:
        said = repr(thing).encode()
        mark.update(f"{type(thing).__name__} {len(said)};".encode() + said)


class Checkpoint:
    """A file that always holds a whole number of rounds: it is written beside and put in the place of the one before."""

    def __init__(self, path: Path | None, mark: str) -> None:
        self.path, self.mark, self._last = path, mark, time.monotonic()

    @classmethod
    def of(cls, folder: Path | None, mark: str) -> Checkpoint:
        """The file of a fit in a folder; without a folder nothing is ever written."""
        return cls(None if folder is None else folder / f"{mark}.npz", mark)

    def keep(self, rounds: Sequence[Stage], losses: Sequence[float], *, now: bool = False) -> None:
        """Write what there is, unless the last time was just before."""
        if self.path is None or (not now and time.monotonic() - self._last < _SECONDS_BETWEEN):
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        arrays: dict[str, Any] = {
            "losses": np.array(losses),
            "sizes": np.array([len(stage) for stage in rounds]),
        }
        for number, tree in enumerate(tree for stage in rounds for tree in stage):
            arrays |= {f"{number}.{field.name}": getattr(tree, field.name) for field in fields(tree)}
        beside = self.path.with_suffix(f".{os.getpid()}.part")
        with open(beside, "wb") as file:
            np.savez(file, **arrays)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, self.path)
        self._last = time.monotonic()

    def read(self) -> tuple[list[Stage], list[float]] | None:
        """The rounds and losses that were kept; None where there are none."""
        if self.path is None or not self.path.exists():
            return None
        with np.load(self.path, allow_pickle=False) as arrays:
            trees = (
                TreeArrays(
                    **{field.name: _plain(arrays[f"{number}.{field.name}"]) for field in fields(TreeArrays)}
                )
                for number in range(int(arrays["sizes"].sum()))
            )
            rounds = [[next(trees) for _ in range(size)] for size in arrays["sizes"]]
            return rounds, arrays["losses"].tolist()

    def end(self) -> None:
        """The fit is done: the file has served its purpose."""
        if self.path is not None:
            for written in self.path.parent.glob(
                f"{self.path.stem}.*"
            ):  # that of a program killed while writing too
                written.unlink(missing_ok=True)


def _plain(array: Any) -> Any:
    return array.item() if array.ndim == 0 else array
