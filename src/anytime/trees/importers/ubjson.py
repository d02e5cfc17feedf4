"""Universal Binary JSON (draft 12), the binary form in which XGBoost saves its models: reading only.

Arrays of numbers come back as NumPy arrays in one step, which is why this is also the fast way to read a live model.
"""

from typing import Any

import numpy as np

_NUMBERS: dict[bytes, np.dtype[Any]] = {
    b"i": np.dtype(">i1"),
    b"U": np.dtype(">u1"),
    b"I": np.dtype(">i2"),
    b"l": np.dtype(">i4"),
    b"L": np.dtype(">i8"),
    b"d": np.dtype(">f4"),
    b"D": np.dtype(">f8"),
}
_CONSTANTS = {b"Z": None, b"T": True, b"F": False}
_DEEPEST = 64  # a model nests a dozen levels; a hostile file might nest a million


def read_ubjson(data: bytes) -> Any:
    """Decode one document; arrays of one numeric type are 1-D NumPy arrays in the machine's byte order.

    ``ValueError`` is raised where the bytes are no such document, or end too early.
    """
    return _Reader(bytes(data)).value()


class _Reader:
    """A cursor over the bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, n: int) -> bytes:
        """Next ``n`` bytes."""
        if n < 0 or self.at + n > len(self.data):
            raise ValueError(f"the file ends too early: {n} bytes wanted at {self.at} of {len(self.data)}")
        self.at += n
        return self.data[self.at - n : self.at]

    def peek(self) -> bytes:
        """Next byte, left where it is."""
        return self.data[self.at : self.at + 1]

    def value(self, marker: bytes | None = None, depth: int = 0) -> Any:
        """Next value; ``marker`` is its type when a container has told it already."""
        if depth > _DEEPEST:
            raise ValueError(f"more than {_DEEPEST} levels of nesting")
        marker = marker or self.take(1)
        if marker in _NUMBERS:
            return np.frombuffer(self.take(_NUMBERS[marker].itemsize), _NUMBERS[marker])[0].item()
        if marker in _CONSTANTS:
            return _CONSTANTS[marker]
        if marker == b"S":
            return self.text()
        if marker == b"C":
            return self.take(1).decode("latin-1")
        if marker == b"[":
            return self.array(depth)
        if marker == b"{":
            return self.object(depth)
        raise ValueError(f"unknown type {marker!r} at byte {self.at - 1}")

    def text(self) -> str:
        """Next string, without its marker."""
        return self.take(self.length()).decode()

    def length(self) -> int:
        """Next whole number."""
        number = self.value()
        if not isinstance(number, int) or isinstance(number, bool):
            raise ValueError(f"a length expected before byte {self.at}, found {number!r}")
        return number

    def header(self) -> tuple[bytes | None, int | None]:
        """Type and number of a container's items, where it says them."""
        marker = None
        if self.peek() == b"$":
            marker = self.take(2)[1:]
        if self.peek() == b"#":
            self.take(1)
            return marker, self.length()
        if marker:
            raise ValueError(f"a container with a type but no count at byte {self.at}")
        return None, None

    def array(self, depth: int) -> Any:
        """Items up to the end of an array."""
        marker, count = self.header()
        if marker is not None and marker in _NUMBERS and count is not None:
            dtype = _NUMBERS[marker]
            return np.frombuffer(self.take(count * dtype.itemsize), dtype).astype(dtype.newbyteorder("="))
        if count is not None:
            return [self.value(marker, depth + 1) for _ in range(count)]
        items = []
        while self.peek() != b"]":
            items.append(self.value(depth=depth + 1))
        self.take(1)
        return items

    def object(self, depth: int) -> dict[str, Any]:
        """Pairs up to the end of an object."""
        marker, count = self.header()
        if count is not None:
            return {self.text(): self.value(marker, depth + 1) for _ in range(count)}
        pairs = {}
        while self.peek() != b"}":
            key = self.text()
            pairs[key] = self.value(depth=depth + 1)
        self.take(1)
        return pairs
