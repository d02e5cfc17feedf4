"""``anytime convert``: files of LightGBM, XGBoost and scikit-learn."""

from __future__ import annotations

import pickle
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine
from sklearn.ensemble import RandomForestClassifier

import anytime as at
from tests.cli.running import fails, run

NAMES = "barolo,grignolino,barbera"


@pytest.fixture(scope="module")
def wine() -> tuple[pd.DataFrame, np.ndarray]:
    X, y = load_wine(return_X_y=True, as_frame=True)
    return X.rename(columns=lambda name: name.replace("/", "_")), y.to_numpy()


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, wine: tuple[pd.DataFrame, np.ndarray]) -> Path:
    """Models of three libraries trained on the even rows, and the odd rows as tables, labelled in numbers and in words."""
    lightgbm, xgboost = pytest.importorskip("lightgbm"), pytest.importorskip("xgboost")
    X, y = wine
    path = tmp_path_factory.mktemp("shop")
    model = lightgbm.LGBMClassifier(n_estimators=10, verbosity=-1, n_jobs=1).fit(X[::2], y[::2])
    model.booster_.save_model(path / "lightgbm.txt")
    model = xgboost.XGBClassifier(n_estimators=10, n_jobs=1).fit(X[::2], y[::2])
    model.save_model(path / "xgboost.json")
    model.save_model(path / "xgboost.ubj")
    joblib.dump(RandomForestClassifier(10, random_state=0).fit(X[::2], y[::2]), path / "forest.joblib")
    X[::2].assign(kind=y[::2]).to_csv(path / "even.csv", index=False)
    X[1::2].assign(kind=y[1::2]).to_csv(path / "odd.csv", index=False)
    X[1::2].assign(kind=np.array(NAMES.split(","))[y[1::2]]).to_csv(path / "words.csv", index=False)
    return path


@pytest.mark.parametrize("name", ["lightgbm.txt", "xgboost.json", "xgboost.ubj", "forest.joblib"])
def test_full_prediction_stays_the_same(
    shop: Path, wine: tuple[pd.DataFrame, np.ndarray], tmp_path: Path, name: str
) -> None:
    X, _ = wine
    options = [
        "--validation",
        shop / "odd.csv",
        "--target",
        "kind",
        *(["--trusted"] if "forest" in name else []),
    ]
    for extra in ([], options):
        run("convert", shop / name, *(options[4:] + extra), "-o", tmp_path / "m.anytime")
        found = at.load(tmp_path / "m.anytime").predict_proba(X)
        np.testing.assert_allclose(found, _original(shop / name, X), rtol=1e-5, atol=1e-7)


def _original(path: Path, X: pd.DataFrame) -> np.ndarray:
    if path.suffix == ".txt":
        import lightgbm

        return np.asarray(lightgbm.Booster(model_file=path).predict(X))
    if path.suffix == ".joblib":
        return np.asarray(joblib.load(path).predict_proba(X))
    import xgboost

    return np.asarray(xgboost.Booster(model_file=path).predict(xgboost.DMatrix(X)))


def test_held_out_rows_order_the_trees(shop: Path, tmp_path: Path) -> None:
    plain = run("convert", shop / "lightgbm.txt", "-o", tmp_path / "plain.anytime")
    assert "keep their trained order" in plain.stderr
    said = run(
        "convert",
        shop / "lightgbm.txt",
        "--validation",
        shop / "odd.csv",
        "-t",
        "kind",
        "-o",
        tmp_path / "m.anytime",
    ).stdout
    assert "which also chose the stages" in said
    before, after = at.load(tmp_path / "plain.anytime"), at.load(tmp_path / "m.anytime")
    assert after.stage_costs_[0] < before.stage_costs_[0]
    assert after.plan_.quality is not None


