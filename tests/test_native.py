"""The native evaluator against the obvious one: results, interrupts, threads."""

from __future__ import annotations

import gc
import pickle
import threading
import time
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anytime._native import Forest, Ledger, StopFlag, use_vectors, vectors, vectors_in_use
from anytime.trees.arrays import TreeArrays
from tests.native.cases import SHAPES, expected, forest_of, run, seeds, shapes, table_of
from tests.reference import trees as reference
from tests.reference.random_trees import Shape, random_forest, random_rows

PAST = 0.0
INF = np.inf


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
        before, sums = done.copy(), acc.copy()
        finished = forest.run(
            X, acc, done, until, deadline=time.monotonic() + 1e-6 * tries, threads=1 + tries % 2
        )
        assert (done >= before).all()
        # where nothing was done, the sums are those that were compared before
        np.testing.assert_array_equal(acc, run(forest, X, done) if (done > before).any() else sums)
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


def best_of(tasks, repeats):
    """Least seconds of each task, the tasks taking turns so that a noisy moment hits all of them."""
    least = [INF] * len(tasks)
    for _ in range(repeats):
        for i, task in enumerate(tasks):
            began = time.perf_counter()
            for _ in range(20):
                task()
            least[i] = min(least[i], time.perf_counter() - began)
    return least


@pytest.mark.realtime
def test_a_far_deadline_costs_one_row_next_to_nothing():
    random = np.random.default_rng(2)
    trees = random_forest(random, Shape(n_stages=500, most_trees=1, most_leaves=60, n_features=20))
    forest = forest_of(trees)
    x, acc, last = random_rows(random, trees, 1)[0], np.zeros(1, np.int64), forest.n_stages
    far = time.monotonic() + 1e6
    without, with_deadline = best_of(
        [lambda: forest.run_one(x, last, INF, acc), lambda: forest.run_one(x, last, far, acc)], repeats=300
    )
    assert with_deadline <= 1.05 * without


@pytest.mark.realtime
def test_many_rows_are_scanned_quicker_than_they_walk():
    random = np.random.default_rng(2)
    trees = random_forest(random, Shape(n_stages=300, most_trees=1, most_leaves=60, n_features=20))
    forest = forest_of(trees)
    X, last = random_rows(random, trees, 512), forest.n_stages
    walk, scan = best_of([lambda: walked(forest, X, last), lambda: run(forest, X)], repeats=5)
    assert scan <= 0.6 * walk


@pytest.mark.realtime
def test_a_tenth_of_the_money_takes_less_than_half_of_the_time():
    """Rows that pay for their own paths, until the money for a tenth of the stages is spent, against all stages unpaid."""
    random = np.random.default_rng(2)
    trees = random_forest(
        random, Shape(n_stages=1000, most_trees=1, most_leaves=120, n_features=30, grid=200)
    )
    forest = forest_of(replace(trees, missing=np.zeros_like(trees.missing)))
    X, n = random.normal(size=(1000, 30)), 1000
    table = table_of(np.ones(30), [[]] * 30, np.arange(30))
    evaluation, budget = np.ones(forest.n_stages, np.int64), np.full(n, forest.n_stages // 10)
    last = np.full(n, forest.n_stages, np.int32)

    def metered():
        acc, done = np.zeros((n, 1), np.int64), np.zeros(n, np.int32)
        forest.run_metered(X, acc, done, last, Ledger(table, n), evaluation, budget)
        return done

    assert 0.07 * forest.n_stages < metered().mean() < 0.1 * forest.n_stages
    every, paid = best_of([lambda: run(forest, X), metered], repeats=5)
    assert paid <= 0.5 * every


@pytest.fixture(params=vectors())
def instructions(request):
    """Each instruction set of this machine for which scans are compiled, in use."""
    before = vectors_in_use()
    use_vectors(request.param)
    yield request.param
    use_vectors(before)


def walked(forest, X, until):
    """The same run in parts too small to be scanned."""
    limits = np.broadcast_to(until, len(X))
    return np.concatenate([run(forest, X[i : i + 32], limits[i : i + 32]) for i in range(0, len(X), 32)])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", [name for name in SHAPES if "large" not in name and "two bytes" not in name])
def test_scanned_trees_give_the_bits_of_walked_ones(instructions, name, seed):
    random = np.random.default_rng(seed)
    trees = random_forest(random, SHAPES[name])
    forest = forest_of(trees)
    for n in (33, 64, 300):
        X = random_rows(random, trees, n)
        for until in (forest.n_stages, random.integers(0, forest.n_stages + 1, n)):
            want = walked(forest, X, until)
            np.testing.assert_array_equal(run(forest, X, until), want)
            np.testing.assert_array_equal(run(forest, X, until, deadline=time.monotonic() + 1000), want)


def test_an_instruction_set_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="no instruction set is called 'abacus'"):
        use_vectors("abacus")


