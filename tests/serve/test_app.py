"""Every route, as a client sees it."""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import weakref
import zlib
from types import SimpleNamespace

import numpy as np
import pytest

import anytime as at
from anytime.serve.caution import Caution
from anytime.serve.errors import Refusal
from anytime.serve.protocol import classes_of
from anytime.serve.rows import RequestReader
from tests.serve.serving import (
    Talking,
    application,
    ask,
    classifier,
    client,
    get,
    post,
    regressor,
    saved,
    table,
    until,
    with_words,
)


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


def test_an_ensemble_is_served(tmp_path):
    X, y = table()
    members = [
        at.GradientBoostingClassifier(n_estimators=n, evaluation_cost=0.5, random_state=0).fit(X[::2], y[::2])
        for n in (2, 20)
    ]
    model = at.ExponentialEnsemble(members).fit(X[1::2], y[1::2])
    server, rows = application(tmp_path, {"ensemble": model}), X.to_numpy()[:7].tolist()
    for budget in (None, *model.stage_costs_.tolist()):
        answer = post(server, "/predict", {"rows": rows, "probabilities": True, "budget": budget}).json()
        expected = model.answer(X[:7], budget=budget)
        assert answer["probabilities"] == expected.probabilities.tolist()
        assert answer["stage"] == expected.stage.tolist()
        assert answer["cost"] == expected.cost.tolist()


def test_predict_answers_as_the_model_does(server):
    X, _ = table()
    answer = post(server, "/predict", {"rows": X.to_numpy()[:7].tolist(), "probabilities": True}).json()
    expected = classifier().answer(X[:7])
    assert answer["predictions"] == expected.prediction.tolist()
    assert answer["probabilities"] == expected.probabilities.tolist()
    assert answer["classes"] == ["ill", "well"]
    assert answer["stage"] == [20] * 7
    assert answer["cost"] == [26.0] * 7
    assert answer["partial"] == [False] * 7
    assert answer["reason"] == "complete"
    assert answer["elapsed_ms"] > 0


def test_classes_come_with_probabilities_only_and_as_json_has_them(tmp_path):
    X, y = table()
    for labels in ([3, 7], [0.5, 1.5], [False, True], ["ill", "well"]):
        assert json.dumps(classes_of(SimpleNamespace(classes_=np.array(labels)))) == json.dumps(labels)
    mixed = np.array([np.int64(3), "x"], dtype=object)
    assert json.dumps(classes_of(SimpleNamespace(classes_=mixed))) == '[3, "x"]'
    numbers = at.GradientBoostingClassifier(n_estimators=3).fit(X, 3 + 4 * (y == "ill"))
    server = application(tmp_path, {"m": numbers})
    row = X.to_numpy()[0].tolist()
    with_them, without = ask(
        server,
        ("POST", "/predict", {"row": row, "probabilities": True}),
        ("POST", "/predict", {"row": row}),
    )
    assert with_them.json()["classes"] == [3, 7]
    assert "classes" not in without.json()


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


def test_a_mean_budget_is_a_parameter_of_both_protocols(server):
    X, _ = table()
    rows, model = X.to_numpy()[:5], server.entry("patients", None).model
    mean = float(model.plan_.mean_ticks[2] * model.costs_.amount(1))
    plain, tensors = ask(
        server,
        ("POST", "/predict", {"rows": rows.tolist(), "mean_budget": mean}),
        ("POST", "/v2/models/patients/infer", infer(rows.tolist(), parameters={"mean_budget": mean})),
    )
    stage = model.answer(X[:5], mean_budget=mean).stage.tolist()
    assert plain.json()["stage"] == tensor(tensors.json(), "stage").tolist() == stage
    refused = post(server, "/predict", {"rows": rows.tolist(), "mean_budget": -1})
    assert refused.status_code == 400
    assert "mean_budget must be a non-negative number" in refused.json()["error"]


