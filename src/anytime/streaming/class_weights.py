"""How much the rows of each class count while a classifier learns from a stream."""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.plan import Array


class ClassWeights:
    """Factors on the weights of rows: fixed ones, or by how often each class has come so far.

    Nobody knows the frequencies of classes before a stream ends. So "balanced" weighs a row by the rows up to and including it:
    ``n / (C n_c)``, where counts begin with one row of each class. Rows in other chunks weigh the same, to the last bit.
    """

    def __init__(self, n_classes: int, fixed: ArrayLike | None = None) -> None:  # (C,); None: balanced
        self.fixed = None if fixed is None else np.asarray(fixed, dtype=np.float64)
        self.counts = np.ones(n_classes)

    def apply(self, y: NDArray[Any], weight: Array | None) -> Array:
        """(n,) Weights of the next rows of classes ``y``, numbered 0 to C - 1; takes note of them."""
        classes = y.astype(np.intp)
        if self.fixed is not None:
            factors = self.fixed[classes]
        else:
            counts = self.counts + np.cumsum(np.eye(self.counts.size)[classes], axis=0)
            factors = counts.sum(axis=1) / (counts.shape[1] * counts[np.arange(len(y)), classes])
            self.counts = counts[-1]
        return np.asarray(factors if weight is None else weight * factors)

    def state(self) -> dict[str, Any]:
        """What a file keeps."""
        return {"fixed": self.fixed, "counts": self.counts}

    @classmethod
    def from_state(cls, state: Mapping[str, Any], n_classes: int) -> Self:
        """Read what ``state`` gave."""
        weights = cls(n_classes, state["fixed"])
        weights.counts = np.array(state["counts"], dtype=np.float64)
        for numbers in (weights.counts, weights.fixed):
            if numbers is not None and (
                numbers.shape != (n_classes,) or not (np.isfinite(numbers) & (numbers > 0)).all()
            ):
                raise ValueError(f"expected positive weights of {n_classes} classes")
        return weights
