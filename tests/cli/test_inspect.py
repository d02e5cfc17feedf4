"""``anytime inspect``: what a model file holds."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

import anytime as at
from tests.cli.running import run


def test_shows_source_prices_purchases_and_stages(folder: Path) -> None:
    said = run("inspect", folder / "sick.anytime").stdout
    assert "sick.anytime: AnytimeClassifier" in said
    assert "sklearn.HistGradientBoostingClassifier" in said
    assert "2 classes: no, yes" in said
    assert "5 in 4 groups, 23.1 CAD in all" in said
    assert said.count("held-out logistic loss") == 2  # of purchases, and of stages
    assert "gain per cost" in said
    assert "(20 more between these)" in said  # 10 of 30 stages are shown


def test_json_is_everything(folder: Path) -> None:
    shown = json.loads(run("inspect", folder / "sick.anytime", "--json").stdout)
    model = at.load(folder / "sick.anytime")
    assert shown["order"] == model.order_
    assert at.FeatureCosts.from_dict(shown["costs"]) == model.costs_
    np.testing.assert_allclose(shown["stage_costs"], model.stage_costs_)
    assert shown["held_out"]["measure"] == "logistic loss"
    np.testing.assert_allclose(shown["held_out"]["values"], -model.plan_.quality)
    assert shown["certificate"] is None
    assert shown["limit"] is None  # JSON has no infinity


def test_model_without_quality_and_names(folder: Path, tmp_path: Path) -> None:
    model = at.AnytimeRegressor(validation_fraction=None, budget=1.0).fit(
        np.arange(80.0).reshape(40, 2), np.arange(40.0)
    )
    model.save(tmp_path / "m.anytime")
    said = run("inspect", tmp_path / "m.anytime").stdout
    assert "held-out" not in said
    assert re.search(r"budget +1 column\b", said)


def linear_model(path: Path, **settings: object) -> at.GroupPursuitRegressor:
    X, y, _ = at.datasets.load("diabetes")
    model = at.GroupPursuitRegressor(
        costs=[1, 1, 2, 2, 3, 3, 4, 4, 5, 5], l2_regularization=0.1, **settings
    ).fit(X, y)
    model.save(path)
    return model


def test_certificate_of_a_linear_model(tmp_path: Path) -> None:
    model = linear_model(tmp_path / "m.anytime", selection="forward")
    entry = model.certificate_.summary()[2]
    said = run("inspect", tmp_path / "m.anytime").stdout
    assert f"Certificate (gamma {model.certificate_.gamma:.3g})" in said
    assert f"{entry['certified']:.0%}" in said
    shown = json.loads(run("inspect", tmp_path / "m.anytime", "--json").stdout)["certificate"]
    assert shown == {"gamma": model.certificate_.gamma, "budgets": model.certificate_.summary()}
