"""Guarantees of greedy selection for least squares from the covariance of the columns."""

from __future__ import annotations

import itertools
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import block_diag, eigh, eigvalsh

Array = NDArray[np.float64]

__all__ = ["spectral_gamma"]

_RANK_TOLERANCE = (
    1e-10  # directions of a group with less than this share of its largest variance are not there
)


def spectral_gamma(
    covariance: ArrayLike,
    l2_regularization: float = 0.0,
    start: ArrayLike | None = None,
    *,
    penalty: Literal["identity", "groups"] = "identity",
    criterion: Literal["forward", "omp", "literal", "unwhitened", "single"] = "forward",
) -> float:
    """The ``gamma`` of Lemma 3.3.1 and Theorem 3.3.2: how close greedy selection of groups of columns is to the best.

    ``F(rival) - F(G) <= budget / gamma`` times the gain per unit of cost of the next step, whenever that step maximises the
    criterion per unit of cost. With "forward" it is also a lower bound on ``submodularity_ratio``.

    Parameters
    ----------
    covariance : (d, d) float
        ``S = X'X / n``, groups of columns side by side. A constant column is zero.
    l2_regularization : float, default=0.0
        Weight of the penalty: ``C = S + l2_regularization P``.
    start : (J + 1,) int, default=None
        Group ``g`` has the columns ``start[g]:start[g + 1]``; None: each column is a group.
    penalty : {"identity", "groups"}, default="identity"
        ``P``: the identity, or the blocks ``S_g`` of the groups, which is ridge on whitened columns.
    criterion : str, default="forward"
        Criterion of the choice of groups, where ``b`` is the gradient (rows of the table in section 3.2):

        - "forward", the true gain, and "omp", ``b_g' C_g^-1 b_g``: the least eigenvalue of ``C u = mu blocks(C) u``. On whitened
          data, or with ``penalty="groups"``, this is ``(least + l2_regularization) / (1 + l2_regularization)``;
        - "literal", ``b_g' S_g^-1 b_g``;
        - "unwhitened", ``b_g' b_g``: least eigenvalue of ``C`` over the largest of any ``C_g``, which is also the constant *rho*
          by which grouped least squares is approximately submodular (Grubb, section 5.6);
        - "single", the largest ``b_i**2`` of the group.

    Returns
    -------
    float
        Between 0 and 1; 0 gives no guarantee.

    Examples
    --------
    >>> round(spectral_gamma([[1.0, 0.6], [0.6, 1.0]]), 6)
    0.4
    >>> round(spectral_gamma([[1.0, 0.6], [0.6, 1.0]], l2_regularization=0.5), 6)  # (0.4 + 0.5) / (1 + 0.5)
    0.6
    """
    S = _checked_covariance(covariance)
    start = _checked_start(start, len(S))
    if not 0 <= l2_regularization < np.inf:
        raise ValueError(f"l2_regularization is {l2_regularization}; it must be finite and not negative")
    if penalty not in ("identity", "groups"):
        raise ValueError(f"penalty is {penalty!r}; it must be 'identity' or 'groups'")

    # In the axes of the groups, all blocks are diagonal: S_g to ``spread``, C_g to ``own``.
    groups = list(itertools.pairwise(start))
    axes = block_diag(*(_axes(S[i:j, i:j]) for i, j in groups))
    if not axes.size:
        return 1.0  # nothing gains anything
    inner = axes.T @ S @ axes
    spread = np.diag(inner).copy()
    penalised = spread if penalty == "groups" else np.ones_like(spread)
    own = spread + l2_regularization * penalised

    def least_eigenvalue(scale: Array) -> float:
        root = np.sqrt(scale)
        C = (inner + np.diag(l2_regularization * penalised)) / np.outer(root, root)
        return max(float(eigvalsh(C, subset_by_index=[0, 0])[0]), 0.0)

    if criterion in ("forward", "omp"):
        gamma = least_eigenvalue(own)
    elif criterion == "literal":
        gamma = least_eigenvalue(spread) * (spread / own).min()
    elif criterion == "unwhitened":
        gamma = least_eigenvalue(np.ones_like(own)) / own.max()
    elif criterion == "single":
        variance = np.diag(S)
        widest = max(np.count_nonzero(variance[i:j]) for i, j in groups)
        largest = (variance + l2_regularization * (variance if penalty == "groups" else 1.0)).max()
        gamma = least_eigenvalue(np.ones_like(own)) / (widest * largest)
    else:
        raise ValueError(
            f"criterion is {criterion!r}; it must be 'forward', 'omp', 'literal', 'unwhitened' or 'single'"
        )
    return float(min(gamma, 1.0))


def _axes(block: Array) -> Array:
    """Orthonormal directions in which the columns of a group vary, (d, r)."""
    if not block.size:
        return np.empty((0, 0))
    variances, directions = eigh(block)
    return np.asarray(directions[:, variances > _RANK_TOLERANCE * max(variances[-1], 0.0)])


def _checked_covariance(covariance: ArrayLike) -> Array:
    S = np.asarray(covariance, dtype=np.float64)
    if S.ndim != 2 or S.shape[0] != S.shape[1] or not np.isfinite(S).all() or not np.allclose(S, S.T):
        raise ValueError(f"covariance must be a symmetric matrix of finite numbers; its shape is {S.shape}")
    return S


def _checked_start(start: ArrayLike | None, n_columns: int) -> NDArray[np.intp]:
    if start is None:
        return np.arange(n_columns + 1)
    start = np.asarray(start, dtype=np.intp)
    if (
        start.ndim != 1
        or not start.size
        or start[0] != 0
        or start[-1] != n_columns
        or (np.diff(start) < 0).any()
    ):
        raise ValueError(f"start must rise from 0 to the number of columns, {n_columns}")
    return start
