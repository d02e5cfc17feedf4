"""Rows in every form, and rows that are not complete: one rule for tables, single rows, sessions and the engine."""

import time
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import anytime as at
from anytime.blocks import LinearBlock
from anytime.costs import UNLIMITED
from anytime.engine import Run
from anytime.plan import Plan
from anytime.runtime import replay
from tests.reference.engine import run_row
from tests.runtime.bench import ROWS, features_of, incomplete, linear_plan, model_of

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


@given(incomplete())
def test_a_stage_that_would_read_what_is_not_there_is_left_out_and_nothing_of_it_is_paid(case):
    plan, held, budget = case
    runs = [Run(plan, X, metered=True, held=held) for X in (ROWS, np.tile(ROWS, (8, 1)))]
    stepwise, waited = (Run(plan, ROWS, metered=True, held=held) for _ in range(2))
    cap = UNLIMITED if budget is None else budget
    for run in runs:
        run.advance(budget=cap)
    for stage in range(1, plan.n_stages + 1):
        stepwise.advance(stage, budget=cap)
    waited.advance(budget=cap, deadline=time.monotonic() + 60)
    model = model_of(
        plan, meter="realised", budget=None if budget is None else plan.costs.costs.amount(budget)
    )
    assert budget is None or plan.costs.costs.budget_ticks(model.budget) == budget
    groups = plan.costs.costs.groups
    batch = at.BatchSession(model, tile_rows=5)
    batch._tiles = tuple((k, batch._tile(ROWS[k : k + 5].copy(), held)) for k in range(0, len(ROWS), 5))
    batched = batch.advance()
    for i, x in enumerate(ROWS[:6]):
        scores, paid, stage = run_row(plan, x, budget=budget, held=held)
        for run in (*runs, stepwise, waited):
            assert_allclose(run.scores()[i], scores, atol=1e-9)
            assert_array_equal(run.scores()[i], runs[0].scores()[i])
            assert (run.paid[i], run.answered[i]) == (paid, stage)
            assert not run.ledger.bought[i, ~held].any()
        assert_array_equal(batched.scores[i], runs[0].scores()[i])
        assert (batched.cost[i], batched.stage[i]) == (plan.costs.costs.amount(paid), stage)
        there = {name: x[list(groups[name])] for name, given in zip(groups, held, strict=True) if given}
        answer = at.Session(model).predict({name: values for name, values in there.items() if len(values)})
        assert_array_equal(answer.scores, runs[0].scores()[i])
        assert (answer.cost, answer.stage) == (plan.costs.costs.amount(paid), stage)


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


@given(incomplete(), st.data())
def test_stages_that_were_left_out_come_back_when_their_groups_are_given(case, data):
    plan, held, budget = case
    x, names = data.draw(st.sampled_from(list(ROWS))), plan.costs.costs.groups
    values = {name: x[list(columns)] for name, columns in names.items() if columns}
    late = [name for name, there in zip(names, held, strict=True) if not there]
    model = model_of(plan, meter="realised")
    expected = at.Session(model).predict(x)

    def broken(row):
        raise OSError("no connection")

    for features in (None, features_of(plan, **dict.fromkeys(late, broken))):
        session = at.Session(model, features)
        first = {name: vector for name, vector in values.items() if name not in late}
        session.start(first if features is None else x)
        before = session.resume(budget=None if budget is None else plan.costs.costs.amount(budget))
        session.give({name: values[name] for name in late})
        assert not session.read().failures
        answer = session.resume()
        assert_array_equal(answer.scores, expected.scores)
        assert (answer.stage, answer.complete, answer.failures) == (expected.stage, expected.complete, {})
        prices = plan.costs.costs.prices
        paid_for = {name for name in before.groups if prices[name]}
        bought = {name for name in answer.groups if prices[name]}
        assert paid_for <= bought <= {*plan.costs.costs.closure(paid_for), *expected.groups}
        evaluation = expected.cost - plan.costs.costs.price(expected.groups)
        assert answer.cost == pytest.approx(evaluation + sum(prices[name] for name in bought))
        seen = values if features is None else session.values()
        assert_array_equal(replay(model, session.trace, seen).scores, answer.scores)