def test_deadline_of_a_request_is_kept_and_said(server):
    """Nothing fits before a deadline of nothing: the answer is that of a quick first stage at most, and it says so."""
    X, _ = table()
    row = X.to_numpy()[0].tolist()
    plain, tensors = ask(
        server,
        ("POST", "/predict", {"row": row, "deadline_ms": 0}),
        ("POST", "/v2/models/patients/infer", infer([row], parameters={"deadline_ms": 0})),
    )
    assert plain.json()["partial"] == [True]
    stage = plain.json()["stage"][0]
    assert stage <= 1
    model = server.entry("patients", None).model
    assert plain.json()["cost"] == list(model.stages(X[:1]))[stage].cost.tolist()
    assert plain.json()["reason"] == "deadline"
    assert tensor(tensors.json(), "partial").tolist() == [True]
    assert server.board.totals().counts["late"] >= 2  # after a deadline of 0 every answer is late


def test_confidence_ends_early(server):
    X, _ = table()
    rows = X.to_numpy()[:50].tolist()
    answer = post(server, "/predict", {"rows": rows, "confidence": 0.6}).json()
    assert answer["reason"] == "confidence"
    assert max(answer["stage"]) < 20


def test_rows_come_as_lists_objects_and_groups(server):
    X, _ = table()
    row = X.iloc[0]
    bodies = [
        {"rows": [row.tolist()]},
        {"row": row.to_dict()},
        {"rows": [dict(reversed(row.to_dict().items()))]},  # names say where values belong
        {
            "groups": {
                "record": [row["age"], row["sex"]],
                "scan": row["size"],
                "blood": {"sugar": row["sugar"], "iron": row["iron"]},
            }
        },
        {
            "groups": {
                "record": [[row["age"], row["sex"]]],
                "scan": [[row["size"]]],
                "blood": [[row["iron"], row["sugar"]]],
            }
        },
    ]
    answers = ask(server, *(("POST", "/predict", {**body, "probabilities": True}) for body in bodies))
    assert len({str(a.json()["probabilities"]) for a in answers}) == 1
    assert {a.json()["stage"][0] for a in answers} == {20}


def test_groups_that_are_not_sent_are_not_used(server):
    """The answer is that of the stages before the first that needs them; an explicit null is a value that is missing."""
    X, _ = table()
    row = X.iloc[0].to_dict()
    without = {name: value for name, value in row.items() if name != "size"}
    less, null = ask(
        server,
        ("POST", "/predict", {"row": without}),
        ("POST", "/predict", {"row": {**without, "size": None}}),
    )
    assert less.json()["reason"] == "groups"
    assert less.json()["stage"][0] < 20
    assert less.json()["partial"] == [False]
    assert null.json()["stage"] == [20]


def test_part_of_a_group_is_as_good_as_none_of_it(server):
    X, _ = table()
    part, none = X.iloc[0].drop("iron"), X.iloc[0].drop(["iron", "sugar"])
    one, other = ask(
        server, ("POST", "/predict", {"row": part.to_dict()}), ("POST", "/predict", {"row": none.to_dict()})
    )
    assert one.json()["predictions"] == other.json()["predictions"]
    assert one.json()["reason"] == other.json()["reason"] == "groups"


def test_a_column_that_the_model_does_not_know_is_ignored_unless_it_is_a_slip(server):
    row = table()[0].iloc[0].to_dict()
    more, slip = ask(
        server,
        ("POST", "/predict", {"row": {**row, "bed": 3}}),
        (
            "POST",
            "/predict",
            {"row": {"agee" if name == "age" else name: value for name, value in row.items()}},
        ),
    )
    assert more.json()["reason"] == "complete"
    assert slip.json()["error"] == "the model has no column 'agee'; did you mean 'age'?"


def test_words_are_read_as_in_training(tmp_path):
    model = with_words()
    server = application(tmp_path, {"words": model})
    X, _ = table()
    rows = [[*X.iloc[i].tolist(), word] for i, word in enumerate(["north", "south", "elsewhere", None])]
    names = [*X.columns, "ward"]
    import pandas as pd

    expected = model.answer(pd.DataFrame(rows, columns=names).astype({"ward": "category"}))
    plain = post(server, "/predict", {"rows": rows, "probabilities": True}).json()
    columns = list(zip(*rows, strict=True))
    inputs = [
        {"name": name, "datatype": "BYTES" if name == "ward" else "FP64", "shape": [4], "data": list(column)}
        for name, column in zip(names, columns, strict=True)
    ]
    tensors = post(server, "/v2/models/words/infer", {"inputs": inputs}).json()
    assert plain["probabilities"] == expected.probabilities.tolist()
    assert tensor(tensors, "probabilities").tolist() == expected.probabilities.tolist()
    metadata = get(server, "/v2/models/words").json()
    assert [i["datatype"] for i in metadata["inputs"]] == ["FP64"] * 5 + ["BYTES"]
    refused = post(server, "/predict", {"row": [*X.iloc[0].tolist(), 7]})
    assert refused.status_code == 400
    assert "'ward'" in refused.json()["error"]


