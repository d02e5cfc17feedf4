"""The models of a server, their versions, and how a new one takes the place of an old one while questions come in.

A version is the beginning of its file's checksum, so that worker processes which load the same file agree on its name.
"""

import asyncio
import hashlib
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from anytime.estimator import AnytimeModel
from anytime.files import load_detached
from anytime.serve.engine import Engine
from anytime.serve.examples import ExampleReader, made_up
from anytime.serve.extraction import Extraction, Extractors
from anytime.serve.pace import StagePace, measured_aside
from anytime.serve.policy import Adaptive
from anytime.serve.protocol import Tensors
from anytime.serve.rows import RequestReader
from anytime.serve.scheduler import Scheduler
from anytime.serve.sessions import SessionsBeside
from anytime.serve.settings import Settings
from anytime.serve.sharing import SharedForests

logger = logging.getLogger("anytime.serve")

_MEASURING = 0.2  # seconds, at the start; while others answer, a quarter

_MOST_OF_SLO = 0.5  # that the first labels of a structure may take: the other half is for the unforeseen

Stamp = tuple[int, int, int]


@dataclass(frozen=True, eq=False)
class ServedModel:
    """One version of a model."""

    name: str
    version: str
    path: Path
    model: AnytimeModel
    engine: Engine
    tensors: Tensors  # how clients see it: columns, classes and outputs
    checksum: str
    stamp: Stamp


