"""Rows in every form, and rows that are not complete: one rule for tables, single rows, sessions and the engine."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.base import clone

import anytime as at
from anytime.blocks import LinearBlock
from anytime.costs import BoundCosts
from anytime.engine import Run
from anytime.losses import LINKS
from anytime.plan import Plan
from anytime.testing.strategies import plans
from tests.runtime.bench import ROWS, model_of

N = 200
RNG = np.random.default_rng(0)
TABLE = pd.DataFrame(RNG.normal(size=(N, 4)), columns=["age", "iron", "sugar", "scan"])
WORDS = TABLE.assign(town=RNG.choice(["Bonn", "Ulm"], N))
Y = (TABLE.sum(axis=1) + (WORDS["town"] == "Ulm") > 0.3).astype(int)
COSTS = at.FeatureCosts(
    {"age": 1, "blood": 3, "scan": 9}, groups={"age": ["age"], "blood": ["iron", "sugar"], "scan": ["scan"]}
)


@pytest.fixture(scope="module")
def boosted():
    return at.GradientBoostingRegressor(costs=COSTS, n_estimators=8, meter="realised").fit(
        TABLE, TABLE.sum(axis=1)
    )


@pytest.fixture(scope="module")
def replacing():
    return at.GroupPursuitRegressor(costs=COSTS).fit(TABLE, TABLE.sum(axis=1))


@pytest.fixture(scope="module")
def wordy():
    costs = at.FeatureCosts(dict.fromkeys(WORDS.columns, 1))
    return at.GradientBoostingClassifier(costs=costs, n_estimators=8).fit(WORDS, Y)


# ---------------------------------------------------------------------- the rule


def without(plan, x, held):
    """The obvious way: one stage at a time, leaving out those that would read what is not there."""
    absent = ~held

    def lost(columns):
        return bool(absent[plan.costs.groups_of(columns)].any())

    costs = plan.costs.costs
    table = BoundCosts(at.FeatureCosts(costs.prices, groups=costs.groups), plan.costs.column_group).table
    asked = {s: rule for s, rule in plan.stops.items() if not lost(rule.columns())}
    run = Run(replace(plan, stops=asked), x[None].copy())
    s = 0
    while s < plan.n_stages and not run.finished[0]:
        b, within = plan.locate(s)
        block = plan.blocks[b]
        if s in plan.passes and lost(plan.passes[s].columns()):
            out = True
        elif s in plan.passes and not plan.passes[s].holds(run.X, run.scores(), LINKS[plan.link])[0]:
            out = False
        elif block.forest is not None:
            out = block.forest.need(x, within, held, table) >= 0
        else:
            out = lost(block.columns(within))
        if not out:
            run.advance(s + 1)
            s += 1
            continue
        to = plan.stage_after_leaving_out(s)
        if to == s:
            break
        run.done[0] = s = to
    return run.scores()[0]


@settings(max_examples=100)
@given(plans(), st.data())
def test_a_stage_is_left_out_exactly_where_it_would_read_what_is_not_there(plan, data):
    n_groups = plan.costs.n_groups
    held = np.array(data.draw(st.lists(st.booleans(), min_size=n_groups, max_size=n_groups)))
    run = Run(plan, ROWS, metered=True, held=held)
    run.advance()
    expected = [without(plan, x, held) for x in ROWS]
    assert_array_equal(run.scores(), expected)
    assert not run.ledger.bought[:, ~held].any()
    stepwise = Run(plan, ROWS, held=held)
    for stage in range(1, plan.n_stages + 1):
        stepwise.advance(stage)
    assert_array_equal(stepwise.scores(), expected)


def test_a_group_beyond_the_budget_is_no_more_missed_in_a_session_than_in_predict():
    blocks = [LinearBlock(np.array([j]), np.ones((1, 1))) for j in (0, 1, 0)]
    costs = at.FeatureCosts({"age": 1, "scan": 5}, groups={"age": [0], "scan": [1]})
    plan = Plan(blocks=blocks, costs=costs.bind(2), base=np.zeros(1), link="identity")
    model, row = model_of(plan, meter="realised"), {"age": [1.0]}
    for budget, stages in ((2.0, 1), (6.0, 3), (None, 3)):
        answer = at.Session(model).predict(row, budget=budget)
        assert answer.stage == stages
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            assert answer.prediction == model.predict_one(row, budget=budget)
        assert len(told) == (stages == 3)
    whole = {"age": [1.0], "scan": [1.0]}
    assert at.Session(model).predict(row, budget=2.0).prediction == model.predict_one(whole, budget=2.0)


def test_columns_are_found_by_name_in_any_order_and_others_ignored(boosted):
    shuffled = TABLE[["scan", "sugar", "age", "iron"]].assign(other=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_array_equal(boosted.predict(shuffled), boosted.predict(TABLE))
        assert boosted.predict_one(shuffled.iloc[0]) == boosted.predict(TABLE)[0]


@pytest.mark.parametrize("family", ["boosted", "replacing"])
def test_a_column_that_is_not_there_is_warned_of_and_done_without(family, request):
    model = request.getfixturevalue(family)
    with pytest.warns(UserWarning, match="the column 'scan' is not there") as told:
        answers = model.predict(TABLE.drop(columns="scan"))
    assert told[0].filename == __file__
    assert np.abs(answers - TABLE.sum(axis=1)).mean() < np.abs(TABLE.sum(axis=1)).mean()
    with pytest.warns(UserWarning, match="did you mean 'scan' by 'scann'"):
        assert_array_equal(model.predict(TABLE.rename(columns={"scan": "scann"})), answers)
    with pytest.warns(UserWarning, match="'scan'"):
        assert model.predict_one(TABLE.iloc[0].drop("scan")) == answers[0]
    assert at.Session(model).predict(TABLE.iloc[0].drop("scan")).prediction == answers[0]
    with pytest.warns(UserWarning, match="'scan'"):
        answer = model.answer(TABLE.drop(columns="scan"))
    assert not answer.complete
    assert answer.cost.max() <= 4
    assert "scan" not in answer.groups


def test_columns_that_the_budget_does_not_reach_are_not_missed(boosted, replacing):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        few = TABLE[["age"]]
        assert_array_equal(replacing.predict(few, budget=1), replacing.predict(TABLE, budget=1))
        boosted.predict(few, budget=0)


def test_where_no_stage_can_be_run_the_answer_is_the_base(replacing):
    with pytest.warns(UserWarning, match="are not there"):
        assert_array_equal(replacing.predict(TABLE[["iron"]])[:3], replacing.predict(TABLE[:3], budget=0))


def test_a_table_with_no_column_that_is_known_is_an_error(boosted):
    with pytest.raises(ValueError, match="feature names should match"):
        boosted.predict(TABLE.add_prefix("my_"))
    with pytest.raises(ValueError, match="the model has no column 'nix'; it has 'age', 'iron'"):
        boosted.predict_one({"nix": 1.0})


def test_a_missing_value_is_no_missing_column(wordy):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        holes = WORDS.assign(age=np.nan, town=None)
        assert_array_equal(
            wordy.predict(holes[:5]), [wordy.predict_one(row) for row in holes[:5].to_dict("records")]
        )


def test_a_session_takes_groups_as_well_as_columns(boosted):
    row = TABLE.iloc[0]
    forms = [
        {"age": row["age"], "iron": row["iron"], "sugar": row["sugar"]},
        {"age": row["age"], "blood": [row["iron"], row["sugar"]]},
        {"age": [row["age"]], "blood": {"sugar": row["sugar"], "iron": row["iron"]}},
    ]
    answers = [at.Session(boosted).start(form).resume() for form in forms]
    assert len({(answer.prediction, answer.cost) for answer in answers}) == 1
    assert answers[0].failures == {"scan": "is not there"}
    with pytest.raises(ValueError, match="group 'blood' has 2 columns"):
        at.Session(boosted).start({"blood": [1.0]})


# ---------------------------------------------------------------------- forms of one row


def test_all_forms_of_a_row_are_the_same_row(wordy):
    expected = wordy.predict_proba(WORDS[:20])
    for i, row in enumerate(WORDS[:20].to_dict("records")):
        for form in (row, WORDS.iloc[i], WORDS[i : i + 1], WORDS.iloc[i].tolist()):
            assert wordy.predict_one(form) == wordy.classes_[expected[i].argmax()]
            assert_array_equal(at.Session(wordy).predict(form).probabilities, expected[i])


def test_a_series_without_names_is_values_in_the_order_of_the_columns(boosted):
    unnamed = pd.Series(TABLE.iloc[0].to_numpy())
    assert boosted.predict_one(unnamed) == boosted.predict(TABLE)[0]
    assert at.Session(boosted).predict(unnamed).prediction == boosted.predict(TABLE)[0]
    with pytest.raises(ValueError, match="has no column '0'"):
        boosted.predict_one(dict(enumerate(TABLE.iloc[0])))


def test_any_number_of_groups_can_be_absent():
    """Prices so fine that many absent groups, each with a price beyond all others together, could not be counted."""
    n = 1200
    bound = at.FeatureCosts([*np.full(n - 1, 4.0), 4.000000000001]).bind(n)
    everything = int(bound.prices.sum())
    assert n * everything > 2**62
    ledger = bound.ledger_without(np.arange(n) > 0, everything + 1, 1)
    price = [int(ledger.quote(np.array([group], dtype=np.int32))[0]) for group in (0, 1, 7, n - 1)]
    assert price[0] == bound.prices[0]
    assert min(price[1:]) > everything


def test_categories_that_are_numbers_are_read_alike(tmp_path):
    """A model of scikit-learn whose arrays hold categories themselves, which are encoded once and not twice."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    X = np.column_stack([RNG.choice([10.0, 20.0, 30.0], N), RNG.normal(size=N)])
    y = (X[:, 0] == 20) ^ (X[:, 1] > 1)
    model = at.make_anytime(HistGradientBoostingClassifier(max_iter=5, categorical_features=[0]).fit(X, y))
    assert [model.predict_one(x.tolist()) for x in X] == model.predict(X).tolist()
    assert [model.predict_one(x) for x in X] == model.predict(X).tolist()


