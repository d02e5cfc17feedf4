"""Trees by follow the regularised leader: grown anew, at growing intervals, on the rows seen so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from math import ceil
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from anytime._native import Forest
from anytime.blocks import State
from anytime.streaming.banks.bank import Array, Bank, StreamLearner
from anytime.trees.arrays import LEAF, MISSING_NAN, NUMERIC, TreeArrays
from anytime.trees.binning import BinnedData
from anytime.trees.block import TreeBlock
from anytime.trees.growing import TreeGrower, join


@dataclass(frozen=True)
class FtrlTree(StreamLearner):
    """Regression trees of bounded depth, refitted to the rows seen so far; the depth is the regulariser.

    At a refit ``h = argmin sum_s |q_s - h(x_s)|^2`` over trees of ``max_depth``, approximately: trees are grown greedily.
    Targets are those of the time when a row was seen. The learner of the theory, by which regret is measured; a model of such
    learners can be pickled, but not saved to a file.

    Parameters
    ----------
    max_depth : int, default=3
    buffer : int, default=5000
        Rows kept, a uniform sample of all once there are more.
    growth : float, default=1.2
        A refit follows when the rows seen have grown by this factor.
    min_samples_leaf : int, default=5
        The fewest rows of a leaf.
    stagger : int, default=20
        Rows by which a tree begins later than the one before it. 0: all begin at once, with nearly the same targets.
    """

    kind: ClassVar[str] = "ftrl_tree"
    standardises: ClassVar[bool] = False

    max_depth: int = 3
    buffer: int = 5000
    growth: float = 1.2
    min_samples_leaf: int = 5
    stagger: int = 20

    def __post_init__(self) -> None:
        self._check(counts="max_depth buffer min_samples_leaf")
        if self.stagger < 0:
            raise ValueError(f"stagger is {self.stagger}; it must not be negative")
        if not self.growth > 1:
            raise ValueError(f"growth is {self.growth}; it must be more than 1")

    def bank_type(self) -> Any:
        """What such learners are kept in."""
        return RefitBank


class RefitBank(Bank):
    """Trees that are grown anew. Which rows are kept depends on the stream alone, so that all learners share them."""

    learner: FtrlTree

    def __init__(self, learner: FtrlTree, *sizes: int) -> None:
        super().__init__(learner, *sizes)
        n_estimators = self.n_estimators
        self._rng = np.random.default_rng(self.random_state)
        self._rows = np.empty((0, self.n_features))
        self._weights = np.empty(0)
        self._arrived = np.empty(0, np.int64)  # when a kept row was seen
        self._targets = np.empty((n_estimators, 0, self.n_outputs))
        self._seen = 0
        self._born = learner.stagger * np.arange(n_estimators)  # rows seen before a learner began
        self._next = self._born + 1  # rows seen when it is grown again
        self._trees = [self._stump()] * n_estimators
        self._forest: Forest | None = None

    def predict(self, X: Array) -> Array:
        """(N, b, m) what every tree says of the rows."""
        if self._forest is None:
            self._forest = self.block().forest
        return self._forest.stage_outputs(X, np.arange(self.n_estimators))

    def update(self, X: Array, targets: Array, weight: Array | None = None) -> None:
        """Keep rows and their targets, and grow the trees whose turn it is: see ``Bank.update``."""
        for row in range(len(X)):
            w = 1.0 if weight is None else float(weight[row])
            if w > 0:
                self._keep(X[row], targets[:, row], w)
        if (self._next <= self._seen).any():
            self._refit()

    def _keep(self, x: Array, target: Array, weight: float) -> None:
        """Reservoir sampling: each row seen so far is kept with the same probability."""
        at = self._seen if self._seen < self.learner.buffer else int(self._rng.integers(self._seen + 1))
        self._seen += 1
        if at >= self.learner.buffer:
            return
        if at >= len(self._rows):
            room = min(self.learner.buffer, max(64, 2 * len(self._rows)))
            self._rows = np.resize(self._rows, (room, self.n_features))
            self._weights = np.resize(self._weights, room)
            self._arrived = np.resize(self._arrived, room)
            wider = np.zeros((self.n_estimators, room, self.n_outputs))
            wider[:, : self._targets.shape[1]] = self._targets
            self._targets = wider
        self._rows[at], self._weights[at], self._arrived[at] = x, weight, self._seen
        self._targets[:, at] = target

    def _refit(self) -> None:
        kept = min(self._seen, self.learner.buffer)
        data = BinnedData.fit(self._rows[:kept])
        grower = TreeGrower(
            max_leaf_nodes=None,
            max_depth=self.learner.max_depth,
            min_samples_leaf=self.learner.min_samples_leaf,
            min_weight=0.0,
        )
        weights = self._weights[:kept]
        for i in np.flatnonzero(self._next <= self._seen):
            rows = np.flatnonzero(self._arrived[:kept] > self._born[i])
            age = self._seen - self._born[i]
            if rows.size:
                targets = np.ascontiguousarray(self._targets[i, :kept])
                self._trees[i] = grower.grow(data, targets, weights, rows=rows).arrays
            self._next[i] = self._born[i] + max(age + 1, ceil(self.learner.growth * age))
        self._forest = None

    def append(self, n: int) -> None:
        """Add ``n`` trees, which learn from the rows that come from now on."""
        self._targets = np.concatenate([self._targets, np.zeros((n, *self._targets.shape[1:]))])
        first = self._seen or self.learner.stagger * self.n_estimators
        self._born = np.concatenate([self._born, first + self.learner.stagger * np.arange(n)])
        self._next = np.concatenate([self._next, self._born[-n:] + 1])
        self._trees = [*self._trees, *[self._stump()] * n]
        self.n_estimators += n
        self._forest = None

    def restart(self, learners: NDArray[np.bool_]) -> None:
        """Let the marked trees forget, and learn from the rows that come from now on."""
        self._born[learners], self._next[learners] = self._seen, self._seen + 1
        self._trees = [
            self._stump() if marked else tree for tree, marked in zip(self._trees, learners, strict=True)
        ]
        self._forest = None

    def _stump(self) -> TreeArrays:
        """A tree of one leaf that says nothing."""
        return TreeArrays(
            tree_start=np.array([0, 1], np.int64),
            stage_start=np.array([0, 1], np.int64),
            feature=np.full(1, LEAF, np.int32),
            threshold=np.zeros(1),
            left=np.full(1, LEAF, np.int32),
            right=np.full(1, LEAF, np.int32),
            default_left=np.zeros(1, np.uint8),
            missing=np.full(1, MISSING_NAN, np.uint8),
            category_set=np.full(1, NUMERIC, np.int32),
            members_left=np.zeros(1, np.uint8),
            category_start=np.zeros(1, np.int64),
            categories=np.zeros(0, np.int32),
            value=np.zeros((1, self.n_outputs)),
            tree_output=np.zeros(1, np.int32),
            n_outputs=self.n_outputs,
            n_features=self.n_features,
        )

    def block(self) -> TreeBlock:
        """The trees as they are now."""
        return TreeBlock(join(self._trees))

    # ------------------------------------------------------------------ files

    def state(self) -> State:
        """Rows, targets, trees, and what the sample of rows goes on with."""
        kept = min(self._seen, self.learner.buffer)
        description: dict[str, Any] = {
            "kind": self.learner.kind,
            "learner": asdict(self.learner),
            "n_features": self.n_features,
            "n_outputs": self.n_outputs,
            "random_state": self.random_state,
            "seen": self._seen,
            "generator": self._rng.bit_generator.state,
        }
        arrays: dict[str, NDArray[Any]] = {
            "rows": self._rows[:kept],
            "weights": self._weights[:kept],
            "arrived": self._arrived[:kept],
            "targets": self._targets[:, :kept],
            "born": self._born,
            "next": self._next,
        }
        trees = join(self._trees).asdict()
        description["float32_input"] = trees["float32_input"]
        arrays |= {f"tree.{name}": part for name, part in trees.items() if isinstance(part, np.ndarray)}
        return description, {name: array.copy() for name, array in arrays.items()}

    @classmethod
    def from_state(
        cls, learner: FtrlTree, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> Self:
        """Read what ``state`` gave."""
        n_features, n_outputs = int(description["n_features"]), int(description["n_outputs"])
        bank = cls(learner, arrays["born"].size, n_features, n_outputs, int(description["random_state"]))
        bank._seen = int(description["seen"])
        bank._rng.bit_generator.state = description["generator"]
        bank._rows, bank._weights, bank._arrived, bank._targets, bank._born, bank._next = (
            np.array(arrays[name]) for name in ("rows", "weights", "arrived", "targets", "born", "next")
        )
        trees: dict[str, Any] = {"n_outputs": n_outputs, "n_features": n_features}
        trees["float32_input"] = bool(description["float32_input"])
        trees |= {name[5:]: part for name, part in arrays.items() if name.startswith("tree.")}
        joined = TreeArrays(**trees)
        bank._trees = [single_tree(joined, i) for i in range(bank.n_estimators)]
        return bank


def single_tree(table: TreeArrays, i: int) -> TreeArrays:
    """Tree ``i`` by itself."""
    nodes = slice(int(table.tree_start[i]), int(table.tree_start[i + 1]))
    names = (
        "feature",
        "threshold",
        "left",
        "right",
        "default_left",
        "missing",
        "category_set",
        "members_left",
    )
    return replace(
        table,
        tree_start=np.array([0, nodes.stop - nodes.start], np.int64),
        stage_start=np.array([0, 1], np.int64),
        value=table.value[nodes],
        tree_output=table.tree_output[i : i + 1],
        **{name: getattr(table, name)[nodes] for name in names},
    )
