"""The native evaluator and ledger against the obvious ones, and their doors against bad input."""

from __future__ import annotations

import pickle
import threading
import time
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anytime._native import CostTable, Forest, Ledger, StopFlag
from anytime.trees.arrays import TreeArrays
from tests.reference import trees as reference
from tests.reference.random_trees import Shape, random_forest, random_rows

PAST = 0.0
INF = np.inf

SHAPES = {
    "plain": Shape(),
    "no trees": Shape(n_stages=3, most_trees=0),
    "single leaves": Shape(most_leaves=1),
    "ragged stages": Shape(n_stages=12, most_trees=5),
    "one big stage": Shape(n_stages=1, most_trees=40),
    "float32 input": Shape(float32_input=True, n_stages=10),
    "several outputs": Shape(n_outputs=3, n_stages=10),
    "shared outputs": Shape(n_outputs=3, shared=True, n_stages=10),
    "categories": Shape(categorical=0.6, n_stages=10),
    "only categories": Shape(categorical=1.0, most_category=70, n_stages=10),
    "many categories": Shape(categorical=0.5, most_category=400, n_stages=20, most_leaves=20),
    "lopsided trees": Shape(lopsided=True, most_leaves=40, n_stages=20),
    "large trees": Shape(most_leaves=700, n_stages=4),
    "many columns": Shape(n_features=80, most_leaves=40, n_stages=400, most_trees=1),
    "wide rows": Shape(n_features=3000, most_leaves=300, n_stages=8),
    "many thresholds in a column": Shape(n_features=2, most_leaves=400, n_stages=10),
    "more thresholds than two bytes count": Shape(n_features=1, most_leaves=60_000, n_stages=4, most_trees=1),
}


def forest_of(trees: TreeArrays) -> Forest:
    return Forest(**trees.asdict())


def run(forest: Forest, X: np.ndarray, until: int | np.ndarray | None = None, **options) -> np.ndarray:
    """Sums of a whole run, in units."""
    n = len(X)
    acc = np.zeros((n, forest.n_outputs), np.int64)
    done = np.zeros(n, np.int32)
    limit = np.broadcast_to(forest.n_stages if until is None else until, n).astype(np.int32)
    assert forest.run(X, acc, done, limit, **options)
    np.testing.assert_array_equal(done, limit)
    return acc


def expected(trees: TreeArrays, forest: Forest, X: np.ndarray, until) -> np.ndarray:
    limits = np.broadcast_to(until, len(X))
    rows = [reference.units_after(trees, x, int(u), forest.shift) for x, u in zip(X, limits, strict=True)]
    return np.array(rows, dtype=np.int64).reshape(len(X), forest.n_outputs)


seeds = st.integers(0, 2**32 - 1)
shapes = st.sampled_from([shape for name, shape in SHAPES.items() if "thresholds" not in name])


# ---------------------------------------------------------------------- results


