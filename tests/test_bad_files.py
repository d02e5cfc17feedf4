"""No ``.anytime`` file, however damaged or malicious, does harm: one exception, raised quickly and in little memory."""

from __future__ import annotations

import hashlib
import io
import os
import pickle
import struct
import sys
import time
import tracemalloc
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anytime.files import BadFileError, container, describe, load

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import _fuzz_cases as cases
import fuzz_files as fuzz

RAW = {name: cases.packed(model) for name, model in cases.sample_models().items()}
MANY = cases.Cases(seed=77)
TREES = "plan.blocks.0."
KINDS_OF_BLOCKS = (
    "expected one of blend, costly, dense, linear, linear tree, log probabilities, margins, member, neighbours, network, sensor, "
    "small nets, stream, structured, trees"
)


def loaded(raw: bytes, **options: Any) -> Any:
    return load(io.BytesIO(raw), **options)


def refused(raw: bytes, message: str, **options: Any) -> None:
    with pytest.raises(BadFileError, match=message):
        loaded(raw, **options)


# ---------------------------------------------------------------------- damage


@pytest.mark.parametrize("name", ["boosted", "refitted"])
def test_a_flip_of_any_byte_is_found(name: str) -> None:
    rng = np.random.default_rng(0)
    for at in range(len(RAW[name])):
        damaged = bytearray(RAW[name])
        damaged[at] ^= 1 << rng.integers(8)
        with pytest.raises(BadFileError):
            loaded(bytes(damaged))


def test_a_file_cut_anywhere_is_refused() -> None:
    raw = RAW["scaled"]
    for size in [*range(300), *range(300, len(raw), 13), len(raw) - 1]:
        with pytest.raises(BadFileError):
            loaded(raw[:size])


def test_bytes_before_behind_and_between_are_refused() -> None:
    raw = RAW["boosted"]
    for spoilt in (
        b"\0" + raw,
        raw + b"\0",
        raw[:-2] + b"\1\0x",
        raw + raw,
        b"",
        b"PK\5\6" + bytes(18),
        os.urandom(4000),
    ):
        with pytest.raises(BadFileError):
            loaded(spoilt)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@settings(max_examples=300)
@given(st.integers(0, 2**40))
def test_no_damaged_or_malicious_file_does_harm(number: int) -> None:
    kind, raw = MANY.make(number)
    with np.errstate(all="ignore"):
        fuzz.judge(kind, raw, MANY.raw)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_two_thousand_spoiled_files_neither_crash_nor_hang(tmp_path: Path) -> None:
    """The bar: no crash, hang, memory over 256 MB or wrong exception; benchmarks/fuzz_files.py runs 200,000."""
    options = fuzz.parsed(["--cases", "2000", "--seed", "5", "--keep", str(tmp_path), "--time-limit", "20"])
    figures = fuzz.run(options)
    assert figures["failures"] == 0
    assert figures["peak_memory_growth_mb"] < 256
    for kind in cases.KINDS:
        assert figures["outcomes"][kind]["refused"] > 100
    assert figures["outcomes"]["json"]["loaded"] + figures["outcomes"]["arrays"]["loaded"] > 50


# ---------------------------------------------------------------------- malice: the container


def members_of(name: str) -> tuple[dict[str, Any], list[container.Packed]]:
    parts = cases.Parts(RAW[name])
    return parts.manifest, container.pack_arrays(parts.arrays)


def with_member(change: Any, name: str = "boosted", at: int = 0) -> bytes:
    manifest, members = members_of(name)
    members[at] = change(members[at])
    return cases.assembled(manifest, members)


def with_npy(raw: bytes) -> bytes:
    return with_member(lambda member: container._pack(member.name, raw, squeeze=True))


def test_ten_gigabytes_claimed_by_a_small_file_are_refused_before_any_memory_is_taken() -> None:
    claims = [
        with_npy(container._npy_header("<f8", (10 * 2**27,)) + bytes(64)),
        with_member(lambda m: container.Packed(m.name, 8, m.crc, 2**32 - 2**20, m.data)),
        with_member(lambda m: container.Packed(m.name, 0, m.crc, 2**32 - 2**20, m.data)),
        with_npy(container._npy_header("<f8", (2**40, 2**40)) + bytes(64)),
    ]
    for raw in claims:
        assert len(raw) < 10_000
        tracemalloc.start()
        with pytest.raises(BadFileError):
            loaded(raw)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1_000_000


def test_a_bomb_is_refused_before_it_goes_off() -> None:
    count = 1 << 28
    header = container._npy_header("|u1", (count,))
    deflater = zlib.compressobj(9, zlib.DEFLATED, -15)
    crc, data = zlib.crc32(header), deflater.compress(header)
    for _ in range(count >> 20):
        crc, data = zlib.crc32(bytes(1 << 20), crc), data + deflater.compress(bytes(1 << 20))
    data += deflater.flush()
    raw = with_member(lambda m: container.Packed(m.name, 8, crc, len(header) + count, data))
    tracemalloc.start()
    refused(raw, "no model is that regular")
    assert tracemalloc.get_traced_memory()[1] < 2_000_000 + len(raw)
    tracemalloc.stop()
    # the same bomb that says it is small: nothing is unpacked beyond what was said
    tracemalloc.start()
    raw = with_member(lambda m: container.Packed(m.name, 8, crc, 1000, data))
    tracemalloc.reset_peak()
    refused(raw, "its size or its checksum is wrong")
    assert tracemalloc.get_traced_memory()[1] < 6_000_000
    tracemalloc.stop()


