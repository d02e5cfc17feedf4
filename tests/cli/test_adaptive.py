"""``anytime fit --model adaptive`` and ``--model ladder``, and what becomes of its costly model."""

from __future__ import annotations

import json
from pathlib import Path

import joblib
import pandas as pd
import pytest
from sklearn.svm import SVC

import anytime as at
from tests.cli.running import fails, run

FEW = ["--n-estimators", 5, "--set", "max_iter=1", "--set", "min_samples_leaf=5"]


@pytest.fixture
def numbers(folder: Path, tmp_path: Path) -> Path:
    """A table without words, and a costly model of another library for it."""
    table = pd.read_csv(folder / "patients.csv").dropna()
    table = table[[name for name in table.columns if name == "sick" or table[name].dtype.kind in "if"]]
    table.to_csv(tmp_path / "numbers.csv", index=False)
    X = table.drop(columns="sick")
    joblib.dump(SVC().fit(X, table["sick"]), tmp_path / "svm.joblib")
    return tmp_path / "numbers.csv"


def test_without_a_costly_model_boosted_trees_are_one_and_go_into_the_file(
    folder: Path, tmp_path: Path
) -> None:
    data, file = folder / "patients.csv", tmp_path / "model.anytime"
    said = run("fit", data, "-t", "sick", "--model", "adaptive", *FEW, "-o", file).stdout
    assert "2 stages; mean cost and accuracy on the 48 rows held out" in said
    lines = said.splitlines()
    last = next(lines[k - 1] for k, line in enumerate(lines) if line.startswith("95% of the gain"))
    stage, budget, cost, _ = last.split()
    model = at.load(file)
    assert (stage, float(budget)) == ("2", pytest.approx(model.plan_.expected_costs[-1], rel=1e-4))
    assert f"everything, {float(cost):.4g} columns" in said  # of the same rows
    assert isinstance(model, at.AdaptiveClassifier)
    assert model.detached_ is None
    assert model.n_estimators == 5
    assert len(run("predict", file, data).stdout.splitlines()) == 241
    facts = run("inspect", file).stdout
    assert "costly      in the file; used for" in facts
    assert "held-out accuracy" in facts
    assert "needs no --costly" in fails("predict", file, data, "--costly", file, code=2)


def test_a_ladder_of_cheap_models(folder: Path, numbers: Path, tmp_path: Path) -> None:
    data, file = folder / "patients.csv", tmp_path / "model.anytime"
    run(
        "fit",
        data,
        "-t",
        "sick",
        "--model",
        "ladder",
        "--n-estimators",
        5,
        "--set",
        "max_stages=3",
        "-o",
        file,
    )
    model = at.load(file)
    assert isinstance(model, at.LadderClassifier)
    assert (model.n_estimators, model.max_stages) == (5, 3)
    assert len(run("predict", file, data).stdout.splitlines()) == 241
    svm = numbers.parent / "svm.joblib"
    asked = [
        "fit",
        numbers,
        "-t",
        "sick",
        "--model",
        "ladder",
        "--costly",
        svm,
        "--trusted",
        "--n-estimators",
        5,
    ]
    run(*asked, "--set", "tolerance=0", "--set", "caution=5", "-o", file)
    assert at.load(file).detached_ == "SVC"
    number = ["fit", numbers, "-t", "age", "--task", "regression", "--model", "ladder", "-o", file]
    assert "--model ladder predicts classes" in fails(*number, code=2)


def test_a_costly_model_of_another_library_is_given_again(numbers: Path) -> None:
    svm, file = numbers.parent / "svm.joblib", numbers.parent / "model.anytime"
    asked = ["fit", numbers, "-t", "sick", "--model", "adaptive", "--costly", svm, *FEW, "-o", file]
    assert "is a pickle" in fails(*asked, code=2)
    run(*asked, "--trusted", "--set", "costly_fraction=1", "--set", "cost_penalty=0.05")
    told = json.loads(run("inspect", "--json", file).stdout)
    assert told["held_out"]["measure"] == "accuracy"
    assert len(told["held_out"]["values"]) == 3
    assert "costly      SVC, which is not in the file: pass it with --costly" in run("inspect", file).stdout
    message = fails("predict", file, numbers)
    assert "some rows are sent to 'SVC', which is not in the file: give it with --costly FILE" in message
    assert "is a pickle" in fails("predict", file, numbers, "--costly", svm, code=2)
    whole = run("predict", file, numbers, "--costly", svm, "--trusted", "--with-cost").stdout
    assert len({line.split(",")[1] for line in whole.splitlines()[1:]}) > 1
    assert run("curve", file, numbers, "-t", "sick", "--costly", svm, "--trusted").stdout
    assert "sent to 'SVC'" in fails("curve", file, numbers, "-t", "sick")
    cheap = run(
        "predict", file, numbers, "--mean-budget", float(at.load(file).plan_.expected_costs[0])
    ).stdout
    assert len(cheap.splitlines()) == len(whole.splitlines())


def test_a_model_of_ours_may_be_the_costly_one(folder: Path, tmp_path: Path) -> None:
    data = folder / "patients.csv"
    run(
        "fit",
        data,
        "-t",
        "sick",
        "--n-estimators",
        5,
        "--model",
        "boosting",
        "-o",
        tmp_path / "costly.anytime",
    )
    file = tmp_path / "model.anytime"
    run(
        "fit",
        data,
        "-t",
        "sick",
        "--model",
        "adaptive",
        "--costly",
        tmp_path / "costly.anytime",
        *FEW,
        "-o",
        file,
    )
    assert at.load(file).detached_ is None


def test_what_makes_no_sense_is_refused(tmp_path: Path, numbers: Path) -> None:
    file = tmp_path / "model.anytime"
    fit = ["fit", numbers, "-o", file]
    assert "--costly goes with --model ladder or adaptive, not with speedboost" in fails(
        *fit, "-t", "sick", "--costly", file, code=2
    )
    number = [*fit, "-t", "age", "--task", "regression", "--model", "adaptive"]
    assert "predicts classes, but the target 'age' is a number" in fails(*number, code=2)
    joblib.dump([1, 2], tmp_path / "list.joblib")
    wrong = [*fit, "-t", "sick", "--model", "adaptive", "--trusted", "--costly"]
    assert "holds a list, which is not a model" in fails(*wrong, tmp_path / "list.joblib")
    (tmp_path / "broken.pkl").write_bytes(b"\x80rubbish")
    assert "cannot be unpickled" in fails(*wrong, tmp_path / "broken.pkl")
    assert "there is an option for that, --costly" in fails(*fit, "-t", "sick", "--set", "costly=3", code=2)
