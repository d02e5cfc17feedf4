"""Schemathesis over the OpenAPI document: nothing that it describes, or nearly describes, makes the server fail."""

from __future__ import annotations

import json

import pytest
import schemathesis
from fastapi.routing import APIRoute
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.serve.serving import Talking, application, classifier, regressor

ENDLESS = "/stats/stream"


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
    return [operation for operation in found if operation.path != ENDLESS]


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


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_no_operation_of_the_document_fails(talking, operations, data):
    operation = data.draw(st.sampled_from(operations))
    case = data.draw(operation.as_strategy())
    if "model" in (case.path_parameters or {}) and data.draw(st.booleans()):
        case.path_parameters["model"] = "patients"
    answer = send(talking, case)
    assert answer.status_code < 500, answer.text
    assert str(answer.status_code) in operation.definition.raw["responses"], answer.text


def test_the_examples_of_the_document_are_understood(talking):
    """They are refused for the number of columns alone, which no example can know."""
    described = talking.get("/openapi.json").json()["paths"]
    for path in ("/predict", "/v2/models/{model}/infer"):
        example = described[path]["post"]["requestBody"]["content"]["application/json"]["example"]
        if path == "/predict":
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
