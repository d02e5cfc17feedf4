"""Learners compete by gain per cost (speedboost_and_structured 5, P17, P18, P26, P27): ledger, filters, projection."""

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.testing import assert_allclose

from anytime.blocks import FunctionBlock, LinearBlock
from anytime.boosting.candidates import FittedCandidates
from anytime.boosting.filters import margin_filters
from anytime.boosting.learners import (
    FunctionLearner,
    LinearLearner,
    TrainingRows,
    TreeLearner,
    Weak,
)
from anytime.boosting.trainer import BoostingRules, MeanLoss, Trainer
from anytime.costs import FeatureCosts
from anytime.losses import LINKS, training_loss
from anytime.rules import MarginRule, ScoreRule
from tests.boosting.problems import Dictionary, order, problem

MIXED = [
    TreeLearner(max_depth=1, evaluation_cost=0.05),
    TreeLearner(max_depth=3, cost_penalty=0.01, evaluation_cost=0.1),
    TreeLearner(max_leaf_nodes=8, visit_cost=0.05),
    LinearLearner(2),
    LinearLearner(6, evaluation_cost=0.02),
    FunctionLearner(
        lambda X, target, weight: lambda Z: np.outer(np.sin(3 * Z[:, 0]), np.mean(target, axis=0)), [2]
    ),
]
COSTS = FeatureCosts(
    groups={"draw": [], "a": [0, 1], "b": [2], "c": [3], "d": [4, 5]},
    prices={"draw": 0.7, "a": 1.3, "b": 0.4, "c": 2.2, "d": 0.9},
    requires={"a": ["draw"], "d": ["draw"]},
)


def data(seed=0, n=200, name="logistic"):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 6))
    truth = X[:, 0] + np.sin(3 * X[:, 2]) * X[:, 3] + 0.7 * X[:, 5] + 0.5 * random.normal(size=n)
    y = truth if name == "squared" else (truth > 0).astype(int)
    if name == "multinomial":
        y = np.digitize(truth, [-1.0, 1.0])
    return X, MeanLoss(training_loss(name), y)


def competing(X, objective, learners=MIXED, *, filters=None, seed=1, step_cost=0.01, costs=COSTS):
    return FittedCandidates(
        learners,
        TrainingRows(X),
        objective.weight,
        costs.bind(X.shape[1]),
        step_cost=step_cost,
        filters=filters,
        link=objective.loss.link,
        random=np.random.RandomState(seed),
    )


# ---------------------------------------------------------------------- costs


@pytest.mark.parametrize("name", ["squared", "logistic", "multinomial"])
def test_p17_conditional_costs_add_up_to_evaluations_and_each_group_once(name):
    X, objective = data(name=name)
    trainer = Trainer(objective, competing(X, objective), BoostingRules())
    trainer.run(25)
    weak = [step.candidate.weak for step in trainer.steps]
    assert len({type(w.part) for w in weak}) > 1
    bound = COSTS.bind(6)
    bought = bound.closure(bound.groups_of(np.concatenate([w.columns for w in weak])))
    price = COSTS.price([COSTS.names[g] for g in np.flatnonzero(bought)])
    assert trainer.spent == pytest.approx(sum(w.evaluation_cost + 0.01 for w in weak) + price, rel=1e-12)
    assert np.array_equal(trainer.candidates.bought[0], bought)


def test_p17_what_a_predictor_costs_never_rises():
    X, objective = data()
    candidates = competing(X, objective)
    target = objective.residual(np.zeros((200, 1)))
    first = {c.number: c for c in candidates.offer(np.zeros((200, 1)), target, None)}
    costs = {number: c.cost for number, c in first.items()}
    for taken in (3, 0, 1, 2):
        candidates.take(first[taken])
        now = {number: candidates._cost(c.weak, None, None) for number, c in first.items()}
        assert all(now[number] <= costs[number] for number in now)
        assert now[taken] == pytest.approx(first[taken].weak.evaluation_cost + 0.01)
        costs = now


