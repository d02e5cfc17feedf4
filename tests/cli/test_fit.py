"""``anytime fit``: a table in, a model file and a summary out."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import anytime as at
from tests.cli.running import fails, run


def fit(data: Path, target: str, *options: object) -> tuple[at.AnytimeClassifier, str]:
    """The model that ``anytime fit`` wrote, and what it said."""
    file = data.parent / f"{target}-{abs(hash(options))}.anytime"
    result = run("fit", data, "--target", target, "--n-estimators", 10, *options, "-o", file)
    return at.load(file), result.stdout


@pytest.fixture(autouse=True)
def _library_of_an_extra(request: pytest.FixtureRequest) -> None:
    """Skip what needs a library that is not installed: a wheel is tried without extras."""
    for value in getattr(request.node, "callspec", SimpleNamespace(params={})).params.values():
        if value in ("lightgbm", "xgboost"):
            pytest.importorskip(value)
        elif isinstance(value, str) and value.endswith("parquet"):
            pytest.importorskip("pyarrow")


def test_summary_says_what_is_bought_and_what_it_is_good_for(folder: Path) -> None:
    _, said = fit(folder / "patients.csv", "sick", "--costs", folder / "prices.yaml", "--model", "hist")
    assert "240 rows, 5 columns: classification, 2 classes, one group per tree" in said
    assert "10 stages; accuracy on the 48 rows held out" in said
    lines = {line.split("  ")[0]: line.split() for line in said.splitlines() if line}
    assert lines["draw, blood"][2] == "7.1"  # what a group requires is bought with it
    assert lines["nothing"][1:4] == ["0", "0", "-"]
    assert "95% of the gain costs" in said


def test_by_default_groups_are_bought_and_the_model_is_renewed(folder: Path) -> None:
    model, said = fit(folder / "patients.csv", "sick", "--costs", folder / "prices.yaml")
    assert isinstance(model, at.SpeedBoostClassifier)
    assert model.n_estimators == 10  # --n-estimators
    assert model.plan_.replaces.all()
    assert model.classes_.tolist() == ["no", "yes"]
    assert "one group per tree" not in said
    costs = [float(line.split()[-3]) for line in said.splitlines() if line.startswith(tuple(model.order_))]
    assert costs == pytest.approx(model.stage_costs_)
    table = pd.read_csv(folder / "patients.csv")
    X, y = table.drop(columns="sick"), table["sick"]
    assert model.score(X, y) > model.score(X, y, budget=0) + 0.2


def test_speedboost_of_the_papers_and_a_miser_by_their_parameters(folder: Path) -> None:
    data, prices = folder / "patients.csv", ["--costs", folder / "prices.yaml"]
    adding, _ = fit(
        data,
        "sick",
        *prices,
        "--model",
        "additive-speedboost",
        "--set",
        "method=mp",
        "--set",
        "n_estimators=7",
    )
    assert adding.method == "mp"
    assert adding.plan_.replaces is None
    assert 1 <= adding.n_stages_ <= 7
    blind, _ = fit(data, "sick", *prices, "--model", "boosting")
    miser, _ = fit(data, "sick", *prices, "--model", "boosting", "--set", "cost_penalty=5")
    assert blind.n_stages_ == 10  # --n-estimators
    assert miser.stage_costs_[-1] < blind.stage_costs_[-1]


@pytest.mark.parametrize("learner", ["hist", "lightgbm", "xgboost"])
def test_with_prices_each_tree_keeps_to_one_group(folder: Path, learner: str) -> None:
    model, _ = fit(folder / "patients.csv", "sick", "--costs", folder / "prices.yaml", "--model", learner)
    assert {len(stage.groups) for stage in model.plan_} <= {0, 1}


@pytest.mark.parametrize("learner", ["hist", "lightgbm", "xgboost"])
def test_words_between_numbers_do_not_mix_the_groups(tmp_path: Path, learner: str) -> None:
    random = np.random.default_rng(0)
    table = pd.DataFrame({name: random.normal(size=300) for name in ("a", "b")})
    table["word"] = random.choice(["east", "west"], 300)
    table["c"] = random.normal(size=300)
    table["late"] = np.where(table.a + table.b + table.c + (table.word == "east") > 0.5, "yes", "no")
    table.to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "prices.yaml").write_text("a: 1\nb: 2\nword: 3\nc: 4\n")
    model, _ = fit(tmp_path / "rows.csv", "late", "--costs", tmp_path / "prices.yaml", "--model", learner)
    assert [len(stage.groups) for stage in model.plan_] == [1] * model.n_stages_


def test_mixed_lets_a_tree_use_several_groups(folder: Path) -> None:
    model, said = fit(
        folder / "patients.csv", "sick", "--costs", folder / "prices.yaml", "--model", "hist", "--mixed"
    )
    assert max(len(stage.groups) for stage in model.plan_) > 1
    assert "one group per tree" not in said


def test_costly_first_answer_is_pointed_out(folder: Path, tmp_path: Path) -> None:
    data, file = folder / "patients.csv", tmp_path / "m.anytime"
    command = ["fit", data, "-t", "sick", "--model", "hist", "--n-estimators", 5, "-o", file]
    assert "--one-group-per-tree allows cheaper ones" in run(*command).stderr
    assert run(*command, "--one-group-per-tree").stderr == ""


def test_a_tree_may_also_use_what_its_group_requires(folder: Path, tmp_path: Path) -> None:
    prices = tmp_path / "p.yaml"
    prices.write_text(
        "groups: {a: {price: 1, columns: [age, chol]}, b: {price: 1, columns: [ecg], requires: [a]}}"
    )
    table = pd.read_csv(folder / "numbers.csv")
    table["y"] = table["age"] * table["ecg"]
    table.to_csv(tmp_path / "d.csv", index=False)
    model, _ = fit(tmp_path / "d.csv", "y", "--costs", prices, "--model", "hist")
    assert ("a", "b") in {stage.groups for stage in model.plan_}


def test_without_prices_each_column_costs_1_and_is_called_by_its_name(folder: Path) -> None:
    model, said = fit(folder / "numbers.csv", "age")
    assert model.costs_.prices == {"chol": 1.0, "ecg": 1.0}
    assert "cost (columns)" in said


LEARNERS = {
    "speedboost": at.SpeedBoostRegressor,
    "additive-speedboost": at.AdditiveSpeedBoostRegressor,
    "boosting": at.GradientBoostingRegressor,
    "budget-forest": at.BudgetForestRegressor,
    "hist": at.AnytimeRegressor,
    "forest": at.AnytimeRegressor,
    "extra": at.AnytimeRegressor,
    "lightgbm": at.AnytimeRegressor,
    "xgboost": at.AnytimeRegressor,
}


@pytest.mark.parametrize("learner", LEARNERS)
def test_every_learner_fits_numbers_and_classes(folder: Path, tmp_path: Path, learner: str) -> None:
    model, said = fit(folder / "numbers.csv", "age", "--model", learner)
    assert isinstance(model, LEARNERS[learner])
    assert "regression" in said
    table = pd.read_csv(folder / "numbers.csv")
    table["age"] = np.where(table["age"] > 60, "old", np.where(table["age"] > 40, "middle", "young"))
    table.to_csv(tmp_path / "classes.csv", index=False)
    model, said = fit(tmp_path / "classes.csv", "age", "--model", learner)
    assert model.classes_.tolist() == ["middle", "old", "young"]
    assert "classification, 3 classes" in said


@pytest.mark.parametrize(
    ("values", "found"), [([0, 1], "classification"), ([0.5, 1.5], "regression"), (range(40), "regression")]
)
def test_task_is_guessed_from_the_target(tmp_path: Path, values: list[float], found: str) -> None:
    table = pd.DataFrame({"x": np.arange(120.0), "y": np.resize(values, 120)})
    table.to_csv(tmp_path / "d.csv", index=False)
    assert found in fit(tmp_path / "d.csv", "y")[1]


def test_task_can_be_said(tmp_path: Path) -> None:
    pd.DataFrame({"x": np.arange(60.0), "y": np.resize([1, 2, 3], 60)}).to_csv(
        tmp_path / "d.csv", index=False
    )
    assert isinstance(fit(tmp_path / "d.csv", "y", "--task", "regression")[0], at.SpeedBoostRegressor)


def test_budget_is_kept_with_the_model(folder: Path) -> None:
    model, _ = fit(folder / "patients.csv", "sick", "--costs", folder / "prices.yaml", "--budget", 8.1)
    table = pd.read_csv(folder / "patients.csv")
    assert model.budget == 8.1
    assert model.cost(table.drop(columns="sick")).max() <= 8.1


def test_same_seed_gives_the_same_file(folder: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        run(
            "fit",
            folder / "patients.csv",
            "-t",
            "sick",
            "--n-estimators",
            5,
            "--seed",
            3,
            "-o",
            tmp_path / name,
        )
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_without_holdout_nothing_is_judged(folder: Path) -> None:
    _, said = fit(folder / "numbers.csv", "age", "--holdout", 0)
    assert "r2" not in said
    assert re.search(r"held-out \w+ loss", said)  # what ordered the stages
    _, said = fit(folder / "patients.csv", "sick", "--holdout", 0, "--model", "speedboost")
    assert "held-out Brier score" in said


def test_a_few_rows_are_all_trained_on_and_that_is_said(folder: Path, tmp_path: Path) -> None:
    command = ["fit", tmp_path / "d.csv", "-t", "age", "--task", "regression", "-o", tmp_path / "m"]
    told = "fewer than 10 rows: none are held out, so the quality on new rows is unknown"
    table = pd.read_csv(folder / "numbers.csv")
    table[:9].to_csv(tmp_path / "d.csv", index=False)
    assert told in run(*command).stderr
    assert told not in run(*command, "--holdout", 0).stderr  # as asked for
    table[:10].to_csv(tmp_path / "d.csv", index=False)
    assert told not in run(*command).stderr
    caution = "rows are held out: their quality says little about new rows"
    table[:30].to_csv(tmp_path / "d.csv", index=False)
    assert f"only 6 {caution}" in run(*command).stderr
    assert caution not in run(*command, "--holdout", 0).stderr
    assert caution not in fit(folder / "numbers.csv", "age")[1]


def test_columns_taken_as_words_are_listed(folder: Path) -> None:
    assert "read as categories: sex, city\n" in fit(folder / "patients.csv", "sick")[1]
    assert "read as categories" not in fit(folder / "numbers.csv", "age")[1]


@pytest.mark.parametrize("learner", ["speedboost", "hist"])
def test_a_word_among_numbers_is_mentioned_once(tmp_path: Path, folder: Path, learner: str) -> None:
    table = pd.read_csv(folder / "patients.csv").astype({"age": str})
    table.loc[3, "age"] = "old"
    table.to_csv(tmp_path / "d.csv", index=False)
    command = [
        "fit",
        tmp_path / "d.csv",
        "-t",
        "sick",
        "--model",
        learner,
        "--n-estimators",
        5,
        "-o",
        tmp_path / "m",
    ]
    result = run(*command)
    notes = [line for line in result.stderr.splitlines() if "'age'" in line]
    assert len(notes) == 1
    assert notes[0].startswith(
        f"anytime: note: {tmp_path / 'd.csv'}: column 'age' holds numbers and 1 string ('old' in row 3)"
    )
    assert "read as categories: age, sex, city\n" in result.stdout


@pytest.mark.parametrize(
    "name", ["d.parquet", "d.csv.gz", "semicolons.csv.gz", "d.csv.zip", "semicolons.csv", "d.tsv"]
)
def test_reads_parquet_compressed_and_other_separators(
    patients: pd.DataFrame, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    if name.endswith("parquet"):
        patients.to_parquet(path)
    else:
        patients.to_csv(path, index=False, sep=";" if "semi" in name else "\t" if "tsv" in name else ",")
    model, said = fit(path, "sick")
    assert "240 rows, 5 columns" in said
    assert list(model.feature_names_in_) == ["age", "sex", "city", "chol", "ecg"]


def test_reads_a_pipe(folder: Path, tmp_path: Path) -> None:
    given = (folder / "patients.csv").read_text()
    said = run(
        "fit", "-", "-t", "sick", "--n-estimators", 5, "-o", tmp_path / "m.anytime", given=given
    ).stdout
    assert "240 rows, 5 columns" in said
    assert (tmp_path / "m.anytime").exists()


def test_saved_row_numbers_are_no_feature(patients: pd.DataFrame, tmp_path: Path) -> None:
    patients.to_csv(tmp_path / "d.csv")  # with pandas' index, as people do
    result = run("fit", tmp_path / "d.csv", "-t", "sick", "--n-estimators", 5, "-o", tmp_path / "m.anytime")
    assert "240 rows, 5 columns" in result.stdout
    assert "row numbers" in result.stderr


def test_words_need_a_learner_that_takes_them(folder: Path, tmp_path: Path) -> None:
    said = fails(
        "fit", folder / "patients.csv", "-t", "sick", "--model", "forest", "-o", tmp_path / "m", code=2
    )
    assert "--model forest needs numbers, but sex, city hold strings" in said
    assert (
        "use one of speedboost, auto, additive-speedboost, boosting, hist, lightgbm, xgboost, budget-forest, adaptive, ladder, or"
        in said
    )


def test_forest_cannot_keep_trees_to_groups(folder: Path, tmp_path: Path) -> None:
    data = folder / "numbers.csv"
    said = fails(
        "fit", data, "-t", "age", "--model", "forest", "--one-group-per-tree", "-o", tmp_path / "m", code=2
    )
    assert said == "--one-group-per-tree works with --model hist, lightgbm, xgboost, not with forest"


# ---------------------------------------------------------------------- --set


def test_set_gives_parameters_to_a_linear_model(folder: Path, tmp_path: Path) -> None:
    settings = [
        "selection=forward",
        "l2_regularization=1e-3",
        "schedule = doubling",
        "whiten=false",
        "c_min=1",
    ]
    options = [part for setting in settings for part in ("--set", setting)]
    run(
        "fit",
        folder / "numbers.csv",
        "-t",
        "age",
        "--model",
        "linear",
        "--task",
        "regression",
        *options,
        "-o",
        tmp_path / "m",
    )
    model = at.load(tmp_path / "m")
    assert isinstance(model, at.GroupPursuitRegressor)
    assert (model.selection, model.l2_regularization, model.schedule, model.whiten, model.c_min) == (
        "forward",
        0.001,
        "doubling",
        False,
        1,
    )
    assert model.l2_regularization_.tolist() == [0.001, 0.001]
    assert model.certificate_.selection.schedule == "doubling"


@pytest.mark.parametrize(
    ("learner", "setting"),
    [
        ("hist", "max_leaf_nodes=2"),
        ("forest", "max_leaf_nodes=2"),
        ("extra", "max_leaf_nodes=2"),
        ("boosting", "max_leaf_nodes=2"),
        ("lightgbm", "num_leaves=2"),
        ("xgboost", "max_depth=1"),
    ],
)
def test_set_reaches_every_learner(folder: Path, learner: str, setting: str) -> None:
    """A tree of two leaves looks at one column, and there is a stage per tree."""
    model, _ = fit(folder / "numbers.csv", "age", "--model", learner, "--set", setting)
    assert {len(stage.groups) for stage in model.plan_} <= {0, 1}


def test_set_reads_lists_and_nothing(folder: Path) -> None:
    settings = ["--set", "monotonic_cst=[1, 0]", "--set", "max_depth=null"]
    model, _ = fit(folder / "numbers.csv", "age", "--model", "hist", *settings)
    assert model.plan_.n_stages == 10


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "l2_regularization",
            "--set 'l2_regularization' is not of the form NAME=VALUE, as in --set max_depth=3",
        ),
        ("=3", "--set '=3' is not of the form NAME=VALUE, as in --set max_depth=3"),
        (
            "l2_regularisation=3",
            "--set l2_regularisation: GroupPursuitRegressor has no such parameter; it has l2_regularization",
        ),
        ("budget=3", "--set budget: there is an option for that, --budget"),
        ("random_state=3", "--set random_state: there is an option for that, --seed"),
        ("l2_regularization=[1", "--set l2_regularization: '[1' cannot be read as a value (YAML)"),
    ],
)
def test_a_bad_setting_is_told(folder: Path, tmp_path: Path, setting: str, message: str) -> None:
    command = ["fit", folder / "numbers.csv", "-t", "age", "--model", "linear", "-o", tmp_path / "m"]
    assert fails(*command, "--set", setting, code=2) == message


def test_a_setting_like_no_other_and_a_value_out_of_range_are_told(folder: Path, tmp_path: Path) -> None:
    command = ["fit", folder / "numbers.csv", "-t", "age", "--model", "linear", "-o", tmp_path / "m"]
    said = fails(*command, "--set", "qqq=1", code=2)
    assert "GroupPursuitRegressor has no such parameter; it has c_min, calibration, cost_aware" in said
    assert "'selection' parameter of GroupPursuitRegressor" in fails(*command, "--set", "selection=best")


# ---------------------------------------------------------------------- rows that are rare, cells that are missing


@pytest.fixture
def rare(tmp_path: Path) -> Path:
    """Two classes, and two more that have one row each; a column without any value; and ``?`` where numbers are missing."""
    random = np.random.default_rng(0)
    table = pd.DataFrame(random.normal(size=(60, 2)), columns=["a", "b"]).assign(empty=np.nan)
    table["y"] = np.where(table.a > 0, "yes", "no")
    table.loc[[3, 40], "y"] = ["once", "twice"]
    table["a"] = table["a"].astype(object)
    table.loc[7, "a"] = "?"
    table.loc[8, "a"] = -999
    table.to_csv(tmp_path / "rare.csv", index=False)
    return tmp_path / "rare.csv"


@pytest.mark.parametrize("learner", ["speedboost", "hist"])
def test_every_class_is_trained_on_and_empty_columns_are_no_trouble(rare: Path, learner: str) -> None:
    data, file = rare, rare.parent / "m.anytime"
    options = ["--model", learner, "--n-estimators", 5, "--na-values", "?,-999", "-o", file]
    for seed in range(3):
        result = run("fit", data, "-t", "y", *options, "--seed", seed)
        assert at.load(file).classes_.tolist() == ["no", "once", "twice", "yes"]
    assert "column 'empty' is empty; no answer will depend on it" in result.stderr
    assert "empty" not in at.load(file).order_
    judged = run("curve", file, data, "-t", "y", "--na-values", "?,-999")
    assert "60 rows" in judged.stdout
    assert "does not know" not in judged.stderr


def test_labels_that_the_model_does_not_know_count_as_wrong(folder: Path, patients: pd.DataFrame) -> None:
    table = patients.copy()
    model, y = at.load(folder / "sick.anytime"), table["sick"].to_numpy()
    right = model.predict(table.drop(columns="sick")) == y
    table.loc[np.flatnonzero(right)[:24], "sick"] = "perhaps"
    table.to_csv(folder / "unknown.csv", index=False)
    file = folder / "unknown.json"
    told = run("curve", folder / "sick.anytime", folder / "unknown.csv", "-t", "sick", "--json", file).stderr
    assert "labels that the model was not trained on, perhaps: 24 of 240 rows, which count as wrong" in told
    points = json.loads(file.read_text())["points"]
    assert points["accuracy"][-1] == pytest.approx((right.sum() - 24) / 240)
    result = run("compare", folder / "sick.anytime", folder / "unknown.csv", "-t", "sick")
    assert "24 of 240 rows, which count as wrong" in result.stderr


def test_cells_can_be_named_that_mean_a_missing_value(rare: Path, tmp_path: Path) -> None:
    data, file = rare, tmp_path / "m.anytime"
    run("fit", data, "-t", "b", "--n-estimators", 5, "--na-values", "?,-999", "-o", file)
    assert "y" in (known := at.load(file)).feature_names_in_
    assert len(known.categories_) == 1  # y, and not a
    table = pd.read_csv(data, na_values=["?", "-999"])
    answers = [float(line) for line in run("predict", file, data, "--na-values", "?,-999").stdout.split()[1:]]
    assert answers == pytest.approx(known.predict(table.drop(columns="b")))
    repeated = run("predict", file, data, "--na-values", "?", "--na-values=-999").stdout
    assert [float(line) for line in repeated.split()[1:]] == pytest.approx(answers)
    said = fails("predict", file, data)
    assert "column 'a' must hold numbers, but holds '?' in row 8; if that means a missing value" in said
    pytest.importorskip("pyarrow")
    pd.read_csv(data, na_values=["?"]).to_parquet(tmp_path / "d.parquet")
    parquet = run("predict", file, tmp_path / "d.parquet", "--na-values=-999").stdout
    assert [float(line) for line in parquet.split()[1:]] == pytest.approx(answers)


def test_training_takes_as_long_as_it_may(folder: Path, tmp_path: Path) -> None:
    asked = ["fit", folder / "patients.csv", "-t", "sick", "-o", tmp_path / "m.anytime"]
    run(*asked, "--time-budget", 0.5)
    assert at.load(tmp_path / "m.anytime").time_budget == 0.5
    assert fails(*asked, "--model", "hist", "--time-budget", 5, code=2) == "--model hist has no --time-budget"
    said = fails(*asked, "--set", "time_budget=5", code=2)
    assert said == "--set time_budget: there is an option for that, --time-budget"
