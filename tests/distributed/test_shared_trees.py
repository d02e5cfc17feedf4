"""Trees that several growers grow together, each on rows of its own: here threads, so that no cluster is needed."""

import math
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anytime as at
from anytime import _native
from anytime.trees.binning import BinnedData
from anytime.trees.growing import TreeGrower


class Room:
    """Where threads leave messages for each other."""

    def __init__(self, size):
        self.size, self.barrier, self.left = size, threading.Barrier(size, timeout=120), [None] * size


class Peer:
    def __init__(self, room, rank):
        self.room, self.rank, self.size, self.n_bytes = room, rank, room.size, 0

    def exchange(self, messages):
        self.n_bytes += sum(len(message) for i, message in enumerate(messages) if i != self.rank)
        self.room.left[self.rank] = messages
        self.room.barrier.wait()
        answers = [theirs[self.rank] for theirs in self.room.left]
        self.room.barrier.wait()
        return answers


def grown_together(X, gradient, hessian, parts, bins, grower, *, newton=True, more=()):
    """A native tree from each of the threads, which have the rows of ``parts``; and what each has sent."""
    room = Room(len(parts))
    peers, trees = [Peer(room, rank) for rank in range(len(parts))], [None] * len(parts)

    def grow(rank):
        rows = parts[rank]
        own = _native.Bins.of_cuts(bins.native.columns(), len(rows))
        own.fill_rows(0, np.ascontiguousarray(X[rows]), 1)
        weight = None if hessian is None else np.ascontiguousarray(hessian[rows])
        trees[rank] = _native.grow_tree(
            own,
            np.ascontiguousarray(gradient[rows]),
            weight,
            newton,
            None,
            None,
            *(more or (None, 1.0, None)),
            grower._options(),
            peers[rank],
        )

    threads = [threading.Thread(target=grow, args=(rank,)) for rank in range(len(parts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return trees, [peer.n_bytes for peer in peers]


def assert_same(tree, alone, rows):
    assert tree is not None
    for name, values in alone._native.arrays.items():
        assert np.array_equal(tree.arrays[name], values), name
    assert tree.gain == alone.gain
    assert np.array_equal(tree.leaf, alone.leaf[rows])


@st.composite
def problems(draw):
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    n, d = draw(st.integers(2, 400)), draw(st.integers(1, 6))
    X = np.round(random.normal(size=(n, d)) * draw(st.sampled_from([1.0, 50.0])))
    X[random.random(X.shape) < draw(st.sampled_from([0.0, 0.2]))] = np.nan
    parts = np.array_split(random.permutation(n), np.sort(random.integers(0, n + 1, draw(st.integers(0, 4)))))
    scale = 10.0 ** draw(st.integers(-12, 12))
    return X, scale * random.normal(size=(n, 1)), random.random((n, 1)), parts, draw(st.booleans())


@given(problems())
@settings(deadline=None, max_examples=60)
def test_any_number_of_growers_with_any_rows_grow_the_tree_of_one(problem):
    X, gradient, hessian, parts, narrow = problem
    if narrow:
        gradient, hessian = gradient.astype(np.float32), hessian.astype(np.float32)
    bins = BinnedData.fit(X, categorical=[0])
    grower = TreeGrower(max_leaf_nodes=8, min_samples_leaf=2)
    alone = grower.grow_newton(bins, gradient, hessian)
    trees, _ = grown_together(X, gradient, hessian, parts, bins, grower)
    for tree, rows in zip(trees, parts, strict=True):
        assert_same(tree, alone, rows)


@given(problems())
@settings(deadline=None, max_examples=30)
def test_targets_far_from_zero_are_centred_alike(problem):
    X, target, weight, parts, _ = problem
    target = target + 1e6 * np.abs(target).max()
    bins, grower = BinnedData.fit(X), TreeGrower(max_leaf_nodes=6, min_samples_leaf=2, scale="mean")
    alone = grower.grow(bins, target, weight)
    trees, _ = grown_together(X, target, weight, parts, bins, grower, newton=False)
    for tree, rows in zip(trees, parts, strict=True):
        assert_same(tree, alone, rows)


def test_a_sum_next_to_a_power_of_two_does_not_depend_on_who_adds_it():
    """The unit of the whole numbers follows from a sum of floats; where rounding could decide, whole numbers are added."""
    random, n = np.random.default_rng(0), 70_000
    X, gradient = random.normal(size=(n, 1)), random.normal(size=(n, 1))
    bins, grower = BinnedData.fit(X, max_bins=8), TreeGrower(max_leaf_nodes=2)
    room = 2.0 ** (62 - n.bit_length()) - 0.5 * n - 1.0
    drawn = random.random((n, 1))
    for step in range(-3, 9):  # the sum goes from just below the power of two to just above
        hessian = drawn * (room * 2.0**-20 * (1 + step * 2.0**-52) / math.fsum(drawn[:, 0]))
        alone = grower.grow_newton(bins, gradient, hessian)
        for _ in range(4):  # sums in different orders, some of which are on the other side
            parts = np.array_split(random.permutation(n), [1000, 50_000])
            trees, _ = grown_together(X, gradient, hessian, parts, bins, grower)
            for tree, rows in zip(trees, parts, strict=True):
                assert_same(tree, alone, rows)


def test_prices_of_first_use_are_weighed_by_everyone_alike():
    random = np.random.default_rng(1)
    X = random.normal(size=(600, 4))
    gradient = -(X[:, :1] + 0.9 * X[:, 1:2] + random.normal(size=(600, 1)))
    costs = at.FeatureCosts([3.0, 1.0, 1.0, 0.0]).bind(4)
    bins, grower = BinnedData.fit(X), TreeGrower(max_leaf_nodes=8, cost_penalty=60.0)
    bought = np.zeros(costs.n_groups, dtype=bool)
    alone = grower.grow_newton(bins, gradient, None, costs=costs, bought=bought)
    free = TreeGrower(max_leaf_nodes=8).grow_newton(bins, gradient, None)
    assert alone.cost < costs.costs.price(["x0", "x1"])
    assert not np.array_equal(alone.arrays.feature, free.arrays.feature)
    parts = np.array_split(np.arange(600), [100, 350])
    more = (costs.table, costs.costs.amount(1), bought)
    for tree, rows in zip(
        grown_together(X, gradient, None, parts, bins, grower, more=more)[0], parts, strict=True
    ):
        assert_same(tree, alone, rows)


def test_a_histogram_is_sent_once_per_split_in_shares():
    """Bytes that a worker sends for a tree: (leaves - 1) histograms, less its own share, and its best splits."""
    random = np.random.default_rng(2)
    X, gradient = random.normal(size=(4000, 20)), random.normal(size=(4000, 1))
    bins, grower = BinnedData.fit(X), TreeGrower(max_leaf_nodes=15)
    for n_workers in (2, 4):
        trees, sent = grown_together(
            X, gradient, None, np.array_split(np.arange(4000), n_workers), bins, grower
        )
        leaves = len(trees[0].values)
        histogram = 20 * 257 * 16
        formula = (leaves - 1) * histogram * (n_workers - 1) / n_workers
        assert formula < max(sent) < 1.2 * formula


def test_what_the_exchange_raises_reaches_the_caller():
    class Deaf:
        rank, size = 0, 2

        def exchange(self, messages):
            raise ConnectionError("nobody is there")

    bins = BinnedData.fit(np.arange(50.0)[:, None])
    grower = TreeGrower(peers=Deaf())
    with pytest.raises(ConnectionError, match="nobody"):
        grower.grow_newton(bins, np.ones((50, 1)))


def test_bins_of_the_sampled_rows_are_those_of_the_table():
    random = np.random.default_rng(3)
    X = np.column_stack([random.normal(size=5000), random.integers(0, 9, 5000), random.random(5000)])
    whole = BinnedData.fit(X, categorical=[1], sample=700)
    part = X[_native.sampled_rows(5000, 700)]
    sampled = BinnedData.fit(part, categorical=[1])
    for mine, theirs in zip(whole.native.columns(), sampled.native.columns(), strict=True):
        assert mine[:3] == theirs[:3]
        assert np.array_equal(mine[3], theirs[3])


@pytest.mark.parametrize(
    "column",
    [
        (False, 0, 0.5, np.array([1.0, 1.0])),
        (False, 9, 0.5, np.array([1.0, 2.0])),
        (True, 0, 0.5, np.array([3, 2], dtype=np.int32)),
    ],
)
def test_cuts_that_are_none_are_refused(column):
    with pytest.raises(ValueError, match="no cuts"):
        _native.Bins.of_cuts([column], 3)