@pytest.mark.parametrize("name", SHAPES)
def test_run_equals_the_obvious_walk_bit_for_bit(name):
    random = np.random.default_rng(1)
    trees = random_forest(random, SHAPES[name])
    forest = forest_of(trees)
    X = random_rows(random, trees, 37)
    for until in {0, 1, forest.n_stages // 2, forest.n_stages}:
        want = expected(trees, forest, X, until)
        np.testing.assert_array_equal(run(forest, X, until), want)
        np.testing.assert_array_equal(run(forest, X, until, deadline=time.monotonic() + 1000), want)
        acc = np.full(forest.n_outputs, 77, np.int64)
        for deadline in (INF, time.monotonic() + 1000):
            for x, row in zip(X, want, strict=True):
                assert forest.run_one(x, until, deadline, acc) == until
                np.testing.assert_array_equal(acc, row)


@given(seed=seeds, shape=shapes, n=st.integers(0, 70))
def test_rows_may_start_and_end_anywhere(seed, shape, n):
    random = np.random.default_rng(seed)
    trees = random_forest(random, shape)
    forest = forest_of(trees)
    X = random_rows(random, trees, n)
    until = random.integers(0, forest.n_stages + 1, n).astype(np.int32)
    start = random.integers(0, forest.n_stages + 1, n).astype(np.int32)
    acc = random.integers(-100, 100, (n, forest.n_outputs))
    want = acc.copy()
    for i in range(n):
        want[i] += reference.units_after(trees, X[i], int(until[i]), forest.shift, first=int(start[i]))
    done = start.copy()
    assert forest.run(X, acc, done, until)
    np.testing.assert_array_equal(acc, want)
    np.testing.assert_array_equal(done, np.maximum(start, until))


@given(seed=seeds, shape=shapes)
def test_interrupted_runs_hold_exact_prefixes_and_resume_to_the_same_bits(seed, shape):
    random = np.random.default_rng(seed)
    trees = random_forest(random, replace(shape, n_stages=3 * shape.n_stages))
    forest = forest_of(trees)
    n = 200
    X = random_rows(random, trees, n)
    until = np.full(n, forest.n_stages, np.int32)
    acc, done = np.zeros((n, forest.n_outputs), np.int64), np.zeros(n, np.int32)
    for tries in range(10_000):
        before = done.copy()
        finished = forest.run(
            X, acc, done, until, deadline=time.monotonic() + 1e-6 * tries, threads=1 + tries % 2
        )
        assert (done >= before).all()
        np.testing.assert_array_equal(acc, run(forest, X, done))
        assert finished == bool((done == until).all())
        if finished:
            break
    assert finished


@given(seed=seeds, shape=shapes)
def test_two_threads_give_the_bits_of_one(seed, shape):
    random = np.random.default_rng(seed)
    trees = random_forest(random, replace(shape, n_stages=20, n_features=5))
    forest = forest_of(trees)
    X = np.tile(random_rows(random, trees, 50), (40, 1))
    until = random.integers(0, forest.n_stages + 1, len(X)).astype(np.int32)
    one = run(forest, X, until, threads=1)
    np.testing.assert_array_equal(one, run(forest, X, until, threads=2))
    np.testing.assert_array_equal(one, run(forest, X, until, threads=2, deadline=time.monotonic() + 1000))


def test_sums_are_the_values_to_the_last_bits():
    random = np.random.default_rng(3)
    trees = random_forest(random, Shape(n_stages=300))
    forest = forest_of(trees)
    X = random_rows(random, trees, 20)
    exact = [
        sum(float(trees.value[reference.leaf_of(trees, t, x)][0]) for t in range(trees.n_trees)) for x in X
    ]
    np.testing.assert_allclose(run(forest, X)[:, 0] * forest.unit, exact, rtol=1e-12, atol=1e-12)


@given(seed=seeds, shape=shapes)
def test_stage_outputs_are_what_each_stage_adds(seed, shape):
    random = np.random.default_rng(seed)
    trees = random_forest(random, shape)
    forest = forest_of(trees)
    X = random_rows(random, trees, 18)
    stages = random.integers(0, forest.n_stages, 4)
    outputs = forest.stage_outputs(X, stages)
    assert outputs.shape == (4, 18, forest.n_outputs)
    for s, output in zip(stages, outputs, strict=True):
        want = expected(trees, forest, X, s + 1) - expected(trees, forest, X, s)
        np.testing.assert_array_equal(output, want * forest.unit)
        np.testing.assert_array_equal(forest.stage_outputs(X, np.array([s]))[0], output)


@given(seed=seeds, shape=shapes)
def test_selected_stages_keep_their_bits(seed, shape):
    random = np.random.default_rng(seed)
    trees = random_forest(random, shape)
    forest = forest_of(trees)
    X = random_rows(random, trees, 9)
    order = random.permutation(forest.n_stages)[: random.integers(0, forest.n_stages + 1)]
    chosen = forest.select(order)
    assert (chosen.n_stages, chosen.unit) == (len(order), forest.unit)
    want = sum(
        (expected(trees, forest, X, s + 1) - expected(trees, forest, X, s) for s in order),
        start=np.zeros((9, forest.n_outputs), np.int64),
    )
    np.testing.assert_array_equal(run(chosen, X), want)


@pytest.mark.parametrize("name", SHAPES)
def test_arrays_and_pickle_keep_every_bit(name):
    trees = random_forest(np.random.default_rng(5), SHAPES[name])
    forest = forest_of(trees).select(np.arange(SHAPES[name].n_stages))
    for copy in (Forest(**forest.arrays()), pickle.loads(pickle.dumps(forest))):
        assert copy.shift == forest.shift
        arrays = copy.arrays()
        for field in fields(TreeArrays):
            before, after = getattr(trees, field.name), arrays[field.name]
            np.testing.assert_array_equal(after, before)
            assert np.asarray(after).dtype.kind == np.asarray(before).dtype.kind


def test_stage_columns_are_those_its_trees_test():
    trees = random_forest(np.random.default_rng(6), SHAPES["ragged stages"])
    forest = forest_of(trees)
    for stage in range(forest.n_stages):
        tested = {
            int(f)
            for t in reference.stage_trees(trees, stage)
            for f in trees.feature[trees.tree_start[t] : trees.tree_start[t + 1]]
        }
        columns = forest.stage_columns(stage)
        assert columns.dtype == np.int32
        assert columns.tolist() == sorted(tested - {-1})


@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e-30, 1.0, 1e30, 1e300, 1.7e308])
def test_unit_suits_values_of_any_size(scale):
    trees = random_forest(np.random.default_rng(7), Shape(n_stages=30))
    trees = replace(trees, value=np.clip(trees.value, -1, 1) * scale)
    forest = forest_of(trees)
    X = random_rows(np.random.default_rng(8), trees, 5)
    acc = run(forest, X)
    np.testing.assert_array_equal(acc, expected(trees, forest, X, forest.n_stages))
    assert np.abs(acc).max() < 2**62
    assert 0 < forest.unit < INF


