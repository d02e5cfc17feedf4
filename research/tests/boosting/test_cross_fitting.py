"""Boosting on held-out gradients (functional_gradient_and_greedy 5.2: S1, S3, S4)."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from anytime.boosting.candidates import FittedCandidates
from anytime.boosting.filters import margin_filters
from anytime.boosting.learners import LinearLearner, TrainingRows, TreeLearner
from anytime.boosting.trainer import BoostingRules, MeanLoss, Trainer
from anytime.costs import FeatureCosts
from anytime.losses import training_loss
from anytime_research.boosting.cross_fitting import CrossFitted, CrossFittedSpeedBoostClassifier
from tests.boosting.problems import order

LEARNERS = [
    TreeLearner(max_depth=2),
    LinearLearner(1, evaluation_cost=0.1),
    TreeLearner(max_leaf_nodes=12),
    LinearLearner(5),
]


def data(seed=0, n=150, name="logistic", noise=0.5):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 5))
    truth = X[:, 0] + X[:, 1] * X[:, 2] + noise * random.normal(size=n)
    y = {
        "squared": truth,
        "logistic": (truth > 0).astype(int),
        "multinomial": np.digitize(truth, [-0.7, 0.7]),
    }
    return X, y[name]


PRICES = [1.0, 2.0, 0.5, 3.0, 1.0]


def trainer(
    X,
    y,
    name="logistic",
    *,
    learners=LEARNERS,
    kind=CrossFitted,
    rules=None,
    prices=PRICES,
    **options,
):
    objective = MeanLoss(training_loss(name), y)
    costs = FeatureCosts(prices).bind(5)
    candidates = FittedCandidates(
        learners, TrainingRows(X), objective.weight, costs, step_cost=0.05, random=np.random.RandomState(7)
    )
    base = np.zeros(objective.loss.n_outputs(y))
    return kind(
        objective,
        candidates,
        BoostingRules(**rules or {}),
        base,
        np.random.RandomState(3),
        **options,
    )


@dataclass(frozen=True)
class Script:
    """The choices of a run: which learner, how far."""

    numbers: list
    lengths: list


class Following(CrossFitted):
    """Takes the choices of another run."""

    script = None

    def _judge(self, target):
        number, length = self.script.numbers[len(self.steps)], self.script.lengths[len(self.steps)]
        return [
            replace(j, improvement=1.0, step=length)
            for j in super()._judge(target)
            if j.candidate.number == number
        ]


@pytest.mark.parametrize("name", ["squared", "logistic", "multinomial"])
def test_s1_held_out_scores_do_not_depend_on_the_labels_of_their_fold(name):
    """Labels of fold k permuted, the same choices: held-out scores of fold k have the same bits, other scores have not.

    What was bought is among the choices, and counts where a learner looks at prices; here all is free.
    """
    X, y = data(1, name=name)
    free = np.zeros(5)
    first = trainer(X, y, name, n_folds=4, prices=free)
    first.run(8)
    assert len(set(order(first))) > 1
    for k in range(4):
        fold = first.folds == k
        changed = y.copy()
        changed[fold] = np.random.default_rng(k).permutation(y[fold])
        second = trainer(X, changed, name, n_folds=4, prices=free, kind=Following)
        second.script = Script(order(first), [step.weights[0] for step in first.steps])
        second.run(len(first.steps))
        assert np.array_equal(second.folds, first.folds)
        assert np.array_equal(second.held_out[fold], first.held_out[fold])
        assert not np.allclose(second.held_out[~fold], first.held_out[~fold])
        assert not np.allclose(second.scores, first.scores)


def test_s3_at_its_own_gradient_the_kept_predictor_is_the_one_without_folds():
    """Learners read no earlier predictions, so that given the same steps folds change nothing."""
    X, y = data(2)
    learner = TreeLearner(max_depth=2)
    crossed = trainer(X, y, learners=[learner], n_folds=3, gradient_at="own")
    crossed.run(6)
    plain = trainer(X, y, learners=[learner], kind=Trainer)
    scores = plain.scores
    for step in crossed.steps:
        (candidate,) = plain.candidates.offer(scores, plain.objective.residual(scores), None)
        plain.candidates.take(candidate)
        scores = scores + step.weights[0] * candidate.outputs
    assert np.array_equal(crossed.scores, scores)


def test_held_out_scores_are_those_of_predictors_fitted_without_the_fold():
    """The algorithm written out: copies at their own gradients, the kept one at held-out scores, steps on held-out scores."""
    X, y = data(3)
    learner = TreeLearner(max_depth=3)
    crossed = trainer(X, y, learners=[learner], n_folds=3, gradient_at="held_out")
    crossed.run(5)
    folds, objective = crossed.folds, crossed.objective
    lone = trainer(X, y, learners=[learner], kind=Trainer).candidates
    copies, kept, held = [np.zeros((150, 1)) for _ in range(3)], np.zeros((150, 1)), np.zeros((150, 1))
    for step in crossed.steps:
        fitted = [
            lone.offer(f, objective.residual(f), np.flatnonzero(folds != k))[0].outputs
            for k, f in enumerate(copies)
        ]
        aside = np.select([folds[:, None] == k for k in range(3)], fitted)
        length, gain = objective.search(held, aside, 10.0)
        assert step.weights[0] == length
        assert step.gain == pytest.approx(gain)
        kept = kept + length * lone.offer(kept, objective.residual(held), None)[0].outputs
        copies = [f + length * h for f, h in zip(copies, fitted, strict=True)]
        held = np.select([folds[:, None] == k for k in range(3)], copies)
    assert np.array_equal(crossed.held_out, held)
    assert np.array_equal(crossed.scores, kept)
    assert crossed.value == pytest.approx(objective.value(held))


def test_s4_folds_part_the_rows_evenly_and_queries_not_at_all():
    X, y = data(4)
    sizes = np.bincount(trainer(X, y, n_folds=4).folds)
    assert sizes.sum() == 150
    assert sizes.max() - sizes.min() <= 1
    query = np.random.default_rng(4).integers(0, 25, 150)
    crossed = trainer(X, np.column_stack([y, query]), "pairwise_logistic", n_folds=4)
    assert all(len(set(crossed.folds[query == q])) == 1 for q in set(query))
    assert len(crossed.run(3)) == 3


def test_the_objective_at_held_out_scores_falls_until_no_learner_helps_it():
    X, y = data(5, noise=2.0)
    crossed = trainer(X, y, learners=LEARNERS[:3], rules={"learning_rate": 0.3})
    first, taken = crossed.value, crossed.run(300)
    for step in taken:
        assert step.gain > 0
        assert step.weights[0] > 0  # no learner is taken for the contrary of what it was fitted to
    assert 1 < len(taken) < 300
    assert crossed.stopped == "no gain"
    assert crossed.value == pytest.approx(first - sum(step.gain for step in taken))
    plain = trainer(X, y, kind=Trainer, learners=LEARNERS[:3], rules={"learning_rate": 0.3})
    assert len(plain.run(len(taken) + 50)) == len(taken) + 50


def test_choices_are_by_gain_per_cost_on_held_out_scores():
    X, y = data(6)
    crossed = trainer(X, y, n_folds=3)
    for step in crossed.run(5):
        assert step.score == max(score for _, score, _ in step.table)
        assert step.gain == pytest.approx(step.score * step.cost)
    inner = trainer(X, y, n_folds=3, rules={"selection": "inner"})
    assert len(inner.run(5)) > 2


def test_held_out_gradients_keep_boosting_from_fitting_noise():
    """Labels that are pure noise: in training the plain trainer thinks it has learned, the cross-fitted one knows it has not."""
    random = np.random.default_rng(8)
    X, y = random.normal(size=(200, 5)), random.integers(0, 2, 200)
    plain = trainer(X, y, kind=Trainer, learners=[TreeLearner(max_leaf_nodes=12)])
    crossed = trainer(X, y, learners=[TreeLearner(max_leaf_nodes=12)])
    plain.run(20)
    crossed.run(20)
    assert plain.value < 0.35
    assert 0.6 < crossed.value <= np.log(2)


@pytest.mark.parametrize("seed", [10, 11, 12])
def test_at_its_own_gradient_the_kept_predictor_does_better_on_new_rows(seed):
    """Held-out scores lag behind those of the kept predictor: fitted to their gradient, it goes too far."""
    X, y = data(seed, n=1000, noise=1.0)
    seen, new = slice(0, 400), slice(400, 1000)
    losses = []
    for gradient_at in ("own", "held_out"):
        crossed = trainer(
            X[seen],
            y[seen],
            learners=[TreeLearner(max_leaf_nodes=12)],
            rules={"learning_rate": 0.3},
            gradient_at=gradient_at,
        )
        scores = sum(step.weights[0] * step.candidate.weak.on(X[new]) for step in crossed.run(60))
        losses.append(MeanLoss(training_loss("logistic"), y[new]).value(scores))
    assert losses[0] < losses[1] - 0.01


@pytest.mark.parametrize(
    ("rules", "options", "message"),
    [
        ({"reweight": "all"}, {}, "needs reweight='last'"),
        ({"holdout": 0.1}, {}, "no holdout"),
        ({}, {"n_folds": 1}, "2 to 150 folds"),
        ({}, {"n_folds": 151}, "2 to 150 folds"),
    ],
)
def test_what_does_not_go_together_is_refused(rules, options, message):
    X, y = data(9)
    with pytest.raises(ValueError, match=message):
        trainer(X, y, rules=rules, **options)


def test_filters_are_refused():
    X, y = data(10)
    objective = MeanLoss(training_loss("logistic"), y)
    costs = FeatureCosts(np.ones(5)).bind(5)
    filtered = FittedCandidates(
        LEARNERS,
        TrainingRows(X),
        objective.weight,
        costs,
        step_cost=1.0,
        filters=margin_filters(),
        link="logistic",
    )
    with pytest.raises(ValueError, match="no filters"):
        CrossFitted(objective, filtered, BoostingRules())


def test_scores_are_those_of_the_predictors_that_are_kept():
    X, y = data(11)
    crossed = trainer(X, y, n_folds=3)
    crossed.run(4)
    rebuilt = np.zeros((150, 1))
    for step in crossed.steps:
        rebuilt = rebuilt + step.weights[0] * step.candidate.weak.on(X)
    assert_allclose(crossed.scores, rebuilt, rtol=0, atol=0)


def test_a_model_of_cross_fitted_steps_is_one_like_others():
    X, y = data(12, n=300)
    model = CrossFittedSpeedBoostClassifier(costs=PRICES, n_estimators=20, random_state=0).fit(X, y)
    assert model.score(X, y) > model.score(X, y, budget=0)
    with pytest.raises(ValueError, match="needs reweight='last'"):
        model.set_params(method="omp").fit(X, y)
