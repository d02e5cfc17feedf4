"""Every Python block of the documentation runs, page by page, top to bottom; every public name has its place there."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import json
import re
import signal
import sys
import traceback
from pathlib import Path
from types import ModuleType

import pytest
from markdown_it import MarkdownIt
from PIL import Image

import anytime as at
from tests.optional import installed_names, skip_without_torch

ROOT = Path(__file__).resolve().parents[1]
PAGES = [
    page
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if page.exists() and "_build" not in page.parts
]


def python_blocks(text: str) -> list[tuple[int, str]]:
    """The fenced ``python`` blocks of a Markdown page, each with the line its code starts on."""
    fences = (token for token in MarkdownIt().parse(text) if token.type == "fence" and token.map)
    return [(fence.map[0] + 2, fence.content) for fence in fences if fence.info.split()[:1] == ["python"]]


def run_page(page: Path) -> None:
    """Run the blocks of a page in one namespace; a failure names the page and the line in it."""
    module = ModuleType("documentation_page")
    sys.modules[module.__name__] = module  # so that a class of the page can be pickled
    namespace = vars(module)
    blocks = python_blocks(page.read_text(encoding="utf-8"))
    if any("from ray" in code for _, code in blocks):  # processes of a cluster cannot import this module
        importlib.import_module("ray.cloudpickle").register_pickle_by_value(module)
    for line, code in blocks:
        padded = "\n" * (line - 1) + code  # so that line numbers are those of the page
        try:
            exec(compile(padded, str(page), "exec"), namespace)
        except Exception as error:
            at = _line_in_page(error, page) or line
            source = page.read_text(encoding="utf-8").splitlines()[at - 1].strip()
            raise AssertionError(f"{page}:{at}: {type(error).__name__}: {error}\n    {source}") from error


def _line_in_page(error: Exception, page: Path) -> int | None:
    if isinstance(error, SyntaxError) and error.filename == str(page):
        return error.lineno
    lines = [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(page)
    ]
    return lines[-1] if lines else None


PAGES_WITH_CODE = [
    pytest.param(page, marks=[pytest.mark.ray] if "from ray" in text else [])
    for page in PAGES
    if "```python" in (text := page.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize("page", PAGES_WITH_CODE, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page_runs(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    skip_without_torch("".join(code for _, code in python_blocks(page.read_text(encoding="utf-8"))))
    if request.node.get_closest_marker("ray"):
        request.getfixturevalue("running")
    monkeypatch.chdir(tmp_path)  # a page may write files
    monkeypatch.setitem(sys.modules, "mlflow", stub_of_mlflow())
    handler = signal.getsignal(signal.SIGINT)
    try:
        run_page(page)
    finally:
        signal.signal(signal.SIGINT, handler)  # Ray Tune leaves its own


def stub_of_mlflow() -> ModuleType:
    """What the pages call of MLflow, which is far too large to be installed for a few lines; it takes what MLflow takes."""
    module = ModuleType("mlflow")

    def log_metrics(metrics: dict[str, float], *, step: int) -> None:
        assert isinstance(step, int)
        assert all(
            re.fullmatch(r"[\w.\- /]+", name) and float(value) == value for name, value in metrics.items()
        )

    vars(module).update(log_metrics=log_metrics, start_run=contextlib.nullcontext)
    return module


def test_failure_names_page_and_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n```python\nx = 1\n```\n\n- item\n\n  ```python\n  y = 2\n  x / 0\n  ```\n")
    with pytest.raises(AssertionError, match=r"page\.md:11: ZeroDivisionError: division by zero\s+x / 0"):
        run_page(page)


def test_class_of_a_page_can_be_pickled(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nclass Mine: pass\n```\n\n```python\nimport pickle\npickle.dumps(Mine())\n```\n"
    )
    run_page(page)


def test_other_languages_are_left_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```console\n$ rm nothing\n```\n\n```python\nassert True\n```\n")
    run_page(page)
    assert python_blocks(page.read_text()) == [(6, "assert True\n")]


@functools.cache
def described_on_api_pages() -> set[str]:
    """Names that a directive of the API pages describes: by themselves, or with all members of their module."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs/api").glob("*.md"))
    named = re.findall(r"^\.\. auto(?:class|function|exception):: (\S+)$", text, re.MULTILINE)
    for names in re.findall(
        r"^\.\. autosummary::\n   :toctree: generated\n\n((?:   \S+\n)+)", text, re.MULTILINE
    ):
        named += names.split()
    modules = re.findall(r"^\.\. automodule:: (\S+)$(?!\n\s+:no-members:)", text, re.MULTILINE)
    members = [f"{name}.{member}" for name in modules for member in importlib.import_module(name).__all__]
    return {full.rpartition(".")[2] for full in named + members}


PUBLIC = [name for name in installed_names() if not inspect.ismodule(getattr(at, name))]


def test_every_public_name_stands_on_an_api_page() -> None:
    missing = sorted(set(PUBLIC) - described_on_api_pages())
    assert not missing, f"add these to a page in docs/api: {missing}"


def test_the_reference_lists_every_public_name_once() -> None:
    index = (ROOT / "docs/api/index.md").read_text(encoding="utf-8")
    listed = re.findall(r"^   anytime\.(\w+)$", index, re.MULTILINE)
    absent = set(at.__all__).difference(installed_names())  # where there is no torch
    assert sorted(name for name in listed if name not in absent) == sorted(PUBLIC)


def test_slider_of_the_front_page_has_label_maps_and_numbers_for_every_stage() -> None:
    page = (ROOT / "docs/front_page.html").read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="street-numbers">(.*?)</script>', page)
    assert found, "run docs/front_page.py"
    numbers = json.loads(found[1])
    with Image.open(ROOT / "docs/_static/street.png") as street:
        width, height = street.size
    with Image.open(ROOT / "docs/_static/street_labels.png") as strip:
        assert strip.size == (width, height * len(numbers["ms"]))
    assert len(numbers["right"]) == len(numbers["looked"]) == len(numbers["ms"]) > 10
    assert numbers["ms"] == sorted(numbers["ms"])
    assert numbers["right"][1] < numbers["right"][-1]


def commands_on_pages() -> list[tuple[str, str, str]]:
    """(page, command, option) for every option of the ``anytime`` command that a page shows."""
    return [
        (page.relative_to(ROOT).as_posix(), command, option)
        for page in PAGES
        for command, rest in re.findall(r"\banytime ([a-z]+)\b([^`\n#]*)", page.read_text(encoding="utf-8"))
        for option in re.findall(r"(?<!\S)--?[a-z][a-z-]*", rest)
    ]


def test_options_on_pages_are_options_of_the_command() -> None:
    from typer.main import get_group

    from anytime.cli.app import app

    shown = commands_on_pages()
    assert len(shown) > 30
    commands = get_group(app).commands
    options = {name: {o for p in command.params for o in p.opts} for name, command in commands.items()}
    assert [(page, c, o) for page, c, o in shown if o not in options.get(c, ())] == []
