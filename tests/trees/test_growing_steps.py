"""What boosting needs beside a tree: derivatives, scores, and many trees as one forest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from anytime._native import Forest, largest_parts, leaf_sums
from anytime.boosting.sums import exact_leaf_sums
from anytime.trees.binning import BinnedData
from anytime.trees.growing import TreeGrower, join, loss_derivatives, update_scores


def test_derivatives_are_those_of_the_losses() -> None:
    random = np.random.default_rng(13)
    scores, w, step = random.normal(size=(50, 3)), random.uniform(0, 2, 50), 1e-5
    y = {"squared": random.normal(size=(50, 3)), "logistic": random.integers(2, size=(50, 3)) * 1.0}
    y["softmax"] = random.integers(3, size=50) * 1.0

    def loss(kind: str, s: np.ndarray) -> np.ndarray:
        if kind == "squared":
            return w * ((s - y[kind]) ** 2).sum(1) / 2
        if kind == "logistic":
            return w * (np.log1p(np.exp(s)) - y[kind] * s).sum(1)
        return w * (np.log(np.exp(s).sum(1)) - s[np.arange(50), y[kind].astype(int)])

    for kind, labels in y.items():
        gradient, hessian = loss_derivatives(kind, scores, labels, w, n_threads=2)
        for k in range(3):
            e = step * np.eye(3)[k]
            up, down, here = loss(kind, scores + e), loss(kind, scores - e), loss(kind, scores)
            np.testing.assert_allclose(gradient[:, k], (up - down) / (2 * step), atol=1e-6)
            second = (up + down - 2 * here) / step**2 * (1.5 if kind == "softmax" else 1.0)
            np.testing.assert_allclose(hessian[:, k], second, atol=1e-4)


def test_extreme_scores_have_finite_derivatives() -> None:
    scores = np.array([[1e4, -1e4], [-800.0, 800.0]])
    for kind, y in (("logistic", np.zeros((2, 2))), ("softmax", np.zeros(2))):
        gradient, hessian = loss_derivatives(kind, scores, y)
        assert np.isfinite(gradient).all()
        assert np.isfinite(hessian).all()
        assert (hessian >= 0).all()


def test_scores_are_updated_in_place() -> None:
    random = np.random.default_rng(14)
    scores, leaf = random.normal(size=(20_000, 2)), random.integers(3, size=20_000).astype(np.int32)
    one, both = random.normal(size=(3, 1)), random.normal(size=(3, 2))
    expected = scores + 0.1 * both[leaf]
    expected[:, 1] += 0.5 * one[leaf, 0]
    update_scores(scores, leaf, both, 0.1, n_threads=2)
    update_scores(scores, leaf, one, 0.5, 1)
    np.testing.assert_allclose(scores, expected, rtol=1e-14)
    with pytest.raises(ValueError, match="no leaf"):
        update_scores(scores, leaf, both[:2])


def test_joined_trees_are_a_forest() -> None:
    random = np.random.default_rng(15)
    X = random.normal(size=(300, 4))
    X[::7, 2] = np.nan
    X[:, 1] = random.integers(5, size=300)
    data = BinnedData.fit(X, categorical=[1])
    trees = [
        TreeGrower(max_leaf_nodes=6).grow(data, random.normal(size=(300, 2)) + X[:, 1:2]) for _ in range(5)
    ]
    forest = Forest(**join([t.arrays for t in trees], stages=[2, 0, 3]).asdict())
    outputs = forest.stage_outputs(X, np.arange(3))
    np.testing.assert_allclose(outputs[0], trees[0].outputs() + trees[1].outputs(), atol=1e-9)
    np.testing.assert_allclose(outputs[2], sum(t.outputs() for t in trees[2:]), atol=1e-9)
    with pytest.raises(ValueError, match="room for 4 trees"):
        join([t.arrays for t in trees], stages=[4])


def test_joined_trees_may_answer_for_different_outputs() -> None:
    random = np.random.default_rng(17)
    X = random.normal(size=(300, 3))
    data = BinnedData.fit(X)
    trees = [TreeGrower(max_leaf_nodes=6).grow(data, X[:, k] ** 2) for k in range(3)]
    arrays = [
        replace(tree.arrays, tree_output=np.array([output], dtype=np.int32), n_outputs=4)
        for tree, output in zip(trees, (2, 0, 2), strict=True)
    ]
    outputs = Forest(**join(arrays, [3]).asdict()).stage_outputs(X, np.array([0]))[0]
    expected = np.c_[
        trees[1].outputs(), np.zeros((300, 1)), trees[0].outputs() + trees[2].outputs(), np.zeros((300, 1))
    ]
    np.testing.assert_allclose(outputs, expected, atol=1e-9)
    with pytest.raises(ValueError, match="the trees differ"):
        join([trees[0].arrays, arrays[1]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("n_threads", [1, 3])
def test_leaf_sums_are_those_of_whole_numbers_in_bincount(dtype, order, n_threads):
    random = np.random.default_rng(9)
    parts = np.asarray(random.normal(size=(10_000, 3)), dtype=dtype, order=order)
    parts[:5] = [[0.5, 1.5, -2.5]] * 5  # halves go to the even neighbour, as in np.rint
    leaf = random.integers(0, 7, len(parts)).astype(np.int32)
    rows = np.append(np.arange(5), np.flatnonzero(random.random(len(parts)) < 0.9))
    scale = np.array([1.0, 2.0**20, 2.0**34])
    sums = leaf_sums(parts, leaf, rows, 9, scale, n_threads)
    want = [
        np.bincount(leaf[rows], np.rint(column * s), 9)
        for column, s in zip(parts[rows].T.astype(float), scale, strict=True)
    ]
    np.testing.assert_array_equal(sums, np.column_stack(want))
    np.testing.assert_array_equal(largest_parts(parts, rows, n_threads), np.abs(parts[rows]).max(axis=0))


@pytest.mark.parametrize("factor", [1e-250, 1e-8, 1.0, 1e15])
def test_exact_sums_do_not_depend_on_the_order_of_the_rows_and_plain_ones_do(factor):
    random = np.random.default_rng(3)
    parts = factor * random.normal(size=(5_000, 2))
    leaf, order = random.integers(0, 3, len(parts)).astype(np.int32), random.permutation(len(parts))
    sums = exact_leaf_sums(parts, leaf, 3)
    np.testing.assert_array_equal(exact_leaf_sums(parts, leaf, 3, order), sums)
    plain = [np.bincount(leaf, column, 3) for column in parts.T]
    np.testing.assert_allclose(sums, np.column_stack(plain), rtol=1e-9, atol=1e-11 * factor)
    shuffled = [np.bincount(leaf[order], column, 3) for column in parts[order].T]
    assert not np.array_equal(plain, shuffled)


@pytest.mark.parametrize(
    ("leaf", "row"), [(-1, 0), (2, 0), (1, 1), (1, -1)], ids=["leaf", "leaf", "row", "row"]
)
def test_leaf_sums_of_rows_or_leaves_that_are_not_there_are_refused(leaf, row):
    with pytest.raises(ValueError, match="a number that is no"):
        leaf_sums(np.ones((1, 1)), np.array([leaf], np.int32), np.array([row]), 2, np.ones(1), 1)
