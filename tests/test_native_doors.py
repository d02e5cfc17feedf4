"""Whatever the native core is given, it answers or raises; it never follows a bad index."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from anytime._native import Forest, Ledger, block_gains, buy_group, linear_outputs, row_products
from tests.native.cases import ints, run, seeds, shapes, table_of
from tests.reference.random_trees import random_forest

INF = np.inf


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
    with pytest.raises(ValueError, match="do not fit"):
        forest.need(X[0], 0, np.zeros(2, bool), table, np.zeros(3, bool))
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


# ---------------------------------------------------------------------- linear models


def outputs_call(**changes) -> dict:
    """Two rows of three columns, two of which are read, for two outputs."""
    return {
        "X": np.ones((2, 3)),
        "columns": ints(2, 0),
        "centres": np.zeros(2),
        "coefficients": np.ones((2, 2)),
        "intercept": np.zeros(2),
    } | changes


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        ("a column is not among those of X", {"columns": ints(2, 3)}),
        ("a column is not among those of X", {"columns": ints(-1, 0)}),
        ("coefficients has 2 entries, expected 1", {"columns": ints(2)}),
        ("coefficients has 1 entries, expected 2", {"coefficients": np.ones((1, 2))}),
        ("intercept has 1 entries, expected 2", {"intercept": np.zeros(1)}),
        ("centres has 3 entries, expected 2", {"centres": np.zeros(3)}),
    ],
)
def test_linear_outputs_refuses_what_does_not_fit(message, changes):
    with pytest.raises(ValueError, match=message):
        linear_outputs(**outputs_call(**changes))


def test_linear_outputs_takes_any_number_of_rows_and_columns_in_any_layout():
    assert linear_outputs(**outputs_call()).tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert linear_outputs(**outputs_call(centres=None)).tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert linear_outputs(**outputs_call(X=np.empty((0, 3)))).shape == (0, 2)
    nothing = {
        "columns": ints(),
        "centres": np.empty(0),
        "coefficients": np.empty((0, 2)),
        "intercept": np.array([5.0, 6.0]),
    }
    assert linear_outputs(**outputs_call(**nothing)).tolist() == [[5.0, 6.0], [5.0, 6.0]]
    X = np.arange(6.0).reshape(2, 3)
    for same in (X.astype(np.float32), np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2]):
        assert linear_outputs(**outputs_call(X=same)).tolist() == [[2.0, 2.0], [8.0, 8.0]]
    with pytest.raises(ValueError, match="right has 2 entries, expected 3"):
        row_products(np.ones((2, 3)), np.ones((2, 3)))


def gains_call(**changes) -> dict:
    """Three columns in groups of one, none and two."""
    return {
        "start": np.array([0, 1, 1, 3]),
        "place": np.array([0, 1, 1, 5]),
        "blocks": np.array([1.0, 1.0, 0.0, 0.0, 1.0]),
        "b": np.array([[3.0], [1.0], [2.0]]),
        "floor": np.full(3, 1e-10),
        "groups": np.array([2, 0, 1]),
    } | changes


BAD_BLOCKS = {
    "start is empty": {"start": np.empty(0, np.int64), "place": np.empty(0, np.int64)},
    "place has 3 entries, expected 4": {"place": np.array([0, 1, 5])},
    "floor has 2 entries, expected 3": {"floor": np.zeros(2)},
}
NO_BLOCKS = [
    {"start": np.array([1, 1, 1, 3])},
    {"start": np.array([0, 2, 1, 3])},
    {"start": np.array([0, 1, 1, 2]), "place": np.array([0, 1, 1, 2])},
    {"start": np.array([0, 1, 1, 4]), "place": np.array([0, 1, 1, 10])},
    {"start": np.array([0, 2**32, 2**32, 3])},
    {"place": np.array([0, 1, 2, 5])},
    {"place": np.array([1, 2, 2, 6])},
    {"place": np.array([0, 1, 1, 4])},
    {"b": np.ones((2, 1)), "floor": np.zeros(2)},
]


def test_block_gains_are_those_of_its_blocks():
    assert block_gains(**gains_call()).tolist() == [2.5, 4.5, 0.0]
    assert block_gains(**gains_call(groups=np.empty(0, np.int64))).shape == (0,)
    assert block_gains(**gains_call(b=np.empty((3, 0)))).tolist() == [0.0, 0.0, 0.0]
    assert block_gains(**gains_call(floor=np.full(3, 2.0))).tolist() == [
        0.0,
        0.0,
        0.0,
    ]  # all taken for rounding


@pytest.mark.parametrize("message", BAD_BLOCKS)
def test_block_gains_refuses_what_does_not_fit(message):
    with pytest.raises(ValueError, match=message):
        block_gains(**gains_call(**BAD_BLOCKS[message]))


@pytest.mark.parametrize("changes", [*NO_BLOCKS, {"blocks": np.ones(4)}], ids=str)
def test_block_gains_refuses_places_that_describe_no_blocks(changes):
    with pytest.raises(ValueError, match="start and place do not describe the blocks"):
        block_gains(**gains_call(**changes))


@pytest.mark.parametrize("group", [-1, 3, 2**40])
def test_there_is_no_such_group(group):
    with pytest.raises(ValueError, match="no such group"):
        block_gains(**gains_call(groups=np.array([0, group])))
    with pytest.raises(ValueError, match="no such group"):
        buy_group(**purchase_call(left=np.array([group])))
    with pytest.raises(ValueError, match="no such group"):
        buy_group(**purchase_call(group=group))


def purchase_call(**changes) -> dict:
    """Buy the last of the groups above."""
    given = gains_call()
    return {
        "start": given["start"],
        "place": given["place"],
        "blocks": given["blocks"],
        "left": np.array([0, 1]),
        "panel": np.array([[0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]),
        "group": 2,
        "b": given["b"],
        "floor": given["floor"],
        "z": np.zeros((2, 1)),
    } | changes


def test_a_purchase_changes_the_rest_and_only_with_blocks_their_blocks():
    call = purchase_call()
    assert buy_group(**call) == 2
    assert call["z"].tolist() == [[1.0], [2.0]]
    assert call["b"].tolist() == [[2.5], [0.0], [0.0]]
    assert call["blocks"].tolist() == [0.75, 1.0, 0.0, 0.0, 1.0]
    without = purchase_call(blocks=None)
    assert buy_group(**without) == 2
    assert without["b"].tolist() == call["b"].tolist()
    empty = purchase_call(group=1, panel=np.empty((0, 3)), z=np.empty((0, 1)), left=np.array([0, 2]))
    assert buy_group(**empty) == 0
    assert empty["b"].tolist() == [[3.0], [1.0], [2.0]]


@pytest.mark.parametrize(
    ("message", "changes"),
    [
        ("place is empty", {"place": np.empty(0, np.int64)}),
        ("panel has 1 entries, expected 2", {"panel": np.ones((1, 3))}),
        ("a row of panel has 2 entries, expected 3", {"panel": np.ones((2, 2))}),
        ("z has 3 entries, expected 2", {"z": np.zeros((3, 1))}),
        ("a row of z has 2 entries, expected 1", {"z": np.zeros((2, 2))}),
        ("floor has 2 entries, expected 3", {"floor": np.zeros(2)}),
        ("do not describe the blocks", {"blocks": np.ones(6)}),
        *[("do not describe the blocks", change) for change in NO_BLOCKS if "floor" not in change],
    ],
    ids=str,
)
def test_a_purchase_refuses_what_does_not_fit_and_changes_nothing(message, changes):
    call = purchase_call(**changes)
    before = {name: value.copy() for name, value in call.items() if isinstance(value, np.ndarray)}
    with pytest.raises(ValueError, match=message):
        buy_group(**call)
    for name, value in before.items():
        np.testing.assert_array_equal(call[name], value)


def test_a_purchase_takes_only_arrays_it_can_change():
    for wrong in ({"b": np.ones((3, 1), np.float32)}, {"panel": np.ones((3, 2)).T}, {"z": [[0.0], [0.0]]}):
        with pytest.raises(TypeError):
            buy_group(**purchase_call(**wrong))
    frozen = np.ones((3, 1))
    frozen.flags.writeable = False
    with pytest.raises(TypeError):
        buy_group(**purchase_call(b=frozen))