@pytest.mark.parametrize("spread", [1e-3, 1.0, 30.0, 700.0])
def test_thresholds_may_lie_as_unevenly_as_they_like(spread):
    """Ranks are looked up in buckets of equal width: all thresholds in one bucket, or far beyond, are the hard cases."""
    random = np.random.default_rng(5)
    trees = random_forest(random, Shape(n_stages=30, most_leaves=60, n_features=2))
    with np.errstate(over="ignore"):
        skewed = np.sign(trees.threshold) * np.expm1(spread * np.abs(trees.threshold))
    skewed[random.random(skewed.size) < 0.01] = random.choice([np.inf, -np.inf, 1e308, -1e308, 5e-324])
    trees = replace(trees, threshold=skewed)
    forest = forest_of(trees)
    X = random_rows(random, trees, 64)
    X[:2] = [[np.inf], [0.0]]
    X[2] = -np.inf
    want = expected(trees, forest, X, forest.n_stages)
    np.testing.assert_array_equal(run(forest, X), want)
    np.testing.assert_array_equal(walked(forest, X, forest.n_stages), want)
    acc = np.zeros(forest.n_outputs, np.int64)
    for x, row in zip(X, want, strict=True):
        forest.run_one(x, forest.n_stages, INF, acc)
        np.testing.assert_array_equal(acc, row)


@pytest.mark.parametrize("most_trees", [8, 16, 32], ids=["one table", "two", "four"])
@pytest.mark.parametrize("float32_input", [False, True])
def test_values_beside_a_threshold_have_its_rank_or_the_next(instructions, most_trees, float32_input):
    """Many rows are ranked by keys of 16 bits, which thresholds and the values beside them share."""
    random = np.random.default_rng(6)
    shape = Shape(
        n_stages=16, most_trees=most_trees, most_leaves=8, n_features=1, float32_input=float32_input
    )
    trees = random_forest(random, shape)
    forest = forest_of(trees)
    exact = trees.threshold[trees.feature >= 0]
    beside = [np.nextafter(exact, -INF), exact, np.nextafter(exact, INF), exact + 1e-7, [np.nan, 0.0, 1e300]]
    # one in five: where most values were thresholds, doubles would be compared at once
    others = random.normal(size=480)
    X = random.permutation(np.append(random.permutation(np.concatenate(beside))[:120], others))[:, None]
    acc = np.zeros(forest.n_outputs, np.int64)
    got = run(forest, X)
    for x, row in zip(X, got, strict=True):  # one row by itself is ranked by doubles alone
        forest.run_one(x, forest.n_stages, INF, acc)
        np.testing.assert_array_equal(acc, row)


@pytest.mark.parametrize("count", [254, 255, 256])
def test_a_column_with_as_many_thresholds_as_a_byte_counts_is_ranked_rightly(instructions, count):
    """255 thresholds take two columns of 8-bit ranks, of which keys filled one only."""
    random = np.random.default_rng(7)
    trees = random_forest(random, Shape(n_stages=100, most_leaves=16, n_features=1))
    inner, one_way = trees.feature >= 0, np.zeros_like(trees.missing)  # one search serves all nodes
    thresholds = trees.threshold.copy()
    thresholds[inner] = np.arange(inner.sum()) % count
    forest = forest_of(replace(trees, threshold=thresholds, missing=one_way, default_left=one_way))
    X = random.uniform(-1.0, count, (300, 1))
    acc = np.zeros(forest.n_outputs, np.int64)
    for x, row in zip(X, run(forest, X), strict=True):  # one row by itself is ranked by doubles alone
        forest.run_one(x, forest.n_stages, INF, acc)
        np.testing.assert_array_equal(acc, row)


