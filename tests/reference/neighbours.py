"""Purchases by neighbours, as plainly as they can be written: every distance and every loss from the definition."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np


def groups(block: Any) -> Any:
    """(m,) the group of each input, steps included."""
    own = block.costs.column_group[block.inputs.column]
    return np.concatenate([own, own[block.steps.source]])


def answers(block: Any, inputs: Any, owned: Any, fold: int) -> Any:
    """(n, K) what one network says of rows that own the same groups."""
    nets, group = block.networks, groups(block)
    hidden = np.concatenate([inputs * owned[group], np.tile(owned, (len(inputs), 1))], axis=1)
    hidden = np.maximum(hidden @ nets.w1[fold] + nets.b1[fold], 0.0)
    hidden = np.maximum(hidden @ nets.w2[fold] + nets.b2[fold], 0.0)
    return hidden @ nets.w3[fold] + nets.b3[fold]


def losses(block: Any, points: Any, owned: Any, floor: float = 0.05) -> Any:
    """(k,) loss of reference rows by the networks that have not seen them."""
    reference = block.reference
    out = np.empty(len(points))
    for i, point in enumerate(points):
        said = answers(
            block, block.steps.expanded(reference.rows[point][None]), owned, int(reference.fold[point])
        )[0]
        if reference.labels is None:
            out[i] = ((said - reference.values[point]) ** 2).sum()
        else:
            odds = np.exp(said - said.max())
            out[i] = -np.log(odds[reference.labels[point]] / odds.sum() + floor)
    return out


def neighbours(block: Any, row: Any, owned: Any) -> Any:
    """Places of the nearest reference rows, increasing."""
    measured = block.inputs.column.size
    apart = (block.reference.rows.astype(float) - row[:measured]) ** 2 @ owned[
        groups(block)[:measured]
    ].astype(float)
    return np.sort(np.argsort(apart, kind="stable")[: block.n_neighbors])


def gains(block: Any, row: Any, owned: Any) -> Any:
    """(G,) by how much each group with what it requires lowers the mean loss of the neighbours; NaN: owned, or no input."""
    n = len(block.reference.rows)
    near = neighbours(block, row, owned) if owned.any() else np.arange(n)
    now = losses(block, near, owned)
    out = np.full(block.costs.n_groups, np.nan)
    for g in block.candidates:
        if not owned[g]:
            out[g] = np.mean(now - losses(block, near, owned | closed(block, [g])))
    return out


def closed(block: Any, groups: Any) -> Any:
    """(G,) groups with all that they require."""
    mask = np.zeros(block.costs.n_groups, dtype=bool)
    for g in itertools.chain(*(block.costs.table.closure(int(g)) for g in groups)):
        mask[g] = True
    return mask
