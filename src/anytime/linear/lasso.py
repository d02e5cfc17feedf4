"""The cost-weighted group lasso, the convex rival of greedy selection: a whole path of penalties from second moments.

Hu et al. (*Efficient Feature Group Sequencing for Anytime Linear Prediction*, "Sparse") take the order in which groups enter
the path; with groups of one column it is Grubb's cost-weighted Lasso (*Anytime Prediction*, chapter 5). Maintained solvers
(skglm, celer, adelie) start from the rows and, but for the last, compile at first use; here no row is left, only moments.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.linalg.lapack import dpotri

from anytime._native import group_lasso_descend

Array = NDArray[np.float64]

_RANK = 1e-10  # share of a group's largest eigenvalue below which a direction is rounding error
_SWEEPS = 8  # of coordinate descent before a Newton step is tried, and more where there are many columns
_ROUNDS = 60  # of both, at most, for one penalty
_HALVINGS = 6  # of an interval in which several groups enter
_SHRINKING = 8  # halvings of a Newton step that goes too far


@dataclass(frozen=True, eq=False)
class LassoPath:
    """Solutions of the group lasso for falling penalties."""

    lambdas: Array  # (L,): penalties, falling; nothing that costs anything is in use at the first
    coefficients: Array  # (L, D, P): for the columns as they were given, not as they were whitened
    active: NDArray[np.bool_]  # (L, J): groups in use
    # (J,): groups by first entry; of those that entered together, as all that cost nothing do, by what the whole
    # target gives them, per weight. Those that never entered come last, by what the rest of the target still does
    order: NDArray[np.intp]
    # (J,): the penalty below which each group was first in use, to the precision of the search; 0 for never,
    # infinite for groups that cost nothing
    entered: Array
    # (L,): the largest violation of an optimality condition, as a share of its limit ``lambda * weight``
    violation: Array


def group_lasso_path(
    S: ArrayLike,  # (D, D): ``X'X / n``
    V: ArrayLike,  # (D, P): ``X'Y / n``
    start: ArrayLike,  # (J + 1,): group ``g`` has the columns ``start[g]`` to ``start[g + 1]``
    weights: ArrayLike,  # (J,): what each group costs; one that costs nothing is in use from the start
    *,
    n_lambdas: int = 200,
    smallest: float = 1e-4,  # the last penalty, as a share of the first. They fall geometrically
    whiten: bool = True,  # penalise whitened weights; otherwise the weights of the columns as they are
    whole: bool = False,  # continue when all groups have entered and the order is known
    tol: float = 1e-6,  # allowed violation of the optimality conditions, as a share of ``lambda * weight``
) -> LassoPath:
    """Minimise ``tr(w' S w) / 2 - tr(V' w) + lambda * sum_g weights[g] * |w_g|`` for a falling sequence of ``lambda``.

    That is ``(|Y - X w|² / 2n + lambda * sum_g weights[g] * |w_g|)`` less a constant: the ``lambda`` of the formula without
    ``1 / 2n`` is ``2n`` times this one. ``|.|`` is the Frobenius norm, by default of the weights of whitened groups
    (``|S_g^½ w_g|``), for which each block has a closed solution. Groups of one column give the Lasso; weights take the
    place of scaling columns, so nothing is standardised again.

    Block coordinate descent finds the groups in use, Newton's method finishes where columns are so correlated that descent
    crawls. Each solution starts at the one before.

    Examples
    --------
    >>> path = group_lasso_path(np.eye(3), [[0.5], [0.4], [0.3]], [0, 2, 3], [2.0, 1.0])
    >>> path.order, path.entered.round(3)  # |(0.5, 0.4)| / 2 and 0.3 / 1
    (array([0, 1]), array([0.32, 0.3 ]))
    """
    problem = _Problem(S, V, start, weights, whiten, tol)
    state = problem.start_state()
    largest = problem.largest_penalty(state)
    lambdas = largest * np.geomspace(1.0, smallest, n_lambdas)
    entered = np.where(problem.in_use(state.w), np.inf, 0.0)
    solutions, used, violations = [], [], []
    above = largest
    for penalty in lambdas:
        before = state
        state = problem.refreshed(problem.solve(before, penalty))
        problem.date_entries(before, above, state, penalty, entered)
        solutions.append(problem.unwhitened(state.w))
        used.append(problem.in_use(state.w))
        violations.append(problem.violation(state, penalty))
        above = penalty
        if not whole and (entered > 0).all():
            break
    pull = np.where(entered > 0, problem.norms(problem.v), problem.norms(state.b))
    per_weight = pull**2 / np.where(problem.weights > 0, problem.weights, 1.0)
    return LassoPath(
        lambdas[: len(solutions)],
        np.stack(solutions),
        np.stack(used),
        np.lexsort((np.arange(entered.size), -per_weight, -entered)),
        entered,
        np.array(violations),
    )


@dataclass(frozen=True, eq=False)
class _PathState:
    """Whitened weights ``w`` (m, P) and the gradient ``b = v - K w`` (m, P) that belongs to them."""

    w: Array
    b: Array


class _Problem:
    """The path's problem in whitened columns: Gram matrix ``K`` (m, m) and correlations ``v`` (m, P)."""

    def __init__(
        self, S: ArrayLike, V: ArrayLike, start: ArrayLike, weights: ArrayLike, whiten: bool, tol: float
    ) -> None:
        S, V, self.weights = (np.asarray(array, dtype=np.float64) for array in (S, V, weights))
        self.columns, self.tol = np.asarray(start, dtype=np.int64), tol
        self.transforms, self.curvature = _transforms(S, self.columns, whiten)
        sizes = [transform.shape[1] for transform in self.transforms]
        self.start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.group = np.repeat(np.arange(len(sizes)), sizes)  # of each whitened column
        half = np.empty((len(S), self.group.size))
        for transform, old, new in self._blocks():
            half[:, new] = S[:, old] @ transform
        K = np.empty((self.group.size, self.group.size))
        self.v = np.empty((self.group.size, V.shape[1]))
        for transform, old, new in self._blocks():
            K[new] = transform.T @ half[old]
            self.v[new] = transform.T @ V[old]
        self.K = 0.5 * (K + K.T)

    def _blocks(self) -> list[tuple[Array, slice, slice]]:
        """The transform of each group, its columns, and its whitened columns."""
        return [
            (transform, slice(*self.columns[g : g + 2]), slice(*self.start[g : g + 2]))
            for g, transform in enumerate(self.transforms)
        ]

    def unwhitened(self, w: Array) -> Array:
        """Weights (D, P) of the columns as they were given."""
        out = np.zeros((int(self.columns[-1]), w.shape[1]))
        for transform, old, new in self._blocks():
            out[old] = transform @ w[new]
        return out

    def norms(self, values: Array) -> Array:
        """(J,) Frobenius norm of each group's rows."""
        return np.sqrt(np.bincount(self.group, (values**2).sum(axis=1), minlength=self.weights.size))

    def in_use(self, w: Array) -> NDArray[np.bool_]:
        """(J,) whether any weight of the group differs from 0."""
        return np.bincount(self.group, (w != 0).any(axis=1), minlength=self.weights.size) > 0

    # ------------------------------------------------------------------ one penalty

    def start_state(self) -> _PathState:
        """Only what costs nothing, at its best."""
        empty = _PathState(np.zeros_like(self.v), self.v.copy())
        free = (self.weights == 0)[self.group]
        if not free.any():
            return empty
        w = empty.w.copy()
        w[free] = np.linalg.lstsq(self.K[np.ix_(free, free)], self.v[free], rcond=_RANK)[0]
        return self.refreshed(_PathState(w, empty.b))

    def refreshed(self, state: _PathState) -> _PathState:
        """The same weights, their gradient computed anew."""
        return _PathState(state.w, self.v - self.K @ state.w)

    def largest_penalty(self, state: _PathState) -> float:
        """At and above it, no group that costs anything is in use."""
        paid = self.weights > 0
        return float((self.norms(state.b)[paid] / self.weights[paid]).max(initial=0.0))

    def solve(self, near: _PathState, penalty: float) -> _PathState:
        """The optimum for a penalty, starting from one near it."""
        limits = penalty * self.weights
        # what costs nothing has a limit of 0: its gradient has to vanish as nearly as rounding allows
        tolerance = np.where(limits > 0, self.tol * limits, 1e-12 * np.abs(self.v).max(initial=0.0))
        state = near
        for _ in range(_ROUNDS):
            w, b = state.w.T.copy(), state.b.T.copy()
            sweeps = _SWEEPS + len(self.v) // 50  # a Newton step takes about as long
            group_lasso_descend(self.K, self.start, limits, self.curvature, w, b, tolerance, sweeps)
            state = _PathState(w.T, b.T)
            if self.violation(state, penalty) <= self.tol:
                break
            state = self._newton(state, limits)
        return state

    def violation(self, state: _PathState, penalty: float) -> float:
        """Largest violation of an optimality condition, as a share of its limit."""
        limits = penalty * self.weights
        used, paid = self.in_use(state.w), limits > 0
        pull = np.divide(limits, self.norms(state.w), out=np.zeros_like(limits), where=used)
        excess = np.where(
            used, self.norms(state.b - pull[self.group, None] * state.w), self.norms(state.b) - limits
        )
        return float(np.divide(excess, limits, out=np.zeros_like(limits), where=paid).max(initial=0.0))

    def _newton(self, state: _PathState, limits: Array) -> _PathState:
        """A Newton step over the groups in use, shortened until it helps; the state itself if it never does."""
        used = self.in_use(state.w)
        rows = np.flatnonzero(used[self.group])
        pull = np.divide(limits, self.norms(state.w), out=np.zeros_like(limits), where=used)
        try:
            step = self._newton_direction(state, rows, pull[self.group[rows]])
        except LinAlgError:
            return state
        change = np.zeros_like(state.w)
        change[rows] = step
        effect = self.K[rows].T @ step
        now = self._objective(state, limits)
        for halving in range(_SHRINKING):
            length = 0.5**halving
            tried = _PathState(state.w + length * change, state.b - length * effect)
            if self._objective(tried, limits) < now:
                return tried
        return state

    def _newton_direction(self, state: _PathState, rows: NDArray[np.intp], p: Array) -> Array:
        """Where the gradient over ``rows`` vanishes to first order.

        The second derivative is ``K + diag(p) - sum_g U_g U_g'`` with ``p_g = limit / |w_g|``, ``U_g = sqrt(p_g) w_g / |w_g|``.
        """
        group = self.group[rows]
        w = state.w[rows]
        residual = state.b[rows] - p[:, None] * w
        first = np.flatnonzero(np.diff(group, prepend=-1))  # where each group in use begins
        U = w * (np.sqrt(p) / self.norms(state.w)[group])[:, None]
        H = self.K[np.ix_(rows, rows)]
        H.flat[:: len(H) + 1] += p + _RANK  # columns that repeat others must not stop the factorisation
        if w.shape[1] == 1:
            for low, high in zip(first, [*first[1:], len(rows)], strict=True):
                H[low:high, low:high] -= U[low:high] @ U[low:high].T
            factor = cho_factor(H, overwrite_a=True, check_finite=False)
            return np.asarray(cho_solve(factor, residual, check_finite=False))
        # The first two terms act alike on every output and the third has one direction per group, so one
        # factorisation of the size of the columns in use serves all outputs (Woodbury).
        inverse = _inverse(H)
        step = inverse @ residual
        inner = np.add.reduceat(np.add.reduceat(inverse * (U @ U.T), first, axis=0), first, axis=1)
        along = np.add.reduceat((U * step).sum(axis=1), first)
        share = np.linalg.solve(np.eye(first.size) - inner, along)
        spread = np.repeat(share, np.diff([*first, len(rows)]))
        return np.asarray(step + inverse @ (U * spread[:, None]))

    def _objective(self, state: _PathState, limits: Array) -> float:
        # w'Kw / 2 - v'w with Kw = v - b
        return float(-0.5 * (state.w * (self.v + state.b)).sum() + limits @ self.norms(state.w))

    # ------------------------------------------------------------------ when groups enter

    def date_entries(
        self, before: _PathState, above: float, state: _PathState, penalty: float, entered: Array
    ) -> None:
        """Write the penalties at which groups entered between two solutions; halve the interval where several did."""
        intervals = [(before, above, state, penalty, 0)]
        while intervals:
            before, above, state, penalty, halvings = intervals.pop()
            new = np.flatnonzero(self.in_use(state.w) & (entered == 0))
            if new.size > 1 and halvings < _HALVINGS:
                middle = float(np.sqrt(above * penalty))
                between = self.solve(before, middle)
                intervals.append((between, middle, state, penalty, halvings + 1))
                intervals.append((before, above, between, middle, halvings + 1))  # taken up first
            elif new.size:
                # within the interval, those go first that were nearest to their limit above it
                nearness = self.norms(before.b)[new] / self.weights[new]
                entered[new] = np.clip(nearness, penalty, above)


# ---------------------------------------------------------------------- inverses and whitening


def _inverse(H: Array) -> Array:
    """Of a positive definite matrix; half the work of a general one."""
    factor, low = cho_factor(H, lower=True, overwrite_a=True, check_finite=False)
    lower, failed = dpotri(factor, lower=low, overwrite_c=True)
    if failed:
        raise LinAlgError("not positive definite")
    return np.asarray(np.tril(lower) + np.tril(lower, -1).T)


def _transforms(S: Array, start: NDArray[np.int64], whiten: bool) -> tuple[list[Array], Array]:
    """For each group a matrix (D_g, rank) that makes its columns uncorrelated, and a bound on the curvature left."""
    transforms, curvature = [], np.ones(start.size - 1)
    for g, (first, last) in enumerate(pairwise(start)):
        size = int(last - first)
        values, vectors = np.linalg.eigh(S[first:last, first:last])
        top = values.max(initial=0.0)
        if whiten:
            kept = values > _RANK * top
            transforms.append(vectors[:, kept] / np.sqrt(values[kept]))
        else:
            transforms.append(np.eye(size) if top > 0 else np.empty((size, 0)))
            curvature[g] = top if top > 0 else 1.0
    return transforms, curvature
