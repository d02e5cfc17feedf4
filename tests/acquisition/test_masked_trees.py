"""Boosted trees beside the networks: when they have a share of the answers, and that all ways of asking agree."""

import copy
import time
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import anytime as at
from anytime.acquisition import AcquisitionClassifier, AcquisitionRegressor, masked_trees
from anytime.acquisition.masked_networks import Targets
from anytime.acquisition.masked_trees import share_of_trees
from anytime.runtime import Session
from tests.runtime.bench import features_of

SMALL = {"hidden_layer_sizes": (6, 4), "folds": 2, "n_neighbors": 8, "random_state": 0}
COSTS = at.FeatureCosts(
    {"a": 1.0, "b": 3.0, "c": 2.0, "step": 0.5, "d": 1.5},
    groups={"a": [0, 1], "b": [2], "c": [3, 4], "step": [], "d": [5]},
    requires={"c": ["step"], "d": ["a"]},
)


def stripes(n, seed):
    """Classes that alternate along a column: easy for trees, hard for ten units."""
    random = np.random.default_rng(seed)
    X = random.uniform(size=(n, 6))
    y = (np.floor(4 * X[:, 0]) % 2 + (X[:, 2] > 0.5)).astype(int)
    return X, np.array(["no", "yes", "maybe"])[y]


@pytest.fixture(scope="module")
def model():
    fitted = AcquisitionClassifier(costs=COSTS, **SMALL).fit(*stripes(400, 0))
    assert fitted.plan_.blocks[0].trees is not None
    return fitted


def without_trees(model):
    """The same networks, which answer alone."""
    alone = copy.copy(model)
    alone.plan_ = replace(model.plan_, blocks=[model.plan_.blocks[0].changed(trees=None)])
    return alone


def saved_and_loaded(model, folder):
    model.save(folder / "m.anytime")
    return at.load(folder / "m.anytime")


def test_trees_answer_where_they_know_better_and_buy_nothing_themselves(model):
    """They change what is answered, and nothing of what is bought."""
    X, y = stripes(400, 1)
    alone = without_trees(model)
    for budget in (3.0, 6.0, None):
        assert_array_equal(model.cost(X, budget=budget), alone.cost(X, budget=budget))
    assert model.score(X, y) > alone.score(X, y) + 0.1


@pytest.mark.parametrize("weight", [None, np.ones(200, dtype=np.float32)])
@pytest.mark.parametrize(
    ("network_noise", "tree_noise", "shares"),
    [(0.0, 3.0, {0.0}), (3.0, 0.0, {1.0}), (1.5, 1.5, {0.25, 0.5, 0.75}), (0.0, 0.0, {0.0})],
)
def test_the_share_is_what_held_out_rows_like_best(network_noise, tree_noise, shares, weight):
    """Of two that err independently both answer; of two that say the same, trees are left out."""
    random = np.random.default_rng(0)
    values = random.integers(3, size=200)
    right = 2.0 * np.eye(3)[values]
    said = [right + noise * random.normal(size=right.shape) for noise in (network_noise, tree_noise)]
    assert share_of_trees(*said, Targets(values, 3, weight), np.arange(200)) in shares
    numbers = right.astype(np.float32)
    assert share_of_trees(*said, Targets(numbers, 3, weight), np.arange(200)) in shares


def test_rows_that_weigh_more_have_more_of_a_say_in_the_share():
    """The first half is answered by the network alone, the second by trees alone."""
    values = np.arange(200) % 2
    right, nothing = 3.0 * np.eye(2)[values], np.zeros((200, 2))
    first = (np.arange(200) < 100)[:, None]
    network, trees = np.where(first, right, -0.5 * right), np.where(first, nothing, right)
    heavy = np.where(np.arange(200) < 100, 10.0, 0.1).astype(np.float32)
    assert share_of_trees(network, trees, Targets(values, 2, heavy), np.arange(200)) < 0.5
    assert share_of_trees(network, trees, Targets(values, 2, heavy[::-1].copy()), np.arange(200)) == 1.0


def test_a_row_that_comes_several_times_counts_once():
    """Copies of a row with other groups hidden are no further evidence: a gain on one row is none."""
    values = np.zeros(100, dtype=np.intp)
    network = np.tile([3.0, 0.0], (100, 1))
    trees = network.copy()
    network[:60] = 0.0, 1.0
    trees[60:] = 1.0, 1.0
    assert share_of_trees(network, trees, Targets(values, 2, None), np.arange(100)) > 0
    same = np.where(np.arange(100) < 60, 0, np.arange(100))  # the first sixty are one row
    assert share_of_trees(network, trees, Targets(values, 2, None), same) == 0


def test_what_a_row_has_not_bought_says_nothing_to_the_trees(model):
    X, _ = stripes(50, 1)
    block, owned = model.plan_.blocks[0], np.zeros((50, 5), dtype=bool)
    owned[:, [0, 4]] = True
    other = X.copy()
    other[:, 2:5] = np.random.default_rng(2).uniform(size=(50, 3))
    assert_array_equal(block.score(X, owned), block.score(other, owned))
    other[:, 0] = 1 - X[:, 0]
    assert (block.score(X, owned) != block.score(other, owned)).any()


