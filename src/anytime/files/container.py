"""The container: a zip of ``manifest.json`` and ``arrays/NAME.npy``, of which every byte is accounted for.

Any zip tool can open it, but only one sequence of bytes is accepted for given contents: members tile the file from its
first byte to the directory, and headers must be those that this module would write. So nothing can be hidden between members,
overlap, stand twice or differ between directory and member, and no bit can change unnoticed.

Memory is bounded before it is taken: what members claim to unpack to may not exceed ``max_bytes``, nor ``RATIO`` times the
size of the file (16 MiB for a small one), nor what their packed bytes can hold; shapes must account for exactly these bytes.
"""

import hashlib
import math
import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anytime.files.reading import FILE, bad, shown

MANIFEST = "manifest.json"
RATIO = 64  # times the file's size that its contents may have; typical models stay below 10
FLOOR = 1 << 24  # bytes that the contents of any file may have, however small
MOST_MANIFEST = 1 << 26
MOST_MEMBERS = 0xFFFF - 1  # a zip without its 64-bit extension
_MOST_SIZE = 0xFFFFFFFF
_DEFLATE_MOST = 1032  # no deflated stream unpacks to more than this many times its size
_CHUNK = 1 << 20
_LONGEST_HEADER = 256
_NO_MODEL = "is not an .anytime model, or is truncated"

_LOCAL = struct.Struct("<4s5H3I2H")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_END = struct.Struct("<4s4H2IH")
_STORED, _DEFLATED = 0, 8
_VERSION, _MADE_BY = 20, 3 << 8 | 20
_DATE, _ATTRIBUTES = 1 << 5 | 1, 0o100644 << 16  # 1980-01-01, a plain file

_NAME = re.compile(r"manifest\.json|arrays/[a-z0-9_.]{1,120}\.npy")
_NPY = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([|<][a-z]\d)', 'fortran_order': False, 'shape': \(([\d, ]{0,100})\), \} *\n",
    re.S,
)
_TYPES = frozenset(["|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"])


def allowance(file_bytes: int) -> int:
    """Bytes that the contents of a file of this size may take."""
    return max(FLOOR, RATIO * file_bytes)


# ---------------------------------------------------------------------- headers, written and read by the same lines


@dataclass(frozen=True)
class _Member:
    """The directory entry of one member."""

    name: str
    method: int
    crc: int
    packed: int
    size: int
    offset: int

    def _common(self) -> tuple[int, ...]:
        return (_VERSION, 0, self.method, 0, _DATE, self.crc, self.packed, self.size, len(self.name), 0)

    def local(self) -> bytes:
        return _LOCAL.pack(b"PK\3\4", *self._common()) + self.name.encode()

    def central(self) -> bytes:
        fields = (b"PK\1\2", _MADE_BY, *self._common(), 0, 0, 0, _ATTRIBUTES, self.offset)
        return _CENTRAL.pack(*fields) + self.name.encode()

    @property
    def begin(self) -> int:
        return self.offset + _LOCAL.size + len(self.name)

    @property
    def end(self) -> int:
        return self.begin + self.packed


def _end_record(count: int, size: int, offset: int) -> bytes:
    return _END.pack(b"PK\5\6", 0, 0, count, count, size, offset, 0)


