"""``anytime profile``: measured prices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import anytime as at
from tests.cli.running import fails, run

MODULE = """
import numpy as np
import anytime as at

features = at.Features(
    {"mean": np.mean, "rows": lambda a: np.mean(a, axis=1), "two": lambda a: {"low": a.min(), "high": a.max()}},
    requires={"rows": ["mean"]},
)
of_rows = at.Features({"sum": lambda row: row["a"] + row["b"]})
number = 3


def made():
    return features


def raws():
    return [np.ones((4, 4))] * 5


def broken():
    raise KeyError("nothing here")
"""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MODULE)
    np.save(tmp_path / "raw.npy", np.random.default_rng(0).random((6, 4, 4)))
    return tmp_path / "mine.py"


@pytest.mark.parametrize(("features", "raw"), [("features", "raw.npy"), ("made", "mine.py:raws")])
def test_writes_what_it_prints(module: Path, tmp_path: Path, features: str, raw: str) -> None:
    said = run("profile", f"{module}:{features}", tmp_path / raw, "-o", tmp_path / "costs.yaml").stdout
    costs = at.FeatureCosts.read(tmp_path / "costs.yaml")
    assert costs.names == ("mean", "rows", "two")
    assert costs.groups["two"] == ("low", "high")
    assert costs.requires == {"rows": ("mean",)}
    assert costs.unit == "ms"
    assert costs.tails is not None
    for name in costs.names:
        assert f"{costs.prices[name]:.4g}" in said
        assert costs.tails[name] >= costs.prices[name]
    assert "p50 (ms)  p99 (ms)" in said


def test_module_is_found_in_the_current_folder(
    module: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run("profile", "mine:features", "mine:raws", "-o", "costs.csv", "--unit", "us", "--examples", 2)
    assert at.FeatureCosts.read("costs.csv").unit == "us"


def test_rows_of_a_table_are_dicts(module: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n3,4\n")
    said = run("profile", f"{module}:of_rows", tmp_path / "rows.csv", "-o", tmp_path / "c.yaml").stdout
    assert "2 examples" in said


def test_one_array_of_an_archive(module: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "one.npz", anything=np.ones((3, 4, 4)))
    run("profile", f"{module}:features", tmp_path / "one.npz", "-o", tmp_path / "c.yaml")
    np.savez(tmp_path / "two.npz", a=np.ones(3), b=np.ones(3))
    assert "several arrays (a, b)" in fails(
        "profile", f"{module}:features", tmp_path / "two.npz", "-o", tmp_path / "c.yaml"
    )


@pytest.mark.parametrize(
    ("features", "raw", "said", "code"),
    [
        ("mine.py", "raw.npy", "must have the form MODULE:NAME", 2),
        ("mine.py:nothing", "raw.npy", "has no 'nothing'", 2),
        ("mine.py:number", "raw.npy", "is of type int, not a Features object", 2),
        ("mine.py:broken", "raw.npy", "mine.py:broken() failed: KeyError", 1),
        ("absent.py:features", "raw.npy", "absent.py: no such file", 1),
        ("no_such_module:features", "raw.npy", "there is no module 'no_such_module'", 2),
        ("syntax.py:features", "raw.npy", "importing syntax.py failed: SyntaxError", 1),
        ("mine.py:features", "absent.npy", "absent.npy: no such file", 1),
        ("mine.py:features", "empty.npy", "empty.npy holds no example", 1),
        ("mine.py:features", "pickled.npy", "pickled.npy holds no plain array", 1),
        ("mine.py:features", "words.csv", "group 'mean': raw example 0: TypeError", 1),
        ("mine.py:features", "mine.py:number", "is of type int, not a sequence of examples", 2),
    ],
)
def test_bad_input_is_one_line(
    module: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    features: str,
    raw: str,
    said: str,
    code: int,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("syntax.py").write_text("def")
    Path("words.csv").write_text("a\nx\n")
    np.save("empty.npy", np.empty((0, 4, 4)))
    np.save("pickled.npy", np.array([{}], dtype=object))
    assert said in fails("profile", features, raw, "-o", "costs.yaml", code=code)


def test_price_list_has_an_ending_that_can_be_read(module: Path, tmp_path: Path) -> None:
    said = fails("profile", f"{module}:features", tmp_path / "raw.npy", "-o", tmp_path / "costs.txt", code=2)
    assert said.endswith("a price list ends in .yaml or .csv")
