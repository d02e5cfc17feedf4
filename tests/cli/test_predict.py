"""``anytime predict``: answers for a table, within bounds."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import anytime as at
from tests.cli.running import fails, run


def answers(*arguments: object) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(run("predict", *arguments).stdout))


def test_answers_are_those_of_the_model(folder: Path, patients: pd.DataFrame) -> None:
    model = at.load(folder / "sick.anytime")
    X = patients.drop(columns="sick")
    for budget in (None, 1.0, 8.1):
        options = [] if budget is None else ["--budget", budget]
        found = answers(folder / "sick.anytime", folder / "patients.csv", *options)
        assert found["prediction"].tolist() == model.predict(X, budget=budget).tolist()


def test_probabilities_cost_and_stage_stand_beside_the_answer(folder: Path, patients: pd.DataFrame) -> None:
    found = answers(
        folder / "sick.anytime", folder / "patients.csv", "--proba", "--with-cost", "--budget", 8.1
    )
    model = at.load(folder / "sick.anytime")
    assert list(found) == ["prediction", "p_no", "p_yes", "cost", "stage"]
    expected = model.predict_proba(patients.drop(columns="sick"), budget=8.1)
    np.testing.assert_allclose(found[["p_no", "p_yes"]], expected)
    assert found["cost"].max() <= 8.1


def test_rows_stop_when_they_are_sure_enough(folder: Path, patients: pd.DataFrame) -> None:
    model, table = folder / "sick.anytime", folder / "patients.csv"
    sure = answers(model, table, "--confidence", 0.8, "--with-cost")
    batch = at.BatchSession(at.load(model), patients.drop(columns="sick"), confidence=0.8).advance()
    assert sure["prediction"].tolist() == batch.prediction.tolist()
    assert sure["stage"].tolist() == batch.stage.tolist()
    assert sure["cost"].mean() < answers(model, table, "--with-cost")["cost"].mean()
    assert answers(model, table, "--confidence", 0.8, "--budget", 1, "--with-cost")["cost"].max() <= 1


def test_confidence_goes_with_no_mean_budget(folder: Path) -> None:
    given = ["--confidence", 0.8, "--mean-budget", 1]
    assert "--mean-budget" in fails(
        "predict", folder / "sick.anytime", folder / "patients.csv", *given, code=2
    )


def test_no_time_gives_the_constant_answer(folder: Path) -> None:
    found = answers(folder / "sick.anytime", folder / "patients.csv", "--deadline", 0, "--with-cost")
    assert found["prediction"].nunique() == 1
    assert (found["stage"] == 0).all()


def test_rows_that_a_deadline_left_with_the_constant_answer_are_counted(folder: Path, tmp_path: Path) -> None:
    asked = ["predict", folder / "sick.anytime", folder / "patients.csv", "-o", tmp_path / "o.csv"]
    told = "for 240 of 240 rows the deadline allowed no stage: they have the model's constant answer; give more time"
    assert told in run(*asked, "--deadline", 0).stderr
    assert "allowed no stage" not in run(*asked, "--deadline", 60).stderr
    no_money = run(*asked, "--deadline", 0, "--budget", 0).stderr
    assert "allowed no stage" not in no_money  # it is the budget that allows none


def test_a_mean_budget_is_what_rows_pay_on_average(folder: Path, patients: pd.DataFrame) -> None:
    model = at.load(folder / "sick.anytime")
    mean = float(model.plan_.expected_costs[model.n_stages_ // 2])
    told = answers(folder / "sick.anytime", folder / "patients.csv", "--with-cost", "--mean-budget", mean)
    assert (told["stage"] == model.answer(patients.drop(columns="sick"), mean_budget=mean).stage).all()


def test_the_first_call_of_a_process_is_no_part_of_the_deadline(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def noted(model: at.AnytimeClassifier, X: pd.DataFrame, **bounds: float | None) -> object:
        calls.append((len(X), bounds))
        return answer(model, X, **bounds)

    answer = at.AnytimeClassifier.answer
    monkeypatch.setattr(at.AnytimeClassifier, "answer", noted)
    asked = ["predict", folder / "sick.anytime", folder / "patients.csv", "--budget", 8.1]
    run(*asked, "--deadline", 0.5)
    bounds = {"budget": 8.1, "mean_budget": None}
    assert calls == [(1, bounds), (240, {**bounds, "deadline": 0.5})]
    calls.clear()
    run(*asked)
    assert [n for n, _ in calls] == [240]  # nothing is done twice where no clock runs


def test_columns_are_found_by_name_in_any_order(folder: Path, patients: pd.DataFrame, tmp_path: Path) -> None:
    shuffled = patients[["sick", "ecg", "city", "chol", "sex", "age"]].assign(extra=1)
    shuffled.to_csv(tmp_path / "d.csv", index=False)
    expected = answers(folder / "sick.anytime", folder / "patients.csv")
    pd.testing.assert_frame_equal(answers(folder / "sick.anytime", tmp_path / "d.csv"), expected)


def test_words_that_look_like_numbers_stay_words(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    code = rng.choice(["7", "8", "A1"], 200)
    pd.DataFrame({"code": code, "y": np.where(code == "7", "in", "out")}).to_csv(
        tmp_path / "d.csv", index=False
    )
    run("fit", tmp_path / "d.csv", "-t", "y", "--n-estimators", 20, "-o", tmp_path / "m.anytime")
    pd.DataFrame({"code": [7, 8]}).to_csv(tmp_path / "new.csv", index=False)
    assert answers(tmp_path / "m.anytime", tmp_path / "new.csv")["prediction"].tolist() == ["in", "out"]


def test_unknown_word_is_taken_for_missing(folder: Path, patients: pd.DataFrame, tmp_path: Path) -> None:
    patients.assign(city="atlantis").to_csv(tmp_path / "d.csv", index=False)
    missing = patients.assign(city=np.nan)
    expected = at.load(folder / "sick.anytime").predict(missing.drop(columns="sick"))
    assert answers(folder / "sick.anytime", tmp_path / "d.csv")["prediction"].tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["out.csv", "out.parquet"])
def test_writes_a_file_and_says_so(folder: Path, tmp_path: Path, name: str) -> None:
    result = run("predict", folder / "sick.anytime", folder / "patients.csv", "-o", tmp_path / name)
    read = pd.read_parquet if name.endswith("parquet") else pd.read_csv
    assert len(read(tmp_path / name)) == 240
    assert result.stdout == ""
    assert "240 rows, mean cost" in result.stderr


@pytest.mark.parametrize("name", ["out.csv.gz", "out.CSV", "out"])
def test_csv_may_be_compressed_and_needs_no_ending(folder: Path, tmp_path: Path, name: str) -> None:
    run("predict", folder / "sick.anytime", folder / "patients.csv", "-o", tmp_path / name)
    assert len(pd.read_csv(tmp_path / name)) == 240


@pytest.mark.parametrize("name", ["out.xlsx", "out.tsv", "out.parquet.gz", "out.json"])
def test_other_endings_are_refused_before_anything_is_read(tmp_path: Path, name: str) -> None:
    said = fails("predict", tmp_path / "absent", tmp_path / "absent", "-o", tmp_path / name, code=2)
    assert said.startswith(f"{tmp_path / name}: a table must end in .csv")
    assert said.endswith(".parquet, .pq")


def test_model_without_names_takes_columns_in_order(folder: Path, tmp_path: Path) -> None:
    table = pd.read_csv(folder / "numbers.csv")
    y = table.pop("age")
    model = at.AnytimeRegressor(random_state=0).fit(table.to_numpy(), y)
    model.save(tmp_path / "m.anytime")
    table.to_csv(tmp_path / "d.csv", index=False)
    found = answers(tmp_path / "m.anytime", tmp_path / "d.csv")["prediction"]
    np.testing.assert_allclose(found, model.predict(table.to_numpy()))
    said = fails("predict", tmp_path / "m.anytime", folder / "numbers.csv")
    assert "has 3 columns, but the model takes 2 and has no column names" in said


def test_regression_has_no_probabilities(folder: Path, tmp_path: Path) -> None:
    run("fit", folder / "numbers.csv", "-t", "age", "--n-estimators", 5, "-o", tmp_path / "m.anytime")
    said = fails("predict", tmp_path / "m.anytime", folder / "numbers.csv", "--proba", code=2)
    assert "is a regression model" in said