# ---------------------------------------------------------------------- time


def boosted(n_stages: int = 400) -> tuple[TreeArrays, Forest, np.ndarray]:
    random = np.random.default_rng(9)
    shape = Shape(n_stages=n_stages, n_features=30, most_trees=1, most_leaves=64, grid=250)
    trees = random_forest(random, shape)
    return trees, forest_of(trees), random_rows(random, trees, 2000)


def test_past_deadline_does_nothing():
    _, forest, X = boosted()
    acc, done = np.zeros((len(X), 1), np.int64), np.zeros(len(X), np.int32)
    until = np.full(len(X), forest.n_stages, np.int32)
    assert not forest.run(X, acc, done, until, deadline=PAST)
    assert not done.any()
    assert not acc.any()
    one = np.full(1, 5, np.int64)
    assert forest.run_one(X[0], forest.n_stages, PAST, one) == 0
    assert one[0] == 0
    assert forest.run(X, acc, done, np.zeros_like(until), deadline=PAST)  # nothing to do, so nothing was cut


def test_rows_advance_together():
    """Stage-major: when time runs out, no row is far ahead of another."""
    _, forest, X = boosted()
    until = np.full(len(X), forest.n_stages, np.int32)
    spreads = []
    for microseconds in (500, 1000, 2000, 4000, 8000):
        acc, done = np.zeros((len(X), 1), np.int64), np.zeros(len(X), np.int32)
        forest.run(X, acc, done, until, deadline=time.monotonic() + 1e-6 * microseconds)
        spreads.append(int(done.max() - done.min()))
        np.testing.assert_array_equal(acc, run(forest, X, done))
    assert max(spreads) <= 32  # a stage may have no tree; a pass is at most 16 trees


def test_stop_flag_interrupts_from_another_thread():
    _, forest, X = boosted()
    X = np.tile(X, (40, 1))
    until = np.full(len(X), forest.n_stages, np.int32)
    acc, done = np.zeros((len(X), 1), np.int64), np.zeros(len(X), np.int32)
    flag = StopFlag()
    threading.Timer(0.005, flag.set).start()
    assert not forest.run(X, acc, done, until, stop=flag)
    assert flag.is_set()
    assert (done < forest.n_stages).any()
    np.testing.assert_array_equal(acc[::500], run(forest, np.ascontiguousarray(X[::500]), done[::500]))
    flag.clear()
    assert not flag.is_set()
    assert forest.run(X, acc, done, until, stop=flag)
    np.testing.assert_array_equal(acc[::500], run(forest, np.ascontiguousarray(X[::500])))


def test_one_row_stops_at_a_prefix():
    trees, forest, X = boosted(2000)
    seen = set()
    acc = np.zeros(1, np.int64)
    for microseconds in np.linspace(0, 30, 100):
        done = forest.run_one(X[0], forest.n_stages, time.monotonic() + 1e-6 * microseconds, acc)
        seen.add(done)
        assert acc.tolist() == run(forest, X[:1], done)[0].tolist()
    assert len(seen) > 2


