"""Costly models of this library's own trees: rows pay for the paths of the last answer (adaptive_approximation 10, 11)."""

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

import anytime as at
from anytime.adaptive import AdaptiveClassifier, LadderClassifier
from anytime.adaptive.stages import Chain, bills
from anytime.trees.block import TreeBlock


def rows():
    X, y = make_classification(900, 10, n_informative=5, n_redundant=0, random_state=0)
    return X[:600], y[:600], X[600:], y[600:]


def pruned(X, y):
    forest = RandomForestClassifier(20, max_depth=6, random_state=0).fit(X, y)
    return at.prune_forest(forest, X, y, budget=6.0)


def budgeted(X, y):
    return at.BudgetForestClassifier(n_trees=10, random_state=0).fit(X, y)


def boosted(X, y):
    return at.GradientBoostingClassifier(n_stages=20).fit(X, y)


@pytest.mark.parametrize("make", [pruned, budgeted, boosted])
def test_a_costly_model_of_trees_is_asked_along_its_paths(make):
    X, y, X_test, _ = rows()
    costly = make(X, y)
    model = AdaptiveClassifier(
        costly, costly_proba="insample", gamma=10.0, n_trees=2, validation_fraction=None
    )
    model.fit(X, y)
    last = model.plan_.blocks[-1]
    assert isinstance(last, TreeBlock)
    said = last.outputs(0, X_test)[:, 0] > 0
    np.testing.assert_array_equal(said, costly.predict(X_test) == 1)


def test_rows_pay_what_a_pruned_forest_reads():
    X, y, X_test, _ = rows()
    costly = pruned(X, y)
    plan = (
        LadderClassifier(costly, costly_proba="insample", n_trees=5, n_exits=2, tolerance=0.0).fit(X, y).plan_
    )
    alone = Chain([], plan.blocks[-1]).plan(plan.costs, plan.base, plan.link)
    np.testing.assert_array_equal(bills(alone, X_test)[-1], costly.cost(X_test))
    assert 0 < costly.cost(X_test).mean() < 10


def test_a_model_that_its_budget_cuts_short_is_not_taken_apart():
    X, y, X_test, _ = rows()
    short = boosted(X, y).truncate(3.0)
    model = AdaptiveClassifier(FrozenEstimator(short), gamma=10.0, n_trees=2, validation_fraction=None).fit(
        X, y
    )
    said = model.plan_.blocks[-1].outputs(0, X_test)[:, 0] > 0
    np.testing.assert_array_equal(said, short.predict(X_test) == 1)
