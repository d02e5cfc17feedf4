"""Experts: pairs of a gate, which decides when to ask the remote model, and a local model, which answers otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Expert", "Experts", "Opinions"]

Array = NDArray[np.float64]
Gate: TypeAlias = Any  # a function from X to scores (n,), or an estimator with ``decision_function``
Model: TypeAlias = Any  # an estimator with ``predict``, or a function from X to answers (n,)


class Expert(NamedTuple):
    """Ask if the gate's score exceeds the threshold, otherwise answer with the local model.

    Attributes
    ----------
    gate : callable, estimator or None
        Its score is above 0 if the remote model should be asked, as everywhere in this package. None: a score of 0.
    model : estimator, callable or None
        The local model. None only for an expert that always asks.
    threshold : float, default=0.0
        Lower it to ask more often.
    """

    gate: Gate | None
    model: Model | None
    threshold: float = 0.0


@dataclass(frozen=True, eq=False)
class Opinions:
    """Decisions and answers of experts for n examples.

    Attributes
    ----------
    asks : (n, K) bool
    answers : (n, J)
        One column per local model.
    model_of : (K,) int
        The column of each expert; -1 for one that always asks.
    """

    asks: NDArray[np.bool_]
    answers: NDArray[Any]
    model_of: NDArray[np.intp]

    def at(self, rows: NDArray[np.bool_] | slice) -> Opinions:
        """The opinions on some of the rows."""
        return Opinions(self.asks[rows], self.answers[rows], self.model_of)

    def answers_of(self, played: NDArray[np.int32]) -> NDArray[Any]:
        """(n,) answers of the experts drawn; meaningless where they ask."""
        return np.asarray(self.answers[np.arange(len(self.answers)), self.model_of[played]])

    def losses(self, evaluation_cost: float, errors: ArrayLike) -> Array:
        """(n, K) loss of every expert: the cost if it asks, else the error (n, J) of its model, (6.1)."""
        by_model = np.asarray(errors, dtype=np.float64)
        return np.where(self.asks, evaluation_cost, by_model[:, self.model_of])


class Experts:
    """A fixed list of experts. Gates and models that several of them share are evaluated once.

    One that always asks is added if there is none, so that every round can be observed.

    Parameters
    ----------
    experts : sequence of Expert or (gate, model) or (gate, model, threshold)

    Examples
    --------
    >>> experts = Experts.gated([lambda X: X[:, 0]], [lambda X: X[:, 1] > 0], shifts=[-1.0, 0.0])
    >>> len(experts)  # two thresholds, always local, always asking
    4
    >>> experts.consult(np.array([[0.5, 2.0], [-0.5, -2.0]])).asks.astype(int).tolist()
    [[1, 1, 0, 1], [1, 0, 0, 1]]
    """

    def __init__(self, experts: Sequence[Expert | tuple[Any, ...]]) -> None:
        self.experts = [Expert(*expert) for expert in experts]
        if not any(expert.gate is None and expert.threshold < 0 for expert in self.experts):
            self.experts.append(ALWAYS_ASK)
        for place, expert in enumerate(self.experts):
            if expert.model is None and not (expert.gate is None and expert.threshold < 0):
                raise ValueError(f"expert {place} has no local model for the examples it does not ask about")
        self._gates = _distinct(expert.gate for expert in self.experts)
        self._models = _distinct(expert.model for expert in self.experts)
        if not self._models:
            raise ValueError("no expert has a local model; with none, the remote model is always asked")

    @classmethod
    def gated(
        cls, gates: Sequence[Gate], models: Sequence[Model], shifts: Sequence[float] = (0.0,)
    ) -> Experts:
        """Every gate with every model at every shift of its threshold; each model alone; one that always asks."""
        pairs = [Expert(gate, model, shift) for model in models for gate in gates for shift in shifts]
        return cls([*pairs, *(Expert(None, model) for model in models), ALWAYS_ASK])

    @classmethod
    def confident(
        cls, models: Sequence[Model], doubts: Sequence[float] = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4)
    ) -> Experts:
        """Each model asks if its uncertainty exceeds a threshold; each model alone; one that always asks."""
        pairs = [
            Expert(gate, model, doubt) for model in models for gate in [Doubt(model)] for doubt in doubts
        ]
        return cls([*pairs, *(Expert(None, model) for model in models), ALWAYS_ASK])

    def __len__(self) -> int:
        return len(self.experts)

    def consult(self, X: Any) -> Opinions:
        """Opinions of all experts on the rows of X."""
        n = len(X)
        scores = {id(gate): _scores(gate, X) for gate in self._gates}
        asks = np.empty((n, len(self)), dtype=np.bool_)
        for place, expert in enumerate(self.experts):
            asks[:, place] = (
                scores[id(expert.gate)] > expert.threshold
                if expert.gate is not None
                else expert.threshold < 0
            )
        columns = {id(model): place for place, model in enumerate(self._models)}
        model_of = np.array([columns.get(id(expert.model), -1) for expert in self.experts], dtype=np.intp)
        return Opinions(asks, np.column_stack([answers_of(model, X) for model in self._models]), model_of)


class Doubt:
    """A gate: one minus the largest probability of a classifier."""

    def __init__(self, model: Any) -> None:
        if not hasattr(model, "predict_proba"):
            raise TypeError(
                f"{type(model).__name__} has no predict_proba, so its uncertainty is unknown; pass gates of your own"
            )
        self.model = model

    def __call__(self, X: Any) -> Array:
        """(n,) doubt of every row."""
        return np.asarray(1.0 - np.asarray(self.model.predict_proba(X), dtype=np.float64).max(axis=1))


ALWAYS_ASK = Expert(None, None, -1.0)


def _distinct(things: Any) -> list[Any]:
    """Things other than None, once each, in their order."""
    return list({id(thing): thing for thing in things if thing is not None}.values())


def _scores(gate: Gate, X: Any) -> Array:
    score = gate.decision_function if hasattr(gate, "decision_function") else gate
    return _one_each(np.asarray(score(X), dtype=np.float64), len(X), gate)


def answers_of(model: Model, X: Any) -> NDArray[Any]:
    """(n,) answers of a model for the rows: an estimator's ``predict``, or a function's value."""
    answers = np.asarray(model.predict(X) if hasattr(model, "predict") else model(X))
    return _one_each(answers, len(X), model)


def _one_each(values: NDArray[Any], n: int, source: Any) -> NDArray[Any]:
    if values.shape != (n,):
        raise ValueError(f"{source!r} gave values of shape {values.shape} for {n} rows; one each is needed")
    return values
