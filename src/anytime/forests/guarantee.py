"""How far the dearest path of a greedy tree can be from the best possible: exact optima of small problems, and bounds.

The cost of a tree is here that of its dearest path, ``max_s cost(D, s)``; the optimum is the least such cost of any tree whose
leaves all have impurity 0. Greedy minimax splitting with an admissible impurity ``F``, whose least value above 0 is ``F_min``,
costs at most ``1 + ln(F(S) / F_min)`` times as much (Nan, Wang and Saligrama, *Feature-Budgeted Random Forest*; Theorem 3.4.2 of
Nan's thesis). A search whose choices have up to ``slack`` times the least risk costs at most ``slack (1 + ln(F(S) / F_min))``
times as much; the constant that is printed there, ``1 + slack ln F``, is too small.

In all of this a test is paid for every time a path makes it: the theorem compares with trees that test nothing twice on a path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import product
from math import inf, log
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.costs import BoundCosts
from anytime.forests.growing import ClassTree, ClassTreeGrower
from anytime.forests.impurity import CustomImpurity, Pairs, Polynomial, Powers, SquaredPairs, check_admissible
from anytime.forests.levels import max_cost
from anytime.plan import Array
from anytime.trees.arrays import LEAF

__all__ = [
    "DiscreteProblem",
    "TreeGuarantee",
    "cost_bound",
    "least_impurity",
    "printed_cost_bound",
    "size_bound",
]

Impurity = Callable[[Array], Array]

_SAME = 1 + 1e-12  # risks that differ by less are equal
_MOST_COMBINATIONS = 100_000


# ---------------------------------------------------------------------- bounds


def cost_bound(impurity: float, least: float = 1.0, slack: float = 1.0) -> float:
    """How many times the optimum the dearest path of a greedy tree can cost, at most: ``slack (1 + ln(F / F_min))``.

    Parameters
    ----------
    impurity : float
        Of all rows.
    least : float, default=1.0
        The least impurity above 0 that a subset of the rows has.
    slack : float, default=1.0
        How many times the least risk a chosen split has, at most; 1 for exhaustive search.
    """
    return slack * (1 + log(impurity / least)) if impurity > 0 else 1.0


def printed_cost_bound(impurity: float, least: float = 1.0, slack: float = 1.0) -> float:
    """The constant that the theorem is printed with, ``1 + slack ln(F / F_min)``: right for a slack of 1 only.

    Two rows of different classes that two tests of prices 1 and 1.9 both separate: with a slack of 2 the dearer may be chosen,
    a ratio of 1.9, where this says 1.
    """
    return 1 + slack * log(impurity / least) if impurity > 0 else 1.0


def size_bound(impurity: Impurity, n_rows: int, n_classes: int = 2) -> float:
    """``cost_bound`` for the worst mixture of so many rows and classes.

    For Pairs without a threshold ``1 + ln(n² (k - 1) / (2 k))``, for Powers ``1 + l ln n - ln(2^l - 2)``.
    """
    if isinstance(impurity, Powers):
        return 1 + impurity.degree * log(n_rows) - log(2**impurity.degree - 2)
    if isinstance(impurity, Pairs) and impurity.alpha == 0:
        return 1 + log(n_rows**2 * (n_classes - 1) / (2 * n_classes))
    raise ValueError(f"no closed form for {impurity!r}; use cost_bound with the impurity of the rows")


def least_impurity(impurity: Impurity, counts: ArrayLike) -> float | None:
    """The least impurity above 0 of any subset of the rows, or a number known to be below it; None where none is known.

    Parameters
    ----------
    impurity : callable
    counts : (C,) whole numbers
        Rows of each class.
    """
    counts = np.asarray(counts, dtype=np.float64)
    if (counts != np.round(counts)).any():
        return None
    if isinstance(impurity, Powers):
        return float(2**impurity.degree - 2)
    if isinstance(impurity, Polynomial):
        return min((gamma for gamma, _ in impurity.terms if gamma > 0), default=inf)
    if isinstance(impurity, Pairs):
        return _least_pairs(impurity, counts)
    if isinstance(impurity, SquaredPairs) or np.prod(counts + 1) > _MOST_COMBINATIONS:
        return None
    subsets = np.array(list(product(*(range(int(n) + 1) for n in counts))), dtype=np.float64)
    values = impurity(subsets)
    return float(values[values > 0].min(initial=inf))


def _least_pairs(impurity: Pairs, counts: Array) -> float:
    """A pair of classes reaches it alone, and whole thresholds give whole numbers."""
    if impurity.alpha == round(impurity.alpha):
        return 1.0
    present = np.sort(counts[counts > 0])[::-1]
    if present.size < 2:
        return inf
    alpha = impurity.alpha
    few = np.arange(np.floor(alpha) + 1, present[1] + 1)
    # F rises with both counts: for each of one class the first of the other that gives something, or its neighbours by rounding
    first = np.floor(alpha + alpha**2 / (few - alpha)) + 1
    pairs = np.concatenate([np.column_stack([few, first + step]) for step in (-1, 0, 1)])
    values = impurity(pairs[pairs[:, 1] <= present[0]])
    return float(values[values > 0].min(initial=inf))


# ---------------------------------------------------------------------- grown trees


@dataclass(frozen=True)
class TreeGuarantee:
    """What is known of the dearest path of a greedy tree, beside the best tree of all.

    A test whose risk at a node ``h`` is the least of all, ``R_h``, shows that no tree can tell the node's rows apart for less
    than ``R_h F(S_h)`` (Lemma 3.4.1), and a tree for all rows is one for these. So the run itself says how good it was; this is
    never worse than the theorem.

    Attributes
    ----------
    max_cost : float
        Of the dearest path.
    charged : float
        Of the dearest path, if every test were paid for: what the theorem compares with trees that pay in the same way. It is
        ``max_cost`` where no path needs a group twice, as with multiway tests of groups of one column.
    impurity : float
        Of all rows.
    bound : float or None
        What the theorem says before the run: ``charged`` is at most so many times the optimum. None: ``F_min`` is not known.
    optimum_at_least : float
        What the run says: every tree whose leaves all have impurity 0 has a path as dear as this, if it pays for every test.
    separates : bool
        Whether the leaves of this tree all have impurity 0.
    optimum : float or None
        The optimum, where the problem was small enough to find it.
    """

    max_cost: float
    charged: float
    impurity: float
    bound: float | None
    optimum_at_least: float
    separates: bool
    optimum: float | None = None

    @property
    def ratio(self) -> float:
        """``charged``, and so ``max_cost``, is at most so many times the optimum."""
        known = self.optimum_at_least if self.optimum is None else self.optimum
        return self.charged / known if self.charged > 0 else 1.0

    @property
    def holds(self) -> bool:
        """Whether the numbers are in the order that was proved."""
        most = inf if self.bound is None else self.bound * _SAME
        best = inf if self.optimum is None else self.optimum * _SAME
        return self.ratio <= most and self.optimum_at_least <= best

    @classmethod
    def of(
        cls,
        tree: ClassTree,
        grower: ClassTreeGrower,
        costs: BoundCosts,
        problem: DiscreteProblem | None = None,
        *,
        many_categories: bool = False,
    ) -> TreeGuarantee | None:
        """The guarantee of a tree, None where none is proved: random search, some columns only, another rule or impurity.

        Parameters
        ----------
        tree : ClassTree
            Grown with these prices.
        grower : ClassTreeGrower
            How.
        costs : BoundCosts
        problem : DiscreteProblem, default=None
            The rows it was grown on, where the optimum is to be found as well.
        many_categories : bool, default=False
            Whether a column of three categories or more could be tested. Stumps try only some of the sets of these, so that a
            test of less risk may have been missed: nothing is proved.
        """
        if (many_categories and grower.tests == "stumps") or not _is_proved(grower, tree.statistics.shape[1]):
            return None
        impurity = grower.impurity(tree.statistics)
        leaves = tree.arrays.feature == LEAF
        tested = ~np.isnan(tree.risk)
        least = None if grower.impurity.regression else least_impurity(grower.impurity, tree.statistics[0])
        return cls(
            max_cost=max_cost(tree.arrays, costs),
            charged=_charged(tree, costs),
            impurity=float(impurity[0]),
            bound=None if least is None else cost_bound(float(impurity[0]), least),
            optimum_at_least=float((tree.risk[tested] * impurity[tested]).max(initial=0.0)),
            separates=bool((impurity[leaves] == 0).all()),
            optimum=None if problem is None else problem.optimum(),
        )

    def to_dict(self) -> dict[str, Any]:
        """Its numbers by name."""
        return asdict(self)

    @classmethod
    def from_dict(cls, numbers: Mapping[str, Any]) -> TreeGuarantee:
        """Read what ``to_dict`` gave."""
        read: dict[str, Any] = {k: None if v is None else float(v) for k, v in numbers.items()}
        return cls(**{**read, "separates": bool(numbers["separates"])})


def _charged(tree: ClassTree, costs: BoundCosts) -> float:
    """The dearest path when every test is paid for."""
    prices = np.array(
        [costs.prices @ costs.closure(np.array([g], dtype=np.int32)) for g in range(costs.n_groups)]
    )
    arrays, paid = tree.arrays, np.zeros(tree.arrays.feature.size, dtype=np.int64)
    for node in np.flatnonzero(arrays.feature != LEAF):  # a child stands after its parent
        begins = not np.isnan(tree.risk[node])  # and is no part of a multiway test
        price = int(prices[costs.column_group[arrays.feature[node]]]) if begins else 0
        paid[[arrays.left[node], arrays.right[node]]] = paid[node] + price
    return costs.costs.amount(int(paid.max()))


def _is_proved(grower: ClassTreeGrower, n_classes: int) -> bool:
    """Whether every test had the least risk of all, by an impurity that the theorem covers."""
    greedy = grower.split == "minimax" and not grower.discount_reused and grower.min_rows == 1
    exhaustive = (grower.search == "exhaustive" or grower.tests == "multiway") and grower.max_features is None
    known = isinstance(grower.impurity, (Pairs, Powers, Polynomial, SquaredPairs))
    if greedy and exhaustive and isinstance(grower.impurity, CustomImpurity):
        return check_admissible(grower.impurity, min(n_classes, 3)).admissible
    return greedy and exhaustive and known


# ---------------------------------------------------------------------- small problems, exactly


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
    >>> from anytime.forests.impurity import Pairs
    >>> problem = DiscreteProblem([[0, 0], [1, 1]], [0, 1], [1.0, 1.9], Pairs())
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