def _npy_header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """Version 1.0, padded so that the numbers begin at a multiple of 64."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape!r}, }}"
    padding = -(10 + len(text) + 1) % 64
    return (
        b"\x93NUMPY\x01\x00"
        + struct.pack("<H", len(text) + padding + 1)
        + text.encode()
        + b" " * padding
        + b"\n"
    )


# ---------------------------------------------------------------------- writing


@dataclass(frozen=True)
class Packed:
    """A member ready to be written."""

    name: str
    method: int
    crc: int
    size: int
    data: bytes

    @property
    def sha256(self) -> str:
        """Of the bytes as they stand in the file: even the unused bits at the end of a deflated stream count."""
        return hashlib.sha256(self.data).hexdigest()


def pack_arrays(arrays: Mapping[str, NDArray[Any]]) -> list[Packed]:
    """Members in order of name, deflated where that makes them smaller."""
    raw = {f"arrays/{name}.npy": _npy_bytes(array) for name, array in sorted(arrays.items())}
    packed = [_pack(name, data, squeeze=True) for name, data in raw.items()]
    if sum(m.size for m in packed) > allowance(sum(len(m.data) for m in packed)):
        # So regular that a reader would take it for a bomb.
        return [_pack(name, data, squeeze=False) for name, data in raw.items()]
    return packed


def _npy_bytes(array: NDArray[Any]) -> bytes:
    array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<")).reshape(np.shape(array))
    if array.dtype.str not in _TYPES:
        raise TypeError(f"an array of type {array.dtype} cannot be saved to a file")
    return _npy_header(array.dtype.str, array.shape) + array.tobytes()


def _pack(name: str, data: bytes, *, squeeze: bool) -> Packed:
    if squeeze:
        deflater = zlib.compressobj(6, zlib.DEFLATED, -15)
        squeezed = deflater.compress(data) + deflater.flush()
        if len(squeezed) < len(data):
            return Packed(name, _DEFLATED, zlib.crc32(data), len(data), squeezed)
    return Packed(name, _STORED, zlib.crc32(data), len(data), data)


def write_archive(out: BinaryIO, manifest: bytes, arrays: Iterable[Packed]) -> None:
    """Write the whole file. The manifest is first and never deflated, so that it can be read with any tool."""
    if len(manifest) > MOST_MANIFEST:
        raise ValueError(
            f"the model's description takes {len(manifest)} bytes; a file has room for {MOST_MANIFEST}"
        )
    members = [_pack(MANIFEST, manifest, squeeze=False), *arrays]
    total = sum(max(len(m.data), m.size) for m in members) + 256 * len(members)  # headers and names included
    if len(members) > MOST_MEMBERS or total > _MOST_SIZE:
        raise ValueError(f"the model has {len(members)} parts and {total} bytes, more than a file can hold")
    central, offset = [], 0
    for member in members:
        entry = _Member(member.name, member.method, member.crc, len(member.data), member.size, offset)
        out.write(entry.local())
        out.write(member.data)
        central.append(entry.central())
        offset = entry.end
    directory = b"".join(central)
    out.write(directory)
    out.write(_end_record(len(members), len(directory), offset))


# ---------------------------------------------------------------------- reading


class Archive:
    """A file opened for reading; its directory has been checked, its members not yet.

    All members together may unpack to at most ``max_bytes``.
    """

    def __init__(self, file: BinaryIO, max_bytes: int) -> None:
        self._file = file
        file.seek(0, 2)
        self.size = file.tell()
        if self.size > max_bytes:
            bad(FILE, f"has {self.size} bytes, more than max_bytes={max_bytes}")
        self._members = self._read_directory()
        self.unpacked = sum(member.size for member in self._members.values())
        self._refuse_bombs(max_bytes)

    @property
    def array_names(self) -> list[str]:
        """Names of the arrays, in the order in which they stand."""
        names = [name for name in self._members if name != MANIFEST]
        return [name.removeprefix("arrays/").removesuffix(".npy") for name in names]

    def manifest(self) -> bytearray:
        """The bytes of the manifest."""
        raw = bytearray()
        for chunk in self._unpack(self._members[MANIFEST], hashlib.sha256()):
            raw += chunk
        return raw

    def array(self, name: str) -> tuple[NDArray[Any], str]:
        """An array, and the SHA-256 of its packed bytes."""
        member = self._members[f"arrays/{name}.npy"]
        digest = hashlib.sha256()
        raw = bytearray()
        header: _Header | None = None
        enough = min(member.size, _LONGEST_HEADER)
        for chunk in self._unpack(member, digest):
            raw += chunk
            if header is None and len(raw) >= enough:  # look before more is unpacked
                header = _read_npy_header(raw, member)
        if header is None:
            bad(member.name, "is empty")
        array = np.frombuffer(raw, dtype=header.dtype, offset=header.length).reshape(header.shape)
        if array.dtype.kind == "b" and array.size and array.view(np.uint8).max() > 1:
            bad(member.name, "holds truth values that are neither 0 nor 1")
        return array, digest.hexdigest()

    # ------------------------------------------------------------------ the directory

    def _read_directory(self) -> dict[str, _Member]:
        if self.size < _END.size:
            bad(FILE, _NO_MODEL)
        end = self._bytes(self.size - _END.size, _END.size)
        count, size, offset = struct.unpack_from("<H2I", end, 10)
        if end != _end_record(count, size, offset) or offset + size + _END.size != self.size:
            bad(FILE, _NO_MODEL)
        if not count or size < count * _CENTRAL.size:
            bad("the directory", f"cannot list {count} members in {size} bytes")
        directory = self._bytes(offset, size)
        members: dict[str, _Member] = {}
        at, position = 0, 0
        for _ in range(count):
            member, at = _read_entry(directory, at)
            if member.name in members:
                bad("the directory", f"{member.name!r} stands twice")
            if member.offset != position or member.end > offset:
                bad(member.name, "overlaps another member or leaves a gap")
            if self._bytes(member.offset, member.begin - member.offset) != member.local():
                bad(member.name, "its header differs from the directory")
            members[member.name] = member
            position = member.end
        if at != size or position != offset:
            bad("the directory", "there are bytes that belong to no member")
        if next(iter(members)) != MANIFEST:
            bad("the directory", f"the first member must be {MANIFEST!r}")
        return members

    def _refuse_bombs(self, max_bytes: int) -> None:
        for member in self._members.values():
            most = member.packed if member.method == _STORED else (member.packed + 1) * _DEFLATE_MOST
            if member.size > most or (member.method == _STORED and member.size != member.packed):
                bad(
                    member.name,
                    f"claims {member.size} bytes, which its {member.packed} packed bytes cannot hold",
                )
        manifest = self._members[MANIFEST]
        if manifest.method != _STORED or manifest.size > MOST_MANIFEST:
            bad(MANIFEST, f"must not be compressed, nor have more than {MOST_MANIFEST} bytes")
        if self.unpacked > max_bytes:
            bad(FILE, f"unpacks to {self.unpacked} bytes, more than max_bytes={max_bytes}")
        if self.unpacked > allowance(self.size):
            bad(FILE, f"has {self.size} bytes and claims to hold {self.unpacked}: no model is that regular")

    # ------------------------------------------------------------------ bytes

    def _bytes(self, offset: int, size: int) -> bytes:
        self._file.seek(offset)
        return b"".join(self._chunks(size))

    def _chunks(self, size: int) -> Iterator[bytes]:
        """The next ``size`` bytes; a file that gets shorter while it is read is an error of the file."""
        while size:
            chunk = self._file.read(min(size, _CHUNK))
            if not chunk:
                bad(FILE, "ends in the middle")
            size -= len(chunk)
            yield chunk

    def _unpack(self, member: _Member, digest: Any) -> Iterator[bytes]:
        """A member's bytes piece by piece, never more than it claims; the last step checks that all fits."""
        self._file.seek(member.begin)
        crc, left = 0, member.size
        for piece in self._pieces(member, digest):
            left -= len(piece)
            if left < 0:
                break
            crc = zlib.crc32(piece, crc)
            yield piece
        if left or crc != member.crc:
            bad(member.name, "is damaged: its size or its checksum is wrong")

    def _pieces(self, member: _Member, digest: Any) -> Iterator[bytes]:
        if member.method == _STORED:
            for chunk in self._chunks(member.packed):
                digest.update(chunk)
                yield chunk
            return
        inflater = zlib.decompressobj(-15)
        for chunk in self._chunks(member.packed):
            digest.update(chunk)
            try:
                yield from _inflated(inflater, chunk)
            except zlib.error as error:
                bad(member.name, f"is damaged: {error}")
            if inflater.unused_data:
                bad(member.name, "is damaged: something follows its end")
        if not inflater.eof:
            bad(member.name, "is damaged: it ends in the middle")


