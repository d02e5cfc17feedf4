"""Pictures, sentences and graphs through the server: labels are those of the model, what cannot be labelled is refused."""

from __future__ import annotations

import asyncio
import base64
import io
import json

import numpy as np
import pytest
from PIL import Image

from anytime.serve.labelling import Labelling
from anytime.serve.questions import Question
from tests.serve.labels import (
    SENTENCES,
    elements,
    graphs,
    grid_labeler,
    packed,
    street_parser,
    tagger,
    unpacked,
)
from tests.serve.serving import Talking, application
from tests.structured.streets import streets

PICTURES = streets(2, first=30)[0]


@pytest.fixture(scope="module")
def talking(tmp_path_factory):
    models = {"street": street_parser(), "tags": tagger(), "grid": grid_labeler()}
    talking = Talking(
        application(tmp_path_factory.mktemp("labels"), models, slo=None, max_rows=50, max_body=1 << 20)
    )
    yield talking
    talking.close()


def said(talking, path="/predict", **body):
    reply = talking.post(path, json.dumps(body))
    assert reply.status_code == 200, reply.text
    return reply.json()


def refusal(talking, **body):
    reply = talking.post("/predict", json.dumps(body))
    return reply.status_code, reply.json()["error"]


# ---------------------------------------------------------------------- pictures


def test_a_picture_is_answered_with_its_label_map(talking):
    model = street_parser()
    answer = said(talking, model="street", raw=packed(PICTURES[0]))
    labels = np.array(answer["classes"])[unpacked(answer["predictions"][0])]
    np.testing.assert_array_equal(labels, model.predict(PICTURES[:1])[0])
    assert answer["classes"] == model.classes_.tolist()
    assert (answer["reason"], answer["partial"], answer["stage"]) == ("complete", [False], [model.n_stages_])
    assert answer["cost"] == model.cost(PICTURES[:1]).tolist()


def test_pictures_of_one_request_may_differ_in_size(talking):
    model, pictures = street_parser(), [PICTURES[0], PICTURES[1][:20, :30]]
    answer = said(talking, model="street", raws=[packed(picture) for picture in pictures])
    for text, labels in zip(answer["predictions"], model.predict(pictures), strict=True):
        np.testing.assert_array_equal(model.classes_[unpacked(text)], labels)
    assert len(answer["cost"]) == len(answer["stage"]) == 2


def test_a_budget_buys_what_it_buys_in_predict(talking):
    model = street_parser()
    for budget in (0.0, 27.0, 32.0):
        answer = said(talking, model="street", raw=packed(PICTURES[0]), budget=budget)
        np.testing.assert_array_equal(
            model.classes_[unpacked(answer["predictions"][0])], model.predict(PICTURES[:1], budget=budget)[0]
        )
        assert answer["cost"][0] <= budget
        assert answer["reason"] == "budget"


def test_when_there_is_no_time_the_answer_is_the_most_frequent_class(talking):
    answer = said(talking, model="street", raw=packed(PICTURES[0]), deadline_ms=0)
    assert (answer["reason"], answer["partial"], answer["stage"]) == ("deadline", [True], [0])
    assert unpacked(answer["predictions"][0]).shape == PICTURES[0].shape[:2]
    assert len(np.unique(unpacked(answer["predictions"][0]))) == 1


def test_a_deadline_is_kept_while_a_picture_is_cut_into_regions():
    """The answer does not wait for the thread that works on it."""

    async def main():
        labelling = Labelling(street_parser())
        large = np.kron(PICTURES[0], np.ones((16, 16, 1), dtype=np.uint8))
        question = Question(np.empty((1, 0)), raws=[large])
        return [a async for a in labelling.stream(question, labelling.clock() + 0.02)][-1]

    answer = asyncio.run(main())
    assert answer.reason == "deadline"
    assert answer.elapsed < 0.5  # segments of 600,000 pixels take longer
    assert answer.prediction[0].shape == (672, 848)


def test_refinements_are_streamed_and_end_with_the_answer(talking):
    body = json.dumps({"model": "street", "raw": packed(PICTURES[0])})
    text = talking.post("/stream", body).text
    events = [block.split("\n") for block in text.strip().split("\n\n")]
    kinds = [lines[0].removeprefix("event: ") for lines in events]
    answers = [json.loads(lines[1].removeprefix("data: ")) for lines in events]
    assert kinds[-1] == "done"
    assert set(kinds[:-1]) <= {"answer"}
    stages = [answer["stage"][0] for answer in answers]
    assert stages == sorted(stages)
    expected = {int(np.max(a.stage)): a.prediction[0] for a in street_parser().stages(PICTURES[:1])}
    for answer in answers:
        found = street_parser().classes_[unpacked(answer["predictions"][0])]
        np.testing.assert_array_equal(found, expected[answer["stage"][0]])


