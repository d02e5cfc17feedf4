"""What a search by growth needs: a seed, and a way to train the networks that it asks for.

The search (Petridish, chapter 6: "Efficient forward architecture search") knows costs, errors and lineage. It does not
know networks: a problem turns a `Job` into an `Outcome`, here, in another process or on another machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

__all__ = ["GrowthProblem", "Interrupted", "Job", "Outcome", "whole_file"]


class Interrupted(Exception):  # noqa: N818  # nothing went wrong
    """Raised by ``GrowthProblem.run`` when ``stop()`` became true: the job is run again when the search continues."""


@dataclass(frozen=True)
class Job:
    """One piece of work for one worker.

    Attributes
    ----------
    number : int
        Key of the journal; a job that is run twice gives the same outcome, and counts once.
    kind : str
        ``"seed"``: train the first model. ``"candidates"``: add candidates to the parent, train and choose among them.
        ``"child"``: train and evaluate what was chosen.
    parent : int or None
        Number of the model that is grown; None for the seed.
    architecture : dict
        As JSON: what to train. Of ``"candidates"`` the parent's, to which the candidates are added.
    warm_start : str or None
        Name of the checkpoint in the folder to begin with.
    random_state : int
        Derived from the search's own and ``number``: the same whichever worker runs the job.
    """

    number: int
    kind: str
    parent: int | None
    architecture: dict[str, Any]
    warm_start: str | None
    random_state: int


@dataclass(frozen=True)
class Outcome:
    """What a job gave.

    Attributes
    ----------
    architecture : dict
        Of ``"candidates"`` the child's, to be trained next; otherwise the one that was trained.
    checkpoint : str
        Name of the file in the folder that was written, whole or not at all (`whole_file`).
    cost : float
        What a prediction costs, such as mult-adds; of ``"seed"`` and ``"child"`` only.
    error : float
        On validation rows; of ``"seed"`` and ``"child"`` only.
    seconds : float
        Time that the job took.
    notes : dict
        As JSON, for people: what was chosen and how strongly, losses, number of parameters.
    """

    architecture: dict[str, Any]
    checkpoint: str
    cost: float
    error: float
    seconds: float
    notes: dict[str, Any] = field(default_factory=dict)


class GrowthProblem(Protocol):
    """What is grown: it knows the data and how to train. It can be pickled, so that workers can have a copy."""

    def first(self) -> dict[str, Any]:
        """Architecture of the seed, as JSON."""
        ...

    def run(self, job: Job, folder: Path, stop: Callable[[], bool]) -> Outcome:
        """Do the job; files are read from and written to ``folder``.

        ``stop`` is called at least once a mini-batch, and where it says True `Interrupted` is raised. Any other exception
        fails this job, and the search goes on.
        """
        ...


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """A path to write to, whose file takes the place of ``path`` at the end: there is never half a file of that name.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     with whole_file(Path(folder) / "model-3.bin") as unfinished:
    ...         _ = unfinished.write_bytes(b"weights")
    ...     [file.name for file in Path(folder).iterdir()]
    ['model-3.bin']
    """
    path = Path(path)
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    try:
        yield unfinished
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
