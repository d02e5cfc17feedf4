"""A curve shows what ``predict`` gives at every budget, whatever the model counts by, in a pipeline too."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import anytime as at
from tests.runtime.bench import model_of
from tests.test_branches import golden


@pytest.fixture(scope="module")
def cells():
    X, y, costs = at.datasets.load("breast_cancer")
    return np.asarray(X)[::2], y[::2], np.asarray(X)[1::2], y[1::2], costs


@pytest.fixture(scope="module")
def forest(cells):
    X, y, _, _, costs = cells
    trees = RandomForestClassifier(8, max_depth=4, random_state=0).fit(X, y)
    return at.make_anytime(trees, costs=costs)


@pytest.mark.parametrize("meter", ["model", "realised"])
def test_a_curve_is_what_every_budget_gives(cells, forest, meter):
    """Whole prices: the curve has all budgets at which something changes."""
    _, _, X, y, costs = cells
    model = at.make_anytime(
        RandomForestClassifier(8, max_depth=4, random_state=0).fit(*cells[:2]), costs=costs
    )
    model.set_params(meter=meter)
    curve = at.curve(model, X, y)
    assert curve.meter == ("budget" if meter == "realised" else "model")
    for budget in (0, 3.9, 10, 25, 40, 55.5, 99, 1000):
        assert curve.at(budget) == model.score(X, y, budget=budget)
        paid = model.cost(X, budget=curve.costs[curve.position(budget)])
        assert np.asarray(curve.realised_costs)[curve.position(budget)] == pytest.approx(paid.mean())
    assert curve.final == model.score(X, y)


def test_many_prices_give_some_budgets_each_of_which_holds(cells):
    X, y, X_test, y_test, _ = cells
    trees = RandomForestClassifier(8, random_state=0).fit(X, y)
    model = at.make_anytime(trees, costs=np.random.default_rng(0).uniform(1, 2, X.shape[1]))
    curve = at.curve(model, X_test, y_test)
    assert len(curve) == 64
    for j in (0, 7, 31, 63):
        assert curve.values[j] == model.score(X_test, y_test, budget=curve.costs[j])


def test_a_curve_tells_branches_apart_and_counts_what_each_budget_buys():
    X = np.ones((4, 3))
    model = model_of(golden("b", "ab", "bc"))
    curve = at.curve(model, X, np.arange(4.0))
    answers = [model.answer(X[:1], budget=budget) for budget in curve.costs]
    assert curve.has_branches
    bought = [{p.group for p, has in zip(curve.purchases, some, strict=True) if has} for some in curve.bought]
    assert bought == [set(answer.groups) for answer in answers]
    table = curve.to_frame()
    assert table["groups"].tolist() == [len(answer.groups) for answer in answers]
    assert table["branch"].tolist() == [int(np.max(answer.branch)) for answer in answers]
    assert table["stage"].tolist() == [int(np.max(answer.stage)) for answer in answers]
    assert len(table[["stage", "branch"]].drop_duplicates()) == len(table)
    first = {
        p.group: curve.costs[(curve.stages == p.stage) & (curve.branches == p.branch)].item()
        for p in curve.purchases
    }
    assert first == {"a": 1, "b": 4, "c": 6}


def test_families_for_a_mean_are_judged_by_it(cells, forest):
    X, y, X_test, y_test, costs = cells
    settings = {"alpha": 4, "cost_weighted": 0.1, "random_state": 0}
    mean = at.BudgetForestClassifier(costs=costs, mean_budget=30, **settings).fit(X, y)
    curve, means = at.curve(mean, X_test, y_test), mean.plan_.expected_costs
    assert curve.meter == "realised"
    for budget in means:
        stage = np.searchsorted(means, budget, side="right")
        assert curve.values[stage] == mean.score(X_test, y_test, mean_budget=budget)
        paid = mean.cost(X_test, mean_budget=budget).mean()
        assert curve.costs[stage] == pytest.approx(paid)
    assert at.curve(forest, X_test, y_test).meter == "budget"
    assert at.compare({"a": mean, "b": forest}, X_test, y_test).first.meter == "realised"


def test_models_of_both_meters_are_compared_at_the_same_budgets(cells, forest):
    X, y, X_test, y_test, costs = cells
    by_stage = at.GroupPursuitClassifier(costs=costs, random_state=0).fit(X, y)
    compared = at.compare({"pursuit": by_stage, "forest": forest}, X_test, y_test)
    assert compared.first.meter == "budget"
    for budget in (10, 30, 70):
        assert compared.curves["pursuit"].at(budget) == by_stage.score(X_test, y_test, budget=budget)
        assert compared.curves["forest"].at(budget) == forest.score(X_test, y_test, budget=budget)


def test_a_pipeline_and_a_search_have_the_curve_of_their_model(cells):
    X, y, X_test, y_test, costs = cells
    pipeline = make_pipeline(StandardScaler(), at.GroupPursuitClassifier(costs=costs, random_state=0)).fit(
        X, y
    )
    curve = at.curve(pipeline, X_test, y_test)
    alone = at.curve(pipeline[-1], pipeline[:-1].transform(X_test), y_test)
    assert_array_equal(curve.values, alone.values)
    assert_array_equal(curve.costs, alone.costs)
    assert curve.final == pipeline.score(X_test, y_test)
    assert curve.at(40) == pipeline[-1].score(pipeline[:-1].transform(X_test), y_test, budget=40)
    search = GridSearchCV(pipeline, {"grouppursuitclassifier__selection": ["omp"]}, cv=2).fit(X, y)
    compared = at.compare({"search": search, "pipeline": pipeline}, X_test, y_test)
    assert_array_equal(compared.curves["search"].values, curve.values)
    with pytest.raises(ValueError, match="full_cost"):
        at.curve(make_pipeline(StandardScaler(), RandomForestClassifier(2)).fit(X, y), X_test, y_test)
