"""The ``.anytime`` file: a fitted model without pickle, safe to load from strangers.

A file is a zip of

``manifest.json``
    Format, schema version, the name of a class (of this library, or one that was registered), constructor parameters, the plan,
    labels, columns, versions of the libraries that wrote it, and SHA-256 checksums of every array and of the manifest itself.
``arrays/NAME.npy``
    Numbers, in NumPy's format: little-endian truth values, integers and floats; never objects.

Checksums protect against accidents: a flipped bit is always detected. Validation protects against malice: nothing in a file
names code, a module or a path; every index, shape, size and tree link is checked before use; memory and time are bounded by the
size of the file. Whatever is wrong inside a file, ``load`` raises ``BadFileError``.
"""

import contextlib
import errno
import hashlib
import io
import json
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from anytime.estimator import AnytimeModel
from anytime.files.container import Archive, Packed, pack_arrays, write_archive
from anytime.files.estimators import describe_model, read_model, register, write_model
from anytime.files.reading import FILE, BadFileError, Fields, bad, parse_json, shown

__all__ = ["BadFileError", "describe", "load", "load_detached", "register", "save"]

FORMAT = "anytime model"
SCHEMA = 1
MAX_BYTES = 2 << 30  # of what a file may unpack to, unless the caller allows more
_UNLIMITED = 1 << 62
_CHUNK = 1 << 20

Source = str | os.PathLike[str] | BinaryIO
Arrays = dict[str, NDArray[Any]]

# The manifest's own checksum stands last and covers all bytes before it.
_SEAL = re.compile(rb',"sha256":"([0-9a-f]{64})"\}')
_SEAL_LENGTH = 77


def save(model: AnytimeModel, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to an ``.anytime`` file.

    The same model gives the same bytes. Writing is atomic: on any error, an existing file at ``path`` stays untouched. The new
    file is read back before it replaces the old one.

    Parameters
    ----------
    model : fitted model
        Any model of this package but ``OnlineSelector``.
    path : str or path
        Where to write; the name usually ends in ``.anytime``.

    Raises
    ------
    TypeError
        If the model holds something that cannot be saved, such as a Python function as a stage.

    See Also
    --------
    load : Reads the files.

    Notes
    -----
    An ``estimator`` or ``costly`` parameter, a model of another library, is stored as text only and is None after loading; so is
    any other parameter that does not consist of plain values. If the costly model of an ``AdaptiveClassifier`` is made of trees,
    the file holds them; otherwise it holds the name and the predictions for some training rows, which are stored to recognise it.
    ``costs`` are loaded as ``FeatureCosts``, whatever their original form, and NumPy numbers among the parameters as Python
    numbers.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("wine")
    >>> model = at.GroupPursuitClassifier(costs=costs, random_state=0).fit(X, y)
    >>> at.save(model, "wine.anytime")
    >>> at.files.describe("wine.anytime")["estimator"]
    'GroupPursuitClassifier'
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "the folder to save in does not exist", str(target.parent))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder; name a file in it", str(target))
    packed = _pack(model)
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        # "x" and not tempfile, whose files are private: a model has the permissions that any new file has
        with open(temporary, "xb") as file:
            write_archive(file, *packed)
            file.flush()
            os.fsync(file.fileno())
        try:
            load_detached(temporary, max_bytes=_UNLIMITED)
        except BadFileError as error:
            raise ValueError(f"this model cannot be saved: {error.__cause__}") from error
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)
    _sync_folder(target.parent)


