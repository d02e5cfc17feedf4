"""Learners of updates: given what the objective asks of regions, the predictor that comes closest.

Weighted least squares over selected regions is the projection of the functional gradient (Grubb, *Anytime Prediction*, 2014,
equations 3.6 and 7.11): trees fit it as it is, with prices in their splits; several small trees take Newton's steps instead;
linear predictors of elements take it to choose what to buy, and then minimise the loss itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from anytime._native import coded_softmax_fit
from anytime.costs import BoundCosts
from anytime.losses import LINKS
from anytime.structured.level_table import LevelTable
from anytime.structured.objective import ElementLoss
from anytime.structured.predictors import LinearPredictor, RegionPredictor, TreePredictor, coded_starts
from anytime.structured.structures import Array
from anytime.trees.arrays import TreeArrays
from anytime.trees.growing import TreeGrower, join

__all__ = [
    "BoostedTreesLearner",
    "FittedUpdate",
    "LinearUpdateLearner",
    "TreeUpdateLearner",
    "UpdateLearner",
    "UpdateTask",
]

_TRIAL_TREES = 2  # by which updates of several trees are compared
_SMOOTHING = 5.0  # rows without effect that a category is given when it is judged


@dataclass(frozen=True, eq=False)
class UpdateTask:
    """What a learner is asked to fit.

    Attributes
    ----------
    table : LevelTable
    which : (m,) int
        Regions to learn from.
    weight : (R,)
        How much each region counts.
    context : (R, q)
    loss : ElementLoss
        With the distributions that are to be predicted.
    scores : (E, K)
        The scores to which the update will be added.
    told : (E, K)
        Scores of held-out predictions, of which the context tells; without copies they are ``scores``.
    costs : BoundCosts
    bought : (G,) bool
        Groups that are paid for already.
    step_cost : float
        What any update costs, whatever it reads.
    seed : int
    like : RegionPredictor or None
        A predictor whose choice of columns is to be made again.
    trial : bool
        Whether what is fitted is to be compared with others first: a learner may then do less (``FittedUpdate.provisional``).
    n_before : int or None
        Updates that there are already. None: it does not matter.
    """

    table: LevelTable
    which: NDArray[np.intp]
    weight: Array
    context: Array
    loss: ElementLoss
    scores: Array
    held_out_scores: Array
    costs: BoundCosts
    bought: NDArray[np.bool_]
    step_cost: float
    seed: int
    like: RegionPredictor | None = None
    trial: bool = False
    n_before: int | None = None

    @cached_property
    def target(self) -> Array:
        """(R, K) the mean negative gradient over each region's elements."""
        return self.loss.projection(self.scores, self.table.regions)

    @cached_property
    def honest(self) -> Array:
        """(R, K) the same for the held-out predictions.

        On training elements a model that knows many of them by heart has little left to explain, and what is left says little
        about new ones.
        """
        return (
            self.target
            if self.held_out_scores is self.scores
            else self.loss.projection(self.held_out_scores, self.table.regions)
        )

    def derivatives(
        self, which: NDArray[np.intp], outputs: Array, scale: float
    ) -> tuple[float, Array, Array]:
        """The loss of regions ``which`` once ``outputs``, (m, K), are added to the scores, and its (m, K) derivatives.

        First derivatives, and the diagonal of the second, as ``loss_derivatives`` has it; weights are multiplied by ``scale``.
        """
        elements, offsets = self.table.regions.elements(which)
        scores = self.scores[elements] + np.repeat(outputs, np.diff(offsets), axis=0)
        truth, weight = self.loss.truth[elements], scale * self.loss.weight[elements]
        shares = LINKS["softmax"].transform(scores)
        value = -float(weight @ (truth * np.log(np.maximum(shares, 1e-300))).sum(axis=1))
        more = shares.shape[1] / (shares.shape[1] - 1)
        first, second = weight[:, None] * (shares - truth), (more * weight)[:, None] * shares * (1.0 - shares)
        return value, np.add.reduceat(first, offsets[:-1]), np.add.reduceat(second, offsets[:-1])


class FittedUpdate(NamedTuple):
    """A fitted predictor, its outputs (R, K) on all training regions of its level, and how they are used.

    ``replaces``: whether they take the place of the scores. ``longest``: the longest step that may be taken along them.
    ``provisional``: whether the learner did less than it will once the update is chosen.
    """

    predictor: RegionPredictor
    outputs: Array
    replaces: bool = False
    longest: float = np.inf
    provisional: bool = False