def _inflated(inflater: Any, packed: bytes) -> Iterator[bytes]:
    """All that ``packed`` unpacks to, in pieces of bounded size."""
    while True:
        piece = inflater.decompress(packed, _CHUNK)
        packed = inflater.unconsumed_tail
        if piece:
            yield piece
        if not packed and len(piece) < _CHUNK:
            return


def _read_entry(directory: bytes, at: int) -> tuple[_Member, int]:
    """The directory's entry at a place, and where the next one begins."""
    if at + _CENTRAL.size > len(directory):
        bad("the directory", "ends in the middle")
    fields = _CENTRAL.unpack_from(directory, at)
    method, crc, packed, size, length, offset = (fields[i] for i in (4, 7, 8, 9, 10, 16))
    end = at + _CENTRAL.size + length
    name = directory[at + _CENTRAL.size : end].decode("latin-1")
    if not _NAME.fullmatch(name):
        bad("the directory", f"{shown(name)} is no name of a member")
    if method not in (_STORED, _DEFLATED):
        bad(name, f"compression method {method} is not used in .anytime files")
    member = _Member(name, method, crc, packed, size, offset)
    if directory[at:end] != member.central():
        bad(name, "its entry in the directory is not one that this library writes")
    return member, end


class _Header(NamedTuple):
    length: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


def _read_npy_header(raw: bytearray, member: _Member) -> _Header:
    """Parsed by pattern, not by evaluation as ``numpy.load`` does."""
    match = _NPY.match(raw[:_LONGEST_HEADER])
    if match is None:
        bad(member.name, "does not begin as an array does")
    dtype = match[1].decode()
    if dtype not in _TYPES:
        bad(member.name, f"arrays of type {shown(dtype)} are not used in .anytime files")
    numbers = [part.strip() for part in match[2].decode().split(",") if part.strip()]
    if len(numbers) > 8 or any(not part.isdigit() or len(part) > 12 for part in numbers):
        bad(member.name, "its shape is not one")
    shape = tuple(map(int, numbers))
    header = _npy_header(dtype, shape)
    if raw[: len(header)] != header:
        bad(member.name, "its header is not one that this library writes")
    itemsize = np.dtype(dtype).itemsize
    if len(header) + math.prod(shape) * itemsize != member.size:
        bad(member.name, f"shape {shape} of type {dtype} does not make {member.size} bytes")
    return _Header(len(header), np.dtype(dtype), shape)