def test_max_bytes_bounds_the_file_and_its_contents() -> None:
    raw = RAW["boosted"]
    unpacked = describe(io.BytesIO(raw))["unpacked_bytes"]
    refused(raw, r"has \d+ bytes, more than max_bytes=100", max_bytes=100)
    big = with_npy(container._npy_header("<f8", (10**5,)) + bytes(8 * 10**5))
    refused(big, r"unpacks to \d+ bytes, more than max_bytes=500000", max_bytes=500_000)
    loaded(raw, max_bytes=max(len(raw), unpacked))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: container.Packed("/etc/passwd", m.method, m.crc, m.size, m.data), "no name of a member"),
        (
            lambda m: container.Packed("arrays/../x.npy", m.method, m.crc, m.size, m.data),
            "no name of a member",
        ),
        (lambda m: container.Packed("arrays/x.pkl", m.method, m.crc, m.size, m.data), "no name of a member"),
        (lambda m: container.Packed("manifest.json", 0, m.crc, len(m.data), m.data), "stands twice"),
        (lambda m: container.Packed(m.name, 12, m.crc, m.size, m.data), "compression method 12"),
        (lambda m: container.Packed(m.name, m.method, m.crc ^ 1, m.size, m.data), "checksum is wrong"),
        (lambda m: container.Packed(m.name, 8, m.crc, m.size, m.data[:-3]), "is damaged"),
        (lambda m: container.Packed(m.name, 8, m.crc, m.size, b"\xff" * 50), "is damaged: Error"),
        (
            lambda m: container.Packed(m.name, 8, m.crc, m.size - 1, zlib_of(m)),
            "its size or its checksum is wrong",
        ),
        (
            lambda m: container.Packed(m.name, 8, m.crc, m.size, zlib_of(m) + b"x"),
            "something follows its end",
        ),
        (lambda m: container.Packed(m.name, 8, 0, 0, b"\3\0"), "is empty"),
        (
            lambda m: container.Packed(m.name, 8, m.crc, 2000 * len(m.data), m.data),
            "packed bytes cannot hold",
        ),
    ],
)
def test_a_member_that_is_not_what_it_says_is_refused(change: Any, message: str) -> None:
    refused(with_member(change), message)


def zlib_of(member: container.Packed) -> bytes:
    deflater = zlib.compressobj(1, zlib.DEFLATED, -15)
    data = member.data if not member.method else zlib.decompress(member.data, -15)
    return deflater.compress(data) + deflater.flush()


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (6, 1, "not one that this library writes"),  # encrypted
        (6, 8, "not one that this library writes"),  # sizes follow the data
        (4, 45, "not one that this library writes"),  # zip64
        (10, 7, "not one that this library writes"),  # time
        (28, 4, "not one that this library writes"),  # extra field
        (18, 0xFFFF, "overlaps another member or leaves a gap"),
        (26, 5, "no name of a member"),
    ],
)
def test_a_header_that_this_library_does_not_write_is_refused(place: int, value: int, message: str) -> None:
    data = bytearray(RAW["boosted"])
    central = struct.unpack("<I", data[-6:-2])[0]
    data[central + place + 2 : central + place + 4] = struct.pack("<H", value)
    refused(bytes(data), message)


def test_local_header_must_agree_with_the_directory() -> None:
    data = bytearray(RAW["boosted"])
    data[8] = 8
    refused(bytes(data), "its header differs from the directory")


def test_members_that_overlap_stand_twice_or_are_too_many_are_refused() -> None:
    manifest, members = members_of("boosted")
    refused(cases.assembled(manifest, [members[0], *members]), "stands twice")
    extra = container._pack("arrays/extra.npy", container._npy_bytes(np.zeros(3)), squeeze=True)
    refused(cases.assembled(manifest, [*members, extra]), "array 'extra': belongs to nothing")
    refused(cases.assembled(manifest, members[1:]), "is missing")
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:  # a zip of another program
        archive.writestr("manifest.json", "{}")
    refused(out.getvalue(), "not one that this library writes")
    data = bytearray(RAW["boosted"])
    central = struct.unpack("<I", data[-6:-2])[0]
    second = central + 46 + len("manifest.json")
    data[second + 42 : second + 46] = struct.pack("<I", 0)
    refused(bytes(data), "overlaps another member")
    data = bytearray(RAW["boosted"])
    data[-14:-10] = struct.pack("<HH", 0xFFFF, 0xFFFF)
    refused(bytes(data), "cannot list 65535 members")


def test_a_pickled_object_is_refused_and_never_opened() -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return (sys.exit, ("a pickle was opened",))

    payload = pickle.dumps(np.array([Trap()], dtype=object))
    out = io.BytesIO()
    np.lib.format.write_array(out, np.array([None], dtype=object), allow_pickle=True)
    for raw in (container._npy_header("|O", (1,)) + payload, out.getvalue(), payload):
        refused(with_npy(raw), "does not begin as an array does|are not used in .anytime files")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (container._npy_header(">f8", (2,)), "does not begin as an array does"),
        (container._npy_header("<c8", (2,)), "arrays of type '<c8' are not used"),
        (container._npy_header("<U4", (1,)), "does not begin as an array does"),
        (container._npy_header("<f8", (2,)).replace(b"False", b"True "), "does not begin as an array does"),
        (container._npy_header("<f8", (2,)).replace(b"(2,)", b"(2, "), "does not begin as an array does"),
        (
            container._npy_header("<f8", (2,)).replace(b"(2,)", b"( 2)"),
            "header is not one that this library writes",
        ),
        (container._npy_header("<f8", (2,)).replace(b"(2,)", b"()  "), "does not begin as an array does"),
        (container._npy_header("<f8", (1,) * 9), "its shape is not one"),
        (container._npy_header("<f8", (10**20,)), "its shape is not one"),
        (container._npy_header("<f8", (3,)), "does not make"),
        (container._npy_header("<f8", (2,))[:-1] + b" ", "does not begin as an array does"),
        (b"\x93NUMPY\x02" + container._npy_header("<f8", (2,))[7:], "does not begin as an array does"),
        (b"", "does not begin as an array does"),
    ],
)
def test_an_array_header_out_of_the_ordinary_is_refused(header: bytes, message: str) -> None:
    refused(with_npy(header + bytes(16)), message)


