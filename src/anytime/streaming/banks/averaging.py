"""Frozen copies of a bank, spread evenly over the rounds it has learned.

The averaged hypothesis of the theory is a mean of functions over all rounds, which would need a copy of every learner at every
round. A few copies stand for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

from anytime.blocks import Block, State

__all__ = ["Snapshots"]


class Snapshots:
    """Between ``kept`` and twice as many copies, at multiples of a stride that doubles when there is no more room.

    Parameters
    ----------
    kept : int
    """

    def __init__(self, kept: int) -> None:
        if kept < 1:
            raise ValueError(f"kept is {kept}; at least 1 snapshot is needed")
        self.kept = kept
        self.stride = 1
        self.rounds = 0
        self.copies: list[tuple[int, Block]] = []  # (round, copy), rounds increasing

    @property
    def wait(self) -> int:
        """How many rounds until the next copy."""
        return self.stride - self.rounds % self.stride

    def due(self, n: int) -> bool:
        """Count ``n`` further rounds; True: take a copy now."""
        if n > self.wait:
            raise ValueError(f"{n} rounds at once, but a snapshot is due after {self.wait}")
        self.rounds += n
        return self.rounds % self.stride == 0

    def take(self, copy: Block) -> None:
        """Keep a copy of this round."""
        self.copies.append((self.rounds, copy))
        if len(self.copies) > 2 * self.kept:
            self.stride *= 2
            self.copies = [(at, kept) for at, kept in self.copies if at % self.stride == 0]

    def blocks(self, *, tail: bool = False) -> list[Block]:
        """The copies, those of the second half of the rounds if ``tail``."""
        return [copy for at, copy in self.copies if not tail or 2 * at > self.rounds]

    def state(self) -> State:
        """What a file keeps; the copies' own states are numbered."""
        description: dict[str, Any] = {
            "kept": self.kept,
            "stride": self.stride,
            "rounds": self.rounds,
            "at": [],
            "copies": [],
        }
        arrays: dict[str, NDArray[Any]] = {}
        for number, (at, copy) in enumerate(self.copies):
            described, parts = copy.state()
            description["at"].append(at)
            description["copies"].append(described)
            arrays.update({f"snapshot{number}.{name}": part for name, part in parts.items()})
        return description, arrays

    @classmethod
    def from_state(
        cls,
        description: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        read: Callable[[Mapping[str, Any], Mapping[str, NDArray[Any]]], Block],
    ) -> Snapshots:
        """Read what ``state`` gave; ``read`` makes a block of its own state."""
        snapshots = cls(int(description["kept"]))
        snapshots.stride, snapshots.rounds = int(description["stride"]), int(description["rounds"])
        for number, (at, described) in enumerate(zip(description["at"], description["copies"], strict=True)):
            prefix = f"snapshot{number}."
            parts = {
                name.removeprefix(prefix): part for name, part in arrays.items() if name.startswith(prefix)
            }
            snapshots.copies.append((int(at), read(described, parts)))
        return snapshots
