"""How far the dearest path of a greedy tree can be from the best possible.

The cost of a tree is here that of its dearest path, ``max_s cost(D, s)``; the optimum is the least such cost of any tree whose
leaves all have impurity 0. Greedy minimax splitting with an admissible impurity ``F``, whose least value above 0 is ``F_min``,
costs at most ``1 + ln(F(S) / F_min)`` times as much (Nan, Wang and Saligrama, *Feature-Budgeted Random Forest*; Theorem 3.4.2 of
Nan's thesis).

In all of this a test is paid for every time a path makes it: the theorem compares with trees that test nothing twice on a path.
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
    """How many times the optimum the dearest path of a greedy tree can cost, at most: ``1 + ln(F / F_min)``.

    Parameters
    ----------
    impurity : float
        Of all rows.
    least : float, default=1.0
        The least impurity above 0 that a subset of the rows has.
    """
    return 1 + log(impurity / least) if impurity > 0 else 1.0


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
    """

    max_cost: float
    charged: float
    impurity: float
    bound: float | None
    optimum_at_least: float
    separates: bool

    @property
    def ratio(self) -> float:
        """``charged``, and so ``max_cost``, is at most so many times the optimum."""
        return self.charged / self.optimum_at_least if self.charged > 0 else 1.0

    @classmethod
    def of(
        cls, tree: ClassTree, grower: ClassTreeGrower, costs: BoundCosts, *, many_categories: bool = False
    ) -> TreeGuarantee | None:
        """The guarantee of a tree, None where none is proved: random search, some columns only, another rule or impurity.

        Parameters
        ----------
        tree : ClassTree
            Grown with these prices.
        grower : ClassTreeGrower
            How.
        costs : BoundCosts
        many_categories : bool, default=False
            Whether a column of three categories or more could be tested. Stumps try only some of the sets of these, so that a
            test of less risk may have been missed: nothing is proved.
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


def _is_proved(grower: ClassTreeGrower) -> bool:
    """Whether every test had the least risk of all, by an impurity that the theorem covers."""
    greedy = grower.split == "minimax" and not grower.discount_reused and grower.min_samples_leaf == 1
    exhaustive = (grower.search == "exhaustive" or grower.tests == "multiway") and grower.max_features is None
    return greedy and exhaustive and isinstance(grower.impurity, (ClassPairs, Powers, SquaredPairs))