def test_a_forest_is_pruned_to_an_average_cost(shop: Path, tmp_path: Path) -> None:
    held = ["--validation", shop / "odd.csv", "-t", "kind", "--trusted", "-o", tmp_path / "m.anytime"]
    said = run("convert", shop / "forest.joblib", "--mean-budget", "6", *held).stdout
    assert "mean cost" in said
    model, table = at.load(tmp_path / "m.anytime"), pd.read_csv(shop / "odd.csv")
    assert 3 < model.cost(table.drop(columns=["kind"])).mean() <= 6
    assert model.score(table.drop(columns=["kind"]), table["kind"]) > 0.8
    said = run("inspect", tmp_path / "m.anytime").stdout
    assert "mean cost" in said
    run("convert", shop / "forest.joblib", "--mean-budget", "6", "--train", shop / "even.csv", *held)
    refitted = at.load(tmp_path / "m.anytime")
    assert 3 < refitted.cost(table.drop(columns=["kind"])).mean() <= 6
    assert refitted.plan_.link != model.plan_.link  # leaves no longer hold shares of classes
    wrong = ["--mean-budget", "6", "--train", shop / "odd.csv", *held]
    assert "X_train" in fails("convert", shop / "forest.joblib", *wrong)
    useless = ["--train", shop / "even.csv", *held]
    assert "--train is used only with --mean-budget" in fails(
        "convert", shop / "forest.joblib", *useless, code=2
    )
    alone = ["--trusted", "--mean-budget", "6", "-o", tmp_path / "n.anytime"]
    assert "--mean-budget needs validation rows" in fails("convert", shop / "forest.joblib", *alone, code=2)
    assert "adds up its trees" in fails("convert", shop / "lightgbm.txt", "--mean-budget", "6", *held)


def test_prices_are_taken_over(shop: Path, wine: tuple[pd.DataFrame, np.ndarray], tmp_path: Path) -> None:
    at.FeatureCosts(dict.fromkeys(wine[0].columns, 2.0), unit="EUR").write(tmp_path / "p.yaml")
    run("convert", shop / "xgboost.json", "--costs", tmp_path / "p.yaml", "-o", tmp_path / "m.anytime")
    assert at.load(tmp_path / "m.anytime").costs_.unit == "EUR"


def test_labels_can_be_given_names(shop: Path, tmp_path: Path) -> None:
    arguments = [
        "convert",
        shop / "lightgbm.txt",
        "--validation",
        shop / "words.csv",
        "-t",
        "kind",
        "-o",
        tmp_path / "m.anytime",
    ]
    assert "give the labels in the order of training with --classes" in fails(*arguments)
    run(*arguments, "--classes", NAMES)
    assert at.load(tmp_path / "m.anytime").classes_.tolist() == NAMES.split(",")
    said = run("curve", tmp_path / "m.anytime", shop / "words.csv", "-t", "kind").stdout
    assert "accuracy against cost, 89 rows" in said


def test_wrong_number_of_labels(shop: Path, tmp_path: Path) -> None:
    said = fails("convert", shop / "lightgbm.txt", "--classes", "a,b", "-o", tmp_path / "m", code=2)
    assert said == "--classes names a, b, but the model has 3 classes"


def test_pickle_is_opened_only_when_trusted(tmp_path: Path) -> None:
    (tmp_path / "evil.pkl").write_bytes(b"cbuiltins\nprint\n(S'gotcha'\ntR.")
    assert "add --trusted" in fails("convert", tmp_path / "evil.pkl", "-o", tmp_path / "m", code=2)
    renamed = tmp_path / "model.txt"  # a pickle is known by its first byte too
    renamed.write_bytes(pickle.dumps([1, 2]))
    assert "add --trusted" in fails("convert", renamed, "-o", tmp_path / "m", code=2)


def test_trusted_pickle_that_is_broken_or_no_model(tmp_path: Path) -> None:
    (tmp_path / "broken.pkl").write_bytes(b"\x80\x04nonsense")
    assert "cannot be unpickled" in fails(
        "convert", tmp_path / "broken.pkl", "--trusted", "-o", tmp_path / "m"
    )
    joblib.dump({"a": 1}, tmp_path / "dict.pkl")
    assert "cannot import trees from builtins.dict" in fails(
        "convert", tmp_path / "dict.pkl", "--trusted", "-o", tmp_path / "m"
    )


def test_validation_and_target_go_together(shop: Path, tmp_path: Path) -> None:
    said = fails(
        "convert", shop / "lightgbm.txt", "--validation", shop / "odd.csv", "-o", tmp_path / "m", code=2
    )
    assert "go together" in said


