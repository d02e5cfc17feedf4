"""Discrete data for trees: budgeted_trees 3.8 and 3.10."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anytime_research.datasets import make_four_quarters, merge_duplicates, quantise


def test_levels_are_of_equal_width():
    X = np.column_stack([np.linspace(-3, 7, 101), np.arange(101) % 4])
    levels = quantise(X)
    assert np.unique(levels[:, 0]).tolist() == list(range(10))
    for level in range(10):
        held = X[levels[:, 0] == level, 0]
        assert held.min() >= level - 3
        assert held.max() <= level - 2 + 1e-9
    assert np.array_equal(levels[:, 1], X[:, 1])  # four values are discrete already


def test_missing_values_and_constant_columns_stay():
    X = np.array([[np.nan, 5.0]] + [[float(k), 5.0] for k in range(20)])
    levels = quantise(X, 4)
    assert np.isnan(levels[0, 0])
    assert np.bincount(levels[1:, 0].astype(int)).tolist() == [5, 5, 5, 5]
    assert (levels[:, 1] == 5.0).all()


@given(seed=st.integers(0, 10**6))
def test_merging_leaves_one_row_of_each_kind_with_its_most_frequent_label(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.integers(0, 3, (40, 2)).astype(float), rng.integers(5, 8, 40)
    rows, labels = merge_duplicates(X, y)
    kinds = list(dict.fromkeys(map(tuple, X.tolist())))
    assert [*map(tuple, rows.tolist())] == kinds
    for row, label in zip(rows, labels, strict=True):
        own = y[np.equal(X, row).all(axis=1)].tolist()
        assert own.count(label) == max(map(own.count, own))


def test_four_quarters_have_the_labels_of_the_thesis():
    """budgeted_trees 3.8: labels 1 to 4 on [1, 255], [257, 511], [513, 767], [769, 1023]; 0, 256, 512, 768 have 2, 3, 4, 1."""
    data = make_four_quarters()
    assert np.array_equal(data.X @ 2 ** np.arange(9, -1, -1), np.arange(1024))
    assert data.y[[0, 256, 512, 768]].tolist() == [2, 3, 4, 1]
    for label, first in enumerate((1, 257, 513, 769), start=1):
        assert (data.y[first : first + 255] == label).all()
    assert data.costs.total == 10
    two_bits = 2 * data.X[:, 0] + data.X[:, 1]
    assert (two_bits + 1 != data.y).mean() == 0.00390625


def test_errors_say_what_is_wrong():
    with pytest.raises(ValueError, match="levels must be at least 1, not 0"):
        quantise([[1.0]], 0)
    with pytest.raises(ValueError, match="two dimensions"):
        quantise([1.0])
    with pytest.raises(ValueError, match="one row and one label each"):
        merge_duplicates([[1.0]], [1, 2])
