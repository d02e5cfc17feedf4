"""Turney's bill (JAIR 2, 1995): the first test of a group pays in full, every later one its discount."""

from __future__ import annotations

import io
from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anytime as at
from anytime.costs import FeatureCosts
from anytime.datasets import load
from anytime.datasets.heart import discounts_as_steps
from anytime.discounts import DiscountedPrice

STEPS = {"A": "blood draw", "B": "procedure B", "C": "procedure C"}

HEART = [
    DiscountedPrice("age", 1.00),
    DiscountedPrice("sex", 1.00),
    DiscountedPrice("cp", 1.00),
    DiscountedPrice("trestbps", 1.00),
    DiscountedPrice("chol", 7.27, "A", 5.17),
    DiscountedPrice("fbs", 5.20, "A", 3.10),
    DiscountedPrice("restecg", 15.50),
    DiscountedPrice("thalach", 102.90, "B", 1.00),
    DiscountedPrice("exang", 87.30, "C", 1.00),
    DiscountedPrice("oldpeak", 87.30, "C", 1.00),
    DiscountedPrice("slope", 87.30, "C", 1.00),
    DiscountedPrice("ca", 100.90),
    DiscountedPrice("thal", 102.90, "B", 1.00),
]


def bill(tests, bought):
    """What the rule of the paper charges, test by test."""
    by_name, opened, charges = {test.name: test for test in tests}, set(), []
    for name in bought:
        test = by_name[name]
        charges.append(test.discount if test.group in opened else test.full)
        if test.group:
            opened.add(test.group)
    return charges


def charged(costs, bought):
    """What the graph charges, test by test."""
    return [costs.price([name], bought=bought[:k]) for k, name in enumerate(bought)]


def test_every_order_of_the_grouped_heart_tests_costs_what_the_rule_says():
    costs = discounts_as_steps(HEART, STEPS)
    grouped = [test.name for test in HEART if test.group]
    table = {}  # the price of a test depends on what was bought, not on the order: ask each question once
    for order in permutations(grouped):
        for k, (name, charge) in enumerate(zip(order, bill(HEART, order), strict=True)):
            question = (name, frozenset(order[:k]))
            if question not in table:
                table[question] = costs.price([name], bought=order[:k])
            assert table[question] == pytest.approx(charge, abs=1e-9)


@given(st.permutations(HEART), st.integers(0, len(HEART)))
def test_any_heart_tests_in_any_order(order, k):
    bought = [test.name for test in order[:k]]
    costs = discounts_as_steps(HEART, STEPS)
    assert charged(costs, bought) == pytest.approx(bill(HEART, bought), abs=1e-9)
    assert costs.price(bought) == pytest.approx(sum(bill(HEART, bought)), abs=1e-9)


@st.composite
def priced_tests(draw):
    cents = st.integers(0, 20000)
    shared = {group: draw(cents) for group in "ABC"}
    groups = draw(st.lists(st.sampled_from(["", "A", "B", "C"]), min_size=1, max_size=10))
    tests = []
    for k, group in enumerate(groups):
        price = draw(cents)
        full, discount = (price + shared[group], price / 100) if group else (price, None)
        tests.append(DiscountedPrice(f"t{k}", full / 100, group, discount))
    return draw(st.permutations(tests)), tests


@given(priced_tests())
def test_any_consistent_price_list_in_any_order(drawn):
    order, tests = drawn
    bought = [test.name for test in order]
    assert charged(discounts_as_steps(tests, STEPS), bought) == pytest.approx(bill(tests, bought), abs=1e-7)


def test_shared_steps_of_heart():
    costs = discounts_as_steps(HEART, STEPS)
    assert {step: costs.prices[step] for step in STEPS.values()} == {
        "blood draw": 2.10,
        "procedure B": 101.90,
        "procedure C": 86.30,
    }
    assert all(costs.groups[step] == () for step in STEPS.values())
    assert costs.groups["thal"] == (12,)