def test_a_step_that_costs_nothing_is_refused():
    X, objective = data()
    with pytest.raises(ValueError, match="step_cost must be positive"):
        competing(X, objective, step_cost=0.0)
    with pytest.raises(ValueError, match="at least one learner"):
        competing(X, objective, [])


def test_learners_are_told_what_is_bought_and_which_rows():
    X, objective = data()
    seen = []

    @dataclass
    class Spy:
        def fit(self, task):
            seen.append(task)
            return LinearLearner(1).fit(task)

    candidates = competing(X, objective, [Spy()])
    trainer = Trainer(objective, candidates, BoostingRules(holdout=0.25))
    trainer.run(3)
    for before, task in zip([None, *trainer.steps], seen, strict=False):
        assert task.rows.size == 150
        assert task.step_cost == 0.01
        if before is not None:
            assert task.bought[task.costs.groups_of(before.candidate.weak.columns)].all()
    assert not seen[0].bought.any()


# ---------------------------------------------------------------------- filters


def test_p18_rows_that_do_not_pass_stay_as_they_are_and_pay_nothing():
    X, objective = data(3, n=300)
    trainer = Trainer(objective, competing(X, objective, filters=margin_filters()), BoostingRules())
    paid = np.zeros((300, 5), dtype=bool)
    bound, filtered = COSTS.bind(6), 0
    prices = COSTS.amounts(bound.prices)
    for _ in range(25):
        before = trainer.scores
        step = trainer.step()
        rule, weak = step.candidate.rule, step.candidate.weak
        passing = np.ones(300, dtype=bool) if rule is None else rule.holds(X, before, LINKS["logistic"])
        filtered += rule is not None
        assert np.array_equal(trainer.scores[~passing], before[~passing])
        assert np.array_equal(
            trainer.scores, before + step.weights[0] * np.where(passing[:, None], weak.on(X), 0.0)
        )
        groups = bound.closure(bound.groups_of(weak.columns))
        of_row = passing * (weak.evaluation_cost + 0.01) + (passing[:, None] & groups & ~paid) @ prices
        assert step.cost == pytest.approx(of_row.mean(), rel=1e-12)
        paid |= passing[:, None] & groups
    assert np.array_equal(trainer.candidates.bought, paid)
    assert filtered > 3


def test_p18_without_filters_a_filtered_trainer_is_the_unfiltered_one():
    X, objective = data(4)
    plain = Trainer(objective, competing(X, objective), BoostingRules())
    filtered = Trainer(
        objective, competing(X, objective, filters=lambda scores, link: [None]), BoostingRules()
    )
    everyone = Trainer(
        objective, competing(X, objective, filters=lambda scores, link: [MarginRule(np.inf)]), BoostingRules()
    )
    for other in (filtered, everyone):
        other.run(10)
    plain.run(10)
    assert np.array_equal(plain.scores, filtered.scores)
    assert np.array_equal(plain.scores, everyone.scores)
    assert_allclose([filtered.spent, everyone.spent], plain.spent, rtol=1e-12)


def test_what_a_filter_reads_is_paid_by_all_rows():
    X, objective = data(5)
    gate = ScoreRule(LinearBlock([2], [[1.0]]), 0.0)
    candidates = competing(X, objective, [TreeLearner(max_depth=1)], filters=lambda scores, link: [gate])
    scores = np.zeros((200, 1))
    (candidate,) = candidates.offer(scores, objective.residual(scores), None)
    share = np.mean(X[:, 2] > 0)
    bound = COSTS.bind(6)
    needed = bound.closure(bound.groups_of(candidate.weak.columns)) & (np.arange(5) != 2)
    expected = 0.4 + share * (0.01 + COSTS.amounts(bound.prices)[needed].sum())
    assert candidate.cost == pytest.approx(expected)
    candidates.take(candidate)
    assert candidates.bought[:, 2].all()
    assert np.array_equal(candidates.bought[:, needed].any(axis=1), (X[:, 2] > 0) & needed.any())


