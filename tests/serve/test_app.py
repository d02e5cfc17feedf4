"""Every route, as a client sees it."""

from __future__ import annotations

import gzip
import json
import zlib

import numpy as np
import pytest

from tests.serve.serving import application, ask, classifier, get, post, regressor, table, with_words


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    return application(tmp_path_factory.mktemp("one"))


def infer(X, **more):
    X = np.asarray(X, dtype=float)
    return {
        "inputs": [{"name": "X", "datatype": "FP64", "shape": list(X.shape), "data": X.ravel().tolist()}],
        **more,
    }


def tensor(answer, name):
    found = next(output for output in answer["outputs"] if output["name"] == name)
    return np.array(found["data"]).reshape(found["shape"])


# ---------------------------------------------------------------------- answers


def test_predict_answers_as_the_model_does(server):
    X, _ = table()
    answer = post(server, "/predict", {"rows": X.to_numpy()[:7].tolist(), "probabilities": True}).json()
    expected = classifier().answer(X[:7])
    assert answer["predictions"] == expected.prediction.tolist()
    assert answer["probabilities"] == expected.probabilities.tolist()
    assert answer["stage"] == [20] * 7
    assert answer["cost"] == [26.0] * 7
    assert answer["partial"] == [False] * 7
    assert answer["reason"] == "complete"
    assert answer["elapsed_ms"] > 0


def test_infer_answers_as_the_model_does(server):
    X, _ = table()
    answer = post(server, "/v2/models/patients/infer", infer(X[:7], id="seven")).json()
    expected = classifier().answer(X[:7])
    assert answer["model_name"] == "patients"
    assert answer["id"] == "seven"
    assert tensor(answer, "prediction").tolist() == expected.prediction.tolist()
    assert tensor(answer, "probabilities").tolist() == expected.probabilities.tolist()
    assert tensor(answer, "stage").tolist() == [20] * 7
    assert [o["name"] for o in answer["outputs"]] == [
        "prediction",
        "probabilities",
        "cost",
        "stage",
        "partial",
        "elapsed",
    ]


def test_budget_of_a_request_is_kept(server):
    X, _ = table()
    rows = X.to_numpy()[:5].tolist()
    plain = post(server, "/predict", {"rows": rows, "budget": 6}).json()
    tensors = post(server, "/v2/models/patients/infer", infer(rows, parameters={"budget": 6})).json()
    assert max(plain["cost"]) <= 6
    assert plain["reason"] == "budget"
    assert plain["predictions"] == classifier().predict(X[:5], budget=6).tolist()
    assert tensor(tensors, "prediction").tolist() == plain["predictions"]
    assert tensor(tensors, "cost").tolist() == plain["cost"]
