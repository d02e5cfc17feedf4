"""How tables are read for training: which columns are numbers, which are categories, which are refused."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

import anytime as at

RNG = np.random.default_rng(0)
NUMBERS = RNG.normal(size=300)
Y = (NUMBERS + RNG.normal(0, 0.3, 300) > 0).astype(int)


def fitted(column):
    table = pd.DataFrame({"v": column, "word": pd.Series(["a", "b", "c"] * 100)})
    return at.GradientBoostingClassifier(n_estimators=10).fit(table, Y), table


@pytest.mark.parametrize("dtype", ["Float64", "Float32", "float64[pyarrow]", "object"])
def test_numbers_are_numbers_whatever_their_type(dtype):
    if "pyarrow" in dtype:
        pytest.importorskip("pyarrow")
    plain, table = fitted(pd.Series(NUMBERS.astype("float32"), dtype="float64"))
    model, other = fitted(pd.Series(NUMBERS.astype("float32"), dtype=dtype))
    assert list(model.categories_) == [1]
    assert_array_equal(model.predict_proba(other), plain.predict_proba(table))


@pytest.mark.parametrize(("dtype", "missing"), [("Int64", pd.NA), ("boolean", pd.NA), ("object", None)])
def test_what_is_missing_in_them_is_missing(dtype, missing):
    whole = (NUMBERS > 0).astype(int)
    gaps = np.arange(300) % 7 == 0
    plain, table = fitted(pd.Series(np.where(gaps, np.nan, whole)))
    values = pd.Series(whole.astype(bool) if dtype == "boolean" else whole, dtype=dtype)
    values[gaps] = missing
    model, other = fitted(values)
    assert list(model.categories_) == [1]
    assert_array_equal(model.predict_proba(other), plain.predict_proba(table))


@pytest.mark.parametrize("column", [pd.date_range("2020-01-01", periods=300), pd.to_timedelta(NUMBERS, "s")])
def test_dates_and_times_are_refused(column):
    with pytest.raises(ValueError, match="'v' holds dates or times"):
        fitted(column)


# ---------------------------------------------------------------------- words that look odd


def told(column):
    """What is said of a column."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model, _ = fitted(column)
    assert list(model.categories_) == [0, 1]
    assert all(warning.filename == __file__ for warning in caught)  # it points at who called fit
    return [str(warning.message) for warning in caught]


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([0], "1 string ('n/a' in row 0), so it is read as categories; make it a missing value"),
        (
            range(7, 150),
            "143 strings (first 'n/a' in row 7), so it is read as categories; make them missing values",
        ),
    ],
)
def test_words_among_numbers_are_told(rows, said, text):
    column = pd.Series(NUMBERS.round(1).astype(str if text else float), dtype=object)
    column[200] = None
    column[list(rows)] = "n/a"
    assert told(column) == [f"column 'v' holds numbers and {said}, or give the column the type 'category'"]
    assert told(column.astype("category")) == []


def test_numbers_among_words_are_not():
    assert told(pd.Series([1, 2.5, "x", "y", "z"] * 60, dtype=object)) == []
    assert told(pd.Series([True, False, "maybe"] * 100, dtype=object)) == []
    assert told(pd.Series(["1", "2"] * 150)) == []


def test_ids_are_told():
    said = "column 'v' has {} different strings in 300 rows, like an id: there is little to learn from it{}; leave it out, or "
    said += "encode it as numbers or fewer strings"
    more = ", and all strings but the 254 most frequent count as one"
    assert told(pd.Series([f"p{i}" for i in range(300)])) == [said.format(300, more)]
    assert told(pd.Series([f"p{i % 280}" for i in range(300)])) == [said.format(280, more)]
    assert told(pd.Series([f"p{i % 260}" for i in range(300)])) == []
    assert told(pd.Series([f"p{i % 100}" if i < 100 else None for i in range(300)])) == [
        said.format(100, "").replace("300", "100")
    ]
    assert told(pd.Series([f"p{i}" if i < 15 else None for i in range(300)])) == []


@pytest.mark.parametrize(
    "model",
    [
        at.SpeedBoostClassifier(random_state=0),
        at.GradientBoostingClassifier(n_estimators=10),
        at.BudgetForestClassifier(n_estimators=5, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_columns_without_names_of_text_go_by_position(model):
    table = pd.DataFrame({0: NUMBERS, 1: pd.Series(["a", "b", "c"] * 100)})
    named = table.rename(columns=str)
    wanted = clone(model).fit(named, Y).predict_proba(named)
    model.fit(table, Y)
    assert not hasattr(model, "feature_names_in_")
    assert_array_equal(model.predict_proba(table), wanted)