def test_regression_without_names_or_quality(tmp_path):
    server = application(tmp_path, {"value": regressor()})
    X, _ = table()
    rows = X.to_numpy()[:3]
    plain, tensors, stats, named, confident = ask(
        server,
        ("POST", "/predict", {"rows": rows.tolist()}),
        ("POST", "/v2/models/value/infer", infer(rows)),
        ("GET", "/stats", None),
        ("POST", "/predict", {"row": {"age": 1}}),
        ("POST", "/predict", {"row": rows[0].tolist(), "confidence": 0.9}),
    )
    assert plain.json()["predictions"] == regressor().predict(rows).tolist()
    assert tensor(tensors.json(), "prediction").tolist() == regressor().predict(rows).tolist()
    assert stats.json()["models"][0]["classes"] is None
    assert named.status_code == confident.status_code == 400
    assert "knows no names" in named.json()["error"]


def test_several_models_are_told_apart(tmp_path):
    server = application(tmp_path, {"patients": classifier(), "value": regressor()})
    row = table()[0].to_numpy()[0].tolist()
    one, other, none, unknown = ask(
        server,
        ("POST", "/predict", {"model": "patients", "row": row}),
        ("POST", "/predict", {"model": "value", "row": row}),
        ("POST", "/predict", {"row": row}),
        ("POST", "/predict", {"model": "nobody", "row": row}),
    )
    assert one.json()["model"] == "patients"
    assert isinstance(other.json()["predictions"][0], float)
    assert none.status_code == 400
    assert "name a model: patients, value" in none.json()["error"]
    assert unknown.status_code == 404


# ---------------------------------------------------------------------- the protocol's other routes


def test_metadata_of_server_and_model(server):
    about, model, version, config, stats = (
        get(server, path).json()
        for path in (
            "/v2",
            "/v2/models/patients",
            "/v2/health/ready",
            "/v2/models/patients/config",
            "/v2/models/stats",
        )
    )
    assert about["name"] == "anytime"
    assert "binary_tensor_data" in about["extensions"]
    assert model["inputs"] == [{"name": "X", "datatype": "FP64", "shape": [-1, 5]}]
    assert model["outputs"][0] == {"name": "prediction", "datatype": "BYTES", "shape": [-1]}
    assert version == {"ready": True}
    assert config["output"][0] == {"name": "prediction", "data_type": "TYPE_STRING", "dims": [-1]}
    assert stats["model_stats"][0]["name"] == "patients"


def test_versions_are_addresses_too(server):
    version = get(server, "/v2/models/patients").json()["versions"][0]
    row = table()[0].to_numpy()[:1]
    there, ready, gone, odd = ask(
        server,
        ("POST", f"/v2/models/patients/versions/{version}/infer", infer(row)),
        ("GET", f"/v2/models/patients/versions/{version}/ready", None),
        ("POST", "/v2/models/patients/versions/nix/infer", infer(row)),
        ("POST", "/v2/models/patients/elsewhere/infer", infer(row)),
    )
    assert there.json()["model_version"] == version
    assert ready.json() == {"name": "patients", "ready": True}
    assert gone.status_code == odd.status_code == 404


def test_only_the_outputs_that_are_asked_for_come(server):
    row = table()[0].to_numpy()[:1]
    answer = post(
        server, "/v2/models/patients/infer", infer(row, outputs=[{"name": "cost"}, {"name": "stage"}])
    ).json()
    assert [output["name"] for output in answer["outputs"]] == ["cost", "stage"]
    refused = post(server, "/v2/models/patients/infer", infer(row, outputs=[{"name": "nix"}]))
    assert refused.status_code == 400
    assert "it has prediction, probabilities" in refused.json()["error"]


