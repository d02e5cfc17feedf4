"""Second moments of a table, gathered chunk by chunk: all that least squares needs to know of the data.

One pass, O(n d²) time, O(d²) memory, float64 whatever the chunks are. A missing value counts as the mean of its column over the
rows that have it, exactly, although that mean is known only at the end: sums over the gaps are kept beside those over the values.
"""

from __future__ import annotations

import contextlib
import copy
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import LinAlgError, cholesky, get_blas_funcs, solve_triangular
from sklearn.utils.validation import check_array

Array = NDArray[np.float64]

_CHUNK_BYTES = 1 << 24  # of float64 copies made at a time: they stay in the cache until they are multiplied
_FEWEST_ROWS = 256  # of a chunk; a product of fewer reads and writes more than it multiplies
_TILE = 256  # rows and columns that are mirrored at a time: a tile and its image stay in the cache
_ROUNDED = 1e-7  # how negative rounding may make an eigenvalue of given correlations
_FEW_ROWS = 1000  # enough to know where about the means are
_CONSTANT = 1e-12  # a column that varies by no more than this share of its size is constant but for rounding
_SMALLEST = 1e-140  # size of a number whose square, and the share above of it, can still be told from zero


@dataclass(frozen=True, eq=False)
class Standardised:
    """Moments of columns and targets of mean 0 and variance 1."""

    covariance: Array  # (d, d): ``X'X / n``; a constant column is a row and column of zeros
    correlation: Array  # (d, k): ``X'Y / n``
    power: Array  # (k,): ``diag(Y'Y / n)``: 1, or 0 for a constant target
    # (d,) each: a constant column has scale 1
    mean: Array
    scale: Array
    target_mean: Array  # (k,)
    target_scale: Array  # (k,)
    n_samples: float  # rows; infinite where only moments are known

    @classmethod
    def of(
        cls,
        covariance: ArrayLike,
        correlation: ArrayLike,
        mean: ArrayLike | None = None,
        target_mean: ArrayLike | None = None,
        target_variance: ArrayLike | None = None,
    ) -> Standardised:
        """From moments in any units, as a user gives them: checked, so that no data has others."""
        C = check_array(covariance, dtype=np.float64, input_name="covariance")
        V = check_array(
            np.atleast_1d(correlation), dtype=np.float64, ensure_2d=False, input_name="correlation"
        )
        V = np.reshape(V, (len(V), -1))
        d, k = V.shape
        if C.shape != (d, d) or not np.allclose(C, C.T, rtol=1e-6, atol=1e-9 * np.abs(C).max()):
            raise ValueError(
                f"covariance must be symmetric with a row per column; it has shape {C.shape}, correlation {V.shape}"
            )
        variance, power = np.diag(C), _numbers(target_variance, 1.0, k, "target_variance")
        if (variance < 0).any() or (power <= 0).any():
            raise ValueError("a variance is negative, or target_variance is not positive")
        scale, target_scale = np.where(variance > 0, np.sqrt(variance), 1.0), np.sqrt(power)
        C, V = C / np.outer(scale, scale), V / np.outer(scale, target_scale)
        spread = np.sqrt(np.diag(C))  # 1 for columns that vary
        for name, table, most in (
            ("covariance", C, np.outer(spread, spread)),
            ("correlation", V, spread[:, None]),
        ):
            if (np.abs(table) > most + 1e-6).any():
                i, j = np.unravel_index(int(np.argmax(np.abs(table) - most)), table.shape)
                raise ValueError(
                    f"{name}[{i}, {j}] is {abs(table[i, j]):.3g} times what the variances allow: "
                    "no data has such moments; is target_variance right?"
                )
        _refuse_impossible(C, V)
        return cls(
            covariance=C,
            correlation=V,
            power=np.ones(k),
            mean=_numbers(mean, 0.0, d, "mean"),
            scale=scale,
            target_mean=_numbers(target_mean, 0.0, k, "target_mean"),
            target_scale=target_scale,
            n_samples=np.inf,
        )


def _refuse_impossible(C: Array, V: Array) -> None:
    """Correlations that no columns have together, although each pair could."""
    factor, slack = None, _ROUNDED * np.eye(len(C))
    with contextlib.suppress(LinAlgError):
        factor = cholesky(C + slack, lower=True, check_finite=False)
    if factor is None:
        raise ValueError("covariance has a negative eigenvalue: no data has such moments")
    explained = (solve_triangular(factor, V, lower=True, check_finite=False) ** 2).sum(axis=0)
    if (explained > 1 + 1e-4).any():
        raise ValueError(
            f"the columns would explain {explained.max():.3g} times the variance of a target; is target_variance right?"
        )


