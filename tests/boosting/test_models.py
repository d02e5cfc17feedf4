"""Boosted estimators through scikit-learn's checks and through those of anytime prediction, and what is special to them."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import anytime as at
from anytime.testing import check_anytime_estimator

SMALL = {"n_rounds": 20, "patience": 3, "min_rows": 1, "random_state": 0}
CONFIGURATIONS = [
    at.GradientBoostingClassifier(n_stages=10, min_rows=1),
    at.GradientBoostingRegressor(
        n_stages=10, min_rows=1, penalty=0.1, validation_fraction=0.2, random_state=0
    ),
    at.SpeedBoostClassifier(**SMALL),
    at.SpeedBoostRegressor(**SMALL),
    at.SpeedBoostClassifier(method="proj", n_stages=8, min_rows=1, learning_rate=1.0, random_state=0),
    at.SpeedBoostRegressor(method="omp", n_stages=8, min_rows=1, random_state=0),
    at.SpeedBoostRanker(**SMALL),
]


@parametrize_with_checks(CONFIGURATIONS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "estimator",
    [
        *CONFIGURATIONS[:-1],
        at.SpeedBoostRegressor(
            [1, 2, 0, 4, 0.1, 3], method="mp", schedule="doubling", n_stages=8, min_rows=1
        ),
        at.SpeedBoostClassifier(method="omp_gain", n_stages=6, min_rows=1, meter="realised", tree_cost=0.1),
        at.SpeedBoostRegressor(**SMALL, spacing=1.5, meter="realised", tree_cost=0.01),
    ],
    ids=lambda e: str(e).replace("\n", ""),
)
def test_anytime_checks(estimator):
    check_anytime_estimator(estimator)
