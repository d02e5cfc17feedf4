"""The native ledger and metered runs against the obvious ones."""

from __future__ import annotations

import pickle
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anytime._native import Ledger, StopFlag, forest_scores, logistic, use_vectors, vectors, vectors_in_use
from anytime.trees.arrays import LEAF
from tests.native.cases import forest_of, ints, run, seeds, shapes, table_of
from tests.reference import trees as reference
from tests.reference.random_trees import Shape, random_forest, random_rows
from tests.reference.tree_walk import goes_left


@st.composite
def cost_cases(draw, n_columns: int):
    """Prices, requirements (a DAG) and the groups of columns."""
    n_groups = draw(st.integers(1, 6))
    prices = draw(st.lists(st.integers(0, 20), min_size=n_groups, max_size=n_groups))
    rank = draw(st.permutations(range(n_groups)))
    requires = [[] for _ in range(n_groups)]
    for i, g in enumerate(rank):
        if i:
            requires[g] = draw(st.lists(st.sampled_from(rank[:i]), unique=True, max_size=2))
    groups = draw(st.lists(st.integers(0, n_groups - 1), min_size=n_columns, max_size=n_columns))
    return prices, requires, groups


@given(costs=cost_cases(3))
def test_closure_and_price(costs):
    prices, requires, _groups = costs
    table = table_of(*costs)
    assert (table.n_groups, table.n_columns) == (len(prices), 3)
    for g in range(len(prices)):
        closed = sorted(reference.closure(requires, g))
        assert table.closure(g) == closed
        assert table.price(ints(g)) == sum(prices[c] for c in closed)
    assert table.price(np.arange(len(prices), dtype=np.int32)) == sum(prices)
    copy = pickle.loads(pickle.dumps(table))
    assert [copy.closure(g) for g in range(len(prices))] == [table.closure(g) for g in range(len(prices))]


def test_group_is_paid_once_with_what_it_requires():
    table = table_of([2, 5, 3], [[], [0], [0]], [1, 2])  # draw, chol, fbs
    ledger = Ledger(table, 3)
    rows = np.array([0, 2])
    assert ledger.quote(ints(1)).tolist() == [7, 7, 7]
    ledger.buy(ints(1), rows)
    assert ledger.paid.tolist() == [7, 0, 7]
    assert ledger.quote(ints(2)).tolist() == [3, 5, 3]
    assert ledger.quote(ints(1, 2), rows).tolist() == [3, 3]
    ledger.buy(ints(1, 2, 0))
    assert ledger.paid.tolist() == [10, 10, 10]
    ledger.buy(ints(1, 2, 0))
    ledger.charge(4, rows)
    ledger.charge(1)
    assert ledger.paid.tolist() == [15, 11, 15]
    assert ledger.bought.all()
    other = ledger.copy()
    other.charge(1)
    assert ledger.paid.tolist() == [15, 11, 15]
    again = pickle.loads(pickle.dumps(ledger))
    assert again.paid.tolist() == ledger.paid.tolist()
    np.testing.assert_array_equal(again.bought, ledger.bought)
    assert again.table.closure(1) == [0, 1]


@given(seed=seeds, costs=cost_cases(5), shape=shapes.filter(lambda s: s.n_features == 5))
def test_metered_rows_pay_for_their_own_path_within_budget(seed, costs, shape):
    random = np.random.default_rng(seed)
    trees = random_forest(random, shape)
    forest = forest_of(trees)
    prices, requires, groups = costs
    n = 25
    X = random_rows(random, trees, n)
    evaluation = random.integers(0, 4, forest.n_stages)
    budget = random.integers(-2, sum(prices) + int(evaluation.sum()) + 3, n)
    until = random.integers(0, forest.n_stages + 1, n).astype(np.int32)
    acc, done = np.zeros((n, forest.n_outputs), np.int64), np.zeros(n, np.int32)
    ledger = Ledger(table_of(*costs), n)
    assert forest.run_metered(X, acc, done, until, ledger, evaluation, budget)
    assert (ledger.paid <= np.maximum(budget, 0)).all()
    for i in range(n):
        sums, stages, paid, bought = reference.run_metered(
            trees, X[i], int(until[i]), forest.shift, prices=prices, requires=requires, column_group=groups,
            evaluation=evaluation.tolist(), budget=int(budget[i]),
        )  # fmt: skip
        assert (acc[i].tolist(), done[i], ledger.paid[i]) == (sums, stages, paid)
        assert set(np.flatnonzero(ledger.bought[i])) == bought
    np.testing.assert_array_equal(acc, run(forest, X, done))
    before = acc.copy()
    assert forest.run_metered(X, acc, done, until, ledger, evaluation, budget)
    np.testing.assert_array_equal(acc, before)  # broke rows stay where they are