def test_a_body_without_json_is_the_matrix(server):
    X, _ = table()
    raw = X.to_numpy()[:3].tobytes()
    answer = post(server, "/v2/models/patients/infer", raw, {"Inference-Header-Content-Length": "0"})
    length = int(answer.headers["inference-header-content-length"])
    document = json.loads(answer.content[:length])
    assert [output["shape"] for output in document["outputs"]][:3] == [[3], [3, 2], [3]]
    assert len(answer.content) - length == sum(
        o["parameters"]["binary_data_size"] for o in document["outputs"]
    )


def test_unknown_addresses_and_methods_say_so(server):
    nothing, method, unload = ask(
        server,
        ("GET", "/nix", None),
        ("GET", "/predict", None),
        ("POST", "/v2/repository/models/patients/unload", {}),
    )
    assert (nothing.status_code, nothing.json()) == (404, {"error": "no such endpoint"})
    assert (method.status_code, method.json()) == (
        405,
        {"error": "this endpoint does not accept that method"},
    )
    assert unload.status_code == 400


# ---------------------------------------------------------------------- streams and figures


def events(text):
    blocks = [block.split("\n") for block in text.strip().split("\n\n")]
    return [
        (lines[0].removeprefix("event: "), json.loads(lines[1].removeprefix("data: "))) for lines in blocks
    ]


def test_stream_gives_every_improved_answer(server):
    X, _ = table()
    row = X.to_numpy()[0].tolist()
    answer = post(server, "/stream", {"row": row, "probabilities": True})
    assert answer.headers["content-type"].startswith("text/event-stream")
    kinds, answers = zip(*events(answer.text), strict=True)
    stages = [a["stage"][0] for a in answers]
    assert kinds[-1] == "done"
    assert set(kinds[:-1]) == {"answer"}
    assert len(stages) > 5
    assert stages == sorted(set(stages))  # no answer comes twice
    assert answers[-1]["probabilities"] == classifier().predict_proba(X[:1]).tolist()
    assert all(a["classes"] == ["ill", "well"] for a in answers)


def test_stream_refuses_as_predict_does(server):
    answer = post(server, "/stream", {"row": ["a"] * 5})
    assert answer.status_code == 400
    assert answer.json()["error"] == "row 0, column 'age': expected a number, found 'a'"


def test_streams_are_counted_as_answers_are(tmp_path):
    server = application(tmp_path)
    row = table()[0].to_numpy()[0].tolist()
    ask(server, ("POST", "/stream", {"row": row}), ("POST", "/stream", {"row": row, "deadline_ms": 0}))
    totals = server.board.totals()
    assert (totals.counts["requests"], totals.counts["late"], totals.latency.sum()) == (2, 1, 2)


def test_a_stream_that_fails_says_so(tmp_path, monkeypatch, caplog):
    server = application(tmp_path)

    async def fail(_):
        raise RuntimeError("secret of the house")
        yield

    monkeypatch.setattr(server.registry.get("patients").engine, "stream", fail)
    answer = post(server, "/stream", {"row": [0] * 5})
    ((kind, said),) = events(answer.text)
    assert kind == "error"
    assert answer.headers["x-request-id"] in said["error"]
    assert "secret" not in answer.text
    assert server.board.totals().counts["failed"] == 1


def test_who_leaves_a_stream_is_no_longer_worked_for(tmp_path, monkeypatch):
    """Also while there is nothing to send, which is when extractors take long."""
    server = application(tmp_path)
    begun, ended = asyncio.Event(), []

    async def endless(_):
        begun.set()
        try:
            await asyncio.Event().wait()
            yield
        finally:
            ended.append(True)

    monkeypatch.setattr(server.registry.get("patients").engine, "stream", endless)

    async def leaving():
        yield {"type": "http.request", "body": b'{"row": [0, 0, 0, 0, 0]}', "more_body": False}
        await begun.wait()
        yield {"type": "http.disconnect"}

    async def main():
        async with client(server):
            work, _ = asgi(server, "/stream", leaving())
            await asyncio.wait_for(work, 60)

    asyncio.run(main())
    assert ended == [True]
    counts = server.board.totals().counts
    assert (counts["refused"], counts["failed"], counts["requests"]) == (0, 0, 0)  # nobody was answered