def test_truth_values_are_zero_or_one() -> None:
    raw = container._npy_header("|b1", (3,)) + b"\0\1\2"
    refused(with_npy(raw), "neither 0 nor 1")


# ---------------------------------------------------------------------- malice: JSON


def with_manifest(text: str | bytes) -> bytes:
    body = text.encode() if isinstance(text, str) else text
    body = body.rstrip()[:-1]
    sealed = body + b',"sha256":"%s"}' % hashlib.sha256(body).hexdigest().encode()
    out = io.BytesIO()
    container.write_archive(out, sealed, members_of("boosted")[1])
    return out.getvalue()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"format": NaN}', "NaN is not a number"),
        ('{"format": -Infinity}', "-Infinity is not a number"),
        ('{"format": 1e999}', "out of range"),
        ('{"format": 1.' + "0" * 100 + "}", "out of range or too long"),
        ('{"format": ' + "9" * 5000 + "}", "a whole number of 5000 characters"),
        ('{"format": 1, "format": 2}', "a key appears twice"),
        ('{"x":' + "[" * 100_000 + "]" * 100_000 + "}", "nested too deeply"),
        ('{"x":' + '{"x":' * 100_000 + "1" + "}" * 100_001, "nested too deeply"),
        ('{"format": "\\ud800"}', "not valid JSON"),
        (b'{"format": "\xff"}', "not valid JSON"),
        ('{"format": ', "not valid JSON"),
        ("[1, 2]", "not valid JSON"),  # with the checksum's brace at its end
        ("{}", "not valid JSON|is not that of an 'anytime model'"),
        ('{"format": "pickle"}', "is not that of an 'anytime model'"),
        ('{"format": "anytime model", "schema": true}', "expected a version, found True"),
        ('{"format": "anytime model", "schema": -1}', "expected a version, found -1"),
        ('{"format": "anytime model", "schema": 1}', "manifest.arrays: expected an object, found None"),
    ],
)
def test_json_out_of_the_ordinary_is_refused(text: str | bytes, message: str) -> None:
    refused(with_manifest(text), message)


def test_a_manifest_must_carry_its_own_checksum() -> None:
    out = io.BytesIO()
    container.write_archive(out, b'{"format":"anytime model","schema":1}', [])
    refused(out.getvalue(), "manifest: is damaged: its checksum is wrong")


def test_a_compressed_or_huge_manifest_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    raw, model = RAW["boosted"], loaded(RAW["boosted"])
    monkeypatch.setattr(container, "MOST_MANIFEST", 100)
    refused(raw, "must not be compressed, nor have more than 100 bytes")
    with pytest.raises(ValueError, match="a file has room for 100"):
        cases.packed(model)


# ---------------------------------------------------------------------- malice: what a file says


def spoiled(name: str, change: Any) -> bytes:
    parts = cases.Parts(RAW[name])
    change(parts)
    return parts.assembled()


def put(path: str, value: Any) -> Any:
    """A change that sets one value of the manifest, found by keys and positions."""

    def change(parts: cases.Parts) -> None:
        at, *rest = [int(key) if key.isdigit() else key for key in path.split(".")][::-1]
        holder = parts.manifest
        for key in rest[::-1]:
            holder = holder[key]
        holder[at] = value

    return change


def fill(name: str, at: Any, value: Any) -> Any:
    """A change that sets entries of one array."""

    def change(parts: cases.Parts) -> None:
        array = parts.arrays[name].copy()
        array[at] = value
        parts.arrays[name] = array

    return change


def columns(**changes: Any) -> Any:
    """A change to what the file says of the columns."""
    state = {
        "n_features": 4,
        "categories": [],
        "arrays_hold_codes": True,
        "missing_value": None,
        "rounded_down": [],
    }
    return put(
        "state.columns", {"is": "mapping", "of": [[key, value] for key, value in (state | changes).items()]}
    )


def swap(name: str, array: Any) -> Any:
    """A change that replaces (or with None removes) one array."""

    def change(parts: cases.Parts) -> None:
        if array is None:
            del parts.arrays[name]
        else:
            parts.arrays[name] = array

    return change


def both(*changes: Any) -> Any:
    return lambda parts: [change(parts) for change in changes]


def a_regressor(parts: cases.Parts) -> None:
    """A change that makes a regressor of a classifier, without the parameters that only that has."""
    put("estimator", "AnytimeRegressor")(parts)
    del parts.manifest["parameters"]["class_weight"]


