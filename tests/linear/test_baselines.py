"""What group pursuit is held against, as models of their own; and what all of them offer: one constructor, weights by column."""

import inspect

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Lasso

import anytime as at
from anytime.linear.lasso import LassoPath
from anytime.linear.sequencing import points_of
from tests.reference.linear import random_problem

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
    model = Regressor(costs=costs, selection="lasso", refit=False).fit(X, y)
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
    model = Regressor(selection="lasso", refit=False).fit_moments(np.eye(3), [0.8, 0.5, 0.2])
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


def test_the_unrefitted_lasso_is_a_model_like_others(problem, tmp_path):
    X, y, _ = problem
    groups = {"a": [0, 1, 2], "b": [3, 4], "c": [5], "d": [6, 7]}
    costs = at.FeatureCosts({"a": 2.0, "b": 0.0, "c": 1.0, "d": 3.0}, groups=groups, unit="ms")
    model = Regressor(costs=costs, selection="lasso", refit=False).fit(X, np.column_stack([y, X[:, 5]]))
    assert model.certificate_ is None
    assert_array_equal(model.l2_regularization_, 0.0)
    assert model.stage_costs_[0] == 0.0  # what is free is in use from the start
    model.save(tmp_path / "m.anytime")
    again = at.load(tmp_path / "m.anytime")
    assert again.refit is False
    assert again.kkt_residual_ == model.kkt_residual_
    for budget in (0.0, 1.5, 6.0):
        assert_array_equal(again.predict(X, budget=budget), model.predict(X, budget=budget))
    stream = Regressor(costs=costs, selection="lasso", refit=False)
    stream.partial_fit(X[:30], np.column_stack([y, X[:, 5]])[:30]).partial_fit(
        X[30:], np.column_stack([y, X[:, 5]])[30:]
    )
    assert_allclose(stream.predict(X), model.predict(X), atol=1e-6)
    assert at.curve(Regressor(costs=costs, selection="lasso", refit=False).fit(X, y), X, y).values[-1] > 0.5


def test_where_nothing_enters_there_is_still_a_stage(problem):
    X, _, _ = problem
    model = Regressor(selection="lasso", refit=False).fit(X, np.full(len(X), 7.0))
    assert model.n_stages_ == 1
    assert_allclose(model.predict(X), 7.0)


def test_refit_false_is_for_the_lasso_and_squared_loss(problem):
    X, y, _ = problem
    with pytest.raises(
        ValueError, match="selection='omp' chooses an order, not weights; refit=False goes with 'lasso'"
    ):
        Regressor(refit=False, l2_regularization=0.1).fit(X, y)
    with pytest.raises(
        ValueError, match="refit=False is for squared loss with an intercept and no norm_bound"
    ):
        Regressor(selection="lasso", refit=False, loss="huber", l2_regularization=0.1).fit(X, y)
    with pytest.raises(ValueError, match="refit=False is for squared loss"):
        Classifier(selection="lasso", refit=False, l2_regularization=0.1).fit(X, y > 0)
    labelled = Classifier(selection="lasso", refit=False, loss="squared").fit(X, y > 0)
    plain = Classifier(l2_regularization=0.0, loss="squared").fit(X, y > 0)
    assert (labelled.predict(X) == plain.predict(X)).mean() > 0.97  # the path ends next to no penalty


# ---------------------------------------------------------------------- the other baselines


@pytest.mark.parametrize("selection", ["omp", "forward", "single", "forward_single", "mp", "lasso"])
def test_a_cost_blind_twin_has_the_order_of_equal_prices_and_pays_the_real_ones(problem, selection):
    X, y, _ = problem
    costs = np.array([9.0, 1.0, 5.0, 1.0, 7.0, 2.0, 3.0, 8.0])
    blind = Regressor(costs=costs, selection=selection, cost_aware=False, l2_regularization=0.01).fit(X, y)
    even = Regressor(costs=np.ones(8), selection=selection, l2_regularization=0.01).fit(X, y)
    assert blind.order_ == even.order_
    paid = np.cumsum([costs[int(name[1:])] for name in blind.order_])
    assert_allclose(blind.stage_costs_, paid)
    for budget, count in ((paid[0], 1.0), (paid[3], 4.0)):
        assert_allclose(blind.predict(X, budget=budget), even.predict(X, budget=count))


