"""What the loss of a quick model foretells of the full one: its loss, and how many rounds it needs."""

import numpy as np
from sklearn.isotonic import isotonic_regression

_STRAIGHT = 0.02  # share of a straight line in the curve of losses, so that it rises everywhere


class Foretelling:
    """Curves through a few models that were judged in full."""

    def __init__(self) -> None:
        self._known: list[tuple[float, float, int]] = []

    def __len__(self) -> int:
        return len(self._known)

    def add(self, quick: float, loss: float, rounds: int) -> None:
        """Note a model: the loss of its quick model, its own, and its rounds."""
        self._known = sorted([*self._known, (quick, loss, rounds)])

    def rounds(self, quick: float) -> int:
        """Between its neighbours, on the logarithm."""
        x, _, rounds = (np.array(column, dtype=np.float64) for column in zip(*self._known, strict=True))
        return round(float(np.exp(np.interp(quick, x, np.log(np.maximum(rounds, 1))))))

    def loss(self, quick: float) -> float:
        """Rises with the loss of the quick model, between its neighbours and beyond them."""
        x, loss, _ = (np.array(column, dtype=np.float64) for column in zip(*self._known, strict=True))
        rising = isotonic_regression(loss)
        if rising[-1] == rising[0] or x[-1] == x[0]:  # nothing tells how steep it is
            return float(loss.mean() + quick - x[0])
        slope = (rising[-1] - rising[0]) / (x[-1] - x[0])
        inside = float(np.clip(quick, x[0], x[-1]))
        beyond = slope * (quick - inside)
        line = rising[0] + slope * (inside - x[0])
        return float((1 - _STRAIGHT) * np.interp(inside, x, rising) + _STRAIGHT * line + beyond)
