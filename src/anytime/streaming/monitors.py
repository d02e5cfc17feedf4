"""Measurements on a stream: the edge of each learner on its targets, and the recent loss of every prefix of learners.

A learner with outputs ``h_t`` on targets ``g_t`` has edge ``gamma`` if ``sum |g - h|^2 <= (1 - gamma) sum |g|^2 + R(T)``. Inside
boosting this is an assumption about learners 2, 3, ...: the targets of one drift while those before it learn. So it is measured.
With the measured edge and ``R = 0`` the inequality is an identity, and all that is proved from it can be checked on a run.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
EdgeKind = Literal["running", "discounted", "windowed"]
Gate = Literal["skip", "shrink"]


class EdgeMonitor:
    """Sums from which the edge of every learner is read: since the start, with old rows fading, or over the last rows.

    Memory does not grow with the stream. The window is kept as sums at ``panes`` moments in the past, so it covers between
    ``window (1 - 1 / panes)`` and ``window`` rows. For "discounted", rows count less by ``discount`` with each that follows.

    Examples
    --------
    >>> monitor = EdgeMonitor(2)
    >>> monitor.add(np.array([[[1.0]], [[1.0]]]), np.array([[[0.5]], [[-1.0]]]))
    >>> monitor.edge().tolist()
    [0.75, -3.0]
    """

    def __init__(
        self, n_estimators: int, *, discount: float = 0.999, window: int = 200, panes: int = 10
    ) -> None:
        if not 0 < discount <= 1:
            raise ValueError(f"discount is above 0 and at most 1; got {discount}")
        if not 1 <= panes <= window:
            raise ValueError(f"a window of {window} rows cannot be kept in {panes} panes")
        self.discount, self.window, self.panes = discount, window, panes
        # sums, recent: (4, N): ``E = sum |g - h|^2``, ``S = sum |g|^2``, ``P = sum <g, h>``, ``Q = sum |h|^2``
        # of targets g and outputs h; since the start and discounted
        self.sums, self.recent = np.zeros((4, n_estimators)), np.zeros((4, n_estimators))
        self.rows = np.zeros(n_estimators, dtype=np.int64)  # (N,): rows that each learner has seen
        self._past = np.zeros((panes, 4, n_estimators))  # sums when the last panes began, in a ring
        self._begun, self._in_pane = 0, 0  # number of the current pane, rows in it

    @property
    def n_estimators(self) -> int:
        """Number of learners."""
        return self.rows.size

    @property
    def room(self) -> int:
        """Rows that can be added before the next pane has to begin."""
        return max(self.window // self.panes - self._in_pane, 1)

    def add(self, targets: Array, outputs: Array, weight: Array | None = None) -> None:
        """Count the rows of a round: targets and outputs (N, b, m), ``weight`` (b,)."""
        missed = targets - outputs
        pairs = ((missed, missed), (targets, targets), (targets, outputs), (outputs, outputs))
        if weight is None:
            new = np.stack([np.einsum("ibm,ibm->i", a, b) for a, b in pairs])
        else:
            new = np.stack([np.einsum("ibm,ibm,b->i", a, b, weight) for a, b in pairs])
        self.sums += new
        self.recent *= self.discount ** targets.shape[1]
        self.recent += new
        self.counted(targets.shape[1])

    def counted(self, n_rows: int) -> None:
        """Say that rows have been added to ``sums`` and ``recent``; begins a pane of the window where one is full."""
        self.rows += n_rows
        self._in_pane += n_rows
        if self._in_pane >= self.window // self.panes:
            self._begun, self._in_pane = self._begun + 1, 0
            self._past[self._begun % self.panes] = self.sums

    def read(self, kind: EdgeKind = "running") -> Array:
        """(4, N) The sums E, S, P, Q of that kind."""
        if kind == "running":
            return self.sums
        if kind == "discounted":
            return self.recent
        if kind == "windowed":
            return np.asarray(self.sums - self._past[(self._begun + 1) % self.panes])
        raise ValueError(f"there is no {kind!r} edge; use 'running', 'discounted' or 'windowed'")

    def edge(self, kind: EdgeKind = "running") -> Array:
        """(N,) ``1 - E / S``: at most 1, negative for a learner that does harm, 0 where there were no targets."""
        missed, asked, _, _ = self.read(kind)
        return np.asarray(1.0 - np.divide(missed, asked, out=np.ones_like(asked), where=asked > 0))

    def best_multiple(self, kind: EdgeKind = "running") -> Array:
        """(N,) ``P / Q``: the multiple of its outputs with which each learner would have come nearest to its targets."""
        _, _, product, squares = self.read(kind)
        return np.asarray(np.divide(product, squares, out=np.zeros_like(squares), where=squares > 0))

    def gates(self, gate: Gate | None, warm_up: int = 0) -> Array:
        """(N,) What the outputs of each learner are multiplied with in the next round, between 0 and 1.

        Learner i (1 for the first) is left out until it has seen ``warm_up * i`` rows. Then "skip" leaves it out while its
        discounted edge is not positive, "shrink" takes its best multiple by discounted sums, and None takes it as it is. A
        learner that is left out continues learning. Nothing depends on learners that come after it.
        """
        if gate not in (None, "skip", "shrink"):
            raise ValueError(f"there is no gate {gate!r}; use None, 'skip' or 'shrink'")
        weights = np.ones(self.n_estimators)
        if gate == "skip":
            weights = (self.recent[0] < self.recent[1]).astype(np.float64)
        elif gate == "shrink":
            weights = np.clip(self.best_multiple("discounted"), 0.0, 1.0)
        if warm_up:
            weights[self.rows < warm_up * np.arange(1, self.n_estimators + 1)] = 0.0
        return weights

    def append(self, n: int) -> None:
        """Add learners that have seen nothing yet."""
        more = ((0, 0), (0, n))
        self.sums, self.recent = np.pad(self.sums, more), np.pad(self.recent, more)
        self.rows = np.pad(self.rows, (0, n))
        self._past = np.pad(self._past, ((0, 0), *more))

    def forget(self, learners: NDArray[np.bool_]) -> None:
        """Begin anew for some learners."""
        self.sums[:, learners] = self.recent[:, learners] = 0.0
        self._past[:, :, learners] = 0.0
        self.rows[learners] = 0

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Everything, as numbers and arrays."""
        numbers = {
            "discount": self.discount,
            "window": self.window,
            "panes": self.panes,
            "begun": self._begun,
            "in_pane": self._in_pane,
        }
        arrays = {
            "sums": self.sums,
            "recent": self.recent,
            "past": self._past,
            "rows": self.rows.astype(np.float64),
        }
        return numbers, {name: array.copy() for name, array in arrays.items()}

    @classmethod
    def from_state(cls, numbers: dict[str, Any], arrays: dict[str, Array]) -> EdgeMonitor:
        """What ``state`` was taken of."""
        settings = {name: numbers[name] for name in ("discount", "window", "panes")}
        monitor = cls(arrays["rows"].size, **settings)
        monitor.sums, monitor.recent, monitor._past = (
            arrays[name].copy() for name in ("sums", "recent", "past")
        )
        monitor.rows = arrays["rows"].astype(np.int64)
        for kept, empty in (
            (monitor.sums, (4,)),
            (monitor.recent, (4,)),
            (monitor._past, (monitor.panes, 4)),
        ):
            if kept.shape != (*empty, monitor.rows.size):
                raise ValueError(f"sums of shape {kept.shape} are not those of {monitor.rows.size} learners")
        monitor._begun, monitor._in_pane = numbers["begun"], numbers["in_pane"]
        return monitor


