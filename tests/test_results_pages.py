"""Pages of results: commands exist, and verdicts and figures show what was measured."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = "".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs/results").glob("*.md")))
COMMANDS = re.findall(r"`python benchmarks/(\w+\.py)([^`]*)`(\s\(\*\*data\*\*\))?", PAGES)


def source(script: str) -> str:
    """The text of a benchmark and of the benchmarks' own modules that it imports."""
    text = (ROOT / "benchmarks" / script).read_text(encoding="utf-8")
    helpers = [
        ROOT / f"benchmarks/{name}.py" for name in re.findall(r"^from (_[a-z]\w*) import", text, re.MULTILINE)
    ]
    return text + "".join(helper.read_text(encoding="utf-8") for helper in helpers)


def test_the_pages_have_commands():
    assert len(COMMANDS) > 20


@pytest.mark.parametrize(("script", "arguments", "data"), COMMANDS)
def test_a_command_names_a_benchmark_its_options_and_its_need_of_data(script, arguments, data):
    text = source(script)
    for word in re.findall(r"^ ([a-z]\S*)", arguments):
        assert f'"{word}"' in text, f"benchmarks/{script} does nothing called {word}"
    for option in re.findall(r"--[a-z-]+", arguments):
        assert f'"{option}"' in text, f"benchmarks/{script} has no option {option}"
    assert bool(data) == ("ANYTIME_DATA" in text), (
        f"benchmarks/{script}: mark it (**data**) exactly if it reads ANYTIME_DATA"
    )


@pytest.fixture(scope="module")
def pages():
    """The script that writes verdicts and figures; benchmarks import each other by their bare names."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    import pages

    yield pages
    sys.path.remove(str(ROOT / "benchmarks"))


def test_verdicts_on_the_pages_are_those_of_the_measurements(pages):
    for page in sorted(pages.PAGES.glob("*.md")):
        assert pages.written(page) == page.read_text(encoding="utf-8"), (
            f"{page.name}: run python benchmarks/pages.py"
        )


def test_figures_show_the_measurements(pages):
    late = [name for name, make in pages.FIGURES.items() if not pages.drawn(name, make())]
    assert not late, "run python benchmarks/pages.py"


def test_a_figure_of_other_numbers_is_noticed(pages):
    chart = next(iter(pages.FIGURES.values()))()
    panel = chart.panels[0]
    changed = replace(panel, series=[replace(panel.series[0], x=[*panel.series[0].x[:-1], 0.5])])
    assert not pages.drawn(next(iter(pages.FIGURES)), replace(chart, panels=[changed, *chart.panels[1:]]))


def test_verdicts_stand(pages):
    fallen = [claim.text for claims in pages.CLAIMS.values() for claim in claims if not claim.stands]
    assert not fallen, "the measurements no longer support these verdicts"


def test_every_figure_and_every_claim_is_on_a_page(pages):
    shown = set(re.findall(r"<!-- figure (\w+) -->", PAGES))
    assert shown == set(pages.FIGURES)
    assert {claim.page for claims in pages.CLAIMS.values() for claim in claims} <= {
        p.stem for p in pages.PAGES.glob("*.md")
    }


def test_sources_are_named_and_not_lettered():
    """A bare H, G, S or N before a number was a source once; N alone counts learners on one page."""
    assert not re.findall(r"(?m)^\| [HGSN] \d|\(([HGN]), (?:chapter|section|table)", PAGES)
    assert "the specification" not in PAGES


def test_compare_reports_numbers_that_changed_and_no_others(pages):
    import compare

    before = {"date": "1", "a": {"ratio": 1.0, "rows": [100, 200]}, "ok": True}
    after = {"date": "2", "a": {"ratio": 1.04, "rows": [100, 250]}, "ok": False}
    assert compare.changes(before, after, 0.05) == [("a: rows: 1", 200.0, 250.0)]
    assert [name for name, _, _ in compare.changes(before, after, 0.01)] == ["a: rows: 1", "a: ratio"]
