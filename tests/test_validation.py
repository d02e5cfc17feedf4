"""A word where a number is expected is found, wherever it stands."""

import warnings

import numpy as np
import pandas as pd
import pytest

import anytime as at
from anytime.validation import naming_words

FINE = pd.DataFrame({"a": np.arange(12.0), "city": np.arange(12.0) % 3, "kind": ["x", "y"] * 6})
WRONG = FINE.assign(city=["1", "2.5", "Rome", *["3"] * 9])  # text that is a number is one
Y = np.arange(12) % 2
TAKES_NUMBERS = [
    at.GroupPursuitClassifier(),
    *(
        at.AnytimeClassifier(random_state=seed) for seed in range(6)
    ),  # the word is among the rows kept aside, or not
    at.MarginAcquisitionClassifier(random_state=0),
]
TAKES_CATEGORIES = [at.BudgetTreeClassifier(random_state=0), at.SpeedBoostClassifier(random_state=0)]

REGRESSORS = [
    at.GroupPursuitRegressor(),
    at.AnytimeRegressor(random_state=0),
    at.BudgetTreeRegressor(random_state=0),
    at.SpeedBoostRegressor(random_state=0),
    at.StreamingBoostRegressor(random_state=0),
]


@pytest.mark.parametrize("model", TAKES_NUMBERS, ids=lambda model: type(model).__name__)
def test_in_a_table(model):
    said = "column 'city' should hold numbers, but row 2 has 'Rome'; encode its strings as numbers first"
    with pytest.raises(ValueError, match=said):
        model.fit(WRONG[["a", "city"]], Y)
    with pytest.raises(ValueError, match=said):
        model.fit(FINE[["a", "city"]], Y).predict(WRONG[["a", "city"]])


@pytest.mark.parametrize("model", TAKES_CATEGORIES, ids=lambda model: type(model).__name__)
def test_beside_a_column_of_categories(model):
    with pytest.raises(ValueError, match="column 'city' should hold numbers, but row 2 has 'Rome'"):
        model.fit(FINE, Y).predict(WRONG)


@pytest.mark.parametrize("model", TAKES_NUMBERS + TAKES_CATEGORIES, ids=lambda model: type(model).__name__)
def test_in_an_array(model):
    with pytest.raises(ValueError, match=r"column 1 should hold numbers, but row 2 has 'Rome'.*as a table"):
        model.fit(WRONG[["a", "city"]].to_numpy(dtype=object), Y)


@pytest.mark.parametrize("model", REGRESSORS, ids=lambda model: type(model).__name__)
def test_in_y(model):
    columns = ["a", "city"] if isinstance(model, at.GroupPursuitRegressor) else ["a", "city", "kind"]
    for y in (["1", "2", "yes"] * 4, np.array(["1", "2", "yes"] * 4, dtype=object)):
        said = "y should hold numbers, but row 2 has 'yes'; to predict labels, use a classifier"
        with pytest.raises(ValueError, match=said):
            model.fit(FINE[columns], y)


def test_in_one_of_several_targets():
    y = np.array([[1.0, 2.0]] * 11 + [[1.0, "yes"]], dtype=object)
    with pytest.raises(ValueError, match="y should hold numbers, but row 11 has 'yes'"):
        at.GroupPursuitRegressor().fit(FINE[["a", "city"]], y)


def test_the_word_that_a_library_names_is_looked_for():
    """It may have taken the words of other columns."""
    table = FINE[["kind", "city"]].assign(city=WRONG["city"])
    with (
        pytest.raises(ValueError, match=r"column 'city' .* row 2 has 'Rome'; encode it"),
        naming_words(table, hint="encode it"),
    ):
        float("Rome")


@pytest.mark.parametrize("model", TAKES_NUMBERS + TAKES_CATEGORIES, ids=lambda model: type(model).__name__)
def test_a_single_row_is_none_of_a_table(model):
    model.fit(FINE[["a", "city"]], Y)
    row = FINE[["a", "city"]].iloc[0]
    for x in (row, row.to_dict(), row.astype(object)):
        said = f"X should be a table or a 2-D array, not a {type(x).__name__}; predict_one takes a single row"
        with pytest.raises(ValueError, match=said):
            model.predict(x)
        with pytest.raises(ValueError, match=f"not a {type(x).__name__}$"):
            model.fit(x, Y)
    assert model.predict_one(row) == model.predict(FINE[["a", "city"]])[0]


@pytest.mark.parametrize("model", TAKES_NUMBERS + TAKES_CATEGORIES, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("columns", [["a", "city"], ["a", "city", "kind"]])
def test_names_that_stand_twice_and_no_rows(model, columns):
    model.fit(FINE[["a", "city"]], Y)
    twice = FINE[columns].rename(columns={"city": "a"})
    for act in (lambda: model.predict(twice), lambda: model.fit(twice, Y)):
        with pytest.raises(ValueError, match="X has several columns called 'a'; rename them"):
            act()
    with pytest.raises(ValueError, match="X has no rows to learn from"):
        model.fit(FINE[columns][:0], Y[:0])


def test_rows_of_a_table_are_called_as_it_calls_them():
    """So that a word in some of the user's rows, such as those to learn from, is found in all of them."""
    some = WRONG[["a", "city"]].set_axis([f"r{i}" for i in range(12)]).iloc[1:]
    with pytest.raises(ValueError, match="but row r2 has 'Rome'"), naming_words(some):
        float("Rome")


def test_other_errors_pass():
    for error in (ValueError("something else"), TypeError("could not convert string to float")):
        with pytest.raises(type(error), match=str(error)), naming_words(WRONG):
            raise error


@pytest.mark.parametrize("learner", [at.SpeedBoostClassifier, at.SpeedBoostRegressor, at.BudgetTreeRegressor])
def test_training_without_y_says_that_y_is_missing(learner):
    with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
        learner().fit(FINE)


def test_a_label_that_is_missing_is_refused_without_a_stray_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for y in (np.where(Y, 1.0, np.nan), np.full(12, np.nan)):
            with pytest.raises(ValueError, match="y contains NaN"):
                at.SpeedBoostClassifier().fit(FINE, y)


def test_columns_that_may_hold_words_are_passed_over():
    with (
        pytest.raises(ValueError, match=r"column 2 should hold numbers, but row 0 has 'lon(g){37}[.]{3}'"),
        naming_words([["word", 1.0, b"long" + 60 * b"g"]], but={0}),
    ):
        float("long")
