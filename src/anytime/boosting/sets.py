"""Sets of groups that can be bought: closed under what groups require, with their columns and prices."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from anytime.costs import BoundCosts

Groups = frozenset[int]


class GroupSets:
    """The closed sets of a table's groups. Prices are in ticks, so that sums are exact."""

    def __init__(self, costs: BoundCosts) -> None:
        self.costs = costs
        members = np.bincount(costs.column_group, minlength=costs.n_groups)
        self.closures = [frozenset(costs.table.closure(g)) for g in range(costs.n_groups)]
        self.groups = [g for g in range(costs.n_groups) if members[g]]  # those with columns
        self.everything = self.closed(self.groups)
        self._prices: list[int] = costs.prices.tolist()

    def closed(self, groups: Iterable[int]) -> Groups:
        """Groups with all that they require."""
        return frozenset().union(*(self.closures[g] for g in groups))

    def without(self, groups: Groups, g: int) -> Groups:
        """Groups without one of them, and without those that require it."""
        return frozenset(other for other in groups if g not in self.closures[other])

    def columns(self, groups: Groups) -> NDArray[np.bool_]:
        """(d,) mask of the columns of groups."""
        return np.isin(self.costs.column_group, list(groups))

    def price(self, groups: Groups) -> int:
        """In ticks."""
        return sum(self._prices[g] for g in groups)

    def amount(self, groups: Groups) -> float:
        """Price in the user's unit."""
        return self.costs.costs.amount(self.price(groups))
