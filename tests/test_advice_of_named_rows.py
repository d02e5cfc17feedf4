"""``model.next`` of rows by name: what they own, what it costs them, and that the answer is the one of ``predict_one``."""

import copy
import functools
import json
import warnings
from itertools import chain, combinations

import numpy as np
import pandas as pd
import pytest

import anytime as at
from anytime.advice import chain_offers
from anytime.blocks import LinearBlock
from anytime.plan import Plan

PRICES = {"a": 1.0, "b": 2.0, "c": 3.0, "dear": 100.0}
COSTS = at.FeatureCosts(groups={name: [name] for name in PRICES}, prices=PRICES)
RANDOM = np.random.default_rng(0)
TABLE = pd.DataFrame(RANDOM.normal(size=(300, 4)), columns=list(PRICES)).assign(dear=1.0)  # nothing to read
LABELS = (TABLE["a"] + 0.5 * TABLE["b"] + 0.3 * TABLE["c"] > 0).astype(int)
ROW = TABLE.iloc[0].to_dict()
KINDS = {
    "SpeedBoost": at.SpeedBoostClassifier(costs=COSTS, n_estimators=10, random_state=0),
    "Acquisition": at.AcquisitionClassifier(costs=COSTS, hidden_layer_sizes=(16, 8), folds=2, random_state=0),
    "GroupPursuit": at.GroupPursuitClassifier(costs=COSTS, random_state=0),
    "BudgetForest": at.BudgetForestClassifier(costs=COSTS, n_estimators=10, random_state=0),
}


@functools.cache
def model_of(kind):
    return KINDS[kind].fit(TABLE, LABELS)


@pytest.fixture(scope="module", params=[(kind, bound) for kind in KINDS for bound in (None, 3.0)])
def unread(request):
    """A model that never reads the dear column, or that was truncated and reads even less."""
    kind, bound = request.param
    model = model_of(kind)
    return model if bound is None else model.truncate(budget=bound)


@pytest.mark.parametrize("names", [(), ("a",), ("a", "b"), ("a", "dear")])
def test_a_row_by_name_owns_what_it_has_values_of_and_nothing_else(unread, names):
    for budget in (None, 0.0, 1.0, 3.0, 5.0, 150.0):
        by_name = unread.next({name: ROW[name] for name in names}, budget=budget)
        assert by_name == unread.next(TABLE.to_numpy()[0], list(names), budget=budget), budget


def test_the_price_of_a_column_that_is_never_read_is_not_taken_from_the_budget(unread):
    assert unread.next({"a": ROW["a"]}, budget=3.0).group == "b"
    assert unread.next({"a": ROW["a"], "dear": 1.0}, budget=100.0).group is None


def test_a_group_is_had_where_all_that_is_read_of_it_is():
    costs = at.FeatureCosts(groups={"a": ["a", "dear"], "b": ["b"]}, prices={"a": 1.0, "b": 2.0})
    model = at.SpeedBoostClassifier(costs=costs, n_estimators=5, random_state=0)
    model.fit(TABLE[["a", "dear", "b"]], LABELS)
    advice = model.next({"a": ROW["a"]}, budget=3.0)
    with pytest.warns(UserWarning, match="'b' is missing"):
        assert advice.prediction == model.predict_one({"a": ROW["a"]})
    assert [offer.group for offer in advice.offers] == ["b"]


def test_a_group_of_two_columns_that_are_not_read_is_had_only_with_both():
    costs = at.FeatureCosts(groups={"a": ["a"], "unread": ["dear", "more"]}, prices={"a": 1.0, "unread": 9.0})
    model = at.SpeedBoostClassifier(costs=costs, n_estimators=5, random_state=0)
    model.fit(TABLE[["a", "dear"]].assign(more=0.0), LABELS)
    assert model.next({"dear": 1.0}, budget=9.0).group == "a"
    assert model.next({"dear": 1.0, "more": 0.0}, budget=9.0).group is None


# ---------------------------------------------------------------------- chains and branches

WORTH = pd.DataFrame(RANDOM.normal(size=(1500, 3)), columns=list("abc"))
TARGET = WORTH.to_numpy() @ np.sqrt([5.0, 6.0, 9.0])
BRANCHED = at.FeatureCosts(groups={name: [name] for name in "abc"}, prices={"a": 1.0, "b": 4.0, "c": 5.0})
SETS = [list(names) for names in chain.from_iterable(combinations("abc", n) for n in range(4))]


@pytest.fixture(scope="module")
def branched():
    model = at.SpeedBoostRegressor(
        costs=BRANCHED, n_estimators=60, random_state=0, budgets=[1, 4, 5, 6, 9, 10]
    )
    model.fit(WORTH, TARGET)
    assert model.order_ == ["a", "c", "b"]
    assert len(model.plan_.branches) == 2  # of a and b, and of b and c
    return model