@pytest.mark.parametrize("missing", [0, 1, 2], ids=["never", "nan", "nan or zero"])
@pytest.mark.parametrize("default_left", [0, 1], ids=["right", "left"])
@pytest.mark.parametrize("at", [0.0, 1e16, -1e16], ids=["around zero", "high", "low"])
def test_missing_values_go_their_way_past_any_thresholds(instructions, missing, default_left, at):
    random = np.random.default_rng(8)
    trees = random_forest(random, Shape(n_stages=16, most_leaves=16, n_features=1))
    inner = trees.feature >= 0
    thresholds = trees.threshold.copy()
    thresholds[inner] = at + 2.0 * random.integers(-20, 20, inner.sum())  # beside each other at 1e16
    kind = {
        "missing": np.full_like(trees.missing, missing),
        "default_left": np.full_like(trees.default_left, default_left),
    }
    forest = forest_of(replace(trees, threshold=thresholds, **kind))
    special = [np.nan, 0.0, -0.0, 1e-36, 1e-30, -1e-36, INF, -INF, 1e300, -1e300]
    X = random.permutation(np.append(np.repeat(special, 3), at + random.uniform(-45.0, 45.0, 270)))[:, None]
    acc = np.zeros(forest.n_outputs, np.int64)
    for x, row in zip(X, run(forest, X), strict=True):  # one row by itself is ranked by doubles alone
        forest.run_one(x, forest.n_stages, INF, acc)
        np.testing.assert_array_equal(acc, row)


@pytest.mark.parametrize("n_features", [3, 8, 41])
@pytest.mark.parametrize("grid", [0, 5000], ids=["any thresholds", "two bytes"])
@pytest.mark.parametrize("float32_input", [False, True])
def test_prefixes_that_test_few_thresholds_of_a_column_give_the_bits_of_walks(
    instructions, n_features, grid, float32_input
):
    """Comparisons with the few thresholds take the place of a search among all; 33 rows leave a vector half empty."""
    random = np.random.default_rng(8)
    shape = Shape(
        n_stages=60,
        most_trees=1,
        most_leaves=24,
        n_features=n_features,
        grid=grid,
        float32_input=float32_input,
    )
    trees = random_forest(random, shape if not grid else replace(shape, n_stages=900))
    forest = forest_of(trees)
    X = random_rows(random, trees, 333)
    acc = np.zeros(forest.n_outputs, np.int64)
    for until in (1, 2, 5, 12, 30):
        got = run(forest, X, until)
        for x, row in zip(X, got, strict=True):  # one row by itself is ranked by doubles alone
            forest.run_one(x, until, INF, acc)
            np.testing.assert_array_equal(acc, row)
        for threads in (2, 4):
            np.testing.assert_array_equal(run(forest, np.tile(X, (9, 1)), until, threads=threads)[:333], got)
    for n in (49, 333):
        limits = random.integers(0, 13, n)
        np.testing.assert_array_equal(run(forest, X[:n], limits), walked(forest, X[:n], limits))


@pytest.mark.parametrize("unlimited", [False, True])
def test_rows_with_little_money_are_scanned_to_the_bits_of_walks(instructions, unlimited):
    """Only stages that some row could pay for are ranked; where a stage is free, or a row has all the money, that is all."""
    random = np.random.default_rng(9)
    trees = random_forest(random, Shape(n_stages=80, most_trees=1, most_leaves=20, n_features=12))
    forest = forest_of(trees)
    table = table_of(random.integers(0, 3, 12).astype(float), [[]] * 12, np.arange(12))
    evaluation = random.integers(0, 3, forest.n_stages)
    X = random_rows(random, trees, 300)
    budget = random.integers(0, 40, 300)
    budget[:2] = np.iinfo(np.int64).max if unlimited else 0
    start = random.integers(0, 6, 300).astype(np.int32)
    until = random.integers(0, forest.n_stages + 1, 300).astype(np.int32)

    def metered(rows):
        acc, done = np.zeros((len(rows), 1), np.int64), start[rows]
        ledger = Ledger(table, len(rows))
        assert forest.run_metered(X[rows], acc, done, until[rows], ledger, evaluation, budget[rows])
        return acc, done, np.array(ledger.paid)

    parts = [
        metered(np.arange(first, min(first + 32, 300))) for first in range(0, 300, 32)
    ]  # too few to scan
    for got, want in zip(metered(np.arange(300)), zip(*parts, strict=True), strict=True):
        np.testing.assert_array_equal(got, np.concatenate(want))


def test_sums_are_the_values_to_the_last_bits():
    random = np.random.default_rng(3)
    trees = random_forest(random, Shape(n_stages=300))
    forest = forest_of(trees)
    X = random_rows(random, trees, 20)
    exact = [
        sum(float(trees.value[reference.leaf_of(trees, t, x)][0]) for t in range(trees.n_trees)) for x in X
    ]
    np.testing.assert_allclose(run(forest, X)[:, 0] * forest.unit, exact, rtol=1e-12, atol=1e-12)


