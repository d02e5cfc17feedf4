"""Networks behind HTTP: images in every form that clients send, micro-batches stage by stage, answers in time."""

from __future__ import annotations

import asyncio
import base64
import copy
import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs anytime[torch]; `make test-all` installs it")

import anytime as at  # noqa: E402
from anytime.blocks import DetachedModelError  # noqa: E402
from anytime.networks import TrainingRecipe, with_exits  # noqa: E402
from anytime.serve.cohort import Cohort, Piece  # noqa: E402
from anytime.serve.engine import Engine  # noqa: E402
from anytime.serve.pace import StagePace  # noqa: E402
from anytime.serve.policy import Adaptive  # noqa: E402
from anytime.serve.questions import Question  # noqa: E402
from tests.serve.serving import application, ask, post  # noqa: E402

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory, seeing, buying):
    folder = tmp_path_factory.mktemp("networks")
    return application(folder, {"seeing": seeing, "buying": buying[0]})


def tensor(X, datatype, name="X"):
    return {"name": name, "datatype": datatype, "shape": list(X.shape), "data": X.ravel().tolist()}


def infer(server, *inputs):
    return post(server, "/v2/models/seeing/infer", {"inputs": list(inputs)})


def probabilities(answer):
    assert answer.status_code == 200, answer.text
    said = {output["name"]: output for output in answer.json()["outputs"]}["probabilities"]
    return np.reshape(said["data"], said["shape"])


# ---------------------------------------------------------------------- images in, answers out


def test_images_of_plain_json_are_answered(server, pictures, seeing):
    X = pictures[0][:3]
    expected = seeing.predict_proba(X)
    forms = [
        {"rows": X.tolist()},
        {"rows": X.transpose(0, 2, 3, 1).tolist()},
        {"rows": X.reshape(3, -1).tolist()},
        {"rows": X.astype(float).tolist()},
    ]
    for form in forms:
        answer = post(server, "/predict", {"model": "seeing", "probabilities": True, **form})
        assert answer.status_code == 200, answer.text
        said = answer.json()
        np.testing.assert_allclose(said["probabilities"], expected, atol=1e-6)
        assert said["predictions"] == seeing.predict(X).tolist()
        assert said["stage"] == [3, 3, 3]
        assert said["cost"] == [seeing.stage_costs_[-1]] * 3
    one = post(
        server, "/predict", {"model": "seeing", "row": X[0].tolist(), "budget": seeing.stage_costs_[0]}
    )
    assert one.json()["stage"] == [1]
    assert one.json()["predictions"] == seeing.predict(X[:1], budget=seeing.stage_costs_[0]).tolist()


@pytest.mark.parametrize("datatype", ["UINT8", "FP32"])
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 3, 1)])
def test_tensors_of_images_are_answered(server, pictures, seeing, datatype, order):
    X = pictures[0][:4]
    expected = seeing.predict_proba(X)
    given = X.transpose(order)
    np.testing.assert_allclose(probabilities(infer(server, tensor(given, datatype))), expected, atol=1e-6)
    raw = given.astype(np.uint8 if datatype == "UINT8" else np.float32).tobytes()
    entry = {
        "name": "image",
        "datatype": datatype,
        "shape": list(given.shape),
        "parameters": {"binary_data_size": len(raw)},
    }
    head = json.dumps({"inputs": [entry]}).encode()
    headers = {"Inference-Header-Content-Length": str(len(head))}
    binary = post(server, "/v2/models/seeing/infer", head + raw, headers)
    np.testing.assert_allclose(probabilities(binary), expected, atol=1e-6)


def test_metadata_says_what_an_image_is(server):
    seen, bought = ask(server, ("GET", "/v2/models/seeing", None), ("GET", "/v2/models/buying", None))
    assert seen.json()["inputs"][0]["shape"] == [-1, 3, 8, 8]
    assert bought.json()["inputs"][0]["shape"] == [-1, 5]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.zeros((1, 3, 9, 9)).tolist(), "reads images of 3 channels, 8 x 8"),
        ([[[[1, 2], [3]]]], "must have the same size"),
        ([[[["a"] * 8] * 8] * 3], "images are numbers"),
        ([[[[None] * 8] * 8] * 3], "images are numbers"),
        ([[None] * 192], "is missing"),
        ([[1.0] * 191], "has 191 values, but the model takes 192"),
    ],
)
def test_wrong_images_are_refused_with_a_sentence(server, rows, message):
    answer = post(server, "/predict", {"model": "seeing", "rows": rows})
    assert answer.status_code == 400
    assert message in answer.json()["error"]


def test_tables_buy_by_name_and_group(server, buying):
    model, X, _ = buying
    names = model.costs_.names
    row = X[1].tolist()
    whole = post(server, "/predict", {"model": "buying", "row": row}).json()
    np.testing.assert_allclose(whole["predictions"], model.predict(X[1:2]), rtol=1e-6)
    held = [names.index(name) for name in model.plan_.stage(1).groups]
    some = post(server, "/predict", {"model": "buying", "groups": {names[j]: [row[j]] for j in held}}).json()
    assert some["stage"] == [1]
    assert some["reason"] == "groups"
    np.testing.assert_allclose(
        some["predictions"], model.predict(X[1:2], budget=model.stage_costs_[0]), rtol=1e-6
    )


def test_improving_answers_are_streamed(server, pictures, seeing):
    body = {"model": "seeing", "row": pictures[0][0].tolist()}
    events = post(server, "/stream", body).text.split("\n\n")
    done = next(event for event in events if event.startswith("event: done"))
    last = json.loads(done.partition("data: ")[2])
    assert last["stage"] == [3]
    assert last["predictions"] == seeing.predict(pictures[0][:1]).tolist()


