"""``anytime inspect``: what a model file holds."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

import anytime as at
from tests.cli.running import fails, run


def test_shows_source_prices_purchases_and_stages(folder: Path) -> None:
    said = run("inspect", folder / "sick.anytime").stdout
    assert "sick.anytime: AnytimeClassifier" in said
    assert "sklearn.HistGradientBoostingClassifier" in said
    assert "2 classes: no, yes" in said
    assert "5 in 4 groups, 23.1 CAD in all" in said
    assert "gain per cost" in said
    assert "(20 more between these)" in said  # 10 of 30 stages are shown


def test_json_is_everything(folder: Path) -> None:
    shown = json.loads(run("inspect", folder / "sick.anytime", "--json").stdout)
    model = at.load(folder / "sick.anytime")
    assert shown["order"] == model.order_
    assert at.FeatureCosts.from_dict(shown["costs"]) == model.costs_
    np.testing.assert_allclose(shown["stage_costs"], model.stage_costs_)
    np.testing.assert_allclose(shown["held_out_loss"], -model.plan_.quality)
    assert shown["certificate"] is None
    assert shown["limit"] is None  # JSON has no infinity


def test_model_without_quality_and_names(folder: Path, tmp_path: Path) -> None:
    model = at.AnytimeRegressor(validation_fraction=None, budget=1.0).fit(
        np.arange(80.0).reshape(40, 2), np.arange(40.0)
    )
    model.save(tmp_path / "m.anytime")
    said = run("inspect", tmp_path / "m.anytime").stdout
    assert "held-out" not in said
    assert "budget      1 columns" in said


def linear_model(path: Path, **settings: object) -> at.GroupPursuitRegressor:
    X, y, _ = at.datasets.load("diabetes")
    model = at.GroupPursuitRegressor(costs=[1, 1, 2, 2, 3, 3, 4, 4, 5, 5], ridge=0.1, **settings).fit(X, y)
    model.save(path)
    return model


def test_bounds_of_a_linear_model(tmp_path: Path) -> None:
    model = linear_model(tmp_path / "m.anytime", selection="forward")
    said = run("inspect", tmp_path / "m.anytime").stdout
    assert "Bounds at 17" in said  # the first purchase that reaches half of 30
    lines = [line.split() for line in said.splitlines()]
    (row,) = (line for line in lines if line[:3] == ["Theorem", "4.2.4", "product"])
    bound = next(
        r for r in model.certificate_.bounds(17) if (r["theorem"], r["form"]) == ("Theorem 4.2.4", "product")
    )
    assert row[3:] == [
        "proved",
        f"{bound['share']:.1%}",
        "17",
        "≥",
        f"{bound['bound']:.4f}",
    ]
    assert "from all pairs of sets" in " ".join(said.split())
    assert "doubling" not in said  # nothing of what does not apply
    assert "Bounds at 8" in run("inspect", tmp_path / "m.anytime", "--budget", 8).stdout


def test_bounds_in_json_are_all_of_them(tmp_path: Path) -> None:
    model = linear_model(tmp_path / "m.anytime", schedule="doubling")
    shown = json.loads(run("inspect", tmp_path / "m.anytime", "--json", "--budget", 8).stdout)["certificate"]
    assert shown["bounds"] == {"budget": 8.0, "rows": model.certificate_.bounds(8)}
    assert {row["applies"] for row in shown["bounds"]["rows"]} == {True, False}
    assert shown["measured"]["gamma"] == model.certificate_.measured.gamma


def test_bounds_need_a_budget_that_buys_something(tmp_path: Path) -> None:
    linear_model(tmp_path / "m.anytime")
    said = fails("inspect", tmp_path / "m.anytime", "--budget", 0, code=2)
    assert said == "--budget must be positive, not 0: what costs nothing has no rival"
    free = at.GroupPursuitRegressor(costs=[0.0, 0.0], ridge=0.1).fit_moments(np.eye(2), [0.5, 0.5])
    free.save(tmp_path / "free.anytime")
    assert "Bounds" not in run("inspect", tmp_path / "free.anytime").stdout
