"""An imported model answers as the original does, also where libraries differ: holes, ties, categories, rounding."""

from __future__ import annotations

import functools
import pickle
import subprocess
import sys
import time
from dataclasses import replace

import joblib
import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
import xgboost as xgb
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, softmax
from sklearn import calibration, ensemble, linear_model, pipeline, preprocessing, tree
from tests.reference.tree_walk import prefix_scores, stage_outputs
from tests.trees.importer_cases import CASES, N, numbers, target, three, two

from anytime.trees.arrays import LEAF, MISSING_NAN, MISSING_NAN_OR_ZERO, MISSING_NEVER, NUMERIC
from anytime.trees.importers import import_file, import_trees

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")

LINKS = {
    "identity": lambda s: s,
    "probability": lambda s: s,
    "exp": np.exp,
    "softplus": lambda s: np.log1p(np.exp(s)),
    "signed_square": lambda s: np.sign(s) * s**2,
    "regression_logistic": expit,
    "logistic": lambda s: np.hstack([1 - expit(s), expit(s)]),
    "softmax": lambda s: softmax(s, axis=1),
    "ova": expit,
}
ZERO = float(np.float32(1e-35))
STRANGE = [0.0, -0.0, 1e-36, -1e-36, 1e-35, -1e-35, ZERO, -ZERO, 1e-40, -1e-40, 1e30, -1e30, 1.0 + 1e-9, 1.0]
STRANGE_CODES = [
    -1.0,
    -0.5,
    -0.0,
    0.4,
    1.9,
    31.5,
    33.0,
    63.0,
    64.0,
    300.0,
    2.0**24,
    2.0**31,
    2.0**32 + 1,
    1e20,
]


@functools.cache
def built(name):
    case = CASES[name]()
    return case, import_trees(case.model)


def original(model, X):
    """(n, columns) what the library itself says."""
    if isinstance(model, xgb.Booster):
        said = model.inplace_predict(X)
    else:
        said = model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)
    return np.asarray(said, dtype=np.float64).reshape(len(X), -1)


def full_scores(imported, X):
    return prefix_scores(stage_outputs(imported.trees, imported.encode(X)), imported.base, imported.combine)[
        -1
    ]


def ours(imported, X, columns):
    """(n, columns) what the imported trees say; a bare booster gives the second class only."""
    return LINKS[imported.link](full_scores(imported, X))[:, -columns:]


def thresholds(imported, column):
    trees = imported.trees
    used = (trees.feature == column) & (trees.category_set == NUMERIC)
    exact = trees.threshold[used]
    narrow = exact.astype(np.float32)
    near = [np.nextafter(exact, -np.inf), np.nextafter(exact, np.inf), narrow]
    near += [np.nextafter(narrow, np.float32(-np.inf)), np.nextafter(narrow, np.float32(np.inf))]
    return np.concatenate([exact, *near]).astype(np.float64)


def strange_rows(case, imported, n=160):
    """Training rows in which many values are replaced: at thresholds and beside, zeros, holes, wrong categories."""
    r = np.random.default_rng(1)
    if isinstance(case.X, pd.DataFrame):
        return _strange_table(case, imported, r, n)
    X = np.array(case.X[r.integers(0, N, n)], dtype=np.float64)
    by_set = set(imported.trees.feature[imported.trees.category_set != NUMERIC].tolist())
    for column in range(X.shape[1]):
        pool = STRANGE + [np.inf, -np.inf] * case.infinite
        pool = np.concatenate([pool, STRANGE_CODES if column in by_set else thresholds(imported, column)])
        pool = pool if case.infinite else pool[np.abs(pool) < 1e38]
        X[:, column] = np.where(r.random(n) < 0.5, r.choice(pool, n), X[:, column])
        X[(r.random(n) < 0.15) & case.nan, column] = np.nan
    return X


def _strange_table(case, imported, r, n):
    table = case.X.iloc[r.integers(0, N, n)].reset_index(drop=True)
    refuses_new = isinstance(case.model, xgb.XGBModel)
    for column, name in enumerate(table.columns):
        if table[name].dtype == "category":
            words = [*table[name].cat.categories, None] + ([] if refuses_new else ["mauve", 99])
            chosen = pd.Series(r.choice(np.array(words, dtype=object), n))
            kept = pd.CategoricalDtype(table[name].cat.categories) if refuses_new else "category"
            table[name] = chosen.astype(kept)
        else:
            pool = np.concatenate([thresholds(imported, column), STRANGE, [np.nan, np.inf]])
            table[name] = np.where(r.random(n) < 0.5, r.choice(pool, n), table[name])
    return table


