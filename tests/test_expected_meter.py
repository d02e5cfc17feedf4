"""Budgets that are means over rows: ``meter="expected"``."""

import copy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from sklearn.ensemble import RandomForestClassifier

import anytime as at
from anytime.blocks import LinearBlock
from anytime.plan import Plan


@pytest.fixture(scope="module")
def forest():
    """A forest whose rows pay different amounts, with what they pay on average after each tree."""
    X, y, costs = at.datasets.load("breast_cancer")
    trees = RandomForestClassifier(8, max_depth=4, random_state=0).fit(X[::2], y[::2])
    model = at.make_anytime(trees, costs=costs)
    expected = [float(np.mean(answer.cost)) for answer in model.stages(X[1::2])][1:]
    model.plan_ = replace(model.plan_, expected_costs=np.array(expected))
    return model.set_params(meter="expected"), X[1::2], y[1::2]


def with_plan(model, **changes):
    """A copy whose plan is changed."""
    other = copy.copy(model)
    other.plan_ = replace(model.plan_, **changes)
    return other


def test_a_budget_is_what_rows_pay_on_average(forest):
    model, X, _ = forest
    for stage, mean in enumerate(model.plan_.expected_costs, start=1):
        answer = model.answer(X, budget=mean)
        assert (answer.stage == stage).all()
        assert np.mean(answer.cost) == pytest.approx(mean)
        assert (model.answer(X, budget=mean - 0.01).stage < stage).all()
    single = model.answer(X, budget=model.plan_.expected_costs[3]).cost
    assert single.max() > model.plan_.expected_costs[3] > single.min()


def test_one_row_a_session_and_a_batch_stop_after_the_same_stage(forest):
    model, X, _ = forest
    budget = float(model.plan_.expected_costs[2])
    batch = model.predict(X[:40], budget=budget)
    assert [model.predict_one(x, budget=budget) for x in X[:40]] == list(batch)
    session = at.Session(model)
    for x, label in zip(X[:10], batch[:10], strict=True):
        answer = session.predict(x, budget=budget)
        assert (answer.prediction, answer.stage) == (label, 3)
    assert model.predict_one(X[0]) == model.predict(X[:1])[0]


def test_truncation_drops_stages_beyond_the_mean(forest):
    model, X, _ = forest
    small = model.truncate(float(model.plan_.expected_costs[4]))
    assert small.n_stages_ == 5
    assert_array_equal(small.plan_.expected_costs, model.plan_.expected_costs[:5])
    assert_array_equal(small.predict(X), model.predict(X, budget=float(model.plan_.expected_costs[4])))


def test_a_cap_on_every_row_holds_beside_the_mean(forest):
    model, X, _ = forest
    limited = with_plan(model, limit=20.0)
    answer = limited.answer(X, budget=float(model.plan_.expected_costs[-1]))
    assert answer.cost.max() <= 20.0
    assert (answer.stage < 8).any()


def test_a_file_keeps_expected_costs(forest, tmp_path):
    model, X, _ = forest
    model.save(tmp_path / "forest.anytime")
    again = at.load(tmp_path / "forest.anytime")
    assert_array_equal(again.plan_.expected_costs, model.plan_.expected_costs)
    budget = float(model.plan_.expected_costs[1])
    assert_array_equal(again.predict_proba(X, budget=budget), model.predict_proba(X, budget=budget))


def test_a_file_without_expected_costs_cannot_count_by_them(forest, tmp_path):
    with pytest.raises(ValueError, match="no expected costs"):
        with_plan(forest[0], expected_costs=None).save(tmp_path / "forest.anytime")


def test_a_model_that_never_measured_says_so(forest):
    model, X, _ = forest
    unmeasured = with_plan(model, expected_costs=None)
    for call in (
        lambda: unmeasured.predict(X, budget=3),
        lambda: unmeasured.predict_one(X[0], budget=3),
        lambda: at.Session(unmeasured).predict(X[0], budget=3),
    ):
        with pytest.raises(ValueError, match="needs expected costs"):
            call()


@pytest.mark.parametrize("wrong", [[3.0, 2.0], [-1.0, 2.0], [1.0, np.inf], [np.nan, 1.0], [1.0]])
def test_expected_costs_never_fall(forest, wrong):
    head = forest[0].plan_.head(2)
    with pytest.raises(ValueError, match=r"expected.costs"):
        replace(head, expected_costs=np.array(wrong))


def test_other_prices_forget_the_means(forest):
    plan = forest[0].plan_
    assert plan.with_costs(at.FeatureCosts(np.ones(plan.n_features))).expected_costs is None


def test_curves_of_such_models_are_over_means(forest):
    model, X, y = forest
    curve = at.curve(model, X, y)
    assert curve.meter == "realised"
    plain = at.make_anytime(RandomForestClassifier(3, random_state=0).fit(X, y), costs=model.costs_)
    assert at.curve(plain, X, y).meter == "model"
    assert at.compare({"a": model, "b": plain}, X, y).first.meter == "realised"
    assert at.curve(model, X, y, meter="model").meter == "model"


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
        within = plan.affordable(costs.costs.budget_ticks(mean), "expected")
        assert within >= stage
        assert (plan.expected_costs[:within] <= mean * (1 + 1e-11) + 1e-11).all()
