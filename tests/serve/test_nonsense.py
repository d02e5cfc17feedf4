"""Whatever is sent, the server answers in one sentence and never with a failure of its own."""

from __future__ import annotations

import json
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anytime.serve.errors import Refusal
from anytime.serve.protocol import _from_json
from tests.serve.serving import Talking, application, table, with_words

PATHS = ["/predict", "/stream", "/v2/models/words/infer", "/next"]


@pytest.fixture(scope="module")
def talking(tmp_path_factory):
    talking = Talking(application(tmp_path_factory.mktemp("nonsense"), {"words": with_words()}, max_rows=50))
    yield talking
    talking.close()


def check(answer):
    """Answered, or refused in a sentence."""
    assert answer.status_code < 500, answer.text
    if answer.status_code >= 400:
        sentence = answer.json()["error"]
        assert 10 < len(sentence) < 400
        assert "\n" not in sentence


# ---------------------------------------------------------------------- anything at all

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8)
    | st.sampled_from([1e308, -1e308, 1e39, 2**63, 2**64, "north", "1.5", "nan", "inf"])
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=7) | st.dictionaries(st.text(max_size=6), inner, max_size=5),
    max_leaves=8,
)
NAMES = [*table()[0].columns, "ward"]
ROWS = (
    st.lists(SCALARS, min_size=5, max_size=7)
    | st.dictionaries(st.sampled_from([*NAMES, "nix"]), SCALARS)
    | ANYTHING
)
FIELDS = {
    "model": st.sampled_from(["words", "nobody"]) | ANYTHING,
    "version": ANYTHING,
    "rows": st.lists(ROWS, max_size=4) | ANYTHING,
    "row": ROWS,
    "groups": st.dictionaries(st.sampled_from([*NAMES, "nix"]), ROWS) | ANYTHING,
    "raw": ANYTHING,
    "raws": ANYTHING,
    "budget": SCALARS | ANYTHING,
    "deadline_ms": SCALARS | ANYTHING,
    "confidence": SCALARS | ANYTHING,
    "probabilities": st.booleans() | ANYTHING,
}
TENSORS = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["X", "raw", *NAMES]) | ANYTHING,
        "shape": st.lists(st.integers(-1, 7) | st.just(2**62), max_size=3) | ANYTHING,
        "datatype": st.sampled_from(["FP64", "FP32", "FP16", "BYTES", "BOOL", "INT8", "UINT64", "BF16"])
        | ANYTHING,
        "data": st.lists(SCALARS, max_size=14) | ANYTHING,
        "parameters": st.dictionaries(st.sampled_from(["binary_data_size"]), st.integers(-1, 100) | ANYTHING)
        | ANYTHING,
    },
)
INFERS = st.fixed_dictionaries(
    {"inputs": st.lists(TENSORS, max_size=7) | ANYTHING},
    optional={
        "id": ANYTHING,
        "outputs": st.lists(
            st.fixed_dictionaries({"name": st.sampled_from(["cost", "nix"])}) | ANYTHING, max_size=3
        )
        | ANYTHING,
        "parameters": st.dictionaries(
            st.sampled_from(["budget", "deadline_ms", "confidence", "timeout", "binary_data_output"]),
            ANYTHING,
        ),
    },
)
_MANY = settings(max_examples=40, suppress_health_check=list(HealthCheck))


@_MANY
@given(path=st.sampled_from(PATHS), body=ANYTHING)
def test_any_json(talking, path, body):
    check(talking.post(path, json.dumps(body)))


@_MANY
@given(path=st.sampled_from(PATHS[:2]), body=st.fixed_dictionaries({}, optional=FIELDS))
def test_what_looks_like_a_plain_request(talking, path, body):
    check(talking.post(path, json.dumps(body)))


@_MANY
@given(
    body=st.fixed_dictionaries(
        {},
        optional={
            "row": ROWS,
            "bought": st.lists(st.sampled_from([*NAMES, "nix"]), max_size=3) | ANYTHING,
            "budget": SCALARS,
        },
    )
)
def test_what_looks_like_a_question_of_what_to_buy_next(talking, body):
    check(talking.post("/next", json.dumps(body)))


@_MANY
@given(body=INFERS)
def test_what_looks_like_a_request_of_the_protocol(talking, body):
    check(talking.post(PATHS[2], json.dumps(body)))


@_MANY
@given(
    path=st.sampled_from(PATHS),
    body=st.binary(max_size=60),
    headers=st.dictionaries(
        st.sampled_from(
            [
                "Inference-Header-Content-Length",
                "Content-Encoding",
                "Content-Type",
                "X-Request-Id",
                "Authorization",
            ]
        ),
        st.sampled_from(["0", "5", "-1", "1e3", "gzip", "deflate", "zstd", "Bearer x"])
        | st.text(st.characters(codec="ascii", exclude_categories=["C"]), max_size=9),
    ),
)
def test_any_bytes(talking, path, body, headers):
    check(talking.post(path, body, {name: value.strip() for name, value in headers.items()}))


@_MANY
@given(inputs=st.lists(TENSORS, max_size=4), tail=st.binary(max_size=200), off=st.integers(-3, 3))
def test_binary_tensors_of_any_kind(talking, inputs, tail, off):
    head = json.dumps({"inputs": inputs}).encode()
    length = str(max(0, len(head) + off))
    check(talking.post(PATHS[2], head + tail, {"Inference-Header-Content-Length": length}))


