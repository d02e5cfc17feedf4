"""What to buy next, on the page in headless Chromium."""

from __future__ import annotations

import json
import urllib.request

import pytest

import anytime as at
from tests.serve.browsing import browsing, playwright, visiting, wait_until
from tests.serve.pretend import model as described
from tests.serve.pretend import pretending
from tests.serve.serving import COSTS, running, table

expect = playwright.expect


@pytest.fixture(scope="module")
def browser():
    with browsing() as found:
        yield found


def test_the_advice_is_that_of_the_model_and_a_press_follows_it(browser, tmp_path):
    settings = {"hidden_layer_sizes": (16, 8), "folds": 2, "random_state": 0}
    model = at.AcquisitionClassifier(costs=COSTS, **settings).fit(*table())
    with running(tmp_path, models={"patients": model}) as server, visiting(browser, server.address) as tab:
        with urllib.request.urlopen(f"{server.address}/stats") as reply:
            row = json.load(reply)["models"][0]["example"]
        tab.get_by_text("What to buy next").click()
        bought: list[str] = []
        budget = COSTS.total  # where the slider is
        while (advice := model.next(row, bought, budget=budget)).group is not None:
            expect(tab.locator("#advice")).to_have_text(str(advice))
            expect(tab.locator("#offers tbody tr")).to_have_count(len(advice.offers))
            tab.get_by_role("button", name=f"Buy {advice.group}").click()
            bought += advice.offers[0].buys
        expect(tab.locator("#advice")).to_have_text(str(advice))
        assert bought
        for group in COSTS.names:
            assert tab.get_by_role("checkbox", name=group).is_checked() == (group in bought)
        expect(tab.locator("#offers tbody tr")).to_have_count(0)


def asked(pretend):
    """What was asked of ``/next``."""
    return [body for path, body in pretend.requests if path == "/next"]


def test_nothing_is_asked_before_somebody_looks_and_what_changes_is_asked_again(browser):
    with pretending() as (pretend, address), visiting(browser, address) as tab:
        expect(tab.locator("#answer")).to_have_text("malignant")
        assert asked(pretend) == []
        tab.get_by_text("What to buy next").click()
        expect(tab.locator("#advice")).to_have_text("Now benign. Buy 'record' next.")
        tab.get_by_role("checkbox", name="record").check()
        expect(tab.locator("#advice")).to_have_text("Now benign. Buy 'blood' next.")
        assert asked(pretend)[-1]["bought"] == ["record"]
        tab.get_by_role("textbox", name="age", exact=True).fill("70")
        wait_until(tab, lambda: asked(pretend)[-1]["row"][0] == 70)


def test_a_model_without_groups_has_nothing_to_ask(browser):
    with pretending() as (pretend, address):
        pretend.models = [described(columns=[{"name": "0", "group": None, "price": 0.0}], example=[1.0])]
        with visiting(browser, address) as tab:
            expect(tab.locator("#answer")).to_have_text("malignant")
            expect(tab.locator("#next-box")).to_be_hidden()
