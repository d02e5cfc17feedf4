"""Many streams, one model each, over workers that learn side by side.

A stream's key says which shard it belongs to, and its shard which worker has it. Every so many batches all workers write what
has changed, a shard as a whole: an index that names the file of each model takes the place of the one before. A worker that dies
is replaced by one that reads its shards and is told the batches since then, so that it ends with the same bits.
"""

from __future__ import annotations

import json
import os
from collections.abc import Hashable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from zlib import crc32

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_consistent_length

from anytime.distributed.crew import Crew
from anytime.distributed.worker import Worker
from anytime.files import load
from anytime.spreading import CLUSTER

__all__ = ["StreamWorker", "Streams"]

_SHARDS = 64  # whatever the number of workers, which may be another one the next time
_INDEX = "index.json"

Rows = tuple[Hashable, Any, Any, dict[str, Any]]  # of one key: X, y, and what else a model is told


def _shard_of(key: Hashable) -> int:
    return crc32(json.dumps(key).encode()) % _SHARDS


class StreamWorker:
    """A Ray actor: the models of some shards."""

    process = Worker.process

    def __init__(self, rank: int, threads: int) -> None:
        self.rank = rank

    def open(self, model: Any, folder: Path, n_workers: int, n_batches: int) -> None:
        """Read which streams this worker has; ``n_batches`` are in the folder."""
        self._template, self._folder = model, folder
        self._files: dict[int, dict[Hashable, str]] = {}
        self._models: dict[Hashable, Any] = {}
        self._done: dict[int, int] = {}
        self._changed: set[Hashable] = set()
        self._last: tuple[int, list[Any]] = (0, [])
        for shard in range(self.rank, _SHARDS, n_workers):
            index = folder / f"{shard:02d}" / _INDEX
            said: dict[str, Any] = {"batches": 0, "files": []}
            if index.exists():
                said = json.loads(index.read_text())
            self._done[shard], self._files[shard] = max(said["batches"], n_batches), dict(said["files"])

    def learn(self, number: int, rows: Sequence[Rows], says: bool) -> list[Any]:
        """Learn a batch, unless it is known already; what was said of its rows before, or the error, for each key."""
        if self._last[0] == number:  # the others had to be asked again
            return self._last[1]
        answers = [self._learned(number, *of_key, says) for of_key in rows]
        self._done = {shard: max(done, number) for shard, done in self._done.items()}
        self._last = number, answers
        return answers

    def _learned(self, number: int, key: Hashable, X: Any, y: Any, told: dict[str, Any], says: bool) -> Any:
        if number <= self._done[_shard_of(key)]:
            return np.full(len(y), None) if says else None  # by a program that ended before it said so
        try:
            model = self._model(key)
            if model is None:
                model = self._models[key] = clone(self._template)
            self._changed.add(key)
            if says:
                return model.predict_then_fit(X, y, **told)
            model.partial_fit(X, y, **told)
            return None
        except Exception as error:
            return error

    def _model(self, key: Hashable) -> Any:
        """The model of a key, read when it is first asked for; None where there is none."""
        if key not in self._models:
            shard = _shard_of(key)
            name = self._files.get(shard, {}).get(key)  # the shard may be that of another worker
            if name is None:
                return None
            self._models[key] = load(self._folder / f"{shard:02d}" / name)
        return self._models[key]

    def predict(self, rows: Sequence[tuple[Hashable, Any]], method: str, told: dict[str, Any]) -> list[Any]:
        """What each model says of its rows."""
        found = []
        for key, X in rows:
            model = self._model(key)
            if model is None:
                raise NotFittedError(f"the stream {key!r} has no rows yet")
            found.append(getattr(model, method)(X, **told))
        return found

    def model(self, key: Hashable) -> Any:
        """The model of a key; None where there is none."""
        return self._model(key)

    def keys(self) -> list[Hashable]:
        """Keys of all streams of this worker."""
        return list({**self._models, **{key: None for files in self._files.values() for key in files}})

    def save(self, number: int) -> None:
        """Write what has changed since the last time."""
        changed: dict[int, list[Hashable]] = {shard: [] for shard in self._files}
        for key in self._changed:
            if self._models[key]._has_begun:
                changed[_shard_of(key)].append(key)
        for shard, keys in changed.items():
            self._save_shard(shard, keys, number)
        self._changed.clear()

    def _save_shard(self, shard: int, keys: list[Hashable], number: int) -> None:
        folder, files = self._folder / f"{shard:02d}", self._files[shard]
        if not keys:
            return
        folder.mkdir(parents=True, exist_ok=True)
        places = {key: place for place, key in enumerate(dict.fromkeys([*files, *keys]))}
        files = files | {key: f"{places[key]}-{number}.anytime" for key in keys}
        for key in keys:
            self._models[key].save(folder / files[key])
        _put_in_place(folder / _INDEX, {"batches": number, "files": list(files.items())})
        self._files[shard] = files
        for path in {*folder.glob("*.anytime")} - {folder / name for name in files.values()}:
            path.unlink(missing_ok=True)


