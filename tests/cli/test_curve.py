"""``anytime curve`` and ``anytime compare``: what a budget buys, for one model or several."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import anytime as at
from tests.cli.running import fails, run


@pytest.fixture(scope="module")
def other(folder: Path) -> Path:
    file = folder / "other.anytime"
    run(
        "fit",
        folder / "patients.csv",
        "-t",
        "sick",
        "--costs",
        folder / "prices.yaml",
        "--model",
        "hist",
        "--mixed",
        "--n-estimators",
        10,
        "-o",
        file,
    )
    return file


def test_curve_is_shown_as_plot_table_and_numbers(folder: Path) -> None:
    said = run("curve", folder / "sick.anytime", folder / "patients.csv", "-t", "sick").stdout
    assert "accuracy against cost, 240 rows, 3 budgets" in said
    assert "━" in said
    assert "cost in CAD" in said
    assert "timeliness" in said
    assert [line.split("%")[0] for line in said.splitlines()[-3:]] == ["90", "95", "99"]


def test_json_holds_every_point(folder: Path, tmp_path: Path, patients: pd.DataFrame) -> None:
    run(
        "curve", folder / "sick.anytime", folder / "patients.csv", "-t", "sick", "--json", tmp_path / "c.json"
    )
    written = json.loads((tmp_path / "c.json").read_text())
    model = at.load(folder / "sick.anytime")
    expected = at.curve(model, patients.drop(columns="sick"), patients["sick"])
    np.testing.assert_allclose(written["points"]["accuracy"], expected.values)
    np.testing.assert_allclose(written["points"]["cost"], expected.costs)
    assert written["timeliness"] == pytest.approx(expected.timeliness(rule="step"))
    assert written["unit"] == "CAD"


def test_json_to_standard_output_is_all_there_is(folder: Path) -> None:
    said = run("curve", folder / "sick.anytime", folder / "patients.csv", "-t", "sick", "--json", "-").stdout
    assert json.loads(said)["meter"] == "budget"


@pytest.mark.parametrize("meter", ["budget", "model", "realised", "time"])
def test_each_meter_has_its_unit(folder: Path, meter: str) -> None:
    said = run(
        "curve", folder / "sick.anytime", folder / "patients.csv", "-t", "sick", "--meter", meter
    ).stdout
    assert ("cost in s" if meter == "time" else "cost in CAD") in said


def test_timeliness_says_up_to_which_budget_and_is_that_of_a_comparison(folder: Path, other: Path) -> None:
    models, rest = [folder / "sick.anytime", other], [folder / "patients.csv", "-t", "sick"]
    meaning = "mean share of the possible gain up to 23.1 CAD"
    alone = run("curve", models[0], *rest).stdout
    told = next(line for line in alone.splitlines() if line.startswith("timeliness"))
    assert told.endswith(f"({meaning})")
    compared = run("compare", *models, *rest).stdout
    assert compared.splitlines()[-1] == f"timeliness: {meaning}"
    line = next(line for line in compared.splitlines() if line.startswith("sick "))
    assert line.split()[2] == told.split()[1]


def test_metric_can_be_named(folder: Path) -> None:
    said = run(
        "curve", folder / "sick.anytime", folder / "patients.csv", "-t", "sick", "--metric", "roc_auc"
    ).stdout
    assert "roc_auc against cost" in said
    said = fails(
        "curve", folder / "sick.anytime", folder / "patients.csv", "-t", "sick", "--metric", "beauty"
    )
    assert "no metric 'beauty'" in said


def test_plot_is_a_picture(folder: Path, tmp_path: Path) -> None:
    run("curve", folder / "sick.anytime", folder / "patients.csv", "-t", "sick", "--plot", tmp_path / "c.png")
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG")


def test_labels_none_of_which_the_model_knows_count_as_wrong(folder: Path, tmp_path: Path) -> None:
    to = tmp_path / "c.json"
    done = run("curve", folder / "sick.anytime", folder / "patients.csv", "-t", "city", "--json", to)
    assert "bern" in done.stderr
    assert "which count as wrong; its classes are no, yes" in done.stderr
    assert set(json.loads(to.read_text())["points"]["accuracy"]) == {0.0}


def test_a_metric_of_probabilities_says_which_label_the_model_does_not_know(folder: Path) -> None:
    asked = ("-t", "city", "--metric", "neg_log_loss")
    said = run("curve", folder / "sick.anytime", folder / "patients.csv", *asked, code=1).stderr
    assert "'neg_log_loss' is undefined for rows of class 'bern', which the model was not trained on" in said
    assert "such as accuracy" in said


def test_comparison_has_a_line_per_model_and_a_report(folder: Path, other: Path, tmp_path: Path) -> None:
    models = [folder / "sick.anytime", other]
    options = ["-t", "sick", "--report", tmp_path / "r.html", "--plot", tmp_path / "c.svg"]
    result = run("compare", *models, folder / "patients.csv", *options)
    assert "accuracy of 2 models on 240 rows" in result.stdout
    first = [line.split()[0] for line in result.stdout.splitlines() if line]
    assert {"sick", "other"} <= set(first)
    page = (tmp_path / "r.html").read_text()
    assert '"sick"' in page
    assert '"other"' in page
    assert "<svg" in (tmp_path / "c.svg").read_text()


def test_models_may_use_different_columns(folder: Path, tmp_path: Path, patients: pd.DataFrame) -> None:
    patients[["ecg", "sick"]].to_csv(tmp_path / "narrow.csv", index=False)
    (tmp_path / "p.yaml").write_text("unit: CAD\ngroups: {ecg: {price: 15, columns: [ecg]}}")
    run(
        "fit",
        tmp_path / "narrow.csv",
        "-t",
        "sick",
        "--costs",
        tmp_path / "p.yaml",
        "--n-estimators",
        5,
        "-o",
        tmp_path / "n.anytime",
    )
    models = [folder / "sick.anytime", tmp_path / "n.anytime"]
    result = run("compare", *models, folder / "patients.csv", "-t", "sick")
    assert "accuracy of 2 models on 240 rows" in result.stdout
    assert {"sick", "n"} <= {line.split()[0] for line in result.stdout.splitlines() if line}


def test_models_of_the_same_name_go_by_their_paths(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "sick.anytime"
    copy.write_bytes((folder / "sick.anytime").read_bytes())
    said = run("compare", copy, folder / "sick.anytime", folder / "patients.csv", "-t", "sick").stdout
    assert str(copy) in said


def test_different_units_cannot_be_compared(folder: Path, tmp_path: Path) -> None:
    run("fit", folder / "patients.csv", "-t", "sick", "--n-estimators", 5, "-o", tmp_path / "m.anytime")
    said = fails(
        "compare", folder / "sick.anytime", tmp_path / "m.anytime", folder / "patients.csv", "-t", "sick"
    )
    assert said == "costs are counted in different units: sick in CAD, m in columns"


def test_classes_and_numbers_cannot_be_compared(folder: Path, tmp_path: Path) -> None:
    run("fit", folder / "numbers.csv", "-t", "age", "--n-estimators", 5, "-o", tmp_path / "m.anytime")
    files = [folder / "sick.anytime", tmp_path / "m.anytime", folder / "patients.csv"]
    assert "answer different questions" in fails("compare", *files, "-t", "sick", code=2)


def test_compare_needs_models_and_a_table(folder: Path) -> None:
    assert "a table as the last argument" in fails("compare", folder / "patients.csv", "-t", "sick", code=2)
    models = [folder / "sick.anytime", folder / "sick.anytime"]
    assert "looks like a model" in fails("compare", *models, "-t", "sick", code=2)
    assert "named twice" in fails("compare", *models, folder / "patients.csv", "-t", "sick", code=2)
