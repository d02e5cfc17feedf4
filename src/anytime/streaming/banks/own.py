"""Custom learners: any object that learns from a row, or from a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from anytime.blocks import Block, State
from anytime.streaming.banks.bank import Array, Bank, StreamLearner

_UNSAVED = (
    "learners of one's own are Python objects, which an .anytime file cannot hold and nobody could read safely: "
    "the model cannot be saved, only pickled"
)


@dataclass(frozen=True)
class OwnLearner(StreamLearner):
    """Learners made by a function of your own.

    Parameters
    ----------
    factory : callable
        ``factory()`` returns a learner. It has ``predict(x)`` and ``learn(x, target)`` for one row ``x`` (d,), or, like those
        of scikit-learn, ``predict(X)`` and ``partial_fit(X, targets)``. Targets of one output are numbers, those of several
        rows of numbers. A learner predicts only after it has learned something; before, its answer is 0. Rows of weight 0
        are skipped; other weights go to ``partial_fit`` as ``sample_weight``, and ``learn`` ignores them.

    Notes
    -----
    A model of such learners can be copied and pickled, but not saved to an ``.anytime`` file.
    """

    kind: ClassVar[str] = "own"

    factory: Callable[[], Any]

    def __post_init__(self) -> None:
        if not callable(self.factory):
            raise TypeError(f"factory is {self.factory!r}; it must be a function that makes a learner")

    def bank_type(self) -> Any:
        return OwnBank


class OwnBank(Bank):
    """Custom learners, evaluated and trained one after the other."""

    learner: OwnLearner

    def __init__(self, learner: OwnLearner, *sizes: int) -> None:
        super().__init__(learner, *sizes)
        self.objects = [self._made() for _ in range(self.n_estimators)]
        self._begun = [False] * self.n_estimators

    def _made(self) -> Any:
        made = self.learner.factory()
        if not hasattr(made, "predict") or not (hasattr(made, "learn") or hasattr(made, "partial_fit")):
            raise TypeError(f"a learner of one's own needs predict, and learn or partial_fit; got {made!r}")
        return made

    def predict(self, X: Array) -> Array:
        block = self.block()
        return np.stack([block.outputs(i, X) for i in range(self.n_estimators)])

    def update(self, X: Array, targets: Array, weight: Array | None = None) -> None:
        used = slice(None) if weight is None else weight > 0
        X, targets = X[used], targets[:, used]
        if not len(X):
            return
        extra = {} if weight is None else {"sample_weight": weight[used]}
        for i, one in enumerate(self.objects):
            wanted = targets[i, :, 0] if self.n_outputs == 1 else targets[i]
            if hasattr(one, "learn"):
                for x, target in zip(X, wanted, strict=True):
                    one.learn(x, target)
            else:
                one.partial_fit(X, wanted, **extra)
            self._begun[i] = True

    def append(self, n: int) -> None:
        self.objects += [self._made() for _ in range(n)]
        self._begun += [False] * n
        self.n_estimators += n

    def restart(self, learners: NDArray[np.bool_]) -> None:
        """Put new learners in the places of the marked ones."""
        for i in np.flatnonzero(learners):
            self.objects[i], self._begun[i] = self._made(), False

    def block(self) -> OwnBlock:
        """The learners themselves: a block that continues learning with the bank."""
        begun = [one if begun else None for one, begun in zip(self.objects, self._begun, strict=True)]
        return OwnBlock(begun, self.n_features, self.n_outputs)

    def state(self) -> State:
        raise TypeError(_UNSAVED)

    @classmethod
    def from_state(
        cls, learner: Any, description: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
    ) -> Self:
        raise TypeError("a bank of learners of one's own cannot be read from a file")


class OwnBlock(Block):
    """Stages that are learners of one's own; None gives 0."""

    kind = "own learners"

    def __init__(self, objects: list[Any], n_features: int, width: int) -> None:
        self.objects = objects
        self.n_stages, self.width = len(objects), width
        self._columns = np.arange(n_features, dtype=np.int32)

    def columns(self, stage: int) -> NDArray[np.int32]:
        return self._columns

    def outputs(self, stage: int, X: Array) -> Array:
        one = self.objects[stage]
        if one is None or not len(X):
            return np.zeros((len(X), self.width))
        predicted = [one.predict(x) for x in X] if hasattr(one, "learn") else one.predict(X)
        out = np.asarray(predicted, dtype=np.float64)
        if out.size != len(X) * self.width:
            raise ValueError(
                f"a learner's predict gave shape {out.shape} for {len(X)} rows and {self.width} outputs"
            )
        return out.reshape(len(X), self.width)

    def head(self, n_stages: int) -> OwnBlock:
        return OwnBlock(self.objects[:n_stages], self._columns.size, self.width)

    def state(self) -> State:
        raise TypeError(_UNSAVED)
