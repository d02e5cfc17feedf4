"""A learned policy: trees that say by how much each group would lower the loss of a row, from what the row has.

They learn from reductions that really happened: copies of training rows with other groups hidden, the loss of each by the network
that was trained without it, and its loss with one group more (after DIME: Gadgil, Covert and Lee, *Estimating conditional mutual
information for dynamic feature selection*, 2024, with trees instead of a network).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from anytime.acquisition.held_out_boosting import HeldOutBoosting
from anytime.acquisition.masked_networks import Floats, MaskedNetworks, Masks, Targets
from anytime.blas import blas_threads
from anytime.boosting.objective import MeanLoss
from anytime.boosting.rounds import GradientRounds
from anytime.losses import LINKS, training_loss
from anytime.plan import Array
from anytime.trees.arrays import LEAF
from anytime.trees.block import TreeBlock
from anytime.trees.clock import Clock

__all__ = ["LearnedDrops", "train_values", "what_trees_see"]

_STATES, _FEWEST = 20_000, 400  # copies of rows to learn from, and how many there have to be
_PER_ROW = 40  # copies of one row at most
_ROUNDS, _PATIENCE, _LEAVES, _LEAST_LEAF = 150, 15, 31, 40
_AT_ONCE = 2_000  # states whose losses are worked out together


class LearnedDrops(NamedTuple):
    """Trees of one stage, with an output for each group that may be bought."""

    of_all: TreeBlock
    honest: TreeBlock  # which have not seen the first fold


def what_trees_see(
    Z: Floats, owned: NDArray[np.bool_], group: NDArray[np.int32], scores: Array, are_classes: bool
) -> Array:
    """(n, m + K + G) of rows: inputs of what they own, what is answered by that, and which groups they own.

    Parameters
    ----------
    Z : (n, m)
        Inputs.
    owned : (n, G)
    group : (m,)
        The group of each input.
    scores : (n, K)
        What the networks say.
    are_classes : bool
        Whether these are of classes, whose probabilities are seen.
    """
    said = LINKS["softmax"].transform(scores) if are_classes else scores
    return np.concatenate([np.where(owned[:, group], Z, np.nan), said, owned], axis=1, dtype=np.float64)


def train_values(
    Z: Floats,
    group: NDArray[np.int32],
    targets: Targets,
    fold: NDArray[np.int32],
    masks: Masks,
    *,
    n_read: int,
    networks: MaskedNetworks,
    candidates: NDArray[np.intp],
    required: NDArray[np.bool_],
    floor: float,
    clock: Clock,
    seed: int,
    n_threads: int,
) -> LearnedDrops | None:
    """Trees that say what groups are worth; None where there are too few rows or too little time, or nothing is found.

    Parameters
    ----------
    Z, group, targets, fold, masks
        As in ``train_networks``.
    n_read : int
        Trees read the first inputs only.
    networks : MaskedNetworks
        What rows lose by.
    candidates : (C,)
        Groups that may be bought.
    required : (G, G) bool
        Each group with what it requires.
    floor : float
        Added to the probability of the true class.
    clock : Clock
    seed, n_threads : int
    """
    random, n = np.random.default_rng(seed), len(Z)
    rows = np.resize(random.permutation(n), min(_STATES, _PER_ROW * n))
    owned = masks.draw(random, rows.size)
    said, drops = np.empty((rows.size, targets.n_outputs)), np.empty((rows.size, candidates.size))
    of_group = [np.flatnonzero(group == g) for g in range(owned.shape[1])]
    with blas_threads(1):  # the same bits on any number of cores
        for f in range(int(fold.max()) + 1):
            of_fold = np.flatnonzero(fold[rows] == f)
            for some in np.array_split(of_fold, of_fold.size // _AT_ONCE + 1):
                answers = _Answers(networks, f, of_group, Z[rows[some]], owned[some])
                said[some] = answers.scores()
                now = _losses(said[some], targets, rows[some], floor)
                for place, g in enumerate(candidates):
                    then = _losses(answers.scores(required[g]), targets, rows[some], floor)
                    drops[some, place] = now - then
                if clock.over:
                    return None
    held = np.flatnonzero(fold[rows] == 0)
    mean, spread = drops.mean(axis=0), float(drops.std())
    if min(held.size, rows.size - held.size) < _FEWEST or not spread > 0:
        return None
    trees = HeldOutBoosting(
        what_trees_see(Z[rows, :n_read], owned, group[:n_read], said, targets.are_classes),
        MeanLoss(training_loss("squared"), (drops - mean) / spread),
        np.zeros(candidates.size),
        held,
        max_leaf_nodes=_LEAVES,
        min_samples_leaf=max(5 * rows.size // n, _LEAST_LEAF),
        n_threads=n_threads,
    )
    final = trees.refitted(clock) if trees.judge(_ROUNDS, _PATIENCE, clock) else None
    if final is None:
        return None
    judged = trees.judged
    clock.tell(f"{len(final.rounds)} rounds of trees say what purchases are worth")
    return LearnedDrops(
        _in_units(final, len(final.rounds), mean, spread), _in_units(judged, judged.best, mean, spread)
    )


def _in_units(boosting: GradientRounds, n_rounds: int, mean: Array, spread: float) -> TreeBlock:
    """Trees that say reductions of the loss themselves."""
    for number, (tree,) in enumerate(boosting.rounds[:n_rounds]):  # shared trees answer for all outputs
        leaves = tree.feature == LEAF
        tree.value[leaves] = tree.value[leaves] * spread + (mean if number == 0 else 0.0)
    return TreeBlock(boosting.trees(n_rounds, one_stage=True))


class _Answers:
    """What one network says of rows, by what they own and by more: what a group adds to the first layer is worked out once."""

    def __init__(
        self,
        networks: MaskedNetworks,
        f: int,
        of_group: list[NDArray[np.intp]],  # inputs of each group
        Z: Floats,
        owned: NDArray[np.bool_],
    ) -> None:
        self._networks, self._f, self._owned = networks, f, owned
        w1, m = networks.w1[f], Z.shape[1]
        self._added = [Z[:, own] @ w1[own] + w1[m + g] for g, own in enumerate(of_group)]
        self._first = np.tile(networks.b1[f], (len(Z), 1))
        for g, added in enumerate(self._added):
            self._first += added * owned[:, [g]]

    def scores(self, more: NDArray[np.bool_] | None = None) -> Floats:
        """(n, K) by what they own, and the groups ``more``, (G,), as well."""
        networks, f, first = self._networks, self._f, self._first.copy()
        for g in np.flatnonzero(more) if more is not None else ():
            first += self._added[g] * ~self._owned[:, [g]]
        two = np.maximum(np.maximum(first, 0.0) @ networks.w2[f] + networks.b2[f], 0.0)
        return np.asarray(two @ networks.w3[f] + networks.b3[f])


def _losses(scores: NDArray[Any], targets: Targets, rows: NDArray[np.intp], floor: float) -> Array:
    """(n,) as neighbours lose: squares, or the logarithm of the true class's probability and ``floor``."""
    if not targets.are_classes:
        return np.asarray(np.square(scores - targets.values[rows]).sum(axis=1), dtype=np.float64)
    told = LINKS["softmax"].transform(scores.astype(np.float64))
    return np.asarray(-np.log(told[np.arange(rows.size), targets.values[rows]] + floor))