def alone(trees, forest, X, stage):
    """What one stage adds to each row, by the obvious walk."""
    return np.array([reference.units_after(trees, x, stage + 1, forest.shift, first=stage) for x in X])


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
        np.testing.assert_array_equal(output, alone(trees, forest, X, s) * forest.unit)
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
    want = sum((alone(trees, forest, X, s) for s in order), start=np.zeros((9, forest.n_outputs), np.int64))
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


def frozen(forest, spare=0):
    """A forest in memory that begins at a cache line."""
    memory = np.zeros(forest.frozen_size + spare + 64, np.uint8)
    memory = memory[-memory.ctypes.data % 64 :][: forest.frozen_size + spare]
    forest.freeze(memory)
    return memory


@pytest.mark.parametrize("name", SHAPES)
def test_a_frozen_forest_is_the_same_where_it_lies(name):
    rng = np.random.default_rng(1)
    trees = random_forest(rng, SHAPES[name])
    forest = forest_of(trees)
    X = random_rows(rng, trees, 40)
    sums, arrays = run(forest, X), forest.arrays()
    memory = frozen(forest, spare=100)
    memory.flags.writeable = False
    del forest
    thawed = Forest.thawed(memory)
    del memory  # the forest keeps it
    gc.collect()
    np.testing.assert_array_equal(run(thawed, X), sums)
    assert thawed.arrays().keys() == arrays.keys()
    for field, array in thawed.arrays().items():
        np.testing.assert_array_equal(array, arrays[field])
    again = pickle.loads(pickle.dumps(thawed))
    np.testing.assert_array_equal(run(again, X), sums)
    np.testing.assert_array_equal(run(Forest.thawed(frozen(thawed)), X), sums)


def test_what_was_not_frozen_is_not_thawed():
    forest = forest_of(random_forest(np.random.default_rng(0), SHAPES["plain"]))
    memory = frozen(forest, spare=64)
    with pytest.raises(ValueError, match="too little memory"):
        forest.freeze(np.zeros(forest.frozen_size - 1, np.uint8))
    wrong = [memory[:0], memory[:100], memory[:-65], memory[1:], np.zeros_like(memory)]
    for place in (0, 8, 16, 24, 16 + 22 * 8):  # the mark, the size, where arrays begin, how long one is
        broken = frozen(forest, spare=64)
        broken[place : place + 8] = 0xFF
        wrong.append(broken)
    for piece in wrong:
        with pytest.raises(ValueError, match="no forest that was frozen by this build"):
            Forest.thawed(piece)


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
    trees, forest, X = boosted()
    until = np.full(len(X), forest.n_stages, np.int32)
    spreads = []
    for microseconds in (500, 1000, 2000, 4000, 8000):
        acc, done = np.zeros((len(X), 1), np.int64), np.zeros(len(X), np.int32)
        forest.run(X, acc, done, until, deadline=time.monotonic() + 1e-6 * microseconds)
        spreads.append(int(trees.stage_start[done.max()] - trees.stage_start[done.min()]))
        np.testing.assert_array_equal(acc, run(forest, X, done))
    assert max(spreads) <= 16  # trees, the length of a pass


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


def test_any_object_with_is_set_interrupts():
    """A threading.Event is asked now and then; what asking it raises comes back."""
    _, forest, X = boosted()
    X = np.tile(X, (40, 1))
    until = np.full(len(X), forest.n_stages, np.int32)
    acc, done = np.zeros((len(X), 1), np.int64), np.zeros(len(X), np.int32)
    event = threading.Event()
    threading.Timer(0.005, event.set).start()
    assert not forest.run(X, acc, done, until, stop=event, threads=2)
    np.testing.assert_array_equal(acc[::500], run(forest, np.ascontiguousarray(X[::500]), done[::500]))
    event.clear()
    assert forest.run(X, acc, done, until, stop=event)
    np.testing.assert_array_equal(acc[::500], run(forest, np.ascontiguousarray(X[::500])))

    class Broken:
        def is_set(self) -> bool:
            raise RuntimeError("no idea")

    with pytest.raises(RuntimeError, match="no idea"):
        forest.run(X, acc, np.zeros_like(done), until, stop=Broken())
    with pytest.raises(AttributeError):
        forest.run(X, acc, done, until, stop=3)


def test_one_row_stops_at_a_prefix():
    _trees, forest, X = boosted(2000)
    seen = set()
    acc = np.zeros(1, np.int64)
    for microseconds in np.linspace(0, 30, 100):
        done = forest.run_one(X[0], forest.n_stages, time.monotonic() + 1e-6 * microseconds, acc)
        seen.add(done)
        assert acc.tolist() == run(forest, X[:1], done)[0].tolist()
    assert len(seen) > 2
