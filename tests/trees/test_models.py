"""Models of other libraries through ``make_anytime`` and the two estimators: same full answer, better order."""

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_digits, load_wine, make_classification
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression

import anytime as at
from anytime.testing import check_anytime_estimator
from tests.trees.importer_cases import CASES
from tests.trees.importer_probes import built, original, strange_rows

BINARY = make_classification(600, 8, n_informative=5, random_state=0)
WINE = load_wine(return_X_y=True)
DIABETES = load_diabetes(return_X_y=True)

CLASSIFIERS = {
    "random forest": RandomForestClassifier(15, random_state=0),
    "extra trees": ExtraTreesClassifier(15, random_state=0),
    "gradient boosting": GradientBoostingClassifier(n_estimators=15, random_state=0),
    "hist gradient boosting": HistGradientBoostingClassifier(max_iter=15, random_state=0),
    "lightgbm": lgb.LGBMClassifier(n_estimators=15, verbose=-1, random_state=0),
    "lightgbm forest": lgb.LGBMClassifier(
        n_estimators=15, boosting_type="rf", bagging_fraction=0.6, bagging_freq=1, verbose=-1, random_state=0
    ),
    "xgboost": xgb.XGBClassifier(n_estimators=15, random_state=0),
}
REGRESSORS = {
    "random forest": RandomForestRegressor(15, random_state=0),
    "extra trees": ExtraTreesRegressor(15, random_state=0),
    "gradient boosting": GradientBoostingRegressor(n_estimators=15, random_state=0),
    "hist gradient boosting": HistGradientBoostingRegressor(max_iter=15, random_state=0),
    "lightgbm": lgb.LGBMRegressor(n_estimators=15, verbose=-1, random_state=0),
    "lightgbm poisson": lgb.LGBMRegressor(objective="poisson", n_estimators=15, verbose=-1, random_state=0),
    "xgboost": xgb.XGBRegressor(n_estimators=15, random_state=0),
}


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("data", [BINARY, WINE], ids=["two classes", "three classes"])
@pytest.mark.parametrize("held_out", [False, True], ids=["as trained", "ordered"])
def test_a_classifier_keeps_its_full_answer(name, data, held_out):
    X, y = data
    labels = np.array(["red", "green", "blue"])[y]
    if "lightgbm" not in name and "xgboost" not in name:
        y = labels
    original = clone(CLASSIFIERS[name]).fit(X[::2], y[::2])
    held = {"X": X[1::2], "y": y[1::2]} if held_out else {}
    model = at.make_anytime(original, **held)
    assert_allclose(model.predict_proba(X), original.predict_proba(X), atol=1e-6, rtol=0)
    assert_array_equal(model.predict(X), original.predict(X))
    assert_array_equal(model.classes_, original.classes_)
    check_anytime_estimator(model, X[:60])


@pytest.mark.parametrize("name", REGRESSORS)
@pytest.mark.parametrize("held_out", [False, True], ids=["as trained", "ordered"])
def test_a_regressor_keeps_its_full_answer(name, held_out):
    X, y = DIABETES
    original = clone(REGRESSORS[name]).fit(X[::2], y[::2])
    held = {"X": X[1::2], "y": y[1::2]} if held_out else {}
    model = at.make_anytime(original, **held)
    assert_allclose(model.predict(X), original.predict(X), rtol=1e-6)
    check_anytime_estimator(model, X[:60])


@pytest.mark.parametrize(
    "original",
    [
        HistGradientBoostingClassifier(max_iter=20, categorical_features="from_dtype", random_state=0),
        lgb.LGBMClassifier(n_estimators=20, min_child_samples=5, verbose=-1, random_state=0),
        xgb.XGBClassifier(n_estimators=20, enable_categorical=True, random_state=0),
    ],
    ids=lambda e: type(e).__name__,
)
def test_a_table_with_categories_and_gaps_is_answered_exactly(original, tmp_path):
    rng = np.random.default_rng(0)
    colour = rng.choice(["red", "green", "blue", "black"], 800)
    size = np.where(rng.random(800) < 0.1, np.nan, rng.normal(size=800))
    table = pd.DataFrame({"size": size, "colour": pd.Categorical(colour), "weight": rng.normal(size=800)})
    y = ((colour == "red") | (colour == "black")).astype(int) ^ (np.nan_to_num(size) > 0.5)
    y = np.where(rng.random(800) < 0.1, 1 - y, y)
    original.fit(table[:400], y[:400])
    model = at.make_anytime(original, X=table[400:600], y=y[400:600])
    assert_allclose(model.predict_proba(table), original.predict_proba(table), atol=1e-6, rtol=0)
    assert_array_equal(model.predict(table), original.predict(table))
    assert len(np.unique(model.predict_proba(table)[:, 1].round(6))) > 10
    model.save(tmp_path / "m.anytime")
    assert_array_equal(at.load(tmp_path / "m.anytime").predict_proba(table), model.predict_proba(table))
    fitted = at.AnytimeClassifier(original, random_state=0).fit(table, y)
    assert fitted.score(table, y) > 0.8


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
def test_every_model_the_importers_take_answers_as_the_original(name):
    case, imported = built(name)
    X = strange_rows(case, imported)
    expected = original(case.model, X)
    model = at.make_anytime(case.model)
    found = (
        model.predict_proba(X)
        if imported.classes is not None
        else model.predict(X).reshape(len(expected), -1)
    )
    scale = np.maximum(np.abs(expected), 0.1 * np.abs(expected).max()) if imported.classes is None else 1.0
    assert (
        np.max(np.abs(found[:, -expected.shape[1] :] - expected) / scale) <= 1e-6
    )  # a bare booster: 2nd class only
    if hasattr(case.model, "classes_"):
        assert_array_equal(model.predict(X), case.model.predict(X))


