"""What ``fuzz_http.py`` sends to a server: valid requests of every kind, and ways to spoil them."""

from __future__ import annotations

import copy
import gzip
import json
import random
import struct
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd

import anytime as at

__all__ = ["CONTROL", "KINDS", "Requests", "served_models"]

KINDS = ("head", "bytes", "json", "tensors")
SHARES = (25, 20, 35, 20)
COLUMNS = ["age", "sex", "iron", "sugar", "size"]
ROW = [0.5, 1.0, -0.5, 0.25, 2.0]
COSTS = at.FeatureCosts(
    groups={"record": ["age", "sex"], "blood": ["iron", "sugar"], "scan": ["size"]},
    prices={"record": 1.0, "blood": 5.0, "scan": 20.0},
)


def served_models() -> dict[str, Any]:
    """A classifier whose columns cost, and a regressor with a column of words."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(300, 5)), columns=COLUMNS)
    X.iloc[::9, 3] = np.nan
    ill = np.where(X["age"] + X["iron"] - X["size"] > 0, "ill", "well")
    words = X.assign(ward=np.where(X["age"] > 0, "north", "south"))
    return {
        "patients": at.GradientBoostingClassifier(costs=COSTS, n_estimators=10).fit(X, ill),
        "value": at.GradientBoostingRegressor(n_estimators=8).fit(words, X["size"]),
    }


# ---------------------------------------------------------------------- valid requests


@dataclass(frozen=True)
class Request:
    """One request of HTTP in its parts."""

    method: str
    path: str
    document: Any = None  # what the body says, if it is JSON
    tail: bytes = b""  # binary tensors behind it
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def body(self) -> bytes:
        """The document and the bytes behind it."""
        return (b"" if self.document is None else json.dumps(self.document).encode()) + self.tail

    def bytes(self, body: bytes | None = None) -> bytes:
        """The request as it is sent; its length is right."""
        body = self.body if body is None else body
        headers = {"Host": "localhost", "Content-Length": str(len(body)), **self.headers}
        if self.tail:
            headers.setdefault("Inference-Header-Content-Length", str(len(json.dumps(self.document))))
        lines = [
            f"{self.method} {self.path} HTTP/1.1",
            *(f"{name}: {value}" for name, value in headers.items()),
        ]
        return "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n" + body


def _tensor(name: str, values: list[Any], datatype: str, shape: list[int]) -> dict[str, Any]:
    return {"name": name, "shape": shape, "datatype": datatype, "data": values}


def _binary(name: str, values: np.ndarray[Any, Any], datatype: str) -> dict[str, Any]:
    sizes = {"binary_data_size": values.nbytes}
    return {"name": name, "shape": list(values.shape), "datatype": datatype, "parameters": sizes}


INFER = "/v2/models/patients/infer"
_COLUMNWISE = [_tensor(name, [0.1, 0.2], "FP32", [2, 1]) for name in COLUMNS]
_WORDS = [
    *(_tensor(name, [0.5], "FP64", [1]) for name in COLUMNS),
    _tensor("ward", ["north"], "BYTES", [1]),
]
_MATRIX = np.array([ROW, ROW])
VALID = [
    Request("POST", "/predict", {"model": "patients", "row": ROW, "probabilities": True}),
    Request("POST", "/predict", {"model": "patients", "rows": [ROW, ROW], "budget": 6, "deadline_ms": 50}),
    Request(
        "POST",
        "/predict",
        {"model": "patients", "row": dict(zip(COLUMNS, ROW, strict=True)), "confidence": 0.9},
    ),
    Request("POST", "/predict", {"model": "patients", "groups": {"record": [0.5, 1.0]}, "mean_budget": 3}),
    Request("POST", "/predict", {"model": "value", "row": [*ROW, "north"], "version": None}),
    Request(
        "POST",
        "/next",
        {"model": "patients", "row": {"age": 0.5, "sex": 1}, "bought": ["record"], "budget": 30},
    ),
    Request("POST", "/stream", {"model": "patients", "row": ROW}),
    Request("POST", "/v2/repository/index", {"ready": True}),
    Request("POST", "/v2/repository/models/patients/load", {"parameters": {}}),
    Request("GET", "/v2/models/patients/config"),
    Request("GET", "/stats"),
    Request("GET", "/metrics"),
    Request("GET", "/"),
]
VALID_TENSORS = [
    Request("POST", INFER, {"inputs": [_tensor("X", ROW, "FP64", [1, 5])], "id": "7"}),
    Request(
        "POST", INFER, {"inputs": _COLUMNWISE, "outputs": [{"name": "cost"}], "parameters": {"budget": 6}}
    ),
    Request("POST", "/v2/models/value/infer", {"inputs": _WORDS, "parameters": {"deadline_ms": 50}}),
    Request("POST", INFER, {"inputs": [_binary("X", _MATRIX, "FP64")]}, _MATRIX.tobytes()),
    Request(
        "POST",
        "/v2/models/value/infer",
        {
            "inputs": [
                *(_binary(name, np.ones((1, 1), np.float32), "FP32") for name in COLUMNS),
                {"name": "ward", "shape": [1, 1], "datatype": "BYTES", "parameters": {"binary_data_size": 9}},
            ],
            "parameters": {"binary_data_output": True},
        },
        np.ones(5, np.float32).tobytes() + struct.pack("<I", 5) + b"north",
    ),
]
CONTROL = VALID[0].bytes()  # is answered alike, whatever came before it


# ---------------------------------------------------------------------- ways to spoil them

SCALARS = [
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, -(2**70), 1e308, -1e308, 5e-324, 1e39, 0.1),
    *("", "north", "nan", "1.5", "é\u2028\x00", "\ud800", "X" * 300, "patients", "age", "FP64", "BYTES"),
    *([], {}, [[]], [None], {"": 0}, [[ROW]], {"age": {"age": 1}}, list(range(60)), [ROW] * 60),
]
NAMES = ["model", "version", "row", "rows", "groups", "raw", "raws", "budget", "deadline_ms", "confidence"]
NAMES += [
    "inputs",
    "outputs",
    "parameters",
    "shape",
    "datatype",
    "data",
    "name",
    "binary_data_size",
    "bought",
    "nix",
]


def _places(value: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to all that stands in a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, entry in inner for place in ((*above, key), *_places(entry, (*above, key)))]


def _respelled(rng: random.Random, document: Any) -> Any:
    """A document of which one to three values were replaced, moved, removed, repeated, renamed or wrapped."""
    document = copy.deepcopy(document)
    for _ in range(rng.randint(1, 3)):
        places = _places(document)
        if not places:
            return rng.choice(SCALARS)
        *above, key = rng.choice(places)
        holder = document
        for step in above:
            holder = holder[step]
        way = rng.randrange(7)
        if way <= 1:
            holder[key] = copy.deepcopy(rng.choice(SCALARS))
        elif way == 2:
            del holder[key]
        elif way == 3:
            source = document
            for step in rng.choice(places):
                if not isinstance(source, list | dict):
                    break
                source = source[step] if isinstance(source, list) or step in source else source
            holder[key] = copy.deepcopy(source)
        elif way == 4 and isinstance(holder, dict):
            holder[rng.choice(NAMES)] = holder.pop(key)
        elif way == 5:
            holder[key] = rng.choice(
                [[holder[key]], {"age": holder[key]}, [holder[key]] * rng.choice([2, 70])]
            )
        elif isinstance(holder[key], int | float):
            holder[key] = rng.choice([-holder[key], holder[key] + 0.5, holder[key] * 1e30, str(holder[key])])
        elif isinstance(holder, list):
            holder.extend(copy.deepcopy(holder[:3]))
    return document


def _torn(rng: random.Random, raw: bytes) -> bytes:
    """Bytes of which some were flipped, cut out, repeated, put in or exchanged."""
    data = bytearray(raw or b"{}")
    for _ in range(rng.choice([1, 1, 2, 5, 20])):
        i, j = sorted(rng.randrange(len(data) + 1) for _ in range(2))
        way = rng.randrange(6)
        if way <= 1 and data:
            data[rng.randrange(len(data))] = rng.randrange(256)
        elif way == 2:
            del data[i : min(j, i + 8)]
        elif way == 3:
            data[i:i] = data[i : min(j, i + 40)]
        elif way == 4:
            data[i:i] = rng.choice(
                [b"[" * 200, b"\x00", b"\xff\xfe", b"NaN", b"1e999", b'"\\ud800"', b"//", b",,"]
            )
        else:
            del data[i:]
    return bytes(data)


def _torn_request(rng: random.Random, request: Request) -> bytes:
    """A valid head before a torn body; sometimes the body is said to be packed."""
    body = _torn(rng, request.body)
    if rng.random() < 0.15:
        way = rng.choice(["gzip", "deflate", "zstd", "identity", "gzip, gzip"])
        body = _torn(rng, gzip.compress(body)) if rng.random() < 0.5 else gzip.compress(body)
        request = replace(request, headers={**request.headers, "Content-Encoding": way})
    return request.bytes(body)


def _spoilt_tensors(rng: random.Random, request: Request) -> bytes:
    """Sizes, shapes, types and lengths that contradict each other or the bytes behind them."""
    if rng.random() < 0.3:
        request = replace(request, tail=_torn(rng, request.tail) if request.tail else rng.randbytes(16))
    if rng.random() < 0.25:
        length = rng.choice(
            ["0", "-1", "1e3", "5", "99999999999999999999", "", "0x10", str(len(request.body) + 1)]
        )
        request = replace(request, headers={"Inference-Header-Content-Length": length})
    return replace(request, document=_respelled(rng, request.document)).bytes()


def _spoilt_head(rng: random.Random, request: Request) -> bytes:
    """What no client of HTTP sends: heads and lengths that lie, are cut off, or are none."""
    raw = request.bytes()
    line, _, rest = raw.partition(b"\r\n")
    method, target, version = line.split(b" ")
    head, _, body = rest.partition(b"\r\n\r\n")
    junk = rng.randbytes(rng.randint(1, 40))
    way = rng.randrange(12)
    if way == 0:
        method = rng.choice(
            [
                b"",
                b"get",
                b"PUT",
                b"POST POST",
                b"CONNECT",
                b"TRACE",
                b"OPTIONS",
                b"HEAD",
                b"PRI",
                b"A" * 9000,
                junk,
            ]
        )
    elif way == 1:
        targets = [
            b"*",
            b"",
            b"/" * 3000,
            b"/%",
            b"/%zz%00",
            b"/..%2f..%2fetc",
            b"http://a/predict",
            b"/v2/models/%ff/infer",
        ]
        target = rng.choice(
            [
                *targets,
                b"/predict?" + junk,
                b"/x" * 40_000,
                b"/\x00",
                b"?a=b",
                b"/v2/models/" + junk.hex().encode() * 9,
            ]
        )
    elif way == 2:
        version = rng.choice(
            [
                b"HTTP/1.0",
                b"HTTP/0.9",
                b"HTTP/2.0",
                b"HTTP/9.99",
                b"HTTP/1.1 ",
                b"",
                b"HTTQ/1.1",
                b"HTTP/-1.1",
                junk,
            ]
        )
    elif way == 3:
        lengths = [
            b"-1",
            b"+5",
            b"0x10",
            b"1e3",
            b"18446744073709551616",
            b"9" * 40,
            b"",
            b" ",
            b"5, 6",
            b"99999999",
            b"0",
        ]
        head += b"\r\nContent-Length: " + rng.choice(lengths)
    elif way == 4:
        chunks = [
            b"5\r\nabc",
            b"zz\r\nab\r\n0\r\n\r\n",
            b"-1\r\n",
            b"f" * 20 + b"\r\n",
            b"1;x=" + b"y" * 5000 + b"\r\na\r\n0\r\n\r\n",
        ]
        right = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        coding = rng.choice(
            [b"chunked", b"Chunked", b"chunked, chunked", b"gzip, chunked", b"identity", b"\x0bchunked"]
        )
        return b"%s %s %s\r\nHost: localhost\r\nTransfer-Encoding: %s\r\n\r\n%s" % (
            method,
            target,
            version,
            coding,
            rng.choice([*chunks, right, _torn(rng, right)]),
        )
    elif way == 5:
        names = [
            b"Host",
            b"Expect",
            b"Upgrade",
            b"Connection",
            b"Content-Type",
            b"Authorization",
            b"X-Request-Id",
            b"Cookie",
            b"Range",
        ]
        values = [
            b"",
            b"100-continue",
            b"websocket",
            b"h2c",
            b"close, upgrade",
            b"a" * 70_000,
            b"Bearer \xff\xfe",
            b"evil.example",
            junk.replace(b"\n", b""),
        ]
        head += b"\r\n" + rng.choice(names) + b": " + rng.choice(values)
    elif way == 6:
        head += b"\r\n" + rng.choice(
            [
                b"no colon",
                b": no name",
                b"a b: c",
                b"a\x00b: c",
                b" folded",
                b"a:" * 50,
                b"x: \x00",
                b"\xff: 1",
                junk,
            ]
        )
    elif way == 7:
        head += b"".join(b"\r\nX-%d: %d" % (i, i) for i in range(rng.choice([150, 3000])))
    elif way == 8:
        return raw.replace(b"\r\n", rng.choice([b"\n", b"\r", b"\r\r\n", b"\n\r"]))
    elif way == 9:
        return raw[: rng.randrange(1, len(raw))]
    elif way == 10:
        return raw + rng.choice([raw, junk, _torn(rng, raw), raw[: rng.randrange(1, len(raw))]])
    else:
        return rng.choice(
            [
                junk,
                b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + junk,
                b"\r\n" * 50 + raw,
                b"\x00" * 200,
                _torn(rng, raw),
                b"{" + body,
            ]
        )
    return b" ".join((method, target, version)) + b"\r\n" + head + b"\r\n\r\n" + body


class Requests:
    """Cases by number: the same number and seed always make the same bytes."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def make(self, number: int) -> tuple[str, bytes]:
        """The kind of a case and what is sent."""
        rng = random.Random(f"{self.seed}:{number}")
        kind = rng.choices(KINDS, SHARES)[0]
        if kind == "tensors":
            return kind, _spoilt_tensors(rng, rng.choice(VALID_TENSORS))
        if kind == "head":
            return kind, _spoilt_head(rng, rng.choice(VALID))
        request = rng.choice([valid for valid in VALID if valid.document is not None] + VALID_TENSORS)
        if request.path.endswith("/load") and rng.random() < 0.9:
            request = VALID[0]  # a model that is loaded again takes long
        if kind == "bytes":
            return kind, _torn_request(rng, request)
        return kind, replace(request, document=_respelled(rng, request.document)).bytes()