def load(
    source: Source, *, costly: Any = None, module: Any = None, max_bytes: int = MAX_BYTES
) -> AnytimeModel:
    """Read a model from an ``.anytime`` file. Safe for files from strangers: nothing in a file is ever executed.

    Parameters
    ----------
    source : str, path or binary file
        The file, or where it is.
    costly : fitted estimator or callable, default=None
        The costly model of an ``AdaptiveClassifier`` whose file holds only its name. It must reproduce its predictions for some
        training rows. Without it, the cheap model and the gate work, and a row that is sent on raises ``DetachedModelError``;
        ``attach`` adds it later.
    module : ExitNetwork, default=None
        The network of an ``AnytimeNetworkClassifier`` or ``...Regressor`` with a custom module: the file holds its weights, and
        a copy of ``module`` gets them.
    max_bytes : int, default=2 GiB
        Maximum unpacked size of the contents. In any case, they may not exceed 64 times the size of the file (16 MiB for a
        small one).

    Returns
    -------
    model
        Its predictions are those of the saved model, bit for bit.

    Raises
    ------
    BadFileError
        If anything inside the file is wrong.
    OSError
        If the file cannot be read, such as ``FileNotFoundError``.
    ImportError
        If the model needs a package that is not installed; the message names the extra to install.
    DetachedModelError
        If no stage can answer without ``module``, and it is not passed.
    ValueError
        If ``costly`` or ``module`` is not what the file was saved with.

    See Also
    --------
    save : Writes the files.

    Examples
    --------
    >>> import anytime as at
    >>> X, y, costs = at.datasets.load("wine")
    >>> model = at.GroupPursuitClassifier(costs=costs, random_state=0).fit(X, y)
    >>> model.save("wine.anytime")
    >>> again = at.load("wine.anytime")
    >>> bool((again.predict_proba(X, budget=20) == model.predict_proba(X, budget=20)).all())
    True
    """
    model: Any = load_detached(source, max_bytes=max_bytes)
    for keyword, part in (("costly", costly), ("module", module)):
        if part is None:
            continue
        if getattr(model, "_attaches", None) != keyword:
            name, what = _name_of(source), "costly model" if keyword == "costly" else "network"
            raise TypeError(
                f"{name} holds a {type(model).__name__}, which has no {what}; load it without {keyword}"
            )
        model = model.attach(part)
    lost = [block.detached for block in model.plan_.blocks]
    if lost and None not in lost:
        raise lost[0]
    loaded: AnytimeModel = model
    return loaded


def load_detached(source: Source, *, max_bytes: int = MAX_BYTES) -> AnytimeModel:
    """Load without the models that are not in the file; ``attach`` adds them."""
    with _named(source) as (file, name), _blamed_on(name):
        contents = _read(file, max_bytes)
        return read_model(contents.manifest, contents.arrays, contents.archive.size)