def test_stats_count_what_was_answered(tmp_path):
    server = application(tmp_path)
    X, _ = table()
    rows = X.to_numpy()
    *_, wrong, answer = ask(
        server,
        ("POST", "/predict", {"rows": rows[:30].tolist()}),
        ("POST", "/predict", {"rows": rows[:10].tolist(), "budget": 1}),
        ("POST", "/predict", {"rows": []}),
        ("GET", "/stats", None),
    )
    stats = answer.json()
    assert wrong.status_code == 400
    assert (
        stats["totals"] | {"requests": 2, "answers": 2, "rows": 40, "refused": 1, "failed": 0, "late": 0}
        == stats["totals"]
    )
    assert stats["slo_ms"] == 5000.0
    model = stats["models"][0]
    cheap = classifier().answer(X[:10], budget=1)
    assert stats["window"]["mean_cost"] == pytest.approx((30 * 26 + cheap.cost.sum()) / 40)
    assert stats["window"]["mean_stage"] == pytest.approx((30 * 20 + cheap.stage.sum()) / 40)
    assert len(model["checkpoints"]) == len(model["stage_costs"]) == len(model["stages"]["share"]) == 21
    assert model["stages"]["share"][-1] == pytest.approx(0.75)
    assert sum(model["stages"]["share"]) == pytest.approx(1.0)
    assert model["columns"][2] == {"name": "iron", "group": "blood", "price": 5.0}
    assert len(model["example"]) == 5
    assert stats["workers"][0]["requests"] == 2


def test_metrics_are_those_of_prometheus(server):
    from prometheus_client.parser import text_string_to_metric_families

    row = table()[0].to_numpy()[0].tolist()
    before, _, after = ask(
        server, ("GET", "/metrics", None), ("POST", "/predict", {"row": row}), ("GET", "/metrics", None)
    )

    def samples(answer):
        families = text_string_to_metric_families(answer.text)
        return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}

    first, second = samples(before), samples(after)
    assert second["anytime_requests_total",] == first["anytime_requests_total",] + 1
    assert second["anytime_model_rows_total", "patients"] == first["anytime_model_rows_total", "patients"] + 1
    assert second["anytime_request_seconds_count",] == first["anytime_request_seconds_count",] + 1
    assert second["anytime_request_seconds_bucket", "+Inf"] == second["anytime_request_seconds_count",]


def test_the_page_is_at_the_root(server):
    answer = get(server, "/")
    assert answer.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in answer.headers["content-security-policy"]


# ---------------------------------------------------------------------- encodings and limits


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("deflate", lambda data: zlib.compress(data, wbits=-15)),
    ],
)
def test_packed_bodies(server, encoding, pack):
    body = json.dumps({"row": table()[0].to_numpy()[0].tolist()}).encode()
    answer = post(server, "/predict", pack(body), {"Content-Encoding": encoding, "Accept-Encoding": encoding})
    assert answer.status_code == 200
    assert answer.headers["content-encoding"] == encoding
    assert answer.json()["stage"] == [20]


@pytest.mark.parametrize(
    ("body", "encoding", "status"),
    [
        (gzip.compress(b"x" * 500_000, mtime=0), "gzip", 413),  # small on the way, large when it is there
        (b"not packed", "gzip", 400),
        (gzip.compress(b'{"row": [1]}', mtime=0)[:-4], "gzip", 400),
        (b"{}", "br", 415),
        (b"x" * 200_000, "identity", 413),
    ],
)
def test_bodies_that_are_refused(tmp_path, body, encoding, status):
    server = application(tmp_path, max_body=100_000)
    answer = post(server, "/predict", body, {"Content-Encoding": encoding})
    assert answer.status_code == status
    assert answer.json()["error"]


def test_too_many_rows_are_refused(tmp_path):
    server = application(tmp_path, max_rows=10)
    rows = table()[0].to_numpy()[:11]
    for answer in ask(
        server,
        ("POST", "/predict", {"rows": rows.tolist()}),
        ("POST", "/v2/models/patients/infer", infer(rows)),
    ):
        assert answer.status_code == 413
        assert "at most 10" in answer.json()["error"]


