"""Commands on the pages of results are commands that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = "".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs/results").glob("*.md")))
COMMANDS = re.findall(r"`python benchmarks/(\w+\.py)([^`]*)`( \(\*\*data\*\*\))?", PAGES)


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
    for option in re.findall(r"--[a-z-]+", arguments):
        assert f'"{option}"' in text, f"benchmarks/{script} has no option {option}"
    assert bool(data) == ("ANYTIME_DATA" in text), (
        f"benchmarks/{script}: mark it (**data**) exactly if it reads ANYTIME_DATA"
    )
