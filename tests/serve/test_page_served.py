"""The page of the real server, in headless Chromium: what it shows is what the model says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request

import pytest
from sklearn.ensemble import RandomForestClassifier

import anytime as at
from tests.serve.browsing import browsing, playwright, visiting

pytest.importorskip("uvicorn", reason="needs the server: pip install 'anytime[serve]'")
expect = playwright.expect


def forest(n_trees):
    """A forest that knows what its trees cost and what they are worth."""
    X, y, costs = at.datasets.load("breast_cancer")
    trees = RandomForestClassifier(n_trees, max_depth=3, max_features=3, random_state=0).fit(X[::2], y[::2])
    return at.make_anytime(trees, costs=costs, X_val=X[1::2], y_val=y[1::2])


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A model, its file, and the address of ``anytime serve``."""
    model = forest(30)
    file = tmp_path_factory.mktemp("served") / "tumours.anytime"
    model.save(file)
    options = [
        "--port",
        "0",
        "--slo-ms",
        "5000",
        "--watch",
        "0.1",
    ]  # however loud the machine is: nothing is cut short
    command = [sys.executable, "-m", "anytime.cli", "serve", str(file), *options]
    environment = os.environ | {"COLUMNS": "200"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        address = re.search(r"http://[\d.:]+/", process.stdout.readline())[0]
        yield model, file, address
        process.terminate()


@pytest.fixture(scope="module")
def browser():
    with browsing() as found:
        yield found


@pytest.fixture(scope="module")
def example(served):
    with urllib.request.urlopen(f"{served[2]}stats") as reply:
        return json.load(reply)["models"][0]["example"]


def shown(tab, name):
    return tab.locator(f"#{name}").inner_text()


def test_answer_is_that_of_the_model_at_every_budget(browser, served, example):
    model, _, address = served
    with visiting(browser, address) as tab:
        slider = tab.get_by_role("slider", name="Budget")
        expect(tab.locator("#cost")).to_contain_text("units")
        budgets = sorted({0.0, *model.plan_.stage_costs.tolist()})
        assert int(slider.get_attribute("max")) == len(budgets) - 1
        slider.press("Home")
        for budget in budgets:
            expect(tab.locator("#budget-value")).to_contain_text(f"{budget:g} units")
            expect(tab.locator("#cost")).to_have_text(f"{model.cost([example], budget)[0]:g} units")
            assert shown(tab, "answer") == str(model.predict([example], budget=budget)[0])
            chance = 100 * model.predict_proba([example], budget=budget)[0].max()
            assert float(
                tab.locator("#probabilities .chosen .value").inner_text().removesuffix(" %")
            ) == pytest.approx(chance, rel=0.005)
            slider.press("ArrowRight")
        expect(tab.locator("#stage")).to_have_text("30 of 30")


def test_refinement_is_what_the_server_streams(browser, served):
    model, _, address = served
    with visiting(browser, address) as tab:
        tab.get_by_text("How it refines, as a table").click()
        last = tab.locator("#path-table tbody tr").last
        expect(last.locator("td").first).to_have_text(str(model.plan_.n_stages))
        expect(tab.locator("#path-chart path.line")).to_have_count(2)


def test_requests_are_counted(browser, served, example):
    model, _, address = served
    body = json.dumps({"rows": [example], "budget": 0}).encode()
    with visiting(browser, address) as tab:
        expect(tab.get_by_role("status")).to_have_text("Live")
        for _ in range(20):
            urllib.request.urlopen(f"{address}predict", body).close()
        expect(tab.get_by_role("heading", level=1)).to_have_text(
            re.compile(r"requests? per second, all within 5,000 ms$")
        )
        expect(tab.locator("#p99")).to_have_text(re.compile(r"^[\d.]+ ms$"))
        worth = f"full model, held-out loss {-model.plan_.quality[-1]:.3g}"
        expect(tab.locator("#quality-chart .key")).to_contain_text(worth)
        tab.get_by_text("Stages as a table").click()
        constant = tab.locator("#stage-table tbody tr").first  # what nothing buys
        expect(constant).to_have_text(re.compile(r"^00 units.*[6-9]\d(\.\d)? %$"))


def test_wrong_value_is_refused_in_words(browser, served):
    with visiting(browser, served[2], expected=("status of 4",)) as tab:
        expect(tab.locator("#cost")).to_contain_text("units")
        tab.get_by_role("textbox").first.fill("wide")
        expect(tab.get_by_role("alert")).to_contain_text("wide")


def test_new_version_of_the_file_is_on_the_page_at_once(browser, served):
    _, file, address = served
    with visiting(browser, address) as tab:
        expect(tab.locator("#version")).to_contain_text("30 stages")
        fresh = file.with_suffix(".new")
        forest(12).save(fresh)
        fresh.replace(file)
        expect(tab.locator("#version")).to_contain_text("12 stages")
        expect(tab.locator("#stage")).to_have_text("12 of 12")
