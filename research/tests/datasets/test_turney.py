"""Turney's other sets (JAIR 2, 1995), from tiny files in the layout of the real ones."""

from __future__ import annotations

import numpy as np
import pytest

from anytime.discounts import DiscountedPrice
from anytime_research.datasets import DataFormatError, load
from tests.datasets.test_heart import price_list

PIMA = [
    DiscountedPrice("times_pregnant", 1.00),
    DiscountedPrice("glucose_tol", 17.61, "A", 15.51),
    DiscountedPrice("diastolic_bp", 1.00),
    DiscountedPrice("triceps", 1.00),
    DiscountedPrice("insulin", 22.78, "A", 20.68),
    DiscountedPrice("mass_index", 1.00),
    DiscountedPrice("pedigree", 1.00),
    DiscountedPrice("age", 1.00),
]


def test_a_price_list_of_other_tests(put):
    put("pima/costs.csv", price_list(PIMA[::-1], set()), plain=True)
    with pytest.raises(
        DataFormatError,
        match=r"pima/costs.csv does not have the expected contents: its features are not times_pregnant",
    ):
        load("pima")


def test_pima_zeros_that_stand_for_missing_values(put, sized):
    put("pima/costs.csv", price_list(PIMA, set()), plain=True)
    put("pima/pima-indians-diabetes.data", "0,148,72,0,0,33.6,0.627,50,1\n6,0,66,29,0,26.6,0.351,31,0\n")
    sized("pima", rows=2)
    assert np.isnan(load("pima").X).nonzero()[1].tolist() == [3, 4, 1, 4]
    assert load("pima").X[0, 0] == 0
    assert not np.isnan(load("pima", zeros_as_missing=False).X).any()


def test_bupa_is_split_by_the_selector_and_asks_for_drinks(put, sized):
    names = ("mcv", "alkphos", "sgpt", "sgot", "gammagt")
    put(
        "bupa/costs.csv",
        price_list([DiscountedPrice(name, 7.27, "A", 5.17) for name in names], set()),
        plain=True,
    )
    put("bupa/bupa.data", "85,92,45,27,31,0.0,1\n85,64,59,32,23,3.0,2\n86,54,33,16,54,2.0,2\n")
    sized("bupa", rows=3)
    data = load("bupa")
    assert data.y.tolist() == [0, 1, 0]
    assert data.train.tolist() == [0]
    assert data.test.tolist() == [1, 2]
    assert data.costs.price(["mcv", "sgot"]) == pytest.approx(2.10 + 2 * 5.17)


THYROID_BLOOD = [
    DiscountedPrice("TSH", 22.78, "A", 20.68),
    DiscountedPrice("T3", 11.41, "A", 9.31),
    DiscountedPrice("TT4", 14.51, "A", 12.41),
    DiscountedPrice("T4U", 11.41, "A", 9.31),
    DiscountedPrice("FTI", 0.00),
]


def test_thyroid_fti_is_free_once_both_its_parts_are_bought(put, sized):
    from anytime_research.datasets.turney import read_thyroid

    questions = [DiscountedPrice(name, 1.00) for name in read_thyroid.names[:16]]
    put("thyroid/costs.csv", price_list(questions + THYROID_BLOOD, set()), plain=True)
    for part in ("train", "test"):
        put(f"thyroid/ann-{part}.data", "0.73 " + "0 " * 15 + "0.0006 0.015 0.12 0.082 0.146 3  \n")
    sized("thyroid", rows=2)
    costs = load("thyroid").costs
    assert costs.price(["FTI"], bought=["TT4", "T4U"]) == 0
    assert costs.price(["FTI"]) == pytest.approx(2.10 + 12.41 + 9.31)
    assert costs.price(["FTI"], bought=["TSH"]) == pytest.approx(12.41 + 9.31)
    assert load("thyroid").y.tolist() == [2, 2]