@given(
    rows=st.lists(
        st.tuples(
            *[st.none() | st.floats(-1e6, 1e6) | st.integers(-1000, 1000)] * 5,
            st.none() | st.sampled_from(["north", "else"]),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_every_row_that_is_right_is_answered(talking, rows):
    """The counterpart: what is not nonsense is not refused."""
    answer = talking.post("/predict", json.dumps({"rows": rows}))
    assert answer.status_code == 200
    assert len(answer.json()["predictions"]) == len(rows)


# ---------------------------------------------------------------------- the sentences

GOOD = [0.0] * 5 + ["north"]
NULL = " (a missing value is null; NaN and Infinity are not JSON)"
FIELD_NAMES = "budget, confidence, deadline_ms, groups, mean_budget, model, probabilities, raw, raws, row, rows, version"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b'{"row": [NaN]}', f"the body is not valid JSON: unexpected character, expected a JSON value{NULL}"),
        (b'{"row": [1e999]}', f"the body is not valid JSON: number is infinity when parsed as double{NULL}"),
        (b"[" * 5000, f"the body is not valid JSON: depth limit exceeded{NULL}"),
        (b"[1]", "the body must be a JSON object, not a list of 1"),
        ({}, "a request needs rows, row, groups, raw or raws"),
        ({"rows": []}, "rows must be a list of at least one row, not a list of 0"),
        ({"rows": [[1, 2], [1]]}, "row 0 has 2 values, but the model takes 6"),
        ({"row": ["old", *GOOD[1:]]}, "row 0, column 'age': expected a number, found 'old'"),
        ({"row": ["1.5", *GOOD[1:]]}, "row 0, column 'age': expected a number, found '1.5'"),
        ({"row": [[1.0], *GOOD[1:]]}, "row 0, column 'age': expected a number, found a list of 1"),
        ({"row": [{"a": 1}, *GOOD[1:]]}, "row 0, column 'age': expected a number, found an object of 1"),
        ({"row": [*GOOD[:5], 3]}, "row 0, column 'ward': expected a category such as 'east', found 3"),
        ({"row": {"agee": 1}}, "the model has no column 'agee'; did you mean 'age'?"),
        (
            {"rows": [{"age": 1}, {"sex": 1}]},
            "row 1 has other columns than row 0; all rows of a call need the same columns: "
            "give None for a missing value",
        ),
        ({"groups": {"agee": 1}}, "the model has no group 'agee'; did you mean 'age'?"),
        ({"row": GOOD, "budget": -1}, "budget must be a non-negative number, not -1"),
        ({"row": GOOD, "budget": "much"}, "budget must be a non-negative number, not 'much'"),
        ({"row": GOOD, "deadline_ms": [1]}, "deadline_ms must be a non-negative number, not a list of 1"),
        ({"row": GOOD, "confidence": 2}, "confidence must be above 0 and at most 1, not 2"),
        ({"row": GOOD, "confidence": 0}, "confidence must be above 0 and at most 1, not 0"),
        ({"row": GOOD, "bugdet": 1}, f"unknown field 'bugdet'; a request has {FIELD_NAMES}"),
        ({"row": GOOD, "rows": [GOOD]}, "give one of rows, row and groups, not rows and row"),
        ({"raw": "image"}, "this server has no extractors, so that raw examples cannot be answered; send columns"),
    ],
)  # fmt: skip
def test_sentences_say_what_is_wrong(talking, body, sentence):
    answer = talking.post("/predict", body if isinstance(body, bytes) else json.dumps(body))
    assert (answer.status_code, answer.json()["error"]) == (400, sentence)


@pytest.mark.parametrize(
    ("name", "shape", "data", "sentence"),
    [
        ("X", [1] * 50_000, [1], "input 'X': shape must be a list of 1 to 4 sizes, not a list of 50000"),
        ("X", [0] * 40, [], "input 'X': shape must be a list of 1 to 4 sizes, not a list of 40"),
        ("X", [], [1], "input 'X': shape must be a list of 1 to 4 sizes, not a list of 0"),
        ("X", [1, 2**50], [1], "input 'X': a size of its shape is 1125899906842624"),
        ("n" * 5000, [1, 6], [1], f"input '{'n' * 56}...: 1 values do not fill shape [1, 6]"),
    ],
)
@pytest.mark.realtime
def test_odd_shapes_are_refused_quickly_and_shortly(talking, name, shape, data, sentence):
    body = {"inputs": [{"name": name, "shape": shape, "datatype": "FP64", "data": data}]}
    began = time.perf_counter()
    answer = talking.post(PATHS[2], json.dumps(body))
    assert (answer.status_code, answer.json()["error"]) == (400, sentence)
    assert time.perf_counter() - began < 1.0  # the product of many sizes took 12 s


def test_a_long_word_among_numbers_takes_no_memory():
    """NumPy would make every value of the array as long as the longest word."""
    word, numbers = "w" * 100_000, [0.5] * 20_000
    tracemalloc.start()
    try:
        with pytest.raises(Refusal, match="expected a number, found 'www"):
            _from_json("'X'", [*numbers, word], "FP64", [20_001, 1], 20_001)
        assert tracemalloc.get_traced_memory()[1] < 5e6  # not 8 GB
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinity_in_bytes_is_refused(talking, value):
    X = np.zeros((2, 5))
    X[1, 3] = value
    server = talking.server
    names = [*table()[0].columns]
    head = {
        "inputs": [
            {"name": name, "shape": [2], "datatype": "FP64", "parameters": {"binary_data_size": 16}}
            for name in names
        ]
    }
    raw = json.dumps(head).encode()
    answer = talking.post(PATHS[2], raw + X.T.tobytes(), {"Inference-Header-Content-Length": str(len(raw))})
    assert server.registry.get("words").tensors.reader.takes_missing
    assert answer.status_code == 400
    assert answer.json()["error"] == "row 1, column 'sugar': the value is infinite or too large"
