"""``anytime demo``: the first minute."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import anytime as at
from anytime.cli import demo, digit_rivals, digits
from anytime.datasets.images import STORED_MS
from tests.cli.running import fails, run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("demo") / "new"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(digits, "SECONDS", 3.0)  # the story is the same with a few purchases
        return folder, run("demo", "--quick", "--output", folder).stdout


def test_tells_its_story_in_80_columns(told: tuple[Path, str]) -> None:
    _, said = told
    for part in range(1, 7):
        assert any(line.startswith(f"{part}  ") for line in said.splitlines())
    for asked in ("budget", "deadline 20 ms", "stop at 1.5 ms", "50% is enough", "no limit"):
        assert asked in said
    assert "Chosen for show" in said  # the example is picked, and says so
    wide = [line for line in said.splitlines() if len(line.rstrip()) > 80 and "anytime " not in line]
    assert wide == []


def test_leaves_a_model_prices_a_plot_and_a_report(told: tuple[Path, str]) -> None:
    folder, said = told
    names = {path.name for path in folder.iterdir()}
    assert names == {"digits.anytime", "costs.yaml", "curve.png", "report.html", "test.csv"}
    assert all(name in said for name in names)
    assert (folder / "curve.png").read_bytes().startswith(b"\x89PNG")
    report = (folder / "report.html").read_text()
    assert "SpeedBoost" in report
    assert "as usual" in report
    assert "per budget" in report  # what a careful user would do
    model = at.load(folder / "digits.anytime")
    assert isinstance(model, at.SpeedBoostClassifier)
    assert at.FeatureCosts.read(folder / "costs.yaml") == model.costs_


def test_the_cheap_answer_is_worse_than_the_dear_one_and_better_than_none() -> None:
    """Stored prices and no limit of time: what is learned does not depend on how busy the machine is."""
    images, y, train, _, test = at.datasets.load_digit_images()
    known = at.datasets.image_extractors()
    X, groups = at.datasets.extract(
        images, {name: known[name] for name in ("ink", "pixels", "upright edges")}
    )
    costs = at.FeatureCosts({name: STORED_MS[name] for name in groups}, groups=groups, unit="ms")
    learned, judged = (
        digits.Part(images[rows], pd.DataFrame(X[rows]), y[rows]) for rows in (train[::2], test)
    )
    model = digits.speedboost(digits.Digits(costs, learned, judged), rounds=10, seconds=None)
    nothing, first, everything = (
        model.score(judged.X, judged.y, budget=b) for b in (0, model.stage_costs_[0], None)
    )
    assert nothing < 0.2 < first < everything
    assert everything > 0.85


def _two_ways() -> digits.Digits:
    """Ten classes: a cheap group says which half they are in, a costly one which class it is, give or take a little."""
    random = np.random.default_rng(0)
    y = random.integers(10, size=600)
    X = pd.DataFrame(
        {"half": y // 5 + 0.1 * random.normal(size=600), "class": y + 0.2 * random.normal(size=600)}
    )
    parts = [digits.Part(np.empty(0), X[rows], y[rows]) for rows in (slice(0, 400), slice(400, 600))]
    costs = at.FeatureCosts({"cheap": 1.0, "costly": 20.0}, groups={"cheap": ["half"], "costly": ["class"]})
    return digits.Digits(costs, *parts)


@pytest.mark.parametrize("has_lightgbm", [True, False])
def test_rivals_answer_with_what_a_budget_can_pay(
    monkeypatch: pytest.MonkeyPatch, has_lightgbm: bool
) -> None:
    """With and without LightGBM: nothing is known for nothing, more for more, and answers cost as much as their groups."""
    if has_lightgbm:
        pytest.importorskip("lightgbm")
    else:
        monkeypatch.setitem(sys.modules, "lightgbm", None)
    data = _two_ways()
    found = digit_rivals.rivals(data, 8, digits.TREES)
    assert ("one LightGBM per budget" in found) == has_lightgbm
    for rival in found.values():
        result = at.curve(rival, data.test.X, data.test.y, meter="model")
        assert set(result.costs) <= {0.0, 1.0, 20.0, 21.0}
        assert result.at(0.0) < 0.2 < result.final
    per_budget = at.curve(next(iter(found.values())), data.test.X, data.test.y, meter="model")
    assert per_budget.at(0.0) < 0.15 < per_budget.at(1.0) < 0.3 < 0.8 < per_budget.final


def test_what_it_proposes_next_works(told: tuple[Path, str]) -> None:
    _, said = told
    proposed = [
        line.split()[1:]
        for line in said.splitlines()
        if line.strip().startswith("anytime ") and "YOUR" not in line
    ]
    assert {line[0] for line in proposed} == {"inspect", "predict", "curve"}
    for arguments in proposed:
        run(*arguments)


def test_without_matplotlib_only_the_picture_is_missing(
    told: tuple[Path, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """With the model of the demonstration above: what is trained does not depend on matplotlib."""
    folder, _ = told
    model, table = at.load(folder / "digits.anytime"), pd.read_csv(folder / "test.csv")
    test = digits.Part(np.empty(0), table.drop(columns="digit"), table["digit"].to_numpy())
    for package in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"] or ["matplotlib"]:
        monkeypatch.setitem(sys.modules, package, None)
    demo._judge({"SpeedBoost": model}, digits.Digits(model.costs_, test, test), tmp_path)
    assert "curve.png is skipped: matplotlib is not installed" in capsys.readouterr().out
    assert not (tmp_path / "curve.png").exists()
    assert (tmp_path / "report.html").exists()


def test_place_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "is a file; name a folder" in fails("demo", "-o", tmp_path / "file")
