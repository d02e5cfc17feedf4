"""Synthetic-1 and Synthetic-2 of Nan's thesis, chapter 5: what its figures tell, in numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.model_selection import cross_val_predict
from sklearn.svm import SVC

import anytime as at
from anytime.adaptive.blocks import scores_of_probabilities
from anytime.adaptive.boosted import BoostedPairLearner
from anytime.adaptive.choosing import HeldOutRows
from anytime.adaptive.linear import LinearPairLearner
from anytime.adaptive.routing import Learned, alternate, best_of
from anytime.adaptive.stages import Chain
from anytime.blocks import LinearBlock
from anytime.boosting.learners import TrainingRows
from anytime_research import datasets as research_datasets
from anytime_research.adaptive import l1_exits

CERTAIN = -np.log(0.99)  # loss of a costly model that is always right


def synthetic_1() -> dict[str, Any]:
    """The power of adaptation: ten turns from random starts, 60 % may be sent to a support vector machine."""
    X, y, _ = research_datasets.make_ambiguous_centre()
    values = cross_val_predict(SVC(), X, y, cv=5, method="decision_function")
    probabilities = 1 / (1 + np.exp(-2 * values))
    scores = scores_of_probabilities(np.column_stack([1 - probabilities, probabilities]))
    costly_loss, right = np.logaddexp(0, np.where(y == 1, -1, 1) * scores[:, 0]), (values > 0) == y
    costs = at.FeatureCosts([0, 0]).bind(2)
    learners = {
        "linear": (LinearPairLearner(X, y, costs), 12),
        "boosted": (
            BoostedPairLearner(TrainingRows(X), y, costs, n_estimators=5, max_depth=2, learning_rate=1.0),
            2,
        ),
    }
    found: dict[str, Any] = {"costly": {"accuracy": round(float(right.mean()), 4)}}
    for name, (learner, n_starts) in learners.items():
        random = np.random.RandomState(0)
        starts = [learner.start(random) for _ in range(n_starts)]
        done = [alternate(learner, costly_loss, 0.6, start=start, max_iter=10, tol=0.0) for start in starts]
        best = done.index(best_of(done))
        pair, start = done[best].learned, starts[best]
        sent, fits = pair.gate > 0, pair.cheap_loss < np.log(2)
        began = start.cheap_loss < np.log(2)
        found[name] = {
            "sent": round(float(sent.mean()), 4),
            "accuracy": round(float(np.where(sent, right, fits).mean()), 4),
            "of the cheap model in its region, at the start": round(float(began[~sent].mean()), 4),
            "of the cheap model in its region, in the end": round(float(fits[~sent].mean()), 4),
        }
    return found


def synthetic_2() -> dict[str, float]:
    """The power of learning both together: average cost at accuracy 1; printed are 1.75 and 1.5, for clusters of equal size."""
    X, y, prices = research_datasets.make_misleading_feature()
    costs = prices.bind(2)
    learner = LinearPairLearner(
        X, y, costs, cost_penalty=0.05, standardise=False, l2_regularization=0.0, max_steps=20_000, tol=1e-9
    )
    start = learner.at(1.0, 0.0)
    pair = alternate(learner, np.full(len(y), CERTAIN), 0.6, start=start, max_iter=50, tol=0.0).learned
    bench = HeldOutRows(X, y, None, np.where(y == 1, 5.0, -5.0)[:, None], costs, np.zeros(1), "logistic")
    knows_all = LinearBlock([0, 1], np.zeros((2, 1)))
    alone = [
        bench.at(Chain([found.exit], knows_all), [(0.0, 0.0)])[0]
        for found in l1_exits(X, y, [(0,)], standardise=False)
    ]
    return {
        "L1, the first column": round(min(point.cost for point in alone if point.accuracy == 1), 4),
        "ADAPT-LIN": round(_cost(pair), 4),
        "accuracy of ADAPT-LIN": float((pair.cheap_loss[pair.gate <= 0] < np.log(2)).all()),
    }


def _cost(pair: Learned) -> float:
    """Everybody pays for what gate and cheap model use, rows sent on for both columns."""
    return float(np.where(pair.gate > 0, 2, pair.support.size).mean())
