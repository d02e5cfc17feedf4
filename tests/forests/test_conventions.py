"""scikit-learn's checks of all estimators of the room."""

from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

import anytime as at
from tests.forests.cases import SMALL

CONFIGURATIONS = [
    at.BudgetForestClassifier(**SMALL, alphas=[0, 2]),
    at.BudgetForestRegressor(**SMALL, leaf_sizes=[1, 5]),
    at.BudgetTreeClassifier(random_state=0),
    at.BudgetTreeRegressor(random_state=0, min_samples_leaf=1),
    at.PrunedForestClassifier(DecisionTreeClassifier(min_weight_fraction_leaf=0.01), random_state=0),
    at.PrunedForestRegressor(DecisionTreeRegressor(max_depth=4, random_state=0), random_state=0),
]


def not_expected(estimator):
    """A draw of rows is one of places: a row of weight 2 is drawn as often as others, two rows twice as often."""
    if isinstance(estimator, at.BudgetTreeClassifier):
        return {"check_class_weight_classifiers": "its leaves are pure, whatever the classes weigh"}
    if not hasattr(estimator, "min_impurity"):
        return {}
    drawn = "bootstrap" in estimator.get_params()
    why = "rows are drawn at random" if drawn else "sums of numbers are rounded: ties between equal splits"
    return {"check_sample_weight_equivalence_on_dense_data": why}


@parametrize_with_checks(CONFIGURATIONS, expected_failed_checks=not_expected)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
