"""The page of a server whose models label pictures and sentences, in headless Chromium."""

from __future__ import annotations

import base64
import json
import re

import numpy as np
import pytest
from PIL import Image

from anytime.structured.picture_files import label_colours
from tests.serve.browsing import browsing, playwright, visiting
from tests.serve.labels import packed, street_parser, tagger
from tests.serve.serving import running
from tests.structured.streets import streets

pytest.importorskip("uvicorn", reason="needs the server: pip install 'anytime[serve]'")
expect = playwright.expect
PICTURE = streets(1, first=30)[0][0]
PIXELS = """() => {
  const canvas = document.getElementById("canvas"), { width, height } = canvas;
  return [width, height, [...canvas.getContext("2d").getImageData(0, 0, width, height).data]];
}"""
DROP = """(content) => {
  const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
  const transfer = new DataTransfer();
  transfer.items.add(new File([bytes], "street.png", { type: "image/png" }));
  const drop = new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true });
  document.getElementById("scene").dispatchEvent(drop);
}"""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    models = {"street": street_parser(), "tags": tagger()}
    with running(tmp_path_factory.mktemp("labels"), "--slo-ms", 20_000, models=models) as server:
        yield server.address + "/"


@pytest.fixture(scope="module")
def browser():
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("pictures") / "street.png"
    Image.fromarray(PICTURE).save(path)
    return path


def test_a_picture_is_labelled_as_the_model_labels_it(browser, address, file):
    model = street_parser()
    with visiting(browser, address) as tab:
        expect(tab.get_by_role("heading", name="Try a picture")).to_be_visible()
        tab.set_input_files("#file", file)
        expect(tab.locator("#label-stage")).to_have_text(f"{model.n_stages_} of {model.n_stages_}")
        expect(tab.locator("#label-share")).to_have_text("100 %")
        tab.get_by_role("button", name="Labels only").click()
        width, height, data = tab.evaluate(PIXELS)
        labels = model.predict([PICTURE])[0]
        assert (height, width) == labels.shape
        colours = dict(zip(model.classes_.tolist(), label_colours(model.classes_), strict=True))
        expected = np.array([[bytes.fromhex(colours[label][1:]) for label in row] for row in labels.tolist()])
        seen = np.array(data, dtype=np.uint8).reshape(height, width, 4)[:, :, :3]
        wanted = np.frombuffer(expected.tobytes(), dtype=np.uint8).reshape(height, width, 3)
        np.testing.assert_array_equal(seen, wanted)
        road = tab.locator("#legend li", has_text="road").locator("span").last
        assert float(road.inner_text().removesuffix(" %")) == pytest.approx(
            100 * np.mean(labels == "road"), rel=0.01
        )


def test_moments_can_be_looked_at_again(browser, address, file):
    with visiting(browser, address) as tab:
        tab.set_input_files("#file", file)
        slider = tab.get_by_role("slider", name="Moment")
        expect(tab.locator("#said")).to_contain_text("All stages")
        if slider.is_disabled():
            pytest.skip("the whole picture was labelled before the first look")
        slider.press("Home")
        expect(tab.locator("#step-value")).to_have_text(re.compile(r"^1 of \d+ answers$"))
        tab.get_by_role("button", name="Watch again").click()
        expect(tab.locator("#label-share")).to_have_text("100 %")


def test_a_picture_can_be_dropped_and_what_is_none_is_refused(browser, address, file):
    with visiting(browser, address) as tab:
        expect(tab.locator("#drop")).to_be_visible()
        tab.evaluate(DROP, packed(PICTURE))
        expect(tab.locator("#label-share")).to_have_text("100 %")
        tab.evaluate(DROP, base64.b64encode(b"no picture").decode())
        expect(tab.locator("#wrong")).to_have_text("street.png is no picture that this browser can read.")


def test_large_pictures_are_made_smaller_before_they_are_sent(browser, address, tmp_path):
    path = tmp_path / "large.jpg"
    halves = np.repeat([[[60, 90, 200]], [[90, 90, 95]]], 600, axis=0).astype(np.uint8)
    Image.fromarray(halves.repeat(1600, axis=1)).save(path)
    with visiting(browser, address) as tab:
        tab.set_input_files("#file", path)
        expect(tab.locator("#label-stage")).to_contain_text("of")
        canvas = "document.getElementById('canvas')"
        assert tab.evaluate(f"[{canvas}.width, {canvas}.height]") == [640, 480]


def test_words_have_the_colours_of_their_labels(browser, address):
    with visiting(browser, address) as tab:
        tab.get_by_label("Model", exact=True).select_option("tags")
        expect(tab.get_by_role("heading", name="Try a sentence")).to_be_visible()
        sentence = [{"word": word, "ending": word[-1]} for word in ("anna", "sees", "the", "old", "dog")]
        tab.get_by_label("The sentence, as JSON").fill(json.dumps(sentence))
        expect(tab.locator("#elements li")).to_have_count(5)
        expect(tab.locator("#said")).to_contain_text("All stages")
        expected = [
            f"{e['word']}{tag}" for e, tag in zip(sentence, tagger().predict([sentence])[0], strict=True)
        ]
        assert [re.sub(r"\s", "", text) for text in tab.locator("#elements li").all_inner_texts()] == expected
        tab.get_by_label("The sentence, as JSON").fill("[{")
        expect(tab.locator("#wrong")).to_have_text("The sentence is not valid JSON.")


def test_what_the_server_refuses_is_said(browser, address):
    with visiting(browser, address, expected=("status of 4",)) as tab:
        tab.get_by_label("Model", exact=True).select_option("tags")
        tab.get_by_label("The sentence, as JSON").fill('["the", "dog"]')
        expect(tab.locator("#wrong")).to_contain_text("not a dict of features")


@pytest.mark.parametrize("name", ["street", "tags"])
def test_a_phone_shows_it_without_scrolling_sideways(browser, address, file, name):
    with visiting(browser, address, viewport={"width": 360, "height": 740}) as tab:
        if name == "tags":
            tab.get_by_label("Model", exact=True).select_option("tags")
        else:
            tab.set_input_files("#file", file)
        expect(tab.locator("#label-share")).to_have_text("100 %")
        assert tab.evaluate("document.documentElement.scrollWidth") == 360