def test_what_is_given_does_not_take_a_row_over_its_budget():
    """Group "b", bought without "a", which it requires but which was not there, does not need "a" once it is given."""
    costs = at.FeatureCosts({"a": 5.0, "b": 1.0}, groups={"a": [0], "b": [1]}, requires={"b": ["a"]})
    plan = linear_plan(2, costs=costs.bind(2))
    session = at.Session(model_of(plan, meter="realised")).start({"b": 2.0})
    assert session.resume(budget=5.0).cost == 1.0
    assert session.give({"a": 3.0}).resume(budget=5.0).cost == 1.0
    answer = session.resume(budget=6.0)
    assert (answer.cost, answer.prediction) == (6.0, 0.5 + 3.0 + 20.0)


def test_a_value_that_is_given_again_replaces_the_old_one_in_all_stages():
    session = at.Session(model_of(linear_plan(2))).start([1.0, 2.0])
    session.step()
    assert session.give({"g0": 3.0}).resume().prediction == 0.5 + 3.0 + 20.0


def test_where_a_group_does_not_fit_nothing_is_given():
    session = at.Session(model_of(linear_plan(2))).start({"g0": 1.0})
    with pytest.raises(ValueError, match="group 'g1': returned 2 numbers"):
        session.give({"g0": 7.0, "g1": [1.0, 2.0]})
    assert session.resume().failures == {"g1": "not available"}
    assert session.read().prediction == 0.5 + 1.0


def test_costs_and_failures_follow_what_was_given(boosted):
    row = TABLE.iloc[0]
    session = at.Session(boosted).start({"age": row["age"]})
    assert session.resume().failures == {"blood": "not available", "scan": "not available"}
    session.give({"blood": [row["iron"], row["sugar"]]})
    assert session.read().failures == {"scan": "not available"}
    answer = session.give({"scan": [row["scan"]]}).resume()
    whole = at.Session(boosted).predict(row)
    assert (answer.prediction, answer.cost, answer.groups) == (whole.prediction, whole.cost, whole.groups)
    with pytest.raises(
        ValueError, match="'iron' is a column of the group 'blood', which takes 'iron', 'sugar' together"
    ):
        session.give({"iron": 1.0})
    with pytest.raises(ValueError, match="no group 'bloud'; did you mean 'blood'"):
        session.give({"bloud": 1.0})


def test_the_only_column_of_a_group_is_given_by_the_name_of_the_group():
    costs = at.FeatureCosts(groups={"draw": ["iron"], "strip": ["sugar"]}, prices={"draw": 2.0, "strip": 1.0})
    model = at.GroupPursuitRegressor(costs=costs).fit(TABLE[["iron", "sugar"]], TABLE["iron"])
    with pytest.raises(ValueError, match="'iron' is the column of the group 'draw': give 'draw' instead"):
        at.Session(model).start({"strip": 1.0}).give({"iron": 1.0})


