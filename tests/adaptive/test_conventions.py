"""``AdaptiveClassifier`` through scikit-learn's checks."""

from sklearn.naive_bayes import GaussianNB
from sklearn.utils.estimator_checks import parametrize_with_checks

from anytime.adaptive import AdaptiveClassifier

SMALL = {"n_trees": 5, "max_iter": 1, "min_rows": 5, "n_folds": 2, "random_state": 0}
CONFIGURATIONS = [
    AdaptiveClassifier(GaussianNB(), **SMALL),
    AdaptiveClassifier(GaussianNB(), cheap="linear", n_init=1, **SMALL),
]


def not_expected(estimator):
    """A leaf has to hold so many rows, whatever they weigh, and linear models end within a tolerance."""
    return {"check_sample_weight_equivalence_on_dense_data": "equal to a few digits only"}


@parametrize_with_checks(CONFIGURATIONS, expected_failed_checks=not_expected)
def test_scikit_learn_conventions(estimator, check):
    check(estimator)
