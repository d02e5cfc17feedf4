"""What group pursuit is held against, as models of their own; and what all of them offer: one constructor, weights by column."""

import inspect

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import anytime as at
from tests.reference.lasso import first_entries, whitened
from tests.reference.linear import plain_answers, random_problem

Regressor, Classifier = at.GroupPursuitRegressor, at.GroupPursuitClassifier


@pytest.fixture(scope="module")
def problem():
    return random_problem(np.random.default_rng(5), [1] * 8, n=80, strength=0.7)


# ---------------------------------------------------------------------- baselines


@pytest.mark.parametrize("selection", ["omp", "forward", "single", "forward_single", "lasso"])
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


def test_the_lasso_buys_in_the_order_of_its_path_and_refits_like_the_others(problem):
    """2.10: the order of first entry on whitened columns, prices in the penalty; weights those of any other order."""
    X, y, _ = problem
    groups = [[0, 1], [2], [3, 4, 5], [6, 7]]
    prices = np.array([2.0, 0.5, 1.0, 3.0])
    names = [f"g{g}" for g in range(4)]
    costs = at.FeatureCosts(
        dict(zip(names, prices, strict=True)), groups=dict(zip(names, groups, strict=True))
    )
    model = Regressor(costs=costs, selection="lasso", l2_regularization=0.0).fit(X, y)
    Z, new = whitened((X - X.mean(axis=0)) / X.std(axis=0), groups)
    target = ((y - y.mean()) / y.std())[:, None]
    largest = max(2 * np.linalg.norm(Z[:, c].T @ target) / p for c, p in zip(new, prices, strict=True))
    entered = first_entries(Z, target, new, prices, largest * np.geomspace(1, 0.01, 100))
    assert (entered > 0).all()
    assert model.order_ == [f"g{g}" for g in np.argsort(-entered, kind="stable")]
    assert model.order_ != Regressor(costs=costs, l2_regularization=0.0).fit(X, y).order_
    bought = [j for name in model.order_[:2] for j in groups[int(name[1:])]]
    assert_allclose(model.predict(X, budget=model.stage_costs_[1]), plain_answers(X, y, bought, X))
    assert model.certificate_.promised(3.0) == 0.0  # nothing is proved of the order


@pytest.mark.parametrize("loss", ["one_vs_all", "log"])
def test_another_loss_takes_the_order_of_least_squares_on_its_first_gradient(problem, loss):
    """For equal shares of two classes the gradients are in proportion to those of squared loss."""
    X, y, _ = problem
    rows, moments = (
        Classifier(selection="lasso", loss=given, l2_regularization=0.1).fit(X, y > np.median(y))
        for given in (loss, "squared")
    )
    assert rows.order_ == moments.order_
    plain = Classifier(loss=loss, l2_regularization=0.1).fit(X, y > np.median(y))
    assert_allclose(rows.predict_proba(X), plain.predict_proba(X), atol=1e-6)  # all is bought in the end


def test_the_order_of_the_lasso_ends_where_held_out_rows_gain_no_more():
    random = np.random.default_rng(0)
    X = random.normal(size=(300, 80))
    y = X[:, 0] + X[:, 1] + random.normal(size=300) > 0
    model = Classifier(selection="lasso", random_state=0).fit(X, y)
    assert {"x0", "x1"} <= set(model.order_[:3])
    assert model.n_stages_ < 80


def test_the_order_of_the_lasso_does_not_go_with_doubling(problem):
    X, y, _ = problem
    with pytest.raises(ValueError, match="has its own order"):
        Regressor(selection="lasso", schedule="doubling", l2_regularization=0.1).fit(X, y)


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
