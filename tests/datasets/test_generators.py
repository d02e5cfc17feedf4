from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anytime.datasets import make_priced_classification, make_priced_regression
from anytime_research.datasets.optimum import frontier_of, optimum_of, value_of

MAKERS = [make_priced_regression, make_priced_classification]


def subsets(names):
    return [subset for k in range(len(names) + 1) for subset in combinations(names, k)]


def columns_of(data, groups):
    return [j for group in data.costs.closure(groups) for j in data.costs.groups[group]]


def r_squared(X, y):
    fit = X @ np.linalg.lstsq(X, y, rcond=None)[0] if X.shape[1] else 0 * y
    return 1 - ((y - fit) ** 2).sum() / ((y - y.mean()) ** 2).sum()


@pytest.mark.parametrize("steps", [0, 2])
def test_r_squared_of_every_set_of_groups_is_what_value_says(steps):
    data = make_priced_regression(200, 5, n_steps=steps, random_state=4)
    for groups in subsets(data.costs.names):
        measured = r_squared(data.X[:, columns_of(data, groups)], data.y)
        assert value_of(data, groups) == pytest.approx(measured, abs=1e-10)


def test_coefficients_of_the_full_regression():
    data = make_priced_regression(correlation=0.8, random_state=1)
    assert np.linalg.lstsq(data.X, data.y, rcond=None)[0] == pytest.approx(data.coef)


def test_correlation_is_within_groups_only():
    data = make_priced_regression(n_groups=3, group_size=2, correlation=0.6, random_state=2)
    expected = np.kron(np.eye(3), np.array([[1, 0.6], [0.6, 1]]))
    np.testing.assert_allclose(np.corrcoef(data.X.T), expected, atol=1e-12)


@pytest.mark.parametrize("maker", MAKERS)
@given(seed=st.integers(0, 10**6), steps=st.integers(0, 3), share=st.floats(0, 1.1))
def test_optimum_equals_trying_every_closed_set(maker, seed, steps, share):
    data = maker(60, 5, group_size=2, n_steps=steps, random_state=seed)
    budget = share * data.costs.total
    best = max(value_of(data, s) for s in subsets(data.costs.names) if data.costs.price(s) <= budget)
    found = optimum_of(data, budget)
    assert found.cost <= budget
    assert found.value == pytest.approx(best, abs=1e-12)
    assert value_of(data, found.groups) == pytest.approx(found.value, abs=1e-12)
    assert data.costs.price(found.groups) == found.cost
    assert set(data.costs.closure(found.groups)) == set(found.groups)


@pytest.mark.parametrize("maker", MAKERS)
def test_frontier_rises_and_is_the_optimum_at_its_corners(maker):
    data = maker(n_steps=2, random_state=5)
    costs, values = frontier_of(data)
    assert (np.diff(costs) > 0).all()
    assert (np.diff(values) > 0).all()
    for cost, value in zip(costs[::7], values[::7], strict=True):
        assert optimum_of(data, cost).value == value
        assert optimum_of(data, cost).cost == cost


def test_greedy_by_gain_per_price_misses_the_optimum_somewhere():
    """Negative control: were greedy always best, the optimum would test nothing."""
    gaps = []
    for seed in range(20):
        data = make_priced_regression(60, 6, random_state=seed)
        prices = np.array([data.costs.prices[name] for name in data.costs.names])
        order = np.argsort(-data.strengths / prices)
        spent, bought, budget = 0.0, [], data.costs.total / 3
        for g in order:
            if spent + prices[g] <= budget:
                spent, bought = spent + prices[g], [*bought, data.costs.names[g]]
        gaps.append(optimum_of(data, budget).value - value_of(data, bought))
    assert min(gaps) >= -1e-12
    assert max(gaps) > 0.01


@pytest.mark.parametrize("groups", [["group 0"], ["group 1", "group 4"], [f"group {g}" for g in range(8)]])
def test_the_best_linear_rule_is_as_accurate_as_value_says(groups):
    data = make_priced_classification(40_000, random_state=6)
    columns = columns_of(data, groups)
    accuracy = ((data.X[:, columns] @ data.coef[columns] > 0) == data.y).mean()
    error = np.sqrt(accuracy * (1 - accuracy) / len(data.y))
    assert abs(accuracy - value_of(data, groups)) < 4 * error


def test_no_learned_classifier_beats_the_bayes_accuracy_by_more_than_chance():
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    data = make_priced_classification(20_000, random_state=7)
    best = optimum_of(data, data.costs.total / 2)
    X = data.X[:, columns_of(data, best.groups)]
    accuracy = (
        LinearDiscriminantAnalysis().fit(X[:10_000], data.y[:10_000]).score(X[10_000:], data.y[10_000:])
    )
    assert best.value - 0.02 < accuracy < best.value + 4 * 0.5 / 100


@pytest.mark.parametrize("maker", MAKERS)
def test_a_seed_gives_the_same_bits_and_another_seed_others(maker):
    first, again, other = maker(random_state=1), maker(random_state=1), maker(random_state=2)
    assert (first.X == again.X).all()
    assert (first.y == again.y).all()
    assert first.costs == again.costs
    assert not (first.X == other.X).all()
    X, _, costs = first
    assert costs.bind(X.shape[1]).n_groups == len(costs.names)


@pytest.mark.parametrize("maker", MAKERS)
def test_too_many_groups_to_try_all_of_them(maker):
    with pytest.raises(ValueError, match="21 groups and steps: all sets of at most 20 can be tried"):
        optimum_of(maker(n_groups=20, n_steps=1), 10)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_samples": 20}, "n_samples must be at least 26"),
        ({"noise": 1.0}, "noise and correlation must be in"),
        ({"correlation": -0.1}, "noise and correlation must be in"),
        ({"n_groups": 0}, "at least 1"),
    ],
)
def test_impossible_requests(wrong, message):
    with pytest.raises(ValueError, match=message):
        make_priced_regression(**wrong)


def test_negative_budget_and_negative_separation():
    with pytest.raises(ValueError, match="nothing costs less than 0"):
        optimum_of(make_priced_regression(), -1)
    with pytest.raises(ValueError, match="separation must not be negative"):
        make_priced_classification(separation=-1)
