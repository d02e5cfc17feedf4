"""``AdaptiveClassifier`` and ``LadderClassifier`` through scikit-learn's checks and the invariants of anytime prediction."""

import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from anytime.adaptive import AdaptiveClassifier, LadderClassifier
from anytime.testing import check_anytime_estimator

SMALL = {"n_trees": 5, "max_iter": 1, "min_rows": 5, "n_folds": 2, "random_state": 0}
FEW = {"n_trees": 5, "n_exits": 3, "min_rows": 5, "n_folds": 2, "random_state": 0}
CONFIGURATIONS = [
    AdaptiveClassifier(GaussianNB(), **SMALL),
    AdaptiveClassifier(GaussianNB(), cheap="linear", n_init=1, **SMALL),
    LadderClassifier(GaussianNB(), **FEW),
]


def not_expected(estimator):
    """A leaf has to hold so many rows, whatever they weigh, and linear models end within a tolerance."""
    if isinstance(estimator, LadderClassifier):
        return {}
    return {"check_sample_weight_equivalence_on_dense_data": "equal to a few digits only"}


@parametrize_with_checks(CONFIGURATIONS, expected_failed_checks=not_expected)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "estimator",
    [
        *CONFIGURATIONS,
        LadderClassifier(**FEW),
        LadderClassifier(SVC(), budget=4.0, meter="realised", **FEW),
        LadderClassifier(SVC(), costs=[1, 2, 0, 4, 0.1, 3], costly_columns=[4, 1], costly_cost=0.3, **FEW),
        AdaptiveClassifier(**SMALL),
        AdaptiveClassifier(SVC(), budget=4.0, gamma=0.01, **SMALL),
        AdaptiveClassifier(SVC(), budget=4.0, gamma=0.01, meter="realised", answer_first=False, **SMALL),
        AdaptiveClassifier(SVC(), cheap="lstsq", gate="margin", n_init=1, meter="model", **SMALL),
        AdaptiveClassifier(
            SVC(), costs=[1, 2, 0, 4, 0.1, 3], costly_columns=[4, 1], costly_cost=0.3, **SMALL
        ),
    ],
)
def test_invariants_of_anytime_prediction(estimator):
    check_anytime_estimator(estimator)
