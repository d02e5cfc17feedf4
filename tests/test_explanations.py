"""What moved an answer, and which groups a budget lives on."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anytime as at
from tests.runtime.bench import model_of
from tests.test_branches import golden


@cache
def classifier():
    X, y, costs = at.datasets.load("breast_cancer")
    return at.SpeedBoostClassifier(costs=costs, n_estimators=20, random_state=0).fit(X, y), X, y


@cache
def regressor():
    X, y, costs = at.datasets.load("diabetes")
    return at.GradientBoostingRegressor(costs=costs, n_estimators=20, random_state=0).fit(X, y), X, y


@pytest.mark.parametrize("fitted", [classifier, regressor])
@given(row=st.integers(0, 400))
def test_changes_add_up_to_the_last_answer_and_costs_to_what_was_paid(fitted, row):
    model, X, _ = fitted()
    path = at.explain(model, X[row])
    assert path.base + sum(step.change for step in path.steps) == pytest.approx(path.value)
    assert sum(step.cost for step in path.steps) == pytest.approx(model.cost(X[[row]])[0])
    last = model.answer(X[[row]])
    told = (
        last.prediction[0] if path.label is None else last.probabilities[0][model.classes_ == path.label][0]
    )
    assert path.value == pytest.approx(told)


@given(row=st.integers(0, 400), budget=st.floats(0, 120))
def test_a_budget_ends_the_path_where_it_ends_the_purchases(row, budget):
    model, X, _ = classifier()
    path = at.explain(model, X[row], budget=budget)
    assert sum(step.cost for step in path.steps) <= budget
    if np.all(model.answer(X[[row]], budget=budget).branch < 0):  # a branch has stages of its own
        assert path.steps == at.explain(model, X[row], label=path.label).steps[: len(path.steps)]


def test_no_group_is_bought_twice_and_purchases_keep_every_change():
    model, X, _ = classifier()
    path = at.explain(model, X[3])
    names = [name for step in path.steps for name in step.groups]
    assert len(names) == len(set(names))
    assert sum(change for _, _, change in path.by_purchase()) == pytest.approx(path.value - path.base)
    assert str(path).count("\n") == len(path.by_purchase())
    start, *lines = path.table()
    assert start == {"bought": None, "cost": 0.0, "change": 0.0, "value": path.base}
    assert lines[-1]["value"] == pytest.approx(path.value)
    assert lines[-1]["cost"] == pytest.approx(model.cost(X[[3]])[0])


@cache
def acquirer():
    X, y, costs = at.datasets.load("breast_cancer")
    model = at.AcquisitionClassifier(costs=costs, hidden_layer_sizes=(8, 8), folds=2, random_state=0)
    return model.fit(X, y), X, y


@pytest.mark.parametrize("fitted", [classifier, acquirer])
@pytest.mark.parametrize("budget", [0, 7, 25, 60])
def test_a_path_within_a_budget_ends_at_the_answer_of_that_budget(fitted, budget):
    model, X, _ = fitted()
    for row in X[:6]:
        path, answer = at.explain(model, row, budget=budget), model.answer(row[None], budget=budget)
        assert path.label == answer.prediction[0]
        assert path.value == pytest.approx(answer.probabilities.max())
        assert sum(step.cost for step in path.steps) == pytest.approx(answer.cost[0])


def test_a_path_goes_by_the_branch_that_answers_within_the_budget():
    chain, branched = model_of(golden()), model_of(golden("b", "ab", "bc"))
    for budget, without, best in [(4, 5, 6), (5, 5, 11), (6, 14, 14), (9, 14, 15), (10, 20, 20)]:
        assert at.explain(branched, np.ones(3), budget=budget).value == best
        assert at.explain(chain, np.ones(3), budget=budget).value == without


def test_a_negative_budget_is_refused():
    model, X, _ = classifier()
    with pytest.raises(ValueError, match="negative"):
        at.explain(model, X[0], budget=-1)


def test_rows_that_decide_for_themselves_have_their_own_purchases():
    model, X, _ = acquirer()
    orders = {tuple(groups for groups, _, _ in at.explain(model, row).by_purchase()) for row in X[:20]}
    assert len(orders) > 1


def test_two_classes_move_against_each_other():
    model, X, _ = classifier()
    first, second = (at.explain(model, X[3], label=label) for label in model.classes_)
    for one, other in zip(first.steps, second.steps, strict=True):
        assert one.change == pytest.approx(-other.change)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"row": slice(0, 2)}, "expected one row, not 2"),
        ({"row": slice(0, 1), "label": "benign"}, "not a class"),
    ],
)
def test_explain_says_what_is_wrong(arguments, message):
    model, X, _ = classifier()
    with pytest.raises(ValueError, match=message):
        at.explain(model, X[arguments["row"]], label=arguments.get("label"))


def test_explain_takes_the_rows_that_predict_one_takes():
    X = pd.DataFrame({"sex": ["female", "male"] * 30, "age": np.arange(60.0)})
    model = at.SpeedBoostClassifier(random_state=0).fit(X, np.where(X.age < 30, "ill", "well"))
    row = X.iloc[3]
    path = at.explain(model, X.iloc[[3]])
    assert path.value == pytest.approx(np.max(model.predict_proba(X.iloc[[3]])))
    for same in (row, row.to_dict(), row.tolist()):
        assert at.explain(model, same) == path
    part = at.explain(model, {"sex": "male"})
    assert not any("age" in step.groups for step in part.steps)


def test_a_group_that_a_budget_does_not_buy_has_no_importance():
    model, X, y = classifier()
    table = at.permutation_importances(model, X, y, budgets=[0, 10, 200], n_repeats=2, random_state=0)
    assert not table.mean[0].any()
    bought = {name for step in at.explain(model, X[0], budget=10).steps for name in step.groups}
    at_ten = dict(zip(table.groups, table.mean[1], strict=True))
    assert all(value == 0 for name, value in at_ten.items() if name not in bought)
    assert max(at_ten.values()) > 0.05  # the control: shuffling what is bought does harm
    assert np.count_nonzero(table.mean[2]) > len(bought)
    assert table.to_frame().shape == (len(table.groups), 3)


def test_importances_of_tables_are_those_of_arrays_and_leave_them_as_they_were():
    pd = pytest.importorskip("pandas")
    model, X, y = regressor()
    frame = pd.DataFrame(X)
    before = frame.copy()
    one = at.permutation_importances(model, X, y, budgets=[200], n_repeats=2, random_state=0)
    other = at.permutation_importances(model, frame, y, budgets=[200], n_repeats=2, random_state=0)
    assert one.mean.any()
    assert np.allclose(one.mean, other.mean)
    assert frame.equals(before)


def test_importances_do_not_depend_on_the_order_of_named_columns():
    pd = pytest.importorskip("pandas")
    X, y, costs = at.datasets.load("diabetes")
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    model = at.GradientBoostingRegressor(costs=costs, n_estimators=20, random_state=0).fit(frame, y)
    one, other = (
        at.permutation_importances(model, table, y, budgets=[200], n_repeats=1, random_state=0)
        for table in (frame, frame[frame.columns[::-1]])
    )
    assert one.mean.any()
    assert np.array_equal(one.mean, other.mean)