def costly_gate(parts: cases.Parts) -> None:
    """A change that makes a gate of a model that is not in the file."""
    block = {"kind": "costly", "name": "x", "n_classes": 2, "method": "predict_proba"}
    put("plan.passes.2.block", block)(parts)
    del parts.arrays["plan.passes.3.coefficients"]


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        # the class
        ("boosted", put("estimator", "os:system"), "is no class of this library"),
        ("boosted", put("estimator", "anytime.trees.imported_models:AnytimeClassifier"), "is no class of this library"),
        ("boosted", put("estimator", ["AnytimeClassifier"]), "expected a string"),
        ("boosted", put("estimator", "AnytimeRegressor"), "AnytimeRegressor has no parameter 'class_weight'"),
        ("boosted", a_regressor, "'logistic' is not a link of AnytimeRegressor"),
        ("refitted", put("estimator", "AnytimeClassifier"), "'identity' is not a link of AnytimeClassifier"),
        # parameters
        ("boosted", put("parameters.evil", 1), "has no parameter 'evil'"),
        ("boosted", put("parameters.budget", -1), "expected a number that is not negative"),
        ("boosted", put("parameters.budget", {"is": "number", "of": "nan"}), "expected a number that is not negative"),
        ("boosted", put("parameters.budget", "3"), "expected a number that is not negative"),
        ("boosted", put("parameters.meter", "free"), "expected 'model' or 'realised'"),
        ("boosted", put("parameters.meter", ["model"]), "expected 'model' or 'realised'"),
        ("boosted", put("parameters.n_jobs", 10**9), "expected a number of threads"),
        ("boosted", put("parameters.n_jobs", 0), "expected a number of threads"),
        ("boosted", put("parameters.costs", "/etc/passwd"), "expected prices"),
        ("boosted", put("parameters.costs", {"is": "costs", "unit": None, "groups": 3}), "expected a list"),
        ("boosted", put("parameters.estimator", "x"), "never stored"),
        ("boosted", put("unsaved", {"estimator": 3}), "expected a string"),
        ("boosted", put("parameters.random_state", {"is": "pickle", "of": "gASV"}), "expected one of array, costs"),
        ("boosted", put("parameters.random_state", {"of": 3}), "'is' is missing"),
        ("boosted", put("parameters.random_state", {"is": "tuple", "of": [], "x": 1}), "unknown field 'x'"),
        ("boosted", put("parameters.random_state", {"is": "array", "of": "plan.base"}), "is missing"),
        ("boosted", put("parameters.random_state", {"is": "mapping", "of": [[[], 1]]}), "cannot be a key"),
        ("boosted", put("parameters.random_state", {"is": "mapping", "of": [[1, 1], [1, 2]]}), "stands twice"),
        ("boosted", put("parameters.random_state", {"is": "mapping", "of": [1]}), "expected a key and a value"),
        ("boosted", put("parameters.random_state", eval("[" * 20 + "]" * 20)), "nested deeper than 16 levels"),
        # labels and columns
        ("boosted", put("classes", None), "a classifier needs its classes"),
        ("boosted", put("classes", ["no", "yes"]), "expected a list of labels"),
        ("boosted", put("classes.of", ["no", "yes", "so"]), "3 classes do not go with 1 scores"),
        ("boosted", put("classes.of", ["no"]), "1 classes do not go with 1 scores"),
        ("boosted", put("classes.width", 2), "does not fit into 2 characters"),
        ("boosted", put("classes.width", 2**24), "take too much memory"),
        ("boosted", put("classes.width", 2**25), "expected a whole number in"),
        ("boosted", put("classes.of", ["a", 3]), "expected a string, found 3"),
        ("forest", put("classes.of", ["a", "b", []]), "neither a string nor a number"),
        ("refitted", put("classes", {"is": "labels", "width": 1, "of": ["a", "b"]}), "for a classifier only"),
        ("boosted", put("features.count", 2**31 - 2), "names for 2147483646 columns"),
        ("capped", put("features.count", 2**31 - 2), r"expected shape \(2147483646,\)"),
        ("capped", put("features.count", 2**31), "expected a whole number in"),
        ("capped", put("features.count", 4.0), "expected a whole number in"),
        ("boosted", put("features.names", ["a"]), "1 names for 4 columns"),
        ("boosted", put("features.names", ["a", "b", "c", "a"]), "a name stands twice"),
        ("boosted", put("features.names", "abcd"), "expected a list"),
        ("boosted", put("output", "html"), "expected one of default, pandas"),
        ("boosted", put("versions.numpy", 2), "expected a string"),
        ("boosted", put("state.columns", 3), "manifest.state"),
        ("boosted", put("state.columns", {"is": "mapping", "of": []}), "manifest.state: KeyError"),
        ("boosted", columns(n_features=5), "5 columns are described"),
        ("boosted", columns(categories=[[9, ["a"]]]), "column 9 is not among"),
        ("boosted", columns(categories=[[0, [["a"]]]]), "no list of categories"),
        ("boosted", columns(categories=[[0, 3]]), "manifest.state: TypeError"),
        ("boosted", columns(rounded_down=[4]), "column 4 is not among"),
        ("boosted", columns(missing_value="x"), "manifest.state: ValueError"),
        ("boosted", put("surprise", 1), "unknown field 'surprise'"),
        # costs
        ("boosted", put("plan.costs.groups.0.price", -1), "expected a number in"),
        ("boosted", put("plan.costs.groups.0.price", "free"), "expected a number in"),
        ("boosted", put("plan.costs.groups.1.requires", ["nothing"]), "which is no group"),
        ("boosted", put("plan.costs.groups.0.requires", ["c"]), "require each other in a cycle"),
        ("boosted", put("plan.costs.groups.0.requires", ["draw"]), "require each other in a cycle"),
        ("boosted", put("plan.costs.groups.1.name", "a"), "stands twice"),
        ("boosted", put("plan.costs.groups.1.columns", [1, 1]), "both name column 1|lists 2 columns"),
        ("boosted", put("plan.costs.groups.1.columns", [0]), "both name column 0"),
        ("boosted", put("plan.costs.groups.1.columns", [True]), "a name or a position"),
        ("boosted", put("plan.costs.groups.1.columns", [7]), "does not belong to it"),
        ("boosted", put("plan.costs.groups.1.columns", ["eins"]), "does not belong to it"),
        ("boosted", put("plan.costs.groups.1.columns", []), "lists 0 columns, but 1 belong to it"),
        ("boosted", put("plan.costs.groups.1.tail", None), "no tail price"),
        ("boosted", put("plan.costs.unit", 3), "expected a string"),
        ("boosted", fill("plan.column_group", 0, 9), "names a group that is not among the 4"),
        ("boosted", fill("plan.column_group", 0, -1), "names a group that is not among the 4"),
        ("boosted", swap("plan.column_group", np.zeros(4)), "expected type <i4, found <f8"),
        # the plan
        ("boosted", put("plan.link", "evil"), "expected one of counts, exp"),
        ("boosted", put("plan.combine", "product"), "expected one of mean, sum"),
        ("boosted", put("plan.limit", -1), "expected a number in"),
        ("boosted", put("plan.limit", None), "expected a number in"),
        ("boosted", swap("plan.base", np.zeros(0)), "is empty"),
        ("boosted", swap("plan.base", np.array([np.nan])), "finite scores"),
        ("boosted", swap("plan.base", np.zeros(2)), "is for one output, not 2"),
        ("boosted", swap("plan.base", np.zeros((1, 1))), "expected 1 dimensions"),
        ("boosted", swap("plan.base", None), "array 'plan.base': is missing"),
        ("boosted", fill("plan.evaluation_costs", 0, 1e300), "too large relative to the prices"),
        ("boosted", fill("plan.evaluation_costs", 0, np.nan), "finite and not negative"),
        ("boosted", fill("plan.evaluation_costs", 0, -1), "finite and not negative"),
        ("boosted", swap("plan.evaluation_costs", np.zeros(4)), r"expected shape \(5,\)"),
        ("boosted", swap("plan.quality", np.zeros(5)), r"expected shape \(6,\)"),
        ("boosted", swap("plan.replaces", np.zeros(5, dtype=np.uint8)), r"expected type \|b1"),
        ("boosted", swap("plan.intercepts", np.zeros((5, 1))), "belongs to nothing"),
        ("boosted", put("plan.blocks", []), "belongs to nothing|expected shape"),
        ("boosted", put("plan.blocks.0.kind", "function"), KINDS_OF_BLOCKS),
        # trees
        ("boosted", put("plan.blocks.0.n_outputs", 2**31 - 1), "expected a whole number in"),
        ("boosted", put("plan.blocks.0.n_features", 2**30), "expected a whole number in"),
        ("boosted", put("plan.blocks.0.shift", 900), "too large for these values"),
        ("boosted", put("plan.blocks.0.float32_input", 1), "expected true or false"),
        ("boosted", fill(TREES + "left", 0, 0), "has child 0"),
        ("boosted", fill(TREES + "left", 0, 10**6), "has child 1000000"),
        ("boosted", fill(TREES + "right", 0, 1), "does not have exactly one parent"),
        ("boosted", fill(TREES + "feature", 0, 4), "tests column 4"),
        ("boosted", fill(TREES + "feature", 0, -2), "tests column -2"),
        ("boosted", fill(TREES + "feature", 0, -1), "is a leaf but has children"),
        ("boosted", fill(TREES + "threshold", 0, np.nan), "a threshold that is NaN"),
        ("boosted", fill(TREES + "value", 0, np.inf), "not finite"),
        ("boosted", fill(TREES + "tree_start", 1, 10**9), "tree_start"),
        ("boosted", fill(TREES + "tree_start", 0, 1), r"tree_start\[0\] is 1"),
        ("boosted", fill(TREES + "stage_start", -1, 10**9), "stage_start ends at"),
        ("boosted", fill(TREES + "tree_output", 0, 1), "adds to output 1"),
        ("boosted", fill(TREES + "default_left", 0, 2), "default_left 2"),
        ("boosted", fill(TREES + "missing", 0, 3), "missing 3"),
        ("forest", fill(TREES + "category_set", 0, 9), "names category set 9"),
        ("forest", fill(TREES + "category_start", 1, 99), "category_start"),
        ("forest", fill(TREES + "categories", 0, -5), "category set 0"),
        ("forest", fill(TREES + "categories", 0, 2**24 + 1), "category set 0"),
        ("boosted", swap(TREES + "value", np.zeros((3, 1))), "value has 3 rows"),
        ("boosted", swap(TREES + "value", np.zeros(9)), "expected 2 dimensions"),
        ("boosted", swap(TREES + "left", np.zeros(9)), "expected type <i4"),
        ("boosted", swap(TREES + "left", None), "is missing"),
        # linear steps, tables and rules
        ("refitted", fill("plan.blocks.0.columns", 0, 4), "names a column that is not among the 4"),
        ("refitted", fill("plan.blocks.0.columns", 0, -1), "position is not negative"),
        ("refitted", fill("plan.blocks.0.coefficients", 0, np.nan), "coefficients must be finite"),
        ("refitted", swap("plan.blocks.0.coefficients", np.zeros((2, 2))), "1 columns but 2 rows"),
        ("refitted", put("plan.blocks.0.shift", 3), "unknown field 'shift'"),
        ("refitted", swap("plan.weights", np.zeros(23)), "do not make a table for 3 stages"),
        ("refitted", swap("plan.weights", np.zeros(25)), "do not make a table for 3 stages"),
        ("refitted", swap("plan.weights", np.full(24, np.nan)), "not finite"),
        ("refitted", swap("plan.weights_scaling", None), "is missing"),
        ("refitted", fill("plan.weights_scaling", 0, True), "do not make a table for 3 stages"),
        ("refitted", fill("plan.intercepts", 0, np.inf), "not finite"),
        ("refitted", swap("plan.replaces", np.ones(3, dtype=bool)), "a refitted table needs"),
        ("gated", put("plan.passes.0.stage", 4), "expected a whole number in"),
        ("gated", put("plan.passes.1.stage", 0), "has two rules|is missing"),
        ("gated", put("plan.passes.0.kind", "lambda"), "expected one of entropy, likely, margin, outside, score"),
        ("gated", put("plan.passes.0.threshold", "nan"), "expected a number in"),
        ("gated", put("plan.passes.0.below", 1), "expected true or false"),
        ("gated", put("plan.passes.2.block.kind", "score"), KINDS_OF_BLOCKS),
        ("gated", put("plan.stops.0.low", "inf"), "the interval from inf to inf is empty"),
        ("gated", swap("plan.passes.3.coefficients", np.ones((1, 2))), "a gate has one stage and one output"),
        ("gated", fill("plan.passes.3.columns", 0, 9), "not among the 4"),
        ("margins", put("plan.blocks.0.n_neighbors", 0), "expected a whole number in"),
        ("margins", put("plan.blocks.0.confidence", 2.0), "expected a number in"),
        ("margins", put("plan.blocks.0.neighbourhood", "far"), "expected one of exact, nearest, radius"),
        ("margins", put("plan.blocks.0.n_stages", 40), "40 purchases, but there are|to buy"),
        ("margins", put("plan.blocks.0.classifier", "steps"), "unexpected keyword|missing"),
        ("margins", swap("plan.blocks.0.reference", np.ones((3, 4))), "3 reference points, but classes"),
        ("margins", swap("plan.blocks.0.slopes", np.full(4, np.nan)), "must be finite"),
        ("neighbours", put("plan.blocks.0.n_neighbors", 0), "expected a whole number in"),
        ("neighbours", put("plan.blocks.0.n_stages", 40), "40 purchases, but there are"),
        ("neighbours", fill("plan.blocks.0.fold", 0, 7), "no such fold"),
        ("neighbours", fill("plan.blocks.0.labels", 0, 2), "no such label"),
        ("neighbours", swap("plan.blocks.0.labels", None), "either labels or values"),
        ("neighbours", fill("plan.blocks.0.source", 0, 99), "a step belongs to an input that does not exist"),
        ("neighbours", fill("plan.blocks.0.high", 0, np.nan), "steps go from a number to a larger one"),
        ("neighbours", fill("plan.blocks.0.scale", 0, 0.0), "positive scales"),
        ("neighbours", fill("plan.blocks.0.columns", 0, 9), "not among the 4"),
        ("neighbours", swap("plan.blocks.0.w2", np.ones((2, 3, 3), np.float32)), "layer"),
        ("neighbours", swap("plan.blocks.0.rows", np.ones((12, 3), np.float32)), "do not fit together"),
        ("neighbours", put("plan.blocks.0.tree_share", 0.5), "missing, but its trees have a part"),
        ("masked trees", put("plan.blocks.0.tree_share", 1.5), "expected a number in"),
        ("masked trees", put("plan.blocks.0.tree_share", 0.0), "a share between 0 and 1"),
        ("masked trees", put("plan.blocks.0.n_outputs", 1), "value has|outputs"),
        ("masked trees", put("plan.blocks.0.n_features", 3), "expected a whole number in"),
        ("masked trees", swap("plan.blocks.0.threshold", None), "missing, but its trees have a part"),
        ("masked trees", fill("plan.blocks.0.feature", 0, 4), "tests column 4"),
        ("masked trees", fill("plan.blocks.0.value", 0, np.nan), "not finite"),
        ("masked trees", fill("plan.blocks.0.left", 0, 77), "has child 77"),
        ("masked trees", swap("plan.blocks.0.values_threshold", None), "missing, but its trees have a part"),
        ("masked trees", put("plan.blocks.0.values_n_features", 4), "tests column|must be learned from"),
        ("masked trees", put("plan.blocks.0.values_n_outputs", 9), "expected a whole number in"),
        ("masked trees", fill("plan.blocks.0.values_feature", 0, 10), "tests column 10"),
        ("masked trees", fill("plan.blocks.0.values_value", 0, np.inf), "not finite"),
        ("neighbours", put("plan.blocks.0.values_n_outputs", 3), "missing, but its trees have a part"),
        ("stepped", fill("plan.blocks.0.start", 1, 3), "start must rise|do not increase|need"),
        # branches, and several kinds of models in one stage
        ("automatic", put("plan.branches", {}), "expected a list"),
        ("automatic", put("plan.branches", [{}] * 1001), "at most 1000 are possible"),
        ("automatic", put("plan.branches.0.branches", []), "unknown field 'branches'"),
        ("automatic", put("plan.branches.0.link", "identity"), "must have the costs, the link and the outputs"),
        ("automatic", put("plan.branches.0.combine", "mean"), "must combine stages as the plan does"),
        ("automatic", swap("plan.branches.0.quality", None), "and have a quality"),
        ("automatic", swap("plan.branches.0.replaces", None), "must replace the base"),
        ("automatic", swap("plan.quality", None), "needs the quality of its prefixes"),
        ("automatic", put("plan.blocks.1.parts.0.kind", "blend"), "a blend holds trees, layers and forests only"),
        ("automatic", put("plan.blocks.1.parts.2.inner.kind", "dense"), "only trees give logarithms"),
        ("automatic", put("plan.blocks.1.parts.2.width", 2), "expected a whole number in|do not give"),
        ("automatic", put("plan.blocks.1.parts", []), "as many finite shares|belongs to nothing"),
        ("automatic", fill("plan.blocks.1.shares", 0, np.nan), "as many finite shares"),
        ("automatic", swap("plan.blocks.1.shares", np.ones(2)), "as many finite shares"),
        ("automatic", fill("plan.branches.0.blocks.0.columns", 0, 9), "not among the 4"),
        ("automatic", fill("plan.branches.0.blocks.0.columns", 0, -1), "before the first"),
        ("automatic", fill("plan.branches.0.blocks.0.scale", 0, 0.0), "positive scales"),
        ("automatic", fill("plan.branches.0.blocks.0.weights", 0, np.inf), "layers must be finite"),
        ("automatic", fill("plan.branches.0.blocks.0.pairs", 0, 7), "do not fit together"),
        ("automatic", fill("plan.branches.0.blocks.0.sizes", 0, 2), "do not fit its sizes"),
        ("automatic", fill("plan.branches.0.blocks.0.sizes", 0, 2**62), "do not fit"),
        # a plan within a plan
        ("ensemble", fill("plan.blocks.0.ends", 0, 0), "grow from stage 1 to 4"),
        ("ensemble", fill("plan.blocks.0.ends", 1, 9), "grow from stage 1 to 4"),
        ("ensemble", swap("plan.blocks.0.ends", np.empty(0, dtype=np.int64)), "grow from stage 1 to 4"),
        ("ensemble", put("plan.blocks.0.transformed", 1), "expected true or false"),
        ("ensemble", put("plan.blocks.0.transformed", False), "gives 1 numbers per row"),
        ("ensemble", put("plan.blocks.0.plan.link", "softmax"), "gives 1 numbers per row"),
        ("ensemble", put("plan.blocks.0.plan.limit", 3), "unknown field 'limit'"),
        ("ensemble", fill("plan.blocks.1.plan.passes.3.columns", 0, 9), "not among the 4"),
        ("ensemble", swap("plan.blocks.1.plan.base", None), "is missing"),
        ("ensemble", put("state.adopted", None), "manifest.state"),
        ("ensemble", put("parameters.members", [1]), "never stored"),
        # a costly model, and who may have one
        ("adaptive", put("plan.blocks.1.name", 3), "expected a string"),
        ("adaptive", put("plan.blocks.1.n_classes", 1), "expected a whole number in"),
        ("adaptive", put("plan.blocks.1.n_classes", 10**9), "expected a whole number in"),
        ("adaptive", put("plan.blocks.1.method", "fit"), "expected one of decision_function, predict, predict_proba"),
        ("adaptive", put("plan.blocks.1.method", "predict_proba"), "all but the first need a calibration"),
        ("adaptive", put("plan.blocks.1.function", "os:system"), "unknown field 'function'"),
        ("adaptive", swap("plan.blocks.1.calibration", None), "all but the first need a calibration"),
        ("adaptive", swap("plan.blocks.1.calibration", np.zeros((2, 2))), "has 1 columns of finite numbers"),
        ("adaptive", fill("plan.blocks.1.calibration", 0, np.inf), "has 1 columns of finite numbers"),
        ("adaptive", fill("plan.blocks.1.columns", 0, 4), "names a column that is not among the 4"),
        ("adaptive", fill("plan.blocks.1.columns", 0, -1), "reads columns from 0 on"),
        ("adaptive", swap("plan.blocks.1.probe", np.zeros((3, 5))), "rows of 5 columns, not 4"),
        ("adaptive", swap("plan.blocks.1.probe", np.zeros((2, 4))), "do not match"),
        ("adaptive", swap("plan.blocks.1.columns", np.empty(0, dtype=np.int32)), "names no column"),
        ("adaptive", swap("plan.blocks.1.columns", np.array([1, 1], dtype=np.int32)), "names a column twice"),
        ("adaptive", swap("plan.blocks.1.probe", None), "do not match"),
        (
            "adaptive",
            both(swap("plan.blocks.1.probe", np.zeros((0, 4))), swap("plan.blocks.1.said", np.zeros((0, 1)))),
            "has no rows",
        ),
        ("adaptive", swap("plan.blocks.1.said", np.zeros((3, 2))), "do not match"),
        ("adaptive", fill("plan.blocks.1.said", 0, np.nan), "must be finite"),
        ("adaptive", put("plan.passes.0.doubt", -1), "expected a number in"),
        ("adaptive", both(put("unsaved", {}), put("parameters.costly", [0.5])), "never stored"),
        ("adaptive", put("state.threshold_", "high"), "threshold_ must be a number"),
        ("adaptive", put("estimator", "AnytimeClassifier"), "has no stage whose model is not in the file"),
        ("gated", costly_gate, "a gate is in the file itself"),
    ],
)  # fmt: skip
def test_a_file_that_says_something_impossible_is_refused(name: str, change: Any, message: str) -> None:
    refused(spoiled(name, change), message)


