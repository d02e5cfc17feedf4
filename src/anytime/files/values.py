"""Plain values in JSON: what parameters, labels and prices become in a manifest, and how they come back.

``None``, truth values, numbers, strings and lists stand for themselves. All else is an object that says what it ``is``: a
tuple, a mapping with its order, a number that JSON lacks, an array, labels, prices. This list is closed; no value can name
a class or a function.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.costs import FeatureCosts
from anytime.files.reading import ArrayShelf, BadFileError, Fields, bad, shown

_DEEPEST = 16
_NUMBERS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_LONGEST_CHAIN = 500  # of requirements: more than any price list needs, and its closure grows with the square
# Entries of closed requirement lists: so many may any file ask for, and so many times its own links.
_FREE_CLOSURE = 1 << 20
_CLOSURE_RATIO = 4


# ---------------------------------------------------------------------- any plain value


class Encoder:
    """Turns values into JSON, and collects the arrays among them in ``arrays``, as ``values.0``, ``values.1`` and so on."""

    def __init__(self, arrays: dict[str, NDArray[Any]]) -> None:
        self._arrays = arrays
        self._count = 0

    def encode(self, value: Any, depth: int = 0) -> Any:
        """Raise ``TypeError`` for a value that a file cannot hold."""
        if depth > _DEEPEST:
            raise TypeError(f"a value nested deeper than {_DEEPEST} levels cannot be saved to a file")
        if isinstance(value, np.ndarray):
            return self._array(value)
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, (bool, str)):
            return value
        if isinstance(value, int):
            if not -(2**63) <= value < 2**64:
                raise TypeError(f"the whole number {value} is too large for a file")
            return int(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else {"is": "number", "of": str(float(value))}
        if isinstance(value, list):
            return [self.encode(item, depth + 1) for item in value]
        if isinstance(value, tuple):
            return {"is": "tuple", "of": [self.encode(item, depth + 1) for item in value]}
        if isinstance(value, FeatureCosts):
            return {"is": "costs", **write_costs(value)}
        if isinstance(value, Mapping):
            pairs = [
                [self.encode(key, depth + 1), self.encode(item, depth + 1)] for key, item in value.items()
            ]
            return {"is": "mapping", "of": pairs}
        raise TypeError(f"a {type(value).__name__} cannot be saved to a file")

    def _array(self, array: NDArray[Any]) -> dict[str, Any]:
        if array.dtype.kind in "biuf":
            name = f"values.{self._count}"
            self._count += 1
            self._arrays[name] = array
            return {"is": "array", "of": name}
        if array.ndim != 1 or array.dtype.kind not in "OU":
            raise TypeError(
                f"an array of type {array.dtype} with {array.ndim} dimensions cannot be saved to a file"
            )
        width = max(array.dtype.itemsize // 4, 1) if array.dtype.kind == "U" else None
        return {"is": "labels", "width": width, "of": [self._label(label) for label in array.tolist()]}

    def _label(self, label: Any) -> Any:
        if isinstance(label, np.generic):
            label = label.item()
        if not isinstance(label, (bool, int, float, str)):
            raise TypeError(
                f"the label {shown(label)} is neither a string nor a number and cannot be saved to a file"
            )
        return self.encode(label)


class Decoder:
    """Turns what ``Encoder`` wrote into values again."""

    def __init__(self, arrays: ArrayShelf, allowance: int) -> None:
        self._arrays = arrays
        self._allowance = allowance  # bytes that labels padded to a common width may take, all together

    def decode(self, value: Any, where: str, depth: int = 0) -> Any:
        """Raise ``BadFileError`` for anything that ``Encoder`` would not have written."""
        if depth > _DEEPEST:
            bad(where, f"nested deeper than {_DEEPEST} levels")
        if isinstance(value, list):
            return self._each(value, where, depth)
        if not isinstance(value, dict):
            return value
        fields = Fields(value, where)
        kind = fields.text("is", ("array", "costs", "labels", "mapping", "number", "tuple"))
        decoded: Any
        if kind == "costs":
            return read_costs(fields)
        if kind == "number":
            decoded = _NUMBERS[fields.text("of", _NUMBERS)]
        elif kind == "array":
            decoded = self._arrays.take(fields.text("of"))
        elif kind == "labels":
            decoded = self._labels(fields)
        elif kind == "tuple":
            decoded = tuple(self._each(fields.items("of"), where, depth))
        else:
            decoded = self._mapping(fields.items("of"), where, depth)
        fields.done()
        return decoded

    def _each(self, items: list[Any], where: str, depth: int) -> list[Any]:
        return [self.decode(item, where, depth + 1) for item in items]

    def _mapping(self, pairs: list[Any], where: str, depth: int) -> dict[Any, Any]:
        out = {}
        for pair in pairs:
            if not isinstance(pair, list) or len(pair) != 2:
                bad(where, f"expected a key and a value, found {shown(pair)}")
            key = self.decode(pair[0], where, depth + 1)
            if key is not None and not isinstance(key, (bool, int, float, str)):
                bad(where, f"{shown(key)} cannot be a key")
            if key in out:
                bad(where, f"the key {shown(key)} stands twice")
            out[key] = self.decode(pair[1], where, depth + 1)
        return out

    def _labels(self, fields: Fields) -> NDArray[Any]:
        if not fields.has("width"):
            labels = self._each(fields.items("of"), fields.place("of"), 0)
            if any(not isinstance(label, (bool, int, float, str)) for label in labels):
                bad(fields.where, "a label is neither a string nor a number")
            out = np.empty(len(labels), dtype=object)
            out[:] = labels
            return out
        width = fields.integer("width", 1, 2**24)
        texts = fields.texts("of")
        self._allowance -= 4 * width * len(texts)
        if self._allowance < 0:
            bad(
                fields.where,
                f"{len(texts)} labels of {width} characters take too much memory for a file of this size",
            )
        if any(len(text) > width or text.endswith("\0") for text in texts):
            bad(fields.where, f"a label does not fit into {width} characters")
        return np.array(texts, dtype=f"<U{width}")


def write_number(value: float) -> float | str:
    """A number for ``Fields.number``, which may be infinite."""
    return float(value) if math.isfinite(value) else str(float(value))


# ---------------------------------------------------------------------- prices


def write_costs(costs: FeatureCosts) -> dict[str, Any]:
    """``costs.to_dict()`` with its groups in a list, because the order of groups means something."""
    described = costs.to_dict()
    if described["unit"] is not None and not isinstance(described["unit"], str):
        raise TypeError(f"the unit of costs must be a string to be saved, not {shown(described['unit'])}")
    groups = [{"name": name, **group} for name, group in described["groups"].items()]
    return {"unit": described["unit"], "groups": groups}


def read_costs(fields: Fields) -> FeatureCosts:
    """Prices of groups; what they cost to check is bounded by how much is written."""
    unit = fields.text("unit") if fields.has("unit") else None
    groups: dict[str, dict[str, Any]] = {}
    for entry in fields.each("groups"):
        name = entry.text("name")
        if name in groups:
            bad(entry.where, f"the group {shown(name)} stands twice")
        group: dict[str, Any] = {"price": entry.number("price", 0, 1e300), "columns": entry.items("columns")}
        if any(type(column) not in (int, str) for column in group["columns"]):
            bad(entry.place("columns"), "a column is a name or a position")
        if entry.has("requires"):
            group["requires"] = entry.texts("requires")
        if entry.has("tail"):
            group["tail"] = entry.number("tail", 0, 1e300)
        entry.done()
        groups[name] = group
    fields.done()
    _refuse_deep_requirements(
        {name: group.get("requires", []) for name, group in groups.items()}, fields.where
    )
    try:
        return FeatureCosts.from_dict({"unit": unit, "groups": groups})
    except ValueError as error:
        raise BadFileError(f"{fields.where}: {error}") from None


def _refuse_deep_requirements(requires: Mapping[str, list[str]], where: str) -> None:
    """Bound what closing the requirements takes: n groups in a chain close to n^2 / 2 entries."""
    size: dict[str, int] = {}  # at least as many groups as the closure has
    depth: dict[str, int] = {}
    waiting = {name: len(needed) for name, needed in requires.items()}
    users: dict[str, list[str]] = {name: [] for name in requires}
    for name, needed in requires.items():
        for other in needed:
            if other not in users:
                bad(where, f"group {shown(name)} requires {shown(other)}, which is no group")
            users[other].append(name)
    ready = [name for name, count in waiting.items() if not count]
    work = 0
    for name in ready:  # grows while it is walked, requirements first
        size[name] = min(len(requires), 1 + sum(size[other] for other in requires[name]))
        depth[name] = 1 + max((depth[other] for other in requires[name]), default=0)
        work += 1 + sum(size[other] for other in requires[name])
        if depth[name] > _LONGEST_CHAIN:
            bad(where, f"group {shown(name)} stands on a chain of more than {_LONGEST_CHAIN} requirements")
        for user in users[name]:
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
    if len(ready) < len(requires):
        bad(where, "groups require each other in a cycle")
    links = len(requires) + sum(map(len, requires.values()))
    if work > _FREE_CLOSURE + _CLOSURE_RATIO * links:
        bad(where, f"{len(requires)} groups with {links} links require too much of each other")
