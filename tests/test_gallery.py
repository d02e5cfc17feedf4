"""Every program of the gallery runs, says something and draws its picture; on less data where its figures took long."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from matplotlib import pyplot

from tests.optional import skip_without_torch

GALLERY = Path(__file__).resolve().parents[1] / "docs" / "gallery"
PROGRAMS = sorted(GALLERY.glob("*.py"))
SMALLER = {  # constants of programs, and what they are here
    "cheap_before_svm": {"SPLITS": 1, "TREES": 5},
    "detection": {"PATCHES": 1000, "STUMPS": 40},
    "early_and_late": {"ROWS": 500, "ADDED": 60},
    "growing_hull": {"EPOCHS": 1},
    "half_price_forest": {"SPLITS": 2},
    "images_early_and_late": {"EPOCHS": 1},
    "measured_prices": {"TREES": 5},
    "moving_stream": {"ROWS": 4000},
    "network_exits": {"EPOCHS": 1},
    "street": {"STREETS": 5, "HEIGHT": 100, "WIDTH": 140},
    "when_to_ask": {"RUNS": 2},
}


def code_of(program: Path) -> str:
    """The text of a program, with its constants made smaller where there are some for that."""
    text = program.read_text(encoding="utf-8")
    for name, value in SMALLER.get(program.stem, {}).items():
        text, changes = re.subn(rf"^{name} = \d+$", f"{name} = {value}", text, flags=re.MULTILINE)
        assert changes == 1, f"{program.name} has no line {name} = ..."
    return text


@pytest.mark.filterwarnings("ignore:(Degrees of freedom|invalid value)")  # one split has no spread
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_program_runs_and_draws(
    program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = code_of(program)
    skip_without_torch(code)
    monkeypatch.setattr(sys, "argv", [str(program), str(tmp_path)])
    with pyplot.rc_context():
        exec(
            compile(code, program, "exec", dont_inherit=True),
            {"__name__": "__main__", "__file__": str(program)},
        )
    pyplot.close("all")
    assert capsys.readouterr().out.strip()
    picture = tmp_path / f"{program.stem}.png"
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert (GALLERY / picture.name).exists(), "run the program once to make the picture that its page shows"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_program_has_a_page(program: Path) -> None:
    page = program.with_suffix(".md").read_text(encoding="utf-8")
    assert f"({program.stem}.png)" in page
    assert program.name in page
    assert program.stem in (GALLERY / "index.md").read_text(encoding="utf-8")
