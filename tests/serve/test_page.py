"""The page in real headless Chromium, before a stand-in server whose state the tests choose."""

from __future__ import annotations

import re

import pytest

from tests.serve.browsing import browsing, playwright, visiting, wait_until
from tests.serve.pretend import COLUMNS, COSTS, model, pretending

expect = playwright.expect
REFUSED = ("422 (Unprocessable", "401 (Unauthorized")  # Chromium's own line for a status that is an error


@pytest.fixture(scope="module")
def browser():
    with browsing() as found:
        yield found


@pytest.fixture
def server():
    with pretending() as found:
        yield found


@pytest.fixture(scope="module")
def view(browser):
    """A tab for tests that only look."""
    with pretending() as (_, address), visiting(browser, address) as found:
        expect(found.locator("#answer")).to_have_text("malignant")
        yield found


@pytest.fixture
def tab(browser, server):
    with visiting(browser, server[1]) as found:
        yield found


def field(tab, name):
    return tab.get_by_role("textbox", name=name, exact=True)


def budget(tab):
    return tab.get_by_role("slider", name="Budget")


def test_says_how_many_requests_are_answered_and_how_many_in_time(view):
    expect(view.get_by_role("heading", level=1)).to_have_text(
        re.compile(r"^4,\d+ requests per second, 99.96 % within 10 ms$")
    )
    expect(view.locator("#story")).to_contain_text(
        "36 of 120 stages on average and cost 16 ms: held-out loss 0.19"
    )
    for name, value in {"p99": r"8.\d+ ms", "intime": "99.96 %", "partial": "97 %", "queue": "23"}.items():
        expect(view.locator(f"#{name}")).to_have_text(re.compile(f"^{value}$"))
    expect(view.get_by_role("status")).to_have_text("Live")


def test_charts_show_the_last_two_minutes_against_the_slo(view):
    expect(view.locator("#latency-chart .limit-name")).to_have_text("SLO 10 ms")
    expect(view.locator("#depth-chart .key")).to_contain_text("36")
    drawn = view.evaluate(
        """() => [...document.querySelectorAll("#latency-chart path.line")].map((line) => {
             const box = line.getBBox();
             return [line.getAttribute("d").split("L").length, box.y, box.y + box.height, box.width]; })"""
    )
    limit = float(view.locator("#latency-chart .limit").get_attribute("y1"))
    assert len(drawn) == 3
    for points, top, bottom, width in drawn:
        assert points > 100
        assert width > 500
        assert limit < top < bottom  # everything is below the line of the SLO: in time


def test_lateness_rises_above_the_line_and_is_coloured(browser, server):
    pretend, address = server
    pretend.window = {"p99_ms": 14.0, "late_share": 0.03}
    with visiting(browser, address) as tab:
        expect(tab.get_by_role("heading", level=1)).to_contain_text("97 % within 10 ms")
        expect(tab.locator("#intime")).to_have_class("late")
        line = tab.locator("#latency-chart path.line.first").evaluate("line => line.getBBox().y")
        assert line < float(tab.locator("#latency-chart .limit").get_attribute("y1"))


def test_operating_point_lies_at_the_mean_cost_and_quality(view):
    """Mean cost is 16 of 40; mean quality is below the curve there, which bends: 0.193 against 0.16."""
    expect(view.locator("#quality-chart .key")).to_contain_text("now 0.193")
    point = view.locator("#quality-chart circle.now")
    axis = view.evaluate("""() => { const box = document.querySelector("#quality-chart path.line").getBBox();
                                   return [box.x, box.x + box.width]; }""")
    cheapest, dearest = min(COSTS), max(COSTS)
    share = (float(point.get_attribute("cx")) - axis[0]) / (axis[1] - axis[0])
    assert share == pytest.approx((16 - cheapest) / (dearest - cheapest), abs=0.01)