def test_file_of_no_known_kind(shop: Path, tmp_path: Path) -> None:
    said = fails("convert", shop / "odd.csv", "--trusted", "-o", tmp_path / "m")
    assert "is not a model file that anytime can read" in said
    assert "and, if trusted, pickles" in said


def test_an_anytime_model_needs_no_conversion(shop: Path, tmp_path: Path) -> None:
    run("convert", shop / "xgboost.json", "-o", tmp_path / "m.anytime")
    said = fails("convert", tmp_path / "m.anytime", "-o", tmp_path / "n.anytime", code=2)
    assert "is already an .anytime model" in said


# ---------------------------------------------------------------------- names with blanks


@pytest.fixture(scope="module")
def blanks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A LightGBM file, in which ``mean width`` is ``mean_width``, and its table, which has blanks; codes are words."""
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"mean width": rng.normal(size=200), "blood code": rng.choice(["007", "08"], 200)})
    y = ((table["mean width"] > 0) ^ (table["blood code"] == "08")).astype(int)
    model = lightgbm.LGBMClassifier(n_estimators=20, verbosity=-1, n_jobs=1, min_child_samples=5)
    model.fit(table.astype({"blood code": "category"}), y)
    path = tmp_path_factory.mktemp("blanks")
    model.booster_.save_model(path / "lightgbm.txt")
    table.assign(y=y).to_csv(path / "rows.csv", index=False)
    (path / "prices.yaml").write_text("mean width: 2\nblood code: 3\n")
    return path


def test_blanks_are_as_good_as_the_underscores_that_lightgbm_writes(blanks: Path, tmp_path: Path) -> None:
    run("convert", blanks / "lightgbm.txt", "-o", tmp_path / "m.anytime")
    truth = pd.read_csv(blanks / "rows.csv")["y"].tolist()
    for source, given in ((blanks / "rows.csv", None), ("-", (blanks / "rows.csv").read_text())):
        said = run("predict", tmp_path / "m.anytime", source, given=given).stdout
        assert [int(line) for line in said.splitlines()[1:]] == truth
    assert (
        "accuracy against cost" in run("curve", tmp_path / "m.anytime", blanks / "rows.csv", "-t", "y").stdout
    )


def test_with_held_out_rows_the_model_knows_their_names_as_in_python(blanks: Path, tmp_path: Path) -> None:
    held = ["--validation", blanks / "rows.csv", "-t", "y", "--costs", blanks / "prices.yaml"]
    run("convert", blanks / "lightgbm.txt", *held, "-o", tmp_path / "m.anytime")
    model = at.load(tmp_path / "m.anytime")
    assert model.feature_names_in_.tolist() == ["mean width", "blood code"]
    assert model.costs_.prices == {"mean width": 2.0, "blood code": 3.0}
    table = pd.read_csv(blanks / "rows.csv", dtype={"blood code": str})
    assert model.score(table.drop(columns="y"), table["y"]) == 1


def test_prices_under_names_with_blanks_need_no_held_out_rows(blanks: Path, tmp_path: Path) -> None:
    run("convert", blanks / "lightgbm.txt", "--costs", blanks / "prices.yaml", "-o", tmp_path / "m.anytime")
    model = at.load(tmp_path / "m.anytime")
    assert model.feature_names_in_.tolist() == ["mean width", "blood code"]
    assert model.costs_.prices == {"mean width": 2.0, "blood code": 3.0}
    table = pd.read_csv(blanks / "rows.csv", dtype={"blood code": str})
    assert model.score(table.drop(columns="y"), table["y"]) == 1


def test_a_column_of_its_own_does_not_stand_in_for_one_with_a_blank(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(100, 2)), columns=["a b", "a_b"])
    table["y"] = table["a b"] + table["a_b"]
    table.to_csv(tmp_path / "d.csv", index=False)
    run("fit", tmp_path / "d.csv", "-t", "y", "--n-estimators", 5, "-o", tmp_path / "m.anytime")
    table[["a_b"]].to_csv(tmp_path / "one.csv", index=False)
    assert "column 'a b' is missing" in run("predict", tmp_path / "m.anytime", tmp_path / "one.csv").stderr