# ---------------------------------------------------------------------- costs


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


def table_of(prices, requires, groups) -> CostTable:
    return CostTable(
        np.array(prices, np.int64),
        np.cumsum([0] + [len(r) for r in requires]),
        np.array([g for r in requires for g in r], np.int32),
        np.array(groups, np.int32),
    )


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


@given(costs=cost_cases(3))
def test_closure_and_price(costs):
    prices, requires, groups = costs
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
    halted = np.zeros(n, bool)
    ledger = Ledger(table_of(*costs), n)
    assert forest.run_metered(X, acc, done, until, ledger, evaluation, budget, halted=halted)
    assert (ledger.paid <= np.maximum(budget, 0)).all()
    for i in range(n):
        sums, stages, paid, bought = reference.run_metered(
            trees, X[i], int(until[i]), forest.shift, prices=prices, requires=requires, column_group=groups,
            evaluation=evaluation.tolist(), budget=int(budget[i]),
        )  # fmt: skip
        assert (acc[i].tolist(), done[i], ledger.paid[i]) == (sums, stages, paid)
        assert set(np.flatnonzero(ledger.bought[i])) == bought
        assert halted[i] == (stages < until[i])
    np.testing.assert_array_equal(acc, run(forest, X, done))
    before = acc.copy()
    assert forest.run_metered(X, acc, done, until, ledger, evaluation, budget, halted=halted)
    np.testing.assert_array_equal(acc, before)  # halted rows are left alone


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
    for stage in range(forest.n_stages):
        while (group := forest.need(x, stage, available, table)) >= 0:
            assert not available[group]
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


# ---------------------------------------------------------------------- the doors


def small_tree(**changes) -> dict:
    """A root with two leaves, and a second tree of one leaf."""
    arrays = {
        "tree_start": np.array([0, 3, 4]),
        "stage_start": np.array([0, 1, 2]),
        "feature": ints(1, -1, -1, -1),
        "threshold": np.zeros(4),
        "left": ints(1, -1, -1, -1),
        "right": ints(2, -1, -1, -1),
        "default_left": np.zeros(4, np.uint8),
        "missing": np.zeros(4, np.uint8),
        "category_set": ints(-1, -1, -1, -1),
        "members_left": np.zeros(4, np.uint8),
        "category_start": np.array([0, 2]),
        "categories": ints(3, 5),
        "value": np.ones((4, 1)),
        "tree_output": ints(0, 0),
        "n_outputs": 1,
        "n_features": 2,
    }
    return arrays | changes


BAD = {
    "tree_start is empty": {"tree_start": np.empty(0, np.int64)},
    r"tree_start\[0\]": {"tree_start": np.array([1, 3, 4])},
    r"at least one node": {"tree_start": np.array([0, 4, 4])},
    r"tree_start\[2\] is 2": {"tree_start": np.array([0, 3, 2])},
    "tree_start ends at 3": {"tree_start": np.array([0, 2, 3])},
    "stage_start ends at 1": {"stage_start": np.array([0, 1])},
    "offsets never decrease": {"stage_start": np.array([0, 2, 1, 2])},
    "threshold has 3 entries": {"threshold": np.zeros(3)},
    "tree 0, node 0 has a threshold that is NaN": {"threshold": np.array([np.nan, 0, 0, 0])},
    r"tree 0, node 0 tests column 2, not in \[0, 2\)": {"feature": ints(2, -1, -1, -1)},
    "tree 0, node 0 tests column -7": {"feature": ints(-7, -1, -1, -1)},
    "tree 0, node 0 is a leaf but has children": {"feature": ints(-1, -1, -1, -1)},
    "tree 0, node 0 has child 0": {"left": ints(0, -1, -1, -1)},
    "tree 0, node 0 has child 3": {"right": ints(3, -1, -1, -1)},
    "tree 0, node 0 has child 2147483647": {"right": ints(2**31 - 1, -1, -1, -1)},
    "tree 0, node 0 has child -1": {"left": ints(-1, -1, -1, -1)},
    "tree 0, node 1 does not have exactly one parent": {"left": ints(2, -1, -1, -1)},
    "tree 1, node 0 has default_left 2": {"default_left": np.array([0, 0, 0, 2], np.uint8)},
    "missing 3": {"missing": np.array([3, 0, 0, 0], np.uint8)},
    "members_left 9": {"members_left": np.array([9, 0, 0, 0], np.uint8)},
    "names category set 1, of 1": {"category_set": ints(1, -1, -1, -1)},
    "names category set -2": {"category_set": ints(-2, -1, -1, -1)},
    "increasing order": {"categories": ints(5, 5)},
    r"member -1 is not in": {"categories": ints(-1, 5)},
    r"member 16777217 is not in": {"categories": ints(3, 2**24 + 1)},
    "category_start ends at 3": {"category_start": np.array([0, 3])},
    "tree 1, node 0 has a value that is not finite": {"value": np.array([[1.0], [1], [1], [np.inf]])},
    "value has 2 columns": {"value": np.ones((4, 2))},
    "value has 3 rows": {"value": np.ones((3, 1))},
    "tree 1 adds to output 1": {"tree_output": ints(0, 1)},
    "tree 0 adds to output 1": {"tree_output": ints(1, 0), "value": np.ones((4, 2)), "n_outputs": 2},
    "n_outputs is 0": {"n_outputs": 0},
    "n_features is -1": {"n_features": -1},
    "shift is 5000": {"shift": 5000},
    "shift 63 is too large": {"shift": 63},
}


