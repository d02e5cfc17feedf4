"""Growing trees of classes or numbers that pay for what they test.

    data = BinnedData.fit(X)                                # once
    grower = ClassTreeGrower(Pairs(alpha=2), n_threads=2)
    trees = grower.grow_forest(data, y, n_classes=3, n_trees=40, costs=costs)
    join([tree.arrays for tree in trees])                   # runs anywhere
    trees[0].statistics                                     # sums of the classes at every node

At a node with examples S every column t has the *risk*

    R(t) = min_g max_i  c(t) / (F(S) - F(S_g^i))

over its tests g with outcomes S_g^i: what is paid for each unit by which the impurity of the worst outcome falls. The column of
least risk is tested. This is GreedyTree of Nan, Wang and Saligrama, *Feature-Budgeted Random Forest* (ICML 2015).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.costs import BoundCosts
from anytime.forests.impurity import Impurity, Pairs
from anytime.trees.arrays import LEAF, MISSING_NAN, NUMERIC, TreeArrays
from anytime.trees.binning import BinnedData

__all__ = ["ClassTree", "ClassTreeGrower"]

Array = NDArray[np.float64]


@dataclass(frozen=True)
class ClassTreeGrower:
    """How trees are grown.

    Parameters
    ----------
    impurity : Impurity, default=Pairs()
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
    min_rows : int, default=1
        The fewest rows of an outcome.
    min_impurity : float, default=0.0
        A node with at most this impurity is a leaf.
    discount_reused : bool, default=False
        What the path has paid for is free in the risk of later tests.
    n_threads : int, default=1
        Trees grown at the same time.
    """

    impurity: Impurity = field(default_factory=Pairs)
    split: Literal["minimax", "expected"] = "minimax"
    tests: Literal["stumps", "multiway"] = "stumps"
    search: Literal["exhaustive", "random"] = "exhaustive"
    max_features: int | None = None
    max_depth: int | None = None
    min_rows: int = 1
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
        for name, least in (("max_features", 1), ("max_depth", 0), ("min_rows", 1), ("n_threads", 1)):
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
        n = data.n_rows
        at = np.arange(n) if rows is None else np.asarray(rows, dtype=np.int64)
        weights = np.ones(n) if weight is None else np.asarray(weight, dtype=np.float64)
        targets = np.asarray(y)
        if n_classes is None:
            statistics = weights[:, None] * np.vander(targets.astype(float), 3, increasing=True)
        else:
            statistics = weights[:, None] * (targets[:, None] == np.arange(n_classes))
        trees = []
        for t in range(first_tree, first_tree + n_trees):
            random = np.random.default_rng([random_state, t])
            drawn = at[random.integers(len(at), size=len(at))] if bootstrap else at
            in_bag = None if rows is None and not bootstrap else np.bincount(drawn, minlength=n)
            trees.append(_Slow(self, data, statistics, drawn, columns, costs, random, in_bag).tree())
        return trees


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
    in_bag : (n,) int or None
        How often each row was learned from; None: once each.
    """

    arrays: TreeArrays
    statistics: Array
    risk: Array
    depth: int
    in_bag: NDArray[np.int64] | None

    @cached_property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return int((self.arrays.feature == LEAF).sum())


