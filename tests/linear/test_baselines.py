"""What group pursuit is held against, as models of their own; and what all of them offer: one constructor, weights by column."""

import inspect

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import anytime as at
from tests.reference.linear import random_problem

Regressor, Classifier = at.GroupPursuitRegressor, at.GroupPursuitClassifier


@pytest.fixture(scope="module")
def problem():
    return random_problem(np.random.default_rng(5), [1] * 8, n=80, strength=0.7)


# ---------------------------------------------------------------------- baselines


@pytest.mark.parametrize("selection", ["omp", "forward", "single", "forward_single"])
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
