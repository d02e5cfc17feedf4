"""Gate and cheap model as trees (adaptive_approximation 6, 7)."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification

import anytime as at
from anytime.adaptive.boosted import BoostedPairLearner
from anytime.adaptive.routing import alternate
from anytime.boosting.learners import TrainingRows
from anytime.boosting.objective import MeanLoss, derivatives
from anytime.boosting.rounds import GradientRounds
from anytime.losses import training_loss
from anytime.trees.block import TreeBlock
from anytime_research.adaptive.mean_leaves import MeanLeafPairLearner
from tests.reference import tree_growing as reference
from tests.reference.routing import smooth_part


def problem(n_classes=2, n=600, seed=0):
    X, y = make_classification(
        n,
        8,
        n_informative=6,
        n_redundant=0,
        n_classes=n_classes,
        n_clusters_per_class=1,
        flip_y=0.1,
        random_state=seed,
    )
    costs = at.FeatureCosts([1, 2, 3, 1, 2, 3, 1, 2])
    return X, y, costs


def losses_of_costly(y, seed=0, right=0.95):
    hit = np.random.default_rng(seed).random(len(y)) < right
    return -np.log(np.where(hit, right, 1 - right))


@pytest.mark.parametrize("folds", [None, 3])
def test_with_nobody_sent_on_the_cheap_model_is_greedy_miser_tree_for_tree(folds):
    """Section 6, special case: P_full = 0."""
    X, y, costs = problem(2)
    cost_penalty = 0.01
    learner = BoostedPairLearner(
        TrainingRows(X),
        y,
        costs.bind(8),
        cost_penalty=cost_penalty,
        n_estimators=15,
        max_depth=4,
        min_samples_leaf=10,
        folds=folds,
    )
    done = alternate(learner, losses_of_costly(y), 0.0, max_iter=2)
    cheap, gate = done.learned.trees
    miser = at.GradientBoostingClassifier(
        costs=costs,
        n_estimators=15,
        max_leaf_nodes=None,
        max_depth=4,
        min_samples_leaf=10,
        cost_penalty=cost_penalty * len(y),
    ).fit(X, y)
    mine, theirs = (
        TreeBlock(cheap.trees()).forest.arrays(),
        miser.plan_.blocks[0].forest.arrays(),
    )
    for name in ("tree_start", "feature", "threshold", "left", "right", "value", "tree_output"):
        assert_array_equal(mine[name], theirs[name], err_msg=name)
    assert_array_equal(done.learned.bases[0], miser.plan_.base)
    assert not gate.rounds  # a constant, which buys nothing
    assert (done.learned.gate < 0).all()
    assert 0 < done.learned.bought.sum() < 8  # prices mattered


def test_of_several_classes_a_tree_answers_for_all_and_pays_with_what_it_saves_of_all():
    X, y, costs = problem(3)
    table, price = TrainingRows(X), 0.01
    learner = BoostedPairLearner(table, y, costs.bind(8), cost_penalty=price, n_estimators=15)
    done = alternate(learner, losses_of_costly(y), 0.0, max_iter=2).learned
    objective = MeanLoss(learner.loss, y, np.ones(len(y)))
    grower = replace(learner.grower, cost_penalty=price * len(y) / 3)
    miser = GradientRounds(table.binned, objective, grower, done.bases[0], costs=costs.bind(8), shared=True)
    miser.run(15)
    assert_array_equal(done.trees[0].scores, miser.scores)
    assert [len(trees) for trees in done.trees[0].rounds] == [1] * 15
    assert_array_equal(done.bought, miser.bought)
    assert 0 < done.bought.sum() < 8


def test_with_somebody_sent_on_it_is_not():
    X, y, costs = problem()
    learner = BoostedPairLearner(
        TrainingRows(X), y, costs.bind(8), cost_penalty=0.01, n_estimators=15, min_samples_leaf=10
    )
    hard = losses_of_costly(y)
    none, some = (alternate(learner, hard, p, max_iter=2) for p in (0.0, 0.4))
    assert some.learned.trees[1].rounds
    assert np.abs(some.learned.trees[0].scores - none.learned.trees[0].scores).max() > 0.01


def test_the_trees_of_gate_and_cheap_model_follow_the_residuals():
    """(5.1), (5.2): what Boosting is given is the derivative of the smooth part, soft labels included."""
    _, y, _ = problem()
    random = np.random.default_rng(1)
    f, g, q = random.normal(size=len(y)), random.normal(size=len(y)), random.random(len(y))
    _, in_cheap, in_gate = smooth_part(f, g, q, 2 * y - 1)
    loss = training_loss("logistic")
    assert_allclose(
        derivatives(MeanLoss(loss, y, 1 - q), f[:, None])[0][:, 0], in_cheap, rtol=1e-5, atol=1e-7
    )
    assert_allclose(derivatives(MeanLoss(loss, q), g[:, None])[0][:, 0], in_gate, rtol=1e-5, atol=1e-6)


def test_what_one_of_the_two_buys_is_free_for_both():
    X, y, costs = problem()
    learner = BoostedPairLearner(
        TrainingRows(X), y, costs.bind(8), cost_penalty=0.02, n_estimators=20, min_samples_leaf=10
    )
    done = alternate(learner, losses_of_costly(y), 0.4, max_iter=3)
    cheap, gate = done.learned.trees
    assert cheap.bought is gate.bought
    gate_block, cheap_block = done.learned.blocks()
    used = np.union1d(gate_block.columns(0), cheap_block.columns(0))
    assert_array_equal(np.flatnonzero(done.learned.bought), used)
    assert done.learned.penalty == pytest.approx(0.02 * np.array([1, 2, 3, 1, 2, 3, 1, 2])[used].sum())


def test_requirements_are_bought_with_a_feature():
    X, y, _ = problem()
    names = [f"x{j}" for j in range(8)]
    costs = at.FeatureCosts(
        groups={"draw": [], **{name: [j] for j, name in enumerate(names)}},
        prices={"draw": 1.0, **dict.fromkeys(names, 1.0)},
        requires={name: ["draw"] for name in names},
    )
    learner = BoostedPairLearner(TrainingRows(X), y, costs.bind(8), cost_penalty=0.01, n_estimators=5)
    pair = learner.learn(np.full(len(y), 0.3), learner.start(None))
    assert pair.bought[0]
    assert pair.penalty == pytest.approx(0.01 * pair.bought.sum())


@pytest.mark.parametrize("n_classes", [2, 3])
def test_blocks_give_the_scores_of_training(n_classes):
    X, y, costs = problem(n_classes)
    learner = BoostedPairLearner(TrainingRows(X), y, costs.bind(8), cost_penalty=0.002, n_estimators=10)
    pair = learner.learn(np.full(len(y), 0.3), learner.start(None))
    gate, cheap = pair.blocks()
    assert_allclose(gate.outputs(0, X)[:, 0], pair.gate, atol=1e-9)
    loss = training_loss("logistic" if n_classes == 2 else "multinomial")
    assert_allclose(loss.per_row(cheap.outputs(0, X), y), pair.cheap_loss, atol=1e-9)


def test_a_prohibitive_price_leaves_constants():
    X, y, costs = problem()
    learner = BoostedPairLearner(TrainingRows(X), y, costs.bind(8), cost_penalty=10.0, n_estimators=5)
    pair = learner.learn(np.full(len(y), 0.3), learner.start(None))
    assert not pair.bought.any()
    gate, cheap = pair.blocks()
    assert gate.columns(0).size == cheap.columns(0).size == 0
    assert_allclose(gate.outputs(0, X)[:, 0], np.log(0.3 / 0.7))


def test_the_best_of_all_turns_is_kept():
    X, y, costs = problem()
    learner = BoostedPairLearner(TrainingRows(X), y, costs.bind(8), cost_penalty=0.005, n_estimators=10)
    done = alternate(learner, losses_of_costly(y), 0.3, max_iter=6, tol=0.0)
    assert done.terms.total == min(done.trace[1:])
    assert len(done.trace) == 7


def test_threads_do_not_change_the_trees():
    X, y, costs = problem()
    one, two = (
        BoostedPairLearner(TrainingRows(X), y, costs.bind(8), cost_penalty=0.005, n_estimators=6, n_threads=k)
        for k in (1, 2)
    )
    q = np.random.default_rng(0).random(len(y))
    assert_array_equal(one.learn(q, one.start(None)).gate, two.learn(q, two.start(None)).gate)


def test_trees_are_those_of_algorithm_5():
    """(5.1), (5.2): in turns a penalised CART on the residuals of each, with what is bought shared in between."""
    random = np.random.default_rng(0)
    n, prices, cost_penalty = 80, [1.0, 2.0, 4.0], 0.004
    X = random.integers(0, 6, (n, 3)).astype(float)
    y = (X[:, 0] + X[:, 1] + random.normal(size=n) > 5).astype(np.intp)
    q = np.clip(0.5 - 0.15 * (X[:, 2] - 2.5) + 0.1 * random.normal(size=n), 0.05, 0.95)
    table = TrainingRows(X)
    learner = MeanLeafPairLearner(
        table,
        y,
        at.FeatureCosts(prices).bind(3),
        cost_penalty=cost_penalty,
        n_estimators=3,
        max_depth=2,
        min_samples_leaf=1,
        learning_rate=0.5,
    )
    pair = learner.learn(q, learner.start(None))
    ensembles, bought = pair.trees, set()
    scores = [np.full(n, pair.bases[0][0]), np.full(n, pair.bases[1][0])]
    for t in range(3):
        for which in (0, 1):
            _, *slopes = smooth_part(scores[0], scores[1], q, 2 * y - 1)
            (tree,) = ensembles[which].rounds[t]
            unscaled = replace(tree, value=tree.value / 0.5)
            data = reference.Data(
                X,
                -slopes[which][:, None],
                np.ones((n, 1)),
                [table.binned.thresholds(j) for j in range(3)],
                range(3),
            )
            rules = reference.Rules(
                max_leaf_nodes=None,
                max_depth=2,
                cost_penalty=cost_penalty * n,
                prices=prices,
                requires=[[], [], []],
                column_group=[0, 1, 2],
                bought=bought,
            )
            _, bought = reference.replay(unscaled, data, rules, 1e-5)
            scores[which] = scores[which] + TreeBlock(tree).outputs(0, X)[:, 0]
    assert bought == set(np.flatnonzero(pair.bought))
    assert_allclose(scores[1], pair.gate, atol=1e-9)


def test_routing_by_folds_knows_that_a_cheap_model_errs_on_new_rows():
    X, y, costs = problem(n=300)
    q, settings = np.full(300, 0.3), {"n_estimators": 40, "min_samples_leaf": 1, "learning_rate": 0.3}
    vain, honest = (
        BoostedPairLearner(TrainingRows(X), y, costs.bind(8), cost_penalty=1e-4, folds=k, **settings)
        for k in (None, 3)
    )
    own, new = vain.learn(q, vain.start(None)), honest.learn(q, honest.start(None))
    assert_array_equal(own.trees[0].scores, new.trees[0].scores)  # the same trees, judged otherwise
    fresh = np.mean(training_loss("logistic").per_row(new.blocks()[1].outputs(0, X), y))
    assert own.cheap_loss.mean() == pytest.approx(fresh)
    assert new.cheap_loss.mean() > 3 * own.cheap_loss.mean()