def test_a_body_whose_length_is_not_said_is_limited_too(tmp_path):
    server = application(tmp_path, max_body=1000)

    async def pieces():
        for _ in range(100):
            yield b"x" * 100

    async def send():
        async with client(server) as talks:
            return await talks.post("/predict", content=pieces())

    assert asyncio.run(send()).status_code == 413


def asgi(server, path, messages, headers=(), method="POST"):
    """What the application sends when a client's messages come as ``messages``, an async iterator, gives them."""
    sent = []

    async def send(message):
        sent.append(message)

    async def receive():
        return await anext(messages)

    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": [*headers]}
    return server(scope, receive, send), sent


@pytest.mark.realtime
def test_time_counts_from_the_end_of_the_body(tmp_path):
    """Who sends slowly is not late for that, and has the same time for the answer as everybody."""
    server = application(tmp_path, slo=0.3)
    body = json.dumps({"row": table()[0].to_numpy()[0].tolist()}).encode()

    async def slowly():
        yield {"type": "http.request", "body": body[:5], "more_body": True}
        await asyncio.sleep(0.4)
        yield {"type": "http.request", "body": body[5:], "more_body": False}

    async def main():
        async with client(server):
            work, sent = asgi(server, "/predict", slowly())
            await work
            return json.loads(sent[1]["body"])

    answer = asyncio.run(main())
    assert answer["partial"] == [False]
    assert answer["elapsed_ms"] < 300
    assert server.board.totals().counts["late"] == 0


def test_a_body_that_does_not_come_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr("anytime.serve.calls._PATIENCE", 0.05)
    server = application(tmp_path)

    async def never():
        yield {"type": "http.request", "body": b"{", "more_body": True}
        await asyncio.Event().wait()

    async def main():
        async with client(server):
            work, sent = asgi(server, "/predict", never())
            await asyncio.wait_for(work, 60)
            return sent

    head, body = asyncio.run(main())
    assert head["status"] == 408
    assert (b"connection", b"close") in head["headers"]
    assert "did not come within 0.05 seconds" in json.loads(body["body"])["error"]


@pytest.mark.parametrize("packed", [False, True])
def test_large_bodies_are_read_in_a_thread(server, monkeypatch, packed):
    """Others are answered meanwhile."""
    threads = []

    async def noted(work, *arguments):
        threads.append(work.__name__)
        return work(*arguments)

    monkeypatch.setattr("anytime.serve.calls.asyncio.to_thread", noted)
    rows = table()[0].to_numpy().round(2).tolist()
    small, large = (json.dumps({"rows": listed}).encode() for listed in (rows[:50], rows * 49))
    headers = {"Content-Encoding": "gzip"} if packed else {}

    def pack(body):
        return gzip.compress(body, compresslevel=0) if packed else body

    assert post(server, "/predict", pack(small), headers).status_code == 200
    assert threads == []
    assert post(server, "/predict", pack(large), headers).status_code == 200
    assert threads == ["_unpacked"] * packed + ["object_of", "read_plain"]


def test_rows_that_leave_columns_out_take_no_more_memory_than_whole_ones():
    """A server gives its limit of bytes as that of values: whole rows have at least a byte for each."""
    reader = RequestReader(classifier(), max_rows=10_000, max_values=2000)
    assert reader.rows([{"size": 1.0}] * 400).X.shape == (400, 5)
    with pytest.raises(
        Refusal, match="401 rows, but a request may have at most 400; send them in parts"
    ) as refused:
        reader.rows([{"size": 1.0}] * 401)
    assert refused.value.status == 413


def test_bytes_that_lie_anywhere_are_aligned(server):
    """Native code reads floats where floats lie."""
    raw = np.zeros(1 + 8 * 10, dtype=np.uint8)[1:]
    odd = np.frombuffer(raw, dtype="<f8").reshape(2, 5)
    assert not odd.flags.aligned
    X = server.registry.get("patients").tensors.reader.tensor(odd).X
    assert X.flags.aligned
    assert X.flags.c_contiguous


