"""Budgets: a cap on what every row pays, and a mean over rows."""

import copy
import inspect
import pickle
from dataclasses import replace

import numpy as np
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import anytime as at
from anytime.blocks import LinearBlock
from anytime.plan import Plan


@pytest.fixture(scope="module")
def forest():
    """A forest whose rows pay different amounts, with what they pay on average after each tree."""
    X, y, costs = at.datasets.load("breast_cancer")
    trees = RandomForestClassifier(8, max_depth=4, random_state=0).fit(X[::2], y[::2])
    return at.make_anytime(trees, costs=costs, X_val=X[1::2], y_val=y[1::2]), X[1::2], y[1::2]


def with_plan(model, **changes):
    """A copy whose plan is changed."""
    other = copy.copy(model)
    other.plan_ = replace(model.plan_, **changes)
    return other


def test_validation_rows_say_what_stages_cost_on_average(forest):
    model, X, _ = forest
    means = [float(np.mean(answer.cost)) for answer in model.stages(X)][1:]
    assert model.plan_.expected_costs == pytest.approx(means)


def test_a_mean_budget_is_what_rows_pay_on_average(forest):
    model, X, _ = forest
    for stage, mean in enumerate(model.plan_.expected_costs, start=1):
        answer = model.answer(X, mean_budget=mean)
        assert (answer.stage == stage).all()
        assert np.mean(answer.cost) == pytest.approx(mean)
        assert (model.answer(X, mean_budget=mean - 0.01).stage < stage).all()
    single = model.answer(X, mean_budget=model.plan_.expected_costs[3]).cost
    assert single.max() > model.plan_.expected_costs[3] > single.min()


@pytest.mark.parametrize("meter", ["model", "realised"])
def test_where_both_are_named_both_hold(forest, meter):
    model, X, _ = forest
    model = copy.copy(model).set_params(meter=meter)
    mean = float(model.plan_.expected_costs[3])
    both = model.answer(X, budget=60, mean_budget=mean)
    assert both.cost.max() <= 60
    assert_array_equal(
        both.stage, np.minimum(model.answer(X, budget=60).stage, model.answer(X, mean_budget=mean).stage)
    )


def test_a_call_that_names_one_bound_has_only_that_one(forest):
    model, X, _ = forest
    bounded = copy.copy(model)
    bounded.budget, bounded.mean_budget = 50.0, float(model.plan_.expected_costs[1])
    assert_array_equal(
        bounded.predict_proba(X),
        model.predict_proba(X, budget=50.0, mean_budget=bounded.mean_budget),
    )
    assert_array_equal(bounded.predict_proba(X, budget=np.inf), model.predict_proba(X))
    mean = float(model.plan_.expected_costs[4])
    assert_array_equal(bounded.predict_proba(X, mean_budget=mean), model.predict_proba(X, mean_budget=mean))
    assert_array_equal(bounded.cost(X, budget=20), model.cost(X, budget=20))


def test_every_way_of_asking_takes_a_mean_budget(forest):
    model, X, y = forest
    mean = float(model.plan_.expected_costs[2])
    answer = model.answer(X, mean_budget=mean)
    assert_array_equal(model.predict(X, mean_budget=mean), answer.prediction)
    assert_array_equal(model.predict_proba(X, mean_budget=mean), answer.probabilities)
    with np.errstate(divide="ignore"):
        assert_array_equal(model.predict_log_proba(X, mean_budget=mean), np.log(answer.probabilities))
    assert_array_equal(
        model.decision_function(X, mean_budget=mean), answer.scores[:, 1] - answer.scores[:, 0]
    )
    assert model.score(X, y, mean_budget=mean) == np.mean(answer.prediction == y)
    assert_array_equal(model.cost(X, mean_budget=mean), answer.cost)
    assert [model.predict_one(x, mean_budget=mean) for x in X[:40]] == list(answer.prediction[:40])


def test_bounds_follow_one_order_in_every_method():
    """A budget and a deadline may be positional, a mean budget is a keyword."""
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function", "answer", "cost"):
        signature = inspect.signature(getattr(at.AnytimeClassifier, method))
        assert list(signature.parameters)[1:4] == ["X", "budget", "deadline"], method
        assert signature.parameters["mean_budget"].kind is inspect.Parameter.KEYWORD_ONLY, method


def test_a_model_without_measured_means_takes_the_most_that_stages_cost(forest):
    model, X, _ = forest
    unmeasured = with_plan(model, expected_costs=None)
    for budget in (0.0, float(model.stage_costs_[0]), float(model.stage_costs_[-1])):
        answer = unmeasured.answer(X, mean_budget=budget)
        assert answer.cost.mean() <= budget
        by_stage = copy.copy(unmeasured).set_params(meter="model")
        assert_array_equal(answer.stage, by_stage.answer(X, budget=budget).stage)


@pytest.mark.parametrize("wrong", ["20", -1, np.nan, True, [1.0, 2.0]])
def test_a_mean_budget_is_one_number(forest, wrong):
    model, X, _ = forest
    with pytest.raises(ValueError, match="mean_budget"):
        model.predict(X, mean_budget=wrong)
    with pytest.raises(ValueError, match="mean_budget"):
        model.predict_one(X[0], mean_budget=wrong)


