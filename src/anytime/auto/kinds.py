"""Kinds of models for one set of columns: each learns from some rows and gives a block with scores of the plan's link.

Boosted trees are right most often; linear models where effects add up or rows are few; forests of extra-random trees where many
columns say a little each; a network where columns work together smoothly.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.linear_model import LogisticRegression, Ridge

from anytime.auto.blend_block import LogProbabilityBlock
from anytime.auto.dense_block import DenseBlock, Inputs
from anytime.blocks import Block
from anytime.boosting.boosted import Training
from anytime.boosting.rounds import GradientRounds
from anytime.losses import LINKS
from anytime.trees.block import TreeBlock
from anytime.trees.growing import TreeGrower
from anytime.trees.importers import import_trees
from anytime.trees.ladder import add_base, as_replacing_stage

__all__ = ["KINDS", "Boosted", "ExtraRandom", "Kind", "Linear", "is_for"]

KINDS = ("linear", "products", "forest", "network")  # besides boosted trees

Rows = NDArray[np.intp]

_MOST_LEVELS = 32  # of a categorical column that become inputs; the rarest others count as none of them
_MOST_MULTIPLIED = 20  # columns up to which a linear model has squares and products too
_FOREST_TREES = 100
_FOREST_ROWS = 2_000  # above these a leaf has two rows, and so on: a forest grows with its rows


class Kind(Protocol):
    """One way to learn a model on a set of columns."""

    name: str

    def fit(self, columns: NDArray[np.bool_], rows: Rows | None) -> Block | None:
        """One stage learned from ``rows`` (None: all); None where these columns do not suit it."""


def is_for(training: Training) -> bool:
    """Whether other kinds than trees know the loss: they do classes by cross-entropy, and squares."""
    return training.loss.name in ("logistic", "multinomial", "squared")


class Boosted:
    """Trees as many as SpeedBoost has found right for the set."""

    name = "trees"

    def __init__(self, training: Training, grower: TreeGrower, learning_rate: float) -> None:
        self.training, self.grower, self.learning_rate = training, grower, learning_rate
        self.n_estimators, self.shared = 0, False

    def like(self, block: TreeBlock) -> Boosted:
        """As many rounds, of such trees, as those of a block."""
        arrays = block.forest.arrays()
        n_trees, n_outputs = arrays["tree_start"].size - 1, block.width
        self.shared = n_outputs > 1 and arrays["value"].shape[1] == n_outputs
        self.n_estimators = n_trees if self.shared else n_trees // n_outputs
        return self

    def fit(self, columns: NDArray[np.bool_], rows: Rows | None) -> Block | None:
        training = self.training
        boosting = GradientRounds(
            training.table.binned,
            training.objective,
            self.grower,
            training.base,
            learning_rate=self.learning_rate,
            rows=rows,
            columns=columns,
            shared=self.shared,
        )
        boosting.run(self.n_estimators)
        if not boosting.rounds:
            return None
        trees = boosting.trees(one_stage=True)
        value = trees.value.copy()
        add_base(trees, value, training.base)
        fields: dict[str, Any] = {**trees.asdict(), "value": value}
        return TreeBlock(type(trees)(**fields))


class Linear:
    """Multinomial or ridge regression on standardised columns, with what is missing and, of few columns, products."""

    def __init__(self, training: Training, strength: float, products: bool) -> None:
        self.training, self.strength, self.products = training, strength, products
        self.name = "products" if products else "linear"
        X = training.table.X
        self.levels = {
            column: int(np.nanmax(X[:, column], initial=0.0)) + 1 for column in training.table.categorical
        }
        self.levels = {column: min(n, _MOST_LEVELS) for column, n in self.levels.items()}

    def fit(self, columns: NDArray[np.bool_], rows: Rows | None) -> Block | None:
        training = self.training
        X = training.table.X if rows is None else training.table.X[rows]
        read = np.flatnonzero(columns).tolist()
        if self.products and (len(read) > _MOST_MULTIPLIED or not set(read).isdisjoint(self.levels)):
            return None
        inputs = Inputs.of(X, read, self.levels, self.products)
        if not inputs.size:
            return None
        y = training.objective.y if rows is None else training.objective.y[rows]
        given = training.objective.given_weight
        weight = None if given is None else (given if rows is None else given[rows])
        Z, n_outputs = inputs.matrix(X), training.base.size
        if not LINKS[training.loss.link].classifies:
            ridge = Ridge(alpha=1.0 / self.strength).fit(Z, y, sample_weight=weight)
            coefficients = np.atleast_2d(ridge.coef_).T
            return DenseBlock(inputs, [(coefficients, np.atleast_1d(ridge.intercept_))])
        if np.unique(y).size < max(n_outputs, 2):
            return None  # a class is not among these rows
        model = LogisticRegression(C=self.strength, max_iter=200, tol=1e-3).fit(Z, y, sample_weight=weight)
        return DenseBlock(inputs, [(model.coef_.T, model.intercept_)])


class ExtraRandom:
    """A forest of extremely randomised trees."""

    name = "forest"

    def __init__(self, training: Training, seed: int, n_jobs: int) -> None:
        self.training, self.seed, self.n_jobs = training, seed, n_jobs

    def fit(self, columns: NDArray[np.bool_], rows: Rows | None) -> Block | None:
        training = self.training
        X = training.table.X if rows is None else training.table.X[rows]
        y = training.objective.y if rows is None else training.objective.y[rows]
        given = training.objective.given_weight
        weight = None if given is None else (given if rows is None else given[rows])
        read, classifies = np.flatnonzero(columns), LINKS[training.loss.link].classifies
        n_classes = max(training.base.size, 2)
        if not read.size or (classifies and np.unique(y).size < n_classes):
            return None
        forest = (ExtraTreesClassifier if classifies else ExtraTreesRegressor)(
            n_estimators=_FOREST_TREES,
            min_samples_leaf=1 + len(X) // _FOREST_ROWS,
            max_features="sqrt" if classifies else 1 / 3,
            random_state=self.seed,
            n_jobs=self.n_jobs,
        ).fit(X[:, read], y, sample_weight=weight)
        trees = as_replacing_stage(import_trees(forest), read.tolist(), X.shape[1], None)
        block = TreeBlock(trees)
        return LogProbabilityBlock(block, training.base.size) if classifies else block
