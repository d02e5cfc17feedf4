"""The pages for developers name what there is: every room and module, every native file, and nothing that is gone."""

from __future__ import annotations

import re
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "anytime"
NATIVE = ROOT / "src" / "native"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
NATIVE_PAGE = (NATIVE / "README.md").read_text(encoding="utf-8")

ROOMS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
MODULES = sorted(path.stem for path in PACKAGE.glob("*.py") if path.stem != "__init__")


def rows(page: str, heading: str) -> dict[str, str]:
    """The table below a heading: the first cell of each row, and the rest of it."""
    lines = page.partition(f"\n## {heading}\n")[2].partition("\n## ")[0].splitlines()
    cells = (line.strip("| ").split(" | ", 1) for line in lines if line.startswith("| "))
    return {first: rest for first, rest in cells if first not in ("room", "file")}


def quoted(text: str) -> list[str]:
    return re.findall(r"`([^`]+)`", text)


TABLE = rows(PAGE, "The rooms")
NAMED = {name for first in TABLE for name in quoted(first)}


def test_every_room_and_every_module_beside_them_stands_in_the_drawing_and_in_the_table():
    drawing = PAGE.partition("\n## The rooms\n")[2].split("```")[1]
    there = {f"{room}/" for room in ROOMS} | {f"{module}.py" for module in MODULES}
    assert there - NAMED == set()
    assert {name for name in there if name not in drawing} == set()


def test_no_room_of_the_table_is_a_ghost():
    assert {name for name in NAMED if not (PACKAGE / name).exists()} == set()


@pytest.mark.parametrize("first", TABLE)
def test_what_the_table_says_is_in_a_room_is_there(first):
    """A word in backticks is a module, a native file or a name that stands in the room's code."""
    paths = [PACKAGE / name for name in quoted(first)]
    files = [file for path in paths for file in ([path] if path.is_file() else path.rglob("*"))]
    stems = {file.stem for file in files} | {path.name for path in NATIVE.iterdir()}
    stems |= {path.stem for path in NATIVE.iterdir()} | {path.name for path in files} | set(ROOMS)
    sources = [file for file in [*files, *NATIVE.iterdir()] if file.suffix in (".py", ".cpp", ".hpp")]
    code = "\n".join(file.read_text(encoding="utf-8") for file in sources)
    words = [word.rstrip("/").removesuffix("(X)") for word in quoted(TABLE[first])]
    lost = [
        word
        for word in words
        if not any(fnmatch(stem, word) for stem in stems) and word.split(".")[-1] not in code
    ]
    assert lost == []


def test_every_native_file_has_a_row_and_every_row_its_files():
    table = rows(NATIVE_PAGE, "Rooms")
    patterns = [name for first, rest in table.items() for name in [*quoted(first), *quoted(rest)]]
    files = {path.name for path in NATIVE.iterdir() if path.suffix in (".cpp", ".hpp", ".h")}
    covered = {file for file in files if any(fnmatch(file, p) or Path(file).stem == p for p in patterns)}
    assert files - covered == set()
    firsts = [name for first in table for name in quoted(first)]
    assert [p for p in firsts if not any(fnmatch(f, p) or Path(f).stem == p for f in files)] == []


@pytest.mark.parametrize("page", [PAGE, NATIVE_PAGE], ids=["architecture", "native"])
def test_classes_and_functions_that_are_named_exist(page):
    sources = [*PACKAGE.rglob("*.py"), *NATIVE.glob("*.?pp")]
    known = {word for path in sources for word in re.findall(r"\w+", path.read_text(encoding="utf-8"))}
    known |= {path.stem for path in sources} | {"py", "cpp", "hpp", "pyproject", "toml"}
    named = re.findall(r"`(\w+)\.(\w+)(?:\(.*?\))?`", page)
    assert named
    assert [name for name in named if not set(name) <= known] == []