def test_a_session_stops_where_the_model_does(forest):
    model, X, _ = forest
    bounded = copy.copy(model)
    bounded.mean_budget = float(model.plan_.expected_costs[2])
    batch = bounded.predict(X[:10])
    session = at.Session(bounded)
    for x, label in zip(X[:10], batch, strict=True):
        answer = session.predict(x)
        assert (answer.prediction, answer.stage) == (label, 3)


def test_truncation_drops_stages_beyond_the_mean(forest):
    model, X, _ = forest
    mean = float(model.plan_.expected_costs[4])
    small = model.truncate(mean_budget=mean)
    assert small.n_stages_ == 5
    assert_array_equal(small.plan_.expected_costs, model.plan_.expected_costs[:5])
    assert_array_equal(small.predict(X), model.predict(X, mean_budget=mean))
    both = model.truncate(20, mean_budget=mean)
    assert both.n_stages_ == 5
    assert both.cost(X).max() <= 20
    with pytest.raises(ValueError, match="a budget or a mean_budget"):
        model.truncate()


def test_a_cap_on_every_row_holds_beside_the_mean(forest):
    model, X, _ = forest
    limited = with_plan(model, limit=20.0)
    answer = limited.answer(X, mean_budget=float(model.plan_.expected_costs[-1]))
    assert answer.cost.max() <= 20.0
    assert (answer.stage < 8).any()


def test_a_file_keeps_expected_costs(forest, tmp_path):
    model, X, _ = forest
    model.save(tmp_path / "forest.anytime")
    again = at.load(tmp_path / "forest.anytime")
    assert_array_equal(again.plan_.expected_costs, model.plan_.expected_costs)
    mean = float(model.plan_.expected_costs[1])
    assert_array_equal(again.predict_proba(X, mean_budget=mean), model.predict_proba(X, mean_budget=mean))


@pytest.mark.parametrize("wrong", [[3.0, 2.0], [-1.0, 2.0], [1.0, np.inf], [np.nan, 1.0], [1.0]])
def test_expected_costs_never_fall(forest, wrong):
    head = forest[0].plan_.head(2)
    with pytest.raises(ValueError, match=r"expected.costs"):
        replace(head, expected_costs=np.array(wrong))


@given(
    st.lists(st.floats(0, 1000), min_size=1, max_size=6),
    st.sampled_from([(1.0, 2.0), (0.1, 0.7), (1e-3, 55.5)]),
)
def test_a_budget_of_exactly_what_a_stage_costs_reaches_it(means, prices):
    costs = at.FeatureCosts(list(prices)).bind(2)
    plan = Plan(
        blocks=[LinearBlock([0], [[1.0]]) for _ in means],
        costs=costs,
        base=np.zeros(1),
        link="identity",
        expected_costs=np.sort(means),
    )
    for stage, mean in enumerate(plan.expected_costs, start=1):
        within = plan.affordable_on_average(costs.costs.budget_ticks(mean))
        assert within >= stage
        assert (plan.expected_costs[:within] <= mean * (1 + 1e-11) + 1e-11).all()


def test_a_scorer_judges_at_either_bound(forest):
    model, X, y = forest
    mean = float(model.plan_.expected_costs[2])
    for bounds in ({"budget": 20.0}, {"mean_budget": mean}, {"budget": 20.0, "mean_budget": mean}):
        assert at.budget_scorer(**bounds)(model, X, y) == model.score(X, y, **bounds)
        assert pickle.loads(pickle.dumps(at.budget_scorer(**bounds)))(model, X, y) == model.score(
            X, y, **bounds
        )
    assert (model.budget, model.mean_budget) == (None, None)
    with pytest.raises(ValueError, match="needs a budget or a mean_budget"):
        at.budget_scorer(scoring="accuracy")


def test_bounds_are_routed_through_a_pipeline(forest):
    _, X, y = forest
    mean = at.BudgetForestClassifier(alpha=4, cost_weighted=True, random_state=0)
    with sklearn.config_context(enable_metadata_routing=True):
        mean.set_predict_request(budget=True, mean_budget=True).set_score_request(mean_budget=True)
        pipeline = make_pipeline(StandardScaler(), mean).fit(X, y)
        model, rows = pipeline[-1], pipeline[:-1].transform(X)
        for bounds in ({"budget": 3}, {"mean_budget": 3}):
            assert_array_equal(pipeline.predict(X, **bounds), model.predict(rows, **bounds))
        assert pipeline.score(X, y, mean_budget=3) == model.score(rows, y, mean_budget=3)


# ---------------------------------------------------------------------- forests of other libraries


def test_a_forest_made_anytime_has_good_answers_at_a_third_of_the_price():
    """Every tree reads many columns, but a row only those on its own path: caps count what it really pays."""
    X, y, _ = at.datasets.load("digits")
    trees = RandomForestClassifier(40, random_state=0).fit(X[::2], y[::2])
    X_val, y_val, X_test, y_test = X[1::4], y[1::4], X[3::4], y[3::4]
    third = 0.3 * X.shape[1]  # one unit per column
    for model in (at.make_anytime(trees), at.make_anytime(trees, X_val=X_val, y_val=y_val)):
        assert model.cost(X_test, budget=third).max() <= third
        assert model.score(X_test, y_test, budget=third) > 0.75
    assert model.score(X_test, y_test, mean_budget=third) > 0.75
    by_stage = at.make_anytime(trees, meter="model")
    assert by_stage.score(X_test, y_test, budget=third) < 0.15
