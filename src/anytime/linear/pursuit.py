"""Group pursuit for squared loss: forward regression and orthogonal matching pursuit from second moments, equally fast.

With ``C`` the (regularised) covariance of the columns and ``v`` their correlations with the target, choosing groups is a block
Cholesky factorisation of ``C`` whose pivot order is decided on the way. After each purchase the residual correlations ``b`` are
known, and with them both scores: orthogonal matching pursuit looks at ``b_g' C_g⁻¹ b_g`` (CS-G-OMP; Hu et al., Algorithm 2),
forward regression at the exact gain ``b_g' A_g⁻¹ b_g`` with ``A_g`` what is left of ``C_g`` (CS-G-FR, Algorithm 3). The factor
gives the refitted weights of every prefix. O(d³) in all, no row of data is touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_blas_funcs

from anytime._native import block_gains, buy_group
from anytime.linear.moments import submatrix

Array = NDArray[np.float64]
Criterion = Literal["omp", "forward", "norm", "single", "forward_single"]

DEPENDENT = 1e-10  # share of a column's variance below which what is left of it is rounding error
_BLOCK = 128  # columns whose effect on the rest is applied in one go


@dataclass(frozen=True, eq=False)
class GroupedProblem:
    """Least squares on standardised columns, arranged group by group."""

    covariance: Array  # (d, d): ``C = S + l2_regularization * penalty``
    correlation: Array  # (d, k): ``v = X'Y / n``, a column per target
    start: NDArray[np.int64]  # (J + 1,): group ``g`` has the columns ``start[g]`` to ``start[g + 1]``
    # ``Y'Y / n`` summed over targets, so that the risk before anything is bought is half of it
    power: float = 1.0

    @classmethod
    def from_moments(
        cls,
        S: Array,
        V: Array,
        start: NDArray[np.int64],
        l2_regularization: float,
        *,
        whitened: bool,
        power: float = 1.0,
    ) -> GroupedProblem:
        """Add the ridge: on the weights of whitened groups (``blockdiag(S_g)`` times it), or of the columns as they are."""
        C = S.copy()
        if whitened:
            for first, last in pairwise(start):
                C[first:last, first:last] *= 1.0 + l2_regularization
        else:
            C.flat[:: len(C) + 1] += np.where(np.diag(S) > 0, l2_regularization, 0.0)
        return cls(C, V, np.asarray(start, dtype=np.int64), power)

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return self.start.size - 1

    def blocks(self) -> tuple[Array, NDArray[np.int64]]:
        """The diagonal blocks of the covariance side by side, and where each begins."""
        sizes = np.diff(self.start)
        place = np.concatenate([[0], np.cumsum(sizes**2)]).astype(np.int64)
        flat = [self.covariance[first:last, first:last].ravel() for first, last in pairwise(self.start)]
        return np.concatenate([np.empty(0), *flat]), place


@dataclass(frozen=True, eq=False)
class Path:
    """Refitted weights of every prefix of a sequence of groups."""

    columns: NDArray[np.intp]  # (m,): in the order of purchase
    ends: NDArray[np.intp]  # (S,): how many of them each prefix has
    coefficients: list[Array]  # (ends[t], k) of prefix ``t``


class PursuitOracle:
    """A ``GainOracle`` of explained variance ``F(G) = v_G' C_G⁻¹ v_G / 2`` over groups.

    Candidates are scored by a ``criterion``. "omp": by the gradient over the whitened group, at most the true gain; "forward": by
    the true gain; "norm": by the gradient as it is; "single": by its largest entry; "forward_single": by the true gain of the
    group's best column alone.
    """

    def __init__(self, problem: GroupedProblem, criterion: Criterion = "omp") -> None:
        d, k = problem.correlation.shape
        self.problem, self.criterion = problem, criterion
        self.n_elements = problem.n_groups
        self.value = 0.0
        self._b = np.array(problem.correlation, dtype=np.float64, order="C")  # residual correlations; a copy
        self._diagonal = np.diag(problem.covariance).copy()  # of what is left of C
        self._floor = np.maximum(DEPENDENT * self._diagonal, 1e-300)
        self._blocks, self._place = problem.blocks()  # C_g, or for forward regression what is left of it
        self._left = np.ones(self.n_elements, dtype=bool)
        self._open = np.ones(d)  # 0 for columns already bought
        self._order: list[int] = []
        self._L = np.zeros((d, d))  # row j: column j of the factor transposed, so that a step writes rows
        self._z = np.zeros((d, k))
        self._filled = 0
        self.dependent = 0  # directions that turned out to be combinations of others
        self._A: Array | None = (
            None  # C less the effect of all finished blocks, lower triangle; made when first needed
        )
        self._alive = np.arange(d)  # columns that A still has
        self._at = np.arange(d)  # where they are in A
        self._applied = 0  # rows of L that are in A

    def restart(self) -> Self:
        """The same function at the empty set."""
        return type(self)(self.problem, self.criterion)

    # ------------------------------------------------------------------ looking

    def gains(self, candidates: NDArray[np.intp]) -> Array:
        """Score of each candidate, in units of the objective."""
        start = self.problem.start
        if self.criterion in ("omp", "forward"):
            groups = np.asarray(candidates, dtype=np.int64)
            return block_gains(start, self._place, self._blocks, self._b, self._floor, groups)
        squares = (self._b**2).sum(axis=1)
        if self.criterion == "forward_single":
            safe = self._diagonal > self._floor
            squares = np.divide(squares, self._diagonal, out=np.zeros_like(squares), where=safe)
        combine = np.add if self.criterion == "norm" else np.maximum
        return np.asarray(0.5 * by_group(combine, squares, start)[candidates])

    def joint_gain(self, elements: NDArray[np.intp]) -> float:
        """Score of several groups as if they were one."""
        if self.criterion not in ("omp", "forward"):
            return float(self.gains(elements).sum())
        start = self.problem.start
        columns = np.concatenate([np.arange(start[g], start[g + 1]) for g in elements])
        block = self.problem.covariance[np.ix_(columns, columns)]
        if self.criterion == "forward":
            rows = self._L[: self._filled, columns]
            block = block - rows.T @ rows
        q = columns.size
        whole = np.array([0, q]), np.array([0, q * q])
        b, floor = np.ascontiguousarray(self._b[columns]), self._floor[columns]
        return float(block_gains(*whole, block.ravel(), b, floor, np.array([0]))[0])

    # ------------------------------------------------------------------ buying

    def add(self, element: int) -> None:
        """Buy a group: factor it, and take its effect out of the residual correlations."""
        start = self.problem.start
        first, last = (int(column) for column in start[element : element + 2])
        q = last - first
        rows = self._L[self._filled : self._filled + q]
        rows[:] = self._panel(first, last)
        z = self._z[self._filled : self._filled + q]
        self._left[element] = False
        blocks = self._blocks if self.criterion == "forward" else None
        left = np.flatnonzero(self._left)
        kept = buy_group(start, self._place, blocks, left, rows, element, self._b, self._floor, z)
        self._order.append(element)
        self._open[first:last] = 0.0
        self._filled += q
        self.dependent += q - kept
        self.value += 0.5 * float((z**2).sum())
        if self.criterion == "forward_single":
            self._diagonal -= (rows**2).sum(axis=0)

    def _panel(self, first: int, last: int) -> Array:
        """Rows ``first`` to ``last`` of what is left of C, zero in the columns already bought."""
        pending = self._L[self._applied : self._filled]
        if len(pending) >= _BLOCK:
            self._apply(pending)
            pending = pending[:0]
        if self._A is None:
            rows = self.problem.covariance[first:last].copy()
        else:
            where = self._at[first:last]
            low = int(where[0]) if where.size else 0
            compact = np.concatenate(
                [self._A[low : low + where.size, :low], self._A[low:, low : low + where.size].T], axis=1
            )
            # the group's own block is below the diagonal only
            own = np.triu(compact[:, low : low + where.size])
            compact[:, low : low + where.size] = own + np.triu(own, 1).T
            rows = np.zeros((last - first, len(self._L)))
            rows[:, self._alive] = compact
        if len(pending):
            rows -= pending[:, first:last].T @ pending
        rows *= self._open
        return rows

    def _apply(self, pending: Array) -> None:
        """Take a block of rows of the factor out of A in one symmetric update, and drop columns that are bought."""
        syrk = get_blas_funcs("syrk", dtype=np.float64)
        if self._A is None:
            self._A = self.problem.covariance.T.copy(order="F")  # symmetric, so a plain copy
        wide = np.asfortranarray(pending[:, self._alive].T)
        self._A = syrk(-1.0, wide, beta=1.0, c=self._A, lower=1, overwrite_c=1)
        self._applied = self._filled
        left = np.repeat(self._left, np.diff(self.problem.start))[self._alive]
        if 4 * np.count_nonzero(left) <= 3 * left.size:  # copying costs little beside the updates it spares
            self._A = submatrix(self._A.T, np.flatnonzero(left)).T
            self._alive = self._alive[left]
            self._at = np.full(len(self._L), -1)
            self._at[self._alive] = np.arange(self._alive.size)

    # ------------------------------------------------------------------ what was learned

    def path(self) -> Path:
        """Refitted weights of every prefix bought so far."""
        start = self.problem.start
        parts = [np.arange(start[g], start[g + 1]) for g in self._order]
        columns = np.concatenate([np.empty(0, dtype=np.intp), *parts]).astype(np.intp)
        ends = np.cumsum([part.size for part in parts]).astype(np.intp)
        m = columns.size
        upper = np.asfortranarray(self._L[:m, columns])  # L', in the order of purchase
        # Prefix t has the weights (L')⁻¹ z of its rows, so each purchase changes them by (L')⁻¹ times its own part of z.
        k = self._z.shape[1]
        change = np.zeros((m, ends.size, k))
        before = 0
        for t, end in enumerate(ends):
            change[before:end, t] = self._z[before:end]
            before = int(end)
        solve = get_blas_funcs("trsm", dtype=np.float64)
        changes = solve(1.0, upper, np.asfortranarray(change.reshape(m, -1)), overwrite_b=1).reshape(
            change.shape
        )
        weights = np.cumsum(changes, axis=1, out=changes)
        return Path(columns, ends, [weights[:end, t].copy() for t, end in enumerate(ends)])


def by_group(combine: np.ufunc, values: Array, start: NDArray[np.int64]) -> Array:
    """``combine`` over each group's values; 0 for a group without columns."""
    sizes = np.diff(start)
    out = np.zeros(sizes.size)
    if values.size:
        out[sizes > 0] = combine.reduceat(values, start[:-1][sizes > 0])
    return out
