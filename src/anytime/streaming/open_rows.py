"""The last rows of a stream of which not everything is known yet: which features there are, and which classes."""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Self

import numpy as np

_KEPT = 500


class OpenRows:
    """Rows kept so that learning can start over when a feature or a class turns up that was not there before."""

    def __init__(self, by_name: bool) -> None:
        self.by_name = by_name  # whether rows come as dictionaries
        self.rows: deque[tuple[Any, Any, float]] = deque(maxlen=_KEPT)  # the last 500
        self.n_rows = 0  # rows seen

    @property
    def complete(self) -> bool:
        """Whether all rows so far are still here."""
        return self.n_rows == len(self.rows)

    def keep(self, x: Any, y: Any, weight: float) -> None:
        """Add a row."""
        self.rows.append((dict(x) if self.by_name else np.array(x, dtype=np.float64), y, weight))
        self.n_rows += 1

    def features(self) -> dict[Any, bool]:
        """Features of the rows kept, in an order that does not depend on theirs, and whether each is a category."""
        words: dict[Any, bool] = {}
        for x, _, _ in self.rows:
            for name, value in x.items():
                words[name] = words.get(name, False) or isinstance(value, str)
        return {name: words[name] for name in ordered(words)}

    def state(self) -> dict[str, Any]:
        """What a file keeps."""
        rows = [[x, y.item() if isinstance(y, np.generic) else y, w] for x, y, w in self.rows]
        return {"by_name": self.by_name, "n_rows": self.n_rows, "rows": rows}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """Read what ``state`` gave."""
        rows = cls(bool(state["by_name"]))
        for x, y, weight in state["rows"]:
            if not isinstance(x, dict if rows.by_name else np.ndarray):
                raise ValueError("a stored row is a dictionary where arrays are expected, or the reverse")
            rows.keep(x, y, float(weight))
        rows.n_rows = int(state["n_rows"])
        return rows


def ordered(things: Iterable[Any]) -> list[Any]:
    """In increasing order, or by how they are written where they have none."""
    try:
        return sorted(things)
    except TypeError:
        return sorted(things, key=lambda thing: (type(thing).__name__, str(thing)))
