"""Citations of the theory pages lead somewhere, and what the pages say of tests and functions is there."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = {path.stem: path for path in sorted((ROOT / "docs" / "theory").glob("*.md")) if path.stem != "index"}

REFERENCE = (
    r"(?:[A-E](?:\.\d+)+|\d+(?:\.\d+)*|ERR-\d+|[A-E]-[AP]\d+|[A-Z]\d+)(?!\w|-[A-Z])"  # 3.7, B.1.1, P17, B-P4
)
CITATION = re.compile(
    rf"(?<![\w/])({'|'.join(PAGES)})(?![\w.]) ({REFERENCE}(?:(?:, and |, | and | to |-){REFERENCE})*)"
)
BARE = re.compile(
    r"(?<![\w-])((?:[A-C]-)?P\d+|ERR-\d+|K\d)(?![\w-])|\ASection (\d+(?:\.\d+)*)"
)  # of a page cited above


@functools.cache
def places(page: str) -> frozenset[str]:
    """Numbers of the sections of a page, and the labels it prints in bold."""
    text = PAGES[page].read_text(encoding="utf-8")
    headings = re.findall(r"^#{2,4} ([A-E](?:\.\d+)*|\d+(?:\.\d+)*) ", text, flags=re.MULTILINE)
    return frozenset(headings) | frozenset(re.findall(r"\*\*([A-Z][A-Z-]*\d+)\*\*", text))


def citations(text: str) -> list[tuple[str, str]]:
    """(page, section or label) of every citation in a text; of a range, its ends."""
    return [
        (page, reference)
        for page, references in CITATION.findall(text)
        for reference in re.findall(REFERENCE, references)
    ]


def sources() -> list[Path]:
    """Files of the code that may cite."""
    folders = ("src", "tests", "research", "benchmarks")
    return [
        path for folder in folders for path in sorted((ROOT / folder).rglob("*.py")) if path != Path(__file__)
    ]


@functools.cache
def docstrings(path: Path) -> list[str]:
    """Docstrings of a file, that of the module first, by their quotes: parsing all files would take ten times as long."""
    return re.findall(r'^ *r?"""(.+?)"""', path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def nowhere(path: Path) -> list[str]:
    """Citations of a file that lead nowhere."""
    found = citations(path.read_text(encoding="utf-8"))
    return [f"{page} {reference}" for page, reference in found if reference not in places(page)]


def unexplained(path: Path) -> list[str]:
    """Bare labels and sections in docstrings of a test that are on no page which the file cites."""
    cited = {page for page, _ in citations(path.read_text(encoding="utf-8"))}
    explained = frozenset().union(*(places(page) for page in cited))
    bare = [label or section for docstring in docstrings(path) for label, section in BARE.findall(docstring)]
    return [reference for reference in bare if reference not in explained]


def test_every_citation_leads_to_a_section_or_a_label() -> None:
    wrong = {str(path.relative_to(ROOT)): found for path in sources() if (found := nowhere(path))}
    assert not wrong


def test_every_page_is_named_with_a_place_on_it() -> None:
    """A page's name in a docstring, and nothing that can be looked up after it, would not be checked above."""
    name = re.compile(rf"(?<![\w/])(?:{'|'.join(PAGES)})(?![\w.])")
    tests = [path for path in sources() if path.name.startswith("test_")]
    wrong = [
        f"{path.relative_to(ROOT)}: {docstring.splitlines()[0]}"
        for path in tests
        for docstring in docstrings(path)
        if len(name.findall(docstring)) != len(CITATION.findall(docstring))
    ]
    assert not wrong


def test_every_bare_label_in_a_test_is_on_a_page_that_its_file_cites() -> None:
    tests = [path for path in sources() if path.name.startswith("test_")]
    wrong = {str(path.relative_to(ROOT)): found for path in tests if (found := unexplained(path))}
    assert not wrong


def test_a_citation_of_nothing_is_noticed(tmp_path: Path) -> None:
    """The negative control: a section that is not there, a label of another page, and a label without a page."""
    path = tmp_path / "test_of_nothing.py"
    path.write_text('"""budgeted_trees 3.7, 77.7 and P17."""\n')
    assert nowhere(path) == ["budgeted_trees 77.7", "budgeted_trees P17"]
    path.write_text('"""P17: group."""\n')
    assert unexplained(path) == ["P17"]


@pytest.mark.parametrize("page", [*PAGES, "index"])
def test_every_test_named_on_a_page_exists(page: str) -> None:
    text = (ROOT / "docs" / "theory" / f"{page}.md").read_text(encoding="utf-8")
    named = re.findall(r"`((?:research/)?tests/[\w/]+\.py)::(?:\w+::)?(test_\w+)`", text)
    assert len(named) == text.count(".py::")
    missing = [
        f"{path}::{test}"
        for path, test in named
        if not (ROOT / path).is_file() or f"def {test}(" not in (ROOT / path).read_text(encoding="utf-8")
    ]
    assert not missing


@pytest.mark.parametrize("page", [*PAGES, "index"])
def test_every_name_of_the_library_on_a_page_exists(page: str) -> None:
    text = (ROOT / "docs" / "theory" / f"{page}.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`~?(anytime(?:_research)?(?:\.\w+)+)`", text))
    assert not sorted(name for name in named if not is_defined(name))


def is_defined(name: str) -> bool:
    """Whether a dotted name is a module, or stands in one: read, because importing takes seconds and some need torch."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        stem = ROOT / ("research" if parts[0] == "anytime_research" else "src") / Path(*parts[:cut])
        for module in (stem / "__init__.py", stem.with_suffix(".py")):
            if module.is_file():
                defined = module.read_text(encoding="utf-8")
                return all(re.search(rf"\b{part}\b", defined) for part in parts[cut:])
    return False


def test_a_name_that_is_not_there_is_noticed() -> None:
    assert is_defined("anytime.greedy.doubling")
    assert not is_defined("anytime.greedy.tripling")
    assert not is_defined("anytime.nothing.doubling")
