"""Running the ``anytime`` command in this process or in one of its own."""

from __future__ import annotations

import math
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

from typer.testing import CliRunner, Result

from anytime.cli.app import app


def run(*arguments: Any, code: int = 0, given: str | None = None) -> Result:
    """Run ``anytime ARGUMENTS`` with ``given`` on standard input, and check how it ended."""
    with patch("anytime.cli.tables._WORTH_A_LINE", math.inf):  # no word on what a slow machine takes
        result = CliRunner().invoke(app, [str(a) for a in arguments], input=given)
    assert result.exit_code == code, result.output
    return result


def fails(*arguments: Any, code: int = 1) -> str:
    """Run ``anytime ARGUMENTS``, which has to fail with one line; return what that line says."""
    result = run(*arguments, code=code)
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("anytime: error: ")
    return lines[0].removeprefix("anytime: error: ")


def process(*arguments: Any, folder: Path | None = None, **options: Any) -> subprocess.Popen[str]:
    """``anytime ARGUMENTS`` in a process of its own, with pipes."""
    command = [sys.executable, "-m", "anytime.cli", *map(str, arguments)]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(command, cwd=folder, **pipes | options)


def without_seconds(told: str) -> str:
    """What a process has told, less the lines on what took long."""
    return re.sub(r"(?m)^.*: \d+\.\d s\n", "", told)


def hear_ctrl_c() -> None:
    """For ``preexec_fn``: a shell that runs the tests in the background has told its children to ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
