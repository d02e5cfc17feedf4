"""Filters to choose from: where thresholds lie, and that a filtered run costs what its rows pay."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from anytime.boosting.additive import AdditiveSpeedBoostClassifier
from anytime.boosting.candidates import FittedCandidates
from anytime.boosting.filters import entropy_filters, function_filters, margin_filters
from anytime.boosting.learners import TrainingRows, TreeLearner, blocks_of, scaled
from anytime.boosting.trainer import BoostingRules, MeanLoss, Trainer
from anytime.costs import FeatureCosts
from anytime.curves import curve
from anytime.losses import LINKS, training_loss
from anytime.plan import Plan
from anytime.rules import EntropyRule, FunctionRule, MarginRule
from anytime_research.datasets import make_patches
from tests.runtime.bench import model_of

LINK, EMPTY = LINKS["logistic"], np.empty((0, 0))


def absolute(scores):
    return np.abs(scores[:, 0])


def negative(scores):
    return -np.abs(scores[:, 0])


# ---------------------------------------------------------------------- where thresholds lie


def test_a_grid_offers_no_filter_first():
    """speedboost_and_structured 2.8: the grid always includes theta = inf."""
    scores = np.random.default_rng(0).normal(size=(100, 1))
    for grid in (margin_filters(), entropy_filters(), function_filters(absolute)):
        rules = grid(scores, LINK)
        assert rules[0] is None
        assert len(rules) == 6


@pytest.mark.parametrize(
    ("grid", "kind"),
    [
        (margin_filters([0.2, 0.7]), MarginRule),
        (entropy_filters([0.2, 0.7]), EntropyRule),
        (function_filters(absolute, [0.2, 0.7]), FunctionRule),
        (function_filters(negative, [0.2, 0.7], below=False), FunctionRule),
    ],
)
def test_the_undecided_pass_in_the_shares_that_were_asked_for(grid, kind):
    scores = np.random.default_rng(1).normal(size=(1000, 1))
    undecided = np.argsort(np.abs(scores[:, 0]))
    passing = [set(np.flatnonzero(rule.holds(EMPTY, scores, LINK))) for rule in grid(scores, LINK)[1:]]
    assert all(isinstance(rule, kind) for rule in grid(scores, LINK)[1:])
    assert sorted(map(len, passing)) == [200, 700]
    assert min(passing, key=len) == set(undecided[:200])
    assert max(passing, key=len) == set(undecided[:700])


@given(st.lists(st.sampled_from([0.0, 0.1, -0.3, 0.7, 0.7 + 1e-12, 2.0, -5.0]), min_size=1, max_size=60))
def test_no_row_stands_on_a_threshold(values):
    """Stumps give few different scores; the last digit of a sum must not decide who passes."""
    margins = np.abs(values)
    for rule in margin_filters()(np.array(values)[:, None], LINK)[1:]:
        assert np.abs(margins - rule.threshold).min() > 1e-3
        assert 0 < (margins < rule.threshold).sum() < len(values)


def test_equal_scores_leave_nothing_to_filter():
    assert margin_filters()(np.zeros((50, 1)), LINK) == [None]
    assert margin_filters()(np.full((1, 1), np.nan), LINK) == [None]


def test_a_grid_can_be_kept_with_its_model():
    grid = pickle.loads(pickle.dumps(margin_filters([0.3])))
    assert grid == margin_filters([0.3])


def test_shares_are_shares():
    with pytest.raises(ValueError, match=r"between 0 and 1, not \(0.5, 10\)"):
        margin_filters((0.5, 10))


# ---------------------------------------------------------------------- training with filters

RANDOM = np.random.default_rng(5)
X = RANDOM.normal(size=(400, 8))
Y = (X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * RANDOM.normal(size=400) > 0.8).astype(np.intp)
COSTS = FeatureCosts([1.0, 2.0, 3.0, 1.0, 1.0, 5.0, 0.5, 0.0]).bind(8)
STEP_COST = 0.01


def trained(filters, n_steps=40):
    """A trainer, and the plan of what it has done."""
    objective = MeanLoss(training_loss("logistic"), Y)
    learners = [TreeLearner(max_depth=1), TreeLearner(max_depth=1, cost_penalty=0.1)]
    candidates = FittedCandidates(
        learners,
        TrainingRows(X),
        objective.weight,
        COSTS,
        step_cost=STEP_COST,
        filters=filters,
        link="logistic",
    )
    trainer = Trainer(objective, candidates, BoostingRules())
    steps = trainer.run(n_steps)
    plan = Plan(
        blocks=blocks_of([scaled(s.candidate.weak.part, float(s.weights[0])) for s in steps]),
        costs=COSTS,
        base=[0.0],
        link="logistic",
        evaluation_costs=np.full(len(steps), STEP_COST),
        passes={t: s.candidate.rule for t, s in enumerate(steps) if s.candidate.rule is not None},
    )
    return trainer, plan


@pytest.mark.parametrize("filters", [margin_filters(), entropy_filters(), function_filters(absolute)])
def test_a_filtered_model_answers_and_costs_what_its_training_says(filters):
    """P18: the stage cost is the mean of phi tau_x, and rows go where training sent them."""
    trainer, plan = trained(filters)
    assert len(plan.passes) > 5
    answers = list(model_of(plan).stages(X))
    assert_allclose(answers[-1].scores, trainer.scores, atol=1e-12)
    mean_costs = np.diff([answer.cost.mean() for answer in answers])
    assert_allclose(mean_costs, [step.cost for step in trainer.steps], rtol=1e-9, atol=1e-12)
    losses = [training_loss("logistic")(answer.scores, Y) for answer in answers]
    assert (np.diff(losses) <= 1e-12).all()  # P1 holds with filters too


def test_margin_and_entropy_filters_train_the_same_model_of_two_classes():
    """For two classes the two measures order rows alike, so the same steps win."""
    by_margin, by_entropy = trained(margin_filters(), 15)[0], trained(entropy_filters(), 15)[0]
    assert_allclose([s.cost for s in by_margin.steps], [s.cost for s in by_entropy.steps])
    assert_allclose(by_margin.scores, by_entropy.scores, atol=1e-9)


def test_filters_that_nobody_needs_change_nothing():
    """Theta = inf alone reproduces the unfiltered run."""
    plain, filtered = trained(None, 15)[0], trained(lambda scores, link: [None], 15)[0]
    assert_array_equal(plain.scores, filtered.scores)
    assert_allclose(plain.spent, filtered.spent)


@pytest.mark.slow
def test_filters_reach_the_same_error_at_less_than_half_the_cost_of_a_batch():
    """speedboost_and_structured 6.2: imbalanced detection; the cost of a batch is the mean number of features per patch."""
    train, test = make_patches(5000, random_state=0), make_patches(10_000, random_state=1)
    curves = []
    for filters in (None, margin_filters()):
        model = AdditiveSpeedBoostClassifier(
            method="proj",
            loss="exponential",
            learners=[TreeLearner(max_depth=1)],
            learning_rate=0.3,
            n_estimators=120,
            filters=filters,
            validation_fraction=None,
            random_state=0,
        ).fit(train.X, train.y)
        curves.append(curve(model, test.X, test.y, metric="error", meter="realised"))
    plain, filtered = curves
    error = plain.at(20.0)
    assert error < 0.06
    assert filtered.cost_to_reach(error) < 0.5 * plain.cost_to_reach(error)
