"""Run the measurements of one page of results again, by the commands that stand on it.

python benchmarks/reproduce.py                  # the pages and their commands
python benchmarks/reproduce.py hu_linear        # run those of docs/results/hu_linear.md, then update verdicts and figures

Commands that name a file or folder of yours (DIR, RUNS, ...) are shown and left to you. Those that read public data need
the environment variable ANYTIME_DATA.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys

from common import RESULTS

ROOT = RESULTS.parents[1]
COMMAND = re.compile(r"`((?:\w+=\w+ )*python benchmarks/[^`]+)`(\s\(\*\*data\*\*\))?")


def commands(page: str) -> dict[str, bool]:
    """The commands of a page, and whether each reads data."""
    text = (ROOT / f"docs/results/{page}.md").read_text(encoding="utf-8")
    found = {command: bool(data) or "--data DIR" in command for command, data in COMMAND.findall(text)}
    return {command.replace("--data DIR", "--data $ANYTIME_DATA"): data for command, data in found.items()}


def obstacle(command: str, reads_data: bool) -> str | None:
    """Why a command cannot be run as it stands."""
    if re.search(r"\b[A-Z]{3,}\b|[|>]", re.sub(r"\w+=\w+ |\$ANYTIME_DATA", "", command)):
        return "names a file or folder of yours"
    if reads_data and "ANYTIME_DATA" not in os.environ:
        return "needs ANYTIME_DATA, the folder of the public data sets"
    return None


def main() -> int:
    pages = sorted(
        page.stem
        for page in (ROOT / "docs/results").glob("*.md")
        if commands(page.stem) and page.stem != "index"
    )
    if len(sys.argv) != 2 or sys.argv[1] not in pages:
        for page in pages:
            print(
                page,
                *(f"    {command}{'  (data)' * data}" for command, data in commands(page).items()),
                sep="\n",
            )
        return int(len(sys.argv) > 1 and bool(sys.argv[1]))
    for command, reads_data in commands(sys.argv[1]).items():
        if reason := obstacle(command, reads_data):
            print(f"left to you, because it {reason}: {command}")
            continue
        print(command, flush=True)
        *settings, rest = re.split(r"(?<=\w) (?=python )", command)
        words = [word for setting in settings for word in setting.split()]
        environment = {**os.environ, **dict(word.split("=", 1) for word in words)}
        rest = rest.replace("$ANYTIME_DATA", shlex.quote(os.environ.get("ANYTIME_DATA", "")))
        subprocess.run([sys.executable, *shlex.split(rest)[1:]], cwd=ROOT, env=environment, check=True)
    return subprocess.run([sys.executable, "benchmarks/pages.py"], cwd=ROOT, check=True).returncode


if __name__ == "__main__":
    sys.exit(main())