def test_columns_are_found_by_name_in_any_order_and_others_ignored(boosted):
    shuffled = TABLE[["scan", "sugar", "age", "iron"]].assign(other=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_array_equal(boosted.predict(shuffled), boosted.predict(TABLE))
        assert boosted.predict_one(shuffled.iloc[0]) == boosted.predict(TABLE)[0]


def test_a_warning_says_so_where_no_stage_could_run(replacing):
    """Answers before the first purchase are a constant: nobody should take them for predictions."""
    first = replacing.order_[0]
    with pytest.warns(
        UserWarning,
        match=f"'{first}' is missing: no stage could run without it, so every row gets the prediction made before",
    ):
        answers = replacing.predict(TABLE.drop(columns=first))
    assert np.ptp(answers) == 0


@pytest.mark.parametrize("family", ["boosted", "replacing"])
def test_a_column_that_is_not_there_is_warned_of_and_done_without(family, request):
    model = request.getfixturevalue(family)
    with pytest.warns(UserWarning, match="the column 'scan' is missing") as told:
        answers = model.predict(TABLE.drop(columns="scan"))
    assert told[0].filename == __file__
    assert np.abs(answers - TABLE.sum(axis=1)).mean() < np.abs(TABLE.sum(axis=1)).mean()
    with pytest.warns(UserWarning, match="did you mean 'scan' instead of 'scann'"):
        assert_array_equal(model.predict(TABLE.rename(columns={"scan": "scann"})), answers)
    with pytest.warns(UserWarning, match="'scan'"):
        assert model.predict_one(TABLE.iloc[0].drop("scan")) == answers[0]
    assert at.Session(model).predict(TABLE.iloc[0].drop("scan")).prediction == answers[0]
    with pytest.warns(UserWarning, match="'scan'"):
        answer = model.answer(TABLE.drop(columns="scan"))
    assert not answer.complete
    assert answer.cost.max() <= 4
    assert "scan" not in answer.groups


def test_batches_take_tables_that_are_not_complete(boosted):
    with pytest.warns(UserWarning, match="'scan'"):
        expected = boosted.answer(TABLE.drop(columns="scan"))
    answer = at.BatchSession(boosted, TABLE.drop(columns="scan")).advance()
    assert_array_equal(answer.scores, expected.scores)
    assert_array_equal(answer.cost, expected.cost)
    assert (answer.complete, answer.failures) == (False, {"scan": "200 rows: not available"})


def test_columns_that_the_budget_does_not_reach_are_not_missed(boosted, replacing):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        few = TABLE[["age"]]
        assert_array_equal(replacing.predict(few, budget=1), replacing.predict(TABLE, budget=1))
        boosted.predict(few, budget=0)


def test_where_no_stage_can_be_run_the_answer_is_the_base(replacing):
    with pytest.warns(UserWarning, match="are missing"):
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
    assert answers[0].failures == {"scan": "not available"}
    with pytest.raises(ValueError, match="group 'blood' has 2 columns"):
        at.Session(boosted).start({"blood": [1.0]})


def test_lists_of_a_group_are_in_the_order_of_the_price_list():
    """Whether a row starts with them, gets them later, or an extractor returns them."""
    costs = at.FeatureCosts({"age": 1, "rest": 3}, groups={"age": ["age"], "rest": ["scan", "sugar", "iron"]})
    model = at.GroupPursuitRegressor(costs=costs).fit(TABLE, TABLE @ [1, 10, 100, 1000])
    row = TABLE.iloc[0]
    rest, expected = [row["scan"], row["sugar"], row["iron"]], model.predict(TABLE[:1])[0]
    assert model.predict_one({"age": row["age"], "rest": rest}) == expected
    assert at.Session(model).start({"age": row["age"]}).give({"rest": rest}).resume().prediction == expected


# ---------------------------------------------------------------------- forms of one row


def test_a_list_of_dicts_is_a_table(wordy):
    records = WORDS[:20].to_dict("records")
    assert_array_equal(wordy.predict_proba(records), wordy.predict_proba(WORDS[:20]))
    assert_array_equal(wordy.cost(records), wordy.cost(WORDS[:20]))
    with pytest.warns(UserWarning, match="the column 'scan' is missing"):
        wordy.predict([{name: value for name, value in row.items() if name != "scan"} for row in records])
    with pytest.raises(ValueError, match=r"row 1 has other columns than row 0.*None for a missing value"):
        wordy.predict([records[0], {"age": 1.0}])


def test_a_column_of_which_training_has_seen_no_value_is_warned_of():
    X = WORDS.assign(sex=["female", "male"] * (N // 2))
    model = at.GradientBoostingClassifier(n_estimators=3).fit(X, Y)
    for strange, example in [(1, "1"), (2.5, "2.5"), ("atlantis", "'atlantis'")]:
        with pytest.warns(
            UserWarning, match=f"'town': none of its values occurred in training, e.g. {example};"
        ):
            model.predict(X[:20].assign(town=strange))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for missing in (None, np.nan, pd.NA, pd.NaT):
            model.predict(X[:20].assign(town=missing))


@pytest.mark.parametrize("labels", [np.array(["no", "yes"]), np.array([0, 1])])
@pytest.mark.parametrize("learner", [at.GradientBoostingClassifier, at.StreamingBoostClassifier])
def test_the_answer_for_one_row_is_a_plain_value_whatever_is_known_of_it(learner, labels):
    X = WORDS[["age", "scan"]]
    model = learner(n_estimators=3).fit(X, labels[np.asarray(Y)])
    plain = type(labels.tolist()[0])
    assert type(model.predict_one(X.iloc[0])) is plain
    assert type(model.predict_one(X.iloc[0], budget=1, mean_budget=1)) is plain
    with pytest.warns(UserWarning, match="missing"):
        assert type(model.predict_one({"age": 1.0})) is plain


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
