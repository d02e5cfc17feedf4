"""Trees of plain questions say what the native trees say, of every double."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anytime.export.nodes import PlainTrees, _before_rounding, plain_trees
from anytime.trees.arrays import LEAF, NUMERIC, TreeArrays
from anytime.trees.block import TreeBlock
from anytime.trees.importers.columns import Columns

DOUBLES = st.floats(allow_nan=False, width=64)


def walked(trees: PlainTrees, x: np.ndarray) -> int:
    """Units that a single tree gives a row, question by question."""
    at = int(trees.roots[0])
    while at >= 0:
        value = x[trees.feature[at]]
        left = value <= trees.threshold[at] or (np.isnan(value) and trees.missing_left[at])
        at = int(trees.left[at] if left else trees.right[at])
    return int(trees.leaves[~at, 0])


@given(DOUBLES)
def test_threshold_before_rounding_is_the_largest_double_that_is_not_above_once_rounded(t: float) -> None:
    bound = _before_rounding(np.array([t]))[0]
    with np.errstate(over="ignore"):
        assert float(np.float32(bound)) <= t
        assert bound == np.inf or float(np.float32(np.nextafter(bound, np.inf))) > t


@st.composite
def stumps(draw: st.DrawFn) -> TreeArrays:
    """One node with any test that a library knows, and two leaves."""
    members = sorted(draw(st.sets(st.integers(0, 6), max_size=5)))
    categorical = draw(st.booleans())
    return TreeArrays(
        tree_start=np.array([0, 3]), stage_start=np.array([0, 1]),
        feature=np.array([0, LEAF, LEAF], np.int32),
        threshold=np.array([0.0 if categorical else draw(DOUBLES), 0.0, 0.0]),
        left=np.array([1, LEAF, LEAF], np.int32), right=np.array([2, LEAF, LEAF], np.int32),
        default_left=np.array([draw(st.integers(0, 1)), 0, 0], np.uint8),
        missing=np.array([draw(st.integers(0, 2)), 0, 0], np.uint8),
        category_set=np.array([0 if categorical else NUMERIC, NUMERIC, NUMERIC], np.int32),
        members_left=np.array([draw(st.integers(0, 1)), 0, 0], np.uint8),
        category_start=np.array([0, len(members) if categorical else 0][: 2 if categorical else 1], np.int64),
        categories=np.array(members if categorical else [], np.int32),
        value=np.array([[0.0], [-1.0], [1.0]]), tree_output=np.zeros(1, np.int32), n_outputs=1, n_features=1,
        float32_input=draw(st.booleans()),
    )  # fmt: skip


@given(
    stumps(), st.lists(st.floats(width=64), max_size=5), st.sampled_from([np.nan, 0.0, 1.0, np.inf, -np.inf])
)
def test_every_test_of_every_library(trees: TreeArrays, more: list[float], missing: float) -> None:
    block = TreeBlock(trees)
    zero, t = float(np.float32(1e-35)), float(trees.threshold[0])
    values = np.array(
        [0.0, -0.5, -1.0, 0.5, 5.5, 6.9, 7.0, zero, -zero, np.inf, -np.inf, np.nan, 1.0, t, *more]
    )
    with np.errstate(over="ignore"):
        values = np.append(values, np.float64(np.float32(t)))
        values = np.concatenate([values, np.nextafter(values, np.inf), np.nextafter(values, -np.inf)])
    columns = Columns(1, missing_value=missing)
    native = block.outputs(0, columns.encode(values[:, None]))[:, 0]
    plain = plain_trees(block, columns)
    np.testing.assert_array_equal([walked(plain, np.array([v])) * plain.unit for v in values], native)


def test_negative_values_are_no_category_where_columns_are_rounded_down() -> None:
    trees = TreeArrays(
        tree_start=np.array([0, 3]), stage_start=np.array([0, 1]), feature=np.array([0, LEAF, LEAF], np.int32),
        threshold=np.zeros(3), left=np.array([1, LEAF, LEAF], np.int32), right=np.array([2, LEAF, LEAF], np.int32),
        default_left=np.zeros(3, np.uint8), missing=np.ones(3, np.uint8),
        category_set=np.array([0, NUMERIC, NUMERIC], np.int32), members_left=np.array([1, 0, 0], np.uint8),
        category_start=np.array([0, 1], np.int64), categories=np.zeros(1, np.int32),
        value=np.array([[0.0], [-1.0], [1.0]]), tree_output=np.zeros(1, np.int32), n_outputs=1, n_features=1,
    )  # fmt: skip
    for rounded_down, expected in (((), -1), ((0,), 1)):
        plain = plain_trees(TreeBlock(trees), Columns(1, rounded_down=rounded_down))
        assert walked(plain, np.array([-0.5])) * plain.unit == expected


@pytest.mark.parametrize("value", [[[2.5]], [[1.0, -2.0]]])
def test_tree_without_a_question(value: list[list[float]]) -> None:
    one = np.zeros(1, np.uint8)
    trees = TreeArrays(
        tree_start=np.array([0, 1]), stage_start=np.array([0, 1]), feature=np.array([LEAF], np.int32),
        threshold=np.zeros(1), left=np.array([LEAF], np.int32), right=np.array([LEAF], np.int32), default_left=one,
        missing=one, category_set=np.array([NUMERIC], np.int32), members_left=one, category_start=np.zeros(1, np.int64),
        categories=np.zeros(0, np.int32), value=np.array(value), tree_output=np.zeros(1, np.int32),
        n_outputs=len(value[0]), n_features=1,
    )  # fmt: skip
    plain = plain_trees(TreeBlock(trees))
    assert plain.roots.tolist() == [-1]
    np.testing.assert_array_equal(plain.leaves * plain.unit, value)
