"""AdaBoost and AdaBoost.MM on top of the trainer (speedboost_and_structured 2.7, P25)."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.ensemble import AdaBoostClassifier
from sklearn.tree import DecisionTreeClassifier

import anytime as at
from anytime.boosting.adaboost import EdgeSteps
from anytime.boosting.candidates import FittedCandidates
from anytime.boosting.learners import TrainingRows, TreeLearner
from anytime.boosting.trainer import BoostingRules, MeanLoss, Trainer
from anytime.costs import FeatureCosts
from anytime.losses import training_loss
from tests.boosting.problems import Dictionary


def data(seed, n=200, d=6, n_classes=2):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d))
    score = X[:, 0] + X[:, 1] * X[:, 2] + 0.7 * random.normal(size=n)
    return X, np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes))


def adaboost(y, candidates, weight=None, largest=10.0):
    """A trainer that is AdaBoost, or AdaBoost.MM for more than two classes."""
    loss = training_loss("exponential" if np.max(y) <= 1 else "multiclass_exponential")
    return Trainer(EdgeSteps(loss, y, weight), candidates, BoostingRules(cost_aware=False, largest=largest))


def competing(X, learners, costs=None):
    bound = FeatureCosts(np.ones(X.shape[1]) if costs is None else costs).bind(X.shape[1])
    return FittedCandidates(learners, TrainingRows(X), np.full(len(X), 1 / len(X)), bound, step_cost=0.01)


@pytest.mark.parametrize("depth", [1, 2])
def test_two_classes_give_the_errors_and_weights_of_scikit_learn(depth):
    """Round by round, on the same trees; their weights are twice ours, their scores the sign."""
    X, y = data(1)
    trainer = adaboost(y, competing(X, [TreeLearner(max_depth=depth, leaf="vote")]))
    trainer.run(25)
    theirs = AdaBoostClassifier(DecisionTreeClassifier(max_depth=depth), n_estimators=25, random_state=0).fit(
        X, y
    )
    mine = np.array([step.weights[0] for step in trainer.steps])
    assert_allclose(2 * mine, theirs.estimator_weights_, rtol=1e-6)
    assert_allclose(1 / (1 + np.exp(2 * mine)), theirs.estimator_errors_, rtol=1e-6)
    for step, tree in zip(trainer.steps, theirs.estimators_, strict=True):
        assert np.array_equal(step.candidate.weak.on(X)[:, 0], 2 * tree.predict(X) - 1)
    assert np.array_equal(trainer.scores[:, 0] > 0, theirs.predict(X) == 1)


def test_weights_of_rows_are_their_first_weights():
    X, y = data(2)
    weight = np.random.default_rng(0).gamma(2, 1, len(y))
    bound = FeatureCosts(np.ones(6)).bind(6)
    candidates = FittedCandidates(
        [TreeLearner(max_depth=1, leaf="vote")], TrainingRows(X), weight, bound, step_cost=0.01
    )
    trainer = adaboost(y, candidates, weight)
    trainer.run(10)
    theirs = AdaBoostClassifier(n_estimators=10, random_state=0).fit(X, y, weight)
    assert_allclose([2 * step.weights[0] for step in trainer.steps], theirs.estimator_weights_, rtol=1e-6)


def test_for_two_classes_the_edge_gives_the_best_step():
    X, y = data(3)
    learners = [TreeLearner(max_depth=2, leaf="vote")]
    by_edge = adaboost(y, competing(X, learners))
    searched = Trainer(
        MeanLoss(training_loss("exponential"), y), competing(X, learners), BoostingRules(cost_aware=False)
    )
    by_edge.run(10)
    searched.run(10)
    assert_allclose(by_edge.scores, searched.scores, atol=1e-9)


@pytest.mark.parametrize("n_classes", [3, 5])
def test_adaboost_mm_step_by_step_and_p25(n_classes):
    """``C_nk = exp(f_k - f_y)``; the loss falls to at most ``sqrt(1 - δ²)`` of what it was; P25 bounds the training error."""
    X, y = data(4, n=300, n_classes=n_classes)
    trainer = adaboost(y, competing(X, [TreeLearner(max_depth=3, leaf="vote")]))
    f, rows = np.zeros((300, n_classes)), np.arange(300)
    bound = n_classes - 1.0
    for _ in range(30):
        lead = np.exp(f - f[rows, y][:, None])
        lead[rows, y] = 0.0
        cost = lead.copy()
        cost[rows, y] = -lead.sum(axis=1)
        step = trainer.step()
        named = step.candidate.weak.on(X).argmax(axis=1)
        delta = -cost[rows, named].sum() / lead.sum()
        alpha = 0.5 * np.log((1 + delta) / (1 - delta))
        f[rows, named] += alpha
        after = np.exp(f - f[rows, y][:, None]).sum() - 300
        assert after <= lead.sum() * np.sqrt(1 - delta**2) * (1 + 1e-12)
        assert_allclose(step.weights[0] * n_classes / (n_classes - 1), alpha, rtol=1e-9)
        centred = trainer.scores - trainer.scores.mean(axis=1, keepdims=True)
        assert_allclose(centred, f - f.mean(axis=1, keepdims=True), atol=1e-9)
        bound *= np.sqrt(1 - delta**2)
        assert np.mean(f.argmax(axis=1) != y) <= bound
    assert bound < 0.9 * (n_classes - 1)


def test_a_searched_step_gains_at_least_as_much():
    X, y = data(5, n_classes=4)
    by_edge = adaboost(y, competing(X, [TreeLearner(max_depth=2, leaf="vote")])).step()
    objective = MeanLoss(training_loss("multiclass_exponential"), y)
    searched = Trainer(
        objective, competing(X, [TreeLearner(max_depth=2, leaf="vote")]), BoostingRules()
    ).step()
    assert 0 < by_edge.gain < searched.gain


def test_costs_are_charged_but_do_not_count_in_the_choice():
    X, y = data(6)
    learners = [TreeLearner(max_depth=depth, leaf="vote", evaluation_cost=10.0**depth) for depth in (1, 3)]
    trainer = adaboost(y, competing(X, learners))
    trainer.run(5)
    chosen = [step.candidate.number for step in trainer.steps]
    assert 1 in chosen
    assert trainer.spent > 1000 * sum(chosen)
    for step in trainer.steps:
        assert step.score == max(score for _, score, _ in step.table) == pytest.approx(step.gain)


def test_a_classifier_without_a_mistake_gets_the_largest_step():
    y = np.array([0, 1, 1, 0])
    trainer = adaboost(y, Dictionary([2.0 * y - 1], [1.0]), largest=4.0)
    assert trainer.step().weights[0] == 4.0
    three = np.array([0, 1, 2, 0])
    trainer = adaboost(three, Dictionary(np.eye(3)[three][None], [1.0]), largest=4.0)
    assert trainer.step().weights[0] == 4.0


def test_outputs_that_are_no_votes_are_refused():
    X, y = data(7)
    with pytest.raises(ValueError, match="leaf='vote'"):
        adaboost(y, competing(X, [TreeLearner(max_depth=2)])).step()
    objective = EdgeSteps(training_loss("exponential"), y)
    assert objective.search(np.zeros((200, 1)), np.zeros((200, 1)), 10.0) == (0.0, 0.0)


def test_the_estimator_is_adaboost():
    X, y = data(1)
    ours = at.AdditiveSpeedBoostClassifier(
        method="adaboost", max_depth=1, n_estimators=10, min_samples_leaf=1, validation_fraction=None
    ).fit(X, y)
    theirs = AdaBoostClassifier(n_estimators=10, random_state=0).fit(X, y)
    assert_allclose([2 * step.weights[0] for step in ours.steps_], theirs.estimator_weights_, rtol=1e-6)
    assert np.array_equal(ours.predict(X), theirs.predict(X))
    with pytest.raises(ValueError, match="is for classifiers"):
        at.AdditiveSpeedBoostRegressor(method="adaboost").fit(X, y)


def test_the_estimator_is_adaboost_mm_for_more_classes():
    X, y = data(4, n_classes=3)
    ours = at.AdditiveSpeedBoostClassifier(
        method="adaboost", max_depth=3, n_estimators=10, min_samples_leaf=1, validation_fraction=None
    ).fit(X, y)
    trainer = adaboost(y, competing(X, [TreeLearner(max_depth=3, leaf="vote")]))
    trainer.run(10)
    assert_allclose(ours.decision_function(X), trainer.scores, atol=1e-9)
