"""Rows as they come: tables with words, dictionaries whose names come and go, running scales."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from anytime import load
from anytime.streaming import StreamAlgorithm, StreamingBoostClassifier, StreamingBoostRegressor
from anytime.streaming.categories import MOST_CATEGORIES, CategoryNumbers, grow_categories
from anytime.streaming.scaling import RunningScale
from tests.streaming.streams import labels, numbers, table

SMALL = {"n_estimators": 5, "random_state": 0}


# ---------------------------------------------------------------------- scales


@given(
    st.integers(1, 30), st.lists(st.integers(1, 8), min_size=1, max_size=5), st.none() | st.integers(1, 20)
)
def test_scales_are_those_of_all_rows_so_far_whatever_the_chunks(seed, chunks, frozen_after):
    rng = np.random.default_rng(seed)
    X = rng.normal(1e6, 2.0, size=(sum(chunks), 3))
    X[rng.random(X.shape) < 0.2] = np.nan
    whole, parts = (RunningScale(3, frozen_after) for _ in range(2))
    at_once = whole.advance(X)
    ends = np.cumsum([0, *chunks])
    pieces = [parts.advance(X[a:b]) for a, b in pairwise(ends)]
    assert_array_equal(np.concatenate(pieces), at_once)
    seen = X[:frozen_after]
    for j in range(3):
        values = seen[~np.isnan(seen[:, j]), j]
        if values.size:
            assert_allclose(whole.mean[j], values.mean(), rtol=1e-12)
            deviation = values.std() if np.ptp(values) else 1.0
            assert_allclose(whole.scale[j], deviation, rtol=1e-6)
    assert (at_once[np.isnan(X)] == 0).all()


def test_a_column_that_never_varies_has_scale_1():
    scale = RunningScale(1)
    assert_array_equal(scale.advance(np.full((5, 1), 7.0)), np.zeros((5, 1)))
    assert scale.scale == 1.0


def test_a_regressor_does_not_mind_the_units_of_its_target():
    X, y = numbers(400)
    small = StreamingBoostRegressor(learner="ridge", **SMALL).predict_then_fit(X, y)
    large = StreamingBoostRegressor(learner="ridge", **SMALL).predict_then_fit(X, 1e6 + 1e3 * y)
    assert_allclose((large[50:] - 1e6) / 1e3, small[50:], atol=1e-4)


def test_the_answer_of_no_learners_is_the_mean_of_the_first_rows():
    X, y = numbers(400)
    model = StreamingBoostRegressor(algorithm=StreamAlgorithm(scale_rows=150), **SMALL).fit(X, y)
    assert_allclose(model.predict(X, budget=0)[0], y[:150].mean())


def test_standardising_is_for_learners_that_are_no_trees():
    X, y = numbers(300)
    for learner, expected in (
        ("ridge", True),
        ("hoeffding_tree", False),
        ("stump", False),
        ("small_net", True),
    ):
        model = StreamingBoostRegressor(learner=learner, **SMALL).fit(X, y)
        assert (model._learning.columns is not None) == expected
    model = StreamingBoostRegressor(learner="ridge", standardise=False, **SMALL).fit(X, y)
    assert model._learning.columns is None


# ---------------------------------------------------------------------- words


@given(st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_a_category_is_the_shrunken_mean_target_of_the_rows_before(seed):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, 4, 40), rng.normal(size=40)]).astype(float)
    X[rng.random(40) < 0.1, 0] = np.nan
    targets = rng.normal(size=40)
    read = CategoryNumbers([0], by_target=True)
    found = read.learn(X, targets)
    for row in range(40):
        earlier = targets[:row][X[:row, 0] == X[row, 0]]
        expected = np.nan if np.isnan(X[row, 0]) else earlier.sum() / (earlier.size + 1)
        assert_allclose(found[row, 0], expected, atol=1e-12)
    assert_array_equal(found[:, 1], X[:, 1])
    for code in range(4):
        mine = targets[X[:, 0] == code]
        now = read.apply(np.array([[float(code), 0.0]]))[0, 0]
        assert_allclose(
            now, np.nan if code > np.nanmax(X[:, 0]) else mine.sum() / (mine.size + 1), atol=1e-12
        )
    assert np.isnan(read.apply(np.array([[99.0, 0.0]]))[0, 0])


def test_categories_are_taken_up_in_the_order_in_which_they_come_up_to_a_limit():
    known: list[object] = []
    grow_categories(known, ["b", None, "a", "b", float("nan")])
    assert known == ["b", "a"]
    grow_categories(known, range(MOST_CATEGORIES + 5))
    assert len(known) == MOST_CATEGORIES


@pytest.mark.parametrize("learner", ["hoeffding_tree", "ridge"])
def test_words_are_learned_from_and_chunks_leave_no_trace(learner):
    X, y = table(800)
    model = StreamingBoostRegressor(learner=learner, n_estimators=15, random_state=0)
    said = model.predict_then_fit(X, y)
    assert np.abs(said[500:] - y[500:]).mean() < 0.5 * np.abs(y - y.mean()).mean()
    other = StreamingBoostRegressor(learner=learner, n_estimators=15, random_state=0)
    for a in range(0, 800, 90):
        other.partial_fit(X[a : a + 90], y[a : a + 90])
    assert_array_equal(other.predict(X), model.predict(X))
    assert sorted(model.categories_[2]) == ["blue", "green", "red"]
    assert model.order_.count("colour") == 1


def test_words_that_are_new_later_are_learned_too_and_unknown_ones_are_missing():
    X, y = table(600)
    model = StreamingBoostRegressor(learner="ridge", **SMALL).fit(X, y)
    new = X.assign(colour="purple")
    before = model.predict(new)
    assert np.isfinite(before).all()
    model.partial_fit(new, y + 20.0)
    assert "purple" in model.categories_[2]
    assert (model.predict(new) > before + 5).all()


def test_one_row_with_words_is_answered_alike_in_any_form():
    X, y = table(300)
    model = StreamingBoostRegressor(**SMALL).fit(X, y)
    expected = model.predict(X[:5])
    assert [model.predict_one(row) for row in X[:5].to_dict("records")] == expected.tolist()
    assert model.predict_one(X.iloc[0].to_dict(), budget=1.0) == model.predict(X[:1], budget=1.0)[0]
    model.learn_one(X.iloc[0].to_dict(), y[0])
    assert_allclose([model.predict_one(row) for row in X[:5].to_dict("records")], model.predict(X[:5]))


def test_categories_of_an_array_are_whole_numbers_that_are_named():
    X, y = table(400)
    codes = X["colour"].map({"red": 0, "green": 1, "blue": 2})
    array = np.column_stack([X[["a", "b"]], codes])
    by_name = StreamingBoostRegressor(learner="ridge", **SMALL).fit(X, y)
    by_code = StreamingBoostRegressor(learner="ridge", categorical_features=[2], **SMALL).fit(array, y)
    assert_allclose(by_code.predict(array), by_name.predict(X))
    assert by_code.predict_one(array[0]) == by_code.predict(array[:1])[0]
    array[0, 2] = 0.5
    with pytest.raises(ValueError, match="whole numbers"):
        by_code.partial_fit(array, y)


def test_a_column_that_turns_into_words_is_refused():
    X, y = table(50)
    model = StreamingBoostRegressor(**SMALL).partial_fit(X, y)
    with pytest.raises(ValueError, match="held numbers in the first rows"):
        model.partial_fit(X.assign(a="oops"), y)
    with pytest.raises(ValueError, match="feature 'a' is a number, but here it is 'oops'"):
        model.learn_one({"a": "oops"}, 1.0)


# ---------------------------------------------------------------------- dictionaries


def records(X):
    return [dict(zip("abcde", row, strict=True)) for row in X.tolist()]


def test_dictionaries_are_rows_whose_order_of_names_does_not_matter():
    X, y = numbers(300)
    by_name, shuffled = (StreamingBoostRegressor(**SMALL) for _ in range(2))
    by_column = StreamingBoostRegressor(**SMALL).fit(X, y)
    for row, target in zip(records(X), y, strict=True):
        by_name.learn_one(row, target)
        shuffled.learn_one(dict(reversed(row.items())), target)
    expected = by_column.predict(X)
    for model in (by_name, shuffled):
        assert list(model.feature_names_in_) == list("abcde")
        assert_array_equal(model.predict(pd.DataFrame(X, columns=list("abcde"))), expected)
        assert model.predict_one(records(X)[0]) == expected[0]


def test_a_feature_that_is_new_among_the_first_rows_gets_a_column_and_nothing_is_forgotten():
    X, y = numbers(200)
    rows = records(X)
    late = StreamingBoostRegressor(learner="ridge", **SMALL)
    whole = StreamingBoostRegressor(learner="ridge", **SMALL)
    for i, (row, target) in enumerate(zip(rows, y, strict=True)):
        partial = {name: value for name, value in row.items() if i >= 100 or name != "b"}
        late.learn_one(partial, target)
        whole.learn_one({**partial, "b": partial.get("b")}, target)  # None: there, and missing
    assert late.n_features_in_ == 5
    assert late.rows_seen_ == 200
    assert_array_equal([late.predict_one(row) for row in rows], [whole.predict_one(row) for row in rows])


def test_a_feature_that_is_new_later_is_ignored_with_a_warning():
    X, y = numbers(520)
    model = StreamingBoostRegressor(learner="ridge", n_estimators=2)
    for row, target in zip(records(X), y, strict=True):
        model.learn_one(row, target)
    with pytest.warns(UserWarning, match="'z' is new after the columns were settled"):
        model.learn_one({"z": 1.0, **records(X)[0]}, 0.0)
    model.learn_one({"z": 1.0}, 0.0)  # once is enough
    assert model.n_features_in_ == 5
    assert model.predict_one({"y": 3.0, **records(X)[0]}) == model.predict_one(records(X)[0])


def test_labels_that_come_as_they_come():
    X, y = labels(300, 3)
    y[:50] = "low"
    model = StreamingBoostClassifier(**SMALL)
    for i in range(50):
        model.learn_one(X[i], y[i])
    assert model.predict_proba_one(X[0]) == {"low": 1.0}
    assert model.predict_one(X[0]) == "low"
    with pytest.raises(AttributeError, match="only one class"):
        _ = model.plan_
    for i in range(50, 300):
        model.learn_one(X[i], y[i])
    assert model.classes_.tolist() == ["low", "middle", "top"]
    told = StreamingBoostClassifier(**SMALL).partial_fit(X, y, classes=["low", "middle", "top"])
    assert_array_equal(
        model.predict_proba(X), told.predict_proba(X)
    )  # among the first 500 rows nothing is forgotten


def test_a_label_that_is_new_late_begins_anew_from_the_last_rows():
    X, y = labels(700)
    model = StreamingBoostClassifier(learner="ridge", **SMALL)
    for i in range(600):
        model.learn_one(X[i], y[i])
    with pytest.warns(
        UserWarning, match="'other' is new after 600 rows: learning restarts from the last 500"
    ):
        model.learn_one(X[0], "other")
    assert len(model.classes_) == 3
    assert model._learning.n_rows == 500
    assert model.rows_seen_ == 601
    assert model.predict_one(X[0]) in ("low", "middle", "other")


@pytest.mark.parametrize("kind", [StreamingBoostClassifier, StreamingBoostRegressor])
def test_predicting_comes_before_learning(kind):
    for bounds in ({}, {"budget": 2.0}, {"deadline": 1.0}):
        model = kind(**SMALL)
        with pytest.raises(NotFittedError, match="learn_one first"):
            model.predict_one({"a": 1.0}, **bounds)
        model.learn_one({"a": 1.0, "b": 2.0}, 3.0)
        assert model.predict_one({"a": 1.0}, **bounds) == 3.0
        assert model.predict_one({"a": 1.0}) == 3.0


@pytest.mark.parametrize("n_rows", [60, 520])  # while features are open, and after
def test_tables_are_matched_by_name_where_rows_were_dictionaries(n_rows, tmp_path):
    X, y = numbers(n_rows)
    frame = pd.DataFrame(X, columns=list("cadbe"))
    model = StreamingBoostRegressor(learner="ridge", **SMALL)
    for row, target in zip(frame.to_dict("records"), y, strict=True):
        model.learn_one(row, target)
    expected = [model.predict_one(row) for row in frame[:20].to_dict("records")]
    model.save(tmp_path / "m.anytime")
    for each in (model, load(tmp_path / "m.anytime")):
        assert_allclose(each.predict(frame[:20]), expected)
        assert_allclose(each.predict(frame), each.predict(frame[list("abcde")]))
        with pytest.warns(UserWarning, match="the column 'a' is missing"):
            each.predict(frame.rename(columns={"a": "z"}))
    assert model.partial_fit(frame, y)._learning.n_rows == 2 * n_rows


def test_rows_keep_to_the_form_they_came_in():
    model = StreamingBoostRegressor(**SMALL)
    model.learn_one({"a": 1.0}, 2.0)
    with pytest.raises(TypeError, match="dictionaries so far"):
        model.learn_one(np.zeros(1), 2.0)
    with pytest.raises(ValueError, match="infinite"):
        model.learn_one({"a": np.inf}, 2.0)
    with pytest.raises(ValueError, match="must be finite"):
        model.learn_one({"a": 1.0}, np.nan)
    with pytest.raises(ValueError, match="weight of a row"):
        model.learn_one({"a": 1.0}, 1.0, w=-1.0)
    assert model.rows_seen_ == 1


def test_a_weight_of_one_row_is_that_of_many():
    X, y = numbers(150)
    one, many = (StreamingBoostRegressor(learner="ridge", **SMALL) for _ in range(2))
    weight = np.where(np.arange(150) % 2, 2.0, 0.5)
    for x, target, w in zip(X, y, weight, strict=True):
        one.learn_one(x, target, w)
    many.partial_fit(X, y, sample_weight=weight)
    assert_array_equal(one.predict(X), many.predict(X))


@pytest.mark.parametrize("made", [False, True])  # the plan, from which predictions then come
def test_a_name_that_is_not_there_is_a_column_that_is_not_there(made):
    X, y = numbers(150)
    frame = pd.DataFrame(X, columns=list("abcde"))
    model = StreamingBoostRegressor(learner="ridge", **SMALL).fit(frame, y)
    if made:
        model.plan_  # noqa: B018
    for budget in (None, 2.0, 100.0):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            expected = model.predict(frame.drop(columns="b"), budget=budget)
            for i, row in enumerate(frame[:10].to_dict("records")):
                missing = row.pop("b")
                assert model.predict_one(row, budget=budget) == expected[i]
                assert model.predict_one({**row, "b": None}, budget=budget) == model.predict(
                    frame[i : i + 1].assign(b=np.nan), budget=budget
                )
                assert model.predict_one({**row, "b": missing}) == pytest.approx(
                    model.predict(frame[i : i + 1])[0]
                )
        assert bool(told) == (budget != 2.0)  # all stages read all columns


def test_a_row_of_a_table_is_read_as_the_dictionary_that_it_stands_for():
    X, y = numbers(150)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    model = StreamingBoostRegressor(**SMALL).fit(frame, y)
    model.plan_  # noqa: B018  (made, so that the plan answers)
    for i in range(20):
        row = frame.iloc[i].drop("x0")
        for budget in (None, 100.0):
            assert model.predict_one(row, budget=budget) == model.predict_one(row.to_dict(), budget=budget)