class UpdateLearner(Protocol):
    """Anything that can fit an ``UpdateTask``. A class of your own needs this one method."""

    def fit(self, task: UpdateTask) -> FittedUpdate | None:
        """The predictor of this class that serves best; None where there is none."""


@dataclass(frozen=True)
class TreeUpdateLearner:
    """One tree with an output per class, with prices in its splits: ``E[w |target - h|^2] + cost_penalty * price`` (7.11).

    Parameters
    ----------
    max_leaf_nodes, max_depth : int or None
    cost_penalty : float, default=0
        What one unit of price must save of the mean square, as a share of that of the target, to be paid.
    min_samples_leaf : int, default=20
    l2_regularization : float, default=1
    use_context : bool, default=True
        Whether trees may ask for the current predictions of others.
    max_features : float, default=1
        Share of the columns that are not bought yet which a tree may test, drawn for each task; the bought ones it always may.
    max_samples : int or None, default=None
        The most regions that a tree is grown on, drawn for each task. None: all.
    n_threads : int, default=1
    """

    max_leaf_nodes: int | None = 31
    max_depth: int | None = None
    cost_penalty: float = 0.0
    min_samples_leaf: int = 20
    l2_regularization: float = 1.0
    use_context: bool = True
    max_features: float = 1.0
    max_samples: int | None = None
    n_threads: int = 1

    def fit(self, task: UpdateTask) -> FittedUpdate | None:
        """Grow one tree."""
        random = np.random.RandomState(task.seed)
        which = task.which
        if self.max_samples is not None and which.size > self.max_samples:
            which = np.sort(random.choice(which, self.max_samples, replace=False))
        mean = task.weight[which].mean() if which.size else 0.0
        if not mean > 0:
            return None
        weight = task.weight / mean
        table, n_columns = task.table, task.table.n_columns
        square = float(np.mean(weight[which] * (task.target[which] ** 2).sum(axis=1)))
        grower = TreeGrower(
            max_leaf_nodes=self.max_leaf_nodes,
            max_depth=self.max_depth,
            min_samples_leaf=self.min_samples_leaf,
            min_weight=0.0,
            l2_regularization=self.l2_regularization,
            cost_penalty=self.cost_penalty * square,
            scale="mean",
            n_threads=self.n_threads,
        )
        context = task.context if self.use_context else task.context[:, :0]
        data = table.binned(task.context)
        allowed = np.ones(data.n_features, dtype=bool)
        allowed[n_columns + context.shape[1] :] = False
        if self.max_features < 1:
            drawn = random.random_sample(n_columns) < self.max_features
            allowed[:n_columns] = drawn | task.bought[task.costs.column_group]
        costs, bought = _with_free_columns(task.costs, task.bought, data.n_features)
        tree = grower.grow(data, task.target, weight, rows=which, columns=allowed, costs=costs, bought=bought)
        return FittedUpdate(TreePredictor.of(tree.arrays, n_columns), tree.values[tree.leaf])


