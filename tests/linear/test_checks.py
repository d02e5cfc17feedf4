"""Both estimators, in several configurations, through scikit-learn's checks and through those of anytime prediction."""

import numpy as np
import pytest

import anytime as at
from anytime.testing import check_anytime_estimator
from tests.reference.linear import random_problem

CONFIGURATIONS = [
    at.GroupPursuitRegressor(random_state=0),
    at.GroupPursuitRegressor(
        selection="forward", schedule="doubling", whiten="criterion", l2_regularization=0.1
    ),
    at.GroupPursuitRegressor(loss="huber", l2_regularization=0.1),
    at.GroupPursuitRegressor(selection="lasso", random_state=0),
    at.GroupPursuitClassifier(l2_regularization=0.01),
    at.GroupPursuitClassifier(loss="squared", random_state=0),
    at.GroupPursuitClassifier(loss="one_vs_all", l2_regularization=0.1),
]


@pytest.mark.parametrize(
    "estimator",
    [
        *CONFIGURATIONS,
        at.GroupPursuitRegressor(
            selection="single", cost_aware=False, l2_regularization=1.0, meter="realised"
        ),
        at.GroupPursuitRegressor(costs=[1, 2, 0, 4, 0.1, 3], whiten=False, l2_regularization=0.0),
        at.GroupPursuitRegressor(costs=[1, 2, 0, 4, 0.1, 3], selection="lasso", l2_regularization=0.1),
        at.GroupPursuitClassifier(selection="lasso", random_state=0),
        at.GroupPursuitRegressor(selection="forward_single", l2_regularization=0.1, norm_bound=0.5),
        at.GroupPursuitRegressor(fit_intercept=False, l2_regularization=0.1),
        at.GroupPursuitClassifier(random_state=0, validation_fraction=0.3, meter="realised"),
        at.GroupPursuitClassifier(loss="squared", l2_regularization=0.01, budget=4.0),
    ],
    ids=lambda e: str(e).replace("\n", ""),
)
def test_anytime_checks(estimator):
    check_anytime_estimator(estimator)


COSTS = at.FeatureCosts(
    {"step": 0.1, "a": 0.2, "b": 3.1, "c": 5.17, "free": 0.0},
    groups={"step": [], "a": [5, 1, 2], "b": [0, 7], "c": [3], "free": [6, 4]},
    requires={"b": ["step"], "c": ["step", "a"]},
    unit="CAD",
)


@pytest.mark.parametrize("meter", ["model", "realised"])
@pytest.mark.parametrize("selection", ["omp", "forward"])
def test_anytime_checks_with_requirements_free_groups_gaps_and_three_targets(selection, meter):
    random = np.random.default_rng(0)
    X, Y, _ = random_problem(random, [1] * 8, n=150, k=3)
    X[random.random(X.shape) < 0.1] = np.nan
    check_anytime_estimator(
        at.GroupPursuitRegressor(costs=COSTS, selection=selection, meter=meter, random_state=0), X, Y
    )


@pytest.mark.parametrize("loss", ["log", "squared", "one_vs_all"])
def test_anytime_checks_with_requirements_and_three_labels(loss):
    random = np.random.default_rng(0)
    X, y, _ = random_problem(random, [1] * 8, n=120)
    labels = np.array(["low", "mid", "high"])[np.digitize(y, np.quantile(y, [0.3, 0.7]))]
    check_anytime_estimator(
        at.GroupPursuitClassifier(costs=COSTS, loss=loss, l2_regularization=0.05), X, labels
    )