def test_pointer_over_a_chart_reads_all_three_at_that_time(view):
    expect(view.locator("#load-chart .key")).to_contain_text("4,")
    box = view.locator("#load-chart svg").bounding_box()
    view.mouse.move(box["x"] + 60, box["y"] + 40)
    expect(view.locator("#depth-chart .key")).to_contain_text("120")
    expect(view.locator("figure.strip .cursor")).to_have_count(3)
    view.mouse.move(5, 5)
    expect(view.locator("figure.strip .cursor")).to_have_count(0)


def test_dragging_the_budget_refreshes_answer_probabilities_cost_and_stage(tab, server):
    expect(tab.locator("#answer")).to_have_text("malignant")
    expect(tab.locator("#cost")).to_have_text("40 ms")
    slider = budget(tab)
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    middle = box["y"] + box["height"] / 2
    tab.mouse.move(box["x"] + box["width"] - 11, middle)
    tab.mouse.down()
    seen = []
    for share in (0.8, 0.6, 0.4, 0.2, 0.0):
        tab.mouse.move(box["x"] + 11 + share * (box["width"] - 22), middle, steps=4)
        expected = tab.locator("#budget-value").inner_text().removesuffix(" of 40")
        expect(tab.locator("#cost")).to_have_text(expected)
        seen.append(
            (tab.locator("#probabilities .chosen .value").inner_text(), tab.locator("#stage").inner_text())
        )
    tab.mouse.up()
    expect(tab.locator("#answer")).to_have_text("unclear")
    assert len(set(seen)) == 5  # while it was dragged, not when it was let go
    asked = [body["budget"] for path, body in server[0].requests if path == "/predict"]
    assert asked[-1] == min(COSTS)
    assert len(set(asked)) > 5


def test_slider_moves_by_keys_and_says_its_value(tab):
    slider = budget(tab)
    slider.focus()
    expect(slider).to_have_attribute("aria-valuetext", "40 ms")
    tab.keyboard.press("ArrowLeft")
    expect(slider).to_have_attribute("aria-valuetext", "34 ms")
    expect(tab.locator("#cost")).to_have_text("34 ms")
    tab.keyboard.press("Home")
    expect(tab.locator("#answer")).to_have_text("unclear")
    tab.keyboard.press("End")
    expect(tab.locator("#answer")).to_have_text("malignant")


def test_answer_is_spoken_once_it_rests(tab):
    spoken = tab.locator("#spoken")
    assert spoken.get_attribute("aria-live") == "polite"
    expect(spoken).to_have_text("Answer malignant, 73.4 %, cost 40 ms, stage 120")
    budget(tab).press("Home")
    expect(spoken).to_have_text(re.compile("^Answer unclear, .*, cost 0 ms, stage 0$"))


def test_form_holds_the_example_by_group_with_prices(view):
    for column, value in zip(COLUMNS, model()["example"], strict=True):
        expect(field(view, column["name"])).to_have_value(str(value))
    expect(view.get_by_role("group", name="scan, 25 ms")).to_have_count(1)


def test_changed_row_is_what_the_server_is_asked_about(tab, server):
    field(tab, "ferritin").fill("7.5")
    field(tab, "glucose").fill("")
    field(tab, "ward").fill("C 3")
    expected = [[61, None, 7.5, 12.5, 0.31, "C 3"]]
    asked = {"/predict": expected, "/stream": expected}
    wait_until(tab, lambda: {path: body["rows"] for path, body in server[0].requests} == asked)


def test_refusal_is_shown_in_the_servers_words(browser, server):
    with visiting(browser, server[1], expected=REFUSED) as tab:
        expect(tab.locator("#answer")).to_have_text("malignant")
        field(tab, "age").fill("old")
        expect(tab.get_by_role("alert")).to_have_text("column 'age' is numeric, got 'old'")
        field(tab, "age").fill("61")
        expect(tab.get_by_role("alert")).to_be_empty()