def test_small_tree_is_a_forest():
    forest = Forest(**small_tree())
    assert (forest.n_trees, forest.n_stages, forest.n_features, forest.n_outputs) == (2, 2, 2, 1)
    Forest(**small_tree(value=np.ones((4, 3)), n_outputs=3))
    Forest(**small_tree(category_set=ints(0, -1, -1, -1)))


@pytest.mark.parametrize("message", BAD)
def test_malformed_arrays_are_refused_with_their_place(message):
    with pytest.raises(ValueError, match=message):
        Forest(**small_tree(**BAD[message]))


def test_arrays_of_another_type_are_not_converted():
    for wrong in (ints(0, 3, 4), [0, 3, 4], np.array([0.0, 3, 4]), np.array([[0, 3, 4]]), np.arange(6)[::2]):
        with pytest.raises(TypeError):
            Forest(**small_tree(tree_start=wrong))


@given(seed=seeds, shape=shapes.filter(lambda s: s.n_features == 5 and s.most_leaves < 100))
def test_mutated_arrays_are_refused_or_run(seed, shape):
    """Whatever the bytes say, the answer is a ValueError or a number, never a crash."""
    random = np.random.default_rng(seed)
    arrays = random_forest(random, shape).asdict()
    X = np.zeros((3, 5))
    names = [name for name, value in arrays.items() if isinstance(value, np.ndarray) and value.size]
    for _ in range(20):
        name = names[random.integers(len(names))] if names else "tree_start"
        damaged = arrays[name].copy()
        at = random.integers(damaged.size)
        damaged.flat[at] = random.choice([-2, -1, 0, 1, 2, 3, 7, 100, 255]).astype(damaged.dtype)
        if random.random() < 0.2:
            damaged = np.ascontiguousarray(damaged[: random.integers(len(damaged))])
        try:
            forest = Forest(**arrays | {name: damaged})
        except ValueError:
            continue
        run(forest, X)
        forest.stage_outputs(X, np.arange(forest.n_stages))


