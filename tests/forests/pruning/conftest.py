"""One forest, and its prunings, for the tests of pruned models."""

import pytest
from sklearn.ensemble import (
    RandomForestClassifier,
)

from anytime.forests.pruning.pruned_forests import prune_forest
from tests.forests.pruning.forests import GROUPED, WINE, halves


@pytest.fixture(scope="module")
def forest():
    """A forest that is trained on one half, and the other half."""
    X, y, held, truth = halves(WINE)
    return RandomForestClassifier(12, max_depth=6, random_state=0).fit(X, y), held, truth


@pytest.fixture(scope="module")
def pruned(forest):
    """That forest with prices in groups, all its prunings kept."""
    return prune_forest(*forest, costs=GROUPED, max_stages=200)