def describe(source: Source, *, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Describe the contents of an ``.anytime`` file without building the model.

    Checksums and the described values are verified; ``load`` may still reject the file.

    Parameters
    ----------
    source : str, path or binary file
    max_bytes : int, default=2 GiB

    Returns
    -------
    dict
        Plain values: ``schema``, ``estimator``, ``versions``, ``parameters``, ``n_features``, ``n_stages``, ``prices``
        and others.
    """
    with _named(source) as (file, name), _blamed_on(name):
        contents = _read(file, max_bytes)
        arrays = sorted(contents.arrays.items())
        return {
            "format": FORMAT,
            "schema": contents.schema,
            **describe_model(contents.manifest, contents.arrays, contents.archive.size),
            "arrays": {key: {"dtype": array.dtype.str, "shape": list(array.shape)} for key, array in arrays},
            "file_bytes": contents.archive.size,
            "unpacked_bytes": contents.archive.unpacked,
        }


# ---------------------------------------------------------------------- writing


def _pack(model: AnytimeModel) -> tuple[bytes, list[Packed]]:
    description, arrays = write_model(model)
    packed = pack_arrays(arrays)
    sums = dict(zip(sorted(arrays), (member.sha256 for member in packed), strict=True))
    return _sealed({"format": FORMAT, "schema": SCHEMA, "arrays": sums, **description}), packed


def _sealed(manifest: dict[str, Any]) -> bytes:
    """The manifest's bytes, its own checksum appended as the last field."""
    text = json.dumps(manifest, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    body = text.encode("utf-8")[:-1]
    return body + b',"sha256":"%s"}' % hashlib.sha256(body).hexdigest().encode()


def _sync_folder(folder: Path) -> None:
    """Make the new name survive a power cut, where the system lets a folder be opened."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# ---------------------------------------------------------------------- reading


@dataclass(frozen=True)
class _Contents:
    archive: Archive
    schema: int  # as written; the manifest has been brought up to date
    manifest: dict[str, Any]
    arrays: Arrays


def _read(file: BinaryIO, max_bytes: int) -> _Contents:
    """Manifest and arrays, intact and of the current schema; their contents are not checked yet."""
    archive = Archive(_seekable(file, max_bytes), max_bytes)
    raw = archive.manifest()
    manifest = parse_json(raw, "manifest")
    schema = _read_schema(manifest)
    seal = _SEAL.fullmatch(raw, len(raw) - _SEAL_LENGTH)
    if seal is None or hashlib.sha256(raw[:-_SEAL_LENGTH]).hexdigest().encode() != seal[1]:
        bad("manifest", "is damaged: its checksum is wrong")
    sums = Fields(manifest.pop("arrays", None), "manifest.arrays")
    arrays: Arrays = {}
    for name in archive.array_names:
        arrays[name], digest = archive.array(name)
        if sums.text(name) != digest:
            bad(f"array {name!r}", "is damaged: its checksum is wrong")
    sums.done()
    for key in ("format", "schema", "sha256"):
        manifest.pop(key, None)
    return _Contents(archive, schema, manifest, arrays)


def _read_schema(manifest: Any) -> int:
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        bad("manifest", f"is not that of an {FORMAT!r}")
    schema = manifest.get("schema")
    if type(schema) is not int or schema < 0:
        bad("manifest.schema", f"expected a version, found {shown(schema)}")
    if schema > SCHEMA:
        bad("manifest.schema", f"{schema} is newer than {SCHEMA}; upgrade anytime to load this file")
    if schema < SCHEMA:
        bad("manifest.schema", f"version {schema} is older than any that this library can read")
    return schema


@contextlib.contextmanager
def _named(source: Source) -> Iterator[tuple[BinaryIO, str]]:
    """The source as an open file, and what to call it in messages."""
    if isinstance(source, (str, os.PathLike)):
        with open(source, "rb") as file:
            yield file, _name_of(source)
        return
    if not hasattr(source, "read") or not isinstance(source.read(0), bytes):
        raise TypeError("load takes a path or a file opened in binary mode; wrap bytes in io.BytesIO")
    yield source, _name_of(source)


def _name_of(source: Source) -> str:
    """What messages call a source."""
    return (
        os.fspath(source) if isinstance(source, (str, os.PathLike)) else str(getattr(source, "name", "file"))
    )


@contextlib.contextmanager
def _blamed_on(name: str) -> Iterator[None]:
    """Turn every complaint about the contents into a ``BadFileError`` that names the file.

    Constructors speak to programmers and raise ``ValueError`` and the like; here it is the file that is at fault.
    """
    try:
        with np.errstate(all="ignore"):
            yield
    except OSError:  # io.UnsupportedOperation is a ValueError too
        raise
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        message = str(error)
        whole = message.startswith(f"{FILE} ")  # then its name is the subject of the sentence
        raise BadFileError(name + message.removeprefix(FILE) if whole else f"{name}: {message}") from error


def _seekable(file: BinaryIO, max_bytes: int) -> BinaryIO:
    """The file itself, or for a pipe what comes out of it."""
    if not hasattr(file, "seekable") or file.seekable():
        return file
    buffer = io.BytesIO()
    while chunk := file.read(_CHUNK):
        if buffer.tell() + len(chunk) > max_bytes:
            bad(FILE, f"has more than max_bytes={max_bytes} bytes")
        buffer.write(chunk)
    return buffer