class Moments:
    """Sums over rows seen so far.

    Examples
    --------
    >>> moments = Moments(2, 1)
    >>> moments.add(np.array([[1.0, 4.0], [3.0, np.nan]]), np.array([[1.0], [2.0]]))
    >>> moments.standardised().mean
    array([2., 4.])
    """

    def __init__(self, n_columns: int, n_targets: int) -> None:
        self.n_columns, self.n_targets = n_columns, n_targets
        self.weight, self.n_rows = 0.0, 0.0
        # Near the means, so that squares do not drown the variances; NaN until a value has been seen.
        self.shift = np.full(n_columns, np.nan)
        self.target_shift = np.full(n_targets, np.nan)
        self.sums = np.zeros(n_columns)
        self.products = np.zeros((n_columns, n_columns), order="F")  # the lower triangle
        self.target_sums = np.zeros(n_targets)
        self.target_squares = np.zeros(n_targets)
        self.cross = np.zeros((n_columns, n_targets))
        # Sums over the rows in which column i is missing: of 1 (with column j missing too), of x_j, of y.
        self.gaps: Array | None = None
        self.gap_sums: Array | None = None
        self.gap_targets: Array | None = None

    def beside(self) -> Moments:
        """Empty sums that can be merged with these."""
        other = Moments(self.n_columns, self.n_targets)
        other.shift, other.target_shift = self.shift, self.target_shift
        return other

    # ------------------------------------------------------------------ gathering

    def add(
        self,
        X: NDArray[np.floating],  # (n, d): NaN where a value is missing
        Y: Array,  # (n, k)
        weight: Array | None = None,  # (n,): positive
        rows: NDArray[np.intp] | None = None,  # (m,): those to add; all when not given
    ) -> None:
        """Add rows."""
        n = len(X) if rows is None else len(rows)
        size = max(_FEWEST_ROWS, _CHUNK_BYTES // (8 * max(self.n_columns, 1)))
        if n:
            self.locate(X, Y)
        for first in range(0, n, size):
            part: Any = slice(first, first + size) if rows is None else rows[first : first + size]
            self._add(X, Y[part], None if weight is None else weight[part], part)

    def locate(self, X: NDArray[np.floating], Y: Array) -> None:
        """Find out where about the columns lie that have their first values here; in place, for all sums beside these too.

        ``add`` does so by itself. Rows that are shared out among several sums have to be shown to one of them first, together.
        """
        if np.isnan(self.target_shift).any() and len(Y):
            self.target_shift[:] = Y.mean(axis=0)
        new = np.flatnonzero(np.isnan(self.shift))
        if not new.size or not len(X):
            return
        with warnings.catch_warnings(action="ignore"):  # of columns that still have none
            self.shift[new] = np.nanmean(X[:_FEW_ROWS, new], axis=0, dtype=np.float64)
            for j in np.flatnonzero(np.isnan(self.shift)):
                self.shift[j] = np.nanmean(X[:, j], dtype=np.float64)

    def _add(self, X: NDArray[np.floating], Y: Array, weight: Array | None, rows: Any) -> None:
        part = X[rows]
        Z = np.subtract(part, self.shift, out=self._workspace(part))
        T = Y - self.target_shift
        totals = Z.sum(axis=0)
        if np.isnan(totals).any():
            self._add_gaps(Z, T, np.flatnonzero(np.isnan(totals)), weight)
            totals = Z.sum(axis=0)
        if weight is not None:
            root = np.sqrt(weight)[:, None]
            totals = weight @ Z
            self.target_sums += weight @ T
            Z *= root
            T = T * root
        else:
            self.target_sums += T.sum(axis=0)
        self.weight += float(len(Z) if weight is None else weight.sum())
        self.n_rows += len(Z)
        self.sums += totals
        syrk = get_blas_funcs("syrk", dtype=np.float64)
        by_column = bool(Z.flags.f_contiguous)
        self.products = syrk(
            1.0, Z if by_column else Z.T, trans=by_column, beta=1.0, c=self.products, lower=1, overwrite_c=1
        )
        self.cross += Z.T @ T
        with np.errstate(over="ignore"):  # ``standardised`` tells
            self.target_squares += (T**2).sum(axis=0)

    def locate_at_zero(self, Y: Array) -> None:
        """As ``locate``, for sparse rows: columns lie about 0."""
        if np.isnan(self.target_shift).any() and len(Y):
            self.target_shift[:] = Y.mean(axis=0)
        self.shift[np.isnan(self.shift)] = 0.0

    def add_sparse(self, X: Any, Y: Array, weight: Array | None = None) -> None:
        """Add the rows of a sparse array (n, d), where nothing is missing; ``locate_at_zero`` comes first."""
        T, s = Y - self.target_shift, self.shift
        W = X if weight is None else X.multiply(weight[:, None]).tocsr()
        total = float(len(Y) if weight is None else weight.sum())
        sums, targets = np.asarray(W.sum(axis=0)).ravel(), T.sum(axis=0) if weight is None else weight @ T
        products = (W.T @ X).toarray()
        if s.any():  # of columns whose first values came in dense rows: Σ(x_i - s_i)(x_j - s_j)
            products -= np.outer(s, sums) + np.outer(sums - total * s, s)
        self.products += products
        self.cross += W.T @ T - np.outer(s, targets)
        self.sums += sums - total * s
        self.target_sums += targets
        with np.errstate(over="ignore"):  # ``standardised`` tells
            self.target_squares += (T**2 if weight is None else weight[:, None] * T**2).sum(axis=0)
        self.weight += total
        self.n_rows += len(Y)

    def _workspace(self, part: NDArray[np.floating]) -> Array:
        """Room for a chunk in its own order of memory, the same as for the chunk before: fresh pages take time."""
        work = self.__dict__.get("_work")
        if work is None or work.size < part.size:
            work = self._work = np.empty(part.size)
        order: Any = "F" if part.strides[0] < part.strides[1] else "C"
        return np.asarray(work[: part.size].reshape(part.shape, order=order))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_work"}

    def _add_gaps(self, Z: Array, T: Array, columns: NDArray[np.intp], weight: Array | None) -> None:
        """Count the gaps of ``columns``, then fill them with 0."""
        if self.gaps is None or self.gap_sums is None or self.gap_targets is None:
            self.gaps = np.zeros((self.n_columns, self.n_columns))
            self.gap_sums = np.zeros((self.n_columns, self.n_columns))
            self.gap_targets = np.zeros((self.n_columns, self.n_targets))
        gap = np.isnan(Z[:, columns])
        Z[:, columns] = np.where(gap, 0.0, Z[:, columns])
        U = gap.astype(np.float64)
        weighted = U if weight is None else U * weight[:, None]
        self.gaps[np.ix_(columns, columns)] += weighted.T @ U
        self.gap_sums[columns] += weighted.T @ Z
        self.gap_targets[columns] += weighted.T @ T

    def merged(self, other: Moments) -> Moments:
        """The sums over the rows of both; ``other`` came from ``beside``."""
        if not np.array_equal(self.shift, other.shift, equal_nan=True):
            raise ValueError(
                "moments can be merged only if they share a centre; create the second with beside()"
            )
        if not other.n_rows:
            return self
        total = copy.copy(self)
        for name in ("weight", "n_rows", "sums", "products", "target_sums", "target_squares", "cross"):
            setattr(total, name, getattr(self, name) + getattr(other, name))
        for name in ("gaps", "gap_sums", "gap_targets"):
            mine, theirs = getattr(self, name), getattr(other, name)
            setattr(total, name, theirs if mine is None else mine if theirs is None else mine + theirs)
        return total

    def only(self, columns: NDArray[np.intp]) -> Moments:
        """The sums of some columns, which rise."""
        part = copy.copy(self)
        part.n_columns = columns.size
        square = np.ix_(columns, columns)
        part.shift, part.sums, part.cross = self.shift[columns], self.sums[columns], self.cross[columns]
        part.products = np.asfortranarray(self.products[square])
        if self.gaps is not None and self.gap_sums is not None and self.gap_targets is not None:
            part.gaps, part.gap_sums = self.gaps[square], self.gap_sums[square]
            part.gap_targets = self.gap_targets[columns]
        return part

    # ------------------------------------------------------------------ reading

    def means(self) -> tuple[Array, Array]:
        """Means of the columns, over the rows that have them, and of the targets."""
        if not self.weight > 0:
            raise ValueError("there are no moments of no rows: add rows of positive weight first")
        counts = self.weight - (0.0 if self.gaps is None else np.diag(self.gaps))
        centre = np.divide(self.sums, counts, out=np.zeros(self.n_columns), where=counts > 0)
        return np.nan_to_num(self.shift) + centre, self.target_shift + self.target_sums / self.weight

    def centred(
        self, mean: Array | None = None, target_mean: Array | None = None
    ) -> tuple[Array, Array, Array]:
        """Moments about the means, or about given ones: ``X'X / n`` (d, d), ``X'Y / n`` (d, k) and ``diag(Y'Y / n)`` (k,).

        A missing value counts as the mean (so as 0 here).
        """
        own_mean, own_target = self.means()
        m = (own_mean if mean is None else mean) - np.nan_to_num(self.shift)
        t = (own_target if target_mean is None else target_mean) - self.target_shift
        n = self.weight
        if self.gaps is None or self.gap_sums is None or self.gap_targets is None:
            # rank-2 correction, one pass: Σ(z_i - m_i)(z_j - m_j) = P_ij - m_i s_j - s_i m_j + n m_i m_j
            C = self.products / n
            if m.any() or self.sums.any():
                syr2 = get_blas_funcs("syr2", dtype=np.float64)
                C = syr2(-1.0, m, self.sums / n - 0.5 * m, a=C, lower=1, overwrite_a=1)
            C = _mirrored(C)
            V = (
                self.cross / n
                - np.outer(self.sums / n, t)
                - np.outer(m, self.target_sums / n)
                + np.outer(m, t)
            )
        else:
            missing = np.diag(self.gaps)
            seen_sums = self.sums - self.gap_sums  # [i, j]: Σ of x_j over the rows that have x_i
            both = n - missing[:, None] - missing[None, :] + self.gaps
            cross_sums = m[:, None] * seen_sums
            C = (self.products - cross_sums - cross_sums.T + np.outer(m, m) * both) / n
            C = _mirrored(np.asfortranarray(C))
            seen_targets = self.target_sums - self.gap_targets  # [i]: Σ of y over the rows that have x_i
            seen = (n - missing)[:, None]
            V = (self.cross - m[:, None] * seen_targets - (self.sums - m * seen[:, 0])[:, None] * t) / n
        power = self.target_squares / n - 2 * t * self.target_sums / n + t**2
        return C, V, np.maximum(power, 0.0)

    def standardised(self, like: Standardised | None = None) -> Standardised:
        """Moments in units of the standard deviations, or in those of another set of rows."""
        refuse_overflow(np.diag(self.products), "column")
        refuse_overflow(self.target_squares, "target")
        mean, target_mean = self.means() if like is None else (like.mean, like.target_mean)
        C, V, power = self.centred(mean, target_mean)
        if like is None:
            scale, varies = deviations(mean, np.diag(C), "column")
            target_scale, target_varies = deviations(target_mean, power, "target")
        else:
            scale, varies = like.scale, np.diag(like.covariance) > 0
            target_scale, target_varies = like.target_scale, like.power > 0
        per = np.where(varies, 1.0 / scale, 0.0)
        per_target = np.where(target_varies, 1.0 / target_scale, 0.0)
        C *= per
        C *= per[:, None]
        V = V * per[:, None] * per_target
        power = power * per_target**2
        return Standardised(C, V, power, mean, scale, target_mean, target_scale, float(self.n_rows))


def _numbers(numbers: ArrayLike | None, default: float, size: int, name: str) -> Array:
    """(size,) numbers from one or all of them."""
    values = np.asarray(default if numbers is None else numbers, dtype=np.float64)
    if values.shape not in ((), (size,)) or not np.isfinite(values).all():
        raise ValueError(f"{name} must be a finite number or {size} of them; it has shape {values.shape}")
    return np.broadcast_to(values, size).copy()


def refuse_overflow(squares: Array, what: str) -> None:
    """Raise where a sum of squares was too large."""
    if not np.isfinite(squares).all():
        at = int(np.argmin(np.isfinite(squares)))
        raise ValueError(
            f"{what} {at} holds numbers too large to be squared; divide them by some power of ten"
        )


def deviations(mean: Array, variance: Array, what: str) -> tuple[Array, NDArray[np.bool_]]:
    """Standard deviations, 1 for what is constant but for rounding; and what is not."""
    refuse_overflow(variance, what)
    spread = np.sqrt(np.maximum(variance, 0.0))
    varies = spread > _CONSTANT * np.maximum(np.abs(mean), _SMALLEST)
    return np.where(varies, spread, 1.0), varies


def submatrix(S: Array, columns: NDArray[np.intp]) -> Array:
    """``S[np.ix_(columns, columns)]``, of which a few rows at a time are gathered while they are in the cache."""
    out = np.empty((columns.size, columns.size))
    for first in range(0, columns.size, _TILE):
        rows = S[columns[first : first + _TILE]]
        rows.take(columns, axis=1, out=out[first : first + _TILE], mode="clip")  # others copy once more
    return out


def _mirrored(lower: Array) -> Array:
    """The symmetric matrix, in C order, of which this is the lower triangle in Fortran order; in place."""
    for first in range(0, len(lower), _TILE):
        last = first + _TILE
        lower[first:last, last:] = lower[last:, first:last].T
        tile = lower[first:last, first:last]
        tile[:] = np.tril(tile) + np.tril(tile, -1).T
    return lower.T
