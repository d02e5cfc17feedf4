"""Networks of sensing devices as scikit-learn estimators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from anytime.adaptive.sensing.problem import Gate, Problem, Weights, device_columns, device_inputs
from anytime.adaptive.sensing.solvers import Direct, Projected, Relaxed, Solver
from anytime.validation import validated

__all__ = ["SensorNetworkClassifier", "SensorNetworkRegressor", "SensorReport", "SensorVote"]

Array = NDArray[np.float64]
SOLVERS = {"direct": Direct, "relaxed": Relaxed, "projected": Projected}


@dataclass(frozen=True)
class SensorReport:
    """How a network does.

    Attributes
    ----------
    participation : float
        Share of (example, device) pairs in which the device speaks.
    active_devices : float
        How many devices speak per example.
    score : float
        Accuracy or R² with gates either open or closed, as in use.
    soft_score : float
        The same with gates as they were trained.
    """

    participation: float
    active_devices: float
    score: float
    soft_score: float


class _SensorNetwork(BaseEstimator):  # type: ignore[misc]
    """What both estimators share."""

    devices: int | Sequence[ArrayLike]
    participation: float | None
    max_active_devices: float | None
    solver: str | Solver
    gate: str
    slope: float
    open_gates: str
    random_state: int | np.random.Generator | None

    def __init__(
        self,
        devices: int | Sequence[ArrayLike] = 1,
        *,
        participation: float | None = None,
        max_active_devices: float | None = None,
        solver: Literal["direct", "relaxed", "projected"] | Solver = "direct",
        gate: Literal["sigmoid", "relu"] = "sigmoid",
        slope: float = 1.0,
        open_gates: Literal["scaled", "whole"] = "scaled",
        random_state: int | np.random.Generator | None = None,
    ) -> None:
        self.devices = devices
        self.participation = participation
        self.max_active_devices = max_active_devices
        self.solver = solver
        self.gate = gate
        self.slope = slope
        self.open_gates = open_gates
        self.random_state = random_state

    def _train(
        self, X: Array, targets: Array, base: Array, loss: Literal["cross_entropy", "squared"]
    ) -> None:
        if self.open_gates not in ("scaled", "whole"):
            raise ValueError(f"open_gates is {self.open_gates!r}; say 'scaled' or 'whole'")
        if isinstance(self.solver, str) and self.solver not in SOLVERS:
            raise ValueError(
                f"solver is {self.solver!r}; say one of {', '.join(SOLVERS)}, or give one with settings"
            )
        solver: Any = SOLVERS[self.solver]() if isinstance(self.solver, str) else self.solver
        self.columns_ = device_columns(self.devices, X.shape[1])
        self.centre_, self.scale_ = X.mean(axis=0), X.std(axis=0)
        self.scale_[self.scale_ == 0] = 1.0
        self.base_ = base
        problem = Problem(self._inputs(X), targets, base, loss, Gate(self.gate, self.slope))  # type: ignore[arg-type]
        random = np.random.default_rng(self.random_state)
        width = problem.inputs.shape[2]
        start = Weights.drawn(problem.n_devices, width, targets.shape[1], random, 1 / np.sqrt(width))
        self.weights_ = solver.solve(problem, start, self._share(problem.n_devices), random)

    def _share(self, n_devices: int) -> float | None:
        """The budget as a share of all pairs of an example and a device."""
        if self.participation is not None and self.max_active_devices is not None:
            raise ValueError(
                "participation and max_active_devices are the same budget on two scales; give one"
            )
        share = self.participation
        if self.max_active_devices is not None:
            share = self.max_active_devices / n_devices
        if share is not None and not 0 <= share <= 1:
            raise ValueError(f"at most {share:.4g} of the gates may be open; this has to lie in [0, 1]")
        return share

    def _inputs(self, X: Array) -> Array:
        return device_inputs((X - self.centre_) / self.scale_, self.columns_)

    def _checked(self, X: ArrayLike) -> Array:
        check_is_fitted(self, "weights_")
        return np.asarray(validated(self, X, reset=False, dtype=np.float64))

    def active(self, X: ArrayLike) -> NDArray[np.bool_]:
        """(n, K) which devices speak."""
        return np.asarray(self.weights_.scores(self._inputs(self._checked(X))).T > 0)

    def _answers(self, X: ArrayLike, *, soft: bool = False) -> Array:
        """(n, M) what the cloud adds up."""
        inputs = self._inputs(self._checked(X))
        scores = self.weights_.scores(inputs)
        gates = Gate(self.gate, self.slope).value(scores)  # type: ignore[arg-type]
        if not soft:
            gates = np.where(scores > 0, gates if self.open_gates == "scaled" else 1.0, 0.0)
        return np.asarray(self.base_ + np.einsum("kn,knm->nm", gates, self.weights_.messages(inputs)))

    def report(self, X: ArrayLike, y: ArrayLike) -> SensorReport:
        """How often devices speak, and how good the answers are."""
        active = self.active(X)
        truth = np.asarray(y)
        return SensorReport(
            float(active.mean()),
            float(active.sum(axis=1).mean()),
            self._quality(truth, self._answers(X)),
            self._quality(truth, self._answers(X, soft=True)),
        )

    def _quality(self, y: NDArray[Any], answers: Array) -> float:
        raise NotImplementedError


class SensorNetworkClassifier(ClassifierMixin, _SensorNetwork):  # type: ignore[misc]
    """Devices that each see some of the columns and speak only when it helps; a cloud that adds up what they say.

    Whether a device speaks is decided by the device, from its own columns alone. Logits are
    ``log prior + Σ_k (v_k'x_k + a_k) g_k``.

    Parameters
    ----------
    devices : int or sequence of lists of int, default=1
        The columns of each device; a number shares them out in equal runs.
    participation : float, default=None
        The largest share of (example, device) pairs, on average, in which a device may speak. None: no limit.
    max_active_devices : float, default=None
        The same as a number of devices per example.
    solver : {"direct", "relaxed", "projected"} or Solver, default="direct"
        ``Direct(...)``, ``Relaxed(...)`` or ``Projected(...)`` for other settings. Direct is the source's favourite and the
        fastest; on made-up sensors the two were alike at small participations, and direct better at 0.6.
    gate : {"sigmoid", "relu"}, default="sigmoid"
    slope : float, default=1.0
        Of the sigmoid.
    open_gates : {"scaled", "whole"}, default="scaled"
        Whether what a device says is multiplied by its gate, once that is open, or counts in full.
    random_state : int, Generator or None, default=None

    Attributes
    ----------
    classes_ : (M,)
    weights_ : Weights
        On standardised columns.
    base_ : (M,)
        What the cloud says if no device speaks: the logarithms of the shares of classes.

    Examples
    --------
    >>> from anytime.adaptive.sensing import make_body_sensors
    >>> data = make_body_sensors(600, random_state=0)
    >>> network = SensorNetworkClassifier(data.devices, participation=0.4, random_state=0).fit(data.X, data.y)
    >>> bool(network.report(data.X, data.y).participation <= 0.4)
    True
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train gates and messages together."""
        X, y = validated(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if self.classes_.size < 2:
            raise ValueError("y has one class only; at least two are needed")
        targets = np.eye(self.classes_.size)[codes]
        self._train(np.asarray(X), targets, np.log(targets.mean(axis=0)), "cross_entropy")
        return self

    def decision_function(self, X: ArrayLike) -> Array:
        """(n, M) logits; (n,) their difference if there are two classes."""
        answers = self._answers(X)
        return np.asarray(answers[:, 1] - answers[:, 0]) if self.classes_.size == 2 else answers

    def predict_proba(self, X: ArrayLike) -> Array:
        """(n, M) probabilities, with gates either open or closed."""
        return np.asarray(softmax(self._answers(X), axis=1))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """(n,) classes."""
        answers = self._answers(X)
        return np.asarray(self.classes_[answers.argmax(axis=1)])

    def _quality(self, y: NDArray[Any], answers: Array) -> float:
        return float(np.mean(self.classes_[answers.argmax(axis=1)] == y))


class SensorNetworkRegressor(RegressorMixin, _SensorNetwork):  # type: ignore[misc]
    """Devices that each see some of the columns and speak only when it helps; the answer is ``mean + Σ_k v_k'x_k g_k``.

    Parameters are those of ``SensorNetworkClassifier``. ``base_`` is the mean of ``y``.

    Examples
    --------
    >>> from anytime.adaptive.sensing import make_adaptive_sparse_regression
    >>> data = make_adaptive_sparse_regression(500, random_state=0)
    >>> network = SensorNetworkRegressor(data.devices, max_active_devices=1.5, random_state=0).fit(data.X, data.y)
    >>> bool(network.report(data.X, data.y).active_devices <= 1.5)
    True
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train gates and messages together."""
        X, y = validated(self, X, y, dtype=np.float64, y_numeric=True)
        targets = np.asarray(y, dtype=np.float64)[:, None]
        self._spread = float(targets.std()) or 1.0
        self._train(np.asarray(X), targets / self._spread, targets.mean(axis=0) / self._spread, "squared")
        self.base_ = self.base_ * self._spread
        v, _, w, b = self.weights_.arrays
        self.weights_ = Weights(v * self._spread, self.weights_.a, w, b)
        return self

    def predict(self, X: ArrayLike) -> Array:
        """(n,) numbers."""
        return self._answers(X)[:, 0]

    def _quality(self, y: NDArray[Any], answers: Array) -> float:
        return float(1 - np.sum((y - answers[:, 0]) ** 2) / np.sum((y - y.mean()) ** 2))


class SensorVote(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """The baseline: nearest neighbours on each device by itself, and a vote of all. Every device always speaks.

    Parameters
    ----------
    devices : int or sequence of lists of int, default=1
    n_neighbors : int, default=1
    """

    def __init__(self, devices: int | Sequence[ArrayLike] = 1, *, n_neighbors: int = 1) -> None:
        self.devices = devices
        self.n_neighbors = n_neighbors

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Keep the rows of each device."""
        table, y = validated(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.columns_ = device_columns(self.devices, table.shape[1])
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.models_ = [
            KNeighborsClassifier(self.n_neighbors).fit(table[:, part], codes) for part in self.columns_
        ]
        return self

    def device_predictions(self, X: ArrayLike) -> NDArray[Any]:
        """(n, K) what each device would answer alone."""
        codes = self._codes(X)
        return np.asarray(self.classes_[codes])

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """(n,) the class most devices name; of equals the first."""
        codes = self._codes(X)
        counts = np.eye(self.classes_.size)[codes].sum(axis=1)
        return np.asarray(self.classes_[counts.argmax(axis=1)])

    def _codes(self, X: ArrayLike) -> NDArray[np.intp]:
        check_is_fitted(self, "models_")
        table = validated(self, X, reset=False, dtype=np.float64)
        return np.column_stack(
            [m.predict(table[:, part]) for m, part in zip(self.models_, self.columns_, strict=True)]
        )