class PrefixLosses:
    """Discounted mean loss of every prefix, in constant memory."""

    def __init__(self, n_estimators: int, *, discount: float = 0.999) -> None:
        self.discount = discount
        # (2, N + 1): discounted losses and the weight behind them; a prefix with learners that came later has
        # seen fewer rows
        self.table = np.zeros((2, n_estimators + 1))  # native rounds follow it

    def add(self, losses: Array, weight: Array | None = None) -> None:
        """Losses (N + 1, b) of the rows of one round."""
        self.table *= self.discount ** losses.shape[1]
        self.table[0] += losses.sum(axis=1) if weight is None else losses @ weight
        self.table[1] += losses.shape[1] if weight is None else weight.sum()

    def means(self) -> Array:
        """(N + 1,) Discounted mean losses; infinite where nothing was seen."""
        sums, weights = self.table
        return np.divide(sums, weights, out=np.full_like(sums, np.inf), where=weights > 0)

    def best(self) -> int:
        """The prefix of least loss; the shortest of several, and 0 before any row."""
        return int(np.argmin(self.means()))

    def append(self, n: int) -> None:
        """Further learners."""
        self.table = np.pad(self.table, ((0, 0), (0, n)))

    def state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Everything, as numbers and arrays."""
        return {"discount": self.discount}, dict(zip(("sums", "weights"), self.table.copy(), strict=True))

    @classmethod
    def from_state(cls, numbers: dict[str, Any], arrays: dict[str, Array]) -> PrefixLosses:
        """What ``state`` was taken of."""
        losses = cls(arrays["sums"].size - 1, discount=numbers["discount"])
        losses.table[:] = arrays["sums"], arrays["weights"]
        return losses
