"""Functions of the scores of each row: for a million rows of few scores, several times as fast as reductions along an axis."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def row_sums(values: Array) -> Array:
    """(n,) Sums of the rows of (n, K)."""
    return np.asarray(np.einsum("nk->n", values))


def softplus(values: Array) -> Array:
    """``log(1 + exp(values))``."""
    out = np.exp(-np.abs(values))
    np.log1p(out, out=out)
    out += np.maximum(values, 0.0)
    return np.asarray(out)


def softmax(scores: Array) -> Array:
    """(n, K) Probabilities from scores on a logarithmic scale."""
    out, _ = _shifted(scores)
    out /= row_sums(out)[:, None]
    return out


def log_sum_exp(scores: Array) -> Array:
    """(n,) ``log sum_k exp(scores_k)``."""
    out, largest = _shifted(scores)
    return np.asarray(np.log(row_sums(out)) + largest)


def _shifted(scores: Array) -> tuple[Array, Array]:
    """``exp(scores - largest)``, and the largest score of each row."""
    largest = scores[:, 0].copy()
    for k in range(1, scores.shape[1]):
        np.maximum(largest, scores[:, k], out=largest)
    out = scores - largest[:, None]
    return np.asarray(np.exp(out, out=out)), largest