def _put_in_place(path: Path, said: dict[str, Any]) -> None:
    beside = path.with_suffix(".part")
    with open(beside, "w") as file:
        json.dump(said, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)


class Streams:
    """One streaming model per key, on the workers of the cluster that is open.

    The models are those that each stream would have alone, in one process, bit by bit: whichever worker has it, however many
    there are, and even if one was killed on the way.

    Parameters
    ----------
    model : StreamingBoostClassifier or StreamingBoostRegressor
        What the model of each key begins as.
    folder : path
        Where the models are kept, which all machines see. If it has models already, they go on learning.
    every : int, default=100
        Batches between two checkpoints. Batches since the last one stay in memory.

    Attributes
    ----------
    n_batches : int
        Batches that were learned. In a program that is started again: those that are in the folder, to be left out of the stream.

    Examples
    --------
    >>> import anytime as at
    >>> with at.distributed.cluster(workers=4):  # doctest: +SKIP
    ...     with at.distributed.Streams(at.StreamingBoostRegressor(), "streams/") as streams:
    ...         for X, y, sensors in batches[streams.n_batches :]:
    ...             streams.partial_fit(X, y, sensors)
    """

    def __init__(self, model: Any, folder: str | Path, *, every: int = 100) -> None:
        cluster = CLUSTER.get()
        if cluster is None:
            raise RuntimeError("there is no cluster: make it within `with anytime.distributed.cluster(...)`")
        if every < 1:
            raise ValueError(f"every is {every}; it must be at least 1 batch")
        self.folder, self.every = Path(folder).absolute(), every
        self._settings = repr(model.get_params())
        self.n_batches = self._kept()
        self._since: list[list[tuple[Any, ...]]] = []  # calls for batches since the last checkpoint
        self._whole = True  # whether all workers have learned the same batches
        self._crew = Crew(min(cluster.n_workers, _SHARDS), cluster.threads_per_worker, StreamWorker)
        size = self._crew.size
        self._crew.progress = lambda: [("learn", calls) for calls in self._since]
        self._crew.tell("open", [(clone(model), self.folder, size, self.n_batches)] * size)

    def _kept(self) -> int:
        """Batches that the folder has the models of."""
        path = self.folder / _INDEX
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            self._keep(0)
        said = json.loads(path.read_text())
        if said["settings"] != self._settings:
            raise ValueError(
                f"the streams in {self.folder} are of {said['settings']}, and not of {self._settings}: give another folder"
            )
        return int(said["batches"])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.save()
        finally:
            self._crew.close()

    # ------------------------------------------------------------------ learning and predicting

    def partial_fit(self, X: Any, y: ArrayLike, keys: ArrayLike, **options: Any) -> Self:
        """Learn a batch: each row by the model of its key, in order.

        Parameters
        ----------
        X : (n, d)
        y : (n,)
        keys : (n,)
            Strings or whole numbers.
        **options
            For ``partial_fit`` of the models, as ``classes``.

        Raises
        ------
        Exception
            What the model of a key raised. The other streams have learned their rows then.
        """
        self._learn(X, y, keys, options, says=False)
        return self

    def predict_then_fit(self, X: Any, y: ArrayLike, keys: ArrayLike, **options: Any) -> NDArray[Any]:
        """Learn a batch, and return what was said of each row before; see ``partial_fit``.

        None is said of rows that a program learned which was killed while it wrote a checkpoint.
        """
        return self._learn(X, y, keys, options, says=True)

    def predict(self, X: Any, keys: ArrayLike, *, method: str = "predict", **bounds: Any) -> NDArray[Any]:
        """What the model of its key says of each row.

        Parameters
        ----------
        X : (n, d)
        keys : (n,)
        method : str, default="predict"
            Or another one, as "predict_proba".
        **bounds
            As for the models: ``budget``, ``deadline``, ``mean_budget``.
        """
        places = self._places(X, keys)
        calls = [([(key, _some(X, rows)) for key, rows in of_worker], method, bounds) for of_worker in places]
        return _in_order(places, self._crew.together("predict", calls))

    def _learn(self, X: Any, y: Any, keys: ArrayLike, options: dict[str, Any], says: bool) -> NDArray[Any]:
        self._check_whole()
        places, y, number = self._places(X, keys), np.asarray(y), self.n_batches + 1
        weight = options.pop("sample_weight", None)
        check_consistent_length(keys, y, weight)
        calls: list[tuple[Any, ...]] = []
        for of_worker in places:
            told = []
            for key, rows in of_worker:
                more = {} if weight is None else {"sample_weight": np.asarray(weight)[rows]}
                told.append((key, _some(X, rows), y[rows], {**options, **more}))
            calls.append((number, told, says))
        self._whole = False
        answers = self._crew.together("learn", calls)
        self.n_batches = number
        self._since.append(calls)
        self._whole = True
        if len(self._since) >= self.every:
            self.save()
        for of_worker, said in zip(places, answers, strict=True):
            for (key, _), answer in zip(of_worker, said, strict=True):
                if isinstance(answer, Exception):
                    answer.add_note(
                        f"in the stream {key!r}; other streams have learned their rows of this batch"
                    )
                    raise answer
        return _in_order(places, answers) if says else np.empty(0)

    def _places(self, X: Any, keys: ArrayLike) -> list[list[tuple[Hashable, NDArray[np.intp]]]]:
        """For each worker its keys, each with the rows that are its own."""
        given = np.asarray(keys)
        if given.ndim != 1 or given.size != len(X):
            raise ValueError(f"keys must be {len(X)} strings or whole numbers, one per row")
        names, codes = np.unique(given, return_inverse=True)
        if not all(isinstance(name, (str, int)) for name in names.tolist()):
            raise TypeError("keys must be strings or whole numbers")
        order, ends = np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))
        places: list[list[tuple[Hashable, NDArray[np.intp]]]] = [[] for _ in range(self._crew.size)]
        for key, rows in zip(names.tolist(), np.split(order, ends[:-1]), strict=True):
            places[_shard_of(key) % self._crew.size].append((key, rows))
        return places

    # ------------------------------------------------------------------ models

    def keys(self) -> list[Hashable]:
        """Keys of all streams."""
        return [key for keys in self._crew.together("keys", [()] * self._crew.size) for key in keys]

    def model(self, key: Hashable) -> Any:
        """A copy of the model of a stream; ``KeyError`` where there is none."""
        found = [
            model for model in self._crew.together("model", [(key,)] * self._crew.size) if model is not None
        ]
        if not found:
            raise KeyError(key)
        return found[0]

    def save(self) -> None:
        """Write all models that have changed to the folder; after that, a program that is started again goes on here."""
        self._check_whole()
        self._crew.together("save", [(self.n_batches,)] * self._crew.size)
        self._keep(self.n_batches)
        self._since.clear()

    def _keep(self, n_batches: int) -> None:
        _put_in_place(self.folder / _INDEX, {"batches": n_batches, "settings": self._settings})

    def _check_whole(self) -> None:
        if not self._whole:
            raise RuntimeError(
                "a batch was interrupted, and some streams have learned it: make Streams with this folder anew, and go on after "
                "its n_batches"
            )


def _some(X: Any, rows: NDArray[np.intp]) -> Any:
    return X.iloc[rows] if hasattr(X, "iloc") else np.asarray(X)[rows]


def _in_order(places: list[list[tuple[Any, NDArray[np.intp]]]], answers: list[Any]) -> NDArray[Any]:
    """Answers of all keys in the order of the rows."""
    rows = [rows for of_worker in places for _, rows in of_worker]
    said = [np.asarray(answer) for of_worker in answers for answer in of_worker]
    found = np.concatenate(said) if said else np.empty(0)
    ordered = np.empty_like(found)
    ordered[np.concatenate([np.empty(0, np.intp), *rows])] = found
    return ordered