@pytest.fixture(params=vectors())
def instructions(request):
    """Each instruction set of this machine, in use."""
    before = vectors_in_use()
    use_vectors(request.param)
    yield request.param
    use_vectors(before)


@pytest.mark.parametrize("n_features", [5, 150])
@pytest.mark.parametrize("most_trees", [1, 4])
@pytest.mark.parametrize("n_outputs", [1, 3])
def test_many_metered_rows_pay_what_few_pay(instructions, n_features, most_trees, n_outputs):
    """Many rows are scanned and know what they owe by their leaf; few walk. Ledgers, stages and sums are the same."""
    random = np.random.default_rng(n_features + most_trees)
    shape = Shape(
        n_features=n_features, n_stages=40, most_trees=most_trees, n_outputs=n_outputs, most_leaves=30
    )
    trees = random_forest(random, shape)
    forest = forest_of(trees)
    n_groups = n_features - 1
    groups = np.append(np.arange(n_groups), 0)  # two columns share a group
    requires = [
        sorted({int(random.integers(0, g))} if g and random.random() < 0.3 else set())
        for g in range(n_groups)
    ]
    table = table_of(random.integers(0, 9, n_groups), requires, groups)
    n = 300
    X = random_rows(random, trees, n)
    evaluation = random.integers(0, 4, forest.n_stages)
    budget = random.integers(-2, 4 * n_groups + int(evaluation.sum()), n)
    until = random.integers(0, forest.n_stages + 1, n).astype(np.int32)
    start = np.where(random.random(n) < 0.5, until // 2, 0).astype(np.int32)

    def metered(rows):
        acc, done, ledger = np.zeros((len(rows), n_outputs), np.int64), start[rows], Ledger(table, len(rows))
        args = (X[rows], acc, done, until[rows], ledger, evaluation, budget[rows])
        assert forest.run_metered(*args)
        return acc, done, ledger.paid, ledger.bought

    few = [metered(part) for part in np.array_split(np.arange(n), 10)]
    for together, apart in zip(metered(np.arange(n)), zip(*few, strict=True), strict=True):
        np.testing.assert_array_equal(together, np.concatenate(apart))


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("budget", [None, 0, 20, 2**62])
def test_scores_in_one_call_are_those_of_a_run(instructions, budget, mean):
    """One budget and one stage for all rows, from the start; None: nobody pays."""
    random = np.random.default_rng(3)
    trees = random_forest(random, Shape(n_features=5, n_stages=30, most_leaves=30))
    forest = forest_of(trees)
    X, until, base = random_rows(random, trees, 200), 25, np.array([0.3])
    table, evaluation = table_of([3, 1, 4, 1, 5], [[]] * 5, range(5)), np.ones(30, np.int64)
    acc, done = np.zeros((200, 1), np.int64), np.zeros(200, np.int32)
    limit, most = np.full(200, until, np.int32), np.full(200, budget or 0)
    if budget is None:
        forest.run(X, acc, done, limit)
        scores = forest_scores(forest, X, until, base, mean)
    else:
        forest.run_metered(X, acc, done, limit, Ledger(table, 200), evaluation, most)
        scores = forest_scores(forest, X, until, base, mean, 1, table, evaluation, budget)
        assert budget != 20 or 0 < done.min() < done.max() < until
    total = acc * forest.unit
    averages = np.where(done[:, None] > 0, total / np.maximum(done[:, None], 1), base)
    np.testing.assert_array_equal(scores, averages if mean else base + total)
    with pytest.raises(ValueError, match="must lie in"):
        forest_scores(forest, X, 31, base, mean)
    with pytest.raises(ValueError, match="base"):
        forest_scores(forest, X, 1, np.zeros(2), mean)


def test_probabilities_of_two_classes():
    odds = np.array([[-800.0], [-1.5], [0.0], [2.5], [np.inf], [np.nan]])
    with np.errstate(over="ignore"):
        second = 1.0 / (1.0 + np.exp(-odds[:, 0]))
    probabilities = logistic(odds)
    np.testing.assert_allclose(probabilities[:, 1], second, rtol=1e-15)
    np.testing.assert_array_equal(probabilities[:, 0], 1.0 - probabilities[:, 1])


@given(seed=seeds, shape=shapes.filter(lambda s: s.n_features == 5))
def test_metered_interrupts_resume_to_the_same_bits(seed, shape):
    random = np.random.default_rng(seed)
    trees = random_forest(random, replace(shape, n_stages=20))
    forest = forest_of(trees)
    n = 60
    X = random_rows(random, trees, n)
    ledger = Ledger(table_of([1] * 5, [[]] * 5, range(5)), n)
    acc, done = np.zeros((n, forest.n_outputs), np.int64), np.zeros(n, np.int32)
    until, free = np.full(n, forest.n_stages, np.int32), np.zeros(forest.n_stages, np.int64)
    budget = np.full(n, np.iinfo(np.int64).max)
    for tries in range(10_000):
        deadline = time.monotonic() + 2e-6 * tries
        finished = forest.run_metered(X, acc, done, until, ledger, free, budget, deadline=deadline)
        np.testing.assert_array_equal(acc, run(forest, X, done))
        if finished:
            break
    assert finished
    assert (done == until).all()
    flag = StopFlag()
    flag.set()
    assert not forest.run_metered(X, acc, np.zeros_like(done), until, ledger, free, budget, stop=flag)


def _ends(trees, stage, x, groups, available):
    """Groups at which the trees of a stage come to a stop, in their order."""
    for tree in range(trees.stage_start[stage], trees.stage_start[stage + 1]):
        start = node = int(trees.tree_start[tree])
        while trees.left[node] != LEAF:
            group = groups[trees.feature[node]]
            if not available[group]:
                yield group
                break
            child = trees.left if goes_left(trees, node, x[trees.feature[node]]) else trees.right
            node = start + int(child[node])


@given(seed=seeds, costs=cost_cases(5), shape=shapes.filter(lambda s: s.n_features == 5))
def test_need_asks_for_exactly_the_groups_a_metered_run_buys(seed, costs, shape):
    """And values of a group that is not there are never read: they are filled in only when asked for."""
    random = np.random.default_rng(seed)
    trees = random_forest(random, shape)
    forest = forest_of(trees)
    table = table_of(*costs)
    groups = np.array(costs[2])
    hidden = random_rows(random, trees, 1)[0]
    x = np.full(5, 1e99)
    available = np.zeros(table.n_groups, bool)
    lost = random.random(table.n_groups) < 0.3
    for stage in range(forest.n_stages):
        while (group := forest.need(x, stage, available, table)) >= 0:
            assert not available[group]
            assert forest.need(x, stage, available, table, ~available) == group
            met = forest.need(x, stage, available, table, lost & ~available)
            assert met == next((g for g in _ends(trees, stage, x, groups, available) if lost[g]), -1)
            available[group] = True
            x[groups == group] = hidden[groups == group]
    acc, done = np.zeros((1, forest.n_outputs), np.int64), np.zeros(1, np.int32)
    ledger = Ledger(table, 1)
    until = np.full(1, forest.n_stages, np.int32)
    big = np.full(1, 2**60)
    assert forest.run_metered(
        hidden[None], acc, done, until, ledger, np.zeros(forest.n_stages, np.int64), big
    )
    closed = {c for g in np.flatnonzero(available) for c in table.closure(int(g))}
    assert closed == set(np.flatnonzero(ledger.bought[0]))
    np.testing.assert_array_equal(run(forest, x[None]), acc)


def test_unaffordable_columns_are_never_read():
    """A budget of nothing: whatever stands in the columns, the answer is the same."""
    random = np.random.default_rng(11)
    trees = random_forest(random, Shape(most_trees=1, n_stages=8))
    forest = forest_of(trees)
    table = table_of([1] * 5, [[]] * 5, range(5))
    answers = []
    for fill in (np.nan, 0.0, 1e300):
        acc, done = np.zeros((1, 1), np.int64), np.zeros(1, np.int32)
        until, evaluation = np.full(1, 8, np.int32), np.zeros(8, np.int64)
        forest.run_metered(
            np.full((1, 5), fill), acc, done, until, Ledger(table, 1), evaluation, np.zeros(1, np.int64)
        )
        answers.append((acc.tolist(), done.tolist()))
    assert answers[0] == answers[1] == answers[2]
