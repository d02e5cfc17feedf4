"""Stages are combined in one place: many rows, few rows, one row and a session give the same bits under any bound."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor

import anytime as at
from anytime.engine import Run, combined
from anytime.forest_run import ForestRun, start

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 6)).round(2)
CLASSES = (X[:, 0] + X[:, 1] > 0).astype(int) + (X[:, 2] > 1)
PRICES = [1.0, 2.0, 0.5, 3.0, 1.5, 0.0]


@pytest.fixture(scope="module")
def models():
    forest = RandomForestClassifier(12, max_depth=4, random_state=0)
    values = RandomForestRegressor(12, max_depth=4, random_state=0)
    boosted = GradientBoostingClassifier(n_estimators=12, random_state=0)
    costs = at.FeatureCosts(PRICES)

    def imported(model, y):
        return at.make_anytime(model.fit(X, y), costs=costs, evaluation_cost=0.1)

    return {
        "mean of several": imported(forest, CLASSES),
        "mean of one": imported(values, X[:, 0] - X[:, 3]),
        "sum of one": imported(boosted, CLASSES > 0),
        "replacing": at.GroupPursuitClassifier(costs=costs).fit(X, CLASSES > 0),
    }


@pytest.mark.parametrize("meter", ["model", "realised"])
@pytest.mark.parametrize("name", ["mean of several", "mean of one", "sum of one", "replacing"])
def test_one_row_has_the_answer_of_many(models, name, meter):
    model = models[name].set_params(meter=meter)
    whole = float(model.stage_costs_[-1])
    for budget in (None, 0.0, 0.3 * whole, 0.7 * whole, whole, 2 * whole):
        for mean_budget in (None, 0.5 * whole):
            bounds = {"budget": budget, "mean_budget": mean_budget}
            expected = model.predict(X[:40], **bounds)
            assert [model.predict_one(x, **bounds) for x in X[:40]] == expected.tolist(), bounds
            assert [model.predict_one(x, deadline=100, **bounds) for x in X[:40]] == expected.tolist()


@pytest.mark.parametrize("limit", [0.4, 1.0])
def test_one_row_of_a_truncated_model_stays_within_its_limit(models, limit):
    model = models["sum of one"].set_params(meter="realised")
    small = model.truncate(budget=limit * float(model.stage_costs_[-1]))
    assert [small.predict_one(x) for x in X[:40]] == small.predict(X[:40]).tolist()


@pytest.mark.parametrize("name", ["mean of several", "mean of one", "sum of one"])
@pytest.mark.parametrize("n", [1, 3, 120])
def test_the_quick_way_for_a_forest_has_the_bits_of_a_run(models, name, n):
    plan = models[name].plan_
    quick, run = start(plan, X[:n]), Run(plan, X[:n])
    assert isinstance(quick, ForestRun)
    for until in (0, 3, plan.n_stages):
        limit = np.full(n, until, dtype=np.int32)
        quick.advance(limit)
        run.advance(limit)
        assert_array_equal(quick.scores(), run.scores())
        assert_array_equal(quick.done, run.done)


@pytest.mark.parametrize("name", ["mean of several", "sum of one"])
def test_scores_that_lie_ahead_are_those_that_come(models, name):
    plan = models[name].plan_
    run = Run(plan, X[:1], metered=True)
    run.advance(2)
    ahead = run.scores_ahead(0, plan.n_stages)
    for scores in ahead:
        run.advance(int(run.done[0]) + 1)
        np.testing.assert_allclose(run.scores()[0], scores, rtol=1e-12)


def test_a_mean_of_no_stage_is_the_base():
    base = np.array([0.25, 0.75])
    assert_array_equal(combined(np.zeros(2), 0, base, True), base)
    counts = np.array([[0], [2]])
    assert_array_equal(combined(np.array([[0.0, 0.0], [1.0, 3.0]]), counts, base, True), [base, [0.5, 1.5]])