class _Slow:
    def __init__(
        self,
        grower: ClassTreeGrower,
        data: BinnedData,
        statistics: Array,
        rows: NDArray[np.int64],
        columns: NDArray[np.bool_] | None,
        costs: BoundCosts | None,
        random: np.random.Generator,
        in_bag: NDArray[np.int64] | None,
    ) -> None:
        self.g, self.data, self.statistics, self.in_bag = grower, data, statistics, in_bag
        self.rows, self.costs, self.random = rows, costs, random
        self.bins = data.bins()
        self.cuts = [data.thresholds(j) for j in range(data.n_features)]
        self.columns = np.arange(data.n_features) if columns is None else np.flatnonzero(columns)
        self.nodes: list[dict[str, Any]] = []
        self.depth = 0

    def price(self, column: int, paid: frozenset[int]) -> int:
        if self.costs is None:
            return 1
        group = int(self.costs.column_group[column])
        if not self.g.discount_reused:
            paid = frozenset()
        return int(sum(self.costs.prices[g] for g in self.costs.table.closure(group) if g not in paid))

    def node(self, rows: NDArray[np.int64]) -> dict[str, Any]:
        sums = self.statistics[rows].sum(0)
        node = {"sums": sums, "feature": LEAF, "threshold": 0.0, "left": LEAF, "right": LEAF}
        node |= {"default": 0, "risk": np.nan}
        self.nodes.append(node)
        return node

    def tests(self, rows: NDArray[np.int64], column: int) -> Iterator[list[tuple[Any, NDArray[np.int64]]]]:
        bins = self.bins[rows, column]
        missing = bins == self.cuts[column].size + 1
        values = np.unique(bins[~missing])
        if self.g.tests == "multiway":
            outcomes = [(v, rows[bins == v]) for v in values]
            if missing.any():
                outcomes.append((None, rows[missing]))
            if len(outcomes) > 1:
                yield outcomes
            return
        last = len(values) if missing.any() else len(values) - 1
        cuts = np.arange(last)
        n = 80 if len(rows) > 2000 else 40 if len(rows) > 500 else 20
        if self.g.search == "random" and n < last:
            cuts = np.sort(self.random.choice(last, n, replace=False))
        for i in cuts:
            below = bins <= values[i]
            cut = values[i] if i + 1 < len(values) else self.cuts[column].size
            yield [((cut, False), rows[below & ~missing]), ((cut, False), rows[~below | missing])]
            if missing.any() and i + 1 < len(values):
                yield [((cut, True), rows[below | missing]), ((cut, True), rows[~(below | missing)])]

    def best(self, rows: NDArray[np.int64], F: float, paid: frozenset[int]) -> Any:
        best: Any = None
        columns = self.columns
        if self.g.max_features is not None:
            columns = self.random.permutation(columns)
        tried = 0
        for column in columns:
            if self.g.max_features is not None and tried >= self.g.max_features and best is not None:
                break
            any_test = False
            for outcomes in self.tests(rows, int(column)):
                any_test = True
                if min(len(r) for _, r in outcomes) < self.g.min_rows:
                    continue
                sums = np.array([self.statistics[r].sum(0) for _, r in outcomes])
                below = self.g.impurity(sums)
                size = sums.sum(1) if not self.g.impurity.regression else sums[:, 0]
                drop = F - (below.max() if self.g.split == "minimax" else (size * below).sum() / size.sum())
                if not drop > 0:
                    continue
                key = (self.price(int(column), paid) / drop, -drop, int(column))
                if best is None or key < best[0]:
                    best = key, int(column), outcomes
            tried += any_test
        return best

    def grow(self, rows: NDArray[np.int64], depth: int, paid: frozenset[int]) -> int:
        at = len(self.nodes)
        node = self.node(rows)
        self.depth = max(self.depth, depth)
        F = float(self.g.impurity(node["sums"][None])[0])
        if F <= self.g.min_impurity or depth == self.g.max_depth:
            return at
        best = self.best(rows, F, paid)
        if best is None:
            return at
        (risk, _, _), column, outcomes = best
        node["risk"] = risk
        if self.costs is not None:
            node["risk"] = risk * self.costs.costs.amount(1)
            paid = paid | set(self.costs.table.closure(int(self.costs.column_group[column])))
        below: Callable[[NDArray[np.int64]], int] = lambda r: self.grow(r, depth + 1, paid)  # noqa: E731
        node["feature"] = column
        if self.g.tests == "stumps":
            ((cut, default), left), (_, right) = outcomes
            cuts = self.cuts[column]
            node["threshold"] = cuts[cut] if cut < cuts.size else np.inf
            node["default"] = int(default)
            node["left"], node["right"] = below(left), below(right)
            return at
        self.expand(at, column, outcomes, below)
        return at

    def expand(self, at: int, column: int, outcomes: Any, below: Any) -> None:
        node, cuts = self.nodes[at], self.cuts[column]
        node["feature"] = column
        half = len(outcomes) - 1 if outcomes[-1][0] is None else len(outcomes) // 2
        low = outcomes[half - 1][0]
        node["threshold"] = np.inf if outcomes[-1][0] is None else cuts[low]
        for side, part in (("left", outcomes[:half]), ("right", outcomes[half:])):
            if len(part) == 1:
                node[side] = below(part[0][1])
                continue
            node[side] = len(self.nodes)
            self.node(np.concatenate([r for _, r in part]))
            self.expand(node[side], column, part, below)

    def tree(self) -> ClassTree:
        self.grow(self.rows, 0, frozenset())
        nodes = self.nodes
        n = len(nodes)
        sums = np.array([node["sums"] for node in nodes])
        regression = self.g.impurity.regression
        value = sums[:, 1:2] / sums[:, :1] if regression else sums / sums.sum(1, keepdims=True)
        arrays = TreeArrays(
            tree_start=np.array([0, n]),
            stage_start=np.array([0, 1]),
            feature=np.array([node["feature"] for node in nodes], np.int32),
            threshold=np.array([node["threshold"] for node in nodes], float),
            left=np.array([node["left"] for node in nodes], np.int32),
            right=np.array([node["right"] for node in nodes], np.int32),
            default_left=np.array([node["default"] for node in nodes], np.uint8),
            missing=np.full(n, MISSING_NAN, np.uint8),
            category_set=np.full(n, NUMERIC, np.int32),
            members_left=np.zeros(n, np.uint8),
            category_start=np.zeros(1, np.int64),
            categories=np.zeros(0, np.int32),
            value=value,
            tree_output=np.zeros(1, np.int32),
            n_outputs=value.shape[1],
            n_features=self.data.n_features,
        )
        risk = np.array([node["risk"] for node in nodes])
        return ClassTree(arrays, sums, risk, self.depth, self.in_bag)
