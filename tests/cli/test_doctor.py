"""``anytime doctor`` and shell completion."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import metadata

import pytest

import anytime as at
from anytime import _native
from anytime.cli import doctor
from anytime.cli.doctor import Requirement, extras, requirements_of
from tests.cli.running import run


@pytest.fixture
def lines(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the package requires, for a test to change."""
    required = ["numpy>=1.26", 'no-such-library>=2; extra == "rare"', 'numpy>=1; extra == "common"']
    monkeypatch.setattr(doctor.metadata, "requires", lambda _: required)
    return required


def test_versions_vectors_and_threads_are_shown() -> None:
    said = run("doctor").stdout
    assert f"anytime {at.__version__}" in said
    assert f"vectors     {_native.vectors_in_use()}" in said
    assert "cores for this process" in said
    assert metadata.version("scikit-learn") in said
    assert "openblas" in said or "BLAS" not in said


def test_missing_extra_comes_with_the_line_that_installs_it(lines: list[str]) -> None:
    said = run("doctor").stdout
    assert "no-such-library is missing: pip install 'anytime[rare]'" in said
    assert "anytime[common]" not in said


def test_json_has_everything(lines: list[str]) -> None:
    told = json.loads(run("doctor", "--json").stdout)
    assert told["vectors_in_use"] in told["vectors"]
    assert told["libraries"] == {"numpy": metadata.version("numpy")}
    assert told["extras"]["rare"] == {
        "libraries": {"no-such-library": None},
        "fault": "no-such-library is missing",
    }
    assert told["faults"] == []


def test_too_old_library_is_a_fault(lines: list[str]) -> None:
    lines[0] = "numpy>=999.1"
    said = run("doctor", code=1).stdout
    assert "is older than 999.1" in said


@pytest.mark.parametrize(
    ("installed", "needed", "is_old"),
    [
        ("1.9", "1.10", True),
        ("1.10", "1.9", False),
        ("6", "6.0.0", False),
        ("2.0rc1", "2", False),
        ("0.9", "1", True),
    ],
)
def test_versions_compare_as_numbers(
    monkeypatch: pytest.MonkeyPatch, installed: str, needed: str, is_old: bool
) -> None:
    monkeypatch.setattr(doctor.metadata, "version", lambda _: installed)
    assert bool(Requirement("library", needed, "").fault) == is_old


def test_extras_of_developers_are_left_out() -> None:
    required = requirements_of(metadata.requires("anytime") or [])
    assert {"lightgbm", "plot", "serve"} <= set(extras(required))
    assert not {"dev", "docs"} & {
        needed.extra for needed in requirements_of(metadata.requires("anytime") or [])
    }


def test_shell_completes_commands() -> None:
    environment = {
        **os.environ,
        "_ANYTIME_COMPLETE": "complete_bash",
        "COMP_WORDS": "anytime in",
        "COMP_CWORD": "1",
    }
    command = [
        sys.executable,
        "-c",
        "import sys; sys.argv[0] = 'anytime'; from anytime.cli import main; main()",
    ]
    said = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, check=False
    ).stdout
    assert said.split() == ["inspect"]
