"""Weights of classes: they count in growing and in errors, and not in what rows pay on average."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.ensemble import RandomForestClassifier
from sklearn.utils.class_weight import compute_sample_weight

import anytime as at

RARE = {"rare": 8.0, "common": 1.0}


@pytest.fixture(scope="module")
def rows():
    """One row in eight is rare, and hard to tell from the others."""
    random = np.random.default_rng(0)
    X = random.normal(size=(600, 4))
    y = np.where(X[:, 0] + X[:, 1] + 1.5 * random.normal(size=600) > 2.4, "rare", "common")
    return X[:300], y[:300], X[300:], y[300:]


MODELS = [
    at.BudgetForestClassifier(n_estimators=10, alphas=[0, 4], cost_weighted=True, random_state=0),
    at.BudgetTreeClassifier(min_samples_leaf=10, random_state=0),
    at.PrunedForestClassifier(RandomForestClassifier(10, min_samples_leaf=10), random_state=0),
    at.MarginAcquisitionClassifier(random_state=0),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_rare_rows_are_found_where_they_weigh_more(model, rows):
    X, y, new, truth = rows
    recall = []
    for weight in (None, "balanced", RARE):
        found = model.set_params(class_weight=weight).fit(X, y).predict(new) == "rare"
        recall.append(found[truth == "rare"].mean())
    assert recall[1] > recall[0] + 0.15
    assert recall[2] > recall[0] + 0.15


def test_what_rows_pay_on_average_does_not_depend_on_their_class(rows):
    X, y, _, _ = rows
    model = at.BudgetTreeClassifier(class_weight=RARE, random_state=0).fit(X, y)
    plain = model.set_params(validation_fraction=None).fit(X, y)
    assert_allclose(plain.expected_cost_, plain.cost(X).mean())
    pruned = at.PrunedForestClassifier(
        RandomForestClassifier(10), class_weight=RARE, mean_budget=2.0, random_state=0
    ).fit(X, y)
    assert_allclose(pruned.path_.cost[-1], pruned.cost(X).mean())
    assert 1.8 < pruned.path_.cost[-1] <= 2.0


def test_a_class_weight_is_a_weight_of_its_rows(rows):
    X, y, new, _ = rows
    settings = {
        "bootstrap": False,
        "validation_fraction": None,
        "n_estimators": 3,
        "alpha": 0,
        "random_state": 0,
    }
    one = at.BudgetForestClassifier(class_weight=RARE, **settings).fit(X, y)
    other = at.BudgetForestClassifier(**settings).fit(X, y, sample_weight=compute_sample_weight(RARE, y))
    assert_allclose(one.predict_proba(new), other.predict_proba(new))


def test_wrong_weights_are_refused(rows):
    X, y, _, _ = rows
    with pytest.raises(ValueError, match=r"class_weight of .*rare.* is 0; it must be positive"):
        at.BudgetTreeClassifier(class_weight={"rare": 0.0}).fit(X, y)
    fitted = at.MarginAcquisitionClassifier(random_state=0).fit(X, y).classifier_
    with pytest.raises(ValueError, match="no effect on a fitted classifier"):
        at.MarginAcquisitionClassifier(fitted, class_weight="balanced").fit(X, y)
