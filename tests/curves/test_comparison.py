import html
import json
import re
import subprocess
import sys

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import anytime as at
from anytime.curves import AnytimeCurve, AnytimeCurveDisplay, Comparison, compare

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>&\"'@DATA@\u2028"


@pytest.fixture
def compared(classifier):
    model, X, y = classifier(unit="USD", order=["a", "b"], prices={"a": 1.0, "b": 2.0})
    other, *_ = classifier(seed=1, unit="USD")
    return compare({"one": model, "two": other}, X, y, bootstrap=20, random_state=0)


def test_table_reads_the_curves(compared):
    table = compared.table([0, 3, 1e9])
    for name, curve in compared.curves.items():
        assert table.loc[name].tolist() == [curve.at(0), curve.at(3), curve.final]
    assert compared.table().columns.tolist() == pytest.approx(
        compared.horizon * np.array([0.25, 0.5, 0.75, 1])
    )
    assert table.columns.name == "budget (USD)"


def test_summary_has_one_start_and_one_stop_for_all():
    both = Comparison(
        {
            "early": AnytimeCurve([0, 1], [0.5, 0.9], perfect=1.0),
            "late": AnytimeCurve([0, 3, 4], [0.5, 0.8, 1.0], perfect=1.0),
        }
    )
    summary = both.summary()
    assert summary.loc["early", "mean"] == pytest.approx((0.5 + 3 * 0.9) / 4)
    assert summary.loc["early", "timeliness"] == pytest.approx(0.75 * 0.8)
    assert summary.loc["late", "timeliness"] == pytest.approx(0.25 * 0.6)
    assert summary.loc["late", "cost to 90%"] == 4
    assert summary.loc["early", "cost to 90%"] == np.inf


def test_a_model_without_stages_is_charged_its_full_cost(classifier):
    model, X, y = classifier()
    plain = LogisticRegression().fit(X, y)
    both = compare({"staged": model, "plain": plain}, X, y, full_cost={"plain": 4.0})
    assert both.curves["plain"].costs.tolist() == [4.0]
    assert np.isnan(both.table([3.9]).loc["plain"].item())
    start = both.curves["staged"].values[0]
    expected = (4 * start + (both.horizon - 4) * both.curves["plain"].final) / both.horizon
    assert both.summary().loc["plain", "mean"] == pytest.approx(expected)


def test_all_models_are_judged_on_the_same_draws(classifier):
    model, X, y = classifier()
    both = compare({"a": model, "b": model}, X, y, bootstrap=30)
    np.testing.assert_array_equal(both.curves["a"].band, both.curves["b"].band)


def test_errors_name_the_model(classifier):
    model, X, y = classifier()
    with pytest.raises(ValueError, match=r"model 'plain': a LogisticRegression has no stages.*full_cost="):
        compare({"good": model, "plain": LogisticRegression().fit(X, y)}, X, y)
    with pytest.raises(ValueError, match="at least one"):
        compare({}, X, y)
    with pytest.raises(ValueError, match="EUR and USD cannot be compared"):
        Comparison({"a": AnytimeCurve([0], [1], unit="EUR"), "b": AnytimeCurve([0], [1], unit="USD")})


# ---------------------------------------------------------------------- the page


def embedded(page):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)[1])


def test_report_is_one_page_that_asks_nothing_of_anyone(compared, tmp_path):
    page = compared.report(tmp_path / "r.html", title="Test").read_text(encoding="utf-8")
    assert not re.search(r"https?://|//[a-z]|@import|url\(|\bsrc=", page.split("<script>")[0])
    assert not re.search(r"https?:|fetch\(|XMLHttpRequest|WebSocket|import\(|innerHTML|eval\(", page)
    assert "default-src 'none'" in page
    data = embedded(page)
    for model in data["models"]:
        curve = compared.curves[model["name"]]
        assert model["values"] == pytest.approx(curve.values.tolist())
        assert model["low"] == pytest.approx(curve.band[0].tolist())
    assert [p["group"] for p in data["models"][0]["purchases"]] == ["a", "b"]
    assert data["models"][0]["summary"][:3] == pytest.approx(compared.summary().loc["one"].tolist()[:3])


def test_report_escapes_names_titles_and_groups(classifier, tmp_path):
    model, X, y = classifier(order=[EVIL], prices={EVIL: 1.0}, unit=EVIL)
    both = compare({EVIL: model}, X, y)
    page = both.report(tmp_path / "r.html", title=EVIL).read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "<img" not in page
    assert page.count("<script") == 2
    data = embedded(page)
    assert data["models"][0]["name"] == data["title"] == EVIL
    assert data["models"][0]["purchases"][0]["group"] == EVIL
    table = both._repr_html_()
    assert "<script" not in table
    assert "<img" not in table


def test_report_shows_what_single_rows_buy(tmp_path):
    """A picture and a table of each path: what was bought, what was paid by then, and the answer."""
    X = np.random.default_rng(0).normal(size=(60, 2))
    costs = at.FeatureCosts({"a": 1.0, EVIL: 2.0}, groups={"a": [0], EVIL: [1]}, unit="EUR")
    model = at.SpeedBoostClassifier(n_estimators=20, costs=costs).fit(X, y := X[:, 0] + X[:, 1] > 0)
    path, comparison = model.path(X[0]), compare({"m": model}, X, y)
    page = comparison.report(tmp_path / "r.html", paths={EVIL: path}).read_text(encoding="utf-8")
    section = page[page.index('<section id="rows"') :].split("</section>")[0]
    rows = re.findall(
        r'<tr><th scope="row">(.*?)</th><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td></tr>', section
    )
    assert [(html.unescape(bought), float(paid)) for bought, paid, _, _ in rows] == [
        ("nothing", 0.0),
        *zip(path.groups, path.costs[1:], strict=True),
    ]
    assert [answer for _, _, answer, _ in rows] == [str(step.prediction) for step in path.steps]
    assert [float(p) for *_, p in rows] == pytest.approx([step.probability for step in path.steps], abs=0.005)
    heights = [float(up) for up in re.findall(r'<circle class="dot" cx="[\d.]+" cy="([\d.]+)"', section)]
    assert np.argsort(heights).tolist() == np.argsort([-step.probability for step in path.steps]).tolist()
    assert EVIL not in section
    assert html.escape(EVIL) in section
    plain = comparison.report(tmp_path / "p.html").read_text(encoding="utf-8")
    assert 'id="rows"' not in plain