class Registry:
    """Models by name."""

    def __init__(
        self,
        settings: Settings,
        *,
        # called with each new entry before anybody is answered by it: the place to give its engine an observer
        on_load: Callable[[ServedModel], None] | None = None,
        loader: Callable[[Path], AnytimeModel] = load_detached,
    ) -> None:
        self.settings = settings
        self._on_load, self._loader = on_load, loader
        self._extractors = None if settings.features is None else Extractors.read(settings.features)
        self._process = self._first_process = os.getpid()
        self._entries: dict[str, list[ServedModel]] = {}  # versions of each model, the latest last
        self._locks: dict[str, asyncio.Lock] = {}
        self.scheduler = Scheduler()
        self._shared = SharedForests() if settings.workers > 1 else None
        self._retiring: set[asyncio.Task[None]] = set()

    # ------------------------------------------------------------------ looking up

    @property
    def names(self) -> list[str]:
        """Names of all models."""
        return list(self._entries)

    def get(self, name: str, version: str | None = None) -> ServedModel:
        """The latest version of a model, or the one that is named. ``KeyError`` where there is none."""
        for entry in reversed(self._entries[name]):
            if version is None or entry.version == version:
                return entry
        raise KeyError(version)

    def versions(self, name: str) -> list[str]:
        """Versions that are there: the latest last, before it those that still answer what they hold."""
        return list(dict.fromkeys(entry.version for entry in self._entries[name]))

    # ------------------------------------------------------------------ loading

    def add(self, name: str, path: str | Path) -> ServedModel:
        """Load a model before the server begins. Raises what ``anytime.load`` raises."""
        entry = self._opened(name, Path(path), _MEASURING)
        self._put(entry)
        return entry

    def settle(self) -> None:
        """Have what is not to be shared in a process that was forked: a GPU's memory, and the connections of extractors."""
        for name in self.names:
            entry = self.get(name)
            if self._first_process != os.getpid() and not _can_be_forked(entry.model):
                StagePace.measure(entry.model, seconds=0.0)  # the first answer need not wait for the device
        if self.settings.features is None or self._process == os.getpid():
            return
        self._process, self._extractors = os.getpid(), Extractors.read(self.settings.features)
        for name in self.names:
            entry = self.get(name)
            if isinstance(entry.tensors.reader, RequestReader):
                entry.engine.extraction = Extraction.of(entry.model, self._extractors, name)

    async def reload(self, name: str, *, unchanged: bool = True) -> ServedModel:
        """Load a model's file again, and let the new version answer from now on.

        With ``unchanged=False`` only if it has been replaced since it was loaded: many who ask have it loaded once.
        The old version answers what it holds. If the file cannot be loaded the old version stays, and the error is raised.
        """
        async with self._locks.setdefault(name, asyncio.Lock()):
            old = self.get(name)
            if not unchanged and stamp_of(old.path) == old.stamp:
                return old
            entry = await asyncio.to_thread(self._opened, name, old.path, _MEASURING / 4)
            self._put(entry)
            task = asyncio.create_task(self._retire(old))
            self._retiring.add(task)
            task.add_done_callback(self._retiring.discard)
        logger.info("model loaded", extra={"fields": {"model": name, "version": entry.version}})
        return entry

    def close(self) -> None:
        """Leave nothing behind."""
        if self._shared is not None:
            self._shared.close()

    async def drain(self) -> None:
        """Wait until every version of every model has answered what it holds."""
        for entries in list(self._entries.values()):
            for entry in list(entries):
                await entry.engine.drain()

    def _opened(self, name: str, path: Path, seconds: float) -> ServedModel:
        for _ in range(3):
            stamp = stamp_of(path)
            model = self._loaded(name, path)
            with path.open("rb") as file:
                checksum = hashlib.file_digest(file, "sha256").hexdigest()
            if stamp_of(path) == stamp:
                break  # else it was replaced meanwhile, and the checksum may be that of another model
        else:
            raise OSError(f"{path} keeps changing while it is read; replace it in one step, by renaming")
        settings, version = self.settings, checksum[:12]
        if model.plan_.n_features > settings.max_columns:
            raise ValueError(
                f"{name} has {model.plan_.n_features} columns; max_columns is {settings.max_columns}"
            )
        structured = bool(getattr(model, "labels_elements", False))
        kind = ExampleReader if structured else RequestReader
        tensors = Tensors(model, kind(model, settings.max_rows, settings.max_body))
        if self._shared is not None:
            others = (entry.version for entries in self._entries.values() for entry in entries)
            self._shared.adopt(model, version, others)
        is_forked_later = self._shared is not None and self._first_process == os.getpid()
        aside = is_forked_later and not _can_be_forked(model)
        slo, extraction = settings.slo, cast("SessionsBeside | None", None)
        if structured:
            extraction, pace = _labelling(model)
            slo = _kept(slo, pace, name)
        else:
            pace = measured_aside(model, seconds) if aside else StagePace.measure(model, seconds=seconds)
            extraction = None if self._extractors is None else Extraction.of(model, self._extractors, name)
        policy = Adaptive.for_slo(slo)
        engine = Engine(
            model,
            pace,
            policy,
            slo=slo,
            extraction=extraction,
            version=version,
            scheduler=self.scheduler,
        )
        return ServedModel(name, version, path, model, engine, tensors, checksum, stamp)

    def _loaded(self, name: str, path: Path) -> AnytimeModel:
        """The model of a file, with the costly model that is not in it."""
        model: Any = self._loader(path)
        lost = next((block.detached for block in model.plan_.all_blocks if block.detached is not None), None)
        if lost is not None:
            if name not in self.settings.costly:
                raise lost
            model.attach(self.settings.costly[name])
        return model  # type: ignore[no-any-return]

    def _put(self, entry: ServedModel) -> None:
        if self._on_load is not None:
            self._on_load(entry)
        self._entries[entry.name] = [*self._entries.get(entry.name, ()), entry]

    async def _retire(self, old: ServedModel) -> None:
        await old.engine.drain()
        self._entries[old.name] = [entry for entry in self._entries[old.name] if entry is not old]


def _labelling(model: Any) -> tuple[SessionsBeside, StagePace]:
    """What labels structures, and how long its stages take on a made-up one."""
    from anytime.serve.labelling import Labelling, pace_of  # of no use to servers of other models

    example = made_up(model)
    graph = isinstance(example, dict)
    own = (example["nodes"], example["edges"]) if graph else example
    return Labelling(model), pace_of(model, lambda: model._structures([own]))


def _kept(slo: float | None, pace: StagePace, name: str) -> float | None:
    """The seconds that answers of structures have; None where the first stage would hardly be done in time."""
    first = pace.seconds(0, int(pace.checkpoints[0]), 1)
    if slo is None or first <= _MOST_OF_SLO * slo:
        return slo
    sentence = "the first labels take longer than the promised time: only deadlines of requests are kept"
    fields = {"model": name, "first_ms": round(1e3 * first, 1), "slo_ms": 1e3 * slo}
    logger.warning(sentence, extra={"fields": fields})
    return None


def _can_be_forked(model: AnytimeModel) -> bool:
    return all(block.can_be_forked for block in model.plan_.all_blocks)


def stamp_of(path: Path) -> Stamp:
    """What changes when a file is replaced."""
    status = path.stat()
    return status.st_mtime_ns, status.st_size, status.st_ino
