"""The command as a process: how fast it starts, pipes that close, Ctrl-C, terminals of all kinds."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import anytime as at
from tests.cli.running import hear_ctrl_c, process, run, without_seconds


def test_version() -> None:
    assert run("--version").stdout == f"anytime {at.__version__}\n"


def test_help_lists_the_commands_in_80_columns() -> None:
    said = run("--help").stdout
    assert run().stdout == said  # nothing asked is help asked
    for command in ("demo", "fit", "predict", "curve", "compare", "inspect", "profile", "convert"):
        assert f"  {command} " in said
        more = run(command, "--help").stdout
        assert command == "demo" or "Example: anytime" in more
        assert max(map(len, more.splitlines())) <= 80
    assert "..." not in said.partition("Commands:")[2]  # no first sentence is cut


def test_help_takes_less_than_half_a_second() -> None:
    resource = pytest.importorskip("resource")

    def seconds() -> float:  # of computation: what the machine does besides does not count
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return float(used.ru_utime + used.ru_stime)

    taken = []
    for _ in range(3):
        before = seconds()
        process("--help").communicate(timeout=300)
        taken.append(seconds() - before)
    assert min(taken) < 0.5


def test_starting_loads_nothing_heavy() -> None:
    code = "import sys, anytime.cli.app; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"numpy", "pandas", "sklearn", "matplotlib", "rich.console"} & set(loaded)


@pytest.mark.skipif(sys.platform == "win32", reason="pipes differ there")
@pytest.mark.parametrize("command", ["predict", "inspect"])
def test_reader_that_leaves_is_no_error(folder: Path, tmp_path: Path, command: str) -> None:
    table = (folder / "patients.csv").read_text().splitlines(keepends=True)
    (tmp_path / "long.csv").write_text(table[0] + "".join(table[1:]) * 100)
    extra = [tmp_path / "long.csv"] if command == "predict" else []
    read, write = os.pipe()
    os.close(read)  # nobody will ever read
    with process(command, folder / "sick.anytime", *extra, stdout=write) as running:
        os.close(write)
        _, said = running.communicate(timeout=300)
    assert without_seconds(said) == ""
    assert running.returncode == 141


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGINT there")
def test_ctrl_c_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import time, pathlib, anytime as at\n"
        "def wait(raw):\n    pathlib.Path('running').touch()\n    time.sleep(60)\n"
        "features = at.Features({'slow': wait})\nraws = [1]\n"
    )
    arguments = ("profile", "slow.py:features", "slow.py:raws", "-o", "c.yaml")
    with process(*arguments, folder=tmp_path, preexec_fn=hear_ctrl_c) as running:
        while not (tmp_path / "running").exists():
            assert running.poll() is None
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        _, said = running.communicate(timeout=300)
    assert without_seconds(said).split("\n") == ["", "anytime: error: interrupted", ""]
    assert running.returncode == 130


def test_terminal_that_knows_ascii_only(folder: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    arguments = ["curve", folder / "sick.anytime", folder / "patients.csv", "-t", "sick"]
    said, wrong = process(*arguments, env=environment).communicate(timeout=300)
    assert said.isascii()
    assert "?" not in said
    assert without_seconds(wrong) == ""


@pytest.mark.skipif(sys.platform == "win32", reason="no pseudo-terminals there")
@pytest.mark.parametrize("kind", ["xterm-256color", "dumb"])
def test_on_a_terminal_lines_keep_to_its_width(folder: Path, kind: str) -> None:
    import pty

    main, end = pty.openpty()
    environment = {**os.environ, "TERM": kind, "COLUMNS": "80", "NO_COLOR": "1"}
    with process("inspect", folder / "sick.anytime", stdout=end, stderr=end, env=environment) as running:
        os.close(end)
        said = b""
        try:
            while part := os.read(main, 65536):
                said += part
        except OSError:  # how Linux says that the other end is closed
            pass
    os.close(main)
    assert running.returncode == 0
    lines = re.sub(r"\x1b\[[0-9;]*m", "", said.decode()).splitlines()
    assert "Prices" in lines
    assert max(map(len, lines)) <= 80
