"""Clients that others wrote, against a server that runs: Triton's own, and the schemas of the Open Inference Protocol."""

from __future__ import annotations

import socket

import numpy as np
import pytest
import tritonclient.http as triton
from jsonschema_rs import Draft202012Validator
from tritonclient.utils import InferenceServerException

from tests.serve.serving import classifier, running, table, with_words


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    models = {"patients": classifier(), "words": with_words()}
    with running(tmp_path_factory.mktemp("triton"), "--slo-ms", 5000, models=models) as server:
        yield server


@pytest.fixture(scope="module")
def client(server):
    client = triton.InferenceServerClient(f"127.0.0.1:{server.port}")
    yield client
    client.close()


def matrix(X, datatype="FP64", *, binary=True):
    given = triton.InferInput("X", list(X.shape), datatype)
    given.set_data_from_numpy(X, binary_data=binary)
    return given


# ---------------------------------------------------------------------- Triton's client


def test_triton_health(client):
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("patients")
    assert not client.is_model_ready("nobody")


def test_triton_metadata(client):
    assert client.get_server_metadata()["name"] == "anytime"
    model = client.get_model_metadata("patients")
    assert [output["name"] for output in model["outputs"]][:2] == ["prediction", "probabilities"]
    version = model["versions"][-1]
    assert client.get_model_metadata("patients", version)["name"] == "patients"
    assert client.get_model_config("patients")["max_batch_size"] == 0
    with pytest.raises(InferenceServerException, match="there is no model 'nobody'"):
        client.get_model_metadata("nobody")


@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False, None])  # None: no outputs named, all of them as bytes
def test_triton_infers(client, binary_in, binary_out):
    X, _ = table()
    names = ["prediction", "probabilities", "cost", "stage", "partial"]
    outputs = (
        None
        if binary_out is None
        else [triton.InferRequestedOutput(n, binary_data=binary_out) for n in names]
    )
    rows = X.to_numpy()[:9]
    result = client.infer("patients", [matrix(rows, binary=binary_in)], outputs=outputs, request_id="nine")
    expected = classifier().answer(X[:9])
    labels = [v.decode() if isinstance(v, bytes) else v for v in result.as_numpy("prediction")]
    assert labels == expected.prediction.tolist()
    np.testing.assert_array_equal(result.as_numpy("probabilities"), expected.probabilities)
    np.testing.assert_array_equal(result.as_numpy("cost"), expected.cost)
    np.testing.assert_array_equal(result.as_numpy("stage"), expected.stage)
    assert not result.as_numpy("partial").any()
    assert result.get_response()["id"] == "nine"


@pytest.mark.parametrize("datatype", ["FP16", "FP32", "INT8", "INT32", "INT64", "UINT8", "BOOL"])
def test_triton_sends_other_numbers(client, datatype):
    rows = np.array([[0, 1, 0, 1, 1], [1, 1, 0, 0, 1]]).astype(triton.triton_to_np_dtype(datatype))
    result = client.infer("patients", [matrix(rows, datatype)])
    expected = classifier().predict_proba(
        table()[0]
        .iloc[:0]
        .reindex(range(2))
        .assign(**dict(zip(table()[0], rows.T.astype(float), strict=True)))
    )
    np.testing.assert_array_equal(result.as_numpy("probabilities"), expected)


def test_triton_sends_columns_and_words(client):
    X, _ = table()
    inputs = []
    for name in X:
        given = triton.InferInput(name, [2, 1], "FP64")
        given.set_data_from_numpy(X[[name]].to_numpy()[:2])
        inputs.append(given)
    ward = triton.InferInput("ward", [2, 1], "BYTES")
    ward.set_data_from_numpy(np.array([["north"], ["östlich"]], dtype=object))
    result = client.infer("words", [*inputs, ward])
    expected = with_words().predict_proba(X[:2].assign(ward=["north", None]).astype({"ward": "category"}))
    np.testing.assert_array_equal(result.as_numpy("probabilities"), expected)


