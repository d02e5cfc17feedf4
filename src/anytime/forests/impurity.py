"""How mixed a set of examples is: what budgeted trees reduce per unit of price.

An impurity is *admissible* when it is non-negative, zero on pure sets, monotone and supermodular; greedy trees then cost at
most ``1 + ln F`` times the cheapest possible in the worst case (Nan, Wang and Saligrama, *Feature-Budgeted Random Forest*,
ICML 2015). It is a function of sums over the set: the (weighted) counts of the classes, or for regression
``sum w, sum w y, sum w y^2``.

    ClassPairs(alpha=2)([[5, 4], [3, 9]])       # many sets at once
    check_admissible(Gini()).counterexample
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "AdmissibilityReport",
    "ClassPairs",
    "CustomImpurity",
    "Entropy",
    "Gini",
    "Impurity",
    "Polynomial",
    "Powers",
    "SquaredError",
    "SquaredPairs",
    "check_admissible",
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

    def __call__(self, statistics: ArrayLike) -> Array:
        """(m,) the impurities of m sets.

        Parameters
        ----------
        statistics : (m, C)
            One row for each set.
        """
        given = np.asarray(statistics, dtype=np.float64)
        if given.ndim != 2:
            raise ValueError(f"statistics must be (m, C), one row for each set, not of shape {given.shape}")
        if self.regression and given.shape[1] != 3:
            raise ValueError(
                f"{type(self).__name__} needs (sum w, sum w y, sum w y^2), not {given.shape[1]} columns"
            )
        return np.asarray(self._of(given), dtype=np.float64)

    @abstractmethod
    def _of(self, n: Array) -> Array:
        """(m,) from (m, C) statistics."""

    @abstractmethod
    def native(self) -> tuple[str, Any]:
        """Its name in the native grower, and its parameters."""


@dataclass(frozen=True)
class ClassPairs(Impurity):
    """Threshold-Pairs: ``sum_{i<j} [ [n_i - alpha]_+ [n_j - alpha]_+ - alpha^2 ]_+``.

    Parameters
    ----------
    alpha : float, default=0.0
        0: the number of pairs of examples with different classes. A larger one forgives leaves a few examples of other
        classes: trees are shallower, cheaper and less exact.
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
        """Its name in the native grower, and its parameters."""
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
        """Its name in the native grower, and its parameters."""
        return "powers", int(self.degree)


@dataclass(frozen=True)
class Polynomial(Impurity):
    """``sum_m gamma_m prod_j n_j^{p_mj}``, every term with at least two classes in it.

    Parameters
    ----------
    terms : sequence of (gamma, exponents)
        ``gamma`` not negative; ``exponents`` whole numbers, one for each class, at least two of them positive.
    """

    terms: tuple[tuple[float, tuple[int, ...]], ...]

    def __init__(self, terms: Sequence[tuple[float, Sequence[int]]]) -> None:
        checked = tuple((float(gamma), tuple(exponents)) for gamma, exponents in terms)
        if not checked:
            raise ValueError("a polynomial needs at least one term (gamma, exponents)")
        for at, (gamma, exponents) in enumerate(checked):
            if not (gamma >= 0 and math.isfinite(gamma)):
                raise ValueError(f"term {at} has gamma {gamma}; it must be finite and not negative")
            if len(exponents) != len(checked[0][1]):
                raise ValueError(
                    f"term {at} has {len(exponents)} exponents, term 0 has {len(checked[0][1])}; give one for each class"
                )
            if any(p != int(p) or p < 0 for p in exponents):
                raise ValueError(f"term {at} has exponents {exponents}; they must be whole and not negative")
            if sum(p > 0 for p in exponents) < 2:
                raise ValueError(
                    f"term {at} has exponents {exponents}; at least two must be positive, or pure sets are impure"
                )
        object.__setattr__(self, "terms", tuple((g, tuple(map(int, e))) for g, e in checked))

    def _of(self, n: Array) -> Array:
        if n.shape[1] != len(self.terms[0][1]):
            raise ValueError(
                f"the polynomial has exponents for {len(self.terms[0][1])} classes, there are {n.shape[1]}"
            )
        total = np.zeros(len(n))
        for gamma, exponents in self.terms:
            term = np.full(len(n), gamma)
            for j, power in enumerate(exponents):
                for _ in range(power):
                    term = term * n[:, j]
            total += term
        return total

    def native(self) -> tuple[str, Any]:
        """Its name in the native grower, and its parameters."""
        return "polynomial", self.terms