def test_discounts_that_no_single_step_explains_are_refused():
    """Negative control: with unequal savings the bill depends on the order, and no graph of this kind can follow it."""
    tests = [DiscountedPrice("a", 5.00, "A", 3.00), DiscountedPrice("b", 5.00, "A", 4.00)]
    assert sum(bill(tests, ["a", "b"])) != sum(bill(tests, ["b", "a"]))
    with pytest.raises(ValueError, match=r"group 'A' save different amounts \(2.0 and 1.0\)"):
        discounts_as_steps(tests, STEPS)


# ---------------------------------------------------------------------- a user's own table


@given(st.permutations(HEART), st.integers(0, len(HEART)))
def test_the_printed_heart_prices_as_a_table(order, k):
    table = pd.DataFrame(
        {
            "test": [test.name for test in HEART],
            "group": [test.group for test in HEART],
            "full price": [test.full for test in HEART],
            "discounted price": [test.full if test.discount is None else test.discount for test in HEART],
        }
    )
    costs, bought = FeatureCosts.from_frame(table), [test.name for test in order[:k]]
    assert charged(costs, bought) == pytest.approx(bill(HEART, bought), abs=1e-9)
    assert costs.prices["step A"] == 2.1
    assert costs.prices["step B"] == 101.9
    assert costs.bind(13, [test.name for test in HEART]).n_groups == 16


HEADER = "feature,group,cost_full,cost_discount,delay\n"


def price_list(tests, delayed):
    rows = [
        f"{t.name},{t.group},{t.full:.2f},{t.full if t.discount is None else t.discount:.2f},"
        f"{'delayed' if t.name in delayed else 'immediate'}\n"
        for t in tests
    ]
    return HEADER + "".join(rows)


def test_a_price_file_with_discounts_prices_a_model(tmp_path):
    """The layout of Turney's own files, in which the last column is of no interest here."""
    (tmp_path / "prices.csv").write_text(price_list(HEART, {"chol"}))
    costs = FeatureCosts.read(tmp_path / "prices.csv")
    assert costs.price(["chol", "fbs"]) == pytest.approx(7.27 + 3.10)
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 13)), columns=[test.name for test in HEART])
    model = at.GroupPursuitClassifier(costs=tmp_path / "prices.csv", l2_regularization=0.1).fit(
        X, X["chol"] > 0
    )
    assert model.cost(X, budget=7.27).max() <= 7.27
    assert model.costs_.total == pytest.approx(costs.total)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["chol,A,7.27,5.17", "fbs,A,5.20,3.00"], r"save different amounts \(2.1 and 2.2\)"),
        (["chol,A,7.27,"], "the discounted price of test 'chol' is None, which is not a number"),
        (["chol,A,5.17,7.27"], "'chol' costs 5.17 in full but 7.27 with discount"),
        (["chol,A,cheap,1"], "the full price of test 'chol' is 'cheap', which is not a number"),
        (["chol,,7.27,7.27", "chol,,7.27,7.27"], "'chol' appears twice"),
    ],
)
def test_a_table_of_discounts_that_cannot_be_is_refused(rows, message):
    table = pd.read_csv(io.StringIO("\n".join(["test,group,full price,discounted price", *rows])))
    with pytest.raises(ValueError, match=message):
        FeatureCosts.from_frame(table)


# ---------------------------------------------------------------------- the set itself


def test_heart_has_its_tests_prices_and_gaps():
    data = load("heart")
    assert data.X.shape == (303, 13)
    assert np.bincount(data.y).tolist() == [164, 139]
    assert data.target_names == ("healthy", "ill")
    assert np.isnan(data.X).sum(axis=0).nonzero()[0].tolist() == [11, 12]
    assert data.costs == discounts_as_steps(HEART, STEPS)
    assert data.costs.total == 323.97
    assert data.costs.unit == "CAD"
    assert data.feature_names == tuple(test.name for test in HEART)
    assert set(data.delayed) >= {"chol"}
    assert data.costs.bind(13).n_groups == 16


def test_heart_grades():
    data = load("heart", grades=True)
    assert np.bincount(data.y).tolist() == [164, 55, 36, 35, 13]
    assert len(data.target_names) == 5