def test_triton_gives_a_budget_or_a_timeout(client):
    X, _ = table()
    rows = X.to_numpy()[:4]
    result = client.infer("patients", [matrix(rows)], parameters={"budget": 6.0})
    np.testing.assert_array_equal(result.as_numpy("cost"), classifier().answer(X[:4], budget=6.0).cost)
    hurried = client.infer("patients", [matrix(rows)], timeout=1)  # a microsecond
    assert hurried.as_numpy("partial").all()


@pytest.mark.parametrize("algorithm", ["gzip", "deflate"])
def test_triton_compresses_both_ways(client, algorithm):
    rows = table()[0].to_numpy()[:50]
    result = client.infer(
        "patients",
        [matrix(rows)],
        request_compression_algorithm=algorithm,
        response_compression_algorithm=algorithm,
    )
    assert result.as_numpy("stage").tolist() == [20] * 50


def test_triton_controls_models(client):
    client.load_model("patients")
    assert {model["name"]: model["state"] for model in client.get_model_repository_index()} == {
        "patients": "READY",
        "words": "READY",
    }
    with pytest.raises(InferenceServerException, match="not unloaded"):
        client.unload_model("patients")
    with pytest.raises(InferenceServerException, match="there is no model"):
        client.load_model("nobody")


def test_triton_statistics(client):
    before = client.get_inference_statistics("patients")["model_stats"][0]["inference_count"]
    client.infer("patients", [matrix(table()[0].to_numpy()[:3])])
    assert client.get_inference_statistics("patients")["model_stats"][0]["inference_count"] == before + 3


def test_triton_asks_many_at_once(server):
    X, _ = table()
    rows = X.to_numpy()
    expected = classifier().predict_proba(X)
    with triton.InferenceServerClient(f"127.0.0.1:{server.port}", concurrency=8) as client:
        asked = [client.async_infer("patients", [matrix(rows[i : i + 1])]) for i in range(100)]
        for i, answer in enumerate(asked):
            np.testing.assert_array_equal(answer.get_result().as_numpy("probabilities")[0], expected[i])


def test_triton_is_refused_in_one_sentence(client):
    with pytest.raises(InferenceServerException, match=r"expected shape \[n, 5\], found \[2, 4\]"):
        client.infer("patients", [matrix(np.zeros((2, 4)))])
    with pytest.raises(InferenceServerException, match="row 0, column 'age': the value is infinite"):
        client.infer("patients", [matrix(np.full((1, 5), np.inf))])


# ---------------------------------------------------------------------- on the wire


