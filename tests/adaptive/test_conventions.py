"""The invariants of anytime prediction for more settings of ``AdaptiveClassifier`` and ``LadderClassifier``."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC

from anytime.adaptive import AdaptiveClassifier, LadderClassifier
from anytime.testing import check_anytime_estimator
from tests.adaptive.test_adaptive_classifier import problem

SMALL = {"n_estimators": 5, "max_iter": 1, "min_samples_leaf": 5, "costly_folds": 2, "random_state": 0}
FEW = {"n_estimators": 5, "max_stages": 3, "min_samples_leaf": 5, "costly_folds": 2, "random_state": 0}


@pytest.mark.parametrize(
    "estimator",
    [
        AdaptiveClassifier(GaussianNB(), cheap="linear", n_init=1, **SMALL),
        LadderClassifier(**FEW),
        LadderClassifier(SVC(), mean_budget=4.0, meter="realised", **FEW),
        LadderClassifier(
            SVC(), costs=[1, 2, 0, 4, 0.1, 3], costly_columns=[4, 1], evaluation_cost=0.3, **FEW
        ),
        AdaptiveClassifier(**SMALL),
        AdaptiveClassifier(SVC(), mean_budget=4.0, cost_penalty=0.01, **SMALL),
        AdaptiveClassifier(
            SVC(), mean_budget=4.0, cost_penalty=0.01, meter="realised", answer_first=False, **SMALL
        ),
        AdaptiveClassifier(SVC(), cheap="linear", gate="margin", n_init=1, meter="model", **SMALL),
        AdaptiveClassifier(
            SVC(), costs=[1, 2, 0, 4, 0.1, 3], costly_columns=[4, 1], evaluation_cost=0.3, **SMALL
        ),
    ],
)
def test_invariants_of_anytime_prediction(estimator):
    check_anytime_estimator(estimator)


def test_weights_of_a_ladder_count_by_their_ratios_and_zero_is_absence():
    """With rows enough for exits, which the checks of weights above do not have."""
    X, y, costs = problem(n=300)
    ladder, weight = (
        LadderClassifier(GaussianNB(), costs=costs, mean_budget=12.0, **FEW),
        np.arange(len(y)) % 3,
    )
    first, kept = clone(ladder).fit(X, y, sample_weight=weight), weight > 0
    assert first.n_stages_ > 1
    scaled = clone(ladder).fit(X, y, sample_weight=4.0 * weight)
    bare = clone(ladder).fit(X[kept], y[kept], sample_weight=weight[kept])
    for again in (scaled, bare):
        assert_array_equal(again.predict_proba(X), first.predict_proba(X))
        assert again.expected_cost_ == first.expected_cost_
    flat = clone(ladder).fit(X[kept], y[kept])
    assert (flat.predict_proba(X) != first.predict_proba(X)).any()
