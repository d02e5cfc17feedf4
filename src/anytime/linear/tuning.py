"""How much each prefix of a sequence is regularised, and where the sequence ends: decided on held-out rows.

Early prefixes have few columns and need little ridge; late ones may have as many columns as rows and need much. Refits for a
given order are plain Cholesky factorisations, so trying some ridges costs less than choosing the order did.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, get_blas_funcs, solve_triangular

from anytime.linear.moments import Standardised, submatrix
from anytime.linear.pursuit import DEPENDENT, GroupedProblem, Path, PursuitOracle

Array = NDArray[np.float64]

RIDGES = (1e-5, 1e-3, 1e-2, 1e-1, 1.0)  # tried where the ridge is chosen on held-out rows
_MOST_LOOKS = 40  # prefixes at which ridges are compared; those between take the choice of the next
_BEYOND = (
    20  # prefixes that are looked at after the best one known, besides half as many as there are before it
)
_REPEATED = 1e-10  # share of a group's largest variance below which one of its directions is empty


def order_ridge(n_columns: int, n_samples: float) -> float:
    """The ridge under which an order is chosen when its own is not known yet: more where columns are many for the rows."""
    return float(np.clip(0.1 * n_columns / max(n_samples, 1.0), 1e-5, 0.3))


class OrderedRefits:
    """Weights of prefixes of a given order of groups, for any ridge on ``whitened`` groups, or on columns as they are."""

    def __init__(
        self, moments: Standardised, start: NDArray[np.int64], order: NDArray[np.intp], whitened: bool
    ) -> None:
        parts = [np.arange(start[g], start[g + 1]) for g in order]
        self.columns = np.concatenate([np.empty(0, dtype=np.intp), *parts]).astype(np.intp)
        self.ends = np.cumsum([part.size for part in parts]).astype(np.intp)
        self.S = submatrix(moments.covariance, self.columns)
        self.V = moments.correlation[self.columns]
        self.power, self.whitened = moments.power, whitened

    def problem(self, l2_regularization: float, n_groups: int) -> GroupedProblem:
        """Least squares on the first groups, which stand in the order of purchase."""
        start = np.concatenate([[0], self.ends[:n_groups]]).astype(np.int64)
        m = int(start[-1])
        return GroupedProblem.from_moments(
            self.S[:m, :m], self.V[:m], start, l2_regularization, whitened=self.whitened
        )

    def tables(self, l2_regularization: float, stages: NDArray[np.intp]) -> list[Array]:
        """(ends[t], k) weights of the prefix that ends with each of ``stages`` (rising, 0 for the first)."""
        n_groups = int(stages[-1]) + 1
        problem = self.problem(l2_regularization, n_groups)
        floor = DEPENDENT * np.diag(problem.covariance)
        try:  # in place: the transpose of a symmetric matrix, in the order that LAPACK reads
            factor = cholesky(problem.covariance.T, lower=True, overwrite_a=True, check_finite=False)
            dependent = bool((np.diag(factor) ** 2 <= floor).any())
        except LinAlgError:
            dependent = True
        if dependent:
            path = refitted(self.problem(l2_regularization, n_groups), self.S)
            return [path.coefficients[t] for t in stages]
        z = solve_triangular(factor, problem.correlation, lower=True, check_finite=False)
        m, k = problem.correlation.shape
        ends = self.ends[stages]
        # a prefix knows nothing of what comes after it
        ahead = np.arange(m)[:, None, None] < ends[None, :, None]
        right = np.where(ahead, z[:, None, :], 0.0).reshape(m, -1)
        trsm = get_blas_funcs("trsm", dtype=np.float64)
        weights = trsm(1.0, factor, np.asfortranarray(right), lower=1, trans_a=1, overwrite_b=1)
        weights = weights.reshape(m, stages.size, k)
        return [np.ascontiguousarray(weights[:end, t]) for t, end in enumerate(ends)]

    def losses(self, tables: list[Array]) -> Array:
        """(T, k) half the mean squared error of the prefixes with these weights on the rows of these moments, per target."""
        return losses(tables, self.S, self.V, self.power)


def losses(tables: list[Array], S: Array, V: Array, power: Array) -> Array:
    """(T, k) half the mean squared error, per target, of weights for the first columns; from moments of the rows."""
    m, k = max(len(table) for table in tables), V.shape[1]
    W = np.zeros((m, len(tables), k))
    for t, table in enumerate(tables):
        W[: len(table), t] = table
    fitted = (W * (S[:m, :m] @ W.reshape(m, -1)).reshape(W.shape)).sum(axis=0)
    return np.asarray(0.5 * (power - 2 * np.einsum("mtk,mk->tk", W, V[:m]) + fitted))


def refitted(problem: GroupedProblem, S: Array) -> Path:
    """Weights of every prefix of groups that stand in order, also where columns repeat each other."""
    oracle = PursuitOracle(problem, "norm")
    for g in range(problem.n_groups):
        oracle.add(g)
    return least_norm(oracle, S)


def least_norm(oracle: PursuitOracle, S: Array) -> Path:
    """Weights of every prefix; columns of a group that repeat each other share theirs evenly, which changes no answer."""
    path = oracle.path()
    if not oracle.dependent:
        return path
    first = 0
    for end in path.ends:
        own = path.columns[first:end]
        variances, directions = np.linalg.eigh(S[np.ix_(own, own)])
        null = directions[:, variances <= _REPEATED * max(variances.max(initial=0.0), 1e-300)]
        for table in path.coefficients:
            if null.size and len(table) >= end:
                table[first:end] -= null @ (null.T @ table[first:end])
        first = int(end)
    return path


@dataclass(frozen=True, eq=False)
class Tuned:
    """Held-out losses of an order."""

    ridges: Array  # (S,): the ridge of each prefix that is worth having
    losses: (
        Array  # (S + 1, k): their losses on the held-out rows, per target; before anything is bought first
    )


def tuned(
    # of the rows to learn from; of the held-out ones, in the units of the others
    source: Standardised,
    held: Standardised,
    # these three as in ``OrderedRefits``
    start: NDArray[np.int64],
    order: NDArray[np.intp],
    whitened: bool,
    l2_regularization: float,  # one that is tried besides ``RIDGES``
    path: Path,  # the weights of every prefix with it
) -> Tuned:
    """For each prefix the ridge with the least held-out loss, up to the prefix that has the least of all."""
    looks = np.unique(np.linspace(0, order.size - 1, min(order.size, _MOST_LOOKS)).round().astype(np.intp))
    path_losses = _losses_of_path(path, looks, held).sum(axis=1)
    # Prefixes far beyond the best with this ridge are not looked at with others.
    looks = looks[looks <= 1.5 * looks[path_losses.argmin()] + _BEYOND]
    order = order[: looks[-1] + 1]
    refits = OrderedRefits(source, start, order, whitened)
    judges = OrderedRefits(held, start, order, whitened)
    tried = {l2_regularization: path_losses[: looks.size]}
    for other in RIDGES:
        if other != l2_regularization:
            tried[other] = judges.losses(refits.tables(other, looks)).sum(axis=1)
    choices = np.array(sorted(tried))
    every = np.array([tried[choice] for choice in choices])
    last = min(int(every.min(axis=0).argmin()) + 1, looks.size - 1)  # the best may be between two looks
    next_look = np.searchsorted(looks, np.arange(looks[last] + 1))
    ridges = choices[every.argmin(axis=0)[next_look]]
    losses = np.empty((ridges.size + 1, held.power.size))
    losses[0] = 0.5 * held.power
    for choice, stages in by_ridge(ridges):
        losses[stages + 1] = judges.losses(refits.tables(choice, stages))
    best = int(losses[1:].sum(axis=1).argmin()) + 1
    return Tuned(ridges[:best], losses[: best + 1])


def _losses_of_path(path: Path, stages: NDArray[np.intp], held: Standardised) -> Array:
    """(T, k) losses of some prefixes, with the weights of each where the held-out moments have its columns."""
    tables = []
    for t in stages:
        table = np.zeros(held.correlation.shape)
        table[path.columns[: path.ends[t]]] = path.coefficients[t]
        tables.append(table)
    return losses(tables, held.covariance, held.correlation, held.power)


def by_ridge(ridges: Array) -> list[tuple[float, NDArray[np.intp]]]:
    """Each ridge, and the prefixes that have it."""
    return [
        (float(l2_regularization), np.flatnonzero(ridges == l2_regularization))
        for l2_regularization in np.unique(ridges)
    ]


def fitted_prefixes(
    moments: Standardised, ends: NDArray[np.intp], ridges: Array, whitened: bool
) -> list[Array]:
    """(ends[t], k) weights of every prefix of groups that stand in order, each with its own ridge."""
    start = np.concatenate([[0], ends]).astype(np.int64)
    refits = OrderedRefits(moments, start, np.arange(ridges.size), whitened)
    tables: dict[int, Array] = {}
    for l2_regularization, stages in by_ridge(ridges):
        tables.update(zip(stages.tolist(), refits.tables(l2_regularization, stages), strict=True))
    return [tables[t] for t in range(ridges.size)]