@dataclass(frozen=True)
class BoostedTreesLearner:
    """A few small trees, one after the other: each takes Newton's steps from where those before it have come to.

    Each tree sees regions and columns of its own draw. Together they are one stage, so that the context is read once for all of
    them; candidates are compared by the first trees only. A split on a column that has to be bought must lower the loss, to
    second order, by ``cost_penalty`` of all of it per unit of price.

    Parameters
    ----------
    n_estimators : int, default=8
    first_estimators : int or None, default=None
        The most trees of the first update, for an early answer; a later one has at most as many as all before it together.
        None: ``n_estimators``.
    learning_rate : float, default=0.2
        Factor by which the steps of ``n_estimators`` trees are shrunk: the longest step that a trainer may take along their sum.
        The fewer trees of a first update take longer steps, so that all updates go equally far; no step is longer than
        Newton's, 1.
    max_leaf_nodes : int or None, default=31
    cost_penalty : float, default=0
    min_samples_leaf : int, default=20
    l2_regularization : float, default=5
        In units of the mean weight of a region.
    use_context : bool, default=True
    max_features : float, default=0.1
        Share of the columns that are not bought yet which a tree may test; of the bought ones, half.
    max_samples : int or None, default=10000
        The most regions that a tree is grown on. None: all.
    n_threads : int, default=1
    """

    n_estimators: int = 8
    first_estimators: int | None = None
    learning_rate: float = 0.2
    max_leaf_nodes: int | None = 31
    cost_penalty: float = 0.0
    min_samples_leaf: int = 20
    l2_regularization: float = 5.0
    use_context: bool = True
    max_features: float = 0.1
    max_samples: int | None = 10_000
    n_threads: int = 1

    def fit(self, task: UpdateTask) -> FittedUpdate | None:
        """Grow the trees."""
        n_all = self._n_trees(task.n_before)
        n_trees = min(n_all, _TRIAL_TREES) if task.trial else n_all
        rate = min(1.0, self.learning_rate * (self.n_estimators / n_all))
        mean = task.weight[task.which].mean() if task.which.size else 0.0
        if not mean > 0:
            return None
        random = np.random.RandomState(task.seed)
        data = task.table.binned(task.context)
        costs, bought = _with_free_columns(task.costs, task.bought, data.n_features)
        shape = task.table.regions.n_regions, task.scores.shape[1]
        outputs, first, second = np.zeros(shape), np.zeros(shape, np.float32), np.zeros(shape, np.float32)
        trees: list[TreeArrays] = []
        for _ in range(n_trees):
            which = task.which
            if self.max_samples is not None and which.size > self.max_samples:
                which = np.sort(random.choice(which, self.max_samples, replace=False))
            loss, first[which], second[which] = task.derivatives(which, rate * outputs[which], 1.0 / mean)
            grower = TreeGrower(
                max_leaf_nodes=self.max_leaf_nodes,
                min_samples_leaf=self.min_samples_leaf,
                l2_regularization=self.l2_regularization,
                cost_penalty=self.cost_penalty * loss,
                n_threads=self.n_threads,
            )
            columns = self._columns(task, data.n_features, bought[costs.column_group], random)
            tree = grower.grow_newton(
                data, first, second, rows=which, columns=columns, costs=costs, bought=bought
            )
            bought = bought | costs.closure(costs.groups_of(tree.columns))
            outputs += tree.values[tree.leaf]
            trees.append(tree.arrays)
        forest = join(trees, [len(trees)])
        return FittedUpdate(
            TreePredictor.of(forest, task.table.n_columns),
            outputs,
            longest=rate,
            provisional=n_trees < n_all,
        )

    def _n_trees(self, n_before: int | None) -> int:
        """Trees of an update: 16, 16, 32, 64, ... where the first has 16, up to ``n_estimators``."""
        if self.first_estimators is None or n_before is None:
            return self.n_estimators
        return min(self.n_estimators, self.first_estimators << min(max(n_before - 1, 0), 30))

    def _columns(
        self, task: UpdateTask, n: int, bought: NDArray[np.bool_], random: np.random.RandomState
    ) -> NDArray[np.bool_]:
        """(n,) the columns that a tree may test: those of the context, what is bought, and a draw of the others."""
        n_columns = task.table.n_columns
        allowed = np.full(n, self.use_context)
        if task.like is not None:
            allowed[:n_columns] = False
            allowed[task.like.columns] = True
        else:
            share = np.where(bought[:n_columns], max(0.5, self.max_features), self.max_features)
            allowed[:n_columns] = random.random_sample(n_columns) < share
        return allowed


def _with_free_columns(
    costs: BoundCosts, bought: NDArray[np.bool_], n_columns: int
) -> tuple[BoundCosts, NDArray[np.bool_]]:
    """The same prices with more columns at the end, which cost nothing: those of the context."""
    extra = n_columns - costs.column_group.size
    if not extra:
        return costs, bought
    return costs.with_free_columns(extra), np.append(bought, True)