@pytest.mark.parametrize("meter", ["model", "realised"])
@pytest.mark.parametrize("names", SETS, ids="".join)
def test_the_prediction_is_that_of_predict_one(branched, names, meter):
    """Stages that cannot be done are left out, and branches that can be are used."""
    model = copy.copy(branched).set_params(meter=meter)
    row = WORTH.iloc[3][names].to_dict()
    for budget in (None, 0, 1, 3, 4, 5, 6, 8, 9, 10):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = model.predict_one(row, budget=budget)
        assert model.next(row, budget=budget).prediction == expected, budget
        assert model.next(WORTH.to_numpy()[3], names, budget=budget).prediction == expected, budget


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("names", [["b"], ["c"], ["b", "c"], ["a", "c"]], ids="".join)
def test_the_prediction_is_that_of_predict_one_where_the_first_stage_cannot_be_done(kind, names):
    model, row = model_of(kind), {name: ROW[name] for name in names}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert model.next(row).prediction == model.predict_one(row)
        assert model.next(row).probability == model.predict_proba(pd.DataFrame([row])).max()


def test_what_is_advised_is_what_can_be_reached_with_what_is_there(branched):
    """With a budget of 9 a row that owns nothing goes to b and c, one that owns a no longer can: it goes on along the chain."""
    assert {offer.group for offer in branched.next({}, budget=9).offers} == {"b", "c"}
    assert [offer.group for offer in branched.next({"a": 1.0}, budget=9).offers] == ["c"]
    assert [offer.group for offer in branched.next({"b": 1.0}, budget=9).offers] == ["c"]
    assert branched.next({"a": 1.0, "c": 1.0}, budget=9).group is None


def test_nothing_is_bought_for_a_stage_that_cannot_be_paid_whole():
    """The second stage needs b and c, which cost 5 together."""
    blocks = [LinearBlock([0], [[1.0]]), LinearBlock([1, 2], [[1.0], [1.0]])]
    plan = Plan(blocks=blocks, costs=COSTS.bind(4, list(PRICES)), base=np.zeros(1), link="identity")
    owned, row, unit = np.array([True, False, False, False]), np.ones((1, 4)), COSTS.ticks(1.0)
    assert not chain_offers(plan, row, owned, 5 * unit)
    assert [offer.group for offer in chain_offers(plan, row, owned, 6 * unit)] == ["b", "c"]


# ---------------------------------------------------------------------- names, bounds and words


def test_a_name_that_looks_like_another_is_asked_about():
    model = KINDS["SpeedBoost"].fit(TABLE, LABELS)
    with pytest.warns(UserWarning, match=r"^did you mean 'b' instead of 'bb'\?$"):
        model.next({"a": 0.1, "bb": 2.0})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.next({"a": 0.1, "patient": 7})  # nothing like it: of no interest to the model


def test_a_budget_is_one_number_however_large():
    model = KINDS["SpeedBoost"].fit(TABLE, LABELS)
    for wrong in ([1.0, 2.0], np.array([1.0, 2.0]), np.array([3.0])):
        with pytest.raises(ValueError, match="budget must be one number"):
            model.next({}, budget=wrong)
        with pytest.raises(ValueError, match="truncate needs a budget"):
            model.truncate(wrong)
    assert model.next({}, budget=10**400) == model.next({}, budget=np.inf)


def test_a_long_name_and_a_long_list_are_shortened():
    model = at.SpeedBoostRegressor(n_estimators=2, random_state=0).fit(
        RANDOM.normal(size=(50, 40)), TARGET[:50]
    )
    with pytest.raises(
        ValueError,
        match=r"^bought contains 'yyy.*\.\.\., which is not a group; the groups are 'x0', .*'x19', \.\.\.$",
    ) as said:
        model.next({}, ["y" * 100_000])
    assert len(str(said.value)) < 300


def test_numbers_in_words_have_four_digits_and_one_column_is_no_columns(branched):
    advice = branched.next({"a": 1.5}, budget=3)
    assert str(advice).startswith(f"Now {advice.prediction:.4g}. ")
    plain = at.SpeedBoostRegressor(n_estimators=5, random_state=0).fit(WORTH, TARGET)
    assert " for 1 column." in str(plain.next({}))
    assert str(plain.next({}, budget=0)).endswith("within 0 columns.")


@pytest.mark.parametrize(
    ("classes", "said"),
    [
        (np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[D]"), {"2020-01-01", "2021-01-01"}),
        (
            np.array(["2020-01-01", "2021-01-01"], dtype="datetime64[s]"),
            {"2020-01-01T00:00:00", "2021-01-01T00:00:00"},
        ),
        (np.array([False, True]), {False, True}),
        (np.array(["no", "yes"]), {"no", "yes"}),
    ],
)
def test_every_class_can_be_said_in_json(classes, said):
    model = at.SpeedBoostClassifier(n_estimators=3, random_state=0).fit(TABLE, classes[LABELS])
    assert json.loads(json.dumps(model.next({}).to_dict()))["prediction"] in said
