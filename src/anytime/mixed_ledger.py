"""A ledger for examples that lack different groups: one ledger per set of available groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anytime.costs import BoundCosts, Ledger

__all__ = ["MixedLedger"]


class MixedLedger:
    """A ledger whose rows lack groups of their own: a group that a row has needs no other that the row lacks.

    Rows that lack the same groups are of one kind and share a ``Ledger``. What a row pays does not depend on the other rows.

    Parameters
    ----------
    costs : BoundCosts
    absent : (n, G) bool
        Groups that each row lacks.
    """

    def __init__(self, costs: BoundCosts, absent: NDArray[np.bool_]) -> None:
        kinds, kind = np.unique(absent, axis=0, return_inverse=True)
        self._kind = kind.reshape(-1)
        members = [np.flatnonzero(self._kind == k) for k in range(len(kinds))]
        self._place = np.zeros(len(absent), dtype=np.int64)  # of each row in the ledger of its kind
        for rows in members:
            self._place[rows] = np.arange(rows.size)
        self._ledgers = [costs.ledger(rows.size, lacks) for rows, lacks in zip(members, kinds, strict=True)]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self._kind.size

    @property
    def paid(self) -> NDArray[np.int64]:
        """(n_rows,) ticks paid, a copy."""
        return np.asarray(self._gathered("paid"))

    @property
    def bought(self) -> NDArray[np.bool_]:
        """(n_rows, n_groups) which groups each row has, a copy."""
        return np.asarray(self._gathered("bought"))

    def buy(self, groups: NDArray[np.int32], rows: NDArray[np.int64] | None = None) -> None:
        """Pay, in the rows (all if None), for the groups and all they need that the row does not have yet."""
        for ledger, _, places in self._split(rows):
            ledger.buy(groups, places)

    def quote(self, groups: NDArray[np.int32], rows: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
        """What ``buy`` would charge each row, without buying."""
        out = np.zeros(self.n_rows if rows is None else len(rows), dtype=np.int64)
        for ledger, which, places in self._split(rows):
            out[which] = ledger.quote(groups, places)
        return out

    def charge(self, ticks: int, rows: NDArray[np.int64] | None = None) -> None:
        """Add an evaluation cost to the rows."""
        for ledger, _, places in self._split(rows):
            ledger.charge(ticks, places)

    def copy(self) -> MixedLedger:
        """A ledger of its own in the same state."""
        other = object.__new__(MixedLedger)
        other._kind, other._place = self._kind, self._place
        other._ledgers = [ledger.copy() for ledger in self._ledgers]
        return other

    def _split(
        self, rows: NDArray[np.int64] | None
    ) -> Iterator[tuple[Ledger, NDArray[np.intp], NDArray[np.int64]]]:
        """The ledger of each kind, which of ``rows`` are of that kind, and their places in the ledger."""
        every = np.arange(self.n_rows) if rows is None else rows
        for k in np.unique(self._kind[every]):
            which = np.flatnonzero(self._kind[every] == k)
            yield self._ledgers[k], which, self._place[every[which]]

    def _gathered(self, name: str) -> Any:
        """An attribute of the ledgers, in the order of the rows."""
        parts = [getattr(ledger, name) for ledger in self._ledgers]
        out = np.zeros((self.n_rows, *parts[0].shape[1:]), dtype=parts[0].dtype)
        for k, part in enumerate(parts):
            out[self._kind == k] = part
        return out
