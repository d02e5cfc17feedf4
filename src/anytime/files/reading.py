"""Reading what a stranger wrote: JSON with nothing unusual in it, and fields that are what they should be.

Nothing is used before it was looked at. Every complaint is a ``BadFileError`` that says what is wrong and where.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

FILE = "the file"  # as a place: the whole of it

_LONGEST_INTEGER = 20  # characters of -2**63 and of 2**64 - 1
_LONGEST_FLOAT = 40  # repr of a float needs 24; longer ones are slow to read
_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


class BadFileError(ValueError):
    """An ``.anytime`` file is damaged, was not written by this library, or asks for something unreasonable.

    The one exception for everything that can be wrong *inside* a file. A file that does not exist or may not be read raises
    ``FileNotFoundError`` or ``PermissionError`` as everywhere else.

    See Also
    --------
    load : Raises it.

    Examples
    --------
    >>> import io
    >>> import anytime as at
    >>> at.load(io.BytesIO(b"not a model"))
    Traceback (most recent call last):
        ...
    anytime.files.reading.BadFileError: ...
    """


def bad(where: str, what: str) -> NoReturn:
    """Complain about a place of a file."""
    raise BadFileError(f"{where} {what}" if where == FILE else f"{where}: {what}")


def parse_json(raw: bytes | bytearray, where: str) -> Any:
    """JSON without repeated keys, numbers that are not finite, numbers of absurd length, or broken characters."""
    try:
        parsed = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_without_repeats,
            parse_int=_integer,
            parse_float=_float,
            parse_constant=_constant,
        )
        if _SURROGATE.search(raw):  # half a character can be read but never printed or written again
            json.dumps(parsed, ensure_ascii=False).encode("utf-8")
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise BadFileError(f"{where}: not valid JSON: {reason}") from None
    return parsed


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise ValueError("a key appears twice in one object")
    return entries


def _integer(text: str) -> int:
    if len(text) > _LONGEST_INTEGER:
        raise ValueError(f"a whole number of {len(text)} characters")
    return int(text)


def _float(text: str) -> float:
    value = float(text) if len(text) <= _LONGEST_FLOAT else np.inf
    if not np.isfinite(value):
        raise ValueError(f"the number {shown(text)} is out of range or too long")
    return value


def _constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


class Fields:
    """The fields of one JSON object, each read by name and type; ``done`` rejects unknown fields.

    Messages name the place ``where`` it stands in the file.
    """

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, dict):
            bad(where, f"expected an object, found {shown(value)}")
        self._left = dict(value)
        self.where = where

    def place(self, name: str) -> str:
        """Where a field stands."""
        return f"{self.where}.{name}"

    def has(self, name: str) -> bool:
        """Whether a field is there and is not null; a null is taken."""
        if self._left.get(name) is None:
            self._left.pop(name, None)
            return False
        return True

    def take(self, name: str) -> Any:
        """A field of any type."""
        if name not in self._left:
            bad(self.where, f"{name!r} is missing")
        return self._left.pop(name)

    def integer(self, name: str, low: int, high: int) -> int:
        """A whole number in ``[low, high]``."""
        value = self.take(name)
        if type(value) is not int or not low <= value <= high:
            bad(self.place(name), f"expected a whole number in [{low}, {high}], found {shown(value)}")
        return value

    def number(self, name: str, low: float = -np.inf, high: float = np.inf) -> float:
        """A number in ``[low, high]``. Infinity, which JSON lacks, is written ``"inf"`` and ``"-inf"``."""
        value = self.take(name)
        if isinstance(value, str) and value in ("inf", "-inf"):
            value = float(value)
        if type(value) not in (int, float) or not low <= value <= high:
            bad(self.place(name), f"expected a number in [{low:g}, {high:g}], found {shown(value)}")
        return float(value)

    def flag(self, name: str) -> bool:
        """True or false."""
        value = self.take(name)
        if type(value) is not bool:
            bad(self.place(name), f"expected true or false, found {shown(value)}")
        return value

    def text(self, name: str, choices: Collection[str] | None = None) -> str:
        """A string, one of ``choices`` where given."""
        value = self.take(name)
        if type(value) is not str:
            bad(self.place(name), f"expected a string, found {shown(value)}")
        if choices is not None and value not in choices:
            bad(self.place(name), f"expected one of {', '.join(sorted(choices))}, found {shown(value)}")
        return value

    def text_of(self, name: str) -> str:
        """A string that is left in place for a later reader; empty if there is none."""
        value = self._left.get(name)
        return value if type(value) is str else ""

    def texts(self, name: str) -> list[str]:
        """A list of strings."""
        return [
            item
            if type(item) is str
            else bad(f"{self.place(name)}[{i}]", f"expected a string, found {shown(item)}")
            for i, item in enumerate(self.items(name))
        ]

    def items(self, name: str, most: int | None = None) -> list[Any]:
        """A list of anything, of at most ``most`` entries."""
        value = self.take(name)
        if type(value) is not list:
            bad(self.place(name), f"expected a list, found {shown(value)}")
        if most is not None and len(value) > most:
            bad(self.place(name), f"{len(value)} entries, but at most {most} are possible")
        return value

    def each(self, name: str, most: int | None = None) -> list[Fields]:
        """A list of objects."""
        return [Fields(item, f"{self.place(name)}[{i}]") for i, item in enumerate(self.items(name, most))]

    def inner(self, name: str) -> Fields:
        """An object."""
        return Fields(self.take(name), self.place(name))

    def names(self) -> list[str]:
        """Names of the fields that are left."""
        return list(self._left)

    def rest(self) -> dict[str, Any]:
        """All fields that are left."""
        left, self._left = self._left, {}
        return left

    def done(self) -> None:
        """Reject unknown fields."""
        if self._left:
            bad(self.where, f"unknown field {shown(next(iter(self._left)))}")


class ArrayShelf:
    """The arrays of a file; each is taken once, with the type and shape it must have, and none may be left."""

    def __init__(self, arrays: dict[str, NDArray[Any]]) -> None:
        self._arrays = dict(arrays)

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def take(
        self,
        name: str,
        dtype: str | None = None,
        ndim: int | None = None,
        shape: tuple[int, ...] | None = None,
    ) -> NDArray[Any]:
        """Take an array."""
        where = f"array {name!r}"
        if name not in self._arrays:
            bad(where, "is missing")
        array = self._arrays.pop(name)
        if dtype is not None and array.dtype.str != dtype:
            bad(where, f"expected type {dtype}, found {array.dtype.str}")
        if ndim is not None and array.ndim != ndim:
            bad(where, f"expected {ndim} dimensions, found shape {array.shape}")
        if shape is not None and array.shape != shape:
            bad(where, f"expected shape {shape}, found {array.shape}")
        return array

    def done(self) -> None:
        """Reject unknown arrays."""
        if self._arrays:
            bad(f"array {next(iter(self._arrays))!r}", "belongs to nothing")


def shown(value: Any) -> str:
    """A short form of a value for a message; what a stranger wrote may be long."""
    text = repr(value) if not isinstance(value, (dict, list)) else f"{type(value).__name__} of {len(value)}"
    return text if len(text) <= 60 else text[:57] + "..."
