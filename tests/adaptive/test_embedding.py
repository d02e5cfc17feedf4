"""Costly models of this library's own trees: rows pay for the paths of the last answer (adaptive_approximation 10, 11)."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

import anytime as at
from anytime.adaptive import AdaptiveClassifier, LadderClassifier
from anytime.adaptive.stages import Chain, bills
from anytime.losses import LINKS
from anytime.trees.block import TreeBlock


def rows(n_classes=2):
    X, y = make_classification(900, 10, n_informative=5, n_redundant=0, n_classes=n_classes, random_state=0)
    return X[:600], y[:600], X[600:], y[600:]


def pruned(X, y):
    forest = RandomForestClassifier(20, max_depth=6, random_state=0).fit(X, y)
    return at.prune_forest(forest, X, y, mean_budget=6.0)


def refitted(X, y):
    """Its leaves are learned anew, and may say less than 0 or more than 1."""
    forest = RandomForestClassifier(20, max_depth=6, random_state=0).fit(X, y)
    return at.prune_forest(forest, X, y, mean_budget=4.0, X_train=X, y_train=y)


def budgeted(X, y):
    return at.BudgetForestClassifier(n_estimators=10, random_state=0).fit(X, y)


def boosted(X, y):
    return at.GradientBoostingClassifier(n_estimators=20).fit(X, y)


@pytest.mark.parametrize("make", [pruned, refitted, budgeted, boosted])
def test_a_costly_model_of_trees_is_asked_along_its_paths(make):
    X, y, X_test, _ = rows()
    costly = make(X, y)
    model = AdaptiveClassifier(
        costly, proba_source="insample", cost_penalty=10.0, n_estimators=2, validation_fraction=None
    )
    model.fit(X, y)
    last = model.plan_.blocks[-1]
    assert isinstance(last, TreeBlock)
    said = last.outputs(0, X_test)[:, 0] > 0
    np.testing.assert_array_equal(said, costly.predict(X_test) == 1)


@pytest.mark.parametrize("make", [pruned, refitted])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_scores_are_one_multiple_of_the_chances_of_a_forest(make, n_classes):
    X, y, X_test, _ = rows(n_classes)
    costly = make(X, y)
    model = AdaptiveClassifier(
        costly, proba_source="insample", cost_penalty=10.0, n_estimators=2, validation_fraction=None
    ).fit(X, y)
    scores, probabilities = model.plan_.blocks[-1].outputs(0, X_test), costly.predict_proba(X_test)
    said = probabilities[:, 1:] - probabilities[:, :1] if n_classes == 2 else probabilities
    inside = ((probabilities > 0) & (probabilities < 1)).all(axis=1)
    assert inside.all() == (make is pruned)
    slope = float((scores[inside] * said[inside]).sum() / (said[inside] ** 2).sum())
    assert slope > 1
    low, high = (-1.0, 1.0) if n_classes == 2 else (0.0, 1.0)
    within = np.clip(scores / slope, low, high)
    if n_classes == 3:
        within /= within.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(within, said, atol=1e-9)


def test_trees_for_one_class_each_are_asked_as_they_are():
    X, y, X_test, _ = rows()
    costly = at.GradientBoostingClassifier(n_estimators=5, loss="least_squares").fit(X, y)
    model = AdaptiveClassifier(
        FrozenEstimator(costly), cost_penalty=10.0, n_estimators=2, validation_fraction=None
    ).fit(X, y)
    probabilities = LINKS["logistic"].transform(model.plan_.blocks[-1].outputs(0, X_test))
    np.testing.assert_allclose(probabilities, costly.predict_proba(X_test), atol=1e-9)


@pytest.mark.parametrize("make", [pruned, refitted])
def test_rows_pay_what_a_pruned_forest_reads(make):
    X, y, X_test, _ = rows()
    costly = make(X, y)
    plan = (
        LadderClassifier(costly, proba_source="insample", n_estimators=5, max_stages=3, tolerance=0.0)
        .fit(X, y)
        .plan_
    )
    alone = Chain([], plan.blocks[-1]).plan(plan.costs, plan.base, plan.link)
    np.testing.assert_array_equal(bills(alone, X_test)[-1], costly.cost(X_test))
    assert 0 < costly.cost(X_test).mean() < 10


def test_a_model_that_its_budget_cuts_short_is_not_taken_apart():
    X, y, X_test, _ = rows()
    short = boosted(X, y).truncate(3.0)
    model = AdaptiveClassifier(
        FrozenEstimator(short), cost_penalty=10.0, n_estimators=2, validation_fraction=None
    ).fit(X, y)
    said = model.plan_.blocks[-1].outputs(0, X_test)[:, 0] > 0
    np.testing.assert_array_equal(said, short.predict(X_test) == 1)