# ---------------------------------------------------------------------- classes of finitely many predictors


@dataclass
class Choice:
    """The element of a finite class that goes best with the gradient, by the angle (form A of the projection)."""

    outputs: np.ndarray  # (m, n, K)
    cost: float

    def fit(self, task):
        inner = np.einsum("mnk,nk,n->m", self.outputs, task.target, task.weight)
        norms = np.sqrt(np.einsum("mnk,mnk,n->m", self.outputs, self.outputs, task.weight))
        best = self.outputs[np.argmax(np.abs(inner) / norms)]
        return Weak(best, FunctionBlock([0], lambda X: best, best.shape[1]), self.cost)


def of_classes(dictionary, costs, members, y, loss, rules):
    """A trainer on the classes ``members``, whose elements cost the same."""
    learners = [Choice(dictionary[inside], costs[inside[0]] - 0.001) for inside in members]
    objective = MeanLoss(loss, y)
    n = dictionary.shape[1]
    free = FeatureCosts([0.0]).bind(1)
    candidates = FittedCandidates(
        learners, TrainingRows(np.zeros((n, 1))), objective.weight, free, step_cost=0.001
    )
    return Trainer(objective, candidates, rules)


@pytest.mark.parametrize("reweight", ["last", "all"])
@pytest.mark.parametrize("name", ["squared", "logistic"])
def test_p26_projecting_onto_each_class_and_then_choosing_is_choosing_among_all(name, reweight):
    """Classes of constant cost and equal norms, selection by inner product."""
    members = [[0, 1, 2], [3, 4], [5, 6, 7]]
    for seed in range(5):
        dictionary, costs, y, loss = problem([30, seed], name)
        for inside in members:
            costs[inside] = costs[inside[0]]
            norms = np.sqrt((dictionary[inside] ** 2).mean(axis=(1, 2), keepdims=True))
            dictionary[inside] *= (1 + inside[0]) / norms
        rules = BoostingRules(selection="inner", reweight=reweight, largest=100.0)
        by_class = of_classes(dictionary, costs, members, y, loss, rules)
        among_all = Trainer(MeanLoss(loss, y), Dictionary(dictionary, costs), rules)
        by_class.run(5)
        among_all.run(5)
        assert_allclose(by_class.scores, among_all.scores, atol=1e-9)
        assert by_class.spent == pytest.approx(among_all.spent)


@pytest.mark.parametrize("name", ["squared", "logistic"])
def test_p27_with_every_element_its_own_class_omp_by_gain_is_fr(name):
    for seed in range(3):
        dictionary, costs, y, loss = problem([31, seed], name)
        rules = BoostingRules(reweight="all")
        omp = of_classes(dictionary, costs, [[j] for j in range(8)], y, loss, rules)
        fr = Trainer(MeanLoss(loss, y), Dictionary(dictionary, costs, once=True), rules)
        omp.run(6)
        fr.run(6)
        assert order(omp) == order(fr)
        for one, other in zip(omp.steps, fr.steps, strict=True):
            assert_allclose(one.weights, other.weights, atol=1e-9)
        assert omp.spent == pytest.approx(fr.spent)


# ---------------------------------------------------------------------- a whole run


def test_the_objective_falls_and_every_step_names_its_rivals():
    X, objective = data(7)
    trainer = Trainer(objective, competing(X, objective), BoostingRules())
    values = [trainer.value]
    for step in trainer.run(15):
        values.append(values[-1] - step.gain)
        assert 0 < step.edge <= 1
        assert {number for number, _, _ in step.table} <= set(range(6))
        assert step.score == max(score for _, score, _ in step.table)
        assert all(part.size == 0 for part in (step.candidate.outputs, step.candidate.weak.outputs))
    assert trainer.value == pytest.approx(values[-1])
    assert trainer.value < 0.5 * values[0]
