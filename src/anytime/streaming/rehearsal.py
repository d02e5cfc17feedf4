"""Rows of a stream that are learned from again: often while the stream is young, ever more rarely later.

A tree that grows on a stream splits late, and the targets of those behind it settle later still. Learning from early rows several
times makes up for much of that, and the time it takes in all is bounded.
"""

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

# rows before the first rehearsal, and the inverse share of all rows before a later one
_FIRST, _GROWTH = (10, 100)
_TIMES = 4.0  # that a row is rehearsed, while the stream is young
_YOUNG = 2  # it is, until so many times as many rows have come as are kept


class Rehearsal:
    """The last rows of a stream, and which of them to learn from again.

    Whenever 10 rows have come, and a hundredth of all, rows are drawn from those kept: four times as many as have come since, and
    from then on that twice as many rows have come as are kept, fewer by the square of how many times more. What is drawn depends
    on seed and number of the row alone.

    Examples
    --------
    >>> rehearsal = Rehearsal(100, 2, seed=0)
    >>> rehearsal.room
    10
    >>> rehearsal.keep(np.ones((10, 2)), np.ones(10), None)
    >>> X, y, weight = rehearsal.draw()
    >>> X.shape
    (40, 2)
    """

    def __init__(self, n_kept: int, n_columns: int, seed: int) -> None:
        self.n_kept, self.seed = n_kept, seed
        self.n_rows = 0  # that have come
        self.n_alarms, self._begun = 0, 0  # alarms so far, and rows that had come at the last one
        self._last, self._next = 0, _FIRST  # rows at the last rehearsal and at the next
        self._rows = np.zeros((n_kept, n_columns + 2))  # a ring: columns, target, weight

    @property
    def room(self) -> int:
        """Rows that can come before the next rehearsal."""
        return self._next - self.n_rows

    def keep(self, X: Array, y: Array, weight: Array | None) -> None:
        """Take rows (b, d) in, at most ``room`` of them."""
        self.n_rows += len(X)
        n = min(len(X), self.n_kept)
        at = (self.n_rows - n) % self.n_kept
        places = slice(at, at + n) if at + n <= self.n_kept else np.arange(at, at + n) % self.n_kept
        self._rows[places, :-2] = X[-n:]
        self._rows[places, -2] = y[-n:]
        self._rows[places, -1] = 1.0 if weight is None else weight[-n:]

    def meet(self, n_alarms: int) -> None:
        """Say how many changes of the distribution there were: after a further one what was kept is worth nothing."""
        if n_alarms != self.n_alarms:
            self.n_alarms, self._begun = n_alarms, self.n_rows

    def draw(self) -> tuple[Array, Array, Array | None]:
        """The rows of a rehearsal: columns, targets, and weights where they differ from 1."""
        age = self.n_rows - self._begun
        share = min(1.0, _YOUNG * self.n_kept / max(age, 1)) ** 2
        n_drawn = round(_TIMES * (self.n_rows - self._last) * share) if age else 0
        random = np.random.default_rng([self.seed, self.n_rows])
        ago = random.integers(1, max(min(age, self.n_kept), 1), size=n_drawn, endpoint=True)
        drawn = self._rows[(self.n_rows - ago) % self.n_kept]
        self._last, self._next = self.n_rows, self.n_rows + max(_FIRST, age // _GROWTH)
        weight = drawn[:, -1]
        return (
            np.ascontiguousarray(drawn[:, :-2]),
            drawn[:, -2].copy(),
            None if (weight == 1.0).all() else weight.copy(),
        )

    # ------------------------------------------------------------------ files

    def state(self) -> dict[str, Any]:
        """What a file keeps."""
        return {
            "n_kept": self.n_kept,
            "seed": self.seed,
            "n_alarms": self.n_alarms,
            "times": [self._begun, self._last, self.n_rows, self._next],
            "rows": self._rows[: min(self.n_rows, self.n_kept)].copy(),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any], n_columns: int, n_classes: int | None = None) -> Self:
        """Read what ``state`` gave; targets are numbers of so many classes, or any numbers."""
        n_kept, rows = int(state["n_kept"]), state["rows"]
        begun, last, n_rows, then = map(int, state["times"])
        fits = rows.shape == (min(n_rows, n_kept), n_columns + 2) and rows.dtype == np.float64
        if n_kept < 1 or not (0 <= begun <= n_rows and 0 <= last <= n_rows < then) or not fits:
            raise ValueError("the rehearsal rows do not fit the columns")
        targets, weights = rows[:, -2], rows[:, -1]
        classes = n_classes is None or np.isin(targets, np.arange(n_classes)).all()
        finite = np.isfinite(rows[:, -2:]).all() and not np.isinf(rows).any()
        if not (classes and finite and (weights > 0).all()):
            raise ValueError("the rehearsal rows have invalid targets or weights")
        rehearsal = cls(n_kept, n_columns, int(state["seed"]))
        rehearsal._begun, rehearsal._last, rehearsal.n_rows, rehearsal._next = begun, last, n_rows, then
        rehearsal.n_alarms = int(state["n_alarms"])
        rehearsal._rows[: len(rows)] = rows
        return rehearsal
