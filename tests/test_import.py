"""``import anytime`` is quick, loads nothing that is not asked for, and offers what it announces."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import anytime
from tests.optional import installed_names

HEAVY = ["sklearn", "pandas", "matplotlib", "lightgbm", "xgboost", "torch"]


def python(code: str) -> str:
    """What a fresh interpreter prints when it runs ``code``."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout.strip()


@pytest.mark.realtime
def test_import_takes_at_most_300_ms() -> None:
    code = "import time; t = time.perf_counter(); import anytime; print(time.perf_counter() - t)"
    seconds = [float(python(code)) for _ in range(5)]
    assert min(seconds) <= 0.300, f"import anytime took {1e3 * min(seconds):.0f} ms at best"


@pytest.mark.parametrize("statement", ["import anytime", "import anytime; anytime.FeatureCosts([1.0, 2.0])"])
def test_import_loads_no_heavy_package(statement: str) -> None:
    loaded = python(f"import sys; {statement}; print(*sys.modules)").split()
    assert not [name for name in loaded if name in HEAVY]


def test_announced_names_exist() -> None:
    for name in installed_names():
        assert getattr(anytime, name) is not None
    assert set(anytime.__all__) <= set(dir(anytime))


def test_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'FeatureCost'.*'FeatureCosts'"):
        anytime.FeatureCost  # noqa: B018
    with pytest.raises(AttributeError, match=r"no attribute 'zzz'$"):
        anytime.zzz  # noqa: B018


def test_type_checkers_see_the_names_that_exist_at_run_time() -> None:
    """The imports under TYPE_CHECKING and the table of lazy names say the same."""
    tree = ast.parse(Path(anytime.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    typed = {
        alias.name: (node.module or "").removeprefix("anytime").removeprefix(".")
        for node in ast.walk(block)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    lazy = {name: home for home, names in anytime._HOMES.items() for name in names}
    lazy |= dict.fromkeys(anytime._ROOMS, "")
    assert typed == lazy
    assert sorted(lazy) == sorted(anytime.__all__)
