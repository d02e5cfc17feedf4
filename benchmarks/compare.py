"""Compare the measurements of the hot paths at two commits.

python benchmarks/compare.py main~10                 # against the files of the working tree
python benchmarks/compare.py v0.1.0 main --least 0.1 # two commits; changes of a tenth and more
python benchmarks/compare.py main --files serving    # other files of benchmarks/results

Numbers are those that each commit has in ``benchmarks/results``: measure first (``make reproduce WORK=runtime``), on a quiet
machine. Timings of two machines do not compare; ratios to a rival that took turns do.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Iterator
from typing import Any

from common import RESULTS

HOT = (
    "native_evaluator",
    "imported_model",
    "export_speed",
    "deadline_fidelity",
    "tree_growing",
    "streaming_speed",
)
ABOUT = {"command", "date", "versions", "python", "bars"}


def content(commit: str | None, name: str) -> Any:
    """A file of results at a commit, or as it is; None where there is none."""
    if commit is None:
        path = RESULTS / f"{name}.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    shown = subprocess.run(
        ["git", "show", f"{commit}:benchmarks/results/{name}.json"],
        capture_output=True,
        text=True,
        cwd=RESULTS,
    )
    return json.loads(shown.stdout) if shown.returncode == 0 else None


def numbers(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, float]]:
    """Every number of a file, under the names that lead to it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not (not path and key in ABOUT):
                yield from numbers(inner, (*path, str(key)))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from numbers(inner, (*path, str(i)))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield ": ".join(path), float(value)


def changes(before: Any, after: Any, least: float) -> list[tuple[str, float, float]]:
    """(name, before, after) of numbers that differ by at least this share, the largest changes first."""
    old, new = dict(numbers(before)), dict(numbers(after))
    differ = [
        (name, old[name], new[name])
        for name in old.keys() & new.keys()
        if abs(new[name] - old[name]) > least * max(abs(old[name]), 1e-12)
    ]
    return sorted(differ, key=lambda change: -abs(change[2] - change[1]) / max(abs(change[1]), 1e-12))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("before", help="a commit")
    parser.add_argument("after", nargs="?", help="another; without it the files of the working tree")
    parser.add_argument("--least", type=float, default=0.05, help="share by which a number has to change")
    parser.add_argument("--files", nargs="+", default=HOT, help="names in benchmarks/results, without .json")
    options = parser.parse_args()
    for name in options.files:
        before, after = content(options.before, name), content(options.after, name)
        if before is None or after is None:
            print(
                f"{name}: not at {'both' if before is after else options.before if before is None else options.after}"
            )
            continue
        differ = changes(before, after, options.least)
        print(
            f"{name}: {len(differ)} of {len(dict(numbers(before)))} numbers differ by {options.least:.0%} or more"
        )
        for path, old, new in differ:
            print(f"  {old:12.5g} -> {new:12.5g}  {new / old - 1 if old else float('inf'):+8.1%}  {path}")


if __name__ == "__main__":
    main()
