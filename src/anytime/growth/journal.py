"""Everything a search knows, in one SQLite file: each step of it is one transaction, so that a crash leaves no half steps.

A job goes from ``queued`` to ``running`` to ``done`` or ``failed``. Only the process that runs the search writes here;
workers hand their outcomes over. A job that was running when the process died is queued again, under its own number and
therefore with its own random numbers.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from anytime.growth.problem import Job, Outcome
from anytime.growth.sampling import Pool

__all__ = ["FailedJob", "Journal", "JournalError", "Model", "Snapshot", "snapshot"]

_VERSION = 1
_TABLES = """
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE jobs (
    number INTEGER PRIMARY KEY, kind TEXT NOT NULL, parent INTEGER, architecture TEXT NOT NULL, warm_start TEXT,
    random_state INTEGER NOT NULL, origin INTEGER UNIQUE REFERENCES jobs (number),
    state TEXT NOT NULL DEFAULT 'queued' CHECK (state IN ('queued', 'running', 'done', 'failed')),
    deaths INTEGER NOT NULL DEFAULT 0, failure TEXT, seconds REAL, notes TEXT
);
CREATE TABLE models (
    number INTEGER PRIMARY KEY REFERENCES jobs (number), parent INTEGER REFERENCES models (number),
    cost REAL NOT NULL, error REAL NOT NULL, n_selected INTEGER NOT NULL DEFAULT 0, architecture TEXT NOT NULL,
    checkpoint TEXT NOT NULL, seconds REAL NOT NULL, notes TEXT NOT NULL
);
"""
_JOB = "number, kind, parent, architecture, warm_start, random_state"


class JournalError(Exception):
    """The folder's journal cannot be used: it is not one, belongs to another search, or is in use."""


@dataclass(frozen=True)
class Model:
    """A trained model of the pool.

    Attributes
    ----------
    number : int
        Number of the job that trained it.
    parent : int or None
        Model that it was grown from; None for the seed.
    cost, error : float
        Cost of a prediction, and error on validation rows.
    n_selected : int
        How often it was chosen to be grown.
    architecture : dict
    checkpoint : str
        File in the search's folder.
    seconds : float
        Time spent on it, on choosing its additions included.
    notes : dict
        What the problem said when it was trained; under ``"growth"`` what it said when additions were chosen.
    """

    number: int
    parent: int | None
    cost: float
    error: float
    n_selected: int
    architecture: dict[str, Any]
    checkpoint: str
    seconds: float
    notes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class FailedJob:
    """A job that raised: its number, kind, the model that was to be grown, and the error's text."""

    number: int
    kind: str
    parent: int | None
    failure: str


