"""Which kind of model, or which blend of several, is right for a set: decided on rows that none of them has learned from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from anytime.boosting.objective import MeanLoss
from anytime.losses import LINKS
from anytime.plan import Array

__all__ = ["chosen", "row_losses"]

Rows = NDArray[np.intp]

_STEP = 0.1  # of the shares that are tried in a blend
_MOST = 3  # kinds in a blend
_SIMPLE = ("linear", "trees", "forest", "products", "network")  # from simple to not
_FEW = 1_000  # rows below which the simplest of those that are about as good is taken


def row_losses(objective: MeanLoss, scores: Array, rows: Rows) -> Array:
    """(m,) what each of some rows is judged by: the loss; for classes the squared error of their probabilities."""
    link = LINKS[objective.loss.link]
    if not link.classifies:
        return np.asarray(objective.loss.per_row(scores, objective.y[rows]))
    probabilities = link.transform(scores)
    truth = np.asarray(objective.y[rows], dtype=np.intp)
    squares = np.einsum("nk,nk->n", probabilities, probabilities)
    return np.asarray(squares + 1.0 - 2.0 * probabilities[np.arange(truth.size), truth])


def chosen(objective: MeanLoss, scores: Mapping[str, Array], rows: Rows) -> tuple[dict[str, float], float]:
    """Shares of the kinds that answer best, and by how much less their mean loss is than that of trees alone.

    A blend has to be better than the best kind by more than a standard error of the difference. Where rows are few, a simpler
    kind is taken instead of the best where it is within a standard error of it.

    Parameters
    ----------
    scores : mapping from str to (m, K)
        Of rows that have not been learned from, by kind; "trees" among them.
    rows : (m,) int
    """
    weight = objective.shares(rows)
    losses = {kind: row_losses(objective, said, rows) for kind, said in scores.items()}
    mean = {kind: float(weight @ loss) for kind, loss in losses.items()}
    ranked = sorted(mean, key=lambda kind: (mean[kind], _SIMPLE.index(kind)))
    best = ranked[0]
    if rows.size < _FEW:
        level = [kind for kind in ranked if not _clearly_less(losses[best], losses[kind], weight)]
        best = min(level, key=_SIMPLE.index)
    shares, loss = {best: 1.0}, losses[best]
    blended = ranked[:_MOST] if best in ranked[:_MOST] else [best, *ranked[: _MOST - 1]]
    candidate = _blended(objective, [scores[kind] for kind in blended], rows, weight)
    if candidate is not None and _clearly_less(candidate[1], loss, weight):
        parts, loss = candidate
        shares = {kind: share for kind, share in zip(blended, parts, strict=True) if share > 0}
    return shares, mean["trees"] - float(weight @ loss)


def _clearly_less(loss: Array, other: Array, weight: Array) -> bool:
    """Whether a mean is less than another by more than a standard error of their difference."""
    difference = other - loss
    mean = float(weight @ difference)
    return mean > float(np.sqrt(weight**2 @ (difference - mean) ** 2))


def _blended(
    objective: MeanLoss, scores: Sequence[Array], rows: Rows, weight: Array
) -> tuple[Sequence[float], Array] | None:
    """Of all shares in steps of a tenth those of least mean loss, and that of each row."""
    if len(scores) < 2:
        return None
    n = round(1 / _STEP)
    steps = [
        (i, j, n - i - j) if len(scores) > 2 else (i, n - i)
        for i in range(n + 1)
        for j in (range(n - i + 1) if len(scores) > 2 else (0,))
    ]
    best: tuple[Sequence[float], Array] | None = None
    for step in steps:
        shares = [part / n for part in step]
        said = np.einsum("s,snk->nk", shares, np.array(scores))
        loss = row_losses(objective, said, rows)
        if best is None or weight @ loss < weight @ best[1]:
            best = shares, loss
    return best
