"""Held-out predictions as context: Algorithm 3.3 against the obvious loops, and what copies may know (P24)."""

from dataclasses import dataclass

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp, softmax

import anytime as at
from anytime.ragged import offsets_of
from anytime.structured import Chains, EntropySelector, StructuredRules, StructuredSpeedBoost
from anytime.structured.learners import FittedUpdate
from anytime.structured.predictors import LinearPredictor

FOLDS, STEPS, PRICES, LEAST = 3, 4, (1.0, 1.1, 1.2), 1.0


def chains(n=40, seed=0):
    """Two noisy columns that tell of labels in runs of three, and one of noise."""
    random = np.random.default_rng(seed)
    lengths = 3 * random.integers(1, 4, n)
    flat = np.concatenate([np.repeat(random.integers(0, 3, length // 3), 3) for length in lengths])
    noise = random.normal(size=(flat.size, 3))
    table = np.column_stack([(flat == 1) + noise[:, 0], (flat == 2) + noise[:, 1], noise[:, 2]])
    return Chains(table, offsets_of(lengths), order=1), np.eye(3)[flat]


@dataclass(frozen=True)
class LeastSquares:
    """The projection of the gradient onto linear functions of one column and of the context's numbers."""

    column: int

    def fit(self, task):
        context = np.flatnonzero(task.table.context_categories == 0).astype(np.int32)
        X = np.hstack([task.table.features[:, [self.column]], task.context[:, context]])
        used = task.which[task.weight[task.which] > 0]
        weights = projected(X[used], task.target[used])
        predictor = LinearPredictor(
            [self.column], context, np.zeros(1 + context.size, int), weights[:-1], weights[-1]
        )
        return FittedUpdate(predictor, predictor.outputs(X))


def projected(X, target):
    """(columns + 1, K) least squares with a little ridge; the last row is the bias."""
    X = np.column_stack([X, np.ones(len(X))])
    return np.linalg.solve(X.T @ X + 0.1 * np.eye(X.shape[1]), X.T @ target).astype(np.float32)


def trainer(structures, truth, **rules):
    return StructuredSpeedBoost(
        structures,
        truth,
        np.ones(len(truth)),
        at.FeatureCosts(list(PRICES)).bind(3),
        [EntropySelector()],
        [LeastSquares(0), LeastSquares(1), LeastSquares(2)],
        StructuredRules(folds=FOLDS, copies_are_told="own", least_cost=LEAST, **rules),
    )


def by_loops(structures, truth, fold, stacking, told_after=False):
    """Algorithm 3.3 with the cost-greedy choice of 7.1: scores of the main predictor and of the copies.

    ``told_after``: the error of telling the main predictor what copies say after their step.
    """

    def loss(scores, used):
        return np.mean((logsumexp(scores, axis=1) - (truth * scores).sum(axis=1))[used])

    def inputs(column, told):
        context = structures.context(0, softmax(told, axis=1))
        return np.hstack([structures.table[:, [column]], context[:, : 3 * 4]])

    def best(scores, used, told, bought, only=None):
        """(rate, column, new scores) of the best candidate, fitted to the elements that are used."""
        found = None
        for column in range(3) if only is None else [only]:
            X = inputs(column, told)
            weights = projected(X[used], (truth - softmax(scores, axis=1))[used])
            direction = np.column_stack([X, np.ones(len(X))]) @ weights
            step = minimize_scalar(
                lambda a, d=direction: loss(scores + a * d, used),
                bounds=(-10, 10),
                method="bounded",
                options={"xatol": 1e-10},
            ).x
            gain = loss(scores, used) - loss(scores + step * direction, used)
            rate = gain / ((0.0 if column in bought else PRICES[column]) + LEAST)
            if found is None or rate > found[0]:
                found = (rate, column, scores + step * direction)
        return found

    every = np.ones(len(truth), dtype=bool)
    main, copies = np.zeros_like(truth), [np.zeros_like(truth) for _ in range(FOLDS)]
    main_bought, bought = set(), [set() for _ in range(FOLDS)]

    def held_out():
        return np.stack([copies[k][i] for i, k in enumerate(fold)])

    for _ in range(STEPS):
        told = held_out()
        _, column, moved = best(main, every, told, main_bought)
        for k in range(FOLDS):
            only = column if stacking == "shared" else None
            _, own, copies[k] = best(copies[k], fold != k, copies[k], bought[k], only)
            bought[k].add(own)
        if told_after:
            _, column, moved = best(main, every, held_out(), main_bought)
        main = moved
        main_bought.add(column)
    return main, copies


@pytest.mark.parametrize("stacking", ["shared", "independent"])
def test_boosted_stacking_is_that_of_the_loops(stacking):
    """speedboost_and_structured 4.7, Algorithm 3.3; negative control: context that is taken after the copies' step."""
    structures, truth = chains()
    learned = trainer(structures, truth, stacking=stacking)
    learned.run(STEPS)
    main, copies = by_loops(structures, truth, learned._in_fold, stacking)
    np.testing.assert_allclose(learned.scores, main, atol=1e-4)
    for copy, expected in zip(learned._copies, copies, strict=True):
        np.testing.assert_allclose(copy.scores, expected, atol=1e-4)
    late, _ = by_loops(structures, truth, learned._in_fold, stacking, told_after=True)
    assert np.abs(learned.scores - late).max() > 1e-2


def columns(updates):
    return [update.predictor.columns.tolist() for update in updates]


def test_shared_copies_make_the_main_choice_and_independent_ones_their_own():
    """speedboost_and_structured 4.7: one sequence of costs for all copies, or each its own."""
    for stacking in ("shared", "independent"):
        differ = 0
        for seed in range(4):
            learned = trainer(*chains(seed=seed), stacking=stacking)
            learned.run(STEPS)
            main = columns(learned.block().updates)
            differ += sum(columns(copy) != main for copy in learned.copies)
        assert differ == 0 if stacking == "shared" else differ > 0


@pytest.mark.parametrize("seed", range(3))
def test_purchases_of_the_main_predictor_do_not_reach_independent_copies(seed):
    """speedboost_and_structured 5, P24; negative controls: the copies that learn from these labels, and a shared choice."""
    structures, truth = chains(seed=seed)
    fold = trainer(structures, truth)._in_fold
    other = truth.copy()
    other[fold == 0] = np.random.default_rng(seed).permutation(other[fold == 0])
    for stacking in ("independent", "shared"):
        learned = [trainer(structures, labels, stacking=stacking) for labels in (truth, other)]
        for one in learned:
            one.run(STEPS)
        mains = [columns(one.block().updates) for one in learned]
        assert mains[0] != mains[1]
        same = [
            np.array_equal(a.scores, b.scores) for a, b in zip(*(one._copies for one in learned), strict=True)
        ]
        assert same == [stacking == "independent", False, False]
