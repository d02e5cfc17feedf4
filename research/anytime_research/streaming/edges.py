"""The edge that a class of hypotheses has on fixed targets, before any stream (Hu 2019, proposition 5.4.3)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

__all__ = ["EdgeEstimate", "estimate_edge"]


class EdgeEstimate(NamedTuple):
    """Edges that a class of hypotheses has on fixed targets.

    Attributes
    ----------
    single : float
        ``eps^2``, of the best multiple of one hypothesis: the squared cosine between it and the targets.
    span : float
        Of the best sum of multiples: R^2 about zero of least squares.
    best : int
        Which hypothesis ``single`` is of.
    """

    single: float
    span: float
    best: int


def estimate_edge(outputs: ArrayLike, targets: ArrayLike) -> EdgeEstimate:
    """The edge that proposition 5.4.3 promises for fixed targets, from outputs of k hypotheses on a sample.

    Positive unless all hypotheses are orthogonal to the targets, and then no sum of them can help. Targets that are zero are
    fitted by doing nothing: edge 1.

    Parameters
    ----------
    outputs : (k, n) or (k, n, m)
    targets : (n,) or (n, m)

    Examples
    --------
    >>> estimate_edge([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], [3.0, 4.0, 0.0])
    EdgeEstimate(single=0.64, span=1.0, best=1)
    """
    table = np.asarray(outputs, dtype=np.float64)
    H, g = table.reshape(len(table), -1), np.asarray(targets, dtype=np.float64).ravel()
    if H.shape[1] != g.size:
        raise ValueError(f"outputs are on {H.shape[1]} values and targets are {g.size}")
    length = float(g @ g)
    if length == 0:
        return EdgeEstimate(1.0, 1.0, 0)
    sizes = np.einsum("kn,kn->k", H, H)
    cosines = np.divide((H @ g) ** 2, sizes * length, out=np.zeros_like(sizes), where=sizes > 0)
    fitted = H.T @ np.linalg.lstsq(H.T, g, rcond=None)[0]
    span = 1.0 - float((g - fitted) @ (g - fitted)) / length
    return EdgeEstimate(float(cosines.max()), span, int(cosines.argmax()))