# ------------------------------------------------------------------------------------------------ exactness


@pytest.mark.parametrize("name", CASES)
def test_answers_are_those_of_the_original(name):
    case, imported = built(name)
    for X in (case.X[:60], strange_rows(case, imported)):
        expected = original(case.model, X)
        found = ours(imported, X, expected.shape[1])
        # XGBoost adds in float32, so small answers that are sums of larger terms carry the rounding of those.
        scale = (
            np.maximum(np.abs(expected), 0.1 * np.abs(expected).max()) if imported.classes is None else 1.0
        )
        assert np.max(np.abs(found - expected) / scale) <= 1e-6


@pytest.mark.parametrize("name", [name for name in CASES if hasattr(CASES[name]().model, "classes_")])
def test_labels_are_those_of_the_original(name):
    case, imported = built(name)
    X = strange_rows(case, imported)
    chosen = imported.classes[np.argmax(ours(imported, X, 99), axis=1)]
    expected = np.asarray(case.model.predict(X))
    assert chosen.dtype.kind == np.asarray(case.model.classes_).dtype.kind
    assert np.array_equal(chosen, expected)


def changed(name, **arrays):
    """Share of strange rows whose score changes when arrays of the trees do."""
    case, imported = built(name)
    X = strange_rows(case, imported)
    other = replace(imported, trees=replace(imported.trees, **arrays))
    return np.mean(np.any(np.abs(full_scores(imported, X) - full_scores(other, X)) > 1e-6, axis=1))


@pytest.mark.parametrize("name", CASES)
def test_strange_rows_would_notice_a_strict_comparison(name):
    trees = built(name)[1].trees
    if trees.left[0] == LEAF and trees.n_trees == 1:
        pytest.skip("nothing is compared")
    below = (
        np.nextafter(trees.threshold.astype(np.float32), np.float32(-np.inf))
        if trees.float32_input
        else np.nextafter(trees.threshold, -np.inf)
    )
    assert changed(name, threshold=below.astype(np.float64)) > 0


@pytest.mark.parametrize("name", CASES)
def test_strange_rows_would_notice_a_wrong_default(name):
    case, imported = built(name)
    trees = imported.trees
    inner = (trees.left != LEAF) & (trees.missing != MISSING_NEVER)
    if not case.nan or not inner.any():
        pytest.skip("nothing is missing")
    flipped = np.where(inner, 1 - trees.default_left, trees.default_left).astype(np.uint8)
    assert changed(name, default_left=flipped) > 0.05


@pytest.mark.parametrize("name", [name for name in CASES if built(name)[1].trees.float32_input])
def test_strange_rows_would_notice_float64_comparisons(name):
    if built(name)[1].trees.n_trees > 1:
        assert changed(name, float32_input=False) > 0


@pytest.mark.parametrize(
    "name", [name for name in CASES if (built(name)[1].trees.category_set != NUMERIC).any()]
)
def test_strange_rows_would_notice_swapped_categories(name):
    assert changed(name, members_left=1 - built(name)[1].trees.members_left) > 0.05


def test_strange_rows_would_notice_each_missing_rule():
    for name, rule in {
        "LightGBM, zero counts as missing": MISSING_NAN_OR_ZERO,
        "LightGBM, nothing counts as missing": MISSING_NEVER,
        "LightGBM, regression": MISSING_NAN,
    }.items():
        trees = built(name)[1].trees
        assert (trees.missing[trees.left != LEAF] == rule).any()
        for other in {MISSING_NEVER, MISSING_NAN, MISSING_NAN_OR_ZERO} - {rule}:
            assert changed(name, missing=np.where(trees.missing == rule, other, trees.missing)) > 0