@dataclass(frozen=True)
class Entropy(Impurity):
    """Per example, in nats: ``-sum_i p_i ln p_i``. Not admissible; for ordinary forests."""

    def _of(self, n: Array) -> Array:
        share = n / np.maximum(n.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        return np.asarray(-(share * np.log(np.where(share > 0, share, 1.0))).sum(axis=1))

    def native(self) -> tuple[str, Any]:
        """Its name in the native grower, and its parameters."""
        return "entropy", None


@dataclass(frozen=True)
class Gini(Impurity):
    """Per example: ``1 - sum_i p_i^2``. Not admissible; for ordinary forests."""

    def _of(self, n: Array) -> Array:
        total = n.sum(axis=1)
        pairs = ClassPairs()._of(n)
        return np.asarray(2.0 * pairs / np.where(total > 0, total * total, 1.0))

    def native(self) -> tuple[str, Any]:
        """Its name in the native grower, and its parameters."""
        return "gini", None


@dataclass(frozen=True)
class SquaredPairs(Impurity):
    """For regression: ``sum_{i<j} w_i w_j (y_i - y_j)^2 = (sum w)(sum w y^2) - (sum w y)^2``. Admissible."""

    regression: ClassVar[bool] = True

    def _of(self, n: Array) -> Array:
        return np.maximum(n[:, 0] * n[:, 2] - n[:, 1] * n[:, 1], 0.0)

    def native(self) -> tuple[str, Any]:
        """Its name in the native grower, and its parameters."""
        return "squared_pairs", None


@dataclass(frozen=True)
class SquaredError(Impurity):
    """For ordinary regression forests, per example: ``sum w (y - mean)^2 / sum w``. Not admissible."""

    regression: ClassVar[bool] = True

    def _of(self, n: Array) -> Array:
        weight = np.where(n[:, 0] > 0, n[:, 0], 1.0)
        return np.maximum(n[:, 2] / weight - (n[:, 1] / weight) ** 2, 0.0)

    def native(self) -> tuple[str, Any]:
        """Its name in the native grower, and its parameters."""
        return "squared_error", None


@dataclass(frozen=True)
class CustomImpurity(Impurity):
    """An impurity of your own. The grower calls it once for each node, with all sets it considers there.

    Parameters
    ----------
    function : callable
        (m, C) counts of classes to (m,) impurities, finite and not negative.
    """

    function: Callable[[Array], ArrayLike]

    def _of(self, n: Array) -> Array:
        found = np.asarray(self.function(n), dtype=np.float64)
        if found.shape != (len(n),):
            raise ValueError(f"the impurity of {len(n)} sets has the shape {found.shape}, not ({len(n)},)")
        return found

    def native(self) -> tuple[str, Any]:
        """Its name in the native grower, and its parameters."""
        return "custom", self._not_negative

    def _not_negative(self, n: Array) -> Array:
        found = self(n)
        usable = (found >= 0) & (found < np.inf)
        if not usable.all():
            bad = np.flatnonzero(~usable)[0]
            raise ValueError(
                f"the impurity of a set with sums {n[bad]} is {found[bad]}; it must be finite and not negative"
            )
        return np.ascontiguousarray(found)


def read_impurity(name: str, parameter: Any) -> Impurity:
    """The impurity whose ``native()`` was this; not one of your own, which only its function knows."""
    kinds: dict[str, Callable[..., Impurity]] = {
        "pairs": ClassPairs,
        "powers": Powers,
        "polynomial": Polynomial,
        "entropy": Entropy,
        "gini": Gini,
        "squared_pairs": SquaredPairs,
        "squared_error": SquaredError,
    }
    if name not in kinds:
        raise ValueError(f"no impurity is called {name!r}; there are {', '.join(kinds)}")
    return kinds[name]() if parameter is None else kinds[name](parameter)


@dataclass(frozen=True)
class AdmissibilityReport:
    """What ``check_admissible`` found on its grid.

    Attributes
    ----------
    non_negative, pure, monotone, supermodular : bool
    counterexample : str or None
        Where the first of the properties fails.
    """

    non_negative: bool
    pure: bool
    monotone: bool
    supermodular: bool
    counterexample: str | None

    @property
    def admissible(self) -> bool:
        """Whether all hold."""
        return self.non_negative and self.pure and self.monotone and self.supermodular


def check_admissible(impurity: Impurity, n_classes: int = 2, max_count: int = 6) -> AdmissibilityReport:
    """Try the properties of an admissible impurity on all sets of up to ``max_count`` examples of each class.

    For regression the classes are the targets 0, 1, .., ``n_classes - 1``. That ``ln F`` grows no faster than the logarithm of
    the number of examples, which the bound needs too, is not something a finite set can show.

    Parameters
    ----------
    impurity : Impurity
    n_classes : int, default=2
    max_count : int, default=6

    Examples
    --------
    >>> check_admissible(ClassPairs(alpha=1.5)).admissible
    True
    >>> check_admissible(Gini()).counterexample
    'not monotone: F(1, 1) = 0.5, with one more of class 0 it is 0.444444'
    """
    if n_classes < 2 or max_count < 2:
        raise ValueError(f"n_classes is {n_classes} and max_count {max_count}; both must be at least 2")
    shape = (max_count + 1,) * n_classes
    counts = np.stack(np.meshgrid(*[np.arange(max_count + 1.0)] * n_classes, indexing="ij"), axis=-1)
    sets = counts.reshape(-1, n_classes)
    F = impurity(sets @ np.vander(np.arange(n_classes), 3, increasing=True) if impurity.regression else sets)
    F = F.reshape(shape)
    rounding = 1e-12 * float(np.abs(F).max())
    found: dict[str, str] = {}

    def show(at: tuple[int, ...]) -> str:
        return f"F({', '.join(map(str, at))}) = {F[at]:.6g}"

    if at := _first(~(F >= 0)):
        found["non_negative"] = f"negative: {show(at)}"
    one_class = np.count_nonzero(counts, axis=-1) <= 1
    if at := _first(one_class & (np.abs(F) > rounding)):
        found["pure"] = f"not zero on a pure set: {show(at)}"
    for i in range(n_classes):
        added = np.diff(F, axis=i)
        if at := _first(added < -rounding):
            larger = tuple(n + (c == i) for c, n in enumerate(at))
            found.setdefault(
                "monotone", f"not monotone: {show(at)}, with one more of class {i} it is {F[larger]:.6g}"
            )
        for j in range(i, n_classes):
            if at := _first(np.diff(added, axis=j) < -rounding):
                found.setdefault(
                    "supermodular",
                    f"not supermodular: one of class {i} adds less to the set {at} once one of class {j} has joined it",
                )
    names = ("non_negative", "pure", "monotone", "supermodular")
    return AdmissibilityReport(
        non_negative="non_negative" not in found,
        pure="pure" not in found,
        monotone="monotone" not in found,
        supermodular="supermodular" not in found,
        counterexample=next((found[name] for name in names if name in found), None),
    )


def _first(bad: NDArray[np.bool_]) -> tuple[int, ...] | None:
    """Where it is true first, if anywhere."""
    places = np.argwhere(bad)
    return tuple(int(i) for i in places[0]) if len(places) else None
