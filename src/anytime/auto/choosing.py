"""How much each member of an ensemble counts, by what it says of rows that it has not learned from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from anytime.boosting.objective import MeanLoss
from anytime.losses import LINKS
from anytime.plan import Array

__all__ = ["Ensemble", "excess", "row_losses", "weighed"]

Rows = NDArray[np.intp]

_STEPS = 10  # members that are added to an ensemble, one after the other; one may come again
_HALVINGS = 3  # of the rows, each half of which chooses shares that the other judges
_LEAST_SHARE = 0.03  # below which a member is left out
_MOST_ROWS = 10_000  # that choose


class Ensemble(NamedTuple):
    """Members with their shares, and how good they are together."""

    shares: Array  # (M,), 0 for members that are left out
    losses: Array  # (m,) of rows, each by shares that other rows have chosen


def row_losses(objective: MeanLoss, scores: Array, rows: Rows) -> Array:
    """(m,) what each of some rows is judged by: the loss; for classes the squared error of their probabilities."""
    link = LINKS[objective.loss.link]
    if not link.classifies:
        return np.asarray(objective.loss.per_row(scores, objective.y[rows]))
    probabilities = link.transform(scores)
    truth = np.asarray(objective.y[rows], dtype=np.intp)
    squares = np.einsum("nk,nk->n", probabilities, probabilities)
    return np.asarray(squares + 1.0 - 2.0 * probabilities[np.arange(truth.size), truth])


def weighed(
    objective: MeanLoss, scores: Sequence[Array], rows: Rows, random: np.random.RandomState
) -> Ensemble:
    """Shares by greedy selection with replacement (Caruana et al. 2004): the mean of those that halves of the rows choose.

    Every half is judged by the shares that the other has chosen. So the loss of an ensemble is as honest as that of a single
    model, and shares that only some rows like are small.

    Parameters
    ----------
    scores : sequence of (m, K)
        What each member says of ``rows``, which it has not learned from.
    rows : (m,) int
    """
    members, shares, losses = np.array(scores), np.zeros(len(scores)), np.zeros(rows.size)
    for _ in range(_HALVINGS):
        shuffled = random.permutation(rows.size)
        for choosing, judging in _both_ways(np.array_split(shuffled, 2)):
            own = _selected(objective, members[:, choosing[:_MOST_ROWS]], rows[choosing[:_MOST_ROWS]])
            shares += own / (2 * _HALVINGS)
            together = np.tensordot(own, members[:, judging], axes=1)
            losses[judging] += row_losses(objective, together, rows[judging]) / _HALVINGS
    shares[shares < _LEAST_SHARE] = 0.0
    return Ensemble(shares / shares.sum(), losses)


def _both_ways(halves: list[Rows]) -> list[tuple[Rows, Rows]]:
    first, second = halves
    return [(first, second), (second, first)]


def _selected(objective: MeanLoss, members: Array, rows: Rows) -> Array:
    """(M,) shares: each step adds the member with which the mean of all that were added is best."""
    weight, counts, total = objective.shares(rows), np.zeros(len(members)), np.zeros(members.shape[1:])
    if len(members) == 1:
        return np.ones(1)
    for step in range(1, _STEPS + 1):
        losses = [weight @ row_losses(objective, (total + member) / step, rows) for member in members]
        best = int(np.argmin(losses))
        counts[best] += 1
        total += members[best]
    return counts / _STEPS


def excess(losses: Array, others: Array, weight: Array) -> tuple[float, float]:
    """By how much the mean loss of one model exceeds that of another on the same rows, and the standard error of that."""
    differences = losses - others
    mean = float(weight @ differences)
    return mean, float(np.sqrt(weight**2 @ (differences - mean) ** 2))
