"""How far the most expensive path of a greedy tree can be from the best possible.

Here the cost of a tree is that of its most expensive path, ``max_s cost(D, s)``; the optimum is the lowest such cost of any tree
whose leaves all have impurity 0. Greedy minimax splitting with an admissible impurity ``F``, whose least value above 0 is
``F_min``, costs at most ``1 + ln(F(S) / F_min)`` times as much (Nan, Wang and Saligrama, *Feature-Budgeted Random Forest*;
Theorem 3.4.2 of Nan's thesis).

A test is paid for every time a path makes it: the theorem compares with trees that test nothing twice on a path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from itertools import product
from math import inf, log
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from anytime.costs import BoundCosts
from anytime.forests.growing import ClassTree, ClassTreeGrower
from anytime.forests.impurity import ClassPairs, Powers, SquaredPairs
from anytime.forests.levels import max_cost
from anytime.plan import Array
from anytime.trees.arrays import LEAF

__all__ = ["TreeGuarantee", "cost_bound", "least_impurity"]

Impurity = Callable[[Array], Array]

_MOST_COMBINATIONS = 100_000


# ---------------------------------------------------------------------- bounds


def cost_bound(impurity: float, least: float = 1.0) -> float:
    """Upper bound on the cost of the most expensive path of a greedy tree, as a multiple of the optimum: ``1 + ln(F / F_min)``.

    Parameters
    ----------
    impurity : float
        Impurity of all rows.
    least : float, default=1.0
        The lowest impurity above 0 of a subset of the rows.
    """
    return 1 + log(impurity / least) if impurity > 0 else 1.0


def least_impurity(impurity: Impurity, counts: ArrayLike) -> float | None:
    """The lowest impurity above 0 of any subset of the rows, or a lower bound; None if none is known.

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
    if isinstance(impurity, ClassPairs):
        return _least_pairs(impurity, counts)
    if isinstance(impurity, SquaredPairs) or np.prod(counts + 1) > _MOST_COMBINATIONS:
        return None
    subsets = np.array(list(product(*(range(int(n) + 1) for n in counts))), dtype=np.float64)
    values = impurity(subsets)
    return float(values[values > 0].min(initial=inf))


def _least_pairs(impurity: ClassPairs, counts: Array) -> float:
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
    """Bounds on the most expensive path of a greedy tree, compared with the best tree.

    If a test has the lowest risk at a node ``h``, ``R_h``, no tree can separate the node's rows for less than ``R_h F(S_h)``
    (Lemma 3.4.1), and a tree for all rows is one for these. So the run itself bounds its distance from the optimum; this bound is
    never worse than the theorem.

    Attributes
    ----------
    max_cost : float
        Cost of the most expensive path.
    charged : float
        Cost of the most expensive path if every test were paid for, as the theorem assumes. It equals ``max_cost`` if no path
        needs a group twice, as with multiway tests of groups of one column.
    impurity : float
        Impurity of all rows.
    bound : float or None
        The bound of the theorem: ``charged`` is at most this multiple of the optimum. None: ``F_min`` is unknown.
    optimum_at_least : float
        The bound from the run: every tree with pure leaves that pays for every test has a path at least this expensive.
    separates : bool
        Whether the leaves of this tree all have impurity 0.
    """

    max_cost: float
    charged: float
    impurity: float
    bound: float | None
    optimum_at_least: float
    separates: bool

    @property
    def ratio(self) -> float:
        """Upper bound on ``charged``, and so on ``max_cost``, as a multiple of the optimum."""
        return self.charged / self.optimum_at_least if self.charged > 0 else 1.0

    @classmethod
    def of(
        cls, tree: ClassTree, grower: ClassTreeGrower, costs: BoundCosts, *, many_categories: bool = False
    ) -> TreeGuarantee | None:
        """The guarantee of a tree; None if nothing is proved: random search, random columns, another rule or impurity.

        Parameters
        ----------
        tree : ClassTree
            Grown with these prices.
        grower : ClassTreeGrower
            Its settings.
        costs : BoundCosts
        many_categories : bool, default=False
            Whether a column of three categories or more could be tested. Stumps try only some of its splits and may miss a test
            of lower risk, so nothing is proved.
        """
        if (many_categories and grower.tests == "stumps") or not _is_proved(grower):
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
        )

    def to_dict(self) -> dict[str, Any]:
        """Its numbers by name."""
        return asdict(self)

    @classmethod
    def from_dict(cls, numbers: Mapping[str, Any]) -> TreeGuarantee:
        """Restore the result of ``to_dict``."""
        read: dict[str, Any] = {k: None if v is None else float(v) for k, v in numbers.items()}
        return cls(**{**read, "separates": bool(numbers["separates"])})


def _charged(tree: ClassTree, costs: BoundCosts) -> float:
    """The most expensive path when every test is paid for."""
    prices = np.array(
        [costs.prices @ costs.closure(np.array([g], dtype=np.int32)) for g in range(costs.n_groups)]
    )
    arrays, paid = tree.arrays, np.zeros(tree.arrays.feature.size, dtype=np.int64)
    for node in np.flatnonzero(arrays.feature != LEAF):  # a child stands after its parent
        begins = not np.isnan(tree.risk[node])  # and is no part of a multiway test
        price = int(prices[costs.column_group[arrays.feature[node]]]) if begins else 0
        paid[[arrays.left[node], arrays.right[node]]] = paid[node] + price
    return costs.costs.amount(int(paid.max()))


def _is_proved(grower: ClassTreeGrower) -> bool:
    """Whether every test had the least risk of all, by an impurity that the theorem covers."""
    greedy = grower.split == "minimax" and not grower.discount_reused and grower.min_samples_leaf == 1
    exhaustive = (grower.search == "exhaustive" or grower.tests == "multiway") and grower.max_features is None
    return greedy and exhaustive and isinstance(grower.impurity, (ClassPairs, Powers, SquaredPairs))