def test_what_went_wrong_on_the_way_is_said_and_stays_until_a_stream_ends_well(browser, server):
    pretend, address = server
    pretend.broken = "this should not have happened; the server's log has it under 1-a"
    with visiting(browser, address) as tab:
        expect(tab.get_by_role("alert")).to_have_text(pretend.broken)
        expect(tab.locator("#answer")).to_have_text("malignant")
        budget(tab).press("Home")
        expect(tab.locator("#answer")).to_have_text("unclear")
        expect(tab.get_by_role("alert")).to_have_text(pretend.broken)
        pretend.broken = None
        field(tab, "age").fill("62")
        expect(tab.get_by_role("alert")).to_be_empty()


def background(tab):
    return tab.evaluate("getComputedStyle(document.body).backgroundColor")


def test_theme_follows_the_system_until_one_is_chosen(browser, server):
    with visiting(browser, server[1], color_scheme="dark") as tab:
        assert background(tab) == "rgb(16, 17, 20)"
        theme = tab.get_by_role("button", name="Theme")
        theme.click()
        expect(theme).to_have_text("Theme: light")
        assert background(tab) == "rgb(250, 250, 249)"
        tab.reload()
        assert background(tab) == "rgb(250, 250, 249)"
        theme.press("Enter")
        expect(theme).to_have_text("Theme: dark")
        tab.emulate_media(color_scheme="light")
        assert background(tab) == "rgb(16, 17, 20)"
        theme.click()
        assert background(tab) == "rgb(250, 250, 249)"


LONG = re.compile("(?:[^L]*L){101}")  # a drawn line of more than a hundred pieces


def test_another_model_is_selected(browser, server):
    pretend, address = server
    columns = [{"name": f"x{i}", "group": f"x{i}", "price": 1.0} for i in range(3)]
    numbers = {"classes": None, "columns": columns, "example": [1, 2, 3], "quality": None, "version": "7"}
    pretend.models.append(model("houses", **numbers))
    with visiting(browser, address) as tab:
        expect(field(tab, "age")).to_have_count(1)
        drawn = tab.locator("#depth-chart path.line")
        expect(drawn).to_have_attribute("d", LONG)  # two minutes have passed
        tab.get_by_role("combobox", name="Model").select_option("houses")
        expect(field(tab, "x2 1 ms")).to_have_value("3")
        expect(field(tab, "age")).to_have_count(0)
        expect(tab.locator("#version")).to_have_text("version 7, 120 stages")
        expect(tab.locator("#answer")).to_have_text("1,233.33")
        expect(drawn).to_have_attribute("d", LONG)  # its past was kept while the other one was looked at
        expect(tab.locator("#quality-chart")).to_contain_text("not validated")
        expect(tab.locator("#probabilities")).to_be_hidden()
        wait_until(tab, lambda: {body["model"] for _, body in pretend.requests} == {"patients", "houses"})
        assert "probabilities" not in pretend.requests[-1][1]


def test_new_version_of_the_model_is_shown_without_a_reload(browser, server):
    pretend, address = server
    with visiting(browser, address) as tab:
        expect(tab.locator("#version")).to_contain_text("version 1")
        field(tab, "age").fill("33")
        pretend.models = [model(version="2")]
        expect(tab.locator("#version")).to_contain_text("version 2")
        expect(field(tab, "age")).to_have_value(
            "33"
        )  # what was typed is still there: the columns are the same


def test_wide_rows_are_edited_as_text(browser, server):
    pretend, address = server
    columns = [{"name": f"pixel {i}", "group": "image", "price": 2.0} for i in range(784)]
    pretend.models = [model(columns=columns, example=[0.5] * 784)]
    with visiting(browser, address) as tab:
        text = tab.get_by_role("textbox", name="784 values, as JSON")
        expect(tab.locator("#answer")).to_have_text("malignant")
        text.fill("[0.5,")
        expect(tab.get_by_role("alert")).to_have_text("The row is not valid JSON.")


def test_thousands_of_columns_are_no_form(browser, server):
    pretend, address = server
    pretend.models = [model(columns=[], example=[], n_columns=90_000)]
    with visiting(browser, address) as tab:
        expect(tab.locator("#row")).to_have_text(
            "90,000 columns are too many for a form: POST /predict takes them."
        )
        expect(budget(tab)).to_have_count(0)
        assert pretend.requests == []


