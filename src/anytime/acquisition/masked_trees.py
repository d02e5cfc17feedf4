"""Trees that answer from any set of groups, beside the networks: what a row does not own is missing to them.

On small tables, and where columns say little apart from thresholds, boosted trees predict better; on pixels, networks do. So
both are trained, and held-out rows say how much of the answer each has.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anytime._native import Forest
from anytime.acquisition.held_out_boosting import HeldOutBoosting
from anytime.acquisition.masked_networks import Floats, MaskedNetworks, Masks, Targets
from anytime.boosting.objective import MeanLoss
from anytime.losses import LINKS, training_loss
from anytime.plan import Array
from anytime.trees.arrays import LEAF
from anytime.trees.block import TreeBlock
from anytime.trees.clock import Clock

__all__ = ["MaskedTrees", "share_of_trees", "train_trees"]

# copies of rows to learn from, each with other groups hidden: at least and at most; and how many of one row at most
_COPIES, _MOST_OF_ONE = (40_000, 200_000), 40
_ROUNDS, _PATIENCE, _LEAVES = 400, 20, 63
_SHARES = 0.25, 0.5, 0.75, 1.0  # of an answer
_FEWEST_HELD = 20


class MaskedTrees(NamedTuple):
    """Boosted trees over m inputs, NaN where the group is not owned, and their share of the answer."""

    trees: TreeBlock  # one stage
    share: float

    def scaled(self, unit: Array) -> MaskedTrees:
        """The same that answers in other units, (K,)."""
        if (unit == 1.0).all():
            return self
        parts: dict[str, Any] = dict(self.trees.forest.arrays())
        return self._replace(trees=TreeBlock(Forest(**parts | {"value": parts["value"] * unit})))

    def blended(self, scores: Array, Z: Floats, owned: NDArray[np.bool_], group: NDArray[np.int32]) -> Array:
        """(n, K) scores of the networks, with the trees' share of it. ``group`` is of each of the inputs ``Z``."""
        m = self.trees.forest.n_features
        seen = np.where(owned[:, group[:m]], Z[:, :m].astype(np.float64), np.nan)
        return np.asarray(scores + self.share * (self.trees.outputs(0, seen) - scores))


def train_trees(
    Z: Floats,
    group: NDArray[np.int32],
    targets: Targets,
    fold: NDArray[np.int32],
    masks: Masks,
    *,
    n_read: int,
    networks: MaskedNetworks,
    clock: Clock,
    seed: int,
    n_threads: int,
) -> MaskedTrees | None:
    """Boosted trees, if rows of the first fold are answered better with them than by the network alone.

    Parameters
    ----------
    Z, group, targets, fold, masks
        As in ``train_networks``.
    n_read : int
        Trees read the first inputs only: the others are steps of these, which trees find by themselves.
    networks : MaskedNetworks
        What they are compared with.
    clock : Clock
    seed, n_threads : int
    """
    random, n = np.random.default_rng(seed), len(Z)
    if np.count_nonzero(fold == 0) < _FEWEST_HELD:
        return None
    rows = np.resize(random.permutation(n), min(max(_COPIES[0], n), _COPIES[1], _MOST_OF_ONE * n))
    owned = masks.draw(random, rows.size)
    seen = np.where(owned[:, group[:n_read]], Z[rows, :n_read].astype(np.float64), np.nan)
    held = np.flatnonzero(fold[rows] == 0)
    loss = training_loss("multinomial" if targets.are_classes else "squared")
    weight = None if targets.weight is None else targets.weight[rows].astype(np.float64)
    start = _constant(targets)
    trees = HeldOutBoosting(
        *(seen, MeanLoss(loss, targets.values[rows], weight), start, held),
        max_leaf_nodes=_LEAVES,
        min_samples_leaf=max(5 * rows.size // n, 5),
        n_threads=n_threads,
    )
    if not trees.judge(_ROUNDS, _PATIENCE, clock):
        return None
    judged = trees.judged
    by_trees = TreeBlock(judged.trees(judged.best, one_stage=True)).outputs(0, seen[held]) + start
    by_network = networks.scores(0, Z[rows[held]], owned[held], group).astype(np.float64)
    share = share_of_trees(by_network, by_trees, targets, rows[held])
    boosting = trees.refitted(clock) if share else None
    if boosting is None:
        return None
    clock.tell(f"{len(boosting.rounds)} rounds of trees have {share:.0%} of the answers")
    first = boosting.rounds[0][0]  # shared trees answer for all outputs
    first.value[first.feature == LEAF] += start
    return MaskedTrees(TreeBlock(boosting.trees(one_stage=True)), share)


def _constant(targets: Targets) -> Array:
    """(K,) the best answer to rows that own nothing."""
    if not targets.are_classes:
        return np.zeros(targets.n_outputs)
    counts = np.bincount(targets.values, weights=targets.weight, minlength=targets.n_outputs)
    return np.asarray(np.log(np.maximum(counts, 1e-3) / counts.sum()))


def share_of_trees(by_network: Array, by_trees: Array, targets: Targets, rows: NDArray[np.intp]) -> float:
    """The share of the trees with which held-out rows lose least; 0 where that gains less than one standard error.

    Parameters
    ----------
    by_network, by_trees : (h, K)
        Scores of copies of rows that neither has learned from.
    targets : Targets
    rows : (h,)
        The row of each copy.
    """
    distinct, of = np.unique(rows, return_inverse=True)
    values = targets.values[rows]
    weight = np.ones(distinct.size) if targets.weight is None else targets.weight[distinct].astype(np.float64)

    def losses(share: float) -> Array:
        """Of each row, the mean over its copies."""
        scores = by_network + share * (by_trees - by_network)
        if targets.are_classes:
            scores = LINKS["softmax"].transform(scores)
            scores[np.arange(rows.size), values] -= 1.0
        else:
            scores = scores - values
        return np.asarray(np.bincount(of, (scores**2).sum(axis=1)) / np.bincount(of))

    without = losses(0.0)
    gains = {share: weight * (without - losses(share)) for share in _SHARES}
    best = max(gains, key=lambda share: gains[share].mean())
    gain = gains[best]
    return best if gain.mean() > gain.std() / math.sqrt(gain.size) else 0.0
