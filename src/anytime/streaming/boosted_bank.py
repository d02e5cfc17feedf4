"""Boosting on a stream: all learners of a bank learn at once, in rounds of predict, pay, learn.

Streaming gradient boosting (Hu 2019, chapter 5): Algorithm 6 for smooth losses, Algorithm 7 with residual projection for losses
with kinks, Algorithm 8 to read the latter. A round of b rows costs ``b N`` predictions and ``b N`` updates, whatever came before;
memory is that of the learners. Every prefix of learners is a model of its own, and none depends on those behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anytime.streaming.banks.bank import Bank
from anytime.streaming.banks.native import NativeBank, RoundRules
from anytime.streaming.drift import Drift, Watch
from anytime.streaming.losses import STREAM_LOSSES, StreamLoss, Target
from anytime.streaming.monitors import EdgeMonitor, Gate, PrefixLosses
from anytime.streaming.partial_sums import (
    AlgorithmName,
    Averaging,
    RoundTrace,
    averaged,
    descend,
    partial_sums,
)
from anytime.streaming.projections import Ball, Box, Projection

Array = NDArray[np.float64]
State = tuple[dict[str, Any], dict[str, NDArray[Any]]]


class BoostedBank:
    """A bank of learners, boosted on a stream.

    Examples
    --------
    >>> from anytime.streaming.banks import OnlineRidge
    >>> from anytime.streaming.losses import Squared
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> model = BoostedBank(OnlineRidge().make(10, 2, 1), Squared())
    >>> before = model.learn(X, X @ [1.0, -2.0])
    >>> model.predict(np.array([[1.0, 1.0]])).round(1).tolist()
    [[-1.0]]
    """

    def __init__(
        self,
        bank: Bank,
        loss: StreamLoss,
        *,
        # whether learners are fitted to gradients (Algorithm 6), or to gradients and what was left unfitted
        # before (7)
        algorithm: AlgorithmName = "smooth",
        # ``eta``, or a function from learners' numbers 1, 2, ... to their steps. By default half of ``1 /
        # smoothness`` for "smooth" (1 for a loss without), and ``1 / (strong convexity * i)`` for "residual"
        step: float | Callable[[Array], Array] | None = None,
        # no step is longer. With this the guarantee of "residual" is void: for small ``rho`` its first steps
        # are enormous
        max_step: float | None = None,
        start: ArrayLike = 0.0,  # (m,): ``y^0``, the answer of no learners
        projection: Projection | None = None,  # where partial sums are kept
        # see ``averaged``; by default "last" for "smooth" and "post" for "residual"
        averaging: Averaging | None = None,
        # what to do with learners that do not fit their targets at present: see ``EdgeMonitor.gates``
        gate: Gate | None = None,
        warm_up: int = 0,  # learner i counts only after ``warm_up * i`` rows
        drift: Drift | None = None,  # what to do where the distribution moves
        # called with the ``RoundTrace`` of every round, y, and the rows' weights or None, before learners are
        # updated
        on_round: Callable[[RoundTrace, Target, Array | None], None] | None = None,
    ) -> None:
        if algorithm not in ("smooth", "residual"):
            raise ValueError(f"there is no algorithm {algorithm!r}; use 'smooth' or 'residual'")
        self.bank, self.loss, self.algorithm = bank, loss, algorithm
        self.step, self.max_step, self.projection = step, max_step, projection
        self.averaging: Averaging = averaging or ("last" if algorithm == "smooth" else "post")
        self.gate, self.warm_up = gate, warm_up
        self.on_round = on_round
        self.start = np.broadcast_to(np.asarray(start, dtype=np.float64), (bank.n_outputs,)).copy()
        if projection is not None and not projection.contains(self.start):
            raise ValueError(
                f"the start {self.start.tolist()} lies outside {projection}; partial sums are kept in it"
            )
        self.monitor = EdgeMonitor(bank.n_estimators)
        self.monitor.gates(gate)  # refuses a gate that does not exist
        averaged(np.zeros(2), self.averaging)
        self._steps_of(1)
        self.prefix_losses = PrefixLosses(bank.n_estimators)
        self.drift = drift
        self._watch = None if drift is None else Watch(drift)
        self._faded = np.zeros(bank.n_estimators, dtype=np.bool_)
        self._rules: RoundRules | None = None
        native = STREAM_LOSSES.get(loss.name) is type(loss)
        self._native = bank if native and isinstance(bank, NativeBank) else None
        self.n_rows = 0  # learned from

    # ------------------------------------------------------------------ reading

    @property
    def n_estimators(self) -> int:
        """Number of learners."""
        return self.bank.n_estimators

    @property
    def n_alarms(self) -> int:
        """Changes that were met."""
        return 0 if self._watch is None else self._watch.n_alarms

    @property
    def steps(self) -> Array:
        """(N,) The steps ``eta_i``."""
        return self._steps_of(self.n_estimators)

    @property
    def gates(self) -> Array:
        """(N,) What outputs are multiplied with at present."""
        gates = self.monitor.gates(self.gate, self.warm_up)
        if self._faded.any():
            gates[self._faded] = 0.0
        return gates

    def predict_rounds(self, X: Array) -> Array:
        """(N + 1, b, m) All partial sums."""
        return self._sums(self.bank.predict(X) * self.gates[:, None, None])

    def answers(self, X: Array) -> Array:
        """(N + 1, b, m) The answer of every prefix."""
        return averaged(self.predict_rounds(X), self.averaging)

    def predict(self, X: Array) -> Array:
        """(b, m) The answer of all learners."""
        native = self._native_bank
        if native is not None:
            recent, rows = self.monitor.recent, self.monitor.rows
            return native.answers(np.ascontiguousarray(X), self._native_rules(), recent=recent, rows=rows)
        return np.asarray(self.answers(X)[-1])

    # ------------------------------------------------------------------ learning

    def learn(self, X: Array, y: Target, weight: Array | None = None, *, batch_size: int = 1) -> Array:
        """Rounds of ``batch_size`` rows, the last one shorter; (n, m) what was answered to each row before learning it."""
        if not len(X):
            return np.empty((0, self.bank.n_outputs))
        piece = self._piece(batch_size)
        if len(X) <= piece:
            return self._round(X, y, weight, batch_size)
        answers = np.empty((len(X), self.bank.n_outputs))
        at = 0
        while at < len(X):
            rows = slice(at, at + piece)
            answers[rows] = self._round(
                X[rows], y[rows], None if weight is None else weight[rows], batch_size
            )
            at += piece
            piece = self._piece(batch_size)
        return answers

    def round(self, X: Array, y: Target, weight: Array | None = None, start: Array | None = None) -> Array:
        """One round of all rows (b, d): predict, pay, and learn; (b, m) the answers before learning.

        ``start`` (b, m): what to start from instead, row by row; see ``BlockBoosting``.
        """
        return self._round(X, y, weight, len(X), start)

    def rehearse(self, X: Array, y: Target, weight: Array | None = None, *, batch_size: int = 1) -> None:
        """Learn from rows that were learned from before: no edge and no loss is measured on them."""
        native = self._native_bank
        if native is not None:
            self._native_rounds(native, X, y, weight, batch_size, measured=False)
        else:
            for at in range(0, len(X), batch_size):
                rows = slice(at, at + batch_size)
                self._plain_round(X[rows], y[rows], None if weight is None else weight[rows], measured=False)

    def append(self, n: int) -> None:
        """Further learners; those before them, and every prefix of them, stay as they are."""
        self.bank.append(n)
        self.monitor.append(n)
        self._faded = np.pad(self._faded, (0, n))
        self._rules = None
        self.prefix_losses.append(n)

    # ------------------------------------------------------------------ files

    def state(self) -> State:
        """Everything but the bank, whose own ``state`` goes with it, so that learning continues bit for bit."""
        if callable(self.step):
            raise TypeError("a step that is a Python function cannot be saved")
        description: dict[str, Any] = {
            "loss": [self.loss.name, self.loss.rho],
            "settings": {name: getattr(self, name) for name in _SAVED},
            "projection": None
            if self.projection is None
            else [type(self.projection).__name__, vars(self.projection)],
            "drift": None if self.drift is None else vars(self.drift),
            "n_rows": self.n_rows,
        }
        arrays: dict[str, NDArray[Any]] = {"start": self.start.copy(), "faded": self._faded.copy()}
        parts: dict[str, Any] = {
            "monitor": self.monitor,
            "prefix_losses": self.prefix_losses,
            "watch": self._watch,
        }
        for name, part in parts.items():
            if part is not None:
                description[name], own = part.state()
                arrays.update({f"{name}.{key}": array for key, array in own.items()})
        return description, arrays

    @classmethod
    def from_state(
        cls, bank: Bank, description: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> BoostedBank:
        """What ``state`` was taken of, with its bank as it was then."""
        name, rho = description["loss"]
        shape = description["projection"]
        model = cls(
            bank,
            STREAM_LOSSES[name](rho),
            start=arrays["start"],
            projection=None if shape is None else _PROJECTIONS[shape[0]](**shape[1]),
            drift=None if description["drift"] is None else Drift(**description["drift"]),
            **description["settings"],
        )
        model.n_rows = description["n_rows"]
        model._faded = arrays["faded"].copy()

        def own(part: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
            mine = {key.removeprefix(f"{part}."): arrays[key] for key in arrays if key.startswith(f"{part}.")}
            return description[part], mine

        model.monitor = EdgeMonitor.from_state(*own("monitor"))
        model.prefix_losses = PrefixLosses.from_state(*own("prefix_losses"))
        if model._watch is not None:
            model._watch.restore(*own("watch"))
        return model

    # ------------------------------------------------------------------ rounds

    def _round(
        self, X: Array, y: Target, weight: Array | None, batch_size: int, start: Array | None = None
    ) -> Array:
        """One round of all rows; or, in native code, several."""
        native = self._native_bank
        if native is not None and start is None:
            answers = self._native_rounds(native, X, y, weight, batch_size)
        else:
            answers = self._plain_round(X, y, weight, start)
        self.n_rows += len(X)
        self._meet_change(answers, y)
        return answers

    def _plain_round(
        self, X: Array, y: Target, weight: Array | None, start: Array | None = None, *, measured: bool = True
    ) -> Array:
        gates = self.gates
        raw = self.bank.predict(X)
        outputs = raw if (gates == 1).all() else raw * gates[:, None, None]
        went = descend(
            outputs,
            y,
            self.loss,
            self.steps,
            np.tile(self.start, (len(X), 1)) if start is None else start,
            algorithm=self.algorithm,
            projection=self.projection,
        )
        answers = averaged(went.sums, self.averaging)
        if measured:
            if self.on_round is not None:
                self.on_round(went, y, weight)
            self.monitor.add(went.targets, raw, weight)
            self.prefix_losses.add(self.loss.value(answers, y), weight)
        self.bank.update(X, went.targets, weight)
        return np.asarray(answers[-1])

    @property
    def _native_bank(self) -> NativeBank | None:
        """The bank, where nothing in a round needs Python."""
        return self._native if self.on_round is None else None

    def _piece(self, batch_size: int) -> int:
        """Rows, in whole rounds, until something has to be looked at between two rounds."""
        if self._native_bank is None:
            return batch_size
        rows = self.monitor.room if self._watch is None else min(self.monitor.room, self._watch.room)
        return -(-rows // batch_size) * batch_size

    def _native_rounds(
        self,
        bank: NativeBank,
        X: Array,
        y: Target,
        weight: Array | None,
        batch_size: int,
        *,
        measured: bool = True,
    ) -> Array:
        monitor = self.monitor
        answers = bank.rounds(
            np.ascontiguousarray(X),
            np.ascontiguousarray(y, dtype=np.float64).reshape(len(X), -1),
            None if weight is None else np.ascontiguousarray(weight, dtype=np.float64),
            self._native_rules(),
            batch_size=batch_size,
            sums=monitor.sums if measured else monitor.sums.copy(),
            recent=monitor.recent if measured else monitor.recent.copy(),
            discount=monitor.discount,
            rows=monitor.rows,
            losses=self.prefix_losses.table if measured else None,
        )
        if measured:
            monitor.counted(len(X))
        return answers

    def _native_rules(self) -> RoundRules:
        if self._rules is None:
            box = self.projection if isinstance(self.projection, Box) else None
            self._rules = RoundRules(
                self.loss.name,
                self.loss.rho,
                self.start,
                self.steps,
                residual=self.algorithm == "residual",
                averaging=self.averaging,
                low=None if box is None else np.broadcast_to(box.low, self.start.shape).astype(np.float64),
                high=None if box is None else np.broadcast_to(box.high, self.start.shape).astype(np.float64),
                radius=self.projection.size if isinstance(self.projection, Ball) else 0.0,
                gate=self.gate,
                warm_up=self.warm_up,
                open=(~self._faded).astype(np.float64) if self._faded.any() else None,
            )
        return self._rules

    def _meet_change(self, answers: Array, y: Target) -> None:
        """Watch the losses; where they have been looked at, let learners back that fit again, and act on an alarm."""
        if self._watch is None:
            return
        looked, alarm = self._watch.see(self.loss.value(answers, y))
        if alarm:
            harmful = self.monitor.edge("windowed") < 0
            self._faded |= harmful
            self.monitor.forget(harmful)
        elif looked and self._faded.any():
            self._let_back()
        if alarm or looked:
            self._rules = None

    def _let_back(self) -> None:
        """Of the faded learners, those that fit again; or the first ones anew, as many as make a whole step together.

        Fresh learners are all given the same gradient at first, and would overshoot if many began at once.
        """
        assert self._watch is not None
        if self._watch.drift.action == "fade":
            self._faded &= self.monitor.edge("discounted") <= 0
            return
        first = self._faded & (np.cumsum(self.steps * self._faded) <= 1.0 / (self.loss.smoothness() or 1.0))
        first[self._faded.argmax()] = True
        self.bank.restart(first)
        self.monitor.forget(first)
        self._faded &= ~first

    # ------------------------------------------------------------------ parts

    def _steps_of(self, n: int) -> Array:
        numbers = np.arange(1, n + 1, dtype=np.float64)
        if callable(self.step):
            steps = np.asarray(self.step(numbers), dtype=np.float64)
        elif self.step is not None:
            steps = np.full(n, float(self.step))
        elif self.algorithm == "smooth":
            steps = np.full(n, 0.5 / (self.loss.smoothness() or 0.5))
        else:
            steps = 1.0 / (self._convexity() * numbers)
        return steps if self.max_step is None else np.minimum(steps, self.max_step)

    def _convexity(self) -> float:
        radius = np.inf if self.projection is None else self.projection.radius(self.bank.n_outputs)
        convexity = self.loss.strong_convexity(radius)
        if convexity <= 0:
            raise ValueError(
                f"steps 1 / (lambda i) need a strongly convex loss, and {self.loss} is not: give rho above 0, or step"
            )
        return convexity

    def _sums(self, outputs: Array) -> Array:
        start = np.tile(self.start, (outputs.shape[1], 1))
        steps = self.steps[: len(outputs)]
        return partial_sums(start, outputs, steps, self.projection)


_PROJECTIONS: dict[str, type[Projection]] = {"Box": Box, "Ball": Ball}
_SAVED = ("algorithm", "step", "max_step", "averaging", "gate", "warm_up")
