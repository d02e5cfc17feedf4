"""Weak learners: what they fit, what they cost, and that their stage in a plan computes what they said in training."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from anytime.blocks import FunctionBlock, LinearBlock
from anytime.boosting.learners import (
    FunctionLearner,
    GradientTask,
    LinearLearner,
    TrainingRows,
    TreeLearner,
    blocks_of,
    conditional_price,
    scaled,
    votes,
)
from anytime.costs import FeatureCosts
from anytime.trees.arrays import TreeArrays
from anytime.trees.block import TreeBlock


def task(
    seed=0, n=120, d=5, n_outputs=1, *, missing=0.0, rows=None, weighted=False, costs=None, bought=(), **table
):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d))
    target = X[:, :n_outputs] + 0.5 * np.sin(3 * X[:, [3]]) + 0.3 * random.normal(size=(n, n_outputs))
    X[random.random(X.shape) < missing] = np.nan
    bound = (FeatureCosts(np.ones(d)) if costs is None else costs).bind(d)
    paid = np.zeros(bound.n_groups, dtype=bool)
    paid[list(bought)] = True
    weight = random.gamma(2, 1, n) if weighted else np.ones(n)
    return GradientTask(
        TrainingRows(X, **table),
        target,
        weight / weight.sum(),
        rows,
        bound,
        paid,
        0.01,
        np.random.RandomState(seed),
    )


def make_mean(inside, target, weight):
    level = np.average(inside[:, 0], weights=weight)
    gain = np.average(target, axis=0, weights=weight)
    return lambda X: (
        np.where(X[:, 0] > level, 1.0, -1.0) * gain
        if np.ndim(target) == 1
        else np.outer(X[:, 0] > level, gain)
    )


LEARNERS = {
    "tree": TreeLearner(max_depth=3),
    "voting tree": TreeLearner(max_leaf_nodes=6, leaf="vote"),
    "linear": LinearLearner(3),
    "function": FunctionLearner(make_mean, [3, 0]),
}


@pytest.mark.parametrize("rows", [None, np.arange(7, 120, 2)])
@pytest.mark.parametrize("n_outputs", [1, 3])
@pytest.mark.parametrize("name", LEARNERS)
def test_a_stage_of_the_plan_computes_what_training_saw(name, n_outputs, rows):
    given = task(1, n_outputs=n_outputs, rows=rows, weighted=True, missing=0.0 if name == "function" else 0.1)
    weak = LEARNERS[name].fit(given)
    X = given.table.X
    assert weak.outputs.shape == (120, n_outputs)
    assert np.array_equal(weak.on(X), weak.outputs)
    assert np.array_equal(weak.on(X[3:4]), weak.outputs[3:4])
    assert np.array_equal(weak.on(X[::-1])[::-1], weak.outputs)
    assert weak.without_outputs().outputs.shape == (0, n_outputs)
    (block,) = blocks_of([scaled(weak.part, -0.7)])
    assert_allclose(block.outputs(0, X), -0.7 * weak.outputs, rtol=1e-12, atol=1e-14)
    assert set(weak.columns) == set(block.columns(0))
    other = np.full_like(X, 99.0)
    other[:, weak.columns] = X[:, weak.columns]
    assert np.array_equal(weak.on(other), weak.outputs)
    again = LEARNERS[name].fit(
        task(1, n_outputs=n_outputs, rows=rows, weighted=True, missing=0.0 if name == "function" else 0.1)
    )
    assert np.array_equal(weak.outputs, again.outputs)


def test_neighbouring_trees_share_a_block():
    given = task(2)
    tree, line = TreeLearner(max_depth=2).fit(given).part, LinearLearner().fit(given).part
    blocks = blocks_of([tree, scaled(tree, 2.0), line, line, tree])
    assert [type(block) for block in blocks] == [TreeBlock, LinearBlock, LinearBlock, TreeBlock]
    assert [block.n_stages for block in blocks] == [2, 1, 1, 1]
    assert_allclose(2 * blocks[0].outputs(0, given.table.X), blocks[0].outputs(1, given.table.X))
    assert blocks_of([]) == []


# ---------------------------------------------------------------------- trees


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_a_tree_is_the_regression_tree_of_the_gradient(n_outputs):
    given = task(3, n_outputs=n_outputs, weighted=True)
    mine = TreeLearner(max_depth=3).fit(given)
    theirs = DecisionTreeRegressor(max_depth=3).fit(given.table.X, given.target, given.weight)
    assert_allclose(mine.outputs, theirs.predict(given.table.X).reshape(-1, n_outputs), atol=1e-6)


def test_a_voting_tree_is_the_classifier_of_the_gradients_signs_weighted_by_their_sizes():
    given = task(4)
    mine = TreeLearner(max_depth=3, leaf="vote").fit(given)
    theirs = DecisionTreeClassifier(max_depth=3).fit(
        given.table.X, np.sign(given.target[:, 0]), np.abs(given.target[:, 0])
    )
    assert np.array_equal(mine.outputs[:, 0], theirs.predict(given.table.X))


def test_votes_code_the_leading_output():
    assert votes(np.array([[0.2], [-3.0], [0.0]])).tolist() == [[1.0], [-1.0], [1.0]]
    assert votes(np.array([[0.2, 0.1, -1.0], [-3.0, -2.0, -2.0]])).tolist() == [
        [1, -0.5, -0.5],
        [-0.5, 1, -0.5],
    ]


def test_votes_of_leaves_maximise_the_sum_of_the_gradient():
    given = task(5, n_outputs=3, weighted=True)
    weak = TreeLearner(max_depth=2, leaf="vote").fit(given)
    answers = weak.outputs.argmax(axis=1)
    tree = weak.part
    nodes = TreeBlock(
        TreeArrays(
            **tree.asdict() | {"value": np.arange(len(tree.value), dtype=float)[:, None], "n_outputs": 1}
        )
    )
    leaf = nodes.outputs(0, given.table.X)[:, 0]
    for one in np.unique(leaf):
        inside = leaf == one
        rewards = given.weight[inside] @ given.target[inside]
        assert set(answers[inside]) == {rewards.argmax()}


def test_rows_that_count_twice_are_two_rows_for_trees():
    given = task(6)
    copies = np.random.default_rng(0).integers(1, 4, 120)
    some = np.repeat(np.arange(120), copies)
    for learner in (TreeLearner(max_depth=3, l2_regularization=5.0), TreeLearner(max_depth=3, leaf="vote")):
        weighted = GradientTask(
            given.table,
            given.target,
            copies / copies.sum(),
            None,
            given.costs,
            given.bought,
            0.01,
            given.random,
        )
        repeated = GradientTask(
            TrainingRows(given.table.X[some]),
            given.target[some],
            np.full(some.size, 1 / some.size),
            None,
            given.costs,
            given.bought,
            0.01,
            given.random,
        )
        scale = (
            copies.mean() if learner.l2_regularization else 1.0
        )  # l2_regularization speaks of rows of mean weight 1
        one = TreeLearner(
            max_depth=3, l2_regularization=learner.l2_regularization / scale, leaf=learner.leaf
        ).fit(weighted)
        two = learner.fit(repeated)
        assert_allclose(one.outputs[some], two.outputs, atol=1e-6)


def test_a_tree_costs_what_rows_visit():
    given = task(7, rows=np.arange(60))
    weak = TreeLearner(max_depth=3, evaluation_cost=0.5, visit_cost=2.0).fit(given)
    tree, X = weak.part, given.table.X
    visits = np.zeros(60)
    for i in range(60):
        node = 0
        while tree.feature[node] >= 0:
            visits[i] += 1
            node = (tree.left if X[i, tree.feature[node]] <= tree.threshold[node] else tree.right)[node]
    assert 1 < visits.mean() <= 3
    assert weak.evaluation_cost == pytest.approx(0.5 + 2.0 * visits.mean())


@pytest.mark.parametrize("scale", ["half_sum", "mean", "relative"])
def test_a_heavy_penalty_leaves_only_what_is_bought(scale):
    free = TreeLearner(max_depth=4, cost_penalty=0.0, scale=scale).fit(task(8, bought=[2]))
    held = TreeLearner(max_depth=4, cost_penalty=1e6, scale=scale).fit(task(8, bought=[2]))
    none = TreeLearner(max_depth=4, cost_penalty=1e6, scale=scale).fit(task(8))
    assert set(free.columns) > {2}
    assert held.columns.tolist() == [2]
    assert none.columns.size == 0
    assert_allclose(none.outputs, task(8).target.mean(), rtol=1e-6)


def test_half_a_sum_is_half_as_many_means_as_there_are_rows():
    for penalty in (1e-3, 1e-2, 1e-1):
        mean = TreeLearner(max_depth=5, cost_penalty=penalty, scale="mean").fit(task(9))
        half = TreeLearner(max_depth=5, cost_penalty=penalty * 60, scale="half_sum").fit(task(9))
        assert np.array_equal(mean.outputs, half.outputs)


def test_a_relative_penalty_does_not_change_with_the_size_of_the_gradient_or_the_unit_of_prices():
    small = task(10, costs=FeatureCosts(0.01 * np.arange(1, 6)))
    large = task(10, costs=FeatureCosts(5.0 * np.arange(1, 6)))
    large = GradientTask(
        large.table, 1000 * large.target, large.weight, None, large.costs, large.bought, 0.01, large.random
    )
    for penalty in (0.01, 0.1, 0.5):
        learner = TreeLearner(max_depth=4, cost_penalty=penalty, scale="relative")
        assert_allclose(1000 * learner.fit(small).outputs, learner.fit(large).outputs, rtol=1e-5)


def test_a_voting_tree_without_a_gradient_is_none():
    given = task(11)
    flat = GradientTask(
        given.table, 0 * given.target, given.weight, None, given.costs, given.bought, 0.01, given.random
    )
    assert TreeLearner(leaf="vote").fit(flat) is None


# ---------------------------------------------------------------------- linear


def test_a_linear_learner_solves_least_squares_on_its_columns():
    given = task(12, weighted=True, n_outputs=2)
    weak = LinearLearner(3, l2_regularization=0.0).fit(given)
    assert len(weak.columns) == 3
    root = np.sqrt(given.weight)[:, None]
    design = np.column_stack([np.ones(120), given.table.X[:, weak.columns]])
    solved = np.linalg.lstsq(root * design, root * given.target)[0]
    assert_allclose(weak.outputs, design @ solved, atol=1e-10)


def test_a_linear_learner_takes_columns_for_what_they_explain_per_price():
    random = np.random.default_rng(13)
    X = random.normal(size=(500, 4))
    target = (1.0 * X[:, 0] + 0.9 * X[:, 1] + 0.5 * X[:, 2])[:, None]
    costs = FeatureCosts(groups={"a": [0], "b": [1, 3], "c": [2]}, prices={"a": 5.0, "b": 2.0, "c": 0.1})
    bound = costs.bind(4)

    def columns(n_columns, bought=()):
        paid = np.isin(np.arange(3), bought)
        weight = np.full(500, 0.002)
        given = GradientTask(
            TrainingRows(X), target, weight, None, bound, paid, 0.05, np.random.RandomState(0)
        )
        return LinearLearner(n_columns).fit(given).columns.tolist()

    assert columns(1) == [2]
    assert columns(2) == [1, 2]
    assert columns(1, bought=[0]) == [0]
    assert columns(4) == columns(9) == [0, 1, 2, 3]


def test_a_missing_value_counts_as_the_mean_for_lines():
    given = task(14)
    weak = LinearLearner(5).fit(given)
    rows = given.table.X[:4].copy()
    rows[:, 2] = np.nan
    filled = np.where(np.isnan(rows), given.table.X[:, 2].mean(), rows)
    assert_allclose(weak.on(rows), weak.on(filled), rtol=1e-12)


# ---------------------------------------------------------------------- functions


@pytest.mark.parametrize("n_outputs", [1, 2])
def test_any_regressor_can_be_a_learner(n_outputs):
    def make(X, target, weight):
        return Ridge(1e-3).fit(X, target, weight).predict

    given = task(18, n_outputs=n_outputs, rows=np.arange(50))
    weak = FunctionLearner(make, [0, 3], evaluation_cost=0.5).fit(given)
    assert weak.evaluation_cost == 0.5
    expected = Ridge(1e-3).fit(given.table.X[:50, [0, 3]], given.target[:50], np.full(50, 0.02))
    assert_allclose(weak.outputs, expected.predict(given.table.X[:, [0, 3]]).reshape(-1, n_outputs))
    assert isinstance(weak.part, FunctionBlock)
    with pytest.raises(TypeError, match="cannot be saved"):
        scaled(weak.part, 2.0).state()


def test_a_function_of_the_wrong_shape_is_told():
    with pytest.raises(ValueError, match="returned shape"):
        FunctionLearner(lambda X, target, weight: lambda X: np.zeros((len(X), 5)), [0]).fit(task(19))


# ---------------------------------------------------------------------- prices


def test_the_conditional_price_is_of_what_is_not_bought_requirements_included():
    costs = FeatureCosts(
        groups={"draw": [], "a": [0, 1], "b": [2], "c": [3]},
        prices={"draw": 2.1, "a": 5.17, "b": 3.1, "c": 0.1},
        requires={"a": ["draw"], "b": ["draw"]},
    ).bind(4)
    paid = np.zeros(4, dtype=bool)
    assert conditional_price(costs, np.array([0, 1]), paid) == 7.27
    assert conditional_price(costs, np.array([1, 2, 3]), paid) == 10.47
    paid[0] = True
    assert conditional_price(costs, np.array([2]), paid) == 3.1
    assert conditional_price(costs, np.array([], dtype=int), paid) == 0.0
