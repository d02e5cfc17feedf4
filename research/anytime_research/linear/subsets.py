"""The best that a budget could buy, by looking at every set of groups: what sequences are measured against.

This is "OPT" of Grubb, *Anytime Prediction*, section 5.7.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.linear.subsets import values_of_all_sets

Array = NDArray[np.float64]
Number = TypeVar("Number", np.float64, np.int64)

__all__ = ["BestSubsets", "best_subsets", "norm_bounded"]

_MOST_GROUPS = 20
_BYTES = 1 << 27  # of undecided blocks held at a time
_SLACK = 1e-12  # relative rounding error of a value or a sum of prices
_BISECTIONS = 100
_NO_CURVATURE = 1e-12  # eigenvalues up to this share of the largest are taken for zero


@dataclass(frozen=True, eq=False)
class BestSubsets:
    """The values of all sets of groups, and the sets that no cheaper or equally cheap set beats.

    Attributes
    ----------
    costs : (k,)
        Of the sets on the frontier, rising from that of the empty set.
    values : (k,)
        Rising with the costs.
    sets : (k,) int
        Bit ``g`` says whether group ``g`` is in the set.
    all_costs, all_values : (2^J,)
        Of every set, by the same bits.
    """

    costs: Array
    values: Array
    sets: NDArray[np.int64]
    all_costs: Array
    all_values: Array

    def value_at(self, budget: ArrayLike) -> Array:
        """The value of the best set that ``budget`` pays."""
        return self.values[self._position(budget)]

    def groups_at(self, budget: float) -> tuple[int, ...]:
        """The groups of that set; of equally good sets the cheapest."""
        bits = int(self.sets[self._position(budget)])
        return tuple(g for g in range(bits.bit_length()) if bits >> g & 1)

    def _position(self, budget: ArrayLike) -> NDArray[np.intp]:
        budget = np.asarray(budget, dtype=np.float64)
        if not (budget >= 0).all():
            raise ValueError("a budget must not be negative; nothing costs less than 0")
        return np.asarray(np.searchsorted(self.costs, budget * (1 + _SLACK), side="right") - 1)


def best_subsets(
    S: ArrayLike,
    V: ArrayLike,
    start: ArrayLike,
    costs: ArrayLike,
    *,
    l2_regularization: float = 0.0,
    penalty: ArrayLike | None = None,
    norm_bound: float | None = None,
) -> BestSubsets:
    """The best set of groups for every budget, by exhaustion.

    A set ``A`` is worth ``F(A) = tr(V_A' C_A⁻¹ V_A) / 2`` with ``C = S + l2_regularization * penalty``: what least squares on its
    columns takes off the risk. With ``norm_bound`` it is worth the most that weights no longer than that take off; each
    target has weights of its own.

    Parameters
    ----------
    S : (D, D)
        ``X'X / n``.
    V : (D,) or (D, P)
        ``X'Y / n``; the values of several targets add up.
    start : (J + 1,) int
        Group ``g`` has the columns ``start[g]`` to ``start[g + 1]``; at most 20 groups.
    costs : (J,)
        Prices of the groups. Whole numbers (ticks) add up exactly.
    l2_regularization : float, default=0.0
    penalty : (D, D), default=None
        What the ridge multiplies; the identity when not given.
    norm_bound : float, default=None
        Takes an eigenvalue decomposition per set: for a dozen columns, not for groups of ten.

    Examples
    --------
    >>> best = best_subsets(np.eye(3), [0.6, 0.5, 0.4], [0, 1, 2, 3], [3.0, 1.0, 1.0])
    >>> best.groups_at(2.0), best.groups_at(4.0)
    ((1, 2), (0, 1))
    """
    C, V, start, prices = _checked(S, V, start, costs, l2_regularization, penalty)
    if norm_bound is not None:
        if not norm_bound > 0:
            raise ValueError(f"norm_bound must be positive, not {norm_bound}")
        values = _bounded_values(C, V, start, norm_bound)
    else:
        values = values_of_all_sets(C, V, start)
    all_costs = _subset_sums(prices)
    frontier = _frontier(all_costs, values)
    return BestSubsets(all_costs[frontier], values[frontier], frontier, all_costs, values)


def norm_bounded(C: ArrayLike, V: ArrayLike, bound: float) -> tuple[Array, Array]:
    """The most that weights of length at most ``bound`` take off the risk: ``max v'w - w'Cw / 2`` for ``|w| <= bound``.

    Where the shortest unconstrained optimum is too long, ``w = (C + mu I)⁻¹ v`` with the ``mu > 0`` that makes it just so long.

    Parameters
    ----------
    C : (..., d, d)
        Positive semidefinite.
    V : (..., d)
    bound : float

    Returns
    -------
    values : (...)
    weights : (..., d)

    Examples
    --------
    >>> value, w = norm_bounded(np.eye(2), [3.0, 4.0], 1.0)
    >>> float(value.round(12)), w.round(12)  # 5 - 1/2, in the direction of the gradient
    (4.5, array([0.6, 0.8]))
    """
    C, v = np.asarray(C, dtype=np.float64), np.asarray(V, dtype=np.float64)
    eigenvalues, Q = np.linalg.eigh(C)
    flat = eigenvalues <= _NO_CURVATURE * np.maximum(
        eigenvalues.max(axis=-1, keepdims=True, initial=0.0), 0.0
    )
    e = np.where(flat, 0.0, eigenvalues)
    t = np.einsum("...ij,...i->...j", Q, v)

    def along(mu: Array) -> Array:
        """Weights in the directions of the eigenvectors; without curvature and mu there is no pull to follow."""
        total = e + mu[..., None]
        return np.asarray(np.divide(t, total, out=np.zeros_like(t), where=total > 0))

    low, high = np.zeros(t.shape[:-1]), np.linalg.norm(t, axis=-1) / bound
    fits = np.linalg.norm(along(low), axis=-1) <= bound
    for _ in range(_BISECTIONS):
        middle = 0.5 * (low + high)
        long = np.linalg.norm(along(middle), axis=-1) > bound
        low, high = np.where(long, middle, low), np.where(long, high, middle)
    w = along(np.where(fits, 0.0, high))
    values = (t * w).sum(axis=-1) - 0.5 * (e * w**2).sum(axis=-1)
    return values, np.einsum("...ij,...j->...i", Q, w)


def _bounded_values(C: Array, V: Array, start: NDArray[np.int64], bound: float) -> Array:
    """(2^J,) the value of every set under a bound on the length of the weights; sets of as many columns go together."""
    sizes = np.diff(start)
    counts = _subset_sums(sizes)
    values = np.zeros(counts.size)
    group = np.repeat(np.arange(sizes.size), sizes)
    for count in np.unique(counts[counts > 0]):
        same = np.flatnonzero(counts == count)
        for sets in np.array_split(same, -(-same.size * count**2 * 8 // _BYTES)):
            member = (sets[:, None] >> group & 1).astype(bool)
            columns = np.nonzero(member)[1].reshape(sets.size, count)
            blocks = C[columns[:, :, None], columns[:, None, :]]
            for target in V.T:
                values[sets] += norm_bounded(blocks, target[columns], bound)[0]
    return values


def _frontier(costs: Array, values: Array) -> NDArray[np.int64]:
    """Sets that are worth more, by more than rounding, than all that cost no more; from cheap to dear."""
    sets = np.lexsort((np.arange(values.size), -values, costs))
    reached = np.maximum.accumulate(values[sets])
    rounding = _SLACK * max(float(reached[-1]), 0.0)
    kept = [int(sets[0])]
    for place in np.flatnonzero(reached[1:] > reached[:-1]) + 1:
        if values[sets[place]] > values[kept[-1]] + rounding:
            kept.append(int(sets[place]))
    return np.array(kept, dtype=np.int64)


def _subset_sums(values: NDArray[Number]) -> NDArray[Number]:
    """(2^J,) the sum of each set; bit ``g`` of the index says whether value ``g`` is in it."""
    sums = np.zeros(1, dtype=values.dtype)
    for value in values:
        sums = np.concatenate([sums, sums + value])
    return sums


def _checked(
    S: ArrayLike,
    V: ArrayLike,
    start: ArrayLike,
    costs: ArrayLike,
    l2_regularization: float,
    penalty: ArrayLike | None,
) -> tuple[Array, Array, NDArray[np.int64], Array]:
    S, V, start = checked_moments(S, V, start)
    prices = np.asarray(costs, dtype=np.float64)
    if start.size - 1 > _MOST_GROUPS:
        raise ValueError(
            f"{start.size - 1} groups have too many subsets to look at them all; at most {_MOST_GROUPS}"
        )
    if prices.shape != (start.size - 1,) or not np.isfinite(prices).all() or (prices < 0).any():
        raise ValueError(
            f"costs must be one finite number for each of {start.size - 1} groups, none negative"
        )
    if not l2_regularization >= 0:
        raise ValueError(f"l2_regularization must not be negative, and is {l2_regularization}")
    pull = np.eye(len(S)) if penalty is None else np.asarray(penalty, dtype=np.float64)
    if pull.shape != S.shape:
        raise ValueError(f"penalty must have the shape of S, {S.shape}, not {pull.shape}")
    if not np.isfinite(pull).all():
        raise ValueError("penalty must be finite")
    return S + l2_regularization * pull, V, start, prices


def checked_moments(S: ArrayLike, V: ArrayLike, start: ArrayLike) -> tuple[Array, Array, NDArray[np.int64]]:
    """(D, D) ``X'X / n``, (D, P) ``X'Y / n`` and (J + 1,) where groups begin, of one size and finite."""
    S, V = np.asarray(S, dtype=np.float64), np.asarray(V, dtype=np.float64)
    V = V[:, None] if V.ndim == 1 else V
    start = np.asarray(start, dtype=np.int64)
    if S.ndim != 2 or S.shape[0] != S.shape[1] or V.ndim != 2 or V.shape[0] != S.shape[0]:
        raise ValueError(f"S must be (D, D) and V (D,) or (D, P), not {S.shape} and {V.shape}")
    if not np.isfinite(S).all() or not np.isfinite(V).all():
        raise ValueError("S and V must be finite")
    whole = start.ndim == 1 and start.size > 0 and start[0] == 0 and start[-1] == len(S)
    if not whole or (np.diff(start) < 0).any():
        raise ValueError(f"start must rise from 0 to the {len(S)} columns of S")
    return S, V, start
