"""Every public estimator through scikit-learn's checks and through those of anytime prediction, small enough to be quick."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.estimator_checks import estimator_checks_generator

import anytime as at
from anytime.acquisition import masked_networks
from anytime.adaptive import rungs, singles
from anytime.auto import estimators as auto
from anytime.auto import improving
from anytime.boosting import renewal
from anytime.testing import check_anytime_estimator
from tests.optional import installed_names

SEEDED = {"random_state": 0}
BOOSTED = {"n_estimators": 10, "min_samples_leaf": 1, **SEEDED}
RENEWED = {"n_iter_no_change": 3, "max_stages": 3, **BOOSTED}
ADDED = {"n_estimators": 6, "min_samples_leaf": 1, **SEEDED}
GATED = {"n_estimators": 5, "min_samples_leaf": 5, "costly_folds": 2, **SEEDED}
FOREST = {"n_estimators": 6, **SEEDED}

ESTIMATORS = [
    at.AcquisitionClassifier(hidden_layer_sizes=(16, 8), folds=2, **SEEDED),
    at.AcquisitionRegressor(hidden_layer_sizes=(16, 8), folds=2, **SEEDED),
    at.AdaptiveClassifier(GaussianNB(), max_iter=1, **GATED),
    at.AdditiveSpeedBoostClassifier(learning_rate=1.0, **ADDED),
    at.AdditiveSpeedBoostRanker(**ADDED),
    at.AdditiveSpeedBoostRegressor(method="omp", **ADDED),
    at.AlgorithmSelector(cost_penalty=0.0, n_estimators=10, max_sets=4, **SEEDED),
    at.AnytimeClassifier(HistGradientBoostingClassifier(max_iter=10), **SEEDED),
    at.AnytimeRegressor(HistGradientBoostingRegressor(max_iter=10), **SEEDED),
    at.AutoClassifier(kinds=["linear"], max_stages=2, **SEEDED),
    at.AutoRegressor(kinds=["linear"], max_stages=2, **SEEDED),
    at.BudgetForestClassifier(alphas=[0, 2], **FOREST),
    at.BudgetForestRegressor(leaf_sizes=[1, 5], **FOREST),
    at.BudgetTreeClassifier(**SEEDED),
    at.BudgetTreeRegressor(min_samples_leaf=1, **SEEDED),
    at.CascadeClassifier(max_stages=6, n_estimators=10, **SEEDED),
    at.CostSensitiveTreeClassifier(max_stages=2, max_iter=2),
    at.ExpectedCostClassifier(n_estimators=10, max_sets=4, **SEEDED),
    at.ExponentialEnsemble([at.GradientBoostingClassifier(**BOOSTED), GaussianNB()], **SEEDED),
    at.ExponentialEnsemble(
        [at.GroupPursuitRegressor(**SEEDED), at.GradientBoostingRegressor(**BOOSTED)], **SEEDED
    ),
    at.GradientBoostingClassifier(**BOOSTED),
    at.GradientBoostingRegressor(cost_penalty=0.1, validation_fraction=0.2, **BOOSTED),
    at.GroupPursuitClassifier(l2_regularization=0.01),
    at.GroupPursuitRegressor(**SEEDED),
    at.LadderClassifier(GaussianNB(), max_stages=3, **GATED),
    at.MarginAcquisitionClassifier(**SEEDED),
    at.PrunedForestClassifier(DecisionTreeClassifier(min_weight_fraction_leaf=0.01), **SEEDED),
    at.PrunedForestRegressor(DecisionTreeRegressor(max_depth=4, random_state=0), **SEEDED),
    at.SensorNetworkClassifier(**SEEDED),
    at.SensorNetworkRegressor(**SEEDED),
    at.SpeedBoostClassifier(**RENEWED),
    at.SpeedBoostRanker(**RENEWED),
    at.SpeedBoostRegressor(**RENEWED),
    at.StreamingBoostClassifier(**FOREST),
    at.StreamingBoostRegressor(**FOREST),
    at.SubmodularTreeClassifier(max_stages=2),
]
ELSEWHERE = {
    "OnlineSelector",  # needs experts and a remote model: no table alone can train it (tests/online)
    # need torch (tests/networks/test_network_checks.py)
    *("AnytimeNetworkClassifier", "AnytimeNetworkRegressor"),
    *("GrowingNetworkClassifier", "GrowingNetworkRegressor"),  # tests/growth/test_growing_checks.py
    # learn from structures of many labels, not from a table (tests/structured)
    *("GraphLabeler", "SceneParser", "SequenceLabeler"),
}

WEIGHTS = "check_sample_weight_equivalence_on_dense_data"
UNEQUAL_WEIGHTS = {
    "AdaptiveClassifier": "a leaf has to hold so many rows, whatever they weigh",
    **dict.fromkeys(
        [
            *("AdditiveSpeedBoostClassifier", "AdditiveSpeedBoostRanker", "AdditiveSpeedBoostRegressor"),
            *("ExponentialEnsembleClassifier", "ExponentialEnsembleRegressor"),
            *("GradientBoostingClassifier", "GradientBoostingRegressor"),
            *("SpeedBoostClassifier", "SpeedBoostRanker", "SpeedBoostRegressor", "BudgetTreeRegressor"),
            *("AutoClassifier", "AutoRegressor"),
        ],
        "gradients and sums are rounded to a grid, as in HistGradientBoosting: ties between equal splits",
    ),
    **dict.fromkeys(
        ["BudgetForestClassifier", "BudgetForestRegressor"],
        "rows are drawn at random: a row of weight 2 is drawn as often as others, two rows twice as often",
    ),
    **dict.fromkeys(
        ["SensorNetworkClassifier", "SensorNetworkRegressor"],
        "a local search by steps on a few rows at a time: rows that stand twice come at other times",
    ),
    **dict.fromkeys(
        ["StreamingBoostClassifier", "StreamingBoostRegressor"],
        "rows of a stream are in order: a row of weight 2 is not two rows at other places of it",
    ),
}


@pytest.fixture(autouse=True)
def short_training(monkeypatch):
    """Less of what no parameter shortens: conventions hold however long a model has learned."""
    for module, name, value in [
        (auto, "_ROUNDS", 8),
        (improving, "_PARTS", ((np.inf, 2),)),
        (improving, "_STRENGTHS", (0.2,)),
        (masked_networks, "_EPOCHS", (5, 120)),
        (renewal, "_FOLDS", ((2_000, 2),)),
        (rungs, "_PRICES", rungs._PRICES[::4]),
        (rungs, "_ROUNDS", 5),
        (singles, "_TREES", 10),
    ]:
        monkeypatch.setattr(module, name, value)


def expected_to_fail(estimator: BaseEstimator) -> dict[str, str]:
    if isinstance(estimator, at.BudgetTreeClassifier):
        return {
            "check_class_weight_classifiers": "leaves of a tree grown to the end are pure, whatever classes weigh"
        }
    why = UNEQUAL_WEIGHTS.get(type(estimator).__name__)
    return {} if why is None else {WEIGHTS: why}


def test_no_public_estimator_is_forgotten():
    public = {
        name
        for name in installed_names()
        if inspect.isclass(value := getattr(at, name)) and issubclass(value, BaseEstimator)
    }
    checked = {kind.__name__ for estimator in ESTIMATORS for kind in type(estimator).__mro__}
    assert public - checked == ELSEWHERE.intersection(installed_names())


@pytest.mark.parametrize(
    ("estimator", "check"),
    [  # named here: parametrize_with_checks writes out an estimator with its parameters for every check of it
        pytest.param(estimator, check, id=f"{type(estimator).__name__}-{check.func.__name__}")
        for small in ESTIMATORS
        for estimator, check in estimator_checks_generator(small)
    ],
)
def test_scikit_learn(estimator, check):
    if (why := expected_to_fail(estimator).get(check.func.__name__)) is not None:
        pytest.xfail(
            why
        )  # before the check runs: its outcome would change nothing, and it is the longest of all
    check(estimator)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
def test_anytime_prediction(estimator):
    if type(estimator).__name__.endswith("Ranker"):  # y are grades
        X = np.random.default_rng(0).normal(size=(120, 6))
        check_anytime_estimator(estimator, X, np.clip(np.round(X[:, 0] + X[:, 1] + 1), 0, 4))
        return
    check_anytime_estimator(estimator)
