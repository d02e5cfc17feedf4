"""Models of other libraries through ``make_anytime`` and the two estimators: same full answer, better order."""

import pickle
import warnings
from dataclasses import replace

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
from anytime.trees.importers import import_file
from anytime.trees.rows import fold_rows, split_rows
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
    held = {"X_val": X[1::2], "y_val": y[1::2]} if held_out else {}
    model = at.make_anytime(original, **held)
    assert_allclose(model.predict_proba(X), original.predict_proba(X), atol=1e-6, rtol=0)
    assert_array_equal(model.predict(X), original.predict(X))
    assert_array_equal(model.classes_, original.classes_)
    check_anytime_estimator(model, X[:: len(X) // 60])  # rows may be sorted by class


@pytest.mark.parametrize("name", REGRESSORS)
@pytest.mark.parametrize("held_out", [False, True], ids=["as trained", "ordered"])
def test_a_regressor_keeps_its_full_answer(name, held_out):
    X, y = DIABETES
    original = clone(REGRESSORS[name]).fit(X[::2], y[::2])
    held = {"X_val": X[1::2], "y_val": y[1::2]} if held_out else {}
    model = at.make_anytime(original, **held)
    assert_allclose(model.predict(X), original.predict(X), rtol=1e-6)
    check_anytime_estimator(model, X[:: len(X) // 60])  # rows may be sorted by class


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
    model = at.make_anytime(original, X_val=table[400:600], y_val=y[400:600])
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
    X = strange_rows(
        replace(case, infinite=False), imported
    )  # infinity is refused, whatever the original does
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
    ordered = at.make_anytime(boosted, costs=costs, X_val=X[900:1300], y_val=y[900:1300])
    as_trained = at.make_anytime(boosted, costs=costs)
    areas = [
        np.mean([model.score(X[1300:], y[1300:], budget=b) for b in np.linspace(0, costs.total, 25)])
        for model in (ordered, as_trained)
    ]
    assert areas[0] > areas[1] + 0.1
    assert_array_equal(ordered.predict_proba(X), as_trained.predict_proba(X))
    assert (np.diff(ordered.plan_.quality[[0, -1]]) > 0).all()


def test_a_forest_has_good_answers_at_a_third_of_the_price():
    """By what rows really pay, which is the default; by what any row could pay nothing is bought."""
    X, y = load_digits(return_X_y=True)
    forest = RandomForestClassifier(30, random_state=0).fit(X[:900], y[:900])
    model = at.make_anytime(forest, X_val=X[900:1200], y_val=y[900:1200])
    assert model.score(X[1200:], y[1200:], budget=64 / 3) > 0.6
    assert model.set_params(meter="model").score(X[1200:], y[1200:], budget=64 / 3) < 0.2


def test_a_list_of_models_becomes_a_plan_that_replaces():
    X, y, costs = digits_by_rows()
    cheap = RandomForestClassifier(10, random_state=0).fit(X[:900, :24], y[:900])
    full = ExtraTreesClassifier(20, random_state=0).fit(X[:900], y[:900])
    model = at.make_anytime([(cheap, range(24)), full], costs=costs, X_val=X[900:1300], y_val=y[900:1300])
    assert_allclose(model.predict_proba(X, budget=6), cheap.predict_proba(X[:, :24]), atol=1e-12)
    assert_allclose(model.predict_proba(X), full.predict_proba(X), atol=1e-12)
    assert model.stage_costs_.tolist() == [6.0, 36.0]
    check_anytime_estimator(model, X[:: len(X) // 40])


def test_a_list_of_forests_with_a_tree_for_each_class():
    X, y = load_wine(return_X_y=True)
    small, large = (xgb.XGBRFClassifier(n_estimators=n).fit(X, y) for n in (2, 5))
    model = at.make_anytime([small, large])
    assert_allclose(model.predict_proba(X), large.predict_proba(X), atol=1e-6)
    answers = list(model.stages(X))
    assert_allclose(answers[1].probabilities, small.predict_proba(X), atol=1e-6)


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
            lambda X, y: at.make_anytime(CLASSIFIERS["extra trees"].fit(X, y), X_val=X),
            ValueError,
            "X_val and y_val together",
        ),
        (
            lambda X, y: at.make_anytime(CLASSIFIERS["extra trees"].fit(X, y), costs=[1.0]),
            ValueError,
            "costs has 1 price for 8 columns",
        ),
        (
            lambda X, y: at.make_anytime(CLASSIFIERS["extra trees"].fit(X, y), X_val=X, y_val=y + 7),
            ValueError,
            "which is not among classes",
        ),
        (
            lambda X, y: at.make_anytime(
                [(CLASSIFIERS["extra trees"].fit(X[:, :2], y), [0])], X_val=X, y_val=y
            ),
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


# ---------------------------------------------------------------------- columns

TABLE = pd.DataFrame(BINARY[0][:, :4], columns=["alcohol", "ash", "colour", "hue"])


@pytest.mark.parametrize(
    "estimator",
    [CLASSIFIERS["random forest"], CLASSIFIERS["lightgbm"], CLASSIFIERS["xgboost"]],
    ids=lambda e: type(e).__name__,
)
def test_columns_in_another_order_than_in_training_are_refused(estimator):
    y = BINARY[1]
    original = clone(estimator).fit(TABLE, y)
    for X, words in [
        (TABLE[TABLE.columns[::-1]], "another order.*column 0 is 'hue', but was 'alcohol'"),
        (TABLE.rename(columns={"ash": "dust"}), "other columns: column 1 is 'dust', but was 'ash'"),
        (TABLE.assign(more=1.0), "was trained on 4 columns, but X has 5"),
        (TABLE["ash"], "rows and columns"),
        (y, "rows and columns"),
    ]:
        with pytest.raises(ValueError, match=words):
            at.make_anytime(original, X_val=X, y_val=y)
    model = at.make_anytime(original, X_val=TABLE, y_val=y)
    assert_array_equal(model.predict(TABLE), original.predict(TABLE))


def test_a_rung_whose_columns_are_named_in_another_order_is_refused():
    y = BINARY[1]
    cheap = CLASSIFIERS["random forest"].fit(TABLE[["alcohol", "ash"]], y)
    full = clone(CLASSIFIERS["random forest"]).fit(TABLE, y)
    for columns in (["ash", "alcohol"], [1, 0]):
        with pytest.raises(ValueError, match="another order"):
            at.make_anytime([(cheap, columns), full], X_val=TABLE, y_val=y)
    with pytest.raises(ValueError, match="other columns"):
        at.make_anytime([(cheap, ["alcohol", "hue"]), full])  # the names are those of the full model
    for columns in (["alcohol", "ash"], [0, 1], range(2)):
        model = at.make_anytime([(cheap, columns), full], X_val=TABLE, y_val=y)
        assert_allclose(model.predict_proba(TABLE, budget=2), cheap.predict_proba(TABLE[["alcohol", "ash"]]))


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.filterwarnings("error:X does not have valid feature names")
def test_numbers_are_no_names_of_columns(name):
    X, y = pd.DataFrame(BINARY[0]), BINARY[1]
    original = clone(CLASSIFIERS[name]).fit(X, y)
    model = at.make_anytime(original, X_val=X, y_val=y)
    assert not hasattr(model, "feature_names_in_")
    assert_array_equal(model.predict(X), original.predict(X))


@pytest.mark.parametrize("held_out", [False, True], ids=["as trained", "ordered"])
def test_lightgbm_takes_names_with_blanks(held_out, tmp_path):
    X, y = TABLE.rename(columns={"ash": "ash of wood"}), BINARY[1]
    original = clone(CLASSIFIERS["lightgbm"]).fit(X, y)
    model = at.make_anytime(original, **({"X_val": X, "y_val": y} if held_out else {}))
    assert_array_equal(model.predict(X), original.predict(X))
    with pytest.raises(ValueError, match="another order"):
        at.make_anytime(original, X_val=X[X.columns[::-1]], y_val=y)
    assert_array_equal(model.predict(X[X.columns[::-1]]), original.predict(X))


def test_a_pair_by_itself_is_a_list_of_one():
    X, y = BINARY
    forest = CLASSIFIERS["random forest"].fit(X[:, [2, 5]], y)
    model = at.make_anytime((forest, [2, 5]), X_val=X, y_val=y)
    assert model.n_features_in_ == 8
    assert_allclose(model.predict_proba(X), forest.predict_proba(X[:, [2, 5]]))
    assert at.make_anytime((forest, [2, 5])).n_features_in_ == 6
    assert at.make_anytime((forest, forest)).n_stages_ == 2
    with pytest.raises(ValueError, match="pair"):
        at.make_anytime([(forest, [2, 5], 1)])


# ---------------------------------------------------------------------- what the original refuses


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("number", [np.nan, np.inf, 1e300])
def test_a_made_model_takes_what_the_original_takes(name, number, tmp_path):
    X, y = BINARY[0].copy(), BINARY[1]
    original = clone(CLASSIFIERS[name]).fit(X, y)
    model = at.make_anytime(original)
    model.save(tmp_path / "m.anytime")
    models = [
        model,
        at.load(tmp_path / "m.anytime"),
        at.AnytimeClassifier(original, random_state=0).fit(X, y),
    ]
    X[3, 2] = number
    if number == np.inf:  # refused everywhere
        for ours in models:
            with pytest.raises(ValueError, match="row 3, column 2: the value is infinite"):
                ours.predict(X)
        return
    try:
        expected = original.predict_proba(X)
    except ValueError:
        for ours in models:
            with pytest.raises(ValueError, match=r"\(NaN\)|is infinite"):
                ours.predict(X)
            assert ours.__sklearn_tags__().input_tags.allow_nan == (name != "gradient boosting")
        with pytest.raises(ValueError, match=r"\(NaN\)|is infinite"):
            at.make_anytime(original, X_val=X, y_val=y)
        with pytest.raises(ValueError, match=r"\(NaN\)|is infinite"):
            at.make_anytime([original, original]).predict(X)
    else:
        assert_allclose(model.predict_proba(X), expected, atol=1e-6, rtol=0)


def test_a_forest_of_one_class_is_refused():
    X, y = BINARY
    with pytest.raises(ValueError, match="only one class"):
        at.make_anytime(CLASSIFIERS["random forest"].fit(X, np.ones(len(y))))


# ---------------------------------------------------------------------- held-out rows


@pytest.mark.parametrize("ladder", [False, True], ids=["one model", "a list"])
@pytest.mark.parametrize(
    ("held", "words"),
    [
        ({"sample_weight": np.ones(600)}, "give X_val and y_val with it"),
        (
            {"X_val": BINARY[0], "y_val": BINARY[1], "sample_weight": np.zeros(600)},
            "all sample weights are zero",
        ),
        (
            {"X_val": BINARY[0], "y_val": BINARY[1], "sample_weight": np.full(600, -1.0)},
            "must not be negative",
        ),
        ({"X_val": BINARY[0], "y_val": BINARY[1], "sample_weight": np.full(600, np.nan)}, "NaN or infinity"),
        (
            {"X_val": BINARY[0], "y_val": BINARY[1], "sample_weight": np.ones(7)},
            "inconsistent numbers of samples",
        ),
        ({"X_val": BINARY[0], "y_val": BINARY[1][:-1]}, "inconsistent numbers of samples"),
        ({"X_val": BINARY[0], "y_val": np.c_[BINARY[1], BINARY[1]]}, "1d array"),
    ],
)
def test_held_out_rows_that_do_not_fit_are_refused(held, words, ladder):
    forest = CLASSIFIERS["random forest"].fit(*BINARY)
    with pytest.raises(ValueError, match=words):
        at.make_anytime([forest, forest] if ladder else forest, **held)
    numbers = REGRESSORS["random forest"].fit(*BINARY)
    with pytest.raises(ValueError, match=words):
        at.make_anytime([numbers, numbers] if ladder else numbers, **held)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
def test_a_column_of_truth_is_as_good_as_a_row():
    for estimator, (X, y) in [
        (CLASSIFIERS["hist gradient boosting"], WINE),
        (REGRESSORS["xgboost"], DIABETES),
    ]:
        fitted = clone(estimator).fit(X, y)
        column = at.make_anytime(fitted, X_val=X, y_val=y[:, None])
        assert_array_equal(column.plan_.quality, at.make_anytime(fitted, X_val=X, y_val=y).plan_.quality)


def test_two_targets_need_two_columns_of_truth():
    X, y = DIABETES
    original = clone(REGRESSORS["random forest"]).fit(X, np.c_[y, -y])
    assert at.make_anytime(original, X_val=X, y_val=np.c_[y, -y]).ordering_ is not None
    with pytest.raises(ValueError, match="predicts 2 numbers per row"):
        at.make_anytime(original, X_val=X, y_val=y)


@pytest.mark.parametrize("labels", ["same labels", "other labels"])
def test_equal_rows_are_never_both_trained_and_judged_on(labels):
    X, y = BINARY
    again = y if labels == "same labels" else 1 - y
    train, held = split_rows(
        np.concatenate([X, X]), np.concatenate([y, again]), 0.2, np.random.RandomState(0)
    )
    assert held.size
    assert not set(held % len(X)) & set(train % len(X))


def test_every_class_keeps_a_row_to_fit_on():
    X, classes = np.repeat([[1.0], [2.0], [3.0]], 3, axis=0), np.array([0, 0, 1, 0, 0, 2, 0, 0, 3])
    for seed in range(20):
        train, held = split_rows(X, classes, 0.9, np.random.RandomState(seed))
        assert set(classes[train]) == {0, 1, 2, 3}
        assert not set(X[train, 0]) & set(X[held, 0])


# ---------------------------------------------------------------------- fit


@pytest.mark.parametrize(
    "wrong",
    [
        {"meter": "x"},
        {"budget": -3},
        {"budget": np.nan},
        {"n_jobs": 0},
        {"evaluation_cost": -1},
        {"evaluation_cost": np.inf},
        {"costs": [1.0]},
    ],
    ids=str,
)
def test_wrong_parameters_are_refused_before_anything_is_trained(wrong):
    class Untouched(RandomForestClassifier):
        def fit(self, X, y):
            raise AssertionError("trained in vain")

    words = "costs has 1 price for 8 columns" if "costs" in wrong else f"The '{next(iter(wrong))}' parameter"
    with pytest.raises(ValueError, match=words):
        at.AnytimeClassifier(Untouched(), **wrong).fit(*BINARY)
    with pytest.raises(ValueError, match=words):
        at.make_anytime(CLASSIFIERS["random forest"].fit(*BINARY), **wrong)


@pytest.mark.parametrize("budget", [None, 0, 2.5, np.inf, np.float32(3)])
def test_right_budgets_are_taken(budget):
    at.AnytimeClassifier(CLASSIFIERS["random forest"], budget=budget).fit(*BINARY).predict(BINARY[0])


def test_a_fit_that_fails_leaves_the_model_as_it_was():
    X, y = BINARY
    model = at.AnytimeClassifier(CLASSIFIERS["random forest"], random_state=0).fit(TABLE, y)
    before, answers = vars(model).copy(), model.predict_proba(TABLE)
    for costs, truth, words in [
        ([1.0], np.array(["no", "yes"])[y], "costs has 1 price for 8 columns"),
        (None, np.ones(len(y)), "at least 2 classes"),
        (None, y[:-1], "inconsistent"),
    ]:
        with pytest.raises(ValueError, match=words):
            model.set_params(costs=costs).fit(X, truth)
        model.set_params(costs=None)
        assert vars(model) == before
    assert_array_equal(model.predict_proba(TABLE), answers)
    assert model.fit(X, y).n_features_in_ == 8
    assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize(
    ("weight", "words"), [(-1.0, "must not be negative"), (0.0, "are zero"), (np.inf, "infinity")]
)
def test_wrong_weights_are_refused(weight, words):
    with pytest.raises(ValueError, match=words):
        at.AnytimeClassifier().fit(*BINARY, sample_weight=np.full(600, weight))


def test_random_state_reaches_the_estimator_unless_it_has_its_own():
    X, y = BINARY
    free, fixed = RandomForestClassifier(5), RandomForestClassifier(5, random_state=7)
    first, second = (at.AnytimeClassifier(free, random_state=0).fit(X, y) for _ in range(2))
    assert_array_equal(first.predict_proba(X), second.predict_proba(X))
    assert free.random_state is None
    assert at.AnytimeClassifier(fixed, random_state=0).fit(X, y).estimator_.random_state == 7
    assert at.AnytimeClassifier(free).fit(X, y).estimator_.random_state is None


# ---------------------------------------------------------------------- fitting a made model again


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_clone_of_a_made_model_trains_the_same_kind(name):
    X, y = BINARY
    original = clone(CLASSIFIERS[name]).fit(X[::2], y[::2])
    again = clone(at.make_anytime(original)).fit(X[::2], y[::2])
    assert type(again.estimator_) is type(original)
    assert_allclose(again.predict_proba(X), original.predict_proba(X), atol=1e-6)
    assert clone(at.make_anytime(original, X_val=X, y_val=y)).fit(X, y).ordering_ is not None


def test_bare_trees_cannot_be_fitted_again(tmp_path):
    X, y = BINARY
    boosted = clone(CLASSIFIERS["lightgbm"]).fit(X, y)
    boosted.booster_.save_model(tmp_path / "m.txt")
    for source in (boosted.booster_, import_file(tmp_path / "m.txt"), [boosted, boosted]):
        model = at.make_anytime(source)
        for ours in (model, clone(model), pickle.loads(pickle.dumps(model))):
            with pytest.raises(ValueError, match="no estimator that could be fitted again"):
                ours.fit(X, y)
        assert "estimator" in model.get_params()
        repr(model)
        model.save(tmp_path / "m.anytime")
        assert at.load(tmp_path / "m.anytime").estimator is None
        assert clone(model).set_params(estimator=boosted).fit(X, y).score(X, y) > 0.8


def test_a_truncated_model_is_small_in_a_pickle():
    model = at.AnytimeClassifier(RandomForestClassifier(15), random_state=0).fit(*BINARY)
    small = model.truncate(mean_budget=4)
    assert not hasattr(small, "estimator_")
    assert hasattr(model, "estimator_")
    assert len(pickle.dumps(small)) < len(pickle.dumps(model)) / 4


def test_equal_rows_are_in_the_same_fold_and_every_class_is_in_all():
    rng = np.random.default_rng(0)
    X, classes = rng.normal(size=(60, 2)), np.repeat([0, 1, 2], [40, 15, 5])
    fold = fold_rows(np.vstack([X, X[::-1]]), np.append(classes, classes[::-1]), 5, np.random.RandomState(0))
    assert (fold[:60] == fold[60:][::-1]).all()
    for c in range(3):
        assert set(fold[:60][classes == c]) == set(range(5))
    assert np.bincount(fold).tolist() == [24] * 5
    assert (fold[:60] != fold_rows(X, classes, 5, np.random.RandomState(1))).any()


@pytest.mark.parametrize("X", [np.ones((60, 2)), np.repeat([[0.0], [1.0]], 30, axis=0)])
def test_folds_of_rows_that_are_alike_leave_two_classes_to_learn_from(X):
    classes = np.repeat([0, 1], 30)
    fold = fold_rows(X, classes, 5, np.random.RandomState(0))
    for k in range(5):
        assert set(classes[fold != k]) == {0, 1}


def test_class_weights_count_in_training_and_in_the_order_of_stages():
    """``class_weight`` is what the same ``sample_weight`` would be."""
    X, y = make_classification(n_samples=300, weights=[0.9], random_state=0)
    fast = HistGradientBoostingClassifier(max_iter=10, max_leaf_nodes=7, min_samples_leaf=5)
    by_class = at.AnytimeClassifier(fast, class_weight="balanced", random_state=0).fit(X, y)
    by_row = at.AnytimeClassifier(fast, random_state=0)
    plain = at.AnytimeClassifier(fast, random_state=0).fit(X, y)
    assert (by_class.predict_proba(X) != plain.predict_proba(X)).any()
    told = {0: 1.0, 1: float((y == 0).sum() / (y == 1).sum())}
    by_row.fit(X, y, sample_weight=np.array([told[label] for label in y]))
    named = at.AnytimeClassifier(fast, class_weight=told, random_state=0).fit(X, y)
    assert_array_equal(named.predict_proba(X), by_row.predict_proba(X))


def test_a_forest_whose_first_answer_needs_nearly_everything_says_what_to_do():
    X, y, costs = at.datasets.load("wine")
    wide = RandomForestClassifier(5, random_state=0).fit(X, y)
    with pytest.warns(
        UserWarning,
        match=r"first answer may cost .* reads? \d+ of \d+ groups.*may pay .* get no prediction.*"
        r"SpeedBoostClassifier.*interaction_cst.*lose the interactions",
    ):
        model = at.make_anytime(wide, costs=costs)
    answer = model.answer(X, budget=model.stage_costs_[0] / 2)
    assert ((answer.cost > 0) & (answer.stage == 0)).any()  # as the warning says
    groups = [list(columns) for columns in costs.groups.values()]
    narrow = HistGradientBoostingClassifier(max_iter=5, interaction_cst=groups, random_state=0).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        at.make_anytime(narrow, costs=costs, X_val=X, y_val=y)
        at.make_anytime(wide)  # without prices nobody minds
