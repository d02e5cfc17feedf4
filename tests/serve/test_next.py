"""``/next``: what to buy next for one row, as the model says it."""

from __future__ import annotations

import json

import pytest

import anytime as at
from tests.serve.serving import COSTS, application, ask, classifier, post, regressor, table

ROW = dict(table()[0].iloc[0])


def by_rows() -> at.AcquisitionClassifier:
    settings = {"hidden_layer_sizes": (16, 8), "folds": 2, "random_state": 0}
    return at.AcquisitionClassifier(costs=COSTS, **settings).fit(*table())


@pytest.fixture(scope="module")
def models() -> dict[str, at.AnytimeClassifier]:
    return {"rows": by_rows(), "forest": classifier(), "value": regressor()}


@pytest.fixture(scope="module")
def server(tmp_path_factory, models):
    return application(tmp_path_factory.mktemp("next"), models)


@pytest.mark.parametrize("name", ["rows", "forest"])
@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"row": {}},
        {"row": {"age": 0.3, "sex": 1.0}},
        {"row": {"age": 0.3, "sex": 1.0}, "budget": 10},
        {"row": {"blood": [0.1, -0.2]}},
        {"row": list(ROW.values()), "bought": ["record", "scan"]},
        {"row": list(ROW.values())},
        {"row": ROW},
    ],
)
def test_next_says_what_the_model_says(server, models, name, asked):
    answer = post(server, "/next", {"model": name, **asked})
    assert answer.status_code == 200, answer.text
    expected = models[name].next(asked.get("row", {}), asked.get("bought"), budget=asked.get("budget"))
    said = answer.json()
    assert {key: said.pop(key) for key in ("model", "version")}["model"] == name
    assert said == json.loads(json.dumps(expected.to_dict()))


def test_numbers_have_no_probability(server):
    said = post(server, "/next", {"model": "value"}).json()
    assert said["probability"] is None
    assert said["offers"]


@pytest.mark.parametrize(
    ("asked", "status", "sentence"),
    [
        ({"row": 3}, 400, "row must be a list of values or an object by column, not 3"),
        ({"row": [1.0]}, 400, "the model takes 5"),
        ({"row": {"agee": 1.0}}, 400, "did you mean 'age'?"),
        ({"row": {"age": "old"}}, 400, "expected a number"),
        ({"bought": "blood"}, 400, "bought must be a list of names of groups"),
        ({"bought": ["urine"]}, 400, "bought contains 'urine'"),
        ({"bought": ["blood"]}, 400, "'blood' is listed as bought, but the row has no value for it"),
        ({"budget": -1}, 400, "budget must be a non-negative number"),
        (
            {"deadline_ms": 3},
            400,
            "unknown field 'deadline_ms'; a request has bought, budget, model, row, version",
        ),
        ({"row": {"age": 0.3, "bloood": 1.0}}, 400, "did you mean 'blood'?"),
        ({"model": "nobody"}, 404, "there is no model 'nobody'"),
    ],
)
def test_what_is_wrong_is_said(server, asked, status, sentence):
    answer = post(server, "/next", {"model": "rows", **asked})
    assert answer.status_code == status
    assert sentence in answer.json()["error"]


def test_following_the_advice_buys_what_predict_buys(server, models):
    row, bought = list(ROW.values()), []
    while True:
        (answer,) = ask(
            server, ("POST", "/next", {"model": "rows", "row": row, "bought": bought, "budget": 21})
        )
        if answer.json()["group"] is None:
            break
        bought += answer.json()["offers"][0]["buys"]
    assert sorted(bought) == sorted(models["rows"].answer(table()[0][:1], budget=21).groups)


def test_a_long_name_is_not_sent_back_whole(server):
    for asked in ({"bought": ["x" * 100_000]}, {"row": {"x" * 100_000: 1.0}}):
        answer = post(server, "/next", {"model": "rows", **asked})
        assert answer.status_code == 400
        assert len(answer.text) < 500
