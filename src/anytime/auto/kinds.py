"""Kinds of models for one set of columns: each learns from some rows and gives a block with scores of the plan's link.

Boosted trees are right most often; linear models where effects add up or rows are few; forests of extra-random trees where many
columns say a little each; a network where columns work together smoothly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.linear_model import LogisticRegression, Ridge

from anytime.auto.blend_block import BlendBlock, LogProbabilityBlock
from anytime.auto.dense_block import DenseBlock, Inputs
from anytime.blocks import Block
from anytime.boosting.boosted import Training
from anytime.boosting.renewal import MORE_ROUNDS, Booster
from anytime.boosting.rounds import GradientRounds
from anytime.losses import LINKS
from anytime.plan import Array
from anytime.trees.arrays import TreeArrays
from anytime.trees.block import TreeBlock
from anytime.trees.growing import join
from anytime.trees.importers import import_trees
from anytime.trees.ladder import add_base, as_replacing_stage

__all__ = [
    "FEW_ROWS",
    "KINDS",
    "Boosted",
    "ExtraRandom",
    "Kind",
    "Linear",
    "blended",
    "can_learn",
    "frequent_codes",
    "learned_from",
]

KINDS = ("linear", "products", "forest", "network")  # besides boosted trees

Rows = NDArray[np.intp]

FEW_ROWS = 2_000  # below which more rounds, and more sets to choose from, overfit
_MOST_LEVELS = 32  # of a categorical column that become inputs; the rarer ones count as none of them
_LARGEST = 1e30  # numbers beyond which only trees are safe
_MOST_MULTIPLIED = 20  # columns up to which a linear model has squares and products too
_FOREST_TREES = 40  # of each part's forest; three to five parts make an ensemble
_FOREST_ROWS = 2_000  # above these a leaf has two rows, and so on: a forest grows with its rows


class Kind(Protocol):
    """One way to learn a model on a set of columns."""

    name: str

    def fit(self, columns: NDArray[np.bool_], rows: Rows, number: int = 0) -> Block | None:
        """One stage learned from ``rows``; None where these columns do not suit it.

        ``number`` says which of several parts of the rows these are, each of which has a model of its own.
        """


def frequent_codes(training: Training) -> dict[int, list[int]]:
    """Codes of each categorical column that become inputs: the most frequent."""
    codes = {}
    for column in training.table.categorical:
        x = training.table.X[:, column]
        found, counts = np.unique(x[~np.isnan(x)], return_counts=True)
        codes[column] = sorted(found[np.argsort(-counts, kind="stable")[:_MOST_LEVELS]].astype(int).tolist())
    return codes


def learned_from(training: Training, rows: Rows) -> tuple[Array, NDArray[Any], Array | None]:
    """Columns, targets and weights (None: all 1) of some rows."""
    weight = training.objective.given_weight
    return training.table.X[rows], training.objective.y[rows], None if weight is None else weight[rows]


def can_learn(training: Training, X: Array, y: NDArray[Any]) -> bool:
    """Whether other kinds than trees can learn from rows: numbers of a sane size, and a row of every class."""
    if not X.size or np.nanmax(np.abs(X), initial=0.0) > _LARGEST:
        return False
    classifies = LINKS[training.loss.link].classifies
    return not classifies or np.unique(y).size == max(training.base.size, 2)


class Boosted:
    """Trees as SpeedBoost has boosted them, on fewer rows.

    In as many rounds, since the mean of several models overfits later than one; of few rows, it does not.
    """

    name = "trees"

    def __init__(self, training: Training, booster: Booster, like: TreeBlock) -> None:
        arrays = like.forest.arrays()
        n_trees, n_outputs = arrays["tree_start"].size - 1, like.width
        shared = n_outputs > 1 and arrays["value"].shape[1] == n_outputs
        n_rounds = n_trees if shared else n_trees // n_outputs
        self.training = training
        if len(training.table) < FEW_ROWS:
            n_rounds = round(n_rounds / MORE_ROUNDS)
        self.booster = replace(booster, n_estimators=max(n_rounds, 1), shared=shared)

    def fit(self, columns: NDArray[np.bool_], rows: Rows, number: int = 0) -> Block | None:
        training, booster = self.training, self.booster
        boosting = GradientRounds(
            training.table.binned,
            training.objective,
            booster.grower,
            training.base,
            learning_rate=booster.learning_rate,
            rows=rows,
            columns=columns,
            shared=booster.shared,
            column_share=booster.column_share,
            row_share=booster.row_share,
            seed=number,
        )
        boosting.run(booster.n_estimators)
        if not boosting.rounds:
            return None
        trees = boosting.trees(one_stage=True)
        value = trees.value.copy()
        add_base(trees, value, training.base)
        return TreeBlock(replace(trees, value=value))


class Linear:
    """Multinomial or ridge regression on standardised columns, with what is missing and, of few columns, products."""

    def __init__(self, training: Training, strength: float, products: bool) -> None:
        self.training, self.strength, self.products = training, strength, products
        self.name = "products" if products else "linear"
        self.codes = frequent_codes(training)

    def fit(self, columns: NDArray[np.bool_], rows: Rows, number: int = 0) -> Block | None:
        training, read = self.training, np.flatnonzero(columns).tolist()
        X, y, weight = learned_from(training, rows)
        if self.products and (len(read) > _MOST_MULTIPLIED or not set(read).isdisjoint(self.codes)):
            return None
        if not can_learn(training, X[:, read], y):
            return None
        inputs = Inputs.of(
            training.table.X, read, self.codes, self.products
        )  # the same for all parts of the rows
        if not inputs.size:
            return None
        Z = inputs.matrix(X)
        if not LINKS[training.loss.link].classifies:
            ridge = Ridge(alpha=1.0 / self.strength).fit(Z, y, sample_weight=weight)
            coefficients = np.atleast_2d(ridge.coef_).T
            return DenseBlock(inputs, [(coefficients, np.atleast_1d(ridge.intercept_))])
        model = LogisticRegression(C=self.strength, max_iter=200, tol=1e-3).fit(Z, y, sample_weight=weight)
        return DenseBlock(inputs, [(model.coef_.T, model.intercept_)])


class ExtraRandom:
    """A forest of extremely randomised trees."""

    name = "forest"

    def __init__(self, training: Training, seed: int, n_jobs: int) -> None:
        self.training, self.seed, self.n_jobs = training, seed, n_jobs

    def fit(self, columns: NDArray[np.bool_], rows: Rows, number: int = 0) -> Block | None:
        training, read = self.training, np.flatnonzero(columns)
        X, y, weight = learned_from(training, rows)
        if not can_learn(training, X[:, read], y):
            return None
        classifies = LINKS[training.loss.link].classifies
        forest = (ExtraTreesClassifier if classifies else ExtraTreesRegressor)(
            n_estimators=_FOREST_TREES,
            min_samples_leaf=1 + len(X) // _FOREST_ROWS,
            max_features="sqrt" if classifies else 1 / 3,
            random_state=(self.seed + number) % 2**31,
            n_jobs=self.n_jobs,
        ).fit(X[:, read], y, sample_weight=weight)
        block = TreeBlock(as_replacing_stage(import_trees(forest), read.tolist(), X.shape[1], None))
        return LogProbabilityBlock(block, training.base.size) if classifies else block


# ---------------------------------------------------------------------- several models as one


def blended(parts: Sequence[tuple[Block, float]]) -> Block:
    """One stage for the weighted sum of several: the fewer blocks, the sooner they answer.

    Forests become one larger forest, and linear models of the same inputs one linear model.
    """
    alike: dict[Any, list[tuple[Block, float]]] = {}
    for place, (block, share) in enumerate(parts):
        alike.setdefault(_likeness(block, place), []).append((block, share))
    blocks = [_joined(members) for members in alike.values()]
    shares = [sum(share for _, share in members) for members in alike.values()]
    return blocks[0] if len(blocks) == 1 else BlendBlock(blocks, shares)


def _likeness(block: Block, place: int) -> Any:
    """What blocks have in common that can be joined."""
    if isinstance(block, LogProbabilityBlock):
        return "log probabilities"
    if isinstance(block, TreeBlock):
        arrays = block.forest.arrays()
        return "trees", arrays["float32_input"], arrays["value"].shape[1]
    if isinstance(block, DenseBlock) and len(block.layers) == 1:
        return "linear", len(block.inputs.pairs)
    return place


def _joined(parts: list[tuple[Block, float]]) -> Block:
    """The weighted mean of blocks that are alike; of forests of probabilities, the mean of these."""
    whole = sum(share for _, share in parts)
    blocks, shares = [block for block, _ in parts], [share / whole for _, share in parts]
    first = blocks[0]
    if len(blocks) == 1:
        return first
    if isinstance(first, LogProbabilityBlock):
        inner = [block.inner for block in blocks if isinstance(block, LogProbabilityBlock)]
        return LogProbabilityBlock(_one_forest(inner, shares), first.width)
    if isinstance(first, DenseBlock):
        layers = [block.layers[0] for block in blocks if isinstance(block, DenseBlock)]
        weights, bias = (
            sum(share * layer[k] for layer, share in zip(layers, shares, strict=True)) for k in (0, 1)
        )
        return DenseBlock(first.inputs, [(np.asarray(weights), np.asarray(bias))])
    return _one_forest(blocks, shares)


def _one_forest(blocks: Sequence[Block], shares: Sequence[float]) -> TreeBlock:
    """One stage of all trees, those of each block times its share."""
    trees = []
    for block, share in zip(blocks, shares, strict=True):
        assert isinstance(block, TreeBlock)
        arrays: dict[str, Any] = dict(block.forest.arrays())
        own = TreeArrays(**{field.name: arrays[field.name] for field in fields(TreeArrays)})
        trees.append(replace(own, value=share * own.value))
    return TreeBlock(join(trees, [sum(own.n_trees for own in trees)]))
