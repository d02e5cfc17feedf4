"""Native linear scores over numbers and codes against the obvious loops, and bins that are filled anew."""

import numpy as np
import pytest

from anytime._native import coded_scores, coded_softmax_fit
from anytime.structured.predictors import coded_starts
from anytime.trees.binning import BinnedData
from anytime.trees.growing import TreeGrower


def problem(n=300, seed=0):
    random = np.random.default_rng(seed)
    X = np.column_stack([random.integers(-1, 4, n), random.normal(size=n), random.integers(0, 3, n)]).astype(
        float
    )
    X[random.random(X.shape) < 0.1] = np.nan
    sizes = np.array([4, 0, 3], dtype=np.int32)
    starts, n_rows = coded_starts(sizes)
    return X, sizes, starts, n_rows, random


def test_scores_are_sums_of_the_weights_of_what_is_there():
    X, sizes, starts, n_rows, random = problem()
    weights, bias = random.normal(size=(n_rows, 2)).astype(np.float32), np.array([0.5, -1], dtype=np.float32)
    expected = np.tile(bias.astype(float), (len(X), 1))
    for i, row in enumerate(X):
        for value, size, start in zip(row, sizes, starts, strict=True):
            if size == 0 and not np.isnan(value):
                expected[i] += np.float32(value) * weights[start].astype(float)
            elif size and value >= 0:
                expected[i] += weights[start + int(value)]
    for threads in (1, 2):
        found = coded_scores(X, sizes, starts, weights, bias, threads)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    some = coded_scores(X[50:60].copy(), sizes, starts, weights, bias, 1)
    np.testing.assert_array_equal(some, found[50:60])


def fitted(X, sizes, starts, n_rows, y, weight=None, offset=None, l2=0.1, seed=1, scale=1.0):
    weights, bias = np.zeros((n_rows, 3), dtype=np.float32), np.zeros(3, dtype=np.float32)
    offset = np.zeros((len(X), 3)) if offset is None else offset
    weight = np.ones(len(X)) if weight is None else weight
    scales = np.full(sizes.size, scale)
    coded_softmax_fit(X, sizes, starts, scales, offset, y, weight, weights, bias, 30, 0.1, l2, seed)
    return weights, bias


def test_training_comes_close_to_the_least_loss():
    """The gradient of the penalised loss is small where training ends, and is not at the start."""
    X, sizes, starts, n_rows, _ = problem(2000)
    X = np.nan_to_num(X)
    y = np.clip(X[:, 0], 0, 2).astype(np.int32)
    one_hot = np.column_stack([X[:, [0]] == np.arange(4), X[:, [1]], X[:, [2]] == np.arange(3)]).astype(float)

    def slope(weights, bias):
        scores = one_hot @ weights + bias
        q = np.exp(scores - scores.max(axis=1, keepdims=True))
        q /= q.sum(axis=1, keepdims=True)
        return np.abs(one_hot.T @ (q - np.eye(3)[y]) + 5.0 * weights).max() / len(X)

    weights, bias = fitted(X, sizes, starts, n_rows, y, l2=5.0)
    assert slope(weights, bias) < 0.02 < 0.1 < slope(np.zeros_like(weights), np.zeros_like(bias))


def test_rows_without_weight_do_not_count_and_seeds_repeat():
    X, sizes, starts, n_rows, random = problem()
    y = random.integers(0, 3, len(X)).astype(np.int32)
    weight = (np.arange(len(X)) < 200).astype(float)
    other = np.where(weight > 0, y, -7).astype(np.int32)
    first, second = (fitted(X, sizes, starts, n_rows, labels, weight)[0] for labels in (y, other))
    np.testing.assert_array_equal(first, second)
    assert (fitted(X, sizes, starts, n_rows, y, weight, seed=2)[0] != first).any()


def test_numbers_are_divided_by_their_scale_and_codes_are_not():
    X, sizes, starts, n_rows, random = problem()
    y = random.integers(0, 3, len(X)).astype(np.int32)
    halved = X.copy()
    halved[:, 1] /= 2
    first = fitted(X, sizes, starts, n_rows, y, scale=2.0)[0]
    np.testing.assert_array_equal(first, fitted(halved, sizes, starts, n_rows, y)[0])
    assert (first != fitted(X, sizes, starts, n_rows, y)[0]).any()


def test_what_does_not_fit_is_refused():
    X, sizes, starts, n_rows, _ = problem()
    weights, bias = np.zeros((n_rows, 2), dtype=np.float32), np.zeros(2, dtype=np.float32)
    with pytest.raises(ValueError, match="weights that are not there"):
        coded_scores(X, sizes, starts, weights[:-1].copy(), bias, 1)
    with pytest.raises(ValueError, match="a class that has no score"):
        fitted(X, sizes, starts, n_rows, np.full(len(X), 3, dtype=np.int32))


def test_columns_filled_anew_are_those_of_a_new_table():
    random = np.random.default_rng(0)
    X, ramp = random.normal(size=(500, 3)), np.linspace(0, 1, 500)[:, None]
    told = random.random((500, 1))
    data = BinnedData.fit(np.hstack([X, ramp]))
    expected = data.transform(np.hstack([X, told]))
    data.native.refill(3, told, 2)
    np.testing.assert_array_equal(data.bins(), expected.bins())
    target = (told > 0.3).astype(float)
    trees = [TreeGrower(max_leaf_nodes=2).grow(d, target) for d in (data, expected)]
    assert trees[0].columns.tolist() == trees[1].columns.tolist() == [3]
    np.testing.assert_array_equal(trees[0].leaf, trees[1].leaf)
