"""What group pursuit is held against, as models of their own."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Lasso

import anytime as at
from anytime.linear.lasso import LassoPath
from anytime.linear.pursuit import GroupedProblem
from anytime_research.linear.baselines import (
    BestSetRegressor,
    LassoPathClassifier,
    LassoPathRegressor,
    MatchingOracle,
    MatchingPursuitRegressor,
    points_of,
)
from tests.reference.linear import Rows, random_problem

Regressor, Classifier = at.GroupPursuitRegressor, at.GroupPursuitClassifier


@pytest.fixture(scope="module")
def problem():
    return random_problem(np.random.default_rng(5), [1] * 8, n=80, strength=0.7)


def standardised(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


# ---------------------------------------------------------------------- the lasso without refits


def test_stages_of_the_unrefitted_lasso_are_points_of_its_path(problem):
    """Each is scikit-learn's Lasso at the penalty that it meets the optimality conditions of; prices scale the columns."""
    X, y, _ = problem
    costs = np.array([1.0, 2.0, 1.0, 4.0, 1.0, 0.5, 3.0, 1.0])
    model = LassoPathRegressor(costs=costs).fit(X, y)
    Z, t, weights = standardised(X), standardised(y), costs / costs.mean()
    penalties = []
    for stage in range(model.n_stages_):
        answers = model.truncate(model.stage_costs_[stage]).predict(X)
        residual = t - (answers - y.mean()) / y.std()
        penalties.append((np.abs(Z.T @ residual / len(Z)) / weights).max())
        expected = Lasso(penalties[-1], fit_intercept=False, tol=1e-10, max_iter=100_000).fit(Z / weights, t)
        assert_allclose(answers, y.mean() + y.std() * expected.predict(Z / weights), atol=1e-4 * y.std())
    assert (np.diff(penalties) < 0).all()
    assert model.kkt_residual_ <= 1e-6
    refitted = Regressor(costs=costs, selection="lasso", l2_regularization=0.0).fit(X, y)
    shrunk, free = (m.truncate(model.stage_costs_[0]).predict(X).std() for m in (model, refitted))
    assert shrunk < 0.999 * free
    assert model.order_ == refitted.order_


def test_each_stage_is_the_least_penalised_point_of_its_groups():
    """Orthogonal columns: soft thresholds of 0.8, 0.5 and 0.2, each stage just above the entry of the next."""
    model = LassoPathRegressor().fit_moments(np.eye(3), [0.8, 0.5, 0.2])
    first, second, third = (model.truncate(cost).coef_ for cost in (1.0, 2.0, 3.0))
    step = (1e-4) ** (1 / 199)  # of the grid of penalties
    assert_array_equal(first[1:], 0.0)
    assert 0.5 <= 0.8 - first[0] <= 0.5 / step
    assert second[2] == 0.0
    assert 0.2 <= 0.8 - second[0] <= 0.2 / step
    assert_allclose(second[0] - second[1], 0.3, atol=1e-6)
    assert_allclose(third, [0.8, 0.5, 0.2], atol=1e-4)  # the end of the path


def test_a_group_that_leaves_the_path_stays_paid_for():
    """Group 1 enters first and is gone when group 0 is there; group 2 is never in use."""
    coefficients = np.array(
        [[0, 0, 0, 0], [0, 0.3, 0, 0], [0, 0.4, 0, 0], [0.5, 0, 0.6, 0], [0.7, 0, 0.8, 0]]
    )
    active = np.array([[0, 0, 0], [0, 1, 0], [0, 1, 0], [1, 0, 0], [1, 0, 0]], dtype=bool)
    path = points_of(
        LassoPath(
            lambdas=np.geomspace(1.0, 0.1, 5),
            coefficients=coefficients[:, [0, 2, 1, 3], None],  # group 0 has two columns
            active=active,
            order=np.array([1, 0, 2]),
            entered=np.array([0.3, 0.8, 0.0]),
            violation=np.zeros(5),
        ),
        np.array([0, 2, 3, 4]),
    )
    assert path.columns.tolist() == [2, 0, 1]
    assert path.ends.tolist() == [1, 3]
    assert [table[:, 0].tolist() for table in path.coefficients] == [[0.4], [0.0, 0.7, 0.8]]


