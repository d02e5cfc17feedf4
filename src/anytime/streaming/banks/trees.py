"""Hoeffding histogram trees: regression trees that grow as rows arrive, in constant memory.

A leaf keeps the mean of its targets and, for every column it may split, counts and sums of targets per bin. Every ``grace`` rows
it looks for the best split, and splits when Hoeffding's bound says that the best column is better than the second best (Domingos
and Hulten 2000; for regression Ikonomovska, Gama and Dzeroski 2011), or that they are so close that either will do.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from anytime import _native
from anytime.streaming.banks.bank import StreamLearner
from anytime.streaming.banks.native import NativeBank
from anytime.trees.arrays import LEAF, MISSING_NAN, NUMERIC, TreeArrays
from anytime.trees.block import TreeBlock

_FEWEST = 5  # columns of a tree by default, where there are so many


@dataclass(frozen=True)
class HoeffdingTree(StreamLearner):
    """Regression trees that grow on a stream.

    Trees start one after the other, ``stagger`` rows apart, and output 0 before: by then earlier trees have learned something,
    and the next one has targets of its own. Without this, all trees would grow alike.

    Parameters
    ----------
    max_depth : int, default=10
    max_leaf_nodes : int, default=128
    grace : int, default=25
        Rows of a leaf between two searches for a split.
    delta : float, default=0.5
        Probability that a split is not on the best column (of Hoeffding's bound), and, as a coarse upper bound, that a split
        gains nothing. In a boosted model, superfluous splits do little harm.
    tie : float, default=0.1
        Also split if the bound is below this: the two best columns are about equally good.
    max_bins : int, default=32
        Bins per column, shared by all trees; a missing value has one more.
    max_features : int, float, "sqrt", "auto" or None, default="auto"
        Columns of a tree, drawn at random: a number, a share of them, their square root; "auto": half of them, and at least 5;
        None: all.
    stagger : int, default=10
        Number of rows by which each tree starts after the one before it.
    fade : float, default=1.5
        The n-th row of a leaf counts like ``n^fade`` in its mean (polynomial decay, Shamir and Zhang 2013), because early
        targets come from earlier trees that had not learned yet. 0: all rows have equal weight.
    memory : int or None, default=None
        Approximate number of recent rows that a leaf averages over. None: all rows.

    Notes
    -----
    A split also has to gain more than the best of all cuts would gain by chance. Memory is bounded: the counts of a tree have
    128 kilobytes (512 for large leaves), which leaves use in turn; a full tree keeps only means.
    """

    kind: ClassVar[str] = "hoeffding_tree"
    standardises: ClassVar[bool] = False

    max_depth: int = 10
    max_leaf_nodes: int = 128
    grace: int = 25
    delta: float = 0.5
    tie: float = 0.1
    max_bins: int = 32
    max_features: int | float | Literal["sqrt", "auto"] | None = "auto"
    stagger: int = 10
    fade: float = 1.5
    memory: int | None = None

    def __post_init__(self) -> None:
        for name, least, most in (
            ("max_depth", 1, 30),
            ("max_leaf_nodes", 2, 32767),
            ("grace", 1, None),
            ("max_bins", 2, 255),
            ("stagger", 0, None),
        ):
            value = getattr(self, name)
            if value < least or (most is not None and value > most):
                span = f"at least {least}" if most is None else f"from {least} to {most}"
                raise ValueError(f"{name} is {value}; it must be {span}")
        if not 0 < self.delta < 1:
            raise ValueError(f"delta is {self.delta}; it must lie between 0 and 1")
        for name in ("tie", "fade"):
            if not 0 <= getattr(self, name) < np.inf:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be finite and not negative")
        if self.memory is not None and self.memory < 1:
            raise ValueError(f"memory is {self.memory}; it must be at least 1 row, or None")
        width_of(self.max_features, 1)

    def bank_type(self) -> Any:
        return HoeffdingBank


@dataclass(frozen=True)
class Stump(HoeffdingTree):
    """Hoeffding trees of one split."""

    kind: ClassVar[str] = "stump"

    max_depth: int = 1
    max_leaf_nodes: int = 2


class HoeffdingBank(NativeBank):
    """Trees that grow on a stream."""

    learner: HoeffdingTree

    def __init__(
        self, learner: HoeffdingTree, n_estimators: int, n_features: int, n_outputs: int, random_state: int
    ) -> None:
        super().__init__(learner, n_estimators, n_features, n_outputs, random_state)
        self.native = _native.StreamTrees(
            n_learners=n_estimators,
            n_features=n_features,
            n_outputs=n_outputs,
            max_depth=learner.max_depth,
            max_leaves=learner.max_leaf_nodes,
            grace=learner.grace,
            confidence=learner.delta,
            tie=learner.tie,
            n_bins=learner.max_bins,
            width=width_of(learner.max_features, n_features),
            memory=float(learner.memory or 0),
            fade=learner.fade,
            stagger=learner.stagger,
            seed=random_state,
        )

    def columns(self, i: int) -> NDArray[np.int32]:
        return np.asarray(self.native.columns(i))

    def block(self) -> TreeBlock:
        state = self.native.nodes()
        n_nodes = state["column"].size
        split = state["column"] >= 0
        left = np.where(split, state["left"], LEAF).astype(np.int32)
        values = state["values"].reshape(n_nodes, self.n_outputs) * ~split[:, None]
        return TreeBlock(
            TreeArrays(
                tree_start=state["node_start"],
                stage_start=np.arange(self.n_estimators + 1, dtype=np.int64),
                feature=np.where(split, state["column"], LEAF).astype(np.int32),
                threshold=state["threshold"],
                left=left,
                right=np.where(split, left + 1, LEAF).astype(np.int32),
                default_left=state["missing_left"],
                missing=np.full(n_nodes, MISSING_NAN, np.uint8),
                category_set=np.full(n_nodes, NUMERIC, np.int32),
                members_left=np.zeros(n_nodes, np.uint8),
                category_start=np.zeros(1, np.int64),
                categories=np.zeros(0, np.int32),
                value=np.ascontiguousarray(values),
                tree_output=np.zeros(self.n_estimators, np.int32),
                n_outputs=self.n_outputs,
                n_features=self.n_features,
            )
        )


def width_of(max_features: int | float | str | None, n_features: int) -> int:
    """How many of ``n_features`` columns a learner may read."""
    if max_features is None:
        return n_features
    if max_features == "auto":
        return min(max(_FEWEST, round(0.5 * n_features)), n_features)
    if max_features == "sqrt":
        return max(1, round(float(np.sqrt(n_features))))
    if isinstance(max_features, str) or not max_features > 0:
        raise ValueError(
            f"max_features is {max_features!r}; it must be a positive number, 'sqrt', 'auto' or None"
        )
    if isinstance(max_features, int):
        return min(max_features, n_features)
    if max_features > 1:
        raise ValueError(f"max_features is {max_features}; a share of the columns is at most 1.0")
    return max(1, round(max_features * n_features))
