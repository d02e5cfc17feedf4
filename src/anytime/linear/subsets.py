"""The value of every set of groups, for squared loss.

All ``2^J`` values come from one tree of eliminations: groups are decided one after the other, and a set that takes a group
eliminates its columns from all that are still undecided. Most sets branch off late, when few columns are left, so that a set
costs a few operations on single blocks rather than a factorisation of its own: ``O(2^J d³)`` in all for groups of ``d`` columns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_DEPENDENT = 1e-10  # share of a column's variance below which what is left of it is rounding error
_BYTES = 1 << 27  # of undecided blocks held at a time


def values_of_all_sets(C: Array, V: Array, start: NDArray[np.int64]) -> Array:
    """(2^J,) ``F(A) = tr(V_A' C_A⁻¹ V_A) / 2`` of every set ``A`` of groups; bit ``g`` of an index stands for group ``g``."""
    n_groups = start.size - 1
    floor = np.maximum(_DEPENDENT * np.diag(C), np.finfo(float).tiny)
    values = np.zeros(2**n_groups)
    batches = [(0, _Batch(np.zeros(1, dtype=np.int64), np.zeros(1), np.hstack([C, V])[None]))]
    while batches:
        g, batch = batches.pop()
        if g == n_groups:
            values[batch.sets] = batch.values
        elif batch.sets.size > 1 and 2 * batch.rest.nbytes > _BYTES:
            batches += [(g, half) for half in batch.halves()]
        else:
            batches.append((g + 1, _decide(batch, g, floor[start[g] : start[g + 1]])))
    return values


@dataclass(frozen=True, eq=False)
class _Batch:
    """Sets that agree on which groups are decided."""

    sets: NDArray[np.int64]  # (B,): bits of the groups taken so far
    values: Array  # (B,)
    # (B, m, m + P): the columns still undecided, less the effect of those taken: covariance, and correlation
    # with the targets
    rest: Array

    def halves(self) -> list[_Batch]:
        """The first and the second half of the sets."""
        parts = (slice(0, self.sets.size // 2), slice(self.sets.size // 2, None))
        return [_Batch(self.sets[part], self.values[part], self.rest[part]) for part in parts]


def _decide(batch: _Batch, g: int, floor: Array) -> _Batch:
    """Every set without and with group ``g``, whose columns stand first."""
    q = floor.size
    rows = _orthonormal_rows(batch.rest[:, :q], floor)
    gains = 0.5 * (rows[:, :, batch.rest.shape[1] :] ** 2).sum(axis=(1, 2))
    without = batch.rest[:, q:, q:]
    undecided = rows[:, :, q:]
    with_it = without - undecided[:, :, : without.shape[1]].transpose(0, 2, 1) @ undecided
    return _Batch(
        np.concatenate([batch.sets, batch.sets | 1 << g]),
        np.concatenate([batch.values, batch.values + gains]),
        np.concatenate([without, with_it]),
    )


def _orthonormal_rows(block: Array, floor: Array) -> Array:
    """``L⁻¹ [A, R]`` for blocks ``[A, R]`` (B, q, m) with ``A = L L'``; a dependent column's row is zero."""
    rows = block.copy()
    for j in range(floor.size):
        pivot = rows[:, j, j]
        kept = pivot > floor[j]
        rows[:, j] *= np.where(kept, 1.0 / np.sqrt(np.where(kept, pivot, 1.0)), 0.0)[:, None]
        if j + 1 < floor.size:
            rows[:, j + 1 :] -= rows[:, j, j + 1 : floor.size, None] * rows[:, j, None]
    return rows
