"""Purchases row by row where groups require others: rows that lack one, extractors that fail, values that are given."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import anytime as at
from anytime.acquisition import AcquisitionClassifier
from anytime.runtime import BatchSession, Session
from tests.acquisition.test_acquisition_models import SMALL, table
from tests.runtime.bench import features_of

PRICES = {"a": 1.0, "b": 3.0, "c": 2.0, "d": 1.5, "e": 0.75}
COLUMNS = {"a": [0, 1], "b": [2], "c": [3], "d": [4], "e": [5]}
COSTS = at.FeatureCosts(groups=COLUMNS, prices=PRICES, requires={"c": ["b"], "d": ["a"], "e": ["d"]})
NAMES = [f"x{j}" for j in range(6)]
ROWS = pd.DataFrame(table(8, 1)[0], columns=NAMES)


@pytest.fixture(scope="module")
def model():
    X, y = table()
    return AcquisitionClassifier(costs=COSTS, **SMALL).fit(pd.DataFrame(X, columns=NAMES), y)


def group_of(row: pd.Series, group: str) -> np.ndarray:
    return row.to_numpy()[COLUMNS[group]]


def broken(raw):
    raise OSError("no connection")


@pytest.mark.parametrize(
    ("lacking", "bought"),
    [("a", "bcde"), ("b", "acde"), ("d", "abce"), ("ad", "bce"), ("bd", "ace"), ("abd", "ce")],
)
@pytest.mark.parametrize("budget", [None, 2.5, 4.0])
def test_a_group_that_is_there_needs_no_other_that_is_not(model, lacking, bought, budget):
    """The rule of ``anytime.rows``, the same for a batch, one row, a mapping, a session and a batch session."""
    part, groups = ROWS.drop(columns=[f"x{j}" for group in lacking for j in COLUMNS[group]]), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        together = model.answer(part, budget=budget)
        batch = BatchSession(model, part, budget=budget).advance()
        assert_array_equal(batch.scores, together.scores)
        assert_array_equal(batch.cost, together.cost)
        for i, (_, row) in enumerate(part.iterrows()):
            alone = Session(model).predict(row.to_dict(), budget=budget)
            groups.append(alone.groups)
            assert_array_equal(alone.scores, together.scores[i])
            assert alone.cost == together.cost[i] == sum(PRICES[name] for name in alone.groups)
            assert model.predict_one(row.to_dict(), budget=budget) == together.prediction[i]
            assert model.predict([row.to_dict()], budget=budget)[0] == together.prediction[i]
    if budget is None:
        assert together.groups == list(bought)
        assert together.reason == "groups"
    else:
        assert (together.cost <= budget).all()
        for has in groups:  # nothing that is left could have been paid
            for name in {*bought} - {*has}:
                wanted = {*has, *COSTS.closure([name])} - {*lacking}
                assert sum(PRICES[other] for other in wanted) > budget


def test_what_a_row_lacks_is_never_read(model):
    """The columns of a group that is not there hold anything."""
    part = ROWS.drop(columns=["x1"])
    with pytest.warns(UserWarning, match="x1"):
        expected = model.predict_proba(part)
    with pytest.warns(UserWarning, match="x1"):
        assert_array_equal(model.predict_proba(part.assign(x0=1e6)), expected)


@pytest.mark.parametrize(
    ("fails", "gives", "bought"), [("a", "d", "abcd"), ("a", "e", "abce"), ("b", "c", "abcde")]
)
def test_what_is_given_is_used_although_what_it_requires_has_failed(model, fails, gives, bought):
    for _, row in ROWS.iterrows():
        session = Session(model, features_of(model.plan_, **{fails: broken}))
        before = session.predict(row.to_numpy())
        assert gives not in before.groups
        session.give({gives: group_of(row, gives)})
        after = session.resume()
        assert sorted(after.groups) == list(bought)
        assert after.cost == sum(PRICES[name] for name in bought)
        assert after.reason == "failed"


@pytest.mark.parametrize("budget", [None, 3.0, 5.0])
@pytest.mark.parametrize("fails", ["a", "b", "d", "ab", "bd"])
def test_where_extractors_fail_a_batch_buys_what_each_row_would(model, fails, budget):
    features = features_of(model.plan_, **dict.fromkeys(fails, broken))
    together = BatchSession(model, list(ROWS.to_numpy()), features, budget=budget, tile_rows=3).advance()
    for i, row in enumerate(ROWS.to_numpy()):
        alone = Session(model, features).predict(row, budget=budget)
        assert_array_equal(alone.scores, together.scores[i])
        assert alone.cost == together.cost[i]


def test_what_was_given_before_costs_nothing_that_cannot_be_had(model):
    """``e`` requires ``d``, which requires ``a``, whose extractor fails later."""
    row = ROWS.iloc[0]
    session = Session(model, features_of(model.plan_, a=broken)).start(row.to_numpy())
    answer = session.give({"e": group_of(row, "e")}).resume()
    assert sorted(answer.groups) == list("abce")
    assert answer.cost == sum(PRICES[name] for name in "abce")


@pytest.mark.parametrize("budget", [None, 3.0, 5.0])
@pytest.mark.parametrize("fails", ["a", "b", "d", "ab", "bd"])
def test_what_failed_and_is_then_given_leaves_no_trace(model, fails, budget):
    for _, row in ROWS.head(4).iterrows():
        session = Session(model, features_of(model.plan_, **dict.fromkeys(fails, broken)))
        session.predict(row.to_numpy(), budget=budget)
        session.give({name: group_of(row, name) for name in fails})
        after = session.resume(budget=budget)
        assert after.cost <= (budget or COSTS.total)
        assert not after.failures
        if budget is None:
            assert_array_equal(after.scores, model.answer(row.to_frame().T).scores[0])
            assert after.cost == COSTS.total


def test_a_mean_budget_says_which_columns_were_wanted(model):
    """As a budget does; and not where the money does not reach them."""
    part = ROWS.drop(columns=["x0", "x5"])
    with pytest.warns(UserWarning, match="x0"):
        answer = model.answer(part, mean_budget=100.0)
    assert answer.reason == "groups"
    assert (answer.cost == 3.0 + 2.0 + 1.5).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.answer(part, mean_budget=0.5).reason == "budget"


def test_a_mapping_that_lacks_a_requirement_is_advised_as_it_stands(model):
    row = ROWS.iloc[0]
    advice = model.next({"e": row["x5"]})
    assert {offer.group: offer.price for offer in advice.offers} == {"a": 1.0, "b": 3.0, "c": 5.0, "d": 2.5}
    assert model.next(row.to_dict()).group is None
