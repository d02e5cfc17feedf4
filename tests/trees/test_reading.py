"""How tables are read for training: which columns are numbers, which are categories, which are refused."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import anytime as at

RNG = np.random.default_rng(0)
NUMBERS = RNG.normal(size=300)
Y = (NUMBERS + RNG.normal(0, 0.3, 300) > 0).astype(int)


def fitted(column):
    table = pd.DataFrame({"v": column, "word": pd.Series(["a", "b", "c"] * 100)})
    return at.GradientBoostingClassifier(n_stages=10).fit(table, Y), table


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
