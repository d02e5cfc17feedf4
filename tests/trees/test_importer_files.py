"""Model files, what is refused and why, and what importing costs."""

from __future__ import annotations

import functools
import json
import pickle
import subprocess
import sys
import time

import joblib
import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb
from hypothesis import given
from hypothesis import strategies as st
from sklearn import calibration, ensemble, linear_model, pipeline, preprocessing, tree

from anytime.trees.importers import import_file, import_trees
from tests.trees.importer_cases import numbers, target, three, two
from tests.trees.importer_probes import built, full_scores

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


# ------------------------------------------------------------------------------------------------ files


def same(a, b):
    arrays = zip(a.trees.asdict().values(), b.trees.asdict().values(), strict=True)
    return (
        all(np.array_equal(x, y) for x, y in arrays) and np.array_equal(a.base, b.base) and a.link == b.link
    )


@pytest.mark.parametrize("suffix", [".json", ".ubj"])
@pytest.mark.parametrize(
    "name", ["XGBoost, dart", "XGBoost on a table with categories", "XGBoost, two targets in every leaf"]
)
def test_an_xgboost_file_is_the_model_it_was_saved_from(name, suffix, tmp_path):
    case, imported = built(name)
    case.model.save_model(tmp_path / f"model{suffix}")
    read = import_file(tmp_path / f"model{suffix}")
    assert same(read, imported)
    assert read.columns.categories == imported.columns.categories


@pytest.mark.parametrize("name", ["XGBoost, a boosted forest", "XGBoost, two targets in every leaf"])
def test_a_file_of_an_older_xgboost_says_the_same(name, tmp_path):
    """Before 2.0 rounds were not listed, before 3.1 vector leaves stood beside the nodes and there were no table categories."""
    case, imported = built(name)
    document = json.loads(case.model.get_booster().save_raw("json"))
    model = document["learner"]["gradient_booster"]["model"]
    del model["iteration_indptr"], model["cats"]
    for entry in model["trees"]:
        if entry.pop("leaf_weights", None) is None:
            entry["tree_param"]["size_leaf_vector"] = "0"
        else:
            entry["right_children"] = [
                -1 if left < 0 else right
                for left, right in zip(entry["left_children"], entry["right_children"], strict=True)
            ]
    if name.endswith("leaf"):  # such trees answer for all outputs, so a round is one tree
        model["iteration_indptr"] = list(range(len(model["trees"]) + 1))
    (tmp_path / "model.json").write_text(json.dumps(document))
    assert same(import_file(tmp_path / "model.json"), imported)


def test_one_start_for_all_classes_is_spread_over_them(tmp_path):
    """XGBoost before 3.1 kept a single number."""
    document = json.loads(built("XGBoost, three classes")[0].model.get_booster().save_raw("json"))
    document["learner"]["learner_model_param"]["base_score"] = "5E-1"
    (tmp_path / "model.json").write_text(json.dumps(document))
    assert import_file(tmp_path / "model.json").base.tolist() == [0.5, 0.5, 0.5]


def test_a_lightgbm_file_is_the_model_it_was_saved_from(tmp_path):
    case, imported = built("LightGBM on a table with categories")
    case.model.booster_.save_model(tmp_path / "model.txt")
    read = import_file(tmp_path / "model.txt")
    assert same(read, imported)
    assert read.columns.categories == imported.columns.categories
    assert read.classes.tolist() == [0, 1]


@pytest.mark.parametrize("suffix", [".pkl", ".joblib", ".txt"])
def test_a_pickle_is_opened_only_when_trusted(suffix, tmp_path):
    case, imported = built("a random forest with text labels and holes")
    path = tmp_path / f"model{suffix}"
    joblib.dump(case.model, path) if suffix == ".joblib" else path.write_bytes(pickle.dumps(case.model))
    with pytest.raises(ValueError, match="trusted=True"):
        import_file(path)
    assert same(import_file(path, trusted=True), imported)


@functools.cache
def saved(kind):
    if kind == "lightgbm":
        return built("LightGBM, categories split into sets")[0].model.booster_.model_to_string().encode()
    return bytes(built("XGBoost, two classes")[0].model.get_booster().save_raw(kind))


@pytest.mark.parametrize("kind", ["lightgbm", "json", "ubj"])
@given(data=st.data())
def test_a_cut_or_changed_file_is_a_value_error_or_a_model(kind, data, tmp_path_factory):
    content = bytearray(saved(kind))
    at = data.draw(st.integers(0, len(content) - 1))
    if data.draw(st.booleans()):
        content = content[:at]
    else:
        content[at] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("files") / "model"
    path.write_bytes(content)
    try:
        imported = import_file(path)
    except ValueError:
        return
    assert imported.trees.left.max() < np.diff(imported.trees.tree_start).max()


# ------------------------------------------------------------------------------------------------ refusals


def boosted(objective):
    X = numbers()
    return lgb.LGBMRegressor(n_estimators=3, verbose=-1, objective=objective).fit(X, target(X))


