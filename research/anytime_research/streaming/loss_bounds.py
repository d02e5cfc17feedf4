"""How large losses of a stream and their gradients can be where scores are bounded (Hu 2019, section 5.8.5)."""

from __future__ import annotations

import numpy as np

from anytime.streaming.losses import Absolute, Hinge, Logistic, Softmax, Squared, StreamLoss

__all__ = ["gradient_bound", "value_bound"]


def gradient_bound(loss: StreamLoss, radius: float, n_outputs: int = 1) -> float:
    """``G``: no gradient is longer where scores (and targets that are scores) are no longer than ``radius``."""
    if isinstance(loss, Squared):
        return 2.0 * radius * (1.0 + loss.rho)  # score and target lie opposite each other
    steepest = {Logistic: 1.0, Hinge: 1.0, Softmax: np.sqrt(2.0), Absolute: np.sqrt(n_outputs)}[type(loss)]
    return float(steepest) + 2.0 * loss.rho * radius


def value_bound(loss: StreamLoss, radius: float, n_outputs: int = 1) -> float:
    """``B``: no loss is larger where scores (and targets that are scores) are no longer than ``radius``."""
    if isinstance(loss, Squared):
        plain = 2.0 * radius**2
    elif isinstance(loss, Logistic):
        plain = float(np.logaddexp(0.0, radius))
    elif isinstance(loss, Hinge):
        plain = 1.0 + radius
    elif isinstance(loss, Absolute):
        plain = 2.0 * radius * float(np.sqrt(n_outputs))
    else:  # softmax: scores r / sqrt(2) and -r / sqrt(2) are as far apart as they can be
        far = np.sqrt(2.0) * radius
        plain = float(np.logaddexp(np.log(max(n_outputs - 1, 1)), -far) + far)
    return plain + loss.rho * radius**2