def digits_by_rows() -> tuple[np.ndarray, np.ndarray, at.FeatureCosts]:
    X, y = load_digits(return_X_y=True)
    groups = {f"row{i}": list(range(8 * i, 8 * i + 8)) for i in range(8)}
    return X, y, at.FeatureCosts({f"row{i}": 1.0 + i for i in range(8)}, groups=groups)


def test_ordering_on_held_out_data_makes_small_budgets_useful():
    X, y, costs = digits_by_rows()
    groups = [list(columns) for columns in costs.groups.values()]
    boosted = HistGradientBoostingClassifier(max_iter=30, interaction_cst=groups, random_state=0)
    boosted.fit(X[:900], y[:900])
    ordered = at.make_anytime(boosted, costs=costs, X=X[900:1300], y=y[900:1300])
    as_trained = at.make_anytime(boosted, costs=costs)
    areas = [
        np.mean([model.score(X[1300:], y[1300:], budget=b) for b in np.linspace(0, costs.total, 25)])
        for model in (ordered, as_trained)
    ]
    assert areas[0] > areas[1] + 0.1
    assert_array_equal(ordered.predict_proba(X), as_trained.predict_proba(X))
    assert (np.diff(ordered.plan_.quality[[0, -1]]) > 0).all()


def test_a_list_of_models_becomes_a_plan_that_replaces():
    X, y, costs = digits_by_rows()
    cheap = RandomForestClassifier(10, random_state=0).fit(X[:900, :24], y[:900])
    full = ExtraTreesClassifier(20, random_state=0).fit(X[:900], y[:900])
    model = at.make_anytime([(cheap, range(24)), full], costs=costs, X=X[900:1300], y=y[900:1300])
    assert_allclose(model.predict_proba(X, budget=6), cheap.predict_proba(X[:, :24]), atol=1e-12)
    assert_allclose(model.predict_proba(X), full.predict_proba(X), atol=1e-12)
    assert model.stage_costs_.tolist() == [6.0, 36.0]
    check_anytime_estimator(model, X[:40])


def test_a_list_of_boosted_models_carries_each_base():
    X, y = BINARY
    first = HistGradientBoostingClassifier(max_iter=5).fit(X[:, :2], y)
    second = GradientBoostingClassifier(n_estimators=5).fit(X, y)
    model = at.make_anytime([(first, [0, 1]), second])
    assert_allclose(model.predict_proba(X, budget=2), first.predict_proba(X[:, :2]), atol=1e-12)
    assert_allclose(model.predict_proba(X), second.predict_proba(X), atol=1e-12)
    wine = at.make_anytime([HistGradientBoostingClassifier(max_iter=3).fit(*WINE)] * 2)
    assert_allclose(
        wine.predict_proba(WINE[0]),
        HistGradientBoostingClassifier(max_iter=3).fit(*WINE).predict_proba(WINE[0]),
    )


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda X, y: at.make_anytime(LogisticRegression().fit(X, y)), TypeError, "LogisticRegression"),
        (lambda X, y: at.make_anytime([]), ValueError, "empty"),
        (
            lambda X, y: at.make_anytime(CLASSIFIERS["extra trees"].fit(X, y), X=X),
            ValueError,
            "X and y together",
        ),
        (
            lambda X, y: at.make_anytime(CLASSIFIERS["extra trees"].fit(X, y), costs=[1.0]),
            ValueError,
            "belong to no group",
        ),
        (
            lambda X, y: at.make_anytime(CLASSIFIERS["extra trees"].fit(X, y), X=X, y=y + 7),
            ValueError,
            "which the model does not know",
        ),
        (
            lambda X, y: at.make_anytime([(CLASSIFIERS["extra trees"].fit(X[:, :2], y), [0])], X=X, y=y),
            ValueError,
            "has 2 columns, but 1 are named",
        ),
        (
            lambda X, y: at.make_anytime(
                [CLASSIFIERS["extra trees"].fit(X, y), clone(CLASSIFIERS["xgboost"]).fit(X, y)]
            ),
            ValueError,
            "same question",
        ),
        (
            lambda X, y: at.AnytimeClassifier(RandomForestRegressor(2)).fit(X, y),
            TypeError,
            "needs a classifier",
        ),
        (
            lambda X, y: at.AnytimeClassifier(validation_fraction=2.0).fit(X, y),
            ValueError,
            "validation_fraction",
        ),
        (lambda X, y: at.AnytimeClassifier().fit(X, np.zeros(len(X))), ValueError, "at least 2 classes"),
    ],
)
def test_what_cannot_be_done_is_said_precisely(call, error, words):
    with pytest.raises(error, match=words):
        call(*BINARY)


def test_equal_rows_are_never_both_trained_and_judged_on():
    X, y = BINARY
    twice = np.concatenate([X, X])
    model = at.AnytimeClassifier(random_state=0)
    train, held = model._split(twice, np.concatenate([y, y]), np.random.RandomState(0))
    assert held.size
    assert not set(held % len(X)) & set(train % len(X))
