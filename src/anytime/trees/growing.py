"""Growing trees on bins, with prices on the columns.

    data = BinnedData.fit(X)                                # once
    grower = TreeGrower(max_leaf_nodes=31, n_threads=2)
    tree = grower.grow(data, residuals, sample_weight)      # regression; (n, K) targets: one tree with K outputs
    tree = grower.grow_newton(data, gradient, hessian)      # boosting
    tree.arrays                                             # TreeArrays: real thresholds, runs anywhere
    scores += 0.1 * tree.outputs()                          # of the training rows; or update_scores(...)
    tree.leaf_of(data.transform(X_valid))                   # other rows

With ``costs`` and a ``cost_penalty`` a split on a column that neither the ensemble (``bought``) nor the tree itself has paid for
must be worth ``cost_penalty`` x its price; what it pays for, it may use again for nothing. Growth is best first, so that what is
bought early is known everywhere. Sums are whole numbers: any number of threads gives the same tree, bit by bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime import _native
from anytime.costs import BoundCosts
from anytime.trees.arrays import LEAF, TreeArrays
from anytime.trees.binning import BinnedData

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TreeGrower:
    """How trees are grown."""

    max_leaf_nodes: int | None = 31
    max_depth: int | None = None  # None: no limit
    min_samples_leaf: int = 20  # the fewest rows of a leaf
    min_weight: float = 1e-3  # the least weight (sum of hessians) of a leaf
    # leaves minimise ``sum_i weight_i |target_i - value|^2 + l2_regularization |value|^2``
    l2_regularization: float = 0.0
    min_gain: float = 0.0  # a split is made when its gain, less what it has to pay, is more than this
    cost_penalty: float = 0.0  # price of a unit of cost, in units of the impurity (λ)
    # the impurity: ``1/2 sum_i weight_i |target_i - value|^2``, or the mean of ``weight_i |target_i -
    # value|^2`` over the rows. With n rows a penalty of λ in the second is one of n λ / 2 in the first
    scale: Literal["half_sum", "mean"] = "half_sum"
    # "vote": a leaf answers 1 for the output with the largest weighted sum and 0 for the others
    leaf: Literal["mean", "vote"] = "mean"
    n_threads: int = 1
    peers: Any = (
        None  # others that grow the same tree on rows of their own: rank, size and exchange(messages)
    )

    def __post_init__(self) -> None:
        for name in ("max_leaf_nodes", "max_depth", "min_samples_leaf", "n_threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} is {value}; it must be at least 1")
        for name in ("min_weight", "l2_regularization", "cost_penalty"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must not be negative")
        if self.scale not in ("half_sum", "mean"):
            raise ValueError(f"scale is {self.scale!r}; it must be 'half_sum' or 'mean'")
        if self.leaf not in ("mean", "vote"):
            raise ValueError(f"leaf is {self.leaf!r}; it must be 'mean' or 'vote'")

    def grow(
        self,
        data: BinnedData,
        target: ArrayLike,  # (n,) or (n, K)
        weight: ArrayLike | None = None,  # (n,) or (n, K): None: 1 for every row
        *,
        rows: ArrayLike | None = None,  # (m,): rows to learn from, a row as often as it is named; None: all
        columns: NDArray[np.bool_] | None = None,  # (d,): columns that may be split on; None: all
        costs: BoundCosts | None = None,  # what columns cost; None: nothing
        # (n_groups,): groups that are paid for already, requirements included; None: none
        bought: NDArray[np.bool_] | None = None,
    ) -> GrownTree:
        """Grow a tree whose leaves hold weighted means of their targets."""
        return self._grow(data, target, weight, False, rows, columns, costs, bought)

    def grow_newton(
        self,
        data: BinnedData,
        gradient: ArrayLike,
        hessian: ArrayLike | None = None,
        *,
        rows: ArrayLike | None = None,
        columns: NDArray[np.bool_] | None = None,
        costs: BoundCosts | None = None,
        bought: NDArray[np.bool_] | None = None,
    ) -> GrownTree:
        """Grow a tree whose leaves hold Newton steps, ``-sum gradient / (sum hessian + l2_regularization)``.

        The same tree as ``grow`` with targets ``-gradient / hessian`` and weights ``hessian`` (None: 1). Arrays of float32
        are taken as they are.
        """
        return self._grow(data, gradient, hessian, True, rows, columns, costs, bought)

    def _grow(
        self,
        data: BinnedData,
        target: ArrayLike,
        weight: ArrayLike | None,
        newton: bool,
        rows: ArrayLike | None,
        columns: NDArray[np.bool_] | None,
        costs: BoundCosts | None,
        bought: NDArray[np.bool_] | None,
    ) -> GrownTree:
        if bought is not None and costs is None:
            raise ValueError("bought needs costs: it lists the groups that are paid for")
        native = _native.grow_tree(
            data.native,
            _numbers(target),
            None if weight is None else _numbers(weight),
            newton,
            None if rows is None else row_numbers(rows),
            None if columns is None else mask_of(columns, "columns"),
            None if costs is None else costs.table,
            1.0 if costs is None else costs.costs.amount(1),
            None if bought is None else mask_of(bought, "bought"),
            self._options(),
            *(() if self.peers is None else (self.peers,)),
        )
        return GrownTree(native, 0.0 if costs is None else costs.costs.amount(native.ticks), self.n_threads)

    def _options(self) -> _native.GrowOptions:
        return _native.GrowOptions(
            max_leaves=self.max_leaf_nodes or 0,
            max_depth=self.max_depth or 0,
            min_rows=self.min_samples_leaf,
            min_weight=self.min_weight,
            l2=self.l2_regularization,
            min_gain=self.min_gain,
            penalty=self.cost_penalty,
            mean_scale=self.scale == "mean",
            vote=self.leaf == "vote",
            threads=self.n_threads,
        )


class GrownTree:
    """A tree, and where the rows it was grown on have gone."""

    def __init__(self, native: _native.GrownTree, cost: float, n_threads: int = 1) -> None:
        self._native = native
        self._n_threads = n_threads
        # (n,): the leaf of every row of its data, also of those it did not learn from. Leaves are numbered in
        # the order of their nodes
        self.leaf: NDArray[np.int32] = native.leaf
        self.values: Array = native.values  # (n_leaves, K): what the leaves answer
        # how much less the impurity of the rows is than with a single leaf, prices not counted
        self.gain: float = native.gain
        self.cost = cost  # what its columns cost beyond what was bought

    @property
    def n_leaves(self) -> int:
        """Number of leaves."""
        return len(self.values)

    @cached_property
    def arrays(self) -> TreeArrays:
        """The tree with real thresholds, as a forest of one tree and one stage."""
        return TreeArrays(**self._native.arrays)

    @cached_property
    def columns(self) -> NDArray[np.int32]:
        """The columns it tests, increasing."""
        used = np.unique(self.arrays.feature)
        return np.asarray(used[used != LEAF], dtype=np.int32)

    def outputs(self) -> Array:
        """(n, K) its answers for the rows of its data."""
        return self.values[self.leaf]

    def leaf_of(self, data: BinnedData) -> NDArray[np.int32]:
        """(m,) the leaf of every row of other data, made by ``transform`` of the same bins."""
        return self._native.leaf_of(data.native, self._n_threads)


def join(trees: Sequence[TreeArrays], stages: ArrayLike | None = None) -> TreeArrays:
    """One forest out of several with the same outputs and columns, in their order; ``stages``: trees per stage, or one each."""
    if not trees:
        raise ValueError("there are no trees to join")
    shapes = {(t.n_outputs, t.n_features, t.value.shape[1], t.float32_input) for t in trees}
    if len(shapes) > 1:
        raise ValueError(f"the trees differ in (outputs, columns, width, float32): {sorted(shapes)}")
    n_trees = sum(t.n_trees for t in trees)
    per_stage = np.ones(n_trees, np.int64) if stages is None else np.asarray(stages, dtype=np.int64)
    if per_stage.sum() != n_trees:
        raise ValueError(f"stages has room for {per_stage.sum()} trees, there are {n_trees}")
    sets = np.cumsum([0] + [t.category_start.size - 1 for t in trees])
    joined: dict[str, Any] = {
        "tree_start": _stacked([t.tree_start for t in trees]),
        "category_start": _stacked([t.category_start for t in trees]),
        "stage_start": np.concatenate([[0], np.cumsum(per_stage)]),
        "category_set": np.concatenate(
            [np.where(t.category_set < 0, -1, t.category_set + s) for t, s in zip(trees, sets, strict=False)],
            dtype=np.int32,
        ),
        "n_outputs": trees[0].n_outputs,
        "n_features": trees[0].n_features,
        "float32_input": trees[0].float32_input,
    }
    for field in fields(TreeArrays):
        if field.name not in joined:
            joined[field.name] = np.concatenate([getattr(t, field.name) for t in trees])
    return TreeArrays(**joined)


def _stacked(starts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    """Offsets that begin where those before end."""
    ends = np.cumsum([0] + [start[-1] for start in starts])
    return np.concatenate([[0], *(s[1:] + e for s, e in zip(starts, ends, strict=False))]).astype(np.int64)


# ---------------------------------------------------------------------- the rest of a boosting step


def loss_derivatives(
    # ``1/2 (s - y)^2``, ``log(1 + exp(s)) - y s``, ``log sum_k exp(s_k) - s_y``
    kind: Literal["squared", "logistic", "softmax"],
    # (n, K): any layout; with ``order="F"`` the scores of an output stand side by side, which is faster
    scores: Array,
    y: ArrayLike,  # (n,) or (n, K): targets; 0 or 1; classes 0..K-1
    weight: ArrayLike | None = None,  # (n,)
    *,
    n_threads: int = 1,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """First and second derivatives of a loss by the scores, (n, K) of float32 each, columns contiguous.

    Notes
    -----
    The second derivative of softmax is only the diagonal, times K / (K - 1): scores may be shifted together without
    effect, so that K of them count for K - 1.
    """
    targets = np.ascontiguousarray(y, dtype=np.float64)
    weights = None if weight is None else np.ascontiguousarray(weight, dtype=np.float64)
    out = np.empty(scores.shape[::-1], np.float32).T, np.empty(scores.shape[::-1], np.float32).T
    _native.loss_derivatives(kind, scores, targets, weights, out[0].T, out[1].T, n_threads)
    return out


def update_scores(
    scores: Array,
    leaf: NDArray[np.int32],
    values: Array,
    rate: float = 1.0,
    output: int | None = None,
    *,
    n_threads: int = 1,
) -> None:
    """Add ``rate * values[leaf]`` to ``scores`` (n, K), in place; to one output only when ``output`` is given."""
    _native.update_scores(scores, leaf, values, rate, -1 if output is None else output, n_threads)


# ---------------------------------------------------------------------- checks


def _numbers(values: ArrayLike) -> NDArray[Any]:
    numbers = np.asarray(values)
    return np.ascontiguousarray(numbers, dtype=np.float32 if numbers.dtype == np.float32 else np.float64)


def row_numbers(rows: ArrayLike) -> NDArray[np.int64]:
    """(m,) numbers of rows, as the native growers take them."""
    numbers = np.asarray(rows)
    if numbers.dtype.kind not in "iu" and (numbers.size or numbers.dtype.kind == "b"):
        raise ValueError("rows must be numbers of rows; for a mask use np.flatnonzero")
    return np.ascontiguousarray(numbers, dtype=np.int64)


def mask_of(mask: ArrayLike, name: str) -> NDArray[np.bool_]:
    """A mask as the native growers take it."""
    entries = np.asarray(mask)
    if entries.dtype != np.bool_:
        raise ValueError(f"{name} must be a mask of booleans, not {entries.dtype}")
    return np.ascontiguousarray(entries)