def test_one_by_one_in_a_batch_in_a_session_from_a_file_and_on_threads_answers_are_the_same(model, tmp_path):
    """R2."""
    X, _ = stripes(30, 1)
    loaded = saved_and_loaded(model, tmp_path)
    threaded = AcquisitionClassifier(costs=COSTS, n_jobs=2, **SMALL).fit(*stripes(400, 0))
    for budget in (0.0, 2.5, 4.0, None):
        together = model.answer(X, budget=budget)
        for other in (loaded, threaded):
            assert_array_equal(other.answer(X, budget=budget).scores, together.scores)
            assert_array_equal(other.cost(X, budget=budget), together.cost)
        for i in range(0, 30, 4):
            assert_array_equal(model.answer(X[i : i + 1], budget=budget).scores[0], together.scores[i])
            assert model.predict_one(np.ascontiguousarray(X[i]), budget=budget) == together.prediction[i]
            of_session = Session(model, features_of(model.plan_)).predict(X[i], budget=budget)
            assert_array_equal(of_session.scores, together.scores[i])
    assert_array_equal(loaded.cost(X, mean_budget=3), model.cost(X, mean_budget=3))


def test_advice_tells_how_often_the_answer_with_trees_changes():
    """R8: over rows, the mean probability of a change is the share of rows that change, within 3 points."""
    model = AcquisitionClassifier(costs=COSTS, **{**SMALL, "n_neighbors": 20}).fit(*stripes(400, 0))
    block, owned = model.plan_.blocks[0], np.array([[True, False, False, False, False]])
    assert block.trees is not None
    expected, changed = [], []
    for row in stripes(800, 1)[0]:
        group, _, changes = block.expectations(row[None], owned[0])
        expected.append(changes[group])
        answers = [block.score(row[None], own).argmax() for own in (owned, owned | block.required[group])]
        changed.append(answers[0] != answers[1])
    assert 0.1 < np.mean(changed) < 0.9
    assert abs(np.mean(expected) - np.mean(changed)) < 0.03


def test_numbers_are_answered_with_trees_too(tmp_path):
    """In units of their own, and several at once; trees of all the answer know nothing that is not bought."""
    random = np.random.default_rng(0)
    X = random.uniform(size=(300, 4))
    y = 1e6 + 50 * (np.floor(4 * X[:, 0]) % 2) + 10 * X[:, 1]
    for target in (y, np.stack([y, -2 * y], axis=1)):
        with patch.object(masked_trees, "share_of_trees", return_value=1.0):
            model = AcquisitionRegressor(**SMALL).fit(X, target)
        assert model.plan_.blocks[0].trees.share == 1.0
        assert model.score(X, target) > 0.9
        assert_allclose(
            model.predict(X[:5], budget=0),
            np.tile(target.mean(axis=0), (5,) + (1,) * (target.ndim - 1)),
            rtol=2e-5,
        )
        loaded = saved_and_loaded(model, tmp_path)
        for budget in (1, 2, None):
            assert_array_equal(loaded.predict(X, budget=budget), model.predict(X, budget=budget))


def test_few_rows_have_no_trees():
    """Fewer than twenty held-out rows cannot tell."""
    model = AcquisitionClassifier(**SMALL).fit(*stripes(30, 0))
    assert model.plan_.blocks[0].trees is None
    assert model.predict(stripes(5, 1)[0]).shape == (5,)


def test_what_nobody_has_bought_is_answered_with_the_weights_of_the_classes():
    X, y = stripes(400, 0)
    y = np.where(X[:, 0] > 0.6, "yes", "no")
    for weight in (1.0, 3.0):
        with patch.object(masked_trees, "share_of_trees", return_value=1.0):
            model = AcquisitionClassifier(costs=COSTS, class_weight={"yes": weight}, **SMALL).fit(X, y)
        yes, no = weight * np.mean(y == "yes"), np.mean(y == "no")
        assert_allclose(
            model.predict_proba(X[:1], budget=0)[0], [no / (yes + no), yes / (yes + no)], atol=0.06
        )


@pytest.mark.realtime
def test_training_with_trees_keeps_to_its_time():
    random = np.random.default_rng(0)
    X = random.normal(size=(6_000, 30))
    y = (np.floor(3 * X[:, :3]).sum(axis=1) % 4).astype(int)
    for seconds in (1.0, 4.0):
        began = time.monotonic()
        AcquisitionClassifier(time_budget=seconds, random_state=0).fit(X, y)
        assert time.monotonic() - began < 1.3 * seconds + 0.7


def test_trees_that_do_not_fit_are_refused(model):
    block = model.plan_.blocks[0]
    for share in (0.0, 1.5, np.nan):
        with pytest.raises(ValueError, match="share between 0 and 1"):
            block.changed(trees=block.trees._replace(share=share))
    X, y = stripes(100, 0)
    others = at.GradientBoostingClassifier(n_estimators=2).fit(X[:, :4], y).plan_.blocks[0]
    with pytest.raises(ValueError, match="read the inputs"):
        block.changed(trees=masked_trees.MaskedTrees(others, 0.5))