def test_minus_one_half_is_category_zero_to_lightgbm_and_wrong_to_xgboost():
    for name, is_zero in {
        "LightGBM, categories split one by one": True,
        "XGBoost, categories split one by one": False,
    }.items():
        case, imported = built(name)
        X = np.repeat([[0.3, 0.0, 0.1]], 2, axis=0)
        X[1, 1] = -0.5
        said = original(case.model, X)
        assert (said[0] == said[1]) == is_zero
        assert np.allclose(ours(imported, X, 1), said, atol=1e-6)


_RANDOM = [
    "histogram boosting of three classes",
    "LightGBM, three classes",
    "LightGBM, zero counts as missing",
    "LightGBM, categories split into sets",
    "XGBoost, three classes",
    "XGBoost, categories split into sets",
    "XGBoost, two targets in every leaf",
    "a random forest with text labels and holes",
]


@pytest.mark.parametrize("name", _RANDOM)
@given(data=st.data())
def test_any_floats_at_all_give_the_same_answer(name, data):
    case, imported = built(name)
    width = 64 if case.infinite else 32
    cells = st.floats(width=width, allow_infinity=case.infinite) | st.sampled_from(STRANGE_CODES)
    at_thresholds = [t for t in imported.trees.threshold.tolist() if case.infinite or abs(t) < 1e38]
    cells |= st.sampled_from(at_thresholds)
    row = st.lists(cells, min_size=case.X.shape[1], max_size=case.X.shape[1])
    X = np.array(data.draw(st.lists(row, min_size=1, max_size=5)))
    expected = original(case.model, X)
    assert np.allclose(ours(imported, X, expected.shape[1]), expected, rtol=1e-6, atol=1e-6)


# ------------------------------------------------------------------------------------------------ stages and start


@pytest.mark.parametrize(
    ("name", "after"),
    [
        ("histogram boosting of three classes", lambda m, X, s: list(m.staged_predict_proba(X))[s - 1]),
        ("classic boosting of numbers", lambda m, X, s: list(m.staged_predict(X))[s - 1][:, None]),
        ("LightGBM, three classes", lambda m, X, s: m.predict_proba(X, num_iteration=s)),
        ("LightGBM, a random forest of two classes", lambda m, X, s: m.predict_proba(X, num_iteration=s)),
        ("XGBoost, a boosted forest", lambda m, X, s: m.predict_proba(X, iteration_range=(0, s))),
        ("XGBoost, dart", lambda m, X, s: m.predict_proba(X, iteration_range=(0, s))),
    ],
)
def test_a_prefix_is_the_original_cut_after_as_many_rounds(name, after):
    case, imported = built(name)
    X = case.X[:20]
    scores = prefix_scores(stage_outputs(imported.trees, imported.encode(X)), imported.base, imported.combine)
    for s in range(1, imported.trees.n_stages + 1):
        assert np.allclose(LINKS[imported.link](scores[s]), after(case.model, X, s), atol=1e-6)


def test_a_prefix_of_an_xgboost_forest_is_the_mean_of_its_first_trees():
    case, imported = built("XGBoost, a random forest of numbers")
    assert imported.combine == "mean"
    assert imported.trees.n_stages == 8
    one = stage_outputs(imported.trees, case.X)[0].mean()
    assert one == pytest.approx(target(case.X).mean() + 50, rel=0.05)  # a whole answer, not an eighth of one


@pytest.mark.parametrize(
    ("name", "prior"),
    [
        ("a random forest with text labels and holes", [0.3, 0.4, 0.3]),
        ("extra trees with text labels and holes", [0.3, 0.4, 0.3]),
        ("LightGBM, three classes", np.log([0.3, 0.4, 0.3])),
        ("LightGBM, two classes with text labels", [0.0]),
        ("LightGBM, random forest", None),
        ("XGBoost, a random forest of two classes", [0.0]),
    ],
)
def test_the_answer_before_any_tree_is_the_prior(name, prior):
    if prior is None:
        name, prior = "LightGBM, a random forest of numbers", [target(numbers()).mean() + 50]
    assert built(name)[1].base == pytest.approx(np.array(prior), abs=0.1)


def test_moving_the_bias_to_the_base_leaves_the_first_round_centred():
    _, imported = built("LightGBM, regression")
    first = stage_outputs(imported.trees, numbers())[0]
    assert abs(first.mean()) < 1e-9 < abs(imported.base[0])


# ------------------------------------------------------------------------------------------------ columns


