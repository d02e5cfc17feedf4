"""``anytime predict`` with models that label pictures, sentences and graphs; what the other commands say of them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from anytime.cli.app import app
from tests.serve.labels import SENTENCES, elements, graphs, grid_labeler, street_parser, tagger
from tests.structured.streets import streets


def ran(*arguments, stdin=None):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], input=stdin)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("structures")
    for name, model in {"street": street_parser(), "tags": tagger(), "grid": grid_labeler()}.items():
        model.save(folder / f"{name}.anytime")
    (folder / "pictures").mkdir()
    for i, picture in enumerate(streets(2, first=30)[0]):
        Image.fromarray(picture).save(folder / "pictures" / f"{i}.png")
    return folder


def test_a_folder_of_pictures_becomes_a_folder_of_label_maps(folder):
    model = street_parser()
    done = ran(
        "predict",
        folder / "street.anytime",
        folder / "pictures",
        "-o",
        folder / "maps",
        "--budget",
        30,
        "--with-cost",
    )
    assert done.exit_code == 0, done.output
    for i, picture in enumerate(streets(2, first=30)[0]):
        codes = np.asarray(Image.open(folder / "maps" / f"{i}.png"))
        np.testing.assert_array_equal(model.classes_[codes], model.predict([picture], budget=30)[0])
    assert "picture,cost,stage\n0.png," in done.stdout
    one = ran(
        "predict",
        folder / "street.anytime",
        folder / "pictures" / "1.png",
        "-o",
        folder / "one",
        "--deadline",
        60,
    )
    assert one.exit_code == 0
    assert [file.name for file in (folder / "one").iterdir()] == ["1.png"]


def test_lines_of_sentences_become_lines_of_labels(folder):
    sentences = [elements(words) for words, _ in SENTENCES[:2]]
    lines = "\n".join(map(json.dumps, sentences))
    done = ran("predict", folder / "tags.anytime", "-", "--with-cost", "--proba", stdin=lines)
    assert done.exit_code == 0, done.output
    told = [json.loads(line) for line in done.stdout.splitlines()]
    expected = tagger().answer(sentences)
    assert [one["labels"] for one in told] == [labels.tolist() for labels in expected.prediction]
    assert [one["cost"] for one in told] == expected.cost.tolist()
    np.testing.assert_allclose(told[1]["probabilities"], expected.probabilities[1])


def test_lines_of_graphs_become_lines_of_labels(folder):
    X = graphs()[0][:2]
    lines = [json.dumps({"nodes": nodes.tolist(), "edges": edges.tolist()}) for nodes, edges in X]
    (folder / "graphs.jsonl").write_text("\n".join(lines))
    done = ran("predict", folder / "grid.anytime", folder / "graphs.jsonl", "-o", folder / "labels.jsonl")
    assert done.exit_code == 0, done.output
    told = [json.loads(line)["labels"] for line in (folder / "labels.jsonl").read_text().splitlines()]
    assert told == [labels.tolist() for labels in grid_labeler().predict(X)]


@pytest.mark.parametrize(
    ("arguments", "stdin", "sentence"),
    [
        (("predict", "street.anytime", "pictures"), None, "name a folder for them with --output"),
        (("predict", "street.anytime", "tags.anytime", "-o", "maps"), None, "is no picture that can be read"),
        (
            ("predict", "street.anytime", "pictures", "-o", "maps", "--proba"),
            None,
            "--proba works with tables",
        ),
        (("predict", "tags.anytime", "-"), "[{]", "line 1 is not JSON"),
        (("predict", "tags.anytime", "-"), '["the"]', "not a dict of features"),
        (("predict", "tags.anytime", "pictures"), None, "is a directory"),
        (("predict", "grid.anytime", "-"), "[1]", '"nodes" and "edges"'),
        (("curve", "street.anytime", "table.csv", "--target", "y"), None, "anytime.curve(model, X, y)"),
        (("compare", "tags.anytime", "table.csv", "--target", "y"), None, "anytime.curve(model, X, y)"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(folder, monkeypatch, arguments, stdin, sentence):
    monkeypatch.chdir(folder)
    done = ran(*arguments, stdin=stdin)
    assert done.exit_code != 0
    assert sentence in " ".join(str(done.exception or "").split() + done.output.split())