# ---------------------------------------------------------------------- malice: small files that ask for much work


def quickly_refused_or_loaded(raw: bytes, message: str | None) -> None:
    began = time.process_time()
    if message is None:
        loaded(raw)
    else:
        refused(raw, message)
    assert time.process_time() - began < 10


@pytest.mark.parametrize(("count", "message"), [(1000, None), (100_000, "are possible in this file")])
def test_stages_that_do_nothing_are_bounded(count: int, message: str | None) -> None:
    def change(parts: cases.Parts) -> None:
        start = parts.arrays[TREES + "stage_start"]
        parts.arrays[TREES + "stage_start"] = np.concatenate([start, np.full(count, start[-1])])
        del parts.arrays["plan.evaluation_costs"], parts.arrays["plan.quality"]

    quickly_refused_or_loaded(spoiled("boosted", change), message)


@pytest.mark.parametrize(
    ("count", "links", "message"),
    [
        (400, 1, None),
        (501, 1, "a chain of more than 500"),
        (30_000, 1, "a chain"),
        (400, 400, "require too much of each other"),
    ],
)
def test_requirements_that_explode_are_bounded(count: int, links: int, message: str | None) -> None:
    """A chain of 30,000 groups would close to 450 million entries."""

    def change(parts: cases.Parts) -> None:
        for i in range(count):
            needed = [f"n{j}" for j in range(max(0, i - links), i)]
            group = {"name": f"n{i}", "price": 1.0, "columns": [], "tail": 1.0, "requires": needed}
            parts.manifest["plan"]["costs"]["groups"].append(group)

    quickly_refused_or_loaded(spoiled("capped", change), message)


