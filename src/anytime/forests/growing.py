"""Growing trees of classes or numbers that pay for what they test.

    data = BinnedData.fit(X)                                # once
    grower = ClassTreeGrower(ClassPairs(alpha=2), n_threads=2)
    trees = grower.grow_forest(data, y, n_classes=3, n_trees=40, costs=costs)
    join([tree.arrays for tree in trees])                   # runs anywhere
    trees[0].statistics                                     # sums of the classes at every node

At a node with examples S every column t has the *risk*

    R(t) = min_g max_i  c(t) / (F(S) - F(S_g^i))

over its tests g with outcomes S_g^i: what is paid for each unit by which the impurity of the worst outcome falls. The column of
least risk is tested. This is GreedyTree of Nan, Wang and Saligrama, *Feature-Budgeted Random Forest* (ICML 2015).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime import _native
from anytime.costs import BoundCosts
from anytime.forests.impurity import ClassPairs, Impurity
from anytime.spreading import CLUSTER
from anytime.trees.arrays import LEAF, TreeArrays
from anytime.trees.binning import BinnedData
from anytime.trees.growing import mask_of, row_numbers

__all__ = ["ClassTree", "ClassTreeGrower"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ClassTreeGrower:
    """How trees are grown.

    Parameters
    ----------
    impurity : Impurity, default=ClassPairs()
    split : {"minimax", "expected"}, default="minimax"
        Whether a test is judged by its worst outcome or by the mean impurity of its outcomes, weighted by their sizes.
    tests : {"stumps", "multiway"}, default="stumps"
        Two outcomes, or one for each bin of values that the node has. Missing values are an outcome of their own in a
        multiway test, and go to the better side of a stump.
    search : {"exhaustive", "random"}, default="exhaustive"
        Which stumps are tried: all, or for each column 80 random ones in nodes of more than 2000 rows, 40 in those of more
        than 500, else 20.
    max_features : int or None, default=None
        Random columns tried at a node, constant ones not counted; more where none of them helps. None: all.
    max_depth : int or None, default=None
        The most tests on a path.
    min_samples_leaf : int, default=1
        The fewest rows of an outcome.
    min_impurity : float, default=0.0
        A node with at most this impurity is a leaf.
    discount_reused : bool, default=False
        What the path has paid for is free in the risk of later tests.
    n_threads : int, default=1
        Trees grown at the same time.

    Notes
    -----
    The price c(t) of a column is that of its group with all that it requires. A test that lowers nothing by its measure is not
    made; one that is free has risk 0. Equal risks are decided by the larger fall, then by the lower column; risks that differ
    by rounding are equal. Categories are split into two sets that are apart in the share of some class, or in the mean.

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
            Rows to learn from, a row as often as it is named; None: all.
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
        """Grow trees, each from its own draw of the rows with replacement.

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
        given = (
            np.ascontiguousarray(y, dtype=np.float64),
            weights,
            0 if n_classes is None else n_classes,
            learned,
            None if columns is None else mask_of(columns, "columns"),
            None if costs is None else costs.table,
            kind,
            parameter,
        )
        cluster = CLUSTER.get()
        grow = self.native_trees if cluster is None else partial(cluster.native_trees, self)
        native = grow(data, given, (seed, first_tree, n_trees, bootstrap))
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
        self, data: BinnedData, given: tuple[Any, ...], which: tuple[int, int, int, bool]
    ) -> Any:
        """What the native grower makes of its arguments; ``which``: seed, first tree, number of trees, bootstrap."""
        arguments: tuple[Any, ...] = (data.native, *given, self._options(), *which)
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
    """A tree, and the sums of the examples that it learned from.

    Attributes
    ----------
    arrays : TreeArrays
        The tree with real thresholds, as a forest of one tree and one stage. ``value`` is known at every node: shares of the
        classes, or the mean. A multiway test is made of several binary nodes on the same column.
    statistics : (M, C)
        At every node: weights of the classes; for regression ``sum w, sum w y, sum w y^2``.
    risk : (M,)
        Of the test that begins at a node; NaN at leaves and within a multiway test.
    depth : int
        The most tests on a path, multiway ones counted once.
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
        """(n,) how often each row was learned from; None: once each."""
        return self._bag.counts()