def test_beyond_the_limit_of_concurrency_clients_are_told_to_return(tmp_path):
    server = application(tmp_path, max_concurrency=1)
    server.held = 1  # as if one were being answered
    turned_away, health = ask(
        server, ("POST", "/predict", {"row": [0] * 5}), ("GET", "/v2/health/live", None)
    )
    assert turned_away.status_code == 503
    assert turned_away.headers["retry-after"] == "1"
    assert health.status_code == 200
    assert server.board.totals().counts["turned_away"] == 1


def test_without_the_token_only_health_and_the_page_answer(tmp_path):
    server = application(tmp_path, token="sesame")
    paths = ["/stats", "/metrics", "/v2", "/v2/models/patients", "/openapi.json", "/stats/stream"]
    wrong = [
        {},
        {"Authorization": "Bearer sesam"},
        {"Authorization": "Basic sesame"},
        {"Authorization": "Bearer"},
    ]
    for headers in wrong:
        for answer in ask(
            server, *(("GET", path, None) for path in paths), ("POST", "/predict", {}), headers=headers
        ):
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"
    assert get(server, "/v2/health/ready").status_code == get(server, "/").status_code == 200
    row = table()[0].to_numpy()[0].tolist()
    assert post(server, "/predict", {"row": row}, {"Authorization": "Bearer sesame"}).status_code == 200


