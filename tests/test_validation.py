"""A word where a number is expected is found, wherever it stands."""

import numpy as np
import pandas as pd
import pytest

import anytime as at
from anytime.validation import naming_words

FINE = pd.DataFrame({"a": np.arange(12.0), "city": np.arange(12.0) % 3, "kind": ["x", "y"] * 6})
WRONG = FINE.assign(city=["1", "2.5", "Rome", *["3"] * 9])  # text that is a number is one
Y = np.arange(12) % 2
TAKES_NUMBERS = [at.GroupPursuitClassifier(), at.AnytimeClassifier(), at.MarginAcquisitionClassifier()]
TAKES_CATEGORIES = [at.BudgetTreeClassifier(), at.SpeedBoostClassifier()]


@pytest.mark.parametrize("model", TAKES_NUMBERS, ids=lambda model: type(model).__name__)
def test_in_a_table(model):
    said = "column 'city' should hold numbers, but row 2 has 'Rome'; make numbers of its words first"
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


def test_words_of_y_are_not_looked_for_in_x():
    with pytest.raises(ValueError, match="could not convert string to float: 'yes'"):
        at.GroupPursuitRegressor().fit(FINE[["a", "city"]], ["yes"] * 12)


def test_other_errors_pass():
    for error in (ValueError("something else"), TypeError("could not convert string to float")):
        with pytest.raises(type(error), match=str(error)), naming_words(WRONG):
            raise error


def test_columns_that_may_hold_words_are_passed_over():
    with (
        pytest.raises(ValueError, match=r"column 2 should hold numbers, but row 0 has 'lon(g){37}[.]{3}'"),
        naming_words([["word", 1.0, b"long" + 60 * b"g"]], but={0}),
    ):
        float("long")
