"""Growing classification and regression trees that pay for their tests.

    data = BinnedData.fit(X)                                # once
    grower = ClassTreeGrower(ClassPairs(alpha=2), n_threads=2)
    trees = grower.grow_forest(data, y, n_classes=3, n_trees=40, costs=costs)
    join([tree.arrays for tree in trees])                   # runs anywhere
    trees[0].statistics                                     # sums of the classes at every node

At a node with examples S every column t has the *risk*

    R(t) = min_g max_i  c(t) / (F(S) - F(S_g^i))

over its tests g with outcomes S_g^i: the price per unit of reduction of the impurity of the worst outcome. The column with the
lowest risk is tested. This is GreedyTree of Nan, Wang and Saligrama, *Feature-Budgeted Random Forest* (ICML 2015).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime import _native
from anytime.costs import BoundCosts
from anytime.forests.impurity import ClassPairs, Impurity
from anytime.spreading import n_places, side_by_side
from anytime.trees.arrays import LEAF, TreeArrays
from anytime.trees.binning import BinnedData
from anytime.trees.growing import mask_of, row_numbers

__all__ = ["ClassTree", "ClassTreeGrower"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ClassTreeGrower:
    """Grows trees under prices.

    Parameters
    ----------
    impurity : Impurity, default=ClassPairs()
    split : {"minimax", "expected"}, default="minimax"
        Whether a test is rated by its worst outcome or by the mean impurity of its outcomes, weighted by their sizes.
    tests : {"stumps", "multiway"}, default="stumps"
        Two outcomes, or one for each bin of values that the node has. Missing values are a separate outcome of a multiway
        test, and go to the better side of a stump.
    search : {"exhaustive", "random"}, default="exhaustive"
        Which stumps are tried: all, or for each column 80 random ones in nodes of more than 2000 rows, 40 in those of more
        than 500, else 20.
    max_features : int or None, default=None
        Random columns tried at a node, without constant ones; more if none of them helps. None: all.
    max_depth : int or None, default=None
        Maximum number of tests on a path.
    min_samples_leaf : int, default=1
        Minimum number of rows of an outcome.
    min_impurity : float, default=0.0
        A node with at most this impurity is a leaf.
    discount_reused : bool, default=False
        Whether groups that the path has paid for are free in the risk of later tests.
    n_threads : int, default=1
        Trees grown at the same time.

    Notes
    -----
    The price c(t) of a column is that of its group, requirements included. A test that reduces nothing by its measure is not
    made; a free one has risk 0. Ties are decided by the larger reduction, then by the lower column; risks that differ by rounding
    are ties. Categories are split into two sets by the share of some class, or by the mean.

    Examples
    --------
    >>> data = BinnedData.fit([[0, 5], [1, 5], [0, 7], [1, 7]])
    >>> tree = ClassTreeGrower().grow(data, [0, 1, 0, 1], n_classes=2)
    >>> tree.arrays.feature, float(tree.risk[0])
    (array([ 0, -1, -1], dtype=int32), 0.25)
    """

    impurity: Impurity = field(default_factory=ClassPairs)
    split: Literal["minimax", "expected"] = "minimax"
    tests: Literal["stumps", "multiway"] = "stumps"
    search: Literal["exhaustive", "random"] = "exhaustive"
    max_features: int | None = None
    max_depth: int | None = None
    min_samples_leaf: int = 1
    min_impurity: float = 0.0
    discount_reused: bool = False
    n_threads: int = 1

    def __post_init__(self) -> None:
        choices = {
            "split": ("minimax", "expected"),
            "tests": ("stumps", "multiway"),
            "search": ("exhaustive", "random"),
        }
        for name, allowed in choices.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"{name} is {getattr(self, name)!r}; it must be one of {allowed}")
        for name, least in (("max_features", 1), ("max_depth", 0), ("min_samples_leaf", 1), ("n_threads", 1)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise ValueError(f"{name} is {value}; it must be at least {least}")
        if not self.min_impurity >= 0:
            raise ValueError(f"min_impurity is {self.min_impurity}; it must not be negative")

    def grow(
        self,
        data: BinnedData,
        y: ArrayLike,
        weight: ArrayLike | None = None,
        *,
        n_classes: int | None,
        rows: ArrayLike | None = None,
        columns: NDArray[np.bool_] | None = None,
        costs: BoundCosts | None = None,
        random_state: int = 0,
    ) -> ClassTree:
        """Grow one tree.

        Parameters
        ----------
        data : BinnedData
        y : (n,)
            Classes 0 to ``n_classes - 1``, or numbers.
        weight : (n,), default=None
            None: 1 for every row. Rows of weight 0 are left out.
        n_classes : int or None
            None: regression.
        rows : (m,) int, default=None
            Training rows, with repetitions; None: all.
        columns : (d,) bool, default=None
            Columns that may be tested; None: all.
        costs : BoundCosts, default=None
            What columns cost; None: 1 each.
        random_state : int, default=0
        """
        return self.grow_forest(
            data,
            y,
            weight,
            n_classes=n_classes,
            n_trees=1,
            bootstrap=False,
            rows=rows,
            columns=columns,
            costs=costs,
            random_state=random_state,
        )[0]

    def grow_forest(
        self,
        data: BinnedData,
        y: ArrayLike,
        weight: ArrayLike | None = None,
        *,
        n_classes: int | None,
        n_trees: int,
        first_tree: int = 0,
        bootstrap: bool = True,
        rows: ArrayLike | None = None,
        columns: NDArray[np.bool_] | None = None,
        costs: BoundCosts | None = None,
        random_state: int = 0,
    ) -> list[ClassTree]:
        """Grow trees, each from its own bootstrap sample of the rows.

        Tree t depends on ``random_state`` and t only, so that a forest can be grown in parts.

        Parameters
        ----------
        n_trees : int
        first_tree : int, default=0
            The number of the first of them.
        bootstrap : bool, default=True
            False: every tree learns from all rows.
        """
        weights = None if weight is None else np.ascontiguousarray(weight, dtype=np.float64)
        learned = None if rows is None else row_numbers(rows)
        kind, parameter = self.impurity.native()
        seed = int(random_state) % 2**64
        inputs = (
            np.ascontiguousarray(y, dtype=np.float64),
            weights,
            0 if n_classes is None else n_classes,
            learned,
            None if columns is None else mask_of(columns, "columns"),
            None if costs is None else costs.table,
            kind,
            parameter,
        )
        n_parts = max(min(n_trees, n_places()), 1)
        ends = [first_tree + n_trees * part // n_parts for part in range(n_parts + 1)]
        which = [(seed, begin, end - begin, bootstrap) for begin, end in pairwise(ends)]
        native = chain.from_iterable(side_by_side(ClassTreeGrower.native_trees, (self, data, inputs), which))
        tick = 1.0 if costs is None else costs.costs.amount(1)
        if weights is not None:
            learned = np.arange(data.n_rows) if learned is None else learned
            learned = learned[weights[learned] > 0]
        trees = []
        for t, (arrays, statistics, risk, depth) in enumerate(native, first_tree):
            bag = _Bag(data.n_rows, learned, (seed, t) if bootstrap else None)
            trees.append(ClassTree(TreeArrays(**arrays), statistics, risk * tick, depth, bag))
        return trees

    def native_trees(
        self, data: BinnedData, inputs: tuple[Any, ...], which: tuple[int, int, int, bool]
    ) -> Any:
        """What the native grower makes of its arguments; ``which``: seed, first tree, number of trees, bootstrap."""
        arguments: tuple[Any, ...] = (data.native, *inputs, self._options(), *which)
        return _native.grow_class_trees(*arguments)

    def _options(self) -> _native.ClassGrowOptions:
        return _native.ClassGrowOptions(
            expected=self.split == "expected",
            multiway=self.tests == "multiway",
            random=self.search == "random",
            max_features=self.max_features or 0,
            max_depth=-1 if self.max_depth is None else self.max_depth,
            min_rows=self.min_samples_leaf,
            min_impurity=self.min_impurity,
            discount_reused=self.discount_reused,
            threads=self.n_threads,
        )


@dataclass(frozen=True, eq=False)
class _Bag:
    """Rows that a tree learned from: those named, or a draw of as many from them."""

    n_rows: int
    rows: NDArray[np.int64] | None
    draw: tuple[int, int] | None

    def counts(self) -> NDArray[np.int32] | None:
        if self.rows is None and self.draw is None:
            return None
        rows = np.arange(self.n_rows) if self.rows is None else self.rows
        drawn = None if self.draw is None else _native.bootstrap_counts(len(rows), *self.draw)
        return np.bincount(rows, drawn, self.n_rows).astype(np.int32)


@dataclass(frozen=True, eq=False)
class ClassTree:
    """A tree, and the statistics of its training rows.

    Attributes
    ----------
    arrays : TreeArrays
        The tree with real thresholds, as a forest of one tree and one stage. ``value`` is known at every node: shares of the
        classes, or the mean. A multiway test is made of several binary nodes on the same column.
    statistics : (M, C)
        At every node: weights of the classes; for regression ``sum w, sum w y, sum w y^2``.
    risk : (M,)
        Risk of the test at a node; NaN at leaves and within a multiway test.
    depth : int
        Maximum number of tests on a path, multiway ones counted once.
    """

    arrays: TreeArrays
    statistics: Array
    risk: Array
    depth: int
    _bag: _Bag

    @cached_property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return int((self.arrays.feature == LEAF).sum())

    @cached_property
    def in_bag(self) -> NDArray[np.int32] | None:
        """(n,) how often each row was used in training; None: once each."""
        return self._bag.counts()
