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
    """How a native round goes from outputs to targets; see ``anytime.streaming.boosted_bank.BoostedBank``."""

    loss: str  # "squared", "logistic", "hinge", "absolute" or "softmax"
    rho: float
    start: Array  # (m,)
    steps: Array  # (N,)
    residual: bool = False  # Algorithm 7 instead of 6
    averaging: str = "last"
    # (m,): a box that partial sums are kept in
    low: Array | None = None
    high: Array | None = None
    radius: float = 0.0  # of a ball that they are kept in; 0: none
    gate: str | None = None
    warm_up: int = 0
    open: Array | None = None  # (N,): what gates are multiplied with


class NativeBank(Bank):
    """A bank whose learners live in native code."""

    native: Any  # a StreamBank
    n_threads: int = 1  # share the learners where rounds have many rows; results do not depend on it

    def predict(self, X: Array) -> Array:
        return np.asarray(self.native.predict(X, self.n_threads))

    def update(self, X: Array, targets: Array, weight: Array | None = None) -> None:
        self.native.update(X, np.ascontiguousarray(targets), weight, self.n_threads)

    def append(self, n: int) -> None:
        self.native.append(n)
        self.n_estimators += n

    def restart(self, learners: NDArray[np.bool_]) -> None:
        self.native.restart(learners)

    def rounds(
        self,
        X: Array,  # (n, d): contiguous
        y: Array,  # (n, 1) or (n, m): numbers, or classes: above 0 or not; 0 to m - 1 for softmax
        weight: Array | None,  # (n,)
        rules: RoundRules,
        *,
        batch_size: int,  # rows of a round
        # (4, N): of the edge monitor. What the rows add is added to them; all of ``recent`` fades by ``discount``
        sums: Array,
        recent: Array,
        discount: float,
        rows: NDArray[np.int64],  # (N,): those that each learner had seen before; the caller counts on
        losses: Array
        | None = None,  # (2, N + 1): discounted losses of prefixes and the weight behind them follow too
        prefixes: bool = False,
    ) -> Array:
        """Rounds of boosting in native code: (n, m) answers before each was learned, or (n, N + 1, m) of all prefixes."""
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
        super().track(hypotheses)
        if hypotheses == "params":
            self.native.track()

    def read(self, hypotheses: Hypotheses = "last") -> Block:
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
        sizes = (
            int(description[name]) for name in ("n_estimators", "n_features", "n_outputs", "random_state")
        )
        bank = cls(learner, *sizes)
        bank.native.load(dict(arrays))
        return bank