@dataclass(frozen=True)
class LinearUpdateLearner:
    """Multinomial logistic regression over what is bought, what is worth buying, and the context; it replaces the scores.

    Added to scores of a model of the same features it could only repeat what those have learned by heart: in forward stacking
    (Algorithm 3.2) each layer is a model of its own, and reads what the layer before said.

    What is worth buying is judged by how much of the gradient a column explains on rows other than those that say how, per unit
    of cost. For updates of elements only.

    Parameters
    ----------
    growth : float, default=0.15
        At least this share of what is spent already is spent at each step: how many groups are bought at once.
    buys : bool, default=True
        False: only columns that are bought already are used.
    use_context : bool, default=True
    epochs : int, default=8
    learning_rate : float, default=0.1
        Of AdaGrad.
    l2_regularization : float, default=1.0
    """

    growth: float = 0.15
    buys: bool = True
    use_context: bool = True
    epochs: int = 8
    learning_rate: float = 0.1
    l2_regularization: float = 1.0

    def fit(self, task: UpdateTask) -> FittedUpdate | None:
        """Choose columns, and fit them."""
        if task.table.level != 0:
            raise ValueError("a linear update is one of elements, at level 0")
        table = task.table
        alone = not self.use_context and task.context.shape[1]
        read = task.context[:, :0] if alone else task.context
        context = np.arange(read.shape[1], dtype=np.int32)
        if task.like is not None:
            columns = task.like.columns
        else:
            columns = np.flatnonzero(self._groups(task)[task.costs.column_group]).astype(np.int32)
        if not columns.size and not context.size:
            return None
        categories = np.concatenate([table.categories[columns], table.context_categories[context]])
        X = table.joined(columns, read)
        scale = np.append(self._scales(X[task.which, : columns.size], categories), np.ones(context.size))
        used = np.zeros(len(X))
        used[task.which] = task.weight[task.which]
        starts, n_rows = coded_starts(categories)
        weights = np.zeros((n_rows, task.scores.shape[1]), dtype=np.float32)
        bias = np.zeros(task.scores.shape[1], dtype=np.float32)
        coded_softmax_fit(
            X,
            categories,
            starts,
            scale,
            np.zeros(task.scores.shape),
            task.loss.truth.argmax(axis=1).astype(np.int32),
            used / max(used[task.which].mean(), 1e-300),
            weights,
            bias,
            self.epochs,
            self.learning_rate,
            self.l2_regularization,
            task.seed,
        )
        weights[starts] /= scale[:, None].astype(np.float32)
        predictor = LinearPredictor(columns, context, categories, weights, bias)
        return FittedUpdate(predictor, predictor.outputs(X), replaces=True)

    @staticmethod
    def _scales(X: Array, categories: NDArray[np.int32]) -> Array:
        """(c,) the root mean square of columns of numbers; 1 for others."""
        categories = categories[: X.shape[1]]
        there = ~np.isnan(X)
        square = np.where(there, X, 0.0) ** 2
        mean = square.sum(axis=0) / np.maximum(there.sum(axis=0), 1)
        return np.where(np.isfinite(mean) & (mean > 0) & (categories == 0), np.sqrt(mean), 1.0)

    def _groups(self, task: UpdateTask) -> NDArray[np.bool_]:
        """(G,) groups that are bought, and those that are to be."""
        costs, owned = task.costs, task.bought.copy()
        if not self.buys:
            return owned
        gain = np.bincount(costs.column_group, weights=self._explained(task), minlength=costs.n_groups)
        closures = np.array([costs.closure(np.array([g])) for g in range(costs.n_groups)])
        spent = int(costs.prices[owned].sum())
        while True:
            price = np.array([costs.costs.amount(int(costs.prices[c & ~owned].sum())) for c in closures])
            rate = np.where(owned | (gain <= 0), -1.0, gain / (price + task.step_cost))
            best = int(np.argmax(rate))
            if rate[best] < 0:
                return owned
            owned |= closures[best]
            if int(costs.prices[owned].sum()) - spent >= self.growth * spent:
                return owned

    def _explained(self, task: UpdateTask) -> Array:
        """(d,) how much of the target each column explains: what one half of the rows says of it, seen by the other."""
        rows, target = task.which, task.honest[task.which] * task.weight[task.which, None]
        half = (np.arange(rows.size) * 2 < rows.size).astype(np.float64)
        features, categories = task.table.features, task.table.categories
        out = np.zeros(categories.size)
        numbers = np.flatnonzero(categories == 0)
        if numbers.size:
            X = np.nan_to_num(features[np.ix_(rows, numbers)])
            X = X - X.mean(axis=0)
            first, second = (X.T @ (target * side[:, None]) for side in (half, 1 - half))
            square = (X**2).sum(axis=0)
            smooth = _SMOOTHING * np.where(square > 0, square / rows.size, 1.0)
            out[numbers] = 4 * (first * second).sum(axis=1) / (square + smooth)
        for j in np.flatnonzero(categories > 0):
            code = features[rows, j]
            coded = np.flatnonzero(code >= 0)
            cells = (np.ones(coded.size), (code[coded].astype(np.intp), coded))
            members = csr_array(cells, shape=(int(categories[j]), rows.size))
            first, second = (members @ (target * side[:, None]) for side in (half, 1 - half))
            count = np.asarray(members.sum(axis=1)).reshape(-1)
            out[j] = 4 * ((first * second).sum(axis=1) / (count + _SMOOTHING)).sum()
        return np.maximum(out, 0.0)
