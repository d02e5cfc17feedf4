"""Stages that are purchases: what each row buys next is decided for that row, and kept until it is bought."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from anytime.blocks import Block, Memory
from anytime.costs import UNLIMITED, BoundCosts
from anytime.plan import Array

__all__ = ["FINISHED", "UNDECIDED", "PurchaseBlock"]

UNDECIDED, FINISHED = -2, -1  # instead of the next purchase


class PurchaseBlock(Block):
    """Stage t is a row's t-th purchase, after which it is answered by all that it has.

    A subclass has ``costs``, chooses, buys and answers, and adds to the memory what rows own.
    """

    costs: BoundCosts

    @abstractmethod
    def choose(self, X: Array, memory: Memory, *, go_on: Callable[[], bool] | None = None) -> bool:
        """Decide what rows that have not decided buy next; whether there was time for all."""

    @abstractmethod
    def purchases(self, memory: Memory) -> NDArray[np.bool_]:
        """(n, G) what each row buys next."""

    @abstractmethod
    def buy(self, memory: Memory) -> None:
        """Let rows have what they have chosen."""

    @abstractmethod
    def answers(self, X: Array, memory: Memory) -> Array:
        """(n, K) scores of rows by what they own."""

    @property
    @abstractmethod
    def everything(self) -> NDArray[np.bool_]:
        """(G,) groups that some row may buy."""

    def remember(self, n_rows: int) -> Memory:
        """The next purchase of rows once it is chosen, with its gain and price, and their bounds."""
        return {
            "next": np.full(n_rows, UNDECIDED, dtype=np.int32),
            "gain": np.zeros(n_rows),
            "price": np.zeros(n_rows, dtype=np.int64),
            "cap": np.full(n_rows, UNLIMITED, dtype=np.int64),
            "absent": np.zeros((n_rows, self.costs.n_groups), dtype=bool),
        }

    def bound(self, memory: Memory, cap: NDArray[np.int64], absent: NDArray[np.bool_] | None) -> None:
        """A decision is kept until the purchase is made, or rows may spend or have something else."""
        lacking = np.zeros_like(memory["absent"])
        if absent is not None:
            lacking[:] = absent
        changed = (memory["cap"] != cap) | (memory["absent"] != lacking).any(axis=1)
        memory["next"][changed] = UNDECIDED
        memory["cap"][:], memory["absent"][:] = cap, lacking

    def can_only_lack(self, memory: Memory) -> NDArray[np.bool_]:
        """(n,) rows whose next purchase is something that they lack: nothing else is left."""
        return np.zeros(memory["next"].size, dtype=bool)

    def columns(self, stage: int) -> NDArray[np.int32]:
        """All that a row may buy: which group comes first depends on the row, and on what it may spend."""
        return self._columns

    @cached_property
    def _columns(self) -> NDArray[np.int32]:
        return np.flatnonzero(self.everything[self.costs.column_group]).astype(np.int32)

    def reads(self, stage: int, X: Array, memory: Memory) -> NDArray[np.bool_]:
        """The columns of what each row buys next."""
        self.choose(X, memory)
        return np.asarray(self.purchases(memory)[:, self.costs.column_group])

    def proceed(self, first: int, stage: int, X: Array, memory: Memory) -> Array:
        """Buy once per stage, and answer by all that was bought."""
        for _ in range(stage - first + 1):
            self.choose(X, memory)
            self.buy(memory)
        return self.answers(X, memory)

    def outputs(self, stage: int, X: Array) -> Array:
        """``proceed`` from nothing."""
        return self.proceed(0, stage, X, self.remember(len(X)))