def test_report_shows_numbers_of_single_rows(tmp_path):
    X = np.random.default_rng(0).normal(size=(60, 2))
    model = at.SpeedBoostRegressor(n_estimators=20).fit(X, 3 * X[:, 0] + X[:, 1])
    path = model.path(X[0])
    page = compare({"m": model}, X, X[:, 0]).report(tmp_path / "r.html", paths={"one": path}).read_text()
    assert f"<td>{path.steps[-1].prediction:.4g}</td>" in page
    assert "nan" not in page[page.index('<section id="rows"') :].split("</section>")[0]


def test_report_shows_by_how_much_each_purchase_moved_an_answer(tmp_path):
    """The changes in the table of an explanation add up from the value before the first purchase to the last."""
    X = np.random.default_rng(0).normal(size=(200, 2))
    costs = at.FeatureCosts({"a": 1.0, EVIL: 2.0}, groups={"a": [0], EVIL: [1]})
    model = at.SpeedBoostClassifier(n_estimators=20, costs=costs).fit(X, y := X[:, 0] + X[:, 1] > 0)
    why, comparison = at.explain(model, X[0], label=True), compare({"m": model}, X, y)
    page = comparison.report(tmp_path / "r.html", paths={"why": why}).read_text(encoding="utf-8")
    section = page[page.index('<section id="rows"') :].split("</section>")[0]
    rows = re.findall(
        r'<tr><th scope="row">(.*?)</th><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td></tr>', section
    )
    assert [html.unescape(bought) for bought, *_ in rows] == [
        "nothing",
        *(", ".join(g) for g, _, _ in why.by_purchase()),
    ]
    assert "probability of True" in section
    values = [float(value) for *_, value in rows]
    changes = [float(change.replace("\u2212", "-")) for _, _, change, _ in rows[1:]]
    assert np.diff(values) == pytest.approx(changes, abs=1e-3)
    assert values[-1] == pytest.approx(why.value, abs=1e-4)
    assert EVIL not in section


def test_report_of_one_flat_free_curve(tmp_path):
    """Nothing costs anything and nothing is known: the page still says what there is, without a NaN in its JSON."""
    page = (
        Comparison({"flat": AnytimeCurve([0, 0], [1.0, 1.0])})
        .report(tmp_path / "r.html")
        .read_text(encoding="utf-8")
    )
    assert embedded(page)["models"][0]["summary"] == [1.0, 1.0, None, 0.0, 0.0, 0.0, 0.0]


def test_times_are_shown_in_a_unit_above_one(tmp_path):
    curve = AnytimeCurve(
        [0, 2e-3], [0.0, 1.0], meter="time", unit="s", price_unit="USD", metric="r2", perfect=1.0
    )
    data = embedded(Comparison({"m": curve}).report(tmp_path / "r.html").read_text(encoding="utf-8"))
    assert (data["unit"], data["priceUnit"], data["cost"]) == ("ms", "USD", "Time (ms)")
    assert data["models"][0]["costs"] == [0, 2]
    assert data["models"][0]["summary"][3:5] == [2, 2]


# ---------------------------------------------------------------------- matplotlib


@pytest.fixture
def pyplot():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    yield plt
    plt.close("all")


def test_display_draws_steps_and_band(classifier, pyplot):
    model, X, y = classifier(unit="ms")
    display = AnytimeCurveDisplay.from_estimator(model, X, y, bootstrap=10, random_state=0, name="fake")
    assert display.line_.get_drawstyle() == "steps-post"
    assert display.line_.get_label() == "fake"
    assert display.band_ is not None
    assert display.ax_.get_xlabel() == "Cost (ms)"
    assert display.ax_.get_ylabel() == "Accuracy"
    assert display.figure_ is display.ax_.figure
    _, ax = pyplot.subplots()
    assert display.plot(ax, log=True, color="red").ax_ is ax
    assert ax.get_xscale() == "symlog"
    assert display.line_.get_color() == "red"


def test_curve_and_comparison_plot(compared, pyplot):
    display = compared.curves["one"].plot()
    assert display.line_.get_xdata().tolist() == compared.curves["one"].costs.tolist()
    ax = compared.plot()
    assert [line.get_label() for line in ax.lines] == ["one", "two"]
    assert {line.get_xdata()[-1] for line in ax.lines} == {compared.horizon}
    single = AnytimeCurveDisplay.from_curve(AnytimeCurve([3], [0.5]))
    assert single.band_ is None
    assert single.line_.get_marker() == "o"


def test_matplotlib_is_loaded_only_to_plot_and_missed_by_name():
    """Importing and judging need no matplotlib; without it, plotting says what to install."""
    code = (
        "import sys; sys.modules['matplotlib'] = None; sys.modules['matplotlib.pyplot'] = None\n"
        "from anytime.curves import AnytimeCurve\n"
        "try: AnytimeCurve([0], [1]).plot()\n"
        "except ImportError as e: print(e)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install anytime[plot]" in out.stdout
