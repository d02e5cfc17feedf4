"""Classifiers as sums over columns: scores are those of the original, whatever library made it."""

import lightgbm as lgb
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import AdaBoostClassifier, GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, PolynomialFeatures, RobustScaler, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

import anytime as at
from anytime.acquisition import FunctionTerms, LinearTerms, StepTerms, as_additive
from anytime.acquisition.additive import _cuts_of_float32

X, Y = make_classification(300, 6, n_informative=4, random_state=0)
X = X * [1.0, 10.0, 0.1, 1.0, 5.0, 1.0] + 3.0
STUMP = DecisionTreeClassifier(max_depth=1)

LINEAR = [
    LogisticRegression(),
    LinearSVC(),
    SVC(kernel="linear"),
    RidgeClassifier(),
    LinearDiscriminantAnalysis(),
    make_pipeline(StandardScaler(), LinearSVC()),
    make_pipeline(RobustScaler(), MinMaxScaler((-1, 2)), LogisticRegression()),
    at.GroupPursuitClassifier(l2_regularization=1e-3),
]
STUMPS = [
    AdaBoostClassifier(STUMP, n_estimators=40),
    GradientBoostingClassifier(max_depth=1, n_estimators=40),
    lgb.LGBMClassifier(num_leaves=2, n_estimators=40, verbose=-1),
    at.GradientBoostingClassifier(max_leaf_nodes=2, n_estimators=40),
]


@pytest.mark.filterwarnings("ignore:Liblinear failed")
@pytest.mark.parametrize("model", LINEAR + STUMPS, ids=lambda model: type(model).__name__)
def test_the_sum_over_columns_is_the_score_of_the_original(model):
    model.fit(X, Y)
    additive = as_additive(model)
    new = np.random.default_rng(1).normal(size=(500, 6)) * 4 + 3
    scores = (
        model.predict(new, raw_score=True)
        if isinstance(model, lgb.LGBMClassifier)
        else model.decision_function(new)
    )
    assert_allclose(additive.decision_function(new), scores, rtol=1e-9, atol=1e-9)
    assert_array_equal(additive.decision_function(new) > 0, model.predict(new) == 1)


@pytest.mark.parametrize("model", STUMPS[:2], ids=lambda model: type(model).__name__)
def test_values_next_to_a_threshold_go_where_the_original_sends_them(model):
    """scikit-learn rounds to single precision before it compares."""
    model.fit(X, Y)
    additive = as_additive(model)
    base = np.repeat(X[:1], additive.thresholds.size * 5, axis=0)
    column = np.repeat(np.arange(6), np.diff(additive.start))
    around = np.add.outer(additive.thresholds, np.array([-1e-6, -1e-9, 0.0, 1e-9, 1e-6])).ravel()
    base[np.arange(len(base)), np.repeat(column, 5)] = around
    assert_allclose(additive.decision_function(base), model.decision_function(base), rtol=1e-9, atol=1e-9)


def test_cuts_for_rounded_values_are_exact():
    random = np.random.default_rng(0)
    thresholds = np.concatenate(
        [random.normal(size=200), random.normal(size=200).astype(np.float32), [0.0, 1.5]]
    )
    cuts = _cuts_of_float32(thresholds)
    for step in (-2, -1, 0, 1, 2):
        near = cuts.copy()
        for _ in range(abs(step)):
            near = np.nextafter(near, np.inf * step)
        assert_array_equal(near <= cuts, near.astype(np.float32) <= thresholds)


def test_what_is_missing_contributes_nothing():
    linear = LinearTerms(0.5, [2.0, -1.0], [1.0, 0.0])
    assert linear.contributions(np.array([[3.0, np.nan], [np.nan, 2.0]])).tolist() == [
        [4.0, 0.0],
        [0.0, -2.0],
    ]
    steps = StepTerms(0.0, [0, 1, 1], [0.5], [-3.0, 3.0, 0.0])
    assert steps.contributions(np.array([[0.5, 9.0], [0.6, 9.0], [np.nan, 9.0]])).tolist() == [
        [-3.0, 0.0],
        [3.0, 0.0],
        [0.0, 0.0],
    ]
    assert steps.used.tolist() == [True, False]


def test_functions_of_ones_own_are_a_classifier():
    terms = FunctionTerms(3, -1.0, {0: np.abs, 2: lambda column: column**2})
    assert terms.decision_function(np.array([[-2.0, 100.0, 3.0]])).tolist() == [10.0]
    assert terms.used.tolist() == [True, False, True]
    with pytest.raises(TypeError, match="cannot be saved"):
        terms.state()
    with pytest.raises(ValueError, match="column 5, but there are 3 columns"):
        FunctionTerms(3, 0.0, {5: np.abs})


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (GradientBoostingClassifier(max_depth=2, n_estimators=3), TypeError, "has several splits"),
        (AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), n_estimators=3), TypeError, "max_depth=1"),
        (RandomForestClassifier(3, max_depth=1), TypeError, "not a sum of stumps"),
        (make_pipeline(PolynomialFeatures(), RidgeClassifier()), TypeError, "may mix columns"),
        (
            make_pipeline(StandardScaler(), GradientBoostingClassifier(max_depth=1)),
            TypeError,
            "a scaler is supported only before a linear model",
        ),
        (at.SpeedBoostClassifier(), TypeError, "replace each other"),
        (SVC(), TypeError, "a SVC is not a sum over columns"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_no_sum_over_columns_is_refused(model, error, message):
    with pytest.raises(error, match=message):
        as_additive(model.fit(X, Y))


def test_more_than_two_classes_are_refused():
    y = np.arange(len(X)) % 3
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        as_additive(LogisticRegression().fit(X, y))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, [0, 2], [1.0], [0.0, 0.0]), "start must rise"),
        ((0.0, [0, 1], [1.0], [0.0]), "need 2 values"),
        ((0.0, [0, 2], [2.0, 1.0], [0.0, 0.0, 0.0]), "do not increase"),
        ((np.nan, [0, 1], [1.0], [0.0, 0.0]), "must be finite"),
    ],
)
def test_steps_that_do_not_fit_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        StepTerms(*arguments)
