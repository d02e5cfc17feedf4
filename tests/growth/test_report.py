"""The page of a search: what stands in it, and that nothing in it can break out."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from anytime.growth.journal import FailedJob, Model
from anytime.growth.report import ReportWords, additions, render
from tests.growth.synthetic import ToyGrowth
from tests.growth.test_search import grown


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found
    contents: dict[str, Any] = json.loads(found[1])
    return contents


def model(number: int, **notes: object) -> Model:
    return Model(
        number, None if number == 0 else 0, 1.0 + number, 0.5 / (1 + number), 0, {}, "", 1.0, dict(notes)
    )


def test_page_holds_every_model_with_its_place(tmp_path: Path) -> None:
    search = grown(tmp_path, 9, problem=ToyGrowth(failing=(3,)))
    page = data_of(search.report(tmp_path / "page.html").read_text())
    assert [m["number"] for m in page["models"]] == [m.number for m in search.models]
    assert {m["number"] for m in page["models"] if m["hull"]} == {m.number for m in search.hull()}
    assert page["models"][1]["added"] == [f"added: {search.models[1].notes['growth']['added']}"]
    assert page["failures"] == [
        {
            "number": 3,
            "kind": "candidates",
            "parent": page["failures"][0]["parent"],
            "why": "RuntimeError: no luck with job 3",
        }
    ]


def test_shortcuts_of_networks_are_told_in_words() -> None:
    shortcuts = [
        {"input": "before", "op": "sep3", "strength": 0.12345, "weight": 0.1},
        {"input": "a", "op": "identity", "strength": 0.1, "weight": 0.1},
    ]
    chosen = {"cell 0": shortcuts}
    assert additions(model(2, growth={"chosen": chosen, "criterion": "weight"})) == [
        "cell 0: sep3 of before (0.123), identity of a (0.1)"
    ]
    assert additions(model(0)) == []


def test_markup_in_names_stays_text() -> None:
    words = ReportWords(title="<script>alert(1)</script>", data="</script><b>x</b>")
    failed = FailedJob(1, "candidates", 0, "ValueError: </script><img src=x>\nTraceback")
    page = render([model(0, growth={"a": "</script>"})], [failed], words)
    assert page.count("</script>") == 2  # the page's own
    assert "<b>x</b>" not in page
    assert "<img src=x>" not in page
    assert data_of(page)["failures"][0]["why"] == "ValueError: </script><img src=x>"


def test_numbers_that_are_none_do_not_break_the_page() -> None:
    assert data_of(render([model(0, parameters=float("nan"))]))["models"][0]["parameters"] is None


def test_an_empty_search_has_no_page() -> None:
    with pytest.raises(ValueError, match="nothing to report: no model is trained yet"):
        render([])


@pytest.mark.slow
def test_a_browser_shows_the_page_and_a_model_can_be_chosen(tmp_path: Path) -> None:
    from tests.serve.browsing import browsing

    page = grown(tmp_path, 9, problem=ToyGrowth(failing=(3,))).report(tmp_path / "page.html")
    with browsing() as browser:
        tab, complaints = browser.new_page(), []
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("console", lambda line: line.type in ("error", "warning") and complaints.append(line.text))
        tab.goto(page.as_uri())
        assert tab.locator("#tree .model").count() == tab.locator("#svg .model").count() == 9
        tab.locator('#tree [data-number="2"]').focus()
        tab.keyboard.press("Enter")
        assert tab.inner_text("#detail h3") == "Model 2"
        assert tab.evaluate("document.activeElement.dataset.number") == "2"
        tab.click("#table tbody tr:last-child button")
        assert tab.inner_text("#detail h3") == f"Model {data_of(page.read_text())['models'][-1]['number']}"
        tab.set_viewport_size({"width": 360, "height": 700})
        assert (
            tab.evaluate("document.documentElement.scrollWidth") == 360
        )  # nothing sticks out on a telephone
        assert complaints == []