def test_pages_of_other_sites_are_kept_out(server):
    """A browser sends what any page tells it to, also to a server on the same machine."""
    row = {"row": table()[0].to_numpy()[0].tolist()}
    assert post(server, "/predict", row, {"Origin": "http://evil.example"}).status_code == 403
    assert post(server, "/predict", row, {"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert post(server, "/predict", row, {"Origin": "http://localhost"}).status_code == 200
    behind_a_proxy = {"Origin": "https://public.example", "Sec-Fetch-Site": "same-origin"}
    assert post(server, "/predict", row, behind_a_proxy).status_code == 200


@pytest.mark.parametrize("host", ["localhost:8000", "127.0.0.1", "[::1]:8000", "LOCALHOST."])
def test_the_names_of_this_machine_are_answered(server, host):
    assert get(server, "/v2", {"Host": host}).status_code == 200


def test_a_name_that_was_made_to_point_here_is_not(tmp_path, server):
    """A page of another site could else read what this machine alone may: its browser takes both for the same site."""
    evil = {"Host": "evil.example", "Origin": "http://evil.example", "Sec-Fetch-Site": "same-origin"}
    row = {"row": table()[0].to_numpy()[0].tolist()}
    for answer in (get(server, "/stats", evil), post(server, "/predict", row, evil)):
        assert answer.status_code == 421
        assert "Host 'evil.example' is not local" in answer.json()["error"]
    with_token = application(tmp_path, token="sesame")
    assert get(with_token, "/v2", {**evil, "Authorization": "Bearer sesame"}).status_code == 200
    everywhere = application(tmp_path, host="0.0.0.0")
    assert get(everywhere, "/v2", evil).status_code == 200


def test_requests_have_ids(server):
    ids = [
        get(server, "/v2", {"X-Request-Id": "mine"}).headers["x-request-id"],
        post(server, "/predict", {}, {"X-Request-Id": "mine"}).headers["x-request-id"],
    ]
    assert ids == ["mine", "mine"]
    made = [answer.headers["x-request-id"] for answer in ask(server, *[("POST", "/predict", {})] * 3)]
    assert len(set(made)) == 3


def test_a_failure_inside_is_logged_under_the_request_and_says_nothing_more(tmp_path, monkeypatch, caplog):
    server = application(tmp_path)

    async def fail(_):
        raise RuntimeError("secret of the house")

    monkeypatch.setattr(server.registry.get("patients").engine, "answer", fail)
    answer = post(server, "/predict", {"row": [0] * 5})
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert answer.headers["x-request-id"] in answer.json()["error"]
    assert caplog.records[-1].fields["request_id"] == answer.headers["x-request-id"]
    assert server.board.totals().counts["failed"] == 1


# ---------------------------------------------------------------------- extractors


def test_features_are_computed_for_raw_examples(tmp_path):
    """Groups that the client has sent are not computed again; the answer is that of the whole row."""
    features = tmp_path / "features.py"
    features.write_text(
        """
import anytime as at
from pathlib import Path

def extractor(name, *columns):
    async def extract(patient):
        with Path(__file__).with_name("calls").open("a") as calls:
            calls.write(name + " ")
        return [patient[column] for column in columns]
    return extract

features = at.Features({
    "record": extractor("record", "age", "sex"),
    "blood": extractor("blood", "iron", "sugar"),
    "scan": extractor("scan", "size"),
})
"""
    )
    server = application(tmp_path, features=features)
    X, _ = table()
    patient = X.iloc[0].to_dict()
    text = {"name": "raw", "datatype": "BYTES", "shape": [1], "data": [json.dumps(patient)]}
    plain, held, tensors, mismatch, failing = ask(
        server,
        ("POST", "/predict", {"raw": patient, "probabilities": True}),
        ("POST", "/predict", {"raws": [patient], "groups": {"scan": patient["size"]}, "probabilities": True}),
        ("POST", "/v2/models/patients/infer", {"inputs": [text]}),
        ("POST", "/predict", {"raws": [patient, patient], "row": patient}),
        ("POST", "/predict", {"raw": {**patient, "size": {"secret": 1}}}),
    )
    expected = classifier().predict_proba(X[:1]).tolist()
    assert plain.json()["probabilities"] == held.json()["probabilities"] == expected
    assert tensor(tensors.json(), "probabilities").tolist() == expected
    assert mismatch.status_code == 400
    calls = (tmp_path / "calls").read_text().split()
    assert calls.count("scan") == 3
    assert calls.count("record") == 4
    assert failing.status_code == 200
    assert failing.json()["reason"] == "failed"
    assert failing.json()["failures"].keys() == {"scan"}
    assert "secret" not in failing.text


def test_answers_leave_nothing_for_the_garbage_collector(server):
    """What is collected while requests come in makes some of them wait."""
    body = json.dumps({"row": table()[0].to_numpy()[0].tolist()}).encode()
    scope = {"type": "http", "method": "POST", "path": "/predict", "headers": [(b"host", b"localhost")]}

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(_):
        pass

    async def garbage(number):
        async with client(server):
            for _ in range(10):
                await asyncio.gather(*(server(dict(scope), receive, send) for _ in range(4)))
            gc.collect()
            gc.disable()
            try:
                for _ in range(number):
                    await asyncio.gather(*(server(dict(scope), receive, send) for _ in range(4)))
                return gc.collect()
            finally:
                gc.enable()

    assert asyncio.run(garbage(50)) < 50


def test_a_model_that_was_replaced_is_forgotten(tmp_path):
    server = application(tmp_path)

    async def replace():
        async with client(server) as talks:
            row = {"row": table()[0].to_numpy()[0].tolist()}
            await talks.post("/predict", json=row)
            await talks.get("/stats")
            old = weakref.ref(server.registry.get("patients").model)
            saved(tmp_path, patients=classifier(seed=1))
            assert (await talks.post("/v2/repository/models/patients/load")).status_code == 200
            assert (await talks.post("/predict", json=row)).status_code == 200
            await until(lambda: old() is None)
            return old()

    gc.collect()
    gc.disable()  # a server seldom collects
    try:
        assert asyncio.run(replace()) is None
    finally:
        gc.enable()


def test_who_has_a_model_loaded_hears_that_some_workers_have_not(tmp_path, monkeypatch):
    monkeypatch.setattr("anytime.serve.reloads._PATIENCE", 0.1)
    server = application(tmp_path, workers=2)  # of which the second is not there
    answer = post(server, "/v2/repository/models/patients/load", {})
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert answer.json()["error"].startswith("patients is loaded here, but not yet in all workers")


def test_only_the_promise_makes_cautious(tmp_path):
    """Not deadlines of clients, which nothing may be able to keep."""
    talking, noted = Talking(application(tmp_path)), []

    class Noting(Caution):
        def note(self, late, now):
            noted.append(late)

    talking.server.registry.scheduler.caution = Noting()
    row = table()[0].to_numpy()[0].tolist()
    for more in ({}, {"deadline_ms": 0}):
        assert talking.post("/predict", json.dumps({"row": row, **more})).status_code == 200
    talking.close()
    assert noted == [False]
