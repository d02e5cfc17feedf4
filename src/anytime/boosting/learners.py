"""Weak learners: the candidates of a boosting step.

A learner fits the negative gradient of the objective and returns a ``Weak`` predictor: its outputs on the training rows, the cost
of evaluating it, and the part of a plan that computes it. Learners of different sizes compete by gain per cost, so the predictors
of one learner should cost about the same (Grubb, *Anytime Prediction*, 2014, section 6.2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.blocks import Block, FunctionBlock, LinearBlock
from anytime.boosting.rounds import GradientRounds
from anytime.costs import BoundCosts
from anytime.engine import Run
from anytime.plan import Array, Plan
from anytime.spreading import SpreadRows
from anytime.trees.arrays import LEAF, TreeArrays
from anytime.trees.binning import BinnedData
from anytime.trees.block import TreeBlock
from anytime.trees.growing import TreeGrower, join

Part = TreeArrays | Block


class TrainingRows:
    """Training rows, and their bins once a tree learner needs them; values of ``categorical`` columns are categories."""

    def __init__(
        self, X: Array, *, categorical: Sequence[int] = (), max_bins: int = 255, n_threads: int = 1
    ) -> None:
        self.X, self.categorical, self.max_bins, self.n_threads = X, tuple(categorical), max_bins, n_threads

    @classmethod
    def of(cls, X: Array | SpreadRows, **options: Any) -> TrainingRows:
        """Rows that are here, or with workers."""
        return X.training_rows(**options) if isinstance(X, SpreadRows) else cls(X, **options)

    def scores(self, plan: Plan) -> Array:
        """(n, K) scores of a plan after all stages."""
        run = Run(plan, self.X)
        run.advance(plan.n_stages)
        return np.array(run.scores())

    def outputs(self, trees: TreeArrays) -> Array:
        """(n, K) outputs of trees that are one stage."""
        return TreeBlock(trees).outputs(0, np.ascontiguousarray(self.X))

    def rounds(self, *arguments: Any, **options: Any) -> GradientRounds:
        """Boosting on these rows."""
        return GradientRounds(self.binned, *arguments, **options)

    def end(self) -> None:
        """Called when the fit has ended well."""

    @cached_property
    def binned(self) -> BinnedData:
        """The rows in bins."""
        return BinnedData.fit(
            self.X, max_bins=self.max_bins, categorical=self.categorical, n_threads=self.n_threads
        )

    def rows(self, rows: NDArray[np.intp] | None, max_bins: int | None = None) -> TrainingRows:
        """Some rows (None: all), with bins of their own."""
        return TrainingRows(
            self.X if rows is None else self.X[rows],
            categorical=self.categorical,
            max_bins=self.max_bins if max_bins is None else max_bins,
            n_threads=self.n_threads,
        )

    def __len__(self) -> int:
        return len(self.X)


@dataclass(frozen=True, eq=False)
class GradientTask:
    """The fitting task of a learner.

    Attributes
    ----------
    table : TrainingRows
    target : (n, K)
        The negative gradient.
    weight : (n,)
    rows : (m,) int or None
        Rows to fit; None: all.
    costs : BoundCosts
    bought : (G,) bool
        Groups that the ensemble has bought, which are free from then on.
    step_cost : float
        Fixed cost of any step.
    random : RandomState
    """

    table: TrainingRows
    target: Array
    weight: Array
    rows: NDArray[np.intp] | None
    costs: BoundCosts
    bought: NDArray[np.bool_]
    step_cost: float
    random: np.random.RandomState

    @cached_property
    def learned_from(self) -> NDArray[np.intp]:
        """The rows to learn from, by number."""
        return np.arange(len(self.table)) if self.rows is None else self.rows

    @cached_property
    def shares(self) -> Array:
        """(m,) weights of those rows, which sum to 1."""
        weight = self.weight[self.learned_from]
        return np.asarray(weight / weight.sum())


@dataclass(frozen=True, eq=False)
class Weak:
    """A fitted weak predictor.

    Attributes
    ----------
    outputs : (n, K)
        Outputs on all training rows, including those it was not fitted to: identical to those of ``on``.
    part : TreeArrays or Block
        One stage that computes it.
    evaluation_cost : float
        Mean cost of evaluating it on a row, without features.
    """

    outputs: Array
    part: Part
    evaluation_cost: float = 0.0

    @cached_property
    def columns(self) -> NDArray[np.int32]:
        """Columns that it reads, increasing."""
        if isinstance(self.part, TreeArrays):
            return np.unique(self.part.feature[self.part.feature != LEAF]).astype(np.int32)
        return self.part.columns(0)

    def on(self, X: Array) -> Array:
        """(m, K) outputs on any rows."""
        X, part = np.ascontiguousarray(X), self.part
        if isinstance(part, Block):
            return part.outputs(0, X)
        # a native forest rounds its leaves to the unit of its sums; numbers of nodes are whole
        numbers = np.arange(len(part.value), dtype=np.float64)[:, None]
        nodes = TreeBlock(replace(part, value=numbers, n_outputs=1)).outputs(0, X)[:, 0]
        return np.asarray(part.value[nodes.astype(np.intp)])

    def without_outputs(self) -> Weak:
        """The same without the outputs on training rows, which take much memory."""
        return replace(self, outputs=self.outputs[:0])


class WeakLearner(Protocol):
    """Anything that can fit a gradient. Your own class needs only this method."""

    def fit(self, task: GradientTask) -> Weak | None:
        """The predictor of this class that fits ``task.target`` best; None if there is none."""


def blocks_of(parts: Sequence[Part]) -> list[Block]:
    """One stage per part, neighbouring trees in one native block."""
    blocks: list[Block] = []
    trees: list[TreeArrays] = []
    for part in [*parts, None]:
        if isinstance(part, TreeArrays):
            trees.append(part)
            continue
        if trees:
            blocks.append(TreeBlock(join(trees)))
            trees = []
        if part is not None:
            blocks.append(part)
    return blocks


def scaled(part: Part, by: float) -> Part:
    """The same stage with its outputs multiplied."""
    return replace(part, value=part.value * by) if isinstance(part, TreeArrays) else part.scaled(by)


def conditional_price(costs: BoundCosts, columns: NDArray[Any], bought: NDArray[np.bool_]) -> float:
    """Price of the groups of ``columns``, and of all that they require, without those that are bought."""
    new = costs.closure(costs.groups_of(columns)) & ~bought
    return float(costs.costs.amount(int(costs.prices[new].sum())))


# ---------------------------------------------------------------------- trees


@dataclass(frozen=True)
class TreeLearner:
    """A regression tree on the gradient, or a classifier tree that votes; splits may take prices into account.

    Parameters
    ----------
    max_depth, max_leaf_nodes : int or None
    cost_penalty : float, default=0
        Lambda of the cost-regularised impurity (Grubb, section 6.5.3): what one unit of price must save to be paid.
    scale : {"half_sum", "mean", "relative"}, default="mean"
        Scale of that impurity. The same lambda differs between the first two: half the sum is ``n / 2`` means. "relative":
        lambda is the share of the mean square of the target that all groups together must save.
    leaf : {"mean", "vote"}, default="mean"
        "vote": a leaf answers with one output, 1 there and ``-1 / (K - 1)`` elsewhere; with a single output, its sign. Such
        a tree is a classifier: rows are weighted by the size of their gradient, as in AdaBoost.
    min_samples_leaf : int, default=1
    l2_regularization : float, default=0
    evaluation_cost, visit_cost : float, default=0
        Cost of evaluating a tree: per tree, and per node that a row passes on average.
    n_threads : int, default=1
    """

    max_depth: int | None = None
    max_leaf_nodes: int | None = None
    cost_penalty: float = 0.0
    scale: Literal["half_sum", "mean", "relative"] = "mean"
    leaf: Literal["mean", "vote"] = "mean"
    min_samples_leaf: int = 1
    l2_regularization: float = 0.0
    evaluation_cost: float = 0.0
    visit_cost: float = 0.0
    n_threads: int = 1

    def fit(self, task: GradientTask) -> Weak | None:
        """Grow one tree."""
        rows = task.learned_from
        target, weight = (task.target, task.weight) if self.leaf == "mean" else _opinions(task)
        mean = weight[rows].mean()
        if not mean > 0:
            return None
        weight = weight / mean  # impurity and l2_regularization speak of rows of weight 1
        cost_penalty = self.cost_penalty
        if self.scale == "relative" and cost_penalty:
            square = np.mean(weight[rows] * (target[rows] ** 2).sum(axis=1))
            cost_penalty *= float(square) / max(task.costs.costs.total, 1e-300)
        grower = TreeGrower(
            max_leaf_nodes=self.max_leaf_nodes,
            max_depth=self.max_depth,
            min_samples_leaf=self.min_samples_leaf,
            min_weight=0.0,
            l2_regularization=self.l2_regularization,
            cost_penalty=cost_penalty,
            scale="half_sum" if self.scale == "half_sum" else "mean",
            n_threads=self.n_threads,
        )
        tree = grower.grow(
            task.table.binned, target, weight, rows=task.rows, costs=task.costs, bought=task.bought
        )
        arrays, values = tree.arrays, tree.values
        if self.leaf == "vote":
            arrays, values = replace(arrays, value=votes(arrays.value)), votes(values)
        cost = self.evaluation_cost
        if self.visit_cost:
            depth = _depths(arrays)[arrays.feature == LEAF][tree.leaf]
            cost += self.visit_cost * float(task.shares @ depth[rows])
        return Weak(values[tree.leaf], arrays, cost)


def _opinions(task: GradientTask) -> tuple[Array, Array]:
    """What each row says by the direction of its gradient, and how much it counts by the size: weighted classification."""
    size = np.abs(task.target).max(axis=1)
    opinion = np.divide(task.target, size[:, None], out=np.zeros_like(task.target), where=size[:, None] > 0)
    return opinion, task.weight * size


def votes(values: Array) -> Array:
    """(n, K) values as the code of the leading output: 1 for it, ``-1 / (K - 1)`` for the others; the sign when K is 1."""
    n_outputs = values.shape[1]
    if n_outputs == 1:
        return np.where(values >= 0, 1.0, -1.0)
    coded = np.full(values.shape, -1.0 / (n_outputs - 1))
    coded[np.arange(len(values)), values.argmax(axis=1)] = 1.0
    return coded


def _depths(tree: TreeArrays) -> NDArray[np.int64]:
    """(M,) tests above each node."""
    depth = np.zeros(tree.feature.size, dtype=np.int64)
    for node in np.flatnonzero(tree.feature != LEAF):  # a child stands after its parent
        depth[[tree.left[node], tree.right[node]]] = depth[node] + 1
    return depth


# ---------------------------------------------------------------------- other learners


@dataclass(frozen=True)
class LinearLearner:
    """A linear predictor on few columns, chosen one by one: each explains most of the residual per unit of cost.

    Parameters
    ----------
    n_columns : int, default=1
    l2_regularization : float, default=1e-6
        For columns scaled to unit standard deviation.
    evaluation_cost : float, default=0
        Price of evaluating it.
    """

    n_columns: int = 1
    l2_regularization: float = 1e-6
    evaluation_cost: float = 0.0

    def fit(self, task: GradientTask) -> Weak | None:
        """Least squares of the gradient on the chosen columns; a missing value counts as the mean."""
        X, rows, share = task.table.X, task.learned_from, task.shares
        centre, deviation = _location(X[rows], share)
        Z = (X[rows] - centre) / deviation
        np.copyto(Z, 0.0, where=~np.isfinite(Z))
        mean = share @ task.target[rows]
        target = task.target[rows] - mean
        left, bought = target, task.bought.copy()
        chosen: list[int] = []
        for _ in range(min(self.n_columns, Z.shape[1])):
            explained = ((Z.T @ (share[:, None] * left)) ** 2).sum(axis=1)
            explained[chosen] = -1.0
            rate = explained / (self._prices(task.costs, bought) + self.evaluation_cost + task.step_cost)
            chosen.append(int(np.argmax(rate)))
            bought |= task.costs.closure(task.costs.groups_of(np.array(chosen[-1:])))
            inside = Z[:, chosen]
            weighted = inside.T * share
            solved = np.linalg.solve(
                weighted @ inside + self.l2_regularization * np.eye(len(chosen)), weighted @ target
            )
            left = target - inside @ solved
        slopes = solved / deviation[chosen, None]
        block = LinearBlock(chosen, slopes, intercepts=mean[None, :], centres=centre[chosen])
        return Weak(block.outputs(0, X), block, self.evaluation_cost)

    @staticmethod
    def _prices(costs: BoundCosts, bought: NDArray[np.bool_]) -> Array:
        """(d,) what each column would cost now."""
        _, first, group = np.unique(costs.column_group, return_index=True, return_inverse=True)
        return np.array([conditional_price(costs, np.array([j]), bought) for j in first])[group]


@dataclass(frozen=True)
class FunctionLearner:
    """Any function as a learner: another library's regressor, a lookup, a small network.

    Parameters
    ----------
    make : callable
        ``make(X[:, columns], target, weight)`` returns a function from (m, c) to (m, K); a single output is (m,) in both.
    columns : sequence of int
        Columns that it reads.
    evaluation_cost : float, default=0
        Price of evaluating it.

    Notes
    -----
    A model with such a stage runs like any other, but cannot be saved, because files hold no code.
    """

    make: Callable[[Array, Array, Array], Callable[[Array], ArrayLike]]
    columns: Sequence[int]
    evaluation_cost: float = 0.0

    def fit(self, task: GradientTask) -> Weak | None:
        """Call ``make`` on the rows to learn from."""
        columns = np.asarray(self.columns)
        inside = task.table.X[:, columns]
        target = task.target[task.learned_from]
        function = self.make(
            inside[task.learned_from], target[:, 0] if target.shape[1] == 1 else target, task.shares
        )
        block = FunctionBlock(columns, function, width=target.shape[1])
        return Weak(block.outputs(0, task.table.X), block, self.evaluation_cost)


def _location(X: Array, share: Array) -> tuple[Array, Array]:
    """Weighted mean and deviation of the values that are there; deviation 1 for a constant."""
    seen = np.isfinite(X)
    total = share @ seen
    mean = np.divide(share @ np.where(seen, X, 0.0), total, out=np.zeros(X.shape[1]), where=total > 0)
    square = share @ np.where(seen, X - mean, 0.0) ** 2
    return mean, np.where(square > 0, np.sqrt(square), 1.0)
