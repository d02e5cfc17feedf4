"""What banks of native learners have in common, and rounds of boosting that run in native code from end to end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from anytime.blocks import Block, State
from anytime.streaming.banks.bank import Array, Bank, Hypotheses


@dataclass(frozen=True, eq=False)
class RoundRules:
    """How a native round goes from outputs to targets; see ``anytime.streaming.boosted_bank.BoostedBank``.

    Attributes
    ----------
    loss : {"squared", "logistic", "hinge", "absolute", "softmax"}
    rho : float
    start : (m,) float
    steps : (N,) float
    residual : bool
        Algorithm 7 instead of 6.
    averaging : {"last", "theory", "post", "all"}
    low, high : (m,) float, or None
        A box that partial sums are kept in.
    radius : float
        Of a ball that they are kept in; 0: none.
    gate : {"skip", "shrink"} or None
    warm_up : int
    open : (N,) float, or None
        What gates are multiplied with.
    """

    loss: str
    rho: float
    start: Array
    steps: Array
    residual: bool = False
    averaging: str = "last"
    low: Array | None = None
    high: Array | None = None
    radius: float = 0.0
    gate: str | None = None
    warm_up: int = 0
    open: Array | None = None


class NativeBank(Bank):
    """A bank whose learners live in native code.

    Attributes
    ----------
    native : StreamBank
    n_threads : int
        Threads that share the learners where rounds have many rows; results do not depend on it.
    """

    native: Any  # a StreamBank
    n_threads: int = 1

    def predict(self, X: Array) -> Array:
        """(N, b, m) what every learner says of the rows."""
        return np.asarray(self.native.predict(X, self.n_threads))

    def update(self, X: Array, targets: Array, weight: Array | None = None) -> None:
        """One round of every learner towards its targets: see ``Bank.update``."""
        self.native.update(X, np.ascontiguousarray(targets), weight, self.n_threads)

    def append(self, n: int) -> None:
        """Add ``n`` fresh learners behind the others."""
        self.native.append(n)
        self.n_estimators += n

    def restart(self, learners: NDArray[np.bool_]) -> None:
        """Let the marked learners begin anew."""
        self.native.restart(learners)

    def rounds(
        self,
        X: Array,
        y: Array,
        weight: Array | None,
        rules: RoundRules,
        *,
        batch_size: int,
        sums: Array,
        recent: Array,
        discount: float,
        rows: NDArray[np.int64],
        losses: Array | None = None,
        prefixes: bool = False,
    ) -> Array:
        """Rounds of boosting over the rows, in native code.

        Parameters
        ----------
        X : (n, d) float, contiguous
        y : (n, 1) or (n, m) float
            Numbers, or classes: above 0 or not; 0 to m - 1 for softmax.
        weight : (n,) float, or None
        rules : RoundRules
        batch_size : int
            Rows of a round.
        sums, recent : (4, N) float
            Of the edge monitor; what is added by the rows is added to them. All rows of ``recent`` fade by ``discount``.
        rows : (N,) int64
            Rows that each learner had seen before; the caller counts on.
        losses : (2, N + 1) float, or None
            Discounted losses of all prefixes and the weight behind them, which follow too.
        prefixes : bool, default=False

        Returns
        -------
        answers : (n, m) float, or (n, N + 1, m) of all prefixes
            What was answered before a round was learned.
        """
        return np.asarray(
            self.native.rounds(
                X,
                y,
                weight,
                batch=batch_size,
                sums=sums,
                recent=recent,
                discount=discount,
                rows=rows,
                losses=losses,
                prefixes=prefixes,
                threads=self.n_threads,
                **vars(rules),
            )
        )

    # ------------------------------------------------------------------ reading

    def answers(
        self, X: Array, rules: RoundRules, *, recent: Array, rows: NDArray[np.int64], prefixes: bool = False
    ) -> Array:
        """(n, m) What ``rounds`` would answer to the rows now, or (n, N + 1, m) for all prefixes; nothing is learned."""
        return np.asarray(
            self.native.read(
                X, recent=recent, rows=rows, prefixes=prefixes, threads=self.n_threads, **vars(rules)
            )
        )

    def track(self, hypotheses: Hypotheses) -> None:
        """Begin to keep what ``read(hypotheses)`` needs."""
        super().track(hypotheses)
        if hypotheses == "params":
            self.native.track()

    def read(self, hypotheses: Hypotheses = "last") -> Block:
        """The learners as they are now, or with the mean of their parameters: see ``Bank.read``."""
        if hypotheses != "params" or hypotheses not in self.hypotheses:
            return super().read(hypotheses)
        state = self.native.state()
        if "means" not in state:
            raise ValueError("no means of parameters were kept: call track('params') before learning")
        return self._block(state["means"])

    def _block(self, parameters: Array) -> Block:
        """Learners with such parameters, where there are any."""
        raise NotImplementedError

    # ------------------------------------------------------------------ files

    def state(self) -> State:
        """Everything that was learned, and what it takes to make such a bank."""
        description: dict[str, Any] = {
            "kind": self.learner.kind,
            "learner": asdict(self.learner),  # type: ignore[call-overload]
            "n_estimators": self.n_estimators,
            "n_features": self.n_features,
            "n_outputs": self.n_outputs,
            "random_state": self.random_state,
        }
        return description, dict(self.native.state())

    @classmethod
    def from_state(
        cls, learner: Any, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> Self:
        """Read what ``state`` gave."""
        sizes = (
            int(description[name]) for name in ("n_estimators", "n_features", "n_outputs", "random_state")
        )
        bank = cls(learner, *sizes)
        bank.native.load(dict(arrays))
        return bank
