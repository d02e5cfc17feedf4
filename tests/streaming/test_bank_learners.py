"""Learners of the banks against the same learners written out one at a time (tests/reference/streaming.py)."""

from dataclasses import replace

import numpy as np
import pytest

from anytime.streaming.banks import HoeffdingTree, OnlineLinear, OnlineRidge, SmallNet
from tests.reference.streaming import Net, Ridge, Trees


def stream(n, d, m, n_estimators, *, missing=0.0, seed=0):
    """Rows of which a column moves half-way, and other targets for every learner."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[:, 0] = np.round(X[:, 0])
    X[n // 2 :, 1] += 3.0
    X[rng.random(X.shape) < missing] = np.nan
    known = np.nan_to_num(X)
    base = np.stack([np.sin(2 * known[:, 0]) + known[:, 1] * (k + 1) for k in range(m)], axis=1)
    noise = 0.1 * rng.normal(size=(n_estimators, n, m))
    return (
        X,
        np.stack([base * (i + 1) - i for i in range(n_estimators)]) + noise,
        rng.choice([0.0, 0.5, 1.0, 2.0], n),
    )


def in_rounds(X, q, weight, size):
    for at in range(0, len(X), size):
        part = slice(at, at + size)
        yield X[part], np.ascontiguousarray(q[:, part]), None if weight is None else weight[part]


TREES = {
    "default": (HoeffdingTree(stagger=30), 1, 0.0, False, 1),
    "full": (HoeffdingTree(max_leaf_nodes=4, stagger=0), 1, 0.0, False, 1),
    "shallow": (HoeffdingTree(max_depth=2, fade=0.0), 1, 0.2, False, 1),
    "several": (
        HoeffdingTree(max_leaf_nodes=8, max_bins=8, max_features=2, memory=100, grace=20, delta=0.5),
        2,
        0.1,
        True,
        7,
    ),
}


@pytest.mark.parametrize(("learner", "m", "missing", "weighted", "size"), TREES.values(), ids=TREES)
def test_trees_are_bit_for_bit_those_written_out(learner, m, missing, weighted, size):
    X, q, weight = stream(1200, 3, m, 3, missing=missing)
    bank = learner.make(3, 3, m, 7)
    plain = Trees([bank.columns(i) for i in range(3)], 3, m, learner)
    for x, target, w in in_rounds(X, q, weight if weighted else None, size):
        assert np.array_equal(bank.predict(x), plain.predict(x))
        bank.update(x, target, w)
        plain.update(x, target, w)
    assert min(tree.leaves for tree in plain.trees) > 2
    assert plain.bins.cuts[1][-1] > 3.0  # the column that moved was cut anew


def test_leaves_take_turns_where_there_is_no_room_for_all():
    """Half a megabyte of counts: 3 columns of 255 bins with 170 outputs leave room for two leaves only."""
    learner = HoeffdingTree(max_bins=255, grace=10, stagger=0, delta=0.5)
    X, q, _ = stream(400, 3, 170, 1)
    bank = learner.make(1, 3, 170)
    plain = Trees([bank.columns(0)], 3, 170, learner)
    for x, target, _ in in_rounds(X, q, None, 10):
        bank.update(x, target)
        plain.update(x, target)
    assert plain.trees[0].leaves > 3
    np.testing.assert_allclose(bank.predict(X), plain.predict(X), rtol=0, atol=1e-12)
    assert bank.native.state()["splittable"].sum() == 2


def test_a_tree_may_read_its_own_columns_only():
    learner = HoeffdingTree(max_features=2, grace=20, stagger=0)
    X, q, _ = stream(800, 6, 1, 5)
    bank = learner.make(5, 6, 1, 3)
    bank.update(X, q)
    bank.update(X, q)
    assert all(bank.columns(i).size == 2 for i in range(5))
    assert len({tuple(bank.columns(i)) for i in range(5)}) > 1
    block = bank.block()
    assert all(set(block.columns(i)) <= set(bank.columns(i)) for i in range(5))
    assert any(block.columns(i).size for i in range(5))
    assert HoeffdingTree(max_features="sqrt").make(1, 9, 1).columns(0).size == 3
    assert HoeffdingTree(max_features=0.5).make(1, 9, 1).columns(0).size == 4
    assert [HoeffdingTree().make(1, d, 1).columns(0).size for d in (3, 6, 20)] == [3, 5, 10]


def test_noise_is_hardly_ever_split():
    """A useless cut passes the test of a look with a chance below ``delta``."""
    rng = np.random.default_rng(0)
    X, noise = rng.normal(size=(2000, 10)), rng.normal(size=(20, 2000, 1))
    signal = 0.5 * X[:, :1]
    splits = []
    for q in (noise, noise + signal):
        bank = HoeffdingTree(delta=0.05, stagger=0, tie=1.0, max_features=None).make(20, 10, 1)
        for x, target, _ in in_rounds(X, q, None, 50):
            bank.update(x, target)
        splits.append(np.diff(bank.native.state()["node_start"]) // 2)
    assert splits[0].sum() <= 2
    assert splits[1].min() >= 1


def test_what_trees_keep_does_not_grow_with_the_stream():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 5))
    q = np.stack([np.sin(3 * X[:, :1]) + X[:, 1:2] * X[:, 2:3]] * 4)
    bank = HoeffdingTree(max_leaf_nodes=16).make(4, 5, 1)
    sizes = []
    for _ in range(6):
        bank.update(X, q)
        sizes.append(sum(array.nbytes for array in bank.state()[1].values()))
    assert sizes[-1] == sizes[-3] <= max(sizes[:3])
    assert bank.native.state()["counted"].size == 0  # trees are full: nothing but means is left


# ---------------------------------------------------------------------- linear functions and nets


@pytest.mark.parametrize("size", [1, 10])
def test_ridge_is_the_regularised_leader(size):
    """FTRL with a squared norm: the minimiser of all rows so far, to 1e-9 after 300 rows."""
    X, q, weight = stream(300, 4, 2, 3, missing=0.1)
    bank = OnlineRidge(0.5).make(3, 4, 2)
    plain = [Ridge(4, 2, 0.5) for _ in range(3)]
    for x, target, w in in_rounds(X, q, weight, size):
        bank.update(x, target, w)
        for one, own in zip(plain, target, strict=True):
            one.learn(x, own, w)
    expected = [[one.predict(x) for x in X] for one in plain]
    np.testing.assert_allclose(bank.predict(X), expected, rtol=0, atol=1e-9)


def test_an_appended_ridge_learner_has_seen_nothing_before():
    X, q, _ = stream(300, 4, 1, 2)
    bank = OnlineRidge().make(1, 4, 1)
    bank.update(X[:200], q[:1, :200])
    bank.append(1)
    bank.update(X[200:], np.ascontiguousarray(q[:, 200:]))
    fresh = Ridge(4, 1, 1.0)
    fresh.learn(X[200:], q[1, 200:], np.ones(100))
    np.testing.assert_allclose(bank.predict(X)[1], [fresh.predict(x) for x in X], rtol=0, atol=1e-9)


NETS = {
    "sgd": OnlineLinear(method="sgd"),
    "adagrad": OnlineLinear(learning_rate=0.1),
    "adam": OnlineLinear(learning_rate=0.1, method="adam"),
    "cosines": OnlineLinear(learning_rate=0.1, features="random", n_components=5),
    "sigmoid": SmallNet(hidden=3, learning_rate=0.01),
    "leaky": SmallNet(hidden=3, learning_rate=0.01, activation="leaky_relu"),
}


@pytest.mark.parametrize("learner", NETS.values(), ids=NETS)
@pytest.mark.parametrize("size", [1, 10])
def test_gradient_steps_are_those_written_out(learner, size):
    """To 1e-9 after 300 rows; a round is one step on the mean over its rows."""
    X, q, weight = stream(300, 4, 2, 3, missing=0.1)
    bank = learner.make(3, 4, 2, 7)
    net = isinstance(learner, SmallNet) or learner.features == "random"
    method = learner.method if isinstance(learner, OnlineLinear) else "adam"
    block = bank.block()
    plain = [
        Net(block.hidden[i], block.readout[i], block.activation, method, learner.learning_rate)
        if net
        else Net(None, np.zeros((2, 5)), "none", method, learner.learning_rate)
        for i in range(3)
    ]
    for x, target, w in in_rounds(X, q, weight, size):
        bank.update(x, target, w)
        for one, own in zip(plain, target, strict=True):
            one.learn(x, own, w)
    expected = [[one.predict(x) for x in X] for one in plain]
    np.testing.assert_allclose(bank.predict(X), expected, rtol=0, atol=1e-9)


def test_random_directions_stay():
    X, q, _ = stream(100, 4, 1, 2)
    bank = replace(NETS["cosines"], n_components=3).make(2, 4, 1, 7)
    before = bank.block().hidden
    bank.update(X, q)
    assert np.array_equal(bank.block().hidden, before)
    assert not np.array_equal(before[0], before[1])