def test_the_exhaustive_optimum_is_the_best_at_its_budget(problem):
    X, y, _ = problem
    costs = np.array([9.0, 1.0, 5.0, 1.0, 7.0, 2.0, 3.0, 8.0])
    for budget in (4.0, 10.0, 20.0):
        best = (
            Regressor(costs=costs, selection="exhaustive", budget=budget, l2_regularization=0.01)
            .fit(X, y)
            .certificate_
        )
        assert best.reached(budget) == pytest.approx(best.ceiling(budget))
        for selection in ("omp", "forward", "lasso"):
            other = Regressor(costs=costs, selection=selection, l2_regularization=0.01).fit(X, y).certificate_
            assert other.reached(budget) <= best.reached(budget) + 1e-12
            assert other.ceiling(budget) == pytest.approx(best.reached(budget))


@pytest.mark.parametrize("selection", ["omp", "forward"])
def test_both_oracles_are_curves_that_bound_their_source(problem, selection):
    X, y, _ = problem
    costs = np.array([9.0, 1.0, 5.0, 1.0, 7.0, 2.0, 3.0, 8.0])
    curve = at.curve(Regressor(costs=costs, selection=selection, l2_regularization=0.01).fit(X, y), X, y)
    oracle = curve.oracle()
    assert oracle.timeliness() >= curve.timeliness()
    assert oracle.total_cost == curve.total_cost
    assert not hasattr(oracle, "predict")


# ---------------------------------------------------------------------- one constructor, weights by column


def test_the_classifier_has_the_parameters_of_the_regressor_and_class_weight(problem):
    X, y, _ = problem
    mine, other = (inspect.signature(kind).parameters for kind in (Regressor, Classifier))
    assert dict(mine) == {name: value for name, value in other.items() if name != "class_weight"}
    assert Regressor().loss == Classifier().loss == "auto"
    for model, named in (
        (Regressor(l2_regularization=0.1), Regressor(loss="squared", l2_regularization=0.1)),
        (Classifier(l2_regularization=0.1), Classifier(loss="log", l2_regularization=0.1)),
    ):
        target = y if model.__class__ is Regressor else y > 0
        assert_array_equal(model.fit(X, target).predict(X), named.fit(X, target).predict(X))
    assert hasattr(Regressor(), "partial_fit")
    assert not hasattr(Classifier(), "partial_fit")  # log loss needs the rows


def test_coef_and_intercept_are_those_of_the_last_stage(problem):
    X, y, _ = problem
    X = 3.0 * X + 10.0
    one = Regressor(l2_regularization=0.1).fit(X, y)
    assert one.coef_.shape == (8,)
    assert_allclose(X @ one.coef_ + one.intercept_, one.predict(X))
    shorter = one.truncate(3.0)
    assert np.count_nonzero(shorter.coef_) == 3
    assert_allclose(X @ shorter.coef_ + shorter.intercept_, one.predict(X, budget=3.0))
    nothing = one.truncate(0.0)
    assert_array_equal(nothing.coef_, 0.0)
    assert nothing.intercept_ == pytest.approx(y.mean())
    two = Regressor(l2_regularization=0.1).fit(X, np.column_stack([y, -y]))
    assert two.coef_.shape == (2, 8)
    assert_allclose(X @ two.coef_.T + two.intercept_, two.predict(X))
    labels = np.digitize(y, np.quantile(y, [0.3, 0.7]))
    binary, three = (Classifier(l2_regularization=0.1).fit(X, t) for t in (y > 0, labels))
    assert (binary.coef_.shape, three.coef_.shape) == ((1, 8), (3, 8))
    chances = 1 / (1 + np.exp(-(X @ binary.coef_[0] + binary.intercept_[0])))
    assert_allclose(binary.predict_proba(X)[:, 1], chances)
    assert_array_equal((X @ three.coef_.T + three.intercept_).argmax(axis=1), three.predict(X))
    stream = Regressor(l2_regularization=0.1).partial_fit(X, y)
    assert_allclose(stream.coef_, one.coef_)
    with pytest.raises(AttributeError):
        Regressor().coef_  # noqa: B018
