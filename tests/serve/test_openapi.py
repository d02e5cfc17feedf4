"""Schemathesis over the OpenAPI document: nothing that it describes, or nearly describes, makes the server fail."""

from __future__ import annotations

import json

import pytest
import schemathesis
from fastapi.routing import APIRoute
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.serve.serving import Talking, application, classifier, regressor, table

ENDLESS = "/stats/stream"
EXCLUSIVE = {"row", "rows", "groups", "raw", "raws", "version"}  # give one of them


@pytest.fixture(scope="module")
def talking(tmp_path_factory):
    talking = Talking(
        application(tmp_path_factory.mktemp("document"), {"patients": classifier(), "value": regressor()})
    )
    yield talking
    talking.close()


@pytest.fixture(scope="module")
def operations(talking):
    document = json.loads(talking.get("/openapi.json").content)
    found = [result.ok() for result in schemathesis.openapi.from_dict(document).get_all_operations()]
    return {operation.path: operation for operation in found if operation.path != ENDLESS}


def test_the_document_describes_every_route(talking):
    described = talking.get("/openapi.json").json()["paths"]
    served = {route.path for route in talking.server.api.routes if isinstance(route, APIRoute)}
    assert set(described) == served
    assert {"/predict", "/stream", "/stats", "/stats/stream", "/metrics", "/v2", "/v2/health/live"} <= set(
        described
    )
    infer = described["/v2/models/{model}/infer"]["post"]
    assert infer["requestBody"]["content"]["application/json"]["schema"] == {
        "$ref": "#/components/schemas/InferRequest"
    }
    assert set(infer["responses"]) >= {"200", "400", "404", "413", "415", "503"}


PATHS = [
    *("/predict", "/stream", "/next", "/stats", "/metrics", "/v2", "/v2/health/live", "/v2/health/ready"),
    *("/v2/repository/index", "/v2/repository/models/{model}/load", "/v2/repository/models/{model}/unload"),
    *("/v2/models/stats", "/v2/models/{model}", "/v2/models/{model}/versions/{version}"),
    *(
        f"/v2/models/{{model}}{version}/{what}"
        for version in ("", "/versions/{version}")
        for what in ("ready", "config", "stats", "infer")
    ),
]
ROW = table()[0].to_numpy()[0].tolist()
RIGHT = {  # what the document cannot know: the columns of a model
    "PredictRequest": {"rows": [ROW]},
    "NextRequest": {"row": ROW},
    "InferRequest": {"inputs": [{"name": "X", "shape": [1, 5], "datatype": "FP64", "data": ROW}]},
}


def test_every_operation_is_tried(operations):
    assert sorted(PATHS) == sorted(operations)


@pytest.mark.parametrize("path", PATHS)
def test_no_operation_of_the_document_fails(talking, operations, path):
    """Whatever comes; where the row is right, whatever comes with it, or nothing."""
    operation = operations[path]
    content = operation.definition.raw.get("requestBody", {}).get("content", {}).get("application/json", {})
    right = RIGHT.get(content.get("schema", {}).get("$ref", "").rpartition("/")[2], {})
    statuses = set()

    @settings(max_examples=40 if right else 20, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(), known=st.booleans(), row=st.sampled_from(["any", "right", "alone"]))
    def attempt(case, known, row):
        if (known or row == "alone") and "model" in (case.path_parameters or {}):
            case.path_parameters["model"] = "patients"
        if row != "any" and isinstance(case.body, dict) and case.media_type == "application/json":
            others = {name: value for name, value in case.body.items() if name not in EXCLUSIVE}
            case.body = {} if row == "alone" else others
            case.body |= {
                **right,
                **({"model": "patients"} if path in ("/predict", "/stream", "/next") else {}),
            }
        answer = send(talking, case)
        statuses.add(answer.status_code)
        assert answer.status_code < 500, answer.text
        assert str(answer.status_code) in operation.definition.raw["responses"], answer.text

    attempt()
    assert statuses - {404} or "{version}" in path  # not only the names were wrong
    if right and "{version}" not in path:
        assert 200 in statuses


def test_the_examples_of_the_document_are_understood(talking):
    """They are refused for the number of columns alone, which no example can know."""
    described = talking.get("/openapi.json").json()["paths"]
    for path in ("/predict", "/next", "/v2/models/{model}/infer"):
        example = described[path]["post"]["requestBody"]["content"]["application/json"]["example"]
        if path in ("/predict", "/next"):
            example = {**example, "model": "patients"}
        answer = talking.post(path.replace("{model}", "patients"), json.dumps(example))
        assert answer.status_code == 400
        assert "the model takes 5" in answer.json()["error"]


def send(talking, case):
    """A case of schemathesis to the application in this process."""
    request = case.as_transport_kwargs(base_url="http://localhost")
    content = json.dumps(request["json"]) if "json" in request else request.get("data")
    headers = {name: value for name, value in (request.get("headers") or {}).items() if value.isascii()}
    sent = talking.client.request(
        request["method"], request["url"], params=request.get("params"), content=content, headers=headers
    )
    return talking.wait(sent)
