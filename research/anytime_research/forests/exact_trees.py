"""The cheapest trees of small problems, by trying all, and bounds that no certificate prints.

Greedy minimax splitting whose choices have up to ``slack`` times the least risk costs at most ``slack (1 + ln(F(S) / F_min))``
times the optimum; the constant that Theorem 3.4.2 of Nan's thesis is printed with, ``1 + slack ln F``, is too small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from math import inf, log
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.forests.guarantee import cost_bound, least_impurity
from anytime.forests.impurity import ClassPairs, Powers
from anytime.plan import Array

__all__ = ["DiscreteProblem", "printed_cost_bound", "size_bound", "slack_cost_bound"]

Impurity = Callable[[Array], Array]

_SAME = 1 + 1e-12  # risks that differ by less are equal


def slack_cost_bound(impurity: float, least: float = 1.0, slack: float = 1.0) -> float:
    """``slack (1 + ln(F / F_min))``, for searches whose choices have at most ``slack`` times the least risk."""
    return slack * cost_bound(impurity, least) if impurity > 0 else 1.0


def printed_cost_bound(impurity: float, least: float = 1.0, slack: float = 1.0) -> float:
    """The constant that the theorem is printed with, ``1 + slack ln(F / F_min)``: right for a slack of 1 only.

    Two rows of different classes that two tests of prices 1 and 1.9 both separate: with a slack of 2 the dearer may be chosen,
    a ratio of 1.9, where this says 1.
    """
    return 1 + slack * log(impurity / least) if impurity > 0 else 1.0


def size_bound(impurity: Impurity, n_rows: int, n_classes: int = 2) -> float:
    """``cost_bound`` for the worst mixture of so many rows and classes.

    For ClassPairs without a threshold ``1 + ln(n² (k - 1) / (2 k))``, for Powers ``1 + l ln n - ln(2^l - 2)``.
    """
    if isinstance(impurity, Powers):
        return 1 + impurity.degree * log(n_rows) - log(2**impurity.degree - 2)
    if isinstance(impurity, ClassPairs) and impurity.alpha == 0:
        return 1 + log(n_rows**2 * (n_classes - 1) / (2 * n_classes))
    raise ValueError(f"no closed form for {impurity!r}; use cost_bound with the impurity of the rows")


@dataclass(frozen=True, eq=False)
class DiscreteProblem:
    """Rows of a few discrete columns with prices: small enough to find the best tree by trying all.

    Parameters
    ----------
    X : (n, d)
    y : (n,) int
        Classes from 0 on.
    prices : (d,)
    impurity : callable
        Class counts (m, C) to impurities (m,).
    tests : {"multiway", "stumps"}, default="multiway"
        One outcome per value, or ``x <= v`` for each value.

    Examples
    --------
    >>> from anytime.forests.impurity import ClassPairs
    >>> problem = DiscreteProblem([[0, 0], [1, 1]], [0, 1], [1.0, 1.9], ClassPairs())
    >>> problem.optimum(), problem.greedy(), problem.greedy(slack=2.0)
    (1.0, 1.0, 1.9)
    """

    X: ArrayLike
    y: ArrayLike
    prices: ArrayLike
    impurity: Impurity
    tests: Literal["multiway", "stumps"] = "multiway"

    def optimum(self) -> float:
        """The least cost of the dearest path of a tree whose leaves all have impurity 0; infinite where there is none."""
        known: dict[int, float] = {}

        def least(rows: int) -> float:
            if rows not in known:
                best = 0.0 if self._impurity(rows) == 0 else inf
                for price, outcomes in self._tests:  # from cheap to dear
                    if price >= best:
                        break
                    parts = _parts(rows, outcomes)
                    if len(parts) > 1:
                        best = min(best, price + max(map(least, parts)))
                known[rows] = best
            return known[rows]

        return least(self._everything)

    def greedy(self, slack: float = 1.0) -> float:
        """The dearest path of the dearest tree that greedy search may grow; infinite where it cannot go on at an impure node.

        Parameters
        ----------
        slack : float, default=1.0
            Splits whose risk is within so many times the least may be chosen. 1: ties only.
        """
        known: dict[int, float] = {}

        def most(rows: int) -> float:
            if rows not in known:
                known[rows] = 0.0 if self._impurity(rows) == 0 else inf
                risks = list(self._risks(rows))
                allowed = min((risk for risk, *_ in risks), default=inf) * slack * _SAME
                if self._impurity(rows) > 0 and risks:
                    known[rows] = max(
                        price + max(map(most, parts)) for risk, price, parts in risks if risk <= allowed
                    )
            return known[rows]

        return most(self._everything)

    @property
    def total_impurity(self) -> float:
        """Of all rows."""
        return self._impurity(self._everything)

    @property
    def least_impurity(self) -> float:
        """The least impurity above 0 that a subset of the rows has."""
        least = least_impurity(self.impurity, np.bincount(np.asarray(self.y)))
        if least is None:
            raise ValueError(f"the least impurity above 0 of {self.impurity!r} is not known for so many rows")
        return least

    def _risks(self, rows: int) -> Iterator[tuple[float, float, list[int]]]:
        """Risk, price and outcomes of the tests whose every outcome lowers the impurity."""
        impurity = self._impurity(rows)
        for price, outcomes in self._tests:
            parts = _parts(rows, outcomes)
            drop = impurity - max(map(self._impurity, parts))
            if drop > 0:
                yield price / drop, price, parts

    @cached_property
    def _everything(self) -> int:
        return int(2 ** len(np.asarray(self.y)) - 1)

    @cached_property
    def _tests(self) -> list[tuple[float, list[int]]]:
        """Price and outcomes, sets of rows as bits, of every test; from cheap to dear."""
        tests = []
        for values, price in zip(np.asarray(self.X).T, np.asarray(self.prices, dtype=float), strict=True):
            distinct = np.unique(values)
            if self.tests == "multiway":
                tests.append((float(price), [_bits(values == v) for v in distinct]))
            else:
                tests += [(float(price), [_bits(values <= v), _bits(values > v)]) for v in distinct[:-1]]
        return sorted(tests, key=lambda test: test[0])

    @cached_property
    def _classes(self) -> list[int]:
        y = np.asarray(self.y)
        return [_bits(y == c) for c in range(int(y.max()) + 1)]

    @cached_property
    def _known(self) -> dict[tuple[int, ...], float]:
        return {}

    def _impurity(self, rows: int) -> float:
        counts = tuple((rows & members).bit_count() for members in self._classes)
        if counts not in self._known:
            self._known[counts] = float(self.impurity(np.array([counts], dtype=np.float64))[0])
        return self._known[counts]


def _bits(mask: NDArray[np.bool_]) -> int:
    return sum(1 << int(row) for row in np.flatnonzero(mask))


def _parts(rows: int, outcomes: list[int]) -> list[int]:
    return [part for outcome in outcomes if (part := rows & outcome)]
