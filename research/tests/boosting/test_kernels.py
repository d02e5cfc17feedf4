"""Gaussian bumps as weak learners."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import anytime as at
from anytime_research.boosting.kernels import KernelBlock, KernelLearner
from tests.boosting.test_learners import task


def test_a_missing_value_counts_as_the_mean():
    given = task(14)
    weak = KernelLearner(8).fit(given)
    rows = given.table.X[:4].copy()
    rows[:, 2] = np.nan
    filled = np.where(np.isnan(rows), given.table.X[:, 2].mean(), rows)
    assert_allclose(weak.on(rows), weak.on(filled), rtol=1e-12)


def test_a_model_of_bumps_and_trees_runs_but_no_file_knows_it(tmp_path):
    X, y, costs = at.datasets.load("breast_cancer")
    learners = [KernelLearner(n_centres=5, columns=[1, 3], evaluation_cost=0.1), at.boosting.TreeLearner()]
    model = at.AdditiveSpeedBoostClassifier(
        costs=costs, learners=learners, n_estimators=6, random_state=0
    ).fit(X, y)
    assert any(isinstance(block, KernelBlock) for block in model.plan_.blocks)
    assert model.score(X, y) > model.score(X, y, budget=0)
    with pytest.raises(TypeError, match="a KernelBlock cannot be saved to a file"):
        model.save(tmp_path / "bumps.anytime")


def test_a_kernel_learner_solves_least_squares_on_its_bumps():
    given = task(15, weighted=True, n_outputs=2)
    weak = KernelLearner(10, l2_regularization=0.0).fit(given)
    bumps, root = weak.part.bumps(given.table.X), np.sqrt(given.weight)[:, None]
    solved = np.linalg.lstsq(root * bumps, root * given.target)[0]
    assert_allclose(weak.outputs, bumps @ solved, atol=1e-6)
    more = KernelLearner(40, l2_regularization=0.0).fit(task(15, weighted=True, n_outputs=2))
    errors = [given.weight @ ((w.outputs - given.target) ** 2).sum(axis=1) for w in (weak, more)]
    assert errors[1] < errors[0]


def test_bumps_are_gaussian():
    block = KernelBlock([1, 0], [1.0, 0.0], [2.0, 1.0], [[0.5, -1.0]], [[3.0, 1.0]], 0.7)
    x = np.array([[0.2, 3.0]])
    squared = ((3.0 - 1.0) / 2.0 - 0.5) ** 2 + (0.2 + 1.0) ** 2
    assert_allclose(block.outputs(0, x), np.exp(-squared / 0.7) * np.array([[3.0, 1.0]]))
    assert block.columns(0).tolist() == [0, 1]
    assert block.head(1) is block


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mean": [0.0]}, "must have 2 columns"),
        ({"centres": [[1.0]]}, "must have 2 columns"),
        ({"weights": [[1.0], [1.0]]}, "one row of weights per centre"),
        ({"weights": [1.0]}, "one row of weights per centre"),
        ({"deviation": [1.0, 0.0]}, "deviations positive"),
        ({"mean": [np.nan, 0.0]}, "must be finite"),
        ({"spread": 0.0}, "must be positive"),
        ({"spread": np.nan}, "must be positive"),
        ({"columns": [0, -1]}, "not negative"),
    ],
)
def test_an_impossible_kernel_block_is_refused(change, message):
    good = {
        "columns": [0, 1],
        "mean": [0.0, 0.0],
        "deviation": [1.0, 1.0],
        "centres": [[0.0, 0.0]],
        "weights": [[1.0]],
    }
    KernelBlock(**good)
    with pytest.raises(ValueError, match=message):
        KernelBlock(**good | change)