def test_files_of_cameras_and_browsers_are_read(talking):
    grey = PICTURES[0].mean(axis=2).astype(np.uint8)
    opaque = np.dstack([PICTURES[0], np.full(grey.shape, 255, dtype=np.uint8)])
    for text in (
        packed(PICTURES[0], "JPEG"),
        "data:image/png;base64," + packed(PICTURES[0]),
        packed(opaque),
        packed(grey),
        PICTURES[0][:3, :4].tolist(),
        packed(PICTURES[0][:1, :1]),
    ):
        said(talking, model="street", raw=text)
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held upright
    turned = said(talking, model="street", raw=packed(PICTURES[0], "JPEG", exif=exif))
    assert unpacked(turned["predictions"][0]).shape == PICTURES[0].shape[1::-1]


def deep():
    out = io.BytesIO()
    Image.fromarray(np.zeros((4, 4), dtype=np.uint16)).save(out, "PNG")
    return base64.b64encode(out.getvalue()).decode()


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (base64.b64encode(b"hello").decode(), "picture 0 is no picture that can be read"),
        (packed(PICTURES[0])[:400], "picture 0 is no picture that can be read"),
        ("not base64!", "picture 0 is not in base64"),
        ({"a": 1}, "picture 0 must be a file in base64"),
        ([[1, 2], [3]], "rows are not equally long"),
        ([[[1, 2]]], "has shape (1, 1, 2)"),
        ([[0.5, 7.0]], "floats that are not between 0 and 1"),
        ([["red"]], "not bytes"),
        (deep(), "8 bits per channel"),
    ],
)
def test_what_is_no_picture_is_refused_in_one_sentence(talking, raw, sentence):
    status, error = refusal(talking, model="street", raw=raw)
    assert status == 400
    assert sentence in error


def test_large_pictures_are_refused_before_they_are_unpacked(talking):
    status, error = refusal(talking, model="street", raw=packed(np.zeros((3000, 3000, 3), dtype=np.uint8)))
    assert status == 400
    assert "3000 x 3000 pixels; the most are" in error
    several = [packed(np.zeros((500, 500, 3), dtype=np.uint8))] * 2
    status, error = refusal(talking, model="street", raws=several)
    assert status == 413
    assert "together" in error


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({"row": [1, 2]}, "this model labels pictures: give raw"),
        ({}, "a request needs raw, one picture"),
        ({"raws": []}, "at least one picture"),
        ({"raws": [""] * 51}, "at most 50"),
        ({"raw": "", "probabilities": True}, "too many for JSON"),
        ({"raw": "", "confidence": 0.9}, "confidence is for models with one answer"),
    ],
)
def test_questions_of_tables_are_refused(talking, body, sentence):
    assert sentence in refusal(talking, model="street", **body)[1]


def infer(talking, model, inputs, **more):
    reply = talking.post(f"/v2/models/{model}/infer", json.dumps({"inputs": [inputs], **more}))
    assert reply.status_code == 200, reply.text
    return {
        output["name"]: np.array(output["data"]).reshape(output["shape"])
        for output in reply.json()["outputs"]
    }


def test_pictures_are_tensors_of_the_protocol(talking):
    described = talking.get("/v2/models/street").json()
    assert described["inputs"] == [{"name": "X", "datatype": "UINT8", "shape": [-1, -1, -1, 3]}]
    X = np.stack(PICTURES)
    tensor = {"name": "X", "datatype": "UINT8", "shape": list(X.shape), "data": X.ravel().tolist()}
    found = infer(talking, "street", tensor)
    assert sorted(found) == ["cost", "elapsed", "partial", "prediction", "stage"]
    np.testing.assert_array_equal(found["prediction"], np.stack(street_parser().predict(PICTURES)))
    asked = infer(talking, "street", tensor, outputs=[{"name": "probabilities"}])
    np.testing.assert_allclose(asked["probabilities"], np.stack(street_parser().predict_proba(PICTURES)))


# ---------------------------------------------------------------------- sentences and graphs


