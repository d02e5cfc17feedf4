"""One copy of a model's trees for all workers, also of a version that was loaded after they were forked.

What a process has when it forks is shared by itself. What workers load later each would hold for itself: so the first of them
that loads a version writes its forests into a file as they lie in memory, and all map that file, read-only.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np

from anytime._native import Forest
from anytime.estimator import AnytimeModel
from anytime.trees.block import TreeBlock

__all__ = ["SharedForests"]

_IN_MEMORY = Path("/dev/shm")  # files there are pages that no disk has to hold
_LEAST = 1 << 16  # bytes of a forest that is worth a file
_KEPT = 60.0  # seconds after which files of another version have been mapped by all who wanted them


class SharedForests:
    """A folder of forests, which goes with the process that made it.

    Files may go at any time: who has mapped one keeps it, and who finds none writes it again.
    """

    def __init__(self) -> None:
        self._owner = os.getpid()
        base = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else Path(tempfile.gettempdir())
        for other in base.glob("anytime-*-*"):
            _remove_if_left(other)
        # only its owner can read it
        self.folder = Path(tempfile.mkdtemp(prefix=f"anytime-{self._owner}-", dir=base))

    def adopt(self, model: AnytimeModel, version: str) -> None:
        """Let the trees of a model lie in shared memory; where there is none they stay where they are."""
        for number, block in enumerate(model.plan_.blocks):
            if isinstance(block, TreeBlock) and block.forest.frozen_size >= _LEAST:
                try:
                    block.forest = self._shared(block.forest, self.folder / f"{version}-{number}")
                except OSError:  # no room; no reason not to answer
                    return
        self._tidy(version)

    def _shared(self, forest: Forest, path: Path) -> Forest:
        if not path.exists():
            own = path.with_name(f".{os.getpid()}-{path.name}")
            try:
                with own.open(
                    "xb"
                ) as file:  # room for all of it, or an error: a map of a full disk ends the process
                    os.posix_fallocate(file.fileno(), 0, forest.frozen_size)
                forest.freeze(np.memmap(own, dtype=np.uint8, mode="r+"))
                own.replace(path)  # whole, or not at all; if two write the same at once, the second stays
            finally:
                own.unlink(missing_ok=True)
        return Forest.thawed(np.memmap(path, dtype=np.uint8, mode="r"))

    def _tidy(self, version: str) -> None:
        for path in self.folder.iterdir():
            try:
                if not path.name.startswith(version) and time.time() - path.stat().st_mtime > _KEPT:
                    path.unlink()
            except OSError:
                continue

    def close(self) -> None:
        """Remove the folder, in the process that made it."""
        if os.getpid() == self._owner:
            shutil.rmtree(self.folder, ignore_errors=True)


def _remove_if_left(folder: Path) -> None:
    """Remove what a process of ours left that had no time to."""
    process = folder.name.split("-")[1]
    try:
        if process.isdigit() and folder.stat().st_uid == os.getuid():
            os.kill(int(process), 0)
    except ProcessLookupError:
        shutil.rmtree(folder, ignore_errors=True)
    except OSError:  # it runs and is not ours, or the folder has gone meanwhile
        return