class Journal:
    """Jobs and models of one search.

    Parameters
    ----------
    path : path
        The file; it is made where there is none.
    settings : dict
        What has to stay the same for as long as the search lasts. A journal that was begun with other values is refused.
    """

    def __init__(self, path: str | Path, settings: dict[str, Any]) -> None:
        self.path = Path(path)
        self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=30)
        self._db.row_factory = sqlite3.Row
        try:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute(
                "PRAGMA synchronous = FULL"
            )  # a job takes long: its result may take milliseconds
            self._db.execute("PRAGMA foreign_keys = ON")
            self._open({"version": _VERSION, **settings})
        except sqlite3.DatabaseError as error:
            self.close()
            raise JournalError(f"{self.path} is no journal of a search: {error}") from error
        except JournalError:
            self.close()
            raise

    def close(self) -> None:
        """Close the file; it can be opened again."""
        self._db.close()

    def _open(self, settings: dict[str, Any]) -> None:
        with self._transaction():
            if not self._db.execute("SELECT name FROM sqlite_master WHERE name = 'settings'").fetchone():
                for statement in _TABLES.strip().split(";\n"):
                    self._db.execute(statement)
                rows = [(name, json.dumps(value)) for name, value in settings.items()]
                self._db.executemany("INSERT INTO settings VALUES (?, ?)", rows)
            stored = {
                row["name"]: json.loads(row["value"]) for row in self._db.execute("SELECT * FROM settings")
            }
        for name, value in settings.items():
            if stored.get(name) != value:
                raise JournalError(
                    f"{self.path} holds a search with {name}={stored.get(name)!r}, not {value!r}: "
                    "give the same value, or another folder"
                )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All of the statements inside, or none of them."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    # ------------------------------------------------------------------ jobs

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes from running this search; jobs whose process has ended are queued again."""
        with closing(
            sqlite3.connect(self.path.with_suffix(".lock"), isolation_level=None, timeout=0)
        ) as lock:
            try:
                lock.execute("BEGIN EXCLUSIVE")  # ends with this process, however that ends
            except sqlite3.OperationalError as error:
                raise JournalError(f"another process runs the search of {self.path.parent}") from error
            self._requeue()
            try:
                yield
            finally:
                self._requeue()

    def _requeue(self) -> None:
        self._db.execute("UPDATE jobs SET state = 'queued' WHERE state = 'running'")

    def next_number(self) -> int:
        """Number of the job that is created next."""
        return int(self._db.execute("SELECT COALESCE(MAX(number) + 1, 0) FROM jobs").fetchone()[0])

    def add(self, job: Job) -> None:
        """Queue a job; for the model that it grows this counts as a selection."""
        with self._transaction():
            self._insert(job, origin=None)
            self._db.execute("UPDATE models SET n_selected = n_selected + 1 WHERE number = ?", (job.parent,))

    def _insert(self, job: Job, origin: int | None) -> None:
        values = (job.number, job.kind, job.parent, json.dumps(job.architecture), job.warm_start)
        self._db.execute(
            f"INSERT INTO jobs ({_JOB}, origin) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (*values, job.random_state, origin),
        )

    def take(self, kinds: Sequence[str]) -> Job | None:
        """The newest queued job of the first kind that has one, now running; None where nothing is queued."""
        with self._transaction():
            for kind in kinds:
                row = self._db.execute(
                    f"SELECT {_JOB} FROM jobs WHERE kind = ? AND state = 'queued' ORDER BY number DESC",
                    (kind,),
                ).fetchone()
                if row is not None:
                    self._set_state(row["number"], "running")
                    return _job(row)
        return None

    def _set_state(self, number: int, state: str) -> None:
        self._db.execute("UPDATE jobs SET state = ? WHERE number = ?", (state, number))

    def give_back(self, number: int) -> None:
        """Queue a running job again."""
        self._db.execute("UPDATE jobs SET state = 'queued' WHERE number = ? AND state = 'running'", (number,))

    def died(self, number: int) -> int:
        """Queue a job again whose worker died; returns how many workers it has cost."""
        with self._transaction():
            self._db.execute("UPDATE jobs SET deaths = deaths + 1 WHERE number = ?", (number,))
            self._set_state(number, "queued")
            row = self._db.execute("SELECT deaths FROM jobs WHERE number = ?", (number,)).fetchone()
        return int(row["deaths"])

    def fail(self, number: int, failure: str) -> None:
        """Give a job up. The selection of its parent stays counted."""
        self._db.execute(
            "UPDATE jobs SET state = 'failed', failure = ? WHERE number = ? AND state != 'done'",
            (failure, number),
        )

    def finish(self, job: Job, outcome: Outcome, next_job: Job | None = None) -> bool:
        """Keep an outcome: as a model, or where ``next_job`` is given as that. False if the job had one already."""
        with self._transaction():
            row = self._db.execute(
                "SELECT state, origin FROM jobs WHERE number = ?", (job.number,)
            ).fetchone()
            if row["state"] == "done":
                return False
            self._db.execute(
                "UPDATE jobs SET state = 'done', failure = NULL, seconds = ?, notes = ? WHERE number = ?",
                (outcome.seconds, json.dumps(outcome.notes), job.number),
            )
            if next_job is None:
                self._add_model(job, outcome, row["origin"])
            else:
                self._insert(next_job, origin=job.number)
        return True

    def _add_model(self, job: Job, outcome: Outcome, origin: int | None) -> None:
        notes, seconds = dict(outcome.notes), outcome.seconds
        if origin is not None:
            row = self._db.execute("SELECT notes, seconds FROM jobs WHERE number = ?", (origin,)).fetchone()
            notes["growth"], seconds = json.loads(row["notes"]), seconds + row["seconds"]
        self._db.execute(
            "INSERT INTO models (number, parent, cost, error, architecture, checkpoint, seconds, notes) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(job.number, job.parent, outcome.cost, outcome.error, json.dumps(outcome.architecture)),
                *(outcome.checkpoint, seconds, json.dumps(notes)),
            ),
        )

    # ------------------------------------------------------------------ what is known

    def models(self) -> list[Model]:
        """The pool, in the order of numbers."""
        return _models(self._db)

    def model(self, number: int) -> Model:
        """One model of the pool."""
        return _model(self._db.execute("SELECT * FROM models WHERE number = ?", (number,)).fetchone())

    def pool(self) -> tuple[list[int], Pool]:
        """Numbers of the models, and what parents are chosen by."""
        rows = self._db.execute(
            "SELECT number, cost, error, n_selected FROM models ORDER BY number"
        ).fetchall()
        numbers, costs, errors, n_selected = (list(column) for column in zip(*rows, strict=True))
        return numbers, Pool(np.array(costs), np.array(errors), np.array(n_selected))

    def failures(self) -> list[FailedJob]:
        """Jobs that were given up."""
        return _failures(self._db)

    def n_models(self) -> int:
        """Size of the pool."""
        return int(self._db.execute("SELECT COUNT(*) FROM models").fetchone()[0])

    def n_unfinished(self) -> int:
        """Jobs that are queued or running: each may still give a model."""
        states = "SELECT COUNT(*) FROM jobs WHERE state IN ('queued', 'running')"
        return int(self._db.execute(states).fetchone()[0])


@dataclass(frozen=True)
class Snapshot:
    """A search at one moment: its models, failed jobs, and jobs under way by their numbers."""

    models: list[Model] = field(default_factory=list)
    failures: list[FailedJob] = field(default_factory=list)
    running: dict[int, Job] = field(default_factory=dict)


def snapshot(path: str | Path) -> Snapshot:
    """Read a journal without disturbing its writer; empty if there is no journal yet."""
    try:
        with closing(sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True)) as db:
            db.row_factory = sqlite3.Row
            db.execute("BEGIN")  # all of it at one moment
            running = [_job(row) for row in db.execute(f"SELECT {_JOB} FROM jobs WHERE state = 'running'")]
            return Snapshot(_models(db), _failures(db), {job.number: job for job in running})
    except sqlite3.OperationalError:
        return Snapshot()


def _models(db: sqlite3.Connection) -> list[Model]:
    return [_model(row) for row in db.execute("SELECT * FROM models ORDER BY number")]


def _failures(db: sqlite3.Connection) -> list[FailedJob]:
    failed = "SELECT number, kind, parent, failure FROM jobs WHERE state = 'failed' ORDER BY number"
    return [FailedJob(**dict(row)) for row in db.execute(failed)]


def _job(row: sqlite3.Row) -> Job:
    return Job(**{**dict(row), "architecture": json.loads(row["architecture"])})


def _model(row: sqlite3.Row) -> Model:
    return Model(**{**dict(row), **{name: json.loads(row[name]) for name in ("architecture", "notes")}})