def test_sentences_are_answered_word_by_word(talking):
    sentences = [elements(words) for words, _ in SENTENCES[:3]] + [[]]
    answer = said(talking, model="tags", raws=sentences, probabilities=True)
    expected = tagger().answer(sentences)
    assert answer["predictions"] == [labels.tolist() for labels in expected.prediction]
    assert answer["cost"] == expected.cost.tolist()
    assert answer["reason"] == "complete"
    for found, wanted in zip(answer["probabilities"][:3], expected.probabilities[:3], strict=True):
        np.testing.assert_allclose(found, wanted)
    cheap = said(talking, model="tags", raws=sentences, budget=1)
    assert cheap["predictions"] == [labels.tolist() for labels in tagger().predict(sentences, budget=1)]
    assert max(cheap["cost"]) <= 1
    assert said(talking, model="tags", raw=sentences[0], deadline_ms=0)["reason"] == "deadline"


@pytest.mark.filterwarnings("ignore:the column")
def test_features_that_a_sentence_lacks_are_not_paid_for(talking):
    sentences = [[{"ending": e["ending"]} for e in elements(words)] for words, _ in SENTENCES[:2]]
    mixed = [elements(SENTENCES[0][0]), *sentences]
    expected = tagger().answer(mixed)
    answer = said(talking, model="tags", raws=mixed)
    assert answer["cost"] == expected.cost.tolist()
    assert answer["predictions"] == [labels.tolist() for labels in expected.prediction]
    assert answer["reason"] == expected.reason == "groups"
    assert answer["cost"][1] < answer["cost"][0]
    assert "no feature of sentence 0 is known" in refusal(talking, model="tags", raw=[{"wrod": "dog"}])[1]


def test_sentences_are_texts_of_the_protocol(talking):
    sentences = [elements(words) for words, _ in SENTENCES[:3]]
    texts = [json.dumps(sentence) for sentence in sentences]
    found = infer(talking, "tags", {"name": "raw", "datatype": "BYTES", "shape": [3], "data": texts})
    assert found["lengths"].tolist() == [5, 4, 3]
    assert found["prediction"].tolist() == np.concatenate(tagger().predict(sentences)).tolist()


def test_graphs_are_answered_node_by_node(talking):
    X = graphs()[0][:2]
    raws = [{"nodes": nodes.tolist(), "edges": edges.tolist()} for nodes, edges in X]
    answer = said(talking, model="grid", raws=raws)
    assert answer["predictions"] == [labels.tolist() for labels in grid_labeler().predict(X)]
    alone = said(talking, model="grid", raw={"nodes": raws[0]["nodes"]})
    assert len(alone["predictions"][0]) == 9


@pytest.mark.parametrize(
    ("model", "raw", "sentence"),
    [
        ("tags", "the dog", "sentence 0 is a str"),
        ("tags", ["the", "dog"], "holds a str, not a dict of features"),
        ("tags", 7, "sentence 0 is a int"),
        ("tags", [{}] * 250_000, "of a request may have"),
        ("grid", [[1.0, 2.0]], 'object with "nodes"'),
        ("grid", {"nodes": [[1.0]]}, "but elements have 2 features"),
        ("grid", {"nodes": [[1.0, 2.0]], "edges": [[0, 1]]}, "names a node that is not among its 1"),
        ("grid", {"nodes": [[1.0, 2.0]], "edges": [["a", "b"]]}, "pairs of whole numbers"),
        ("grid", {"nodes": [[1.0, 2.0]], "edges": [0, 1]}, "edges are pairs"),
    ],
)
def test_what_is_no_sentence_and_no_graph_is_refused(talking, model, raw, sentence):
    status, error = refusal(talking, model=model, raw=raw)
    assert status in (400, 413)
    assert sentence in error


# ---------------------------------------------------------------------- about the models


def test_figures_tell_a_page_what_is_labelled(talking):
    street, tags, grid = talking.get("/stats").json()["models"]
    assert (street["labels"], street["example"], len(street["colours"])) == ("picture", None, 3)
    assert tags["labels"] == "sentence"
    assert said(talking, model="tags", raw=tags["example"])["reason"] == "complete"
    assert said(talking, model="grid", raw=grid["example"])["reason"] == "complete"


def test_a_promise_that_cannot_be_kept_is_not_made(tmp_path):
    """Segments alone take longer than a microsecond: pictures then have only the deadlines of their requests."""
    server = application(tmp_path, {"street": street_parser(), "tags": tagger()}, slo=1e-6)
    assert server.registry.get("street").engine.slo is None
    with_time = application(tmp_path, {"street": street_parser()}, slo=60.0)
    assert with_time.registry.get("street").engine.slo == 60.0