# ---------------------------------------------------------------------- the one contract


def hooked(model):
    """Rows that each block meets, call by call, and what takes the hooks away."""
    counts: list[list[int]] = [[] for _ in model.plan_.blocks[0].network.blocks]
    hooks = [
        block.register_forward_hook(lambda _, inputs, __, i=i: counts[i].append(len(inputs[0])))
        for i, block in enumerate(model.plan_.blocks[0].network.blocks)
    ]
    return counts, lambda: [hook.remove() for hook in hooks]


def test_questions_go_through_the_network_together_and_part(pictures, seeing):
    """Rows of several questions are one batch; who is sure leaves it, and blocks meet only the rest."""
    block = copy.copy(seeing.plan_.blocks[0])
    block.temperatures = np.full(3, 50.0)  # so that some are more sure than others
    seeing = copy.copy(seeing)
    seeing.plan_ = replace(seeing.plan_, blocks=[block])
    rows = np.asarray(pictures[0].reshape(96, -1), dtype=np.float64)
    first = seeing.predict_proba(pictures[0], budget=seeing.stage_costs_[0]).max(axis=1)
    confidence = float(np.median(first[:12]))
    engine = Engine(seeing, StagePace([1, 2, 3], [1e-4, 2e-4, 3e-4]), Adaptive(0.001))
    tickets = [engine._admit(Question(rows[4 * i : 4 * i + 4], confidence=confidence)) for i in range(3)]
    counts, unhook = hooked(seeing)
    cohort = Cohort(seeing, [Piece(ticket, 0, 4) for ticket in tickets])
    for stage in (1, 2, 3):
        cohort.advance(stage)
    unhook()
    sure = int((first[:12] >= confidence).sum())
    assert 0 < sure < 12
    assert counts[0] == [12]
    assert counts[1] == [12 - sure]
    stages = np.concatenate([cohort.read(piece).stage for piece in cohort.pieces])
    assert (stages == 1).sum() == sure


def test_a_load_of_questions_is_answered_in_micro_batches(pictures, seeing):
    """Questions that wait together are evaluated together, and each gets its own answer."""
    rows = np.asarray(pictures[0].reshape(96, -1), dtype=np.float64)

    async def main():
        engine = Engine(seeing, StagePace.measure(seeing, seconds=0.02), Adaptive.for_slo(5.0), slo=5.0)
        return await asyncio.gather(*(engine.answer(Question(rows[i : i + 1])) for i in range(40)))

    counts, unhook = hooked(seeing)
    served = asyncio.run(main())
    unhook()
    said = np.concatenate([one.probabilities for one in served])
    np.testing.assert_allclose(said, seeing.predict_proba(pictures[0][:40]), atol=1e-5)
    assert all((one.stage == 3).all() for one in served)
    assert max(counts[0]) > 1  # several questions at once


def test_deadlines_shorten_answers(server, pictures, seeing):
    body = {"model": "seeing", "rows": pictures[0].tolist(), "deadline_ms": 0}
    answer = post(server, "/predict", body).json()
    assert answer["reason"] == "deadline"
    assert max(answer["stage"]) < 3


def test_raw_images_are_read_by_extractors(tmp_path, pictures, seeing):
    """A client sends bytes of an image file; the server's extractor makes an image of them, channels last as files have it."""
    extractors = tmp_path / "extractors.py"
    extractors.write_text(
        "import base64\nimport numpy as np\nimport anytime as at\n"
        "def read(raw):\n"
        "    return np.frombuffer(base64.b64decode(raw), dtype=np.uint8).reshape(8, 8, 3)\n"
        "features = at.Features({'image': read})\n"
    )
    server = application(tmp_path, {"seeing": seeing}, features=extractors)
    X = pictures[0][:2]
    raws = [base64.b64encode(image.transpose(1, 2, 0).tobytes()).decode() for image in X]
    answer = post(server, "/predict", {"raws": raws, "probabilities": True})
    assert answer.status_code == 200, answer.text
    np.testing.assert_allclose(answer.json()["probabilities"], seeing.predict_proba(X), atol=1e-5)
    assert answer.json()["stage"] == [3, 3]


def test_a_module_of_ones_own_is_served_when_it_is_given(tmp_path, pictures):
    torch.manual_seed(0)
    module = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 3)
    )
    network = with_exits(module, at=["1"], input_shape=(3, 8, 8))
    model = at.AnytimeNetworkClassifier(backbone=network, recipe=TrainingRecipe(epochs=1), random_state=0)
    model.fit(*pictures)
    with pytest.raises(DetachedModelError, match="a module of your own"):
        application(tmp_path, {"own": model})
    server = application(tmp_path, {"own": model}, costly={"own": network})
    answer = post(server, "/predict", {"row": pictures[0][0].tolist()}).json()
    assert answer["predictions"] == model.predict(pictures[0][:1]).tolist()


@pytest.mark.slow
def test_forked_workers_answer(tmp_path, pictures, seeing):
    """Threads of torch do not survive a fork: a worker that waited for them would never answer."""
    seeing.save(tmp_path / "m.anytime")
    program = (
        "import json, sys, os, torch\n"
        "torch.set_num_threads(2)\n"
        "import numpy as np, anytime as at\n"
        "model = at.load(sys.argv[1])\n"
        "X = np.zeros((512, 3, 8, 8))\n"
        "model.predict(X)\n"
        "pid = os.fork()\n"
        "if not pid:\n"
        "    model.predict(X); os._exit(0 if torch.get_num_threads() == 1 else 1)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path / "m.anytime")], timeout=300)
    assert done.returncode == 0