# ---------------------------------------------------------------------- tables of other libraries


def arrow(table):
    return pytest.importorskip("pyarrow").Table.from_pandas(table, preserve_index=False)


def polars(table):
    return pytest.importorskip("polars").DataFrame({name: table[name].tolist() for name in table.columns})


@pytest.mark.parametrize("form", [arrow, polars])
def test_tables_of_other_libraries_are_taken(form, wordy):
    table, y = form(WORDS), form(Y.to_frame("y"))["y"]
    model = at.GradientBoostingClassifier(costs=wordy.costs, n_estimators=8).fit(table, y)
    assert model.feature_names_in_.tolist() == list(WORDS.columns)
    expected = wordy.predict_proba(WORDS)
    assert_array_equal(model.predict_proba(table), expected)
    assert_array_equal(model.predict_proba(WORDS), expected)
    assert at.curve(model, table, y).at(5) == at.curve(wordy, WORDS, Y).at(5)
    assert model.score(table, y) == wordy.score(WORDS, Y)
    with pytest.warns(UserWarning, match="'scan'"):
        model.predict(form(WORDS.drop(columns="scan")))
    for other in (
        at.GroupPursuitRegressor(costs=COSTS),
        at.BudgetForestClassifier(costs=COSTS, n_estimators=2, random_state=0),
        at.SpeedBoostRegressor(costs=COSTS, max_stages=2),
        at.AnytimeClassifier(costs=COSTS, random_state=0),
        at.StreamingBoostRegressor(costs=COSTS, n_estimators=2),
    ):
        fitted = other.fit(form(TABLE), y)
        assert_array_equal(fitted.predict(form(TABLE)), fitted.predict(TABLE))