def test_run_refuses_shapes_and_stages_that_do_not_fit():
    forest = Forest(**small_tree())
    X, acc, done, until = (
        np.zeros((3, 2)),
        np.zeros((3, 1), np.int64),
        np.zeros(3, np.int32),
        np.full(3, 2, np.int32),
    )
    for bad in (
        (np.zeros((3, 3)), acc, done, until),
        (X, acc[:2], done, until),
        (X, np.zeros((3, 2), np.int64), done, until),
        (X, acc, done[:2], until),
        (X, acc, done, until[:2]),
        (X, acc, done, until + 1),
        (X, acc, done - 1, until),
    ):
        with pytest.raises(ValueError, match=r"expected|must lie in"):
            forest.run(*bad)
    with pytest.raises(TypeError):
        forest.run(X.astype(np.float32), acc, done, until)
    with pytest.raises(TypeError):
        forest.run(np.zeros((2, 3)).T, acc, done, until)
    with pytest.raises(ValueError, match="NaN"):
        forest.run(X, acc, done, until, deadline=np.nan)
    one = np.zeros(1, np.int64)
    with pytest.raises(ValueError, match="until"):
        forest.run_one(X[0], 3, INF, one)
    with pytest.raises(ValueError, match="x has"):
        forest.run_one(np.zeros(3), 2, INF, one)
    with pytest.raises(ValueError, match="acc has"):
        forest.run_one(X[0], 2, INF, np.zeros(2, np.int64))
    for call in (
        forest.stage_columns,
        lambda s: forest.select(np.array([s])),
        lambda s: forest.stage_outputs(X, np.array([s])),
    ):
        for stage in (-1, 2):
            with pytest.raises(ValueError, match="stage"):
                call(stage)


def test_metered_run_refuses_what_does_not_fit():
    forest = Forest(**small_tree())
    X, acc, done, until = (
        np.zeros((3, 2)),
        np.zeros((3, 1), np.int64),
        np.zeros(3, np.int32),
        np.full(3, 2, np.int32),
    )
    table = table_of([1, 1], [[], []], [0, 1])
    free, budget = np.zeros(2, np.int64), np.zeros(3, np.int64)
    for bad in (
        (Ledger(table, 2), free, budget),
        (Ledger(table_of([1], [[]], [0]), 3), free, budget),
        (Ledger(table, 3), free[:1], budget),
        (Ledger(table, 3), free - 1, budget),
        (Ledger(table, 3), free, budget[:2]),
    ):
        with pytest.raises(ValueError, match=r"."):
            forest.run_metered(X, acc, done, until, *bad)
    with pytest.raises(ValueError, match="do not fit"):
        forest.need(X[0], 0, np.zeros(3, bool), table)
    with pytest.raises(ValueError, match="stage"):
        forest.need(X[0], 2, np.zeros(2, bool), table)


@pytest.mark.parametrize(
    ("message", "arguments"),
    [
        ("cycle", ([1, 1], [[1], [0]], [0])),
        ("cycle", ([1], [[0]], [0])),
        ("not in", ([1], [[1]], [0])),
        ("not in", ([1], [[-1]], [0])),
        ("column 0 names group 1", ([1], [[]], [1])),
        ("negative", ([-1], [[]], [0])),
        (r"2\*\*62", ([2**61, 2**61, 1], [[], [], []], [0])),
    ],
)
def test_bad_price_lists_are_refused(message, arguments):
    with pytest.raises(ValueError, match=message):
        table_of(*arguments)


def test_ledger_refuses_bad_rows_groups_and_charges_and_stays_as_it_was():
    ledger = Ledger(table_of([2**61], [[]], [0]), 2)
    for bad in (lambda: ledger.buy(ints(1)), lambda: ledger.buy(ints(0), np.array([0, 2])), lambda: ledger.charge(-1),
                lambda: ledger.quote(ints(-1)), lambda: ledger.quote(ints(0), np.array([-1]))):  # fmt: skip
        with pytest.raises(ValueError, match=r"."):
            bad()
    with pytest.raises(ValueError, match="negative"):
        Ledger(ledger.table, -1)
    assert ledger.paid.tolist() == [0, 0]
    ledger.charge(2**62 + 2**61, np.array([1]))
    with pytest.raises(ValueError, match="row 1"):
        ledger.charge(2**62)
    with pytest.raises(ValueError, match="row 1"):
        ledger.buy(ints(0))
    assert ledger.paid.tolist() == [0, 2**62 + 2**61]
    assert not ledger.bought.any()


def test_bad_pickles_are_refused():
    table = table_of([1], [[]], [0])
    ledger = Ledger(table, 2)
    for state in (
        (table, np.array([2, 0], np.uint64), np.array([0, 0])),
        (table, np.array([1], np.uint64), np.array([0, 0])),
        (table, np.array([1, 0], np.uint64), np.array([0, -1])),
    ):
        with pytest.raises(ValueError, match="ledger state"):
            Ledger.__new__(Ledger).__setstate__(state)
    assert ledger.paid.tolist() == [0, 0]
