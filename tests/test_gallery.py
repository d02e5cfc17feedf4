"""Every program of the gallery runs as it stands, says something and draws its picture."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.optional import skip_without_torch

GALLERY = Path(__file__).resolve().parents[1] / "docs" / "gallery"
PROGRAMS = sorted(GALLERY.glob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_program_runs_and_draws(program: Path, tmp_path: Path) -> None:
    skip_without_torch(program.read_text(encoding="utf-8"))
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    picture = tmp_path / f"{program.stem}.png"
    assert picture.read_bytes()[:4] == b"\x89PNG"
    assert (GALLERY / picture.name).exists(), "run the program once to make the picture that its page shows"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_program_has_a_page(program: Path) -> None:
    page = program.with_suffix(".md").read_text(encoding="utf-8")
    assert f"({program.stem}.png)" in page
    assert program.name in page
    assert program.stem in (GALLERY / "index.md").read_text(encoding="utf-8")
