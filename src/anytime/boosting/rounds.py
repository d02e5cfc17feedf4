"""Plain gradient boosting on bins: Newton steps, one tree per output and round.

What a model of full strength is made of and, with a price on first use, cost-regularised boosting: Greedy Miser (Xu, Weinberger
and Chapelle) is boosting at a fixed lambda (Grubb, *Anytime Prediction*, 2014, section 6.5.3).
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from anytime.boosting.objective import MeanLoss, derivatives
from anytime.boosting.sums import exact_leaf_sums
from anytime.costs import BoundCosts
from anytime.plan import Array
from anytime.trees.arrays import LEAF, TreeArrays
from anytime.trees.binning import BinnedData
from anytime.trees.growing import GrownTree, TreeGrower, join, update_scores

_FEW_COLUMNS = 4  # all of which a tree may use, however small its share


@dataclass(frozen=True)
class _Draws:
    """What a round draws at random."""

    rows: NDArray[np.intp] | None  # to learn from
    mixture: Array | None  # (K,): of the outputs, for a tree that all of them share
    columns: list[NDArray[np.bool_] | None]  # that each tree may use


class GradientRounds:
    """Boosting, one round at a time."""

    def __init__(
        self,
        data: BinnedData,
        objective: MeanLoss,  # of all rows of ``data``
        grower: TreeGrower,  # its ``cost_penalty`` is lambda
        start: Array,  # (K,) or (n, K): scores before the first round
        *,
        learning_rate: float = 0.1,
        rows: NDArray[np.intp] | None = None,  # (m,): rows to learn from. None: all. Scores are kept for all
        judge: NDArray[np.intp] | None = None,  # (h,): rows on which the loss is followed
        columns: NDArray[np.bool_] | None = None,  # (d,): columns that trees may use
        costs: BoundCosts | None = None,  # for the penalty on first use
        bought: NDArray[np.bool_] | None = None,  # (G,): groups that cost nothing any more
        # One tree per round for all outputs. Where there are several, its splits are found on one random mixture of them, and
        # its leaves answer for all: many times faster, and no worse (SketchBoost, Iosipoi and Vakhrushev 2022)
        shared: bool = False,
        keep_gains: bool = False,  # note how much splits on each column have gained
        judged: Callable[[Array, NDArray[np.intp]], float] | None = None,  # None: ``MeanLoss.judged``
        column_share: float = 1.0,  # of ``columns``, drawn anew for each tree
        row_share: float = 1.0,  # of ``rows``, drawn anew for each round
        # Where others have a part of the rows: the place of the first of ``rows`` among those of all, and how many these are
        place: tuple[int, int] | None = None,
        seed: int = 0,  # of those draws and mixtures
        keep_trees: bool = True,  # False: only scores and losses are wanted
        # A loss counts as less when it is by this share of it. Many rounds of tiny gains are not worth their trees
        tolerance: float = 0.0,
    ) -> None:
        self.data, self.objective, self.grower, self.learning_rate = data, objective, grower, learning_rate
        self.rows, self.judge, self.columns, self.costs = rows, judge, columns, costs
        self.shared, self.keep_trees, self.tolerance, self.row_share = (
            shared,
            keep_trees,
            tolerance,
            row_share,
        )
        self._seed, self._place = seed, place
        self._draw = (
            _ColumnDraw(columns, data.n_features, column_share, self._random) if column_share < 1 else None
        )
        self._judged = judged or objective.judged
        self.scores = np.empty((len(objective.y), np.shape(start)[-1]))  # (n, K)
        self.scores[:] = start
        self.bought = None
        if costs is not None:
            self.bought = np.zeros(costs.n_groups, dtype=bool) if bought is None else bought.copy()
        # (d,): impurity that splits on each column took off
        self.column_gains = np.zeros(data.n_features) if keep_gains else None
        self.cut_short = False  # whether ``run`` ended because time was up
        self.rounds: list[list[TreeArrays]] = []
        # on ``judge``, before the first round and after each
        self.losses = [] if judge is None else [self._judged(self.scores, judge)]
        self._least = 0  # where the losses are least, found once and not in every round

    # Made where they are drawn from: quick models of small tables take less time than the making of both.
    @cached_property
    def _random(self) -> np.random.RandomState:
        """Of columns and mixtures."""
        return np.random.RandomState(self._seed)

    @cached_property
    def _row_random(self) -> np.random.RandomState:
        """Of rows: a stream of its own, or the rows of a round would say which mixture it has."""
        return np.random.RandomState([self._seed, 1])

    @property
    def n_outputs(self) -> int:
        """Number of scores per row."""
        return int(self.scores.shape[1])

    def round(self) -> bool:
        """Add a round; False, and nothing added, where no tree finds a split."""
        gradient, hessian = derivatives(self.objective, self.scores, self.grower.n_threads)
        drawn = self.draws()
        grow = self._one_by_one if drawn.mixture is None else self._mixed
        stage = grow(gradient, hessian, drawn)
        if stage is None:
            return False
        self.rounds.append(stage)
        if self.judge is not None:
            self._follow(self.judge)
        return True

    def draws(self) -> _Draws:
        """Draw what the next round needs."""
        rows = self._drawn_rows() if self.row_share < 1 else self.rows
        n_trees, mixture = self.n_outputs, None
        if self.shared and self.n_outputs > 1:
            n_trees, mixture = 1, self._random.normal(size=self.n_outputs)
        columns = [self.columns if self._draw is None else self._draw() for _ in range(n_trees)]
        return _Draws(rows, mixture, columns)

    def _drawn_rows(self) -> NDArray[np.intp]:
        """Some of the rows to learn from, in their order; all of the few of which none is drawn."""
        rows = np.arange(len(self.objective.y)) if self.rows is None else self.rows
        first, n_rows = self._place or (0, rows.size)
        drawn = self._row_random.uniform(size=n_rows) < self.row_share
        return rows[drawn[first : first + rows.size]] if drawn.any() else rows

    def snapshot(self) -> Self:
        """A copy to go back to after rounds that are not to count; it has no rounds."""
        before = copy.copy(self)
        before.scores, before.rounds = self.scores.copy(), []
        before.bought = None if self.bought is None else self.bought.copy()
        before.column_gains = None if self.column_gains is None else self.column_gains.copy()
        for name in ("_random", "_row_random"):
            if name in self.__dict__:
                before.__dict__[name] = copy.deepcopy(self.__dict__[name])
        if self._draw is not None:
            before._draw = copy.copy(self._draw)
            before._draw.random = before._random
        return before

    def _one_by_one(
        self, gradient: NDArray[Any], hessian: NDArray[Any], drawn: _Draws
    ) -> list[TreeArrays] | None:
        """A tree for each output, added to the scores; None where none finds a split."""
        grown = [
            self._grow(gradient[:, k : k + 1], hessian[:, k : k + 1], drawn.rows, columns)
            for k, columns in enumerate(drawn.columns)
        ]
        if not any(tree.n_leaves > 1 for tree in grown):
            return None
        stage = []
        for k, tree in enumerate(grown):
            rate, threads = self.learning_rate, self.grower.n_threads
            output = None if self.n_outputs == 1 else k
            update_scores(self.scores, tree.leaf, tree.values, rate, output, n_threads=threads)
            if self.keep_trees:
                answering = {} if output is None else _answering(k, self.n_outputs)
                stage.append(replace(tree.arrays, value=rate * tree.arrays.value, **answering))
        return stage

    def _mixed(self, gradient: NDArray[Any], hessian: NDArray[Any], drawn: _Draws) -> list[TreeArrays] | None:
        """One tree that answers for all outputs, added to the scores; None where it finds no split."""
        assert drawn.mixture is not None
        mixture = drawn.mixture.astype(gradient.dtype)
        tree = self._grow(
            _mixture(gradient, mixture), _mixture(hessian, mixture**2), drawn.rows, drawn.columns[0]
        )
        if tree.n_leaves < 2:
            return None
        first, second = (
            exact_leaf_sums(
                part, tree.leaf, tree.n_leaves, drawn.rows, self.grower.peers, self.grower.n_threads
            )
            for part in (gradient, hessian)
        )
        values = -first / np.maximum(second + self.grower.l2_regularization, 1e-300)
        rate = self.learning_rate
        update_scores(self.scores, tree.leaf, values, rate, n_threads=self.grower.n_threads)
        if not self.keep_trees:
            return []
        arrays = tree.arrays
        value = np.zeros((arrays.feature.size, self.n_outputs))
        value[arrays.feature == LEAF] = rate * values
        return [replace(arrays, value=value, n_outputs=self.n_outputs)]

    def _follow(self, judge: NDArray[np.intp]) -> None:
        """Note the loss on the rows to judge on."""
        self._note(self._judged(self.scores, judge))

    def _note(self, loss: float) -> None:
        """Add a loss to those of the rounds before, and see where it is least."""
        self.losses.append(loss)
        least = self.losses[self._least]
        if self.losses[-1] < least - self.tolerance * abs(least):
            self._least = len(self.losses) - 1

    def _grow(
        self,
        gradient: NDArray[Any],
        hessian: NDArray[Any],
        rows: NDArray[np.intp] | None,
        columns: NDArray[np.bool_] | None,
    ) -> GrownTree:
        """The tree of one output, (n, 1)."""
        tree = self.grower.grow_newton(
            self.data,
            gradient,
            hessian,
            rows=rows,
            columns=columns,
            costs=self.costs,
            bought=self.bought,
        )
        if self.bought is not None and self.costs is not None and tree.columns.size:
            self.bought |= self.costs.closure(self.costs.groups_of(tree.columns))
        if self.column_gains is not None:
            _add_gains(self.column_gains, tree, gradient, hessian, self.grower.peers)
        return tree

    def run(
        self,
        n_estimators: int,
        n_iter_no_change: int | None = None,
        time_is_up: Callable[[], bool] | None = None,
    ) -> None:
        """Up to so many further rounds, until so many have brought no gain, or, after the first, until time is up."""
        for _ in range(n_estimators):
            if not self.round():
                return
            if n_iter_no_change is not None and len(self.rounds) - self.best >= n_iter_no_change:
                return
            if time_is_up is not None and len(self.rounds) < n_estimators and time_is_up():
                self.cut_short = True
                return

    @property
    def best(self) -> int:
        """The number of rounds with the least loss on ``judge``; all of them where none is followed."""
        return self._least if self.losses else len(self.rounds)

    def trees(self, n_estimators: int | None = None, *, one_stage: bool = False) -> TreeArrays:
        """The first rounds, one stage each, or all of them one stage."""
        rounds = self.rounds[:n_estimators]
        sizes = [len(trees) for trees in rounds]
        return join([tree for trees in rounds for tree in trees], [sum(sizes)] if one_stage else sizes)


class _ColumnDraw:
    """Masks of columns drawn at random, a few columns at least."""

    def __init__(
        self, columns: NDArray[np.bool_] | None, n_features: int, share: float, random: np.random.RandomState
    ) -> None:
        self.allowed = np.arange(n_features) if columns is None else np.flatnonzero(columns)
        self.n_drawn = max(int(np.ceil(share * self.allowed.size)), min(_FEW_COLUMNS, self.allowed.size))
        self.n_features, self.random = n_features, random

    def __call__(self) -> NDArray[np.bool_]:
        mask = np.zeros(self.n_features, dtype=bool)
        mask[self.random.permutation(self.allowed)[: self.n_drawn]] = True
        return mask


def _answering(output: int, n_outputs: int) -> dict[str, Any]:
    return {"tree_output": np.array([output], dtype=np.int32), "n_outputs": n_outputs}


def _mixture(part: NDArray[Any], shares: NDArray[Any]) -> NDArray[Any]:
    """(n, 1) outputs times their shares, added one after the other: a row's sum does not depend on the rows beside it."""
    total = part[:, 0] * shares[0]
    for k in range(1, shares.size):
        total += part[:, k] * shares[k]
    return np.asarray(total[:, None])


def _add_gains(
    gains: Array, tree: GrownTree, gradient: NDArray[Any], hessian: NDArray[Any], peers: Any
) -> None:
    """Add what each split has gained to its column, from the sums of the leaves up."""
    arrays = tree.arrays
    leaves = np.flatnonzero(arrays.feature == LEAF)
    sums = np.zeros((2, arrays.feature.size, gradient.shape[1]))
    for of, part in zip(sums, (gradient, hessian), strict=True):
        of[leaves] = exact_leaf_sums(part, tree.leaf, leaves.size, None, peers)
    for node in np.flatnonzero(arrays.feature != LEAF)[::-1]:  # a child stands after its parent
        left, right = arrays.left[node], arrays.right[node]
        sums[:, node] = sums[:, left] + sums[:, right]
        first, second = sums[:, [left, right, node]]
        squares = (first**2 / np.maximum(second, 1e-12)).sum(axis=1)
        gains[arrays.feature[node]] += max(squares[0] + squares[1] - squares[2], 0.0)
