"""A block whose rows go their own ways, written as simply as can be."""

import numpy as np

from anytime.blocks import Block


class WandererBlock(Block):
    """Every row starts at column 0, adds up what it finds, and goes on one column, or two where it found more than 0.

    Columns are a circle, so a row may come back to one. A stage gives the sum so far.
    """

    kind = "wanderer"
    width = 1

    def __init__(self, n_stages: int, n_columns: int) -> None:
        self.n_stages, self.n_columns = n_stages, n_columns

    def columns(self, stage):
        """After ``stage`` steps a row has moved by at least so many columns, at most twice that."""
        return np.unique(np.arange(stage, 2 * stage + 1) % self.n_columns).astype(np.int32)

    def remember(self, n_rows):
        return {"at": np.zeros(n_rows, dtype=np.int64), "sum": np.zeros(n_rows)}

    def reads(self, stage, X, memory):
        return np.arange(self.n_columns) == memory["at"][:, None]

    def proceed(self, first, stage, X, memory):
        for _ in range(first, stage + 1):
            found = X[np.arange(len(X)), memory["at"]]
            memory["sum"] += found
            memory["at"] = (memory["at"] + 1 + (found > 0)) % self.n_columns
        return memory["sum"][:, None].copy()

    def outputs(self, stage, X):
        return self.proceed(0, stage, X, self.remember(len(X)))

    def head(self, n_stages):
        return WandererBlock(n_stages, self.n_columns)


def wander(x, n_steps: int) -> tuple[list[int], list[float]]:
    """Where one row goes, and its sum after each step."""
    at, total, places, sums = 0, 0.0, [], []
    for _ in range(n_steps):
        places.append(at)
        total += x[at]
        sums.append(total)
        at = (at + (2 if x[at] > 0 else 1)) % len(x)
    return places, sums
