"""Which kind of model, or which blend of several, is right for a set: decided on rows that none of them has learned from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anytime.boosting.objective import MeanLoss
from anytime.losses import LINKS
from anytime.plan import Array

__all__ = ["Decision", "decided", "row_losses"]

Rows = NDArray[np.intp]

_STEPS = 10  # in which the shares of a blend are tried
_MOST = 3  # kinds in a blend
_SIMPLEST_FIRST = ("linear", "trees", "forest", "products", "network")


class Decision(NamedTuple):
    """What answers for a set."""

    shares: dict[str, float]  # of the kinds
    loss: float  # mean, on rows that have neither been learned from nor decided on
    loss_of_trees: float  # of trees alone on the same rows
    error: float = 0.0  # standard error of the difference of the two

    @property
    def gain(self) -> float:
        """What is safe to say of the gain over trees: less a standard error, but not below nothing; a loss in full."""
        gain = self.loss_of_trees - self.loss
        return min(gain, max(gain - self.error, 0.0))


def row_losses(objective: MeanLoss, scores: Array, rows: Rows) -> Array:
    """(m,) what each of some rows is judged by: the loss; for classes the squared error of their probabilities."""
    link = LINKS[objective.loss.link]
    if not link.classifies:
        return np.asarray(objective.loss.per_row(scores, objective.y[rows]))
    probabilities = link.transform(scores)
    truth = np.asarray(objective.y[rows], dtype=np.intp)
    squares = np.einsum("nk,nk->n", probabilities, probabilities)
    return np.asarray(squares + 1.0 - 2.0 * probabilities[np.arange(truth.size), truth])


def decided(
    objective: MeanLoss, scores: Mapping[str, Array], rows: Rows, half: NDArray[np.bool_], *, few: bool
) -> Decision:
    """Shares of the kinds that answer best.

    What is told of their loss is measured across: each half of the rows judges what the other has decided. Kinds other than
    trees are taken only if they are better there or, where rows are few, if linear models are about as good.

    Parameters
    ----------
    scores : mapping from str to (m, K)
        Of rows that have not been learned from, by kind; "trees" among them.
    rows : (m,) int
    half : (m,) bool
        Which half each row is in.
    few : bool
        Whether the simplest kind is to be taken of those that are about as good as the best, and a blend only if it is better
        by more than a standard error.
    """
    weight = objective.shares(rows)
    losses = {kind: row_losses(objective, said, rows) for kind, said in scores.items()}
    of_trees = losses["trees"]
    shares = _best_shares(objective, scores, losses, rows, few)
    if set(shares) != {"trees"}:
        across = np.empty(rows.size)
        for judging in (half, ~half):
            decides = ~judging
            others = _best_shares(
                objective,
                {kind: said[decides] for kind, said in scores.items()},
                {kind: loss[decides] for kind, loss in losses.items()},
                rows[decides],
                few,
            )
            blended = _blended([scores[kind][judging] for kind in others], list(others.values()))
            across[judging] = row_losses(objective, blended, rows[judging])
        if weight @ across < weight @ of_trees or (few and set(shares) == {"linear"}):
            error = _standard_error(of_trees - across, weight)
            return Decision(shares, float(weight @ across), float(weight @ of_trees), error)
    return Decision({"trees": 1.0}, float(weight @ of_trees), float(weight @ of_trees))


def _best_shares(
    objective: MeanLoss, scores: Mapping[str, Array], losses: Mapping[str, Array], rows: Rows, few: bool
) -> dict[str, float]:
    """One kind, or a blend that is better than it; with few rows by more than a standard error of the difference."""
    weight = objective.shares(rows)
    ranked = sorted(losses, key=lambda kind: (float(weight @ losses[kind]), _SIMPLEST_FIRST.index(kind)))
    best = ranked[0]
    if few:
        level = [kind for kind in ranked if not _clearly_less(losses[best], losses[kind], weight)]
        best = min(level, key=_SIMPLEST_FIRST.index)
    kinds = list(dict.fromkeys([best, *ranked]))[:_MOST]
    least, parts = losses[best], [1.0, *[0.0] * (len(kinds) - 1)]
    said = [scores[kind] for kind in kinds]
    for steps in _simplex(len(kinds)):
        loss = row_losses(objective, _blended(said, steps), rows)
        if weight @ loss < weight @ least:
            least, parts = loss, steps
    if few and not _clearly_less(least, losses[best], weight):
        return {best: 1.0}
    return {kind: part for kind, part in zip(kinds, parts, strict=True) if part > 0}


def _simplex(n_kinds: int) -> list[list[float]]:
    """Shares that sum to 1, in steps of a tenth, of which at least two are positive."""
    whole = [[step] for step in range(_STEPS + 1)]
    for _ in range(n_kinds - 2):
        whole = [[*steps, step] for steps in whole for step in range(_STEPS + 1 - sum(steps))]
    ends = [[*steps, _STEPS - sum(steps)] for steps in whole] if n_kinds > 1 else []
    return [[step / _STEPS for step in steps] for steps in ends if max(steps) < _STEPS]


def _blended(scores: Sequence[Array], shares: Sequence[float]) -> Array:
    total = np.zeros_like(scores[0])
    for said, share in zip(scores, shares, strict=True):
        total += share * said
    return total


def _clearly_less(loss: Array, other: Array, weight: Array) -> bool:
    """Whether a mean is less than another by more than a standard error of their difference."""
    return float(weight @ (other - loss)) > _standard_error(other - loss, weight)


def _standard_error(differences: Array, weight: Array) -> float:
    """Of their weighted mean."""
    mean = float(weight @ differences)
    return float(np.sqrt(weight**2 @ (differences - mean) ** 2))