def test_an_answer_leaves_in_one_piece(server):
    body = b'{"model": "patients", "row": [0, 0, 0, 0, 0]}'
    head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n" % len(body)
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as wire:
        for _ in range(5):
            wire.sendall(head + b"\r\n" + body)
            answer = wire.recv(1 << 16)
            assert answer.startswith(b"HTTP/1.1 200 OK")
            assert answer.endswith(b"}")
        wire.sendall(head + b"Expect: 100-continue\r\n\r\n")  # a client that waits to be told to go on
        assert wire.recv(1 << 16) == b"HTTP/1.1 100 Continue\r\n\r\n"
        wire.sendall(body)
        assert wire.recv(1 << 16).startswith(b"HTTP/1.1 200 OK")
        wire.sendall(b"HEAD /nix HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert wire.recv(1 << 16).startswith(b"HTTP/1.1 404")
        assert wire.recv(1 << 16) == b""


def test_too_large_a_body_is_refused_before_it_is_sent(server):
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as wire:
        wire.sendall(b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n")
        assert wire.recv(1 << 16).startswith(b"HTTP/1.1 413")


# ---------------------------------------------------------------------- the protocol's schemas

# As the specification of the protocol has them (KServe, "Open Inference Protocol (V2)", HTTP/REST).
_TENSOR = {
    "type": "object",
    "required": ["name", "shape", "datatype", "data"],
    "properties": {
        "name": {"type": "string"},
        "shape": {"type": "array", "items": {"type": "integer"}},
        "datatype": {
            "enum": [
                "BOOL",
                "UINT8",
                "UINT16",
                "UINT32",
                "UINT64",
                "INT8",
                "INT16",
                "INT32",
                "INT64",
                "FP16",
                "FP32",
                "FP64",
                "BYTES",
            ]
        },
        "parameters": {"type": "object"},
        "data": {"type": "array"},
    },
    "additionalProperties": False,
}
_METADATA_TENSOR = {
    "type": "object",
    "required": ["name", "datatype", "shape"],
    "properties": {
        "name": {"type": "string"},
        "datatype": {"type": "string"},
        "shape": {"type": "array", "items": {"type": "integer"}},
    },
    "additionalProperties": False,
}
SCHEMAS = {
    "live": {"type": "object", "required": ["live"], "properties": {"live": {"type": "boolean"}}},
    "ready": {"type": "object", "required": ["ready"], "properties": {"ready": {"type": "boolean"}}},
    "model ready": {
        "type": "object",
        "required": ["name", "ready"],
        "properties": {"name": {"type": "string"}, "ready": {"type": "boolean"}},
    },
    "server": {
        "type": "object",
        "required": ["name", "version", "extensions"],
        "properties": {
            "name": {"type": "string"},
            "version": {"type": "string"},
            "extensions": {"type": "array", "items": {"type": "string"}},
        },
        "additionalProperties": False,
    },
    "model": {
        "type": "object",
        "required": ["name", "platform", "inputs", "outputs"],
        "properties": {
            "name": {"type": "string"},
            "versions": {"type": "array", "items": {"type": "string"}},
            "platform": {"type": "string"},
            "inputs": {"type": "array", "items": _METADATA_TENSOR},
            "outputs": {"type": "array", "items": _METADATA_TENSOR},
        },
        "additionalProperties": False,
    },
    "inference": {
        "type": "object",
        "required": ["model_name", "outputs"],
        "properties": {
            "model_name": {"type": "string"},
            "model_version": {"type": "string"},
            "id": {"type": "string"},
            "parameters": {"type": "object"},
            "outputs": {"type": "array", "items": _TENSOR},
        },
        "additionalProperties": False,
    },
    "error": {
        "type": "object",
        "required": ["error"],
        "properties": {"error": {"type": "string"}},
        "additionalProperties": False,
    },
}


def check(schema, answer):
    Draft202012Validator(SCHEMAS[schema]).validate(answer)


@pytest.mark.parametrize(
    ("path", "schema"),
    [
        ("/v2", "server"),
        ("/v2/health/live", "live"),
        ("/v2/health/ready", "ready"),
        ("/v2/models/patients", "model"),
        ("/v2/models/words", "model"),
        ("/v2/models/patients/ready", "model ready"),
    ],
)
def test_answers_to_get_are_those_of_the_protocol(server, path, schema):
    status, answer = server.request(path)
    assert status == 200
    check(schema, answer)


def test_answers_to_infer_are_those_of_the_protocol(server):
    """The request is that of KServe's own examples: nested data, a 32-bit datatype, an id, parameters."""
    rows = table()[0].to_numpy()[:2].tolist()
    request = {
        "id": "42",
        "parameters": {"content_type": "np", "headers": None},
        "inputs": [{"name": "input-0", "shape": [2, 5], "datatype": "FP32", "data": rows}],
    }
    version = server.request("/v2/models/patients")[1]["versions"][0]
    for path in ("/v2/models/patients/infer", f"/v2/models/patients/versions/{version}/infer"):
        status, answer = server.request(path, request)
        assert status == 200
        check("inference", answer)
        assert answer["id"] == "42"
        assert answer["model_version"] == version


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v2/models/nobody", None, 404),
        ("/v2/models/nobody/infer", {"inputs": []}, 404),
        ("/v2/models/patients/infer", {"inputs": []}, 400),
        ("/v2/models/patients/infer", {}, 400),
        ("/v2/models/patients/versions/7/infer", {}, 404),
    ],
)
def test_errors_are_those_of_the_protocol(server, path, body, status):
    found, answer = server.request(path, body)
    assert found == status
    check("error", answer)