def custom(y, score):
    return score - y, np.ones_like(y)


REFUSED = {
    "unfitted forest": (lambda: ensemble.RandomForestClassifier(), ValueError, "not fitted"),
    "unfitted tree": (lambda: tree.DecisionTreeClassifier(), ValueError, "not fitted"),
    "unfitted histogram boosting": (
        lambda: ensemble.HistGradientBoostingClassifier(),
        ValueError,
        "not fitted",
    ),
    "unfitted LightGBM": (lambda: lgb.LGBMClassifier(), ValueError, "not fitted"),
    "unfitted XGBoost": (lambda: xgb.XGBClassifier(), ValueError, "not fitted"),
    "two labels at once": (
        lambda: ensemble.RandomForestClassifier(2).fit(numbers(), np.c_[two(numbers()), three(numbers())]),
        ValueError,
        "one classifier per label",
    ),
    "XGBoost with two labels at once": (
        lambda: xgb.XGBClassifier(n_estimators=2).fit(numbers(), np.c_[two(numbers()), 1 - two(numbers())]),
        ValueError,
        "one classifier per label",
    ),
    "boosting on top of a model": (
        lambda: ensemble.GradientBoostingRegressor(n_estimators=2, init=linear_model.LinearRegression()).fit(
            numbers(False), target(numbers(False))
        ),
        ValueError,
        "depends on the row",
    ),
    "linear leaves": (
        lambda: lgb.train(
            {"linear_tree": True, "verbose": -1},
            lgb.Dataset(numbers(), target(numbers()), params={"linear_tree": True}),
            3,
        ),
        ValueError,
        "linear_tree=False",
    ),
    "LightGBM with an objective of one's own": (lambda: boosted(custom), ValueError, "link='identity'"),
    "XGBoost with an objective of one's own": (
        lambda: xgb.XGBRegressor(n_estimators=2, objective=custom).fit(numbers(), target(numbers())),
        ValueError,
        "link='identity'",
    ),
    "a linear XGBoost": (
        lambda: xgb.XGBRegressor(n_estimators=2, booster="gblinear").fit(
            numbers(False), target(numbers(False))
        ),
        ValueError,
        "no trees",
    ),
    "XGBoost without probabilities": (
        lambda: xgb.XGBClassifier(n_estimators=2, objective="binary:hinge").fit(numbers(), two(numbers())),
        ValueError,
        "binary:logistic",
    ),
    "a pipeline": (
        lambda: pipeline.make_pipeline(preprocessing.StandardScaler(), tree.DecisionTreeClassifier()),
        TypeError,
        r"pipeline\[-1\]",
    ),
    "a calibrated classifier": (
        lambda: calibration.CalibratedClassifierCV(ensemble.RandomForestClassifier()),
        TypeError,
        "Supported: scikit-learn's DecisionTree",
    ),
    "an isolation forest": (lambda: ensemble.IsolationForest(), TypeError, "Supported"),
    "a number": (lambda: 3, TypeError, "builtins.int"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_imported_says_why(name):
    make, error, words = REFUSED[name]
    with pytest.raises(error, match=words):
        import_trees(make())


def test_a_custom_objective_is_imported_when_its_link_is_said():
    model = boosted(custom)
    imported = import_trees(model, link="identity")
    X = numbers()[:30]
    assert np.allclose(full_scores(imported, X)[:, 0], model.predict(X))
    with pytest.raises(ValueError, match="the links are identity"):
        import_trees(model, link="sigmoid")


def test_a_subclass_counts_as_its_parent():
    class OurForest(ensemble.RandomForestClassifier):
        pass

    imported = import_trees(OurForest(2, max_depth=2).fit(numbers(), two(numbers())))
    assert imported.source.startswith("sklearn.RandomForestClassifier")


# ------------------------------------------------------------------------------------------------ weight


def test_importers_load_no_library_before_a_model_of_it_is_there():
    rooms = ", ".join(f"anytime.trees.importers.{room}" for room in ("sklearn", "lightgbm", "xgboost"))
    code = f"import sys, {rooms}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"lightgbm", "xgboost"} & set(loaded)


@pytest.mark.realtime
@pytest.mark.slow
@pytest.mark.parametrize("make", [lgb.LGBMClassifier, xgb.XGBClassifier])
def test_five_hundred_trees_of_63_leaves_are_imported_within_a_second(make):
    r = np.random.default_rng(0)
    X = r.normal(size=(1500, 8))
    y = (X[:, 0] * X[:, 1] + r.normal(size=1500) > 0).astype(int)
    size = (
        {"num_leaves": 63, "min_child_samples": 1, "verbose": -1}
        if make is lgb.LGBMClassifier
        else {"max_leaves": 63, "max_depth": 0}
    )
    model = make(n_estimators=500, n_jobs=1, **size).fit(X, y)
    start = time.perf_counter()
    imported = import_trees(model)
    assert time.perf_counter() - start < 1.0
    assert imported.trees.n_trees == 500
