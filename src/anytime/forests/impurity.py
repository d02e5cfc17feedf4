"""Impurities of sets of examples, which budgeted trees reduce per unit of price.

An impurity is *admissible* when it is non-negative, zero on pure sets, monotone and supermodular; greedy trees then cost at most
``1 + ln F`` times the cheapest possible in the worst case (Nan, Wang and Saligrama, *Feature-Budgeted Random Forest*, ICML 2015).
It is a function of sums over the set: the (weighted) counts of the classes, or for regression ``sum w, sum w y, sum w y^2``.

    ClassPairs(alpha=2)([[5, 4], [3, 9]])       # many sets at once
"""

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "ClassPairs",
    "CustomImpurity",
    "Entropy",
    "Gini",
    "Impurity",
    "Powers",
    "SquaredError",
    "SquaredPairs",
    "read_impurity",
]

Array = NDArray[np.float64]


class Impurity(ABC):
    """A function of the statistics of sets.

    Attributes
    ----------
    regression : bool
        Statistics are ``(sum w, sum w y, sum w y^2)`` instead of counts of classes.
    """

    regression: ClassVar[bool] = False
    native_name: ClassVar[str]

    def __call__(self, statistics: ArrayLike) -> Array:
        """(m,) the impurities of m sets.

        Parameters
        ----------
        statistics : (m, C)
            One row for each set.
        """
        counts = np.asarray(statistics, dtype=np.float64)
        if counts.ndim != 2:
            raise ValueError(f"statistics must be (m, C), one row for each set, not of shape {counts.shape}")
        if self.regression and counts.shape[1] != 3:
            raise ValueError(
                f"{type(self).__name__} needs (sum w, sum w y, sum w y^2), not {counts.shape[1]} columns"
            )
        return np.asarray(self._of(counts), dtype=np.float64)

    @abstractmethod
    def _of(self, n: Array) -> Array:
        """(m,) from (m, C) statistics."""

    def native(self) -> tuple[str, Any]:
        """Its name in the native grower, and its parameter."""
        return self.native_name, None


@dataclass(frozen=True)
class ClassPairs(Impurity):
    """Threshold-Pairs: ``sum_{i<j} [ [n_i - alpha]_+ [n_j - alpha]_+ - alpha^2 ]_+``.

    Parameters
    ----------
    alpha : float, default=0.0
        0: the number of pairs of examples with different classes. Larger values tolerate a few examples of other classes in a
        leaf: trees are shallower, cheaper and less exact.
    """

    alpha: float = 0.0

    def __post_init__(self) -> None:
        if not (self.alpha >= 0 and math.isfinite(self.alpha)):
            raise ValueError(f"alpha is {self.alpha}; it must be finite and not negative")

    def _of(self, n: Array) -> Array:
        above = np.maximum(n - self.alpha, 0.0)
        total = np.zeros(len(n))
        for i, j in itertools.combinations(range(n.shape[1]), 2):
            total += np.maximum(above[:, i] * above[:, j] - self.alpha * self.alpha, 0.0)
        return total

    def native(self) -> tuple[str, Any]:
        """Its name in the native grower, and ``alpha``."""
        return "pairs", float(self.alpha)


@dataclass(frozen=True)
class Powers(Impurity):
    """``(sum_i n_i)^l - sum_i n_i^l``; for l = 2 twice ``ClassPairs()``.

    Parameters
    ----------
    degree : int, default=2
        l, at least 2.
    """

    degree: int = 2

    def __post_init__(self) -> None:
        if self.degree != int(self.degree) or self.degree < 2:
            raise ValueError(f"degree is {self.degree}; it must be a whole number, at least 2")

    def _of(self, n: Array) -> Array:
        return np.asarray(n.sum(axis=1) ** self.degree - (n**self.degree).sum(axis=1))

    def native(self) -> tuple[str, Any]:
        """Its name in the native grower, and ``degree``."""
        return "powers", int(self.degree)


@dataclass(frozen=True)
class Entropy(Impurity):
    """Per example, in nats: ``-sum_i p_i ln p_i``. Not admissible; for ordinary forests."""

    native_name = "entropy"

    def _of(self, n: Array) -> Array:
        share = n / np.maximum(n.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        return np.asarray(-(share * np.log(np.where(share > 0, share, 1.0))).sum(axis=1))


@dataclass(frozen=True)
class Gini(Impurity):
    """Per example: ``1 - sum_i p_i^2``. Not admissible; for ordinary forests."""

    native_name = "gini"

    def _of(self, n: Array) -> Array:
        total = n.sum(axis=1)
        pairs = ClassPairs()._of(n)
        return np.asarray(2.0 * pairs / np.where(total > 0, total * total, 1.0))


@dataclass(frozen=True)
class SquaredPairs(Impurity):
    """For regression: ``sum_{i<j} w_i w_j (y_i - y_j)^2 = (sum w)(sum w y^2) - (sum w y)^2``. Admissible."""

    regression: ClassVar[bool] = True
    native_name = "squared_pairs"

    def _of(self, n: Array) -> Array:
        return np.maximum(n[:, 0] * n[:, 2] - n[:, 1] * n[:, 1], 0.0)


@dataclass(frozen=True)
class SquaredError(Impurity):
    """For ordinary regression forests, per example: ``sum w (y - mean)^2 / sum w``. Not admissible."""

    regression: ClassVar[bool] = True
    native_name = "squared_error"

    def _of(self, n: Array) -> Array:
        weight = np.where(n[:, 0] > 0, n[:, 0], 1.0)
        return np.maximum(n[:, 2] / weight - (n[:, 1] / weight) ** 2, 0.0)


@dataclass(frozen=True)
class CustomImpurity(Impurity):
    """A custom impurity. The grower calls it once per node, with all candidate sets.

    Parameters
    ----------
    function : callable
        (m, C) counts of classes to (m,) impurities, finite and not negative.
    """

    function: Callable[[Array], ArrayLike]

    def _of(self, n: Array) -> Array:
        values = np.asarray(self.function(n), dtype=np.float64)
        if values.shape != (len(n),):
            raise ValueError(f"the impurity of {len(n)} sets has the shape {values.shape}, not ({len(n)},)")
        return values

    def native(self) -> tuple[str, Any]:
        """Its name in the native grower, and the function to call."""
        return "custom", self._not_negative

    def _not_negative(self, n: Array) -> Array:
        values = self(n)
        usable = (values >= 0) & (values < np.inf)
        if not usable.all():
            bad = np.flatnonzero(~usable)[0]
            raise ValueError(
                f"the impurity of a set with sums {n[bad]} is {values[bad]}; it must be finite and not negative"
            )
        return np.ascontiguousarray(values)


def read_impurity(name: str, parameter: Any) -> Impurity:
    """The impurity with this ``native()``; not a custom one, which is a function."""
    kinds: dict[str, Callable[..., Impurity]] = {"pairs": ClassPairs, "powers": Powers}
    kinds |= {kind.native_name: kind for kind in (Entropy, Gini, SquaredPairs, SquaredError)}
    if name not in kinds:
        raise ValueError(f"no impurity is called {name!r}; use one of {', '.join(kinds)}")
    return kinds[name]() if parameter is None else kinds[name](parameter)
