"""What is in ``deploy/`` and in the guide fits the commands as they are."""

from __future__ import annotations

import configparser
import re
from pathlib import Path

import pytest
import typer

from anytime.cli.app import app
from anytime_research.serve.load import _arguments

ROOT = Path(__file__).resolve().parents[2]
UNIT, IMAGE, GUIDE = ROOT / "deploy/anytime.service", ROOT / "deploy/Dockerfile", ROOT / "docs/serving.md"


def options_of(command: str) -> set[str]:
    group = typer.main.get_command(app)
    parameters = group.commands[command].params  # type: ignore[attr-defined]
    return {option for parameter in parameters for option in parameter.opts} | {"--help"}


def options_in(text: str) -> set[str]:
    return set(re.findall(r"(?<!\S)--?[a-z][a-z-]*", text))


def test_unit_starts_the_server_with_options_that_it_has() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",))
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(UNIT)
    started = unit["Service"]["ExecStart"]
    assert " serve $MODELS " in started
    text = UNIT.read_text()
    given = options_in(started) | options_in(" ".join(re.findall(r"OPTIONS=(.*)", text)).replace('"', ""))
    assert {"--host", "--port", "--slo-ms", "--workers"} <= given <= options_of("serve")
    assert unit["Service"]["KillMode"] == "mixed"  # SIGTERM for the first process, which tells the workers
    assert unit["Service"]["DynamicUser"] == "yes"
    assert int(unit["Service"]["TimeoutStopSec"]) > 10  # longer than --drain


def test_image_is_made_of_files_that_are_there_and_runs_as_nobody() -> None:
    lines = IMAGE.read_text().splitlines()
    kept = {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines()}
    copied = [
        word
        for line in lines
        if line.startswith("COPY ") and "--from" not in line
        for word in line.split()[1:-1]
    ]
    assert copied
    assert set(copied) <= kept
    assert all((ROOT / name).exists() for name in copied)
    assert any(re.fullmatch(r"USER [1-9]\d*:[1-9]\d*", line) for line in lines)
    entry = next(line for line in lines if line.startswith("ENTRYPOINT"))
    assert set(re.findall(r'"(--[a-z-]+)"', entry)) <= options_of("serve")


@pytest.mark.parametrize("command", ["serve", "simulate"])
def test_guide_names_options_that_there_are(command: str) -> None:
    lines = re.findall(rf"^\$ anytime {command} (.*?)(?:\s#.*)?$", GUIDE.read_text(), flags=re.MULTILINE)
    assert lines
    for line in lines:
        assert options_in(line) <= options_of(command), line


def test_guide_names_options_of_the_load_generator() -> None:
    lines = re.findall(r"python -m anytime_research\.serve\.load (.*)", GUIDE.read_text())
    assert lines
    for line in lines:
        _arguments().parse_args(line.split())


def test_options_that_there_are_not_are_noticed() -> None:
    assert options_in("m.anytime --slo 10 -m x --rate=3") == {"--slo", "-m", "--rate"}
    assert "--slo" not in options_of("serve")
