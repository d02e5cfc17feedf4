"""Which impurities the bound on greedy trees holds for, tried on all small sets; and the polynomials of the paper.

Nan, Wang and Saligrama, *Feature-Budgeted Random Forest* (ICML 2015): non-negative, zero on pure sets, monotone, supermodular.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.forests.impurity import Impurity
from anytime.plan import Array

__all__ = ["AdmissibilityReport", "Polynomial", "check_admissible"]


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
    >>> from anytime.forests import ClassPairs, Gini
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
