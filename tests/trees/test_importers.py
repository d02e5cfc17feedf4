"""An imported model answers as the original does, also where libraries differ: holes, ties, categories, rounding."""

from __future__ import annotations

import json
from dataclasses import replace

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import tree

from anytime.trees.arrays import LEAF, MISSING_NAN, MISSING_NAN_OR_ZERO, MISSING_NEVER, NUMERIC
from anytime.trees.block import TreeBlock
from anytime.trees.importers import Columns, import_trees
from tests.reference.tree_walk import prefix_scores, stage_outputs
from tests.trees.importer_cases import CASES, N, numbers, target, three, two
from tests.trees.importer_probes import LINKS, STRANGE_CODES, built, full_scores, original, ours, strange_rows

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


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


def test_labels_are_those_of_the_original():
    compared = 0
    for name in CASES:
        case, imported = built(name)
        if not hasattr(case.model, "classes_"):
            continue
        compared += 1
        X = strange_rows(case, imported)
        chosen = imported.classes[np.argmax(ours(imported, X, 99), axis=1)]
        assert chosen.dtype.kind == np.asarray(case.model.classes_).dtype.kind, name
        assert np.array_equal(chosen, np.asarray(case.model.predict(X))), name
    assert compared > 20


@pytest.mark.parametrize("name", CASES)
def test_the_native_evaluator_walks_imported_trees_as_written(name):
    case, imported = built(name)
    X = imported.encode(strange_rows(case, imported))
    native = TreeBlock(imported.trees).forest.stage_outputs(X, np.arange(imported.trees.n_stages))
    assert np.allclose(native, stage_outputs(imported.trees, X), rtol=1e-12, atol=1e-12)


def changed(name, **arrays):
    """Share of strange rows whose score changes when arrays of the trees do."""
    case, imported = built(name)
    X = strange_rows(case, imported)
    other = replace(imported, trees=replace(imported.trees, **arrays))
    return np.mean(np.any(np.abs(full_scores(imported, X) - full_scores(other, X)) > 1e-6, axis=1))


def unnoticed(applies, change, least=0.0):
    """Models to which a change of their trees applies and whose strange rows do not notice it; and how many noticed."""
    shares = {}
    for name in CASES:
        case, imported = built(name)
        if applies(case, imported.trees):
            shares[name] = changed(name, **change(imported.trees))
    return [name for name, share in shares.items() if share <= least], len(shares)


def compares(case, trees):
    return trees.left[0] != LEAF or trees.n_trees > 1


def misses(case, trees):
    return case.nan and ((trees.left != LEAF) & (trees.missing != MISSING_NEVER)).any()


def strictly(trees):
    as_read = trees.threshold.astype(np.float32) if trees.float32_input else trees.threshold
    return {"threshold": np.nextafter(as_read, as_read.dtype.type(-np.inf)).astype(np.float64)}


def other_default(trees):
    inner = (trees.left != LEAF) & (trees.missing != MISSING_NEVER)
    return {"default_left": np.where(inner, 1 - trees.default_left, trees.default_left).astype(np.uint8)}


def test_strange_rows_would_notice_a_strict_comparison():
    blind, seeing = unnoticed(compares, strictly)
    assert (blind, seeing > 50) == ([], True)


def test_strange_rows_would_notice_a_wrong_default():
    blind, seeing = unnoticed(misses, other_default, least=0.05)
    assert (blind, seeing > 20) == ([], True)


def test_strange_rows_would_notice_float64_comparisons():
    blind, seeing = unnoticed(
        lambda case, trees: trees.float32_input and compares(case, trees),
        lambda trees: {"float32_input": False},
    )
    assert (blind, seeing > 20) == ([], True)


def test_strange_rows_would_notice_swapped_categories():
    blind, seeing = unnoticed(
        lambda case, trees: (trees.category_set != NUMERIC).any(),
        lambda trees: {"members_left": 1 - trees.members_left},
        least=0.05,
    )
    assert (blind, seeing > 5) == ([], True)


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
    assert imported.columns.categories == {1: ["blue", "green", "grey", "red"], 3: [3, 7, 11, 40, 41]}
    trees = imported.trees
    tested = trees.feature[trees.category_set != NUMERIC]
    assert set(tested.tolist()) == {1, 3}


def test_categories_of_a_table_keep_their_order_in_lightgbm_and_xgboost():
    for name in ("LightGBM on a table with categories", "XGBoost on a table with categories"):
        imported = built(name)[1]
        assert imported.columns.categories == {1: ["blue", "green", "grey", "red"], 3: [41, 3, 7, 11, 40]}


def test_plain_text_and_codes_say_the_same_as_a_categorical_column():
    case, imported = built("LightGBM on a table with categories")
    text = case.X.assign(colour=case.X.colour.astype(object), shop=case.X.shop.astype(int))
    codes = case.X.assign(colour=case.X.colour.cat.codes, shop=case.X.shop.cat.codes).to_numpy(
        dtype=np.float64
    )
    codes[codes[:, 1] < 0, 1] = np.nan
    assert np.array_equal(imported.encode(case.X), imported.encode(text), equal_nan=True)
    assert np.array_equal(imported.encode(case.X), imported.encode(codes), equal_nan=True)


def test_how_columns_are_read_survives_a_file():
    for name in CASES:
        columns = built(name)[1].columns
        again = Columns.from_state(json.loads(json.dumps(columns.state())))
        assert again.state() == columns.state()
        assert again.are_plain == columns.are_plain


def test_plain_columns_are_passed_on_unchanged():
    for name in ("LightGBM, three classes", "XGBoost, three classes", "histogram boosting of two classes"):
        case, imported = built(name)
        assert imported.columns.are_plain
        assert np.array_equal(imported.encode(case.X), case.X, equal_nan=True)
    for name in ("XGBoost, -999 means missing", "XGBoost, categories split into sets"):
        assert not built(name)[1].columns.are_plain


def test_nullable_columns_have_holes():
    case, imported = built("LightGBM on a table with categories")
    counts = case.X["count"].astype("Int64")
    counts[3] = pd.NA
    encoded = imported.encode(case.X.assign(count=counts))
    assert np.isnan(encoded[3, 2])
    assert encoded[4, 2] == case.X["count"][4]


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