@pytest.mark.parametrize("form", [arrow, polars])
def test_price_lists_of_other_libraries_are_taken(form):
    listed = pd.DataFrame({"group": ["age", "scan"], "price": [1.0, 7.27]})
    expected = at.FeatureCosts({"age": 1.0, "scan": 7.27})
    assert at.FeatureCosts.from_frame(form(listed)) == expected
    assert at.FeatureCosts.coerce(form(listed), 2, ["age", "scan"]) == expected
    assert at.FeatureCosts(form(listed)["price"].to_pandas().to_numpy()).prices == {"x0": 1.0, "x1": 7.27}


@pytest.mark.parametrize("form", [arrow, polars])
def test_price_lists_with_discounts_of_other_libraries_are_taken(form):
    listed = pd.DataFrame(
        {
            "test": ["chol", "fbs"],
            "group": ["A", "A"],
            "full price": [7.27, 5.2],
            "discounted price": [5.17, 3.1],
        }
    )
    expected = at.FeatureCosts.from_frame(listed)
    assert expected.prices == {"step A": 2.1, "chol": 5.17, "fbs": 3.1}
    assert at.FeatureCosts.from_frame(form(listed)) == expected


# ---------------------------------------------------------------------- infinity


@pytest.mark.parametrize(
    "model",
    [
        at.GradientBoostingRegressor(n_estimators=2),
        at.GroupPursuitRegressor(),
        at.BudgetForestClassifier(n_estimators=2, random_state=0),
        at.StreamingBoostRegressor(n_estimators=2),
        at.SpeedBoostClassifier(max_stages=2),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("words", [False, True])
def test_infinity_is_refused_by_row_and_column(model, words):
    table = WORDS if words and "GroupPursuit" not in type(model).__name__ else TABLE
    bad = table.assign(iron=table["iron"].where(table.index != 3, np.inf))
    with pytest.raises(ValueError, match="row 3, column 'iron': the value is infinite"):
        clone(model).fit(bad, Y)
    fitted = clone(model).fit(table, Y)
    with pytest.raises(ValueError, match="row 3, column 'iron': the value is infinite"):
        fitted.predict(bad)
    with pytest.raises(ValueError, match="infinite"):
        fitted.predict_one(bad.iloc[3].to_dict())