def test_the_unrefitted_lasso_is_a_model_like_others(problem):
    X, y, _ = problem
    groups = {"a": [0, 1, 2], "b": [3, 4], "c": [5], "d": [6, 7]}
    costs = at.FeatureCosts({"a": 2.0, "b": 0.0, "c": 1.0, "d": 3.0}, groups=groups, unit="ms")
    model = LassoPathRegressor(costs=costs).fit(X, np.column_stack([y, X[:, 5]]))
    assert model.certificate_ is None
    assert_array_equal(model.l2_regularization_, 0.0)
    assert model.stage_costs_[0] == 0.0  # what is free is in use from the start
    again = pickle.loads(pickle.dumps(model))
    assert again.kkt_residual_ == model.kkt_residual_
    for budget in (0.0, 1.5, 6.0):
        assert_array_equal(again.predict(X, budget=budget), model.predict(X, budget=budget))
    stream = LassoPathRegressor(costs=costs)
    stream.partial_fit(X[:30], np.column_stack([y, X[:, 5]])[:30]).partial_fit(
        X[30:], np.column_stack([y, X[:, 5]])[30:]
    )
    assert_allclose(stream.predict(X), model.predict(X), atol=1e-6)
    assert at.curve(LassoPathRegressor(costs=costs).fit(X, y), X, y).values[-1] > 0.5


def test_where_nothing_enters_there_is_still_a_stage(problem):
    X, _, _ = problem
    model = LassoPathRegressor().fit(X, np.full(len(X), 7.0))
    assert model.n_stages_ == 1
    assert_allclose(model.predict(X), 7.0)


def test_the_path_of_a_classifier_ends_next_to_no_penalty(problem):
    X, y, _ = problem
    with pytest.raises(ValueError, match="is for squared loss"):
        LassoPathClassifier().fit(X, y > 0)
    labelled = LassoPathClassifier(loss="squared").fit(X, y > 0)
    plain = Classifier(l2_regularization=0.0, loss="squared").fit(X, y > 0)
    assert (labelled.predict(X) == plain.predict(X)).mean() > 0.97


# ---------------------------------------------------------------------- the other baselines


def test_the_exhaustive_optimum_is_the_best_at_its_budget(problem):
    X, y, _ = problem
    costs = np.array([9.0, 1.0, 5.0, 1.0, 7.0, 2.0, 3.0, 8.0])
    for budget in (4.0, 10.0, 20.0):
        best = BestSetRegressor(costs=costs, budget=budget, l2_regularization=0.01).fit(X, y).certificate_
        assert best.reached(budget) == pytest.approx(best.ceiling(budget))
        for rival in (
            Regressor(costs=costs, l2_regularization=0.01),
            Regressor(costs=costs, selection="forward", l2_regularization=0.01),
            Regressor(costs=costs, selection="lasso", l2_regularization=0.01),
            MatchingPursuitRegressor(costs=costs, l2_regularization=0.01),
        ):
            other = rival.fit(X, y).certificate_
            assert other.reached(budget) <= best.reached(budget) + 1e-12
            assert other.ceiling(budget) == pytest.approx(best.reached(budget))


@pytest.mark.parametrize("kind", [LassoPathRegressor, BestSetRegressor])
def test_an_order_of_its_own_does_not_go_with_doubling(problem, kind):
    X, y, _ = problem
    with pytest.raises(ValueError, match="has an order of its own"):
        kind(schedule="doubling", budget=2.0).fit(X, y)


def moments_of(X, y, sizes, l2_regularization=0.0):
    """A problem of standardised columns, group by group."""
    Z, target = standardised(X), standardised(y)
    start = np.concatenate([[0], np.cumsum(sizes)])
    return GroupedProblem.from_moments(
        Z.T @ Z / len(Z), (Z.T @ target / len(Z))[:, None], start, l2_regularization, whitened=True
    )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("l2_regularization", [0.0, 0.3])
def test_matching_pursuit_scores_by_what_was_left_when_a_group_was_bought(seed, l2_regularization):
    X, y, groups = random_problem(np.random.default_rng(seed), [2, 1, 3, 2])
    rows = Rows(X, y, groups, l2_regularization=l2_regularization)
    oracle = MatchingOracle(moments_of(X[:, np.concatenate(groups)], y, [2, 1, 3, 2], l2_regularization))
    chosen = []
    for element in (1, 3, 0):
        left = [g for g in range(4) if g not in chosen]
        expected = [rows.joint_score(chosen, [g], "mp") for g in left]
        assert_allclose(oracle.gains(np.array(left)), expected, rtol=1e-8, atol=1e-12)
        oracle.add(element)
        chosen.append(element)


def test_matching_pursuit_is_a_model_like_others(problem):
    X, y, _ = problem
    model = MatchingPursuitRegressor(l2_regularization=0.01).fit(X, y)
    assert model.n_stages_ == 8
    assert model.certificate_.promised(4.0) == 0.0  # nothing is proved of the order
    assert_allclose(model.predict(X), Regressor(l2_regularization=0.01).fit(X, y).predict(X))
