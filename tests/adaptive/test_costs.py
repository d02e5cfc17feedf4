"""Who pays for what (adaptive_approximation 1, 11): by kind of model, by group, and for evaluation."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

import anytime as at
from anytime.adaptive import CostlyBlock
from anytime.adaptive.boosted import BoostedPairLearner
from anytime.adaptive.linear import LinearPairLearner
from anytime.adaptive.stages import Chain, Exit
from anytime.blocks import LinearBlock
from anytime.boosting.learners import TrainingRows
from anytime.trees.arrays import TreeArrays
from anytime.trees.block import TreeBlock
from tests.adaptive.test_adaptive_classifier import SMALL, problem
from tests.adaptive.test_boosted import losses_of_costly

PRICES = np.array([1, 2, 3, 1, 2, 3, 1, 2])


def touched(block, x):
    """Columns that a model reads of a row: those on its paths, or all where it has none."""
    if block.forest is None:
        return set(block.columns(0).tolist())
    trees, out = block.forest.arrays(), set()
    for root in trees["tree_start"][:-1]:
        node = root
        while (feature := int(trees["feature"][node])) >= 0:
            out.add(feature)
            left = x[feature] <= trees["threshold"][node]
            node = root + trees["left" if left else "right"][node]
    return out


def trees(X, y, **settings):
    """A few small trees of a forest or of boosting as one stage."""
    model = at.GradientBoostingClassifier(n_estimators=3, max_depth=2, **settings).fit(X, y)
    return TreeBlock(replace(TreeArrays(**_fields(model)), stage_start=np.array([0, 3], dtype=np.int64)))


def _fields(model):
    return {name: value for name, value in model.plan_.blocks[0].forest.arrays().items() if name != "shift"}


@pytest.mark.parametrize("answer_first", [True, False])
@pytest.mark.parametrize("cheap", ["trees", "linear"])
@pytest.mark.parametrize("costly", ["trees", "other"])
def test_bills_row_by_row(cheap, costly, answer_first):
    """Trees are paid by path, linear models by support, other models by all their columns, a gate by all of its own."""
    X, y, costs = problem()
    model = at.AdaptiveClassifier(GaussianNB(), costs=costs, meter="model", **SMALL).fit(X, y)
    gate = LinearBlock([0], [[1.0]])
    first = trees(X, y) if cheap == "trees" else LinearBlock([4, 6], [[1.0], [2.0]])
    knows = CostlyBlock("half", [1, 2, 5], lambda rows: np.full((len(rows), 2), 0.5), 2)
    last = trees(X[::2], 1 - y[::2]) if costly == "trees" else knows
    chain = Chain([Exit(first, gate, cost=0.5)], last, 3.0, answer_first)
    model.plan_ = chain.plan(model.plan_.costs, model.plan_.base, model.plan_.link)
    sent = model.sent(X)
    assert_array_equal(sent, X[:, 0] > 0)
    expected = []
    for on, x in zip(sent, X, strict=True):
        read = {0} | (touched(last, x) if on else set())
        if answer_first or not on:
            read |= touched(first, x)
        evaluated = (0.5 if answer_first or not on else 0.0) + (3.0 if on else 0.0)
        expected.append(PRICES[sorted(read)].sum() + evaluated)
    assert_array_equal(model.cost(X), expected)
    assert (len(set(np.array(expected)[~sent])) > 1) == (cheap == "trees")
    assert (model.cost(X) <= model.cost(X, meter="model")).all()


@pytest.mark.parametrize("kind", ["boosted", "linear"])
def test_a_group_is_paid_once_whoever_uses_it(kind):
    """The penalty is that of the union of what gate and cheap model use, by group."""
    X, y, _ = problem()
    groups = {"a": [0, 1, 2], "b": [3, 4], "c": [5], "d": [6, 7]}
    costs = at.FeatureCosts(groups=groups, prices={"a": 4.0, "b": 2.0, "c": 1.0, "d": 8.0}).bind(8)
    cost_penalty = 0.01
    learner = (
        BoostedPairLearner(TrainingRows(X), y, costs, cost_penalty=cost_penalty, n_estimators=10)
        if kind == "boosted"
        else LinearPairLearner(X, y, costs, cost_penalty=cost_penalty, l2_regularization=0.0)
    )
    pair = learner.learn(np.where(losses_of_costly(y) < 0.1, 0.4, 0.1), learner.start(None))
    gate, cheap = pair.blocks()
    read = set(gate.columns(0)) | set(cheap.columns(0))
    used = {name for name, columns in groups.items() if read & set(columns)}
    assert 0 < len(used) < 4
    assert any(len(read & set(groups[name])) > 1 for name in used)
    if kind == "boosted":
        assert pair.penalty == pytest.approx(
            cost_penalty * sum({"a": 4, "b": 2, "c": 1, "d": 8}[name] for name in used)
        )
    else:
        weights = [np.linalg.norm(pair.weights[groups[name]]) for name in groups]
        assert pair.penalty == pytest.approx(cost_penalty * np.dot([4, 2, 1, 8], weights), rel=1e-6)


def test_prices_that_differ_from_row_to_row_change_the_bill_alone():
    X, y, costs = problem()
    model = at.AdaptiveClassifier(
        KNeighborsClassifier(), costs=costs, cost_penalty=0.01, evaluation_cost=5.0, **SMALL
    ).fit(X, y)
    double = 2.0 * np.tile(PRICES, (len(X), 1))
    evaluation = np.where(model.sent(X), 5.0, 0.0)
    assert_array_equal(model.cost(X, row_prices=double), 2 * (model.cost(X) - evaluation) + evaluation)
