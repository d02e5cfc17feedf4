"""What is left of ``spectral_gamma`` where the loss is not squared: strong convexity over smoothness."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigvalsh

from anytime.greedy import spectral_gamma

__all__ = ["curvature_constants", "curved_gamma"]


def curved_gamma(covariance: ArrayLike, l2_regularization: float, curvature: tuple[float, float]) -> float:
    """``spectral_gamma`` times ``m / M`` of a loss whose second derivative lies between the two numbers of ``curvature``."""
    spectrum = eigvalsh(np.asarray(covariance, dtype=np.float64))
    m, M = curvature_constants(max(spectrum[0], 0.0), spectrum[-1], l2_regularization, *curvature)
    return spectral_gamma(covariance, l2_regularization) * (m / M if M > 0 else 0.0)


def curvature_constants(
    least: float, most: float, l2_regularization: float, lower: float, upper: float
) -> tuple[float, float]:
    """Strong convexity ``m`` and smoothness ``M`` of a penalised loss in the norm ``w'Cw``, ``C = S + r I`` (section 3.5).

    Parameters
    ----------
    least, most : float
        Extreme eigenvalues of ``S``.
    l2_regularization : float
    lower, upper : float
        Bounds on the second derivative of the loss: 1 and 1 for squared loss, 0 and 1/4 for the logistic, 0 and 1/2 for the
        multinomial.

    Returns
    -------
    (m, M)
        Theorem 3.3.2 holds with ``gamma`` times ``m / M``.
    """
    if not 0 <= lower <= upper:
        raise ValueError(
            f"curvature lies between {lower} and {upper}; these must be in order and not negative"
        )
    if l2_regularization == 0:
        return lower, upper
    ends = np.array([least, most])
    return (
        float(((lower * ends + l2_regularization) / (ends + l2_regularization)).min()),
        float(((upper * ends + l2_regularization) / (ends + l2_regularization)).max()),
    )