def test_token_is_asked_for_and_used(browser, server):
    pretend, address = server
    pretend.token = "sesame"
    with visiting(browser, address, expected=REFUSED) as tab:
        tab.get_by_label("This server asks for a token.").fill("sesame")
        tab.get_by_role("button", name="Use it").click()
        expect(tab.get_by_role("status")).to_have_text("Live")
        expect(tab.locator("#answer")).to_have_text("malignant")
        expect(tab.locator("#key")).to_be_hidden()


def test_requests_that_are_refused_are_not_silence(browser, server):
    pretend, address = server
    pretend.refused, pretend.window = 300, {"rps": 0.0}
    with visiting(browser, address) as tab:
        expect(tab.get_by_role("heading", level=1)).to_have_text("300 requests per second refused")
        expect(tab.locator("#errors")).to_have_text("300")


def test_stream_that_was_cut_short_is_asked_for_again(browser, server):
    pretend, address = server
    pretend.hurried = 1
    with visiting(browser, address) as tab:
        tab.get_by_text("How it refines, as a table").click()
        expect(tab.locator("#path-table tbody tr")).to_have_count(len(set(COSTS)))
        assert [path for path, _ in pretend.requests].count("/stream") == 2


def test_lost_connection_is_said_and_taken_up_again(browser, server):
    pretend, address = server
    pretend.until = 3
    with visiting(browser, address) as tab:
        expect(tab.get_by_role("status")).to_have_text("Connection lost, trying again")
        pretend.until = None
        expect(tab.get_by_role("status")).to_have_text("Live")


def test_charts_have_tables_beside_them(view):
    view.get_by_text("The last two minutes as a table").click()
    view.get_by_text("Stages as a table").click()
    view.get_by_text("How it refines, as a table").click()
    expect(view.locator("#stage-table tbody tr")).to_have_count(17)
    expect(view.locator("#path-table tbody tr").last).to_have_text("12040 msmalignant, 73.4 %")
    assert view.locator("#time-table tbody tr").count() > 100
    newest = view.locator("#time-table tbody tr").first.locator("td").all_inner_texts()
    assert newest[0] == "0"
    assert newest[1].startswith("4,")


def test_all_controls_are_reached_by_the_tab_key_and_show_it(tab):
    expect(field(tab, "ward")).to_have_count(1)
    reached = []
    for _ in range(40):
        tab.keyboard.press("Tab")
        name, outline = tab.evaluate(
            """() => { const one = document.activeElement, style = getComputedStyle(one);
                       return [one.id || one.textContent || one.name, parseFloat(style.outlineWidth)]; }"""
        )
        reached.append(name)
        assert outline >= 1, name
        if "JSON" in name:
            break
    assert reached[0] == "Skip to the example"
    assert {"theme", "budget", "column-0", "column-5"} <= set(reached)
    tab.locator(".skip").focus()
    tab.keyboard.press("Enter")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.closest('#row') !== null")


