"""Linear learners: recursive least squares, and gradient steps on the columns themselves or on random features."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from anytime import _native
from anytime.blocks import LinearBlock
from anytime.streaming.banks.bank import Array, StreamLearner
from anytime.streaming.banks.native import NativeBank
from anytime.streaming.banks.nets import NetBank


@dataclass(frozen=True)
class OnlineRidge(StreamLearner):
    """Ridge regression by recursive least squares, which is follow the regularised leader for square loss.

    Parameters
    ----------
    l2_regularization : float, default=1.0
        Of the squared norm of the coefficients, the intercept's included.
    """

    kind: ClassVar[str] = "ridge"

    l2_regularization: float = 1.0

    def __post_init__(self) -> None:
        self._check(positive="l2_regularization")

    def bank_type(self) -> Any:
        return RidgeBank


@dataclass(frozen=True)
class OnlineLinear(StreamLearner):
    """Linear functions, learned by gradient steps on the square loss.

    Parameters
    ----------
    learning_rate : float, default=0.01
    method : {"sgd", "adagrad", "adam"}, default="adagrad"
    features : {"raw", "random"}, default="raw"
        The columns themselves, or ``n_components`` random Fourier features of them, other ones for every learner.
    n_components : int, default=50
    """

    kind: ClassVar[str] = "linear"

    learning_rate: float = 0.01
    method: Literal["sgd", "adagrad", "adam"] = "adagrad"
    features: Literal["raw", "random"] = "raw"
    n_components: int = 50

    def __post_init__(self) -> None:
        words = {"method": ("sgd", "adagrad", "adam"), "features": ("raw", "random")}
        self._check(positive="learning_rate", counts="n_components", **words)

    def bank_type(self) -> Any:
        return LinearBank if self.features == "raw" else RandomFeatureBank


class RidgeBank(NativeBank):
    """Ridge regressions; a missing value counts as 0.

    Learners that began together share the inverse matrix: it depends on the rows alone.
    """

    hypotheses = ("last", "params")

    def __init__(self, learner: OnlineRidge, *sizes: int) -> None:
        super().__init__(learner, *sizes)
        self.native = _native.StreamRidge(
            n_learners=self.n_estimators,
            n_features=self.n_features,
            n_outputs=self.n_outputs,
            penalty=learner.l2_regularization,
        )

    def block(self) -> LinearBlock:
        return self._block(self.native.state()["weights"])

    def _block(self, parameters: Array) -> LinearBlock:
        return _linear_block(self, parameters)


class LinearBank(NetBank):
    """Linear functions, learned by gradient steps: nets without hidden units, which begin at zero."""

    def __init__(self, learner: OnlineLinear, *sizes: int) -> None:
        NativeBank.__init__(self, learner, *sizes)
        self._make("none", 1, learner.method, learner.learning_rate)

    def _first(self, first: int, n: int) -> Array:
        return np.zeros((n, self.native.size))

    def _block(self, parameters: Array) -> LinearBlock:
        return _linear_block(self, parameters)


class RandomFeatureBank(NetBank):
    """Linear functions of cosines of random directions, other ones for every learner; the directions stay."""

    def __init__(self, learner: OnlineLinear, *sizes: int) -> None:
        NativeBank.__init__(self, learner, *sizes)
        self._make("cosine", learner.n_components, learner.method, learner.learning_rate)


def _linear_block(bank: NativeBank, parameters: Array) -> LinearBlock:
    """Linear functions of the columns, with such weights and intercepts; a missing value counts as 0."""
    tables = parameters.reshape(bank.n_estimators, bank.n_outputs, bank.n_features + 1)
    return LinearBlock(
        np.arange(bank.n_features),
        [table.T[:-1] for table in tables],
        intercepts=tables[:, :, -1],
        centres=np.zeros(bank.n_features),
    )
