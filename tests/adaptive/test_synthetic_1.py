"""Synthetic-1, the power of adaptation (adaptive_approximation 13.1): the cheap model learns to fit the region it is given."""

import numpy as np
import pytest
from sklearn.model_selection import cross_val_predict
from sklearn.svm import SVC

import anytime as at
from anytime.adaptive.blocks import scores_of_probabilities
from anytime.adaptive.boosted import BoostedPairLearner
from anytime.adaptive.linear import LinearPairLearner
from anytime.adaptive.routing import alternate, best_of
from anytime.boosting.learners import TrainingRows
from anytime_research import datasets as research_datasets


@pytest.fixture(scope="module")
def rows():
    X, y, _ = research_datasets.make_ambiguous_centre()
    values = cross_val_predict(SVC(), X, y, cv=5, method="decision_function")
    probabilities = 1 / (1 + np.exp(-2 * values))
    scores = scores_of_probabilities(np.column_stack([1 - probabilities, probabilities]))
    return X, y, np.logaddexp(0, np.where(y == 1, -1, 1) * scores[:, 0]), (values > 0) == y


def learner_of(kind, X, y):
    costs = at.FeatureCosts([0, 0]).bind(2)
    if kind == "linear":
        return LinearPairLearner(X, y, costs)
    return BoostedPairLearner(TrainingRows(X), y, costs, n_estimators=5, max_depth=2, learning_rate=1.0)


@pytest.mark.parametrize("kind", ["linear", "boosted"])
def test_ten_turns_keep_the_accuracy_of_the_costly_model(rows, kind):
    """Random starts of seed 0, of which the objective chooses one."""
    X, y, costly_loss, right = rows
    learner, random = learner_of(kind, X, y), np.random.RandomState(0)
    starts = [learner.start(random) for _ in range(12 if kind == "linear" else 2)]
    done = [alternate(learner, costly_loss, 0.6, start=start, max_iter=10, tol=0.0) for start in starts]
    best = done.index(best_of(done))
    pair, start = done[best].learned, starts[best]
    sent, cheap_right = pair.gate > 0, pair.cheap_loss < np.log(2)
    assert 0.3 < sent.mean() <= 0.65
    assert np.where(sent, right, cheap_right).mean() >= right.mean() - 0.01
    assert cheap_right[~sent].mean() > (start.cheap_loss < np.log(2))[~sent].mean()
    if kind == "linear":  # it fits its region, and gives the rest up; the trees are right nearly everywhere
        assert cheap_right[~sent].mean() > cheap_right.mean() + 0.02