AUDIT = """() => {
  const wrong = [];
  const ids = [...document.querySelectorAll("[id]")].map(({ id }) => id);
  if (new Set(ids).size !== ids.length) wrong.push("an id twice");
  for (const one of document.querySelectorAll("input, select, textarea"))
    if (!one.labels?.length) wrong.push(`no label: ${one.id}`);
  for (const one of document.querySelectorAll("svg"))
    if (one.getAttribute("role") !== "img" || !one.getAttribute("aria-label")) wrong.push(`silent: ${one.closest("figure").id}`);
  for (const one of document.querySelectorAll("img")) if (!one.hasAttribute("alt")) wrong.push("no alt");
  for (const one of document.querySelectorAll("section"))
    if (!document.getElementById(one.getAttribute("aria-labelledby"))) wrong.push("a section without a name");
  for (const one of document.querySelectorAll("button, a, summary")) if (!one.textContent.trim()) wrong.push("no words");
  for (const one of document.querySelectorAll("th")) if (!one.scope) wrong.push("a head cell without scope");
  let level = 0;
  for (const { tagName } of document.querySelectorAll("h1, h2, h3")) {
    if (Number(tagName[1]) > level + 1) wrong.push(`${tagName} after h${level}`);
    level = Number(tagName[1]);
  }
  if (!document.documentElement.lang || !document.title) wrong.push("no language or title");

  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const seen = (colour, below) => {
    canvas.fillStyle = below; canvas.fillRect(0, 0, 1, 1);
    canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return canvas.getImageData(0, 0, 1, 1).data;
  };
  const light = ([r, g, b]) => [r, g, b].map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4))
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (one) => {
    for (let up = one; up; up = up.parentElement) {
      const colour = getComputedStyle(up).backgroundColor;
      if (colour !== "rgba(0, 0, 0, 0)") return colour;
    }
    return "white";
  };
  const ratio = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  let least = 100;
  for (const one of document.querySelectorAll("body *")) {
    const words = [...one.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!words || !one.checkVisibility() || one.tagName === "OPTION") continue;
    const style = getComputedStyle(one), below = behind(one);
    const colour = one.namespaceURI.includes("svg") ? style.fill : style.color;
    const contrast = ratio(light(seen(colour, below)), light(seen(below, below)));
    least = Math.min(least, contrast);
    if (contrast < 4.5) wrong.push(`contrast ${contrast.toFixed(2)}: ${one.tagName} ${one.textContent.trim().slice(0, 30)}`);
  }
  for (const one of document.querySelectorAll("path.line, circle.now, rect.bar, .chance > span")) {
    const style = getComputedStyle(one), below = behind(one);
    const colour = one.tagName === "path" ? style.stroke : one.tagName === "SPAN" ? style.backgroundColor : style.fill;
    const ground = one.tagName === "SPAN" ? behind(one.closest("li")) : below;
    const contrast = ratio(light(seen(colour, below)), light(seen(ground, ground)));
    if (contrast < 3) wrong.push(`contrast ${contrast.toFixed(2)}: ${one.getAttribute("class") ?? one.tagName}`);
  }
  return { wrong, least };
}"""


def test_names_roles_and_contrast(tab):
    """WCAG 2.2: 1.1.1, 1.3.1, 1.4.3 (4.5 for text), 1.4.11 (3 for what is drawn), 2.4.6, 4.1.2."""
    expect(tab.locator("#path-chart path.line")).to_have_count(3)
    for summary in tab.get_by_text("as a table").all():
        summary.click()
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme)
        found = tab.evaluate(AUDIT)
        assert found["wrong"] == []
        assert 4.5 <= found["least"] < 21  # something was looked at


def test_audit_finds_what_is_wrong(browser, server):
    """The negative control of the test above."""
    with visiting(browser, server[1]) as tab:
        expect(tab.locator("#answer")).to_have_text("malignant")
        tab.evaluate(
            """() => { document.querySelector("label[for=budget]").remove();
                       document.querySelector("#story").style.color = "#bbb";
                       document.querySelector("#load-chart svg").removeAttribute("role"); }"""
        )
        wrong = tab.evaluate(AUDIT)["wrong"]
        assert "no label: budget" in wrong
        assert "silent: load-chart" in wrong
        assert any(text.startswith("contrast 1.8") for text in wrong)


def test_narrow_screens_do_not_scroll_sideways(tab):
    expect(tab.locator("#answer")).to_have_text("malignant")
    for width in (768, 320):
        tab.set_viewport_size({"width": width, "height": 700})
        assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_policy_forbids_what_the_page_does_not_need(browser, server):
    with visiting(browser, server[1], expected=("Content Security Policy", "script-src")) as tab:
        policy = tab.request.get(server[1]).headers["content-security-policy"]
        assert "unsafe" not in policy
        assert policy.startswith("default-src 'none'")
        tab.evaluate(
            """() => { const script = document.createElement("script");
                       script.textContent = "window.ran = true"; document.body.append(script); }"""
        )
        assert tab.evaluate("window.ran") is None