def test_columns_moved_by_histogram_boosting_are_moved_back():
    _, imported = built("histogram boosting on a table with categories between numbers")
    assert imported.feature_names == ["size", "colour", "count", "shop", "weight"]
    assert imported.categories == {1: ["blue", "green", "grey", "red"], 3: [3, 7, 11, 40, 41]}
    trees = imported.trees
    tested = trees.feature[trees.category_set != NUMERIC]
    assert set(tested.tolist()) == {1, 3}


def test_categories_of_a_table_keep_their_order_in_lightgbm_and_xgboost():
    for name in ("LightGBM on a table with categories", "XGBoost on a table with categories"):
        imported = built(name)[1]
        assert imported.categories == {1: ["blue", "green", "grey", "red"], 3: [41, 3, 7, 11, 40]}


def test_plain_text_and_codes_say_the_same_as_a_categorical_column():
    case, imported = built("LightGBM on a table with categories")
    text = case.X.assign(colour=case.X.colour.astype(object), shop=case.X.shop.astype(int))
    codes = case.X.assign(colour=case.X.colour.cat.codes, shop=case.X.shop.cat.codes).to_numpy(
        dtype=np.float64
    )
    codes[codes[:, 1] < 0, 1] = np.nan
    assert np.array_equal(imported.encode(case.X), imported.encode(text), equal_nan=True)
    assert np.array_equal(imported.encode(case.X), imported.encode(codes), equal_nan=True)


def test_a_category_column_unknown_to_the_model_is_refused():
    table = pd.DataFrame(numbers(), columns=list("abcd"))
    imported = import_trees(tree.DecisionTreeClassifier(max_depth=2).fit(table, two(table)))
    assert imported.feature_names == list("abcd")
    with pytest.raises(ValueError, match="column 'b' is categorical"):
        imported.encode(table.assign(b=pd.Categorical(["x"] * N)))
    with pytest.raises(ValueError, match="trained on 4 columns"):
        imported.encode(table[["a"]])


def test_ordered_categories_of_lightgbm_are_refused_because_it_does_not_say_where_they_are():
    table = pd.DataFrame({"a": numbers()[:, 1], "o": pd.Categorical(three(numbers()), ordered=True)})
    model = lgb.LGBMRegressor(n_estimators=2, verbose=-1).fit(table, target(numbers()))
    with pytest.raises(ValueError, match="does not record which"):
        import_trees(model)


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
    assert read.categories == imported.categories


def test_a_lightgbm_file_is_the_model_it_was_saved_from(tmp_path):
    case, imported = built("LightGBM on a table with categories")
    case.model.booster_.save_model(tmp_path / "model.txt")
    read = import_file(tmp_path / "model.txt")
    assert same(read, imported)
    assert read.categories == imported.categories
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
    with pytest.raises(ValueError, match="known are identity"):
        import_trees(model, link="sigmoid")


def test_a_subclass_counts_as_its_parent():
    class OurForest(ensemble.RandomForestClassifier):
        pass

    imported = import_trees(OurForest(2, max_depth=2).fit(numbers(), two(numbers())))
    assert imported.source.startswith("sklearn.RandomForestClassifier")


# ------------------------------------------------------------------------------------------------ weight


@pytest.mark.parametrize("room", ["", ".sklearn", ".lightgbm", ".xgboost"])
def test_importers_load_no_library_before_a_model_of_it_is_there(room):
    code = f"import sys, anytime.trees.importers{room}; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"sklearn", "lightgbm", "xgboost", "pandas", "joblib"} & set(loaded)


@pytest.mark.slow
@pytest.mark.parametrize("make", [lgb.LGBMClassifier, xgb.XGBClassifier])
def test_five_hundred_trees_of_63_leaves_are_imported_within_a_second(make):
    r = np.random.default_rng(0)
    X = r.normal(size=(3000, 8))
    y = (X[:, 0] * X[:, 1] + r.normal(size=3000) > 0).astype(int)
    size = (
        {"num_leaves": 63, "verbose": -1}
        if make is lgb.LGBMClassifier
        else {"max_leaves": 63, "max_depth": 0}
    )
    model = make(n_estimators=500, n_jobs=2, **size).fit(X, y)
    start = time.perf_counter()
    imported = import_trees(model)
    assert time.perf_counter() - start < 1.0
    assert imported.trees.n_trees == 500
