"""One copy of a model's trees for all workers, also of a version that was loaded after they were forked.

What a process has when it forks is shared by itself. What workers load later each would hold for itself: so the first of them
that loads a version writes its forests into a file as they lie in memory, and all map that file, read-only.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from anytime._native import Forest
from anytime.estimator import AnytimeModel
from anytime.serve.logs import logger
from anytime.trees.block import TreeBlock

_IN_MEMORY = Path("/dev/shm")  # files there are pages that no disk has to hold
_PREFIX = "anytime-forests-"
_LEAST = 1 << 16  # bytes of trees that are worth a file
_KEPT = 60.0  # seconds after which an unused file, or a folder without an owner, may be deleted


class SharedForests:
    """A folder of forests, held by the process that made it and by all that it forks.

    Files may go at any time: who has mapped one keeps it, and who finds none writes it again. Where no folder can be made, or
    there is no room, models stay where they are.
    """

    def __init__(self) -> None:
        self._owner = os.getpid()
        self.folder: Path | None = None
        for base in (_IN_MEMORY, Path(tempfile.gettempdir())):
            with contextlib.suppress(OSError):
                _remove_what_was_left(base)
                folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))  # only its owner can read it
                # held as long as one process has it open
                self._lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self.folder = folder
                return

    def adopt(self, model: AnytimeModel, version: str, others: Iterable[str] = ()) -> None:
        """Let the trees of a model lie in shared memory.

        Models of one ``version`` are the same, as it stands for the contents of the file; ``others`` are needed besides.
        """
        blocks = [block for block in model.plan_.all_blocks if isinstance(block, TreeBlock)]
        sizes = [block.forest.frozen_size for block in blocks]
        if self.folder is None or sum(sizes) < _LEAST:
            return
        try:
            self._tidy({version, *others})
            memory = self._mapped(self.folder / version, [block.forest for block in blocks])
            pieces = np.split(memory, np.cumsum(sizes))[:-1]
            shared = [Forest.thawed(piece) for piece in pieces]
            if memory.size != sum(sizes) or any(map(_differ, shared, (block.forest for block in blocks))):
                raise ValueError("the file is of another model")
        except (OSError, ValueError) as error:
            fields = {"version": version, "error": str(error)}
            logger.warning("the trees of a model are not shared between workers", extra={"fields": fields})
            return
        for block, forest in zip(blocks, shared, strict=True):
            block.forest = forest

    def _mapped(self, path: Path, forests: list[Forest]) -> NDArray[np.uint8]:
        if not path.exists():
            handle, own = tempfile.mkstemp(prefix=".", dir=path.parent)
            try:
                # not through a map, which ends the process where a disk is full
                with os.fdopen(handle, "wb") as file:
                    for forest in forests:
                        piece = np.empty(forest.frozen_size, dtype=np.uint8)
                        forest.freeze(piece)
                        file.write(piece.data)
                with contextlib.suppress(FileExistsError):  # another worker was quicker: all use its file
                    os.link(own, path)
            finally:
                os.unlink(own)
        return np.memmap(path, dtype=np.uint8, mode="r")

    def _tidy(self, needed: set[str]) -> None:
        assert self.folder is not None
        for path in self.folder.iterdir():
            with contextlib.suppress(FileNotFoundError):
                if path.name not in needed and time.time() - path.stat().st_mtime > _KEPT:
                    path.unlink()

    def close(self) -> None:
        """Remove the folder, in the process that made it."""
        if self.folder is not None and os.getpid() == self._owner:
            shutil.rmtree(self.folder, ignore_errors=True)
            os.close(self._lock)
            self.folder = None


def _differ(one: Forest, other: Forest) -> bool:
    shapes = [(f.n_stages, f.n_trees, f.n_features, f.n_outputs, f.shift) for f in (one, other)]
    return shapes[0] != shapes[1]


def _remove_what_was_left(base: Path) -> None:
    """Remove folders of ours that no process holds any more: one that is killed has no time for it."""
    for path in base.glob(f"{_PREFIX}*"):
        try:
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            continue
        with contextlib.suppress(OSError):
            status = os.fstat(folder)
            if status.st_uid == os.getuid() and time.time() - status.st_mtime > _KEPT:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)  # else it is held
                shutil.rmtree(path, ignore_errors=True)
        os.close(folder)