@pytest.mark.parametrize(("members", "message"), [(1000, None), (65_536, "used with too many columns")])
def test_a_set_of_categories_that_many_columns_use_is_bounded(members: int, message: str | None) -> None:
    """65,536 members in 1,000 columns would be ranked as 65 million."""
    raw = chain_of_columns(1000, 1, np.arange(members, dtype=np.int32))
    assert len(raw) < 150_000
    quickly_refused_or_loaded(raw, message)


@pytest.mark.parametrize(("stages", "message"), [(10, None), (100, "require too much of")])
def test_closing_the_groups_of_every_stage_is_bounded(stages: int, message: str | None) -> None:
    steps = [
        {"name": f"s{i}", "price": 1.0, "columns": [], "requires": [f"s{i - 1}"] if i else []}
        for i in range(200)
    ]
    groups = [{"name": f"g{i}", "price": 1.0, "columns": [i], "requires": ["s199"]} for i in range(1000)]
    raw = chain_of_columns(1000, stages, None, [*steps, *groups], 200 + np.arange(1000, dtype=np.int32))
    quickly_refused_or_loaded(raw, message)


def chain_of_columns(
    d: int, stages: int, members: Any, groups: Any = None, column_group: Any = None
) -> bytes:
    """One tree per stage, a chain of ``d`` nodes that test one column each, against a set of categories if given."""
    size = 2 * d + 1
    feature, left, right, sets = (np.full(size, -1, dtype=np.int32) for _ in range(4))
    feature[:-1:2], left[:-1:2], right[:-1:2] = np.arange(d), np.arange(1, size, 2), np.arange(2, size, 2)
    if members is not None:
        sets[:-1:2] = 0
    flags = np.zeros(size * stages, dtype=np.uint8)
    own = {
        "tree_start": np.arange(stages + 1) * size,
        "stage_start": np.arange(stages + 1),
        **{
            name: np.tile(a, stages)
            for name, a in (("feature", feature), ("left", left), ("right", right), ("category_set", sets))
        },
        **dict.fromkeys(["default_left", "missing", "members_left"], flags),
        "threshold": np.zeros(size * stages),
        "category_start": np.array([0] if members is None else [0, len(members)]),
        "categories": np.zeros(0, dtype=np.int32) if members is None else members,
        "value": np.zeros((size * stages, 1)),
        "tree_output": np.zeros(stages, dtype=np.int32),
    }

    def change(parts: cases.Parts) -> None:
        parts.arrays.update({TREES + name: array for name, array in own.items()})
        parts.arrays["plan.column_group"] = (
            np.zeros(d, dtype=np.int32) if column_group is None else column_group
        )
        parts.manifest["plan"]["blocks"][0]["n_features"] = parts.manifest["features"]["count"] = d
        listed = [{"name": "g", "price": 1.0, "columns": list(range(d))}] if groups is None else groups
        parts.manifest["plan"]["costs"] = {"unit": None, "groups": listed}
        parts.manifest["parameters"]["costs"] = None
        columns(n_features=d)(parts)

    return spoiled("capped", change)


# ---------------------------------------------------------------------- versions


def test_a_newer_file_says_to_upgrade() -> None:
    refused(spoiled("boosted", put("schema", 2)), "2 is newer than 1; upgrade anytime to load this file")


def test_an_older_file_is_refused() -> None:
    refused(spoiled("boosted", put("schema", 0)), "version 0 is older than any that this library can read")


# ---------------------------------------------------------------------- messages


def test_messages_name_the_file_and_the_place(tmp_path: Path) -> None:
    path = tmp_path / "bad.anytime"
    path.write_bytes(spoiled("boosted", lambda p: p.manifest["plan"]["blocks"][0].update(shift=2000)))
    with pytest.raises(BadFileError) as error:
        load(path)
    expected = f"{path}: manifest.plan.blocks[0].shift: expected a whole number in [-1000, 1000], found 2000"
    assert str(error.value) == expected
    assert isinstance(error.value, ValueError)


def test_describe_checks_what_it_shows() -> None:
    with pytest.raises(BadFileError, match="expected a number"):
        describe(io.BytesIO(spoiled("gated", put("plan.costs.groups.0.price", "x"))))
