"""growth_and_streaming C.3: a decision tree that is stopped after some comparisons."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from anytime_research.forests.anytime_tree import AnytimeTree


@pytest.mark.parametrize("classify", [True, False], ids=["classes", "numbers"])
def test_enough_comparisons_give_the_tree_and_more_of_them_never_a_larger_training_loss(
    classify: bool,
) -> None:
    """The mean of squares is that of the shares of classes, or of numbers; both fall, as a node's answer is a mean."""
    X, y = load_iris(return_X_y=True) if classify else load_diabetes(return_X_y=True)
    model = (DecisionTreeClassifier if classify else DecisionTreeRegressor)(max_depth=7, random_state=0).fit(
        X, y
    )
    tree, targets = AnytimeTree(model), np.eye(3)[y] if classify else y[:, None]
    last = model.predict_proba(X) if classify else model.predict(X)[:, None]
    for budget in (tree.depth, tree.depth + 5):
        np.testing.assert_array_equal(tree.predict(X, budget), last)
    assert not np.array_equal(tree.predict(X, tree.depth - 1), last)  # negative control

    def losses(tree: AnytimeTree) -> np.ndarray:
        answers = [tree.predict(X, d) for d in range(tree.depth + 1)]
        return np.array([np.square(answer - targets).mean() for answer in answers])

    assert (np.diff(losses(tree)) <= 1e-12).all()
    np.testing.assert_allclose(tree.predict(X, 0), np.tile(targets.mean(axis=0), (len(X), 1)))
    others = np.random.default_rng(0).permutation(len(y))  # negative control: means of other rows
    shuffled = replace(tree, tree=type(model)(max_depth=7, random_state=0).fit(X, y[others]))
    assert (np.diff(losses(shuffled)) > 0).any()


def test_each_row_has_a_budget_of_its_own() -> None:
    X, y = load_diabetes(return_X_y=True)
    tree = AnytimeTree(DecisionTreeRegressor(max_depth=5, random_state=0).fit(X, y))
    budgets = np.arange(len(X)) % 7
    together = tree.predict(X, budgets)
    for budget in range(7):
        rows = budgets == budget
        np.testing.assert_array_equal(together[rows], tree.predict(X[rows], budget))
