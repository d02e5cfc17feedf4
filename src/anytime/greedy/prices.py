"""Purses: the current price of each element, and the amount spent so far."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.costs import BoundCosts

Array = NDArray[np.float64]

SUM_SLACK = 1e-12  # relative rounding error of a sum of prices


def rates_of(gains: Array, prices: Array) -> Array:
    """Gain per unit of cost; infinite for a free element with a gain."""
    with np.errstate(over="ignore"):  # a price next to nothing is as good as none
        return np.divide(gains, prices, out=np.where(gains > 0, np.inf, 0.0), where=prices > 0)


class FlatPrices:
    """A purse for elements with independent prices.

    Parameters
    ----------
    prices : (n,) float
    """

    shared = False

    def __init__(self, prices: ArrayLike) -> None:
        self._prices = np.array(prices, dtype=np.float64)
        if self._prices.ndim != 1:
            raise ValueError(
                f"costs must be one number per element, not an array of shape {self._prices.shape}"
            )
        bad = ~np.isfinite(self._prices) | (self._prices < 0)
        if bad.any():
            at = int(np.argmax(bad))
            raise ValueError(f"element {at} costs {self._prices[at]:g}; a cost is finite and not negative")
        self.n_elements = self._prices.size
        self.spent = 0.0

    def prices(self, candidates: NDArray[np.intp]) -> Array:
        """The current price of each candidate."""
        return self._prices[candidates]

    shares = prices

    def buy(self, element: int) -> float:
        """Pay for an element; return what was paid."""
        paid = float(self._prices[element])
        self.spent += paid
        return paid

    def bundles(self, candidates: NDArray[np.intp]) -> Iterator[tuple[NDArray[np.intp], Array, float]]:
        """None: no requirement is shared."""
        return iter(())

    def restart(self) -> FlatPrices:
        """The same prices, nothing bought."""
        return FlatPrices(self._prices)


class GroupPrices:
    """A purse for groups of columns: the first use of a shared requirement pays for it. Counts in whole ticks, exactly.

    Parameters
    ----------
    costs : BoundCosts
    groups : (n,) int, default=None
        The groups that are elements. None: all.
    look_ahead : bool, default=False
        Whether ``greedy`` weighs a requirement against all elements that become worth buying, not against one only.
    """

    def __init__(
        self, costs: BoundCosts, groups: ArrayLike | None = None, *, look_ahead: bool = False
    ) -> None:
        self.costs, self.look_ahead = costs, look_ahead
        self.groups = np.arange(costs.n_groups) if groups is None else np.asarray(groups, dtype=np.intp)
        self.closures = [np.array(costs.table.closure(int(g)), dtype=np.intp) for g in self.groups]
        self.n_elements = self.groups.size
        self.bought = np.zeros(costs.n_groups, dtype=bool)
        self.spent = 0.0
        # Every pair of an element and a group that it needs, itself included.
        self._user = np.repeat(
            np.arange(self.n_elements), np.array([c.size for c in self.closures], dtype=np.intp)
        )
        self._needed = np.concatenate([np.empty(0, dtype=np.intp), *self.closures])
        self._now = self._sums(costs.prices.astype(np.float64))
        self._n_users = np.bincount(self._needed, minlength=costs.n_groups)  # elements that need each group

    @property
    def shared(self) -> bool:
        """Whether several elements share an unpaid requirement, so that prices may fall."""
        return bool(((self._n_users > 1) & (self.costs.prices > 0) & ~self.bought).any())

    def prices(self, candidates: NDArray[np.intp]) -> Array:
        """The current price of each candidate, including requirements."""
        return self._now[candidates]

    def shares(self, candidates: NDArray[np.intp]) -> Array:
        """The same with shared requirements split evenly: no set costs less than the sum of its shares."""
        open_prices = np.where(self.bought, 0, self.costs.prices)
        return self._sums(open_prices / np.maximum(self._n_users, 1))[candidates]

    def buy(self, element: int) -> float:
        """Pay for an element and its unpaid requirements; return the amount."""
        paid = float(self._now[element])
        self.spent += paid
        needed = self.closures[element]
        new = needed[~self.bought[needed]]
        self.bought[new] = True
        touched = np.isin(self._needed, new)
        np.subtract.at(self._now, self._user[touched], self.costs.prices[self._needed[touched]])
        return paid

    def restart(self) -> GroupPrices:
        """The same prices, nothing bought."""
        return GroupPrices(self.costs, self.groups, look_ahead=self.look_ahead)

    def bundles(self, candidates: NDArray[np.intp]) -> Iterator[tuple[NDArray[np.intp], Array, float]]:
        """Candidates that share an unpaid requirement: their positions, their other prices, its price."""
        if not self.look_ahead:
            return
        at = np.full(self.n_elements, -1)
        at[candidates] = np.arange(candidates.size)
        for group in np.flatnonzero((self._n_users > 1) & ~self.bought & (self.costs.prices > 0)):
            members = at[self._user[self._needed == group]]
            members = members[members >= 0]
            if members.size > 1:
                shared = float(self.costs.prices[group])
                yield members, self._now[candidates[members]] - shared, shared

    def _sums(self, group_amounts: Array) -> Array:
        """For each element the sum over all it needs."""
        return np.bincount(self._user, group_amounts[self._needed], self.n_elements).astype(np.float64)


Prices = FlatPrices | GroupPrices
